"""The SQLite file of the read model: its tables, and connections to it.

`log` holds every row of the Delta log `changes`, each with the snapshot at which a later row of the same entity replaced it
(`until`). So the catalog as of snapshot S is `snapshot_id <= S AND until > S`, for the present and for the past alike.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

FORMAT = 4  # a file of another format is made anew
NEVER = 2**62  # `until` of a row that nothing has replaced

# Kinds that are listed whole; a query says these words, so that SQLite takes the index.
FEW = "kind NOT IN ('message', 'version', 'schema', 'schemaversion')"

# Columns of `effective_messages` that are JSON text here.
JSON_COLUMNS = ("labels", "document_uris", "attributes", "inferred", "depends_on")
EFFECTIVE_COLUMNS = (
    "registryid", "xid", "group_xid", "messageid", "version_xid", "chain_status", "chain_depth", "name", "description", "labels",
    "envelope", "ce_type", "ce_type_required", "ce_source", "ce_source_required", "ce_subject", "ce_subject_required",
    "protocol", "protocol_family", "protocol_version", "address", "kafka_key", "http_method", "http_status", "dataschemaformat",
    "schema_xid", "dataschemauri", "datacontenttype", "document_uris", "attributes", "inferred", "depends_on", "snapshot_id",
)  # fmt: skip
# What tells definitions apart: read of all of them, out of an index alone.
TELLING_COLUMNS = ("chain_status", "envelope", "ce_type", "protocol", "address")
BOOLEAN_COLUMNS = ("ce_type_required", "ce_source_required", "ce_subject_required")
VIOLATION_COLUMNS = (
    "violation_id", "ingest_id", "found_at", "registryid", "document_uri", "xid", "pointer", "rule_id", "severity", "action",
    "message", "hint", "raw",
)  # fmt: skip
LOG_COLUMNS = (
    "snapshot_id", "registryid", "kind", "xid", "op", "content_hash", "epoch", "createdat", "modifiedat", "document_uris",
    "body", "raw",
)  # fmt: skip

TABLES = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE log (
  id INTEGER PRIMARY KEY,
  snapshot_id INTEGER NOT NULL,
  until INTEGER NOT NULL,
  registryid TEXT NOT NULL,
  kind TEXT NOT NULL,
  xid TEXT NOT NULL,
  op TEXT NOT NULL,
  content_hash TEXT,
  epoch INTEGER,
  createdat INTEGER,
  modifiedat INTEGER,
  document_uris TEXT,
  body TEXT,
  raw TEXT
);
CREATE TABLE edges (
  log_id INTEGER NOT NULL,
  relation TEXT NOT NULL,
  pointer TEXT NOT NULL,
  target TEXT NOT NULL,
  whole TEXT,
  without_suffix TEXT,
  type_name TEXT
);
CREATE TABLE version_uris (log_id INTEGER PRIMARY KEY, version_uri TEXT NOT NULL);
CREATE TABLE effective ({", ".join(EFFECTIVE_COLUMNS)});
CREATE TABLE violations ({", ".join(VIOLATION_COLUMNS)});
CREATE TABLE searched (
  id INTEGER PRIMARY KEY, registryid TEXT NOT NULL, kind TEXT NOT NULL, xid TEXT NOT NULL, entityid TEXT NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5(
  ids, name, type, address, labels, description, attributes, tokenize = 'unicode61 remove_diacritics 2'
);
"""
# Made after the first rows, which is quicker.
INDEXES = f"""
CREATE INDEX log_by_xid ON log (registryid, xid, snapshot_id);
CREATE INDEX log_by_snapshot ON log (snapshot_id, registryid, xid, kind, op);
CREATE INDEX log_of_few ON log (kind, registryid, xid) WHERE {FEW};
CREATE INDEX edges_by_source ON edges (log_id);
CREATE INDEX edges_by_target ON edges (whole);
CREATE INDEX edges_by_other_target ON edges (without_suffix) WHERE without_suffix IS NOT NULL;
CREATE INDEX version_uris_by_uri ON version_uris (version_uri);
CREATE UNIQUE INDEX effective_by_xid ON effective (registryid, xid);
CREATE INDEX effective_by_snapshot ON effective (snapshot_id);
CREATE INDEX effective_by_group ON effective (registryid, group_xid, xid, {", ".join(TELLING_COLUMNS)});
CREATE UNIQUE INDEX violations_by_id ON violations (violation_id);
CREATE INDEX violations_by_document ON violations (registryid, document_uri);
CREATE UNIQUE INDEX searched_by_xid ON searched (registryid, kind, xid);
CREATE INDEX searched_by_id ON searched (entityid);
"""
_BUSY_SECONDS = 30


def create(path: Path) -> sqlite3.Connection:
    """Create a file that nobody reads yet, readable by its owner only; nothing of it need survive a crash until it is whole."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    made = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    made.executescript(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -24576;"
    )
    made.executescript(TABLES)
    return made


class Reading(sqlite3.Connection):
    """A connection that knows its cursors.

    SQLite lets a statement that was not read to its end go on after ROLLBACK: the connection would show its next reader the state
    of then. An error keeps such a cursor alive, as long as its traceback is kept.
    """

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def execute(self, *given: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        made = super().execute(*given)
        self._cursors.add(made)
        return made

    def end(self) -> None:
        """End the transaction, and with it whatever still reads in it."""
        for cursor in list(self._cursors):
            cursor.close()
        self.execute("ROLLBACK")


def connect(path: Path, *, write: bool = False) -> Reading:
    """Open a file that is whole; a reader cannot change it.

    Raises:
        sqlite3.OperationalError: it is not there.
    """
    opened = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_SECONDS,
        factory=Reading,
    )
    opened.execute("PRAGMA cell_size_check = ON")
    opened.execute(f"PRAGMA query_only = {'OFF' if write else 'ON'}")
    if write:
        opened.execute("PRAGMA synchronous = NORMAL")
        opened.execute("PRAGMA cache_size = -24576")
    return opened


def decoded(row: Iterable[Any]) -> dict[str, Any]:
    """Give a row of `effective` as Python values."""
    found = dict(zip(EFFECTIVE_COLUMNS, row, strict=True))
    for name in JSON_COLUMNS:
        if found[name] is not None:
            found[name] = orjson.loads(found[name])
    for name in BOOLEAN_COLUMNS:
        if found[name] is not None:
            found[name] = bool(found[name])
    return found
