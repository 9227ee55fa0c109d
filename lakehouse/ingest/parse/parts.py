"""A large document is read part by part: it is cut once between its groups, and its parts are read where they are.

Its root is read first, so that each part knows what the root says; what the parts need of each other is in `Whole`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import chain
from typing import Any, BinaryIO

from lakehouse.dialects.detection import COLLECTIONS, declared_dialect, dialect_of, marks_of
from lakehouse.dialects.messagefamilies import Messages
from lakehouse.dialects.tables import NORMAL
from lakehouse.ingest.parse.document import read_document
from lakehouse.ingest.parse.documentlimits import ParseLimits
from lakehouse.ingest.parse.readings import Reading, Whole
from lakehouse.text.jsontext import NotJson, pointer_of
from lakehouse.text.names import Xid
from lakehouse.text.problems import Problem
from lakehouse.text.redact import redact
from lakehouse.text.streams import DocumentPart, Range, read_ranges, read_start, split_groups
from lakehouse.text.yamltext import read_text

PART_BYTES = 4 << 20
_PLACE = re.compile(r" at line ([0-9]+) column ([0-9]+)\Z")


class Parts:
    """The root of a large document, and where its groups are.

    Args:
        open_text: opens the document as a stream of its text.
        limits: `depth` and `stream` of them.
        root_text: the root, without the groups that were cut out.
        ranges: where the groups are that were cut out; none when there are no groups in maps (an array of groups, say).

    Attributes:
        root: the value of its text; with its secrets until `redact`.
        problems: what was found in the text of the root.

    Raises:
        NotJson: the root is not JSON.
    """

    def __init__(self, open_text: Callable[[], BinaryIO], limits: ParseLimits, root_text: bytes, ranges: list[Range]) -> None:
        self._open = open_text
        self._depth = limits.depth
        self.root_text = root_text
        self.ranges = ranges
        self.root, self.problems = read_text(root_text, "", limits.depth)
        self._messages = Messages(lambda: chain([self.root], self._values()))

    @classmethod
    def cut(cls, open_text: Callable[[], BinaryIO], limits: ParseLimits) -> Parts:
        """Find the groups of a document.

        Raises:
            NotJson: the text is not JSON, as far as it was looked at.
        """
        ranges = []
        try:
            with closing(open_text()) as stream:
                for part in split_groups(stream, _part_size(limits), COLLECTIONS):
                    if part.collection is not None:
                        ranges.append(Range(part.collection, part.start, part.end))
            return cls(open_text, limits, part.text, ranges)
        except NotJson:
            check_parts(open_text, limits)  # reports the first error in the order of the text
            raise

    def redact(self) -> None:
        """Replace the secrets of the root."""
        self.problems += redact(self.root)

    def dialect(self) -> str:
        """Return the dialect of all parts; any of them may determine it."""
        told = declared_dialect(self.root)
        if told:
            return told
        total = Reading()
        for reading in self.readings(NORMAL):
            total.add_counts(reading)
        return dialect_of(self.root, total.spellings, total.marks)

    def root_reading(self, dialect: str) -> Reading:
        """Read the root by itself."""
        return next(self.readings(dialect))

    def readings(self, dialect: str, whole: Whole | None = None) -> Iterator[Reading]:
        """Read the root, then the groups in the order of the document: those that were cut out, and those that stayed with it."""
        root = self.root
        whole = whole or Whole(self._messages.find)
        left = [key for key in root if key in COLLECTIONS and isinstance(root[key], dict) and root[key]]
        inside = {key: [one for one in self.problems if one.pointer.startswith(pointer_of(key) + "/")] for key in left}
        others = [one for one in self.problems if not any(one in found for found in inside.values())]
        yield read_document({key: {} if key in left else root[key] for key in root}, others, dialect, whole=whole)
        order = list(root)
        for collection, text in self._texts():
            while left and order.index(left[0]) < order.index(collection):
                key = left.pop(0)
                yield _read_groups({key: root[key]}, inside[key], dialect, whole)
            yield read_part(text, dialect, whole, self._depth)
        for key in left:
            yield _read_groups({key: root[key]}, inside[key], dialect, whole)

    def find_message(self, xid: Xid) -> dict[str, Any] | None:
        """Return the members of a message that determine its protocol; None if there is no such message."""
        return self._messages.find(xid)

    def _values(self) -> Iterable[Any]:
        """Yield the parts that are cut out of the root as JSON values."""
        return (read_text(text, "", self._depth)[0] for _, text in self._texts())

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the collections and texts of the parts that are cut out of the root."""
        with closing(self._open()) as stream:
            yield from read_ranges(stream, self.ranges)


def read_part(text: bytes, dialect: str, whole: Whole, depth: int) -> Reading:
    """Read groups that were cut out of a document."""
    value, found = read_text(text, "", depth)
    marks = marks_of(value)
    reading = _read_groups(value, found + redact(value, text), dialect, whole)
    reading.marks = marks
    return reading


def check_parts(open_text: Callable[[], BinaryIO], limits: ParseLimits) -> None:
    """Read all parts of a document strictly.

    Raises:
        NotJson: one of them is not JSON; it has the place in the document.
    """
    with closing(open_text()) as stream:
        for part in split_groups(stream, _part_size(limits), COLLECTIONS):
            _check_part(part, open_text, limits)


def _check_part(part: DocumentPart, open_text: Callable[[], BinaryIO], limits: ParseLimits) -> None:
    try:
        read_text(part.text, "", limits.depth)
    except NotJson as error:
        raise _placed(error, part, open_text) from error


def _placed(error: NotJson, part: DocumentPart, open_text: Callable[[], BinaryIO]) -> NotJson:
    """Return the error of a part with its position in the document; without one in the root, from which parts were cut."""
    found = _PLACE.search(str(error))
    if found is None:
        return error
    told = str(error)[: found.start()]
    if part.collection is None:
        return NotJson(f"{told} outside the groups", error.hint)
    line, column = int(found[1]), int(found[2])
    lines, last_length = 0, 0
    with closing(open_text()) as stream:
        for chunk in read_start(stream, part.start):
            lines += chunk.count(b"\n")
            after = chunk.rfind(b"\n") + 1
            last_length = len(chunk) - after + (0 if after else last_length)
    if line == 1:
        column += last_length - part.text.index(b"{", 1) - 1
    return NotJson(f"{told} at line {lines + line} column {column}", error.hint)


def _part_size(limits: ParseLimits) -> int:
    return min(PART_BYTES, limits.stream)


def _read_groups(document: dict[str, Any], problems: list[Problem], dialect: str, whole: Whole) -> Reading:
    """Read groups of a large document, whose root is read by itself."""
    reading = read_document(document, problems, dialect, whole=whole)
    reading.rows = [row for row in reading.rows if row.kind != "registry"]
    del reading.entities["registries"]
    reading.spellings = Counter({name: n for name, n in reading.spellings.items() if not name.startswith("registry: ")})
    return reading
