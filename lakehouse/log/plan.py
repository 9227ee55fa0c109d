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
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from lakehouse.errors import PruneRefused
from lakehouse.log.facts import current_documents
from lakehouse.log.ownership.defaults import with_defaults
from lakehouse.log.ownership.disputes import (
    added_to,
    at_or_below,
    by_document,
    disputes_after,
    known_disputes,
    refused_in,
    standing,
)
from lakehouse.log.ownership.owners import Policy, claims_of, with_verdict
from lakehouse.log.ownership.refusals import find_refusals
from lakehouse.log.ownership.staleness import is_suspect, without_stale
from lakehouse.store.schema import CHANGES, DOCUMENT_BODY, ENTITY_TABLES, KEY, LIFE, TABLE_OF_KIND
from lakehouse.store.sessions import is_interpreted
from lakehouse.store.tables import open_table
from lakehouse.store.xids import no_uris

LOGGED = [*KEY, "op", "content_hash", "epoch", "createdat", "modifiedat", "document_uris"]


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
        compared: as from `compare`.
        findings: of entities that were refused or changed hands; as from `find_refusals`.
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


@dataclass(frozen=True)
class Ground:
    """What a stage is compared with: read once, however often the rules between entities take something out of the stage.

    Attributes:
        head: snapshot that the entity tables stand at.
        committed_at: time of the snapshot to come; never before the head's.
        policy: what the ingest may do.
        log: rows of `changes` up to the head.
        known: as from `current_documents`.
        gone: documents that are not where they were: registryid, xid.
        said: as from `disputes.known_disputes`; None: there are none.
        state: as from `read_state`.
        held: what the staged documents hold, refused by rules between entities or not: KEY, document_uri.
    """

    head: Head
    committed_at: datetime
    policy: Policy
    log: DataFrame
    known: DataFrame
    gone: DataFrame
    said: DataFrame | None
    state: DataFrame
    held: DataFrame


def read_ground(spark: SparkSession, head: Head, stage: DataFrame, policy: Policy, scopes: list[str]) -> Ground:
    """Read what a stage is compared with.

    Args:
        spark: the session.
        head: snapshot that the entity tables stand at.
        stage: columns `model.STAGE`, as the documents were read.
        policy: what the ingest may do.
        scopes: as of `documents.Sources`: with `prune`, a known document in them that is no longer there dropped everything.
    """
    log = open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id)
    # Checkpointed and not cached: a cached frame is planned anew whenever a table that it reads is written.
    known = current_documents(log).localCheckpoint()
    gone = find_moved(known, stage)
    if policy.prune and scopes:
        gone = gone.unionByName(find_vanished(known, stage, scopes)).distinct()
    gone = gone.localCheckpoint()
    committed_at = max(datetime.now(timezone.utc), head.committed_at + timedelta(microseconds=1))
    said: DataFrame | None = known_disputes(known, gone).localCheckpoint()
    if said is not None and said.isEmpty():
        said = None
    held = stage.filter(F.col("row") == "entity").select(*KEY, "document_uri")
    return Ground(head, committed_at, policy, log, known, gone, said, read_state(spark, head), held)


class Comparison(NamedTuple):
    """What happens to each entity that documents say or no longer say.

    rows: as from `ownership.with_verdict`, `without_stale` and `defaults.with_defaults`; is_all_new: every entity is new, stands
    in one document, and is published as it says.
    """

    rows: DataFrame
    is_all_new: bool


