"""A run of `lakehouse propose`: sources → events that match no definition → counts in a table → documents in a folder.

One `mapInArrow` pass matches and counts; each task emits a row for each kind, path, type and day that it met, so what is shuffled
grows with kinds and paths, not with events.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import reduce
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkFiles, StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import SnapshotNotFound
from lakehouse.match.definition.scope import Scope
from lakehouse.match.distributed import OpenedIndex, large_batches, open_index, open_store
from lakehouse.match.evaluation import MATCHED, UNMATCHED, UNREADABLE
from lakehouse.match.event.adapters import LANDED, read_stream
from lakehouse.match.event.canonical import Event, events_of
from lakehouse.match.matcher import Matcher, MatchRequest
from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.runs import MatchOptions, land, read_landed
from lakehouse.match.vectorized.batch import landed_of_row, match_batch, not_collecting
from lakehouse.match.vectorized.columns import columns_of
from lakehouse.progress import Clock, Watcher
from lakehouse.propose.columnevents import count_records
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.discriminators import Discriminators, SharedAddresses, discriminator_of
from lakehouse.propose.evidence import evidence_page
from lakehouse.propose.kinds import EventCounter
from lakehouse.propose.pathcounts import Counts, KindCounts, PathCounts, fold_maps
from lakehouse.propose.proposals import ProposedKind, as_bytes, groups_of, propose_kinds
from lakehouse.propose.widening import BrokenSchema, WidenedVersion, widen_versions
from lakehouse.settings import Settings, data_folder
from lakehouse.store.files import exists
from lakehouse.store.microbatches import run_stream
from lakehouse.store.session import absolute_location
from lakehouse.text.names import RegistryId
from lakehouse.text.objectcolumns import Flags

INVALID = ("invalid", "undecodable")
_COUNTED = ("matched", "invalid", "unmatched", "unreadable")
_ROWS_AT_ONCE = 10_000  # whose events are Python's at a time
_SHARED = "shared addresses"  # a row of what may distinguish the kinds at an address
EventPlace = tuple[int, int | None]  # number of the row, and item of a batch
Counters = defaultdict[tuple[int, str], EventCounter]  # by source, and the schema that payloads break


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
        kinds: what is proposed for events that no definition describes.
        widened: what is proposed for schemas that payloads break.
        files: what was written.
    """

    events: dict[str, int] = field(default_factory=dict)
    kinds: list[ProposedKind] = field(default_factory=list)
    widened: list[WidenedVersion] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the summary as one JSON value."""
        counts = {name: self.events.get(name, 0) for name in _COUNTED}
        kinds = [{"kind": proposed.observed.kind, "group": proposed.group, "events": proposed.events} for proposed in self.kinds]
        schemas = [version.as_json() for version in self.widened]
        return {"read": sum(counts.values()), **counts, "kinds": kinds, "schemas": schemas, "files": self.files}


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
        return decide(spark, settings, options, opened, events)


def decide(
    spark: SparkSession, settings: Settings, options: ProposeOptions, opened: OpenedIndex | None, events: dict[str, int]
) -> ProposeSummary:
    """Decide what is proposed from all that was counted.

    Args:
        spark: the session.
        settings: the warehouse.
        options: how much evidence decides.
        opened: the definitions of the catalog, with the schemas that payloads break.
        events: how many the run read, by what came of them.
    """
    observed = list(read_observed(spark, settings))
    widened = []
    if opened is not None:
        versions = open_store(opened.path, MatchRequest()).payloads.schemas.versions
        widened = widen_versions([kind for kind in observed if kind.breaks], versions, options.thresholds)
    kinds = propose_kinds([kind for kind in observed if not kind.breaks], options.thresholds)
    return ProposeSummary(events, kinds, widened)


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
        report(decide(spark, settings, options, opened, events))

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
    for name, group in groups_of(summary.kinds, summary.widened).items():
        file = name.replace("/", "_").replace(":", "_")
        page = evidence_page(name, group, thresholds).encode()
        for path, text in ((target / f"{file}.xreg.json", as_bytes(group.document)), (target / f"{file}.md", page)):
            if not path.exists() or path.read_bytes() != text:
                path.write_bytes(text)
            summary.files.append(str(path))


def _counted(
    spark: SparkSession, landed: DataFrame, opened: OpenedIndex | None, options: ProposeOptions, settings: Settings,
    batch: tuple[str, int] | None,
) -> dict[str, int]:  # fmt: skip
    """Count landed rows into the table; return how many events there were, by what came of them."""
    sources = [f"stream {batch[0]}"] if batch else [_place_of(source) for source in options.sources]
    discriminators = counted_discriminators(spark, settings)
    with large_batches(landed.sparkSession, landed), ExitStack() as persisted:
        while True:  # once more where a discriminator is new: its kinds are counted apart
            run = counting(opened.name if opened else None, options.keeps_values, sources, discriminators)
            rows = landed.select(*LANDED).mapInArrow(run, COLUMNS).persist(StorageLevel.MEMORY_AND_DISK)
            persisted.callback(rows.unpersist)
            of_all = rows.filter("kind IS NULL").select("path", "source", "events", "sketch").collect()
            shared = SharedAddresses.of_rows((row["source"], bytes(row["sketch"])) for row in of_all if row["path"] == _SHARED)
            found = shared.discriminators()
            if not found.keys() - discriminators.keys():
                break
            discriminators |= found
        added = merged(rows.filter("kind IS NOT NULL"))
        if batch:
            append_batch(added, settings, *batch)
        else:
            replace_sources(added, settings, sources)
        counts: Counter[str] = Counter()
        for row in of_all:
            counts[row["path"]] += row["events"] or 0
        return {name: counts[name] for name in _COUNTED if name in counts}


def counted_discriminators(spark: SparkSession, settings: Settings) -> dict[str, str]:
    """Return the discriminators of the kinds that were counted before, by address."""
    kinds = spark.read.format("delta").load(location_of(settings)).filter(F.col("kind").contains("?/")).select("kind").distinct()
    found = [discriminator_of(row["kind"]) for row in kinds.orderBy("kind").collect()]
    return {discriminator.address: discriminator.path for discriminator in found if discriminator is not None}


def counting(
    index: str | None, keeps_values: bool, sources: list[str], discriminators: Discriminators
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what counts landed rows, given to `mapInArrow`: a row of `COLUMNS` for each kind, path, type and day of a task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = None if index is None else open_store(SparkFiles.get(index), MatchRequest(with_values=False))
        counters: Counters = defaultdict(lambda: EventCounter(keeps_values, discriminators))
        statuses: Counter[str] = Counter()
        with not_collecting():
            for batch in batches:
                for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                    _observe(matcher, batch.slice(start, _ROWS_AT_ONCE), counters, statuses)
        rows = [row for (source, breaks), counter in counters.items() for row in rows_of(counter, sources[source], breaks)]
        empty = dict.fromkeys(OBSERVED_ROWS.names)
        shared = (row for (_, breaks), counter in counters.items() if not breaks for row in counter.shared.rows())
        rows += [empty | {"path": _SHARED, "source": address, "sketch": text} for address, text in shared]
        rows += [empty | {"path": status, "events": times} for status, times in statuses.items()]
        yield from pa.Table.from_pylist(rows, OBSERVED_ROWS).to_batches()

    return run


def _observe(matcher: Matcher | None, batch: pa.RecordBatch, counters: Counters, statuses: Counter[str]) -> None:
    """Count the events of landed rows that no definition describes, or whose payload breaks the schema of theirs."""
    unlike = np.ones(batch.num_rows, bool) if matcher is None else _unlike(matcher, batch)
    done = np.zeros(batch.num_rows, bool)
    done[unlike] = count_records(batch.filter(pa.array(unlike)), lambda ordinal: counters[ordinal, ""])
    statuses[UNMATCHED] += int(done.sum())
    left, unlike = batch.filter(pa.array(~done)), unlike[~done]
    wanted = {} if matcher is None else _described(matcher, left, ~unlike, statuses)
    schemas: dict[tuple[str, str], str | None] = {}
    chosen: defaultdict[tuple[int, str], list[tuple[Event, str]]] = defaultdict(list)
    numbers = sorted({*np.nonzero(unlike)[0].tolist(), *(row for row, _ in wanted)})
    for number, row in zip(numbers, left.take(pa.array(numbers, pa.int64())).to_pylist(), strict=True):
        day = row["landed_at"].date().isoformat() if row["landed_at"] else ""
        for event in (event for landed in landed_of_row(row) for event in events_of(landed)):
            if unlike[number]:
                statuses[UNREADABLE if event.problem else UNMATCHED] += 1
            if event.problem or not (unlike[number] or (number, event.item) in wanted):
                continue
            definition = wanted.get((number, event.item))
            if matcher is not None and definition is not None and definition not in schemas:
                schemas[definition] = _broken_by(matcher, event)
            breaks = "" if definition is None else schemas[definition]
            if breaks is not None:
                chosen[row["ordinal"] or 0, breaks].append((event, day))
    for key, events in chosen.items():
        counters[key].add(events)


def _unlike(matcher: Matcher, batch: pa.RecordBatch) -> Flags:
    """Return which rows are of a type that no definition is a candidate for: they match nothing."""
    unlike = np.zeros(batch.num_rows, bool)
    for columns in columns_of(batch) if not matcher.index.always else ():
        kinds, address = columns.attribute("type"), columns.option(columns.binding.discriminator)
        codes = np.where(columns.is_ready, kinds.codes * (len(address.words) + 1) + address.codes, -1)
        for code in np.unique(codes[codes >= 0]).tolist():
            event = columns.event()
            event.ce["type"] = kinds.distinct[code // (len(address.words) + 1)]
            event.options[columns.binding.discriminator] = address.distinct[code % (len(address.words) + 1)]
            if not matcher.candidates(event):
                unlike[columns.numbers[codes == code]] = True
    return unlike


def _broken_by(matcher: Matcher, event: Event) -> str | None:
    """Return the schema that the payload of an event breaks; None: its definition holds it itself."""
    shown = matcher.match(event)[0].shown
    resolved = None if shown is None else matcher.payloads.schemas.resolve(shown.definition)
    broken = BrokenSchema.of(resolved) if isinstance(resolved, Resolved) else None
    return None if broken is None else broken.written


def _described(
    matcher: Matcher, batch: pa.RecordBatch, is_meant: Flags, statuses: Counter[str]
) -> dict[EventPlace, tuple[str, str] | None]:
    """Match rows; return the events to count: None for one that matches nothing, else the definition whose schema it breaks."""
    at = batch.schema.get_field_index("row")
    numbered = batch.set_column(at, batch.schema.field(at), pa.array(range(batch.num_rows), pa.int64()))
    numbered = numbered.filter(pa.array(is_meant))
    wanted: dict[EventPlace, tuple[str, str] | None] = {}
    for results in match_batch(matcher, numbered):
        status = results.column("status")
        invalid = pc.and_(pc.equal(status, MATCHED), pc.is_in(results.column("payload_status"), pa.array(INVALID)))
        for name, times in Counter(pc.if_else(invalid, "invalid", status).to_pylist()).items():
            statuses[name if name in _COUNTED else UNMATCHED if name != "ambiguous" else MATCHED] += times
        chosen = results.filter(pc.or_(pc.equal(status, UNMATCHED), invalid))
        rows = pc.struct_field(chosen.column("event_ref"), "row").to_pylist()
        columns = (chosen.column(name).to_pylist() for name in ("item", "status", "registryid", "xid"))
        for row, item, of_event, registryid, xid in zip(rows, *columns, strict=True):
            wanted[row, item] = None if of_event == UNMATCHED else (registryid, xid)
    return wanted


def _place_of(source: str) -> str:
    return absolute_location(source) if "/" in source or Path(source).exists() else source


def _identity(source: str) -> str:
    return hashlib.sha256(_place_of(source).encode()).hexdigest()[:16]


TABLE = "observed_paths"
_GROUPED = ("source", "kind", "breaks")
_ADDS_COLUMNS = ("mergeSchema", "true")  # a table of an earlier release has fewer
_COUNTS = pa.map_(pa.string(), pa.int64())
OBSERVED_ROWS = pa.schema(
    [
        ("source", pa.string()), ("kind", pa.string()), ("path", pa.string()), ("type", pa.string()), ("day", pa.string()),
        ("events", pa.int64()), ("values", _COUNTS), ("sketch", pa.binary()), ("least", pa.float64()), ("greatest", pa.float64()),
        ("shortest", pa.int64()), ("longest", pa.int64()), ("formats", pa.list_(pa.string())), ("compared", pa.int64()),
        ("equals", _COUNTS), ("breaks", pa.string()),
        ("producers", pa.list_(pa.string())),
    ]
)  # fmt: skip
COLUMNS = (
    "source STRING, kind STRING, path STRING, type STRING, day STRING, events BIGINT, values MAP<STRING, BIGINT>, sketch BINARY, "
    "least DOUBLE, greatest DOUBLE, shortest BIGINT, longest BIGINT, formats ARRAY<STRING>, compared BIGINT, "
    "equals MAP<STRING, BIGINT>, breaks STRING, producers ARRAY<STRING>"
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


def rows_of(counter: EventCounter, source: str, breaks: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of what was counted of a source, and of payloads that break one schema, if they do."""
    for (kind, day), counted in sorted(counter.kinds.items()):
        yield from _rows(source, kind, breaks, day, fold_maps(counted.counts)[0])


