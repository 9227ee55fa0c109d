"""A run of `lakehouse propose`: sources → events that match no definition → counts in a table → documents in a folder.

One `mapInArrow` pass matches and counts; each task emits a row for each kind, path, type and day that it met, so what is shuffled
grows with kinds and paths, not with events.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import SnapshotNotFound
from lakehouse.match.definition.scope import Scope
from lakehouse.match.distributed import OpenedIndex, large_batches, open_index
from lakehouse.match.evaluation import MATCHED, UNMATCHED, UNREADABLE
from lakehouse.match.event.adapters import LANDED, read_stream
from lakehouse.match.event.canonical import Event, events_of
from lakehouse.match.indexfiles import open_store
from lakehouse.match.matcher import Matcher, MatchRequest
from lakehouse.match.runs import MatchOptions, land, read_landed
from lakehouse.match.vectorized.batch import landed_of_row, match_batch
from lakehouse.progress import Clock, Watcher
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.eventcounts import Counts, KindCounts, settle
from lakehouse.propose.evidence import evidence_page
from lakehouse.propose.kinds import EventCounter
from lakehouse.propose.pathcounts import PathCounts
from lakehouse.propose.proposals import ProposedKind, as_bytes, documents_of, propose_kinds
from lakehouse.settings import Settings, data_folder
from lakehouse.store.files import exists
from lakehouse.store.microbatches import run_stream
from lakehouse.store.session import absolute_location
from lakehouse.text.names import RegistryId

INVALID = ("invalid", "undecodable")
_COUNTED = ("matched", "invalid", "unmatched", "unreadable")
_ROWS_AT_ONCE = 10_000  # whose events are Python's at a time


@dataclass(frozen=True)
class ProposeOptions:
    """What a run is asked for.

    Attributes:
        sources: files, folders, tables, as `match` reads them.
        form: how they are read; None: as they say.
        mapping: SQL expressions for columns.
        protocol: what the landing was, where it does not say.
        registry: whose messages are candidates; None: all.
        thresholds: how much evidence decides.
        keeps_values: whether values of events may be stored and written.
    """

    sources: tuple[str, ...]
    form: str | None = None
    mapping: dict[str, Any] | None = None
    protocol: str | None = None
    registry: RegistryId | None = None
    thresholds: Thresholds = field(default_factory=Thresholds)
    keeps_values: bool = True

    @property
    def reading(self) -> MatchOptions:
        """Return how `match` reads the sources."""
        return MatchOptions(self.sources, form=self.form, mapping=self.mapping, protocol=self.protocol)


@dataclass
class ProposeSummary:
    """Counts of a run; `as_json` is the contract of `lakehouse propose --json`.

    Attributes:
        events: how many were matched, invalid, unmatched, unreadable.
        kinds: what is proposed.
        files: what was written.
    """

    events: dict[str, int] = field(default_factory=dict)
    kinds: list[ProposedKind] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the summary as one JSON value."""
        counts = {name: self.events.get(name, 0) for name in _COUNTED}
        kinds = [{"kind": one.observed.kind, "group": one.group, "events": one.events} for one in self.kinds]
        return {"read": sum(counts.values()), **counts, "kinds": kinds, "files": self.files}


def run_propose(
    spark: SparkSession, settings: Settings, options: ProposeOptions, watcher: Watcher | None = None
) -> ProposeSummary:
    """Count the events of sources that no definition describes, and decide what is proposed from all that was counted.

    Raises:
        SourceNotFound: a source is not there.
        SettingsError: the columns of a source are of no landing that is known.
    """
    stage = Clock(watcher)
    sources = [read_landed(spark, options.reading, number) for number in range(len(options.sources))]
    with stage("index", "definitions of the catalog"):
        opened = open_definitions(spark, settings, options)
    open_observed(spark, settings)
    with stage("count", "events that no definition describes"):
        events = _counted(spark, reduce(DataFrame.unionByName, sources), opened, options, settings, None)
    with stage("decide", "values, templates and schemas"):
        return ProposeSummary(events, propose_kinds(read_observed(spark, settings), options.thresholds))


