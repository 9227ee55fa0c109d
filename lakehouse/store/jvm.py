"""Classes of the JVM, found without looking through all jars.

A name that is asked for part by part (`jvm.org.apache…`), or without its package, is looked for as a class of each package that
it might be of, in each of Spark's 300 jars. A small change of the catalog asks for some 1,600.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import java_import
from pyspark.sql import SparkSession

# What PySpark asks for without a package whenever it makes a column, a list of columns or a session.
_OF_PYSPARK = (
    "org.apache.spark.sql.functions",
    "org.apache.spark.api.python.PythonUtils",
    "org.apache.spark.api.python.PythonRDD",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
    "org.apache.spark.api.python.SerDeUtil",
)


def java_class(jvm: Any, name: str) -> Any:
    """Give a class by its full name."""
    return getattr(jvm, name)


def name_classes(spark: SparkSession) -> None:
    """Tell the JVM the packages of the classes that PySpark asks for by their bare names."""
    for name in _OF_PYSPARK:
        java_import(spark._jvm, name)
