"""Framings of payloads: the id of the schema of a payload, as serializers write it.

It is in the first bytes, a header or the content type, and is compared with a label of the Versions of the schema; docs/match.md
lists both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from lakehouse.match.event.canonical import unpacked
from lakehouse.match.payload.validators import Undecodable

ID_LABEL, GUID_LABEL, GLUE_LABEL, AZURE_LABEL = "confluent.id", "confluent.guid", "glue.versionid", "azure.id"
_ID, _GUID = b"\x00", b"\x01"
_ID_FRAME, _GUID_FRAME = 5, 17
_GLUE = re.compile(rb"\x03([\x00\x05])(.{16})", re.DOTALL)
_AZURE = re.compile(rb"\0{4}([0-9a-fA-F]{32})")
_DIGITS = re.compile(r"(?:[0-9a-f]{2})+\Z")
_AZURE_TYPE = re.compile(r"\+([0-9a-f]{32})\Z", re.IGNORECASE)


class Framing(NamedTuple):
    """How a payload names its schema.

    Attributes:
        name: for the remark; empty: the payload is as without it.
        label: of the Version.
        id: what that label holds.
        payload: what was framed.
    """

    name: str
    label: str
    id: str
    payload: bytes


def framings_of(body: bytes, header: str | None, content_type: str | None, family: str, most: int) -> Iterator[Framing]:
    """Yield how bytes may be framed, the likeliest first; an Avro payload may look so and not be.

    Args:
        body: the payload.
        header: the header `__value_schema_id`, in hexadecimal digits or as text; None: there is none.
        content_type: of the payload.
        family: of the schema's format; behind an id, Protobuf names its type.
        most: bytes that a compressed payload may have.

    Raises:
        Undecodable: it is compressed, and cannot be unpacked.
    """
    if header is not None:
        key = _confluent_key(bytes.fromhex(header) if _DIGITS.match(header) else header.encode())
        if key is not None:
            yield Framing("", *key, body)
            return
    azure_type = _AZURE_TYPE.search((content_type or "").partition(";")[0].strip())
    if azure_type is not None:
        yield Framing("", AZURE_LABEL, azure_type[1].lower(), body)
        return
    glue, azure = _GLUE.match(body), _AZURE.match(body)
    if glue is not None:
        payload = body[glue.end() :]
        if glue[1] == b"\x05":
            try:
                payload = unpacked(payload, "deflate", most)
            except ValueError as error:
                raise Undecodable(str(error)) from error
        yield Framing("glue_framing", GLUE_LABEL, str(UUID(bytes=glue[2])), payload)
    if azure is not None:
        yield Framing("azure_framing", AZURE_LABEL, azure[1].decode().lower(), body[azure.end() :])
    key = _confluent_key(body)
    size = _ID_FRAME if body.startswith(_ID) else _GUID_FRAME
    if key is not None and len(body) > size:
        payload = body[size:]
        yield Framing("confluent_framing", *key, payload[_types_end(payload) :] if family == "protobuf" else payload)


def _confluent_key(start: bytes) -> tuple[str, str] | None:
    """Return label and id that bytes begin with; None: with neither."""
    if start.startswith(_ID) and len(start) >= _ID_FRAME:
        return ID_LABEL, str(int.from_bytes(start[1:_ID_FRAME], "big"))
    if start.startswith(_GUID) and len(start) >= _GUID_FRAME:
        return GUID_LABEL, str(UUID(bytes=start[1:_GUID_FRAME]))
    return None


def _types_end(payload: bytes) -> int:
    """Return where the place of a Protobuf type in its schema ends.

    The place is numbers in variable length, how many of them comes first; a single zero stands for the first type.
    """
    at, left = 0, 1
    is_count = True
    while left and at < len(payload):
        value = shift = 0
        while at < len(payload) and shift < 35:
            value |= (payload[at] & 0x7F) << shift
            shift += 7
            at += 1
            if payload[at - 1] < 0x80:
                break
        left = value >> 1 if is_count else left - 1
        is_count = False
    return at
