"""Search: a page that a server fills in, its list as files, and an index that the script of a static site searches.

A search is narrowed by kind, protocol, format, registry, owner and states of each entity, with how many there are.
"""

from __future__ import annotations

import csv
import io
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

import orjson

from lakehouse.domain.effective import payload_reference
from lakehouse.readmodel.file.words import (
    EFFECTIVE,
    KINDS,
    Words,
    declared_in,
    parent_xid,
    payload_fields,
    words_of_body,
    words_of_message,
)
from lakehouse.readmodel.queries import definition_texts, deprecated_in, formats_in, labelled_messages, last_changes, with_schema
from lakehouse.readmodel.wordsearch import (
    Hit,
    Key,
    PastEntity,
    declaration,
    field_fragments,
    find_by_words,
    find_ids,
    hits_of,
    holds_words,
    respelled,
    vocabulary,
    words_in,
)
from lakehouse.site.addresses import SEARCH, path_of, path_of_document
from lakehouse.site.overview import NO_PROTOCOL, Overview
from lakehouse.site.overview import Key as Place
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.templating import MEDIA_TYPES
from lakehouse.text.jsontext import canonical_text
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of_version

FACETS = ("kind", "protocol", "format", "registry", "owner", "state")
DEPRECATED, HAS_FINDINGS, CHANGED = "deprecated", "has findings", "changed in the last 7 days"
STATES = (DEPRECATED, HAS_FINDINGS, CHANGED)
_RECENT = 7  # days
_MOST_VALUES = 12
Values = tuple[tuple[str, ...], ...]
INDEX = "search-index.js"
PER_SEARCH = 30
ORDERS = ("name", "last change")
LISTS = ("csv", "json")  # endings of the list of all hits
_MOST_RANKED = 4_000
_MOST_CHOICES = 60
_MOST_TEXT = 110
_TABLES = ("registries", "protocols", "groups", "fields", "names", "addresses", "owners", "formats")
_WORDS = 9  # the place of the words in a row
_OWNER = re.compile(r"(?:^|\s)owner:(\S*)", re.IGNORECASE)
_COLUMNS = ("registryid", "kind", "xid", "name", "description", "path", "protocol", "format", "owner", "state", "snapshot_id")


class FacetCount(NamedTuple):
    """A value of a facet, how many hits have it, and whether it is chosen."""

    value: str
    hits: int
    is_chosen: bool


@dataclass
class Traits:
    """What each entity of a snapshot has for each of `FACETS`.

    Attributes:
        overview: of the snapshot.
        changes: the last snapshot that changed an entity or a Version of it.
        since: entities that a later snapshot changed have changed lately.
        formats: of schemas and payloads, without their versions.
        deprecated: entities that say so, of Versions the default one.
    """

    overview: Overview
    changes: Mapping[Place, int]
    since: int
    formats: Mapping[Place, Sequence[str]]
    deprecated: set[Place]
    _cached: dict[Key, Values] = field(default_factory=dict)

    def values_of(self, key: Key) -> Values:
        """Return the values of an entity, as many as there are for each facet."""
        result = self._cached.get(key)
        if result is None:
            result = self._cached[key] = self._values(key)
        return result

    def _values(self, key: Key) -> Values:
        registryid, kind, xid = key
        place = (registryid, xid)
        is_recent = self.changed(key) > self.since
        if kind == "document":
            has_findings = place in self.overview.findings_by_document
            return (kind,), (), (), (registryid,), (), _states(False, has_findings, is_recent)
        family = self.overview.family(registryid, xid) if kind == "message" else NO_PROTOCOL
        return (
            (kind,),
            (family,) if kind == "message" else (),
            tuple(self.formats.get(place, ())),
            (registryid,),
            tuple(filter(None, (self.overview.owner(registryid, xid),))),
            _states(place in self.deprecated, place in self.overview.findings_by_xid, is_recent),
        )

    def changed(self, key: Key) -> int:
        """Return the number of the last snapshot that changed an entity."""
        registryid, kind, xid = key
        if kind == "document":
            return self.overview.documents.get((registryid, xid), (0, {}))[0]
        return self.changes.get((registryid, xid), 0)


def _states(*has: bool) -> tuple[str, ...]:
    return tuple(state for state, is_so in zip(STATES, has, strict=True) if is_so)


def traits_of(page_context: PageContext) -> Traits:
    """Return what the entities of a snapshot are narrowed by, which is looked up once."""
    view, since = page_context.view, page_context.before(_RECENT)

    def made() -> Traits:
        return Traits(page_context.overview, last_changes(view), since, formats_in(view), deprecated_in(view))

    return page_context.remember(("traits", since), made, 2)


