"""What is known of each document: the facts of its last load, in the log."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.store.schema import DOCUMENT_BODY


def current_documents(changes: DataFrame) -> DataFrame:
    """Give what is known of each document from its last load.

    Returns:
        One row per (registryid, document): registryid, xid (the document's URI), snapshot_id, facts (struct DOCUMENT_BODY).
    """
    rows = changes.filter(F.col("kind") == "document")
    latest = rows.groupBy("registryid", "xid").agg(F.max(F.struct("snapshot_id", "op", "body")).alias("last"))
    facts = F.from_json("last.body", DOCUMENT_BODY)
    return latest.filter(F.col("last.op") != "delete").select(
        "registryid",
        "xid",
        F.col("last.snapshot_id").alias("snapshot_id"),
        F.col("last.body").alias("body"),
        facts.alias("facts"),
    )