def compare(ground: Ground, stage: DataFrame, found: DataFrame) -> Comparison:
    """Tell of each entity that documents say or no longer say what happens to it.

    Args:
        ground: what the stage is compared with.
        stage: columns `model.STAGE`, without what was refused.
        found: findings beside those of the stage; columns row, document_uri, registryid, kind, xid, finding.
    """
    policy, state = ground.policy, ground.state
    told = _told(stage, found)
    dropped = find_dropped(ground, stage, told)
    protected = None
    if policy.prune:  # what lost its last owner in an ingest without --prune
        ownerless = state.filter(F.size("document_uris") == 0)
        dropped = dropped.unionByName(ownerless.select(*KEY, F.col("document_uris").alias("dropped")))
        dropped = dropped.groupBy(*KEY).agg(F.array_distinct(F.flatten(F.collect_list("dropped"))).alias("dropped"))
        protected = state.select(*KEY).join(*at_or_below(refused_in(told)), how="left_semi")
        if ground.said is not None:
            protected = protected.unionByName(standing(ground.said, stage, refused_in(told)).select(*KEY))
    log, head = ground.log, ground.head
    deleted = log.filter((F.col("op") == "delete") & (F.col("kind") != "document")) if head.deletions else log.limit(0)
    now = F.lit(ground.committed_at)
    compared = with_verdict(
        claims_of(stage), dropped, state, deleted, ground.said, policy=policy, protected=protected, now=now
    ).localCheckpoint()
    seen = _look_at(compared)
    if seen.suspects and not policy.force:
        compared = without_stale(compared, log).localCheckpoint()
    if seen.all_single_inserts:  # each document is of one mind about its own defaults
        return Comparison(compared.withColumn("flipped", F.lit(False)), True)
    return Comparison(with_defaults(compared, state, log).localCheckpoint(), False)


def _told(stage: DataFrame, found: DataFrame) -> DataFrame:
    return stage.filter(F.col("row") == "finding").select(*found.columns).unionByName(found)


def plan_changes(ground: Ground, stage: DataFrame, compared: DataFrame, found: DataFrame) -> Plan:
    """Plan what a comparison tells.

    Args:
        ground: what the stage was compared with.
        stage: columns `model.STAGE`, without what was refused.
        compared: the rows from `compare`.
        found: findings beside those of the stage; columns row, document_uri, registryid, kind, xid, finding.

    Raises:
        PruneRefused: pruning would delete more than half of the registries' entities.
    """
    count = _count(compared)
    findings = find_refusals(compared, stage)
    if not count.told:
        findings = findings.limit(0)
    facts = document_facts(stage, found.unionByName(findings))
    more = _disputes(ground, stage, compared, refused_in(_told(stage, found)).localCheckpoint(), count)
    if more is not None:
        facts = facts.join(more, on=["registryid", "xid"], how="left")
        facts = facts.select("registryid", "xid", F.col("facts").withField("disputes", F.col("disputes")).alias("facts"))
    facts = facts.localCheckpoint()
    documents = with_document_op(facts, ground.known, ground.gone, more).localCheckpoint()
    if ground.policy.prune and not ground.policy.force:
        _guard_prune(count.by_table, ground.state, compared)
    total = documents.agg(F.count("*").alias("n"), F.coalesce(_digest("body"), F.lit(0)).alias("digest")).collect()[0]
    digest = f"{(count.digest ^ total['digest']) & (2**64 - 1):016x}"
    whole_stage = count.all_single_inserts and not ground.head.deletions
    return Plan(
        ground.head,
        ground.committed_at,
        ground.known,
        compared,
        findings,
        facts,
        documents,
        count.by_table,
        total["n"],
        digest,
        whole_stage,
    )


def _disputes(ground: Ground, stage: DataFrame, compared: DataFrame, refused: DataFrame, count: _Count) -> DataFrame | None:
    """Give the disputes of documents as from `disputes.by_document`; None when there are none, and were none."""
    broken = None
    if not refused.isEmpty():
        owned = ground.state.select(*KEY, F.explode("document_uris").alias("document_uri"))
        broken = refused.join(owned, on=["document_uri", *KEY], how="left_anti").localCheckpoint()
    if not count.told and ground.said is None and broken is None:
        return None
    stands = None if ground.said is None else standing(ground.said, stage, refused).localCheckpoint()
    return by_document(disputes_after(compared, stands, broken)).localCheckpoint()


