"""What an ingest would publish: a stage is compared with what was there before, until the rules between entities hold."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.ownership import Policy
from lakehouse.errors import DocumentsOvertaken
from lakehouse.ingest.planner import Planner
from lakehouse.log.compare import compare
from lakehouse.log.facts import current_documents
from lakehouse.log.ground import Ground, find_gone, find_overtaken, read_ground, tables_in_use, with_rejected
from lakehouse.log.head import Head
from lakehouse.log.plan import Plan, plan_changes
from lakehouse.log.projections import effective_is_behind
from lakehouse.rules.between.near import Published, read_near, read_published
from lakehouse.rules.findings import FOUND, no_findings
from lakehouse.rules.gate import check_stage, reject_documents, without_refused
from lakehouse.settings import Settings
from lakehouse.store.frames import is_empty, keep, on_driver
from lakehouse.store.sessions import is_interpreted
from lakehouse.store.tables import open_table


class Before(NamedTuple):
    """What an ingest finds.

    known: as from `current_documents`; gone: as from `find_gone`; published: what is published, where that was read; in_driver:
    the driver decides what changes.
    """

    known: DataFrame
    gone: DataFrame
    published: Published | None
    in_driver: bool


class Asked(NamedTuple):
    """What an ingest may do, whether it refuses a document whole, and the dialects of its documents."""

    policy: Policy
    strict: bool
    dialects: Collection[str]


class Settled(NamedTuple):
    """What an ingest would publish.

    stage: without what was refused; findings: beside those of the stage and of the plan; rejected: how many documents the rules
    between entities refused whole.
    """

    stage: DataFrame
    plan: Plan
    findings: DataFrame
    rejected: int


def read_before(
    spark: SparkSession,
    settings: Settings,
    head: Head,
    stage: DataFrame,
    known: DataFrame | None,
    policy: Policy,
    scopes: list[str],
    listed_at: int,
    *,
    few: bool,
) -> tuple[DataFrame, Before]:
    """Read what was there before: of a small catalog all, of a large one what few rows have to do with.

    Args:
        spark: the session.
        settings: how many rows are few.
        head: snapshot that the entity tables stand at.
        stage: columns `schema.STAGE`, as the documents were read.
        known: as from `current_documents` at the head; None: they are read.
        policy: what the ingest may do.
        scopes: as for `find_gone`.
        listed_at: as for `find_gone`.
        few: the stage has few rows.

    Returns:
        Beside it the stage, which the driver holds where what is published was read.

    Raises:
        DocumentsOvertaken: another ingest loaded documents of the stage otherwise since they were listed.
    """
    if known is None:
        known = keep(current_documents(open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id)))
    if head.snapshot_id > listed_at and (overtaken := find_overtaken(known, stage, listed_at)):
        raise DocumentsOvertaken(overtaken)
    gone = find_gone(known, stage, policy, scopes, listed_at)
    used = tables_in_use(head)
    in_driver = few and settings.planner != "spark"
    if not used or not few:
        return stage, Before(known, gone, None, in_driver)
    if is_interpreted(spark):
        return stage, Before(known, gone, read_published(spark, used), in_driver)
    # What is pruned may be anything, and without the chains nobody knows what depends on what.
    if policy.prune or not settings.refresh_effective or effective_is_behind(spark, head):
        return stage, Before(known, gone, None, in_driver=False)
    stage = on_driver(stage)
    near = read_near(spark, used, stage, known, gone, settings.interpreted_rows)
    return stage, Before(known, gone, near, in_driver and near is not None)


def settle(
    spark: SparkSession,
    settings: Settings,
    head: Head,
    stage: DataFrame,
    refused: DataFrame | None,
    before: Before,
    asked: Asked,
) -> Settled:
    """Compare a stage with the catalog, and apply the rules between entities to what would be published, until they hold.

    What a rule refuses may leave another document's definition, or the published one, in its place: so that is looked at anew.

    Args:
        spark: the session.
        settings: whether and how the rules between entities are applied.
        head: snapshot that the entity tables stand at.
        stage: as from `read_before`.
        refused: findings that are in no document; None: there are none.
        before: as from `read_before`.
        asked: what the ingest was asked for.
    """
    published = before.published
    planner = _planner(spark, head, stage, before, asked)
    rejected, uncounted, found = 0, refused, no_findings(spark)
    if asked.strict and refused is not None and not is_empty(refused):
        whole = reject_documents(stage, refused.select(*FOUND), before.known)
        stage, found, rejected, uncounted = whole.stage, whole.findings, whole.rejected, None
        planner.leave_out(stage)
    first = without_refused(stage, spark)
    if not first.is_settled:
        stage, found = first.stage, found.unionByName(first.findings)
        planner.leave_out(stage)
    while True:
        planner.compare(found)
        if not settings.check_relations:
            break
        checked = check_stage(
            spark,
            settings,
            stage,
            head.tables,
            planner.compared_frame(),
            dialects=asked.dialects,
            strict=asked.strict,
            published=published,
            known=before.known,
        )
        stage, found, rejected = checked.stage, found.unionByName(checked.findings), rejected + checked.rejected
        if checked.is_settled:
            break
        planner.leave_out(stage)
    plan = planner.plan(found if uncounted is None else found.unionByName(uncounted))
    return Settled(stage, plan, found, rejected)


class _Planner(Protocol):
    """Decides what a stage changes."""

    def leave_out(self, stage: DataFrame) -> None:
        """Take a stage that lacks what was refused."""

    def compare(self, found: DataFrame) -> None:
        """Decide about each entity, given the findings other than those of the stage."""

    def compared_frame(self) -> DataFrame | None:
        """Return the comparison; None: all is new, and published as it says."""

    def plan(self, found: DataFrame) -> Plan:
        """Plan what was decided."""


def _planner(spark: SparkSession, head: Head, stage: DataFrame, before: Before, asked: Asked) -> _Planner:
    state = None if before.published is None else before.published.state
    if before.in_driver:
        return Planner(spark, head, stage, asked.policy, before.known, before.gone, state)
    return _SparkPlanner(read_ground(spark, head, stage, asked.policy, before.known, before.gone, state), stage)


class _SparkPlanner:
    """Decides by joins, whatever the size."""

    def __init__(self, ground: Ground, stage: DataFrame) -> None:
        self.ground = ground
        self.stage = stage

    def leave_out(self, stage: DataFrame) -> None:
        """Take a stage that lacks what was refused."""
        self.ground = with_rejected(self.ground, stage)
        self.stage = stage

    def compare(self, found: DataFrame) -> None:
        """Decide about each entity."""
        self.compared = compare(self.ground, self.stage, found)

    def compared_frame(self) -> DataFrame | None:
        """Return the comparison; None: all is new, and published as it says."""
        return None if self.compared.is_all_new else self.compared.rows

    def plan(self, found: DataFrame) -> Plan:
        """Plan what was decided."""
        return plan_changes(self.ground, self.stage, self.compared, found)
