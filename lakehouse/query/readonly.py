"""Sessions for the statements of users, in which only what reads may run.

Spark itself checks each plan, after the analysis and before anything runs (the class ReadOnly, in Java): a statement that a
script or an EXECUTE IMMEDIATE hides is checked like any other. Before a statement is parsed, settings that its client must not
have are set back (the class OwnSettings). Tables and views are those of the session from which it is opened,
settings and temporary views its own.
"""

from __future__ import annotations

from enum import IntEnum
from importlib.resources import files
from threading import Lock
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.store.jvm import java_class
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
_guards: dict[int, tuple[Any, Any]] = {}  # by the JVM's session catalog: check and parser, which are injected once for each
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
            state: Any = session._jsparkSession
            state.sessionState()  # made here, with the check
        finally:
            guard_new_sessions(spark, Allowed.ALL)
    for key, value in NO_PATHS.items():
        session.conf.set(key, value)
    return session


def guard_new_sessions(spark: SparkSession, allowed: Allowed) -> None:
    """Let the sessions that are opened from now on, by whomever, run only what is allowed."""
    state: Any = spark._jsparkSession
    extensions = state.extensions()
    key = extensions.hashCode()
    if key not in _guards:
        fixed = spark.sparkContext._gateway.jvm.java.util.HashMap(NO_PATHS)  # type: ignore[union-attr]
        check = _made(spark, "ReadOnly", SETTINGS)
        parser = _made(spark, "OwnSettings", SETTINGS, fixed)
        extensions.injectCheckRule(check)
        extensions.injectParser(parser)
        _guards[key] = check, parser
    check, parser = _guards[key]
    check.allow(int(allowed))
    parser.want(allowed == Allowed.READ)


def _made(spark: SparkSession, name: str, *values: Any) -> Any:
    """Make an object of a Java class of this package by its first constructor."""
    return compile_class(spark, f"{name}.java", f"xregistry.{name}").getConstructors()[0].newInstance(_objects(spark, *values))


def compile_class(spark: SparkSession, source: str, name: str) -> Any:
    """Compile a Java class of this package by the compiler that Spark ships, let the thread's loader find it, and return it.

    Args:
        spark: the session.
        source: file in this package.
        name: full name of the class.
    """
    jvm: Any = spark._jvm
    thread = java_class(jvm, "java.lang.Thread").currentThread()
    compiler = java_class(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(thread.getContextClassLoader())
    compiler.cook(files("lakehouse.query").joinpath(source).read_text(encoding="utf-8"))
    thread.setContextClassLoader(compiler.getClassLoader())
    return compiler.getClassLoader().loadClass(name)


def _objects(spark: SparkSession, *values: Any) -> Any:
    gateway: Any = spark.sparkContext._gateway
    found = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for index, value in enumerate(values):
        found[index] = value
    return found
