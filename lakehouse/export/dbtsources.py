"""The tables and views of the catalog as sources of a dbt project: names, types and descriptions of their columns."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.settings import data_folder
from lakehouse.store.schema import SCHEMA
from lakehouse.store.views import read_view

_ABOUT = "Catalog of xRegistry messages, endpoints and schemas. One row of most tables is an entity of a registry."


def write_sources(spark: SparkSession) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the file of sources, as dbt reads it: every table and view with its columns; and how many there are of both."""
    columns_of_all = read_view(spark, None, spark.catalog.currentDatabase(), {}, "dictionary")  # which reads no table
    rows = columns_of_all.orderBy("table_type", "table_name", "position").collect()
    tables, counts = [], {"tables": 0, "views": 0}
    for (kind, name), columns in groupby(rows, key=lambda row: (row["table_type"], row["table_name"])):
        described = [{"name": one["column_name"], "data_type": one["type"], "description": one["comment"]} for one in columns]
        counts[f"{kind}s"] += 1
        tables.append({"name": name, "description": _about(f"{kind}s", name), "columns": described})
    return {"version": 2, "sources": [{"name": SCHEMA, "schema": SCHEMA, "description": _ABOUT, "tables": tables}]}, counts


def _about(folder: str, name: str) -> str:
    """Return the description of a table or view: the first line of its statement, and its grain."""
    text = (data_folder("ddl") / folder / f"{name}.sql").read_text(encoding="utf-8")
    about, grain = (line.removeprefix("-- ").removeprefix(f"{name}: ") for line in text.splitlines()[:2])
    return f"{about} {grain.partition('  ')[0]}"
