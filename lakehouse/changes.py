"""The log `changes`: what a stage changes against the current state, and the one Delta commit that publishes it.

A commit is compare-and-set: planned against head h, appended as snapshot h + 1, read back to see whose it is. Everything that
an ingest publishes is in that one append, so it is in the catalog wholly or not at all.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import Any

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import lakehouse
from lakehouse.documents import current_documents
from lakehouse.errors import CommitLost
from lakehouse.findings import CONFLICT
from lakehouse.model import CHANGES, DOCUMENT_BODY, ENTITY_TABLES, TABLE_OF_KIND
from lakehouse.tables import table_name

KEY = ["registryid", "kind", "xid"]
_FEW_ROWS = 50_000
_LOST_RACES = (
    ConcurrentAppendException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)


@dataclass(frozen=True)
class Head:
    """The newest snapshot; number 0 before the first.

    Attributes:
        tables: for each entity table the snapshot that changed it last.
    """

    snapshot_id: int = 0
    committed_at: datetime = datetime(1970, 1, 1, tzinfo=timezone.utc)
    digest: str = ""
    tables: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Run:
    """Who commits, and what: goes into the snapshot's row and into Delta's commit information."""

    ingest_id: str
    command: str
    documents: dict[str, int]


@dataclass
class Plan:
    """What a stage changes against a head.

    Attributes:
        head: the snapshot that it was planned against.
        committed_at: time of the snapshot to come; never before the head's.
        entities: changed entities without their text: KEY, op, epoch, createdat, modifiedat, document_uris, document_uri (the
            one whose text is taken; NULL for op own), content_hash, stored_in (snapshot of the row that op own repeats).
        documents: facts of documents that changed, columns of `changes` without snapshot_id.
        conflicts: entities of a document that another document of the same stage defines otherwise.
        counts: rows of `entities` by table and op; `unchanged` too.
        whole_stage: all entities of the stage are new and stand in one document each.
    """

    head: Head
    committed_at: datetime
    entities: DataFrame
    documents: DataFrame
    counts: dict[str, dict[str, int]]
    document_rows: int
    digest: str
    whole_stage: bool

    @property
    def is_empty(self) -> bool:
        """Tell that nothing would be committed."""
        return self.document_rows == 0 and not any(self.changed.values())

    @property
    def changed(self) -> dict[str, int]:
        """Changed rows by table."""
        return {table: sum(n for op, n in ops.items() if op != "unchanged") for table, ops in self.counts.items()}


def read_head(spark: SparkSession) -> Head:
    """Read the newest snapshot of the log."""
    changes = spark.table(table_name("changes"))
    newest = changes.agg(F.max("snapshot_id")).collect()[0][0]
    if newest is None:
        return Head()
    body = _snapshot_bodies(spark, newest)[0]
    return Head(newest, datetime.fromisoformat(body["committed_at"]), body["digest"], body["tables"])


def read_state(spark: SparkSession) -> DataFrame:
    """Read the current state of all entities from their tables.

    Returns:
        One row per entity: KEY, content_hash, epoch, createdat, modifiedat, document_uris, snapshot_id.
    """
    columns = ["xid", "content_hash", "epoch", "createdat", "modifiedat", "document_uris", "snapshot_id"]
    parts = [
        spark.table(table_name(table.name)).select("registryid", F.lit(table.kind).alias("kind"), *columns) for table in ENTITY_TABLES
    ]
    return reduce(DataFrame.unionByName, parts)


def one_per_entity(stage: DataFrame) -> DataFrame:
    """Choose for each entity the document whose text is taken: the first by URI (decision 4).

    Args:
        stage: columns `model.STAGE`.

    Returns:
        One row per entity: KEY, document_uri, content_hash, epoch, createdat, modifiedat as declared there, owners (all documents
        with the same content, sorted), losers (documents with another content). The root of a registry has no losers (decision 3).
    """
    facts = ["document_uri", "content_hash", "epoch", "createdat", "modifiedat"]
    every = stage.filter(F.col("row") == "entity").groupBy(*KEY).agg(F.sort_array(F.collect_list(F.struct(*facts))).alias("every"))
    first = F.col("every")[0]
    same = F.filter("every", lambda one: (one["content_hash"] == first["content_hash"]) | (F.col("kind") == "registry"))
    other = F.filter("every", lambda one: (one["content_hash"] != first["content_hash"]) & (F.col("kind") != "registry"))
    uris = [F.transform(part, lambda one: one["document_uri"]) for part in (same, other)]
    return every.select(*KEY, *(first[name].alias(name) for name in facts), uris[0].alias("owners"), uris[1].alias("losers"))


def find_conflicts(chosen: DataFrame, stage: DataFrame) -> DataFrame:
    """Tell of each document that lost an entity to another document of the same ingest.

    Args:
        chosen: as from `one_per_entity`.
        stage: columns `model.STAGE`.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `model.STAGE`.
    """
    lost = chosen.filter(F.size("losers") > 0).select(*KEY, F.col("document_uri").alias("winner"), F.explode("losers").alias("document_uri"))
    texts = stage.filter(F.col("row") == "entity").select(*KEY, "document_uri", F.coalesce("raw", "body").alias("raw"))
    message = F.concat(F.lit("the documents "), F.col("winner"), F.lit(" and "), F.col("document_uri"),
                       F.lit(" define this entity differently; the first one's definition is taken"))
    finding = F.struct(
        F.substring(F.sha2(F.concat_ws("\0", "registryid", "document_uri", F.lit(CONFLICT), "xid", message), 256), 1, 32).alias("violation_id"),
        F.lit("").alias("pointer"),
        F.lit(CONFLICT).alias("rule_id"),
        F.lit("error").alias("severity"),
        F.lit("quarantined").alias("action"),
        message.alias("message"),
        F.lit("Define it in one document, or load one of them into another registry.").alias("hint"),
        F.col("raw"),
    )
    return lost.join(texts, on=[*KEY, "document_uri"], how="left").select(
        F.lit("finding").alias("row"), "document_uri", *KEY, finding.alias("finding")
    )


def plan_changes(spark: SparkSession, head: Head, stage: DataFrame, chosen: DataFrame, conflicts: DataFrame) -> Plan:
    """Compare a stage with the current state.

    Args:
        spark: the session.
        head: snapshot that the entity tables stand at.
        stage: columns `model.STAGE`.
        chosen: as from `one_per_entity`.
        conflicts: as from `find_conflicts`.
    """
    committed_at = max(datetime.now(timezone.utc), head.committed_at + timedelta(microseconds=1))
    compared = with_op(chosen, read_state(spark), F.lit(committed_at)).persist()
    totals = compared.groupBy("kind", "op").agg(F.count("*").alias("n"), F.max(F.size("owners")).alias("owners"), _digest()).collect()
    documents = with_document_op(_document_facts(stage, conflicts), current_documents(spark.table(table_name("changes")))).persist()
    document_total = documents.agg(F.count("*").alias("n"), F.coalesce(_digest("body"), F.lit(0)).alias("digest")).collect()[0]
    counts: dict[str, dict[str, int]] = {table.name: {} for table in ENTITY_TABLES}
    for total in totals:
        counts[TABLE_OF_KIND[total["kind"]].name][total["op"] or "unchanged"] = total["n"]
    digest = reduce(lambda one, total: one ^ total["digest"], (total for total in totals if total["op"]), document_total["digest"])
    return Plan(
        head=head,
        committed_at=committed_at,
        entities=compared.filter(F.col("op").isNotNull()),
        documents=documents,
        counts=counts,
        document_rows=document_total["n"],
        digest=f"{digest & (2**64 - 1):016x}",
        whole_stage=all(total["op"] == "insert" and total["owners"] == 1 for total in totals) and not conflicts.take(1),
    )


def with_op(chosen: DataFrame, state: DataFrame, now: Column) -> DataFrame:
    """Tell of each staged entity what happens to it (decisions 3, 8 and 9).

    Args:
        chosen: as from `one_per_entity`.
        state: as from `read_state`.
        now: time of the snapshot to come.

    Returns:
        `chosen` with op (insert, update, own; NULL: unchanged), epoch, createdat, modifiedat and document_uris after the change,
        and stored_in. A declared epoch or date is stored as declared; where none is, an update counts the epoch and sets modifiedat.
    """
    renamed = state.select(*KEY, *(F.col(name).alias(f"_{name}") for name in state.columns if name not in KEY))
    both = chosen.join(renamed, on=KEY, how="left")
    is_new = F.col("_content_hash").isNull()
    first_owner = F.col("_document_uris")[0]
    # The root of a registry comes from the first of all its documents, also from those of earlier ingests.
    keeps_root = (F.col("kind") == "registry") & (first_owner < F.col("document_uri")) & ~F.array_contains("owners", first_owner)
    differs = (F.col("content_hash") != F.col("_content_hash")) | reduce(
        Column.__or__,
        [F.col(name).isNotNull() & ~F.col(name).eqNullSafe(F.col(f"_{name}")) for name in ("epoch", "createdat", "modifiedat")],
    )
    changed = differs & ~F.coalesce(keeps_root, F.lit(False))
    owners = F.array_sort(F.array_union(F.coalesce("_document_uris", F.array()), F.col("owners")))
    op = (
        F.when(is_new, F.lit("insert"))
        .when(changed, F.lit("update"))
        .when(owners != F.col("_document_uris"), F.lit("own"))
    )
    writes = is_new | changed
    return both.select(
        *KEY,
        op.alias("op"),
        F.when(writes, F.col("content_hash")).otherwise(F.col("_content_hash")).alias("content_hash"),
        F.when(is_new, F.coalesce("epoch", F.lit(1)))
        .when(changed, F.coalesce("epoch", F.col("_epoch") + 1))
        .otherwise(F.col("_epoch"))
        .alias("epoch"),
        F.when(writes, F.coalesce("createdat", "_createdat", now)).otherwise(F.col("_createdat")).alias("createdat"),
        F.when(writes, F.coalesce("modifiedat", now)).otherwise(F.col("_modifiedat")).alias("modifiedat"),
        owners.alias("document_uris"),
        F.when(writes, F.col("document_uri")).alias("document_uri"),
        F.col("_snapshot_id").alias("stored_in"),
        "owners",
    )


def with_document_op(facts: DataFrame, known: DataFrame) -> DataFrame:
    """Keep the documents whose facts differ from those of their last load.

    Args:
        facts: registryid, xid, body.
        known: as from `current_documents`.

    Returns:
        registryid, kind, xid, op and body of what is to be appended, with the columns that `_digest` reads.
    """
    before = known.select("registryid", "xid", F.col("body").alias("_body"))
    empty = [F.lit(None).cast(CHANGES[name].dataType).alias(name) for name in ("content_hash", "epoch", "createdat", "modifiedat", "document_uris")]
    return (
        facts.join(before, on=["registryid", "xid"], how="left")
        .filter(~F.col("body").eqNullSafe(F.col("_body")))
        .select("registryid", F.lit("document").alias("kind"), "xid", F.when(F.col("_body").isNull(), "insert").otherwise("update").alias("op"), *empty, "body")
    )


def commit(spark: SparkSession, plan: Plan, stage: DataFrame, run: Run) -> Head:
    """Append a plan as the next snapshot.

    Raises:
        CommitLost: another writer has taken that snapshot; nothing was appended.
    """
    snapshot_id = plan.head.snapshot_id + 1
    snapshot = _snapshot_body(plan, run, snapshot_id)
    rows = _log_rows(spark, plan, stage).unionByName(plan.documents.select(*_LOGGED, "body"), allowMissingColumns=True)
    own_row = spark.createDataFrame([("", "snapshot", "", "insert", json.dumps(snapshot, sort_keys=True))], "registryid string, kind string, xid string, op string, body string")
    rows = rows.unionByName(own_row, allowMissingColumns=True).withColumn("snapshot_id", F.lit(snapshot_id).cast("bigint"))
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
    try:
        writer.saveAsTable(table_name("changes"))
    except _LOST_RACES as error:
        raise CommitLost(snapshot_id) from error
    # Delta skips a stale transaction without an error: whose row is it?
    if [body["ingest_id"] for body in _snapshot_bodies(spark, snapshot_id)] != [run.ingest_id]:
        raise CommitLost(snapshot_id)
    return Head(snapshot_id, plan.committed_at, snapshot["digest"], snapshot["tables"])


_LOGGED = ["registryid", "kind", "xid", "op", "content_hash", "epoch", "createdat", "modifiedat", "document_uris"]


def _log_rows(spark: SparkSession, plan: Plan, stage: DataFrame) -> DataFrame:
    """Give the changed entities with their texts: staged ones from the stage, those whose owners changed from the log."""
    texts = stage.filter(F.col("row") == "entity")
    now = F.lit(plan.committed_at)
    if plan.whole_stage:  # no join: what each row becomes follows from the row itself
        return texts.select(
            *KEY, F.lit("insert").alias("op"), "content_hash", F.coalesce("epoch", F.lit(1)).alias("epoch"),
            F.coalesce("createdat", now).alias("createdat"), F.coalesce("modifiedat", now).alias("modifiedat"),
            F.array("document_uri").alias("document_uris"), "body", "raw", "attributes",
        )
    written = plan.entities.filter(F.col("document_uri").isNotNull())
    staged = texts.select(*KEY, "document_uri", "body", "raw", "attributes")
    rows = staged.join(written, on=[*KEY, "document_uri"], how="inner").select(*_LOGGED, "body", "raw", "attributes")
    owned = plan.entities.filter(F.col("document_uri").isNull())
    log = spark.table(table_name("changes")).select(*KEY, F.col("snapshot_id").alias("stored_in"), "body", "raw", "attributes")
    return rows.unionByName(log.join(owned, on=[*KEY, "stored_in"], how="inner").select(*_LOGGED, "body", "raw", "attributes"))


def _document_facts(stage: DataFrame, conflicts: DataFrame) -> DataFrame:
    """Complete the facts of parsed documents with what was found after parsing."""
    found = conflicts.groupBy("registryid", F.col("document_uri").alias("xid")).agg(
        F.collect_set("finding.violation_id").alias("ids"), F.collect_list("kind").alias("kinds")
    )
    names = F.create_map(*(F.lit(part) for kind, table in TABLE_OF_KIND.items() for part in (kind, table.name)))
    facts = stage.filter(F.col("row") == "document").select("registryid", "xid", F.from_json("facts", DOCUMENT_BODY).alias("facts"))
    late = F.transform(F.col("kinds"), lambda kind: names[kind])

    def shifted(column: str, sign: int) -> Column:
        empty = F.create_map().cast("map<string,int>")
        counted = F.map_from_entries(F.transform(F.array_distinct(late), lambda table: F.struct(
            table.alias("table"), F.size(F.filter(late, lambda other: other == table)).alias("n"))))
        summed = F.map_zip_with(F.coalesce(f"facts.{column}", empty), counted, lambda _, before, more: F.coalesce(before, F.lit(0)) + sign * F.coalesce(more, F.lit(0)))
        return F.when(F.col("kinds").isNull(), F.col(f"facts.{column}")).otherwise(F.map_filter(summed, lambda _, n: n != 0))

    ids = F.array_sort(F.array_union(F.coalesce("facts.findings", F.array()), F.coalesce("ids", F.array())))
    complete = (
        F.col("facts")
        .withField("findings", F.when(F.size(ids) > 0, ids))
        .withField("entities", shifted("entities", -1))
        .withField("quarantined", shifted("quarantined", 1))
    )
    return (
        facts.filter(F.col("facts.status") != "unchanged")
        .join(found, on=["registryid", "xid"], how="left")
        .select("registryid", "xid", F.to_json(complete).alias("body"))
    )


def _digest(*also: str) -> Column:
    """Fold the rows of a group into one number, whatever their order: a lost or altered row changes it."""
    return F.bit_xor(F.xxhash64(*_LOGGED, *also)).alias("digest")


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
        "counts": {table: {op: n for op, n in ops.items() if op != "unchanged"} for table, ops in plan.counts.items() if plan.changed[table]},
        "rows": rows,
        "rows_digest": plan.digest,
        "digest": hashlib.sha256(link.encode()).hexdigest(),
        "previous_digest": plan.head.digest,
        "tables": plan.head.tables | {table: snapshot_id for table, n in plan.changed.items() if n},
    }


def _snapshot_bodies(spark: SparkSession, snapshot_id: int) -> list[dict[str, Any]]:
    rows = spark.table(table_name("changes")).filter((F.col("snapshot_id") == snapshot_id) & (F.col("kind") == "snapshot"))
    return [json.loads(row["body"]) for row in rows.select("body").collect()]
