"""What Delta's log says of a table, without a query: where it stands, its properties, size and transactions."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from lakehouse.store.files import open_path
from lakehouse.store.jvm import java_class
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import absolute_location


def table_location(spark: SparkSession, name: str) -> str:
    """Give the folder of a table of a warehouse whose schema is in use."""
    return f"{schema_location(spark)}/{name}"


def schema_location(spark: SparkSession) -> str:
    """Give the folder of the schema in use, with its scheme."""
    return qualified(spark, str(spark.catalog.getDatabase(SCHEMA).locationUri))


def qualified(spark: SparkSession, location: str) -> str:
    """Give a location as Hadoop writes it, with its scheme."""
    path, filesystem = open_path(spark, absolute_location(location))
    return str(filesystem.makeQualified(path).toString()).rstrip("/")


def delta_log(spark: SparkSession, name: str) -> Any:
    """Give Delta's own object for the log of a table, out of the JVM."""
    jvm: Any = spark._jvm
    return java_class(jvm, "org.apache.spark.sql.delta.DeltaLog").forTable(spark._jsparkSession, table_location(spark, name))


def newest_version(spark: SparkSession, name: str) -> Any:
    """Give Delta's own object for the newest version of a table."""
    nothing = java_class(spark._jvm, "scala.Option").empty()
    return delta_log(spark, name).update(False, nothing, nothing)


def table_property(spark: SparkSession, name: str, key: str) -> str | None:
    """Give a property of a table; None: it has none of that name."""
    found = newest_version(spark, name).metadata().configuration().get(key)
    return str(found.get()) if found.isDefined() else None


def table_bytes(spark: SparkSession, name: str) -> int:
    """Give the size of a table's files, in bytes; Delta's checksum of the version mostly tells it without a query."""
    newest = newest_version(spark, name)
    known = newest.sizeInBytesIfKnown()
    return int(known.get() if known.isDefined() else newest.sizeInBytes())


def last_transaction(spark: SparkSession, application: str, name: str) -> int:
    """Give the last transaction of an application that a table knows, 0 before the first; one that is set back keeps it."""
    known = newest_version(spark, name).transactions().get(application)
    return int(known.get()) if known.isDefined() else 0
