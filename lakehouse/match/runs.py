"""A run of `lakehouse match`: sources → landed rows → results → tables, a file of lines, and counts; once, or as a stream.

`watch` matches what lands by Structured Streaming. Each micro-batch is matched and appended once: the stream's identity and its
number go into Delta's transactions, so one that is replayed writes nothing. When the catalog changes, the next batch opens the
new index; each row keeps the snapshot that it was matched with.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.errors import SettingsError
from lakehouse.log.snapshots import resolve_snapshot
from lakehouse.match import conformance
from lakehouse.match.definition.scope import Scope
from lakehouse.match.distributed import OpenedIndex, large_batches, open_index, with_matches
from lakehouse.match.evaluation import AMBIGUOUS, MATCHED, STATUSES
from lakehouse.match.event.adapters import read_source, read_stream, to_landed
from lakehouse.match.matcher import COUNTED, LINE_COLUMNS, RESULT_COLUMNS, MatchRequest
from lakehouse.progress import Clock, Watcher
from lakehouse.settings import Settings
from lakehouse.store.microbatches import run_stream
from lakehouse.store.session import absolute_location

_MOST_LINES = 1_000_000
_MOST_CAUSES = 20
RESULTS_FILE = "results-{:05d}.jsonl"


@dataclass(frozen=True)
class MatchOptions:
    """What a run is asked for.

    Attributes:
        sources: files, folders, tables; their events are counted over all of them in order.
        scope: whose messages are candidates.
        request: how they are matched.
        at: snapshot of the catalog; None: its head.
        form: how the sources are read; None: as they say.
        mapping: SQL expressions for columns, as `read_map` gives them.
        protocol: what the landing was, where it does not say.
        since: only what landed at or after this time.
        into: schema for the tables; None: none are written.
        results: file or folder for a line of JSON an event; None: none is written.
        again: add to the tables only events whose result is another than before.
        samples: events that are named for each reason.
    """

    sources: tuple[str, ...]
    scope: Scope = field(default_factory=Scope)
    request: MatchRequest = field(default_factory=MatchRequest)
    at: str | None = None
    form: str | None = None
    mapping: dict[str, Any] | None = None
    protocol: str | None = None
    since: str | None = None
    into: str | None = None
    results: str | None = None
    again: bool = False
    samples: int = 0

    @property
    def needs_results(self) -> bool:
        """Return whether more than counts is asked for."""
        return bool(self.into or self.results or self.samples)

    def columns(self) -> tuple[str, ...]:
        """Return the columns of results that are needed: the place of a row only orders lines and samples."""
        if not self.needs_results:
            return COUNTED
        return tuple(name for name in RESULT_COLUMNS if name != "place" or self.results or self.samples)


@dataclass
class MatchSummary:
    """Counts of a run; `as_json` is the contract of `lakehouse match --json`."""

    catalog_snapshot: int
    definitions: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATUSES, 0))
    payloads: dict[str, int] = field(default_factory=dict)
    deviating: int = 0
    seen: int = 0
    why: list[dict[str, Any]] = field(default_factory=list)
    run_id: str = ""

    @property
    def read(self) -> int:
        """Return how many events there were."""
        return sum(self.counts.values())

    def as_json(self) -> dict[str, Any]:
        """Return the summary as one JSON value."""
        return {
            "read": self.read, **self.counts, "payloads": dict(sorted(self.payloads.items())), "deviating": self.deviating,
            "definitions": self.definitions, "seen": self.seen, "unseen": self.definitions - self.seen,
            "catalog_snapshot": self.catalog_snapshot, "run_id": self.run_id, "why": self.why,
        }  # fmt: skip


def run_match(spark: SparkSession, settings: Settings, options: MatchOptions, watcher: Watcher | None = None) -> MatchSummary:
    """Match all events of the sources.

    Raises:
        SourceNotFound: a source is not there.
        SettingsError: the columns of a source are of no landing that is known, or the scope names what is not there.
        SnapshotNotFound: `at` names no snapshot.
        WarehouseError: the warehouse holds no catalog.
    """
    stage = Clock(watcher)
    sources = [read_landed(spark, options, number) for number in range(len(options.sources))]
    landed = reduce(DataFrame.unionByName, sources)
    if options.into:
        conformance.create_conformance(spark, settings, options.into)
    with stage("index", "definitions of the catalog"):
        opened = open_index(spark, settings, options.scope, options.at)
    begun = datetime.now(timezone.utc)
    run: dict[str, Any] = {"run_id": str(uuid.uuid4()), "catalog_snapshot": opened.snapshot_id, "begun_at": begun}
    results = with_matches(landed, opened, options.request, options.columns())
    if options.again and options.into:
        results = conformance.only_changed(spark, options.into, results)
    with (
        large_batches(spark, *sources),
        _persisted(results, options.needs_results),
        stage("match", f"{opened.definitions} definitions"),
    ):
        summary = summarize(results, opened, run["run_id"])
        if options.samples:
            add_samples(results, summary, options.samples)
        if options.into:
            write_tables(spark, options, results, summary, run)
        if options.results:
            write_results(results, options.results)
    return summary


def read_landed(spark: SparkSession, options: MatchOptions, number: int) -> DataFrame:
    """Open a source as landed rows; `ordinal` is its number."""
    return land(read_source(spark, options.sources[number], options.form), options, number)


def land(rows: DataFrame, options: MatchOptions, number: int = 0) -> DataFrame:
    """Convert rows of a source, all or some of them, into the canonical table; `ordinal` is the source's number."""
    landed = to_landed(rows, options.form, options.mapping, options.protocol)
    landed = landed.withColumn("source", F.coalesce("source", F.lit(options.sources[number]))).withColumn(
        "ordinal", F.lit(number)
    )
    return landed if options.since is None else landed.filter(F.col("landed_at") >= F.lit(options.since).cast("TIMESTAMP"))


