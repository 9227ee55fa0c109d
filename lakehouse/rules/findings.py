"""What rules tell about rows: the message, its place as the document spells it, its severity in the document's dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from lakehouse.dialects.tables import DIALECTS, FAMILIES, severity_in, shared_options, spelled_in
from lakehouse.rules.declared import RULES
from lakehouse.store.frames import can_skip, no_rows
from lakehouse.store.keys import KEY
from lakehouse.store.schema import STAGE
from lakehouse.store.xids import message_of
from lakehouse.text.problems import violation_id_column

FOUND = ("row", "document_uri", *KEY, "finding")
# The entity and the document, which would write it again (staged) or not. `entity` is what the pointer of a finding leads to, or
# `own_entity` where it is refused: what would be published depends on what else is refused, and the document's text does not.
WHICH = ("document_uri", *KEY, "staged", "dialect", "entity", "own_entity")
_STRING = StringType()
BREACH = StructType(
    [StructField(name, BooleanType() if name == "staged" else _STRING) for name in WHICH]
    + [StructField("told", StructType([StructField(name, _STRING) for name in ("rule_id", "pointer", "message", "severity")]))]
)
# Places in an entity that the rules between entities tell of; each dialect spells them in its way.
POINTERS = (
    "", "/ancestor", "/basemessage", "/dataschema", "/dataschemauri", "/dataschemaxid", "/envelope", "/envelopemetadata",
    "/envelopemetadata/type", "/messagegroups", "/meta/xref", "/protocol", "/protocoloptions", "/protocoloptions/willmessage",
    *sorted({f"/protocoloptions/{one.name}" for family in FAMILIES for one in shared_options(family)}),
)  # fmt: skip
# Collections from the inside out: what stands before them in an XID, which entity has them, their name.
_COLLECTIONS = (
    ("/messagegroups/[^/]+", "messagegroup", "messages"),
    ("/endpoints/[^/]+", "endpoint", "messages"),
    ("", "registry", "messagegroups"),
    ("", "registry", "schemagroups"),
)


def dependents(rows: DataFrame) -> DataFrame:
    """Return what cannot be loaded, since something was refused (MSG-115), as breaches.

    Args:
        rows: columns of `KEY`, document_uri, and cause: the XID that was refused.

    Returns:
        Columns `BREACH`. What all findings have is added to the few there are (`as_findings`), and not planned for each rule.
    """
    told = F.struct(
        F.lit("MSG-115").alias("rule_id"),
        F.lit("").alias("pointer"),
        F.concat(F.lit("it cannot be loaded: "), "cause", F.lit(" was refused")).alias("message"),
        F.lit(None).cast("string").alias("severity"),
    )
    nobody = F.lit(None).cast("string").alias("dialect")
    entities = F.col("xid").alias("entity"), F.col("xid").alias("own_entity")
    return rows.select("document_uri", *KEY, F.lit(True).alias("staged"), nobody, *entities, told.alias("told"))


def shown_at(rows: DataFrame, flag: str) -> Column:
    """Give the XID of the entity that shows a row's attributes: of a Version with this flag its message."""
    shows_message = (F.col("kind") == "version") & (F.col(flag) if flag in rows.columns else F.lit(False))
    return F.when(shows_message, message_of("xid")).otherwise(F.col("xid"))


def no_breaches(spark: SparkSession) -> DataFrame:
    """Give a frame of breaches without any."""
    return no_rows(spark, BREACH)


def as_findings(breaches: DataFrame) -> DataFrame:
    """Make findings of breaches: of what two documents hold in common, or two ways lead to, one.

    Args:
        breaches: columns `BREACH`.

    Returns:
        Columns `FOUND`.
    """
    if can_skip(breaches):
        return no_findings(breaches.sparkSession)
    rule, dialect = F.col("told.rule_id"), F.coalesce("dialect", F.lit(""))
    usual, hints = ({name: getattr(one, field) for name, one in RULES.items()} for field in ("severity", "hint"))
    milder = _in_dialects(RULES, severity_in)
    spelled = _in_dialects(POINTERS, _spelled)
    severity = F.coalesce(_looked_up(milder, dialect, rule), "told.severity", _looked_up(usual, rule))
    below = F.coalesce(_looked_up(spelled, dialect, F.col("told.pointer")), "told.pointer")
    # Step by step, so that no expression is copied into those that build on it.
    is_refused = F.col("staged") & (F.col("_severity") == "error")
    named = breaches.withColumn("_severity", severity).withColumn("_action", F.when(is_refused, "quarantined").otherwise("kept"))
    entity = F.when(is_refused, F.col("own_entity")).otherwise(F.col("entity"))
    named = named.withColumn("_entity", entity).withColumn("_pointer", F.concat(_as_written(F.col("_entity")), below))
    parts = ("registryid", "document_uri", "told.rule_id", "xid", "_pointer", "told.message", "_action")
    named = named.withColumn("_id", violation_id_column(*parts)).dropDuplicates(["_id"])
    finding = F.struct(
        F.col("_id").alias("violation_id"),
        F.col("_pointer").alias("pointer"),
        rule.alias("rule_id"),
        F.col("_severity").alias("severity"),
        F.col("_action").alias("action"),
        F.col("told.message").alias("message"),
        _looked_up(hints, rule).alias("hint"),
        F.lit(None).cast("string").alias("raw"),
    )
    return named.select(F.lit("finding").alias("row"), "document_uri", *KEY, finding.alias("finding"))


def no_findings(spark: SparkSession) -> DataFrame:
    """Give a frame of findings without any."""
    return no_rows(spark, StructType([STAGE[name] for name in FOUND]))


def _looked_up(values: dict[str, str], *key: Column) -> Column:
    """Look up what stands under a key, of parts with blanks between; NULL: nothing does."""
    every = F.from_json(F.lit(json.dumps(values)), "map<string, string>")  # one constant, whatever their number
    return every[F.concat_ws(" ", *key)]


def _in_dialects(names: Iterable[str], told: Callable[[str, str], str | None]) -> dict[str, str]:
    """Give what a dialect has instead of the usual, by the dialect and the name with a blank between."""
    every = {f"{dialect} {name}": (told(dialect, name), name) for dialect in DIALECTS for name in names}
    return {key: value for key, (value, name) in every.items() if value is not None and value != name}


def _spelled(dialect: str, pointer: str) -> str:
    entity = "endpoint" if pointer.startswith(("/messagegroups", "/protocoloptions")) else "message"
    return spelled_in(dialect, entity, *pointer.split("/")[1:])


def _as_written(xid: Column) -> Column:
    """Turn an XID into the JSON Pointer of the entity in its document."""
    pointer = F.replace(xid, F.lit("~"), F.lit("~0"))
    written = pointer
    for dialect in DIALECTS:
        own = pointer
        for holder, entity, collection in _COLLECTIONS:
            spelled = spelled_in(dialect, entity, collection)
            if spelled != f"/{collection}":
                own = F.regexp_replace(own, rf"\A({holder})/{collection}/", f"$1{spelled}/")
        if own is not pointer:
            written = F.when(F.col("dialect") == dialect, own).otherwise(written)
    return written
