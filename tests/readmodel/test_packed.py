"""Texts that are compressed together are read as they were written, each as often as it is asked for, and from any state."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Sequence

import pytest

from lakehouse.readmodel.file.packed import ROWS, Packs, let_read
from lakehouse.readmodel.file.sqliteschema import ReadConnection

TEXTS = Packs("texts_of_rows", ("first_text", "second_text"))


@pytest.fixture
def db() -> ReadConnection:
    opened = sqlite3.connect(":memory:", isolation_level=None, factory=ReadConnection)
    opened.executescript(f"CREATE TABLE kept (id INTEGER PRIMARY KEY); {TEXTS.ddl}")
    let_read(opened, [TEXTS])
    return opened


def add(db: ReadConnection, rows: Sequence[tuple[str | None, str | None]]) -> int:
    first = TEXTS.next_id(db)
    db.executemany("INSERT INTO kept VALUES (?)", ((number,) for number, _ in enumerate(rows, first)))
    TEXTS.add(db, first, rows)
    return first


def delete(db: ReadConnection, ids: list[int]) -> None:
    db.executemany("DELETE FROM kept WHERE id = ?", ((one,) for one in ids))
    TEXTS.drop_unused(db, "kept", ids)


def read(db: ReadConnection) -> dict[int, tuple[str | None, str | None]]:
    return {number: tuple(texts) for number, *texts in db.execute(f"SELECT id, {TEXTS.select(TEXTS.columns)} FROM kept")}


@pytest.mark.parametrize("seed", range(5))
def test_what_is_left_is_read_as_it_was_written(db, seed):
    drawn = random.Random(seed)
    expected: dict[int, tuple[str | None, str | None]] = {}
    numbers: set[int] = set()
    longest = "x" * 300_000
    for _ in range(12):
        texts = (None, "", "a" * drawn.randint(1, 400), "ü€😀" * drawn.randint(1, 9))
        rows = [(drawn.choice(texts), drawn.choice(texts)) for _ in range(drawn.randint(1, 3 * ROWS))]
        rows[drawn.randrange(len(rows))] = (longest, None)
        first = add(db, rows)
        new = set(range(first, first + len(rows)))
        assert not new & numbers, "a number was given again"
        numbers |= new
        expected |= dict(zip(sorted(new), rows, strict=True))
        gone = drawn.sample(sorted(expected), drawn.randint(0, len(expected)))
        delete(db, gone)
        for one in gone:
            del expected[one]
        assert read(db) == expected


def test_texts_of_deleted_rows_take_no_room_but_for_the_newest(db):
    first = add(db, [("a", "b")] * (3 * ROWS))
    delete(db, list(range(first, first + 3 * ROWS)))
    assert db.execute(f"SELECT count(*) FROM {TEXTS.table}").fetchone()[0] == 1
    assert add(db, [("c", None)]) == first + 3 * ROWS


def test_what_is_not_there_is_an_error_and_no_empty_text(db):
    add(db, [("a", "b")])
    with pytest.raises(sqlite3.DatabaseError):
        db.execute(f"SELECT {TEXTS.table}(99, 0)").fetchone()
