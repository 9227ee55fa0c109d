"""Queries of a user: the tables that they name are attached, the views created, and the rows come back as text or as JSON.

A session for the statements of users runs only what reads, unless it may write.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from threading import Lock

from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import QueryError
from lakehouse.log.snapshots import open_relations, resolve_snapshot
from lakehouse.query.differences import open_diff
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_tables, tables_named_in
from lakehouse.store.internals import guards
from lakehouse.store.internals.plans import bound_names
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import open_sibling
from lakehouse.store.views import views_named_in

# Files are read by the names of tables alone, and no text of a statement is a variable of the environment (`${env:NAME}`).
NO_PATHS = {"spark.sql.runSQLOnFiles": "false", "spark.sql.variable.substitute": "false"}
# What who only reads may set. Other names that a client of the SQL server gives in its address are set back.
SETTINGS = (
    r"spark\.sql\.(session\.timeZone|ansi\.enabled|shuffle\.partitions|autoBroadcastJoinThreshold|caseSensitive"
    r"|legacy\.timeParserPolicy|groupByOrdinal|orderByOrdinal|crossJoin\.enabled|mapKeyDedupPolicy"
    r"|adaptive\.(enabled|advisoryPartitionSizeInBytes|autoBroadcastJoinThreshold|(coalescePartitions|skewJoin)\.\w+)"
    r"|codegen\.(wholeStage|factoryMode)|constraintPropagation\.enabled"  # of `WITHOUT_CODEGEN`
    r"|hive\.version|datetime\.java8API\.enabled)"  # of the SQL server for each of its sessions
)
_opening = Lock()


class Allowed(IntEnum):
    """What a session may run: all, what reads, or what writes too but where the log `changes` occurs; as `ReadOnly` has it."""

    ALL = 0
    READ = 1
    WRITE = 2


def open_guarded(spark: SparkSession, allowed: Allowed = Allowed.READ, schema: str | None = None) -> SparkSession:
    """Open a session that runs only what is allowed.

    Args:
        spark: the session whose tables and views it sees.
        allowed: what it may run.
        schema: its current schema; None: that of the given session.
    """
    with _opening:
        guard_new_sessions(spark, allowed)
        try:
            session = open_sibling(spark, schema)
            guards.make_state(session)  # here, with the check
        finally:
            guard_new_sessions(spark, Allowed.ALL)
    for key, value in NO_PATHS.items():
        session.conf.set(key, value)
    return session


def guard_new_sessions(spark: SparkSession, allowed: Allowed) -> None:
    """Allow sessions that are opened from now on, by anyone, to run only what is allowed.

    Raises:
        SettingsError: internals of Spark are turned off.
    """
    guards.guard_new_sessions(spark, int(allowed), allowed == Allowed.READ, SETTINGS, NO_PATHS)


# A condition of Spark's in the text of an error, but for its internal errors.
_CONDITION = re.compile(r"\[[A-Z][A-Z0-9_.]*\] .*SQLSTATE: (?!XX)\w{5}")


@dataclass(frozen=True)
class QueryResult:
    """Rows of a query, fetched as they are asked for."""

    frame: DataFrame

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns."""
        return self.frame.columns

    def text_rows(self) -> Iterator[list[str | None]]:
        """Yield each row as text, spelled as by Spark's own `show`."""
        named = self.frame.toDF(*(f"c{index}" for index in range(len(self.columns))))
        with _plain_errors():
            for row in named.select(*(F.col(name).cast("string") for name in named.columns)).toLocalIterator():
                yield list(row)

    def json_rows(self) -> Iterator[str]:
        """Yield each row as a JSON object; NULL is null."""
        row = F.to_json(
            F.struct(*(F.col(f"`{name.replace('`', '``')}`") for name in self.columns)), {"ignoreNullFields": "false"}
        )
        with _plain_errors():
            for json_row in self.frame.select(row).toLocalIterator():
                yield json_row[0]


def run_query(
    spark: SparkSession,
    settings: Settings,
    query: str,
    at: str | None = None,
    diff: tuple[str, str] | None = None,
    *,
    allowed: Allowed = Allowed.ALL,
) -> QueryResult:
    """Run a query on the catalog.

    Args:
        spark: the session.
        settings: the warehouse.
        query: Spark SQL.
        at: snapshot in whose schema the bare names are looked up, as in `resolve_snapshot`; None: the live tables.
        diff: two snapshots, in whose schema the view `snapshot_diff` compares them.
        allowed: what the statement may do; with less than all it runs in its own session.

    Raises:
        QueryError: Spark does not understand it, a name in it does not exist, or it does what is not allowed.
        SnapshotNotFound: `at` names no snapshot.
        WarehouseError: the warehouse holds no catalog.
    """
    if diff is not None:
        attach_tables(spark, settings, ["changes"])
        schema = open_diff(spark, settings, *(resolve_snapshot(spark, name) for name in diff))
    else:
        schema = open_relations(spark, settings, views_named_in(query), tables_named_in(query), at)
    session = spark if allowed is Allowed.ALL else open_guarded(spark, allowed)
    session.catalog.setCurrentDatabase(schema)
    try:
        with _plain_errors():
            return QueryResult(bound_names(session.sql(query)))
    finally:
        session.catalog.setCurrentDatabase(SCHEMA)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """Raise what is wrong with a query in Spark's words, without the plan of all views that it reads.

    Raises:
        QueryError: Spark does not understand it, or its rows do not allow what it asks.
    """
    try:
        yield
    except PySparkException as error:
        details = str(error).split("\n\nJVM stacktrace")[0].strip()
        if not isinstance(error, ParseException):
            details = details.split(";\n", 1)[0]
        raise QueryError(f"the query cannot be run: {details}") from error
    except Py4JJavaError as error:  # of a task
        condition = _CONDITION.search(str(error))
        if condition is None:
            raise
        raise QueryError(f"the query cannot be run: {condition[0]}") from error
