"""Rows of a query in the formats that people and other programs read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import click

from lakehouse.cli.printing import one_line, printable, show_table

FORMATS = ("table", "csv", "json", "markdown", "vertical")


def show_rows(form: str, columns: list[str], rows: Iterable[list[str | None]]) -> None:
    """Print rows in one of `FORMATS` other than JSON.

    Args:
        form: the format.
        columns: names of the columns.
        rows: texts of the values; None is NULL, which CSV writes as an empty field.
    """
    if form == "table":
        show_table(columns, rows)
    elif form == "csv":
        click.echo(_csv_line(columns), nl=False)
        for row in rows:
            click.echo(_csv_line(row), nl=False)
    elif form == "markdown":
        click.echo(_markdown_line(columns))
        click.echo(_markdown_line(["---"] * len(columns)))
        for row in rows:
            click.echo(_markdown_line(row))
    else:
        _show_vertical(columns, rows)


def _csv_line(row: Iterable[str | None]) -> str:
    """Return a line as RFC 4180 has it; values are data for a program, so they keep all their characters."""
    line = io.StringIO()
    csv.writer(line).writerow(["" if value is None else value for value in row])
    return line.getvalue()


def _markdown_line(row: Iterable[str | None]) -> str:
    cells = ("NULL" if value is None else one_line(value).replace("|", "\\|") for value in row)
    return f"| {' | '.join(cells)} |"


def _show_vertical(columns: list[str], rows: Iterable[list[str | None]]) -> None:
    width = max(map(len, columns), default=0)
    for number, row in enumerate(rows, 1):
        click.echo(f"-- row {number} --")
        for column, value in zip(columns, row, strict=True):
            click.echo(f"{printable(column):{width}}  {'NULL' if value is None else printable(value)}".rstrip())
