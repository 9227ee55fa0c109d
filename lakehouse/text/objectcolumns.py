"""JSON objects of one kind, read by Arrow into columns, with the same values that Python reads.

Arrow reads no member that it does not know and no value of another type, so what it reads is what Python would read, with two
exceptions: it does not distinguish a null from a member that is absent, nor 1 from 1.0 in a column that has fractions. Both are
seen in the texts: a text has as many members as the columns, or more by its nulls; and whole numbers among fractions are left to
Python, as is whatever Arrow refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

FEWEST = 24  # objects; fewer are quicker in Python
_MOST_FIELDS = 300
_LOOKED_AT = 256  # objects whose members are learned at a time
_MOST_BRACKETS = 200  # of an object whose members are learned
_PASSES = 4  # how often texts may be read before the rest is left to Python
_PATIENCE = 3  # times that most texts of a kind may be left, until none is read in columns
Rows = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class ReadObjects(NamedTuple):
    """Objects in columns.

    Attributes:
        rows: their numbers among the texts.
        objects: a struct for each.
        has_nulls: of which objects the empty cells are nulls; of others the members are absent.
    """

    rows: Rows
    objects: pa.StructArray
    has_nulls: Flags


@dataclass
class ObjectReader:
    """Reads the objects of a kind, and learns their members.

    Attributes:
        schema: the members that are known.
        patience: how often most texts may still be left to Python.
    """

    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    patience: int = _PATIENCE

    def read(self, texts: pa.BinaryArray) -> Iterator[ReadObjects]:
        """Yield the texts that columns hold; what is not among them is left to Python."""
        if not self.patience:
            return
        begun = _braced(texts)
        parts, passes, left = [(begun, True)], _PASSES * len(begun), len(texts)
        while parts:
            rows, learns = parts.pop()
            passes -= len(rows)
            if len(rows) < FEWEST or passes < 0:
                continue
            part = texts if len(rows) == len(texts) else texts.take(pa.array(rows))
            objects = self._objects(part)
            if objects is None and learns and self._learn(part):
                objects = self._objects(part)
            if objects is None:
                parts += [(half, False) for half in np.array_split(rows, 2)]
                continue
            is_sure, has_nulls = _checked(part, objects)
            if not is_sure.all():
                rows, objects, has_nulls = rows[is_sure], objects.filter(pa.array(is_sure)), has_nulls[is_sure]
            left -= len(rows)
            if len(rows):
                yield ReadObjects(rows, objects, has_nulls)
        self.patience = max(0, self.patience - (2 * left > len(texts)))

    def _objects(self, texts: pa.BinaryArray) -> pa.StructArray | None:
        """Read objects whose members are known; None: one of them is another."""
        table = _read(texts, pj.ParseOptions(explicit_schema=self.schema, unexpected_field_behavior="error"))
        return None if table is None else pa.concat_arrays(table.to_struct_array().chunks)

    def _learn(self, texts: pa.BinaryArray) -> bool:
        """Learn members; return whether some were new. Of members whose types differ the first is kept."""
        schema = self.schema
        parts = [texts.slice(start, _LOOKED_AT) for start in range(0, len(texts), _LOOKED_AT)]
        while parts:
            part = parts.pop()
            if any(body.count(b"{") + body.count(b"[") > _MOST_BRACKETS for body in part.to_pylist()):
                table = None
            else:
                table = _read(part, pj.ParseOptions())
            try:
                if table is not None:
                    schema = pa.unify_schemas([schema, pa.schema(list(_texts_in(table.schema)))], promote_options="permissive")
                elif len(part) >= FEWEST:
                    parts += [part.slice(0, len(part) // 2), part.slice(len(part) // 2)]
            except (pa.ArrowInvalid, pa.ArrowTypeError):
                continue
            if _fields(schema) > _MOST_FIELDS:
                self.patience = 0
                return False
        is_new = schema != self.schema
        self.schema = schema
        return bool(is_new)


def _read(texts: pa.BinaryArray, options: pj.ParseOptions) -> pa.Table | None:
    """Read objects, each in braces; None: they cannot be read, or two are in one text."""
    size = pc.sum(pc.binary_length(texts)).as_py()
    first = int(_ends(texts)[0])
    try:
        texts.cast(pa.string())  # the reader takes bytes that are not UTF-8
        source = pa.BufferReader(texts.buffers()[2].slice(first, size))
        table = pj.read_json(source, pj.ReadOptions(use_threads=False, block_size=size + 1), options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    return table if table.num_rows == len(texts) else None


def _ends(texts: pa.BinaryArray) -> npt.NDArray[np.int32]:
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]


def _braced(texts: pa.BinaryArray) -> Rows:
    """Return which texts begin and end with a brace: in a row they are as many objects, or no JSON."""
    ends, written = _ends(texts), np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    at = np.nonzero(np.diff(ends) > 1)[0]
    rows: Rows = at[(written[ends[at]] == ord("{")) & (written[ends[at + 1] - 1] == ord("}"))]
    return rows


def _texts_in(fields: pa.Schema | pa.StructType) -> Iterator[pa.Field]:
    """Yield members as they are written: what looks like a time is a text."""
    return (pa.field(member.name, _written_type(member.type)) for member in fields)


def _written_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(list(_texts_in(kind)))
    if pa.types.is_list(kind):
        return pa.list_(_written_type(kind.value_type))
    return pa.string() if pa.types.is_timestamp(kind) else kind


def _fields(kind: pa.Schema | pa.DataType) -> int:
    if isinstance(kind, pa.ListType):
        return _fields(kind.value_type)
    return sum(1 + _fields(member.type) for member in kind) if isinstance(kind, pa.Schema | pa.StructType) else 0


def _checked(texts: pa.BinaryArray, objects: pa.StructArray) -> tuple[Flags, Flags]:
    """Return which objects are as columns hold them, and of which of them the empty cells are nulls."""
    members, is_sure, is_escaped = _members_written(texts)
    cells = _Cells(texts, is_escaped, np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64), is_sure)
    cells.add(objects, np.arange(len(texts)))
    nulls = members - cells.filled
    return is_sure & ((nulls == 0) | (nulls == cells.empty)), nulls > 0


def _members_written(texts: pa.BinaryArray) -> tuple[Rows, Flags, Flags]:
    """Return how many members texts have (a quote before a colon ends a name), where that is certain, and which have escapes."""
    ends = _ends(texts)
    written = np.frombuffer(texts.buffers()[2], np.uint8)[ends[0] : ends[-1]]
    is_name = (written[1:] == ord(":")) & (written[:-1] == ord('"'))
    members = np.add.reduceat(is_name.view(np.uint8), ends[:-1] - ends[0], dtype=np.int64)
    is_sure, is_escaped = np.ones(len(texts), bool), np.zeros(len(texts), bool)
    escapes = np.nonzero(written == ord("\\"))[0]
    is_escaped[np.searchsorted(ends[1:] - ends[0], escapes, "right")] = True
    for row in np.nonzero(is_escaped)[0].tolist():
        body = texts[row].as_py()
        members[row] -= body.count(b'\\":')
        is_sure[row] = b'\\\\"' not in body
    return members, is_sure, is_escaped


class _Cells(NamedTuple):
    """Cells of each object, at any depth: those that hold something, the others; and which objects have nothing in doubt."""

    texts: pa.BinaryArray
    is_escaped: Flags
    filled: Rows
    empty: Rows
    is_sure: Flags

    def add(self, objects: pa.StructArray, rows: Rows) -> None:
        """Count the cells of objects, which are in these rows."""
        for member, cell in zip(objects.type, objects.flatten(), strict=True):
            of_cell = rows
            if cell.null_count:
                is_there = cell.is_valid().to_numpy(zero_copy_only=False)
                self.empty[:] += np.bincount(rows[~is_there], minlength=len(self.filled))
                cell, of_cell = cell.drop_null(), rows[is_there]  # noqa: PLW2901
            self.filled[:] += np.bincount(of_cell, minlength=len(self.filled))
            self._look(member.name, cell, of_cell)

    def _look(self, name: str | None, values: pa.Array, rows: Rows) -> None:
        """Look at the values of a member; an item of an array has no name."""
        if pa.types.is_floating(values.type):
            numbers = values.to_numpy()
            self.is_sure[rows[~np.isfinite(numbers)]] = False
            self._doubt(name, np.unique(rows[np.trunc(numbers) == numbers]))
        elif pa.types.is_struct(values.type):
            self.add(values, rows)
        elif pa.types.is_list(values.type):
            items, parents = values.flatten(), pc.list_parent_indices(values).to_numpy()
            is_there = items.is_valid().to_numpy(zero_copy_only=False)
            self._look(None, items.drop_null(), rows[parents[is_there]])

    def _doubt(self, name: str | None, rows: Rows) -> None:
        """Doubt objects with whole numbers in a column of fractions, unless no whole number is written after the name."""
        if name is not None and len(rows):
            whole = rf'"{re.escape(name)}"\s*:\s*-?\d+\s*[,}}]'
            is_whole = pc.match_substring_regex(self.texts.take(pa.array(rows)), whole).to_numpy(zero_copy_only=False)
            rows = rows[is_whole | self.is_escaped[rows]]
        self.is_sure[rows] = False
