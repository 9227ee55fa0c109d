"""What rules tell about rows: the message, its place as the document spells it, its severity in the document's dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.dialects.tables import DIALECTS, FAMILIES, severity_in, shared_options, spelled_in, that_ask
from lakehouse.rules.declared import RULES
from lakehouse.store.frames import can_skip, no_rows
from lakehouse.store.keys import KEY
from lakehouse.store.schema import STAGE
from lakehouse.store.xids import message_of
from lakehouse.text.names import Pointer
from lakehouse.text.problems import violation_id_column

FOUND = ("row", "document_uri", *KEY, "finding")
# What is broken, and in which document, which would write the entity anew (staged) or not. `entity` is what its pointer leads to,
# or `own_entity` where it is refused: what would be published depends on what else is refused, and the document's text does not.
BREACH = (
    "document_uri string, registryid string, kind string, xid string, staged boolean, dialect string, entity string, "
    "own_entity string, told struct<rule_id: string, pointer: string, message: string, severity: string>"
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


class Telling(NamedTuple):
    """A finding to be: its rule, the message, where in the entity, and its severity when that is not the rule's."""

    rule_id: str
    message: Column
    pointer: Pointer
    severity: str | None = None

    def when(self, condition: Column) -> Column:
        """Make it a struct where a condition holds, NULL elsewhere."""
        told = F.struct(
            F.lit(self.rule_id).alias("rule_id"),
            F.lit(str(self.pointer)).alias("pointer"),
            self.message.alias("message"),
            F.lit(self.severity).cast("string").alias("severity"),
        )
        return F.when(condition, told)


def broken(rule_id: str, message: Column, pointer: str, severity: str | None = None) -> Telling:
    """Tell that a rule is broken, at one of `POINTERS`."""
    if pointer not in POINTERS:
        raise ValueError(f"no spellings of {pointer} are known: add it to POINTERS")
    return Telling(rule_id, message, Pointer(pointer), severity)


def asked(rule_id: str) -> Column:
    """Tell that the dialect of a row has a rule that not all of them have."""
    return F.col("dialect").isin(that_ask(rule_id))


def breaches_of(rows: DataFrame, told: list[Column] | list[Telling]) -> DataFrame:
    """Tell what is broken in rows that have the columns of `KEY`, document_uri, staged and dialect.

    Returns:
        One row for each time: columns `BREACH`. What all findings have is added to the few there are (`as_findings`), and not
        planned for each rule.
    """
    columns = [one.when(F.lit(True)) if isinstance(one, Telling) else one for one in told]
    entities = (_shown_at(rows, flag).alias(name) for flag, name in (("isdefault", "entity"), ("own_default", "own_entity")))
    one = F.explode(F.filter(F.array(*columns), F.isnotnull)).alias("told")
    return rows.select("document_uri", *KEY, "staged", "dialect", *entities, one)


def _shown_at(rows: DataFrame, flag: str) -> Column:
    """Give the XID of the entity that shows a row's attributes: of a Version with this flag its message."""
    shows_message = (F.col("kind") == "version") & (F.col(flag) if flag in rows.columns else F.lit(False))
    return F.when(shows_message, message_of("xid")).otherwise(F.col("xid"))


def no_breaches(spark: SparkSession) -> DataFrame:
    """Give a frame of breaches without any."""
    return no_rows(spark, BREACH)


def as_findings(breaches: DataFrame) -> DataFrame:
    """Make findings of breaches: of what two documents hold in common, or two ways lead to, one.

    Args:
        breaches: as from `breaches_of`.

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