def watch_proposals(
    spark: SparkSession,
    settings: Settings,
    options: ProposeOptions,
    report: Callable[[ProposeSummary], None],
    is_stopped: Callable[[], bool],
    *,
    every: int | None,
) -> None:
    """Count what lands, in micro-batches, each once; after each one decide what is proposed.

    Args:
        spark: the session.
        settings: the warehouse, which remembers what the stream has seen.
        options: one source.
        report: is called with the result after each micro-batch.
        is_stopped: says whether to stop; is called each second.
        every: seconds between two looks; None: end when all has been counted.

    Raises:
        SourceNotFound: the source cannot be streamed.
        SettingsError: its columns are of no landing that is known.
    """
    rows = read_stream(spark, options.sources[0], options.form)
    land(rows, options.reading)  # fails at once where columns are missing
    open_observed(spark, settings)
    stream = _identity(options.sources[0])

    def count(batch: DataFrame, number: int) -> None:
        opened = open_definitions(spark, settings, options)
        events = _counted(spark, land(batch, options.reading), opened, options, settings, (stream, number))
        report(ProposeSummary(events, propose_kinds(read_observed(spark, settings), options.thresholds)))

    run_stream(rows, count, f"{absolute_location(settings.warehouse)}/_watch/propose-{stream}", is_stopped, every=every)


def open_definitions(spark: SparkSession, settings: Settings, options: ProposeOptions) -> OpenedIndex | None:
    """Open the definitions that events are matched with; None: there is no catalog yet, so nothing matches."""
    if not exists(spark, f"{absolute_location(settings.warehouse)}/changes/_delta_log"):
        return None
    try:
        return open_index(spark, settings, Scope(options.registry))
    except SnapshotNotFound:  # its tables are there, and empty
        return None


