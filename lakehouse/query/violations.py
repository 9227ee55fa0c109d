"""Findings for a person to read: grouped by rule, the worst first, some examples of each."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.errors import DocumentNotFound
from lakehouse.log.relations import open_relations
from lakehouse.readmodel.found import CONSEQUENCES, LAST, TOLD_OF_FINDING, Broken
from lakehouse.rules.declared import SEVERITIES, TOLD
from lakehouse.settings import Settings
from lakehouse.store.views import with_read
from lakehouse.text.documentnames import documents_of


def list_violations(
    spark: SparkSession,
    settings: Settings,
    *,
    ingest: str | None = None,
    document: str | None = None,
    at: str | None = None,
    examples: int = 5,
) -> list[Broken]:
    """List findings by rule.

    Args:
        spark: the session.
        settings: the warehouse; its registry, when one is set, is the only one looked at.
        ingest: id of the run that found them first, or 'last'; None: those of each document's latest load.
        document: URI of a document in any spelling, a path, or the end of one after a `/`; None: all.
        at: as of a snapshot; None: now.
        examples: how many findings of a rule are told.

    Raises:
        SnapshotNotFound: `at` names no snapshot.
        DocumentNotFound: `document` names none that the snapshot holds, nor one that a finding is about.
        WarehouseError: the warehouse holds no catalog.
    """
    wanted = ([] if ingest else ["current_violations"]) + (["documents"] if document is not None else [])
    views = with_read(wanted) if wanted else []
    schema = open_relations(spark, settings, views, ["violations"], at)
    findings = spark.table(f"{schema}.{'violations' if ingest else 'current_violations'}")
    named = None if document is None else _named(spark, schema, findings, document, settings.registry)
    if ingest == LAST:
        ingest = findings.agg(F.max_by("ingest_id", "found_at")).collect()[0][0]
    for condition in (
        None if ingest is None else F.col("ingest_id") == ingest,
        None if named is None else F.col("document_uri").isin(named),
        F.col("registryid") == settings.registry if settings.registry else None,
    ):
        findings = findings if condition is None else findings.filter(condition)
    rule = Window.partitionBy("rule_id", "severity")
    numbered = findings.withColumns(
        {"count": F.count("*").over(rule), "nth": F.row_number().over(rule.orderBy("document_uri", "pointer", "violation_id"))}
    )
    worst_first = F.array_position(F.array(*map(F.lit, SEVERITIES)), F.col("severity"))
    is_consequence = F.col("rule_id").isin(*CONSEQUENCES)
    rows = numbered.filter(F.col("nth") <= examples).orderBy(worst_first, is_consequence, "rule_id", "nth").collect()
    found: dict[tuple[str, str], Broken] = {}
    for row in rows:
        key = (row["rule_id"], row["severity"])
        text = TOLD[row["rule_id"]].text if row["rule_id"] in TOLD else ""
        found.setdefault(key, Broken(*key, text, row["count"], [])).examples.append({name: row[name] for name in TOLD_OF_FINDING})
    return list(found.values())


def _named(spark: SparkSession, schema: str, findings: DataFrame, document: str, registryid: str) -> list[str]:
    both = [frame.select("registryid", "document_uri") for frame in (spark.table(f"{schema}.documents"), findings)]
    known = both[0].unionByName(both[1]).filter(F.col("registryid") == registryid if registryid else F.lit(True))
    named = documents_of(document, (row["document_uri"] for row in known.select("document_uri").distinct().toLocalIterator()))
    if not named:
        raise DocumentNotFound(document, registryid or None)
    return named
