"""The read model is built from the Delta tables, and follows them commit by commit.

Both ways go through the same steps, so a file that followed holds what a file that was built again holds; a test compares them.
What cannot be followed is built again: another table at the same place, a log that lost its tail, counts that do not fit.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.failpoints import crash_point
from lakehouse.readmodel.file import sqliteschema, words
from lakehouse.readmodel.file.delta import READ, TableVersion, Warehouse, batches, recorded_position, row_count, statistics
from lakehouse.readmodel.file.packed import Packs
from lakehouse.readmodel.file.sqliteschema import (
    EFFECTIVE_COLUMNS,
    EFFECTIVE_TEXTS,
    FORMAT,
    INDEXES,
    LOG_COLUMNS,
    LOG_INDEXES,
    LOG_TEXTS,
    NEVER,
    VIOLATION_COLUMNS,
    connect,
    create,
    edges_of,
    schema_row_of,
    version_uri_of,
)
from lakehouse.text.names import RegistryId, Xid

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

Progress = Callable[[int, int | None], None]
_COMMIT = ("snapshot_id", "kind", "body")
_INSERT_VIOLATION = f"INSERT OR IGNORE INTO violations VALUES ({', '.join('?' * len(VIOLATION_COLUMNS))})"


class _Rows:
    """A table of which some columns are packed.

    Args:
        table: its name.
        columns: of the rows that are added.
        packs: those of their texts.
        rest: further columns, the same of all rows that are added.
    """

    def __init__(self, table: str, columns: tuple[str, ...], packs: Packs, **rest: int) -> None:
        self.table, self.packs = table, packs
        row_columns = packs.row_columns(columns)
        self._of_row = itemgetter(*map(columns.index, row_columns))
        self._texts = itemgetter(*map(columns.index, packs.columns))
        names = ", ".join(("id", *row_columns, *rest))
        same = "".join(f", {value}" for value in rest.values())
        self._insert = f"INSERT INTO {table} ({names}) VALUES (?{', ?' * len(row_columns)}{same})"

    def add(self, db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> int:
        """Add rows; return the number of the first."""
        first = self.packs.next_id(db)
        db.executemany(self._insert, ((number, *self._of_row(row)) for number, row in enumerate(rows, first)))
        self.packs.add(db, first, map(self._texts, rows))
        return first

    def delete(self, db: sqlite3.Connection, ids: Collection[int]) -> None:
        """Delete rows."""
        db.executemany(f"DELETE FROM {self.table} WHERE id = ?", ((row_id,) for row_id in ids))
        self.packs.drop_unused(db, self.table, ids)


_LOG = _Rows("log_rows", LOG_COLUMNS, LOG_TEXTS, until=NEVER)
_EFFECTIVE = _Rows("effective_rows", EFFECTIVE_COLUMNS, EFFECTIVE_TEXTS)


class CannotFollow(Exception):
    """The file does not go on to what the tables hold now; it has to be built again."""


class Facts:
    """What a file says of itself, by name, as JSON."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db

    def __getitem__(self, name: str) -> Any:
        result = self.db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if result is None else json.loads(result[0])

    def __setitem__(self, name: str, value: Any) -> None:
        self.db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    def table_versions(self) -> dict[str, TableVersion]:
        """Return the versions of the Delta tables that the file was made from."""
        return {name: TableVersion(*fields) for name, fields in (self["tables"] or {}).items()}


