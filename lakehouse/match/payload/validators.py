"""One validator for each schema: its format says which library reads it, in all the spellings that documents have.

Every library works without network and files, and with regular expressions that cannot backtrack.
"""

from __future__ import annotations

import codecs
import importlib
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import orjson

from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.match.payload.costlimit import Effort
from lakehouse.match.payload.schemas import Resolved
from lakehouse.text.jsontext import read_exactly
from lakehouse.text.values import media_type

# Imported when a schema of the family is met first: each needs its own library.
_VALIDATORS = {
    "jsonschema": ("jsonvalidator", "JsonSchemaValidator"),
    "avro": ("avro", "AvroValidator"),
    "protobuf": ("protobuf", "ProtobufValidator"),
    "jsonstructure": ("jsonstructure", "StructureValidator"),
    "xsd": ("xsd", "XsdValidator"),
}


_SHORT = 16_000  # letters of a schema
_FEW_REPEATED = 20
_REPEATED = re.compile(r"\{\d")
_FEW_BYTES = 20_000_000  # of a schema and a payload, multiplied: a payload need not be looked through
CONTAINER = "avro_container"  # a remark: the payload has its own schema
Error = tuple[str, str, str]


class Undecodable(Exception):
    """A payload is not what its content type and schema say."""


class Unsupported(Exception):
    """No library validates this schema."""


class Unresolved(Unsupported):
    """A schema refers to what is not in the catalog; nothing is fetched."""


class Decoded(NamedTuple):
    """A payload as a value, and what was repaired on the way."""

    value: Any
    remarks: tuple[str, ...] = ()


class Validator(Protocol):
    """What validates the payloads of one schema."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Return what is odd about the schema."""

    def decode(self, body: bytes | None, data: Any, content_type: str | None) -> Decoded:
        """Return the payload as a value: `body`, or where that is None the JSON value `data`.

        Raises:
            Undecodable: it cannot be read.
        """

    def errors(self, value: Any) -> list[Error]:
        """Return where the value breaks the schema: JSON Pointer, keyword, message."""

    def may_hang(self, body: bytes | None, data: Any) -> bool:
        """Return whether a payload may keep the library busy for long, or end its process: it is then read in another one."""


def is_made_at_once(resolved: Resolved) -> bool:
    """Return whether what validates a schema is made in a short time, whatever the schema holds.

    For JSON Schema and Avro that takes at most the square of the text, where patterns do not repeat much; JSON Structure is read
    with a payload only; Protobuf is compiled in its own process.
    """
    family = family_of_format(resolved.format, None)
    if family in ("jsonschema", "avro", "unknown"):
        return len(resolved.text) <= _SHORT and len(_REPEATED.findall(resolved.text)) <= _FEW_REPEATED
    return family != "xsd"


def make_validator(resolved: Resolved, find: Callable[[str], Any]) -> Validator:
    """Make the validator of a schema.

    Args:
        resolved: the schema.
        find: gives another schema of the catalog by its `$id`; raises LookupError when there is none.

    Raises:
        Unresolved: it refers to a schema that is not in the catalog.
        Unsupported: no library reads the format, or this schema.
        ModuleNotFoundError: the library is not installed.
    """
    document = resolved.document
    family = family_of_format(resolved.format, document)
    if family not in _VALIDATORS:
        raise Unsupported(f"schemas of format {resolved.format or 'unknown'} are not validated")
    if family not in ("protobuf", "xsd") and isinstance(document, str):
        try:
            document = read_exactly(document.encode())
        except orjson.JSONDecodeError as error:
            raise Unsupported(f"the schema is not JSON: {error}") from error
    module, name = _VALIDATORS[family]
    made: Validator = getattr(importlib.import_module(f"lakehouse.match.payload.{module}"), name)(document, resolved, find)
    return made


def decode_json(body: bytes | None, data: Any, content_type: str | None) -> Decoded:
    """Read a payload as JSON: a value, or text that holds one (a producer that encoded twice: read once more, with a remark)."""
    if body is None:
        if isinstance(data, str) and data.lstrip()[:1] in ("{", "["):
            try:
                return Decoded(read_exactly(data.encode()), ("double_encoded",))
            except ValueError:  # no JSON, or a surrogate alone
                return Decoded(data)
        return Decoded(data)
    kind = media_type(content_type)[0] if content_type else ""
    if kind and not is_json(kind) and kind not in ("text/plain", "application/octet-stream", "binary/octet-stream"):
        raise Undecodable(f"content type {kind}, and the schema is for JSON")
    text, remarks = body, tuple[str, ...]()
    if body.startswith(codecs.BOM_UTF8):  # it may be ignored (RFC 8259, section 8.1)
        text, remarks = body.removeprefix(codecs.BOM_UTF8), ("byte_order_mark",)
    try:
        return Decoded(read_exactly(text), remarks)
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"not JSON: {error}") from error


def may_be_long(effort: Effort, body: bytes | None, data: Any, *, slowness: int = 1) -> bool:
    """Return whether a JSON payload may make a schema costly."""
    if body is not None and effort.is_plain and len(body) * max(effort.size, slowness * 100) < _FEW_BYTES:
        return False
    try:
        return effort.is_high(data if body is None else orjson.loads(body), slowness=slowness)
    except orjson.JSONDecodeError:
        return False


def is_json(kind: str) -> bool:
    """Return whether a media type is JSON."""
    return kind == "application/json" or kind.endswith(("+json", "/json")) or kind == "text/json"


def pointer_of(path: Any) -> str:
    """Write a path of names and numbers as JSON Pointer."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in path)
