"""Tables that a package carries as CSV files, in its folder `data`."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files


@cache
def read_table(package: str, name: str) -> list[dict[str, str]]:
    """Read `data/NAME.csv` of a package: one dict a row, keyed by the header."""
    text = (files(package) / "data" / f"{name}.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))
