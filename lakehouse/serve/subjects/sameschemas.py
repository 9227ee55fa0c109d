"""Whether two schemas are the same one, however they are written; Protobuf schemas as descriptors, as some clients write them.

Blanks, comments of Protobuf, the order of JSON members, and how Avro spells a name with its namespace do not make another schema.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from lakehouse.compatibility.avroschemas import full_name
from lakehouse.compatibility.limits import Malformed
from lakehouse.compatibility.protoschemas import json_name_of, proto_tokens
from lakehouse.domain.subjects import AVRO, PROTOBUF, schema_document
from lakehouse.text.jsontext import canonical_text

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

Imports = tuple[tuple[str, str], ...]
_NAMED = ("record", "error", "enum", "fixed")
_SIMPLE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def key_of_schema(kind: str, text: str) -> str:
    """Return a text that is equal for the same schemas of a kind."""
    if kind == PROTOBUF:
        try:
            return "\n".join(proto_tokens(text))
        except Malformed:
            return text
    document = schema_document(kind, text)
    if kind != AVRO:
        return canonical_text(document)
    try:
        if isinstance(document, str):
            document = document.strip().strip('"')
        return canonical_text(_avro(document, ""))
    except (RecursionError, AttributeError, TypeError):  # no Avro schema: it is compared as the JSON value that it is
        return canonical_text(document)


def _avro(part: Any, space: str) -> Any:
    """Write a type with whole names, and a type that is nothing but another one as that."""
    if isinstance(part, list):
        return [_avro(branch, space) for branch in part]
    if isinstance(part, str):
        return part if part in _SIMPLE else full_name(part, space)
    kind = part.get("type")
    result = dict(part)
    if kind in _NAMED:
        result["name"] = full_name(part["name"], result.pop("namespace", space) or "")
        space = result["name"].rpartition(".")[0]
        if "fields" in part:
            result["fields"] = [{**field, "type": _avro(field["type"], space)} for field in part["fields"]]
        return result
    for name in ("items", "values"):
        if name in part:
            result[name] = _avro(part[name], space)
    if kind not in ("array", "map"):
        result["type"] = _avro(kind, space)
    return result["type"] if set(result) == {"type"} else result


def descriptor_in(text: str) -> FileDescriptorProto | None:
    """Return the descriptor that a text is, in base64, as Python's serializers write Protobuf schemas; None: it is none.

    Raises:
        ModuleNotFoundError: the library for Protobuf is not installed.
    """
    try:
        content = base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error is one; another is raised for what is not ASCII
        return None
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(content)
    except DecodeError:
        return None


def descriptor_of(text: str, imports: Imports) -> FileDescriptorProto:
    """Compile a Protobuf schema.

    Args:
        text: the schema.
        imports: name and text of the schemas that it refers to.

    Raises:
        ModuleNotFoundError: the compiler is not installed.
        lakehouse.match.payload.validators.Unsupported: it does not compile.
    """
    from lakehouse.match.payload.protobuf import compiled

    return _plain(compiled(text, imports)[0])


def is_same_descriptor(descriptor: FileDescriptorProto, other: FileDescriptorProto) -> bool:
    """Return whether two descriptors are of the same schema, whatever their files are named."""
    return bool(_plain(descriptor) == _plain(other))


def _plain(descriptor: FileDescriptorProto) -> FileDescriptorProto:
    """Return a copy without what is not in the text: the file's name, places in it, and JSON names that follow from names."""
    result = type(descriptor)()
    result.CopyFrom(descriptor)
    result.ClearField("name")
    result.ClearField("source_code_info")
    left = list(result.message_type)
    while left:
        message = left.pop()
        left += message.nested_type
        for field in message.field:
            if field.json_name == json_name_of(field.name):
                field.ClearField("json_name")
    return result
