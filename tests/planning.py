"""A plan without an ingest: what a stage changes against the catalog as it is."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.ownership import Policy
from lakehouse.log.baseline import current_documents, find_gone, read_baseline
from lakehouse.log.plan import Plan, compare, plan_changes
from lakehouse.log.snapshotfacts import Head
from lakehouse.rules.findings import no_findings
from lakehouse.store.deltatables import open_table


def plan_of(spark: SparkSession, head: Head, stage: DataFrame) -> Plan:
    """Plan a stage, columns `schema.STAGE`, without the rules between entities."""
    log = open_table(spark, "changes").filter(F.col("snapshot_id") <= head.snapshot_id)
    known = current_documents(log)
    ground = read_baseline(spark, head, stage, Policy(), known, find_gone(known, stage, Policy(), []))
    found = no_findings(spark)
    return plan_changes(ground, stage, compare(ground, stage, found), found)
