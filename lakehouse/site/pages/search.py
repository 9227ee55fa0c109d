"""Search: a page that a server fills in, and an index that the script of a static site searches."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any
from unicodedata import category, normalize

import orjson

from lakehouse.readmodel.file.payloadfields import payload_fields
from lakehouse.readmodel.file.words import EFFECTIVE, KINDS, Words, declared_in, words_of_body, words_of_message
from lakehouse.readmodel.wordsearch import Filters, Hit, declaration, find_ids, search
from lakehouse.site.addresses import SEARCH, path_of, path_of_document
from lakehouse.site.book import Book, Page
from lakehouse.site.overview import NO_PROTOCOL
from lakehouse.site.templating import MEDIA_TYPES
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of_version

INDEX = "search-index.js"
PER_SEARCH = 30
_MOST_CHOICES = 60
_MOST_TEXT = 110
_MOST_WORDS = 2_000  # of one entity: more than that has only a schema in a definition that is as long as a book
_WORDS = 9  # the place of the words in a row
_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True)
class Wanted:
    """What is searched for, as the form of the page names it; empty: no matter which."""

    q: str = ""
    kind: str = ""
    protocol: str = ""
    registry: str = ""
    group: str = ""
    label: str = ""
    page: int = 1


def search_page(book: Book, wanted: Wanted) -> Page:
    """Make the page of a search; of a static site, the empty form."""
    hits: list[dict[str, Any]] = []
    is_more = False
    if book.style.is_served and wanted.q.strip():
        hits, is_more = _found(book, wanted)
    overview = book.overview
    groups = sorted({last_id(xid) for _, xid in overview.groups})
    return book.page(
        "search.html",
        SEARCH,
        wanted=wanted,
        hits=hits,
        is_more=is_more,
        kinds=KINDS,
        protocols=[family for family, _ in overview.by_protocol if family != NO_PROTOCOL],
        registries=overview.registries[:_MOST_CHOICES],
        groups=groups[: _MOST_CHOICES * 3],
        first=(wanted.page - 1) * PER_SEARCH + 1,
    )


def _found(book: Book, wanted: Wanted) -> tuple[list[dict[str, Any]], bool]:
    """Search: what has exactly that id comes first."""
    kinds = (wanted.kind,) if wanted.kind in KINDS else KINDS
    filters = Filters(wanted.protocol or None, wanted.group or None, wanted.label or None)
    offset = (max(1, wanted.page) - 1) * PER_SEARCH
    registryid = RegistryId(wanted.registry) or None
    found = search(
        book.view, wanted.q, kinds, registryid=registryid, limit=PER_SEARCH + 1, offset=offset, filters=filters, most=4000
    )
    if not offset and not any(filters):
        exact = find_ids(book.view, wanted.q.strip(), kinds, registryid)[:5]
        first = [one for one in found if (one.registryid, one.kind, one.xid) in exact]
        known = {(one.registryid, one.kind, one.xid) for one in first}
        first += [Hit(*one, None, None, ["ids"], []) for one in exact if one not in known]
        found = first + [one for one in found if (one.registryid, one.kind, one.xid) not in exact]
    return [_told(book, one) for one in found[:PER_SEARCH]], len(found) > PER_SEARCH


def _told(book: Book, hit: Hit) -> dict[str, Any]:
    path = path_of_document(hit.registryid, hit.xid) if hit.kind == "document" else path_of(hit.registryid, hit.xid)
    family = book.overview.family(hit.registryid, hit.xid) if hit.kind == "message" else ""
    return {"hit": hit, "path": path, "family": family, "is_refused": book.overview.is_refused(hit.registryid, hit.xid)}


def search_index(book: Book) -> Page:
    """Make the index of a static site: a script that hands over rows, for pages that are files may load scripts and nothing else.

    A row is kind, registry, path, id, name, description, protocol, group, labels (each name=value), words (all by which a server
    finds it), fields of the payload, names of declarations and address. Names of registries, protocols and groups, fields,
    declarations (name, TAB, in words), addresses, and words, the most frequent first, are there once; rows have their numbers.
    """
    tables: dict[str, dict[str, int]] = {
        name: {} for name in ("registries", "protocols", "groups", "fields", "names", "addresses")
    }
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
        ])  # fmt: skip
    order = sorted(range(len(uses)), key=lambda at: (-uses[at], at))
    place = array("I", [0] * len(order))
    for number_, at in enumerate(order):
        place[at] = number_
    for row in rows:
        row[_WORDS] = sorted(place[at] for at in row[_WORDS])
    words = list(known)
    told = {"kinds": KINDS, **{name: list(held) for name, held in tables.items()}, "words": [words[at] for at in order]}
    # `<` is written out, so that the text is harmless wherever it is put.
    text = orjson.dumps(told | {"rows": rows}).replace(b"<", b"\\u003c")
    return Page(INDEX, b"lakehouseIndex(" + text + b");\n", MEDIA_TYPES["js"])


def _words_in(held: Words) -> Iterator[str]:
    """Give the words of an entity, each once, as the index of a server has them: in lower case, without accents."""
    text = " ".join(part for part in held if part)
    if not text.isascii():
        text = "".join(one for one in normalize("NFD", text) if category(one)[0] != "M")
    return islice(dict.fromkeys(_WORD.findall(text.lower())), _MOST_WORDS)


def _indexed(book: Book) -> Iterator[dict[str, Any]]:
    for registryid, xid, kind, told in _entities(book):
        labels = told.get("labels") if isinstance(told.get("labels"), dict) else {}
        yield {
            "kind": kind,
            "registryid": registryid,
            "path": path_of(registryid, xid),
            "id": last_id(xid),
            "name": _text(told.get("name"))[:_MOST_TEXT],
            "description": _text(told.get("description"))[:_MOST_TEXT],
            "protocol": told.get("protocol_family") or "",
            "group": xid.split("/")[2],
            "labels": [f"{name}={_text(value)}" for name, value in sorted((labels or {}).items())],
            "words": told["words"],
            "fields": told.get("payload_fields", []),
            "names": told.get("declared", []),
        }
    for registryid, uri in sorted(book.overview.documents):
        yield {
            "kind": "document", "registryid": registryid, "path": path_of_document(registryid, uri), "id": uri, "name": "",
            "description": "", "protocol": "", "group": "", "labels": [], "words": Words(uri),
            "fields": [], "names": [],
        }  # fmt: skip


def _entities(book: Book) -> Iterator[tuple[RegistryId, Xid, str, dict[str, Any]]]:
    for (registryid, xid), group in sorted(book.overview.groups.items()):
        told = group.attributes
        protocol = told.get("protocol")
        family = protocol.partition("/")[0].upper() if isinstance(protocol, str) else ""
        yield registryid, xid, group.kind, told | {"protocol_family": family, "words": words_of_body(xid, group.kind, told)}
    for (registryid, group_xid), members in sorted(book.overview.members.items()):
        is_schema = group_xid.startswith("/schemagroups/")
        for xid in members:
            told = _schema(book, registryid, xid) if is_schema else _message(book, registryid, xid)
            yield registryid, xid, "schema" if is_schema else "message", told


def _schema(book: Book, registryid: RegistryId, xid: Xid) -> dict[str, Any]:
    entity = book.entity(registryid, xid)
    own = entity.attributes if entity is not None else {}
    version = book.entity(registryid, xid_of_version(xid, own.get("defaultversionid")))
    told = version.attributes if version is not None else {}
    shown = {name: told.get(name) or own.get(name) for name in ("name", "description", "labels")}
    return shown | {"words": words_of_body(xid, "schema", told | own)}


def _message(book: Book, registryid: RegistryId, xid: Xid) -> dict[str, Any]:
    found = book.definition(registryid, xid)
    if found is None:
        entity = book.entity(registryid, xid)
        return ({} if entity is None else entity.attributes) | {"words": words_of_message(xid, None)}
    row = [orjson.dumps(found[name]).decode() if isinstance(found[name], dict) else found[name] for name in EFFECTIVE]
    fields = _payload_fields(book, registryid, found)
    declared = declared_in(row[EFFECTIVE.index("attributes")])
    return found | {"words": words_of_message(xid, row, fields), "payload_fields": fields, "declared": declared}


def _payload_fields(book: Book, registryid: RegistryId, definition: dict[str, Any]) -> list[str]:
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
