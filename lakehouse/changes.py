"""The log `changes`: its head, and the one Delta commit that publishes a plan.

A commit is compare-and-set: planned against head h, appended as snapshot h + 1, read back to see whose it is. Everything that
an ingest publishes is in that one append, so it is in the catalog wholly or not at all.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import lakehouse
from lakehouse.errors import CommitLost
from lakehouse.faults import crash_point
from lakehouse.model import CHANGES
from lakehouse.plans import LOGGED, Head, Plan
from lakehouse.refusals import KEY
from lakehouse.tables import table_name

_FEW_ROWS = 50_000
_LOST_RACES = (
    ConcurrentAppendException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)


@dataclass(frozen=True)
class Run:
    """Who commits, and what: goes into the snapshot's row and into Delta's commit information."""

    ingest_id: str
    command: str
    documents: dict[str, int]
    label: str | None = None


def read_head(spark: SparkSession) -> Head:
    """Read the newest snapshot of the log."""
    changes = spark.table(table_name("changes"))
    newest = changes.agg(F.max("snapshot_id")).collect()[0][0]
    if newest is None:
        return Head()
    body = _snapshot_bodies(spark, newest)[0]
    return _head(newest, body)


def commit(spark: SparkSession, plan: Plan, stage: DataFrame, run: Run) -> Head:
    """Append a plan as the next snapshot.

    Raises:
        CommitLost: another writer has taken that snapshot; nothing was appended.
    """
    snapshot_id = plan.head.snapshot_id + 1
    snapshot = _snapshot_body(plan, run, snapshot_id)
    rows = log_rows(spark, plan, stage).unionByName(plan.documents.select(*LOGGED, "body"), allowMissingColumns=True)
    own = [("", "snapshot", "", "insert", json.dumps(snapshot, sort_keys=True))]
    if run.label is not None:
        own.append(("", "label", run.label, "insert", json.dumps({"snapshot_id": snapshot_id})))
    own_rows = spark.createDataFrame(own, "registryid string, kind string, xid string, op string, body string")
    rows = rows.unionByName(own_rows, allowMissingColumns=True).withColumn("snapshot_id", F.lit(snapshot_id).cast("bigint"))
    total = sum(plan.changed.values()) + plan.document_rows
    if total < _FEW_ROWS:
        rows = rows.coalesce(1)
    writer = (
        rows.select(*CHANGES.names)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", "lakehouse.changes")
        .option("txnVersion", snapshot_id)
        .option("userMetadata", json.dumps({"snapshot_id": snapshot_id, "ingest_id": run.ingest_id, "command": run.command}))
    )
    crash_point("before_commit")
    try:
        writer.saveAsTable(table_name("changes"))
    except _LOST_RACES as error:
        raise CommitLost(snapshot_id) from error
    # Delta skips a stale transaction without an error: whose row is it?
    if [body["ingest_id"] for body in _snapshot_bodies(spark, snapshot_id)] != [run.ingest_id]:
        raise CommitLost(snapshot_id)
    crash_point("after_commit")
    return _head(snapshot_id, snapshot)


def log_rows(spark: SparkSession, plan: Plan, stage: DataFrame) -> DataFrame:
    """Give the changed entities with their texts: staged ones from the stage, those whose owners changed from the log."""
    texts = stage.filter(F.col("row") == "entity")
    now = F.lit(plan.committed_at)
    if plan.whole_stage:  # no join: what each row becomes follows from the row itself
        return texts.select(
            *KEY,
            F.lit("insert").alias("op"),
            "content_hash",
            F.coalesce("epoch", F.lit(1)).alias("epoch"),
            F.coalesce("createdat", now).alias("createdat"),
            F.coalesce("modifiedat", now).alias("modifiedat"),
            F.array("document_uri").alias("document_uris"),
            "body",
            "raw",
            "attributes",
        )
    written = plan.entities.filter(F.col("document_uri").isNotNull())
    staged = texts.select(*KEY, "document_uri", "body", "raw", "attributes")
    rows = staged.join(written, on=[*KEY, "document_uri"], how="inner").select(*LOGGED, "body", "raw", "attributes")
    owned = plan.entities.filter(F.col("document_uri").isNull())
    log = spark.table(table_name("changes")).select(*KEY, F.col("snapshot_id").alias("stored_in"), "body", "raw", "attributes")
    return rows.unionByName(log.join(owned, on=[*KEY, "stored_in"], how="inner").select(*LOGGED, "body", "raw", "attributes"))


def _head(snapshot_id: int, body: dict[str, Any]) -> Head:
    return Head(snapshot_id, datetime.fromisoformat(body["committed_at"]), body["digest"], body["tables"], body["deletions"])


def _snapshot_body(plan: Plan, run: Run, snapshot_id: int) -> dict[str, Any]:
    rows = sum(plan.changed.values()) + plan.document_rows
    link = f"{plan.head.digest}|{snapshot_id}|{rows}|{plan.digest}"
    return {
        "ingest_id": run.ingest_id,
        "committed_at": plan.committed_at.isoformat(),
        "command": run.command,
        "committed_by": getpass.getuser(),
        "product_version": lakehouse.__version__,
        "documents": run.documents,
        "counts": {
            table: {op: n for op, n in ops.items() if op not in ("unchanged", "refused")}
            for table, ops in plan.counts.items()
            if plan.changed[table]
        },
        "rows": rows,
        "rows_digest": plan.digest,
        "digest": hashlib.sha256(link.encode()).hexdigest(),
        "previous_digest": plan.head.digest,
        "deletions": plan.head.deletions + sum(ops.get("delete", 0) for ops in plan.counts.values()),
        "tables": plan.head.tables | {table: snapshot_id for table, n in plan.changed.items() if n},
    }


def _snapshot_bodies(spark: SparkSession, snapshot_id: int) -> list[dict[str, Any]]:
    rows = spark.table(table_name("changes")).filter((F.col("snapshot_id") == snapshot_id) & (F.col("kind") == "snapshot"))
    return [json.loads(row["body"]) for row in rows.select("body").collect()]
