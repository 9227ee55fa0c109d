"""Change events: what the snapshots changed, as CloudEvents.

Two feeds: that of the xRegistry core (`io.xregistry.<entity>.<action>`, core/events.md) and that of message catalogs
(`io.cloudevents.messagecatalog.updated.v1` and `.deleted.v1`; CAT-196 to CAT-211). Both follow from the log alone, so an event
told twice is the same event, with the same id: readers that resume from a snapshot miss none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.window import Window

from lakehouse.settings import Settings
from lakehouse.store.tables import attach_tables, table_name

CORE = "core"
MESSAGE_CATALOG = "messagecatalog"
FEEDS = (CORE, MESSAGE_CATALOG)
EVENT = ("snapshot_id", "registryid", "type", "subject", "time", "changed")

_UPDATED = "io.cloudevents.messagecatalog.updated.v1"
_DELETED = "io.cloudevents.messagecatalog.deleted.v1"
_ENTITY = {
    "registry": "registry",
    "group": "group",
    "endpoint": "group",
    "message": "resource",
    "schema": "resource",
    "version": "version",
    "schemaversion": "version",
}
_ACTION = {"insert": "created", "update": "updated", "delete": "deleted"}
_OF_REGISTRY = ("model", "modelsource", "capabilities")
_ZONED = r"\A\d{4}-\d\d-\d\d[Tt][0-9:.]+([Zz]|[+-]\d\d:\d\d)\z"
_EVERY_FILE = 1_000_000


def change_events(
    spark: SparkSession, settings: Settings, since: int, until: int | None = None, feeds: Sequence[str] = FEEDS
) -> DataFrame:
    """Give the events of the snapshots after `since`; the table `changes` must be attached.

    Args:
        spark: the session.
        settings: `events_source`.
        since: the last snapshot that the reader knows; 0: none.
        until: the last snapshot to tell of; None: the head.
        feeds: which feeds.

    Returns:
        One row per event, in order: snapshot_id, event (CloudEvents JSON).
    """
    log = spark.table(table_name("changes"))
    if until is not None:
        log = log.filter(F.col("snapshot_id") <= until)
    changed = with_before(log, since)
    makers = {CORE: core_events, MESSAGE_CATALOG: message_catalog_events}
    events = reduce(DataFrame.unionByName, (makers[feed](changed) for feed in feeds))
    commits = log.filter((F.col("kind") == "snapshot") & (F.col("snapshot_id") > since)).select(
        "snapshot_id",
        _text(F.to_timestamp(F.get_json_object("body", "$.committed_at"))).alias("committed_at"),
        F.get_json_object("body", "$.ingest_id").alias("ingest_id"),
    )
    told = events.join(F.broadcast(commits), on="snapshot_id", how="inner")
    return told.orderBy("snapshot_id", "registryid", "subject", "type").select(
        "snapshot_id", as_cloudevent(settings.events_source).alias("event")
    )


def with_before(log: DataFrame, since: int) -> DataFrame:
    """Give the changes after a snapshot, each with the body that the entity had before.

    Args:
        log: columns `schema.CHANGES`.
        since: the snapshot.

    Returns:
        Rows of entities that came, changed or went: registryid, kind, xid, op, snapshot_id, createdat, modifiedat, raw, body,
        before (NULL: it was not there).
    """
    entities = log.filter(F.col("kind").isin(*_ENTITY))
    key = ["registryid", "kind", "xid"]
    touched = entities.filter((F.col("snapshot_id") > since) & (F.col("op") != "own")).select(*key).distinct()
    earlier_first = Window.partitionBy(*key).orderBy("snapshot_id")
    last = F.lag(F.struct("op", "body")).over(earlier_first)
    columns = [*key, "snapshot_id", "op", "createdat", "modifiedat", "raw", "body"]
    return (
        entities.join(touched, on=key, how="left_semi")
        .select(*columns, last.alias("last"))
        .filter((F.col("snapshot_id") > since) & (F.col("op") != "own"))
        .select(*columns, F.when(F.col("last.op") != "delete", F.col("last.body")).alias("before"))
    )


def core_events(changed: DataFrame) -> DataFrame:
    """Give the events of the xRegistry core: at most one of created, updated, deleted for a subject in a snapshot.

    Args:
        changed: as from `with_before`.

    Returns:
        Columns `EVENT`; time is NULL: that of the commit.
    """
    own = _with_changed(changed)
    parts = [_own_events(own), *_parent_events(own), *_part_events(own)]
    every = reduce(DataFrame.unionByName, parts)
    rank = F.array_position(F.array(*map(F.lit, ("updated", "created", "deleted"))), F.col("action"))
    # A deprecation stands beside the other events of its subject; of those the strongest is told.
    beside = F.when(F.col("action") == "deprecation", F.col("action")).otherwise(F.lit(""))
    merged = every.groupBy("snapshot_id", "registryid", "entity", "subject", beside.alias("beside")).agg(
        F.max_by("action", rank).alias("action"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_list("changed")))).alias("all"),
    )
    has_list = F.col("action").isin("updated", "deprecation") & ~F.col("entity").isin("model", "modelsource")
    return merged.select(
        "snapshot_id",
        "registryid",
        F.concat_ws(".", F.lit("io.xregistry"), "entity", "action").alias("type"),
        "subject",
        F.lit(None).cast("string").alias("time"),
        F.when(has_list, F.col("all")).alias("changed"),
    )


def message_catalog_events(changed: DataFrame) -> DataFrame:
    """Give the events of message catalogs: of message groups, messages and their Versions, without data (CAT-202).

    Args:
        changed: as from `with_before`.

    Returns:
        Columns `EVENT`; time as recorded at the entity (CAT-200), NULL for deletions: that of the commit.
    """
    part = F.split("xid", "/")
    subject = F.concat(
        F.lit("/messagecatalog/"),
        F.get(part, F.lit(2)),
        F.when(F.size(part) > 4, F.concat(F.lit("/messagedefinitions/"), F.get(part, F.lit(4)))).otherwise(""),
        F.when(F.size(part) > 6, F.concat(F.lit("/versions/"), F.get(part, F.lit(6)))).otherwise(""),
    )
    recorded = F.when(F.col("kind") == "version", _recorded("createdat")).otherwise(_recorded("modifiedat"))
    is_deleted = F.col("op") == "delete"
    return changed.filter(F.col("xid").startswith("/messagegroups/")).select(
        "snapshot_id",
        "registryid",
        F.when(is_deleted, F.lit(_DELETED)).otherwise(F.lit(_UPDATED)).alias("type"),
        subject.alias("subject"),
        F.when(~is_deleted, recorded).alias("time"),
        F.lit(None).cast("array<string>").alias("changed"),
    )


def as_cloudevent(source: str) -> Column:
    """Write an event as CloudEvents JSON.

    Args:
        source: URL of the registry; `{registryid}` stands for its id.

    Returns:
        Text over the columns `EVENT`, committed_at and ingest_id. The id begins with the number of the snapshot, and is the same
        whenever the event is told.
    """
    digest = F.substring(F.sha2(F.concat_ws("\n", "registryid", "type", "subject"), 256), 1, 32)
    return F.to_json(
        F.struct(
            F.lit("1.0").alias("specversion"),
            "type",
            F.replace(F.lit(source), F.lit("{registryid}"), F.col("registryid")).alias("source"),
            "subject",
            F.concat_ws("-", F.col("snapshot_id").cast("string"), digest).alias("id"),
            F.coalesce("time", "committed_at").alias("time"),
            F.col("ingest_id").alias("xregcorrelationid"),
            F.when(F.col("changed").isNotNull(), F.lit("application/json")).alias("datacontenttype"),
            F.when(F.col("changed").isNotNull(), F.struct("changed")).alias("data"),
        )
    )


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
        once: end when all that is there was told; False: go on.

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
    """Give a writer for `stream_changes`: JSON lines, one folder a batch, written anew when it comes again."""

    def write(events: DataFrame, number: int) -> None:
        events.coalesce(1).select("event").write.mode("overwrite").text(f"{folder}/batch={number:010}")

    return write


def _with_changed(changed: DataFrame) -> DataFrame:
    """Tell which attributes changed, by name, as `names`; all that it has where it came or went."""
    before, after = F.coalesce(_members("before"), _no_members()), F.coalesce(_members("body"), _no_members())
    differs = F.map_filter(F.map_zip_with(before, after, lambda _, x, y: x.eqNullSafe(y)), lambda _, same: ~same)
    return changed.withColumns({"names": F.map_keys(differs), "entity": _looked_up(_ENTITY, "kind")}).withColumns(
        {"action": _looked_up(_ACTION, "op"), "all_names": F.map_keys(after)}
    )


def _own_events(own: DataFrame) -> DataFrame:
    """Give the events of the entities themselves; a Version that only became or ceased to be the default has none."""
    dates = F.array(F.lit("epoch"), F.lit("modifiedat"))
    names = F.array_union(F.array_except("names", F.array(F.lit("isdefault"))), dates)
    is_meta = F.col("entity") == "resource"
    named = F.when(is_meta, F.transform(names, lambda name: F.concat(F.lit("meta."), name))).otherwise(names)
    only_pointed_at = (F.col("op") == "update") & (F.col("names") == F.array(F.lit("isdefault")))
    return own.filter(~only_pointed_at).select(
        "snapshot_id", "registryid", "entity", F.col("xid").alias("subject"), "action", named.alias("changed")
    )


def _parent_events(own: DataFrame) -> list[DataFrame]:
    """Give the events of those that hold what came or went, and of the Resource whose default Version changed."""
    part = F.split("xid", "/")
    collection = F.get(part, F.size(part) - 2)
    came_or_went = F.col("op") != "update"
    holder = F.regexp_replace("xid", r"/[^/]+/[^/]+\z", "")

    def parent(rows: DataFrame, entity: str, changed: Column) -> DataFrame:
        subject = F.when(holder == "", F.lit("/")).otherwise(holder)
        return rows.select(
            "snapshot_id",
            "registryid",
            F.lit(entity).alias("entity"),
            subject.alias("subject"),
            F.lit("updated").alias("action"),
            changed.alias("changed"),
        )

    def listed(*names: str) -> Column:
        return F.array(*map(F.lit, names), collection, F.concat(collection, F.lit("count")))

    became = F.array_contains("names", "isdefault")
    dates = F.array(F.lit("epoch"), F.lit("modifiedat"))
    all_or_names = F.when(became, F.array_union("names", "all_names")).otherwise(F.col("names"))
    shown_names = F.array_except(all_or_names, F.array(F.lit("isdefault")))
    shown = (F.col("entity") == "version") & (became | F.get_json_object("body", "$.isdefault").eqNullSafe("true"))
    return [
        parent(own.filter((F.col("entity") == "group") & came_or_went), "registry", listed("epoch", "modifiedat")),
        parent(own.filter((F.col("entity") == "resource") & came_or_went), "group", listed("epoch", "modifiedat")),
        parent(own.filter((F.col("entity") == "version") & came_or_went), "resource", listed("meta.epoch", "meta.modifiedat")),
        parent(own.filter(shown & (F.col("op") == "update")), "resource", F.array_union(shown_names, dates)),
    ]


def _part_events(own: DataFrame) -> list[DataFrame]:
    """Give the events of a registry's model and capabilities, and of deprecations."""
    of_registry = own.filter((F.col("entity") == "registry") & (F.col("op") == "update"))
    touched = F.array_intersect("names", F.array(*map(F.lit, _OF_REGISTRY)))
    parts = of_registry.withColumn("entity", F.explode(touched)).withColumn("changed", _differing_members("capabilities"))
    deprecations = (
        own.filter(
            F.col("entity").isin("group", "resource") & (F.col("op") != "delete") & F.array_contains("names", "deprecated")
        )
        .withColumn("action", F.lit("deprecation"))
        .withColumn("changed", _differing_members("deprecated"))
    )
    return [
        rows.select("snapshot_id", "registryid", "entity", F.col("xid").alias("subject"), "action", "changed")
        for rows in (parts, deprecations)
    ]


