"""What Delta's log says of a table, without a query, and what to do when another commit was quicker.

It says a table's properties, size and files, and its position in the log `changes`: each projection writes the snapshot that it
brings into its Delta commit, as user metadata and as its own transaction id. Others may commit too: an `OPTIMIZE` by hand, a new
property, a write by another program. What such a commit says in its metadata is not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import unquote

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from lakehouse.errors import CommitLost
from lakehouse.settings import Settings
from lakehouse.store.durable import Durable
from lakehouse.store.files import exists, list_folder, read_text
from lakehouse.store.internals import deltalog
from lakehouse.store.internals.deltalog import Files
from lakehouse.store.internals.hadoop import filesystem_of
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import absolute_location

_PROJECTING = ("project", "rebuild")
_MOST_COMMITS = 100  # that are looked at, newest first
_COMMIT = re.compile(r"/(\d{20})\.json\Z")
_RETENTION = re.compile(r"\A(?:interval )?(\d+) (hour|day|week)s?\Z", re.IGNORECASE)
_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_TRANSACTION = "spark.databricks.delta.write.txn"
# They share no base class.
CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)


class _Commit(NamedTuple):
    """A commit to a table.

    Attributes:
        version: of the table.
        made_at: when it was made; None: it does not say.
        metadata: what it says if it is this product's.
        changes_rows, removes_files: what it did to rows and files.
        adds_columns: whether versions before it lack columns.
    """

    version: int
    made_at: datetime | None
    metadata: dict[str, Any]
    changes_rows: bool
    removes_files: bool
    adds_columns: bool


def set_commit_metadata(session: SparkSession, details: dict[str, Any]) -> None:
    """Set the user metadata of this session's commits."""
    session.conf.set(_METADATA, json.dumps(details))


def metadata_of_commits(spark: SparkSession, name: str) -> dict[str, Any]:
    """Read what this product's newest commit to a table says of itself; nothing if that is no longer the table's position.

    Commits of others are passed over when they changed no row. Behind one that did, nothing is known.
    """
    for commit in _newest_commits(spark, name):
        if commit.metadata or commit.changes_rows:
            return commit.metadata
    return {}


def metadata_of_appends(spark: SparkSession, name: str) -> Iterator[dict[str, Any]]:
    """Read what this product's commits say that changed rows of a table, newest first, as far back as nobody else changed any.

    What OPTIMIZE says is passed over: it repeats what stood there when it began.
    """
    for commit in _newest_commits(spark, name):
        if commit.changes_rows:
            if not commit.metadata:
                return
            yield commit.metadata


def version_at(spark: SparkSession, name: str, first: int, last: int) -> int | None:
    """Find a version of a table that stood between two snapshots, both included, and whose files Delta still keeps.

    Returns:
        The newest of them; None when there is none, Delta's history has none, or it lacks columns of the table.
    """
    retention = _RETENTION.match(table_property(spark, name, "delta.deletedFileRetentionDuration") or "7 days")
    oldest = datetime.now(timezone.utc) - timedelta(**{f"{retention[2].lower()}s": int(retention[1])} if retention else {})
    later = None  # where the table stood after the commit that is looked at
    for commit in _newest_commits(spark, name):
        if commit.changes_rows:
            position = commit.metadata.get("snapshot_id") if commit.metadata.get("job") in _PROJECTING else None
            if position is None or (later is not None and position > later):
                return None  # somebody else's rows, or a log that was set back
            if first <= position <= last:
                return commit.version
            if position < first:
                return None
            later = position
        if commit.adds_columns:
            return None
        if commit.removes_files and (commit.made_at is None or commit.made_at < oldest):
            return None  # what it removed may be gone
    return None


