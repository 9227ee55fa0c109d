"""Plans of DataFrames, as the JVM holds them: rows that the driver has, and files that Spark listed."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakehouse.store.internals.hadoop import filesystem_of
from lakehouse.store.internals.jvm import is_connect, java_class, uses_internals

Batches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_STATUS = re.compile(r"FileStatus\{path=(.*?); isDirectory=false; length=(\d+); ")
_HEAD_OF_LOCAL = re.compile(r"\Afile:/+")


class DriverRows:
    """Rows that the driver holds, filtered and projected, by the plan that has them."""

    def __init__(self, plan: Any) -> None:
        self.plan = plan

    def is_empty(self) -> bool:
        """Return whether there are none."""
        return bool(self.plan.data().isEmpty())

    def count(self) -> int:
        """Return how many there are."""
        return int(self.plan.data().size())


def driver_rows(frame: DataFrame) -> DriverRows | None:
    """Return the rows of a frame that the driver holds; None: it takes a query to have them, and always without internals."""
    if not uses_internals(frame.sparkSession):
        return None
    classic: Any = frame
    plan = classic._jdf.queryExecution().optimizedPlan()
    return DriverRows(plan) if plan.getClass().getSimpleName() == "LocalRelation" else None


def on_driver(frame: DataFrame) -> DataFrame:
    """Compute a frame of few rows once, and let the driver hold them; without internals the executors do."""
    if not uses_internals(frame.sparkSession):
        return frame.localCheckpoint()
    session: Any = frame.sparkSession
    classic: Any = frame
    rows_of_driver = driver_rows(frame)
    if rows_of_driver is None:
        rows = classic._jdf.collectAsList()
        return DataFrame(session._jsparkSession.createDataFrame(rows, classic._jdf.schema()), session)
    return _of_plan(session, rows_of_driver.plan)


def hand_over(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Return rows as a DataFrame of another session, with its settings; rows in the driver lose their lineage.

    Spark Connect looks a view up when its rows are wanted, so there the view stays as long as the server.
    """
    if not uses_internals(session):
        name = f"handed_{uuid.uuid4().hex}"
        frame.createGlobalTempView(name)
        try:
            return session.table(f"global_temp.{name}")
        finally:
            if not is_connect(session):
                session.catalog.dropGlobalTempView(name)
    classic: Any = frame
    rows_of_driver = driver_rows(frame)
    return _of_plan(session, rows_of_driver.plan if rows_of_driver is not None else classic._jdf.queryExecution().analyzed())


def bound_names(frame: DataFrame) -> DataFrame:
    """Return a frame whose names mean what they mean now: Spark Connect looks them up later, perhaps in another schema."""
    if not is_connect(frame.sparkSession):
        return frame
    name = f"bound_{uuid.uuid4().hex}"
    frame.createTempView(name)
    return frame.sparkSession.table(name)


def map_few(frame: DataFrame, function: Batches, columns: str) -> DataFrame:
    """Map few rows by the executors; of Spark Connect in this process, so that the server needs nothing of this package.

    Args:
        frame: the rows.
        function: as for `mapInArrow`.
        columns: of the result, as DDL.
    """
    if not is_connect(frame.sparkSession):
        return frame.mapInArrow(function, columns)
    made = list(function(iter(frame.toArrow().to_batches())))
    return frame.sparkSession.createDataFrame(pa.Table.from_batches(made) if made else [], columns)


def send_folder(spark: SparkSession, folder: Path) -> None:
    """Send a folder to the executors, which find it by its name among Spark's files."""
    if is_connect(spark):
        remote: Any = spark
        remote.addArtifacts(f"{shutil.make_archive(str(folder), 'zip', folder)}#{folder.name}", archive=True)
    else:
        spark.sparkContext.addFile(str(folder), recursive=True)


def cores(spark: SparkSession) -> int | None:
    """Return how many tasks run at once; None: Spark Connect has no call for it."""
    return None if is_connect(spark) else spark.sparkContext.defaultParallelism


def empty_files(listed: DataFrame) -> list[str]:
    """Return the URIs of the empty files among those that Spark listed for a DataFrame of files; it has no rows of them."""
    if not uses_internals(listed.sparkSession):
        return sorted(set(_input_files(listed)) - {row[0] for row in listed.select("path").collect()})
    plan: Any = listed
    location = plan._jdf.queryExecution().analyzed().collectLeaves().head().relation().location()
    return [uri for uri, size in _listing(location) if not size]


def large_files(frame: DataFrame, most: int) -> list[str]:
    """Return the URIs of the files above a size among those that Spark listed for a frame; nothing is listed for that."""
    if not uses_internals(frame.sparkSession):
        files = {uri: filesystem_of(frame.sparkSession, uri).entry(uri) for uri in _input_files(frame)}
        return sorted(uri for uri, file in files.items() if file is not None and file.size > most)
    plan: Any = frame
    relations = plan._jdf.queryExecution().analyzed().collectLeaves()
    results: set[str] = set()
    for index in range(relations.size()):
        leaf = relations.apply(index)
        if not leaf.getClass().getName().endswith("LogicalRelation"):
            continue
        relation = leaf.relation()
        if not relation.getClass().getName().endswith("HadoopFsRelation"):
            continue
        location = relation.location()
        if location.getClass().getName().endswith("InMemoryFileIndex") and location.sizeInBytes() > most:
            results |= {uri for uri, size in _listing(location) if size > most}
    return sorted(results)


def view_made_by(session: SparkSession, schema: str, name: str, key: str) -> tuple[str | None, str] | None:
    """Return the property of a view that says what made it, and its text; None: there is no such view."""
    if not uses_internals(session):
        if not session.catalog.tableExists(f"{schema}.{name}"):
            return None
        details = session.sql(f"SHOW TBLPROPERTIES {schema}.{name}").collect()
        described = session.sql(f"DESCRIBE EXTENDED {schema}.{name}").collect()
        made_by = next((str(row["value"]) for row in details if row["key"] == key), None)
        return made_by, next((str(row["data_type"]) for row in reversed(described) if row["col_name"] == "View Text"), "")
    classic: Any = session
    option = java_class(classic._jvm, "scala.Option")
    identifier = java_class(classic._jvm, "org.apache.spark.sql.catalyst.TableIdentifier")(name, option.apply(schema))
    catalog = classic._jsparkSession.sessionState().catalog()
    if not catalog.tableExists(identifier):
        return None
    result = catalog.getTableMetadata(identifier)
    made, text = result.properties().get(key), result.viewText()
    return str(made.get()) if made.isDefined() else None, str(text.get()) if text.isDefined() else ""


def _of_plan(session: Any, plan: Any) -> DataFrame:
    dataset = java_class(session._jvm, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(session._jsparkSession, plan), session)


def _listing(location: Any) -> list[tuple[str, int]]:
    """Return URI and size of the files that Spark listed: as one text, since asking for each of thousands takes seconds."""
    return [(uri, int(size)) for uri, size in _STATUS.findall(location.allFiles().mkString("\n"))]


def _input_files(frame: DataFrame) -> list[str]:
    """Return the URIs of the files that a frame reads, as rows of files have them."""
    return [_HEAD_OF_LOCAL.sub("file:/", unquote(uri)) for uri in frame.inputFiles()]
