"""What was sent, as `lakehouse match --into NAME` wrote it: counts by message and day, without Spark.

The counts are in a SQLite file next to the read model, which may be deleted at any time. A data file of Delta never changes, so
each is read once: a refresh reads the files that a table has got since, and deletes the counts of those that it no longer has. No
value of an event is stored but the types and sources of events that match nothing, as `unmatched_signatures` has them.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import orjson

from lakehouse.errors import WarehouseError
from lakehouse.readmodel.file.delta import TableVersion, Warehouse, file_batches, statistics
from lakehouse.readmodel.file.place import ModelFiles
from lakehouse.readmodel.file.sqliteschema import ReadConnection, connect
from lakehouse.store.localpaths import MATCH_RESULTS
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.timestamps import micros_of, rfc3339

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

T = TypeVar("T")
logger = logging.getLogger(__name__)

# A table that is gone, of another form or damaged; a folder or file that cannot be written: pages lack the counts, no more.
_UNREADABLE = (WarehouseError, OSError, sqlite3.Error, ValueError, KeyError, TypeError)
_FORMAT = 2  # a file of another format is counted again
_EVENTS, _RUNS, _SIGNATURES = "event_matches", "match_runs", "unmatched_signatures"
_COLUMNS = {
    _EVENTS: (
        "run_id", "landed_at", "best", "registryid", "xid", "payload_status", "payload_errors", "deviations", "nearest_xid",
        "reasons",
    ),
    _SIGNATURES: ("status", "why", "ce_type", "ce_source", "events", "last_landed_at"),
}  # fmt: skip
_BATCH_ROWS = 65_536
_MOST_REASONS = 6
_MOST_UNDECLARED = 20
_MOST_DAYS = 30
_TABLES = """
CREATE TABLE tables (name TEXT PRIMARY KEY, known TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE files (id INTEGER PRIMARY KEY, table_name TEXT NOT NULL, path TEXT NOT NULL, UNIQUE (table_name, path));
CREATE TABLE sent (
  file_id INTEGER NOT NULL, registryid TEXT NOT NULL, xid TEXT NOT NULL, day TEXT NOT NULL, payload_status TEXT NOT NULL,
  deviating INTEGER NOT NULL, events INTEGER NOT NULL, last_at TEXT NOT NULL
);
CREATE INDEX sent_by_xid ON sent (registryid, xid);
CREATE TABLE reasons (
  file_id INTEGER NOT NULL, registryid TEXT NOT NULL, xid TEXT NOT NULL, kind TEXT NOT NULL, pointer TEXT NOT NULL,
  reason TEXT NOT NULL, events INTEGER NOT NULL
);
CREATE INDEX reasons_by_xid ON reasons (xid);
CREATE TABLE outcomes (
  file_id INTEGER NOT NULL, is_matched INTEGER NOT NULL, nearest_xid TEXT NOT NULL, events INTEGER NOT NULL
);
CREATE TABLE undeclared (
  file_id INTEGER NOT NULL, ce_type TEXT NOT NULL, ce_source TEXT NOT NULL, why TEXT NOT NULL, events INTEGER NOT NULL,
  last_at TEXT NOT NULL
);
"""
_VALID, _INVALID = ("valid", "valid_older"), ("invalid", "undecodable")


class ReasonCount(NamedTuple):
    """Why events are not as a message declares.

    Attributes:
        kind: `payload`, what breaks the schema; `deviation`, what differs and does not decide; `missed`, why events that come
            nearest to the message do not match it.
        pointer: JSON Pointer to the declared attribute, or into the payload.
        reason: keyword of the schema, or reason of the match.
        events: how many there are.
    """

    kind: str
    pointer: str
    reason: str
    events: int


class Sent(NamedTuple):
    """Events, each for the definitions that fit it best.

    Attributes:
        events: how many.
        valid: those whose payload conforms to the schema, or to an older Version of it.
        invalid: those whose payload breaks the schema or cannot be decoded.
        deviating: those that differ in what does not decide.
        last_at: RFC 3339, when the last one landed, else when it was matched.
        days: day and events of the last 30 days with any, the oldest first.
    """

    events: int
    valid: int
    invalid: int
    deviating: int
    last_at: str
    days: list[tuple[str, int]]


class Undeclared(NamedTuple):
    """Events that no definition is for: CloudEvents type and source, why in one line, how many, when the last landed."""

    ce_type: str
    ce_source: str
    why: str
    events: int
    last_at: str


class SentMessage(NamedTuple):
    """What was sent of messages, and the commonest reasons why events are not as they declare."""

    sent: Sent
    reasons: list[ReasonCount]


class SentTotals(NamedTuple):
    """What was sent of all messages.

    Attributes:
        sent: events, each for the definitions that fit it best.
        seen: events and the last moment of each message.
        missed: events that match nothing, by the XID of the message that they come nearest to; empty: to none.
        undeclared: the commonest events that no definition is for.
        matched: how many events match any definition; each counts once.
    """

    sent: Sent
    seen: dict[tuple[RegistryId, Xid], tuple[int, str]]
    missed: dict[str, int]
    undeclared: list[Undeclared]
    matched: int


class Traffic:
    """The counts of a warehouse. Threads may share it.

    Args:
        warehouse: its tables, which nothing else reads through this object.
        place: where its read model is.
    """

    def __init__(self, warehouse: Warehouse, place: ModelFiles) -> None:
        self.warehouse = warehouse
        self.place = place
        self.file = place.folder / f"{place.name}.traffic.sqlite"
        self._problems: set[str] = set()
        self._readers = threading.local()
        self._totals: tuple[int, SentTotals | None] | None = None

    def refresh(self) -> bool:
        """Count what was written since; what cannot be read is reported once, and the counts that are known stay.

        Returns:
            Whether anything was new.
        """
        try:
            return self._refresh()
        except _UNREADABLE as error:
            self._report(error)
            return False

    def _refresh(self) -> bool:
        names = [f"{schema}/{table}" for schema in self.warehouse.folders(MATCH_RESULTS) for table in (_EVENTS, _SIGNATURES)]
        if not names and not self.file.exists():
            return False
        try:
            if self._is_current(names):
                return False
        except sqlite3.OperationalError:  # another process has locked it
            raise
        except (sqlite3.DatabaseError, ValueError, TypeError):  # damaged: it is made again below
            pass
        with self.place.lock(".traffic"), closing(self._opened()) as db:
            db.execute("BEGIN IMMEDIATE")
            gone = [name for (name,) in db.execute("SELECT name FROM tables") if name not in names]
            for name in gone:
                _drop_table(db, name)
            are_new = [self._follow(db, name) for name in names]
            db.execute("COMMIT")
        return bool(gone) or any(are_new)

    def _is_current(self, names: list[str]) -> bool:
        if not self.file.exists():
            return False
        with closing(connect(self.file)) as db:
            is_ours = db.execute("PRAGMA user_version").fetchone()[0] == _FORMAT
            versions = dict(db.execute("SELECT name, known FROM tables")) if is_ours else {}
        is_unchanged = self.warehouse.is_unchanged
        return is_ours and versions.keys() == set(names) and all(
            is_unchanged(f"{MATCH_RESULTS}/{name}", TableVersion(*orjson.loads(versions[name]))) for name in names
        )  # fmt: skip

    def _opened(self) -> ReadConnection:
        """Open the file to write, made again where it is none of ours."""
        if self.file.exists():
            db = connect(self.file, write=True)
            try:
                if db.execute("PRAGMA user_version").fetchone()[0] == _FORMAT:
                    db.execute("SELECT count(*) FROM tables").fetchone()
                    return db
            except sqlite3.OperationalError:  # another process has locked it
                raise
            except sqlite3.DatabaseError:  # it is damaged
                pass
            db.close()
        for path in (self.file, Path(f"{self.file}-journal")):
            path.unlink(missing_ok=True)
        self.file.touch(mode=0o600)
        db = connect(self.file, write=True)
        db.executescript(f"{_TABLES} PRAGMA user_version = {_FORMAT};")
        return db

    def _follow(self, db: sqlite3.Connection, name: str) -> bool:
        """Count the files of a table that are new, and drop the counts of those that are gone; return whether there were any."""
        db.execute("SAVEPOINT follow")
        try:
            table = self.warehouse.newest(f"{MATCH_RESULTS}/{name}")
            version = orjson.dumps(list(self.warehouse.version_of(f"{MATCH_RESULTS}/{name}", table))).decode()
            row = db.execute("SELECT known FROM tables WHERE name = ?", (name,)).fetchone()
            if row == (version,):
                return False
            paths = set(statistics(table).column("path").to_pylist())
            counted = dict(db.execute("SELECT path, id FROM files WHERE table_name = ?", (name,)))
            _drop_files(db, [counted[path] for path in counted.keys() - paths])
            new = sorted(paths - counted.keys())
            begun = self._begun(name) if new and name.endswith(_EVENTS) else {}
            for path in new:
                _count_file(db, table, (name, path), begun)
            db.execute("INSERT OR REPLACE INTO tables VALUES (?, ?)", (name, version))
            return True
        except _UNREADABLE as error:
            db.execute("ROLLBACK TO follow")
            self._report(error)
            return False

    def _report(self, error: Exception) -> None:
        if str(error) not in self._problems:
            self._problems.add(str(error))
            logger.warning("what was sent is not counted: %s", error)

    def _begun(self, name: str) -> dict[str, str]:
        """Return when each run of a schema began."""
        runs = self.warehouse.open(f"{MATCH_RESULTS}/{name.removesuffix(_EVENTS)}{_RUNS}")
        return {
            row["run_id"]: _moment(row["begun_at"])
            for path in statistics(runs).column("path").to_pylist()
            for batch in file_batches(runs, path, ("run_id", "begun_at"), _BATCH_ROWS)
            for row in batch.to_pylist()
        }

    def messages(self, registryid: RegistryId, xids: Collection[Xid]) -> SentMessage | None:
        """Return what was sent of messages, and why events that come nearest to them match nothing; None: nothing is known."""
        return self._answer(lambda db: _messages(db, registryid, xids))

    def totals(self) -> SentTotals | None:
        """Return what was sent of all messages; None: nothing was matched yet."""
        written = os.stat(self.file).st_mtime_ns if self.file.exists() else 0
        if self._totals is None or self._totals[0] != written:
            self._totals = (written, self._answer(_totals))
        return self._totals[1]

    def digests(self) -> dict[str, str]:
        """Return a digest of what is known of each XID, and below the empty text of events that no definition is for."""
        return self._answer(_digests) or {}

    def _answer(self, ask: Callable[[ReadConnection], T | None]) -> T | None:
        """Ask one state of the file, on this thread's connection; None: there is no file, or it was damaged and is deleted."""
        try:
            inode = os.stat(self.file).st_ino
            reader: tuple[int, ReadConnection] | None = getattr(self._readers, "reader", None)
            if reader is None or reader[0] != inode:
                reader = self._readers.reader = (inode, connect(self.file))
            db = reader[1]
            db.execute("BEGIN")
            try:
                return ask(db)
            finally:
                db.end()
        except FileNotFoundError:
            return None
        except sqlite3.OperationalError as error:  # another process has locked it, or it was deleted meanwhile
            self._report(error)
            return None
        except sqlite3.DatabaseError as error:
            logger.warning("%s: is damaged (%s), and will be counted again", self.file, error)
            self.file.unlink(missing_ok=True)
            return None


def _messages(db: ReadConnection, registryid: RegistryId, xids: Collection[Xid]) -> SentMessage | None:
    values = (registryid, orjson.dumps(list(xids)).decode())
    among = "IN (SELECT value FROM json_each(?2))"
    reasons = db.execute(
        f"SELECT kind, pointer, reason, sum(events) FROM reasons WHERE xid {among} AND registryid IN (?1, '') "
        f"GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT {_MOST_REASONS}",
        values,
    ).fetchall()
    sent = _sent(db, f"WHERE registryid = ?1 AND xid {among}", values)
    return SentMessage(sent, [ReasonCount(*row) for row in reasons]) if sent.events or reasons else None


def _totals(db: ReadConnection) -> SentTotals | None:
    rows = db.execute("SELECT registryid, xid, sum(events), max(last_at) FROM sent GROUP BY 1, 2").fetchall()
    undeclared = db.execute(
        "SELECT ce_type, ce_source, why, sum(events), max(last_at) FROM undeclared "
        f"GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT {_MOST_UNDECLARED}"
    ).fetchall()
    seen = {(registryid, xid): (events, last_at) for registryid, xid, events, last_at in rows}
    if not seen and not undeclared:
        return None
    missed = dict(db.execute("SELECT nearest_xid, sum(events) FROM outcomes WHERE NOT is_matched GROUP BY 1").fetchall())
    (matched,) = db.execute("SELECT coalesce(sum(events), 0) FROM outcomes WHERE is_matched").fetchone()
    return SentTotals(_sent(db), seen, missed, [Undeclared(*row) for row in undeclared], matched)


def _digests(db: ReadConnection) -> dict[str, str]:
    made: dict[str, Any] = defaultdict(lambda: hashlib.blake2b(digest_size=12))
    for query in (
        "SELECT xid, registryid, day, payload_status, deviating, sum(events), max(last_at) FROM sent GROUP BY 1, 2, 3, 4, 5",
        "SELECT xid, registryid, kind, pointer, reason, sum(events) FROM reasons GROUP BY 1, 2, 3, 4, 5",
        "SELECT nearest_xid, sum(events) FROM outcomes WHERE NOT is_matched GROUP BY 1",
        "SELECT '', ce_type, ce_source, why, sum(events), max(last_at) FROM undeclared GROUP BY 1, 2, 3, 4",
    ):
        for row in db.execute(query):
            made[row[0]].update(orjson.dumps(row))
    return {xid: digest.hexdigest() for xid, digest in made.items()}


def _sent(db: sqlite3.Connection, where: str = "", values: tuple[str, ...] = ()) -> Sent:
    """Add counts up."""
    rows = db.execute(
        f"SELECT payload_status, deviating, sum(events), max(last_at) FROM sent {where} GROUP BY 1, 2", values
    ).fetchall()
    days = db.execute(
        f"SELECT day, sum(events) FROM sent {where} GROUP BY day ORDER BY day DESC LIMIT {_MOST_DAYS}", values
    ).fetchall()
    return Sent(
        events=sum(row[2] for row in rows),
        valid=sum(row[2] for row in rows if row[0] in _VALID),
        invalid=sum(row[2] for row in rows if row[0] in _INVALID),
        deviating=sum(row[2] for row in rows if row[1]),
        last_at=max((row[3] for row in rows), default=""),
        days=days[::-1],
    )


def _drop_files(db: sqlite3.Connection, ids: list[int]) -> None:
    for table, column in (*((table, "file_id") for table in ("sent", "reasons", "outcomes", "undeclared")), ("files", "id")):
        db.executemany(f"DELETE FROM {table} WHERE {column} = ?", [(file_id,) for file_id in ids])


def _drop_table(db: sqlite3.Connection, name: str) -> None:
    _drop_files(db, [file_id for (file_id,) in db.execute("SELECT id FROM files WHERE table_name = ?", (name,)).fetchall()])
    db.execute("DELETE FROM tables WHERE name = ?", (name,))


def _count_file(db: sqlite3.Connection, table: DeltaTable, file: tuple[str, str], begun: dict[str, str]) -> None:
    """Count the rows of a file.

    Args:
        db: the counts.
        table: opened.
        file: name of the table, and path.
        begun: when each run began.
    """
    file_id = db.execute("INSERT INTO files (table_name, path) VALUES (?, ?)", file).lastrowid
    kind = file[0].rpartition("/")[2]
    batches = file_batches(table, file[1], _COLUMNS[kind], _BATCH_ROWS)
    if kind == _SIGNATURES:
        rows = [(file_id, *key[:3], events, key[3]) for key, events in _count_signatures(batches).items()]
        db.executemany("INSERT INTO undeclared VALUES (?, ?, ?, ?, ?, ?)", rows)
        return
    sent, reasons, outcomes = _count_matches(batches, begun)
    db.executemany("INSERT INTO sent VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [(file_id, *key, *value) for key, value in sent.items()])
    db.executemany("INSERT INTO reasons VALUES (?, ?, ?, ?, ?, ?, ?)", [(file_id, *key, n) for key, n in reasons.items()])
    db.executemany("INSERT INTO outcomes VALUES (?, ?, ?, ?)", [(file_id, *key, n) for key, n in outcomes.items()])


def _count_signatures(batches: Iterator[pa.RecordBatch]) -> Counter[tuple[str, str, str, str]]:
    """Count events of no definition by CloudEvents type, source, reason and the moment when the last of them landed."""
    counted: Counter[tuple[str, str, str, str]] = Counter()
    for row in (row for batch in batches for row in batch.to_pylist() if row["status"] == "unmatched"):
        key = (row["ce_type"] or "", row["ce_source"] or "", row["why"] or "", _moment(row["last_landed_at"]))
        counted[key] += row["events"]
    return counted


def _count_matches(
    batches: Iterator[pa.RecordBatch], begun: dict[str, str]
) -> tuple[dict[Any, Any], Counter[Any], Counter[tuple[bool, str]]]:
    """Count events of definitions.

    Args:
        batches: of `event_matches`.
        begun: when each run began, for events that do not say when they landed.

    Returns:
        Events and last moment by registryid, XID, day, payload_status and whether they deviate; events by registryid (empty:
        any), XID, kind of reason, pointer and reason; and events by whether any definition fits, and the XID that is nearest
        to those that none does.
    """
    import pyarrow.compute as pc

    sent: dict[Any, tuple[int, str]] = {}
    reasons: Counter[Any] = Counter()
    outcomes: Counter[tuple[bool, str]] = Counter()
    for batch in batches:
        rows = {name: batch.column(name) for name in batch.schema.names}
        is_matched = pc.fill_null(pc.greater(pc.list_value_length(rows["best"]), 0), False)
        for row in _grouped({"is_matched": is_matched, "nearest": rows["nearest_xid"]}):
            outcomes[row["is_matched"], "" if row["is_matched"] else row["nearest"] or ""] += row["events"]
        deviates = pc.fill_null(pc.greater(pc.list_value_length(rows["deviations"]), 0), False)
        of_best = pc.list_parent_indices(rows["best"])
        best = pc.list_flatten(rows["best"])
        at = {name: pc.take(column, of_best) for name, column in (("run", rows["run_id"]), ("status", rows["payload_status"]))}
        landed = pc.take(rows["landed_at"], of_best)
        keys = {
            "registryid": pc.struct_field(best, "registryid"), "xid": pc.struct_field(best, "xid"), "run": at["run"],
            "day": pc.floor_temporal(landed, unit="day"), "status": at["status"], "deviates": pc.take(deviates, of_best),
        }  # fmt: skip
        for row in _grouped(keys, landed):
            last = _moment(row["last"]) or begun.get(row["run"], "")
            key = (row["registryid"], row["xid"], last[:10] if row["day"] is None else _moment(row["day"])[:10],
                   row["status"] or "", row["deviates"])  # fmt: skip
            before = sent.get(key, (0, ""))
            sent[key] = (before[0] + row["events"], max(before[1], last))
        for kind, column, reason, names in (
            ("payload", "payload_errors", "keyword", ("registryid", "xid")),
            ("deviation", "deviations", "reason", ("registryid", "xid")),
            ("missed", "reasons", "reason", ("", "nearest_xid")),
        ):
            parents, listed = pc.list_parent_indices(rows[column]), pc.list_flatten(rows[column])
            keys = {name or "registryid": pc.take(rows[name], parents) for name in names if name}
            keys |= {"pointer": pc.struct_field(listed, "pointer"), "reason": pc.struct_field(listed, reason)}
            for row in _grouped(keys):
                if row[names[1]] is not None:
                    key = (row.get("registryid", ""), row[names[1]], kind, row["pointer"] or "", row["reason"] or "")
                    reasons[key] += row["events"]
    return sent, reasons, outcomes


def _moment(value: datetime | None) -> str:
    """Write a moment as RFC 3339 in UTC, in which it is; None as an empty text."""
    return "" if value is None else rfc3339(micros_of(value.replace(tzinfo=timezone.utc)))


def _grouped(keys: dict[str, Any], moments: Any = None) -> list[dict[str, Any]]:
    """Count rows by all columns; `events`, and `last` where there are moments."""
    import pyarrow as pa

    names = list(keys)
    table = pa.table(keys if moments is None else keys | {"last": moments})
    counted = table.group_by(names).aggregate([([], "count_all"), *([] if moments is None else [("last", "max")])])
    renamed = {"count_all": "events", "last_max": "last"}
    results: list[dict[str, Any]] = counted.rename_columns([renamed.get(name, name) for name in counted.column_names]).to_pylist()
    return results
