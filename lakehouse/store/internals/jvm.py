"""The JVM: how it starts, the switch that turns off all use of its objects, and its classes, looked up once.

The variable LAKEHOUSE_SPARK_INTERNALS is the switch.

A name that is asked for part by part (`jvm.org.apache…`), or without its package, is looked for as a class of each package that
it might be of, in each of Spark's 300 jars. And each use of a function asks the JVM for its class and for its name, before it is
called: a small change of the catalog does so 3,700 times.
"""

from __future__ import annotations

import os
from typing import IO, Any

from py4j.java_gateway import JavaClass, JavaMember
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakehouse.errors import SettingsError

VARIABLE = "LAKEHOUSE_SPARK_INTERNALS"


def is_connect(spark: SparkSession | None) -> bool:
    """Return whether a session is one of Spark Connect: another process runs its queries, and there is no JVM here."""
    return any(cls.__module__.startswith("pyspark.sql.connect.") for cls in type(spark).__mro__)


def uses_internals(spark: SparkSession | None = None) -> bool:
    """Return whether internals of Spark and Delta are used; False: their public API alone, as always with Spark Connect.

    Raises:
        SettingsError: the variable is neither `on` nor `off`.
    """
    value = os.environ.get(VARIABLE, "on")
    if value not in ("on", "off"):
        raise SettingsError(f"{VARIABLE}: {value!r} is neither on nor off.")
    return value == "on" and not is_connect(spark)


def require_internals(what: str) -> None:
    """Refuse what cannot be done by the public API.

    Raises:
        SettingsError: internals are turned off.
    """
    if not uses_internals():
        raise SettingsError(f"{what} needs internals of Spark, which {VARIABLE}=off turns off. Unset the variable for it.")


def require_classic(spark: SparkSession, what: str) -> None:
    """Refuse what Spark Connect cannot do.

    Raises:
        SettingsError: the session is one of Spark Connect.
    """
    if is_connect(spark):
        raise SettingsError(
            f"{what} needs a classic Spark session, and this one is Spark Connect. Run the command `lakehouse` or a job of jobs/ "
            "where Spark may start, or give Catalog a classic session."
        )


# What PySpark asks for without a package whenever it makes a column, a list of columns or a session.
_OF_PYSPARK = (
    "org.apache.spark.sql.functions",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.api.python.PythonRDD",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
    "org.apache.spark.api.python.SerDeUtil",
)


class _CachedClass(JavaClass):  # type: ignore[misc]
    """A class that remembers its static methods: they do not change while the JVM lives."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


def java_class(jvm: Any, name: str) -> Any:
    """Return a class by its full name."""
    return getattr(jvm, name)


def name_classes(spark: SparkSession) -> None:
    """Make known to PySpark the classes that it asks for, by their bare names and by their full ones."""
    if not uses_internals(spark):
        return
    jvm: Any = spark._jvm
    for name in _OF_PYSPARK:
        cached = _CachedClass(name, jvm._gateway_client)
        for spelled in (name, name.rpartition(".")[2]):
            setattr(jvm, spelled, cached)


def submitted_conf() -> dict[str, str]:
    """Return the settings that `spark-submit` gave; without internals Spark is started by that, so it has these alone."""
    if not uses_internals():
        return dict(SparkContext.getOrCreate().getConf().getAll())
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def launch_session(conf: SparkConf, log: IO[bytes]) -> SparkSession:
    """Start Spark with a configuration, and return its session.

    Args:
        conf: all of it.
        log: takes what the JVM writes to standard error.

    Raises:
        Exception: it did not start.
    """
    if not uses_internals():
        return SparkSession.builder.config(conf=conf).getOrCreate()
    gateway = launch_gateway(conf=conf, popen_kwargs={"stderr": log})  # type: ignore[no-untyped-call]
    return SparkSession(SparkContext(gateway=gateway, conf=conf))


def end_session(spark: SparkSession) -> None:
    """End Spark, and wait until Java has ended."""
    gateway: Any = spark.sparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
