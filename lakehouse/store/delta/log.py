"""What Delta's log says of a table, without a query: where it is, its properties, size, files and transactions."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from lakehouse.settings import Settings
from lakehouse.store.durable import Durable
from lakehouse.store.internals import deltalog
from lakehouse.store.internals.deltalog import Files
from lakehouse.store.internals.hadoop import filesystem_of
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import absolute_location


def table_location(spark: SparkSession, name: str) -> str:
    """Return the folder of a table in the current schema."""
    return f"{schema_location(spark)}/{name}"


def schema_location(spark: SparkSession) -> str:
    """Return the folder of the current schema, with its scheme."""
    return qualified(spark, str(spark.catalog.getDatabase(SCHEMA).locationUri))


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
