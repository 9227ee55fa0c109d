"""The ways through the product, step by step; the command line and the jobs only call these."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.dialects.detection import DRAFT
from lakehouse.domain.documents import Uri, needs_no_reading
from lakehouse.domain.ownership import Policy
from lakehouse.errors import DocumentsOvertaken
from lakehouse.expectations.gates import read_gates, validate_candidate
from lakehouse.expectations.suiteruns import warm_up
from lakehouse.expectations.suites import Suite
from lakehouse.failpoints import crash_point
from lakehouse.ingest.bundles import PLANNED, BundleRules, plan_bundles
from lakehouse.ingest.numbering import with_numbers
from lakehouse.ingest.parse.draft import WITH_FILES
from lakehouse.ingest.parse.parallel import stage_large
from lakehouse.ingest.parse.parse import limits_of, parse_documents
from lakehouse.ingest.planner import Planner
from lakehouse.ingest.reconcile import (
    Reconciled,
    ReconcileOptions,
    StoredDocuments,
    open_lookups,
    read_existing_documents,
    reconcile_by_spark,
    reconcile_in_driver,
    rule_limits,
)
from lakehouse.ingest.sources import Sources, find_sources, registry_from_path
from lakehouse.ingest.stagerows import collect_stage
from lakehouse.ingest.summary import Summary, of_unchanged, summarise
from lakehouse.ingest.unchanged import (
    HashedDocuments,
    Reread,
    Uris,
    cached_result_file,
    find_displaced,
    find_followers,
    is_judged,
    is_unchanged_row,
    needs_no_look,
    remember_ingest,
    uris_in,
    uris_of,
    without_content_of_unchanged,
)
from lakehouse.log.baseline import current_documents, find_gone
from lakehouse.log.commits import CommitInfo, commit, log_rows, read_head
from lakehouse.log.dryruns import stand_in_lagging, stand_in_missing, without_stand_ins_after
from lakehouse.log.plan import Plan
from lakehouse.log.projections import find_lagging, roll_forward
from lakehouse.log.snapshotfacts import Head
from lakehouse.log.snapshots import check_label_is_free
from lakehouse.log.writerlock import in_turn
from lakehouse.progress import Clock, Watcher
from lakehouse.readmodel.lookups import TooManyLookups
from lakehouse.rules.declared import RULES
from lakehouse.rules.findings import record_findings
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_log, create_tables, is_small, open_table
from lakehouse.store.files import remove_dead_stages, remove_folder, stages_location
from lakehouse.store.internals.plans import large_files
from lakehouse.store.materialize import is_empty, is_local, materialize, no_rows, on_driver
from lakehouse.store.schema import STAGE
from lakehouse.store.session import without_codegen
from lakehouse.store.tablelog import retries, sync_table

_FEW_BYTES = 256 * 1024  # of documents whose rows need no files: as rows they take some times as much
_MOST_BYTES_IN_DRIVER = 64 * 1024 * 1024  # of the texts of staged rows that the driver plans


@dataclass(frozen=True)
class IngestRequest:
    """Options of an ingest besides what is loaded.

    Attributes:
        policy: what the ingest may do.
        strict: refuse a document whole when it has an error.
        dry_run: return what would change, and do nothing.
        label: name for the snapshot; one is committed even when nothing changed.
        dialect: read all documents as of this dialect; None detects each one's.
        command: what the snapshot records as its origin.
    """

    policy: Policy = field(default_factory=Policy)
    strict: bool = False
    dry_run: bool = False
    label: str | None = None
    dialect: str | None = None
    command: str = "ingest"


@dataclass(frozen=True)
class Located:
    """Files that are copies of documents of elsewhere, which are known by their own URIs.

    Attributes:
        documents: URI of a document → path of the file.
        scope: regular expression (Java) for the URIs of all documents of that place: with `prune`, a known one that is not among
            `documents` has vanished.
    """

    documents: dict[str, str]
    scope: str


@without_stand_ins_after
def ingest(
    spark: SparkSession,
    settings: Settings,
    sources: list[str],
    *,
    registry_from: str | None = None,
    request: IngestRequest | None = None,
    watcher: Watcher | None = None,
    root: str | None = None,
    located: Located | None = None,
) -> Summary:
    """Load documents into the catalog.

    Args:
        spark: a session from `open_session`.
        settings: warehouse, registry, limits.
        sources: files, folders, globs, URIs.
        registry_from: 'document' or 'folder': name each document's registry after its path; None: what it says itself.
        request: its options.
        watcher: is notified of the stages.
        root: URI that the documents' paths are relative to; None: what each source says.
        located: what the sources, which are files then, are copies of.

    Raises:
        SourceNotFound: a source names nothing.
        LabelTaken: the label names a snapshot already.
        CommitLost: other writers won the race more often than `commit_attempts`.
        DocumentsOvertaken: other ingests loaded the same documents otherwise meanwhile, as often.
    """
    clock = Clock(watcher)
    request = request or IngestRequest()
    gates = read_gates(settings)  # before anything is done: they may not be understood
    with clock("attach", "tables of the catalog"):
        _attach(spark, settings, request)
    call = _Call(sources, registry_from, request, root, located, gates)

    again = retries(settings.commit_attempts, lambda error: isinstance(error, DocumentsOvertaken))
    unread: tuple[str, ...] = ()
    while True:
        try:
            return again(_read_and_load, spark, settings, call, unread, clock)
        except _Unread as error:  # noqa: PERF203 - each turn reads documents
            unread = (*unread, *error.documents)


class _Call(NamedTuple):
    """What `ingest` was called with."""

    sources: list[str]
    registry_from: str | None
    request: IngestRequest
    root: str | None
    located: Located | None
    gates: list[Suite]

    def cached_result_file(self, settings: Settings) -> str:
        """Return the file of this ingest's cached result."""
        request = replace(self.request, label=None, dry_run=False)
        # Copies of documents of elsewhere are files of other names each time.
        sources = self.sources if self.located is None else [self.located.scope, *sorted(self.located.documents)]
        return cached_result_file(settings, sources=sources, registry_from=self.registry_from, request=request, root=self.root)

    def judged(
        self, spark: SparkSession, settings: Settings, head: Head, unread: tuple[str, ...]
    ) -> Callable[[Uris], bool] | None:
        """Return the check whether this ingest judged documents at this head already; None: they are read in any case.

        Without `prune`, whether unchanged documents were judged is asked for only where something of them was refused.
        """
        if unread or self.request.label is not None or not head.snapshot_id:
            return None
        return partial(is_judged, spark, self.cached_result_file(settings), head)


