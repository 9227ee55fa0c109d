"""Schemas that cannot be compared, and how much work comparing may take: counted in steps, the same on every machine."""

from __future__ import annotations

from typing import Any

from lakehouse.text.jsontext import canonical

MOST_STEPS = 200_000  # about half a second
MOST_DEPTH = 100  # levels of a schema
MOST_DIFFERENCES = 1_000  # that are reported of two schemas
MOST_TEXT = 4_000_000  # letters of a schema
# What a reader of schemas meets in one that is not valid, besides what it checks and raises as `Unreadable`.
INVALID = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)


def text_of(document: Any) -> str:
    """Return a schema as text; of a JSON value always the same."""
    return document if isinstance(document, str) else canonical(document).decode()


class TooMuchWork(Exception):
    """A comparison takes more steps, levels or differences than the limit."""


class Unreadable(Exception):
    """A schema cannot be read: it breaks a rule of its format, or uses what is not read here."""


class Malformed(Unreadable):
    """A schema breaks a rule of its format."""


class StepBudget:
    """Counts the steps of a comparison."""

    def __init__(self, most: int = MOST_STEPS) -> None:
        self._left = self._most = most

    def spend(self, depth: int = 0, count: int = 1) -> None:
        """Count steps.

        Raises:
            TooMuchWork: the limit is reached.
        """
        self._left -= count
        if self._left < 0:
            raise TooMuchWork(f"comparing takes more than {self._most} steps")
        if depth > MOST_DEPTH:
            raise TooMuchWork(f"the schemas are deeper than {MOST_DEPTH} levels")
