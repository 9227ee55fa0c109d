"""What a stage changes against the current state of the catalog, without reading a text twice.

First `compare` decides about each entity that a document holds or held.

Everything here is narrow: keys, hashes, dates, owners. The texts stay in the stage until `commits.commit` appends them.
Decisions 3 to 9 of docs/decisions.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.domain.documents import Facts
from lakehouse.errors import PruneRefused
from lakehouse.log.baseline import Baseline, document_facts, of_snapshots, with_document_op
from lakehouse.log.owners import (
    as_unchanged,
    at_or_below,
    by_document,
    claims_of,
    disputes_after_plan,
    find_refusals,
    gather_facts,
    may_move_default,
    refused_in,
    remaining_disputes,
    with_declared,
    with_defaults,
    with_remaining,
    with_verdict,
)
from lakehouse.log.snapshotfacts import LOGGED, Head
from lakehouse.store.keys import KEY, OVER_HTTP, VERSION_KIND
from lakehouse.store.materialize import count, count_if, is_empty, is_known_empty, materialize
from lakehouse.store.schema import ENTITY_TABLES, TABLE_OF_KIND
from lakehouse.text.timestamps import micros_of


class Comparison(NamedTuple):
    """What happens to each entity that documents say or no longer say.

    rows: as from `owners.with_verdict` and `owners.with_defaults`; is_all_new: every entity is new, is
    in one document, and is published as it says; moved: kinds of entities that came or went, where what holds them may have
    been there before; differing: rows that are not repeated.
    """

    rows: DataFrame
    is_all_new: bool
    moved: tuple[str, ...]
    differing: int


def compare(baseline: Baseline, stage: DataFrame, rows: DataFrame) -> Comparison:
    """Return for each entity that documents hold or held what happens to it.

    Args:
        baseline: what the stage is compared with.
        stage: columns `schema.STAGE`, without what was refused.
        rows: findings besides those of the stage; columns row, document_uri, registryid, kind, xid, finding.
    """
    policy, state = baseline.policy, baseline.state
    details = all_findings(stage, rows)
    dropped = find_dropped(baseline, stage, details)
    remaining = None if baseline.disputes is None else remaining_disputes(baseline.disputes, stage, refused_in(details))
    protected = None
    if policy.prune:  # what lost its last owner in an ingest without --prune
        ownerless = state.filter(F.size("document_uris") == 0)
        dropped = dropped.unionByName(ownerless.select(*KEY, F.col("document_uris").alias("dropped")))
        dropped = dropped.groupBy(*KEY).agg(F.array_distinct(F.flatten(F.collect_list("dropped"))).alias("dropped"))
        protected = state.select(*KEY).join(refused_in(details).select(*KEY).distinct(), on=KEY, how="left_semi")
        protected = protected.unionByName(_parents_of_http(state))
        if remaining is not None:
            protected = protected.unionByName(remaining.select(*KEY))
    log, head = baseline.log, baseline.head
    deleted = log.filter((F.col("op") == "delete") & (F.col("kind") != "document")) if head.deletions else log.limit(0)
    now = micros_of(baseline.committed_at)
    disputes = None if baseline.disputes is None or remaining is None else with_remaining(baseline.disputes, remaining)
    # Computed once, though what needs no decision goes another way than the rest.
    entities = materialize(gather_facts(claims_of(stage), dropped, state, deleted, disputes, protected), eager=False)
    reconciled = materialize(with_verdict(entities, policy=policy, now=now))
    seen = _look_at(reconciled)
    moved = seen.moved if head.tables else ()
    if seen.suspects and not policy.force:
        declared = materialize(with_declared(reconciled.filter("is_suspect").select(*KEY, "stored_modifiedat"), log))
        again = with_verdict(entities, policy=policy, now=now, declared=declared)
        reconciled = materialize(reconciled.filter("NOT is_suspect").unionByName(again))
    if seen.all_single_inserts or not seen.may_move_defaults:  # each document is of one mind about its own defaults
        reconciled = reconciled.withColumn("isdefault_differs", F.lit(False))
        return Comparison(reconciled, seen.all_single_inserts, moved, seen.differing)
    return Comparison(materialize(with_defaults(reconciled, state, log)), False, moved, seen.differing)


def all_findings(stage: DataFrame, rows: DataFrame) -> DataFrame:
    """Return all findings of an ingest so far: those of its stage, and those of the comparison."""
    return stage.filter(F.col("row") == "finding").select(*rows.columns).unionByName(rows)


def find_dropped(baseline: Baseline, stage: DataFrame, details: DataFrame) -> DataFrame:
    """Find entities that a document held at its last load and holds no more.

    A document that was rejected dropped nothing, nor did one drop what was refused in it, or what is below that.

    Returns:
        One row per entity: KEY, dropped (the documents, sorted).
    """
    documents = stage.filter((F.col("row") == "document") & F.get_json_object("facts", "$.status").isin("loaded", "skipped"))
    before = baseline.existing_documents.select("registryid", "xid")
    gone = documents.select("registryid", "xid").join(before, on=["registryid", "xid"]).unionByName(baseline.gone)
    gone = gone.withColumnRenamed("xid", "document_uri")
    if is_known_empty(gone):  # all documents are new
        return baseline.state.limit(0).select(*KEY, F.col("document_uris").alias("dropped"))
    owned = baseline.state.select(*KEY, F.explode("document_uris").alias("document_uri"))
    owned = owned.join(F.broadcast(gone), on=["registryid", "document_uri"], how="left_semi")
    dropped = owned.join(baseline.staged, on=[*KEY, "document_uri"], how="left_anti")
    dropped = dropped.join(*at_or_below(refused_in(details), "document_uri"), how="left_anti")
    return dropped.groupBy(*KEY).agg(F.array_sort(F.collect_set("document_uri")).alias("dropped"))


def _parents_of_http(state: DataFrame) -> DataFrame:
    """Find what holds an entity that came over HTTP: a group, or the message that a Version is of; columns KEY."""
    owned = state.filter(F.array_contains("document_uris", OVER_HTTP))
    parts = F.split("xid", "/")
    parents = F.transform(F.array(F.lit(3), F.lit(5)), lambda n: F.array_join(F.slice(parts, 1, n), "/"))
    parent_xids = owned.select("registryid", F.explode(parents).alias("xid"))
    return state.select(*KEY).join(parent_xids.distinct(), on=["registryid", "xid"], how="left_semi").select(*KEY)


class _Seen(NamedTuple):
    """What a comparison shows at a glance.

    suspects: updates that may be stale; all_single_inserts: all is new, each entity in one document; may_move_defaults: rows for
    which `owners.may_move_default` holds; moved, differing: as of `Comparison`.
    """

    suspects: int
    all_single_inserts: bool
    may_move_defaults: int
    moved: tuple[str, ...]
    differing: int


def _look_at(reconciled: DataFrame) -> _Seen:
    is_version = F.col("kind").isin(*VERSION_KIND.values())
    op = F.coalesce("op", F.lit(""))
    came_or_went = op.isin("insert", "delete")
    # A new Version is in a document with its message, so that only one that is not written may have been there before.
    may_grow = F.col("kind").isin(*VERSION_KIND) & (~op.isin("insert", "update") | F.col("is_suspect"))
    conditions = {
        "suspects": F.col("is_suspect"),
        "others": ~F.col("is_single_insert"),
        "moving": may_move_default(),
        "versions": came_or_went & is_version,
        "members": came_or_went & ~is_version,
        "parents": may_grow | (op == "delete"),
        "differing": ~F.col("is_repeated"),
    }
    seen = count_if(reconciled, conditions)
    moved = tuple(kind for kind in TABLE_OF_KIND if kind not in VERSION_KIND.values() and kind != "registry")
    moved = moved if seen["members"] else ()
    moved += tuple(VERSION_KIND.values()) if seen["versions"] and seen["parents"] else ()
    return _Seen(seen["suspects"], not seen["others"], seen["moving"], moved, seen["differing"])


@dataclass(frozen=True)
class Decided:
    """What the driver knows of a plan that it made itself, without a query.

    Attributes:
        findings: all of the ingest, columns `rules.findings.FINDING_COLUMNS`.
        has_new_findings: the table `violations` lacks some of them.
        facts: of the documents that were read.
        written: entities that are published as a document says: its URI and KEY.
        changed: KEY and op of the changed entities, sorted.
    """

    findings: list[dict[str, Any]]
    has_new_findings: bool
    facts: list[Facts]
    written: set[tuple[str, str, str, str]]
    changed: list[tuple[str, str, str, str | None]]


@dataclass
class Plan:
    """What a stage changes against a head.

    Attributes:
        head: the snapshot that it was planned against.
        committed_at: time of the snapshot to come; never before the head's.
        existing_documents: as from `current_documents`, before the commit.
        reconciled: as from `with_counted_epochs`.
        findings: of entities that were refused or changed hands, as from `find_refusals`; when it is settled, all of the ingest.
        facts: as from `document_facts`.
        documents: facts of documents that changed, columns of `changes` without snapshot_id.
        counts: rows of `reconciled` by table and op; `unchanged` and `refused` too.
        document_rows: rows of `documents`.
        digest: of all rows, whatever their order.
        whole_stage: all entities of the stage are new, and each is in one document.
        displaced: entities that are taken from documents which were not read.
        decided: what the driver knows of it; None: it did not make the plan.
        log_rows: the changed entities with their texts, as from `commits.log_rows`; None: their texts are in the stage.
        effective: rows of `effective_messages` that change, with is_there (NULL: the message is gone); None: Spark computes them.
        registries_are_new: nothing is published of the registries of all that is written.
    """

    head: Head
    committed_at: datetime
    existing_documents: DataFrame
    reconciled: DataFrame
    findings: DataFrame
    facts: DataFrame
    documents: DataFrame
    counts: dict[str, dict[str, int]]
    document_rows: int
    digest: str
    whole_stage: bool
    displaced: int
    decided: Decided | None = None
    log_rows: DataFrame | None = None
    effective: DataFrame | None = None
    registries_are_new: bool = False

    @property
    def entities(self) -> DataFrame:
        """Return the changed entities: `reconciled` without those that stay as they are."""
        return self.reconciled.filter(F.col("op").isNotNull())

    @property
    def changed(self) -> dict[str, int]:
        """Return the number of changed rows by table."""
        return changed_rows(self.counts)

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to commit."""
        return self.document_rows == 0 and not any(self.changed.values())


