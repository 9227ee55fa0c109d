"""Rows of a table out of a tree of fields: as deep and as many as a page shows, and what is not shown is said."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakehouse.text.jsontext import canonical_text

DEEPEST, MOST_ROWS = 8, 150
_MOST_STEPS = 20_000
_MOST_VALUES, _MOST_TEXT = 12, 300
_WORDS = ("format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
          "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "multipleOf", "const", "default", "unit",
          "symbol", "precision", "scale", "logicalType", "contentEncoding", "contentMediaType", "readOnly", "writeOnly",
          "deprecated", "size", "aliases")  # fmt: skip


class Field(NamedTuple):
    """A row.

    Attributes:
        depth: within how many others it is.
        name: of the field; of what is no field (an alternative, other names) in words.
        type: in words.
        required: yes, no, or None: not known, or no field.
        description: of it.
        limits: what its values must be besides the type.
        note: what is not shown of it, and why.
    """

    depth: int
    name: str
    type: str
    required: bool | None
    description: str
    limits: str
    note: str = ""


class Listing(NamedTuple):
    """The rows of a schema; `is_more`: there are more of them; `notes`: what else is not listed, and why."""

    fields: list[Field]
    is_more: bool = False
    notes: tuple[str, ...] = ()


def _nothing() -> Sequence[FieldNode]:
    return ()


@dataclass(frozen=True)
class FieldNode:
    """A field with those that it holds; attributes as of `Field`.

    Attributes:
        below: gives what it holds.
        keys: names of the types that it holds the fields of; where it is within all of them, it is not listed again.
    """

    name: str
    type: str
    required: bool | None = None
    description: str = ""
    limits: str = ""
    note: str = ""
    below: Callable[[], Sequence[FieldNode]] = _nothing
    keys: frozenset[Any] = frozenset()


class TooInvolved(Exception):
    """A schema whose parts call each other too often."""


class PartCounter:
    """Counts the parts of a schema that are looked at."""

    def __init__(self) -> None:
        self._left = _MOST_STEPS

    def spend(self, count: int = 1) -> None:
        """Count parts.

        Raises:
            TooInvolved: there are too many.
        """
        self._left -= count
        if self._left < 0:
            raise TooInvolved("its parts call each other too often")


def listed(roots: Iterable[FieldNode], within: frozenset[Any] = frozenset()) -> Listing:
    """Lay out the fields of a schema.

    Args:
        roots: its outermost fields.
        within: keys of what they are the fields of.
    """
    results: list[Field] = []
    try:
        for field in _rows(roots, 0, within):
            if len(results) == MOST_ROWS:
                return Listing(results, is_more=True)
            results.append(field)
    except TooInvolved:
        return Listing(results, notes=("The parts of the schema call each other so often that not all fields are listed.",))
    return Listing(results)


def _rows(nodes: Iterable[FieldNode], depth: int, within: frozenset[Any]) -> Iterator[Field]:
    for node in nodes:
        below: Sequence[FieldNode] = ()
        note = node.note
        if node.keys and node.keys <= within:
            note = "recursion: the fields of its type are listed above"
        else:
            below = node.below()
            if below and depth == DEEPEST:
                note = f"too deep: {len(below)} more below"
                below = ()
        yield Field(depth, text_of(node.name), node.type, node.required, text_of(node.description), node.limits, note)
        yield from _rows(below, depth + 1, within | node.keys)


def one_of(values: Sequence[Any]) -> str:
    """Write the values of an enumeration; empty: there are none."""
    if not values:
        return ""
    more = len(values) - _MOST_VALUES
    return "one of " + ", ".join(map(value_text, values[:_MOST_VALUES])) + (f" and {more} more" if more > 0 else "")


def joined(parts: Iterable[str]) -> str:
    """Write what values must be as one text."""
    return text_of("; ".join(part for part in parts if part))


def value_text(value: Any) -> str:
    """Write a value that is given, which may be null."""
    return "null" if value is None else text_of(value)


def text_of(value: Any) -> str:
    """Write a value: a text as it is, else as JSON; cut where it is long."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else canonical_text(value)
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"


def words_of(schema: Any) -> str:
    """Write what a schema asks of a value besides its type."""
    if not isinstance(schema, dict):
        return ""
    values = schema.get("enum")
    details = [f"{name} {value_text(schema[name])}" for name in _WORDS if name in schema]
    return joined([one_of(values) if isinstance(values, list) else "", *details])
