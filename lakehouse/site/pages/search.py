"""Search: a page that a server fills in, and an index that the script of a static site searches."""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple
from unicodedata import category, normalize
from urllib.parse import urlencode

import orjson

from lakehouse.readmodel.file.words import EFFECTIVE, KINDS, Words, declared_in, payload_fields, words_of_body, words_of_message
from lakehouse.readmodel.queries import labelled_messages
from lakehouse.readmodel.wordsearch import Filters, Hit, Key, declaration, find_ids, hits_of, ranked
from lakehouse.site.addresses import SEARCH, path_of, path_of_document
from lakehouse.site.overview import NO_PROTOCOL, Overview
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.templating import MEDIA_TYPES
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of_version

INDEX = "search-index.js"
PER_SEARCH = 30
FACETS = ("kind", "protocol", "registry", "owner", "state")
HAS_FINDINGS = "has findings"
_MOST_RANKED, _MOST_VALUES = 4_000, 12
_MOST_CHOICES = 60
_MOST_TEXT = 110
_MOST_WORDS = 2_000  # of one entity: more than that has only a schema in a definition that is as long as a book
_TABLES = ("registries", "protocols", "groups", "fields", "names", "addresses", "owners")
_WORDS = 9  # the place of the words in a row
_WORD = re.compile(r"[^\W_]+")


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

    def query(self, **other: str) -> str:
        """Write it as the query of a URL, with other values for some."""
        values = {name: value for name, value in (vars(self) | {"page": ""} | other).items() if value}
        return urlencode(values)


class FacetValue(NamedTuple):
    """A value of a facet: how many hits have it, whether it is chosen, and the query that chooses it, or no longer does."""

    value: str
    hits: int
    is_chosen: bool
    query: str


def search_page(book: PageContext, wanted: Wanted) -> Page:
    """Make the page of a search, or, without words, of all; of a static site, the form that its script fills in."""
    keys: list[Key] = []
    facets: dict[str, list[FacetValue]] = {}
    if book.style.is_served:
        wanted = replace(wanted, protocol=wanted.protocol.upper())
        keys, facets = matching(book, wanted)
    overview = book.overview
    groups = sorted({last_id(xid) for _, xid in overview.groups})
    first = (max(1, wanted.page) - 1) * PER_SEARCH
    return book.page(
        "search.html",
        SEARCH,
        wanted=wanted,
        hits=[_told(book, one) for one in hits_of(book.view, wanted.q, keys[first : first + PER_SEARCH])],
        total=len(keys),
        is_more=len(keys) > first + PER_SEARCH,
        facets=facets,
        kinds=KINDS,
        protocols=[family for family, _ in overview.by_protocol if family != NO_PROTOCOL],
        registries=overview.registries[:_MOST_CHOICES],
        owners=sorted(set(overview.owners.values()))[: _MOST_CHOICES * 3],
        groups=groups[: _MOST_CHOICES * 3],
        first=first + 1,
    )


def matching(book: PageContext, wanted: Wanted) -> tuple[list[Key], dict[str, list[FacetValue]]]:
    """Return what matches a search, the best first, and the facets that narrow it."""
    return _narrowed(book, wanted, _fitting(book, wanted))


def _fitting(book: PageContext, wanted: Wanted) -> list[Key]:
    """List what has all words, the best first and before it what has exactly that id; without words all, by XID."""
    filters = Filters(None, wanted.group or None, wanted.label or None)
    if not wanted.q.strip():
        keys = book.remember(("every key",), lambda: _every_key(book))
        if wanted.label:
            name, has_value, value = wanted.label.partition("=")
            labelled = {
                (registryid, "message", xid)
                for registryid, xid, labels in labelled_messages(book.view)
                if name in labels and (not has_value or labels[name] == value)
            }
            keys = [one for one in keys if one in labelled]
        return [one for one in keys if not wanted.group or (one[1] != "document" and one[2].split("/")[2] == wanted.group)]
    keys = ranked(book.view, wanted.q, filters=filters, most=_MOST_RANKED)
    exact = [] if any(filters) else find_ids(book.view, wanted.q.strip())[:5]
    return [*exact, *(one for one in keys if one not in exact)]