def changed_rows(counts: dict[str, dict[str, int]]) -> dict[str, int]:
    """Count the changed rows by table, out of the rows by table and outcome."""
    return {table: sum(n for op, n in ops.items() if op not in ("unchanged", "refused")) for table, ops in counts.items()}


def plan_changes(baseline: Baseline, stage: DataFrame, comparison: Comparison, rows: DataFrame) -> Plan:
    """Return the plan of a comparison's changes.

    Args:
        baseline: what the stage was compared with.
        stage: columns `schema.STAGE`, without what was refused.
        comparison: as from `compare`.
        rows: findings besides those of the stage; columns row, document_uri, registryid, kind, xid, finding.

    Raises:
        PruneRefused: pruning would delete more than half of a registry's entities.
    """
    reconciled = with_counted_epochs(baseline, comparison)
    count = _count(reconciled)
    findings = find_refusals(reconciled, stage)
    if not count.reported:
        findings = findings.limit(0)
    facts = document_facts(stage, rows.unionByName(findings))
    more = _disputes(baseline, stage, reconciled, all_findings(stage, rows), count)
    if more is not None:
        facts = facts.join(more, on=["registryid", "xid"], how="left")
        facts = facts.select("registryid", "xid", F.col("facts").withField("disputes", F.col("disputes")).alias("facts"))
    facts = materialize(facts)
    documents = materialize(with_document_op(facts, baseline.existing_documents, baseline.gone, more))
    if baseline.policy.prune and not baseline.policy.force:
        _guard_prune(count.by_table, baseline.state, reconciled)
    total = documents.agg(F.count("*").alias("n"), F.coalesce(rows_digest("body"), F.lit(0)).alias("digest")).collect()[0]
    digest = f"{(count.digest ^ total['digest']) & (2**64 - 1):016x}"
    whole_stage = count.all_single_inserts and not baseline.head.deletions
    return Plan(
        baseline.head,
        baseline.committed_at,
        baseline.existing_documents,
        reconciled,
        findings,
        facts,
        documents,
        count.by_table,
        total["n"],
        digest,
        whole_stage,
        count.displaced,
    )