def narrow_by_facets(
    traits: Traits, chosen: Mapping[str, str], keys: Sequence[Key]
) -> tuple[list[Key], dict[str, list[FacetCount]]]:
    """Return the entities that fit all chosen values, and the values of each facet, counted among what fits the others.

    Args:
        traits: of the entities.
        chosen: facet to value; empty: no matter which.
        keys: the entities, in their order.
    """
    wanted = [chosen.get(name, "") for name in FACETS]
    used = [at for at, value in enumerate(wanted) if value]
    left: list[Key] = []
    counts: list[Counter[str]] = [Counter() for _ in FACETS]
    for key in keys:
        values = traits.values_of(key)
        unlike = [at for at in used if wanted[at] not in values[at]]
        if not unlike:
            left.append(key)
        if len(unlike) < 2:  # of what fits all but one facet, that one counts it
            for at in unlike or range(len(FACETS)):
                counts[at].update(values[at])
    facets: dict[str, list[FacetCount]] = {}
    for name, value, counted in zip(FACETS, wanted, counts, strict=True):
        most = sorted(counted.items(), key=lambda counted_value: (-counted_value[1], counted_value[0]))[:_MOST_VALUES]
        if value and all(choice != value for choice, _ in most):
            most.append((value, counted[value]))
        if len(most) > 1 or value or (name == "state" and most):
            facets[name] = [FacetCount(choice, count, choice == value) for choice, count in most]
    return left, facets


@dataclass(frozen=True)
class Wanted:
    """What is searched for, as the form of the page names it; empty: no matter which."""

    q: str = ""
    kind: str = ""
    protocol: str = ""
    registry: str = ""
    owner: str = ""
    state: str = ""
    group: str = ""
    label: str = ""
    page: int = 1
    format: str = ""
    order: str = ""

    @property
    def words(self) -> str:
        """Return what is searched for but `owner:`."""
        return _OWNER.sub("", self.q)

    @property
    def owners(self) -> list[str]:
        """Return what owners hold that `owner:` names, in lower case."""
        return [owner.lower() for owner in _OWNER.findall(self.q) if owner]

    @property
    def title(self) -> str:
        """Return what is searched for as the title of a page; empty: all is listed."""
        names = (name for name in (*FACETS, "group", "label") if getattr(self, name))
        return ", ".join(filter(None, (self.q, *(f"{name}: {getattr(self, name)}" for name in names))))

    def query(self, **other: str) -> str:
        """Write it as the query of a URL, with other values for some."""
        values = {name: value for name, value in (vars(self) | {"page": ""} | other).items() if value}
        return urlencode(values)


