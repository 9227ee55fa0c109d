"""Spark sessions of tests: quick to start, and able to leave a warehouse for the next one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse.settings import data_folder, read_settings
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import WITHOUT_CODEGEN, open_session

QUICK = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "2",
    # Most of the time would go into compiling queries; test_siblings runs them compiled.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

# What an ingest of few rows sets for most of its work, for the rest of it too. With Java's usual thresholds, a step of the random
# test takes a fifth less processor time.
_SMALL = WITHOUT_CODEGEN | {"spark.sql.leafNodeDefaultParallelism": "1", "spark.default.parallelism": "1"}


def open_quick(folder: Path, *, once: bool = True, **settings: str) -> SparkSession:
    """Open a session for small catalogs, with these Spark settings in addition.

    Args:
        folder: its warehouse.
        once: it lives for some minutes, so that nothing is worth compiling twice: Java's first compiler alone, a fourteenth less
            time. One that lives for hours compiles as Java does by itself, and takes all work for small. All else as shipped.
        settings: of Spark.
    """
    shipped = (data_folder("conf") / "spark-defaults.conf").read_text()
    options = re.search(r"(?m)^spark\.driver\.extraJavaOptions\s+(.*)$", shipped)
    assert options is not None
    compiled = f"{options[1]} -XX:TieredStopAtLevel=1" if once else re.sub(r" -XX:Tier4\w+=\d+", "", options[1])
    spark = QUICK | ({} if once else _SMALL) | {"spark.driver.extraJavaOptions": compiled} | settings
    return open_session(read_settings(warehouse=str(folder), spark=spark), "tests")


def forget(spark: SparkSession, warehouse: Path) -> None:
    """Detach the tables without deleting them: moved away, there is nothing to delete."""
    spark.catalog.setCurrentDatabase("default")
    if warehouse.is_dir():
        aside = warehouse.rename(warehouse.with_name("aside"))
        spark.sql(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")
        shutil.rmtree(warehouse, ignore_errors=True)
        aside.rename(warehouse)
    spark.sql(f"DROP SCHEMA IF EXISTS {SCHEMA} CASCADE")


def forget_attached(spark: SparkSession) -> None:
    """Detach whatever catalog is attached; the current schema is the one that a session begins with."""
    spark.catalog.setCurrentDatabase("default")
    if spark.catalog.databaseExists(SCHEMA):
        forget(spark, Path(spark.catalog.getDatabase(SCHEMA).locationUri.removeprefix("file:")))
