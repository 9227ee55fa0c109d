"""The Delta tables of a warehouse, read without Spark and without Java.

A look costs two `stat` calls a table: the newest commit that is known must be the same file, and the next one must not be there.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from lakehouse.errors import PartMissing, WarehouseError, WarehouseTooNew
from lakehouse.readmodel.file.place import is_remote
from lakehouse.settings import Settings
from lakehouse.store.keys import VERSION_PROPERTY
from lakehouse.store.localpaths import no_catalog

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from deltalake import DeltaTable
    from pyarrow.fs import PyFileSystem

READ = ("changes", "effective_messages", "violations")
SCHEMA_VERSION = 2  # of the tables that are read here
_BATCH_ROWS = 2048
_RUN = re.compile(b"\x01+")
_MOST_RUNS = 40  # of a batch, that are cut out of it one by one
_OPTIONS = {
    "spark.hadoop.fs.s3a.endpoint": "AWS_ENDPOINT_URL",
    "spark.hadoop.fs.s3a.access.key": "AWS_ACCESS_KEY_ID",
    "spark.hadoop.fs.s3a.secret.key": "AWS_SECRET_ACCESS_KEY",
    "spark.hadoop.fs.s3a.session.token": "AWS_SESSION_TOKEN",
    "spark.hadoop.fs.s3a.endpoint.region": "AWS_REGION",
}
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_STORES = ("s3://", "s3a://", "gs://", "az://", "abfs://", "abfss://")
_OWN_JOBS = ("project", "rebuild")
_HARMLESS_FEATURES = {"timestampNtz"}
# What leaves the rows of a table as they are, or shows in the rows that it writes.
_HARMLESS = (
    "MERGE", "OPTIMIZE", "VACUUM START", "VACUUM END", "CREATE TABLE", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES",
    "ADD CONSTRAINT", "CHANGE COLUMN", "COMPUTE STATS", "CLUSTER BY", "UPGRADE PROTOCOL",
)  # fmt: skip


class TableVersion(NamedTuple):
    """The version of a Delta table that was read: the id of the table, the version, the file of that version's commit."""

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
        self._opened: dict[str, tuple[DeltaTable, TableVersion]] = {}

    def is_unchanged(self, name: str, earlier: TableVersion) -> bool:
        """Return whether a table is the one that was read earlier, with no commit more; False: it has to be opened."""
        if self.is_remote or not earlier.signature:
            return False
        return not self._has_next(name, earlier.version) and self._has(name, earlier)

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
        encoded = None if self.is_remote else _ENCODED.search(self.location)
        if encoded is not None:  # delta-rs decodes it, also in a URI that encodes it once more
            raise WarehouseError(
                f"{self.location}: quick commands cannot read a folder with {encoded[0]} in its path. Rename it, or ask this one "
                "with `lakehouse sql`."
            )
        uri = self._uri(name)
        try:
            table = DeltaTable(uri, version=version, storage_options=self._options or None)
        except TableNotFoundError as error:
            raise no_catalog(self.location, name) from error
        except (DeltaError, OSError) as error:
            reason = " ".join(_COLOURS.sub("", str(error)).replace("↳", "").split())
            raise WarehouseError(f"{uri}: cannot be read ({reason}). `lakehouse doctor` reports what is wrong.") from error
        self._check(table)
        return table

    def newest(self, name: str) -> DeltaTable:
        """Return a table at its newest version: one that was given before is brought forward by its new commits alone.

        It is used by one thread at a time, until it is asked for again.

        Raises:
            WarehouseError: as `open`.
            WarehouseTooNew: as `open`.
        """
        from deltalake.exceptions import DeltaError

        table, earlier = self._opened.pop(name, (None, None))
        if table is not None and earlier is not None and self._has(name, earlier):
            try:
                if self._has_next(name, table.version()):
                    table.update_incremental()
            except (DeltaError, OSError):  # opened again, it says what is wrong
                table = None
            if table is not None and str(table.metadata().id) == earlier.id and self._has(name, earlier):
                self._check(table)
                self._opened[name] = (table, self.version_of(name, table))
                return table
        table = self.open(name)
        self._opened[name] = (table, self.version_of(name, table))
        return table

    def folders(self, name: str) -> list[str]:
        """Return the names of the folders in a folder of the warehouse, sorted; none where it is not there.

        Raises:
            WarehouseError: a store elsewhere cannot be listed.
        """
        if not self.is_remote:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(f"{self.location}/{name}") as entries:
                return sorted(entry.name for entry in entries if entry.is_dir())
            return []
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import FileSelector, FileType, PyFileSystem

        uri = self._uri(name)
        try:
            files = PyFileSystem(DeltaStorageHandler(uri, self._options or None))
            entries = files.get_file_info(FileSelector("/", allow_not_found=True))
        except OSError as error:
            raise WarehouseError(f"{uri}: cannot be listed ({error}).") from error
        return sorted(entry.base_name for entry in entries if entry.type == FileType.Directory)

    def check_newest_parts(self, name: str, version: int) -> None:
        """Make sure that the part files that were added last are there; only a local file system is looked at.

        Args:
            name: of the table.
            version: of the table, its newest.

        Raises:
            PartMissing: one is gone.
        """
        folder = Path(self.location, name)
        added: list[str] = []
        while not self.is_remote and not added and version >= 0:
            try:
                commit = (folder / "_delta_log" / f"{version:020}.json").read_bytes()
            except FileNotFoundError:  # only a checkpoint is left
                return
            added = [action["add"]["path"] for action in map(json.loads, commit.splitlines()) if "add" in action]
            version -= 1
        for path in map(unquote, added):
            if not (folder / path).exists():
                raise PartMissing(name, path)

    def _uri(self, name: str) -> str:
        return f"{self.location}/{name}".replace("s3a://", "s3://", 1)

    def _has_next(self, name: str, version: int) -> bool:
        return os.path.exists(f"{self.location}/{name}/_delta_log/{version + 1:020}.json")

    def _has(self, name: str, earlier: TableVersion) -> bool:
        """Return whether a table still has the commit that was its newest; another table may be at its place."""
        return bool(earlier.signature) and self._signature(name, earlier.version) == earlier.signature

    def _check(self, table: DeltaTable) -> None:
        written = int(table.metadata().configuration.get(VERSION_PROPERTY, SCHEMA_VERSION))
        if written > SCHEMA_VERSION:
            raise WarehouseTooNew(
                f"{self.location} was written by a newer release (tables of version {written}; this one reads up to "
                f"{SCHEMA_VERSION}). Install the newer release."
            )

    def version_of(self, name: str, table: DeltaTable) -> TableVersion:
        """Return the version that a table is open at."""
        return TableVersion(str(table.metadata().id), table.version(), self._signature(name, table.version()))

    def _signature(self, name: str, version: int) -> str:
        if self.is_remote:
            return ""
        try:
            result = os.stat(f"{self.location}/{name}/_delta_log/{version:020}.json")
        except OSError:  # only a checkpoint is left, or nothing: the table has to be opened
            return ""
        return f"{result.st_mtime_ns}:{result.st_size}:{result.st_ino}"


