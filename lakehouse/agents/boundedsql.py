"""A query on the tables of the read model: it only reads, for some seconds, and gives some rows."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from lakehouse.errors import QueryError
from lakehouse.readmodel.snapshotview import View

SECONDS = 5.0
_MOST_ROWS = 200
_STEPS = 10_000  # of SQLite between two looks at the clock
_LIMIT_LENGTH, _MOST_BYTES = 0, 1 << 20  # SQLITE_LIMIT_LENGTH; of one value
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_TABLES = ("effective", "violations", "searched", "log", "edges")
_REFUSED_FUNCTIONS = ("load_extension", "zeroblob", "randomblob", "printf", "format")  # the last four can fill the memory


def run_select(view: View, query: str, seconds: float = SECONDS) -> dict[str, Any]:
    """Return columns and rows of a SELECT on a snapshot's file.

    Raises:
        QueryError: it is no SELECT on the tables that may be read, is wrong, or takes too long.
    """
    db = view.db
    until = time.monotonic() + seconds
    setlimit = getattr(db, "setlimit", None)  # of Python 3.11
    most = setlimit(_LIMIT_LENGTH, _MOST_BYTES) if setlimit else None
    db.set_authorizer(_authorize)
    db.set_progress_handler(lambda: time.monotonic() > until, _STEPS)
    try:
        cursor = db.execute(query)
        if cursor.description is None:
            raise QueryError("It gives no rows: name a SELECT.")
        rows = cursor.fetchmany(_MOST_ROWS + 1)
        columns = [column[0] for column in cursor.description]
        cursor.close()
    except (sqlite3.Error, sqlite3.Warning) as error:
        reason = f"it takes longer than {seconds:g} s" if time.monotonic() > until else str(error)
        raise QueryError(f"The query cannot be run: {reason}. Tables: {', '.join(_TABLES)}.") from error
    finally:
        db.set_progress_handler(None, 0)
        db.set_authorizer(None)
        if setlimit:
            setlimit(_LIMIT_LENGTH, most)
    more = {"more": f"only the first {_MOST_ROWS} rows: add LIMIT or WHERE"} if len(rows) > _MOST_ROWS else {}
    return {"columns": columns, "rows": [list(row) for row in rows[:_MOST_ROWS]]} | more


def _authorize(action: int, first: str | None, second: str | None, _: str | None, __: str | None) -> int:
    if action == sqlite3.SQLITE_READ and first not in _TABLES:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_FUNCTION and second in _REFUSED_FUNCTIONS:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _ALLOWED else sqlite3.SQLITE_DENY