def summarize(results: DataFrame, opened: OpenedIndex, run_id: str) -> MatchSummary:
    """Count results by what came of them."""
    deviates = (F.size("deviations") > 0).alias("deviates")
    keys = ("status", "payload_status", deviates, "why", "nearest_xid")
    grouped = results.groupBy(*keys).agg(
        F.count("*").alias("events"),
        F.min("ce_source").alias("producer"),
        F.flatten(F.collect_set("best")).alias("seen"),
    )
    summary = MatchSummary(opened.snapshot_id, opened.definitions, run_id=run_id)
    payloads: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    why: list[dict[str, Any]] = []
    for row in grouped.toLocalIterator():
        summary.counts[row["status"]] += row["events"]
        if row["status"] in (MATCHED, AMBIGUOUS):
            payloads[row["payload_status"]] += row["events"]
            summary.deviating += row["events"] if row["deviates"] else 0
        seen.update((definition["registryid"], definition["xid"]) for definition in row["seen"])
        if row["why"] is not None:
            why.append({name: row[name] for name in ("why", "events", "producer")} | {"nearest": row["nearest_xid"]})
            if len(why) > 100 * _MOST_CAUSES:
                why = _most(why)
    summary.payloads, summary.seen, summary.why = dict(payloads), len(seen), _most(why)
    return summary


def add_samples(results: DataFrame, summary: MatchSummary, most: int) -> None:
    """Add some events as examples for each reason."""
    wanted = [cause["why"] for cause in summary.why]
    nth = F.row_number().over(Window.partitionBy("why").orderBy("ordinal", "place", "event_ref", "item"))
    rows = results.filter(F.col("why").isin(wanted)).withColumn("nth", nth).filter(F.col("nth") <= most)
    named: dict[str, list[dict[str, Any]]] = {}
    for row in rows.orderBy("nth").select("why", "event_ref").collect():
        named.setdefault(row["why"], []).append(row["event_ref"].asDict())
    for cause in summary.why:
        cause["samples"] = named.get(cause["why"], [])


def write_tables(
    spark: SparkSession,
    options: MatchOptions,
    results: DataFrame,
    summary: MatchSummary,
    run: dict[str, Any],
    batch: tuple[str, int] | None = None,
) -> None:
    """Append a run to the tables of a schema."""
    name = str(options.into)
    conformance.write_run(spark, name, results, run, batch=batch)
    conformance.write_signatures(spark, name, results, run, batch=batch)
    scope, tolerance = options.scope, options.request.tolerance
    counts = run | summary.counts | {
        "sources": list(options.sources), "scope": scope.endpoint or scope.group, "registryid": scope.registry,
        "level": tolerance.level, "placeholders": tolerance.placeholders, "read": summary.read,
        "definitions": summary.definitions, "payloads": summary.payloads, "deviating": summary.deviating, "seen": summary.seen,
    }  # fmt: skip
    conformance.write_counts(spark, name, counts, batch=batch)


