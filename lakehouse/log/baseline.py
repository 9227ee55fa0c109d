"""What a stage is compared with: the state of the catalog, and the facts of each document's last load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, MapType, StringType, StructField, StructType

from lakehouse.domain.ownership import Policy
from lakehouse.log.owners import (
    added_to,
    existing_disputes,
)
from lakehouse.log.snapshotfacts import LOGGED, Head
from lakehouse.store.deltatables import open_table
from lakehouse.store.keys import KEY, LIFECYCLE
from lakehouse.store.materialize import is_empty, is_known_empty, materialize, no_rows
from lakehouse.store.schema import CHANGES, DOCUMENT_BODY, ENTITY_TABLES, TABLE_OF_KIND, Table
from lakehouse.store.xids import no_uris

# What of an entity is compared, besides its key and its content_hash; and what only some kinds of entities have.
STATE = (*LIFECYCLE, "document_uris", "snapshot_id")
OPTIONAL = {"isdefault": BooleanType(), "defaultversionid": StringType()}
_FEW_REGISTRIES = 100
_FEW_SNAPSHOTS = 1000  # that are named in a query


@dataclass(frozen=True)
class Baseline:
    """What a stage is compared with: read once, however often the rules between entities take something out of the stage.

    Attributes:
        head: snapshot that the entity tables are at.
        committed_at: time of the snapshot to come; never before the head's.
        policy: what the ingest may do.
        log: rows of `changes` up to the head.
        existing_documents: as from `current_documents`.
        gone: documents that are not where they were: registryid, xid.
        disputes: as from `owners.existing_disputes`; None: there are none.
        state: as from `read_state`.
        staged: what the staged documents hold, refused by rules between entities or not: KEY, document_uri.
    """

    head: Head
    committed_at: datetime
    policy: Policy
    log: DataFrame
    existing_documents: DataFrame
    gone: DataFrame
    disputes: DataFrame | None
    state: DataFrame
    staged: DataFrame


def read_baseline(
    spark: SparkSession,
    head: Head,
    stage: DataFrame,
    policy: Policy,
    existing_documents: DataFrame,
    gone: DataFrame,
) -> Baseline:
    """Read what a stage is compared with.

    Args:
        spark: the session.
        head: snapshot that the entity tables are at.
        stage: columns `schema.STAGE`, as the documents were read.
        policy: what the ingest may do.
        existing_documents: as from `current_documents` at the head.
        gone: as from `find_gone`.
    """
    log = open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id)
    committed_at = head.next_moment()
    disputes = _disputes_of(existing_documents, gone)
    staged = stage.filter(F.col("row") == "entity").select(*KEY, "document_uri")
    # What is pruned, and how much that is of all, is counted over all registries.
    state = read_state(spark, head, None if policy.prune or not head.tables else concerned_registries(stage, gone))
    return Baseline(head, committed_at, policy, log, existing_documents, gone, disputes, state, staged)


def _disputes_of(existing_documents: DataFrame, gone: DataFrame) -> DataFrame | None:
    if is_known_empty(existing_documents.filter(F.size("facts.disputes") > 0)):
        return None
    disputes = materialize(existing_disputes(existing_documents, gone))
    return None if is_empty(disputes) else disputes


def with_rejected(baseline: Baseline, stage: DataFrame) -> Baseline:
    """Return the baseline where documents that the rules between entities rejected whole stay in their former registry.

    Args:
        baseline: as it was before that.
        stage: columns `schema.STAGE`, with what was rejected.
    """
    if is_empty(baseline.gone):
        return baseline
    is_rejected = (F.col("row") == "document") & (F.get_json_object("facts", "$.status") == "rejected")
    rejected = stage.filter(is_rejected).select("xid").distinct()
    gone = materialize(baseline.gone.join(rejected, on="xid", how="left_anti").select("registryid", "xid"))
    return replace(baseline, gone=gone, disputes=_disputes_of(baseline.existing_documents, gone))


def find_gone(
    existing_documents: DataFrame, stage: DataFrame, policy: Policy, scopes: list[str], listed_at: int | None = None
) -> DataFrame:
    """Find the documents that are not where they were.

    Args:
        existing_documents: as from `current_documents`.
        stage: columns `schema.STAGE`, as the documents were read.
        policy: what the ingest may do.
        scopes: as of `sources.Sources`: with `prune`, a known document in them that is no longer there dropped everything.
        listed_at: snapshot before the sources were listed: what was loaded since may have come since. None: the head.

    Returns:
        registryid, xid (the document's URI).
    """
    gone = find_moved(existing_documents, stage)
    if policy.prune and scopes:
        before = existing_documents if listed_at is None else existing_documents.filter(F.col("snapshot_id") <= listed_at)
        gone = gone.unionByName(find_vanished(before, stage, scopes)).distinct()
    return materialize(gone)


def concerned_registries(*rows: DataFrame) -> list[str] | None:
    """Return the registries of rows; None if there are many."""
    named = reduce(DataFrame.unionByName, [frame.select("registryid") for frame in rows]).filter(F.col("registryid").isNotNull())
    results = sorted(row["registryid"] for row in named.distinct().limit(_FEW_REGISTRIES + 1).collect())
    return results if len(results) <= _FEW_REGISTRIES else None


def of_registries(rows: DataFrame, registries: list[str] | None) -> DataFrame:
    """Keep rows of some registries; None: of all. By their names, Delta skips files."""
    return rows if registries is None else rows.filter(F.col("registryid").isin(registries))


def of_snapshots(log: DataFrame, stored: DataFrame) -> DataFrame:
    """Keep the rows of the log of the snapshots that entities are stored in, where those are few: of others no file is read.

    Args:
        log: rows of `changes`.
        stored: column stored_in.
    """
    named = [row["stored_in"] for row in stored.select("stored_in").distinct().limit(_FEW_SNAPSHOTS + 1).collect()]
    return log.filter(F.col("snapshot_id").isin(named)) if len(named) <= _FEW_SNAPSHOTS else log


def read_state(spark: SparkSession, head: Head, registries: list[str] | None = None) -> DataFrame:
    """Read the current state of all entities from their tables; of some registries where they are named.

    Returns:
        One row per entity: KEY, content_hash, epoch, createdat, modifiedat, document_uris, snapshot_id; isdefault of a
        Version, defaultversionid of a message or schema.
    """
    columns = ["content_hash", *STATE]
    used = tables_in_use(head)
    if not used:
        more = [StructField(name, kind) for name, kind in OPTIONAL.items()]
        return no_rows(spark, StructType([*(CHANGES[name] for name in (*KEY, *columns)), *more]))
    parts = [
        of_registries(open_table(spark, table.name), registries).select(
            "registryid", F.lit(table.kind).alias("kind"), "xid", *columns, *optional_columns(table)
        )
        for table in used
    ]
    return reduce(DataFrame.unionByName, parts)


def optional_columns(table: Table) -> list[Column]:
    """Return the columns `OPTIONAL` of an entity table, NULL where it has none."""
    return [
        (F.col(name) if name in table.columns.names else F.lit(None).cast(kind)).alias(name) for name, kind in OPTIONAL.items()
    ]


def tables_in_use(head: Head) -> list[Table]:
    """Return the entity tables that have rows."""
    return [table for table in ENTITY_TABLES if table.name in head.tables]


def find_vanished(existing_documents: DataFrame, stage: DataFrame, scopes: list[str]) -> DataFrame:
    """Find documents that the sources cover, that are known, and that are not there any more.

    Returns:
        registryid, xid (the document's URI).
    """
    covered = reduce(Column.__or__, [F.col("xid").rlike(scope) for scope in scopes])
    seen = stage.filter(F.col("row") == "document").select("xid").distinct()
    return (
        existing_documents.filter(covered)
        .select("registryid", "xid")
        .join(seen, on="xid", how="left_anti")
        .select("registryid", "xid")
    )


def find_overtaken(existing_documents: DataFrame, stage: DataFrame, listed_at: int) -> list[str]:
    """Find documents that another ingest loaded otherwise after they were listed: which of both is newer nobody knows.

    Args:
        existing_documents: as from `current_documents`.
        stage: columns `schema.STAGE`, as the documents were read.
        listed_at: snapshot before the sources were listed.

    Returns:
        Their URIs, sorted.
    """
    details = [F.get_json_object("facts", f"$.{name}").alias(f"_{name}") for name in ("status", "sha256", "own_registry")]
    read = stage.filter(F.col("row") == "document").select("xid", F.col("registryid").alias("_registryid"), *details)
    since = existing_documents.filter(F.col("snapshot_id") > listed_at).join(read.filter("_status <> 'unchanged'"), on="xid")
    is_same_place = (F.col("registryid") == F.col("_registryid")) | (
        F.col("facts.own_registry") & (F.col("_own_registry") == "true")
    )
    changed_since = since.filter(is_same_place & ~F.col("facts.sha256").eqNullSafe(F.col("_sha256")))
    return sorted(row["xid"] for row in changed_since.select("xid").distinct().collect())


def find_moved(existing_documents: DataFrame, stage: DataFrame) -> DataFrame:
    """Find documents that say their registry themselves, and say another one than at an earlier load.

    Returns:
        registryid (that they have left), xid (the document's URI).
    """
    details = [F.get_json_object("facts", f"$.{name}").alias(name) for name in ("status", "own_registry")]
    read = stage.filter(F.col("row") == "document").select("xid", F.col("registryid").alias("_now"), *details)
    read = read.filter(F.col("status").isin("loaded", "skipped") & (F.col("own_registry") == "true")).select("xid", "_now")
    before = existing_documents.filter("facts.own_registry").select("registryid", "xid")
    return before.join(read, on="xid").filter(F.col("registryid") != F.col("_now")).select("registryid", "xid")


def current_documents(changes: DataFrame) -> DataFrame:
    """Return the facts of each document from its last load.

    Returns:
        One row per (registryid, document): registryid, xid (the document's URI), snapshot_id, facts (struct DOCUMENT_BODY).
    """
    rows = changes.filter(F.col("kind") == "document")
    latest = rows.groupBy("registryid", "xid").agg(F.max(F.struct("snapshot_id", "op", "body")).alias("last"))
    facts = F.from_json("last.body", DOCUMENT_BODY)
    return latest.filter(F.col("last.op") != "delete").select(
        "registryid",
        "xid",
        F.col("last.snapshot_id").alias("snapshot_id"),
        facts.alias("facts"),
    )


def find_refused(spark: SparkSession, documents: list[str]) -> list[str]:
    """Find documents of which something was refused at their last load; their URIs."""
    last_facts = current_documents(open_table(spark, "changes").filter(F.col("xid").isin(documents)))
    is_refused = (F.col("facts.status") == "rejected") | (F.coalesce(F.size("facts.quarantined"), F.lit(0)) > 0)
    return sorted(row["xid"] for row in last_facts.filter(is_refused).select("xid").distinct().collect())


def document_facts(stage: DataFrame, findings: DataFrame) -> DataFrame:
    """Complete the facts of parsed documents with what was found after parsing.

    Args:
        stage: columns `schema.STAGE`.
        findings: as from `find_refusals`, and of the rules between entities.

    Returns:
        One row per document that was read: registryid, xid (its URI), facts (struct DOCUMENT_BODY).
    """
    table = F.create_map(*(F.lit(part) for kind, table in TABLE_OF_KIND.items() for part in (kind, table.name)))[F.col("kind")]
    is_refused = (F.col("finding.action") == "quarantined") & table.isNotNull()  # a document refused whole is in no table
    refused = F.when(is_refused, F.struct(table.alias("table"), "xid"))
    result = findings.groupBy("registryid", F.col("document_uri").alias("xid")).agg(
        F.collect_set("finding.violation_id").alias("ids"), F.collect_set(refused).alias("refused")
    )
    result = result.withColumn("refused", F.transform("refused", lambda refusal: refusal["table"]))
    facts = stage.filter(F.col("row") == "document").select(
        "registryid", "xid", F.from_json("facts", DOCUMENT_BODY).alias("facts")
    )
    ids = F.array_sort(F.array_union(F.coalesce("facts.findings", no_uris()), F.coalesce("ids", no_uris())))
    complete = (
        F.col("facts")
        .withField("findings", F.when(F.size(ids) > 0, ids))
        .withField("entities", _counted_on(F.col("facts.entities"), F.col("refused"), -1))
        .withField("quarantined", _counted_on(F.col("facts.quarantined"), F.col("refused"), 1))
    )
    return (
        facts.filter(F.col("facts.status") != "unchanged")
        .join(result, on=["registryid", "xid"], how="left")
        .select("registryid", "xid", complete.alias("facts"))
    )


def with_document_op(facts: DataFrame, existing_documents: DataFrame, gone: DataFrame, disputes: DataFrame | None) -> DataFrame:
    """Keep the documents whose facts differ from those of their last load, and those that are gone.

    What a rejected document said before remains valid, so it stays of the dialect in which it said that.

    Args:
        facts: as from `document_facts`.
        existing_documents: as from `current_documents`.
        gone: registryid, xid of documents that are not where they were.
        disputes: as from `owners.by_document`; those of documents that were not read are added to what is known of them.

    Returns:
        Rows of `changes` without snapshot_id, raw and attributes.
    """
    before = existing_documents.select("registryid", "xid", F.col("facts").alias("_facts"))
    op = F.when(F.col("_facts").isNull(), "insert").otherwise("update")
    dialect = F.coalesce("facts.dialect", F.when(F.col("facts.status") == "rejected", F.col("_facts.dialect")))
    body = as_json(F.col("facts").withField("dialect", dialect))
    written = facts.join(before, on=["registryid", "xid"], how="left").withColumn("body", body)
    differs = written.filter(F.col("_facts").isNull() | (F.col("body") != as_json(F.col("_facts"))))
    differs = differs.select("registryid", "xid", op.alias("op"), "body")
    left = gone.select("registryid", "xid", F.lit("delete").alias("op"), F.lit(None).cast("string").alias("body"))
    every = differs.unionByName(left)
    if disputes is not None:
        unread = disputes.join(facts.select("registryid", "xid"), on=["registryid", "xid"], how="left_anti")
        unread = unread.join(gone, on=["registryid", "xid"], how="left_anti")
        added = unread.join(existing_documents.select("registryid", "xid", "facts"), on=["registryid", "xid"])
        body = as_json(added_to(*(F.col(name) for name in ("registryid", "xid", "facts", "disputes", "settled"))))
        # Rows, and not what they are made of: Spark fails on what it infers for a union of such joins.
        every = every.unionByName(materialize(added.select("registryid", "xid", F.lit("update").alias("op"), body.alias("body"))))
    empty = {name: F.lit(None).cast(CHANGES[name].dataType) for name in LOGGED if name not in (*KEY, "op")}
    return every.withColumn("kind", F.lit("document")).withColumns(empty).select(*LOGGED, "body")


def as_json(facts: Column) -> Column:
    """Write the facts of a document, its maps sorted: Spark gives their entries in the order in which it happens to hold them."""
    maps = [field.name for field in DOCUMENT_BODY if isinstance(field.dataType, MapType)]
    details = {name: F.map_from_entries(F.array_sort(F.map_entries(facts[name]))) for name in maps}
    return F.to_json(reduce(lambda so_far, name: so_far.withField(name, details[name]), maps, facts))


def _counted_on(counts: Column, tables: Column, sign: int) -> Column:
    """Add to a map of counts by table, or take away, one for each table named."""
    more = F.map_from_entries(
        F.transform(
            F.array_distinct(F.coalesce(tables, no_uris())),
            lambda table: F.struct(table.alias("table"), F.size(F.filter(tables, lambda other: other == table)).alias("n")),
        )
    )
    none = F.create_map().cast("map<string,int>")
    summed = F.map_zip_with(
        F.coalesce(counts, none), more, lambda _, before, n: F.coalesce(before, F.lit(0)) + sign * F.coalesce(n, F.lit(0))
    )
    nonzero = F.map_filter(summed, lambda _, n: n != 0)
    return F.when(F.size(nonzero) > 0, nonzero)
