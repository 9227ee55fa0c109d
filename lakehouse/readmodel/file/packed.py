"""Long texts of a read model, compressed together with those of neighbouring rows: alike rows shrink to a tenth.

A table of packs has a row for the texts of up to `ROWS` rows of another table, with numbers that follow each other. A pack is
never changed, and its numbers are not given again: a reader may remember what it has read. In SQL, a function reads one text.
"""

from __future__ import annotations

import sqlite3
import weakref
import zlib
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

ROWS = 32  # of a pack: more shrink little further, and take longer to read one text of them
_CHARACTERS = 1 << 18  # of a pack of several rows
_LEVEL = 3
_MOST_CACHED = 64  # packs that a connection remembers


class Packs(NamedTuple):
    """A table of packs.

    Attributes:
        table: its name, which is that of the function in SQL too: `table(id, column)`.
        columns: the texts of a row.
    """

    table: str
    columns: tuple[str, ...]

    @property
    def ddl(self) -> str:
        """Return the statement that creates the table."""
        return f"CREATE TABLE {self.table} (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, texts BLOB NOT NULL);"

    def row_columns(self, columns: Iterable[str]) -> list[str]:
        """Return those of some columns that are kept with the row."""
        return [name for name in columns if name not in self.columns]

    def select(self, columns: Iterable[str]) -> str:
        """Return columns of a row as a SELECT names them: those that are kept here by the function, of the row's `id`."""
        here = {name: f"{self.table}(id, {at}) AS {name}" for at, name in enumerate(self.columns)}
        return ", ".join(here.get(name, name) for name in columns)

    def next_id(self, db: sqlite3.Connection) -> int:
        """Return the number of the next row that is added: no row has or had it."""
        row = db.execute(f"SELECT last FROM {self.table} ORDER BY first DESC LIMIT 1").fetchone()
        return 1 if row is None else int(row[0]) + 1

    def add(self, db: sqlite3.Connection, first: int, rows: Iterable[Sequence[str | None]]) -> None:
        """Add the texts of rows that are numbered from `first` on."""
        packs = [(at, at + len(some) - 1, _packed(some)) for at, some in _parts(list(rows), first)]
        db.executemany(f"INSERT INTO {self.table} VALUES (?, ?, ?)", packs)

    def drop_unused(self, db: sqlite3.Connection, rows: str, deleted: Collection[int]) -> None:
        """Delete the packs of deleted rows in which no row is left; the newest stays, so that its numbers are not given again.

        Args:
            db: the file, within a transaction.
            rows: the table whose texts these are.
            deleted: numbers of rows that were deleted.
        """
        last = db.execute(f"SELECT max(first) FROM {self.table}").fetchone()[0]
        db.executemany(
            f"DELETE FROM {self.table} WHERE first = (SELECT max(first) FROM {self.table} WHERE first <= ?1) AND first < ?2"
            f" AND NOT EXISTS (SELECT 1 FROM {rows} AS r WHERE r.id BETWEEN {self.table}.first AND {self.table}.last)",
            ((number, last) for number in deleted),
        )


def _parts(rows: list[Sequence[str | None]], first: int) -> Iterator[tuple[int, list[Sequence[str | None]]]]:
    """Yield rows that go into one pack, with the number of the first; what is very long is in a pack by itself."""
    for start in range(0, len(rows), ROWS):
        some = rows[start : start + ROWS]
        is_long = sum(len(text) for row in some for text in row if text) > _CHARACTERS
        yield from [(first + start + at, [row]) for at, row in enumerate(some)] if is_long else [(first + start, some)]


def _packed(rows: list[Sequence[str | None]]) -> bytes:
    """Compress the texts of some rows: how many there are, their lengths (-1: there is none), then themselves."""
    texts = list(chain.from_iterable(rows))
    lengths = array("i", [-1 if text is None else len(text) for text in texts])
    head = len(texts).to_bytes(4, "little") + lengths.tobytes()
    return zlib.compress(head + "".join(filter(None, texts)).encode(), _LEVEL)


class _Pack(NamedTuple):
    first: int
    last: int
    texts: list[str | None]


class _Reader:
    """Reads the texts of one table of packs through one connection."""

    def __init__(self, db: sqlite3.Connection, packs: Packs) -> None:
        self._db = weakref.ref(db)  # the connection holds the reader
        self._packs = packs
        self._width = len(packs.columns)
        self._cache: OrderedDict[int, _Pack] = OrderedDict()
        self._newest = _Pack(0, -1, [])

    def __call__(self, number: int | None, column: int) -> str | None:
        """Return a text of a row; None: there is none."""
        if number is None:
            return None
        first, last, texts = self._newest
        if not first <= number <= last:
            first, _, texts = self._newest = self._pack(number)
        return texts[(number - first) * self._width + column]

    def _pack(self, number: int) -> _Pack:
        key = number // ROWS
        pack = self._cache.get(key)
        if pack is None or not pack.first <= number <= pack.last:
            pack = self._cache[key] = self._read(number)
            if len(self._cache) > _MOST_CACHED:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(key)
        return pack

    def _read(self, number: int) -> _Pack:
        db = self._db()
        assert db is not None
        query = f"SELECT first, last, texts FROM {self._packs.table} WHERE first <= ? ORDER BY first DESC LIMIT 1"
        rows = db.execute(query, (number,)).fetchall()
        if not rows or rows[0][1] < number:
            raise ValueError(f"{self._packs.table} has no texts of row {number}")
        first, last, texts = rows[0]
        data = zlib.decompress(texts)
        count = int.from_bytes(data[:4], "little")
        lengths = array("i", data[4 : 4 + 4 * count])
        text = str(data[4 + 4 * count :], "utf-8")
        ends = accumulate(max(length, 0) for length in lengths)
        return _Pack(
            first, last, [None if length < 0 else text[end - length : end] for length, end in zip(lengths, ends, strict=True)]
        )


def let_read(db: sqlite3.Connection, every: Iterable[Packs]) -> None:
    """Let a connection read texts, by a function of SQL that is named as the table."""
    for packs in every:
        db.create_function(packs.table, 2, _Reader(db, packs), deterministic=True)
    db.execute("PRAGMA trusted_schema = ON")  # views of the file call these functions
