"""Subscriptions as they are kept: a SQLite file in a folder of the server's, next to no warehouse, since it holds credentials.

Grain: a row of `subscriptions` for each, with the last event that its sink has received: the snapshot, and its position there.
Events themselves are not kept, they are in the log; but those that a sink refused are, up to a number (`parked_events`).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.serve.subscriptions.subscriptionschema import Subscription
from lakehouse.store.durable import sync, sync_with_folder

VALIDATING, ACTIVE, PARKED = "validating", "active", "parked"
WHOLE = -1  # position: the sink has received all events of the snapshot
MOST = 1000
LONGEST_PAUSE = 600.0  # seconds between two attempts
_MOST_PARKED = 100  # events of a subscription that are kept whole; all are counted
_TABLES = """
CREATE TABLE IF NOT EXISTS subscriptions (
  id TEXT PRIMARY KEY,
  registryid TEXT NOT NULL,
  sink TEXT NOT NULL,
  mode TEXT NOT NULL,
  token TEXT,
  told TEXT NOT NULL,
  origin TEXT NOT NULL,
  status TEXT NOT NULL,
  reason TEXT,
  snapshot INTEGER NOT NULL,
  position INTEGER NOT NULL DEFAULT -1,
  digest TEXT NOT NULL DEFAULT '',
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at REAL NOT NULL DEFAULT 0,
  pause REAL NOT NULL DEFAULT 0,
  delivered INTEGER NOT NULL DEFAULT 0,
  parked INTEGER NOT NULL DEFAULT 0,
  gaps INTEGER NOT NULL DEFAULT 0,
  changed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE IF NOT EXISTS parked_events (
  id TEXT NOT NULL REFERENCES subscriptions (id) ON DELETE CASCADE,
  snapshot INTEGER NOT NULL,
  position INTEGER NOT NULL,
  event TEXT NOT NULL,
  reason TEXT NOT NULL,
  at REAL NOT NULL,
  PRIMARY KEY (id, snapshot, position)
) STRICT;
"""


class StoredSubscription(NamedTuple):
    """A subscription as it is kept.

    Attributes:
        origin: name by which the server asks a sink for permission.
        status: validating, active, or parked: nothing is sent until it is written again.
        reason: why the last attempt failed.
        snapshot, position: the last event that the sink has received; position counts from 1; WHOLE: all events of it.
        digest: of that snapshot.
        attempts: that failed in a row.
        next_at: time of the next attempt, in seconds since 1970.
        pause: seconds between two events that the sink asked for.
        delivered, parked, gaps: counts.
        changed: grows when it is written.
    """

    id: str
    subscription: Subscription
    origin: str
    status: str
    reason: str | None
    snapshot: int
    position: int
    digest: str
    attempts: int
    next_at: float
    pause: float
    delivered: int
    parked: int
    gaps: int
    changed: int


class Store:
    """The subscriptions of a server; any number of processes and threads work on one.

    Args:
        folder: is made where it is missing, for nobody else to read.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = folder
        self.file = folder / "subscriptions.sqlite"
        os.close(os.open(self.file, os.O_CREAT | os.O_RDWR, 0o600))
        self._own = threading.local()
        with self._db() as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.executescript(_TABLES)
        sync_with_folder(self.file)  # SQLite syncs what it writes into it
        sync(folder.parent)

    def add(self, subscription: Subscription, origin: str, snapshot: int, digest: str) -> StoredSubscription | None:
        """Keep a subscription to what happens after a snapshot; None: there are too many."""
        name = uuid.uuid4().hex
        with self._db() as db:
            if db.execute("SELECT count(*) FROM subscriptions").fetchone()[0] >= MOST:
                return None
            db.execute(
                "INSERT INTO subscriptions (id, registryid, sink, mode, token, told, origin, status, snapshot, digest)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (name, *subscription[:4], json.dumps(subscription.members), origin, VALIDATING, snapshot, digest),
            )
        return self.get(name)

    def replace(self, name: str, subscription: Subscription, origin: str) -> StoredSubscription | None:
        """Write a subscription again: its sink is asked for permission, and receives what it has not; None: there is none."""
        with self._db() as db:
            db.execute(
                "UPDATE subscriptions SET registryid = ?, sink = ?, mode = ?, token = ?, told = ?, origin = ?, status = ?,"
                " reason = NULL, attempts = 0, next_at = 0, pause = 0, changed = changed + 1 WHERE id = ?",
                (*subscription[:4], json.dumps(subscription.members), origin, VALIDATING, name),
            )
        return self.get(name)

    def delete(self, name: str) -> bool:
        """Delete a subscription; return False if there is none."""
        with self._db() as db:
            return db.execute("DELETE FROM subscriptions WHERE id = ?", (name,)).rowcount > 0

    def get(self, name: str) -> StoredSubscription | None:
        """Return a subscription."""
        return next(iter(self._select("WHERE id = ?", (name,))), None)

    def all(self) -> list[StoredSubscription]:
        """Return all subscriptions, the oldest first."""
        return self._select("ORDER BY rowid", ())

    def due(self, now: float) -> list[StoredSubscription]:
        """Return those whose next attempt has come; one further off than any pause is of before the clock was set back."""
        due = "WHERE status <> ? AND (next_at <= ? OR next_at > ?) ORDER BY next_at"
        return self._select(due, (PARKED, now, now + LONGEST_PAUSE))

    def update(self, kept: StoredSubscription, **columns: Any) -> bool:
        """Write what became of an attempt, unless the subscription was written again or deleted since; False: it was."""
        names = ", ".join(f"{name} = ?" for name in columns)
        with self._db() as db:
            done = db.execute(
                f"UPDATE subscriptions SET {names} WHERE id = ? AND changed = ?", (*columns.values(), kept.id, kept.changed)
            )
            return done.rowcount > 0

    def park_event(self, kept: StoredSubscription, snapshot: int, position: int, event: bytes, reason: str) -> None:
        """Keep an event that a sink refused."""
        with self._db() as db:
            db.execute(
                "INSERT OR REPLACE INTO parked_events SELECT ?, ?, ?, ?, ?, ?"
                " WHERE (SELECT count(*) FROM parked_events WHERE id = ?) < ?"
                " AND EXISTS (SELECT 1 FROM subscriptions WHERE id = ?)",
                (kept.id, snapshot, position, event.decode(), reason, time.time(), kept.id, _MOST_PARKED, kept.id),
            )

    def parked_events(self, name: str) -> list[dict[str, Any]]:
        """Return the events that a sink refused, with the reasons."""
        with self._db() as db:
            found = db.execute(
                "SELECT event, reason FROM parked_events WHERE id = ? ORDER BY snapshot, position", (name,)
            ).fetchall()
        return [{"event": json.loads(event), "reason": reason} for event, reason in found]

    def close(self) -> None:
        """Close the connection of this thread."""
        db = getattr(self._own, "db", None)
        if db is not None:
            db.close()
            self._own.db = None

    def _select(self, where: str, values: tuple[Any, ...]) -> list[StoredSubscription]:
        columns = "id, registryid, sink, mode, token, told, origin, status, reason, snapshot, position, digest, attempts, next_at"
        columns += ", pause, delivered, parked, gaps, changed"
        with self._db() as db:
            rows = db.execute(f"SELECT {columns} FROM subscriptions {where}", values).fetchall()
        return [
            StoredSubscription(row[0], Subscription(row[1], row[2], row[3], row[4], json.loads(row[5])), *row[6:]) for row in rows
        ]

    @contextmanager
    def _db(self) -> Iterator[sqlite3.Connection]:
        db = getattr(self._own, "db", None)
        if db is None:
            db = self._own.db = sqlite3.connect(self.file, timeout=30)
            db.execute("PRAGMA foreign_keys = ON")
            db.execute("PRAGMA synchronous = FULL")
        with db:
            yield db
