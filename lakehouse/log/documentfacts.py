"""What is known of each document: the facts of its last load, in the log."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType

from lakehouse.log.head import LOGGED
from lakehouse.log.ownership.disputes import added_to
from lakehouse.store.deltatables import open_table
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import materialize
from lakehouse.store.schema import CHANGES, DOCUMENT_BODY, TABLE_OF_KIND
from lakehouse.store.xids import no_uris


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
    known = current_documents(open_table(spark, "changes").filter(F.col("xid").isin(documents)))
    is_refused = (F.col("facts.status") == "rejected") | (F.coalesce(F.size("facts.quarantined"), F.lit(0)) > 0)
    return sorted(row["xid"] for row in known.filter(is_refused).select("xid").distinct().collect())


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
    found = findings.groupBy("registryid", F.col("document_uri").alias("xid")).agg(
        F.collect_set("finding.violation_id").alias("ids"), F.collect_set(refused).alias("refused")
    )
    found = found.withColumn("refused", F.transform("refused", lambda one: one["table"]))
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
        .join(found, on=["registryid", "xid"], how="left")
        .select("registryid", "xid", complete.alias("facts"))
    )


def with_document_op(facts: DataFrame, known: DataFrame, gone: DataFrame, disputes: DataFrame | None) -> DataFrame:
    """Keep the documents whose facts differ from those of their last load, and those that are gone.

    What a rejected document said before remains valid, so it stays of the dialect in which it said that.

    Args:
        facts: as from `document_facts`.
        known: as from `current_documents`.
        gone: registryid, xid of documents that are not where they were.
        disputes: as from `disputes.by_document`; those of documents that were not read are added to what is known of them.

    Returns:
        Rows of `changes` without snapshot_id, raw and attributes.
    """
    before = known.select("registryid", "xid", F.col("facts").alias("_facts"))
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
        added = unread.join(known.select("registryid", "xid", "facts"), on=["registryid", "xid"])
        body = as_json(added_to(*(F.col(name) for name in ("registryid", "xid", "facts", "disputes", "settled"))))
        # Rows, and not what they are made of: Spark fails on what it infers for a union of such joins.
        every = every.unionByName(materialize(added.select("registryid", "xid", F.lit("update").alias("op"), body.alias("body"))))
    empty = {name: F.lit(None).cast(CHANGES[name].dataType) for name in LOGGED if name not in (*KEY, "op")}
    return every.withColumn("kind", F.lit("document")).withColumns(empty).select(*LOGGED, "body")


def as_json(facts: Column) -> Column:
    """Write the facts of a document, its maps sorted: Spark gives their entries in the order in which it happens to hold them."""
    maps = [field.name for field in DOCUMENT_BODY if isinstance(field.dataType, MapType)]
    told = {name: F.map_from_entries(F.array_sort(F.map_entries(facts[name]))) for name in maps}
    return F.to_json(reduce(lambda so_far, name: so_far.withField(name, told[name]), maps, facts))


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
    kept = F.map_filter(summed, lambda _, n: n != 0)
    return F.when(F.size(kept) > 0, kept)
