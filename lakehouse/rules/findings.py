"""What rules tell about rows: the message, its place as the document spells it, its severity in the document's dialect."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.dialects.tables import DIALECTS, severity_in, spelled_in, that_ask
from lakehouse.rules.declared import RULES
from lakehouse.store.frames import no_rows
from lakehouse.store.keys import KEY
from lakehouse.store.schema import STAGE
from lakehouse.store.xids import message_of
from lakehouse.text.names import Pointer
from lakehouse.text.problems import violation_id_column

FOUND = ("row", "document_uri", *KEY, "finding")
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
        rule = RULES[self.rule_id]
        told = F.struct(
            F.lit(self.rule_id).alias("rule_id"),
            _by_dialect(self.severity or rule.severity, partial(_severity, self)).alias("severity"),
            _by_dialect(self.pointer, partial(_spelled, self.pointer)).alias("pointer"),
            self.message.alias("message"),
            F.lit(rule.hint).alias("hint"),
        )
        return F.when(condition, told)


def broken(rule_id: str, message: Column, pointer: str, severity: str | None = None) -> Telling:
    """Tell that a rule is broken."""
    return Telling(rule_id, message, Pointer(pointer), severity)


def asked(rule_id: str) -> Column:
    """Tell that the dialect of a row has a rule that not all of them have."""
    return F.col("dialect").isin(that_ask(rule_id))


def findings_of(rows: DataFrame, told: list[Column] | list[Telling]) -> DataFrame:
    """Make findings of rows that have the columns of `KEY`, document_uri, staged and dialect."""
    columns = [one.when(F.lit(True)) if isinstance(one, Telling) else one for one in told]
    shows_message = (F.col("kind") == "version") & (F.col("isdefault") if "isdefault" in rows.columns else F.lit(False))
    entity = F.when(shows_message, message_of("xid")).otherwise(F.col("xid"))
    found = rows.withColumn("told", F.explode(F.filter(F.array(*columns), F.isnotnull)))
    named = found.withColumn("_at", _as_written(entity))  # of what is told, and not of each row
    pointer = F.concat("_at", "told.pointer")
    action = F.when(F.col("staged") & (F.col("told.severity") == "error"), "quarantined").otherwise("kept")
    name = violation_id_column("registryid", "document_uri", "told.rule_id", "xid", pointer, "told.message", action)
    finding = F.struct(
        name.alias("violation_id"),
        pointer.alias("pointer"),
        F.col("told.rule_id").alias("rule_id"),
        F.col("told.severity").alias("severity"),
        action.alias("action"),
        F.col("told.message").alias("message"),
        F.col("told.hint").alias("hint"),
        F.lit(None).cast("string").alias("raw"),
    )
    return named.select(F.lit("finding").alias("row"), "document_uri", *KEY, finding.alias("finding"))


def no_findings(spark: SparkSession) -> DataFrame:
    """Give a frame of findings without any."""
    return no_rows(spark, StructType([STAGE[name] for name in FOUND]))


def _by_dialect(usual: str, in_dialect: Callable[[str], str]) -> Column:
    """Give a text that some dialects have otherwise."""
    others = [(dialect, in_dialect(dialect)) for dialect in DIALECTS]
    return reduce(
        lambda so_far, other: F.when(F.col("dialect") == other[0], other[1]).otherwise(so_far),
        [other for other in others if other[1] != usual],
        F.lit(usual),
    )


def _severity(telling: Telling, dialect: str) -> str:
    return severity_in(dialect, telling.rule_id) or telling.severity or RULES[telling.rule_id].severity


def _spelled(pointer: Pointer, dialect: str) -> str:
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
