"""The Delta tables of a warehouse, read without Spark and without Java.

A look costs two `stat` calls a table: the newest commit that is known must be the same file, and the next one must not be there.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.errors import WarehouseError, WarehouseTooNew
from lakehouse.readmodel.file.place import is_remote
from lakehouse.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    from deltalake import DeltaTable

READ = ("changes", "effective_messages", "violations")
SCHEMA_VERSION = 1  # of the tables that are read here
_BATCH_ROWS = 2048
_OPTIONS = {
    "spark.hadoop.fs.s3a.endpoint": "AWS_ENDPOINT_URL",
    "spark.hadoop.fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "spark.hadoop.fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "spark.hadoop.fs.s3a.session.token": "AWS_SESSION_TOKEN",
    "spark.hadoop.fs.s3a.endpoint.region": "AWS_REGION",
}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_STORES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://")
_OWN_JOBS = ("project", "rebuild")
# What leaves the rows of a table as they are, or is told by the rows that it writes.
_HARMLESS = (
    "MERGE", "OPTIMIZE", "VACUUM START", "VACUUM END", "CREATE TABLE", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
    "ADD CONSTRAINT", "CHANGE COLUMN", "COMPUTE STATS", "CLUSTER BY", "UPGRADE PROTOCOL",
)  # fmt: skip


class Known(NamedTuple):
    """What is known of a Delta table that was read: the id of the table, the version, the file of that version's commit."""

    id: str
    version: int
    signature: str


class Warehouse:
    """The tables of a warehouse.

    Args:
        location: as from `location_of`.
        settings: Spark's settings for S3, which are Delta's here too; the environment's `AWS_…` count where they say nothing.
    """

    def __init__(self, location: str, settings: Settings) -> None:
        self.location = location
        self.is_remote = is_remote(location)
        self._options = {name: settings.spark[key] for key, name in _OPTIONS.items() if settings.spark.get(key)}
        if self._options.get("AWS_ENDPOINT_URL", "").startswith("http:"):
            self._options["AWS_ALLOW_HTTP"] = "true"

    def is_unchanged(self, name: str, known: Known) -> bool:
        """Tell that a table is the one that is known, with no commit more; False: it has to be opened."""
        if self.is_remote or not known.signature:
            return False
        log = f"{self.location}/{name}/_delta_log/"
        return (
            not os.path.exists(f"{log}{known.version + 1:020}.json") and self._signature(name, known.version) == known.signature
        )

    def open(self, name: str, version: int | None = None) -> DeltaTable:
        """Open a table, at its newest version or an older one.

        Raises:
            WarehouseError: it is not there, or cannot be read.
            WarehouseTooNew: a newer version of the product wrote it.
        """
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        if self.is_remote and not self.location.startswith(_STORES):
            raise WarehouseError(
                f"{self.location}: quick commands read warehouses on disk and on S3, Google and Azure stores, without Spark. "
                "Ask this one with `lakehouse sql`."
            )
        uri = f"{self.location}/{name}".replace("s3a://", "s3://", 1)
        try:
            table = DeltaTable(uri, version=version, storage_options=self._options or None)
        except TableNotFoundError as error:
            raise WarehouseError(
                f"{self.location} holds no catalog (no table {name}). Load documents with `lakehouse ingest SOURCE`."
            ) from error
        except (DeltaError, OSError) as error:
            told = " ".join(_COLOURS.sub("", str(error)).replace("↳", "").split())
            raise WarehouseError(f"{uri}: cannot be read ({told}). `lakehouse doctor` tells what is wrong.") from error
        written = int(table.metadata().configuration.get("xregistry.schema_version", SCHEMA_VERSION))
        if written > SCHEMA_VERSION:
            raise WarehouseTooNew(
                f"{self.location} was written by a newer release (tables of version {written}; this one reads up to "
                f"{SCHEMA_VERSION}). Install the newer release."
            )
        return table

    def known(self, name: str, table: DeltaTable) -> Known:
        """Tell what there is to know of an open table."""
        return Known(str(table.metadata().id), table.version(), self._signature(name, table.version()))

    def _signature(self, name: str, version: int) -> str:
        if self.is_remote:
            return ""
        try:
            found = os.stat(f"{self.location}/{name}/_delta_log/{version:020}.json")
        except OSError:  # only a checkpoint is left, or nothing: the table has to be opened
            return ""
        return f"{found.st_mtime_ns}:{found.st_size}:{found.st_ino}"