def build(warehouse: Warehouse, file: Path, progress: Progress | None = None) -> None:
    """Build a file that is whole when this returns.

    Args:
        warehouse: the tables.
        file: that is not there yet.
        progress: is called with how many rows are done, and of how many.

    Raises:
        WarehouseError: the warehouse holds no catalog.
    """
    # Effective definitions follow the log, and findings precede it: read in this order, neither is ahead nor missing.
    opened = {name: warehouse.open(name) for name in ("effective_messages", "changes", "violations")}
    counts = {name: row_count(statistics(table)) for name, table in opened.items()}
    reporter = _Counter(progress, None if None in counts.values() else sum(count or 0 for count in counts.values()))
    db = create(file)
    try:
        db.execute("BEGIN")
        _take_log(db, opened["changes"], None, reporter)
        for statement in LOG_INDEXES.split(";"):
            db.execute(statement)
        _number(db, 0)
        _replace(db, 0)
        _take_definitions(db, opened["effective_messages"], reporter)
        _take_violations(db, opened["violations"], reporter)
        db.execute("DELETE FROM violations WHERE rowid NOT IN (SELECT min(rowid) FROM violations GROUP BY violation_id)")
        for statement in INDEXES.split(";"):
            db.execute(statement)
        facts = _write_facts(db, warehouse, opened, counts["violations"])
        facts["effective"] = int(db.execute("SELECT count(*) FROM effective").fetchone()[0])
        _check_counts(db, facts, counts)
        crash_point("readmodel_build")
        db.execute("COMMIT")
        db.execute("PRAGMA analysis_limit = 1000")
        db.execute("ANALYZE")
    finally:
        db.close()
    _make_durable(file)


def follow(db: sqlite3.Connection, warehouse: Warehouse) -> None:
    """Roll a file forward to the tables' current rows, in one transaction.

    Args:
        db: opened for writing, by whoever holds the lock.
        warehouse: the tables.

    Raises:
        CannotFollow: it has to be built again.
        WarehouseError: the warehouse holds no catalog any more.
    """
    facts = Facts(db)
    earlier = facts.table_versions()
    if facts["format"] != FORMAT or set(earlier) != set(READ):
        raise CannotFollow
    opened = {name: warehouse.newest(name) for name in ("effective_messages", "changes", "violations")}
    for name, table in opened.items():
        if str(table.metadata().id) != earlier[name].id or table.version() < earlier[name].version:
            raise CannotFollow
    files = statistics(opened["changes"])
    counts = {"changes": row_count(files)}
    for name, fact in (("effective_messages", "effective"), ("violations", "violations")):
        is_same = opened[name].version() == earlier[name].version
        counts[name] = facts[fact] if is_same else row_count(statistics(opened[name]))
    db.execute("BEGIN IMMEDIATE")
    try:
        touched = _follow_log(db, facts, opened["changes"], files)
        touched |= _follow_effective(db, facts, opened["effective_messages"], earlier["effective_messages"].version)
        if counts["violations"] is None or counts["violations"] != facts["violations"]:
            _take_violations(db, opened["violations"], _Counter(None, None))
        words.index_again(db, touched)
        _write_facts(db, warehouse, opened, counts["violations"])
        _check_counts(db, facts, counts)
        crash_point("readmodel_follow")
        db.execute("COMMIT")
        crash_point("readmodel_followed")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


class _Counter:
    """Counts the rows that are done."""

    def __init__(self, progress: Progress | None, total: int | None) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def more(self, count: int) -> None:
        self.done += count
        if self.progress is not None:
            self.progress(self.done, self.total)


def _take_definitions(db: sqlite3.Connection, table: DeltaTable, reporter: _Counter) -> None:
    """Take all effective definitions, and index all that is searched."""
    index = words.FirstIndex(db)
    for batch in batches(table, EFFECTIVE_COLUMNS):
        results = list(sqliteschema.effective_rows(batch))
        _EFFECTIVE.add(db, results)
        index.add_messages(results, sqliteschema.pointers_of(batch))
        reporter.more(batch.num_rows)
    db.execute("CREATE UNIQUE INDEX effective_by_xid ON effective_rows (registryid, xid)")
    index.add_others()


def _take_violations(db: sqlite3.Connection, table: DeltaTable, reporter: _Counter) -> None:
    for batch in batches(table, VIOLATION_COLUMNS):
        db.executemany(_INSERT_VIOLATION, sqliteschema.violation_rows(batch))
        reporter.more(batch.num_rows)


