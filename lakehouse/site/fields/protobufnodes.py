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
            tuple(location.path): " ".join((location.leading_comments or location.trailing_comments).split())
            for location in file.source_code_info.location
        }

    def roots(self) -> Iterator[FieldNode]:
        """Return the declarations of the file."""
        file = self._file
        for at, message in enumerate(file.message_type):
            yield self._message(message, (_PATHS["message"], at))
        for at, enum in enumerate(file.enum_type):
            yield self._enum(enum, (_PATHS["enum"], at))
        for at, extension in enumerate(file.extension):
            yield self._field(extension, (_PATHS["extension"], at), {})
        for at, service in enumerate(file.service):
            yield self._service(service, (_PATHS["service"], at))

    def _message(self, message: Any, path: Path) -> FieldNode:
        def below() -> Sequence[FieldNode]:
            entries = {f".{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
            nested = [(at, inner) for at, inner in enumerate(message.nested_type) if not inner.options.map_entry]
            return [
                *self._fields(message, path, entries),
                *(self._message(inner, (*path, _NESTED, at)) for at, inner in nested),
                *(self._enum(enum, (*path, _ENUM, at)) for at, enum in enumerate(message.enum_type)),
                *(self._field(extension, (*path, _EXTENSION, at), entries) for at, extension in enumerate(message.extension)),
            ]

        return FieldNode(message.name, "message", None, self._comment(path), _deprecated(message), below=below)

    def _fields(self, message: Any, path: Path, entries: dict[str, Any]) -> Iterator[FieldNode]:
        """Return the fields in their order; those of a `oneof` below it, where the first of them is."""
        members: dict[int, list[FieldNode]] = {}
        order: list[FieldNode | int] = []
        for at, field in enumerate(message.field):
            node = self._field(field, (*path, _FIELD, at), entries)
            if not field.HasField("oneof_index") or field.proto3_optional:
                order.append(node)
                continue
            if field.oneof_index not in members:
                order.append(field.oneof_index)
            members.setdefault(field.oneof_index, []).append(node)
        for member in order:
            if isinstance(member, FieldNode):
                yield member
            else:
                yield self._oneof(message, member, path, members[member])

    def _oneof(self, message: Any, number: int, path: Path, members: list[FieldNode]) -> FieldNode:
        comment = self._comment((*path, 8, number))
        return FieldNode(message.oneof_decl[number].name, "oneof", None, comment, "one of these", below=lambda: members)

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
                    value.name,
                    "value",
                    None,
                    self._comment((*path, _SINGLE, at)),
                    joined([f"no. {value.number}", _deprecated(value)]),
                )
                for at, value in enumerate(enum.value)
            ]

        return FieldNode(enum.name, "enum", None, self._comment(path), _deprecated(enum), below=below)

    def _service(self, service: Any, path: Path) -> FieldNode:
        def below() -> Sequence[FieldNode]:
            return [
                FieldNode(
                    method.name,
                    f"{'stream of ' * method.client_streaming}{self._short(method.input_type)} → "
                    f"{'stream of ' * method.server_streaming}{self._short(method.output_type)}",
                    None,
                    self._comment((*path, _SINGLE, at)),
                    _deprecated(method),
                )
                for at, method in enumerate(service.method)
            ]

        return FieldNode(service.name, "service", None, self._comment(path), _deprecated(service), below=below)

    def _comment(self, path: Path) -> str:
        return self._comments.get(path, "")


def _deprecated(descriptor: Any) -> str:
    return "deprecated" if descriptor.options.deprecated else ""