def read_state(spark: SparkSession, head: Head) -> DataFrame:
    """Read the current state of all entities from their tables.

    Returns:
        One row per entity: KEY, content_hash, epoch, createdat, modifiedat, document_uris, snapshot_id; isdefault of a
        Version, defaultversionid of a message or schema.
    """
    columns = ["content_hash", *LIFE, "document_uris", "snapshot_id"]
    optional = {"isdefault": BooleanType(), "defaultversionid": StringType()}
    used = [table for table in ENTITY_TABLES if table.name in head.tables]
    if not used:
        more = [StructField(name, kind) for name, kind in optional.items()]
        return spark.createDataFrame([], StructType([*(CHANGES[name] for name in (*KEY, *columns)), *more]))
    parts = [
        open_table(spark, table.name).select(
            "registryid",
            F.lit(table.kind).alias("kind"),
            "xid",
            *columns,
            *(
                (F.col(name) if name in table.columns.names else F.lit(None).cast(kind)).alias(name)
                for name, kind in optional.items()
            ),
        )
        for table in used
    ]
    state = reduce(DataFrame.unionByName, parts)
    # It is read more than once: to look up the files of each table again takes longer than to keep a few rows.
    return state.coalesce(1).localCheckpoint() if is_interpreted(spark) else state


def find_vanished(known: DataFrame, stage: DataFrame, scopes: list[str]) -> DataFrame:
    """Find documents that the sources cover, that are known, and that are not there any more.

    Returns:
        registryid, xid (the document's URI).
    """
    covered = reduce(Column.__or__, [F.col("xid").rlike(scope) for scope in scopes])
    seen = stage.filter(F.col("row") == "document").select("xid").distinct()
    return known.filter(covered).select("registryid", "xid").join(seen, on="xid", how="left_anti").select("registryid", "xid")


def find_moved(known: DataFrame, stage: DataFrame) -> DataFrame:
    """Find documents that say their registry themselves, and say another one than at an earlier load.

    Returns:
        registryid (that they have left), xid (the document's URI).
    """
    told = [F.get_json_object("facts", f"$.{name}").alias(name) for name in ("status", "own_registry")]
    read = stage.filter(F.col("row") == "document").select("xid", F.col("registryid").alias("_now"), *told)
    read = read.filter(F.col("status").isin("loaded", "skipped") & (F.col("own_registry") == "true")).select("xid", "_now")
    before = known.filter("facts.own_registry").select("registryid", "xid")
    return before.join(read, on="xid").filter(F.col("registryid") != F.col("_now")).select("registryid", "xid")


def find_dropped(ground: Ground, stage: DataFrame, told: DataFrame) -> DataFrame:
    """Find entities that a document held at its last load and holds no more.

    A document that was rejected dropped nothing, nor did one drop what was refused in it, or what stands below that.

    Returns:
        One row per entity: KEY, dropped (the documents, sorted).
    """
    documents = stage.filter((F.col("row") == "document") & F.get_json_object("facts", "$.status").isin("loaded", "skipped"))
    before = ground.known.select("registryid", "xid")
    gone = documents.select("registryid", "xid").join(before, on=["registryid", "xid"]).unionByName(ground.gone)
    gone = gone.withColumnRenamed("xid", "document_uri")
    if not gone.take(1):  # all documents are new
        return ground.state.limit(0).select(*KEY, F.col("document_uris").alias("dropped"))
    held = ground.state.select(*KEY, F.explode("document_uris").alias("document_uri"))
    held = held.join(F.broadcast(gone), on=["registryid", "document_uri"], how="left_semi")
    dropped = held.join(ground.held, on=[*KEY, "document_uri"], how="left_anti")
    dropped = dropped.join(*at_or_below(refused_in(told), "document_uri"), how="left_anti")
    return dropped.groupBy(*KEY).agg(F.array_sort(F.collect_set("document_uri")).alias("dropped"))


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