def write_proposals(summary: ProposeSummary, folder: str, thresholds: Thresholds) -> None:
    """Write a document and a page of evidence for each group; files with the same content stay as they are."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    for group, document in documents_of(summary.kinds).items():
        kinds = [one for one in summary.kinds if one.group == group]
        name = group.replace("/", "_").replace(":", "_")
        page = evidence_page(group, kinds, thresholds).encode()
        for path, text in ((target / f"{name}.xreg.json", as_bytes(document)), (target / f"{name}.md", page)):
            if not path.exists() or path.read_bytes() != text:
                path.write_bytes(text)
            summary.files.append(str(path))


def _counted(
    spark: SparkSession, landed: DataFrame, opened: OpenedIndex | None, options: ProposeOptions, settings: Settings,
    batch: tuple[str, int] | None,
) -> dict[str, int]:  # fmt: skip
    """Count landed rows into the table; return how many events there were, by what came of them."""
    sources = [f"stream {batch[0]}"] if batch else [_place_of(source) for source in options.sources]
    with large_batches(landed.sparkSession, landed):
        passed = landed.select(*LANDED).mapInArrow(_pass(opened.name if opened else None, options.keeps_values, sources), COLUMNS)
        rows = passed.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            added = merged(rows.filter("kind IS NOT NULL"))
            if batch:
                append_batch(added, settings, *batch)
            else:
                replace_sources(added, settings, sources)
            counts = rows.filter("kind IS NULL").groupBy("path").agg(F.sum("events").alias("events")).collect()
            return {row["path"]: row["events"] for row in counts}
        finally:
            rows.unpersist()


def _pass(
    index: str | None, keeps_values: bool, sources: list[str]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = None if index is None else open_store(SparkFiles.get(index), MatchRequest(with_values=False))
        counters = [EventCounter(keeps_values) for _ in sources]
        statuses: Counter[str] = Counter()
        for batch in batches:
            for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                _observe(matcher, batch.slice(start, _ROWS_AT_ONCE), counters, statuses)
        rows = [row for source, counter in zip(sources, counters, strict=True) for row in rows_of(counter, source)]
        empty = dict.fromkeys(OBSERVED_ROWS.names)
        rows += [empty | {"path": status, "events": times} for status, times in statuses.items()]
        yield from pa.Table.from_pylist(rows, OBSERVED_ROWS).to_batches()

    return run


def _observe(matcher: Matcher | None, batch: pa.RecordBatch, counters: list[EventCounter], statuses: Counter[str]) -> None:
    """Count the events of landed rows that no definition describes."""
    wanted = None if matcher is None else _described(matcher, batch, statuses)
    rows = batch if wanted is None else batch.take(pa.array(sorted({row for row, _ in wanted}), pa.int64()))
    numbers = range(batch.num_rows) if wanted is None else sorted({row for row, _ in wanted})
    by_source: dict[int, list[tuple[Event, str]]] = {}
    for number, row in zip(numbers, rows.to_pylist(), strict=True):
        day = row["landed_at"].date().isoformat() if row["landed_at"] else ""
        for event in (event for landed in landed_of_row(row) for event in events_of(landed)):
            if wanted is None:
                statuses[UNREADABLE if event.problem else UNMATCHED] += 1
            if not event.problem and (wanted is None or (number, event.item) in wanted):
                by_source.setdefault(row["ordinal"] or 0, []).append((event, day))
    for ordinal, events in by_source.items():
        counters[ordinal].add(events)


def _described(matcher: Matcher, batch: pa.RecordBatch, statuses: Counter[str]) -> set[tuple[int, int | None]]:
    """Match rows; return the events that match nothing: number of the row, and item of a batch."""
    at = batch.schema.get_field_index("row")
    numbered = batch.set_column(at, batch.schema.field(at), pa.array(range(batch.num_rows), pa.int64()))
    wanted: set[tuple[int, int | None]] = set()
    for results in match_batch(matcher, numbered):
        status = results.column("status")
        invalid = pc.and_(pc.equal(status, MATCHED), pc.is_in(results.column("payload_status"), pa.array(INVALID)))
        for name, times in Counter(pc.if_else(invalid, "invalid", status).to_pylist()).items():
            statuses[name if name in _COUNTED else UNMATCHED if name != "ambiguous" else MATCHED] += times
        chosen = results.filter(pc.equal(status, UNMATCHED))
        wanted |= set(
            zip(pc.struct_field(chosen.column("event_ref"), "row").to_pylist(), chosen.column("item").to_pylist(), strict=True)
        )
    return wanted


def _place_of(source: str) -> str:
    return absolute_location(source) if "/" in source or Path(source).exists() else source


def _identity(source: str) -> str:
    return hashlib.sha256(_place_of(source).encode()).hexdigest()[:16]


TABLE = "observed_paths"
_COUNTS = pa.map_(pa.string(), pa.int64())
OBSERVED_ROWS = pa.schema(
    [
        ("source", pa.string()), ("kind", pa.string()), ("path", pa.string()), ("type", pa.string()), ("day", pa.string()),
        ("events", pa.int64()), ("values", _COUNTS), ("sketch", pa.binary()), ("least", pa.float64()), ("greatest", pa.float64()),
        ("shortest", pa.int64()), ("longest", pa.int64()), ("formats", pa.list_(pa.string())), ("compared", pa.int64()),
        ("equals", _COUNTS),
    ]
)  # fmt: skip
COLUMNS = (
    "source STRING, kind STRING, path STRING, type STRING, day STRING, events BIGINT, values MAP<STRING, BIGINT>, sketch BINARY, "
    "least DOUBLE, greatest DOUBLE, shortest BIGINT, longest BIGINT, formats ARRAY<STRING>, compared BIGINT, "
    "equals MAP<STRING, BIGINT>"
)


def location_of(settings: Settings) -> str:
    """Return where the table is: below the warehouse, apart from the catalog's tables."""
    return f"{absolute_location(settings.warehouse)}/_propose/{TABLE}"


