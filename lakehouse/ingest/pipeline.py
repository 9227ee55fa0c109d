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
from lakehouse.log.projections import Update, find_lagging, roll_forward
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
from lakehouse.store.localpaths import no_glob
from lakehouse.store.materialize import is_empty, is_local, materialize, no_rows, on_driver
from lakehouse.store.schema import STAGE
from lakehouse.store.session import without_codegen
from lakehouse.store.tablelog import retries, sync_table

_FEW_BYTES = 256 * 1024  # of documents whose rows need no files: as rows they take some times as much
_FEW_CHANGES = 20_000  # entities that tables take from memory, all at once
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
        registry_from: 'document' or 'folder': name each document's registry after its path; None: the setting `registry` names
            it, else the document itself.
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
    call = _Call(
        spark=spark,
        settings=settings,
        clock=clock,
        sources=sources,
        registry_from=registry_from,
        request=request,
        root=root,
        located=located,
        gates=gates,
    )
    again = retries(settings.commit_attempts, lambda error: isinstance(error, DocumentsOvertaken))
    unread: tuple[str, ...] = ()
    while True:
        try:
            return again(_read_and_publish, call, unread)
        except _Unread as error:  # noqa: PERF203 - each turn reads documents
            unread = (*unread, *error.documents)


@dataclass(frozen=True, kw_only=True)
class _Call:
    """What `ingest` was called with, and what it works with: the same however often it reads and tries to publish."""

    spark: SparkSession
    settings: Settings
    clock: Clock
    sources: list[str]
    registry_from: str | None
    request: IngestRequest
    root: str | None
    located: Located | None
    gates: list[Suite]

    @property
    def first_sources(self) -> str:
        """Return the first sources, and how many more there are."""
        more = len(self.sources) - 3
        return ", ".join(self.sources[:3]) + (f" and {more} more" if more > 0 else "")

    def cached_result_file(self) -> str:
        """Return the file of this ingest's cached result."""
        request = replace(self.request, label=None, dry_run=False)
        # Copies of documents of elsewhere are files of other names each time.
        sources = self.sources if self.located is None else [self.located.scope, *sorted(self.located.documents)]
        return cached_result_file(
            self.settings, sources=sources, registry_from=self.registry_from, request=request, root=self.root
        )

    def judged(self, head: Head, sources: Sources, unread: tuple[str, ...]) -> Callable[[Uris], bool] | None:
        """Return the check whether this ingest judged documents at this head already; None: they are read in any case.

        Without `prune`, whether unchanged documents were judged is asked for only where something of them was refused.
        """
        if unread or self.request.label is not None or not head.snapshot_id:
            return None
        return partial(is_judged, self.spark, self.cached_result_file(), head, sources.scopes)


class _Unread(Exception):
    """Unchanged documents must be read, too."""

    def __init__(self, documents: list[str]) -> None:
        super().__init__(documents)
        self.documents = documents


@dataclass(frozen=True, kw_only=True)
class _Turn:
    """What one turn read; another one follows when that was not enough, or was overtaken.

    Attributes:
        sources: where documents were found.
        head: the snapshot before they were listed.
        existing_documents: what is known of each document, as from `current_documents`, at that head.
        stage: columns `schema.STAGE`, with the unchanged documents.
        location: of the stage; None: Spark holds it.
        counted: what the stage holds.
        run: what a commit records.
        few: so few rows that queries over them are interpreted.
        in_driver: few enough for the driver to plan them.
    """

    sources: Sources
    head: Head
    existing_documents: DataFrame
    stage: DataFrame
    location: str | None
    counted: _Counted
    run: CommitInfo
    few: bool
    in_driver: bool


