"""Events of one kind, counted: the paths in their payloads, and what is counted of one JSON type at one path.

All of it adds up: counts of two parts of the events give those of the whole. Sums, unions, least and greatest do not depend on
the order or on how events were split, but for `equals` and `sampled`, which look at a sample. A path is a JSON Pointer in which
`*` is any item of an array and `{}` any key of a map.

Objects with the same members are taken apart together, so that what is done for each value is done by functions in C. Keys that
look like ids are members of a map, and so are those of an object that has too many; depth and number of paths have limits.

Many distinct values are counted by a sketch: HyperLogLog with one byte a register, 6.5 % of error. Those of two parts add up by
the greater.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from math import log
from operator import methodcaller
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.valuetypes import as_text
from lakehouse.propose.textformats import formats_of, formats_of_column
from lakehouse.text.blanking import blank_text, looks_secret

MOST_VALUES = 32
LONGEST_VALUE = 256
_LARGEST = sys.float_info.max  # what an integer beyond the doubles counts as
_encoded = methodcaller("encode", "utf-8", "surrogatepass")
ITEM, MEMBER = "*", "{}"
ENVELOPE, OPTIONS, DATA = "/envelopemetadata", "/protocoloptions", "/data"
CONTENT_TYPE = "/datacontenttype"
SEGMENT = "#"
_ESCAPES = (("~", "~0"), ("/", "~1"), ("*", "~2"), ("{", "~3"), ("#", "~4"))
_ID = re.compile(
    r"\A(?:\d+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}|\d{4}-\d\d(?:-\d\d.*)?"
    r"|(?=(?:[^\d]*\d){4})[A-Za-z0-9_-]{16,})\Z"
)
MOST_KEYS = 200  # of an object; one with more is a map
MOST_PATHS = 1_000  # of a kind; beyond, the widest object is a map
MOST_DEPTH = 12
_JSON_TYPES = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
REGISTERS = 256
_ALPHA = 0.7213 / (1 + 1.079 / REGISTERS)
PathType = tuple[str, str]
Sent = tuple[str, tuple[str, ...], tuple[type, ...]]  # a source, and members of an object with the types of their values


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
        sampled: events of the sample whose texts were compared.
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
    sampled: int = 0
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
        self.sampled += other.sampled
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
        if self.values is not None and len(values) <= MOST_VALUES and all(map(may_be_stored, values)):
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
            numbers = np.fromiter(map(float, texts), np.float64)
            return registers_of(np.clip(numbers, -_LARGEST, _LARGEST).view(np.uint64))
        return registers_of(np.fromiter(map(crc32, map(_encoded, texts)), np.uint64))

    def _add_registers(self, registers: npt.NDArray[np.uint8]) -> None:
        self.sketch = np.maximum(np.frombuffer(self.sketch or bytes(REGISTERS), np.uint8), registers).tobytes()


@lru_cache(10_000)
def may_be_stored(text: str) -> bool:
    """Return whether a value may be stored: it is short, and looks like no secret."""
    return len(text) <= LONGEST_VALUE and blank_text(text) == text


def _least(value: Any, other: Any) -> Any:
    return other if value is None else value if other is None else min(value, other)


def _greatest(value: Any, other: Any) -> Any:
    return other if value is None else value if other is None else max(value, other)


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


Counts = dict[PathType, PathCounts]


@dataclass
class KindCounts:
    """Counts of the events of one kind and day.

    Attributes:
        keeps_values: whether values may be kept.
        counts: by path and JSON type.
        sampled: events whose texts were compared.
    """

    keeps_values: bool = True
    counts: Counts = field(default_factory=dict)
    sampled: int = 0
    _keys: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def count(self, path: str, values: Sequence[Any]) -> None:
        """Count values at a path; members of objects and items of arrays at the paths below it."""
        types = set(map(type, values))
        if len(types) == 1:
            self._of_type(path, types.pop(), values)
        else:
            by_type: dict[type, list[Any]] = {type_: [] for type_ in types}
            for value in values:
                by_type[type(value)].append(value)
            for type_, same in by_type.items():
                self._of_type(path, type_, same)

    def count_texts(self, path: str, texts: Mapping[str, int]) -> None:
        """Count texts at a path, each with how often it was there."""
        counts = self.at(path, "string")
        counts.events += sum(texts.values())
        self.keep(path, counts, texts)
        add_lengths(counts, list(map(len, texts)))
        if counts.formats is None or counts.formats:
            counts.formats = formats_of(texts, counts.formats)

    def count_text_column(self, path: str, texts: pa.StringArray) -> None:
        """Count texts at a path, each as often as it is there; none is null."""
        counts = self.at(path, "string")
        distinct = texts.value_counts() if counts.values is not None else None
        if distinct is not None and len(distinct) <= MOST_VALUES:
            self.count_texts(path, dict(zip(distinct.field(0).to_pylist(), distinct.field(1).to_pylist(), strict=True)))
            return
        counts.events += len(texts)
        counts.add_texts(texts)
        self._hide(path, counts)
        add_lengths(counts, pc.min_max(pc.utf8_length(texts)).as_py().values())
        if counts.formats is None or counts.formats:
            counts.formats = formats_of_column(texts, counts.formats)

    def add_events(self, path: str, kind: str, events: int) -> None:
        """Count values of which nothing else is known."""
        self.at(path, kind).events += events

    def add_equals(self, path: str, other_paths: Iterable[str]) -> None:
        """Count one text of the sample, and the paths that held the same text."""
        counts = self.at(path, "string")
        counts.sampled += 1
        for other in other_paths:
            counts.equals[other] = counts.equals.get(other, 0) + 1

    def add_producers(self, path: str, sent: Iterable[Sent]) -> None:
        """Add which sources sent which members of objects at a path."""
        sources: defaultdict[PathType, set[str]] = defaultdict(set)
        for source, names, types in sent:
            for name, type_ in zip(names, types, strict=True):
                sources[child(path, name), _JSON_TYPES[type_]].add(source)
        for (place, kind), producers in sources.items():
            self.add_producer(place, kind, producers)

    def add_producer(self, path: str, kind: str, sources: Iterable[str]) -> None:
        """Add sources that sent values of a type at a path; what has no counts is a key of a map."""
        if (path, kind) in self.counts:
            self.counts[path, kind].add_producers(frozenset(sources))

    def drop_producers(self) -> None:
        """Keep no sources: they are too many, or may not be kept."""
        for counts in self.counts.values():
            counts.producers = None

    def add(self, other: Mapping[PathType, PathCounts]) -> None:
        """Add counts of other events of the kind."""
        for (path, kind), counts in other.items():
            self.at(path, kind).add(counts)

    def at(self, path: str, kind: str) -> PathCounts:
        """Return the counts of a JSON type at a path, new ones where there were none."""
        key = (path, kind)
        if key not in self.counts:
            self.counts[key] = PathCounts()
        return self.counts[key]

    def _of_type(self, path: str, kind: type, values: Sequence[Any]) -> None:
        if kind is str:
            self.count_texts(path, Counter(values))
            return
        counts = self.at(path, _JSON_TYPES[kind])
        counts.events += len(values)
        if kind is dict:
            add_lengths(counts, list(map(len, values)))
            self._objects(path, values)
        elif kind is list:
            add_lengths(counts, list(map(len, values)))
            items = list(chain.from_iterable(values))
            if items and path.count("/") < MOST_DEPTH:
                self.count(f"{path}/{ITEM}", items)
        elif kind is bool:
            self.keep(path, counts, Counter(map(as_text, values)))
        elif kind is not type(None):
            self._numbers(path, counts, values)

    def _numbers(self, path: str, counts: PathCounts, values: Sequence[Any]) -> None:
        try:
            numbers = np.array(values, np.float64)
        except OverflowError:
            numbers = np.array([max(-_LARGEST, min(value, _LARGEST)) for value in values], np.float64)
        self.keep_numbers(path, counts, numbers, Counter(values) if counts.values is not None else None)

    def keep_numbers(
        self, path: str, counts: PathCounts, numbers: npt.NDArray[np.float64], distinct: Mapping[int | float, int] | None
    ) -> None:
        """Add numbers, and how often each of few was there; None: they are many, or values were dropped before."""
        counts.add_range(float(numbers.min()), float(numbers.max()))
        if distinct is not None and len(distinct) <= MOST_VALUES:
            self.keep(path, counts, {as_text(value): times for value, times in distinct.items()})
        else:
            counts.add_numbers(numbers)
            self._hide(path, counts)

    def keep(self, path: str, counts: PathCounts, texts: Mapping[str, int]) -> None:
        """Add values by their text, unless values may not be kept at the path."""
        counts.add_values(texts)
        self._hide(path, counts)

    def _hide(self, path: str, counts: PathCounts) -> None:
        if not self.keeps_values or is_secret(path):
            counts.hide_values()

    def _objects(self, path: str, objects: Sequence[dict[str, Any]]) -> None:
        if path.count("/") >= MOST_DEPTH:
            return
        columns: defaultdict[str, list[Any]] = defaultdict(list)
        for shape, cells in columns_of_shapes(objects):
            for name, column in zip(shape, cells, strict=True):
                columns[self.place(path, name)].extend(column)
        for place, values in columns.items():
            self.count(place, values)

    def place(self, path: str, name: str) -> str:
        """Return the path of a member of an object: its own, which it has from now on, or that of the keys of a map."""
        keys = self._keys[path]
        if name not in keys:
            if (path.startswith(DATA) and looks_like_id(name)) or len(keys) > MOST_KEYS:
                return f"{path}/{MEMBER}"
            keys.add(name)
        return child(path, name)


def columns_of_shapes(objects: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[str, ...], list[list[Any]]]]:
    """Yield the names of the members of objects that have the same ones in the same order, and a column for each name."""
    shapes: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for members in objects:
        shapes[tuple(members)].append(members)
    for shape, same in shapes.items():
        cells = list(chain.from_iterable(map(dict.values, same)))
        yield shape, [cells[number :: len(shape)] for number in range(len(shape))]


@lru_cache(10_000)
def is_secret(path: str) -> bool:
    """Return whether what a member holds may be a secret, by its name; a Kafka key is none."""
    return looks_secret(name_in(path)) and not (path.startswith(OPTIONS) and "~1" not in path)


def fold_maps(counts: Counts) -> tuple[Counts, list[str]]:
    """Fold members of maps: all of an object with more than `MOST_KEYS`, and of the widest ones beyond `MOST_PATHS`.

    Returns:
        The counts, and the paths of the maps in the order in which they were folded.
    """
    maps: list[str] = []
    while True:
        members: defaultdict[str, set[str]] = defaultdict(set)
        for path, _ in counts:
            if path.startswith(f"{DATA}/") and name_in(path) not in (MEMBER, ITEM):
                members[parent(path)].add(path)
        wide = [path for path, names in members.items() if len(names) > MOST_KEYS]
        if not wide and len({path for path, _ in counts}) > MOST_PATHS and members:
            wide = [max(sorted(members), key=lambda path: len(members[path]))]
        if not wide:
            return counts, maps
        for path in sorted(wide, reverse=True):
            counts = fold(counts, path)
            maps.append(path)


def fold(counts: Counts, path: str) -> Counts:
    """Return counts in which an object is a map: what its members hold is counted together, all else is shared with `counts`."""
    folded = KindCounts()
    for (place, kind), path_counts in counts.items():
        if place.startswith(f"{path}/"):
            _, slash, below = place[len(path) + 1 :].partition("/")
            folded.add({(f"{path}/{MEMBER}{slash}{below}", kind): path_counts})
        else:
            folded.counts[place, kind] = path_counts
    return folded.counts


def add_lengths(counts: PathCounts, lengths: Collection[int]) -> None:
    """Add lengths of texts, arrays or objects, or the least and the greatest of them."""
    shortest, longest = min(lengths), max(lengths)
    counts.shortest = shortest if counts.shortest is None else min(counts.shortest, shortest)
    counts.longest = longest if counts.longest is None else max(counts.longest, longest)


def estimated(sketch: bytes | None) -> int:
    """Return how many distinct values a sketch saw."""
    registers = np.frombuffer(sketch or bytes(REGISTERS), np.uint8)
    estimate = _ALPHA * REGISTERS**2 / float(np.exp2(-registers.astype(np.float64)).sum())
    empty = int((registers == 0).sum())
    return round(REGISTERS * log(REGISTERS / empty) if empty and estimate <= 2.5 * REGISTERS else estimate)


def registers_of(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Fill registers: the low byte of each hash says which, the leading zeros of the rest how high; MurmurHash3 mixes."""
    registers = np.zeros(REGISTERS, np.uint8)
    if not len(hashes):
        return registers
    mixed = hashes ^ np.uint64(0x9E3779B97F4A7C15)  # zero would stay zero
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed ^= mixed >> np.uint64(33)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(33)
    rest = (mixed >> np.uint64(12)).astype(np.float64)  # 52 bits, which a float holds exactly
    ranks = 53 - np.frexp(rest)[1]
    np.maximum.at(registers, (mixed & np.uint64(REGISTERS - 1)).astype(np.intp), ranks.astype(np.uint8))
    return registers
