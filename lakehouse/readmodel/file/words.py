"""What is searched, for each entity of the catalog as it is now.

The words of its ids, names, types, addresses and attributes, and those of its payload's fields.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from lakehouse.domain.effective import payload_reference
from lakehouse.domain.references import schema_places
from lakehouse.domain.schemalookup import version_at
from lakehouse.readmodel.file.sqliteschema import EDGES, EFFECTIVE_COLUMNS, NEVER, WORD_COLUMNS, WORD_TEXTS
from lakehouse.text.jsontext import canonical_text, read_canonical
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_resource, xid_of_version

KINDS = ("message", "group", "endpoint", "schema", "document")
EFFECTIVE = ("name", "ce_type", "address", "labels", "description", "attributes", "protocol", "schema_xid", "dataschemauri")
_COLUMNS, _PLACES = ", ".join(WORD_COLUMNS), ", ?" * len(WORD_COLUMNS)
_PARENT = {"version": "message", "schemaversion": "schema"}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_DECLARED = re.compile(r"/(envelopemetadata|protocoloptions)/(.*?)(?:/(value|type|required|description|specurl))?", re.DOTALL)
_STRING = re.compile(r'"(/[^"]*)":"([^"\\]*(?:\\.[^"\\]*)*)"')
_searched = itemgetter(*(EFFECTIVE_COLUMNS.index(name) for name in EFFECTIVE))
_HASH_BYTES = 32 << 20  # what is indexed in memory before it is written: fewer parts are merged afterwards
_MOST = 20_000  # characters of one entity's attributes: a schema that is in the definition may be as long as a book


class Words(NamedTuple):
    """The columns of the table `words`.

    Attributes:
        fields: of the payload of a message: their paths, after a line break the words of names in camel case.
        names: of the envelope attributes and protocol options that a message declares.
    """

    ids: str = ""
    name: str | None = None
    type: str | None = None
    address: str | None = None
    labels: str | None = None
    description: str | None = None
    attributes: str | None = None
    fields: str | None = None
    names: str | None = None


def parent_xid(kind: str, xid: Xid) -> tuple[str, Xid] | None:
    """Return kind and XID under which what an entity says is found; None: under none."""
    if kind in KINDS:
        return kind, xid
    return (_PARENT[kind], xid_of_resource(xid)) if kind in _PARENT else None


class FirstIndex:
    """Indexes every entity of a file that has nothing indexed yet, and whose log is whole.

    Args:
        db: the file, with its indexes of the log.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._fields = _FieldsOf(db)
        deleted = "SELECT registryid, xid FROM log_rows WHERE kind = 'message' AND op = 'delete' AND until = ?"
        self._deleted = set(db.execute(deleted, (NEVER,)))  # of which a definition may be left
        db.execute("INSERT INTO words (words, rank) VALUES ('hashsize', ?)", (_HASH_BYTES,))

    def add_messages(self, rows: Iterable[tuple[Any, ...]], pointers: Iterable[tuple[str, ...]]) -> None:
        """Index the messages of some rows of `effective`, as far as they are there.

        Args:
            rows: in the order of `EFFECTIVE_COLUMNS`.
            pointers: of the attributes of each row.
        """
        _insert(
            self._db,
            (
                (row[0], "message", row[1], words_of_message(row[1], *self._fields.read(row[0], _searched(row)), own))
                for row, own in zip(rows, pointers, strict=True)
                if row[:2] not in self._deleted
            ),
        )

    def add_others(self) -> None:
        """Index messages without a definition, and all that is no message."""
        db = self._db
        bare = db.execute(
            "SELECT l.registryid, 'message', l.xid FROM log_rows AS l WHERE kind = 'message' AND until = ? AND op <> 'delete'"
            " AND NOT EXISTS (SELECT 1 FROM effective_rows AS e WHERE e.registryid = l.registryid AND e.xid = l.xid)",
            (NEVER,),
        ).fetchall()
        _insert(db, ((*key, words_of_message(key[2], None)) for key in bare))
        kinds = ", ".join(f"'{kind}'" for kind in KINDS if kind != "message")
        without_words = db.execute(
            f"SELECT registryid, kind, xid FROM log_rows WHERE kind IN ({kinds}) AND until = ? AND op <> 'delete'", (NEVER,)
        ).fetchall()
        _insert(db, ((*key, words_of(db, *key)) for key in without_words))


