"""The table `violations`: appending findings that it does not hold yet, and counting findings."""

from __future__ import annotations

from typing import NamedTuple

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.store.delta.conflicts import retries
from lakehouse.store.deltatables import table_name
from lakehouse.store.materialize import is_empty, is_known_empty
from lakehouse.store.schema import VIOLATIONS


@retries(8).wraps
def record_findings(spark: SparkSession, findings: DataFrame, ingest_id: str) -> int:
    """Append the findings that `violations` does not hold yet; a merge, so that two writers cannot both append one.

    Args:
        spark: the session.
        findings: columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`.
        ingest_id: the run that found them.

    Returns:
        How many were appended.
    """
    if is_empty(findings):
        return 0
    rows = findings.withColumns({"ingest_id": F.lit(ingest_id), "found_at": F.current_timestamp()})
    flat = rows.select(*(F.col(name) if name in rows.columns else F.col(f"finding.{name}") for name in VIOLATIONS.names))
    # A merge that inserts nothing leaves an empty file behind, each time that a document is read again.
    recorded = spark.table(table_name("violations")).select("violation_id")
    if is_empty(flat.join(recorded, on="violation_id", how="left_anti")):
        return 0
    target = DeltaTable.forName(spark, table_name("violations")).alias("target")
    once = flat.dropDuplicates(["violation_id"])  # one key standing twice under one pointer is one finding
    merged = target.merge(once.alias("found"), "target.violation_id = found.violation_id").whenNotMatchedInsertAll().execute()
    return int(merged.collect()[0]["num_inserted_rows"])


def unrecorded(spark: SparkSession, findings: DataFrame) -> DataFrame:
    """Return findings without those that `violations` has about the same entity, with the same text and action.

    A finding of an ingest has a place in the document, one of a validation a place in the normal form.

    Args:
        spark: the session.
        findings: as for `record_findings`.
    """
    details = ["registryid", "document_uri", "xid", "rule_id", "message", "action"]
    recorded = spark.table(table_name("violations")).select(*details).distinct()
    flat = findings.withColumns({name: F.col(f"finding.{name}") for name in ("rule_id", "message", "action")})
    return flat.join(recorded, on=details, how="left_anti").select(*findings.columns)


def count_findings(findings: DataFrame) -> list[Count]:
    """Count findings by rule and severity."""
    if is_known_empty(findings):
        return []
    rows = findings.groupBy(F.col("finding.rule_id").alias("rule_id"), F.col("finding.severity").alias("severity")).count()
    return sorted(Count(row["rule_id"], row["severity"], row["count"]) for row in rows.collect())


class Count(NamedTuple):
    """How many findings of a rule there are, of one severity."""

    rule_id: str
    severity: str
    n: int