def _every_key(book: PageContext) -> list[Key]:
    overview = book.overview
    keys: list[Key] = [(registryid, group.kind, xid) for (registryid, xid), group in overview.groups.items()]
    for (registryid, group_xid), members in overview.members.items():
        kind = "schema" if group_xid.startswith("/schemagroups/") else "message"
        keys += [(registryid, kind, xid) for xid in members]
    keys += [(registryid, "document", Xid(uri)) for registryid, uri in overview.documents]
    return sorted(keys, key=lambda key: (key[2], key[0]))


def _narrowed(book: PageContext, wanted: Wanted, keys: list[Key]) -> tuple[list[Key], dict[str, list[FacetValue]]]:
    """Return what fits all facets, and of each facet its values: counted among what fits the others."""
    known: dict[Key, tuple[str, ...]] = book.remember(("facet values",), dict)
    chosen = [getattr(wanted, name) for name in FACETS]
    used = [at for at, value in enumerate(chosen) if value]
    left: list[Key] = []
    counts: list[Counter[str]] = [Counter() for _ in FACETS]
    for key in keys:
        values = known.get(key) or known.setdefault(key, _values(book.overview, key))
        unlike = [at for at in used if values[at] != chosen[at]]
        if not unlike:
            left.append(key)
        if len(unlike) < 2:  # of what fits all but one facet, that one counts it
            for at in unlike or range(len(FACETS)):
                counts[at][values[at]] += 1
    facets: dict[str, list[FacetValue]] = {}
    for name, value, counted in zip(FACETS, chosen, counts, strict=True):
        most = sorted(((one, count) for one, count in counted.items() if one), key=lambda one: (-one[1], one[0]))[:_MOST_VALUES]
        if len(most) > 1 or value:
            facets[name] = [
                FacetValue(one, count, one == value, wanted.query(**{name: "" if one == value else one})) for one, count in most
            ]
    return left, facets


def _values(overview: Overview, key: Key) -> tuple[str, ...]:
    """Return what an entity has for each of `FACETS`; empty: nothing."""
    registryid, kind, xid = key
    if kind == "document":
        return kind, "", registryid, "", ""
    family = overview.family(registryid, xid) if kind == "message" else NO_PROTOCOL
    state = HAS_FINDINGS if (registryid, xid) in overview.findings_by_xid else ""
    return kind, "" if family == NO_PROTOCOL else family, registryid, overview.owner(registryid, xid), state


def _told(book: PageContext, hit: Hit) -> dict[str, Any]:
    path = path_of_document(hit.registryid, hit.xid) if hit.kind == "document" else path_of(hit.registryid, hit.xid)
    family = book.overview.family(hit.registryid, hit.xid) if hit.kind == "message" else ""
    return {"hit": hit, "path": path, "family": family, "is_refused": book.overview.is_refused(hit.registryid, hit.xid)}


def search_index(book: PageContext) -> Page:
    """Make the index of a static site: a script that hands over rows, for pages that are files may load scripts and nothing else.

    A row is kind, registry, path, id, name, description, protocol, group, labels (each name=value), words (all by which a server
    finds it), fields of the payload, names of declarations, address, owner and state. Names of registries, protocols, groups and
    owners, fields, declarations (name, TAB, in words), addresses, and words, the most frequent first, are there once; rows have
    their numbers.
    """
    tables: dict[str, dict[str, int]] = {name: {} for name in _TABLES}
    known: dict[str, int] = {}
    uses = array("I")

    def number(table: str, name: str) -> int:
        return tables[table].setdefault(name, len(tables[table]))

    rows: list[list[Any]] = []
    for one in _indexed(book):
        numbers = array("I", (known.setdefault(word, len(known)) for word in _words_in(one["words"])))
        uses.extend([0] * (len(known) - len(uses)))
        for at in numbers:
            uses[at] += 1
        rows.append([
            KINDS.index(one["kind"]), number("registries", one["registryid"]), one["path"], one["id"], one["name"],
            one["description"], number("protocols", one["protocol"]), number("groups", one["group"]), one["labels"], numbers,
            [number("fields", path) for path in one["fields"]],
            [number("names", f"{declared[1]}\t{declaration(*declared)}") for declared in one["names"]],
            number("addresses", one["words"].address or ""),
            number("owners", book.overview.owner(one["registryid"], one["xid"]) if one["kind"] != "document" else ""),
            HAS_FINDINGS if (one["registryid"], one["xid"]) in book.overview.findings_by_xid else "",
        ])  # fmt: skip
    order = sorted(range(len(uses)), key=lambda at: (-uses[at], at))
    place = array("I", [0] * len(order))
    for number_, at in enumerate(order):
        place[at] = number_
    for row in rows:
        row[_WORDS] = sorted(place[at] for at in row[_WORDS])
    words = list(known)
    details = {"kinds": KINDS, **{name: list(held) for name, held in tables.items()}, "words": [words[at] for at in order]}
    # `<` is written out, so that the text is harmless wherever it is put.
    text = orjson.dumps(details | {"rows": rows}).replace(b"<", b"\\u003c")
    return Page(INDEX, b"lakehouseIndex(" + text + b");\n", MEDIA_TYPES["js"])


