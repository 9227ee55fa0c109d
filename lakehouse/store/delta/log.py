"""What Delta's log says of a table, without a query: where it stands, its properties, size, files and transactions."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakehouse.settings import Settings
from lakehouse.store.durable import Durable
from lakehouse.store.files import open_path
from lakehouse.store.jvm import java_class
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import absolute_location

_PLAIN = re.compile(r"[\w.-]+")


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


def sync_table(spark: SparkSession, settings: Settings, name: str) -> None:
    """Write what this session committed to a table through to the disk, as the setting `sync` says.

    Raises:
        OSError: it cannot be written.
    """
    Durable(table_location(spark, name), settings).sync_commits()


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
    told = newest.checksumOpt()  # `sizeInBytesIfKnown` computes all that is known of a version that this session committed
    return int(told.get().tableSizeBytes() if told.isDefined() else newest.sizeInBytes())


class Files(NamedTuple):
    """The files that hold a table's rows.

    Attributes:
        locations: where they are.
        columns: of their rows.
        version: Delta's own object for the version of the table.
    """

    locations: list[str]
    columns: StructType
    version: Any

    def added(self) -> list[Any]:
        """Give Delta's own objects for the files."""
        return _each(self.version.checksumOpt().get().allFiles().get())


def current_files(spark: SparkSession, name: str) -> Files | None:
    """Give the files of a table's newest version, as the checksum names them that Delta writes beside a commit, up to 50.

    Returns:
        None where there is no such checksum, where rows are not read from files as they stand, or where names need care.
    """
    newest = newest_version(spark, name)
    told = newest.checksumOpt()
    if newest.protocol().minReaderVersion() > 1 or not told.isDefined() or not told.get().allFiles().isDefined():
        return None
    paths = [str(file.path()) for file in _each(told.get().allFiles().get())]
    if not all(map(_PLAIN.fullmatch, paths)) or len(paths) != told.get().numFiles():
        return None
    folder = table_location(spark, name)
    columns = StructType.fromJson(json.loads(newest.schema().json()))
    return Files([f"{folder}/{path}" for path in paths], columns, newest)


def _each(sequence: Any) -> list[Any]:
    """Give the members of a sequence of Scala's."""
    left = sequence.iterator()
    found = []
    while left.hasNext():
        found.append(left.next())
    return found


def last_transaction(version: Any, application: str) -> int:
    """Give the last transaction of an application that a version of a table knows, 0 before the first.

    Args:
        version: Delta's own object; a table that is set back knows its transactions still.
        application: its name.
    """
    told = version.checksumOpt()
    if told.isDefined() and told.get().setTransactions().isDefined():  # else Delta computes all that is known of the version
        every = _each(told.get().setTransactions().get())
        return next((int(one.version()) for one in every if one.appId() == application), 0)
    known = version.transactions().get(application)
    return int(known.get()) if known.isDefined() else 0
