"""What a batch changes is appended to the log: by delta-rs where the table admits it, else by a warm Spark session.

Both are compare-and-set against the snapshot that the batch was planned for, and write the same rows, digests and commit
information; a test compares them.
"""

from __future__ import annotations

import errno
import json
import re
import tempfile
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from lakehouse.domain.flatattributes import flat_attributes_of_body
from lakehouse.errors import CommitLost
from lakehouse.failpoints import crash_point
from lakehouse.ingest.parse.readings import TABLE_NAMES
from lakehouse.log.commits import CommitInfo, Totals, commit_rows, own_bodies
from lakehouse.log.digests import folded
from lakehouse.log.snapshotfacts import APPLICATION, LOGGED, Head
from lakehouse.readmodel.file.delta import Warehouse
from lakehouse.serve.write.overlay import OverlayChange
from lakehouse.settings import Settings
from lakehouse.store.durable import Durable, sync
from lakehouse.store.keys import VERSION_KIND
from lakehouse.store.localpaths import STAGES
from lakehouse.store.schema import CHANGES, arrow_schema_of

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable
    from deltalake.transaction import RemoveAction
    from pyspark.sql import SparkSession

# The columns of `changes` without snapshot_id, as the table declares them.
_ROWS = arrow_schema_of(StructType([field for field in CHANGES if field.name != "snapshot_id"]))
_OF_SYSTEM = re.compile(r"\(os error ([0-9]+)\)")  # as delta-rs ends the text of an error of the system
_FULL, _READ_ONLY = "is full: make room", "is read-only for this server: let it write there"
_BY_NUMBER = dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _FULL) | dict.fromkeys(
    (errno.EROFS, errno.EACCES, errno.EPERM), _READ_ONLY
)
_BY_TEXT = {"database or disk is full": _FULL, "attempt to write a readonly database": _READ_ONLY}  # of SQLite


class Appender(Protocol):
    """Appends a batch as the next snapshot."""

    def append(self, head: Head, version: int, committed_at: datetime, changes: list[OverlayChange], run: CommitInfo) -> None:
        """Append.

        Args:
            head: the snapshot that the batch was planned for.
            version: of the Delta table `changes`, in which that snapshot was the newest.
            committed_at: time of the snapshot, later than the head's.
            changes: what the batch changes.
            run: who commits.

        Raises:
            CommitLost: another writer has taken that snapshot; nothing was appended.
        """
        ...


