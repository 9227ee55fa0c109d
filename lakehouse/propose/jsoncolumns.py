"""JSON objects in columns, counted as `KindCounts.count` counts values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.valuetypes import as_text
from lakehouse.propose.eventcounts import MOST_DEPTH, KindCounts, add_lengths
from lakehouse.propose.pathcounts import ITEM, MOST_VALUES
from lakehouse.text.objectcolumns import Flags

_JSON_TYPES = {"struct": "object", "list": "array", "string": "string", "bool": "boolean", "int64": "integer", "double": "number",
               "null": "null"}  # fmt: skip


def count_objects(counts: KindCounts, path: str, objects: pa.StructArray, has_nulls: Flags) -> None:
    """Count objects at a path, and what they hold below it; none is null.

    Args:
        counts: of their kind and day.
        path: where they are.
        objects: in columns.
        has_nulls: of which objects the empty cells are nulls.
    """
    own, cells = counts.at(path, "object"), objects.flatten()
    own.events += len(objects)
    there = [cell.is_valid().to_numpy(zero_copy_only=False) | has_nulls for cell in cells]
    widths = np.sum(there, axis=0) if there else np.zeros(1, np.int64)
    add_lengths(own, [int(widths.min()), int(widths.max())])
    if path.count("/") < MOST_DEPTH:
        for one, cell, is_there in zip(objects.type, cells, there, strict=True):
            if is_there.any():
                count_cells(counts, counts.place(path, one.name), cell, has_nulls)


def count_cells(counts: KindCounts, path: str, cells: pa.Array, has_nulls: Flags) -> None:
    """Count the cells of a column at a path: of empty ones those that are nulls."""
    if cells.null_count:
        is_there = cells.is_valid().to_numpy(zero_copy_only=False)
        nulls = int((has_nulls & ~is_there).sum())
        if nulls:
            counts.add_events(path, "null", nulls)
        cells, has_nulls = cells.drop_null(), has_nulls[is_there]
    if not len(cells):
        return
    if pa.types.is_struct(cells.type):
        count_objects(counts, path, cells, has_nulls)
    elif pa.types.is_list(cells.type):
        _count_lists(counts, path, cells, has_nulls)
    elif pa.types.is_string(cells.type):
        counts.count_text_column(path, cells)
    elif pa.types.is_boolean(cells.type):
        own = counts.at(path, "boolean")
        own.events += len(cells)
        counts.keep(path, own, {as_text(value): times for value, times in times_of(cells).items()})
    else:
        _count_numbers(counts, path, cells)


def _count_lists(counts: KindCounts, path: str, lists: pa.ListArray, has_nulls: Flags) -> None:
    own, lengths = counts.at(path, "array"), lists.value_lengths().to_numpy()
    own.events += len(lists)
    add_lengths(own, [int(lengths.min()), int(lengths.max())])
    items = lists.flatten()
    if not len(items) or path.count("/") >= MOST_DEPTH:
        return
    has_nulls = has_nulls[pc.list_parent_indices(lists).to_numpy()]
    if items.null_count:
        counts.add_events(f"{path}/{ITEM}", "null", items.null_count)
        items, has_nulls = items.drop_null(), has_nulls[items.is_valid().to_numpy(zero_copy_only=False)]
    count_cells(counts, f"{path}/{ITEM}", items, has_nulls)


def times_of(column: pa.Array) -> dict[Any, int]:
    """Return how often each value of a column was there; none is null."""
    counted = column.value_counts()
    return dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True))


def _count_numbers(counts: KindCounts, path: str, column: pa.Array) -> None:
    own = counts.at(path, json_type(column.type))
    own.events += len(column)
    is_few = own.values is not None and pc.count_distinct(column).as_py() <= MOST_VALUES
    counts.keep_numbers(path, own, column.to_numpy().astype(np.float64), times_of(column) if is_few else None)


def json_type(kind: pa.DataType) -> str:
    """Return the JSON type of the values of a column."""
    return _JSON_TYPES[str(kind).partition("<")[0]]
