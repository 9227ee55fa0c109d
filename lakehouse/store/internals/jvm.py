"""Classes of the JVM, found without looking through all jars, and asked for once.

A name that is asked for part by part (`jvm.org.apache…`), or without its package, is looked for as a class of each package that
it might be of, in each of Spark's 300 jars. And each use of a function asks the JVM for its class and for its name, before it is
called: a small change of the catalog does so 3,700 times.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember
from pyspark.sql import SparkSession

from lakehouse.store.internals.switch import uses_internals

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
    if not uses_internals():
        return
    jvm: Any = spark._jvm
    for name in _OF_PYSPARK:
        known = _CachedClass(name, jvm._gateway_client)
        for spelled in (name, name.rpartition(".")[2]):
            setattr(jvm, spelled, known)
