"""Findings of a plan: entities that were refused or taken over since documents, or a document and the catalog, disagree."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.store.keys import KEY
from lakehouse.text.problems import CONFLICT, OWNER_CHANGED, REGAINED, STALE, violation_id_column

_HINTS = {
    CONFLICT: "Define it in one document, or load one of them into another registry.",
    STALE: "Raise its epoch or modifiedat, or take it all the same with --force.",
    OWNER_CHANGED: 'Nothing to do if the document moved; else set on_conflict = "refuse".',
    REGAINED: "Nothing to do, if it is right.",
}


def find_refusals(compared: DataFrame, stage: DataFrame) -> DataFrame:
    """Tell what was refused or changed hands since documents or the catalog disagree, each finding naming both documents.

    Args:
        compared: as from `compare.compare`.
        stage: columns `schema.STAGE`.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`.
    """
    is_root = F.col("kind") == "registry"
    first = F.coalesce(F.array_min("document_uris"), "source_uri")
    contested = F.filter("opposed", lambda one: (is_root | is_contested(one)) & (one["document_uri"] != first))
    stale = F.when(F.col("refused") == STALE, F.col("agreed"))
    told = [
        F.transform(contested, lambda one: _conflict(one["document_uri"], first, is_root)),
        F.transform(stale, lambda one: _stale(one["document_uri"])),
        F.transform(taken(), lambda one: _taken(one["document_uri"], one["rule_id"], one["other"])),
    ]
    rows = reduce(DataFrame.unionByName, [compared.select(*KEY, F.explode(one).alias("finding")) for one in told])
    texts = stage.filter(F.col("row") == "entity").select(*KEY, "document_uri", F.coalesce("raw", "body").alias("_raw"))
    with_text = rows.withColumn("document_uri", F.col("finding.document_uri")).join(texts, on=[*KEY, "document_uri"], how="left")
    pointer = F.lit("")
    rule_id, message, action = (F.col(f"finding.{name}") for name in ("rule_id", "message", "action"))
    name = violation_id_column("registryid", "document_uri", rule_id, "xid", pointer, message, action)
    finding = F.struct(
        name.alias("violation_id"),
        pointer.alias("pointer"),
        *(F.col(f"finding.{name}").alias(name) for name in ("rule_id", "severity", "action", "message", "hint")),
        F.when(F.col("finding.action") == "quarantined", F.col("_raw")).alias("raw"),
    )
    return with_text.select(F.lit("finding").alias("row"), "document_uri", *KEY, finding.alias("finding"))


def is_contested(claim: Column) -> Column:
    """Tell of a claim that is not published whether it is refused (DOC-001), and not just overruled by what came later."""
    return claim["is_new"] | F.coalesce(claim["rule_id"] == CONFLICT, F.lit(False))


def taken() -> Column:
    """Give what documents took from others or got back, and what is still told of that, of a row of `compare.compare`.

    Returns:
        Array of structs: document_uri, content_hash, rule_id, other (the owner before).
    """

    def one(claim: Column, rule_id: Column, other: Column) -> Column:
        names = {"document_uri": claim["document_uri"], "content_hash": claim["content_hash"]}
        columns = names | {"rule_id": rule_id, "other": other}
        return F.struct(*(column.alias(name) for name, column in columns.items()))

    now = F.when(F.col("taken_from").isNotNull(), OWNER_CHANGED).when(F.col("regained"), REGAINED)
    source = F.filter(F.when(now.isNotNull(), F.col("agreed")), lambda claim: claim["document_uri"] == F.col("source_uri"))
    fresh = F.transform(source, lambda claim: one(claim, now, F.col("taken_from")))
    # As long as the document stays as it is.
    still = F.filter(
        F.when(now.isNull(), F.col("agreed")),
        lambda claim: claim["again"] & ~claim["is_new"] & claim["rule_id"].isin(OWNER_CHANGED, REGAINED),
    )
    return F.coalesce(fresh, F.transform(still, lambda claim: one(claim, claim["rule_id"], claim["other"])))


def taking_id(registryid: Column, uri: Column, dispute: Column) -> Column:
    """Give the violation_id under which it was told that a document took an entity over, or got it back.

    Args:
        registryid: of the document.
        uri: its URI.
        dispute: struct `schema.DISPUTE` with the rule of it.
    """
    told = _taken(uri, dispute["rule_id"], dispute["other"])
    return violation_id_column(registryid, uri, dispute["rule_id"], dispute["xid"], F.lit(""), told["message"], told["action"])


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


def _taken(uri: Column, rule_id: Column, other: Column) -> Column:
    is_over = rule_id == OWNER_CHANGED
    over = F.concat(F.lit("it was defined by "), other, F.lit(", and "), uri, F.lit(" now takes it over"))
    back = F.concat(F.lit("no other document defines it any more: it is taken from "), uri, F.lit(" again"))
    return F.struct(
        uri.alias("document_uri"),
        rule_id.alias("rule_id"),
        F.when(is_over, "warning").otherwise("info").alias("severity"),
        F.lit("kept").alias("action"),
        F.when(is_over, over).otherwise(back).alias("message"),
        F.when(is_over, _HINTS[OWNER_CHANGED]).otherwise(_HINTS[REGAINED]).alias("hint"),
    )


def _told(uri: Column, rule_id: str, severity: Column, action: Column, message: Column) -> Column:
    return F.struct(
        uri.alias("document_uri"),
        F.lit(rule_id).alias("rule_id"),
        severity.alias("severity"),
        action.alias("action"),
        message.alias("message"),
        F.lit(_HINTS[rule_id]).alias("hint"),
    )
