"""Where a table stands in the log: its commits tell, and the table need not be read.

Each projection writes the snapshot that it brings into its Delta commit, as user metadata and as a transaction id of its own.
Others may commit too: an `OPTIMIZE` by hand, a new property, a write by another program. What they say of themselves is theirs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.store import deltalog
from lakehouse.store.deltalog import table_location
from lakehouse.store.files import list_folder, read_text
from lakehouse.store.schema import SCHEMA

_PROJECTING = ("project", "rebuild")
_MOST_COMMITS = 100  # that are looked at, newest first
_COMMIT = re.compile(r"/(\d{20})\.json\Z")
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_TRANSACTION = "spark.databricks.delta.write.txn"


def tell_commits(session: SparkSession, told: dict[str, Any]) -> None:
    """Let the commits of this session say this of themselves."""
    session.conf.set(_METADATA, json.dumps(told))


def told_by_commits(spark: SparkSession, name: str) -> dict[str, Any]:
    """Read what this product's newest commit to a table says of itself; nothing when that says no more where the table stands.

    Commits of others are passed over when they changed no row. Behind one that did, nothing is known.
    """
    for told, changes_rows in _told(spark, name):
        if told or changes_rows:
            return told
    return {}


def told_by_appends(spark: SparkSession, name: str) -> Iterator[dict[str, Any]]:
    """Read what this product's commits say that changed rows of a table, newest first, as far back as nobody else changed any.

    What OPTIMIZE says is passed over: it repeats what stood there when it began.
    """
    for told, changes_rows in _told(spark, name):
        if changes_rows:
            if not told:
                return
            yield told


def _told(spark: SparkSession, name: str) -> Iterator[tuple[dict[str, Any], bool]]:
    """Read of the newest commits, newest first, what they say if they are this product's, and whether they changed rows."""
    for path in _commits(spark, name)[:_MOST_COMMITS]:
        try:
            actions: list[dict[str, Any]] = [json.loads(line) for line in read_text(spark, path).splitlines() if line.strip()]
        except ValueError:  # cut off: the table will be asked, and Delta then says so
            return
        told = next((told for action in actions if (told := _own((action.get("commitInfo") or {}).get("userMetadata")))), {})
        yield told, any(_changes_rows(action) for action in actions)


def told_position(spark: SparkSession, name: str) -> int:
    """Give the snapshot that the commits of a table say it stands at; 0: they do not say."""
    told = told_by_commits(spark, name)
    return int(told["snapshot_id"]) if told.get("job") in _PROJECTING else 0


def was_never_written(spark: SparkSession, name: str) -> bool:
    """Tell that nothing but its creation was committed to a table."""
    return [path.rsplit("/", 1)[-1] for path in _commits(spark, name)] == [f"{0:020}.json"]


def as_transaction(session: SparkSession, name: str, snapshot_id: int | None) -> None:
    """Let the commits of this session be the transaction that brings a table to a snapshot; None: no transaction.

    Delta leaves out one when it knows it, or a later one of the table, and refuses one of two at the same time.
    """
    if snapshot_id is None:
        session.conf.unset(f"{_TRANSACTION}AppId")
        session.conf.unset(f"{_TRANSACTION}Version")
    else:
        session.conf.set(f"{_TRANSACTION}AppId", _application(name))
        session.conf.set(f"{_TRANSACTION}Version", str(snapshot_id))


def first_transaction(name: str) -> dict[str, str | int]:
    """Give the options of a write that fills an empty table: whatever it brings, only one process can do it."""
    return {"txnAppId": _application(name), "txnVersion": 1}


def last_transaction(session: SparkSession, name: str) -> int:
    """Give the last transaction that brought a table forward, 0 before the first; a table that is set back keeps it."""
    return deltalog.last_transaction(session, _application(name), name)


def _application(name: str) -> str:
    return f"lakehouse.{name}"


def _commits(spark: SparkSession, name: str) -> list[str]:
    """List the commits of a table that Delta's log still holds, newest first; none where there is no catalog yet."""
    if not spark.catalog.databaseExists(SCHEMA):
        return []
    listed = [path for path, _, _ in list_folder(spark, f"{table_location(spark, name)}/_delta_log")]
    return sorted((path for path in listed if _COMMIT.search(path)), reverse=True)


def _own(user_metadata: Any) -> dict[str, Any]:
    """Read user metadata that this product wrote; nothing of what somebody else wrote."""
    try:
        told = json.loads(user_metadata or "{}")
    except (ValueError, TypeError):
        return {}
    if not isinstance(told, dict) or type(told.get("snapshot_id")) is not int:
        return {}
    return told if told.get("job") in _PROJECTING or "command" in told else {}


def _changes_rows(action: dict[str, Any]) -> bool:
    return any(action[kind].get("dataChange", True) for kind in ("add", "remove") if kind in action)