def _members(column: str) -> Column:
    """Give the attributes of a body by name as JSON text, unknown ones among the others."""
    known = F.from_json(column, "map<string,string>")
    unknown = F.coalesce(F.from_json(F.get_json_object(column, "$.extensions"), "map<string,string>"), _no_members())
    return F.map_zip_with(F.map_filter(known, lambda name, _: name != "extensions"), unknown, lambda _, x, y: F.coalesce(x, y))


def _differing_members(name: str) -> Column:
    """Give the names of the members of an object-valued attribute that differ."""
    before, after = (
        F.coalesce(F.from_json(F.get_json_object(column, f"$.{name}"), "map<string,string>"), _no_members())
        for column in ("before", "body")
    )
    return F.map_keys(F.map_filter(F.map_zip_with(before, after, lambda _, x, y: x.eqNullSafe(y)), lambda _, same: ~same))


def _no_members() -> Column:
    return F.create_map().cast("map<string,string>")


def _looked_up(table: dict[str, str], column: str) -> Column:
    return F.create_map(*(F.lit(part) for pair in table.items() for part in pair))[F.col(column)]


def _recorded(name: str) -> Column:
    """Give a date as the document wrote it, where it did so with a zone, else as it is stored."""
    written = F.get_json_object("raw", f"$.{name}")
    return F.when(F.regexp_like(written, F.lit(_ZONED)), written).otherwise(_text(F.col(name)))


def _text(moment: Column) -> Column:
    return F.concat(F.translate(moment.cast("string"), " ", "T"), F.lit("Z"))
