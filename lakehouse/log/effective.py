"""The stored result of flattening, `effective_messages`: refreshed for exactly the messages whose chains a change touches.

The view `computed_messages` computes it: `scope` is the affected messages, and `messages` and `versions` are
those rows of the tables that their chains pass through. Each row tells in `depends_on` where its definition was sought, found or
not, so a message is affected when it changed itself, or when it depends on one that did.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.settings import Settings
from lakehouse.store.frames import can_skip, count, hand_over, is_empty, keep
from lakehouse.store.positions import first_transaction
from lakehouse.store.schema import EFFECTIVE_MESSAGES, SCHEMA
from lakehouse.store.sessions import is_interpreted
from lakehouse.store.tables import ends_of, merge_rows, table_name
from lakehouse.store.views import read_view

NAME = "effective_messages"
_ROWS_OF_A_PARTITION = 20_000  # some seconds; with 2,000 a refresh of 100,000 takes 1.6 times the CPU time
_KEY = ["registryid", "xid"]
_DEFINITION = "struct<depth: int, version_xid: string, basemessage: string, base_xid: string, attributes: map<string, string>>"
_MERGED = (
    "registryid string, version_xid string, chain_status string, chain_depth int, "
    f"definitions array<{_DEFINITION}>, attributes map<string, string>, sought array<string>"
)


def append_all(
    session: SparkSession, settings: Settings | None, snapshot_id: int, fresh: Mapping[str, DataFrame] | None = None
) -> None:
    """Fill the empty table, as a transaction of its own, so that two processes cannot both do it.

    Args: as for `compute_all`.
    """
    rows = compute_all(session, settings, snapshot_id, fresh)
    writer = rows.write.format("delta").mode("append").options(**first_transaction(NAME))
    metadata = session.conf.get("spark.databricks.delta.commitInfo.userMetadata")
    writer.option("userMetadata", metadata).saveAsTable(table_name(NAME))


def compute_all(
    session: SparkSession, settings: Settings | None, snapshot_id: int, fresh: Mapping[str, DataFrame] | None = None
) -> DataFrame:
    """Compute all rows of the table from `messages` and `versions` as they are.

    Args:
        session: a session of its own.
        settings: how far chains are followed.
        snapshot_id: the snapshot that the rows tell of.
        fresh: the rows of the two tables, with op, where they are at hand; None: the tables are read.
    """
    parts = {} if fresh is None else {name: rows.filter("op <> 'delete'").drop("op") for name, rows in fresh.items()}
    versions = parts.get("versions", session.table(table_name("versions")))
    has_bases = not is_empty(versions.filter(F.col("basemessage").isNotNull()))
    _plan_once(session)
    return _stamped(_flattened(session, settings, parts if has_bases else parts | _nothing_merged(session)), snapshot_id)


def refresh(
    session: SparkSession,
    settings: Settings | None,
    changes: DataFrame,
    snapshot_id: int,
    fresh: Mapping[str, DataFrame] | None = None,
) -> None:
    """Compute the affected rows again, and let go those of messages that are no more; it may be repeated.

    Args:
        session: a session of its own, in which the entity tables have reached the snapshot, or `fresh` tells what they lack.
        settings: how far chains are followed.
        changes: rows of the log that the table has not seen, of messages and Versions.
        snapshot_id: the snapshot that the table reaches.
        fresh: rows of `messages` and `versions` that stand for those of the tables, with the op that brought them.
    """
    # Each step is computed once and its plan cut off: analysing the views over long plans takes longer than all the rest.
    tables = _laid_over(session, fresh or {})
    changed = keep(_messages_of(changes))
    affected = keep(find_affected(session, changed, tables["messages"]))
    parts = _rows_of(tables, affected)
    links = [parts["versions"].filter(F.col("base_xid").isNotNull()), parts["messages"].filter(F.col("xref").isNotNull())]
    scope = parts["messages"]
    if not all(can_skip(rows) for rows in links):
        led_to = links[0].select("registryid", _message(F.col("base_xid")).alias("xid"))
        led_to = led_to.unionByName(links[1].select("registryid", _message(F.col("xref")).alias("xid"))).distinct()
        parts = _rows_of(tables, keep(_closure(session, affected, led_to)))
        scope = _only(parts["messages"], affected, F.col("xid"))
    parts |= {"scope": scope}
    if is_empty(parts["versions"].filter(F.col("basemessage").isNotNull())):
        parts |= _nothing_merged(session)
    _plan_once(session)
    session.conf.set("spark.sql.shuffle.partitions", 1 + count(affected) // _ROWS_OF_A_PARTITION)
    flat = _flattened(session, settings, parts).withColumn("is_there", F.lit(True))
    rows = _stamped(affected.join(flat, on=_KEY, how="left"), snapshot_id, "is_there")
    if is_interpreted(session):  # a merge computes its source twice
        rows = keep(rows)
    ends = ends_of(session, NAME, affected)
    merge_rows(session, NAME, EFFECTIVE_MESSAGES.names, rows, gone="is_there IS NULL", ends=ends)


def _flattened(session: SparkSession, settings: Settings | None, parts: Mapping[str, DataFrame]) -> DataFrame:
    """Read `computed_messages`, for which rows stand in."""
    return hand_over(read_view(session, settings, SCHEMA, parts, "computed_messages"), session)


def _laid_over(session: SparkSession, fresh: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Give the tables that define messages, with rows laid over them."""
    tables = {name: session.table(table_name(name)) for name in ("messages", "versions")}
    for name, rows in fresh.items():
        others = tables[name].join(F.broadcast(rows.select(*_KEY)), on=_KEY, how="left_anti")
        tables[name] = others.unionByName(rows.filter("op <> 'delete'").drop("op"))
    return tables


