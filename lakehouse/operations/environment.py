"""What the catalog runs on: versions, extras, and combinations that were not tried (docs/runs-on.md has those that were)."""

from __future__ import annotations

import platform
import re
from importlib.metadata import version
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakehouse.extras import EXTRAS, missing_libraries
from lakehouse.settings import Settings, data_folder

PYTHONS = ("3.10", "3.11", "3.12", "3.13")


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

    def untried(self, settings: Settings) -> list[tuple[str, str]]:
        """Return what was not tried together, and what to install instead."""
        found = []
        if _minor(self.python) not in PYTHONS:
            found.append((f"Python {self.python} was not tried", f"a Python of {', '.join(PYTHONS)}"))
        wanted = re.search(r"delta-spark_([\d.]+)_", data_folder("conf").joinpath("delta-jars.xml").read_text(encoding="utf-8"))
        if wanted and not settings.delta_jars and _minor(self.spark) != wanted[1]:
            text = f"Delta Lake's jars are for Spark {wanted[1]}, and this is Spark {self.spark}"
            found.append((text, f"pip install 'pyspark=={wanted[1]}.*', or the setting delta_jars"))
        return found


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
