"""Limits of documents, and why one is refused whole."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import BinaryIO, NamedTuple

import lakehouse
from lakehouse.text.problems import FAULT
from lakehouse.text.streams import read_chunk

CHUNK = 1 << 20  # bytes that are read at once
_PACKAGE = Path(lakehouse.__file__).parent


class Limits(NamedTuple):
    """What holds for all documents: limits, whether an error refuses a document whole, the dialect when it is not detected.

    The limits are on bytes as stored, bytes out of a `.gz`, nesting, entities; above `stream` bytes a document is read part by
    part.
    """

    bytes: int
    unpacked: int
    depth: int
    entities: int
    stream: int
    strict: bool
    dialect: str | None = None


class Rejected(Exception):
    """A document is refused whole: the rule, what is wrong, how to mend it."""

    def __init__(self, rule_id: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.rule_id = rule_id
        self.message = message
        self.hint = hint


def fault_of(error: BaseException) -> Rejected:
    """Tell a fault that nobody foresaw by its kind and place; its message may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents] or frames
    place = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    told = f"reading it failed: {type(error).__name__}{place}"
    return Rejected(FAULT, told, "Report it, with what is unusual about the document.")


def read_up_to(stream: BinaryIO, size: int) -> bytes:
    """Read a stream until its end, or until `size` bytes are there."""
    chunks: list[bytes] = []
    left = size
    while left > 0 and (chunk := read_chunk(stream, min(left, CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)
