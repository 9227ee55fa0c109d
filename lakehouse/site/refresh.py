"""What a second run of the written site makes again: pages that may differ since the run before.

The change log names what changed. A page shows more than its entity: bases, variants, schemas, endpoints, findings, and links in
texts. So everything that may show a changed entity is made again; a change of an endpoint, group or registry concerns all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from lakehouse.domain.versionchanges import VERSION_KINDS
from lakehouse.readmodel.queries import extending, mentioning, with_schema
from lakehouse.readmodel.snapshotview import View
from lakehouse.site.addresses import path_of, path_of_snapshot, read_path
from lakehouse.site.overview import Key
from lakehouse.site.pagecontext import PageContext
from lakehouse.site.pages.contents import numbered, paths_of_group
from lakehouse.site.pages.map import all_neighbours
from lakehouse.site.pages.snapshotpages import LAST_COMPARED
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.xid import xid_of_resource

_MOST_CHANGED = 100  # members, above which all are made again
_MOST_MADE = 10_000
_MOST_EXTENDING = 100_000
_LINKED_RULES = ("MATCH-004",)  # by the page of any message, where they have findings
_GROWING = ("epoch", "modifiedat")  # of a group, when what it holds changed; its members' pages do not show them
State = dict[str, Any]


def state_of(page_context: PageContext) -> State:
    """Return what the pages of a site are made of, as its manifest keeps it: JSON values.

    Returns:
        made_with (product, its libraries, settings and options), tables (of the read model), snapshot_id, lag, names (labels and
        documents), rules that pages of messages link to; of each entity with findings a digest of them; of each XID that events
        were sent of a digest of their counts; whether there are any.
    """
    overview, view = page_context.overview, page_context.view
    settings = (vars(page_context.style), page_context.model.settings.owner_names)
    findings = {f"{registryid} {xid}": _digest(rows) for (registryid, xid), rows in overview.findings_by_xid.items()}
    sent = page_context.model.traffic.digests() if page_context.style.at is None else {}
    state = {
        "made_with": _digest([_product(), repr(settings)]),
        "tables": view.facts["tables"],
        "snapshot_id": view.snapshot_id,
        "lag": view.snapshot_id - overview.lag,
        "names": _digest([repr(view.labels()), sorted(overview.documents)]),
        "rules": [rule for rule in _LINKED_RULES if rule in overview.findings_by_rule],
        "findings": findings,
        "sent": sent,
        "are_counted": bool(sent),  # a page says that a message was never sent only where events are known
    }
    result: State = orjson.loads(orjson.dumps(state, default=str))
    return result


def _product() -> list[str]:
    """Return names and versions of all that is installed, and when a file of this package was written last."""
    package = Path(__file__).parents[1]
    newest = max(path.stat().st_mtime_ns for path in package.rglob("*") if path.suffix != ".pyc" and path.is_file())
    installed = (one.metadata for one in distributions())  # read once each: what `version` returns is in it
    return [*sorted(f"{one['Name']} {one['Version']}" for one in installed), str(newest)]


def _digest(value: Any) -> str:
    return hashlib.blake2b(orjson.dumps(value, default=str), digest_size=12).hexdigest()


def members_to_make(page_context: PageContext, before: State, now: State) -> set[Key] | None:
    """Return the messages and schemas whose pages may differ from those of an earlier run; None: all.

    Args:
        page_context: of the snapshot that is written.
        before: state of the earlier run; empty: there was none that says so.
        now: state of this one.
    """
    same = ("made_with", "lag", "names", "rules", "are_counted")
    if now["lag"] or page_context.style.at is not None or any(before.get(name) != now[name] for name in same):
        return None
    if not before["snapshot_id"] <= now["snapshot_id"] <= page_context.view.head or not before["snapshot_id"]:
        return None
    earlier = page_context.view.at(before["snapshot_id"])
    changed = _changed_members(page_context.view, earlier)
    if changed is None or len(changed) > _MOST_CHANGED:
        return None
    changed |= {_key_of(text) for text in _differing(before["findings"], now["findings"])}
    results: set[Key] = set(changed)
    for view in (earlier, page_context.view):
        results |= _showing(view, changed)
    results |= {
        (registryid, Xid(xid))
        for registryid in page_context.overview.registries
        for xid in _differing(before["sent"], now["sent"])
        if page_context.overview.has(registryid, Xid(xid))
    }
    return results if len(results) <= _MOST_MADE else None


def pages_to_keep(page_context: PageContext, before: State, now: State, wanted: set[Key]) -> set[str]:
    """Return the paths of pages about the catalog that are as they were: of groups, endpoints, and of what old snapshots changed.

    Args:
        page_context: of the snapshot that is written.
        before: state of the earlier run.
        now: state of this one.
        wanted: of `members_to_make`.
    """
    view, earlier, overview = page_context.view, page_context.view.at(before["snapshot_id"]), page_context.overview
    moved = ((view.entity(*key) is None) != (earlier.entity(*key) is None) for key in wanted)
    if before["findings"] != now["findings"] or any(moved):  # lists get longer, links lead elsewhere
        return set()
    changed = {(registryid, xid) for registryid, kind, xid in view.may_differ(earlier) if kind in ("group", "endpoint")}
    neighbours = all_neighbours(page_context)
    results: set[str] = set()
    for key, group in overview.groups.items():
        shown = ((key[0], xid) for one in (key, *neighbours.get(key, ())) for xid in overview.members.get(one, ()))
        if key not in changed and wanted.isdisjoint(shown):
            results.update(paths_of_group(overview, group))
    for number in range(1, before["snapshot_id"] + 1):
        if number == 1 or number <= before["snapshot_id"] - LAST_COMPARED:
            results.update(islice(numbered(path_of_snapshot(number), sum(page_context.changes_of(number).values())), 1, None))
    return results


def _differing(before: dict[str, str], now: dict[str, str]) -> set[str]:
    """Return the names whose digests differ."""
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


def _key_of(text: str) -> Key:
    registryid, _, xid = text.partition(" ")
    return RegistryId(registryid), Xid(xid)


def _changed_members(view: View, earlier: View) -> set[Key] | None:
    """Return the messages and schemas that changed since, with all that is merged from them; None: more than these changed."""
    results: set[Key] = set()
    for registryid, kind, xid in view.may_differ(earlier):
        if kind in ("message", "schema", *VERSION_KINDS):
            results.add((registryid, xid_of_resource(xid)))
        elif (
            kind in ("registry", "group", "endpoint")
            and _attributes(view, registryid, xid) != _attributes(earlier, registryid, xid)
        ) or kind == "label":
            return None
    return results


def _attributes(view: View, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
    entity = view.entity(registryid, xid or REGISTRY)
    return None if entity is None else {name: value for name, value in entity.attributes.items() if name not in _GROWING}


def _showing(view: View, changed: Iterable[Key]) -> set[Key]:
    """Return what may show one of some members: what names it or has its schema, what is merged from that, bases and siblings."""
    named = {key for registryid, xid in changed for key in mentioning(view, registryid, xid)} | set(changed)
    named |= {(registryid, message) for registryid, xid in named for message in with_schema(view, registryid, xid)}
    merged = view.merged_from(named)
    bases = set(_named_by(view, merged))
    return merged | bases | {(key[0], message) for key in bases for message in extending(view, *key, _MOST_EXTENDING)}


def _named_by(view: View, members: set[Key]) -> Iterator[Key]:
    """Yield the members that some members or their Versions refer to, over any number of steps."""
    seen, left = set(members), list(members)
    while left:
        registryid, xid = left.pop()
        entity = view.entity(registryid, xid)
        for entity_or_version in [] if entity is None else [entity, *view.versions(registryid, xid)]:
            for reference in view.references_of(entity_or_version):
                key = (registryid, xid_of_resource(reference.target_xid)) if reference.target_xid else None
                if key is not None and key not in seen:
                    seen.add(key)
                    left.append(key)
                    yield key


def owner_of(path: str) -> str:
    """Return the path of the page of a message or schema that a page belongs to, without its ending; empty: to none."""
    address = read_path(f"{path[:-3]}.html" if path.endswith(".md") else path)
    if address is None or len(address.folder) < 3:
        return ""
    return "/".join(address.folder if len(address.folder) == 4 else (*address.folder, address.name))


def owning_path(key: Key) -> str:
    """Return what `owner_of` returns for the pages of a message or schema."""
    return path_of(*key).removesuffix(".html")