def _disputes(
    baseline: Baseline, stage: DataFrame, reconciled: DataFrame, findings: DataFrame, count: _Count
) -> DataFrame | None:
    """Return the disputes of documents as from `owners.by_document`; None if there are none, before and after."""
    broken = None
    refused = materialize(refused_in(findings))
    if not is_empty(refused):
        owned = baseline.state.select(*KEY, F.explode("document_uris").alias("document_uri"))
        broken = materialize(refused.join(owned, on=["document_uri", *KEY], how="left_anti"))
    if not count.reported and baseline.disputes is None and broken is None:
        return None
    remaining = None if baseline.disputes is None else materialize(remaining_disputes(baseline.disputes, stage, refused))
    return materialize(by_document(disputes_after_plan(reconciled, remaining, broken)))


class _Count(NamedTuple):
    """Totals of a comparison.

    by_table: rows by table and outcome; digest: of the changed rows; all_single_inserts: all are new, each in one document, and
    published as it says; reported: rows that findings or disputes are about; displaced: of these, rows whose former owners were
    not read.
    """

    by_table: dict[str, dict[str, int]]
    digest: int
    all_single_inserts: bool
    reported: int
    displaced: int


def _count(reconciled: DataFrame) -> _Count:
    outcome = F.coalesce("op", F.when(F.col("refused").isNotNull(), "refused"), F.lit("unchanged"))
    is_single = F.col("is_single_insert") & ~F.col("isdefault_differs")
    folded = reconciled.groupBy("kind", outcome.alias("outcome")).agg(
        F.count("*").alias("n"),
        F.count_if(~is_single).alias("others"),
        F.count_if("is_reported").alias("reported"),
        F.count_if(F.size("displaced") > 0).alias("displaced"),
        rows_digest(),
    )
    totals = folded.collect()
    by_table: dict[str, dict[str, int]] = {table.name: {} for table in ENTITY_TABLES}
    for total in totals:
        by_table[TABLE_OF_KIND[total["kind"]].name][total["outcome"]] = total["n"]
    written = [total["digest"] for total in totals if total["outcome"] not in ("unchanged", "refused")]
    return _Count(
        by_table,
        reduce(lambda digest, other_digest: digest ^ other_digest, written, 0),
        not any(total["others"] for total in totals),
        sum(total["reported"] for total in totals),
        sum(total["displaced"] for total in totals),
    )


