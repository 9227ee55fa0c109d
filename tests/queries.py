"""How many queries a session has run."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def executions(spark: SparkSession) -> int:
    """Return the number of the newest SQL execution: Spark counts on, while it keeps the last thousand."""
    session: Any = spark
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    return int(session._jsparkSession.sharedState().statusStore().executionsList().last().executionId())