def _take_log(
    db: sqlite3.Connection, table: DeltaTable, above: int | None, reporter: _Counter, files: pa.Table | None = None
) -> None:
    """Take rows of the log, with their references."""
    kind, op, body = (LOG_COLUMNS.index(name) for name in ("kind", "op", "body"))
    for batch in batches(table, LOG_COLUMNS, above, files=files):
        results = list(sqliteschema.log_rows(batch))
        first = _LOG.add(db, results)
        edges, uris, schemas = [], [], []
        for log_id, row in enumerate(results, first):
            if row[op] != "delete" and row[body] is not None:
                edges += [(log_id, *edge) for edge in edges_of(row[kind], row[body])]
                uri = version_uri_of(row[kind], row[body])
                if uri is not None:
                    uris.append((log_id, uri))
                schema = schema_row_of(row[kind], row[body])
                if schema is not None:
                    schemas.append((log_id, *schema))
        db.executemany("INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?, ?)", edges)
        db.executemany("INSERT INTO version_uris VALUES (?, ?)", uris)
        db.executemany("INSERT INTO schema_rows VALUES (?, NULL, ?, ?, ?, ?)", schemas)
        reporter.more(len(results))


def _number(db: sqlite3.Connection, last: int) -> None:
    """Number the rows of schemas' Versions above `last` as the log has them, by snapshot, registry and XID.

    Clients keep these numbers for good, and events hold them: they follow from the log alone, however the file was made.
    """
    before = db.execute("SELECT coalesce(max(position), 0) FROM schema_rows").fetchone()[0]
    rows = db.execute(
        "SELECT s.log_id FROM schema_rows AS s INNER JOIN log AS l ON l.id = s.log_id WHERE s.log_id > ?"
        " ORDER BY l.snapshot_id, l.registryid, l.xid",
        (last,),
    ).fetchall()
    numbered = ((position, log_id) for position, (log_id,) in enumerate(rows, before + 1))
    db.executemany("UPDATE schema_rows SET position = ? WHERE log_id = ?", numbered)


def _replace(db: sqlite3.Connection, last: int) -> None:
    """Set `until` of each row that a row above `last` replaces: to the first snapshot that replaced it."""
    db.execute(
        f"""
        UPDATE log_rows SET until = coalesce((
          SELECT min(n.snapshot_id) FROM log_rows AS n
          WHERE n.registryid = log_rows.registryid AND n.xid = log_rows.xid AND n.kind = log_rows.kind
            AND n.snapshot_id > log_rows.snapshot_id
        ), {NEVER})
        WHERE id IN (
          SELECT o.id FROM log_rows AS n
          INNER JOIN log_rows AS o ON o.registryid = n.registryid AND o.xid = n.xid AND o.kind = n.kind
          WHERE n.id > ? AND o.snapshot_id < n.snapshot_id AND o.until > n.snapshot_id
        )
        """,
        (last,),
    )


def _follow_log(db: sqlite3.Connection, facts: Facts, table: DeltaTable, files: pa.Table) -> set[tuple[RegistryId, str, Xid]]:
    """Take the rows of new snapshots; give what has to be indexed again."""
    head = facts["head"]
    _check_head(facts, table, files)
    last = db.execute("SELECT coalesce(max(id), 0) FROM log_rows").fetchone()[0]
    _take_log(db, table, head, _Counter(None, None), files)
    digest = facts["head_digest"]
    for snapshot_id, body in db.execute(
        "SELECT snapshot_id, body FROM log WHERE id > ? AND kind = 'snapshot' ORDER BY 1", (last,)
    ):
        document = json.loads(body)
        head += 1
        if snapshot_id != head or document["previous_digest"] != digest:
            raise CannotFollow
        digest = document["digest"]
    _number(db, last)
    _replace(db, last)
    new = db.execute("SELECT registryid, kind, xid FROM log WHERE id > ?", (last,))
    parents = ((registryid, words.parent_xid(kind, xid)) for registryid, kind, xid in new)
    return {(registryid, *parent) for registryid, parent in parents if parent is not None}


def _check_head(facts: Facts, table: DeltaTable, files: pa.Table) -> None:
    """Make sure that the table still has the newest snapshot that is known: a table may be set back, and go on otherwise."""
    if facts["head"] == 0:
        return
    head = facts["head"]
    rows_of = (batch.to_pylist() for batch in batches(table, _COMMIT, head - 1, {"kind": ["snapshot"]}, files))
    results = [row["body"] for some in rows_of for row in some if row["snapshot_id"] == head]
    if [json.loads(body)["digest"] for body in results] != [facts["head_digest"]]:
        raise CannotFollow