def _guard_prune(counts: dict[str, dict[str, int]], state: DataFrame, reconciled: DataFrame) -> None:
    """Refuse to delete over half of the entities of a registry (decision 4)."""
    if not any(ops.get("delete") for ops in counts.values()):
        return
    deleted = reconciled.filter(F.col("op") == "delete").groupBy("registryid").agg(F.count("*").alias("deleted"))
    published = state.join(F.broadcast(deleted), on="registryid").groupBy("registryid", "deleted").agg(F.count("*").alias("n"))
    for row in published.filter("deleted * 2 > n").orderBy("registryid").limit(1).collect():
        raise PruneRefused(row["registryid"], row["deleted"], row["n"])


def rows_digest(*also: str) -> Column:
    """Fold the rows of a group into one number, whatever their order: a lost or altered row changes it."""
    return F.bit_xor(F.xxhash64(*LOGGED, *also)).alias("digest")


_FEW_PARENTS = 1000  # that are named in a query


def with_counted_epochs(baseline: Baseline, comparison: Comparison) -> DataFrame:
    """Count the epochs of what holds something that came or went.

    Args:
        baseline: what the stage was compared with.
        comparison: as from `compare`, once the rules between entities hold.

    Returns:
        Its rows; what holds something that came or went, and is published and not written, has op update, an epoch counted on
        and the date of the snapshot, but for what its document declares. Its text is that of its first owner, where that was
        read, else the stored one.
    """
    reconciled = comparison.rows
    if not comparison.moved:
        return reconciled
    came_or_went = _has_op("insert", "delete") & F.col("kind").isin(list(comparison.moved))
    parents = (
        reconciled.filter(came_or_went)
        .select("registryid", _kind_of_parent().alias("kind"), _parent_xid().alias("xid"))
        .distinct()
    )
    of_kinds = ["registry", "group", "endpoint", *(kind for kind, version in VERSION_KIND.items() if version in comparison.moved)]
    written = reconciled.filter(_has_op("insert", "update", "delete") & F.col("kind").isin(of_kinds)).select(*KEY)
    parents = materialize(parents.join(written, on=KEY, how="left_anti"))
    if is_empty(parents):
        return reconciled
    staged_parents = reconciled.join(parents, on=KEY, how="left_semi")
    staged_parents = materialize(staged_parents.withColumns({"was_compared": F.lit(True), "has_text": _has_text()}))
    if count(staged_parents) < count(parents):
        staged_parents = materialize(
            staged_parents.unionByName(_not_staged(baseline, parents, staged_parents), allowMissingColumns=True)
        )
    grown = _counted(baseline, staged_parents)
    rest = reconciled.join(grown.select(*KEY), on=KEY, how="left_anti")
    return materialize(rest.unionByName(grown.select(*reconciled.columns)), eager=False)


def _has_op(*ops: str) -> Column:
    return F.coalesce(F.col("op").isin(*ops), F.lit(False))


