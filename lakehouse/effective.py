"""The stored result of flattening, `effective_messages`: refreshed for exactly the messages whose chains a change touches.

It is computed by the same SQL as the view `flat_messages`: `scope` is the affected messages, and `messages` and `versions` are
those rows of the tables that their chains pass through. Each row tells in `depends_on` where its definition was sought, found or
not, so a message is affected when it changed itself, or when it depends on one that did.
"""

from __future__ import annotations

from functools import reduce

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.model import EFFECTIVE_MESSAGES, SCHEMA
from lakehouse.settings import Settings
from lakehouse.tables import table_name
from lakehouse.views import session_with_views

NAME = "effective_messages"
_KEY = ["registryid", "xid"]
_PATHS = "registryid string, version_xid string, path array<string>, is_open boolean, is_cycle boolean"


def append_all(session: SparkSession, settings: Settings | None, snapshot_id: int) -> None:
    """Fill the empty table, as a transaction of its own, so that two processes cannot both do it."""
    without_bases = _no_paths(session, session.table(table_name("versions")))
    looking = session_with_views(session, settings, SCHEMA, without_bases, ["flat_messages"])
    rows = _stamped(looking.table("flat_messages"), snapshot_id)
    writer = rows.write.format("delta").mode("append").option("txnAppId", f"lakehouse.{NAME}").option("txnVersion", 1)
    metadata = session.conf.get("spark.databricks.delta.commitInfo.userMetadata")
    writer.option("userMetadata", metadata).saveAsTable(table_name(NAME))


def refresh(session: SparkSession, settings: Settings | None, changes: DataFrame, snapshot_id: int) -> None:
    """Compute the affected rows again, and let go those of messages that are no more; it may be repeated.

    Args:
        session: a session of its own, in which the entity tables have reached the snapshot.
        settings: how far chains are followed.
        changes: rows of the log that the table has not seen, of messages and Versions.
        snapshot_id: the snapshot that the table reaches.
    """
    changed = _messages_of(changes).persist()
    affected = find_affected(session, changed).persist()
    nearby = changed
    try:
        nearby = _closure(session, changed, affected).persist()
        parts = {
            "messages": _only(session.table(table_name("messages")), nearby, F.col("xid")),
            "versions": _only(session.table(table_name("versions")), nearby, F.col("message_xid")),
            "scope": _only(session.table(table_name("messages")), affected, F.col("xid")),
        }
        parts |= _no_paths(session, parts["versions"])
        looking = session_with_views(session, settings, SCHEMA, parts, ["flat_messages"])
        _merge(session, affected, _stamped(looking.table("flat_messages"), snapshot_id))
    finally:
        nearby.unpersist()
        affected.unpersist()
        changed.unpersist()


def find_affected(session: SparkSession, changed: DataFrame) -> DataFrame:
    """Find the messages whose effective definition may be another one.

    Args:
        session: a session with the tables.
        changed: messages that changed, or whose Versions did; columns registryid, xid.

    Returns:
        Messages, `changed` among them; columns registryid, xid.
    """
    # What extends an alias depends on what the alias stands for, also when that was not there.
    messages = session.table(table_name("messages")).filter(F.col("xref").isNotNull())
    aliases = messages.select("registryid", "xid", F.col("xref"))
    renamed = aliases.join(F.broadcast(changed.withColumnRenamed("xid", "xref")), on=["registryid", "xref"]).select(*_KEY)
    names = changed.unionByName(renamed).withColumnRenamed("xid", "depended_on")
    stored = session.table(table_name(NAME)).select(*_KEY, F.explode("depends_on").alias("depended_on"))
    dependants = stored.join(F.broadcast(names), on=["registryid", "depended_on"], how="left_semi").select(*_KEY)
    return changed.unionByName(dependants).distinct()


def _no_paths(session: SparkSession, versions: DataFrame) -> dict[str, DataFrame]:
    """Give no rows to stand for the view of all paths when no Version has a base: most small changes are told so much sooner."""
    if not versions.filter(F.col("basemessage").isNotNull()).isEmpty():
        return {}
    return {"base_paths": session.createDataFrame([], _PATHS)}


def _messages_of(changes: DataFrame) -> DataFrame:
    return changes.select("registryid", _message(F.col("xid")).alias("xid")).distinct()


def _message(xid: Column) -> Column:
    """Give the message that an XID lies in: /messagegroups/g/messages/m of /messagegroups/g/messages/m/versions/v."""
    return F.array_join(F.slice(F.split(xid, "/"), 1, 5), "/")


def _closure(session: SparkSession, changed: DataFrame, affected: DataFrame) -> DataFrame:
    """Give all messages that the chains of the affected ones pass through.

    A chain passes through messages that changed, whose next is looked up, and others, whose row tells all that come after.
    """
    versions = _only(session.table(table_name("versions")), changed, F.col("message_xid"))
    bases = versions.filter(F.col("base_xid").isNotNull()).select("registryid", _message(F.col("base_xid")).alias("xid"))
    messages = _only(session.table(table_name("messages")), changed, F.col("xid"))
    targets = messages.filter(F.col("xref").isNotNull()).select("registryid", F.col("xref").alias("xid"))
    stored = session.table(table_name(NAME)).select(*_KEY, "depends_on")
    known = affected.unionByName(bases).unionByName(targets).distinct()
    further = _only(stored, known, F.col("xid")).select("registryid", F.explode("depends_on").alias("xid"))
    # An alias that is a base is no row that a chain passes through by itself: what it stands for is one too.
    every = known.unionByName(further).distinct()
    aliases = session.table(table_name("messages")).filter(F.col("xref").isNotNull())
    shown = _only(aliases, every, F.col("xid")).select("registryid", F.col("xref").alias("xid"))
    shown_further = _only(stored, shown, F.col("xid")).select("registryid", F.explode("depends_on").alias("xid"))
    return reduce(DataFrame.unionByName, (every, shown, shown_further)).distinct()


def _only(rows: DataFrame, messages: DataFrame, message: Column) -> DataFrame:
    wanted = messages.select(F.col("registryid").alias("_registryid"), F.col("xid").alias("_xid"))
    same = (rows["registryid"] == F.col("_registryid")) & (message == F.col("_xid"))
    return rows.join(F.broadcast(wanted), on=same, how="left_semi")


def _stamped(rows: DataFrame, snapshot_id: int) -> DataFrame:
    return rows.withColumn("snapshot_id", F.lit(snapshot_id).cast("bigint")).select(*EFFECTIVE_MESSAGES.names)


def _merge(session: SparkSession, affected: DataFrame, rows: DataFrame) -> None:
    values: dict[str, str | Column] = {name: f"source.{name}" for name in EFFECTIVE_MESSAGES.names}
    source = affected.join(rows, on=_KEY, how="left").alias("source")
    same = "target.registryid = source.registryid AND target.xid = source.xid"
    (
        DeltaTable.forName(session, table_name(NAME))
        .alias("target")
        .merge(source, same)
        .whenMatchedDelete("source.snapshot_id IS NULL")
        .whenMatchedUpdate("target.snapshot_id < source.snapshot_id", set=values)
        .whenNotMatchedInsert("source.snapshot_id IS NOT NULL", values=values)
        .execute()
    )
