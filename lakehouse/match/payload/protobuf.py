"""Protobuf: `.proto` text is compiled by the compiler of grpcio-tools, payloads are parsed with what came out.

Parsing accepts almost anything, so unknown fields count as errors: bytes of another message show as these. A JSON payload is
read by the JSON mapping of Protobuf.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_tools import protoc

from lakehouse.match.payload.payloads import NoAnswer, run_in_fork
from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import Decoded, Error, Undecodable, Unsupported, Validator, is_json
from lakehouse.text.jsontext import escaped
from lakehouse.text.values import media_type

_NAME = "schema.proto"
_SECONDS = 10
_LOGGED = re.compile(r"WARNING: All log messages|[IWEF]\d{4} ")  # what the compiler says of itself


class ProtobufValidator:
    """Validates against a message type: the one that the reference names, else the only one, or the one named like the schema."""

    remarks: tuple[str, ...] = ()

    def __init__(self, document: Any, resolved: Resolved, find: Callable[[str], Any]) -> None:
        if not isinstance(document, str):
            raise Unsupported("a Protobuf schema is text")
        own, files = compiled(document)
        pool = descriptor_pool.DescriptorPool()
        for file in files:
            pool.Add(file)
        name = _message_name(own, resolved)
        self._class = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))

    @property
    def message_class(self) -> Any:
        """Return the class of the messages."""
        return self._class

    def may_hang(self, body: bytes | None, data: Any) -> bool:
        """Return whether none does: the library limits how deep a message is, and what it makes is as long as the payload."""
        return False

    def decode(self, body: bytes | None, data: Any, content_type: str | None) -> Decoded:
        """Parse the binary form, or JSON by Protobuf's mapping."""
        kind = media_type(content_type)[0] if content_type else ""
        message = self._class()
        try:
            if body is None:
                return Decoded(json_format.ParseDict(data, message, ignore_unknown_fields=False))
            if is_json(kind):
                return Decoded(json_format.Parse(body, message, ignore_unknown_fields=False))
            message.ParseFromString(body)
        except (DecodeError, json_format.ParseError) as error:
            raise Undecodable(f"no {self._class.DESCRIPTOR.full_name}: {error}") from error
        return Decoded(message)

    @staticmethod
    def as_json(value: Any) -> Any:
        """Return a decoded payload as a JSON value, by Protobuf's mapping, with the names of the schema."""
        return json_format.MessageToDict(value, preserving_proto_field_name=True)

    def errors_as_read(self, writer: Validator, body: bytes | None, data: Any, content_type: str | None) -> list[Error]:
        """Return what a reader of this schema cannot take; fields of the writer's schema alone are skipped."""
        value = self.decode(body, data, content_type).value
        own = {field.number for field in self._class.DESCRIPTOR.fields}
        return [error for error in self.errors(value) if error[1] != "unknown" or error[0].lstrip("/") in map(str, own)]

    def errors(self, value: Any) -> list[Error]:
        """Return the fields that the schema does not know, and required ones (proto2) that are missing."""
        if value is None:
            return [("", "type", "null, expected a message")]
        results = [("/" + name.replace(".", "/"), "required", "missing") for name in value.FindInitializationErrors()]
        return results + _unknown(value, "")


def _message_name(file: descriptor_pb2.FileDescriptorProto, resolved: Resolved) -> str:
    """Return the full name of the message type of a schema; one that a reference names may be nested.

    Raises:
        Unsupported: the file has none of the name that the reference says; or several, and none is named like the schema.
    """
    names = [f"{file.package}.{message.name}".lstrip(".") for message in file.message_type]
    searched, wanted = names, resolved.xid.partition("/schemas/")[2].partition("/")[0].rpartition(".")[2]
    if resolved.named:
        searched = [name for message in file.message_type for name in _names(message, file.package)]
        wanted = resolved.named.lstrip(".")
    fallback = names if len(names) == 1 and not resolved.named else []
    results = [name for name in searched if name == wanted or name.endswith(f".{wanted}")] or fallback
    if not results:
        raise Unsupported(f"no message type {wanted} among {', '.join(searched[:5]) or 'none'}")
    return min(results, key=lambda name: name.count("."))  # the outermost


def _names(message: descriptor_pb2.DescriptorProto, outer: str) -> Iterator[str]:
    """Return the full names of a message type and of those that are nested in it."""
    name = f"{outer}.{message.name}".lstrip(".")
    yield name
    for nested in message.nested_type:
        yield from _names(nested, name)


def _unknown(message: Any, pointer: str) -> list[Error]:
    results = [
        (f"{pointer}/{field.field_number}", "unknown", f"field {field.field_number} is not in the schema")
        for field in UnknownFieldSet(message)
    ]
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_name["value"].message_type is not None:
                for key, member in value.items():
                    results += _unknown(member, f"{pointer}/{field.name}/{escaped(str(key))}")
            continue
        members = list(value) if hasattr(value, "add") else [value]
        for at, member in enumerate(members):
            results += _unknown(member, f"{pointer}/{field.name}" + (f"/{at}" if hasattr(value, "add") else ""))
    return results


@lru_cache(256)
def compiled(
    text: str, imports: tuple[tuple[str, str], ...] = ()
) -> tuple[descriptor_pb2.FileDescriptorProto, list[descriptor_pb2.FileDescriptorProto]]:
    """Compile a text.

    Args:
        text: the text.
        imports: name and text of what it imports, besides Google's well-known types.

    Returns:
        What it declares, with its comments; and all files, those that it imports first.

    Raises:
        Unsupported: the compiler refuses it, or takes too long.
    """
    with tempfile.TemporaryDirectory(prefix="lakehouse-") as folder:
        for name, content in (*imports, (_NAME, text)):
            file = Path(folder, name).resolve()
            if not file.is_relative_to(Path(folder).resolve()):
                raise Unsupported(f"it imports {name[:80]}, which is no name of a file below another")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8", errors="replace")
        try:
            result = run_in_fork(lambda: _compile(folder), _SECONDS)
        except NoAnswer as error:
            raise Unsupported(f"protoc does not compile the schema: {error}") from error
        if isinstance(result, str):
            raise Unsupported(f"protoc does not compile the schema: {result[:200]}")
    files = list(descriptor_pb2.FileDescriptorSet.FromString(result).file)
    return next(file for file in files if file.name == _NAME), files


def _compile(folder: str) -> bytes | str:
    """Run the compiler, in its own process, since text may be hostile: the descriptors, or what it says against the text."""
    well_known = str(Path(protoc.__file__).parent / "_proto")
    source, target, errors = Path(folder, _NAME), Path(folder, "out"), Path(folder, "errors")
    os.dup2(os.open(errors, os.O_CREAT | os.O_WRONLY), 2)
    code = protoc.main(
        ["protoc", f"-I{folder}", f"-I{well_known}", "--include_imports", "--include_source_info",
         f"--descriptor_set_out={target}", str(source)]
    )  # fmt: skip
    if code or not target.exists():
        lines = [line for line in errors.read_text(encoding="utf-8", errors="replace").split("\n") if not _LOGGED.match(line)]
        output = " ".join(lines).replace(f"{source}:", "").replace(f"{_NAME}:", "").replace(folder, "")
        return " ".join(output.split()) or f"exit code {code}"
    return target.read_bytes()