def index_again(db: sqlite3.Connection, keys: Iterable[tuple[RegistryId, str, Xid]]) -> None:
    """Index entities as they are now; those that are no more are not found any longer.

    Args:
        db: the file, within a transaction.
        keys: registryid, kind, xid.
    """
    touched = set(keys)
    schemas = orjson.dumps([[registryid, xid] for registryid, kind, xid in touched if kind == "schema"]).decode()
    of_schemas = db.execute(
        f"""
        WITH changed AS (SELECT value ->> 0 AS registryid, value ->> 1 AS xid FROM json_each(?)),
        named AS (
          SELECT registryid, xid FROM changed
          UNION
          SELECT c.registryid, l.xid FROM changed AS c CROSS JOIN {EDGES}
          WHERE e.whole = c.xid AND e.relation = 'xref' AND l.registryid = c.registryid AND l.until = {NEVER}
        )
        SELECT e.registryid, 'message', e.xid FROM named AS n INNER JOIN effective AS e
        ON e.registryid = n.registryid AND e.schema_xid = n.xid
        """,
        (schemas,),
    )
    wanted = sorted(touched | set(of_schemas))
    deleted: list[int] = []
    for key in wanted:
        query = f"SELECT id, {_COLUMNS} FROM found_by WHERE registryid = ? AND kind = ? AND xid = ?"
        for row in db.execute(query, key).fetchall():
            db.execute(f"INSERT INTO words (words, rowid, {_COLUMNS}) VALUES ('delete', ?{_PLACES})", row)
            db.execute("DELETE FROM searched WHERE id = ?", row[:1])
            deleted.append(row[0])
    existing = [
        key
        for key in wanted
        if db.execute(
            "SELECT 1 FROM log WHERE registryid = ? AND kind = ? AND xid = ? AND until = ? AND op <> 'delete'", (*key, NEVER)
        ).fetchone()
    ]
    _insert(db, ((*key, words_of(db, *key)) for key in existing))
    WORD_TEXTS.drop_unused(db, "searched", deleted)


def _insert(db: sqlite3.Connection, results: Iterable[tuple[str, str, str, Words]]) -> None:
    """Insert entities with their words."""
    for part in _parts(results):
        first = WORD_TEXTS.next_id(db)
        numbered = list(enumerate(part, first))
        db.executemany(
            "INSERT INTO searched VALUES (?, ?, ?, ?, ?)",
            ((row, *key, key[2] if key[1] == "document" else key[2].rsplit("/", 1)[1]) for row, (*key, _) in numbered),
        )
        db.executemany(
            f"INSERT INTO words (rowid, {_COLUMNS}) VALUES (?{_PLACES})", ((row, *words) for row, (*_, words) in numbered)
        )
        WORD_TEXTS.add(db, first, (words for *_, words in part))


def _parts(results: Iterable[tuple[str, str, str, Words]]) -> Iterator[list[tuple[str, str, str, Words]]]:
    iterator = iter(results)
    while some := list(islice(iterator, 1000)):
        yield some


def words_of(db: sqlite3.Connection, registryid: RegistryId, kind: str, xid: Xid) -> Words:
    """Return what an entity is found by: a message by its effective definition, where there is one yet."""
    if kind == "message":
        row = db.execute(f"SELECT {', '.join(EFFECTIVE)} FROM effective WHERE registryid = ? AND xid = ?", (registryid, xid))
        return words_of_message(xid, *_FieldsOf(db).read(registryid, row.fetchone()))
    if kind == "document":
        return Words(xid)
    body = _body(db, registryid, kind, xid)
    if kind == "schema":
        default = body.get("defaultversionid")
        body = (_body(db, registryid, "schemaversion", xid_of_version(xid, default)) if default is not None else {}) | body
    return words_of_body(xid, kind, body)


def words_of_message(
    xid: Xid, row: Sequence[Any] | None, fields: Sequence[str] = (), pointers: tuple[str, ...] | None = None
) -> Words:
    """Return what a message is found by.

    Args:
        xid: of the message.
        row: columns `EFFECTIVE` of its definition; None: its definition is not computed yet.
        fields: paths of the fields of its payload.
        pointers: those of its attributes, where they are at hand.
    """
    ids = _split(xid)
    if row is None:
        return Words(ids)
    name, ce_type, address, labels, description, attributes, protocol, *_ = row
    kinds = " ".join(text for text in (_split(ce_type or ""), protocol or "") if text) or None
    names = _declared_names(tuple(dict(_strings_of(attributes or ""))) if pointers is None else pointers)
    return Words(
        ids,
        _split(name or "") or None,
        kinds,
        address,
        labels,
        description,
        _plain(attributes),
        _with_words(fields) if fields else None,
        names,
    )


