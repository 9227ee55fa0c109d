"""The stored result of flattening, `effective_messages`: refreshed for exactly the messages whose chains a change touches.

Of many messages the view `computed_messages` computes it: `scope` is the affected messages, and `messages` and `versions` are
those rows of the tables that their chains pass through. Of few `domain.effective` does, out of the same rows. Each row shows in
`depends_on` where its definition was sought, found or not, so a message is affected when it changed itself, or when it depends
on one that did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StructField, StructType

from lakehouse.domain.bases import FlatAttributes
from lakehouse.domain.effective import EntityBodies
from lakehouse.settings import Settings
from lakehouse.store.deltatables import open_table
from lakehouse.store.materialize import (
    count,
    frame_of,
    hand_over,
    is_empty,
    is_known_empty,
    is_local,
    materialize,
    no_rows,
    size_of,
)
from lakehouse.store.merges import append_rows, by_key, ends_of, fill_table, merge_rows
from lakehouse.store.schema import EFFECTIVE_MESSAGES, SCHEMA
from lakehouse.store.views import MOST_BASES, most_based, read_view
from lakehouse.text.jsontext import canonical_text
from lakehouse.text.names import JsonText, RegistryId, Xid

NAME = "effective_messages"
EFFECTIVE = StructType([*EFFECTIVE_MESSAGES, StructField("is_there", BooleanType())])  # NULL: the message is no more
MOST_IN_DRIVER = 20_000  # messages, or Versions on their chains, that the driver flattens
_FEW_BYTES = 64 << 20  # of the definitions of these Versions
_ROWS_OF_A_PARTITION = 20_000  # some seconds; with 2,000 a refresh of 100,000 takes 1.6 times the CPU time
_KEY = ["registryid", "xid"]
_DEFINITION = "struct<depth: int, version_xid: string, basemessage: string, base_xid: string, attributes: map<string, string>>"
_MERGED = (
    "registryid string, version_xid string, chain_status string, chain_depth int, "
    f"definitions array<{_DEFINITION}>, attributes map<string, string>, sought array<string>"
)


def append_all(
    session: SparkSession,
    settings: Settings | None,
    snapshot_id: int,
    fresh: Mapping[str, DataFrame] | None = None,
    inserted: int | None = None,
) -> None:
    """Fill the empty table, as its own transaction, so that two processes cannot both do it.

    Args: as for `compute_all`; inserted: how many messages there are, where that is known.
    """
    messages = open_table(session, "messages") if fresh is None else fresh["messages"]
    fill_table(session, NAME, by_key(compute_all(session, settings, snapshot_id, fresh), messages.select(*_KEY), inserted))


def compute_all(
    session: SparkSession, settings: Settings | None, snapshot_id: int, fresh: Mapping[str, DataFrame] | None = None
) -> DataFrame:
    """Compute all rows of the table from `messages` and `versions` as they are.

    Args:
        session: its own session.
        settings: how far chains are followed.
        snapshot_id: the snapshot that the rows describe.
        fresh: the rows of the two tables, with op, where they are at hand; None: the tables are read.
    """
    parts = {} if fresh is None else {name: rows.filter("op <> 'delete'").drop("op") for name, rows in fresh.items()}
    versions = parts.get("versions", open_table(session, "versions"))
    based = _count_based(versions, is_stored=fresh is None)
    _plan_once(session)
    parts = parts if based != 0 else parts | _nothing_merged(session)
    flat = read_view(session, settings, SCHEMA, parts, "computed_messages", based=based)
    return _stamped(hand_over(flat, session), snapshot_id)


def refresh(
    session: SparkSession,
    settings: Settings | None,
    changes: DataFrame,
    snapshot_id: int,
    fresh: Mapping[str, DataFrame] | None = None,
    *,
    all_stored: bool = False,
) -> None:
    """Compute the affected rows again, and delete those of deleted messages; it may be repeated.

    Args:
        session: its own session, in which the entity tables have reached the snapshot, or `fresh` has what they lack.
        settings: how far chains are followed.
        changes: rows of the log that the table has not seen, of messages and Versions.
        snapshot_id: the snapshot that the table reaches.
        fresh: rows of `messages` and `versions` that stand for those of the tables, with the op that brought them.
        all_stored: no message or Version is new, so that each message has a row.
    """
    # Each step is computed once and its plan cut off: analysing the views over long plans takes longer than all the rest.
    tables = _laid_over(session, fresh or {})
    changed = materialize(_messages_of(changes))
    near = materialize(find_near(session, changed, _led_to(fresh or _rows_of(session, tables, changed)), tables["messages"]))
    affected = near.filter("is_affected").select(*_KEY)
    parts = _along_chains(session, tables, near)
    n = count(affected)
    if n <= MOST_IN_DRIVER and _are_few(parts["versions"]):
        rows = _compute_few(session, settings, affected, parts, snapshot_id)
    else:
        rows = _stamped(_compute_part(session, settings, affected, near, parts, n), snapshot_id, "is_there")
    ends = ends_of(session, NAME, affected)
    merge_rows(session, NAME, EFFECTIVE_MESSAGES.names, rows, gone="is_there IS NULL", ends=ends, all_stored=all_stored)


def _are_few(versions: DataFrame) -> bool:
    if is_local(versions):
        return count(versions) <= MOST_IN_DRIVER
    n, size = size_of(versions.select("attributes"))
    return n <= MOST_IN_DRIVER and size <= _FEW_BYTES


def _compute_few(
    session: SparkSession, settings: Settings | None, affected: DataFrame, parts: Mapping[str, DataFrame], snapshot_id: int
) -> DataFrame:
    """Compute rows, columns `EFFECTIVE`, in the driver: to plan the query takes longer. Arguments as for `refresh`."""
    bodies: dict[tuple[RegistryId, Xid], JsonText] = {}
    owners: dict[tuple[RegistryId, Xid], list[str]] = {}
    flat: dict[tuple[RegistryId, Xid], FlatAttributes] = {}
    for row in parts["messages"].select(*_KEY, "document_uris", "defaultversionid", "xref").collect():
        key = (row["registryid"], row["xid"])
        bodies[key], owners[key] = _body_of(row, "defaultversionid", "xref"), row["document_uris"]
    for row in parts["versions"].select(*_KEY, "basemessage", "attributes").collect():
        key = (row["registryid"], row["xid"])
        bodies[key], flat[key] = _body_of(row, "basemessage"), row["attributes"]
    depth = MOST_BASES if settings is None else settings.max_chain_depth
    found = EntityBodies(lambda *key: bodies.get(key), depth, lambda *key: flat.get(key))
    keys = [(row["registryid"], row["xid"]) for row in affected.collect()]
    return frame_of(session, [effective_row(found, *key, owners.get(key), snapshot_id) for key in keys], EFFECTIVE)


def _body_of(row: Row, *names: str) -> JsonText:
    return canonical_text({name: row[name] for name in names if row[name] is not None})


def effective_row(
    bodies: EntityBodies, registryid: RegistryId, message: Xid, document_uris: Sequence[str] | None, snapshot_id: int
) -> dict[str, Any]:
    """Return a row, columns `EFFECTIVE`, as Arrow takes it.

    Args:
        bodies: what is published.
        registryid: of the message.
        message: its XID.
        document_uris: that hold it; None: it is no more.
        snapshot_id: that the row is of.
    """
    if document_uris is None:
        return {"registryid": registryid, "xid": message, "snapshot_id": snapshot_id}
    row = bodies.effective(registryid, message)
    maps = {name: None if row[name] is None else list(row[name].items()) for name in ("labels", "attributes", "inferred")}
    return row | maps | {"document_uris": document_uris, "snapshot_id": snapshot_id, "is_there": True}


def _compute_part(
    session: SparkSession, settings: Settings | None, affected: DataFrame, near: DataFrame, parts: dict[str, DataFrame], n: int
) -> DataFrame:
    """Compute rows by the view; columns of the table but snapshot_id, and is_there. Arguments as for `refresh`; n: messages."""
    if is_known_empty(near.filter(~F.col("is_affected") | (F.size("depends_on") > 1))):  # no chain leads anywhere else
        scope = parts["messages"]
    else:
        scope = _only(parts["messages"], affected, F.col("xid"))
    based = _count_based(parts["versions"])
    parts = parts | {"scope": scope} | ({} if based != 0 else _nothing_merged(session))
    _plan_once(session)
    session.conf.set("spark.sql.shuffle.partitions", 1 + n // _ROWS_OF_A_PARTITION)
    flat = read_view(session, settings, SCHEMA, parts, "computed_messages", based=based)
    return affected.join(hand_over(flat, session).withColumn("is_there", F.lit(True)), on=_KEY, how="left")


def take(
    session: SparkSession, rows: DataFrame, *, is_new: bool, registries_are_new: bool, inserted: int, all_stored: bool
) -> None:
    """Take rows that were computed by `domain.effective`: those of messages that are no more are left out.

    Args:
        session: its own session.
        rows: columns of the table, and is_there (NULL: the message is no more).
        is_new: the table holds nothing yet.
        registries_are_new: it holds nothing of the registries of these messages.
        inserted: how many of these messages are new.
        all_stored: no message or Version is new, so that each message has a row.
    """
    if is_new or registries_are_new:
        present = rows.filter("is_there").drop("is_there")
        write = fill_table if is_new else append_rows
        write(session, NAME, by_key(present, present.select(*_KEY), inserted))
    else:
        ends = ends_of(session, NAME, rows.select(*_KEY))
        merge_rows(session, NAME, EFFECTIVE_MESSAGES.names, rows, gone="is_there IS NULL", ends=ends, all_stored=all_stored)


def _laid_over(session: SparkSession, fresh: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Return the tables that define messages, overlaid with rows."""
    tables = {name: open_table(session, name) for name in ("messages", "versions")}
    for name, rows in fresh.items():
        remaining = tables[name].join(F.broadcast(rows.select(*_KEY)), on=_KEY, how="left_anti")
        tables[name] = remaining.unionByName(rows.filter("op <> 'delete'").drop("op"))
    return tables