def open_observed(spark: SparkSession, settings: Settings) -> None:
    """Make the table where it is not there yet."""
    place = location_of(settings)
    if not exists(spark, f"{place}/_delta_log"):
        statement = (data_folder("ddl") / "propose" / f"{TABLE}.sql").read_text(encoding="utf-8").rstrip().removesuffix(";")
        spark.sql(statement.replace(f"IF NOT EXISTS {TABLE}", f"IF NOT EXISTS delta.`{place}`"))


def rows_of(counter: EventCounter, source: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of what was counted of a source."""
    for (kind, day), counted in sorted(counter.kinds.items()):
        yield from _rows(source, kind, day, settle(counted.counts))


def _rows(source: str, kind: str, day: str, counts: Counts) -> Iterator[dict[str, Any]]:
    for (path, name), one in counts.items():
        yield {
            "source": source, "kind": kind, "path": path, "type": name, "day": day, "events": one.events,
            "values": None if one.values is None else sorted(one.values.items()), "sketch": one.sketch,
            "least": one.least, "greatest": one.greatest, "shortest": one.shortest, "longest": one.longest,
            "formats": None if one.formats is None else sorted(one.formats),
            "compared": one.compared, "equals": sorted(one.equals.items()),
        }  # fmt: skip


def _counts(row: dict[str, Any]) -> PathCounts:
    return PathCounts(
        row["events"], None if row["values"] is None else dict(row["values"]), row["sketch"], row["least"], row["greatest"],
        row["shortest"], row["longest"], None if row["formats"] is None else frozenset(row["formats"]),
        row["compared"], dict(row["equals"]),
    )  # fmt: skip


def by_day(rows: Iterable[dict[str, Any]]) -> dict[str, Counts]:
    """Add up the rows of one kind, by day."""
    days: dict[str, KindCounts] = {}
    for row in rows:
        days.setdefault(row["day"], KindCounts()).add({(row["path"], row["type"]): _counts(row)})
    return {day: counts.counts for day, counts in days.items()}


def merged(rows: DataFrame) -> DataFrame:
    """Add up the rows of each source and kind: one shuffle of rows, of which there are as many as paths in each partition."""

    def merge(table: pa.Table) -> pa.Table:
        of_kind = table.to_pylist()
        source, kind = of_kind[0]["source"], of_kind[0]["kind"]
        added = (row for day, counts in sorted(by_day(of_kind).items()) for row in _rows(source, kind, day, settle(counts)))
        return pa.Table.from_pylist(list(added), OBSERVED_ROWS)

    return rows.groupBy("source", "kind").applyInArrow(merge, COLUMNS)


def replace_sources(rows: DataFrame, settings: Settings, sources: Iterable[str]) -> None:
    """Replace what was counted of sources, in one commit."""
    names = ", ".join("'" + source.replace("\\", "\\\\").replace("'", "\\'") + "'" for source in sources)
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", f"source IN ({names})")
    writer.save(location_of(settings))


def append_batch(rows: DataFrame, settings: Settings, stream: str, number: int) -> None:
    """Append what was counted of a micro-batch, once."""
    writer = rows.write.format("delta").mode("append").option("txnAppId", f"lakehouse-propose-{stream}")
    writer.option("txnVersion", str(number)).save(location_of(settings))


def read_observed(spark: SparkSession, settings: Settings) -> Iterator[Observed]:
    """Yield what was counted of each kind, over all sources and days, sorted by name; one kind is in memory at a time."""
    rows = spark.read.format("delta").load(location_of(settings)).drop("source").withColumn("source", F.lit(""))
    ordered = merged(rows.select(*OBSERVED_ROWS.names)).orderBy("kind")
    for kind, of_kind in groupby((row.asDict() for row in ordered.toLocalIterator()), itemgetter("kind")):
        yield Observed.of(kind, by_day(of_kind))
