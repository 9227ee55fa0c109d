"""The log `changes`: its head, and the one Delta commit that publishes a plan.

A commit is compare-and-set: planned against head h, appended as snapshot h + 1, read back to see whose it is. Everything that
an ingest publishes is in that one append, so it is in the catalog wholly or not at all.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import CommitLost
from lakehouse.failpoints import crash_point
from lakehouse.log.baseline import of_snapshots
from lakehouse.log.owners import with_isdefault
from lakehouse.log.plan import Plan, changed_rows, rows_digest
from lakehouse.log.snapshotfacts import APPLICATION, LOGGED, Head
from lakehouse.store.deltatables import open_table, table_name
from lakehouse.store.internals.deltalog import append
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import is_known_empty
from lakehouse.store.schema import CHANGES, SCHEMA
from lakehouse.store.session import is_without_codegen
from lakehouse.store.tablelog import is_conflict, metadata_of_appends, newest_version, was_never_written
from lakehouse.version import VERSION

_FEW_ROWS = 50_000
_HEAD_MEMBERS = ("committed_at", "digest", "tables", "deletions")


@dataclass(frozen=True)
class CommitInfo:
    """Who commits, and what: goes into the snapshot's row and into Delta's commit information.

    Attributes:
        ingest_id: of this run alone.
        command: what does it.
        documents: how many were read, by what came of them.
        label: for the snapshot.
        users: who asked for it, where that is not the user of this process: for all of it one under "", of several each by the
            registry and XID that is theirs, with a blank between.
    """

    ingest_id: str
    command: str
    documents: dict[str, int]
    label: str | None = None
    users: dict[str, str] = field(default_factory=dict)


class Totals(NamedTuple):
    """What a commit comes to: see `Plan`, of which it is a part."""

    head: Head
    committed_at: datetime
    counts: dict[str, dict[str, int]]
    document_rows: int
    digest: str

    @property
    def changed(self) -> dict[str, int]:
        """Return the number of changed rows by table."""
        return changed_rows(self.counts)


def read_head(spark: SparkSession) -> Head:
    """Read the newest snapshot of the log from its commit's metadata, else from the table."""
    if not spark.catalog.databaseExists(SCHEMA):  # a dry run where there is no catalog yet
        return Head()
    for details in metadata_of_appends(spark, "changes"):
        if "head" not in details:
            break
        return _head(details["snapshot_id"], details["head"])
    if was_never_written(spark, "changes"):
        return Head()
    changes = open_table(spark, "changes")
    newest = changes.agg(F.max("snapshot_id")).collect()[0][0]
    if newest is None:
        return Head()
    body = _snapshot_bodies(spark, newest)[0]
    return _head(newest, body)


def read_head_at(spark: SparkSession, snapshot_id: int) -> Head:
    """Read what the log's head was when a snapshot was the newest one; the snapshot is there."""
    details = _commit_metadata(spark, snapshot_id)
    return _head(snapshot_id, details["head"] if "head" in details else _snapshot_bodies(spark, snapshot_id)[0])


@dataclass(frozen=True)
class Label:
    """A name for a snapshot, and why it has it."""

    name: str
    snapshot_id: int
    why: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """Return the body of the label's row."""
        return {"snapshot_id": self.snapshot_id} | ({} if self.why is None else {"why": self.why})


def commit(spark: SparkSession, plan: Plan, stage: DataFrame | None, run: CommitInfo, entities: DataFrame | None = None) -> Head:
    """Append a plan as the next snapshot.

    Args:
        spark: the session.
        plan: what is committed.
        stage: columns `schema.STAGE`, without what was refused; None: the plan has its texts.
        run: who commits.
        entities: as from `log_rows`, where they are at hand.

    Raises:
        CommitLost: another writer has taken that snapshot; nothing was appended.
    """
    snapshot_id = plan.head.snapshot_id + 1
    labels = [Label(run.label, snapshot_id)] if run.label is not None else []
    totals = Totals(plan.head, plan.committed_at, plan.counts, plan.document_rows, plan.digest)
    snapshot = _snapshot_body(totals, run, snapshot_id, labels)
    entities = log_rows(spark, plan, stage) if entities is None else entities
    rows = entities.unionByName(plan.documents.select(*LOGGED, "body"), allowMissingColumns=True)
    rows = rows.unionByName(_own_rows(spark, snapshot, labels), allowMissingColumns=True)
    if sum(plan.changed.values()) + plan.document_rows < _FEW_ROWS:
        rows = rows.coalesce(1)
    return _append(spark, snapshot_id, rows, snapshot, run)