def find_near(session: SparkSession, changed: DataFrame, led_to: DataFrame, messages: DataFrame) -> DataFrame:
    """Find the messages whose effective definition may be another one, and what the definitions that changed lead to.

    Args:
        session: a session with the tables.
        changed: messages that changed, or whose Versions did; columns registryid, xid.
        led_to: messages that these name now as a base or by `xref`; columns registryid, xid.
        messages: the table as it is after the change.

    Returns:
        One row per message: registryid, xid, is_affected (`changed` and what depends on it), depends_on (as its row has it; empty
        where it has none).
    """
    # What extends an alias depends on what the alias stands for, also when that was not there.
    aliases = messages.filter(F.col("xref").isNotNull()).select("registryid", "xid", F.col("xref"))
    renamed = aliases.join(F.broadcast(changed.withColumnRenamed("xid", "xref")), on=["registryid", "xref"]).select(*_KEY)
    seeds = changed.withColumn("is_affected", F.lit(True)).unionByName(led_to.withColumn("is_affected", F.lit(False)))
    sought = seeds.unionByName(renamed.withColumn("is_affected", F.lit(True)))
    each_base = F.explode("depends_on").alias("depended_on")  # itself, too
    stored = open_table(session, NAME).select(*_KEY, "depends_on", each_base)
    result = stored.join(F.broadcast(sought.withColumnRenamed("xid", "depended_on")), on=["registryid", "depended_on"])
    result = result.filter(F.col("is_affected") | (F.col("xid") == F.col("depended_on")))
    every = result.select(*_KEY, "is_affected", "depends_on").unionByName(seeds, allowMissingColumns=True)
    depends_on = F.coalesce(F.any_value("depends_on", ignoreNulls=F.lit(True)), F.array().cast("array<string>"))
    return every.groupBy(*_KEY).agg(F.bool_or("is_affected").alias("is_affected"), depends_on.alias("depends_on"))