def row_count(files: pa.Table) -> int | None:
    """Count the rows of a table by the statistics of its files; None: some file has none."""
    counts: list[int | None] = files.column("num_records").to_pylist()
    return None if None in counts else sum(count or 0 for count in counts)


def statistics(table: DeltaTable) -> pa.Table:
    """Return a row for each file: path, num_records, min.COLUMN and max.COLUMN for columns that have them.

    While it is made, no other thread of the process does anything: 3 ms for 100 files.
    """
    import pyarrow as pa

    # As a stream: given the table itself, Arrow loads pandas to look at its type, which takes a quarter second.
    return pa.RecordBatchReader.from_stream(table.get_add_actions(flatten=True)).read_all()


def _wanted_files(files: pa.Table, above: int | None, where: Mapping[str, Collection[str]]) -> list[str]:
    """List the files that may hold what is wanted, as `batches` has it, by their statistics."""
    ranges: dict[str, tuple[Any, Any]] = {name: (min(values), max(values)) for name, values in where.items()}
    if above is not None:
        ranges["snapshot_id"] = (above + 1, above + 2**62)
    names = [f"{end}.{name}" for name in ranges for end in ("min", "max")]
    rows = files.select(["path", *(name for name in names if name in files.column_names)]).to_pylist()

    def may_hold(row: dict[str, Any]) -> bool:
        lowest = {name: row.get(f"min.{name}") for name in ranges}
        highest = {name: row.get(f"max.{name}") for name in ranges}
        return all(
            (lowest[name] is None or lowest[name] <= last) and (highest[name] is None or highest[name] >= first)
            for name, (first, last) in ranges.items()
        )

    return [row["path"] for row in rows if may_hold(row)]