def commit_rows(
    spark: SparkSession, head: Head, committed_at: datetime, rows: DataFrame, counts: dict[str, dict[str, int]], run: CommitInfo
) -> Head:
    """Append rows that were made without Spark as the next snapshot.

    Args:
        spark: the session.
        head: the snapshot that they were made for.
        committed_at: time of the snapshot, later than the head's.
        rows: of entities, columns of `changes` without snapshot_id.
        counts: their number by table and op.
        run: who commits.

    Raises:
        CommitLost: another writer has taken that snapshot; nothing was appended.
    """
    folded = rows.agg(rows_digest()).collect()[0]["digest"] or 0
    totals = Totals(head, committed_at, counts, 0, f"{folded & (2**64 - 1):016x}")
    snapshot_id = head.snapshot_id + 1
    snapshot = _snapshot_body(totals, run, snapshot_id, [])
    every = rows.unionByName(_own_rows(spark, snapshot, []), allowMissingColumns=True)
    if sum(totals.changed.values()) < _FEW_ROWS:
        every = every.coalesce(1)
    return _append(spark, snapshot_id, every, snapshot, run)


def own_bodies(totals: Totals, run: CommitInfo) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Return what a commit adds besides entities: its user metadata, and kind, xid and body of its other rows."""
    snapshot_id = totals.head.snapshot_id + 1
    snapshot = _snapshot_body(totals, run, snapshot_id, [])
    return _user_metadata(snapshot_id, snapshot, run), _bodies(snapshot, [])


def commit_label(spark: SparkSession, head: Head, label: Label, run: CommitInfo) -> Head:
    """Append a label of a snapshot; its row is the only change of a new snapshot.

    Raises:
        CommitLost: another writer has taken that snapshot; nothing was appended.
    """
    snapshot_id = head.snapshot_id + 1
    committed_at = head.next_moment()
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
    """Return the digest of a snapshot: over its number, facts, rows' digest, labels, and the digest of the previous one.

    Args:
        snapshot_id: the snapshot.
        body: facts of the snapshot; a `digest` among them is left out.
        labels: bodies of the label rows that were committed with it, by name.
    """
    details = {key: value for key, value in body.items() if key != "digest"}
    return hashlib.sha256(json.dumps([snapshot_id, details, labels], sort_keys=True).encode()).hexdigest()


def _append(spark: SparkSession, snapshot_id: int, rows: DataFrame, snapshot: dict[str, Any], run: CommitInfo) -> Head:
    details = json.dumps(_user_metadata(snapshot_id, snapshot, run))
    numbered = rows.withColumn("snapshot_id", F.lit(snapshot_id).cast("bigint")).select(*CHANGES.names)
    crash_point("before_commit")
    try:
        _append_rows(spark, snapshot_id, numbered, details)
    except Exception as error:
        if is_conflict(error):
            raise CommitLost(snapshot_id) from error
        raise
    # Delta skips a stale transaction without an error: whose row is it?
    if _committed_by(spark, snapshot_id) != run.ingest_id:
        raise CommitLost(snapshot_id)
    crash_point("after_commit")
    return _head(snapshot_id, snapshot)


def _append_rows(spark: SparkSession, snapshot_id: int, rows: DataFrame, message: str) -> None:
    newest = newest_version(spark, "changes") if is_without_codegen(spark) else None
    if newest is not None and set(newest.schema().fieldNames()) == set(CHANGES.names):
        append(spark, newest, rows, APPLICATION, snapshot_id, message)
    else:
        writer = rows.write.format("delta").mode("append").option("userMetadata", message)
        writer = writer.option("txnAppId", APPLICATION).option("txnVersion", snapshot_id)
        writer.saveAsTable(table_name("changes"))


def _user_metadata(snapshot_id: int, snapshot: dict[str, Any], run: CommitInfo) -> dict[str, Any]:
    details: dict[str, Any] = {"snapshot_id": snapshot_id, "ingest_id": run.ingest_id, "command": run.command}
    return details | {"head": {name: snapshot[name] for name in _HEAD_MEMBERS}}


def _bodies(snapshot: dict[str, Any], labels: list[Label]) -> list[tuple[str, str, str]]:
    """Return kind, xid and body of the rows of the snapshot itself and of its labels."""
    own = [("snapshot", "", json.dumps(snapshot, sort_keys=True))]
    return own + [("label", label.name, json.dumps(label.body, sort_keys=True)) for label in labels]


def _own_rows(spark: SparkSession, snapshot: dict[str, Any], labels: list[Label]) -> DataFrame:
    own = [("", kind, xid, "insert", body) for kind, xid, body in _bodies(snapshot, labels)]
    return spark.createDataFrame(own, "registryid string, kind string, xid string, op string, body string")


def log_rows(spark: SparkSession, plan: Plan, stage: DataFrame | None) -> DataFrame:
    """Return the changed entities with their texts: staged ones from the stage, those whose owners changed from the log."""
    if plan.log_rows is not None:
        return plan.log_rows
    assert stage is not None
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
    text = [*_flipped_texts(), "attributes"]
    written = F.broadcast(written) if sum(plan.changed.values()) < _FEW_ROWS else written  # the texts stay where they are
    rows = staged.join(written, on=[*KEY, "document_uri"], how="inner")
    rows = rows.select(*LOGGED, *text)
    if is_known_empty(owned):
        return rows
    log = of_snapshots(open_table(spark, "changes"), owned)
    log = log.select(*KEY, F.col("snapshot_id").alias("stored_in"), "body", "raw", "attributes")
    return rows.unionByName(log.join(owned, on=[*KEY, "stored_in"], how="inner").select(*LOGGED, *text))


def _flipped_texts() -> list[Column]:
    """Return body and raw of a planned row; where `isdefault` differs from the text, the body has the current value."""
    body = F.when(F.col("isdefault_differs"), with_isdefault(F.col("body"), F.col("isdefault"))).otherwise(F.col("body"))
    raw = F.when(F.col("isdefault_differs"), F.coalesce("raw", "body")).otherwise(F.col("raw"))
    return [body.alias("body"), raw.alias("raw")]


def _head(snapshot_id: int, body: dict[str, Any]) -> Head:
    return Head(snapshot_id, datetime.fromisoformat(body["committed_at"]), body["digest"], body["tables"], body["deletions"])


def _who_and_when(run: CommitInfo, committed_at: datetime) -> dict[str, Any]:
    several = {} if len(run.users) < 2 else {"changed_by": run.users}
    return several | {
        "ingest_id": run.ingest_id,
        "committed_at": committed_at.isoformat(),
        "command": run.command,
        "committed_by": ", ".join(sorted({*run.users.values()})) or getpass.getuser(),
        "product_version": VERSION,
        "documents": run.documents,
    }


def _sealed(body: dict[str, Any], snapshot_id: int, labels: list[Label]) -> dict[str, Any]:
    return body | {"digest": chained_digest(snapshot_id, body, {label.name: label.body for label in labels})}


def _snapshot_body(totals: Totals, run: CommitInfo, snapshot_id: int, labels: list[Label]) -> dict[str, Any]:
    body = _who_and_when(run, totals.committed_at) | {
        "counts": {
            table: {op: n for op, n in ops.items() if op not in ("unchanged", "refused")}
            for table, ops in totals.counts.items()
            if totals.changed[table]
        },
        "rows": sum(totals.changed.values()) + totals.document_rows,
        "rows_digest": totals.digest,
        "previous_digest": totals.head.digest,
        "deletions": totals.head.deletions + sum(ops.get("delete", 0) for ops in totals.counts.values()),
        "tables": totals.head.tables | {table: snapshot_id for table, n in totals.changed.items() if n},
    }
    return _sealed(body, snapshot_id, labels)


def _committed_by(spark: SparkSession, snapshot_id: int) -> str:
    """Return the ingest that committed a snapshot."""
    details = _commit_metadata(spark, snapshot_id) or _snapshot_bodies(spark, snapshot_id)[0]
    return str(details.get("ingest_id"))


def _commit_metadata(spark: SparkSession, snapshot_id: int) -> dict[str, Any]:
    """Return the user metadata of the commit of a snapshot; empty if only its row has the facts."""
    for details in metadata_of_appends(spark, "changes"):
        if details["snapshot_id"] == snapshot_id:
            return details
        if details["snapshot_id"] < snapshot_id:
            break
    return {}


def _snapshot_bodies(spark: SparkSession, snapshot_id: int) -> list[dict[str, Any]]:
    rows = open_table(spark, "changes").filter((F.col("snapshot_id") == snapshot_id) & (F.col("kind") == "snapshot"))
    return [json.loads(row["body"]) for row in rows.select("body").collect()]