def find_affected(session: SparkSession, changed: DataFrame, messages: DataFrame) -> DataFrame:
    """Find the messages whose effective definition may be another one.

    Args:
        session: a session with the tables.
        changed: messages that changed, or whose Versions did; columns registryid, xid.
        messages: the table as it is after the change.

    Returns:
        Messages, `changed` among them; columns registryid, xid.
    """
    # What extends an alias depends on what the alias stands for, also when that was not there.
    aliases = messages.filter(F.col("xref").isNotNull()).select("registryid", "xid", F.col("xref"))
    renamed = aliases.join(F.broadcast(changed.withColumnRenamed("xid", "xref")), on=["registryid", "xref"]).select(*_KEY)
    names = changed.unionByName(renamed).withColumnRenamed("xid", "depended_on")
    stored = session.table(table_name(NAME)).select(*_KEY, F.explode("depends_on").alias("depended_on"))
    dependants = stored.join(F.broadcast(names), on=["registryid", "depended_on"], how="left_semi").select(*_KEY)
    return changed.unionByName(dependants).distinct()


def _nothing_merged(session: SparkSession) -> dict[str, DataFrame]:
    """Give no rows to stand for what follows bases, when no Version has one: most small changes are told so much sooner."""
    return {"merged_versions": session.createDataFrame([], _MERGED).filter(F.lit(False))}


def _plan_once(session: SparkSession) -> None:
    """Let Spark plan the query once: to plan it again after each of its many small steps takes longer than the steps."""
    session.conf.set("spark.sql.adaptive.enabled", "false")


def _messages_of(changes: DataFrame) -> DataFrame:
    return changes.select("registryid", _message(F.col("xid")).alias("xid")).distinct()


def _message(xid: Column) -> Column:
    """Give the message that an XID lies in: /messagegroups/g/messages/m of /messagegroups/g/messages/m/versions/v."""
    return F.array_join(F.slice(F.split(xid, "/"), 1, 5), "/")


def _closure(session: SparkSession, affected: DataFrame, led_to: DataFrame) -> DataFrame:
    """Give all messages that the chains of the affected ones pass through.

    A chain goes on from a message that changed to what it leads to now, and from any other over what its row depends on.

    Args:
        session: a session with the tables.
        affected: as from `find_affected`.
        led_to: messages that the affected ones name as a base or by `xref`; columns registryid, xid.
    """
    stored = session.table(table_name(NAME)).select(*_KEY, "depends_on")
    known = affected.unionByName(led_to).distinct()
    further = _only(stored, known, F.col("xid")).select("registryid", F.explode("depends_on").alias("xid"))
    return known.unionByName(further).distinct()


def _rows_of(tables: Mapping[str, DataFrame], messages: DataFrame) -> dict[str, DataFrame]:
    """Give the rows that define messages: theirs, and those of their Versions."""
    return {
        "messages": keep(_only(tables["messages"], messages, F.col("xid"))),
        "versions": keep(_only(tables["versions"], messages, F.col("message_xid"))),
    }


def _only(rows: DataFrame, messages: DataFrame, message: Column) -> DataFrame:
    wanted = messages.select(F.col("registryid").alias("_registryid"), F.col("xid").alias("_xid"))
    same = (rows["registryid"] == F.col("_registryid")) & (message == F.col("_xid"))
    return rows.join(F.broadcast(wanted), on=same, how="left_semi")


def _stamped(rows: DataFrame, snapshot_id: int, *also: str) -> DataFrame:
    return rows.withColumn("snapshot_id", F.lit(snapshot_id).cast("bigint")).select(*EFFECTIVE_MESSAGES.names, *also)