def _row_groups(file: pq.ParquetFile, above: int | None) -> list[int]:
    """List the row groups of a file that may hold rows with a higher snapshot_id."""
    every = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
    if above is None:
        return list(range(len(every)))
    names = [file.metadata.schema.column(number).path for number in range(file.metadata.num_columns)]
    highest = [group.column(names.index("snapshot_id")).statistics for group in every]
    return [
        number
        for number, columns_statistics in enumerate(highest)
        if columns_statistics is None or not columns_statistics.has_min_max or columns_statistics.max > above
    ]


def _filesystem(table: DeltaTable) -> PyFileSystem:
    """Open the folder of a table.

    Raises:
        WarehouseError: the table asks more of a reader than this one can.
    """
    from deltalake.fs import DeltaStorageHandler
    from pyarrow.fs import PyFileSystem

    if unknown := sorted(set(table.protocol().reader_features or []) - _HARMLESS_FEATURES):
        raise WarehouseError(
            f"{table.table_uri}: has features that are not read without Spark ({', '.join(unknown)}). Ask with `lakehouse sql`."
        )
    sizes = table._table.get_add_file_sizes()
    return PyFileSystem(DeltaStorageHandler.from_table(table._table, table._storage_options, sizes))


def batches(
    table: DeltaTable,
    columns: tuple[str, ...],
    above: int | None = None,
    where: Mapping[str, Collection[str]] | None = None,
    files: pa.Table | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read rows in batches, of which few are in memory at once.

    Args:
        table: opened.
        columns: those that are read.
        above: only rows with a higher snapshot_id; files and row groups without any are not read. None: all rows.
        where: only rows that have one of these texts, of which there is one, in each of these columns, which are read too;
            files without any are not read.
        files: as from `statistics`, where they are at hand.

    Raises:
        PartMissing: a file is gone.
    """
    filesystem, some = _filesystem(table), where or {}
    for path in _wanted_files(statistics(table) if files is None else files, above, some):
        with _parquet(table, filesystem, path) as file:
            yield from _batches_of(file, columns, above, some)


def file_batches(table: DeltaTable, path: str, columns: tuple[str, ...], most: int) -> Iterator[pa.RecordBatch]:
    """Read the rows of one data file of a table, as `statistics` names it, in batches.

    Args:
        table: opened.
        path: of the file.
        columns: those that are read.
        most: rows of a batch.

    Raises:
        PartMissing: the file is gone.
    """
    with _parquet(table, _filesystem(table), path) as file:
        yield from file.iter_batches(most, columns=list(columns), use_threads=False)


@contextmanager
def _parquet(table: DeltaTable, filesystem: PyFileSystem, path: str) -> Iterator[pq.ParquetFile]:
    """Open a data file of a table.

    Raises:
        PartMissing: the file is gone.
    """
    import pyarrow.parquet as pq

    try:
        with (
            filesystem.open_input_file(path) as opened,
            # Spark writes moments as INT96, of which Arrow else makes nanoseconds: too few for year 1.
            pq.ParquetFile(opened, pre_buffer=False, coerce_int96_timestamp_unit="us") as file,
        ):
            yield file
    except FileNotFoundError as error:
        raise PartMissing(table.table_uri.rstrip("/").rpartition("/")[2], path) from error


def _batches_of(
    file: pq.ParquetFile, columns: tuple[str, ...], above: int | None, where: Mapping[str, Collection[str]]
) -> Iterator[pa.RecordBatch]:
    # Arrow's own scan holds a row group, as large as Spark likes it, whole in memory; here it is read page by page.
    for group in _row_groups(file, above):
        wanted = _wanted(file, group, above, where)
        at = 0
        for batch in _pages(file, group, columns):
            yield from _cut(batch, wanted[at : at + batch.num_rows] if wanted is not None else None)
            at += batch.num_rows
            if wanted is not None and not any(wanted[at:]):
                break


def _pages(file: pq.ParquetFile, group: int, columns: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Read a row group page by page."""
    yield from file.iter_batches(_BATCH_ROWS, row_groups=[group], columns=list(columns), use_threads=False)


def _wanted(file: pq.ParquetFile, group: int, above: int | None, where: Mapping[str, Collection[str]]) -> bytes | None:
    """Return which rows of a row group are wanted: a byte for each; None: all are. Only the columns needed for that are read."""
    if above is None and not where:
        return None
    wanted_values = {name: set(values) for name, values in where.items()}
    result = bytearray()
    for batch in _pages(file, group, [*wanted_values, *([] if above is None else ["snapshot_id"])]):
        tests: list[Iterable[bool]] = [
            map(wanted_values[name].__contains__, batch.column(name).to_pylist()) for name in wanted_values
        ]
        if above is not None:
            tests.append(value > above for value in batch.column("snapshot_id").to_pylist())
        result += bytes(map(all, zip(*tests, strict=True)))
    return bytes(result)


def _cut(batch: pa.RecordBatch, wanted: bytes | None) -> Iterator[pa.RecordBatch]:
    """Cut the wanted rows out of a batch, in runs; where there are many, Arrow filters.

    Whatever Arrow makes of a value of Python loads pandas first, a quarter second: most looks want a few rows and do without.
    """
    if wanted is None:
        yield _plain(batch)
        return
    runs = [row.span() for row in _RUN.finditer(wanted)]
    if len(runs) <= _MOST_RUNS:
        yield from (_plain(batch.slice(start, end - start)) for start, end in runs)
    else:
        yield _plain(batch).filter([bool(byte) for byte in wanted])


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


def recorded_position(table: DeltaTable, read_version: int | None = None) -> tuple[int | None, bool]:
    """Return up to which snapshot a projection of the log has come.

    Args:
        table: opened.
        read_version: the version that was read last; None: none was.

    Returns:
        The snapshot that the newest commit of this product names (None: none does), and whether all commits after
        `read_version` are such that rows with a higher snapshot_id hold all that changed.
    """
    position: int | None = None
    is_plain = read_version is not None
    for commit in _newest_commits(table):
        if read_version is not None and commit["version"] <= read_version and position is not None:
            break
        if read_version is not None and commit["version"] > read_version:
            is_plain = is_plain and _is_plain(commit)
        if position is None:
            position = _own_position(commit.get("userMetadata"))
        if position is not None and read_version is None:
            break
    return position, is_plain


def _is_plain(commit: dict[str, Any]) -> bool:
    """Return whether rows with a higher snapshot_id hold all that a commit changed; what projects writes a small table whole."""
    if commit["operation"] != "WRITE":
        return commit["operation"] in _HARMLESS
    appends = commit.get("operationParameters", {}).get("mode") == "Append"
    return appends or _own(commit.get("userMetadata")).get("job") == "project"


def _newest_commits(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """Return the commits of a table, the newest first: a few are read, and more when they are asked for.

    While Delta's log is read, no other thread of the process does anything.
    """
    yielded = 0
    for most in (8, 64, None):
        commits = table.history(most)  # may be more than were asked for, where the log has gone on since the table was opened
        yield from commits[yielded:]
        yielded = max(yielded, len(commits))


def _own_position(user_metadata: Any) -> int | None:
    snapshot_id: int | None = _own(user_metadata).get("snapshot_id")
    return snapshot_id


def _own(user_metadata: Any) -> dict[str, Any]:
    """Read what a commit says of itself that brought a table forward; nothing of any other."""
    try:
        metadata = json.loads(user_metadata or "{}")
    except (ValueError, TypeError):
        return {}
    is_own = isinstance(metadata, dict) and type(metadata.get("snapshot_id")) is int and metadata.get("job") in _OWN_JOBS
    return metadata if is_own else {}
