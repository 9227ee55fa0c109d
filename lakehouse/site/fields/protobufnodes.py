"""Fields of Protobuf, out of what its compiler makes of the text: messages, enumerations and services, with their comments."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from lakehouse.match.payload.protobuf import compiled
from lakehouse.site.fields.listing import FieldNode, Listing, joined, listed

_PATHS = {"message": 4, "enum": 5, "service": 6, "extension": 7}  # numbers of fields of FileDescriptorProto, as in its comments
_FIELD, _NESTED, _ENUM, _EXTENSION = 2, 3, 4, 6  # of DescriptorProto
_SINGLE = 2  # of EnumDescriptorProto and ServiceDescriptorProto: a value, a method
Path = tuple[int, ...]


def protobuf_fields(text: str) -> Listing:
    """List what the text declares; what it imports is named only.

    Raises:
        Unsupported: the compiler refuses it.
    """
    own, _ = compiled(text)
    result = listed(_ProtobufReader(own).roots())
    imported = ", ".join(own.dependency[:8])
    return result._replace(notes=(f"What it imports is not listed: {imported}.",)) if imported else result


class _ProtobufReader:
    """Reads a file as it was compiled; comments are looked up by the path of what they are about."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._start = f".{file.package}." if file.package else "."
        self._comments = {
            tuple(one.path): " ".join((one.leading_comments or one.trailing_comments).split())
            for one in file.source_code_info.location
        }

    def roots(self) -> Iterator[FieldNode]:
        """Return the declarations of the file."""
        file = self._file
        for at, one in enumerate(file.message_type):
            yield self._message(one, (_PATHS["message"], at))
        for at, enum in enumerate(file.enum_type):
            yield self._enum(enum, (_PATHS["enum"], at))
        for at, extension in enumerate(file.extension):
            yield self._field(extension, (_PATHS["extension"], at), {})
        for at, service in enumerate(file.service):
            yield self._service(service, (_PATHS["service"], at))

    def _message(self, one: Any, path: Path) -> FieldNode:
        def below() -> Sequence[FieldNode]:
            entries = {f".{nested.name}": nested for nested in one.nested_type if nested.options.map_entry}
            nested = [(at, held) for at, held in enumerate(one.nested_type) if not held.options.map_entry]
            return [
                *self._fields(one, path, entries),
                *(self._message(held, (*path, _NESTED, at)) for at, held in nested),
                *(self._enum(held, (*path, _ENUM, at)) for at, held in enumerate(one.enum_type)),
                *(self._field(held, (*path, _EXTENSION, at), entries) for at, held in enumerate(one.extension)),
            ]

        return FieldNode(one.name, "message", None, self._comment(path), _deprecated(one), below=below)

    def _fields(self, one: Any, path: Path, entries: dict[str, Any]) -> Iterator[FieldNode]:
        """Return the fields in their order; those of a `oneof` below it, where the first of them is."""
        members: dict[int, list[FieldNode]] = {}
        order: list[FieldNode | int] = []
        for at, field in enumerate(one.field):
            node = self._field(field, (*path, _FIELD, at), entries)
            if not field.HasField("oneof_index") or field.proto3_optional:
                order.append(node)
                continue
            if field.oneof_index not in members:
                order.append(field.oneof_index)
            members.setdefault(field.oneof_index, []).append(node)
        for held in order:
            if isinstance(held, FieldNode):
                yield held
            else:
                yield self._oneof(one, held, path, members[held])

    def _oneof(self, one: Any, number: int, path: Path, members: list[FieldNode]) -> FieldNode:
        comment = self._comment((*path, 8, number))
        return FieldNode(one.oneof_decl[number].name, "oneof", None, comment, "one of these", below=lambda: members)

    def _field(self, field: FieldDescriptorProto, path: Path, entries: dict[str, Any]) -> FieldNode:
        entry = entries.get("." + field.type_name.rpartition(".")[2]) if field.type_name else None
        kind = f"map<{', '.join(self._type(part) for part in entry.field)}>" if entry is not None else self._type(field)
        if field.label == FieldDescriptorProto.LABEL_REPEATED and entry is None:
            kind = f"repeated {kind}"
        is_optional = field.proto3_optional or (not self._file.syntax and field.label == FieldDescriptorProto.LABEL_OPTIONAL)
        required = True if field.label == FieldDescriptorProto.LABEL_REQUIRED else False if is_optional else None
        default = f"default {field.default_value}" if field.HasField("default_value") else ""
        extended = f"extends {self._short(field.extendee)}" if field.extendee else ""
        limits = joined([f"no. {field.number}", default, extended, _deprecated(field)])
        return FieldNode(field.name, kind, required, self._comment(path), limits)

    def _type(self, field: FieldDescriptorProto) -> str:
        if field.type_name:
            return self._short(field.type_name)
        return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()

    def _short(self, name: str) -> str:
        return name.removeprefix(self._start) if name.startswith(self._start) else name.lstrip(".")

    def _enum(self, enum: Any, path: Path) -> FieldNode:
        def below() -> Sequence[FieldNode]:
            return [
                FieldNode(
                    one.name, "value", None, self._comment((*path, _SINGLE, at)), joined([f"no. {one.number}", _deprecated(one)])
                )
                for at, one in enumerate(enum.value)
            ]

        return FieldNode(enum.name, "enum", None, self._comment(path), _deprecated(enum), below=below)

    def _service(self, service: Any, path: Path) -> FieldNode:
        def below() -> Sequence[FieldNode]:
            return [
                FieldNode(
                    one.name,
                    f"{'stream of ' * one.client_streaming}{self._short(one.input_type)} → "
                    f"{'stream of ' * one.server_streaming}{self._short(one.output_type)}",
                    None,
                    self._comment((*path, _SINGLE, at)),
                    _deprecated(one),
                )
                for at, one in enumerate(service.method)
            ]

        return FieldNode(service.name, "service", None, self._comment(path), _deprecated(service), below=below)

    def _comment(self, path: Path) -> str:
        return self._comments.get(path, "")


def _deprecated(one: Any) -> str:
    return "deprecated" if one.options.deprecated else ""
