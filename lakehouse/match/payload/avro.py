"""Avro by fastavro: binary payloads are decoded with the schema, JSON payloads are validated as plain JSON."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import ValidationError

from lakehouse.match.definition.valuetypes import media_type
from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import Decoded, Error, Undecodable, Unsupported, decode_json, is_json

_SINGLE_OBJECT = b"\xc3\x01"  # then eight bytes of fingerprint
_CONFLUENT = b"\x00"  # then four bytes of a schema's id in that registry, which the catalog does not know


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
        self._name = self._schema.get("name", "") if isinstance(self._schema, dict) else ""

    @property
    def schema(self) -> Any:
        """Give the schema as fastavro parsed it."""
        return self._schema

    def decode(self, body: bytes | None, data: Any, content_type: str | None) -> Decoded:
        """Read Avro binary, bare, as single object, in a container or with Confluent's five bytes; or JSON."""
        kind = media_type(content_type)[0] if content_type else ""
        if body is None or is_json(kind) or (not kind and body.lstrip()[:1] in (b"{", b"[")):
            return decode_json(body, data, content_type)
        if body.startswith(b"Obj\x01"):
            return self._container(body)
        if body.startswith(_SINGLE_OBJECT):
            return Decoded(self._read(body[10:]))
        if body.startswith(_CONFLUENT) and len(body) > 5 and "json" not in kind:
            try:
                return Decoded(self._read(body[5:]), ("confluent_framing",))
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
        except Exception as error:  # what the bytes are is anybody's guess, and fastavro has no error of its own
            raise Undecodable(f"no Avro of this schema: {type(error).__name__}: {error}") from error
        if stream.read(1):
            raise Undecodable("no Avro of this schema: bytes are left over")
        return value

    def _container(self, body: bytes) -> Decoded:
        try:
            records = list(fastavro.reader(io.BytesIO(body)))
        except Exception as error:
            raise Undecodable(f"no Avro container: {type(error).__name__}: {error}") from error
        if len(records) != 1:
            raise Undecodable(f"an Avro container with {len(records)} records, where one payload is one")
        return Decoded(records[0], ("avro_container",))

    def _pointer(self, field: str) -> str:
        """Write fastavro's name of a field as JSON Pointer: what follows the name of the record."""
        path = field[len(self._name) :] if self._name and field.startswith(self._name) else f".{field}"
        return path.replace("/", "~1").replace("[", ".").replace("]", "").replace(".", "/") if path.strip(".") else ""


def _told(error: Any) -> str:
    kind = error.schema.get("type", error.schema) if isinstance(error.schema, dict) else error.schema
    return f"missing, expected {kind}" if error.datum is None else f"{type(error.datum).__name__}, expected {kind}"