def _words_in(held: Words) -> Iterator[str]:
    """Give the words of an entity, each once, as the index of a server has them: in lower case, without accents."""
    text = " ".join(part for part in held if part)
    if not text.isascii():
        text = "".join(one for one in normalize("NFD", text) if category(one)[0] != "M")
    return islice(dict.fromkeys(_WORD.findall(text.lower())), _MOST_WORDS)


def _indexed(book: PageContext) -> Iterator[dict[str, Any]]:
    for registryid, xid, kind, details in _entities(book):
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
    for registryid, uri in sorted(book.overview.documents):
        yield {
            "kind": "document", "registryid": registryid, "xid": uri, "path": path_of_document(registryid, uri), "id": uri,
            "name": "", "description": "", "protocol": "", "group": "", "labels": [], "words": Words(uri),
            "fields": [], "names": [],
        }  # fmt: skip


def _entities(book: PageContext) -> Iterator[tuple[RegistryId, Xid, str, dict[str, Any]]]:
    for (registryid, xid), group in sorted(book.overview.groups.items()):
        details = group.attributes
        protocol = details.get("protocol")
        family = protocol.partition("/")[0].upper() if isinstance(protocol, str) else ""
        yield registryid, xid, group.kind, details | {"protocol_family": family, "words": words_of_body(xid, group.kind, details)}
    for (registryid, group_xid), members in sorted(book.overview.members.items()):
        is_schema = group_xid.startswith("/schemagroups/")
        for xid in members:
            details = _schema(book, registryid, xid) if is_schema else _message(book, registryid, xid)
            yield registryid, xid, "schema" if is_schema else "message", details


def _schema(book: PageContext, registryid: RegistryId, xid: Xid) -> dict[str, Any]:
    entity = book.entity(registryid, xid)
    own = entity.attributes if entity is not None else {}
    version = book.entity(registryid, xid_of_version(xid, own.get("defaultversionid")))
    details = version.attributes if version is not None else {}
    shown = {name: details.get(name) or own.get(name) for name in ("name", "description", "labels")}
    return shown | {"words": words_of_body(xid, "schema", details | own)}


def _message(book: PageContext, registryid: RegistryId, xid: Xid) -> dict[str, Any]:
    result = book.definition(registryid, xid)
    if result is None:
        entity = book.entity(registryid, xid)
        return ({} if entity is None else entity.attributes) | {"words": words_of_message(xid, None)}
    row = [orjson.dumps(result[name]).decode() if isinstance(result[name], dict) else result[name] for name in EFFECTIVE]
    fields = _payload_fields(book, registryid, result)
    declared = declared_in(row[EFFECTIVE.index("attributes")])
    return result | {"words": words_of_message(xid, row, fields), "payload_fields": fields, "declared": declared}


def _payload_fields(book: PageContext, registryid: RegistryId, definition: dict[str, Any]) -> list[str]:
    def body_of(kind: str, xid: Xid) -> dict[str, Any] | None:
        entity = book.entity(registryid, xid)
        return None if entity is None else entity.attributes

    def read() -> list[str]:
        return payload_fields(definition, body_of)

    if "/dataschema" in definition["attributes"]:
        return read()
    return book.remember(("payload fields", registryid, definition["schema_xid"], definition["dataschemauri"]), read, 500)


def _text(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else orjson.dumps(value).decode()
