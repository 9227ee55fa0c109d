"""The entity tables follow the log: each takes the rows above its own position in one commit that may be repeated.

A process that died between commit and projection loses nothing: the next one that writes (an ingest, `validate`, a rebuild, a
restore, a server) rolls the tables forward first. Until then the tables are behind the log, and read as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.dialects.tables import shorthands
from lakehouse.failpoints import crash_point
from lakehouse.log import effectivetable
from lakehouse.log.snapshotfacts import Head
from lakehouse.settings import Settings
from lakehouse.store.deltatables import table_name
from lakehouse.store.materialize import hand_over, materialize
from lakehouse.store.merges import append_rows, by_key, ends_of, fill_table, merge_rows
from lakehouse.store.schema import (
    ENDPOINTS,
    ENTITY_TABLES,
    GROUPS,
    MESSAGES,
    SCHEMAS,
    SCHEMAVERSIONS,
    VERSIONS,
    Table,
    body_schema,
)
from lakehouse.store.session import open_sibling
from lakehouse.store.tablelog import (
    as_transaction,
    is_conflict,
    last_transaction,
    metadata_of_commits,
    recorded_position,
    retries,
    set_commit_metadata,
    version_at,
    was_never_written,
)

_THREADS = 4
_DEFINING = ("messages", "versions")  # what effective_messages follows


class Update(NamedTuple):
    """What a snapshot brings to the tables.

    Attributes:
        entities: its rows of the log, columns `schema.CHANGES`, where the driver or files of the stage hold them: all tables then
            take them at once, and none waits for another.
        definitions: rows of `effective_messages` that these change, as of `Plan.effective`; None: they are computed.
        registries_are_new: the tables have nothing of the registries of `entities`: these are appended.
        inserted: how many new entities come to each table; where none do, it has a row for each of `entities`.
    """

    entities: DataFrame
    definitions: DataFrame | None
    registries_are_new: bool
    inserted: Mapping[str, int]


def roll_forward(
    spark: SparkSession,
    head: Head,
    verified: Head | None = None,
    settings: Settings | None = None,
    *,
    update: Update | None = None,
) -> list[str]:
    """Roll all entity tables forward to the head.

    Args:
        spark: the session.
        head: the newest snapshot.
        verified: a snapshot that all tables are known to have reached, so that only those changed since are looked at.
        settings: how far chains of bases are followed; None: as far as can be.
        update: what came between `verified` and the head; None: it is read from the log.

    Returns:
        Names of the tables that lagged behind.
    """
    needed = find_lagging(spark, head, verified, settings)
    early: str | None = None
    with ThreadPoolExecutor(_THREADS) as pool:
        tables = [table for table in ENTITY_TABLES if table.name in needed]
        flattened = None
        if verified is not None and update is not None and effectivetable.NAME in needed:
            flattened = pool.submit(_try_effective_forward, spark, head, verified, settings, update)
        behind = [*pool.map(lambda table: _roll_forward(spark, table, head, verified, update), tables)]
        if flattened is not None:
            early = flattened.result()
    if effectivetable.NAME in needed:
        behind.append(early or _roll_effective_forward(spark, head, None if flattened else verified, settings))
    return [name for name in behind if name is not None]


def find_lagging(
    spark: SparkSession, head: Head, verified: Head | None = None, settings: Settings | None = None
) -> dict[str, int]:
    """Find the tables that may lag behind, by what their newest commits say of themselves; the tables are not read.

    Each table that ever held a row is looked at: a server commits several snapshots before the tables take the first.

    Args: as for `roll_forward`.

    Returns:
        The snapshot that each of them has to reach.
    """
    since = verified.snapshot_id if verified else 0
    needed = {table.name: head.tables.get(table.name, 0) for table in ENTITY_TABLES}
    needed = {name: snapshot_id for name, snapshot_id in needed.items() if snapshot_id > since}
    defined = _defined(head)
    if (settings is None or settings.refresh_effective) and defined > (verified.snapshot_id if verified else 0):
        needed[effectivetable.NAME] = defined
    if verified is not None:
        return needed
    with ThreadPoolExecutor(_THREADS) as pool:
        details = dict(zip(needed, pool.map(lambda name: recorded_position(spark, name), needed), strict=True))
    return {name: snapshot_id for name, snapshot_id in needed.items() if details[name] < snapshot_id}


def effective_is_behind(spark: SparkSession, head: Head) -> bool:
    """Return whether `effective_messages` has not reached the last snapshot that changed a message or a Version.

    One that is not there has not; a dry run makes none.
    """
    if not spark.catalog.tableExists(table_name(effectivetable.NAME)):
        return True
    needed = _defined(head)
    return recorded_position(spark, effectivetable.NAME) < needed and _position(spark, effectivetable.NAME, needed)[1] < needed


def effective_version(spark: SparkSession, past: Head) -> int | None:
    """Find the version of `effective_messages` that holds what flattening gave at a snapshot, as long as Delta keeps its files.

    Args:
        spark: the session, the table attached.
        past: as from `read_head_at`.
    """
    defined = _defined(past)
    return version_at(spark, effectivetable.NAME, defined, past.snapshot_id) if defined else None


def rebuild_table(spark: SparkSession, table: Table, head: Head) -> None:
    """Make an entity table again from the log, in one commit; what it held is not read."""
    session = open_sibling(spark)
    log = session.table(table_name("changes"))
    rows = last_rows(log.filter((F.col("kind") == table.kind) & (F.col("snapshot_id") <= head.snapshot_id)))
    rows = rows.filter(F.col("op") != "delete")
    _overwrite(session, table.name, head, by_key(project(rows, table), rows.select("registryid", "xid")))


def rebuild_effective(spark: SparkSession, settings: Settings, head: Head) -> None:
    """Compute `effective_messages` again from the tables, in one commit; what it held is not read."""
    session = open_sibling(spark)
    rows = effectivetable.compute_all(session, settings, head.snapshot_id)
    keys = session.table(table_name(MESSAGES.name)).select("registryid", "xid")
    _overwrite(session, effectivetable.NAME, head, by_key(rows, keys))


def last_rows(changes: DataFrame) -> DataFrame:
    """Keep the last row of each entity.

    Args:
        changes: rows of one kind.
    """
    newest_first = Window.partitionBy("registryid", "xid").orderBy(F.desc("snapshot_id"))
    return changes.withColumn("nth", F.row_number().over(newest_first)).filter("nth = 1").drop("nth")


def project(changes: DataFrame, table: Table, *also: str) -> DataFrame:
    """Turn rows of the log into rows of an entity table.

    Args:
        changes: rows of one kind, one per entity; columns `schema.CHANGES`.
        table: the table of that kind.
        also: more columns of `changes` to keep.

    Returns:
        The table's columns, and those of `also`.
    """
    columns = [f"{expression} AS {name}" for name, expression in expressions(table).items()]
    return changes.selectExpr("*", f"{parsed_body(table)} AS b").selectExpr(*columns, *also)


def parsed_body(table: Table) -> str:
    """Return the SQL expression that reads `body`; `expressions` names its result `b`."""
    return f"from_json(body, '{body_schema(table).simpleString()}')"


def expressions(table: Table) -> dict[str, str]:
    """Return each column of an entity table as an SQL expression over a row of the log and `b`.

    This is the one definition of what a table makes of the log: the tables and the views at a snapshot use it.
    """
    derived = _derived(table)
    return {name: derived.get(name, f"b.{name}" if name in table.body else name) for name in table.columns.names}


def _roll_forward(
    spark: SparkSession,
    table: Table,
    head: Head,
    verified: Head | None,
    update: Update | None = None,
) -> str | None:
    def bring(session: SparkSession, is_new: bool, position: int) -> None:
        at_hand = update if verified is not None and position == verified.snapshot_id else None
        inserted = None if at_hand is None else at_hand.inserted.get(table.name, 0)
        log = session.table(table_name("changes")) if at_hand is None else hand_over(at_hand.entities, session)
        unseen = log.filter((F.col("kind") == table.kind) & (F.col("snapshot_id") > position))
        if is_new:
            rows = unseen.filter(F.col("snapshot_id") <= head.snapshot_id)
            rows = rows if position == head.tables[table.name] - 1 else last_rows(rows)
            rows = rows.filter(F.col("op") != "delete")
            fill_table(session, table.name, by_key(project(rows, table), rows.select("registryid", "xid"), inserted))
        elif at_hand is not None and at_hand.registries_are_new:
            append_rows(session, table.name, by_key(project(unseen, table), unseen.select("registryid", "xid"), inserted))
        else:
            # Also what was committed meanwhile: what is deleted by now must not be inserted again by a process that is late.
            ends = ends_of(session, table.name, unseen)
            if ends is not None:  # the ends are of these rows, whatever is committed meanwhile
                unseen = unseen.filter(F.col("snapshot_id") <= F.lit(ends.newest))
            rows = project(last_rows(unseen) if at_hand is None else unseen, table, "op")
            names = table.columns.names
            merge_rows(session, table.name, names, rows, gone="op = 'delete'", ends=ends, all_stored=inserted == 0)

    is_unfilled = verified is not None and table.name not in verified.tables
    return _bring_forward(spark, table.name, head.tables[table.name], head, verified, is_unfilled, bring)


def _roll_effective_forward(spark: SparkSession, head: Head, verified: Head | None, settings: Settings | None) -> str | None:
    def bring(session: SparkSession, is_new: bool, position: int) -> None:
        if is_new:
            effectivetable.append_all(session, settings, head.snapshot_id)
        else:
            log = session.table(table_name("changes")).filter(F.col("kind").isin("message", "version"))
            unseen = log.filter((F.col("snapshot_id") > position) & (F.col("snapshot_id") <= head.snapshot_id))
            effectivetable.refresh(session, settings, unseen, head.snapshot_id)

    needed = _defined(head)
    is_unfilled = verified is not None and not any(table in verified.tables for table in _DEFINING)
    return _bring_forward(spark, effectivetable.NAME, needed, head, verified, is_unfilled, bring)


def _try_effective_forward(
    spark: SparkSession,
    head: Head,
    verified: Head,
    settings: Settings | None,
    update: Update,
) -> str | None:
    """Roll `effective_messages` forward together with the tables that it reads, by their new rows in memory.

    Returns:
        Its name; None where another process filled it: it is to be rolled forward then.
    """
    session = _open_projecting(spark, head)
    as_transaction(session, effectivetable.NAME, head.snapshot_id)
    is_new = not any(table in verified.tables for table in _DEFINING)
    try:
        rows = hand_over(update.entities, session)
        is_defining = F.col("kind").isin("message", "version")
        all_stored = not is_new and not any(update.inserted.get(name) for name in _DEFINING)
        if update.definitions is not None:
            effectivetable.take(
                session,
                hand_over(update.definitions, session),
                is_new=is_new,
                registries_are_new=update.registries_are_new,
                inserted=update.inserted.get(MESSAGES.name, 0),
                all_stored=all_stored,
            )
            return _reached(session, head, is_new=is_new)
        defining = {table: rows.filter(F.col("kind") == table.kind) for table in (MESSAGES, VERSIONS)}
        fresh = {table.name: materialize(project(changed, table, "op")) for table, changed in defining.items()}
        if not is_new:
            effectivetable.refresh(session, settings, rows.filter(is_defining), head.snapshot_id, fresh, all_stored=all_stored)
        else:
            effectivetable.append_all(session, settings, head.snapshot_id, fresh, update.inserted.get(MESSAGES.name, 0))
        return _reached(session, head, is_new=is_new)
    except Exception as error:
        if is_conflict(error):
            return None
        raise


def _reached(session: SparkSession, head: Head, *, is_new: bool) -> str | None:
    if is_new and recorded_position(session, effectivetable.NAME) < head.snapshot_id:
        return None
    crash_point(f"after_project_{effectivetable.NAME}")
    return effectivetable.NAME


def _bring_forward(
    spark: SparkSession,
    name: str,
    needed: int,
    head: Head,
    verified: Head | None,
    is_unfilled: bool,
    bring: Callable[[SparkSession, bool, int], None],
) -> str | None:
    """Roll one table forward in its own session if it lags behind; return its name then, else None.

    Where another process brings it forward at the same time, one of the two is refused by Delta, and looks again. Where one
    has brought it further, this one's commit is left out.
    """
    session = _open_projecting(spark, head)
    for attempt in retries(8):
        with attempt:
            transaction: int | None = head.snapshot_id
            if verified and attempt.retry_state.attempt_number == 1:
                is_new, position = is_unfilled, verified.snapshot_id
            else:
                transaction = _next_transaction(session, name, head)
                is_new, position = _position(session, name, needed)
            if position >= needed:
                return None
            as_transaction(session, name, transaction)
            bring(session, is_new, position)
            if is_new and recorded_position(session, name) < needed:  # it had been filled, up to an earlier snapshot
                bring(session, False, _position(session, name, needed)[1])
    crash_point(f"after_project_{name}")
    return name


def _open_projecting(spark: SparkSession, head: Head) -> SparkSession:
    session = open_sibling(spark)
    _tell_commit(session, head, "project")
    return session


def _defined(head: Head) -> int:
    """Return the last snapshot that changed what messages are defined by."""
    return max(head.tables.get(name, 0) for name in _DEFINING)


def _overwrite(session: SparkSession, name: str, head: Head, rows: DataFrame) -> None:
    """Replace all rows of a table; where other processes bring it forward at the same time, again."""
    _tell_commit(session, head, "rebuild")
    rows = rows.select(*session.table(table_name(name)).columns)  # insertInto takes them by their places
    for attempt in retries(8):
        with attempt:
            as_transaction(session, name, _next_transaction(session, name, head))
            rows.write.insertInto(table_name(name), overwrite=True)
            if metadata_of_commits(session, name).get("job") != "rebuild":  # left out: the table reached the snapshot before
                as_transaction(session, name, None)
                rows.write.insertInto(table_name(name), overwrite=True)


def _next_transaction(session: SparkSession, name: str, head: Head) -> int | None:
    """Return the transaction that rolls a table forward to the head; None if Delta would skip it as already committed.

    Asked before the table's position: one that is known, and has not brought the table there, was undone (`RESTORE`).
    """
    return head.snapshot_id if last_transaction(session, name) < head.snapshot_id else None


def _tell_commit(session: SparkSession, head: Head, job: str) -> None:
    """Set the user metadata of this session's commits in Delta's history: the snapshot and the job."""
    set_commit_metadata(session, {"snapshot_id": head.snapshot_id, "job": job})


def _position(session: SparkSession, name: str, needed: int) -> tuple[bool, int]:
    """Return whether the table was never written, and the snapshot up to which it was."""
    position = session.table(table_name(name)).agg(F.max("snapshot_id")).collect()[0][0] or 0
    if position >= needed:
        return False, position
    # After deletions no row of the table has its position.
    return was_never_written(session, name), max(position, recorded_position(session, name))


def _part(number: int) -> str:
    """Return SQL for the nth part of an XID: /messagegroups/g/messages/m has the parts messagegroups, g, messages, m."""
    return f"element_at(split(xid, '/'), {number + 1})"


def _owner(collection: str) -> str:
    """Return SQL for the XID of the parent whose collection is named."""
    return rf"regexp_replace(xid, r'/{collection}/[^/]+\z', '')"


# The part behind the name, else what a shorthand stands for (END-090, END-092).
_PROTOCOL_VERSION = "\n".join(
    [
        "CASE",
        "    WHEN split_part(b.protocol, '/', 2) <> '' THEN trim(substr(b.protocol, length(split_part(b.protocol, '/', 1)) + 2))",
        *(
            f"    WHEN upper(trim(split_part(b.protocol, '/', 1))) = '{name}' THEN '{version}'"
            for name, version in shorthands().items()
        ),
        "  END",
    ]
)
# The URI of each address, and its other members as text.
_ADDRESSES = """transform(
    from_json(get_json_object(b.protocoloptions, '$.endpoints'), 'array<map<string,string>>'),
    address -> struct(address['uri'] AS uri, map_filter(address, (key, value) -> key <> 'uri') AS options)
  )"""


def _derived(table: Table) -> dict[str, str]:
    """Return the columns that are derived from others; all others are in `body` or in the log itself."""
    if table is GROUPS:
        return {"grouptype": _part(1), "groupid": _part(2)}
    if table is ENDPOINTS:
        return {
            "endpointid": _part(2),
            "protocol_family": "upper(trim(split_part(b.protocol, '/', 1)))",
            "protocol_version": _PROTOCOL_VERSION,
            "deployed": "CAST(get_json_object(b.protocoloptions, '$.deployed') AS BOOLEAN)",
            "endpoints": _ADDRESSES,
        }
    if table is MESSAGES:
        return {"group_xid": _owner("messages"), "messageid": _part(4)}
    if table is SCHEMAS:
        return {"group_xid": _owner("schemas"), "schemaid": _part(4)}
    if table is VERSIONS:
        return {
            "message_xid": _owner("versions"),
            "versionid": _part(6),
            "base_xid": "CASE WHEN startswith(b.basemessage, '/') THEN b.basemessage END",
            "dataschema": "attributes['/dataschema']",
        }
    if table is SCHEMAVERSIONS:
        return {"schema_xid": _owner("versions"), "versionid": _part(6), "schema": "attributes['/schema']"}
    return {}
