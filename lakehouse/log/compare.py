"""What happens to each entity that documents say or no longer say, against the state of the catalog."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.log.baseline import Baseline
from lakehouse.log.owners import (
    at_or_below,
    claims_of,
    gather_facts,
    may_move_default,
    refused_in,
    remaining_disputes,
    with_declared,
    with_defaults,
    with_standing,
    with_verdict,
)
from lakehouse.store.keys import KEY, OVER_HTTP, VERSION_KIND
from lakehouse.store.materialize import count_if, is_known_empty, materialize
from lakehouse.store.schema import TABLE_OF_KIND
from lakehouse.text.timestamps import micros_of


class Comparison(NamedTuple):
    """What happens to each entity that documents say or no longer say.

    rows: as from `owners.with_verdict` and `owners.with_defaults`; is_all_new: every entity is new, is
    in one document, and is published as it says; moved: kinds of entities that came or went, where what holds them may have
    been there before.
    """

    rows: DataFrame
    is_all_new: bool
    moved: tuple[str, ...]


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
    stands = None if baseline.disputes is None else remaining_disputes(baseline.disputes, stage, refused_in(details))
    protected = None
    if policy.prune:  # what lost its last owner in an ingest without --prune
        ownerless = state.filter(F.size("document_uris") == 0)
        dropped = dropped.unionByName(ownerless.select(*KEY, F.col("document_uris").alias("dropped")))
        dropped = dropped.groupBy(*KEY).agg(F.array_distinct(F.flatten(F.collect_list("dropped"))).alias("dropped"))
        protected = state.select(*KEY).join(refused_in(details).select(*KEY).distinct(), on=KEY, how="left_semi")
        protected = protected.unionByName(_parents_of_http(state))
        if stands is not None:
            protected = protected.unionByName(stands.select(*KEY))
    log, head = baseline.log, baseline.head
    deleted = log.filter((F.col("op") == "delete") & (F.col("kind") != "document")) if head.deletions else log.limit(0)
    now = micros_of(baseline.committed_at)
    disputes = None if baseline.disputes is None or stands is None else with_standing(baseline.disputes, stands)
    entities = gather_facts(claims_of(stage), dropped, state, deleted, disputes, protected)
    reconciled = materialize(with_verdict(entities, policy=policy, now=now))
    seen = _look_at(reconciled)
    moved = seen.moved if head.tables else ()
    if seen.suspects and not policy.force:
        declared = materialize(with_declared(reconciled.filter("is_suspect").select(*KEY, "stored_modifiedat"), log))
        again = with_verdict(entities, policy=policy, now=now, declared=declared)
        reconciled = materialize(reconciled.filter("NOT is_suspect").unionByName(again))
    if seen.all_single_inserts or not seen.may_move_defaults:  # each document is of one mind about its own defaults
        return Comparison(reconciled.withColumn("flipped", F.lit(False)), seen.all_single_inserts, moved)
    return Comparison(materialize(with_defaults(reconciled, state, log)), False, moved)


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
    which `owners.may_move_default` holds; moved: as of `Comparison`.
    """

    suspects: int
    all_single_inserts: bool
    may_move_defaults: int
    moved: tuple[str, ...]


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
    }
    seen = count_if(reconciled, conditions)
    moved = tuple(kind for kind in TABLE_OF_KIND if kind not in VERSION_KIND.values() and kind != "registry")
    moved = moved if seen["members"] else ()
    moved += tuple(VERSION_KIND.values()) if seen["versions"] and seen["parents"] else ()
    return _Seen(seen["suspects"], not seen["others"], seen["moving"], moved)
