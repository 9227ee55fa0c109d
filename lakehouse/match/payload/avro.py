"""Avro by fastavro: binary payloads are decoded with the schema, JSON payloads are validated as plain JSON."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, Literal, NamedTuple

import fastavro
from fastavro.read import SchemaResolutionError
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError

from lakehouse.match.payload.costlimit import depth_of, places_of
from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import (
    CONTAINER,
    Decoded,
    Error,
    Undecodable,
    Unsupported,
    Validator,
    decode_json,
    is_json,
)
from lakehouse.text.values import media_type

_SINGLE_OBJECT = b"\xc3\x01"
_HEADER = 10  # bytes of a single object's: these two, and eight of fingerprint
_CONTAINER = b"Obj\x01"


_DEEP, _LONG = 10, 1_000  # of what calls itself: levels of JSON, bytes of Avro
_MOST_WORK = 5_000_000  # looks at the places of a payload
_FEW_LOOKS = 10  # at one place of a record that calls itself
_MOST = 10**12  # costs are not counted further


class _Cost(NamedTuple):
    """What data of a type takes at least: bytes, and values in it."""

    size: int = 0
    parts: int = 1


class _SchemaParts(NamedTuple):
    """What of a schema makes short data costly: a record in itself, lists whose items take no bytes, and the highest costs."""

    is_recursive: bool = False
    has_empty_items: bool = False
    parts_of_byte: int = 1
    parts_of_default: int = 1
    looks: int = 1


class _Form(NamedTuple):
    """How a payload may be written, and the bytes that are so."""

    kind: Literal["json", "container", "binary"]
    body: bytes


class AvroValidator:
    """Validates against an Avro schema; of one with several named types the one that the definition names."""

    remarks: tuple[str, ...] = ()

    def __init__(self, document: Any, resolved: Resolved, find: Callable[[str], Any]) -> None:
        try:
            if isinstance(document, list) and resolved.type_name:
                named: dict[str, Any] = {}
                for schema in document:
                    fastavro.parse_schema(schema, named_schemas=named)
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
        """Return the schema as fastavro parsed it."""
        return self._schema

    @cached_property
    def _without_logical_types(self) -> Any:
        return fastavro.parse_schema(_plain_types(self._schema))

    def may_hang(self, body: bytes | None, data: Any) -> bool:
        """Return whether fastavro may count far, or call itself too deep: it has no limit for either."""
        parts = self._parts
        if body is None or body.lstrip()[:1] in (b"{", b"["):
            places = places_of(data) if body is None else len(body)
            deep = parts.is_recursive and (
                body is not None or (depth := depth_of(data)) > _DEEP or parts.looks**depth > _MOST_WORK
            )
            if deep or places * parts.parts_of_default * parts.looks > _MOST_WORK:
                return True
            if body is None:
                return False
        packed = body.startswith(_CONTAINER)  # with its own schema, and maybe compressed
        if packed or parts.has_empty_items or (parts.is_recursive and (len(body) > _LONG or parts.looks > _FEW_LOOKS)):
            return True
        return (len(body) + 1) * parts.parts_of_byte * parts.looks > _MOST_WORK

    def decode(self, body: bytes | None, data: Any, content_type: str | None) -> Decoded:
        """Read Avro binary, bare, as single object or in a container; or JSON."""
        return decode_json(None, data, content_type) if body is None else self._decoded(body, content_type)[0]

    def errors_as_read(self, writer: Validator, body: bytes | None, data: Any, content_type: str | None) -> list[Error]:
        """Return what a reader of this schema cannot take, by Avro's schema resolution, and what then breaks the schema."""
        if body is None or not isinstance(writer, AvroValidator):
            return self.errors(self.decode(body, data, content_type).value)
        decoded, form = writer._decoded(body, content_type)
        if form.kind == "json":
            return self.errors(decoded.value)
        try:
            if form.kind == "container":  # its own schema wrote it
                (value,) = fastavro.reader(io.BytesIO(body), self._schema)
            else:
                value = fastavro.schemaless_reader(io.BytesIO(form.body), writer.schema, self._schema)
        except SchemaResolutionError as error:
            return [("", "resolution", str(error))]
        return self.errors(value)

    def errors(self, value: Any) -> list[Error]:
        """Return what breaks the schema."""
        try:
            fastavro.validate(value, self._schema, raise_errors=True)
        except ValidationError as error:
            return list(dict.fromkeys((self._pointer(problem.field), "type", _in_words(problem)) for problem in error.errors))
        return []

    @staticmethod
    def as_json(value: Any) -> Any:
        """Return a decoded payload as a JSON value: bytes as Avro writes them there, dates and decimals as texts."""
        if isinstance(value, dict):
            return {name: AvroValidator.as_json(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [AvroValidator.as_json(part) for part in value]
        if isinstance(value, bytes):
            return value.decode("latin-1")
        return value if value is None or isinstance(value, str | int | float) else str(value)

    def _decoded(self, body: bytes, content_type: str | None) -> tuple[Decoded, _Form]:
        """Read a payload in the first of its forms that it is wholly of.

        Raises:
            Undecodable: it is of none; the error is that of the likeliest form.
        """
        first, *further = _forms(body, content_type)
        decoded = self._decoded_as(first, content_type)
        if isinstance(decoded, Decoded):
            return decoded, first
        for form in further:
            other = self._decoded_as(form, content_type)
            if isinstance(other, Decoded):
                return other, form
        raise decoded

    def _decoded_as(self, form: _Form, content_type: str | None) -> Decoded | Undecodable:
        try:
            if form.kind == "json":
                return decode_json(form.body, None, content_type)
            return self._container(form.body) if form.kind == "container" else Decoded(self._read(form.body))
        except Undecodable as error:
            return error

    def _read(self, body: bytes) -> Any:
        stream = io.BytesIO(body)
        try:
            try:
                value = fastavro.schemaless_reader(stream, self._schema, None)
            except (ValueError, OverflowError):  # a value of a logical type that Python's type has not, such as a year above 9999
                stream.seek(0)
                value = fastavro.schemaless_reader(stream, self._without_logical_types, None)
        except MemoryError:
            raise
        except Exception as error:  # what the bytes are is anybody's guess, and fastavro has no error type
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
        return Decoded(records[0], (CONTAINER,))

    def _pointer(self, field: str) -> str:
        """Write fastavro's name of a field as JSON Pointer: what follows the name of the record."""
        path = field[len(self._name) :] if self._name and field.startswith(self._name) else f".{field}"
        return path.replace("/", "~1").replace("[", ".").replace("]", "").replace(".", "/") if path.strip(".") else ""


def _forms(body: bytes, content_type: str | None) -> Iterator[_Form]:
    """Yield how a payload may be written, the likeliest first; what its content type says is sure.

    Bare Avro may begin as any of the other forms does: with the byte of `{` as the number -62, say.
    """
    kind = media_type(content_type)[0] if content_type else ""
    if is_json(kind):
        yield _Form("json", body)
        return
    if not kind and body.lstrip()[:1] in (b"{", b"["):
        yield _Form("json", body)
    if body.startswith(_CONTAINER):
        yield _Form("container", body)
    if body.startswith(_SINGLE_OBJECT):
        yield _Form("binary", body[_HEADER:])
    yield _Form("binary", body)


def _plain_types(schema: Any) -> Any:
    """Return a schema as it was written, without logical types, which readers may ignore (Avro, Logical Types)."""
    if isinstance(schema, dict):
        return {
            name: _plain_types(member)
            for name, member in schema.items()
            if name != "logicalType" and not name.startswith("__")  # what fastavro adds
        }
    return [_plain_types(member) for member in schema] if isinstance(schema, list) else schema


def _parts(schema: Any) -> _SchemaParts:
    """Return the parts of a schema as fastavro parsed it, with each named type once, and then by its name.

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
    costs = _Costs(named)
    all_costs = [costs.cost_of(schema)]
    for name, record in named.items():
        all_costs.append(costs.cost_of(record))
        if all_costs[-1] is None:
            raise Unsupported(f"no Avro schema that data can be of: the record {name} always holds itself")
    uses = {name: {used for used in _names_in(record["fields"]) if used in named} for name, record in named.items()}
    is_recursive = any(_reaches(name, name, uses) for name in named)
    endings = [cost for cost in all_costs if cost is not None]
    return _SchemaParts(
        is_recursive,
        any((cost := costs.cost_of(items)) is not None and cost.size == 0 for items in _items_in(schema)),
        max((cost.parts // max(1, cost.size) for cost in endings), default=1),
        max((cost.parts for cost in endings), default=1) if _has_defaults(named.values()) else 1,
        max(costs.looks(part) for part in (schema, *named.values())),
    )


class _Costs:
    """Costs of types; each record is looked at once, however often it is named.

    Args:
        named: the records of a schema by name.
    """

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        self._costs: dict[str, _Cost | None] = {}
        self._looks: dict[str, int] = {}
        self._open: set[str] = set()

    def cost_of(self, part: Any) -> _Cost | None:
        """Return what data of a type takes; None: it never ends."""
        kind = self._kind(part)
        if isinstance(kind, dict):
            name = kind["name"]
            if name in self._open:
                return None
            if name not in self._costs:
                self._open.add(name)
                fields = [self.cost_of(field["type"]) for field in kind["fields"]]
                self._open.discard(name)
                ends = [cost for cost in fields if cost is not None]
                size, parts = sum(cost.size for cost in ends), 1 + sum(cost.parts for cost in ends)
                self._costs[name] = _Cost(min(size, _MOST), min(parts, _MOST)) if len(ends) == len(fields) else None
            return self._costs[name]
        if kind == "fixed":
            return _Cost(min(1, int(part["size"])))
        return _Cost(0 if kind == "null" else 1)

    def looks(self, part: Any) -> int:
        """Return how often a validator may look at one place of data, as it tries the branches of unions one after the other."""
        kind = self._kind(part)
        if isinstance(kind, list):
            return min(_MOST, 1 + sum(map(self.looks, kind)))
        if kind in ("array", "map"):
            return 1 + self.looks(part["items" if kind == "array" else "values"])
        if not isinstance(kind, dict):
            return 1
        name = kind["name"]
        if name not in self._looks:
            self._looks[name] = 1  # where it calls itself
            self._looks[name] = 1 + max((self.looks(field["type"]) for field in kind["fields"]), default=0)
        return self._looks[name]

    def _kind(self, part: Any) -> Any:
        """Return the record, the branches of the union, or the name of the type that a part is."""
        kind = part.get("type") if isinstance(part, dict) else part
        if kind in ("record", "error"):
            return part
        if isinstance(kind, dict):
            return self._kind(kind)
        return self._named.get(kind, kind) if isinstance(kind, str) else kind


def _has_defaults(records: Iterable[Any]) -> bool:
    """Return whether what is missing in data may be an object, whose parts are then looked at, too."""
    fields = (field for record in records for field in record["fields"])
    return any(isinstance(field.get("default"), dict | list) for field in fields)


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


def _in_words(error: Any) -> str:
    kind = error.schema.get("type", error.schema) if isinstance(error.schema, dict) else error.schema
    return f"missing, expected {kind}" if error.datum is None else f"{type(error.datum).__name__}, expected {kind}"
