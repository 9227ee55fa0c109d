"""What methods of `Catalog` give: results as a list that a notebook shows as a table, and that pandas and Arrow read.

Errors are in the words of Python, too: methods and arguments, where the command has commands and options.
"""

from __future__ import annotations

import html
import inspect
import json
import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import Any, SupportsIndex, TypeVar, overload

import pandas as pd
import pyarrow as pa

T = TypeVar("T")
_MOST_ROWS = 20
_MOST_CHARACTERS = 60
_PLAIN: tuple[set[type], ...] = ({str}, {bool}, {int}, {float}, {int, float})
_INT64 = 2**63
_COMMAND = re.compile(r"`lakehouse (?:--warehouse \S+ )?([a-z]+)((?: [^`]*)?)`")
_OPTION = re.compile(r"--([a-z][a-z-]*)(?: [A-Z]+\b)?")
_PLACEHOLDER = re.compile(r"\A[A-Z]+\Z|\A\d+\Z")


def fields_of(result: Any) -> list[dict[str, Any]]:
    """Return the fields of a result as one row, named as the command names them with `--json`."""
    if isinstance(result, dict):
        return [result]
    return [result.as_json() if hasattr(result, "as_json") else result._asdict()]


class Records(list[T]):
    """A list of results: it prints as a table; `to_pandas` and `to_arrow` return all of its rows and columns.

    Attributes:
        columns: the columns that are printed; empty: all.
        rows_of: returns the rows of a result, each a value by the name of its column.
    """

    def __init__(
        self,
        results: Iterable[T] = (),
        columns: Sequence[str] = (),
        rows_of: Callable[[Any], Iterable[dict[str, Any]]] = fields_of,
    ) -> None:
        super().__init__(results)
        self.columns = tuple(columns)
        self.rows_of = rows_of

    @overload
    def __getitem__(self, place: SupportsIndex) -> T: ...
    @overload
    def __getitem__(self, place: slice) -> Records[T]: ...
    def __getitem__(self, place: SupportsIndex | slice) -> T | Records[T]:
        """Return one result, or a part of them that prints and converts likewise."""
        if isinstance(place, slice):
            return Records(super().__getitem__(place), self.columns, self.rows_of)
        return super().__getitem__(place)

    def to_pandas(self) -> pd.DataFrame:
        """Return a pandas DataFrame, one row a result; nested values stay Python objects."""
        rows = self._rows()
        return pd.DataFrame(rows, columns=self._names(rows))

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table, one row a result; nested values, and columns of several types, are JSON text."""
        rows = self._rows()
        return pa.table({name: _arrow_column([row.get(name) for row in rows]) for name in self._names(rows)})

    def __repr__(self) -> str:
        """Return a table as text: the first rows, each value cut to a readable width."""
        names, cells, left_out = self._shown()
        if not cells:
            return "(no rows)"
        widths = [max(len(row[place]) for row in (names, *cells)) for place in range(len(names))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (names, *cells)
        ]
        return "\n".join([*lines, *([f"... and {left_out} more rows"] if left_out else [])])

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        names, cells, left_out = self._shown()
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in cells)
        more = f"<p>... and {left_out} more rows</p>" if left_out else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"

    def _rows(self) -> list[dict[str, Any]]:
        return [row for result in self for row in self.rows_of(result)]

    def _names(self, rows: list[dict[str, Any]]) -> list[str]:
        return list(dict.fromkeys(name for row in rows for name in row)) or list(self.columns)

    def _shown(self) -> tuple[list[str], list[list[str]], int]:
        rows = self._rows()
        names = list(self.columns) or self._names(rows)
        cells = [[_cell(row.get(name)) for name in names] for row in rows[:_MOST_ROWS]]
        return names, cells, max(0, len(rows) - _MOST_ROWS)


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else _as_json(value)
    text = "".join(character if character.isprintable() else " " for character in text)
    is_name = isinstance(value, str) and " " not in value  # XIDs and times are never cut
    return text if is_name or len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _arrow_column(values: list[Any]) -> list[Any]:
    types = {type(value) for value in values if value is not None}
    is_big = any(isinstance(value, int) and not -_INT64 <= value < _INT64 for value in values)
    if not is_big and any(types <= plain for plain in _PLAIN):
        return [float(value) if float in types and value is not None else value for value in values]
    if types == {list} and all(isinstance(item, str) for value in values for item in value or ()):
        return values
    return [None if value is None else _as_json(value) for value in values]


def for_python(text: str, methods: type) -> str:
    """Return a text with calls and arguments where it names commands and options.

    Args:
        text: such as "move it with `lakehouse label --move`".
        methods: the class whose methods are called like the commands; a command without a method stays as it is.
    """
    flags = {
        name
        for _, method in inspect.getmembers(methods, inspect.isfunction)
        for name, parameter in inspect.signature(method).parameters.items()
        if parameter.default is False
    }

    def call(rows: re.Match[str]) -> str:
        return _call(rows[1], rows[2], flags) if hasattr(methods, rows[1]) else rows[0].replace("--", "\0")

    text = _COMMAND.sub(call, text)
    return _OPTION.sub(lambda result: _argument(result[1], flags), text).replace("\0", "--")


def _argument(option: str, flags: set[str]) -> str:
    name = option.replace("-", "_")
    return f"{name}=True" if name in flags else f"{name}="


def _call(command: str, rest: str, flags: set[str]) -> str:
    """Write a command line as a call: `show /x --at 3` is `catalog.at(3).show('/x')`."""
    words, arguments, past = shlex.split(rest.replace("'", "\\'")), [], ""
    while words:
        word = words.pop(0)
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--"):
            arguments.append(_value(word))
        elif name in flags:
            arguments.append(f"{name}=True")
        else:
            value = _value(words.pop(0)) if words else "..."
            past, arguments = (f".at({value})", arguments) if name == "at" else (past, [*arguments, f"{name}={value}"])
    return f"`catalog{past}.{command}({', '.join(arguments)})`"


def _value(word: str) -> str:
    return word if _PLACEHOLDER.match(word) else repr(word)