def declared_in(attributes: str) -> tuple[tuple[str, str, bool], ...]:
    """Return the declarations of a message: `envelopemetadata` or `protocoloptions`, name, and whether it is required.

    Args:
        attributes: of its effective definition, as JSON text: JSON Pointer to JSON text.
    """
    strings = dict(_strings_of(attributes[:_MOST]))
    return _declared(tuple(strings), tuple(pointer for pointer, value in strings.items() if value == "true"))


@lru_cache(1_000)
def _declared(pointers: tuple[str, ...], true: tuple[str, ...]) -> tuple[tuple[str, str, bool], ...]:
    """Return the declarations that pointers are of; true: those with that value. Many messages declare the same."""
    results: dict[tuple[str, str], bool] = {}
    for pointer in pointers:
        if (declaration := _declaration(pointer)) is not None:
            key, is_requirement = declaration
            results[key] = results.get(key, False) or (is_requirement and pointer in true)
    return tuple((section, name, is_required) for (section, name), is_required in results.items())


def _strings_of(attributes: str) -> Iterable[tuple[str, str]]:
    """Return pointers and values of a definition, of one that was cut or is not JSON any more those that can be read."""
    try:
        strings: dict[str, str] = orjson.loads(attributes)
    except orjson.JSONDecodeError:
        return _STRING.findall(attributes)
    return strings.items()


@lru_cache(1_000)
def _declared_names(pointers: tuple[str, ...]) -> str | None:
    """Return the names of what is declared, in one text; None: nothing is. Many messages declare the same."""
    declared = (declaration for declaration in map(_declaration, pointers) if declaration is not None)
    return " ".join(dict.fromkeys(name for (_, name), _ in declared)) or None


@lru_cache(10_000)
def _declaration(pointer: str) -> tuple[tuple[str, str], bool] | None:
    """Return section and name of the declaration that a pointer is of, and whether it is its `required`; None: it is of none."""
    match = _DECLARED.fullmatch(pointer)
    return None if match is None else ((match[1], match[2]), match[3] == "required")


def _with_words(paths: Sequence[str]) -> str:
    text = " ".join(paths)
    words = " ".join(dict.fromkeys(word for path in paths for word in _CAMEL.sub(" ", path).split() if word != path))
    return f"{text}\n{words}" if words else text


