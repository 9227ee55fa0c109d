"""Attributes of a message as a person reads them: one row for each declaration, with the origin of each of its parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from lakehouse.site.templating import shown

_DECLARATION = re.compile(r"\A/(envelopemetadata|protocoloptions)/(.+)/(type|value|required|description|specurl)\Z")
_PARTS = ("value", "type", "required", "description", "specurl")
_INFERRED = "inferred"
_TITLES = {
    "envelopemetadata": "Envelope attributes",
    "protocoloptions": "Protocol options",
    "data": "Payload",
    "": "Definition",
}
_ORDER = ("type", "source", "id", "subject", "time", "specversion", "datacontenttype", "dataschema")


class Part(NamedTuple):
    """One value of a declaration.

    Attributes:
        text: as it is shown.
        origin: declared, inherited or inferred.
    """

    text: str = ""
    origin: str = ""


class Row(NamedTuple):
    """An attribute.

    Attributes:
        name: as shown.
        pointer: JSON Pointer of the declaration, or of the attribute.
        parts: value, type, required, description, specurl: what is told of it.
        origin: of what the definition itself says of it; `inferred` when it says nothing.
        declared_by: XID of the Version that says so; None: none does.
        depth: how many bases away that is.
    """

    name: str
    pointer: str
    parts: dict[str, Part]
    origin: str
    declared_by: str | None
    depth: int

    def part(self, name: str) -> Part:
        """Give a part; an empty one where nothing is told."""
        return self.parts.get(name, Part())

    @property
    def is_required(self) -> bool:
        """Tell that a message without it does not conform."""
        return self.part("required").text == "true"

    @property
    def is_declared(self) -> bool:
        """Tell that the definition itself says any of it."""
        return any(part.origin == "declared" for part in self.parts.values())


class Section(NamedTuple):
    """Attributes of one kind, under a heading; has_types: they are declarations, with type and required."""

    name: str
    title: str
    rows: list[Row]

    @property
    def has_types(self) -> bool:
        """Tell that any of them is a declaration with a type, or told to be required or not."""
        return any("type" in row.parts or "required" in row.parts for row in self.rows)


def sections_of(attributes: Iterable[dict[str, Any]]) -> list[Section]:
    """Gather attributes.

    Args:
        attributes: rows of `flat_attributes`: pointer, value, origin, declared_by, depth.
    """
    leaves: dict[tuple[str, str, str], list[tuple[str, dict[str, Any]]]] = {}
    for one in attributes:
        pointer = one["pointer"]
        found = _DECLARATION.match(pointer)
        if found is not None:
            key, part = (found[1], found[2], pointer[: -len(found[3]) - 1]), found[3]
        else:
            first, _, rest = pointer[1:].partition("/")
            section = first if first in ("envelopemetadata", "protocoloptions") else "data" if first.startswith("data") else ""
            name = rest if section in ("envelopemetadata", "protocoloptions") else pointer[1:]
            key, part = (section, name, pointer), "value"
        leaves.setdefault(key, []).append((part, one))
    sections: dict[str, list[Row]] = {"envelopemetadata": [], "protocoloptions": [], "data": [], "": []}
    for (section, name, pointer), parts in leaves.items():
        sections[section].append(_row(name, pointer, parts))
    return [Section(name, _TITLES[name], sorted(rows, key=_place)) for name, rows in sections.items() if rows]


def _row(name: str, pointer: str, parts: list[tuple[str, dict[str, Any]]]) -> Row:
    told: dict[str, Part] = {}
    for part, one in parts:
        if part not in told or told[part].origin == _INFERRED:  # what is written comes before what is inferred
            told[part] = Part(shown(one["value"]), one["origin"])
    said = [one for _, one in sorted(parts, key=lambda pair: _PARTS.index(pair[0])) if one["origin"] != _INFERRED]
    first = min(said, key=lambda one: one["depth"] if one["depth"] is not None else 10**6, default=None)
    readable = name.replace("~1", "/").replace("~0", "~")
    if first is None:
        return Row(readable, pointer, told, _INFERRED, None, 0)
    return Row(readable, pointer, told, first["origin"], first["declared_by"], first["depth"] or 0)


def _place(row: Row) -> tuple[int, str]:
    return (_ORDER.index(row.name) if row.name in _ORDER else len(_ORDER), row.name)
