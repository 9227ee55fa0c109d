"""What a message is, as a person reads it: its chain of bases, its attributes and where each comes from, who carries it.

All of it comes from the views; nothing is computed here.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import MessageNotFound
from lakehouse.log.relations import open_relations
from lakehouse.readmodel.shown import Shown
from lakehouse.settings import Settings
from lakehouse.store.sessions import interpreted
from lakehouse.store.tables import is_small
from lakehouse.store.views import with_read
from lakehouse.text.names import Xid

_VIEWS = ("flat_messages", "message_chains", "flat_attributes", "endpoint_messages", "entity_references")
_TOLD = ("registryid", "xid", "version_xid", "chain_status", "protocol", "envelope", "address", "document_uris")


def show_message(spark: SparkSession, settings: Settings, xid: str, at: str | None = None) -> list[Shown]:
    """Look a message up.

    Args:
        spark: the session.
        settings: the warehouse; its registry, when one is set, is the only one that is looked at.
        xid: XID of the message, or of one of its Versions.
        at: a snapshot, as in `resolve_snapshot`; None: the catalog as it is.

    Returns:
        The message in each registry that has it, by registry.

    Raises:
        MessageNotFound: no registry has it.
        SnapshotNotFound: `at` names no snapshot.
    """
    schema = open_relations(spark, settings, with_read(_VIEWS), ["changes"], at)
    message_xid = Xid(xid.strip().split("/versions/")[0] if xid.count("/") > 4 else xid.strip())
    with interpreted(spark, is_small(spark, settings)):
        return _look_up(spark, settings, schema, message_xid)


def _look_up(spark: SparkSession, settings: Settings, schema: str, message_xid: Xid) -> list[Shown]:
    found = _rows(spark, settings, schema, "flat_messages", "xid", message_xid, _TOLD)
    if not found:
        raise MessageNotFound(message_xid)
    chain = _rows(
        spark, settings, schema, "message_chains", "xid", message_xid, ("depth", "basemessage", "base_version_xid", "status")
    )
    attributes = _rows(
        spark, settings, schema, "flat_attributes", "xid", message_xid, ("pointer", "value", "origin", "declared_by", "depth")
    )
    endpoints = _rows(
        spark,
        settings,
        schema,
        "endpoint_messages",
        "message_xid",
        message_xid,
        ("endpoint_xid", "via_xid", "usage", "protocol", "options", "matches"),
    )
    schemas = [
        row for row in _references(spark, settings, schema, found) if row["relation"] in ("dataschemauri", "dataschemaxid")
    ]
    return [
        Shown(
            row,
            _of(chain, row, "depth"),
            _of(attributes, row, "pointer"),
            _of(endpoints, row, "endpoint_xid"),
            [_without_registry(one) for one in schemas if one["registryid"] == row["registryid"]],
        )
        for row in sorted(found, key=lambda row: str(row["registryid"]))
    ]


def _references(spark: SparkSession, settings: Settings, schema: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Give the references of the Versions that declare the schema: the message's, and those of its bases."""
    references = spark.table(f"{schema}.entity_references").filter(F.col("relation").startswith("dataschema"))
    declared = spark.table(f"{schema}.flat_attributes").filter(F.col("xid") == found[0]["xid"])
    declared = declared.filter(F.col("pointer").isin("/dataschemauri", "/dataschemaxid"))
    columns = ("registryid", "relation", "target", "target_xid", "type_name", "status")
    by = declared.select("registryid", F.col("declared_by").alias("source_xid"), "pointer")
    return _fetch(_of_registry(references, settings).join(by, on=["registryid", "source_xid", "pointer"]), columns)


def _rows(
    spark: SparkSession, settings: Settings, schema: str, view: str, key: str, xid: Xid, columns: tuple[str, ...]
) -> list[dict[str, Any]]:
    rows = spark.table(f"{schema}.{view}").filter(F.col(key) == xid)
    return _fetch(_of_registry(rows, settings), tuple(dict.fromkeys(("registryid", *columns))))


def _fetch(rows: DataFrame, columns: tuple[str, ...]) -> list[dict[str, Any]]:
    text = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    return [json.loads(row[0]) for row in rows.select(text).collect()]


def _of_registry(rows: DataFrame, settings: Settings) -> DataFrame:
    return rows.filter(F.col("registryid") == settings.registry) if settings.registry else rows


def _of(rows: list[dict[str, Any]], message: dict[str, Any], order: str) -> list[dict[str, Any]]:
    mine = [_without_registry(row) for row in rows if row["registryid"] == message["registryid"]]
    return sorted(mine, key=lambda row: (row[order] is None, row[order]))


def _without_registry(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "registryid"}
