"""What matching leaves behind: the Delta tables of `--into NAME`, and the views over them.

They are in their own schema, below the warehouse, since they hold data of events and not of the catalog. Each run is one
append; the micro-batch of a stream is written once, whatever is replayed (`txnAppId`, `txnVersion`).
"""

from __future__ import annotations

import re
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.errors import SettingsError, WarehouseTooNew
from lakehouse.log.snapshots import open_relations
from lakehouse.match.evaluation import FAILURES, UNREADABLE
from lakehouse.settings import Settings, data_folder
from lakehouse.store.deltatables import check_writers
from lakehouse.store.files import exists, list_folder
from lakehouse.store.localpaths import MATCH_RESULTS
from lakehouse.store.session import absolute_location, open_sibling
from lakehouse.store.views import create_view, view_of, with_read

TABLES = ("event_matches", "match_runs", "unmatched_signatures")
VIEWS = (
    "conformance_by_producer", "conformance_by_message", "unseen_messages", "undeclared_messages", "match_predicates",
    "dictionary",
)  # fmt: skip
_MOST_RUNS = 1_000  # whose rows one statement deletes; it takes no subquery
_NAME = re.compile(r"\A[A-Za-z_][A-Za-z0-9_]{0,62}\Z")
_COLUMN = re.compile(r"^  `?(\w+)`? (.+?)(?: NOT NULL)? COMMENT ('(?:[^'\\]|\\.)*'),?$", re.MULTILINE)
_CONSTRAINT = re.compile(r"^  'delta\.constraints\.(\w+)' = '((?:[^'\\]|\\.)*)',?$", re.MULTILINE)
_RESERVED = re.compile(r"\Axregistry", re.IGNORECASE)


Batch = tuple[str, int]


def check_name(name: str) -> None:
    """Check the name of `--into`.

    Raises:
        SettingsError: it is not a name of a schema, or that of the catalog.
    """
    if not _NAME.match(name) or _RESERVED.match(name):
        raise SettingsError(f"--into {name}: a name of a schema is needed: letters, digits and _, and not that of the catalog.")


def create_conformance(spark: SparkSession, settings: Settings, name: str) -> None:
    """Make the schema of a run, its tables and views, where they are not there yet.

    What is older than `match_retention_days` goes.

    Raises:
        SettingsError: the name is none, or on this store a commit could be lost.
        WarehouseError: the warehouse holds no catalog.
        WarehouseTooNew: a newer version of the product made the tables.
    """
    check_name(name)
    check_writers(spark, settings)
    open_conformance(spark, settings, name)
    _forget(open_sibling(spark, name), settings.match_retention_days)


def open_conformance(spark: SparkSession, settings: Settings, name: str) -> None:
    """Make the schema, its tables and views known to the session, and what is not there yet.

    Tables that an older version made get the columns that have come since.

    Raises:
        WarehouseError: the warehouse holds no catalog.
        WarehouseTooNew: a newer version of the product made the tables.
    """
    open_relations(spark, settings, with_read(["endpoint_messages", "flat_messages"]), ("endpoints",))
    location = f"{absolute_location(settings.warehouse)}/{MATCH_RESULTS}/{name}"
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {name} LOCATION '{location}'")
    session = open_sibling(spark, name)
    for table in TABLES:
        statement = _statement(f"{table}.sql")
        if exists(spark, f"{location}/{table}/_delta_log"):
            if not spark.catalog.tableExists(f"{name}.{table}"):  # another session made it, and no metastore remembers
                spark.catalog.createTable(f"{name}.{table}", path=f"{location}/{table}", source="delta")
        else:
            session.sql(statement)
        for missing in missing_columns(statement, session.table(table).columns, f"{name}.{table}"):
            session.sql(f"ALTER TABLE {table} ADD COLUMNS ({missing})")
        _renew_constraints(session, table, statement)
    for view in VIEWS:
        create_view(session, name, view_of(view, _statement(f"views/{view}.sql")))


def missing_columns(statement: str, columns: list[str], table: str) -> list[str]:
    """Return the columns that a table lacks, as a statement declares them.

    Args:
        statement: its CREATE TABLE.
        columns: those that it has.
        table: its name, for the error.

    Raises:
        WarehouseTooNew: it has columns that the statement does not know.
    """
    declared = {column: f"`{column}` {kind} COMMENT {comment}" for column, kind, comment in _COLUMN.findall(statement)}
    unknown = sorted(set(columns) - declared.keys())
    if unknown:
        raise WarehouseTooNew(f"{table} has columns of a newer version: {', '.join(unknown)}. Install that version.")
    return [text for column, text in declared.items() if column not in columns]


