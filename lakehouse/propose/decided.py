"""What counts decide, and what they need for it. The days are those on which something was seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import NamedTuple

from lakehouse.propose.pathcounts import (
    ITEM,
    MEMBER,
    Counts,
    KindCounts,
    PathCounts,
    PathType,
    child,
    fold,
    fold_maps,
    name_in,
    parent,
)


@dataclass(frozen=True)
class Thresholds:
    """How much evidence a decision needs.

    Attributes:
        required_events: an attribute is required if it was in all of at least so many objects,
        required_days: over at least so many days.
        format_values: distinct texts that all have a format.
        outlier_share: a JSON type with a smaller share is reported and not declared,
        outlier_events: if there were at least so many values.
        constant_events: events that all held one value, unless it looks like an id or is in the payload, too,
        sure_events: or that is of no account.
        enums: whether few values become an enumeration.
        enum_values: at most so many,
        enum_events: of at least so many events.
        map_keys: members of one type, each in less than half of the objects, that are keys of a map.
    """

    required_events: int = 1_000
    required_days: int = 2
    format_values: int = 20
    outlier_share: float = 0.001
    outlier_events: int = 1_000
    constant_events: int = 2
    sure_events: int = 20
    enums: bool = False
    enum_values: int = 16
    enum_events: int = 1_000
    map_keys: int = 20


class Presence(NamedTuple):
    """How often a member was there.

    Attributes:
        events: objects that held it.
        parents: objects that could hold it.
        days: on which there were such objects.
    """

    events: int
    parents: int
    days: int


@dataclass
class Observed:
    """Counts of one kind over all days.

    Attributes:
        kind: its name.
        counts: by path and JSON type.
        days: for each path and type the days on which it was seen, sorted; empty texts are days that nobody knows.
        by_day: the counts of each day.
        breaks: what the payloads break, as `BrokenSchema` writes it; empty: no definition describes the events.
    """

    kind: str
    counts: Counts = field(default_factory=dict)
    days: dict[PathType, list[str]] = field(default_factory=dict)
    by_day: dict[str, Counts] = field(default_factory=dict)
    breaks: str = ""

    @classmethod
    def of(cls, kind: str, by_day: Mapping[str, Counts], breaks: str = "") -> Observed:
        """Add up days, and fold what are maps, on each day, too."""
        total = KindCounts()
        for day in sorted(by_day):
            total.add(by_day[day])
        counts, maps = fold_maps(total.counts)
        days = {day: reduce(fold, maps, by_day[day]) for day in sorted(by_day)}
        return cls(kind, counts, _days_of(days), days, breaks)

    def folded(self, path: str) -> Observed:
        """Return the counts in which the object at a path is a map, in all and on each day."""
        by_day = {day: fold(counts, path) for day, counts in self.by_day.items()}
        return Observed(self.kind, fold(self.counts, path), _days_of(by_day), by_day, self.breaks)

    @property
    def members(self) -> dict[str, list[str]]:
        """Return the paths below each path, sorted."""
        results: dict[str, set[str]] = {}
        for path, _ in self.counts:
            results.setdefault(parent(path), set()).add(path)
        return {path: sorted(paths) for path, paths in results.items()}

    def types(self, path: str) -> dict[str, PathCounts]:
        """Return what was counted at a path, by JSON type."""
        return {kind: self.counts[path, kind] for kind in _TYPES if (path, kind) in self.counts}

    def events(self, path: str) -> int:
        """Return how many values there were at a path, of any type; null is one."""
        return sum(counts.events for counts in self.types(path).values())

    def producers(self, path: str) -> frozenset[str] | None:
        """Return the sources of the events that held something at a path; None: too many, or they were not kept."""
        total = PathCounts()
        for counts in self.types(path).values():
            total.add_producers(counts.producers)
        return total.producers

    def seen_on(self, path: str) -> list[str]:
        """Return the days on which a path was seen, sorted."""
        return sorted({day for kind in _TYPES for day in self.days.get((path, kind), ()) if day})

    def presence(self, path: str) -> Presence:
        """Return how often a member was there."""
        above = self.counts.get((parent(path), "object"))
        days = [day for day in self.days.get((parent(path), "object"), ()) if day]
        return Presence(self.events(path), above.events if above else 0, len(days))

    def evidence(self, path: str) -> dict[str, str]:
        """Return how often a member was there, as its description; nothing where it was counted as one of a map."""
        seen = self.presence(path)
        return {"description": f"In {share(seen.events, seen.parents)} of {seen.parents:,}."} if seen.parents else {}

    def is_required(self, path: str, thresholds: Thresholds) -> bool:
        """Return whether a member was in all of enough objects over enough days."""
        seen = self.presence(path)
        return seen.events == seen.parents >= thresholds.required_events and seen.days >= thresholds.required_days


def _days_of(by_day: Mapping[str, Counts]) -> dict[PathType, list[str]]:
    """Return the days on which each path and type was seen, in their order."""
    days: dict[PathType, list[str]] = {}
    for day, counts in by_day.items():
        for key in counts:
            days.setdefault(key, []).append(day)
    return days


def share(part: int, whole: int) -> str:
    """Return a share in percent; 100% is written for all alone."""
    percent = 100 * part / whole if whole else 0.0
    return "100%" if part == whole else f"{min(percent, 99.99):.2f}%"


_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null", "binary")


def is_map(observed: Observed, path: str, names: Iterable[str], thresholds: Thresholds) -> bool:
    """Return whether the members of an object are keys of a map: many, of one type, each in less than half of the objects."""
    paths = [child(path, name) for name in names]
    objects = observed.counts[path, "object"].events
    kinds = {kind for place in paths for kind in observed.types(place)} - {"null"}
    return len(paths) >= thresholds.map_keys and len(kinds) == 1 and all(2 * observed.events(place) < objects for place in paths)


def names_below(observed: Observed, path: str, members: Mapping[str, list[str]]) -> list[str]:
    """Return the names of the members of an object, sorted, without the keys of maps."""
    return [name_in(place) for place in members.get(path, ()) if place.rpartition("/")[2] not in (MEMBER, ITEM)]