def write_results(results: DataFrame, place: str) -> None:
    """Write a line of JSON an event, in the order of the input, numbered from 0: one file, or files in a folder.

    Raises:
        SettingsError: the place cannot be written.
    """
    line = F.to_json(F.struct(*LINE_COLUMNS), {"ignoreNullFields": "false"}).alias("line")
    ref = F.col("event_ref")
    ordered = results.orderBy("ordinal", "place", ref["source"], ref["partition"], ref["offset"], ref["row"], "item").select(line)
    lines = (
        f'{{"row": {number}, {row["line"][1:]}\n' for number, row in enumerate(ordered.toLocalIterator(prefetchPartitions=True))
    )
    folder = Path(place)
    try:
        if place.endswith("/") or folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            _write_parts(lines, folder)
        else:
            fresh = folder.with_name(f".{folder.name}.part")
            with fresh.open("w", encoding="utf-8") as file:
                file.writelines(lines)
            fresh.replace(folder)
    except OSError as error:
        raise SettingsError(f"--results {place}: cannot be written ({error.strerror}).") from error


def _write_parts(lines: Iterator[str], folder: Path) -> None:
    for number in range(100_000):
        first = next(lines, None)
        if first is None and number:
            return
        with (folder / RESULTS_FILE.format(number)).open("w", encoding="utf-8") as file:
            file.write(first or "")
            file.writelines(line for _, line in zip(range(_MOST_LINES - 1), lines, strict=False))


@contextmanager
def _persisted(results: DataFrame, wanted: bool) -> Iterator[None]:
    """Keep results while they are asked for more than once."""
    if wanted:
        results.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield
    finally:
        if wanted:
            results.unpersist()


def _most(why: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(why, key=lambda cause: (-cause["events"], json.dumps(cause, default=str)))[:_MOST_CAUSES]


def watch(
    spark: SparkSession,
    settings: Settings,
    options: MatchOptions,
    report: Callable[[MatchSummary], None],
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    every: int | None = 10,
    watcher: Watcher | None = None,
) -> None:
    """Match what comes into a source, until stopped.

    Args:
        spark: the session.
        settings: the warehouse; the stream remembers below it what it has seen.
        options: one source, and `into`.
        report: is called with the counts of each micro-batch.
        is_stopped: says whether to stop; asked each second.
        every: seconds between two looks; None: end when all that is there has been matched.
        watcher: receives the stages.

    Raises:
        SourceNotFound: the source cannot be streamed.
        LakehouseError: what `run_match` raises.
    """
    rows = read_stream(spark, options.sources[0], options.form)
    land(rows, options)  # fails at once where columns are missing
    conformance.create_conformance(spark, settings, str(options.into))
    batches = _Batches(spark, settings, options, report, Clock(watcher))
    run_stream(rows, batches.match, checkpoint(settings, options), is_stopped, every=every)


def checkpoint(settings: Settings, options: MatchOptions) -> str:
    """Return the folder in which a stream remembers: one for each source, scope and schema of results."""
    return f"{absolute_location(settings.warehouse)}/_watch/match-{_identity(options)}"


class _Batches:
    """Matches micro-batches, with the index of the catalog's head."""

    def __init__(
        self, spark: SparkSession, settings: Settings, options: MatchOptions, report: Callable[[MatchSummary], None], stage: Clock
    ) -> None:
        self.spark, self.settings, self.options, self.report, self.stage = spark, settings, options, report, stage
        self.opened: OpenedIndex | None = None

    def match(self, batch: DataFrame, number: int) -> None:
        """Match a micro-batch and append what came out."""
        opened = self._index()
        identity = (f"lakehouse-match-{_identity(self.options)}", number)
        landed = land(batch, self.options)
        results = with_matches(landed, opened, self.options.request, self.options.columns()).persist(StorageLevel.MEMORY_AND_DISK)
        run: dict[str, Any] = {
            "run_id": f"{_identity(self.options)}-{number}", "catalog_snapshot": opened.snapshot_id,
            "begun_at": datetime.now(timezone.utc),
        }  # fmt: skip
        try:
            # A stream has its own session, with its own settings.
            with large_batches(batch.sparkSession, landed), self.stage("match", f"micro-batch {number}"):
                summary = summarize(results, opened, run["run_id"])
                if self.options.samples:
                    add_samples(results, summary, self.options.samples)
                if summary.read:
                    write_tables(self.spark, self.options, results, summary, run, batch=identity)
            self.report(summary)
        finally:
            results.unpersist()

    def _index(self) -> OpenedIndex:
        """Return the index of the head; a new one when the catalog has moved."""
        if self.opened is None or resolve_snapshot(self.spark, "head") != self.opened.snapshot_id:
            with self.stage("index", "definitions of the catalog"):
                self.opened = open_index(self.spark, self.settings, self.options.scope)
        return self.opened


def _identity(options: MatchOptions) -> str:
    source, scope = options.sources[0], options.scope
    identity = [absolute_location(source) if "/" in source else source, options.into, scope.registry, scope.group, scope.endpoint]
    what = json.dumps(identity)
    return hashlib.sha256(what.encode()).hexdigest()[:16]
