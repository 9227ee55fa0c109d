"""Rows of the Delta tables become rows of SQLite: column by column, maps and lists as JSON text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from lakehouse.readmodel.file.schema import BOOLEAN_COLUMNS, EFFECTIVE_COLUMNS, LOG_COLUMNS, VIOLATION_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa


def log_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Give rows of `changes` in the order of `LOG_COLUMNS`; dates in microseconds since 1970."""
    return zip(*(_column(batch, name) for name in LOG_COLUMNS), strict=True)


def effective_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Give rows of `effective_messages` in the order of `EFFECTIVE_COLUMNS`."""
    return zip(*(_column(batch, name) for name in EFFECTIVE_COLUMNS), strict=True)


def violation_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Give rows of `violations` in the order of `VIOLATION_COLUMNS`."""
    return zip(*(_column(batch, name) for name in VIOLATION_COLUMNS), strict=True)


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    import pyarrow as pa

    column = batch.column(batch.schema.get_field_index(name))
    if pa.types.is_map(column.type):
        return _maps(column)
    if pa.types.is_list(column.type):
        return _lists(column)
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    values: list[Any] = column.to_pylist()
    return [None if value is None else int(value) for value in values] if name in BOOLEAN_COLUMNS else values


def _maps(column: pa.MapArray) -> list[str | None]:
    """Write maps as JSON objects, out of two flat columns: a Python object for each pair would take most of the time."""
    ends = column.offsets.to_pylist()
    first, count = ends[0], ends[-1] - ends[0]  # the flat columns are those of the whole row group
    keys, items = column.keys.slice(first, count).to_pylist(), column.items.slice(first, count).to_pylist()
    null = column.is_null().to_pylist()
    found: list[str | None] = []
    for row, is_null in enumerate(null):
        if is_null:
            found.append(None)
        else:
            start, end = ends[row] - first, ends[row + 1] - first
            found.append(orjson.dumps(dict(zip(keys[start:end], items[start:end], strict=True))).decode())
    return found


def _lists(column: pa.ListArray) -> list[str | None]:
    """Write lists as JSON arrays; the same list is written once."""
    ends = column.offsets.to_pylist()
    first, count = ends[0], ends[-1] - ends[0]
    values = column.values.slice(first, count).to_pylist()
    null = column.is_null().to_pylist()
    known: dict[tuple[str, ...], str] = {}
    found: list[str | None] = []
    for row, is_null in enumerate(null):
        if is_null:
            found.append(None)
            continue
        items = tuple(values[ends[row] - first : ends[row + 1] - first])
        text = known.get(items)
        if text is None:
            text = known[items] = orjson.dumps(items).decode()
        found.append(text)
    return found