def _newest_commits(spark: SparkSession, name: str) -> Iterator[_Commit]:
    """Read what the newest commits say, newest first."""
    for path in islice(_commits(spark, name), _MOST_COMMITS):
        try:
            actions = read_actions(spark, path)
        except ValueError:  # cut off: the table will be asked, and Delta then says so
            return
        infos = [action["commitInfo"] for action in actions if action.get("commitInfo")]
        details = next((details for info in infos if (details := _own(info.get("userMetadata")))), {})
        millis = next((info["timestamp"] for info in infos if "timestamp" in info), None)
        made_at = None if millis is None else datetime.fromtimestamp(millis / 1000, timezone.utc)
        changes_rows = any(_changes_rows(action) for action in actions)
        adds_columns = any(info.get("operation") == "ADD COLUMNS" for info in infos)
        removes_files = any("remove" in action for action in actions)
        yield _Commit(_version(path), made_at, details, changes_rows, removes_files, adds_columns)


def read_actions(spark: SparkSession, path: str) -> list[dict[str, Any]]:
    """Read the actions of a commit, one a line.

    Args:
        spark: the session.
        path: of its file in Delta's log.

    Raises:
        ValueError: the file is cut off.
    """
    return [json.loads(line) for line in read_text(spark, path).splitlines() if line.strip()]


def recorded_position(spark: SparkSession, name: str) -> int:
    """Return the snapshot up to which a table was written, by the user metadata of its commits; 0 if they have none."""
    details = metadata_of_commits(spark, name)
    return int(details["snapshot_id"]) if details.get("job") in _PROJECTING else 0


def was_never_written(spark: SparkSession, name: str) -> bool:
    """Return whether a table has no commit but its creation."""
    return [_version(path) for path in islice(_commits(spark, name), 2)] == [0]


def as_transaction(session: SparkSession, name: str, snapshot_id: int | None) -> None:
    """Make the commits of this session the transaction that rolls a table forward to a snapshot; None: no transaction.

    Delta leaves out one when it knows it, or a later one of the table, and refuses one of two at the same time.
    """
    if snapshot_id is None:
        session.conf.unset(f"{_TRANSACTION}AppId")
        session.conf.unset(f"{_TRANSACTION}Version")
    else:
        session.conf.set(f"{_TRANSACTION}AppId", _application(name))
        session.conf.set(f"{_TRANSACTION}Version", str(snapshot_id))


def transaction_of(session: SparkSession) -> tuple[str, int] | None:
    """Return application and number of the transaction that a session's commits belong to, as set by `as_transaction`."""
    application, number = (session.conf.get(f"{_TRANSACTION}{part}", None) for part in ("AppId", "Version"))
    return None if application is None or number is None else (str(application), int(str(number)))


def first_transaction(name: str) -> tuple[str, int]:
    """Return application and number of the transaction that fills an empty table, which only one process can commit."""
    return _application(name), 1


def write_options(session: SparkSession, application: str, number: int) -> dict[str, str | int]:
    """Return the options that make a write this transaction; its user metadata is that of the session's commits."""
    return {"txnAppId": application, "txnVersion": number, "userMetadata": str(session.conf.get(_METADATA))}


def last_transaction(session: SparkSession, name: str) -> int:
    """Return the last transaction that rolled a table forward, 0 before the first; a restored table keeps it."""
    return deltalog.last_transaction(session, table_location(session, name), _application(name))


def _application(name: str) -> str:
    return f"lakehouse.{name}"


def _commits(spark: SparkSession, name: str) -> Iterator[str]:
    """Yield the commits of a table that Delta's log still has, newest first.

    The newest is looked for from Delta's last checkpoint on: each look costs the same, and a folder of ten thousand commits takes
    seconds to list.
    """
    folder = f"{table_location(spark, name)}/_delta_log"

    def has_commit(version: int) -> bool:
        return exists(spark, _commit_file(folder, version))

    version = _last_checkpoint(spark, folder)
    if has_commit(version):
        version = _last_of(version, has_commit)
    else:  # a log that lost its end, or one without a beginning
        version = max((_version(path) for path, _, _ in list_folder(spark, folder) if _COMMIT.search(path)), default=-1)
    while version >= 0 and has_commit(version):
        yield _commit_file(folder, version)
        version -= 1


def _commit_file(folder: str, version: int) -> str:
    return f"{folder}/{version:020}.json"


