"""Sessions next to the user's own, and whether Spark interprets or compiles their queries.

A sibling has its own settings and temporary views, and sees the same tables. Small work is interpreted: Spark then generates
and compiles no code for it, which takes more time than the work itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

# An ingest of three messages, warm: 22 CPU seconds with compiled code, 11 interpreted. Of some rows, a plan is not worth a second
# look while it runs, nor more than one partition, nor the conditions that could be derived.
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.constraintPropagation.enabled": "false",
}


def open_sibling(spark: SparkSession, schema: str | None = None) -> SparkSession:
    """Open a new session, in a schema: that of the given session when none is named."""
    session = spark.newSession()
    session.catalog.setCurrentDatabase(schema or spark.catalog.currentDatabase())
    for key in INTERPRETED:
        session.conf.set(key, str(spark.conf.get(key)))
    return session


@contextmanager
def interpreted(spark: SparkSession, wanted: bool) -> Iterator[None]:
    """Interpret the queries of this session, and of sessions that it opens, until the end of the block, if `wanted`."""
    before = {key: str(spark.conf.get(key)) for key in INTERPRETED}
    try:
        for key, value in INTERPRETED.items() if wanted else ():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def is_interpreted(spark: SparkSession) -> bool:
    """Return whether this session's queries are interpreted, since its work is small."""
    return all(spark.conf.get(key) == value for key, value in INTERPRETED.items())