def search_page(page_context: PageContext, wanted: Wanted) -> Page:
    """Make the page of a search, or, without words, of all; of a static site, the form that its script fills in."""
    keys: list[Key] = []
    facets: dict[str, list[FacetCount]] = {}
    if page_context.style.is_served:
        keys, facets = matching(page_context, wanted)
        wanted = replace(wanted, page=max(1, min(wanted.page, -(-len(keys) // PER_SEARCH))))
    overview = page_context.overview
    groups = sorted({last_id(xid) for _, xid in overview.groups})
    first = (wanted.page - 1) * PER_SEARCH
    return page_context.page(
        "search.html",
        SEARCH,
        wanted=wanted,
        hits=[_shown(page_context, wanted, hit) for hit in _hits(page_context, wanted, keys[first : first + PER_SEARCH])],
        total=len(keys),
        is_more=len(keys) > first + PER_SEARCH,
        facets=facets,
        meant=_meant(page_context, wanted) if page_context.style.is_served and not keys else "",
        lists=LISTS,
        orders=ORDERS,
        states=STATES,
        kinds=KINDS,
        protocols=[family for family, _ in overview.by_protocol],
        registries=overview.registries[:_MOST_CHOICES],
        owners=sorted(set(overview.owners.values()))[: _MOST_CHOICES * 3],
        groups=groups[: _MOST_CHOICES * 3],
        first=first + 1,
    )


def search_list(page_context: PageContext, wanted: Wanted, ending: str) -> Page:
    """Return all hits of a search as CSV, or as JSON with the facets.

    Args:
        page_context: of the snapshot.
        wanted: what is searched for.
        ending: `csv` or `json`.
    """
    keys, facets = matching(page_context, wanted)
    traits = traits_of(page_context)
    rows = []
    for hit in _hits(page_context, wanted, keys):
        key = (hit.registryid, hit.kind, hit.xid)
        _, protocols, formats, _, owners, states = traits.values_of(key)
        values = (_path(key), *("; ".join(values_of) for values_of in (protocols, formats, owners, states)), traits.changed(key))
        rows.append((*key, hit.name or "", hit.description or "", *values))
    path = f"{SEARCH.removesuffix('html')}{ending}"
    if ending == "csv":
        text = io.StringIO()
        csv.writer(text).writerows([_COLUMNS, *rows])
        return Page(path, text.getvalue().encode("utf-8", "replace"), MEDIA_TYPES[ending])
    counts = {name: {facet.value: facet.hits for facet in values} for name, values in facets.items()}
    hits = [dict(zip(_COLUMNS, row, strict=True)) for row in rows]
    return Page(path, orjson.dumps({"total": len(keys), "hits": hits, "facets": counts}), MEDIA_TYPES[ending])


def matching(page_context: PageContext, wanted: Wanted) -> tuple[list[Key], dict[str, list[FacetCount]]]:
    """Return what matches a search, in its order, and the facets that narrow it."""
    traits = traits_of(page_context)
    keys, facets = narrow_by_facets(traits, {name: getattr(wanted, name) for name in FACETS}, _fitting(page_context, wanted))
    if wanted.order == "name":
        keys.sort(key=lambda key: (last_id(key[2]).casefold(), key))
    elif wanted.order == "last change":
        keys.sort(key=lambda key: (-traits.changed(key), key))
    return keys, facets


def _fitting(page_context: PageContext, wanted: Wanted) -> list[Key]:
    """List what has all words, the best first and before it what has exactly that id; without words all, by XID."""
    if wanted.words.strip():
        keys = find_by_words(page_context.view, wanted.words, most=_MOST_RANKED)
        is_narrow = wanted.group or wanted.label
        exact = [] if is_narrow else find_ids(page_context.view, wanted.words.strip())[:5]
        past = past_entities(page_context)
        later = [key for key, entity in past.items() if entity is not None and holds_words(entity.words, wanted.words)]
        keys = [key for key in dict.fromkeys([*exact, *keys]) if key not in past] + sorted(later)
    else:
        keys = page_context.remember(("every key",), lambda: _every_key(page_context))
    fits = _filters(page_context, wanted)
    return [key for key in keys if all(fits_key(key) for fits_key in fits)]


def _filters(page_context: PageContext, wanted: Wanted) -> list[Callable[[Key], bool]]:
    """Return what else an entity must have: group, label and owner."""
    results: list[Callable[[Key], bool]] = []
    if wanted.group:
        results.append(lambda key: key[1] != "document" and key[2].split("/")[2] == wanted.group)
    if wanted.label:
        name, has_value, value = wanted.label.partition("=")
        labelled = {
            (registryid, "message", xid)
            for registryid, xid, labels in labelled_messages(page_context.view)
            if name in labels and (not has_value or labels[name] == value)
        }
        results.append(lambda key: key in labelled)
    if wanted.owners:
        owner = page_context.overview.owner
        results.append(lambda key: key[1] != "document" and all(part in owner(key[0], key[2]).lower() for part in wanted.owners))
    return results


def past_entities(page_context: PageContext) -> dict[Key, PastEntity | None]:
    """Return what entities of a past snapshot were found by, where the index may hold other words; None: it was not there."""
    view = page_context.view
    if view.snapshot_id == view.head:
        return {}

    def made() -> dict[Key, PastEntity | None]:
        differ = {
            (registry, *message_key)
            for registry, kind, xid in view.may_differ(view.at(view.head))
            if (message_key := parent_xid(kind, xid))
        }
        schemas = [(registryid, xid) for registryid, kind, xid in differ if kind == "schema"]
        differ |= {
            (registryid, "message", message) for registryid, xid in schemas for message in with_schema(view, registryid, xid)
        }
        return {key: _past_entity(page_context, key) for key in differ}

    return page_context.remember(("past entities",), made)


def _past_entity(page_context: PageContext, key: Key) -> PastEntity | None:
    registryid, kind, xid = key
    if kind == "document":
        return PastEntity(None, Words(xid)) if (registryid, xid) in page_context.overview.documents else None
    entity = page_context.entity(registryid, xid)
    if entity is None:
        return None
    if kind in ("group", "endpoint"):
        details = entity.attributes | {"words": words_of_body(xid, kind, entity.attributes)}
    else:
        message = None if kind == "schema" else next(_messages(page_context, registryid, [xid]))
        details = message[1] if message else _schema(page_context, registryid, xid)
    return PastEntity(_text(details.get("name")) or None, details["words"])


def _hits(page_context: PageContext, wanted: Wanted, keys: list[Key]) -> list[Hit]:
    past = {key: entity for key, entity in past_entities(page_context).items() if entity is not None}
    return hits_of(page_context.view, wanted.words, keys, past)


def _meant(page_context: PageContext, wanted: Wanted) -> str:
    """Return the query of a search for words that the catalog has, in place of those that it has not; empty: there are none."""
    words = page_context.remember(("vocabulary",), lambda: vocabulary(page_context.view))
    return respelled(words, wanted.words.strip())


def _every_key(page_context: PageContext) -> list[Key]:
    overview = page_context.overview
    keys: list[Key] = [(registryid, group.kind, xid) for (registryid, xid), group in overview.groups.items()]
    for (registryid, group_xid), members in overview.members.items():
        kind = "schema" if group_xid.startswith("/schemagroups/") else "message"
        keys += [(registryid, kind, xid) for xid in members]
    keys += [(registryid, "document", Xid(uri)) for registryid, uri in overview.documents]
    return sorted(keys, key=lambda key: (key[2], key[0]))


def _path(key: Key) -> str:
    registryid, kind, xid = key
    return path_of_document(registryid, xid) if kind == "document" else path_of(registryid, xid)


def _shown(page_context: PageContext, wanted: Wanted, hit: Hit) -> dict[str, Any]:
    path = _path((hit.registryid, hit.kind, hit.xid))
    family = page_context.overview.family(hit.registryid, hit.xid) if hit.kind == "message" else ""
    if hit.kind == "schema" and "attributes" in hit.where:
        named: dict[str, Any] = {"schema_xid": hit.xid, "dataschemauri": None, "attributes": {}}
        hit = hit._replace(fragments=field_fragments(wanted.words, _payload_fields(page_context, hit.registryid, named)))
    return {"hit": hit, "path": path, "family": family, "is_refused": page_context.overview.is_refused(hit.registryid, hit.xid)}


def search_index(page_context: PageContext) -> Page:
    """Make the index of a static site: a script that hands over rows, for pages that are files may load scripts and nothing else.

    A row is kind, registry, path, id, name, description, protocol, group, labels (each name=value), words (all by which a server
    finds it), fields of the payload, names of declarations, address, owner, states, formats and the snapshot that changed it
    last. Names of registries, protocols, groups, owners, formats and states, fields, declarations (name, TAB, in words),
    addresses, and words, the most frequent first, are there once; rows have their numbers.
    """
    tables: dict[str, dict[str, int]] = {name: {} for name in _TABLES}
    numbers_of_words: dict[str, int] = {}
    uses = array("I")

    def number(table: str, name: str) -> int:
        return tables[table].setdefault(name, len(tables[table]))

    @lru_cache(1_000)
    def numbers_of_names(names: tuple[tuple[str, str, bool], ...]) -> list[int]:
        return [number("names", f"{declared[1]}\t{declaration(*declared)}") for declared in names]

    traits = traits_of(page_context)
    rows: list[list[Any]] = []
    for entity in _indexed(page_context):
        key = (entity["registryid"], entity["kind"], entity["xid"])
        _, _, formats, _, owners, states = traits.values_of(key)
        numbers = array("I", (numbers_of_words.setdefault(word, len(numbers_of_words)) for word in words_in(entity["words"])))
        uses.extend([0] * (len(numbers_of_words) - len(uses)))
        for at in numbers:
            uses[at] += 1
        rows.append([
            KINDS.index(entity["kind"]), number("registries", entity["registryid"]), entity["path"], entity["id"], entity["name"],
            entity["description"], number("protocols", entity["protocol"]), number("groups", entity["group"]),
            entity["labels"], numbers, [number("fields", path) for path in entity["fields"]],
            numbers_of_names(tuple(entity["names"])),
            number("addresses", entity["words"].address or ""),
            number("owners", "".join(owners)), [STATES.index(state) for state in states],
            [number("formats", format_) for format_ in formats], traits.changed(key),
        ])  # fmt: skip
    order = sorted(range(len(uses)), key=lambda at: (-uses[at], at))
    place = array("I", [0] * len(order))
    for number_, at in enumerate(order):
        place[at] = number_
    for row in rows:
        row[_WORDS] = sorted(place[at] for at in row[_WORDS])
    words = list(numbers_of_words)
    details = {
        "kinds": KINDS,
        "states": STATES,
        **{name: list(values_of) for name, values_of in tables.items()},
        "words": [words[at] for at in order],
    }
    # `<` is written out, so that the text is harmless wherever it is put.
    text = orjson.dumps(details | {"rows": rows}).replace(b"<", b"\\u003c")
    return Page(INDEX, b"lakehouseIndex(" + text + b");\n", MEDIA_TYPES["js"])


def _indexed(page_context: PageContext) -> Iterator[dict[str, Any]]:
    for registryid, xid, kind, details in _entities(page_context):
        labels = details.get("labels") if isinstance(details.get("labels"), dict) else {}
        yield {
            "kind": kind,
            "registryid": registryid,
            "xid": xid,
            "path": path_of(registryid, xid),
            "id": last_id(xid),
            "name": _text(details.get("name"))[:_MOST_TEXT],
            "description": _text(details.get("description"))[:_MOST_TEXT],
            "protocol": details.get("protocol_family") or "",
            "group": xid.split("/")[2],
            "labels": [f"{name}={_text(value)}" for name, value in sorted((labels or {}).items())],
            "words": details["words"],
            "fields": details.get("payload_fields", []),
            "names": details.get("declared", []),
        }
    for registryid, uri in sorted(page_context.overview.documents):
        yield {
            "kind": "document", "registryid": registryid, "xid": uri, "path": path_of_document(registryid, uri), "id": uri,
            "name": "", "description": "", "protocol": "", "group": "", "labels": [], "words": Words(uri),
            "fields": [], "names": [],
        }  # fmt: skip


def _entities(page_context: PageContext) -> Iterator[tuple[RegistryId, Xid, str, dict[str, Any]]]:
    for (registryid, xid), group in sorted(page_context.overview.groups.items()):
        details = group.attributes
        protocol = details.get("protocol")
        family = protocol.partition("/")[0].upper() if isinstance(protocol, str) else ""
        yield registryid, xid, group.kind, details | {"protocol_family": family, "words": words_of_body(xid, group.kind, details)}
    for (registryid, group_xid), members in sorted(page_context.overview.members.items()):
        if group_xid.startswith("/schemagroups/"):
            yield from ((registryid, xid, "schema", _schema(page_context, registryid, xid)) for xid in members)
        elif members:
            yield from ((registryid, xid, "message", details) for xid, details in _messages(page_context, registryid, members))


def _schema(page_context: PageContext, registryid: RegistryId, xid: Xid) -> dict[str, Any]:
    entity = page_context.entity(registryid, xid)
    own = entity.attributes if entity is not None else {}
    version = page_context.entity(registryid, xid_of_version(xid, own.get("defaultversionid")))
    details = version.attributes if version is not None else {}
    shown = {name: details.get(name) or own.get(name) for name in ("name", "description", "labels")}
    return shown | {"words": words_of_body(xid, "schema", details | own)}


def _messages(page_context: PageContext, registryid: RegistryId, xids: list[Xid]) -> Iterator[tuple[Xid, dict[str, Any]]]:
    """Yield what is searched of some messages, whose definitions are read at once."""
    columns = (*EFFECTIVE, "protocol_family")
    definitions = dict(definition_texts(page_context.view, registryid, xids, columns))
    for xid in xids:
        row = definitions.get(xid)
        if row is None:
            entity = page_context.entity(registryid, xid)
            yield xid, ({} if entity is None else entity.attributes) | {"words": words_of_message(xid, None)}
            continue
        result = dict(zip(columns, row, strict=True))
        attributes = orjson.loads(result["attributes"])
        labels = None if result["labels"] is None else orjson.loads(result["labels"])
        fields = _payload_fields(page_context, registryid, result | {"attributes": attributes})
        words = words_of_message(xid, row[: len(EFFECTIVE)], fields, tuple(attributes))
        declared = declared_in(result["attributes"])
        yield xid, result | {"labels": labels, "words": words, "payload_fields": fields, "declared": declared}


def _payload_fields(page_context: PageContext, registryid: RegistryId, definition: dict[str, Any]) -> list[str]:
    def body_of(kind: str, xid: Xid) -> dict[str, Any] | None:
        entity = page_context.entity(registryid, xid)
        return None if entity is None else entity.attributes

    def read() -> list[str]:
        return payload_fields(definition, body_of)

    if "/dataschema" in definition["attributes"]:
        return read()
    return page_context.remember(("payload fields", registryid, payload_reference(definition)), read, 500)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else canonical_text(value)