def _nothing_merged(session: SparkSession) -> dict[str, DataFrame]:
    """Return empty stand-ins for the views that follow bases, for Versions that have none, as in most small changes."""
    return {"merged_versions": no_rows(session, _MERGED)}


def _count_based(versions: DataFrame, *, is_stored: bool = False) -> int | None:
    """Return at least `most_based`; None: there are some, for rows that are not cheap to count are only looked at."""
    based = versions.filter(F.col("basemessage").isNotNull())
    if is_stored:
        return most_based(versions)
    if is_local(based):
        return count(based)
    return 0 if is_empty(based) else None


def _plan_once(session: SparkSession) -> None:
    """Plan the query once: Spark would otherwise plan it again after each of its many small steps, which takes longer."""
    session.conf.set("spark.sql.adaptive.enabled", "false")


def _messages_of(changes: DataFrame) -> DataFrame:
    return changes.select("registryid", _message(F.col("xid")).alias("xid")).distinct()


def _message(xid: Column) -> Column:
    """Return the XID of the message of an XID: /messagegroups/g/messages/m of /messagegroups/g/messages/m/versions/v."""
    return F.array_join(F.slice(F.split(xid, "/"), 1, 5), "/")


def _led_to(rows: Mapping[str, DataFrame]) -> DataFrame:
    """Return the messages that rows of `messages` and `versions` name as a base or by `xref`: registryid, xid."""
    bases = rows["versions"].filter(F.col("base_xid").isNotNull()).select("registryid", _message(F.col("base_xid")).alias("xid"))
    aliased = rows["messages"].filter(F.col("xref").isNotNull()).select("registryid", _message(F.col("xref")).alias("xid"))
    return bases.unionByName(aliased)