def _rows(source: str, kind: str, breaks: str, day: str, counts: Counts) -> Iterator[dict[str, Any]]:
    is_hidden = ("", "object") in counts and counts["", "object"].producers is None
    for (path, name), path_counts in counts.items():
        yield {
            "source": source, "kind": kind, "path": path, "type": name, "day": day, "events": path_counts.events,
            "values": None if path_counts.values is None else sorted(path_counts.values.items()), "sketch": path_counts.sketch,
            "least": path_counts.least, "greatest": path_counts.greatest,
            "shortest": path_counts.shortest, "longest": path_counts.longest,
            "formats": None if path_counts.formats is None else sorted(path_counts.formats),
            "compared": path_counts.sampled, "equals": sorted(path_counts.equals.items()),
            "breaks": breaks or None,
            "producers": None if is_hidden or path_counts.producers is None else sorted(path_counts.producers),
        }  # fmt: skip


def _counts(row: dict[str, Any]) -> PathCounts:
    return PathCounts(
        row["events"], None if row["values"] is None else dict(row["values"]), row["sketch"], row["least"], row["greatest"],
        row["shortest"], row["longest"], None if row["formats"] is None else frozenset(row["formats"]),
        row["compared"], dict(row["equals"]), None if row["producers"] is None else frozenset(row["producers"]),
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
        source, kind, breaks = (of_kind[0][name] or "" for name in _GROUPED)
        days = sorted(by_day(of_kind).items())
        added = (row for day, counts in days for row in _rows(source, kind, breaks, day, fold_maps(counts)[0]))
        return pa.Table.from_pylist(list(added), OBSERVED_ROWS)

    return rows.groupBy(*_GROUPED).applyInArrow(merge, COLUMNS)


def replace_sources(rows: DataFrame, settings: Settings, sources: Iterable[str]) -> None:
    """Replace what was counted of sources, in one commit."""
    names = ", ".join("'" + source.replace("\\", "\\\\").replace("'", "\\'") + "'" for source in sources)
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", f"source IN ({names})")
    writer.option(*_ADDS_COLUMNS).save(location_of(settings))


def append_batch(rows: DataFrame, settings: Settings, stream: str, number: int) -> None:
    """Append what was counted of a micro-batch, once."""
    writer = rows.write.format("delta").mode("append").option("txnAppId", f"lakehouse-propose-{stream}")
    writer.option("txnVersion", str(number)).option(*_ADDS_COLUMNS).save(location_of(settings))


def read_observed(spark: SparkSession, settings: Settings) -> Iterator[Observed]:
    """Yield what was counted of each kind, over all sources and days, sorted by name; what breaks a schema is apart."""
    rows = spark.read.format("delta").load(location_of(settings)).drop("source").withColumn("source", F.lit(""))
    ordered = merged(rows.select(*OBSERVED_ROWS.names)).orderBy("kind", "breaks")
    for (kind, breaks), of_kind in groupby((row.asDict() for row in ordered.toLocalIterator()), itemgetter("kind", "breaks")):
        yield Observed.of(kind, by_day(of_kind), breaks or "")
