"""Change events by Spark: it finds what changed, with the state before, and `lakehouse.domain.events` makes the events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.window import Window

from lakehouse.domain.events import (
    CORE,
    ENTITY_OF_KIND,
    FEEDS,
    Changed,
    Commit,
    Endpoints,
    SubjectChange,
    as_cloudevent,
    event_of,
    parts_of,
)  # fmt: skip
from lakehouse.domain.versionchanges import VERSION_KINDS
from lakehouse.readmodel.queries import ReferringBodies, endpoints_broken_by
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_tables, table_name
from lakehouse.text.names import JsonText, RegistryId, Xid

_KEY = ["registryid", "kind", "xid"]
_EVENT = ["snapshot_id", "registryid", "entity", "subject", "is_deprecation"]
_PARTS = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        *((name, pa.string()) for name in ("registryid", "entity", "subject", "action")),
        ("names", pa.list_(pa.string())),
        ("time", pa.string()),
        ("compatibility", pa.string()),
    ]
)
_PART_COLUMNS = (
    "snapshot_id long, registryid string, entity string, subject string, action string, names array<string>, time string, "
    "compatibility string"
)
# Of these entities, what `endpoints_broken_by` looks up: XIDs, references, default Versions and usage.
_REFERRING = ("endpoint", "schema", "schemaversion", "version")
_OF_VERSION = ("basemessage", "dataschemauri", "dataschemaxid")
_BrokenAt = dict[tuple[int, RegistryId, str], Endpoints]  # by snapshot, registry and subject
_WRITTEN = ("registryid", "subject", "type", "event")
_EVERY_FILE = 1_000_000


def change_events(
    spark: SparkSession,
    settings: Settings,
    since: int,
    until: int | None = None,
    feeds: Sequence[str] = FEEDS,
    *,
    registryid: RegistryId | None = None,
) -> DataFrame:
    """Return the events of the snapshots after `since`; the table `changes` must be attached.

    Args:
        spark: the session.
        settings: `events_source`.
        since: the last snapshot that the reader knows; 0: none.
        until: the last snapshot to report; None: the head.
        feeds: which feeds.
        registryid: only of this registry; None: of all.

    Returns:
        One row per event, in order: snapshot_id, event (CloudEvents JSON).
    """
    log = spark.table(table_name("changes"))
    if until is not None:
        log = log.filter(F.col("snapshot_id") <= until)
    commits = log.filter((F.col("kind") == "snapshot") & (F.col("snapshot_id") > since)).select(
        "snapshot_id", *(F.get_json_object("body", f"$.{name}").alias(name) for name in ("committed_at", "ingest_id"))
    )
    log = log if registryid is None else log.filter(F.col("registryid") == registryid)
    changed = with_before(log, since)
    parts = changed.mapInArrow(_parts_maker(feeds), _PART_COLUMNS)
    broken = _broken_endpoints(log, changed) if CORE in feeds else {}
    is_deprecation = (F.col("action") == "deprecation").alias("is_deprecation")
    part = F.struct(*SubjectChange._fields)
    gathered = parts.groupBy(*_EVENT[:-1], is_deprecation).agg(F.collect_list(part).alias("parts"))
    rows = gathered.join(F.broadcast(commits), on="snapshot_id", how="inner").select(*Commit._fields, "parts")
    columns = ", ".join(f"{name} string" for name in _WRITTEN)
    written = rows.mapInArrow(_writer(settings.events_source, broken), f"snapshot_id long, {columns}")
    return written.orderBy("snapshot_id", "registryid", "subject", "type").select("snapshot_id", "event")


def with_before(log: DataFrame, since: int) -> DataFrame:
    """Return the changes after a snapshot, each with the body that the entity had before, new Versions with their ancestor's.

    Args:
        log: columns `schema.CHANGES`.
        since: the snapshot.

    Returns:
        Rows of entities that came, changed or went: snapshot_id and the fields of `Changed`; before NULL: it was not there.
    """
    entities = log.filter(F.col("kind").isin(*ENTITY_OF_KIND))
    is_change = (F.col("snapshot_id") > since) & (F.col("op") != "own")
    touched = entities.filter(is_change).select(*_KEY).distinct()
    earlier_first = Window.partitionBy(*_KEY).orderBy("snapshot_id")
    last = F.lag(F.struct("op", "body")).over(earlier_first)
    dates = (F.unix_micros(name).alias(name) for name in ("createdat", "modifiedat"))
    before = F.when(F.col("last.op") != "delete", F.col("last.body")).alias("before")
    columns = [*Changed._fields[:-2]]
    changed = (
        entities.join(touched, on=_KEY, how="left_semi")
        .select("snapshot_id", *_KEY, "op", *dates, "raw", "body", last.alias("last"))
        .filter(is_change)
        .select("snapshot_id", *columns, before)
    )
    return _with_ancestors(changed, entities)


def _with_ancestors(changed: DataFrame, entities: DataFrame) -> DataFrame:
    """Add the column `ancestor`: of a Version that came the body of its ancestor, as it is in that snapshot."""
    place = ["snapshot_id", *_KEY]
    versionid = F.get_json_object("body", "$.ancestor")
    is_made = F.col("before").isNull() & (F.col("op") != "delete") & (versionid != F.element_at(F.split("xid", "/"), -1))
    made = changed.filter(F.col("kind").isin(*VERSION_KINDS) & is_made).select(
        *place, F.concat(F.regexp_replace("xid", "[^/]+$", ""), versionid).alias("_ancestor")
    )
    earlier = entities.select(
        "registryid", "kind", F.col("xid").alias("_ancestor"), F.col("snapshot_id").alias("_at"), "op", "body"
    )
    last = F.max_by(F.struct("op", "body"), "_at").alias("last")
    result = made.join(earlier, on=["registryid", "kind", "_ancestor"]).filter(F.col("_at") <= F.col("snapshot_id"))
    bodies = result.groupBy(*place).agg(last).filter("last.op <> 'delete'").select(*place, F.col("last.body").alias("ancestor"))
    return changed.join(bodies, on=place, how="left").select(*changed.columns, "ancestor")


def _broken_endpoints(log: DataFrame, changed: DataFrame) -> _BrokenAt:
    """Find the endpoints at which Versions that changed or came break someone: few do, so the driver looks."""
    has_earlier = F.col("kind").isin(*VERSION_KINDS) & (F.col("before").isNotNull() | F.col("ancestor").isNotNull())
    parts = changed.filter(has_earlier).mapInArrow(_parts_maker([CORE]), _PART_COLUMNS)
    rows = parts.filter(F.col("compatibility").contains('"yes"')).collect()
    results: _BrokenAt = {}
    for snapshot_id in sorted({row["snapshot_id"] for row in rows}):
        events = [event_of([SubjectChange(*row[1:])]) for row in rows if row["snapshot_id"] == snapshot_id]
        references = ReferringBodies(_references_at(log, snapshot_id, {event.registryid for event in events}))
        for event in events:
            endpoints = endpoints_broken_by(references, event.registryid, Xid(event.subject), event.broken)
            results[snapshot_id, event.registryid, event.subject] = endpoints
    return results


def _references_at(
    log: DataFrame, snapshot_id: int, registryids: set[RegistryId]
) -> Iterator[tuple[RegistryId, str, Xid, JsonText]]:
    """Yield what refers to something in a snapshot: registryid, kind, XID, and a body with the references alone."""
    rows = log.filter(F.col("kind").isin(*_REFERRING) & F.col("registryid").isin(*registryids))
    last = F.max_by(F.struct("op", "body"), "snapshot_id").alias("last")
    existing = rows.filter(F.col("snapshot_id") <= snapshot_id).groupBy(*_KEY).agg(last).filter("last.op <> 'delete'")
    references = F.to_json(F.struct(*(F.get_json_object("last.body", f"$.{name}").alias(name) for name in _OF_VERSION)))
    body = (
        F.when(F.col("kind") == "version", references).when(F.col("kind") == "schemaversion", "{}").otherwise(F.col("last.body"))
    )
    yield from map(tuple, existing.select(*_KEY, body).toLocalIterator())


def stream_changes(
    spark: SparkSession,
    settings: Settings,
    write: Callable[[DataFrame, int], None],
    checkpoint: str,
    *,
    feeds: Sequence[str] = FEEDS,
    once: bool = True,
) -> StreamingQuery:
    """Follow the log as a stream: each batch hands over the events of the snapshots that came.

    The position is kept at `checkpoint`. Batches come in the order of the snapshots; one whose writing failed comes again with
    the same events under the same ids.

    Args:
        spark: the session.
        settings: warehouse, `events_source`.
        write: takes the events (columns snapshot_id, event; in order) and the number of the batch, and writes them to files,
            Kafka or wherever.
        checkpoint: folder or URI of the stream's own state.
        feeds: which feeds.
        once: end when all that is there was reported; False: go on.

    Returns:
        The running query; `awaitTermination` waits for its end.
    """
    attach_tables(spark, settings, ["changes"])

    def tell(batch: DataFrame, number: int) -> None:
        # A snapshot is one Delta commit, so the table has all of it when the stream has any of it.
        came = batch.filter(F.col("kind") == "snapshot").agg(F.min("snapshot_id"), F.max("snapshot_id")).collect()[0]
        if came[0] is not None:
            write(change_events(spark, settings, came[0] - 1, came[1], feeds), number)

    stream = spark.readStream.option("maxFilesPerTrigger", _EVERY_FILE).table(table_name("changes")).select("kind", "snapshot_id")
    writer = stream.writeStream.foreachBatch(tell).option("checkpointLocation", checkpoint)
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="10 seconds")).start()


def write_events_to_folder(folder: str) -> Callable[[DataFrame, int], None]:
    """Return a writer for `stream_changes`: JSON lines, a folder for each batch, replaced if the batch is repeated."""

    def write(events: DataFrame, number: int) -> None:
        events.coalesce(1).select("event").write.mode("overwrite").text(f"{folder}/batch={number:010}")

    return write


def _parts_maker(feeds: Sequence[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` that makes parts of events of the rows of `with_before`."""

    def make(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
            parts = [(number, part) for number, *row in rows for part in parts_of(Changed._make(row), feeds)]
            yield pa.RecordBatch.from_pylist([{"snapshot_id": number, **part._asdict()} for number, part in parts], _PARTS)

    return make


def _writer(source: str, broken: _BrokenAt) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` that writes the event of a row: the fields of `Commit`, and the parts of the event.

    Args:
        source: URL of the registry.
        broken: the endpoints at which events break someone.
    """
    schema = pa.schema([("snapshot_id", pa.int64()), *((name, pa.string()) for name in _WRITTEN)])

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            written = []
            for *of_commit, parts in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                commit, event = Commit._make(of_commit), event_of([SubjectChange(**part) for part in parts])
                endpoints = broken.get((commit.snapshot_id, event.registryid, event.subject)) if event.broken else None
                text = as_cloudevent(event, commit, source, endpoints)
                written.append((commit.snapshot_id, event.registryid, event.subject, event.type, text))
            yield pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in written], schema)

    return write