def _parent_xid() -> Column:
    xid = F.regexp_replace("xid", r"/[^/]+/[^/]+\z", "")
    return F.when(xid == "", "/").otherwise(xid)


def _kind_of_parent() -> Column:
    kind = F.col("kind")
    resource = F.when(F.col("xid").startswith("/endpoints/"), "endpoint").otherwise("group")
    of_version = [F.when(kind == version, F.lit(of)) for of, version in VERSION_KIND.items()]
    return F.coalesce(*of_version, F.when(kind.isin("group", "endpoint"), "registry"), resource)


def _has_text() -> Column:
    """Return whether the document whose text is published was read with the same text."""
    lead = F.get("document_uris", F.lit(0))
    says = F.exists("agreed", lambda claim: claim["document_uri"] == lead)
    return F.col("refused").isNull() & F.coalesce(says, F.lit(False))


def _not_staged(baseline: Baseline, parents: DataFrame, staged_parents: DataFrame) -> DataFrame:
    """Return the published parents that no document was read for, as rows of a comparison, without text."""
    left = materialize(parents.join(staged_parents.select(*KEY), on=KEY, how="left_anti"))
    state = baseline.state.filter(F.col("kind").isin([kind for kind in TABLE_OF_KIND if kind not in VERSION_KIND.values()]))
    named = left.select("registryid", "xid").limit(_FEW_PARENTS + 1).collect()
    if len(named) <= _FEW_PARENTS:  # by their names, Delta skips files
        state = state.filter(F.col("registryid").isin(sorted({row["registryid"] for row in named})))
        state = state.filter(F.col("xid").isin(sorted({row["xid"] for row in named})))
    return as_unchanged(state.join(left, on=KEY, how="left_semi")).withColumn("has_text", F.lit(False))


def _counted(baseline: Baseline, parents: DataFrame) -> DataFrame:
    """Count epochs on; what a document declares stays as it is declared (decision 8), and what came over HTTP declares nothing.

    Args:
        baseline: what the stage was compared with.
        parents: rows of a comparison with was_compared and has_text; kept.
    """
    is_over_http = F.array_contains("document_uris", OVER_HTTP)
    stored = parents.filter(~F.col("has_text") & ~is_over_http)
    looked_up = None if is_known_empty(stored) else _declared(baseline, stored)
    has = {name: F.col("has_text") & F.col(f"declared_{name}").isNotNull() for name in ("epoch", "modifiedat")}
    if looked_up is not None:
        parents = parents.join(looked_up, on=KEY, how="left")
        has = {name: declares | F.coalesce(F.col(f"has_{name}"), F.lit(False)) for name, declares in has.items()}
    grows = ~(F.col("declares_epoch") & F.col("declares_modifiedat"))
    counted = parents.withColumns({f"declares_{name}": declares for name, declares in has.items()}).withColumn("grows", grows)
    counted = counted.filter(F.col("was_compared") | F.col("grows")).withColumns(
        {
            "op": F.when(F.col("grows"), "update").otherwise(F.col("op")),
            "epoch": F.col("epoch") + F.when(F.col("declares_epoch"), 0).otherwise(1),
            "modifiedat": F.when(F.col("declares_modifiedat"), F.col("modifiedat")).otherwise(F.lit(baseline.committed_at)),
            "document_uri": F.when(F.col("grows") & F.col("has_text"), F.get("document_uris", F.lit(0))),
            "isdefault_differs": F.lit(False),
        }
    )
    return materialize(counted)


def _declared(baseline: Baseline, stored: DataFrame) -> DataFrame:
    """Return what documents declared of parents, by the stored texts: KEY, has_epoch, has_modifiedat.

    The text of a message may be that of its default Version.
    """
    version_kind = F.create_map(*(F.lit(part) for pair in VERSION_KIND.items() for part in pair))
    defaults = stored.filter(F.col("kind").isin(*VERSION_KIND)).select(
        "registryid",
        version_kind[F.col("kind")].alias("kind"),
        F.concat("xid", F.lit("/versions/"), F.col("stored_defaultversionid")).alias("xid"),
    )
    parts = stored.select("stored_in")
    if not is_known_empty(defaults):
        of_defaults = baseline.state.join(defaults, on=KEY, how="left_semi")
        parts = parts.unionByName(of_defaults.select(F.col("snapshot_id").alias("stored_in")))
    details = with_declared(stored.select(*KEY, "stored_modifiedat"), baseline.log, of_snapshots(baseline.log, parts))
    return materialize(details.select(*KEY, "has_epoch", "has_modifiedat"))