class _FieldsOf:
    """Reads the fields of payloads, those of a schema that many messages share once."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self._read: dict[tuple[RegistryId, str | None], list[str]] = {}

    def read(self, registryid: RegistryId, row: Sequence[Any] | None) -> tuple[Sequence[Any] | None, list[str]]:
        """Return a row of `EFFECTIVE` as it is, and the paths of the fields of its payload."""
        if row is None:
            return None, []
        *_, attributes, _, schema_xid, uri = row
        inline = '"/dataschema":' in (attributes or "")
        if not inline and uri is None and schema_xid is None:
            return row, []
        is_parsed = inline or '"/dataschemaxid":' in (attributes or "")
        parsed = orjson.loads(attributes) if is_parsed else {}
        definition = {"schema_xid": schema_xid, "dataschemauri": uri, "attributes": parsed}
        key = (registryid, payload_reference(definition))
        if not inline and key in self._read:
            return row, self._read[key]
        fields = payload_fields(definition, lambda kind, xid: _body(self.db, registryid, kind, xid))
        if not inline:
            self._read[key] = fields
        return row, fields


def words_of_body(xid: Xid, kind: str, body: dict[str, Any]) -> Words:
    """Return what a group, an endpoint or a schema (with what its default Version says) is found by."""
    named = {name: body[name] for name in ("name", "description") if isinstance(body.get(name), str)}
    kinds = [body[name] for name in ("format", "protocol", "envelope") if isinstance(body.get(name), str)]
    rest = {name: body[name] for name in ("protocoloptions", "schema", "channel", "usage", "extensions") if name in body}
    options = body.get("protocoloptions")
    addresses = options.get("endpoints") if kind == "endpoint" and isinstance(options, dict) else None
    return Words(
        _split(xid),
        named.get("name"),
        " ".join(kinds) or None,
        None if addresses is None else canonical_text(addresses),
        canonical_text(body["labels"]) if body.get("labels") else None,
        named.get("description"),
        _plain(canonical_text(rest)) if rest else None,
    )


def _body(db: sqlite3.Connection, registryid: RegistryId, kind: str, xid: Xid) -> dict[str, Any]:
    result = db.execute(
        "SELECT body FROM log WHERE registryid = ? AND xid = ? AND kind = ? AND until = ? AND op <> 'delete'",
        (registryid, xid, kind, NEVER),
    ).fetchone()
    body: dict[str, Any] = {} if result is None else read_canonical(result[0])
    return body


def _split(text: str) -> str:
    """Return a name and, where it is written in camel case, and its words."""
    words = text if text.islower() else _CAMEL.sub(" ", text)
    return text if words == text else f"{text} {words}"


def _plain(attributes: str | None) -> str | None:
    """Take the escapes of JSON out of the text, which would stick to words."""
    return None if attributes is None else attributes[:_MOST].replace("\\n", " ").replace("\\t", " ").replace('\\"', " ")


_MOST_FIELDS = 1_000  # fields of one schema
_DEEPEST = 24
_LONGEST = 400_000  # characters of a schema
_MEMBERS = ("properties", "patternProperties")  # of JSON Schema and JSON Structure: name to schema
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PROTOBUF = re.compile(r"(?:^|[;{}])\s*(?:repeated\s+|optional\s+|required\s+)?(?:map\s*<[^>]*>|[\w.]+)\s+(\w+)\s*=\s*\d+")
_XML = re.compile(r"<(?:[\w.-]+:)?(?:element|attribute)\b[^>]*?\bname\s*=\s*[\"']([^\"']+)[\"']")


def field_paths(schema: Any) -> list[str]:
    """Return the names of fields, with dots after those that each is within; each once, in their order.

    Args:
        schema: a JSON value (JSON Schema, JSON Structure, Avro), or a text, which may be JSON, Protobuf or XML.
    """
    if isinstance(schema, str):
        if len(schema) > _LONGEST:
            return []
        try:
            schema = orjson.loads(schema)
        except orjson.JSONDecodeError:
            is_xml = schema.lstrip().startswith("<")
            names = _XML.findall(schema) if is_xml else _PROTOBUF.findall(_COMMENT.sub(" ", schema))
            return list(dict.fromkeys(names))[:_MOST_FIELDS]
    return list(islice(dict.fromkeys(_paths(schema, "", 0)), _MOST_FIELDS))


def _paths(value: Any, within: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in value:
            yield from _paths(item, within, depth + 1)
    if not isinstance(value, dict):
        return
    for key, below in value.items():
        if key in _MEMBERS and isinstance(below, dict):
            for name, member in below.items():
                yield f"{within}{name}"
                yield from _paths(member, f"{within}{name}.", depth + 1)
        elif key == "fields" and isinstance(below, list):  # of a record of Avro
            for member in below:
                if isinstance(member, dict) and isinstance(member.get("name"), str):
                    yield f"{within}{member['name']}"
                    yield from _paths(member.get("type"), f"{within}{member['name']}.", depth + 1)
        elif key in ("definitions", "$defs"):
            yield from (path for member in _members(below) for path in _paths(member, "", depth + 1))
        elif key not in ("enum", "const", "default", "examples", "required"):
            yield from _paths(below, within, depth + 1)


def _members(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def payload_fields(definition: Mapping[str, Any], body_of: Callable[[str, Xid], Mapping[str, Any] | None]) -> list[str]:
    """Return the names of the fields of a message's payload; none where its schema is not in the catalog.

    Args:
        definition: of a message, `schema_xid`, `dataschemauri` and `attributes` (JSON Pointer to JSON text).
        body_of: returns the body of an entity by kind and XID; None: there is no such entity.
    """
    inline = (definition["attributes"] or {}).get("/dataschema")
    if inline is not None:
        return field_paths(orjson.loads(inline))
    for place in schema_places(payload_reference(definition) or ""):
        version = version_at(place, lambda xid: body_of("schema", xid))
        body = None if version is None else body_of("schemaversion", version)
        if body is not None and "schema" in body:
            return field_paths(body["schema"])
    return []
