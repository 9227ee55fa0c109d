"""What a stage changes against the current state of the catalog, told without reading a text twice.

Everything here is narrow: keys, hashes, dates. The texts stay in the stage until `changes.commit` appends them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.documents import current_documents
from lakehouse.findings import CONFLICT
from lakehouse.model import CHANGES, DOCUMENT_BODY, ENTITY_TABLES, TABLE_OF_KIND
from lakehouse.tables import table_name

KEY = ["registryid", "kind", "xid"]
LOGGED = ["registryid", "kind", "xid", "op", "content_hash", "epoch", "createdat", "modifiedat", "document_uris"]


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


@dataclass
class Plan:
    """What a stage changes against a head.

    Attributes:
        head: the snapshot that it was planned against.
        committed_at: time of the snapshot to come; never before the head's.
        compared: staged entities without their text: KEY, op, epoch, createdat, modifiedat, document_uris, document_uri (the
            one whose text is taken; NULL for op own), content_hash, stored_in (snapshot of the row that op own repeats).
        documents: facts of documents that changed, columns of `changes` without snapshot_id.
        conflicts: entities of a document that another document of the same stage defines otherwise.
        counts: rows of `entities` by table and op; `unchanged` too.
        whole_stage: all entities of the stage are new and stand in one document each.
    """

    head: Head
    committed_at: datetime
    compared: DataFrame
    documents: DataFrame
    counts: dict[str, dict[str, int]]
    document_rows: int
    digest: str
    whole_stage: bool

    @property
    def entities(self) -> DataFrame:
        """Give the changed entities: `compared` without those that stay as they are."""
        return self.compared.filter(F.col("op").isNotNull())

    def release(self) -> None:
        """Give back the memory that the plan holds."""
        self.compared.unpersist()
        self.documents.unpersist()

    @property
    def is_empty(self) -> bool:
        """Tell that nothing would be committed."""
        return self.document_rows == 0 and not any(self.changed.values())

    @property
    def changed(self) -> dict[str, int]:
        """Changed rows by table."""
        return {table: sum(n for op, n in ops.items() if op != "unchanged") for table, ops in self.counts.items()}


def read_state(spark: SparkSession) -> DataFrame:
    """Read the current state of all entities from their tables.

    Returns:
        One row per entity: KEY, content_hash, epoch, createdat, modifiedat, document_uris, snapshot_id.
    """
    columns = ["xid", "content_hash", "epoch", "createdat", "modifiedat", "document_uris", "snapshot_id"]
    parts = [
        spark.table(table_name(table.name)).select("registryid", F.lit(table.kind).alias("kind"), *columns)
        for table in ENTITY_TABLES
    ]
    return reduce(DataFrame.unionByName, parts)


def one_per_entity(stage: DataFrame) -> DataFrame:
    """Choose for each entity the document whose text is taken: the first by URI (decision 4).

    Args:
        stage: columns `model.STAGE`.

    Returns:
        One row per entity: KEY, document_uri, content_hash, epoch, createdat, modifiedat as declared there, owners (all
        documents with the same content, sorted), losers (documents with another content). Of a
        registry's root all documents are owners, whatever they say (decision 3).
    """
    facts = ["document_uri", "content_hash", "epoch", "createdat", "modifiedat"]
    every = (
        stage.filter(F.col("row") == "entity").groupBy(*KEY).agg(F.sort_array(F.collect_list(F.struct(*facts))).alias("every"))
    )
    first = F.col("every")[0]
    same = F.filter("every", lambda one: (one["content_hash"] == first["content_hash"]) | (F.col("kind") == "registry"))
    other = F.filter("every", lambda one: one["content_hash"] != first["content_hash"])
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
    is_root = F.col("kind") == "registry"
    lost = chosen.filter(F.size("losers") > 0).select(
        *KEY, F.col("document_uri").alias("winner"), F.explode("losers").alias("document_uri")
    )
    texts = stage.filter(F.col("row") == "entity").select(*KEY, "document_uri", F.coalesce("raw", "body").alias("raw"))
    message = F.concat(
        F.lit("the documents "), F.col("winner"), F.lit(" and "), F.col("document_uri"),
        F.when(is_root, " differ in the registry's own attributes").otherwise(" define this entity differently"),
        F.lit("; those of the first are taken"),
    )  # fmt: skip
    identity = F.concat_ws("\0", "registryid", "document_uri", F.lit(CONFLICT), "xid", message)
    finding = F.struct(
        F.substring(F.sha2(identity, 256), 1, 32).alias("violation_id"),
        F.lit("").alias("pointer"),
        F.lit(CONFLICT).alias("rule_id"),
        F.when(is_root, "info").otherwise("error").alias("severity"),
        F.when(is_root, "kept").otherwise("quarantined").alias("action"),
        message.alias("message"),
        F.lit("Define it in one document, or load one of them into another registry.").alias("hint"),
        F.when(~is_root, F.col("raw")).alias("raw"),
    )
    return lost.join(texts, on=[*KEY, "document_uri"], how="left").select(
        F.lit("finding").alias("row"), "document_uri", *KEY, finding.alias("finding")
    )


def plan_changes(spark: SparkSession, head: Head, chosen: DataFrame, facts: DataFrame, *, has_conflicts: bool) -> Plan:
    """Compare a stage with the current state.

    Args:
        spark: the session.
        head: snapshot that the entity tables stand at.
        chosen: as from `one_per_entity`.
        facts: as from `document_facts`.
        has_conflicts: tells that a document lost an entity to another one.
    """
    committed_at = max(datetime.now(timezone.utc), head.committed_at + timedelta(microseconds=1))
    compared = with_op(chosen, read_state(spark), F.lit(committed_at)).persist()
    totals = (
        compared.groupBy("kind", "op").agg(F.count("*").alias("n"), F.max(F.size("owners")).alias("owners"), _digest()).collect()
    )
    documents = with_document_op(facts, current_documents(spark.table(table_name("changes")))).persist()
    document_total = documents.agg(F.count("*").alias("n"), F.coalesce(_digest("body"), F.lit(0)).alias("digest")).collect()[0]
    counts: dict[str, dict[str, int]] = {table.name: {} for table in ENTITY_TABLES}
    for total in totals:
        counts[TABLE_OF_KIND[total["kind"]].name][total["op"] or "unchanged"] = total["n"]
    digest = reduce(
        lambda one, total: one ^ total["digest"], (total for total in totals if total["op"]), document_total["digest"]
    )
    return Plan(
        head=head,
        committed_at=committed_at,
        compared=compared,
        documents=documents,
        counts=counts,
        document_rows=document_total["n"],
        digest=f"{digest & (2**64 - 1):016x}",
        whole_stage=all(total["op"] == "insert" and total["owners"] == 1 for total in totals) and not has_conflicts,
    )


def with_op(chosen: DataFrame, state: DataFrame, now: Column) -> DataFrame:
    """Tell of each staged entity what happens to it (decisions 3, 8 and 9).

    Args:
        chosen: as from `one_per_entity`.
        state: as from `read_state`.
        now: time of the snapshot to come.

    Returns:
        `chosen` with op (insert, update, own; NULL: unchanged), epoch, createdat, modifiedat and document_uris after the
        change, and stored_in. A declared epoch or date is stored as declared; where none is, an update counts the epoch and
        sets modifiedat.
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
    op = F.when(is_new, F.lit("insert")).when(changed, F.lit("update")).when(owners != F.col("_document_uris"), F.lit("own"))
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
        facts: as from `document_facts`.
        known: as from `current_documents`.

    Returns:
        registryid, kind, xid, op and body of what is to be appended, with the columns that `_digest` reads.
    """
    before = known.select("registryid", "xid", F.col("body").alias("_body"))
    empty = [
        F.lit(None).cast(CHANGES[name].dataType).alias(name)
        for name in ("content_hash", "epoch", "createdat", "modifiedat", "document_uris")
    ]
    return (
        facts.select("registryid", "xid", F.to_json("facts").alias("body"))
        .join(before, on=["registryid", "xid"], how="left")
        .filter(~F.col("body").eqNullSafe(F.col("_body")))
        .select(
            "registryid",
            F.lit("document").alias("kind"),
            "xid",
            F.when(F.col("_body").isNull(), "insert").otherwise("update").alias("op"),
            *empty,
            "body",
        )
    )


def document_facts(stage: DataFrame, conflicts: DataFrame) -> DataFrame:
    """Complete the facts of parsed documents with what was found after parsing.

    Args:
        stage: columns `model.STAGE`.
        conflicts: as from `find_conflicts`.

    Returns:
        One row per document that was read: registryid, xid (its URI), facts (struct DOCUMENT_BODY).
    """
    found = conflicts.groupBy("registryid", F.col("document_uri").alias("xid")).agg(
        F.collect_set("finding.violation_id").alias("ids"),
        F.collect_list(F.when(F.col("finding.action") == "quarantined", F.col("kind"))).alias("kinds"),
    )
    names = F.create_map(*(F.lit(part) for kind, table in TABLE_OF_KIND.items() for part in (kind, table.name)))
    facts = stage.filter(F.col("row") == "document").select(
        "registryid", "xid", F.from_json("facts", DOCUMENT_BODY).alias("facts")
    )
    late = F.transform(F.col("kinds"), lambda kind: names[kind])

    def shifted(column: str, sign: int) -> Column:
        empty = F.create_map().cast("map<string,int>")
        counted = F.map_from_entries(
            F.transform(
                F.array_distinct(late),
                lambda table: F.struct(table.alias("table"), F.size(F.filter(late, lambda other: other == table)).alias("n")),
            )
        )
        summed = F.map_zip_with(
            F.coalesce(f"facts.{column}", empty),
            counted,
            lambda _, before, more: F.coalesce(before, F.lit(0)) + sign * F.coalesce(more, F.lit(0)),
        )
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
        .select("registryid", "xid", complete.alias("facts"))
    )


def _digest(*also: str) -> Column:
    """Fold the rows of a group into one number, whatever their order: a lost or altered row changes it."""
    return F.bit_xor(F.xxhash64(*LOGGED, *also)).alias("digest")
