"""Rules about one entity that a table can say: `constraints.csv`, compiled for an entity and a protocol."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from lakehouse.rules.one.tests import TESTS, Around, Test
from lakehouse.text.csvtables import read_table

CLOUDEVENTS = "CLOUDEVENTS"


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
    """The tests of one place: of its members by name, of each member, of the place itself; and the names it has."""

    path: tuple[str, ...]
    names: dict[str, tuple[_Row, ...]]
    each: tuple[_Row, ...]
    itself: tuple[_Row, ...]
    fixed: frozenset[str]


@cache
def _places(entity: str, family: str) -> tuple[_Place, ...]:
    """Compile the rows of the table for an entity and a family."""
    places: dict[str, dict[str, list[_Row]]] = {}
    for row in read_table("lakehouse.rules", "constraints"):
        if row["entity"] == entity and row["family"] == family:
            test = _Row(TESTS[row["test"]], row["argument"], row["rule"], row["severity"] or None)
            places.setdefault(row["place"], {}).setdefault(row["name"], []).append(test)
    return tuple(
        _Place(
            tuple(place.split("/")) if place else (),
            {name: tuple(tests) for name, tests in names.items() if name not in ("", "*")},
            tuple(names.get("*", ())),
            tuple(names.get("", ())),
            frozenset(names),
        )
        for place, names in places.items()
    )


def by_table(entity: str, family: str, known: dict[str, Any]) -> list[Broken]:
    """Apply the rows of the table. This runs for every message, so it does nothing that it need not."""
    found: list[Broken] = []
    for path, names, each, itself, fixed in _places(entity, family):
        holder: Any = known
        for token in path:
            holder = holder.get(token) if isinstance(holder, dict) else None
        if not isinstance(holder, dict):
            continue
        around = Around(fixed, known)
        for test in itself:
            told = test.check(holder, test.argument, around)
            if told is not None:
                found.append(Broken(path, test.rule_id, told, test.severity))
        for name, value in holder.items():
            tests = names.get(name, ())
            if not (tests or each):
                continue
            around.name = name
            for check, argument, rule_id, severity in (*each, *tests):
                told = check(value, argument, around)
                if told is not None:
                    found.append(Broken((*path, name), rule_id, f"`{name}` {told}", severity))
    return found
