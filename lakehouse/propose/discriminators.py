"""What distinguishes kinds of events that share an address: a header or member whose value decides which members a payload has.

Counts add up: how often each value of a header or member came with each shape, which are the names of the members.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, NamedTuple

import orjson

from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.canonical import Event
from lakehouse.propose.pathcounts import DATA, MOST_VALUES, OPTIONS, child, is_secret, looks_like_id, may_be_stored, name_in

_MOST_SHAPES = 1_000  # of one address and path; with more, payloads are maps
_FEWEST_EVENTS = 10  # of a value that decides
_SHARE = 0.9  # of the events, that have one of these values
_DECIDED = 0.75  # of the members that are not always there, that a value decides
_LIKENESS = 0.5  # of the shapes of two values: of all their members, those that both always have

Shape = tuple[str, ...]
Shapes = Counter[tuple[str, Shape]]  # value, and names of the members → events
Discriminators = Mapping[str, str]  # address without ids → path of the header or member that distinguishes its kinds


@dataclass
class SharedAddresses:
    """Shapes of the payloads at each address.

    Attributes:
        events: how many there were, by address.
        shapes: by address and path; None: more values or shapes than are looked at, or ids.
    """

    events: Counter[str] = field(default_factory=Counter)
    shapes: defaultdict[str, dict[str, Shapes | None]] = field(default_factory=lambda: defaultdict(dict))

    def count(self, address: str, same: Iterable[tuple[Event, Any]]) -> None:
        """Count events of one address, each with its payload; one that is no object has no shape."""
        columns: defaultdict[str, Shapes] = defaultdict(Counter)
        left_out = {path for path, shapes in self.shapes[address].items() if shapes is None}
        for event, payload in same:
            if isinstance(payload, dict):
                self.events[address] += 1
                shape = tuple(sorted(payload))
                for path, value in distinguishing(event, payload).items():
                    if path not in left_out:
                        columns[path][value, shape] += 1
        for path, shapes in columns.items():
            self._add(address, path, shapes)

    def add(self, address: str, events: int, by_path: Mapping[str, Shapes | None]) -> None:
        """Add counts of other events."""
        self.events[address] += events
        for path, shapes in by_path.items():
            self._add(address, path, shapes)

    def _add(self, address: str, path: str, shapes: Shapes | None) -> None:
        before = self.shapes[address].get(path, Counter())
        both = None if shapes is None or before is None else before + shapes
        is_candidate = both is not None and len(both) <= _MOST_SHAPES and _may_distinguish(path, {value for value, _ in both})
        self.shapes[address][path] = both if is_candidate else None

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """Yield each address with its counts as JSON, which `read_rows` adds up."""
        for address, by_path in sorted(self.shapes.items()):
            listed = {path: None if shapes is None else [[*key, times] for key, times in sorted(shapes.items())]
                      for path, shapes in sorted(by_path.items())}  # fmt: skip
            yield address, orjson.dumps([self.events[address], listed])

    @classmethod
    def of_rows(cls, rows: Iterable[tuple[str, bytes]]) -> SharedAddresses:
        """Add up what `rows` gave of several parts of the events."""
        total = cls()
        for address, text in rows:
            events, listed = orjson.loads(text)
            by_path = {path: None if shapes is None else Counter({(value, tuple(shape)): times for value, shape, times in shapes})
                       for path, shapes in listed.items()}  # fmt: skip
            total.add(address, events, by_path)
        return total

    def discriminators(self) -> dict[str, str]:
        """Return what distinguishes kinds at each address: of several the one with the fewest values, headers first."""
        results = {}
        for address, by_path in sorted(self.shapes.items()):
            fitting = [
                (not path.startswith(OPTIONS), len({value for value, _ in shapes}), path)
                for path, shapes in by_path.items()
                if shapes is not None and distinguishes(shapes, self.events[address])
            ]
            if fitting:
                results[address] = min(fitting)[2]
        return results


def distinguishing(event: Event, payload: Any) -> dict[str, str]:
    """Return the texts that may distinguish kinds, by path: headers, and members of the payload."""
    texts = {child(OPTIONS, name): as_text(text) for name, text in event.options.items() if "/" in name}
    members = payload.items() if isinstance(payload, dict) else ()
    return texts | {child(DATA, name): text for name, text in members if isinstance(text, str)}


def distinguishes(shapes: Shapes, events: int) -> bool:
    """Return whether the value at a path decides the shape of the payloads.

    Nearly all events have one of its frequent values, most members that are not always there are never there with some value,
    and two values have shapes that differ.

    Args:
        shapes: of the events that have a value.
        events: how many there are, with or without.
    """
    totals: Counter[str] = Counter()
    members: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (value, shape), times in shapes.items():
        totals[value] += times
        for name in shape:
            members[value][name] += times
    values = [value for value, times in totals.items() if times >= _FEWEST_EVENTS]
    if len(values) < 2 or sum(totals[value] for value in values) < _SHARE * events:
        return False
    names = {name for value in values for name in members[value]}
    varying = [name for name in names if any(members[value][name] < totals[value] for value in values)]
    decided = [name for name in varying if any(not members[value][name] for value in values)]
    always = [{name for name in names if members[value][name] == totals[value]} for value in values]
    differ = any(len(names & other) <= _LIKENESS * len(names | other) for names, other in combinations(always, 2))
    return differ and len(decided) >= _DECIDED * len(varying)


def kind_at(address: str, path: str, value: str) -> str:
    """Return the kind of the events at an address that have a value."""
    return f"{address}?{path}={child('', value)[1:]}"


class Discriminator(NamedTuple):
    """What distinguishes a kind: its address without ids, the path of a header or member, and its value."""

    address: str
    path: str
    value: str


def discriminator_of(kind: str) -> Discriminator | None:
    """Return what distinguishes a kind, as `kind_at` wrote it; None: nothing but its type or address."""
    address, is_at, place = kind.rpartition("?/")
    path, equals, value = place.partition("=")
    return Discriminator(address, f"/{path}", name_in(f"/{value}")) if is_at and equals else None


def _may_distinguish(path: str, values: set[str]) -> bool:
    is_plain = "=" not in path and not is_secret(path) and len(values) <= MOST_VALUES
    return is_plain and all(may_be_stored(value) and not looks_like_id(value) for value in values)
