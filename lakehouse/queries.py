"""Queries of a user: the tables that they name are attached, the views created, and the rows come back as text or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import QueryError
from lakehouse.model import SCHEMA
from lakehouse.settings import Settings
from lakehouse.tables import attach_tables, tables_named_in
from lakehouse.views import create_views, tables_read_by, views_named_in


@dataclass(frozen=True)
class Result:
    """Rows of a query, fetched as they are asked for."""

    frame: DataFrame

    @property
    def columns(self) -> list[str]:
        """Give the names of the columns."""
        return self.frame.columns

    def text_rows(self) -> Iterator[list[str | None]]:
        """Give each row as text, spelled as Spark's own `show` does."""
        named = self.frame.toDF(*(f"c{index}" for index in range(len(self.columns))))
        for row in named.select(*(F.col(name).cast("string") for name in named.columns)).toLocalIterator():
            yield list(row)

    def json_rows(self) -> Iterator[str]:
        """Give each row as a JSON object; NULL is null."""
        row = F.to_json(
            F.struct(*(F.col(f"`{name.replace('`', '``')}`") for name in self.columns)), {"ignoreNullFields": "false"}
        )
        for one in self.frame.select(row).toLocalIterator():
            yield one[0]


def run_query(spark: SparkSession, settings: Settings, query: str) -> Result:
    """Run a query on the catalog.

    Raises:
        QueryError: Spark does not understand it, or a name in it does not exist.
        WarehouseError: the warehouse holds no catalog.
    """
    views = views_named_in(query)
    attach_tables(spark, settings, dict.fromkeys([*tables_named_in(query), *tables_read_by(views)]))
    if views:
        create_views(spark, settings, SCHEMA, views)
    try:
        return Result(spark.sql(query))
    except PySparkException as error:
        told = str(error).split("\n\nJVM stacktrace")[0].strip()
        raise QueryError(f"the query cannot be run: {told}") from error