class SparkAppender:
    """Appends with Spark, to any table."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def append(self, head: Head, version: int, committed_at: datetime, changes: list[OverlayChange], run: CommitInfo) -> None:
        """Append; see `Appender`."""
        rows = self.spark.createDataFrame(arrow_rows(changes))
        commit_rows(self.spark, head, committed_at, rows, counts_of(changes), run)


class DeltaAppender:
    """Appends with delta-rs, in milliseconds, to a table without features that it refuses."""

    def __init__(self, location: str, settings: Settings) -> None:
        self.is_synced = Durable(f"{location}/changes", settings).is_wanted
        self.warehouse = Warehouse(location, settings)  # in separate objects: what follows the tables works on other ones

    def append(self, head: Head, version: int, committed_at: datetime, changes: list[OverlayChange], run: CommitInfo) -> None:
        """Append; see `Appender`."""
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError

        rows = arrow_rows(changes)
        totals = Totals(head, committed_at, counts_of(changes), 0, rows_digest(rows))
        metadata, bodies = own_bodies(totals, run)
        snapshot_id = head.snapshot_id + 1
        own = [{"registryid": "", "kind": kind, "xid": xid, "op": "insert", "body": body} for kind, xid, body in bodies]
        every = pa.concat_tables([rows, pa.Table.from_pylist(own, _ROWS)])
        numbers = pa.array([snapshot_id] * every.num_rows, pa.int64())
        every = every.add_column(0, pa.field("snapshot_id", pa.int64(), nullable=False), numbers)
        properties = CommitProperties(
            custom_metadata={"userMetadata": json.dumps(metadata)},
            max_commit_retries=0,
            app_transactions=[Transaction(APPLICATION, snapshot_id)],
        )
        table = self.warehouse.newest("changes")
        if table.version() != version:
            raise CommitLost(snapshot_id)
        crash_point("before_commit")
        try:
            self._write(table, _as_declared(every, table), properties)
        except CommitFailedError as error:
            if storage_refusal(error) is not None:
                raise
            raise CommitLost(snapshot_id) from error
        crash_point("after_commit")

    def _write(self, table: DeltaTable, rows: pa.Table, properties: CommitProperties) -> None:
        """Write the parts and commit them; where commits are synced, the parts are on the disk before the commit names them.

        delta-rs writes and commits in one call. So it writes into a table of the same protocol, properties and schema aside, on
        the same disk: checks, part files and statistics are its own.
        """
        from deltalake import DeltaTable, write_deltalake
        from deltalake.transaction import AddAction

        if not self.is_synced:
            write_deltalake(table, rows, mode="append", commit_properties=properties)
            return
        stages, folder = Path(self.warehouse.location, STAGES), Path(self.warehouse.location, "changes")
        stages.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="append-", dir=stages) as aside:
            log = Path(aside, "_delta_log")
            log.mkdir()
            (log / f"{0:020}.json").write_text(_declaration(table), encoding="utf-8")
            write_deltalake(DeltaTable(aside), rows, mode="append")
            lines = (log / f"{1:020}.json").read_text(encoding="utf-8").splitlines()
            added = [action["add"] for action in map(json.loads, lines) if "add" in action]
            for file in added:
                sync(Path(aside, file["path"]))
                Path(aside, file["path"]).rename(folder / file["path"])
        sync(folder)
        actions: list[AddAction | RemoveAction] = [
            AddAction(file["path"], file["size"], file["partitionValues"], file["modificationTime"], True, file["stats"])
            for file in added
        ]
        table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)


def _declaration(table: DeltaTable) -> str:
    """Return the first commit of a table that is declared as another one."""
    protocol, declaration = table.protocol(), table.metadata()
    versions: dict[str, Any] = {"minReaderVersion": protocol.min_reader_version, "minWriterVersion": protocol.min_writer_version}
    features = {"readerFeatures": protocol.reader_features, "writerFeatures": protocol.writer_features}
    declared = {
        "id": declaration.id,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema().to_json(),
        "partitionColumns": declaration.partition_columns,
        "configuration": declaration.configuration,
    }
    versions |= {name: value for name, value in features.items() if value is not None}
    return "".join(json.dumps(action) + "\n" for action in ({"protocol": versions}, {"metaData": declared}))


def storage_refusal(error: BaseException | None) -> str | None:
    """Return why the storage of the warehouse took nothing, out of an error and what caused it; None: that was not the reason."""
    while error is not None:
        text = str(error)
        match = _OF_SYSTEM.search(text)
        number = error.errno if isinstance(error, OSError) and error.errno else int(match[1]) if match else 0
        refusal = _BY_NUMBER.get(number) or next((entry for part, entry in _BY_TEXT.items() if part in text), None)
        if refusal is not None:
            return refusal
        error = error.__cause__
    return None


def admits_delta_rs(table: DeltaTable) -> bool:
    """Return whether delta-rs may write a table: clustering is a feature that it refuses."""
    features = set(table.protocol().writer_features or ())
    return not features & {"clustering", "domainMetadata"}


def counts_of(changes: list[OverlayChange]) -> dict[str, dict[str, int]]:
    """Count rows by table and op."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for change in changes:
        row = change.after or change.before
        assert row is not None
        counts[TABLE_NAMES[row.kind]][_op(change)] += 1
    return {table: dict(counts[table]) for table in TABLE_NAMES.values()}


def arrow_rows(changes: list[OverlayChange]) -> pa.Table:
    """Return changes as rows of the log: columns of `changes` without snapshot_id. A deleted entity keeps its last text."""
    columns: dict[str, list[Any]] = {name: [] for name in _ROWS.names}
    for change in changes:
        row = change.after or change.before
        assert row is not None
        attributes = row.attributes
        if attributes is None and row.kind in VERSION_KIND.values():
            attributes = flat_attributes_of_body(row.body)
        uris = [] if change.after is None else list(row.document_uris)
        values = (
            change.registryid, row.kind, row.xid, _op(change), row.content_hash, row.epoch, row.createdat, row.modifiedat, uris,
            row.body, row.raw, attributes,
        )  # fmt: skip
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return pa.Table.from_pydict(columns, schema=_ROWS)


def rows_digest(rows: pa.Table) -> str:
    """Fold rows into the digest of a snapshot, as `lakehouse.log.plan.rows_digest` does in Spark."""
    columns = [_hashable(rows.column(name)) for name in LOGGED]
    return f"{folded(zip(*columns, strict=True)):016x}"


def _op(change: OverlayChange) -> str:
    if change.before is None:
        return "insert"
    return "delete" if change.after is None else "update"


def _hashable(column: pa.ChunkedArray) -> list[Any]:
    values: list[Any] = (column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column).to_pylist()
    return values


def _as_declared(rows: pa.Table, table: DeltaTable) -> pa.Table:
    """Return the columns the nullability that the table declares."""
    declared = {field.name: field.nullable for field in table.schema().fields}
    return rows.cast(pa.schema([field.with_nullable(declared[field.name]) for field in rows.schema]))
