"""The log `changes`: its head, and the one Delta commit that publishes a plan.

A commit is compare-and-set: planned against head h, appended as snapshot h + 1, read back to see whose it is. Everything that
an ingest publishes is in that one append, so it is in the catalog wholly or not at all.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import lakehouse
from lakehouse.errors import CommitLost
from lakehouse.faults import crash_point
from lakehouse.log.head import LOGGED, Head
from lakehouse.log.ownership.defaults import with_isdefault
from lakehouse.log.plan import Plan
from lakehouse.store.conflicts import is_conflict
from lakehouse.store.keys import KEY
from lakehouse.store.positions import told_by_appends
from lakehouse.store.schema import CHANGES
from lakehouse.store.tables import open_table, table_name

_FEW_ROWS = 50_000
_TOLD_OF_HEAD = ("committed_at", "digest", "tables", "deletions")


@dataclass(frozen=True)
class Run:
    """Who commits, and what: goes into the snapshot's row and into Delta's commit information."""

    ingest_id: str
    command: str
    documents: dict[str, int]
    label: str | None = None


def read_head(spark: SparkSession) -> Head:
    """Read the newest snapshot of the log: its commit tells it; where that was another's, the table is asked."""
    for told in told_by_appends(spark, "changes"):
        if "head" not in told:
            break
        return _head(told["snapshot_id"], told["head"])
    changes = open_table(spark, "changes")
    newest = changes.agg(F.max("snapshot_id")).collect()[0][0]
    if newest is None:
        return Head()
    body = _snapshot_bodies(spark, newest)[0]
    return _head(newest, body)


@dataclass(frozen=True)
class Label:
    """A name for a snapshot, and why it has it."""

    name: str
    snapshot_id: int
    why: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """Give the facts that the label's row holds."""
        return {"snapshot_id": self.snapshot_id} | ({} if self.why is None else {"why": self.why})


def commit(spark: SparkSession, plan: Plan, stage: DataFrame, run: Run, entities: DataFrame | None = None) -> Head:
    """Append a plan as the next snapshot.

    Args:
        spark: the session.
        plan: what is committed.
        stage: columns `model.STAGE`, without what was refused.
        run: who commits.
        entities: as from `log_rows`, where they are at hand.

    Raises:
        CommitLost: another writer has taken that snapshot; nothing was appended.
    """
    snapshot_id = plan.head.snapshot_id + 1
    labels = [Label(run.label, snapshot_id)] if run.label is not None else []
    snapshot = _snapshot_body(plan, run, snapshot_id, labels)
    entities = log_rows(spark, plan, stage) if entities is None else entities
    rows = entities.unionByName(plan.documents.select(*LOGGED, "body"), allowMissingColumns=True)
    rows = rows.unionByName(_own_rows(spark, snapshot, labels), allowMissingColumns=True)
    if sum(plan.changed.values()) + plan.document_rows < _FEW_ROWS:
        rows = rows.coalesce(1)
    return _append(spark, snapshot_id, rows, snapshot, run)


def commit_label(spark: SparkSession, head: Head, label: Label, run: Run) -> Head:
    """Append a name for a snapshot; the row is a snapshot of its own, in which nothing else changed.

    Raises:
        CommitLost: another writer has taken that snapshot; nothing was appended.
    """
    snapshot_id = head.snapshot_id + 1
    committed_at = max(datetime.now(timezone.utc), head.committed_at + timedelta(microseconds=1))
    snapshot = _sealed(
        _who_and_when(run, committed_at)
        | {
            "counts": {},
            "rows": 0,
            "rows_digest": f"{0:016x}",
            "previous_digest": head.digest,
            "deletions": head.deletions,
            "tables": head.tables,
        },
        snapshot_id,
        [label],
    )
    rows = (
        spark.createDataFrame([], CHANGES)
        .drop("snapshot_id")
        .unionByName(_own_rows(spark, snapshot, [label]), allowMissingColumns=True)
    )
    return _append(spark, snapshot_id, rows.coalesce(1), snapshot, run)


def chained_digest(snapshot_id: int, body: dict[str, Any], labels: dict[str, Any]) -> str:
    """Give the digest of a snapshot: over its number, its facts, the digest of its rows, the digest before, and its labels.

    Args:
        snapshot_id: the snapshot.
        body: facts of the snapshot; a `digest` among them is left out.
        labels: bodies of the label rows that were committed with it, by name.
    """
    told = {key: value for key, value in body.items() if key != "digest"}
    return hashlib.sha256(json.dumps([snapshot_id, told, labels], sort_keys=True).encode()).hexdigest()


