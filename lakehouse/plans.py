"""What a stage changes against the current state of the catalog, told without reading a text twice.

Everything here is narrow: keys, hashes, dates, owners. The texts stay in the stage until `changes.commit` appends them.
Decisions 3 to 9 of docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.documents import current_documents
from lakehouse.errors import PruneRefused
from lakehouse.findings import CONFLICT
from lakehouse.model import CHANGES, DOCUMENT_BODY, ENTITY_TABLES, TABLE_OF_KIND
from lakehouse.refusals import KEY, find_refusals, no_uris
from lakehouse.siblings import is_interpreted
from lakehouse.staleness import is_suspect, without_stale
from lakehouse.tables import open_table

LOGGED = [*KEY, "op", "content_hash", "epoch", "createdat", "modifiedat", "document_uris"]
_LIFE = ("epoch", "createdat", "modifiedat")


@dataclass(frozen=True)
class Policy:
    """What an ingest may do.

    Attributes:
        force: read unchanged documents again, take stale entities, prune more than half.
        prune: delete what its last document dropped.
        on_conflict: 'update' lets a later document take an entity over; 'refuse' does not.
    """

    force: bool = False
    prune: bool = False
    on_conflict: str = "update"


@dataclass(frozen=True)
class Head:
    """The newest snapshot; number 0 before the first.

    Attributes:
        tables: for each entity table the snapshot that changed it last.
        deletions: how many rows of the log are deletions.
    """

    snapshot_id: int = 0
    committed_at: datetime = datetime(1970, 1, 1, tzinfo=timezone.utc)
    digest: str = ""
    tables: dict[str, int] = field(default_factory=dict)
    deletions: int = 0


@dataclass
class Plan:
    """What a stage changes against a head.

    Attributes:
        head: the snapshot that it was planned against.
        committed_at: time of the snapshot to come; never before the head's.
        known: as from `current_documents`, before the commit.
        compared: as from `with_verdict`.
        findings: of entities that were refused or taken over; as from `find_refusals`.
        facts: as from `document_facts`.
        documents: facts of documents that changed, columns of `changes` without snapshot_id.
        counts: rows of `compared` by table and op; `unchanged` and `refused` too.
        document_rows: rows of `documents`.
        digest: of all rows, whatever their order.
        whole_stage: all entities of the stage are new, and each stands in one document.
    """

    head: Head
    committed_at: datetime
    known: DataFrame
    compared: DataFrame
    findings: DataFrame
    facts: DataFrame
    documents: DataFrame
    counts: dict[str, dict[str, int]]
    document_rows: int
    digest: str
    whole_stage: bool

    @property
    def entities(self) -> DataFrame:
        """Give the changed entities: `compared` without those that stay as they are."""
        return self.compared.filter(F.col("op").isNotNull())

    @property
    def changed(self) -> dict[str, int]:
        """Give the changed rows by table."""
        return {
            table: sum(n for op, n in ops.items() if op not in ("unchanged", "refused")) for table, ops in self.counts.items()
        }

    @property
    def is_empty(self) -> bool:
        """Tell that nothing would be committed."""
        return self.document_rows == 0 and not any(self.changed.values())


def plan_changes(
    spark: SparkSession, head: Head, stage: DataFrame, policy: Policy, roots: list[str], checked: DataFrame | None = None
) -> Plan:
    """Compare a stage with the current state.

    Args:
        spark: the session.
        head: snapshot that the entity tables stand at.
        stage: columns `model.STAGE`.
        policy: what the ingest may do.
        roots: URIs of the sources: with `prune`, a known document below them that is no longer there dropped everything.
        checked: findings that the facts of documents do not count yet: of the rules between entities, and of numbered Versions.

    Raises:
        PruneRefused: pruning would delete more than half of the registries' entities.
    """
    changes = open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id)
    # Checkpointed and not cached: a cached frame is planned anew whenever a table that it reads is written.
    known = current_documents(changes).localCheckpoint()
    vanished = find_vanished(known, stage, roots) if policy.prune else known.select("registryid", "xid").limit(0)
    committed_at = max(datetime.now(timezone.utc), head.committed_at + timedelta(microseconds=1))
    state = read_state(spark, head)
    told = stage.filter(F.col("row") == "finding")
    if checked is not None:
        told = told.select(*checked.columns).unionByName(checked)
    dropped = find_dropped(state, stage, vanished, known, told)
    if policy.prune:  # what lost its last owner in an ingest without --prune
        ownerless = state.filter(F.size("document_uris") == 0)
        dropped = dropped.unionByName(ownerless.select(*KEY, F.col("document_uris").alias("dropped")))
    deleted = changes.filter((F.col("op") == "delete") & (F.col("kind") != "document")) if head.deletions else changes.limit(0)
    compared = with_verdict(one_per_entity(stage), dropped, state, deleted, policy, F.lit(committed_at)).localCheckpoint()
    count = _count(compared)
    if count.suspects and not policy.force:
        compared = without_stale(compared, changes).localCheckpoint()
        count = _count(compared)
    findings = find_refusals(compared, stage)
    if not count.told:
        findings = findings.limit(0)
    facts = document_facts(stage, findings if checked is None else findings.unionByName(checked)).localCheckpoint()
    documents = with_document_op(facts, known, vanished).localCheckpoint()
    if policy.prune and not policy.force:
        _guard_prune(count.by_table, state, compared)
    total = documents.agg(F.count("*").alias("n"), F.coalesce(_digest("body"), F.lit(0)).alias("digest")).collect()[0]
    digest = f"{(count.digest ^ total['digest']) & (2**64 - 1):016x}"
    whole_stage = count.all_single_inserts and not head.deletions
    return Plan(head, committed_at, known, compared, findings, facts, documents, count.by_table, total["n"], digest, whole_stage)


def read_state(spark: SparkSession, head: Head) -> DataFrame:
    """Read the current state of all entities from their tables.

    Returns:
        One row per entity: KEY, content_hash, epoch, createdat, modifiedat, document_uris, snapshot_id.
    """
    columns = ["content_hash", *_LIFE, "document_uris", "snapshot_id"]
    used = [table for table in ENTITY_TABLES if table.name in head.tables]
    if not used:
        return spark.createDataFrame([], StructType([CHANGES[name] for name in (*KEY, *columns)]))
    parts = [
        open_table(spark, table.name).select("registryid", F.lit(table.kind).alias("kind"), "xid", *columns) for table in used
    ]
    state = reduce(DataFrame.unionByName, parts)
    # It is read more than once: to look up the files of each table again takes longer than to keep a few rows.
    return state.coalesce(1).localCheckpoint() if is_interpreted(spark) else state


def one_per_entity(stage: DataFrame) -> DataFrame:
    """Choose for each entity the document whose text is taken: the first by URI.

    Args:
        stage: columns `model.STAGE`.

    Returns:
        One row per entity: KEY, document_uri, content_hash, epoch, createdat, modifiedat as declared there, again, owners
        (all documents with the same content, sorted), losers (documents with another content), hashes (of all documents:
        document_uri, content_hash). Of a registry's root all documents are owners, whatever they say (decision 3).
    """
    facts = ["document_uri", "content_hash", *_LIFE, "again"]
    every = (
        stage.filter(F.col("row") == "entity").groupBy(*KEY).agg(F.sort_array(F.collect_list(F.struct(*facts))).alias("every"))
    )
    first = F.col("every")[0]
    is_root = F.col("kind") == "registry"
    same = F.filter("every", lambda one: (one["content_hash"] == first["content_hash"]) | is_root)
    other = F.filter("every", lambda one: one["content_hash"] != first["content_hash"])
    owners, losers = (F.transform(part, lambda one: one["document_uri"]) for part in (same, other))
    return every.select(
        *KEY,
        *(first[name].alias(name) for name in facts),
        owners.alias("owners"),
        losers.alias("losers"),
        F.col("every").alias("hashes"),
    )


def find_vanished(known: DataFrame, stage: DataFrame, roots: list[str]) -> DataFrame:
    """Find documents that stood below the sources at their last load and stand there no more.

    Returns:
        registryid, xid (the document's URI).
    """
    below = reduce(Column.__or__, [F.col("xid").startswith(root.rstrip("/") + "/") | (F.col("xid") == root) for root in roots])
    seen = stage.filter(F.col("row") == "document").select("xid").distinct()
    return known.filter(below).select("registryid", "xid").join(seen, on="xid", how="left_anti")


def find_dropped(state: DataFrame, stage: DataFrame, vanished: DataFrame, known: DataFrame, told: DataFrame) -> DataFrame:
    """Find entities that a document held at its last load and holds no more.

    A document that was rejected dropped nothing, nor did one drop what was refused in it, or what stands below that.

    Returns:
        One row per entity: KEY, dropped (the documents, sorted).
    """
    documents = stage.filter((F.col("row") == "document") & F.get_json_object("facts", "$.status").isin("loaded", "skipped"))
    read_before = documents.select("registryid", "xid").join(known.select("registryid", "xid"), on=["registryid", "xid"])
    gone = read_before.unionByName(vanished).withColumnRenamed("xid", "document_uri")
    if not gone.take(1):  # all documents are new
        return state.limit(0).select(*KEY, F.col("document_uris").alias("dropped"))
    held = state.select(*KEY, F.explode("document_uris").alias("document_uri"))
    held = held.join(F.broadcast(gone), on=["registryid", "document_uri"], how="left_semi")
    holds = stage.filter(F.col("row") == "entity").select(*KEY, "document_uri")
    refused = told.filter((F.col("finding.action") == "quarantined") & F.col("xid").isNotNull())
    shield = refused.select(
        F.col("registryid").alias("_registry"), F.col("document_uri").alias("_document"), F.col("xid").alias("_xid")
    ).distinct()
    shielded = (
        (F.col("registryid") == F.col("_registry"))
        & (F.col("document_uri") == F.col("_document"))
        & ((F.col("xid") == F.col("_xid")) | F.col("xid").startswith(F.concat("_xid", F.lit("/"))))
    )
    dropped = held.join(holds, on=[*KEY, "document_uri"], how="left_anti").join(shield, on=shielded, how="left_anti")
    return dropped.groupBy(*KEY).agg(F.array_sort(F.collect_set("document_uri")).alias("dropped"))


def with_verdict(
    chosen: DataFrame, dropped: DataFrame, state: DataFrame, deleted: DataFrame, policy: Policy, now: Column
) -> DataFrame:
    """Tell of each staged or dropped entity what happens to it (decisions 3, 4, 8 and 9).

    Args:
        chosen: as from `one_per_entity`.
        dropped: as from `find_dropped`.
        state: as from `read_state`.
        deleted: rows of the log with op delete.
        policy: what the ingest may do.
        now: time of the snapshot to come.

    Returns:
        One row per entity: KEY; op (insert, update, own, delete; NULL: nothing); refused (NULL, or why: conflict); taken_from
        (document that defined it before, when another takes it over or fails to); document_uri (the one whose text is taken;
        NULL for own and delete); content_hash, epoch, createdat, modifiedat and document_uris after the change; stored_in
        (snapshot of the stored row); owners, losers, source_uri; and what was declared and stored before. A declared epoch or
        date is stored as declared; where none is, an update counts the epoch and sets modifiedat.
    """
    stored = state.select(*KEY, *(F.col(name).alias(f"stored_{name}") for name in state.columns if name not in KEY))
    before = deleted.groupBy(*KEY).agg(F.max("epoch").alias("deleted_epoch"))
    both = chosen.join(dropped, on=KEY, how="full").join(stored, on=KEY, how="left").join(before, on=KEY, how="left")
    dates = {"createdat": F.coalesce("createdat", "stored_createdat", now), "modifiedat": F.coalesce("modifiedat", now)}
    # Step by step, so that no expression is copied into those that build on it: Spark would plan each copy.
    return (
        both.transform(_with_relation)
        .transform(_with_outcome, policy)
        .select(
            *KEY,
            "op",
            F.when(F.col("is_conflict"), CONFLICT).alias("refused"),
            F.when(F.col("is_foreign") | F.col("keeps_root"), F.get("kept", F.lit(0))).alias("taken_from"),
            F.col("document_uri").alias("source_uri"),
            F.when(F.col("writes"), F.col("document_uri")).alias("document_uri"),
            F.when(F.col("writes"), F.col("content_hash")).otherwise(F.col("stored_content_hash")).alias("content_hash"),
            F.when(F.col("writes"), F.coalesce("epoch", "counted")).otherwise(F.col("stored_epoch")).alias("epoch"),
            *(F.when(F.col("writes"), after).otherwise(F.col(f"stored_{name}")).alias(name) for name, after in dates.items()),
            F.col("owners_after").alias("document_uris"),
            F.col("stored_snapshot_id").alias("stored_in"),
            F.coalesce("owners", no_uris()).alias("owners"),
            F.coalesce("losers", no_uris()).alias("losers"),
            F.col("epoch").alias("declared_epoch"),
            F.col("modifiedat").alias("declared_modifiedat"),
            *(f"stored_{name}" for name in ("content_hash", *_LIFE, "document_uris")),
        )
    )


def _with_relation(both: DataFrame) -> DataFrame:
    """Tell how what is staged relates to what is stored."""
    is_staged, is_new, is_root = F.col("is_staged"), F.col("is_new"), F.col("is_root")
    redated = [F.col(name).isNotNull() & ~F.col(name).eqNullSafe(F.col(f"stored_{name}")) for name in _LIFE]
    first_kept = F.get("kept", F.lit(0))
    first = {
        "is_staged": F.col("document_uri").isNotNull(),
        "is_new": F.col("stored_content_hash").isNull(),
        "is_root": F.col("kind") == "registry",
        "kept": F.array_except(F.coalesce("stored_document_uris", no_uris()), F.coalesce("dropped", no_uris())),
    }
    second = {
        "differs": is_staged & ~is_new & (F.col("content_hash") != F.col("stored_content_hash")),
        "redated": is_staged & ~is_new & reduce(Column.__or__, redated),
        # The root of a registry comes from the first of all its documents, also from those of earlier ingests.
        "keeps_root": is_staged & is_root & F.coalesce(first_kept < F.col("document_uri"), F.lit(False)),
    }
    root_hash = F.when(F.col("keeps_root"), F.col("stored_content_hash")).otherwise(F.col("content_hash"))
    other_roots = F.transform(F.filter("hashes", lambda one: one["content_hash"] != root_hash), lambda one: one["document_uri"])
    none_left = ~F.arrays_overlap("owners", "stored_document_uris") & (F.size("kept") > 0)
    third = {
        "is_foreign": F.coalesce(F.col("differs") & ~is_root & none_left, F.lit(False)),
        "losers": F.when(is_root, other_roots).otherwise(F.col("losers")),
    }
    return both.withColumns(first).withColumns(second).withColumns(third)


def _with_outcome(related: DataFrame, policy: Policy) -> DataFrame:
    """Tell what happens to each entity, and who owns it then."""
    is_staged, is_new, changed = F.col("is_staged"), F.col("is_new"), F.col("changed")
    is_conflict = F.col("is_foreign") & (F.col("again") | F.lit(policy.on_conflict == "refuse"))
    owners = (
        F.when(~is_staged | F.col("is_conflict"), F.col("kept"))
        .when(changed & F.col("differs") & ~F.col("is_root"), F.col("owners"))
        .otherwise(F.array_union("kept", "owners"))
    )
    op = (
        F.when(is_new & is_staged, "insert")
        .when(changed, "update")
        .when(~is_staged & (F.size("owners_after") == 0) & F.lit(policy.prune), "delete")
        .when(~is_new & (F.col("owners_after") != F.col("stored_document_uris")), "own")
    )
    counted = F.when(is_new, F.coalesce(F.col("deleted_epoch") + 1, F.lit(1))).otherwise(F.col("stored_epoch") + 1)
    changes = (F.col("differs") | F.col("redated")) & ~F.col("keeps_root") & ~F.col("is_conflict")
    return (
        related.withColumn("is_conflict", is_conflict)
        .withColumn("changed", F.coalesce(changes, F.lit(False)))
        .withColumn("owners_after", F.array_sort(owners))
        .withColumns({"op": op, "counted": counted})
        .withColumn("writes", F.col("op").isin("insert", "update"))
    )


def document_facts(stage: DataFrame, findings: DataFrame) -> DataFrame:
    """Complete the facts of parsed documents with what was found after parsing.

    Args:
        stage: columns `model.STAGE`.
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


def with_document_op(facts: DataFrame, known: DataFrame, vanished: DataFrame) -> DataFrame:
    """Keep the documents whose facts differ from those of their last load, and those that vanished.

    Args:
        facts: as from `document_facts`.
        known: as from `current_documents`.
        vanished: as from `find_vanished`.

    Returns:
        Rows of `changes` without snapshot_id, raw and attributes.
    """
    before = known.select("registryid", "xid", F.col("body").alias("_body"))
    op = F.when(F.col("_body").isNull(), "insert").otherwise("update")
    written = facts.select("registryid", "xid", F.to_json("facts").alias("body")).join(
        before, on=["registryid", "xid"], how="left"
    )
    differs = written.filter(~F.col("body").eqNullSafe(F.col("_body"))).select("registryid", "xid", op.alias("op"), "body")
    gone = vanished.select("registryid", "xid", F.lit("delete").alias("op"), F.lit(None).cast("string").alias("body"))
    every = differs.unionByName(gone)
    empty = {name: F.lit(None).cast(CHANGES[name].dataType) for name in LOGGED if name not in (*KEY, "op")}
    return every.withColumn("kind", F.lit("document")).withColumns(empty).select(*LOGGED, "body")


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


class _Count(NamedTuple):
    """Totals of a comparison.

    by_table: rows by table and outcome; digest: of the changed rows; all_single_inserts: all are new, each in one document;
    suspects: updates that may be stale; told: rows that findings are about.
    """

    by_table: dict[str, dict[str, int]]
    digest: int
    all_single_inserts: bool
    suspects: int
    told: int


def _count(compared: DataFrame) -> _Count:
    outcome = F.coalesce("op", F.when(F.col("refused").isNotNull(), "refused"), F.lit("unchanged"))
    has_many = (F.size("owners") > 1) | (F.size("losers") > 0)
    is_told = F.col("refused").isNotNull() | F.col("taken_from").isNotNull() | (F.size("losers") > 0)
    folded = compared.groupBy("kind", outcome.alias("outcome")).agg(
        F.count("*").alias("n"),
        F.max(has_many).alias("many"),
        F.count_if(is_suspect()).alias("suspects"),
        F.count_if(is_told).alias("told"),
        _digest(),
    )
    totals = folded.collect()
    by_table: dict[str, dict[str, int]] = {table.name: {} for table in ENTITY_TABLES}
    for total in totals:
        by_table[TABLE_OF_KIND[total["kind"]].name][total["outcome"]] = total["n"]
    written = [total["digest"] for total in totals if total["outcome"] not in ("unchanged", "refused")]
    return _Count(
        by_table,
        reduce(lambda one, other: one ^ other, written, 0),
        all(total["outcome"] == "insert" and not total["many"] for total in totals),
        sum(total["suspects"] for total in totals),
        sum(total["told"] for total in totals),
    )


def _guard_prune(counts: dict[str, dict[str, int]], state: DataFrame, compared: DataFrame) -> None:
    """Refuse to delete over half of the entities of the registries concerned (decision 4)."""
    deleted = sum(ops.get("delete", 0) for ops in counts.values())
    if not deleted:
        return
    concerned = compared.filter(F.col("op") == "delete").select("registryid").distinct()
    held = state.join(F.broadcast(concerned), on="registryid", how="left_semi").count()
    if deleted * 2 > held:
        raise PruneRefused(deleted, held)


def _digest(*also: str) -> Column:
    """Fold the rows of a group into one number, whatever their order: a lost or altered row changes it."""
    return F.bit_xor(F.xxhash64(*LOGGED, *also)).alias("digest")
