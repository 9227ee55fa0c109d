"""Frames that are computed once and read several times: by the executors where they are large, by the driver where they are few.

What follows is then planned over rows, and not over all that they were made of. Of few rows Spark knows at once how many there
are: it sends them to where they are joined with, leaves out what joins with none, and looks up no files for them.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.store.internals.plans import driver_rows, hand_over, map_few, on_driver
from lakehouse.store.schema import arrow_schema_of
from lakehouse.store.session import is_without_codegen

__all__ = [
    "count",
    "count_if",
    "frame_of",
    "hand_over",
    "is_empty",
    "is_known_empty",
    "is_local",
    "map_few",
    "materialize",
    "no_rows",
    "on_driver",
    "size_of",
]
_MOST_IN_A_PLAN = 5000  # rows of a frame: of more, which are part of a plan, Spark's optimizer evaluates each in turn


def materialize(frame: DataFrame, *, eager: bool = True) -> DataFrame:
    """Compute a frame once, and cut it off from the plan that it comes from.

    Args:
        frame: of few rows, where the session's work is small: they are sent to the driver.
        eager: compute it now; a large one waits otherwise until it is read.
    """
    return on_driver(frame) if is_without_codegen(frame.sparkSession) else frame.localCheckpoint(eager=eager)


def no_rows(session: SparkSession, schema: StructType | str) -> DataFrame:
    """Return a DataFrame without rows, which Spark's optimizer removes from joins and unions."""
    return session.createDataFrame([], schema).filter(F.lit(False))


def frame_of(spark: SparkSession, rows: list[dict[str, Any]], schema: StructType) -> DataFrame:
    """Return rows as a frame; many are cut off from the plan, which Spark's optimizer would evaluate with all of them."""
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, arrow_schema_of(schema)))
    return frame if len(rows) <= _MOST_IN_A_PLAN else materialize(frame, eager=False)


def size_of(frame: DataFrame) -> tuple[int, int]:
    """Return how many rows a frame has, and how many bytes they are as JSON."""
    text_bytes = F.sum(F.octet_length(F.to_json(F.struct("*"))))
    n, size = frame.agg(F.count("*"), F.coalesce(text_bytes, F.lit(0))).collect()[0]
    return n, size


def is_local(frame: DataFrame) -> bool:
    """Return whether the driver has the rows of a DataFrame, which are few."""
    return driver_rows(frame) is not None


def is_empty(frame: DataFrame) -> bool:
    """Return whether a DataFrame has no rows; for rows in the driver without a query."""
    rows = driver_rows(frame)
    return frame.isEmpty() if rows is None else rows.is_empty()


def is_known_empty(frame: DataFrame) -> bool:
    """Return whether a DataFrame has no rows without a query, so that work on it can be left out.

    Where work is small nothing is asked first: a query more costs as much as what it might save.
    """
    rows = driver_rows(frame)
    if rows is None:
        return not is_without_codegen(frame.sparkSession) and frame.isEmpty()
    return rows.is_empty()


def count_if(frame: DataFrame, conditions: dict[str, Column]) -> dict[str, int]:
    """Count the rows that meet each condition, by its name; of rows that the driver holds without a query."""
    if driver_rows(frame) is None:
        counted = (
            frame.select(*(F.count_if(condition).alias(name) for name, condition in conditions.items())).collect()[0].asDict()
        )
        return {name: int(counted[name]) for name in conditions}
    return {name: count(frame.filter(condition)) for name, condition in conditions.items()}


def count(frame: DataFrame) -> int:
    """Count the rows of a frame; of those that the driver holds without a query."""
    rows = driver_rows(frame)
    return frame.count() if rows is None else rows.count()