def _read_and_publish(call: _Call, unread: tuple[str, ...]) -> Summary:
    """Load the documents that changed, and those that must be read though they did not."""
    spark, settings, request, clock = call.spark, call.settings, call.request, call.clock
    with clock("list", call.first_sources):
        small = is_small(spark, settings)
        with without_codegen(spark, small):
            head, existing_documents = _read_existing(spark)  # first: what others load from now on may not be listed
        sources = _find_documents(call)
        reread = Reread(request.policy.force, request.dialect, request.strict, unread)
        judged = call.judged(head, sources, unread)
        registry = _registry(call, sources)
        with without_codegen(spark, small):
            documents = without_content_of_unchanged(
                spark, sources, existing_documents, registry, settings.stream_bytes, reread, judged
            )
    if documents.unchanged is not None and request.label is None and (documents.is_judged or not request.policy.prune):
        with clock("check", "nothing: all documents are unchanged"):
            with without_codegen(spark, small):
                summary = of_unchanged(spark, settings, existing_documents, documents.rows, documents.unchanged)
            if not request.dry_run:
                _roll_forward(spark, settings)
        return replace(summary, seconds=clock.seconds(), hidden=sources.hidden, changes=[] if request.dry_run else None)
    _prepare(call)
    ingest_id = uuid.uuid4().hex
    few = small and documents.changed_bytes is not None and documents.changed_bytes <= _FEW_BYTES
    location = None if request.dry_run or few else f"{stages_location(settings)}/{ingest_id}"
    if few:  # in one task: a second one would start another process of Python
        documents = documents._replace(rows=documents.rows.coalesce(1))
    with clock("parse", "documents that changed"), without_codegen(spark, few):
        stage = _parsed(call, sources, documents, location)
        counted = _count_stage(stage)
    crash_point("after_stage")
    try:
        turn = _Turn(
            sources=sources,
            head=head,
            existing_documents=existing_documents,
            stage=stage,
            location=location,
            counted=counted,
            run=CommitInfo(ingest_id, request.command, counted.documents, request.label),
            few=counted.rows <= settings.interpreted_rows,
            in_driver=counted.rows <= settings.planner_rows and counted.text_bytes <= _MOST_BYTES_IN_DRIVER,
        )
        with without_codegen(spark, small and turn.few):
            summary = _publish(call, turn)
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


def _read_existing(spark: SparkSession) -> tuple[Head, DataFrame]:
    """Return the head, and what is known of each document at it, as from `current_documents`."""
    head = read_head(spark)
    documents = current_documents(open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id))
    return head, materialize(documents) if head.snapshot_id else no_rows(spark, documents.schema)


def _find_documents(call: _Call) -> Sources:
    """List the documents of the sources, each at the place that it is known by."""
    result = find_sources(call.spark, call.sources)
    result = result if call.root is None else replace(result, roots=[call.root], named=[])
    return result if call.located is None else _at_their_place(result, call.located)


def _at_their_place(result: Sources, located: Located) -> Sources:
    files = {path: uri for uri, path in located.documents.items()}
    return replace(
        result,
        located={files[re.sub(r"\Afile:/*", "/", file)]: file for file in [*result.files, *result.empty]},
        scopes=[located.scope],
    )


def _registry(call: _Call, sources: Sources) -> Column | None:
    """Return the column with the registry of each document; None: the document names it."""
    if call.registry_from:
        return registry_from_path(call.registry_from, sources.roots)
    return F.lit(call.settings.registry) if call.settings.registry else None


def _prepare(call: _Call) -> None:
    """Prepare for documents to be read: what checks them, and the tables."""
    if call.gates:  # else nothing asks Great Expectations, whose import takes some seconds of a processor
        warm_up()
    if not call.request.dry_run:
        with call.clock("attach", "tables of the catalog"):
            create_tables(call.spark, call.settings)


def _parsed(call: _Call, sources: Sources, documents: HashedDocuments, location: str | None) -> DataFrame:
    """Parse documents into a stage: small ones as they come, each large one in many tasks."""
    settings, request, located = call.settings, call.request, sources.located
    limits = limits_of(settings, strict=request.strict, dialect=request.dialect, located=located, roots=sources.roots)
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
    return rows.sparkSession.read.schema(schema).parquet(no_glob(location))


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


