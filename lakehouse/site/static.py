"""The site as files: every page of a snapshot written below a folder, and on the next run only those that may differ.

`site.json` in the folder lists the pages with their digests, and what they were made of: nothing is made where that is the same.
Files that it does not list are somebody else's: they stay, and a folder that holds any and no `site.json` is refused.

The change log names what changed. A page shows more than its entity: bases, variants, schemas, endpoints, findings, and links in
texts. So everything that may show a changed entity is made again; a change of an endpoint, group or registry concerns all.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from importlib.metadata import distributions
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from lakehouse.domain.versionchanges import VERSION_KINDS
from lakehouse.errors import SettingsError
from lakehouse.readmodel import ReadModel
from lakehouse.readmodel.queries import extending, find_mentions, with_schema
from lakehouse.readmodel.snapshotview import View
from lakehouse.settings import Settings
from lakehouse.site.addresses import path_of, path_of_document, path_of_rule, path_of_snapshot, read_path
from lakehouse.site.overview import Key, Overview, overview_of
from lakehouse.site.pagecontext import PageContext, PageStyle
from lakehouse.site.pages.contents import all_paths, find_page, markdown_page, page_paths, pages_of_group, paths_of_member
from lakehouse.site.pages.map import all_neighbours
from lakehouse.site.pages.snapshotpages import MOST_READY
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.xid import xid_of_resource

_MOST_CHANGED = 100  # members, above which all are made again
_MOST_MADE = 10_000
_MOST_EXTENDING = 100_000
_LINKED_RULES = ("MATCH-004",)  # by the page of any message, where they have findings
_GROWING = ("epoch", "modifiedat")  # of a group, when what it holds changed; its members' pages do not show them
State = dict[str, Any]
MANIFEST = "site.json"
_FORMAT = 3
_WORTH_SHARING = 400  # members and other pages, from which on several processes are worth their start
_AT_ONCE = 50
Progress = Callable[[int, int], None]
_MINE: dict[str, Any] = {}  # of a process of the pool


def state_of(page_context: PageContext) -> State:
    """Return what the pages of a site are made of, as its manifest keeps it: JSON values.

    Returns:
        made_with (product, its libraries, settings and options), tables (of the read model), snapshot_id, lag, names (labels and
        documents), rules that pages of messages link to; of each entity with findings a digest of them, and one of those of no
        entity; of each XID that events were sent of a digest of their counts; whether there are any.
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
        "other_findings": _digest([finding for finding in overview.findings if not finding["xid"]]),
        "sent": sent,
        "are_counted": bool(sent),  # a page says that a message was never sent only where events are known
    }
    result: State = orjson.loads(orjson.dumps(state, default=str))
    return result


def _product() -> list[str]:
    """Return names and versions of all that is installed, and when a file of this package was written last."""
    package = Path(__file__).parents[1]
    newest = max(path.stat().st_mtime_ns for path in package.rglob("*") if path.suffix != ".pyc" and path.is_file())
    installed = (distribution.metadata for distribution in distributions())  # read once each: what `version` returns is in it
    return [*sorted(f"{metadata['Name']} {metadata['Version']}" for metadata in installed), str(newest)]


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
    # What named one of them earlier and does not now has changed itself.
    named = changed | find_mentions(page_context.view, changed)
    for view in (earlier, page_context.view):
        results |= _showing(view, named)
    results |= {
        (registryid, Xid(xid))
        for registryid in page_context.overview.registries
        for xid in _differing(before["sent"], now["sent"])
        if page_context.overview.has(registryid, Xid(xid))
    }
    return results if len(results) <= _MOST_MADE else None


def pages_to_keep(page_context: PageContext, before: State, now: State, wanted: set[Key]) -> set[str]:
    """Return the paths of pages about the catalog that are as they were.

    They are of groups, endpoints, rules, documents, and of what old snapshots changed.

    Args:
        page_context: of the snapshot that is written.
        before: state of the earlier run.
        now: state of this one.
        wanted: of `members_to_make`.
    """
    view, earlier, overview = page_context.view, page_context.view.at(before["snapshot_id"]), page_context.overview
    moved = ((view.entity(*key) is None) != (earlier.entity(*key) is None) for key in wanted)
    if any(before[name] != now[name] for name in ("findings", "other_findings")) or any(moved):
        return set()  # lists get longer, links lead elsewhere
    may_differ = view.may_differ(earlier)
    changed = {(registryid, xid) for registryid, kind, xid in may_differ if kind in ("group", "endpoint")}
    neighbours = all_neighbours(page_context)
    results: set[str] = set()
    for key, group in overview.groups.items():
        near = ((key[0], xid) for group_key in (key, *neighbours.get(key, ())) for xid in overview.members.get(group_key, ()))
        is_first_kept = key not in changed and wanted.isdisjoint(near)  # it shows what is around, too
        for at, (path, listed) in enumerate(pages_of_group(overview, group) if key not in changed else ()):
            if is_first_kept or (at > 0 and wanted.isdisjoint((key[0], xid) for xid in listed)):
                results.add(path)
    for rule_id, findings in overview.findings_by_rule.items():
        results.update(page_paths(path_of_rule(rule_id), len(findings)))
    loaded = {(registryid, str(uri)) for registryid, kind, uri in may_differ if kind == "document"}
    loaded |= {(key[0], uri) for key in changed for state in (view, earlier) for uri in _documents_of(state, key)}
    results.update(path_of_document(*key) for key in overview.documents if key not in loaded)
    for number in range(1, before["snapshot_id"] + 1):
        if number == 1 or number <= before["snapshot_id"] - MOST_READY:
            results.update(islice(page_paths(path_of_snapshot(number), sum(page_context.changes_of(number).values())), 1, None))
    return results


