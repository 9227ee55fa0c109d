"""Texts of a batch of rows as columns: each distinct one once, and headers by their names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Rows = np.ndarray[Any, Any]  # numbers of rows, or a verdict for each
_LOOKED_AT = 512  # texts that tell whether a column repeats itself


class Held(NamedTuple):
    """Texts of rows that stand in a column.

    Attributes:
        values: the column.
        at: for each row the number of its text there; below 0: it has none.
    """

    values: pa.Array
    at: Rows

    def of(self, rows: Rows) -> Held:
        """Give the texts of some of the rows."""
        return Held(self.values, self.at[rows])

    def differs(self, other: Held) -> Rows:
        """Tell which rows have another text there; nothing is told of rows that have none."""
        if self.values is other.values:
            found: Rows = self.at != other.at
            return found & _not_equal(self, other) if found.any() else found
        return _not_equal(self, other)


def _not_equal(one: Held, other: Held) -> Rows:
    texts = (held.values.take(pa.array(held.at, mask=held.at < 0)) for held in (one, other))
    found: Rows = pc.fill_null(pc.not_equal(*texts), False).to_numpy(zero_copy_only=False)
    return found


class Texts:
    """The texts of one option or attribute over rows.

    Attributes:
        words: the texts; each stands there once, where the column repeats itself.
        codes: for each row the number of its text; `len(words)`: it has none.
        odd: the rows whose value is JSON, but no text; they have no text here. None: there are none.
    """

    def __init__(self, words: pa.Array, codes: Rows, odd: Rows | None = None, column: pa.Array | None = None) -> None:
        self.words, self.codes, self.odd, self._column = words, codes, odd, column

    @classmethod
    def of(cls, values: pa.Array, odd: Rows | None = None, *, distinct: bool = False) -> Texts:
        """Take each text of a column once; where few repeat themselves as they stand, but when all are to be `distinct`."""
        seen = values.slice(0, _LOOKED_AT)
        if distinct or len(seen) < _LOOKED_AT or len(seen.unique()) <= _LOOKED_AT // 2:
            encoded = values.dictionary_encode()
            codes = encoded.indices
            codes = pc.fill_null(codes, len(encoded.dictionary)) if codes.null_count else codes
            return cls(encoded.dictionary, codes.to_numpy(), odd, values)
        if not values.null_count:
            return cls(values, np.arange(len(values)), odd, values)
        is_there, words = values.is_valid().to_numpy(zero_copy_only=False), values.drop_null()
        return cls(words, np.where(is_there, np.cumsum(is_there) - 1, len(words)), odd, values)

    @cached_property
    def told(self) -> list[str | None]:
        """Give the texts, and None behind them for the rows that have none."""
        return [*self.words.to_pylist(), None]

    @property
    def is_absent(self) -> Rows:
        """Tell which rows have no text."""
        absent: Rows = self.codes == len(self.words)
        return absent

    def at(self, rows: Rows) -> Texts:
        """Give the texts of some rows."""
        return Texts(self.words, self.codes[rows], None if self.odd is None else self.odd[rows])

    def take(self, rows: Rows | None) -> pa.Array:
        """Give the texts of some rows as a column, of all when `rows` is None; NULL where there is none."""
        if self._column is not None:
            return self._column if rows is None else self._column.take(pa.array(rows))
        codes = self.codes if rows is None else self.codes[rows]
        return self.words.take(pa.array(codes, mask=codes == len(self.words)))

    def where(self, fits: Callable[[str], bool]) -> Rows:
        """Tell which rows have a text that something holds of."""
        found: Rows = np.array([text is not None and fits(text) for text in self.told], bool)[self.codes]
        return found


class Pairs:
    """Headers or user properties of rows, or options, of which a column is made when it is asked for.

    Attributes:
        texts: the values of all pairs.
    """

    def __init__(self, names: pa.Array, texts: pa.Array, parents: Rows, count: int) -> None:
        there = np.nonzero(pc.and_(pc.is_valid(texts), pc.is_valid(names)).to_numpy(zero_copy_only=False))[0]
        encoded = names.take(pa.array(there)).dictionary_encode()
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes.astype(np.uint16) if len(encoded.dictionary) < 2**16 else codes, kind="stable")
        self.texts, self._parents, self._count = texts, parents, count
        self._names = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
        self._order, self._starts = there[order], np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))

    @classmethod
    def of(cls, headers: pa.Array) -> tuple[Pairs | AlikePairs, Rows]:
        """Read the column `headers`.

        Returns:
            The pairs, and which rows hold nothing but UTF-8.
        """
        (names, values), is_text = headers.flatten().flatten(), np.ones(len(headers), bool)
        texts, bad = as_texts(values)
        if bad is None and not texts.null_count and are_alike(headers, names):
            return AlikePairs(names.slice(0, len(names) // len(headers)).to_pylist(), texts), is_text
        parents = pc.list_parent_indices(headers).to_numpy()
        if bad is not None:
            is_text[parents[bad]] = False
        return cls(names, texts, parents, len(headers)), is_text

    def column(self, name: str, rows: Rows) -> tuple[pa.Array, Rows | None]:
        """Give the last value of a name for some rows, and which rows have several; None: no row has."""
        code = self._names.get(name)
        if code is None:
            return pa.nulls(len(rows), pa.string()), None
        at = self._order[self._starts[code] : self._starts[code + 1]]
        parents = self._parents[at]
        last = np.full(self._count, -1)
        last[parents] = at  # in order, so the last of a name stays
        repeats = None
        if len(at) > 1 and (parents[1:] == parents[:-1]).any():
            repeats = (np.bincount(parents, minlength=self._count) > 1)[rows]
        found = last[rows]
        return self.texts.take(pa.array(found, mask=found < 0)), repeats


class AlikePairs:
    """Pairs of rows that all have the same names in the same order."""

    def __init__(self, names: list[str], texts: pa.Array) -> None:
        self._names, self.texts = names, texts

    def column(self, name: str, rows: Rows) -> tuple[pa.Array, Rows | None]:
        """Give the last value of a name for some rows, and which rows have several, as `Pairs.column` does."""
        places = [at for at, one in enumerate(self._names) if one == name]
        if not places:
            return pa.nulls(len(rows), pa.string()), None
        return self.texts.take(pa.array(rows * len(self._names) + places[-1])), np.ones(len(rows), bool) if places[1:] else None


def are_alike(lists: pa.Array, texts: pa.Array) -> bool:
    """Tell whether all lists of a column hold the same texts in the same order.

    Args:
        lists: the column.
        texts: what stands in the lists, or a part of it, flattened.
    """
    if not len(lists) or lists.null_count or texts.null_count or len(texts) % len(lists):
        return False
    width = len(texts) // len(lists)
    if not bool(np.all(lists.value_lengths().to_numpy() == width)):
        return False
    if width == 0:
        return True
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    step, first, size = int(ends[width] - ends[0]), int(ends[0]), int(ends[-1] - ends[0])
    if data is None or not bool(np.all(ends[width:] - ends[:-width] == step)):
        return size == 0
    written = data.slice(first, size)  # moved by the texts of one list, it is the same again
    return bool(written.slice(step).equals(written.slice(0, size - step)))


def as_texts(values: pa.Array) -> tuple[pa.Array, Rows | None]:
    """Read bytes as UTF-8.

    Returns:
        The texts, NULL for what is not UTF-8; and which are not, None when all are.
    """
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        read = [_decoded(value) for value in values.to_pylist()]
        bad = np.array([text is None for text in read]) & pc.is_valid(values).to_numpy(zero_copy_only=False)
        return pa.array(read, pa.string()), bad


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
