"""The rows of `constraints.csv`, typed: which test each attribute of an entity is put to."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from functools import cache
from typing import Any, NamedTuple

import orjson

from lakehouse.rules.entity.checks import TESTS, CheckContext, Test
from lakehouse.text.csvtables import read_rows


class Constraint(NamedTuple):
    """A test of one attribute of an entity.

    Attributes:
        entity: as in `dialects.csv`.
        family: protocol, or `CLOUDEVENTS`; empty: of every one.
        place: path to what holds the attribute, below the entity.
        name: the attribute; `*`: each one; empty: the place itself.
        rule: that it breaks.
        test: a key of `checks.TESTS`.
        argument: of the test.
        severity: empty: the rule's.
    """

    entity: str
    family: str
    place: str
    name: str
    rule: str
    test: str
    argument: str
    severity: str


def constraints() -> list[Constraint]:
    """Return all rows.

    Raises:
        ValueError: the table has other columns.
    """
    return read_rows("lakehouse.rules", "constraints", Constraint)


CLOUDEVENTS = "CLOUDEVENTS"
ENVELOPE_NAMES = ("type", "source", "id", "specversion", "subject", "time", "datacontenttype", "dataschema")


class EntityViolation(NamedTuple):
    """A rule that an entity breaks: where in the normal form, which, what is wrong; severity None: the rule's."""

    path: tuple[str, ...]
    rule_id: str
    message: str
    severity: str | None = None


class Subject(NamedTuple):
    """An entity under test.

    Attributes:
        entity: as in `dialects.csv`: registry, messagegroup, endpoint, message, schemagroup, schema.
        attributes: its attributes in normal form; for a message those of one Version.
        ident: its id; for a Version that of its message.
        family: protocol family of its options, where it does not name one itself.
        envelope: the envelope of its group.
        dialect: dialect of its document.
        extensions: attributes that the specification does not know.
        in_endpoint: a message of an endpoint, and not of a message group.
        group_protocol: the protocol of its group, which a message that names none has.
    """

    entity: str
    attributes: dict[str, Any]
    ident: str = ""
    family: str | None = None
    envelope: str | None = None
    dialect: str = ""
    extensions: dict[str, Any] | None = None
    in_endpoint: bool = False
    group_protocol: str | None = None


class _Row(NamedTuple):
    check: Test
    argument: str
    rule_id: str
    severity: str | None


class _PlaceTests(NamedTuple):
    """The tests of one place: of its members by name, of members with other names, of the place itself; the names it has.

    `sound` holds, by name, texts that passed all tests; not of names that are tested against something else in the entity.
    """

    path: tuple[str, ...]
    names: dict[str, tuple[_Row, ...]]
    other_names: tuple[_Row, ...]
    itself: tuple[_Row, ...]
    fixed: frozenset[str]
    sound: dict[str, set[str]]


_TESTS_OF_ENTITY = ("role", "not_with")  # tests that look at the entity around
_MOST_SOUND, _LONGEST_SOUND = 5_000, 200  # texts of each name, and characters of each


@cache
def _places(entity: str, family: str) -> tuple[_PlaceTests, ...]:
    """Compile the rows of the table for an entity and a family."""
    places: dict[str, dict[str, list[_Row]]] = {}
    of_entity: dict[str, set[str]] = {}
    for row in constraints():
        if row.entity == entity and row.family == family:
            test = _Row(TESTS[row.test], row.argument, row.rule, row.severity or None)
            places.setdefault(row.place, {}).setdefault(row.name, []).append(test)
            if row.test in _TESTS_OF_ENTITY:
                of_entity.setdefault(row.place, set()).add(row.name)
    compiled = []
    for place, names in places.items():
        other_names = tuple(names.get("*", ()))
        own = {name: (*other_names, *tests) for name, tests in names.items() if name not in ("", "*")}
        sound: dict[str, set[str]] = {name: set() for name in own.keys() - of_entity.get(place, set())}
        path = tuple(place.split("/")) if place else ()
        compiled.append(_PlaceTests(path, own, other_names, tuple(names.get("", ())), frozenset(names), sound))
    return tuple(compiled)


def by_table(entity: str, family: str, attributes: dict[str, Any]) -> list[EntityViolation]:
    """Apply the rows of the table. This runs for every message, so it does nothing that it need not."""
    results: list[EntityViolation] = []
    for place in _places(entity, family):
        parent: Any = attributes
        for token in place.path:
            parent = parent.get(token) if isinstance(parent, dict) else None
        if isinstance(parent, dict):
            _apply(place, parent, attributes, results)
    return results


def _apply(place: _PlaceTests, parent: dict[str, Any], attributes: dict[str, Any], results: list[EntityViolation]) -> None:
    path, names, other_names, itself, fixed, sound = place
    context = CheckContext(fixed, attributes)
    for test in itself:
        details = test.check(parent, test.argument, context)
        if details is not None:
            results.append(EntityViolation(path, test.rule_id, details, test.severity))
    for name, value in parent.items():
        tests = names.get(name, other_names)
        if not tests or value is None:  # null is as if it were absent
            continue
        passed = sound.get(name) if type(value) is str else None
        if passed is not None and value in passed:
            continue
        context.name = name
        before = len(results)
        for check, argument, rule_id, severity in tests:
            details = check(value, argument, context)
            if details is not None:
                results.append(EntityViolation((*path, name), rule_id, f"`{name}` {details}", severity))
        if passed is not None and len(results) == before and len(value) <= _LONGEST_SOUND:
            if len(passed) > _MOST_SOUND:
                passed.clear()
            passed.add(value)


_MOST, _LONGEST = 20_000, 500  # texts that are remembered, and bytes of each: 10 MB at most, a tenth of it mostly


class ValidatedCache:
    """The JSON of members of an object that broke no rule, by all that the rules read apart from a member.

    The rules about such a member must depend on its name, its value and that context alone.
    """

    def __init__(self) -> None:
        self._texts: dict[Hashable, set[tuple[str, bytes]]] = {}
        self._count = 0

    def unvalidated(self, context: Hashable, members: dict[str, Any]) -> dict[str, tuple[Any, bytes]]:
        """Return the members that were not validated yet, each with its JSON; empty for one without members here."""
        seen = self._texts.get(context, ())
        results = {}
        for name, member in members.items():
            try:
                text = orjson.dumps(member)
            except TypeError:  # a number with its own spelling
                text = b""
            if (name, text) not in seen:
                results[name] = member, text
        return results

    def add(self, context: Hashable, members: dict[str, tuple[Any, bytes]], unsound: Collection[str]) -> None:
        """Record that members, as from `others`, are valid, except the invalid ones."""
        if self._count > _MOST:
            self._texts.clear()
            self._count = 0
        texts = self._texts.setdefault(context, set())
        before = len(texts)
        texts.update((name, text) for name, (_, text) in members.items() if 0 < len(text) <= _LONGEST and name not in unsound)
        self._count += len(texts) - before
