"""Examples of Protobuf: a message filled by its descriptor; recursion ends where a field may be left out."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from lakehouse.render.example.plausible import DEEPEST, Plausible

_UNSIGNED = frozenset(
    {FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED32, FieldDescriptor.TYPE_FIXED64}
)
_TIMESTAMP = "google.protobuf.Timestamp"


class ProtobufExample:
    """Makes up a message.

    Args:
        made: what values are drawn from.
    """

    def __init__(self, made: Plausible) -> None:
        self._made = made

    def fill(self, message: Any, depth: int = 0) -> Any:
        """Fill a message, and give it.

        Raises:
            Impossible: it is too deep or too large.
        """
        self._made.spend(depth)
        if message.DESCRIPTOR.full_name == _TIMESTAMP:
            message.seconds = int(self._made.moment().timestamp())
            return message
        chosen = {oneof.name: self._made.random.choice(list(oneof.fields)).name for oneof in message.DESCRIPTOR.oneofs}
        for field in message.DESCRIPTOR.fields:
            if field.containing_oneof is not None and chosen[field.containing_oneof.name] != field.name:
                continue
            if field.is_required or (self._made.wants(depth) and not (field.message_type and depth + 1 >= DEEPEST)):
                self._set(message, field, depth)
        return message

    def _set(self, message: Any, field: Any, depth: int) -> None:
        member = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
            made = self._plain(key)
            if value.message_type is not None:
                self.fill(member[made], depth + 1)
            else:
                member[made] = self._plain(value)
        elif field.is_repeated:
            if field.message_type is not None:
                self.fill(member.add(), depth + 1)
            else:
                member.append(self._plain(field))
        elif field.message_type is not None:
            member.SetInParent()
            self.fill(member, depth + 1)
        else:
            setattr(message, field.name, self._plain(field))

    def _plain(self, field: Any) -> Any:
        kind = field.cpp_type
        if kind == FieldDescriptor.CPPTYPE_STRING:
            return self._made.bytes() if field.type == FieldDescriptor.TYPE_BYTES else self._made.text(field.name)
        if kind == FieldDescriptor.CPPTYPE_BOOL:
            return True
        if kind == FieldDescriptor.CPPTYPE_ENUM:
            return self._made.random.choice([value.number for value in field.enum_type.values])
        if kind in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            return self._made.number(field.name)
        return self._made.integer(1 if field.type in _UNSIGNED else None)