def _last_checkpoint(spark: SparkSession, folder: str) -> int:
    """Return the version of Delta's last checkpoint, from the file `_last_checkpoint`; 0 if there is none."""
    hint = f"{folder}/_last_checkpoint"
    if not exists(spark, hint):
        return 0
    try:
        version = json.loads(read_text(spark, hint))["version"]
    except (ValueError, KeyError, TypeError):  # cut off, or being written: Delta does without it, too
        return 0
    return version if type(version) is int else 0


def _last_of(start: int, has_commit: Callable[[int], bool]) -> int:
    """Find the last of consecutive numbers, of which `start` is one."""
    step = 1
    while has_commit(start + step):
        start, step = start + step, step * 2
    while step > 1:
        step //= 2
        if has_commit(start + step):
            start += step
    return start


def _version(path: str) -> int:
    return int(path.rsplit("/", 1)[-1].removesuffix(".json"))


def _own(user_metadata: Any) -> dict[str, Any]:
    """Read user metadata that this product wrote; nothing of what somebody else wrote."""
    try:
        details = json.loads(user_metadata or "{}")
    except (ValueError, TypeError):
        return {}
    if not isinstance(details, dict) or type(details.get("snapshot_id")) is not int:
        return {}
    return details if details.get("job") in _PROJECTING or "command" in details else {}


def _changes_rows(action: dict[str, Any]) -> bool:
    return any(action[kind].get("dataChange", True) for kind in ("add", "remove") if kind in action)


def table_location(spark: SparkSession, name: str) -> str:
    """Return the folder of a table in the current schema."""
    return f"{schema_location(spark)}/{name}"


def schema_location(spark: SparkSession) -> str:
    """Return the folder of the current schema, with its scheme; Spark has it as a URI, with spaces as `%20`."""
    return qualified(spark, unquote(str(spark.catalog.getDatabase(SCHEMA).locationUri)))


def qualified(spark: SparkSession, location: str) -> str:
    """Return a location as Hadoop writes it, with its scheme."""
    wanted = absolute_location(location)
    return filesystem_of(spark, wanted).qualified(wanted).rstrip("/")


def sync_table(spark: SparkSession, settings: Settings, name: str) -> None:
    """Write what this session committed to a table through to the disk, as the setting `sync` says.

    Raises:
        OSError: it cannot be written.
    """
    Durable(table_location(spark, name), settings).sync_commits()


def newest_version(spark: SparkSession, name: str) -> Any | None:
    """Return Delta's own object for the newest version of a table; None without internals."""
    return deltalog.newest_version(spark, table_location(spark, name))


def table_property(spark: SparkSession, name: str, key: str) -> str | None:
    """Return a property of a table; None if it has none of that name."""
    return deltalog.table_property(spark, table_location(spark, name), key)


def table_bytes(spark: SparkSession, name: str) -> int:
    """Return the size of a table's files, in bytes."""
    return deltalog.table_bytes(spark, table_location(spark, name))


def current_files(spark: SparkSession, name: str) -> Files | None:
    """Return the files of a table's newest version; None where its rows are better read by a query."""
    return deltalog.current_files(spark, table_location(spark, name))


def is_conflict(error: BaseException) -> bool:
    """Return whether an error is a conflict with another writer.

    What fails in a thread of Delta's own reaches Python as an error of Java, or as one of Spark that a conflict caused.
    """
    if isinstance(error, CONFLICTS):
        return True
    if isinstance(error, Py4JJavaError):
        return any(f"io.delta.exceptions.{exception.__name__}" in str(error) for exception in CONFLICTS)
    cause = getattr(error, "_cause", None) if isinstance(error, PySparkException) else None
    return cause is not None and is_conflict(cause)


def is_lost(error: BaseException) -> bool:
    """Return whether a snapshot was not committed because another writer took its number."""
    return isinstance(error, CommitLost)


def retries(attempts: int, again: Callable[[BaseException], bool] = is_conflict) -> Retrying:
    """Return the attempts at work that a conflict may end; the last error is raised unchanged."""
    wait = wait_random_exponential(multiplier=0.5, max=10)
    return Retrying(retry=retry_if_exception(again), stop=stop_after_attempt(attempts), wait=wait, reraise=True)
