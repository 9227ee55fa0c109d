"""What rules report about rows: the message, its place as the document spells it, its severity in the document's dialect.

Findings are recorded in the table `violations`, each once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pyarrow as pa
from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from lakehouse.dialects.tables import severity_in, spelled_in
from lakehouse.domain.relations import RuleViolation
from lakehouse.rules.declared import RULES
from lakehouse.store.deltatables import table_name
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import is_empty, is_known_empty, no_rows
from lakehouse.store.schema import STAGE, VIOLATIONS, arrow_schema_of
from lakehouse.store.tablelog import retries
from lakehouse.store.xids import message_of
from lakehouse.text.names import Pointer, RegistryId, Xid
from lakehouse.text.problems import violation_id

FINDING_COLUMNS = ("row", "document_uri", *KEY, "finding")
FINDINGS = StructType([STAGE[name] for name in FINDING_COLUMNS])
# The entity and the document, which would write it again (staged) or not. `entity` is what the pointer of a finding leads to, or
# `own_entity` where it is refused: what would be published depends on what else is refused, and the document's text does not.
WHICH = ("document_uri", *KEY, "staged", "dialect", "entity", "own_entity")
_STRING = StringType()
OF_ENTITY = StructType([StructField(name, BooleanType() if name == "staged" else _STRING) for name in WHICH])
_HANGING = StructType([*OF_ENTITY, StructField("cause", _STRING)])
# Collections from the inside out: what comes before them in an XID, which entity has them, their name.
_COLLECTIONS = (
    ("/messagegroups/[^/]+", "messagegroup", "messages"),
    ("/endpoints/[^/]+", "endpoint", "messages"),
    ("", "registry", "messagegroups"),
    ("", "registry", "schemagroups"),
)


class FindingSubject(NamedTuple):
    """Which entity breaks a rule, in which document; members as `WHICH`."""

    document_uri: str
    registryid: RegistryId
    kind: str
    xid: Xid
    staged: bool
    dialect: str | None
    entity: Xid
    own_entity: Xid | None


def finding_of(subject: FindingSubject, violation: RuleViolation) -> dict[str, Any]:
    """Return a broken rule as a finding: a row with the columns `FINDING_COLUMNS`."""
    dialect = subject.dialect or ""
    rule = RULES[violation.rule_id]
    severity = severity_in(dialect, violation.rule_id) or violation.severity or rule.severity
    is_refused = subject.staged and severity == "error"
    action = "quarantined" if is_refused else "kept"
    entity = (subject.own_entity or subject.xid) if is_refused else subject.entity
    pointer = Pointer(_as_written(dialect, entity) + _spelled(dialect, violation.pointer))
    registryid, uri, xid = subject.registryid, subject.document_uri, subject.xid
    return {
        "row": "finding",
        "document_uri": uri,
        "registryid": registryid,
        "kind": subject.kind,
        "xid": xid,
        "finding": {
            "violation_id": violation_id(registryid, uri, violation.rule_id, xid, pointer, violation.message, action),
            "pointer": pointer,
            "rule_id": violation.rule_id,
            "severity": severity,
            "action": action,
            "message": violation.message,
            "hint": rule.hint,
            "raw": None,
        },
    }


def missing_parent(cause: Xid) -> RuleViolation:
    """Return the rule that an entity breaks of which something was refused that it cannot be without (MSG-115)."""
    return RuleViolation("MSG-115", "", f"it cannot be loaded: {cause} was refused")


def dependents(rows: DataFrame) -> DataFrame:
    """Return findings about what cannot be loaded, since something was refused (MSG-115).

    Args:
        rows: columns of `KEY`, document_uri, and cause: the XID that was refused.

    Returns:
        Columns `FINDING_COLUMNS`.
    """
    nobody = F.lit(None).cast("string").alias("dialect")
    entities = F.col("xid").alias("entity"), F.col("xid").alias("own_entity")
    hanging = rows.select("document_uri", *KEY, F.lit(True).alias("staged"), nobody, *entities, "cause")
    return hanging.to(_HANGING).mapInArrow(_report_hanging, FINDINGS)


def _report_hanging(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        results = [finding_of(subject_of(row), missing_parent(row["cause"])) for row in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(results, schema=arrow_schema())


def subject_of(row: dict[str, Any]) -> FindingSubject:
    """Return the entity that a row with the columns `WHICH` is about."""
    return FindingSubject(*(row[name] for name in WHICH))


def arrow_schema() -> pa.Schema:
    """Return the schema of findings in Arrow."""
    return arrow_schema_of(FINDINGS)


def shown_at(rows: DataFrame, flag: str) -> Column:
    """Return the XID of the entity that shows a row's attributes: of a Version with this flag its message."""
    shows_message = (F.col("kind") == "version") & (F.col(flag) if flag in rows.columns else F.lit(False))
    return F.when(shows_message, message_of("xid")).otherwise(F.col("xid"))


def without_doubles(findings: DataFrame) -> DataFrame:
    """Keep one finding of what two documents hold in common, or two ways lead to."""
    if is_known_empty(findings):
        return no_findings(findings.sparkSession)
    ids = findings.withColumn("_id", F.col("finding.violation_id")).dropDuplicates(["_id"])
    return ids.drop("_id")


def no_findings(spark: SparkSession) -> DataFrame:
    """Return a frame of findings without any."""
    return no_rows(spark, FINDINGS)


@cache
def _spelled(dialect: str, pointer: str) -> str:
    """Return a place in an entity, as the rules between entities report it, in the spelling of a dialect."""
    if not pointer:
        return ""
    entity = "endpoint" if pointer.startswith(("/messagegroups", "/protocoloptions")) else "message"
    return spelled_in(dialect, entity, *pointer.split("/")[1:])


def _as_written(dialect: str, xid: Xid) -> str:
    """Turn an XID into the JSON Pointer of the entity in its document."""
    pointer = xid.replace("~", "~0")
    for spelled, collection in _own_collections(dialect):
        pointer = spelled.sub(collection, pointer)
    return pointer


@cache
def _own_collections(dialect: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the collections that a dialect spells in its own way: where they come in an XID, and what takes their place."""
    spelled = [(place, name, spelled_in(dialect, entity, name)) for place, entity, name in _COLLECTIONS]
    return tuple((re.compile(rf"\A({place})/{name}/"), rf"\g<1>{own}/") for place, name, own in spelled if own != f"/{name}")


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
