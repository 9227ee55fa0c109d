"""Avro by fastavro: binary payloads are decoded with the schema, JSON payloads are validated as plain JSON."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError

from lakehouse.match.definition.valuetypes import media_type
from lakehouse.match.payload.effort import depth_of
from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import CONFLUENT, FRAME, Decoded, Error, Undecodable, Unsupported, decode_json, is_json

_SINGLE_OBJECT = b"\xc3\x01"  # then eight bytes of fingerprint


_DEEP, _LONG = 10, 1_000  # of what calls itself: levels of JSON, bytes of Avro


class _Parts(NamedTuple):
    """What of a schema makes short bytes costly: a record in itself, or lists whose items take no bytes."""

    is_recursive: bool = False
    has_empty_items: bool = False


class AvroValidator:
    """Validates against an Avro schema; of one with several named types the one that the definition names."""

    remarks: tuple[str, ...] = ()

    def __init__(self, document: Any, resolved: Resolved, find: Callable[[str], Any]) -> None:
        try:
            if isinstance(document, list) and resolved.type_name:
                named: dict[str, Any] = {}
                for one in document:
                    fastavro.parse_schema(one, named_schemas=named)
                wanted = [name for name in named if name.rpartition(".")[2] == resolved.type_name.rpartition(".")[2]]
                self._schema: Any = named[wanted[0]] if wanted else fastavro.parse_schema(document)
            else:
                self._schema = fastavro.parse_schema(document)
        except (SchemaParseException, UnknownType, KeyError, TypeError, ValueError) as error:
            raise Unsupported(f"no Avro schema: {error}") from error
        self._parts = _parts(self._schema)
        self._name = self._schema.get("name", "") if isinstance(self._schema, dict) else ""

    @property
    def schema(self) -> Any:
        """Give the schema as fastavro parsed it."""
        return self._schema

    def may_hang(self, body: bytes | None, data: Any) -> bool:
        """Tell whether fastavro may count far, or call itself too deep: it has no limit for either."""
        if body is None:
            return self._parts.is_recursive and depth_of(data) > _DEEP
        packed = body.startswith(b"Obj\x01")  # with a schema of its own, and maybe compressed
        return packed or self._parts.has_empty_items or (self._parts.is_recursive and len(body) > _LONG)

    def decode(self, body: bytes | None, data: Any, content_type: str | None) -> Decoded:
        """Read Avro binary, bare, as single object, in a container or with Confluent's five bytes; or JSON."""
        kind = media_type(content_type)[0] if content_type else ""
        if body is None or is_json(kind) or (not kind and body.lstrip()[:1] in (b"{", b"[")):
            return decode_json(body, data, content_type)
        if body.startswith(b"Obj\x01"):
            return self._container(body)
        if body.startswith(_SINGLE_OBJECT):
            return Decoded(self._read(body[10:]))
        if body.startswith(CONFLUENT) and len(body) > FRAME and "json" not in kind:
            try:
                return Decoded(self._read(body[FRAME:]), ("confluent_framing",))
            except Undecodable:
                return Decoded(self._read(body))
        return Decoded(self._read(body))

    def errors(self, value: Any) -> list[Error]:
        """Give what breaks the schema."""
        try:
            fastavro.validate(value, self._schema, raise_errors=True)
        except ValidationError as error:
            return list(dict.fromkeys((self._pointer(one.field), "type", _told(one)) for one in error.errors))
        return []

    def _read(self, body: bytes) -> Any:
        stream = io.BytesIO(body)
        try:
            value = fastavro.schemaless_reader(stream, self._schema, None)
        except MemoryError:
            raise
        except Exception as error:  # what the bytes are is anybody's guess, and fastavro has no error of its own
            raise Undecodable(f"no Avro of this schema: {type(error).__name__}: {error}") from error
        if stream.read(1):
            raise Undecodable("no Avro of this schema: bytes are left over")
        return value

    def _container(self, body: bytes) -> Decoded:
        try:
            records = list(fastavro.reader(io.BytesIO(body)))
        except MemoryError:
            raise
        except Exception as error:
            raise Undecodable(f"no Avro container: {type(error).__name__}: {error}") from error
        if len(records) != 1:
            raise Undecodable(f"an Avro container with {len(records)} records, where one payload is one")
        return Decoded(records[0], ("avro_container",))

    def _pointer(self, field: str) -> str:
        """Write fastavro's name of a field as JSON Pointer: what follows the name of the record."""
        path = field[len(self._name) :] if self._name and field.startswith(self._name) else f".{field}"
        return path.replace("/", "~1").replace("[", ".").replace("]", "").replace(".", "/") if path.strip(".") else ""


def _parts(schema: Any) -> _Parts:
    """Look through a schema as fastavro parsed it; named types stand in it once, and then by their names.

    Raises:
        Unsupported: a record always holds itself.
    """
    named: dict[str, Any] = {}
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if part.get("type") in ("record", "error"):
                named[part["name"]] = part
            left += [part.get("items"), part.get("values"), part.get("type"), *part.get("fields", ())]
        elif isinstance(part, list):
            left += part
    endless = next((name for name in named if _size(named[name], named, frozenset()) is None), None)
    if endless is not None:
        raise Unsupported(f"no Avro schema that data can be of: the record {endless} always holds itself")
    uses = {name: {one for one in _names_in(record["fields"]) if one in named} for name, record in named.items()}
    is_recursive = any(_reaches(name, name, uses) for name in named)
    return _Parts(is_recursive, any(_size(items, named, frozenset()) == 0 for items in _items_in(schema)))


def _size(part: Any, named: dict[str, Any], within: frozenset[str]) -> int | None:
    """Give a number of bytes that data of a type takes at least (0: it may take none); None: it never ends."""
    if isinstance(part, list):
        return 1
    kind = part.get("type") if isinstance(part, dict) else part
    if isinstance(kind, dict | list):
        return _size(kind, named, within)
    if kind in ("record", "error") or (isinstance(kind, str) and kind in named):
        record = part if kind in ("record", "error") else named[kind]
        if record["name"] in within:
            return None
        sizes = [_size(field["type"], named, within | {record["name"]}) for field in record["fields"]]
        return None if None in sizes else min(1, sum(size or 0 for size in sizes))
    if kind == "fixed":
        return min(1, int(part["size"]))
    return 0 if kind == "null" else 1


def _items_in(schema: Any) -> Iterator[Any]:
    left = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            if part.get("type") == "array":
                yield part["items"]
            left += [part.get("items"), part.get("values"), part.get("type"), *part.get("fields", ())]
        elif isinstance(part, list):
            left += part


def _names_in(part: Any) -> Iterator[str]:
    left = [part]
    while left:
        part = left.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, dict):
            if part.get("type") in ("record", "error"):
                yield part["name"]
            left += [part.get("items"), part.get("values"), part.get("type"), *part.get("fields", ())]
        elif isinstance(part, list):
            left += part


def _reaches(start: str, wanted: str, uses: dict[str, set[str]]) -> bool:
    seen: set[str] = set()
    left = list(uses[start])
    while left:
        name = left.pop()
        if name == wanted:
            return True
        if name not in seen:
            seen.add(name)
            left += uses[name]
    return False


def _told(error: Any) -> str:
    kind = error.schema.get("type", error.schema) if isinstance(error.schema, dict) else error.schema
    return f"missing, expected {kind}" if error.datum is None else f"{type(error.datum).__name__}, expected {kind}"