class _Unread(Exception):
    """Unchanged documents must be read, too."""

    def __init__(self, documents: list[str]) -> None:
        super().__init__(documents)
        self.documents = documents


def _read_and_load(spark: SparkSession, settings: Settings, call: _Call, unread: tuple[str, ...], clock: Clock) -> Summary:
    """Load the documents that changed, and those that must be read though they did not."""
    request = call.request
    with clock("list", ", ".join(call.sources[:3]) + (f" and {len(call.sources) - 3} more" if len(call.sources) > 3 else "")):
        small = is_small(spark, settings)
        with without_codegen(spark, small):
            before = _read_existing(spark)  # first: what other processes load from now on may not be listed
        result = find_sources(spark, call.sources)
        result = result if call.root is None else replace(result, roots=[call.root], named=[])
        result = result if call.located is None else _at_their_place(result, call.located)
        registry = _registry(settings, result, call.registry_from)
        reread = Reread(request.policy.force, request.dialect, request.strict, unread)
        with without_codegen(spark, small):
            opened = without_content_of_unchanged(
                spark,
                result,
                before.documents,
                registry,
                settings.stream_bytes,
                reread,
                call.judged(spark, settings, before.head, unread),
            )
    if opened.unchanged is not None and request.label is None and (opened.is_judged or not request.policy.prune):
        with clock("check", "nothing: all documents are unchanged"):
            with without_codegen(spark, small):
                summary = of_unchanged(spark, settings, before.documents, opened.rows, opened.unchanged)
            if not request.dry_run:
                _roll_forward(spark, settings)
        return replace(summary, seconds=clock.seconds(), hidden=result.hidden, changes=[] if request.dry_run else None)
    if call.gates:  # else nothing asks Great Expectations, whose import takes some seconds of a processor
        warm_up()
    if not request.dry_run:
        with clock("attach", "tables of the catalog"):
            create_tables(spark, settings)
    return _load(spark, settings, opened, _Preparation(result, call, before, small), clock)