def _publish(call: _Call, turn: _Turn) -> Summary:
    """Check, commit and project; plan again when another writer was first."""
    request = call.request

    def attempt() -> Summary:
        with call.clock("check", "what differs from the catalog"):
            reconciled = _reconciled(call, turn)
        plan = reconciled.plan
        if not plan.is_empty:
            with call.clock("validate", "what would be published"):
                docs = None if request.dry_run else call.settings
                validate_candidate(call.spark, plan, reconciled.stage, RULES.values(), call.gates, docs)
        rejected = turn.run.documents["rejected"] + reconciled.rejected  # also what was refused whole after it was parsed
        run = replace(turn.run, documents=turn.run.documents | {"rejected": rejected})
        snapshot_id = None if request.dry_run else _write(call, turn, reconciled, run)
        summary = summarise(turn.stage, plan, run.documents, dry_run=request.dry_run)
        return replace(summary, snapshot_id=snapshot_id, hidden=turn.sources.hidden, dialects=turn.counted.dialects)

    return in_turn(call.settings.warehouse, call.settings.commit_attempts, attempt)


def _reconciled(call: _Call, turn: _Turn) -> Reconciled:
    """Decide what the stage changes at the head of the log, which the tables reach first."""
    spark, settings, request = call.spark, call.settings, call.request
    head = read_head(spark)
    if request.dry_run:
        stand_in_lagging(spark, settings, head)
    else:
        roll_forward(spark, head, settings=settings)
    comparison = _compare_at(call, turn, head)
    reconciled = comparison.by_driver() if turn.in_driver else comparison.by_tasks()
    if reconciled is None:
        reconciled = comparison.by_spark()
    if reconciled.plan.displaced and (unread := find_displaced(reconciled.plan.reconciled, turn.stage)):
        raise _Unread(unread)
    if request.label is not None:
        check_label_is_free(spark, request.label)  # another process may have given it meanwhile
    return reconciled


def _compare_at(call: _Call, turn: _Turn, head: Head) -> _StageAtHead:
    """Number the Versions of the stage, and look up what is known of its documents at the head."""
    # Unchanged documents may be many, and change nothing; but what is pruned is what no document is there for.
    read = turn.stage if call.request.policy.prune else turn.stage.filter(~is_unchanged_row())
    numbered, refused = _numbered(call, turn, head, on_driver(read) if turn.few else read)
    existing_documents = turn.existing_documents if turn.head == head else None
    existing_documents = read_existing_documents(call.spark, head, numbered, existing_documents, turn.head.snapshot_id)
    return _StageAtHead(call, turn, head, numbered, refused, existing_documents)


@dataclass(frozen=True)
class _StageAtHead:
    """A stage and the snapshot that it is compared with, in one of three ways.

    Attributes:
        call, turn: of the ingest.
        head: the snapshot.
        numbered: the stage without unchanged documents, its Versions numbered.
        refused: findings of the numbering; None: there are none.
        existing_documents: as from `current_documents` at the head.
    """

    call: _Call
    turn: _Turn
    head: Head
    numbered: DataFrame
    refused: DataFrame | None
    existing_documents: DataFrame

    @property
    def options(self) -> ReconcileOptions:
        """Return what the ingest may do."""
        return ReconcileOptions(self.call.request.policy, self.call.request.strict, self.turn.counted.dialects)

    def by_driver(self) -> Reconciled | None:
        """Decide in the driver what the stage changes; None where Spark has to."""
        spark, settings, policy = self.call.spark, self.call.settings, self.call.request.policy
        with open_lookups(spark, settings, self.head, policy) as lookups:
            if lookups is None:
                return None
            try:
                planner = Planner(self.head, collect_stage(self.numbered), policy, lookups)
                if policy.prune:
                    planner.also_gone(Uri(*row) for row in self._find_gone().select("registryid", "xid").collect())
                if planner.gone:
                    self._check_followers(spark.createDataFrame(sorted(planner.gone), "registryid string, xid string"))
                return reconcile_in_driver(spark, planner, settings, self.refused, self.existing_documents, self.options)
            except TooManyLookups:
                return None

    def by_tasks(self) -> Reconciled | None:
        """Let tasks decide what the stage changes; None where Spark has to."""
        settings, location = self.call.settings, self.turn.location
        if settings.planner == "spark" or self.refused is not None:
            return None
        planned_at = None if location is None else f"{location}/_planned"  # which Spark does not read with the stage
        plan = plan_bundles(
            self.call.spark,
            self.head,
            self.numbered,
            self.existing_documents,
            self.options.dialects,
            BundleRules(
                policy=self.options.policy,
                limits=rule_limits(settings),
                strict=self.options.strict,
                max_depth=settings.max_chain_depth if settings.refresh_effective else None,
            ),
            partial(_staged, location=planned_at, schema=PLANNED),
        )
        return None if plan is None else Reconciled(None, plan, 0)

    def by_spark(self) -> Reconciled:
        """Let Spark decide what the stage changes, by joins with the tables."""
        gone = self._find_gone()
        self._check_followers(gone)
        before = StoredDocuments(self.existing_documents, gone)
        return reconcile_by_spark(
            self.call.spark, self.call.settings, self.head, self.numbered, self.refused, before, self.options
        )

    def _find_gone(self) -> DataFrame:
        """Find the documents that are not where they were."""
        scopes, listed_at = self.turn.sources.scopes, self.turn.head.snapshot_id
        return find_gone(self.existing_documents, self.numbered, self.options.policy, scopes, listed_at)

    def _check_followers(self, gone: DataFrame) -> None:
        """Raise `_Unread` if unchanged documents must be read since others are gone."""
        if unread := find_followers(self.existing_documents, gone, self.turn.stage):
            raise _Unread(unread)


