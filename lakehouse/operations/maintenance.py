"""Maintenance: small files become large ones, sorted by the keys; files that no version needs any more go.

It changes no row, so it may run while others ingest and read: of two commits to a table Delta refuses the second, which is
tried again. Files that are younger than a table's retention stay. Only features of reader version 1 are used.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.log.effectivetable import NAME as EFFECTIVE
from lakehouse.settings import Settings
from lakehouse.store.deltatables import TABLES, attach_tables, check_writers, table_name
from lakehouse.store.files import dead_stages, folder_size, remove_folder
from lakehouse.store.internals.deltalog import add_statistics, live_files
from lakehouse.store.internals.guards import print_to_errors
from lakehouse.store.merges import FILE_BYTES
from lakehouse.store.schema import ENTITY_TABLES
from lakehouse.store.tablelog import metadata_of_commits, retries, set_commit_metadata, sync_table, table_location

logger = logging.getLogger(__name__)

_LARGE = 128 << 20  # bytes of a file that is not compacted any more
_THREADS = 4
_MAX_FILE = "spark.databricks.delta.optimize.maxFileSize"
_BY_KEY = {table.name for table in ENTITY_TABLES} | {EFFECTIVE}  # tables of which a change writes some rows again


@dataclass(frozen=True)
class Space:
    """What a table takes.

    Attributes:
        files: files of its newest Delta version.
        bytes: bytes in them.
        files_on_disk: files of all versions, without those of the Delta log.
        bytes_on_disk: bytes in them.
    """

    files: int
    bytes: int
    files_on_disk: int
    bytes_on_disk: int


@dataclass(frozen=True)
class Upkeep:
    """What was done with a table, or what would be done.

    Attributes:
        table: the table.
        before: what it took before.
        after: what it takes now; the same as before in a dry run.
        compacted: files that were written again, sorted by the keys; in a dry run those that have not been yet.
        removed: files that no version within the retention needs.
        measured: files whose statistics were missing.
        retention: how far back Delta's time travel reaches.
        seconds: time taken.
    """

    table: str
    before: Space
    after: Space
    compacted: int
    removed: int
    measured: int
    retention: str
    seconds: float


@dataclass(frozen=True)
class Maintained:
    """What maintenance did; `as_json` is the contract of `lakehouse maintain --json`."""

    tables: list[Upkeep]
    stages: list[str]
    dry_run: bool
    seconds: float = field(default=0.0)

    def as_json(self) -> dict[str, Any]:
        """Return all results as one JSON value."""
        return {
            "tables": [asdict(table) | {"seconds": round(table.seconds, 3)} for table in self.tables],
            "stages": self.stages,
            "dry_run": self.dry_run,
            "seconds": round(self.seconds, 3),
        }


def maintain(
    spark: SparkSession, settings: Settings, *, dry_run: bool = False, full: bool = False, names: Iterable[str] = TABLES
) -> Maintained:
    """Maintain the tables.

    Args:
        spark: a session from `open_session`.
        settings: the warehouse, `stage_retention_hours`.
        dry_run: show what would be done, and do nothing.
        full: sort all files again, also those that are sorted already.
        names: the tables.

    Raises:
        WarehouseError: the warehouse holds no catalog.
    """
    begun = time.monotonic()
    if not dry_run:  # it writes a file and deletes it
        check_writers(spark, settings)
    attach_tables(spark, settings)
    # Delta prints what VACUUM did; standard output belongs to the command.
    print_to_errors(spark)
    stages = dead_stages(spark, settings)
    if not dry_run:
        for stage in stages:
            remove_folder(spark, stage)
    with ThreadPoolExecutor(_THREADS) as pool:
        done = list(
            pool.map(lambda name: _look_at(spark, name) if dry_run else _keep_up(spark, settings, name, full=full), names)
        )
    return Maintained(done, stages, dry_run, time.monotonic() - begun)


def _keep_up(spark: SparkSession, settings: Settings, name: str, *, full: bool) -> Upkeep:
    begun = time.monotonic()
    session = spark.newSession()
    before, retention = _space(session, name)
    _keep_log_position(session, name)
    measured = _measure(session, name)
    compacted = _optimize(session, name, full=full)
    sync_table(session, settings, name)  # before the files that the new ones replace go
    removed = _vacuum(session, name)
    after, _ = _space(session, name)
    done = Upkeep(name, before, after, compacted, removed, measured, retention, time.monotonic() - begun)
    logger.info("maintain %s: %d files to %d, %.2f s", name, before.files_on_disk, after.files_on_disk, done.seconds)
    return done


def _look_at(spark: SparkSession, name: str) -> Upkeep:
    """Return what `_keep_up` would do."""
    begun = time.monotonic()
    session = spark.newSession()
    before, retention = _space(session, name)
    is_sorted = F.col("clusteringProvider").isNotNull() if _is_clustered(session, name) else F.col("size") >= _LARGE
    files = _live_files(session, name).agg(
        F.count_if(~is_sorted).alias("unsorted"),
        F.count_if(F.col("stats").isNull()).alias("unmeasured"),
    )
    details = files.collect()[0]
    # Of a table without keys, one small file has nothing that it could be put together with.
    is_alone = details["unsorted"] == 1 and not _is_clustered(session, name)
    removed = session.sql(f"VACUUM {table_name(name)} DRY RUN").count()
    return Upkeep(
        name,
        before,
        before,
        0 if is_alone else details["unsorted"],
        removed,
        details["unmeasured"],
        retention,
        time.monotonic() - begun,
    )


@retries(8).wraps
def _optimize(session: SparkSession, name: str, *, full: bool) -> int:
    """Write small files again as larger ones, clustered by the keys if there are any; the number of files that went into them."""
    if name in _BY_KEY and session.conf.get(_MAX_FILE, None) is None:  # what somebody set holds
        session.conf.set(_MAX_FILE, str(FILE_BYTES))
    whole = " FULL" if full and _is_clustered(session, name) else ""
    done = session.sql(f"OPTIMIZE {table_name(name)}{whole}").collect()
    return sum(int(row["metrics"]["numFilesRemoved"]) for row in done)


def _is_clustered(session: SparkSession, name: str) -> bool:
    detail = DeltaTable.forName(session, table_name(name)).detail().select("clusteringColumns").collect()[0]
    return bool(detail["clusteringColumns"])


@retries(8).wraps
def _measure(session: SparkSession, name: str) -> int:
    """Add Delta's statistics, by which readers skip files, to files that another writer left without."""
    without = _live_files(session, name).filter(F.col("stats").isNull()).count()
    return without if without and add_statistics(session, table_location(session, name)) else 0


def _vacuum(session: SparkSession, name: str) -> int:
    """Delete what no version within the table's retention needs."""
    removable = session.sql(f"VACUUM {table_name(name)} DRY RUN").count()
    if removable:
        session.sql(f"VACUUM {table_name(name)}")
    return removable


def _space(session: SparkSession, name: str) -> tuple[Space, str]:
    detail = DeltaTable.forName(session, table_name(name)).detail().select("numFiles", "sizeInBytes", "properties").collect()[0]
    location = table_location(session, name)
    files, size = folder_size(session, location)
    log_files, log_size = folder_size(session, f"{location}/_delta_log")
    space = Space(int(detail["numFiles"]), int(detail["sizeInBytes"]), files - log_files, size - log_size)
    return space, str(detail["properties"].get("delta.deletedFileRetentionDuration", "interval 1 week")).removeprefix("interval ")


def _keep_log_position(session: SparkSession, name: str) -> None:
    """Set the user metadata of this session's commits to the table's last position in the log."""
    details = metadata_of_commits(session, name)
    if details:
        set_commit_metadata(session, details)


def _live_files(session: SparkSession, name: str) -> DataFrame:
    """Read the files of the newest version, with their statistics, out of Delta's log."""
    return live_files(session, table_location(session, name))
