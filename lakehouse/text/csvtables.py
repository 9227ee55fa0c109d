"""Tables that a package carries as CSV files, in its folder `data`."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

Row = TypeVar("Row", bound=tuple[Any, ...])


@cache
def read_table(package: str, name: str) -> list[dict[str, str]]:
    """Read `data/NAME.csv` of a package: one dict a row, keyed by the header."""
    text = (files(package) / "data" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


@cache
def read_rows(package: str, name: str, row: type[Row]) -> list[Row]:
    """Read `data/NAME.csv` of a package as rows of a type, so that mypy finds a column that is misspelt.

    Args:
        package: the package, such as `lakehouse.rules`.
        name: of the table.
        row: a NamedTuple whose fields are the table's columns, in their order, all of them texts.

    Raises:
        ValueError: the table has other columns, or a row has more or fewer cells.
    """
    fields: tuple[str, ...] = getattr(row, "_fields", ())
    rows = read_table(package, name)
    for number, cells in enumerate(rows, 2):
        if tuple(cells) != fields or None in cells.values():
            raise ValueError(f"{package}: data/{name}.csv, row {number}: the cells are not those of {', '.join(fields)}: {cells}")
    return [row(*cells.values()) for cells in rows]
