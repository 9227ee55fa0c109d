"""The entity tables follow the log: each takes the rows above its own position with one MERGE that may be repeated.

A process that died between commit and projection loses nothing: whoever comes next rolls the tables forward first.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse import effective
from lakehouse.faults import crash_point
from lakehouse.model import ENDPOINTS, ENTITY_TABLES, GROUPS, MESSAGES, SCHEMAS, SCHEMAVERSIONS, VERSIONS, Table, body_schema
from lakehouse.plans import Head
from lakehouse.settings import Settings
from lakehouse.tables import table_name

_THREADS = 4
_DEFINING = ("messages", "versions")  # what effective_messages follows


def roll_forward(spark: SparkSession, head: Head, verified: Head | None = None, settings: Settings | None = None) -> list[str]:
    """Bring all entity tables to the head.

    Args:
        spark: the session.
        head: the newest snapshot.
        verified: a snapshot that all tables are known to have reached, so that only those changed since are looked at.
        settings: how far chains of bases are followed; None: as far as can be.

    Returns:
        Names of the tables that lagged behind.
    """
    since = verified.snapshot_id if verified else 0
    tables = [table for table in ENTITY_TABLES if head.tables.get(table.name, 0) > since]
    with ThreadPoolExecutor(_THREADS) as pool:
        behind = [*pool.map(lambda table: _roll_forward(spark, table, head, verified), tables)]
    if max(head.tables.get(name, 0) for name in _DEFINING) > since:
        behind.append(_roll_effective_forward(spark, head, verified, settings))
    return [name for name in behind if name is not None]


def project(changes: DataFrame, table: Table, *also: str) -> DataFrame:
    """Turn rows of the log into rows of an entity table.

    Args:
        changes: rows of one kind, one per entity; columns `model.CHANGES`.
        table: the table of that kind.
        also: columns of `changes` to keep beside.

    Returns:
        The table's columns, and those of `also`.
    """
    derived = _derived(table)
    parsed = changes.withColumn("b", F.from_json("body", body_schema(table)))
    columns = [
        derived.get(name, F.col(f"b.{name}") if name in table.body else F.col(name)).alias(name) for name in table.columns.names
    ]
    return parsed.select(*columns, *also)


def _roll_forward(spark: SparkSession, table: Table, head: Head, verified: Head | None) -> str | None:
    needed = head.tables[table.name]
    session = spark.newSession()
    session.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    name = table_name(table.name)
    is_new, position = _position(session, name, needed) if verified is None else _known_position(table, verified)
    if position >= needed:
        return None
    _tell_commit(session, head)
    log = session.table(table_name("changes"))
    rows = log.filter(
        (F.col("kind") == table.kind) & (F.col("snapshot_id") > position) & (F.col("snapshot_id") <= head.snapshot_id)
    )
    if position < needed - 1:
        newest_first = Window.partitionBy("registryid", "xid").orderBy(F.desc("snapshot_id"))
        rows = rows.withColumn("nth", F.row_number().over(newest_first)).filter("nth = 1").drop("nth")
    if is_new:
        # Nothing is there yet: append, as a transaction of its own, so that two processes cannot both do it.
        fresh = project(rows.filter(F.col("op") != "delete"), table)
        fresh.write.format("delta").mode("append").option("txnAppId", f"lakehouse.{table.name}").option(
            "txnVersion", 1
        ).saveAsTable(name)
    else:
        _merge(session, table, rows)
    crash_point(f"after_project_{table.name}")
    return table.name


def _roll_effective_forward(spark: SparkSession, head: Head, verified: Head | None, settings: Settings | None) -> str | None:
    needed = max(head.tables.get(name, 0) for name in _DEFINING)
    session = spark.newSession()
    session.catalog.setCurrentDatabase(spark.catalog.currentDatabase())
    name = table_name(effective.NAME)
    if verified is None:
        is_new, position = _position(session, name, needed)
    else:
        is_new, position = not any(table in verified.tables for table in _DEFINING), verified.snapshot_id
    if position >= needed:
        return None
    _tell_commit(session, head)
    if is_new:
        effective.append_all(session, settings, head.snapshot_id)
    else:
        log = session.table(table_name("changes")).filter(F.col("kind").isin("message", "version"))
        unseen = log.filter((F.col("snapshot_id") > position) & (F.col("snapshot_id") <= head.snapshot_id))
        effective.refresh(session, settings, unseen, head.snapshot_id)
    crash_point(f"after_project_{effective.NAME}")
    return effective.NAME


def _tell_commit(session: SparkSession, head: Head) -> None:
    told = json.dumps({"snapshot_id": head.snapshot_id, "job": "project"})
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", told)


def _merge(session: SparkSession, table: Table, rows: DataFrame) -> None:
    values: dict[str, str | Column] = {name: f"source.{name}" for name in table.columns.names}
    (
        DeltaTable.forName(session, table_name(table.name))
        .alias("target")
        .merge(project(rows, table, "op").alias("source"), "target.registryid = source.registryid AND target.xid = source.xid")
        .whenMatchedDelete("source.op = 'delete'")
        .whenMatchedUpdate("target.snapshot_id < source.snapshot_id", set=values)
        .whenNotMatchedInsert("source.op <> 'delete'", values=values)
        .execute()
    )


def _position(session: SparkSession, name: str, needed: int) -> tuple[bool, int]:
    """Tell whether the table was never written, and the snapshot that it stands at."""
    position = session.table(name).agg(F.max("snapshot_id")).collect()[0][0] or 0
    if position >= needed:
        return False, position
    is_new, projected = _last_projected(session, name)
    return is_new, max(position, projected)


def _known_position(table: Table, verified: Head) -> tuple[bool, int]:
    return table.name not in verified.tables, verified.snapshot_id


def _last_projected(session: SparkSession, name: str) -> tuple[bool, int]:
    """Read from the table's last commit whether it was ever written, and up to which snapshot.

    After deletions no row of the table tells the latter.
    """
    last = DeltaTable.forName(session, name).history(1).select("version", "userMetadata").collect()[0]
    told = json.loads(last["userMetadata"] or "{}")
    return last["version"] == 0, int(told.get("snapshot_id", 0)) if told.get("job") == "project" else 0


def _part(xid: str, number: int) -> Column:
    """Give the nth part of an XID: /messagegroups/g/messages/m has the parts messagegroups, g, messages, m."""
    return F.element_at(F.split(F.col(xid), "/"), number + 1)


def _owner(xid: str, collection: str) -> Column:
    """Give the XID of the entity that holds this one, whose collection is named."""
    return F.regexp_replace(F.col(xid), rf"/{collection}/[^/]+\z", "")


def _protocol_version() -> Column:
    """Give the version part of protocol; the shorthands are END-090 and END-092."""
    family, version = F.upper(F.split_part("b.protocol", F.lit("/"), F.lit(1))), F.split_part("b.protocol", F.lit("/"), F.lit(2))
    return F.when(version != "", version).when(family == "AMQP", F.lit("1.0")).when(family == "MQTT", F.lit("5.0"))


def _addresses() -> Column:
    """Read the addresses out of the options: the URI, and the other members as text."""
    each = F.from_json(F.get_json_object("b.protocoloptions", "$.endpoints"), "array<map<string,string>>")
    return F.transform(
        each, lambda one: F.struct(one["uri"].alias("uri"), F.map_filter(one, lambda key, _: key != "uri").alias("options"))
    )


def _derived(table: Table) -> dict[str, Column]:
    """Give the columns that follow from others; all else stands in `body` or in the log itself."""
    if table is GROUPS:
        return {"grouptype": _part("xid", 1), "groupid": _part("xid", 2)}
    if table is ENDPOINTS:
        return {
            "endpointid": _part("xid", 2),
            "protocol_family": F.upper(F.split_part("b.protocol", F.lit("/"), F.lit(1))),
            "protocol_version": _protocol_version(),
            "deployed": F.get_json_object("b.protocoloptions", "$.deployed").cast("boolean"),
            "endpoints": _addresses(),
        }
    if table is MESSAGES:
        return {"group_xid": _owner("xid", "messages"), "messageid": _part("xid", 4)}
    if table is SCHEMAS:
        return {"group_xid": _owner("xid", "schemas"), "schemaid": _part("xid", 4)}
    version = {"versionid": _part("xid", 6)}
    if table is VERSIONS:
        base = F.col("b.basemessage")
        schema = F.col("attributes")["/dataschema"]
        return version | {
            "message_xid": _owner("xid", "versions"),
            "base_xid": F.when(base.startswith("/"), base),
            "dataschema": schema,
        }
    if table is SCHEMAVERSIONS:
        return version | {"schema_xid": _owner("xid", "versions"), "schema": F.col("attributes")["/schema"]}
    return {}
