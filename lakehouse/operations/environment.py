"""What the product runs on: versions and extras, and which of them were tried together."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakehouse.extras import EXTRAS, missing_libraries

PYTHONS = ("3.10", "3.11", "3.12", "3.13")
SPARKS = ("4.0", "4.1", "4.2")


class Environment(NamedTuple):
    """What was looked up.

    Attributes:
        python: version of the process.
        java: version that Spark runs on.
        spark: version of the session's Spark, which may be another than PySpark's.
        delta: version of the package `delta-spark`.
        installed: extras with all their libraries.
        missing: the other extras.
    """

    python: str
    java: str
    spark: str
    delta: str
    installed: tuple[str, ...]
    missing: tuple[str, ...]

    def untried(self) -> list[tuple[str, str]]:
        """Return what was not tried together, and what to install instead."""
        results = []
        if _minor(self.python) not in PYTHONS:
            results.append((f"Python {self.python} was not tried", f"a Python of {', '.join(PYTHONS)}"))
        if _minor(self.spark) not in SPARKS:
            results.append((f"Spark {self.spark} was not tried", f"pip install 'pyspark=={SPARKS[-1]}.*'"))
        return results


def read_environment(spark: SparkSession) -> Environment:
    """Look up the versions, by public calls only."""
    java = spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version') AS version").first()
    missing = tuple(extra for extra in EXTRAS if missing_libraries(extra))
    return Environment(
        platform.python_version(),
        str(java.version) if java else "",
        spark.version,
        version("delta-spark"),
        tuple(extra for extra in EXTRAS if extra not in missing),
        missing,
    )


def _minor(text: str) -> str:
    return ".".join(text.split(".")[:2])
