"""The rows of `constraints.csv`, typed: which test each attribute of an entity is put to."""

from __future__ import annotations

from typing import NamedTuple

from lakehouse.text.csvtables import read_rows


class Constraint(NamedTuple):
    """A test of one attribute of an entity.

    Attributes:
        entity: as in `dialects.csv`.
        family: protocol, or `CLOUDEVENTS`; empty: of every one.
        place: path to what holds the attribute, below the entity.
        name: the attribute; `*`: each one; empty: the place itself.
        rule: that it breaks.
        test: a key of `tests.TESTS`.
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
    """Give all rows.

    Raises:
        ValueError: the table has other columns.
    """
    return read_rows("lakehouse.rules", "constraints", Constraint)