def _documents_of(view: View, key: Key) -> list[str]:
    entity = view.entity(*key)
    return [] if entity is None else entity.document_uris


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


def _showing(view: View, named: Iterable[Key]) -> set[Key]:
    """Return what may show one of some members, and those: what has its schema, what is merged from that, bases and siblings."""
    using = {(registryid, message) for registryid, xid in named for message in with_schema(view, registryid, xid)}
    merged = view.merged_from(using.union(named))
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


@dataclass(frozen=True)
class Written:
    """What came of a run: pages in all, written again, deleted, left as they were; the snapshot that they show."""

    pages: int
    written: int
    deleted: int
    unchanged: int
    snapshot_id: int

    def as_json(self) -> dict[str, int]:
        """Return the contract of `lakehouse site --json`."""
        return dict(vars(self))


def write_site(
    model: ReadModel,
    out: str,
    *,
    at: str | None = None,
    base_url: str = "",
    registry: RegistryId | None = None,
    progress: Progress | None = None,
    processes: int = 1,
) -> Written:
    """Write the site.

    Args:
        model: the read model, up to date.
        out: folder; made when it is not there.
        at: snapshot that is shown, as in `View.resolve`; None: the newest.
        base_url: URL under which the site will be served; links are relative all the same.
        registry: only this registry is shown; None: all.
        progress: is called with how many entities are done, and of how many.
        processes: how many make pages; a program that wants several protects its main module, as `multiprocessing` explains.

    Raises:
        SettingsError: the folder holds other files, or cannot be written.
        SnapshotNotFound: there is no such snapshot.
        RegistryNotFound: the registry holds nothing at the snapshot.
    """
    folder = Path(out)
    digests, before = _read_manifest(folder)
    style = PageStyle(base_url=base_url, max_chain_depth=model.settings.max_chain_depth, registry=registry)
    if at is None:
        model.traffic.refresh()
    with model.at(at) as view:
        if at is not None:
            style.at = view.snapshot_id
        overview = overview_of(view, model.settings.owner_names, registry)
        page_context = PageContext(model, view, overview, style)
        writer = Writer(folder, digests)
        try:
            now = state_of(page_context)
            is_whole = _are_there(folder, digests)
            if is_whole and now == before:
                return Written(len(digests), 0, 0, len(digests), view.snapshot_id)
            members = [(key[0], xid) for key, xids in sorted(overview.members.items()) for xid in xids]
            wanted = members_to_make(page_context, before, now) if is_whole and before else None
            if wanted is not None:
                writer.keep({owning_path(key) for key in members if key not in wanted})
                writer.keep_pages(pages_to_keep(page_context, before, now, wanted))
                members = [key for key in members if key in wanted]
            paths = [path for path in all_paths(page_context) if path not in writer.digests]
            _write_all(writer, page_context, paths, members, progress or (lambda done, total: None), processes)
        except OSError as error:
            raise SettingsError(f"{error.filename or folder}: cannot be written ({error.strerror}).") from error
        deleted = writer.finish(now)
    return Written(len(writer.digests), writer.written, deleted, len(writer.digests) - writer.written, view.snapshot_id)


