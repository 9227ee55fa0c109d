"""Paths in the payloads of one kind, and what is counted of one JSON type at one path.

All of it adds up: counts of two parts of the events give those of the whole.

Sums, unions, least and greatest do not depend on the order or on how events were split, but for `equals` and `compared`, which
look at a sample. A path is a JSON Pointer in which `*` is any item of an array and `{}` any key of a map.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import methodcaller
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.valuetypes import is_timestamp
from lakehouse.text.blanking import blank_text
from lakehouse.text.sketches import REGISTERS, estimated, registers_of

MOST_VALUES = 32
LONGEST_VALUE = 256


@dataclass(slots=True)
class PathCounts:
    """Counts of one JSON type at one path of one kind of event.

    Attributes:
        events: how many values there were.
        values: each value as text, and how often; None: more than `MOST_VALUES`, a long one, or a secret.
        sketch: of distinct values, where `values` is None: HyperLogLog, a byte for each register.
        least: of numbers; None where there were none.
        greatest: of numbers.
        shortest: length of a text in characters, of an array in items, of an object in members.
        longest: of the same.
        formats: those that every text has; None: no text was seen.
        compared: events of the sample whose texts were compared.
        equals: paths that held the same text, and how often.
        producers: sources of the events; None: more than `MOST_VALUES`, or they were not kept.
    """

    events: int = 0
    values: dict[str, int] | None = field(default_factory=dict)
    sketch: bytes | None = None
    least: float | None = None
    greatest: float | None = None
    shortest: int | None = None
    longest: int | None = None
    formats: frozenset[str] | None = None
    compared: int = 0
    equals: dict[str, int] = field(default_factory=dict)
    producers: frozenset[str] | None = frozenset()

    def add(self, other: PathCounts) -> None:
        """Add the counts of other events."""
        self.events += other.events
        self.add_range(other.least, other.greatest)
        if other.values is None:
            self._drop_values()
            self._add_registers(np.frombuffer(other.sketch or bytes(REGISTERS), np.uint8))
        else:
            self.add_values(other.values)
        self.shortest, self.longest = _least(self.shortest, other.shortest), _greatest(self.longest, other.longest)
        if other.formats is not None:
            self.formats = other.formats if self.formats is None else self.formats & other.formats
        self.compared += other.compared
        for path, times in other.equals.items():
            self.equals[path] = self.equals.get(path, 0) + times
        self.add_producers(other.producers)

    def add_producers(self, producers: frozenset[str] | None) -> None:
        """Add the sources of some events; None: they are too many, or are not kept."""
        if self.producers is not None and producers != self.producers:
            both = None if producers is None else self.producers | producers
            self.producers = None if both is None or len(both) > MOST_VALUES else both

    def add_values(self, values: Mapping[str, int]) -> None:
        """Add values by their text, and how often each was there; what looks like a secret is not kept."""
        if self.values is not None and len(values) <= MOST_VALUES and all(map(may_be_kept, values)):
            for text, times in values.items():
                self.values[text] = self.values.get(text, 0) + times
            if len(self.values) > MOST_VALUES:
                self._drop_values()
        else:
            self._drop_values()
            self._add_registers(self._registers_of(values))

    def hide_values(self) -> None:
        """Keep nothing but how many distinct values there were."""
        self._drop_values()
        self.least = self.greatest = None

    def add_range(self, least: float | None, greatest: float | None) -> None:
        """Add the least and the greatest of some numbers, before the numbers."""
        self.least, self.greatest = _least(self.least, least), _greatest(self.greatest, greatest)

    def add_numbers(self, numbers: npt.NDArray[np.float64]) -> None:
        """Add numbers of a field with many values."""
        self._drop_values()
        self._add_registers(registers_of(numbers.view(np.uint64)))

    def add_texts(self, texts: pa.StringArray) -> None:
        """Add texts of a field with many values."""
        self._drop_values()
        encoded = texts.cast(pa.binary()).to_numpy(zero_copy_only=False)
        self._add_registers(registers_of(np.fromiter(map(crc32, encoded), np.uint64, len(encoded))))

    @property
    def distinct(self) -> int:
        """Return how many distinct values there were: exact up to `MOST_VALUES`, then estimated."""
        return min(estimated(self.sketch), self.events) if self.values is None else len(self.values)

    @property
    def constant(self) -> str | None:
        """Return the one value; None: there are several, or it was not kept."""
        return next(iter(self.values)) if self.values is not None and len(self.values) == 1 else None

    def _drop_values(self) -> None:
        if self.values is not None:
            self.sketch = self._registers_of(self.values).tobytes()
            self.values = None

    def _registers_of(self, texts: Iterable[str]) -> npt.NDArray[np.uint8]:
        if self.least is not None:
            return registers_of(np.fromiter(map(float, texts), np.float64).view(np.uint64))
        return registers_of(np.fromiter(map(crc32, map(_encoded, texts)), np.uint64))

    def _add_registers(self, registers: npt.NDArray[np.uint8]) -> None:
        self.sketch = np.maximum(np.frombuffer(self.sketch or bytes(REGISTERS), np.uint8), registers).tobytes()


@lru_cache(10_000)
def may_be_kept(text: str) -> bool:
    """Return whether a value may be stored: it is short, and looks like no secret."""
    return len(text) <= LONGEST_VALUE and blank_text(text) == text


def _least(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else min(one, other)


def _greatest(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else max(one, other)


_PATTERNS = {
    "date": r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])",
    "time": r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+",
    "email": r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    "ipv4": r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)",
}
_encoded = methodcaller("encode", "utf-8", "surrogatepass")
_USUAL_TIMESTAMP = re.compile(  # on a day that all months have; others take ten times as long
    r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)",
    re.ASCII,
)
FORMATS: dict[str, Callable[[str], object]] = {
    "date-time": lambda text: _USUAL_TIMESTAMP.fullmatch(text) or is_timestamp(text),
    **{name: re.compile(pattern, re.ASCII).fullmatch for name, pattern in _PATTERNS.items()},
}

_GLANCES = {"date-time": rf"\A(?:{_USUAL_TIMESTAMP.pattern})\z"} | {name: rf"\A(?:{one})\z" for name, one in _PATTERNS.items()}


def formats_of(texts: Collection[str], among: Iterable[str] | None = None) -> frozenset[str]:
    """Return the formats that all texts have.

    Args:
        texts: at least one.
        among: formats that are still possible; None: all.
    """
    possible = FORMATS.keys() if among is None else among
    first = next(iter(texts))
    return frozenset(name for name in possible if FORMATS[name](first) and all(map(FORMATS[name], texts)))


def formats_of_column(texts: pa.StringArray, among: Iterable[str] | None = None) -> frozenset[str]:
    """Return the formats that all texts of a column have, as `formats_of` does: most at a glance, by RE2."""
    possible = formats_of([texts[0].as_py()], among)
    others = {name: texts.filter(pc.invert(pc.match_substring_regex(texts, _GLANCES[name]))) for name in possible}
    return frozenset(name for name, left in others.items() if all(map(FORMATS[name], left.to_pylist())))


ITEM, MEMBER = "*", "{}"
ENVELOPE, OPTIONS, DATA = "/envelopemetadata", "/protocoloptions", "/data"
CONTENT_TYPE = "/datacontenttype"
SEGMENT = "#"
_ESCAPES = (("~", "~0"), ("/", "~1"), ("*", "~2"), ("{", "~3"), ("#", "~4"))
_ID = re.compile(
    r"\A(?:\d+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}|\d{4}-\d\d(?:-\d\d.*)?"
    r"|(?=(?:[^\d]*\d){4})[A-Za-z0-9_-]{16,})\Z"
)


@lru_cache(10_000)
def child(path: str, name: str) -> str:
    """Return the path of a member; characters that have a meaning in paths are escaped as JSON Pointer does."""
    if not name.isalnum():
        for plain, escaped in _ESCAPES:
            name = name.replace(plain, escaped)
    return f"{path}/{name}"


def name_in(path: str) -> str:
    """Return the name of the member that a path leads to."""
    name = path.rpartition("/")[2]
    for plain, escaped in reversed(_ESCAPES):
        name = name.replace(escaped, plain)
    return name


def parent(path: str) -> str:
    """Return the path of the object or array that holds a member."""
    return path.rpartition("/")[0]


def segment(path: str, count: int, index: int) -> str:
    """Return the path of a segment of a text: of how many, and which, from 0."""
    return f"{path}{SEGMENT}{count}/{index}"


def looks_like_id(name: str) -> bool:
    """Return whether a text names one thing and not a kind of thing: a number, a UUID, a date, a long token with digits."""
    return _ID.match(name) is not None