def _follow_effective(db: sqlite3.Connection, facts: Facts, table: DeltaTable, version: int) -> set[tuple[RegistryId, str, Xid]]:
    """Take the definitions that were computed again, and delete those of messages that are no more."""
    if table.version() == version:
        return set()
    position, is_plain = recorded_position(table, version)
    reached = facts["definitions"]
    if not is_plain or reached is None or position is None:
        raise CannotFollow
    keys, count = set(), facts["effective"]
    for batch in batches(table, EFFECTIVE_COLUMNS, reached):
        results = list(sqliteschema.effective_rows(batch))
        count += len(results) - _delete_effective(db, [row[:2] for row in results])
        _EFFECTIVE.add(db, results)
        keys |= {(row[0], "message", row[1]) for row in results}
    gone = db.execute(
        """
        SELECT e.registryid, e.xid FROM log AS l INNER JOIN effective AS e ON e.registryid = l.registryid AND e.xid = l.xid
        WHERE l.kind = 'message' AND l.op = 'delete' AND l.snapshot_id > ? AND l.snapshot_id <= ?
          AND e.snapshot_id < l.snapshot_id
        """,
        (reached, position),
    ).fetchall()
    facts["effective"] = count - _delete_effective(db, gone)
    return keys | {(registryid, "message", xid) for registryid, xid in gone}


def _delete_effective(db: sqlite3.Connection, keys: Iterable[tuple[RegistryId, Xid]]) -> int:
    """Delete the definitions of messages; return how many were there."""
    rows = (db.execute("SELECT id FROM effective_rows WHERE registryid = ? AND xid = ?", key).fetchone() for key in keys)
    ids = [row[0] for row in rows if row is not None]
    _EFFECTIVE.delete(db, ids)
    return len(ids)


def _write_facts(db: sqlite3.Connection, warehouse: Warehouse, opened: dict[str, DeltaTable], violations: int | None) -> Facts:
    facts = Facts(db)
    is_same = "effective_messages" in (earlier := facts.table_versions()) and (
        opened["effective_messages"].version() == earlier["effective_messages"].version
    )
    facts["format"] = FORMAT
    facts["location"] = warehouse.location
    facts["tables"] = {name: warehouse.version_of(name, opened[name]) for name in READ}
    newest = db.execute("SELECT max(snapshot_id) FROM log").fetchone()[0] or 0
    snapshot = db.execute("SELECT body FROM log WHERE snapshot_id = ? AND kind = 'snapshot'", (newest,)).fetchone()
    facts["head"] = newest
    facts["head_digest"] = json.loads(snapshot[0])["digest"] if snapshot else ""
    position = facts["definitions"] if is_same else recorded_position(opened["effective_messages"])[0]
    if position is None:  # nothing was ever projected, or what did it is too long ago: the rows show it
        position = db.execute("SELECT coalesce(max(snapshot_id), 0) FROM effective").fetchone()[0]
    facts["definitions"] = position
    facts["violations"] = violations
    return facts


def _check_counts(db: sqlite3.Connection, facts: Facts, counts: dict[str, int | None]) -> None:
    """Compare with what the files of the Delta tables say of themselves; no rows are counted, which would take longer."""
    log = db.execute("SELECT coalesce(max(id), 0) FROM log_rows").fetchone()[0]
    taken = {"changes": log, "effective_messages": facts["effective"]}
    for name, count in taken.items():
        if counts[name] is not None and count != counts[name]:
            raise CannotFollow(f"{name} has {counts[name]} rows, and {count} were taken")


def _make_durable(file: Path) -> None:
    """Write the file through to the disk, and let it be read while it is written."""
    handle = os.open(file, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
    db = connect(file, write=True)
    try:
        db.execute("PRAGMA journal_mode = WAL")
    finally:
        db.close()
