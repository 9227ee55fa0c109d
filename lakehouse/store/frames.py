"""Frames that are computed once and read several times: by the executors where they are large, by the driver where they are few.

What follows is then planned over rows, and not over all that they were made of. Of few rows Spark knows at once how many there
are: it sends them to where they are joined with, leaves out what joins with none, and looks up no files for them.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.store.jvm import java_class
from lakehouse.store.sessions import is_interpreted


def keep(frame: DataFrame, *, eager: bool = True) -> DataFrame:
    """Compute a frame once, and cut it off from the plan that it comes from.

    Args:
        frame: of few rows, where the session's work is small: they are sent to the driver.
        eager: compute it now; a large one waits otherwise until it is read.
    """
    return on_driver(frame) if is_interpreted(frame.sparkSession) else frame.localCheckpoint(eager=eager)


def on_driver(frame: DataFrame) -> DataFrame:
    """Compute a frame of few rows once, and let the driver hold them."""
    session: Any = frame.sparkSession
    classic: Any = frame
    plan = _local(frame)
    if plan is None:
        rows = classic._jdf.collectAsList()
        return DataFrame(session._jsparkSession.createDataFrame(rows, classic._jdf.schema()), session)
    return _of_plan(session, plan)


def no_rows(session: SparkSession, schema: StructType | str) -> DataFrame:
    """Give a frame without rows that Spark knows to have none: what is joined or united with it is left out of the plan."""
    return session.createDataFrame([], schema).filter(F.lit(False))


def hand_over(frame: DataFrame, session: SparkSession) -> DataFrame:
    """Give rows to another session, with whose settings they are read; rows of `keep` go without what they came from."""
    classic: Any = frame
    return _of_plan(session, _local(frame) or classic._jdf.queryExecution().analyzed())


def is_local(frame: DataFrame) -> bool:
    """Tell that the driver holds the rows of a frame, which are few."""
    return _local(frame) is not None


def is_empty(frame: DataFrame) -> bool:
    """Tell that a frame has no rows; of rows that the driver holds it is known without a query."""
    plan = _local(frame)
    return frame.isEmpty() if plan is None else bool(plan.data().isEmpty())


def can_skip(frame: DataFrame) -> bool:
    """Tell that what would be done with a frame can be left out, since it has no rows.

    Where work is small nothing is asked first: a query more costs as much as what it might save.
    """
    plan = _local(frame)
    if plan is None:
        return not is_interpreted(frame.sparkSession) and frame.isEmpty()
    return bool(plan.data().isEmpty())


def count_if(frame: DataFrame, conditions: dict[str, Column]) -> dict[str, int]:
    """Count the rows that meet each condition, by its name; of rows that the driver holds without a query."""
    if _local(frame) is None:
        counted = frame.select(*(F.count_if(one).alias(name) for name, one in conditions.items())).collect()[0].asDict()
        return {name: int(counted[name]) for name in conditions}
    parts = {name: _local(frame.filter(condition)) for name, condition in conditions.items()}
    return {name: int(plan.data().size()) for name, plan in parts.items()}


def count(frame: DataFrame) -> int:
    """Count the rows of a frame; of those that the driver holds without a query."""
    plan = _local(frame)
    return frame.count() if plan is None else int(plan.data().size())


def _of_plan(session: Any, plan: Any) -> DataFrame:
    dataset = java_class(session._jvm, "org.apache.spark.sql.classic.Dataset")
    return DataFrame(dataset.ofRows(session._jsparkSession, plan), session)


def _local(frame: DataFrame) -> Any:
    """Give the plan of rows that the driver holds, filtered and projected; None: it takes a query to have them."""
    classic: Any = frame
    plan = classic._jdf.queryExecution().optimizedPlan()
    return plan if plan.getClass().getSimpleName() == "LocalRelation" else None
