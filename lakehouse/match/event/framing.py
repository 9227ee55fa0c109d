"""How a payload names the schema that it was written with: bytes before it, a header, or its content type.

Confluent's framing is a zero and an id in four bytes, or a one and a GUID; AWS Glue's and Azure's are there, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from lakehouse.domain.subjects import GUID_LABEL, ID_LABEL
from lakehouse.match.event.canonical import unpacked

GLUE_LABEL, AZURE_LABEL = "glue.versionid", "azure.id"
_CONFLUENT = re.compile(rb"\0(?P<id>.{4})|\x01(?P<guid>.{16})", re.DOTALL)
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
        problem: why it cannot be unpacked; empty: it was, or is not compressed.
    """

    name: str
    label: str
    id: str
    payload: bytes
    problem: str = ""


def framings_of(body: bytes, header: str | None, content_type: str | None, family: str, most: int) -> Iterator[Framing]:
    """Yield how bytes may be framed, the likeliest first; an Avro payload may look so and not be.

    Args:
        body: the payload.
        header: the header `__value_schema_id`, in hexadecimal digits or as text; None: there is none.
        content_type: of the payload.
        family: of the schema's format; behind an id, Protobuf names its type.
        most: bytes that a compressed payload may have.
    """
    if header is not None:
        named = _CONFLUENT.match(bytes.fromhex(header) if _DIGITS.match(header) else header.encode())
        if named is not None:
            yield Framing("", *_confluent_key(named), body)
            return
    azure_type = _AZURE_TYPE.search((content_type or "").partition(";")[0].strip())
    if azure_type is not None:
        yield Framing("", AZURE_LABEL, azure_type[1].lower(), body)
        return
    glue, azure = _GLUE.match(body), _AZURE.match(body)
    if glue is not None:
        payload, problem = body[glue.end() :], ""
        if glue[1] == b"\x05":
            try:
                payload = unpacked(payload, "deflate", most)
            except ValueError as error:
                problem = str(error)
        yield Framing("glue_framing", GLUE_LABEL, str(UUID(bytes=glue[2])), payload, problem)
    if azure is not None:
        yield Framing("azure_framing", AZURE_LABEL, azure[1].decode().lower(), body[azure.end() :])
    confluent = _CONFLUENT.match(body)
    if confluent is not None and (payload := body[confluent.end() :]):
        payload = payload[_types_end(payload) :] if family == "protobuf" else payload
        yield Framing("confluent_framing", *_confluent_key(confluent), payload)


def is_framed(body: bytes) -> bool:
    """Return whether bytes begin with the id of a schema, in one of the framings."""
    return (_CONFLUENT.match(body) or _GLUE.match(body)) is not None  # Azure's begins as Confluent's does


def _confluent_key(named: re.Match[bytes]) -> tuple[str, str]:
    if named["id"] is None:
        return GUID_LABEL, str(UUID(bytes=named["guid"]))
    return ID_LABEL, str(int.from_bytes(named["id"], "big"))


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
