"""Findings of a plan: entities that were refused or taken over since documents, or a document and the catalog, disagree."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.domain.ownership import REPORT_HINTS
from lakehouse.store.keys import KEY
from lakehouse.text.problems import OWNER_CHANGED, violation_id_column


def find_refusals(compared: DataFrame, stage: DataFrame) -> DataFrame:
    """Tell what was refused or changed hands since documents or the catalog disagree, each finding naming both documents.

    Args:
        compared: as from `compare.compare`.
        stage: columns `schema.STAGE`.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`.
    """
    rows = compared.select(*KEY, F.explode("reports").alias("finding"))
    texts = stage.filter(F.col("row") == "entity").select(*KEY, "document_uri", F.coalesce("raw", "body").alias("_raw"))
    with_text = rows.withColumn("document_uri", F.col("finding.document_uri")).join(texts, on=[*KEY, "document_uri"], how="left")
    pointer = F.lit("")
    rule_id, message, action = (F.col(f"finding.{name}") for name in ("rule_id", "message", "action"))
    name = violation_id_column("registryid", "document_uri", rule_id, "xid", pointer, message, action)
    finding = F.struct(
        name.alias("violation_id"),
        pointer.alias("pointer"),
        *(F.col(f"finding.{name}").alias(name) for name in ("rule_id", "severity", "action", "message")),
        F.create_map(*(F.lit(part) for pair in REPORT_HINTS.items() for part in pair))[rule_id].alias("hint"),
        F.when(F.col("finding.action") == "quarantined", F.col("_raw")).alias("raw"),
    )
    return with_text.select(F.lit("finding").alias("row"), "document_uri", *KEY, finding.alias("finding"))


def taking_id(registryid: Column, uri: Column, dispute: Column) -> Column:
    """Give the violation_id under which it was told that a document took an entity over, or got it back.

    Args:
        registryid: of the document.
        uri: its URI.
        dispute: struct `schema.DISPUTE` with the rule of it.
    """
    is_over = dispute["rule_id"] == OWNER_CHANGED
    over = F.concat(F.lit("it was defined by "), dispute["other"], F.lit(", and "), uri, F.lit(" now takes it over"))
    back = F.concat(F.lit("no other document defines it any more: it is taken from "), uri, F.lit(" again"))
    message = F.when(is_over, over).otherwise(back)
    return violation_id_column(registryid, uri, dispute["rule_id"], dispute["xid"], F.lit(""), message, F.lit("kept"))