def with_document_op(facts: DataFrame, known: DataFrame, gone: DataFrame, disputes: DataFrame | None) -> DataFrame:
    """Keep the documents whose facts differ from those of their last load, and those that are gone.

    Args:
        facts: as from `document_facts`.
        known: as from `current_documents`.
        gone: registryid, xid of documents that are not where they were.
        disputes: as from `disputes.by_document`; those of documents that were not read are added to what is known of them.

    Returns:
        Rows of `changes` without snapshot_id, raw and attributes.
    """
    before = known.select("registryid", "xid", F.col("body").alias("_body"))
    op = F.when(F.col("_body").isNull(), "insert").otherwise("update")
    written = facts.select("registryid", "xid", F.to_json("facts").alias("body")).join(
        before, on=["registryid", "xid"], how="left"
    )
    differs = written.filter(~F.col("body").eqNullSafe(F.col("_body"))).select("registryid", "xid", op.alias("op"), "body")
    left = gone.select("registryid", "xid", F.lit("delete").alias("op"), F.lit(None).cast("string").alias("body"))
    every = differs.unionByName(left)
    if disputes is not None:
        unread = disputes.join(facts.select("registryid", "xid"), on=["registryid", "xid"], how="left_anti")
        unread = unread.join(gone, on=["registryid", "xid"], how="left_anti")
        added = unread.join(known.select("registryid", "xid", "facts"), on=["registryid", "xid"])
        body = F.to_json(added_to(F.col("facts"), F.col("disputes")))
        # Rows, and not what they are made of: Spark fails on what it infers for a union of such joins.
        every = every.unionByName(
            added.select("registryid", "xid", F.lit("update").alias("op"), body.alias("body")).localCheckpoint()
        )
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


class _Seen(NamedTuple):
    """What a comparison shows at a glance: updates that may be stale; whether all is new, each entity in one document."""

    suspects: int
    all_single_inserts: bool


def _look_at(compared: DataFrame) -> _Seen:
    seen = compared.agg(F.count_if(is_suspect()).alias("suspects"), F.count_if(~_is_single_insert()).alias("others")).collect()[0]
    return _Seen(seen["suspects"], not seen["others"])


def _is_single_insert() -> Column:
    is_insert = F.coalesce(F.col("op") == "insert", F.lit(False))
    return is_insert & (F.size("agreed") == 1) & (F.size("opposed") == 0)


class _Count(NamedTuple):
    """Totals of a comparison.

    by_table: rows by table and outcome; digest: of the changed rows; all_single_inserts: all are new, each in one document, and
    published as it says; told: rows that findings or disputes are about.
    """

    by_table: dict[str, dict[str, int]]
    digest: int
    all_single_inserts: bool
    told: int


def _count(compared: DataFrame) -> _Count:
    outcome = F.coalesce("op", F.when(F.col("refused").isNotNull(), "refused"), F.lit("unchanged"))
    is_single = _is_single_insert() & ~F.col("flipped")
    has_dispute = (F.size("opposed") > 0) | (F.size("displaced") > 0)
    is_told = F.col("refused").isNotNull() | F.col("taken_from").isNotNull() | F.col("regained") | has_dispute
    is_told = is_told | F.exists("agreed", lambda claim: claim["rule_id"].isNotNull())
    folded = compared.groupBy("kind", outcome.alias("outcome")).agg(
        F.count("*").alias("n"), F.count_if(~is_single).alias("others"), F.count_if(is_told).alias("told"), _digest()
    )
    totals = folded.collect()
    by_table: dict[str, dict[str, int]] = {table.name: {} for table in ENTITY_TABLES}
    for total in totals:
        by_table[TABLE_OF_KIND[total["kind"]].name][total["outcome"]] = total["n"]
    written = [total["digest"] for total in totals if total["outcome"] not in ("unchanged", "refused")]
    return _Count(
        by_table,
        reduce(lambda one, other: one ^ other, written, 0),
        not any(total["others"] for total in totals),
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
