"""Dry runs: an ingest is planned against the catalog as it would find it, and nothing is written, also where there is no catalog.

What an ingest would fix first is read from the log instead: tables that lag behind since a process died, tables of an older
release, tables that are not there. Temporary views stand in for them, so that queries of the user's rules see them too. What was
parsed is kept by the executors and no file is staged, so a dry run needs no place that all of them reach.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.log import effectivetable
from lakehouse.log.projections import find_lagging, last_rows, project
from lakehouse.log.snapshotfacts import Head
from lakehouse.settings import Settings
from lakehouse.store.deltatables import (
    SCHEMA_VERSION,
    attach_existing,
    check_not_newer,
    open_table,
    remove_stand_ins,
    stand_in,
    stored_version,
    table_name,
)
from lakehouse.store.materialize import no_rows
from lakehouse.store.schema import CHANGES, EFFECTIVE_MESSAGES, ENTITY_TABLES, VIOLATIONS, Table

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")
_OTHER_TABLES = {"violations": VIOLATIONS, effectivetable.NAME: EFFECTIVE_MESSAGES}


def without_stand_ins_after(command: Callable[Concatenate[SparkSession, _Arguments], _Result]) -> Callable[..., _Result]:
    """Wrap a command that may run dry, so that its stand-ins are removed from the session at the end."""

    @functools.wraps(command)
    def run(spark: SparkSession, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        try:
            return command(spark, *args, **kwargs)
        finally:
            remove_stand_ins(spark)

    return run


def stand_in_missing(spark: SparkSession, settings: Settings) -> None:
    """Read all tables with the columns of this release, without creating any.

    Raises:
        WarehouseTooNew: the warehouse was written by a newer version of the product.
    """
    existing = attach_existing(spark, settings)
    version = stored_version(spark) if "changes" in existing else SCHEMA_VERSION
    check_not_newer(version, SCHEMA_VERSION)
    if "changes" not in existing:
        stand_in(spark, "changes", no_rows(spark, CHANGES))
    elif version < SCHEMA_VERSION:
        stand_in(spark, "changes", _as_of_now(spark.table(table_name("changes"))))
    for table in ENTITY_TABLES:
        if table.name not in existing or version < SCHEMA_VERSION:
            stand_in(spark, table.name, _out_of_log(spark, table))
    for name, columns in _OTHER_TABLES.items():
        if name not in existing:
            stand_in(spark, name, no_rows(spark, columns))


def stand_in_lagging(spark: SparkSession, settings: Settings, head: Head) -> None:
    """Read tables that lag behind from the log, where an ingest would roll them forward.

    Args:
        spark: a session in which `stand_in_missing` was called.
        settings: as for `projections.find_lagging`.
        head: the newest snapshot.
    """
    behind = find_lagging(spark, head, settings=settings)
    for table in ENTITY_TABLES:
        if table.name in behind:
            stand_in(spark, table.name, _out_of_log(spark, table, head))


def _out_of_log(spark: SparkSession, table: Table, head: Head | None = None) -> DataFrame:
    rows = open_table(spark, "changes").filter(F.col("kind") == table.kind)
    rows_at_head = rows if head is None else rows.filter(F.col("snapshot_id") <= head.snapshot_id)
    return project(last_rows(rows_at_head).filter(F.col("op") != "delete"), table)


def _as_of_now(log: DataFrame) -> DataFrame:
    """Return the log of an older release with the columns that it lacks."""
    return log.select(
        *(F.col(name) if name in log.columns else F.lit(None).cast(CHANGES[name].dataType).alias(name) for name in CHANGES.names)
    )
