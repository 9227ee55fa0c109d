"""Effective definitions of a past snapshot that only Spark can compute: Delta's history of effective_messages is shorter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakehouse.log.snapshots import open_snapshot
from lakehouse.readmodel.file.schema import EFFECTIVE_COLUMNS
from lakehouse.text.names import RegistryId, Xid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.settings import Settings


def compute_definitions(
    spark: SparkSession, settings: Settings, snapshot_id: int
) -> dict[tuple[RegistryId, Xid], dict[str, Any]]:
    """Compute the effective definitions of a snapshot, by registryid and XID, as rows of effective_messages."""
    schema = open_snapshot(spark, settings, snapshot_id, ["flat_messages"])
    found = spark.table(f"{schema}.effective_messages").select(*EFFECTIVE_COLUMNS)
    rows = (row.asDict() for row in found.toLocalIterator())
    return {(row["registryid"], row["xid"]): row for row in rows}