def _along_chains(session: SparkSession, tables: Mapping[str, DataFrame], near: DataFrame) -> dict[str, DataFrame]:
    """Return the rows of all messages that chains pass through, and possibly of more.

    A chain goes on from a message that changed to what it leads to now, and from any other over what its row depends on.

    Args:
        session: a session with the table.
        tables: `messages` and `versions` as they are after the change.
        near: as from `find_near`.
    """
    passed = near.select("registryid", F.explode(F.array_append("depends_on", F.col("xid"))).alias("xid"))
    parts = _rows_of(session, tables, passed)
    # A base that is named by its Version may be one that its message does not show, and lead where no row depends on.
    while not is_known_empty(parts["versions"].filter(F.col("base_xid").contains("/versions/"))):
        passed = materialize(passed.distinct())
        further = materialize(_led_to(parts).join(passed, on=_KEY, how="left_anti").distinct())
        if is_empty(further):
            break
        stored = open_table(session, NAME).select(*_KEY, "depends_on")
        behind = _only(stored, further, F.col("xid")).select("registryid", F.explode("depends_on").alias("xid"))
        passed = passed.unionByName(further).unionByName(behind)
        parts = _rows_of(session, tables, passed)
    return parts


def _rows_of(session: SparkSession, tables: Mapping[str, DataFrame], messages: DataFrame) -> dict[str, DataFrame]:
    """Return the rows that define messages: their own, and those of their Versions."""
    wanted = {"messages": F.col("xid"), "versions": F.col("message_xid")}
    ends = ends_of(session, "versions", messages)

    def read(name: str) -> DataFrame:
        rows = tables[name]
        if ends is not None:  # Delta leaves out files
            rows = rows.filter(F.col("registryid").between(*ends.registryid) & wanted[name].between(*ends.xid))
        return materialize(_only(rows, messages, wanted[name]))

    with ThreadPoolExecutor(len(wanted)) as pool:
        return dict(zip(wanted, pool.map(read, wanted), strict=True))


def _only(rows: DataFrame, messages: DataFrame, message: Column) -> DataFrame:
    wanted = messages.select(F.col("registryid").alias("_registryid"), F.col("xid").alias("_xid"))
    same = (rows["registryid"] == F.col("_registryid")) & (message == F.col("_xid"))
    return rows.join(F.broadcast(wanted), on=same, how="left_semi")


def _stamped(rows: DataFrame, snapshot_id: int, *also: str) -> DataFrame:
    return rows.withColumn("snapshot_id", F.lit(snapshot_id).cast("bigint")).select(*EFFECTIVE_MESSAGES.names, *also)