def _at_their_place(result: Sources, located: Located) -> Sources:
    files = {path: uri for uri, path in located.documents.items()}
    return replace(
        result,
        located={files[re.sub(r"\Afile:/*", "/", file)]: file for file in [*result.files, *result.empty]},
        scopes=[located.scope],
    )


class _Preparation(NamedTuple):
    """What an ingest was asked for, and what was known when it began; small: the catalog is."""

    sources: Sources
    call: _Call
    existing: _ExistingDocuments
    small: bool

    @property
    def request(self) -> IngestRequest:
        """Return what the ingest may do."""
        return self.call.request


def _load(
    spark: SparkSession, settings: Settings, documents: HashedDocuments, preparation: _Preparation, clock: Clock
) -> Summary:
    """Parse documents into a stage, and publish what it holds."""
    request, ingest_id = preparation.request, uuid.uuid4().hex
    few = preparation.small and documents.changed_bytes is not None and documents.changed_bytes <= _FEW_BYTES
    location = None if request.dry_run or few else f"{stages_location(settings)}/{ingest_id}"
    with clock("parse", "documents that changed"), without_codegen(spark, few):
        stage = _parsed(settings, documents, preparation, location)
        counted = _count_stage(stage)
    crash_point("after_stage")
    try:
        run = CommitInfo(ingest_id, request.command, counted.documents, request.label)
        few = counted.rows <= settings.interpreted_rows
        in_driver = counted.rows <= settings.planner_rows and counted.text_bytes <= _MOST_BYTES_IN_DRIVER
        work = _Work(preparation, run, counted.dialects, counted.uris, few, in_driver, location)
        with without_codegen(spark, preparation.small and work.few):
            summary = _publish(spark, settings, stage, work, clock)
        return replace(summary, seconds=clock.seconds())
    finally:
        if location is not None:
            remove_folder(spark, location)


def _attach(spark: SparkSession, settings: Settings, request: IngestRequest) -> None:
    """Attach the log, and make the tables of a new warehouse; a dry run has what stands in for what is missing."""
    if request.dry_run:
        stand_in_missing(spark, settings)
    else:
        if not attach_log(spark, settings):
            create_tables(spark, settings)
        remove_dead_stages(spark, settings)
    if request.label is not None:
        check_label_is_free(spark, request.label)


class _ExistingDocuments(NamedTuple):
    """What is known of each document, as from `current_documents`, at a head."""

    head: Head
    documents: DataFrame


def _read_existing(spark: SparkSession) -> _ExistingDocuments:
    head = read_head(spark)
    documents = current_documents(open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id))
    return _ExistingDocuments(head, materialize(documents) if head.snapshot_id else no_rows(spark, documents.schema))


@dataclass(frozen=True)
class _Work:
    """What an ingest was given, and what its documents turned out to be.

    few: so few rows that queries over them are interpreted; in_driver: few enough for the driver to plan them; location: of the
    stage; None: Spark holds it.
    """

    preparation: _Preparation
    run: CommitInfo
    dialects: dict[str, int]
    uris: Uris
    few: bool
    in_driver: bool
    location: str | None

    def with_rejected(self, more: int) -> _Work:
        """Count the documents that were refused whole after they were parsed."""
        rejected = self.run.documents["rejected"] + more
        return replace(self, run=replace(self.run, documents=self.run.documents | {"rejected": rejected}))


