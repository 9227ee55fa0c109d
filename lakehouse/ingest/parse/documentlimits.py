"""Limits of documents, and why one is refused whole."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lakehouse.ingest.parse.readings import Reading
from lakehouse.text.problems import FAULT, LIMIT, STRICT, Finding
from lakehouse.text.streams import read_chunk

CHUNK = 1 << 20  # bytes that are read at once
_ERRORS_TOLD = 20
_PACKAGE = Path(__file__).parents[2]

Files = Mapping[str, str]
NONE: Files = {}


class ParseLimits(NamedTuple):
    """What holds for all documents: limits, whether an error refuses a document whole, the dialect when it is not detected.

    The limits are on bytes as stored, bytes out of a `.gz`, nesting, entities; above `stream` bytes a document is read part by
    part. `located`: documents that are known under another URI than that of their file: that URI → URI of the file. `roots`:
    folders out of which no document refers to a file; none: a document's own folder.
    """

    bytes: int
    unpacked: int
    depth: int
    entities: int
    stream: int
    strict: bool
    dialect: str | None = None
    located: Files = NONE
    roots: tuple[str, ...] = ()


class Rejected(Exception):
    """A document is refused whole: the rule, what is wrong, how to fix it."""

    def __init__(self, rule_id: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.rule_id = rule_id
        self.message = message
        self.hint = hint


class Tally:
    """Counts entities and errors of a document against the limits: too many, or under `strict` an error, refuse it whole."""

    def __init__(self, limits: ParseLimits) -> None:
        self._limits = limits
        self._entities = 0
        self._errors = 0
        self._first: list[Finding] = []

    def add(self, reading: Reading) -> None:
        """Count a part of the document, or all of it."""
        self._entities += reading.entities.total() + reading.quarantined.total()
        if self._limits.strict:
            errors = [finding for finding in reading.findings if finding.severity == "error"]
            self._errors += len(errors)
            self._first += errors[: _ERRORS_TOLD - len(self._first)]

    @property
    def is_over(self) -> bool:
        """Return whether the document will be rejected."""
        return self._entities > self._limits.entities or self._errors > 0

    def refuse(self) -> None:
        """Refuse the document when it is over a limit.

        Raises:
            Rejected: it is.
        """
        count, most = self._entities, self._limits.entities
        if count > most:
            raise Rejected(LIMIT, f"{count} entities, more than max_entities ({most})", "Split it, or raise the limit.")
        if self._errors:
            told = "; ".join(f"{finding.pointer}: {finding.rule_id}: {finding.message}" for finding in self._first)
            raise Rejected(
                STRICT, f"{self._errors} errors under --strict: {told}", "Fix them, or load the rest without --strict."
            )


def fault_of(error: BaseException) -> Rejected:
    """Return the rejection for an unforeseen error by its kind and place only, since its message may hold a secret."""
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
