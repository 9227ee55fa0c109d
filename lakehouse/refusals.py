"""Findings of a plan: entities that were refused or taken over since documents, or a document and the catalog, disagree."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.findings import CONFLICT, OWNER_CHANGED, STALE, violation_id_column

KEY = ["registryid", "kind", "xid"]
_HINTS = {
    CONFLICT: "Define it in one document, or load one of them into another registry.",
    STALE: "Raise its epoch or modifiedat, or take it all the same with --force.",
    OWNER_CHANGED: 'Nothing to do if the document moved; else set on_conflict = "refuse".',
}


def find_refusals(compared: DataFrame, stage: DataFrame) -> DataFrame:
    """Tell what was refused or taken over since documents or the catalog disagree, each finding naming both documents.

    Args:
        compared: as from `without_stale`.
        stage: columns `model.STAGE`.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `model.STAGE`.
    """
    is_root = F.col("kind") == "registry"
    first = F.when(F.col("op") == "update", F.col("source_uri")).otherwise(F.coalesce("taken_from", "source_uri"))
    contested = F.array_union("losers", F.when(F.col("refused") == CONFLICT, F.col("owners")).otherwise(no_uris()))
    contested = F.filter(contested, lambda uri: uri != first)
    is_taken = (F.col("op") == "update") & ~is_root & F.col("taken_from").isNotNull()
    told = F.concat(
        F.transform(contested, lambda uri: _conflict(uri, first, is_root)),
        F.transform(F.when(F.col("refused") == STALE, F.col("owners")).otherwise(no_uris()), _stale),
        F.transform(F.when(is_taken, F.array("taken_from")).otherwise(no_uris()), _taken_over),
    )
    rows = compared.select(*KEY, F.explode(told).alias("finding"))
    texts = stage.filter(F.col("row") == "entity").select(*KEY, "document_uri", F.coalesce("raw", "body").alias("_raw"))
    with_text = rows.withColumn("document_uri", F.col("finding.document_uri")).join(texts, on=[*KEY, "document_uri"], how="left")
    pointer = F.lit("")
    name = violation_id_column("registryid", "document_uri", "finding.rule_id", "xid", pointer, "finding.message")
    finding = F.struct(
        name.alias("violation_id"),
        pointer.alias("pointer"),
        *(F.col(f"finding.{name}").alias(name) for name in ("rule_id", "severity", "action", "message", "hint")),
        F.when(F.col("finding.action") == "quarantined", F.col("_raw")).alias("raw"),
    )
    return with_text.select(F.lit("finding").alias("row"), "document_uri", *KEY, finding.alias("finding"))


def no_uris() -> Column:
    """Give an empty array of strings."""
    return F.array().cast("array<string>")


def _conflict(uri: Column, first: Column, is_root: Column) -> Column:
    what = F.when(is_root, " differ in the registry's own attributes").otherwise(" define this entity differently")
    message = F.concat(F.lit("the documents "), first, F.lit(" and "), uri, what, F.lit("; those of the first are taken"))
    severity, action = F.when(is_root, "info").otherwise("error"), F.when(is_root, "kept").otherwise("quarantined")
    return _told(uri, CONFLICT, severity, action, message)


def _stale(uri: Column) -> Column:
    def compared(name: str) -> list[Column]:
        declared = F.coalesce(F.col(f"declared_{name}").cast("string"), F.lit("not declared"))
        return [F.lit(f" {name} "), declared, F.lit(" against "), F.col(f"stored_{name}").cast("string")]

    message = F.concat(F.lit("it is older than what is stored:"), *compared("epoch"), F.lit(","), *compared("modifiedat"))
    return _told(uri, STALE, F.lit("warning"), F.lit("quarantined"), message)


def _taken_over(taken_from: Column) -> Column:
    message = F.concat(F.lit("it was defined by "), taken_from, F.lit(", and "), F.col("source_uri"), F.lit(" now takes it over"))
    return _told(F.col("source_uri"), OWNER_CHANGED, F.lit("warning"), F.lit("kept"), message)


def _told(uri: Column, rule_id: str, severity: Column, action: Column, message: Column) -> Column:
    return F.struct(
        uri.alias("document_uri"),
        F.lit(rule_id).alias("rule_id"),
        severity.alias("severity"),
        action.alias("action"),
        message.alias("message"),
        F.lit(_HINTS[rule_id]).alias("hint"),
    )