def _parsed(settings: Settings, documents: HashedDocuments, preparation: _Preparation, location: str | None) -> DataFrame:
    """Parse documents into a stage: small ones as they come, each large one in many tasks."""
    request, located = preparation.request, preparation.sources.located
    roots = preparation.sources.roots
    limits = limits_of(settings, strict=request.strict, dialect=request.dialect, located=located, roots=roots)
    rows, changed_bytes = documents.rows, documents.changed_bytes
    all_small = changed_bytes is not None and changed_bytes <= settings.stream_bytes
    files = [] if all_small else large_files(rows, settings.stream_bytes)
    if not files:
        return _staged(parse_documents(rows, limits), location)
    uri_of = {file: uri for uri, file in located.items()}

    def staged_part(frame: DataFrame, name: str) -> DataFrame:
        return _staged(frame, None if location is None else f"{location}/{name}")

    return stage_large(rows, [uri_of.get(file, file) for file in files], limits, staged_part)


def _staged(rows: DataFrame, location: str | None, schema: StructType = STAGE) -> DataFrame:
    """Write what tasks made, once, and read it from there; without a location Spark holds it, the driver where it is little."""
    if location is None:
        return materialize(rows)
    rows.write.mode("overwrite").parquet(location)
    return rows.sparkSession.read.schema(schema).parquet(location)


def _registry(settings: Settings, result: Sources, registry_from: str | None) -> Column | None:
    """Return the column with the registry of each document; None: the document names it."""
    if settings.registry:
        return F.lit(settings.registry)
    return registry_from_path(registry_from, result.roots) if registry_from else None


def _roll_forward(spark: SparkSession, settings: Settings) -> None:
    """Make up what a process that died left undone."""
    head = read_head(spark)
    if find_lagging(spark, head, settings=settings):
        create_tables(spark, settings)
        with without_codegen(spark, is_small(spark, settings)):
            roll_forward(spark, head, settings=settings)


class _Counted(NamedTuple):
    """What a stage holds: its rows but those of unchanged documents, documents by status, those that were loaded by dialect.

    text_bytes: of its entities; uris: which documents these are.
    """

    rows: int
    text_bytes: int
    documents: dict[str, int]
    dialects: dict[str, int]
    uris: Uris


def _count_stage(stage: DataFrame) -> _Counted:
    is_document = F.col("row") == "document"
    details = [F.when(is_document, F.get_json_object("facts", f"$.{name}")).alias(name) for name in ("status", "dialect")]
    text_bytes = F.sum(F.octet_length("body") + F.coalesce(F.octet_length("raw"), F.lit(0)))
    rows = (
        stage.groupBy(*details)
        .agg(F.count("*").alias("count"), text_bytes.alias("text_bytes"), *uris_in(F.when(is_document, F.col("xid"))))
        .collect()
    )
    counts = Counter[str]()
    dialects = Counter[str]()
    uris = Uris(0, 0, 0)
    for row in rows:
        uris = uris.joined(uris_of(row))
        if row["status"] is not None:
            counts[row["status"]] += row["count"]
        if row["dialect"] is not None:
            dialects[row["dialect"]] += row["count"]
    names = ("unchanged", "skipped", "rejected")
    documents = {"read": counts.total()} | {name: counts[name] for name in names}
    return _Counted(
        rows=sum(row["count"] for row in rows) - counts["unchanged"],
        text_bytes=sum(row["text_bytes"] or 0 for row in rows),
        documents=documents,
        dialects=dict(sorted(dialects.items())),
        uris=uris,
    )


