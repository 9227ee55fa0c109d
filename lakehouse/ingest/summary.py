"""What an ingest did: outcomes counted by document and by entity."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.ingest.sources import Hidden
from lakehouse.ingest.unchanged import is_unchanged_row
from lakehouse.log.plan import Plan
from lakehouse.rules.declared import SEVERITIES
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_tables, table_name
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import count_if, is_known_empty
from lakehouse.store.schema import ENTITY_TABLES

MAX_CHANGES_SHOWN = 1000  # by a dry run
OUTCOMES = ("inserted", "updated", "deleted", "unchanged", "quarantined")
_OUTCOME_OF_OP = {"insert": "inserted", "update": "updated", "own": "updated", "delete": "deleted", "unchanged": "unchanged"}


@dataclass
class Summary:
    """What an ingest did, or what a dry run would do; `as_json` is the contract of `lakehouse ingest --json`."""

    snapshot_id: int | None
    documents: dict[str, int]
    entities: dict[str, dict[str, int]]
    violations: dict[str, int]
    seconds: dict[str, float]
    hidden: list[Hidden] = field(default_factory=list)
    changes: list[dict[str, str]] | None = None
    dialects: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def refused(self) -> bool:
        """Return whether something was rejected: exit code 3."""
        return bool(self.documents["rejected"]) or any(counts["quarantined"] for counts in self.entities.values())

    def add_stage(self, name: str, seconds: float) -> None:
        """Count a stage that came after the ingest itself, in the total too."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
        self.seconds["total"] = self.seconds.get("total", 0.0) + seconds

    def as_json(self) -> dict[str, Any]:
        """Return the summary as one JSON value."""
        return {
            "snapshot_id": self.snapshot_id,
            "documents": self.documents,
            "dialects": self.dialects,
            "entities": self.entities,
            "violations": self.violations,
            "seconds": {name: round(seconds, 3) for name, seconds in self.seconds.items()},
            **({"remarks": self.remarks} if self.remarks else {}),
            **({} if self.changes is None else {"dry_run": True, "changes": self.changes}),
        }


def of_unchanged(
    spark: SparkSession, settings: Settings, existing_documents: DataFrame, documents: DataFrame, number: int
) -> Summary:
    """Count the entities of documents that are all as they were, and what was refused of them.

    Args:
        spark: the session; the log alone may be attached to it.
        settings: the warehouse.
        existing_documents: what is known of each document, as from `current_documents`.
        documents: those that were found, as from `with_unchanged`.
        number: how many they are.
    """
    entities = _no_outcomes()
    same = documents.select(F.coalesce("registry", "last_registry").alias("registryid"), F.col("document_uri").alias("xid"))
    facts = existing_documents.join(same, on=["registryid", "xid"], how="left_semi")
    _add_counts(entities, facts, "unchanged", "facts.entities")
    counts, violations = {"read": number, "unchanged": number, "skipped": 0, "rejected": 0}, dict.fromkeys(SEVERITIES, 0)
    again = documents.filter("again").select(F.col("document_uri").alias("xid"))
    refused = facts.join(again, on="xid", how="left_semi").select("facts.status", "facts.quarantined", "facts.findings").collect()
    if refused:
        rejected = sum(row["status"] == "rejected" for row in refused)
        counts |= {"unchanged": number - rejected, "rejected": rejected}
        for row in refused:
            for table, n in (row["quarantined"] or {}).items():
                entities[table]["quarantined"] += n
        details = spark.createDataFrame(
            [(violation_id,) for violation_id in {violation_id for row in refused for violation_id in row["findings"] or ()}],
            "id string",
        )
        attach_tables(spark, settings, ["violations"])
        violations_table = spark.table(table_name("violations"))
        result = violations_table.join(F.broadcast(details), violations_table["violation_id"] == details["id"], how="left_semi")
        violations |= count_if(result, {name: F.col("severity") == name for name in SEVERITIES})
    return Summary(None, counts, entities, violations, {})


def summarise(stage: DataFrame, plan: Plan, documents: dict[str, int], *, dry_run: bool) -> Summary:
    """Count what an ingest did with each entity.

    Args:
        stage: what was staged; columns `schema.STAGE`.
        plan: what was committed, or would be.
        documents: how many there were, by status.
        dry_run: list the changed entities, too.

    Returns:
        What came out, but for the snapshot, the seconds and what else the sources hold.
    """
    entities = _no_outcomes()
    for table, ops in plan.counts.items():
        for op, n in ops.items():
            if op in _OUTCOME_OF_OP:
                entities[table][_OUTCOME_OF_OP[op]] += n
    if documents["unchanged"]:
        same = stage.filter(is_unchanged_row()).select("registryid", "xid")
        _add_counts(
            entities, plan.existing_documents.join(same, on=["registryid", "xid"], how="left_semi"), "unchanged", "facts.entities"
        )
    changes: list[dict[str, Any]] | None = None
    if plan.decided is None:
        _add_counts(entities, plan.facts, "quarantined")
        violations = count_if(plan.findings, {name: F.col("finding.severity") == name for name in SEVERITIES})
        if dry_run:
            changed = plan.entities.select("op", *KEY).orderBy(*KEY).limit(MAX_CHANGES_SHOWN)
            changes = [row.asDict() for row in changed.collect()]
    else:
        for facts in plan.decided.facts:
            for table, n in (facts.get("quarantined") or {}).items():
                entities[table]["quarantined"] += n
        severities = Counter(finding["finding"]["severity"] for finding in plan.decided.findings)
        violations = {name: severities[name] for name in SEVERITIES}
        if dry_run:
            shown = plan.decided.changed[:MAX_CHANGES_SHOWN]
            changes = [{"op": op} | dict(zip(KEY, key, strict=True)) for *key, op in shown]
    return Summary(None, documents, entities, violations, {}, changes=changes)


def _add_counts(entities: dict[str, dict[str, int]], facts: DataFrame, outcome: str, column: str | None = None) -> None:
    """Add up a map of counts by table over documents."""
    details = facts.filter(F.size(column or f"facts.{outcome}") > 0)
    if is_known_empty(details):
        return
    counts = (
        details.select(F.explode(column or f"facts.{outcome}").alias("table", "n")).groupBy("table").agg(F.sum("n").alias("n"))
    )
    for row in counts.collect():
        entities[row["table"]][outcome] += row["n"]


def _no_outcomes() -> dict[str, dict[str, int]]:
    return {table.name: dict.fromkeys(OUTCOMES, 0) for table in ENTITY_TABLES}
