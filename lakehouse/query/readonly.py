"""Sessions for the statements of users, in which only what reads may run.

Spark itself checks each plan, after the analysis and before anything runs (the class ReadOnly, in Java): a statement that a
script or an EXECUTE IMMEDIATE hides is checked like any other. Before a statement is parsed, settings that its client must not
have are set back (the class OwnSettings). Tables and views are those of the session from which it is opened,
settings and temporary views its own.
"""

from __future__ import annotations

from enum import IntEnum
from threading import Lock

from pyspark.sql import SparkSession

from lakehouse.store.internals import guards
from lakehouse.store.sessions import open_sibling

# Files are read by the names of tables alone, and no text of a statement is a variable of the environment (`${env:NAME}`).
NO_PATHS = {"spark.sql.runSQLOnFiles": "false", "spark.sql.variable.substitute": "false"}
# What who only reads may set. Other names that a client of the SQL server gives in its address are set back.
SETTINGS = (
    r"spark\.sql\.(session\.timeZone|ansi\.enabled|shuffle\.partitions|autoBroadcastJoinThreshold|caseSensitive"
    r"|legacy\.timeParserPolicy|groupByOrdinal|orderByOrdinal|crossJoin\.enabled|mapKeyDedupPolicy"
    r"|adaptive\.(enabled|advisoryPartitionSizeInBytes|autoBroadcastJoinThreshold|(coalescePartitions|skewJoin)\.\w+)"
    r"|codegen\.(wholeStage|factoryMode)|constraintPropagation\.enabled"  # of `INTERPRETED`
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
