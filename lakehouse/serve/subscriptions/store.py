"""Subscriptions: read from JSON, checked and applied to events (CAT-193 and those after it), and stored in a SQLite file.

The file is in a folder of the server's, next to no warehouse, since it holds credentials.

Grain: a row of `subscriptions` for each, with the last event that its sink has received: the snapshot, and its position there.
Events themselves are not kept, they are in the log; but those that a sink refused are, up to a number (`parked_events`).
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from lakehouse.store.durable import sync, sync_with_folder
from lakehouse.text.names import RegistryId

VALIDATING, ACTIVE, PARKED = "validating", "active", "parked"
ALL_EVENTS = -1  # position: the sink has received all events of the snapshot
MOST = 1000
LONGEST_PAUSE = 600.0  # seconds between two attempts
_MOST_PARKED = 100  # events of a subscription that are kept whole; all are counted
# `told` holds the members of the subscription as JSON; the name is of 0.1, whose servers may share the file.
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
        snapshot, position: the last event that the sink has received; position counts from 1; ALL_EVENTS: all events of it.
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

    def update(self, stored: StoredSubscription, **columns: Any) -> bool:
        """Write what became of an attempt, unless the subscription was written again or deleted since; False: it was."""
        names = ", ".join(f"{name} = ?" for name in columns)
        with self._db() as db:
            done = db.execute(
                f"UPDATE subscriptions SET {names} WHERE id = ? AND changed = ?", (*columns.values(), stored.id, stored.changed)
            )
            return done.rowcount > 0

    def park_event(self, stored: StoredSubscription, snapshot: int, position: int, event: bytes, reason: str) -> None:
        """Keep an event that a sink refused."""
        with self._db() as db:
            db.execute(
                "INSERT OR REPLACE INTO parked_events SELECT ?, ?, ?, ?, ?, ?"
                " WHERE (SELECT count(*) FROM parked_events WHERE id = ?) < ?"
                " AND EXISTS (SELECT 1 FROM subscriptions WHERE id = ?)",
                (stored.id, snapshot, position, event.decode(), reason, time.time(), stored.id, _MOST_PARKED, stored.id),
            )

    def parked_events(self, name: str) -> list[dict[str, Any]]:
        """Return the events that a sink refused, with the reasons."""
        with self._db() as db:
            results = db.execute(
                "SELECT event, reason FROM parked_events WHERE id = ? ORDER BY snapshot, position", (name,)
            ).fetchall()
        return [{"event": json.loads(event), "reason": reason} for event, reason in results]

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


Json = dict[str, Any]

_MOST_FILTERS = 100
_DEEPEST = 8
_DIALECTS: dict[str, Callable[[str, str], bool]] = {
    "exact": str.__eq__,
    "prefix": str.startswith,
    "suffix": str.endswith,
}
_PRINTABLE = re.compile(r"[\x21-\x7e]{1,2000}")
_TOKEN = re.compile(r"[\x21-\x7e]{1,8000}")
_MEMBERS = {
    "id",
    "source",
    "types",
    "filter",
    "filters",
    "sink",
    "sinkcredential",
    "protocol",
    "protocolsettings",
    "config",
    "status",
}
MODES = ("binary", "structured")
PROTOCOLS = ("HTTP", "HTTPS")
MEDIA_TYPES = ("application/cloudevents-subscription+json", "application/json")


class NotValid(Exception):
    """A subscription that cannot be; the message says what is wrong and how to repair it."""


class Subscription(NamedTuple):
    """What is asked for.

    Attributes:
        registryid: registry whose events are wanted.
        sink: URL that they are sent to.
        mode: binary or structured, as CloudEvents over HTTP has them.
        token: of `sinkcredential`; nothing shows it.
        members: what a client is shown, as it was written.
    """

    registryid: RegistryId
    sink: str
    mode: str
    token: str | None
    members: Json

    def wants(self, event: Json) -> bool:
        """Return whether an event is one of those that are wanted."""
        types = self.members.get("types")
        return (not types or event.get("type") in types) and all(
            _matches(expression, event) for expression in _filters(self.members)
        )


def read_subscription(value: Any, base: str, root: RegistryId | None) -> Subscription:
    """Read a subscription.

    Args:
        value: JSON value of the request.
        base: URL of the server.
        root: registry that `/` is.

    Raises:
        NotValid: it cannot be served.
    """
    if not isinstance(value, dict):
        raise NotValid("A subscription is a JSON object.")
    unknown = sorted(value.keys() - _MEMBERS)
    if unknown:
        raise NotValid(f"Unknown members: {', '.join(unknown)[:200]}. Leave them out.")
    protocol = value.get("protocol", "HTTP")
    if protocol not in PROTOCOLS:
        raise NotValid("`protocol` is HTTP or HTTPS: others are not served here.")
    sink = value.get("sink")
    if not isinstance(sink, str) or not _PRINTABLE.fullmatch(sink):
        raise NotValid("`sink` is the URL that events are sent to.")
    try:
        parts = urlsplit(sink)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        has_port = False
    if not has_port or parts.scheme not in ("http", "https") or not parts.hostname or parts.fragment:
        raise NotValid("`sink` is an absolute URL of http or https.")
    if parts.username is not None:
        raise NotValid("`sink` holds a user; give what lets us in as `sinkcredential`.")
    if protocol == "HTTPS" and parts.scheme != "https":
        raise NotValid("`protocol` is HTTPS, so `sink` is a URL of https.")
    _check_filters(value)
    members = {name: member for name, member in value.items() if name not in ("id", "status", "sinkcredential")}
    return Subscription(_registry(value.get("source"), base, root), sink, _mode(value), _token(value), members)


def _registry(source: Any, base: str, root: RegistryId | None) -> RegistryId:
    """Return the registry that a subscription is for; its `source` is the root of a catalog (CAT-193)."""
    wanted = base if source is None else source
    if isinstance(wanted, str) and wanted.rstrip("/") == base.rstrip("/"):
        if root is None:
            raise NotValid(f"`source` has to name a registry, as {base}/reg-ID: there are several here.")
        return root
    rest = wanted.rstrip("/").removeprefix(base.rstrip("/")) if isinstance(wanted, str) else ""
    if rest.startswith("/reg-") and "/" not in rest[1:]:
        return RegistryId(unquote(rest.removeprefix("/reg-")))
    raise NotValid(f"`source` is the root of the catalog: {base} (CAT-193); `filter` says which part of it is meant.")


def _mode(value: Json) -> str:
    config = value.get("config", {})
    if not isinstance(config, dict) or config.keys() - {"contentmode"}:
        raise NotValid("`config` holds `contentmode` and nothing else.")
    mode = config.get("contentmode", "binary")
    if mode not in MODES:
        raise NotValid("`config.contentmode` is binary or structured.")
    settings = value.get("protocolsettings", {})
    if not isinstance(settings, dict) or settings.keys() - {"method"} or settings.get("method", "POST") != "POST":
        raise NotValid('`protocolsettings` holds "method": "POST" and nothing else; what lets us in is `sinkcredential`.')
    return str(mode)


def _token(value: Json) -> str | None:
    credential = value.get("sinkcredential")
    if credential is None:
        return None
    kinds = {"credentialtype": "ACCESSTOKEN", "accesstokentype": "bearer"}
    is_bearer = isinstance(credential, dict) and all(
        str(credential.get(name, expected)).lower() == expected.lower() for name, expected in kinds.items()
    )
    token = credential.get("accesstoken") if is_bearer else None
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise NotValid("`sinkcredential` is of the `credentialtype` ACCESSTOKEN, with `accesstoken`; its type is bearer.")
    return token


def _filters(members: Json) -> list[Json]:
    """Return the filters in the form of CloudEvents: each must match."""
    old = members.get("filter")
    return [*members.get("filters", []), *([old] if old is not None else [])]


def _check_filters(value: Json) -> None:
    types = value.get("types")
    if types is not None and (
        not isinstance(types, list) or not all(isinstance(type_name, str) and type_name for type_name in types)
    ):
        raise NotValid("`types` is an array of strings.")
    if "filters" in value and not isinstance(value["filters"], list):
        raise NotValid("`filters` is an array; the draft's `filter` is an object.")
    if "filter" in value and not isinstance(value["filter"], dict):
        raise NotValid('`filter` is an object, such as {"prefix": {"subject": "/messagecatalog/5"}}.')
    results = _filters(value)
    if len(results) > _MOST_FILTERS:
        raise NotValid(f"More than {_MOST_FILTERS} filters.")
    for expression in results:
        _check_filter(expression, 0)


def _check_filter(expression: Any, depth: int) -> None:
    if not isinstance(expression, dict) or not expression or depth > _DEEPEST:
        raise NotValid("A filter is an object with exact, prefix, suffix, all, any or not.")
    for dialect, wanted in expression.items():
        if dialect in _DIALECTS:
            if not isinstance(wanted, dict) or not wanted or not all(isinstance(text, str) and text for text in wanted.values()):
                raise NotValid(f'`{dialect}` is an object: attribute → text, such as {{"subject": "/messagecatalog/5"}}.')
        elif dialect in ("all", "any"):
            if not isinstance(wanted, list) or not wanted or len(wanted) > _MOST_FILTERS:
                raise NotValid(f"`{dialect}` is an array of filters.")
            for inner in wanted:
                _check_filter(inner, depth + 1)
        elif dialect == "not":
            _check_filter(wanted, depth + 1)
        else:
            raise NotValid(f"A filter `{dialect[:40]}` is not served here: exact, prefix, suffix, all, any and not are.")


def _matches(expression: Json, event: Json) -> bool:
    for dialect, wanted in expression.items():
        if dialect in _DIALECTS:
            test = _DIALECTS[dialect]
            if not all(name in event and test(str(event[name]), text) for name, text in wanted.items()):
                return False
        elif dialect == "not":
            if _matches(wanted, event):
                return False
        elif not (all if dialect == "all" else any)(_matches(inner, event) for inner in wanted):
            return False
    return True