def row_count(table: DeltaTable) -> int | None:
    """Count the rows by the statistics of the files; None: some file has none."""
    import pyarrow as pa

    counts: list[int | None] = pa.table(table.get_add_actions(flatten=True)).column("num_records").to_pylist()
    return None if None in counts else sum(count or 0 for count in counts)


def dataset(table: DeltaTable) -> ds.Dataset:
    """Open the files of a table. Spark writes moments as INT96, of which Arrow else makes nanoseconds: too few for year 1."""
    import pyarrow.dataset as ds

    return table.to_pyarrow_dataset(parquet_read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"))


def batches(table: DeltaTable, columns: tuple[str, ...], above: int | None = None) -> Iterator[pa.RecordBatch]:
    """Read rows in batches, of which few are in memory at once.

    Args:
        table: opened.
        columns: those that are read.
        above: only rows with a higher snapshot_id; files and row groups without any are not read. None: all rows.
    """
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    condition = None if above is None else ds.field("snapshot_id") > above
    for fragment in dataset(table).get_fragments(condition):
        groups = [part.row_groups[0].id for part in fragment.split_by_row_group(condition)]
        # Arrow's own scan holds a row group, as large as Spark likes it, whole in memory; here it is read page by page.
        with fragment.open() as opened, pq.ParquetFile(opened, pre_buffer=False, coerce_int96_timestamp_unit="us") as file:
            for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=list(columns), use_threads=False):
                wanted = None if above is None else pc.greater(batch.column("snapshot_id"), above)
                if wanted is None:
                    yield _plain(batch)
                elif pc.any(wanted).as_py():
                    yield _plain(batch).filter(wanted)


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Turn texts into those that every function of Arrow takes: deltalake writes another kind."""
    import pyarrow as pa

    columns = []
    for column in batch.columns:
        if "string_view" not in str(column.type):
            columns.append(column)
        elif pa.types.is_map(column.type):
            columns.append(column.cast(pa.map_(pa.string(), pa.string())))
        else:
            columns.append(column.cast(pa.list_(pa.string()) if pa.types.is_list(column.type) else pa.string()))
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def told_position(table: DeltaTable, known_version: int | None = None) -> tuple[int | None, bool]:
    """Tell up to which snapshot a projection of the log has come.

    Args:
        table: opened.
        known_version: the version that was read last; None: none was.

    Returns:
        The snapshot that the newest commit of this product names (None: none does), and whether all commits after
        `known_version` are such that rows with a higher snapshot_id tell all that changed.
    """
    position: int | None = None
    is_plain = known_version is not None
    for commit in table.history():
        if known_version is not None and commit["version"] <= known_version and position is not None:
            break
        if known_version is not None and commit["version"] > known_version:
            appends = commit["operation"] == "WRITE" and commit.get("operationParameters", {}).get("mode") == "Append"
            is_plain = is_plain and (appends or commit["operation"] in _HARMLESS)
        if position is None:
            position = _own_position(commit.get("userMetadata"))
        if position is not None and known_version is None:
            break
    return position, is_plain


def positions(table: DeltaTable) -> list[tuple[int, int]]:
    """List the versions of a projection with the snapshot that each stands at, newest first, as far as Delta's log goes."""
    found = []
    for commit in table.history():
        position = _own_position(commit.get("userMetadata"))
        if position is not None:
            found.append((commit["version"], position))
    return found


def _own_position(user_metadata: Any) -> int | None:
    try:
        told = json.loads(user_metadata or "{}")
    except (ValueError, TypeError):
        return None
    is_own = isinstance(told, dict) and type(told.get("snapshot_id")) is int and told.get("job") in _OWN_JOBS
    return told["snapshot_id"] if is_own else None
