"""Events of one kind, counted: each level of their payloads becomes columns, and a column is counted at once.

Objects with the same members are taken apart together, so that what is done for each value is done by functions in C. Keys that
look like ids are members of a map (`{}`), and so are those of an object that has too many; depth and number of paths have limits.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.valuetypes import as_text
from lakehouse.propose.pathcounts import (
    DATA,
    ITEM,
    MEMBER,
    MOST_VALUES,
    OPTIONS,
    PathCounts,
    child,
    formats_of,
    formats_of_column,
    looks_like_id,
    name_in,
    parent,
)
from lakehouse.text.blanking import looks_secret

MOST_KEYS = 200  # of an object; one with more is a map
MOST_PATHS = 1_000  # of a kind; beyond, the widest object is a map
MOST_DEPTH = 12
_NAMES = {type(None): "null", bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}

PathType = tuple[str, str]
Sent = tuple[str, tuple[str, ...], tuple[type, ...]]  # a source, and members of an object with the types of their values
Counts = dict[PathType, PathCounts]


@dataclass
class KindCounts:
    """Counts of the events of one kind and day.

    Attributes:
        keeps_values: whether values may be kept.
        counts: by path and JSON type.
        compared: events whose texts were compared.
    """

    keeps_values: bool = True
    counts: Counts = field(default_factory=dict)
    compared: int = 0
    _keys: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def count(self, path: str, values: Sequence[Any]) -> None:
        """Count values at a path; members of objects and items of arrays at the paths below it."""
        types = set(map(type, values))
        if len(types) == 1:
            self._of_type(path, types.pop(), values)
        else:
            by_type: dict[type, list[Any]] = {one: [] for one in types}
            for value in values:
                by_type[type(value)].append(value)
            for one, same in by_type.items():
                self._of_type(path, one, same)

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

    def add_equals(self, path: str, others: Iterable[str]) -> None:
        """Count one text of the sample, and the paths that held the same text."""
        counts = self.at(path, "string")
        counts.compared += 1
        for other in others:
            counts.equals[other] = counts.equals.get(other, 0) + 1

    def add_producers(self, path: str, sent: Iterable[Sent]) -> None:
        """Add which sources sent which members of objects at a path."""
        sources: defaultdict[PathType, set[str]] = defaultdict(set)
        for source, names, types in sent:
            for name, one in zip(names, types, strict=True):
                sources[child(path, name), _NAMES[one]].add(source)
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
        counts = self.at(path, _NAMES[kind])
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
        self.keep_numbers(path, counts, np.array(values, np.float64), Counter(values) if counts.values is not None else None)

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
        known = self._keys[path]
        if name not in known:
            if (path.startswith(DATA) and looks_like_id(name)) or len(known) > MOST_KEYS:
                return f"{path}/{MEMBER}"
            known.add(name)
        return child(path, name)


def columns_of_shapes(objects: Iterable[dict[str, Any]]) -> Iterator[tuple[tuple[str, ...], list[list[Any]]]]:
    """Yield the names of the members of objects that have the same ones in the same order, and a column for each name."""
    shapes: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for one in objects:
        shapes[tuple(one)].append(one)
    for shape, same in shapes.items():
        cells = list(chain.from_iterable(map(dict.values, same)))
        yield shape, [cells[number :: len(shape)] for number in range(len(shape))]


@lru_cache(10_000)
def is_secret(path: str) -> bool:
    """Return whether what a member holds may be a secret, by its name; a Kafka key is none."""
    return looks_secret(name_in(path)) and not (path.startswith(OPTIONS) and "~1" not in path)


def settle(counts: Counts) -> Counts:
    """Fold members of maps: all of an object with more than `MOST_KEYS`, and of the widest ones beyond `MOST_PATHS`."""
    while True:
        members: defaultdict[str, set[str]] = defaultdict(set)
        for path, _ in counts:
            if path.startswith(f"{DATA}/") and name_in(path) not in (MEMBER, ITEM):
                members[parent(path)].add(path)
        wide = [path for path, names in members.items() if len(names) > MOST_KEYS]
        if not wide and len({path for path, _ in counts}) > MOST_PATHS and members:
            wide = [max(sorted(members), key=lambda path: len(members[path]))]
        if not wide:
            return counts
        for path in sorted(wide, reverse=True):
            counts = fold(counts, path)


def fold(counts: Counts, path: str) -> Counts:
    """Return counts in which an object is a map: what its members hold is counted together."""
    folded = KindCounts()
    for (place, kind), one in counts.items():
        _, slash, below = place[len(path) + 1 :].partition("/")
        is_below = place.startswith(f"{path}/")
        folded.add({(f"{path}/{MEMBER}{slash}{below}" if is_below else place, kind): one})
    return folded.counts


def add_lengths(counts: PathCounts, lengths: Collection[int]) -> None:
    """Add lengths of texts, arrays or objects, or the least and the greatest of them."""
    shortest, longest = min(lengths), max(lengths)
    counts.shortest = shortest if counts.shortest is None else min(counts.shortest, shortest)
    counts.longest = longest if counts.longest is None else max(counts.longest, longest)