def _write(call: _Call, turn: _Turn, reconciled: Reconciled, run: CommitInfo) -> int | None:
    """Record findings, commit what changed, and remember what was judged; return the new snapshot, None where there is none."""
    spark, settings, request, plan = call.spark, call.settings, call.request, reconciled.plan
    if plan.decided is None or plan.decided.has_new_findings:
        record_findings(spark, plan.findings, run.ingest_id)
        sync_table(spark, settings, "violations")
    is_committed = not plan.is_empty or run.label is not None
    ended_at = _commit(call, plan, reconciled.stage, run) if is_committed else plan.head
    is_looked_at_again = request.policy.prune or _is_looked_at_again(plan, strict=request.strict)
    if is_looked_at_again and not _takes_in_files(plan):
        remember_ingest(spark, settings, call.cached_result_file(), ended_at, turn.sources.scopes, turn.counted.uris)
    return ended_at.snapshot_id if is_committed else None


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


def _numbered(call: _Call, turn: _Turn, head: Head, stage: DataFrame) -> tuple[DataFrame, DataFrame | None]:
    """Number the Versions of definitions of the CNCF catalog draft, if there are any; nobody else waits for it."""
    if DRAFT not in turn.counted.dialects:
        return stage, None
    log = open_table(call.spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id)
    return with_numbers(stage, log, prune=call.request.policy.prune)


def _commit(call: _Call, plan: Plan, stage: DataFrame | None, run: CommitInfo) -> Head:
    """Append what changed to the log, and bring the tables to it."""
    spark, settings = call.spark, call.settings
    with call.clock("commit", f"{sum(plan.changed.values())} changed entities as snapshot {plan.head.snapshot_id + 1}"):
        entities = None if plan.decided is not None else plan.log_rows
        is_few = is_local(plan.reconciled)
        if is_few or plan.decided is not None or (entities is None and sum(plan.changed.values()) <= _FEW_CHANGES):
            with without_codegen(spark, is_few):
                entities = materialize(log_rows(spark, plan, stage))
        head = commit(spark, plan, stage, run, entities)
        sync_table(spark, settings, "changes")
    with call.clock("project", "tables: " + ", ".join(name for name, n in plan.changed.items() if n)):
        update = None
        if entities is not None:
            of_snapshot = entities.withColumn("snapshot_id", F.lit(head.snapshot_id).cast("bigint"))
            inserted = {name: ops.get("insert", 0) for name, ops in plan.counts.items()}
            update = Update(of_snapshot, plan.effective, plan.registries_are_new, inserted)
        roll_forward(spark, head, plan.head, settings, update=update)
    return head