def _renew_constraints(session: SparkSession, table: str, statement: str) -> None:
    """Return a table that an older version made the constraints that its statement declares now."""
    declared = {name: text.replace("\\'", "'") for name, text in _CONSTRAINT.findall(statement)}
    if not declared:
        return
    properties = {row["key"]: row["value"] for row in session.sql(f"SHOW TBLPROPERTIES {table}").collect()}
    for name, text in declared.items():
        existing = properties.get(f"delta.constraints.{name}", "")
        if "".join(existing.split()) != "".join(text.split()):  # Delta puts spaces between the words of one that was added
            session.sql(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {name}")
            session.sql(f"ALTER TABLE {table} ADD CONSTRAINT {name} CHECK ({text})")


def _forget(session: SparkSession, days: int) -> None:
    """Delete the rows of events that runs more than some days ago have left; the runs' counts stay."""
    if not days:
        return
    old = session.table("match_runs").filter(F.col("begun_at") < F.expr(f"now() - INTERVAL {days:d} DAYS")).select("run_id")
    for table in ("event_matches", "unmatched_signatures"):
        stored_runs = (
            session.table(table).join(F.broadcast(old), on="run_id", how="left_semi").select("run_id").distinct().collect()
        )
        for start in range(0, len(stored_runs), _MOST_RUNS):
            runs = ", ".join(f"'{row['run_id']}'" for row in stored_runs[start : start + _MOST_RUNS])
            session.sql(f"DELETE FROM {table} WHERE run_id IN ({runs})")  # noqa: S608  ids that this store gave


def open_named_in(spark: SparkSession, settings: Settings, query: str) -> None:
    """Make the schemas of results that a query names known to the session: they are below the warehouse."""
    folder = f"{absolute_location(settings.warehouse)}/{MATCH_RESULTS}"
    for name in {row.lower() for row in re.findall(r"\b([A-Za-z_]\w*)\s*\.\s*(?:" + "|".join(TABLES + VIEWS) + r")\b", query)}:
        if exists(spark, f"{folder}/{name}/match_runs/_delta_log"):
            open_conformance(spark, settings, name)


def all_runs(spark: SparkSession, settings: Settings) -> DataFrame | None:
    """Return the runs of all result schemas of a warehouse: the columns of `match_runs`, and `schema`; None: there are none."""
    results, declared = [], _COLUMN.findall(_statement("match_runs.sql"))
    for folder, _, _ in sorted(list_folder(spark, f"{absolute_location(settings.warehouse)}/{MATCH_RESULTS}")):
        if exists(spark, f"{folder}/match_runs/_delta_log"):
            rows = spark.read.format("delta").load(f"{folder}/match_runs")
            missing = [(column, kind) for column, kind, _ in declared if column not in rows.columns]
            rows = rows.withColumns({column: F.lit(None).cast(kind) for column, kind in missing}) if missing else rows
            results.append(rows.withColumn("schema", F.lit(folder.rpartition("/")[2])))
    return reduce(lambda result, other: result.unionByName(other, allowMissingColumns=True), results) if results else None


def write_run(spark: SparkSession, name: str, results: DataFrame, run: dict[str, Any], *, batch: Batch | None = None) -> None:
    """Append the results of a run.

    Args:
        spark: the session.
        name: the schema.
        results: columns of `RESULT_COLUMNS`.
        run: `run_id` and `catalog_snapshot`.
        batch: of a stream, its identity and the number of the micro-batch: one that was written is not written again.
    """
    rows = results.withColumns(
        {"run_id": F.lit(run["run_id"]), "catalog_snapshot": F.lit(run["catalog_snapshot"]).cast("BIGINT")}
    )
    _append(rows.select(*spark.table(f"{name}.event_matches").columns), f"{name}.event_matches", batch)


def only_changed(spark: SparkSession, name: str, results: DataFrame) -> DataFrame:
    """Keep of results those that differ from the latest of the same event, and those of events that were never matched.

    Args:
        spark: the session.
        name: the schema.
        results: columns of `RESULT_COLUMNS`.
    """
    columns = ("status", "best", "matches", "reasons", "payload_status", "payload_errors")
    runs = spark.table(f"{name}.match_runs").select("run_id", "begun_at")
    newest = Window.partitionBy("event_ref", "item").orderBy(F.col("begun_at").desc(), "run_id")
    existing_results = (
        spark.table(f"{name}.event_matches").join(F.broadcast(runs), on="run_id").withColumn("nth", F.row_number().over(newest))
    )
    latest = existing_results.filter("nth = 1").select(
        F.col("event_ref").alias("held_ref"), F.col("item").alias("held_item"), F.struct(*columns).alias("held")
    )
    is_same = F.col("event_ref").eqNullSafe(F.col("held_ref")) & F.col("item").eqNullSafe(F.col("held_item"))
    is_same &= F.struct(*columns).eqNullSafe(F.col("held"))
    return results.join(latest, on=is_same, how="left_anti")


def write_signatures(
    spark: SparkSession, name: str, results: DataFrame, run: dict[str, Any], *, batch: Batch | None = None
) -> None:
    """Append the kinds of events that match nothing."""
    failed = results.filter(F.col("status").isin(*FAILURES, UNREADABLE))
    grouped = failed.groupBy(
        "status", "why", F.expr("transform(reasons, r -> r.pointer)").alias("pointers"), "nearest_xid", "ce_type", "ce_source"
    ).agg(
        F.count("*").alias("events"),
        F.min("landed_at").alias("first_landed_at"),
        F.max("landed_at").alias("last_landed_at"),
        F.any_value("event_ref").alias("sample"),
    )
    rows = grouped.withColumns(
        {"run_id": F.lit(run["run_id"]), "catalog_snapshot": F.lit(run["catalog_snapshot"]).cast("BIGINT")}
    )
    _append(rows.select(*spark.table(f"{name}.unmatched_signatures").columns), f"{name}.unmatched_signatures", batch)


def write_counts(spark: SparkSession, name: str, run: dict[str, Any], *, batch: Batch | None = None) -> None:
    """Append the row of a run to `match_runs`."""
    schema = spark.table(f"{name}.match_runs").schema
    _append(spark.createDataFrame([tuple(run.get(column) for column in schema.names)], schema), f"{name}.match_runs", batch)


def _append(rows: DataFrame, table: str, batch: Batch | None) -> None:
    writer = rows.write.format("delta").mode("append")
    if batch is not None:
        writer = writer.option("txnAppId", f"{batch[0]}:{table}").option("txnVersion", str(batch[1]))
    writer.saveAsTable(table)


def _statement(name: str) -> str:
    place = data_folder("ddl") / "match"
    for part in name.split("/"):
        place = place / part
    return place.read_text(encoding="utf-8").rstrip().removesuffix(";")