def _publish(spark: SparkSession, settings: Settings, stage: DataFrame, work: _Work, clock: Clock) -> Summary:
    """Check, commit and project; plan again when another writer was first."""
    request = work.preparation.request

    def attempt() -> Summary:
        with clock("check", "what differs from the catalog"):
            head = read_head(spark)
            if request.dry_run:
                stand_in_lagging(spark, settings, head)
            else:
                roll_forward(spark, head, settings=settings)
            # Unchanged documents may be many, and change nothing; but what is pruned is what no document is there for.
            read = stage if request.policy.prune else stage.filter(~is_unchanged_row())
            numbered, refused = _numbered(spark, head, on_driver(read) if work.few else read, work)
            existing = work.preparation.existing
            existing_documents = existing.documents if existing.head == head else None
            existing_documents = read_existing_documents(spark, head, numbered, existing_documents, existing.head.snapshot_id)
            inputs = _ReconcileInputs(
                head=head,
                stage=stage,
                numbered=numbered,
                refused=refused,
                existing_documents=existing_documents,
                options=ReconcileOptions(request.policy, request.strict, work.dialects),
                preparation=work.preparation,
            )
            if work.in_driver:
                reconciled = _reconciled_in_driver(spark, settings, inputs)
            else:
                reconciled = _reconciled_in_tasks(spark, settings, inputs, work.location)
            if reconciled is None:
                reconciled = _reconciled_by_spark(spark, settings, inputs)
            plan = reconciled.plan
            if plan.displaced and (unread := find_displaced(plan.reconciled, stage)):
                raise _Unread(unread)
            if work.run.label is not None:
                check_label_is_free(spark, work.run.label)  # another process may have given it meanwhile
        seen = work.with_rejected(reconciled.rejected)
        if not plan.is_empty:
            with clock("validate", "what would be published"):
                docs = None if request.dry_run else settings
                validate_candidate(spark, plan, reconciled.stage, RULES.values(), work.preparation.call.gates, docs)
        snapshot_id = None
        if not request.dry_run:
            if plan.decided is None or plan.decided.has_new_findings:
                record_findings(spark, plan.findings, work.run.ingest_id)
                sync_table(spark, settings, "violations")
            ended_at = plan.head
            if not plan.is_empty or work.run.label is not None:
                ended_at = _commit(spark, settings, plan, reconciled.stage, seen, clock)
                snapshot_id = ended_at.snapshot_id
            is_looked_at_again = request.policy.prune or _is_looked_at_again(plan, strict=request.strict)
            if is_looked_at_again and not _takes_in_files(plan):
                remember_ingest(spark, settings, work.preparation.call.cached_result_file(settings), ended_at, work.uris)
        summary = summarise(stage, plan, seen.run.documents, dry_run=request.dry_run)
        return replace(summary, snapshot_id=snapshot_id, hidden=work.preparation.sources.hidden, dialects=work.dialects)

    return in_turn(settings.warehouse, settings.commit_attempts, attempt)


@dataclass(frozen=True, kw_only=True)
class _ReconcileInputs:
    """What an attempt to publish starts from.

    Attributes:
        head: the snapshot that the stage is compared with.
        stage: columns `schema.STAGE`, with the unchanged documents.
        numbered: the stage without these, its Versions numbered.
        refused: findings of the numbering; None: there are none.
        existing_documents: as from `current_documents` at the head.
        options: what the ingest may do.
        preparation: what was known when it began.
    """

    head: Head
    stage: DataFrame
    numbered: DataFrame
    refused: DataFrame | None
    existing_documents: DataFrame
    options: ReconcileOptions
    preparation: _Preparation

    def find_gone(self) -> DataFrame:
        """Find the documents that are not where they were."""
        scopes, listed_at = self.preparation.sources.scopes, self.preparation.existing.head.snapshot_id
        return find_gone(self.existing_documents, self.numbered, self.options.policy, scopes, listed_at)

    def check_followers(self, gone: DataFrame) -> None:
        """Raise `_Unread` if unchanged documents must be read since others are gone."""
        if unread := find_followers(self.existing_documents, gone, self.stage):
            raise _Unread(unread)


def _reconciled_by_spark(spark: SparkSession, settings: Settings, inputs: _ReconcileInputs) -> Reconciled:
    gone = inputs.find_gone()
    inputs.check_followers(gone)
    before = StoredDocuments(inputs.existing_documents, gone)
    return reconcile_by_spark(spark, settings, inputs.head, inputs.numbered, inputs.refused, before, inputs.options)


