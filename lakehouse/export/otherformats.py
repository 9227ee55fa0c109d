"""Formats that are written from a whole registry, and not group by group: AsyncAPI, Backstage, data contracts; and dbt's sources.

Only AsyncAPI can be loaded again, so only there something can be lost. The others describe the catalog to other tools.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

from lakehouse.asyncapi.outward import Perspective, write_asyncapi
from lakehouse.dialects.tables import Loss
from lakehouse.export.backstage import write_backstage
from lakehouse.export.odcs import write_contracts
from lakehouse.export.writers import WriteStyle
from lakehouse.settings import data_folder
from lakehouse.store.schema import SCHEMA
from lakehouse.store.views import read_view
from lakehouse.text.jsontext import indented
from lakehouse.text.names import Xid
from lakehouse.text.yamltext import as_yaml


class TextFiles(NamedTuple):
    """What a registry becomes.

    Attributes:
        files: texts by their names in a folder, without suffix; empty: the registry's id. In one file they follow each other.
        losses: what could not be said, with the XID of the entity.
    """

    files: dict[str, bytes]
    losses: list[tuple[Xid, Loss]]


class Format(NamedTuple):
    """A format: how a registry in normal form is written, and what names of files end with."""

    write: Callable[[dict[str, Any], WriteStyle], TextFiles]
    suffix: str


def _asyncapi(registry: dict[str, Any], style: WriteStyle) -> TextFiles:
    written = write_asyncapi(registry, _perspective(style))
    return TextFiles({"": indented(written.document).encode("utf-8", "surrogatepass") + b"\n"}, written.losses)


def _backstage(registry: dict[str, Any], style: WriteStyle) -> TextFiles:
    return TextFiles({"": as_yaml(*write_backstage(registry, _perspective(style)))}, [])


def _odcs(registry: dict[str, Any], style: WriteStyle) -> TextFiles:
    contracts = write_contracts(registry)
    return TextFiles({xid.replace("/messages/", "/").lstrip("/"): as_yaml(contract) for xid, contract in contracts.items()}, [])


def _perspective(style: WriteStyle) -> Perspective:
    return "server" if style.perspective == "server" else "client"


FORMATS = {
    "asyncapi-3": Format(_asyncapi, ".json"),
    "backstage": Format(_backstage, ".yaml"),
    "odcs": Format(_odcs, ".yaml"),
}


_ABOUT = "Catalog of xRegistry messages, endpoints and schemas. One row of most tables is an entity of a registry."


def write_sources(spark: SparkSession) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the file of sources, as dbt reads it: every table and view with its columns; and how many there are of both."""
    columns_of_all = read_view(spark, None, spark.catalog.currentDatabase(), {}, "dictionary")  # which reads no table
    rows = columns_of_all.orderBy("table_type", "table_name", "position").collect()
    tables, counts = [], {"tables": 0, "views": 0}
    for (kind, name), columns in groupby(rows, key=lambda row: (row["table_type"], row["table_name"])):
        described = [
            {"name": column["column_name"], "data_type": column["type"], "description": column["comment"]} for column in columns
        ]
        counts[f"{kind}s"] += 1
        tables.append({"name": name, "description": _about(f"{kind}s", name), "columns": described})
    schema = f"{{{{ var('xregistry_schema', '{SCHEMA}') }}}}"  # `lakehouse ddl --schema` may have registered it as another one
    return {"version": 2, "sources": [{"name": SCHEMA, "schema": schema, "description": _ABOUT, "tables": tables}]}, counts


def _about(folder: str, name: str) -> str:
    """Return the description of a table or view: the first line of its statement, and its grain."""
    text = (data_folder("ddl") / folder / f"{name}.sql").read_text(encoding="utf-8")
    about, grain = (line.removeprefix("-- ").removeprefix(f"{name}: ") for line in text.splitlines()[:2])
    return f"{about} {grain.partition('  ')[0]}"
