"""What an ingest would publish: a stage is compared with what was there before, until the rules between entities hold."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.neighbours import RuleLimits
from lakehouse.domain.ownership import Policy
from lakehouse.errors import DocumentsOvertaken, WarehouseError
from lakehouse.ingest.planner import Planner, decide
from lakehouse.ingest.planwriter import PlanWriter
from lakehouse.log.baseline import current_documents, find_overtaken, read_baseline, with_rejected
from lakehouse.log.plan import Plan, compare, plan_changes
from lakehouse.log.snapshotfacts import Head
from lakehouse.readmodel import ReadModel
from lakehouse.readmodel.lookups import Lookups
from lakehouse.rules.findings import FINDING_COLUMNS, no_findings
from lakehouse.rules.gate import check_stage, reject_documents, without_refused
from lakehouse.settings import Settings
from lakehouse.store.deltatables import open_table
from lakehouse.store.materialize import is_empty, materialize
from lakehouse.store.tablelog import table_bytes

_MOST_LOOKUPS = 200_000  # entities that are looked up; what has to do with more is joined by Spark


class StoredDocuments(NamedTuple):
    """What an ingest finds: known, as from `current_documents`; gone, as from `find_gone`."""

    existing_documents: DataFrame
    gone: DataFrame


class ReconcileOptions(NamedTuple):
    """What an ingest may do, whether it refuses a document whole, and the dialects of its documents."""

    policy: Policy
    strict: bool
    dialects: Collection[str]


class Reconciled(NamedTuple):
    """What an ingest would publish.

    stage: without what was refused; None: the plan has its texts. rejected: how many documents the rules between entities refused
    whole.
    """

    stage: DataFrame | None
    plan: Plan
    rejected: int


@contextmanager
def open_lookups(spark: SparkSession, settings: Settings, head: Head, policy: Policy) -> Iterator[Lookups | None]:
    """Open what is published for look-ups: the read model, brought forward to the head first.

    Args:
        spark: the session.
        settings: who plans, and where the read model is.
        head: snapshot that the ingest is compared with.
        policy: what the ingest may do.

    Yields:
        None where Spark has to plan: it was set, the read model of a large catalog would have to be built first, or it cannot be
        kept; or anything of a large catalog may be pruned.
    """
    if settings.planner == "spark":
        yield None
        return
    if not head.snapshot_id:
        yield Lookups(None, _MOST_LOOKUPS)
        return
    log_bytes = table_bytes(spark, "changes")
    model = None
    if log_bytes <= settings.interpreted_bytes or not policy.prune:
        model = ReadModel(settings)
        try:
            is_there = model.refresh_if(build=log_bytes <= settings.planner_bytes)
        except (WarehouseError, OSError):  # a store that only Spark reads, a folder that cannot be written
            is_there = False
        if not is_there:
            model.close()
            model = None
    if model is None:
        yield None
        return
    with model, model.at(head.snapshot_id) as view:
        yield Lookups(view, _MOST_LOOKUPS)


def read_existing_documents(
    spark: SparkSession, head: Head, stage: DataFrame, existing_documents: DataFrame | None, listed_at: int
) -> DataFrame:
    """Return what is known of documents at the head.

    Args:
        spark: the session.
        head: snapshot that the ingest is compared with.
        stage: columns `schema.STAGE`, as the documents were read.
        existing_documents: as from `current_documents` at the head; None: they are read.
        listed_at: snapshot before the sources were listed.

    Raises:
        DocumentsOvertaken: another ingest loaded documents of the stage otherwise since they were listed.
    """
    if existing_documents is None:
        existing_documents = materialize(
            current_documents(open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id))
        )
    if head.snapshot_id > listed_at and (overtaken := find_overtaken(existing_documents, stage, listed_at)):
        raise DocumentsOvertaken(overtaken)
    return existing_documents


def rule_limits(settings: Settings) -> RuleLimits | None:
    """Return the settings of the rules between entities; None: they are not applied."""
    return RuleLimits(settings.max_chain_depth, settings.duplicate_messageids) if settings.check_relations else None


def reconcile_in_driver(
    spark: SparkSession,
    planner: Planner,
    settings: Settings,
    refused: DataFrame | None,
    existing_documents: DataFrame,
    options: ReconcileOptions,
) -> Reconciled:
    """Compute what `reconcile_by_spark` does for few rows in the driver, by look-ups.

    Args:
        spark: the session.
        planner: with all that is gone.
        settings: whether and how the rules between entities are applied.
        refused: findings of the numbering, which the facts of documents do not count yet; None: there are none.
        existing_documents: as from `current_documents`.
        options: what the ingest was asked for.

    Raises:
        TooManyLookups: the change has to do with more than is looked up.
    """
    uncounted = [] if refused is None else [row.asDict(recursive=True) for row in refused.select(*FINDING_COLUMNS).collect()]
    left = decide(planner, rule_limits(settings), strict=options.strict, uncounted=uncounted)
    max_depth = settings.max_chain_depth if settings.refresh_effective else None
    plan = PlanWriter(planner).plan(spark, existing_documents, left, max_depth)
    return Reconciled(None, plan, planner.rejected)


def reconcile_by_spark(
    spark: SparkSession,
    settings: Settings,
    head: Head,
    stage: DataFrame,
    refused: DataFrame | None,
    before: StoredDocuments,
    options: ReconcileOptions,
) -> Reconciled:
    """Compare a stage with the catalog, and apply the rules between entities to what would be published, until they hold.

    What a rule refuses may leave another document's definition, or the published one, in its place: so that is checked again.

    Args:
        spark: the session.
        settings: whether and how the rules between entities are applied.
        head: snapshot that the entity tables are at.
        stage: columns `schema.STAGE`, as the documents were read.
        refused: findings of the numbering, which the facts of documents do not count yet; None: there are none.
        before: what was known and is gone.
        options: what the ingest was asked for.
    """
    read_findings = stage.filter(F.col("row") == "finding").select(*FINDING_COLUMNS)
    baseline = read_baseline(spark, head, stage, options.policy, before.existing_documents, before.gone)
    rejected, uncounted, result = 0, refused, no_findings(spark)
    if options.strict and refused is not None and not is_empty(refused):
        whole = reject_documents(stage, refused.select(*FINDING_COLUMNS), before.existing_documents)
        stage, result, rejected, uncounted = whole.stage, whole.findings, whole.rejected, None
        baseline = with_rejected(baseline, stage)
    first = without_refused(stage, spark)
    if not first.is_settled:
        stage, result = first.stage, result.unionByName(first.findings)
        baseline = with_rejected(baseline, stage)
    while True:
        comparison = compare(baseline, stage, result)
        if not settings.check_relations:
            break
        checked = check_stage(
            spark,
            settings,
            stage,
            head.tables,
            None if comparison.is_all_new else comparison.rows,
            dialects=options.dialects,
            strict=options.strict,
            existing_documents=before.existing_documents,
            differing=comparison.differing,
        )
        stage, result, rejected = checked.stage, result.unionByName(checked.findings), rejected + checked.rejected
        if checked.is_settled:
            break
        baseline = with_rejected(baseline, stage)
    plan = plan_changes(baseline, stage, comparison, result if uncounted is None else result.unionByName(uncounted))
    # Cut off from the long plans that they come from: Spark writes a plan out as text whenever it runs one.
    findings = materialize(read_findings.unionByName(result).unionByName(plan.findings), eager=False)
    return Reconciled(stage, replace(plan, findings=findings), rejected)