def _append(spark: SparkSession, snapshot_id: int, rows: DataFrame, snapshot: dict[str, Any], run: Run) -> Head:
    told = {"snapshot_id": snapshot_id, "ingest_id": run.ingest_id, "command": run.command}
    told["head"] = {name: snapshot[name] for name in _TOLD_OF_HEAD}
    writer = (
        rows.withColumn("snapshot_id", F.lit(snapshot_id).cast("bigint"))
        .select(*CHANGES.names)
        .write.format("delta")
        .mode("append")
        .option("txnAppId", "lakehouse.changes")
        .option("txnVersion", snapshot_id)
        .option("userMetadata", json.dumps(told))
    )
    crash_point("before_commit")
    try:
        writer.saveAsTable(table_name("changes"))
    except Exception as error:
        if is_conflict(error):
            raise CommitLost(snapshot_id) from error
        raise
    # Delta skips a stale transaction without an error: whose row is it?
    if _committed_by(spark, snapshot_id) != run.ingest_id:
        raise CommitLost(snapshot_id)
    crash_point("after_commit")
    return _head(snapshot_id, snapshot)


def _own_rows(spark: SparkSession, snapshot: dict[str, Any], labels: list[Label]) -> DataFrame:
    """Give the rows of the snapshot itself and of its labels."""
    own = [("", "snapshot", "", "insert", json.dumps(snapshot, sort_keys=True))]
    own += [("", "label", label.name, "insert", json.dumps(label.body, sort_keys=True)) for label in labels]
    return spark.createDataFrame(own, "registryid string, kind string, xid string, op string, body string")


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
    owned = plan.entities.filter(F.col("document_uri").isNull())
    log = open_table(spark, "changes").select(*KEY, F.col("snapshot_id").alias("stored_in"), "body", "raw", "attributes")
    text = [*_flipped_texts(), "attributes"]
    rows = staged.join(written, on=[*KEY, "document_uri"], how="inner")
    rows = rows.select(*LOGGED, *text)
    return rows.unionByName(log.join(owned, on=[*KEY, "stored_in"], how="inner").select(*LOGGED, *text))


def _flipped_texts() -> list[Column]:
    """Give body and raw of a planned row; where `isdefault` is not as the text says, the body says it as it is."""
    body = F.when(F.col("flipped"), with_isdefault(F.col("body"), F.col("isdefault"))).otherwise(F.col("body"))
    raw = F.when(F.col("flipped"), F.coalesce("raw", "body")).otherwise(F.col("raw"))
    return [body.alias("body"), raw.alias("raw")]


def _head(snapshot_id: int, body: dict[str, Any]) -> Head:
    return Head(snapshot_id, datetime.fromisoformat(body["committed_at"]), body["digest"], body["tables"], body["deletions"])


def _who_and_when(run: Run, committed_at: datetime) -> dict[str, Any]:
    return {
        "ingest_id": run.ingest_id,
        "committed_at": committed_at.isoformat(),
        "command": run.command,
        "committed_by": getpass.getuser(),
        "product_version": lakehouse.__version__,
        "documents": run.documents,
    }


def _sealed(body: dict[str, Any], snapshot_id: int, labels: list[Label]) -> dict[str, Any]:
    return body | {"digest": chained_digest(snapshot_id, body, {label.name: label.body for label in labels})}


def _snapshot_body(plan: Plan, run: Run, snapshot_id: int, labels: list[Label]) -> dict[str, Any]:
    body = _who_and_when(run, plan.committed_at) | {
        "counts": {
            table: {op: n for op, n in ops.items() if op not in ("unchanged", "refused")}
            for table, ops in plan.counts.items()
            if plan.changed[table]
        },
        "rows": sum(plan.changed.values()) + plan.document_rows,
        "rows_digest": plan.digest,
        "previous_digest": plan.head.digest,
        "deletions": plan.head.deletions + sum(ops.get("delete", 0) for ops in plan.counts.values()),
        "tables": plan.head.tables | {table: snapshot_id for table, n in plan.changed.items() if n},
    }
    return _sealed(body, snapshot_id, labels)


def _committed_by(spark: SparkSession, snapshot_id: int) -> str:
    """Give the ingest that committed a snapshot."""
    for told in told_by_appends(spark, "changes"):
        if told["snapshot_id"] == snapshot_id:
            return str(told.get("ingest_id"))
        if told["snapshot_id"] < snapshot_id:
            break
    return str(_snapshot_bodies(spark, snapshot_id)[0]["ingest_id"])


def _snapshot_bodies(spark: SparkSession, snapshot_id: int) -> list[dict[str, Any]]:
    rows = open_table(spark, "changes").filter((F.col("snapshot_id") == snapshot_id) & (F.col("kind") == "snapshot"))
    return [json.loads(row["body"]) for row in rows.select("body").collect()]