class Writer:
    """Writes pages below a folder, those that are new or other than the manifest says."""

    def __init__(self, folder: Path, digests: dict[str, str]) -> None:
        self.folder = folder
        self.previous = digests
        self.digests: dict[str, str] = {}
        self.written = 0
        self._folders: set[str] = set()  # that are there

    def keep(self, owners: set[str]) -> None:
        """Keep the pages of messages and schemas as they are.

        Args:
            owners: as `owner_of` returns them.
        """
        self.digests |= {path: digest for path, digest in self.previous.items() if owner_of(path) in owners}

    def keep_pages(self, paths: set[str]) -> None:
        """Keep pages, and their Markdown, as they are, where the earlier run wrote them."""
        every = (page for path in paths for page in (path, f"{path.removesuffix('html')}md"))
        self.digests |= {path: self.previous[path] for path in every if path in self.previous}

    def write(self, page_context: PageContext, path: str) -> None:
        """Make a page, and write it and its Markdown when they are other ones than before."""
        page = find_page(page_context, path)
        if page is not None:
            self._write(path, page.body)
            markdown = markdown_page(page)
            if markdown is not None and markdown.path not in self.digests:  # of a page without a choice, that of its first one
                self._write(markdown.path, markdown.body)

    def _write(self, path: str, body: bytes) -> None:
        digest = hashlib.blake2b(body, digest_size=12).hexdigest()
        target = os.path.join(self.folder, path)  # a Path each for parent, new file and target takes as long as writing
        if self.previous.get(path) != digest or not os.path.exists(target):
            parent, name = os.path.split(target)
            if parent not in self._folders:
                os.makedirs(parent, exist_ok=True)
                self._folders.add(parent)
            new = os.path.join(parent, f"{name[:200]}.~new")
            with open(new, "wb") as file:
                file.write(body)
            os.replace(new, target)
            self.written += 1
        self.digests[path] = digest

    def finish(self, state: State) -> int:
        """Delete the pages that are no more, and write the manifest; return how many pages were deleted.

        Args:
            state: what the pages were made of.
        """
        gone = sorted(self.previous.keys() - self.digests.keys())
        for path in gone:
            target = self.folder / path
            target.unlink(missing_ok=True)
            for parent in target.parents:
                if parent == self.folder or not parent.is_dir() or any(parent.iterdir()):
                    break
                parent.rmdir()
        details = {
            "format": _FORMAT,
            "snapshot_id": state["snapshot_id"],
            "state": state,
            "pages": dict(sorted(self.digests.items())),
        }
        new = self.folder / f"{MANIFEST}.~new"
        new.write_bytes(orjson.dumps(details, option=orjson.OPT_INDENT_2))
        os.replace(new, self.folder / MANIFEST)
        return len(gone)


def _read_manifest(folder: Path) -> tuple[dict[str, str], State]:
    """Return the pages of the run before with their digests, and what they were made of; of a new folder, none.

    Raises:
        SettingsError: the folder holds what this command did not write.
    """
    try:
        if not folder.exists() or not any(folder.iterdir()):
            folder.mkdir(parents=True, exist_ok=True)
            return {}, {}
        details = orjson.loads((folder / MANIFEST).read_bytes())
        pages: dict[str, str] = details["pages"]
    except FileNotFoundError as error:
        raise SettingsError(
            f"{folder}: holds files, and no {MANIFEST} of an earlier run. Name another folder, or empty this one."
        ) from error
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise SettingsError(f"{folder}/{MANIFEST}: cannot be read ({error}). Name another folder, or empty this one.") from error
    if any(path.startswith("/") or ".." in path.split("/") for path in pages):
        raise SettingsError(f"{folder}/{MANIFEST}: names files outside of the folder. Name another folder, or empty this one.")
    return pages, details["state"] if details.get("format") == _FORMAT else {}


def _are_there(folder: Path, paths: Iterable[str]) -> bool:
    """Return whether all files are in a folder: each of its folders is listed once."""
    wanted: dict[str, set[str]] = {}
    for path in paths:
        parent, _, name = path.rpartition("/")
        wanted.setdefault(parent, set()).add(name)
    try:
        return all(names.issubset(os.listdir(folder / parent)) for parent, names in wanted.items())
    except FileNotFoundError:
        return False


class _Share(NamedTuple):
    """Pages that are made at once: of the catalog by their paths, and all of some messages and schemas."""

    paths: list[str]
    members: list[Key]


def _write_all(
    writer: Writer, page_context: PageContext, paths: list[str], members: list[Key], progress: Progress, processes: int
) -> None:
    """Write pages of the catalog, and those of messages and schemas: in several processes where there are many."""
    parts = [_Share(paths[at : at + _AT_ONCE], []) for at in range(0, len(paths), _AT_ONCE)]
    parts += [_Share([], members[at : at + _AT_ONCE]) for at in range(0, len(members), _AT_ONCE)]
    with ExitStack() as stack:
        results: Iterable[tuple[dict[str, str], int]] = map(partial(_write_part, page_context, writer), parts)
        if processes > 1 and len(paths) + len(members) >= _WORTH_SHARING:
            snapshot = (page_context.model.settings, page_context.view.snapshot_id, page_context.overview)
            begin = partial(_begin, *snapshot, page_context.style, writer)
            pool = stack.enter_context(ProcessPoolExecutor(processes, get_context("spawn"), begin))
            results = pool.map(_write_mine, parts)
        done = 0
        for part, (digests, written) in zip(parts, results, strict=True):
            writer.digests |= digests
            writer.written += written
            done += len(part.members)
            progress(done, len(members))


def _write_part(page_context: PageContext, writer: Writer, part: _Share) -> tuple[dict[str, str], int]:
    """Write some pages; return their digests, and how many are other ones than before."""
    own = Writer(writer.folder, writer.previous)
    for path in chain(part.paths, *(paths_of_member(page_context, *key) for key in part.members)):
        own.write(page_context, path)
    return own.digests, own.written


def _begin(settings: Settings, snapshot_id: int, overview: Overview, style: PageStyle, writer: Writer) -> None:
    model = ReadModel(settings)
    opened = model.at(snapshot_id)
    view: View = opened.__enter__()  # open as long as the process lives
    _MINE.update(opened=opened, page_context=PageContext(model, view, overview, style), writer=writer)


def _write_mine(part: _Share) -> tuple[dict[str, str], int]:
    return _write_part(_MINE["page_context"], _MINE["writer"], part)