def _reconciled_in_driver(spark: SparkSession, settings: Settings, inputs: _ReconcileInputs) -> Reconciled | None:
    """Decide in the driver what the stage changes; None where Spark has to."""
    policy = inputs.options.policy
    with open_lookups(spark, settings, inputs.head, policy) as lookups:
        if lookups is None:
            return None
        try:
            planner = Planner(inputs.head, collect_stage(inputs.numbered), policy, lookups)
            if policy.prune:
                planner.also_gone(Uri(*row) for row in inputs.find_gone().select("registryid", "xid").collect())
            if planner.gone:
                inputs.check_followers(spark.createDataFrame(sorted(planner.gone), "registryid string, xid string"))
            return reconcile_in_driver(spark, planner, settings, inputs.refused, inputs.existing_documents, inputs.options)
        except TooManyLookups:
            return None


def _reconciled_in_tasks(
    spark: SparkSession, settings: Settings, inputs: _ReconcileInputs, location: str | None
) -> Reconciled | None:
    """Let tasks decide what the stage changes; None where Spark has to."""
    if settings.planner == "spark" or inputs.refused is not None:
        return None
    planned_at = None if location is None else f"{location}/_planned"  # which Spark does not read with the stage
    plan = plan_bundles(
        spark,
        inputs.head,
        inputs.numbered,
        inputs.existing_documents,
        inputs.options.dialects,
        BundleRules(
            policy=inputs.options.policy,
            limits=rule_limits(settings),
            strict=inputs.options.strict,
            max_depth=settings.max_chain_depth if settings.refresh_effective else None,
        ),
        partial(_staged, location=planned_at, schema=PLANNED),
    )
    return None if plan is None else Reconciled(None, plan, 0)


def _is_looked_at_again(plan: Plan, *, strict: bool) -> bool:
    """Return whether documents of which something was refused are read at the next ingest too."""
    if plan.decided is not None:
        return any(not needs_no_reading(facts, strict=strict) for facts in plan.decided.facts)
    return not is_empty(plan.facts.filter(~needs_no_look("facts", strict=strict)))


def _takes_in_files(plan: Plan) -> bool:
    """Return whether a document holds more than its text: files next to it, which may be others at the next ingest."""
    if plan.decided is not None:
        return any(WITH_FILES in (facts.get("spellings") or {}) for facts in plan.decided.facts)
    return not is_empty(plan.facts.filter(F.array_contains(F.map_keys("facts.spellings"), WITH_FILES)))


def _numbered(spark: SparkSession, head: Head, stage: DataFrame, work: _Work) -> tuple[DataFrame, DataFrame | None]:
    """Number the Versions of definitions of the CNCF catalog draft, if there are any; nobody else waits for it."""
    if DRAFT not in work.dialects:
        return stage, None
    log = open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id)
    return with_numbers(stage, log, prune=work.preparation.request.policy.prune)


def _commit(spark: SparkSession, settings: Settings, plan: Plan, stage: DataFrame | None, work: _Work, clock: Clock) -> Head:
    with clock("commit", f"{sum(plan.changed.values())} changed entities as snapshot {plan.head.snapshot_id + 1}"):
        entities = None if plan.decided is not None else plan.log_rows
        is_few = is_local(plan.reconciled)
        if is_few or plan.decided is not None:
            with without_codegen(spark, is_few):
                entities = materialize(log_rows(spark, plan, stage))
        head = commit(spark, plan, stage, work.run, entities)
        sync_table(spark, settings, "changes")
    with clock("project", "tables: " + ", ".join(name for name, n in plan.changed.items() if n)):
        of_snapshot = entities and entities.withColumn("snapshot_id", F.lit(head.snapshot_id).cast("bigint"))
        roll_forward(
            spark,
            head,
            plan.head,
            settings,
            entities=of_snapshot,
            definitions=plan.effective,
            registries_are_new=plan.registries_are_new,
        )
    return head
