"""Rules about one entity that a table can say: `constraints.csv`, compiled for an entity and a protocol."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from lakehouse.rules.one.constraints import constraints
from lakehouse.rules.one.tests import TESTS, Around, Test

CLOUDEVENTS = "CLOUDEVENTS"
ENVELOPE_NAMES = ("type", "source", "id", "specversion", "subject", "time", "datacontenttype", "dataschema")


class Broken(NamedTuple):
    """A rule that an entity breaks: where in the normal form, which, what is wrong; severity None: the rule's."""

    path: tuple[str, ...]
    rule_id: str
    message: str
    severity: str | None = None


class Subject(NamedTuple):
    """An entity under test.

    Attributes:
        entity: as in `dialects.csv`: registry, messagegroup, endpoint, message, schemagroup, schema.
        known: its attributes in normal form; for a message those of one Version.
        ident: its id; for a Version that of its message.
        family: protocol family of its options, where it does not name one itself.
        envelope: the envelope of its group.
        dialect: dialect of its document.
        extensions: attributes that the specification does not know.
    """

    entity: str
    known: dict[str, Any]
    ident: str = ""
    family: str | None = None
    envelope: str | None = None
    dialect: str = ""
    extensions: dict[str, Any] | None = None


class _Row(NamedTuple):
    check: Test
    argument: str
    rule_id: str
    severity: str | None


class _Place(NamedTuple):
    """The tests of one place: of its members by name, of members with other names, of the place itself; the names it has.

    `sound` holds, by name, texts that passed all tests; not of names that are tested against something else in the entity.
    """

    path: tuple[str, ...]
    names: dict[str, tuple[_Row, ...]]
    others: tuple[_Row, ...]
    itself: tuple[_Row, ...]
    fixed: frozenset[str]
    sound: dict[str, set[str]]


_AROUND = ("role", "not_with")  # tests that look at the entity around
_MOST_SOUND, _LONGEST_SOUND = 5_000, 200  # texts of each name, and characters of each


@cache
def _places(entity: str, family: str) -> tuple[_Place, ...]:
    """Compile the rows of the table for an entity and a family."""
    places: dict[str, dict[str, list[_Row]]] = {}
    around: dict[str, set[str]] = {}
    for row in constraints():
        if row.entity == entity and row.family == family:
            test = _Row(TESTS[row.test], row.argument, row.rule, row.severity or None)
            places.setdefault(row.place, {}).setdefault(row.name, []).append(test)
            if row.test in _AROUND:
                around.setdefault(row.place, set()).add(row.name)
    compiled = []
    for place, names in places.items():
        others = tuple(names.get("*", ()))
        own = {name: (*others, *tests) for name, tests in names.items() if name not in ("", "*")}
        sound: dict[str, set[str]] = {name: set() for name in own.keys() - around.get(place, set())}
        path = tuple(place.split("/")) if place else ()
        compiled.append(_Place(path, own, others, tuple(names.get("", ())), frozenset(names), sound))
    return tuple(compiled)


def by_table(entity: str, family: str, known: dict[str, Any]) -> list[Broken]:
    """Apply the rows of the table. This runs for every message, so it does nothing that it need not."""
    found: list[Broken] = []
    for place in _places(entity, family):
        holder: Any = known
        for token in place.path:
            holder = holder.get(token) if isinstance(holder, dict) else None
        if isinstance(holder, dict):
            _apply(place, holder, known, found)
    return found


def _apply(place: _Place, holder: dict[str, Any], known: dict[str, Any], found: list[Broken]) -> None:
    path, names, others, itself, fixed, sound = place
    around = Around(fixed, known)
    for test in itself:
        told = test.check(holder, test.argument, around)
        if told is not None:
            found.append(Broken(path, test.rule_id, told, test.severity))
    for name, value in holder.items():
        tests = names.get(name, others)
        if not tests:
            continue
        passed = sound.get(name) if type(value) is str else None
        if passed is not None and value in passed:
            continue
        around.name = name
        before = len(found)
        for check, argument, rule_id, severity in tests:
            told = check(value, argument, around)
            if told is not None:
                found.append(Broken((*path, name), rule_id, f"`{name}` {told}", severity))
        if passed is not None and len(found) == before and len(value) <= _LONGEST_SOUND:
            if len(passed) > _MOST_SOUND:
                passed.clear()
            passed.add(value)
