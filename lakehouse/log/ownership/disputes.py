"""Disputes: what a document says of an entity that is not published so, or that it took from another document.

They are facts of the document's last load. A document that lost keeps its claim with them: it is no new finding when the
document is read again, and what the document still says is not pruned.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.domain.ownership import REPORT_HINTS, SETTLED
from lakehouse.store.keys import KEY
from lakehouse.store.schema import DISPUTE, TABLE_OF_KIND
from lakehouse.store.xids import no_uris
from lakehouse.text.problems import OWNER_CHANGED, REPORTED_ONLY, violation_id_column

_DOCUMENT = ["registryid", "document_uri"]
_NAMES = [*_DOCUMENT, *DISPUTE.names]
_CLAIM = ["document_uri", *KEY]
_LATER = 1_000_000


def existing_disputes(existing_documents: DataFrame, gone: DataFrame) -> DataFrame:
    """Return the disputes of existing documents that are not settled.

    Args:
        existing_documents: as from `baseline.current_documents`.
        gone: registryid, xid of documents that are not there any more.

    Returns:
        One row per document and entity: registryid, document_uri, last_sha256 (of the document) and the columns of
        `schema.DISPUTE`.
    """
    there = existing_documents.join(gone, on=["registryid", "xid"], how="left_anti")
    uri, last = F.col("xid").alias("document_uri"), F.col("facts.sha256").alias("last_sha256")
    exploded = there.select("registryid", uri, last, F.explode("facts.disputes").alias("dispute"))
    return exploded.select(*_DOCUMENT, "last_sha256", *(F.col(f"dispute.{name}").alias(name) for name in DISPUTE.names))


def refused_in(details: DataFrame) -> DataFrame:
    """Return the entities that were rejected in documents: document_uri, KEY."""
    is_entity = F.col("kind").isin(*TABLE_OF_KIND) & F.col("xid").isNotNull()
    return details.filter((F.col("finding.action") == "quarantined") & is_entity).select(*_CLAIM).distinct()


def standing(disputes: DataFrame, stage: DataFrame, refused: DataFrame) -> DataFrame:
    """Return the disputes that remain, because the document was not or could not be read, or the entity was rejected in it.

    That it took an entity over, or got it back, is reported until the document changes, even if the change is rejected.

    Args:
        disputes: as from `existing_disputes`.
        stage: columns `schema.STAGE`.
        refused: as from `refused_in`.

    Returns:
        Rows of `disputes`, with is_read (the document was).
    """
    facts = [F.get_json_object("facts", f"$.{name}").alias(name) for name in ("status", "sha256")]
    read = stage.filter(F.col("row") == "document").select(*_DOCUMENT, *facts).filter("status <> 'unchanged'").distinct()
    is_changed = F.col("status").isNotNull() & ~F.col("sha256").eqNullSafe(F.col("last_sha256"))
    is_report = F.coalesce(F.col("rule_id").isin(*REPORTED_ONLY), F.lit(False))
    both = disputes.join(read, on=_DOCUMENT, how="left").filter(~(is_report & is_changed))
    unread = both.filter(F.col("status").isNull() | (F.col("status") == "rejected"))
    # What was refused before, and is refused no more, is not there any more; what is refused now is reported again.
    broken = both.filter("status <> 'rejected' AND content_hash IS NOT NULL")
    broken = broken.join(*at_or_below(refused, "document_uri"), how="left_semi")
    return unread.unionByName(broken).select(*_NAMES, F.col("status").isNotNull().alias("is_read"))


def with_standing(disputes: DataFrame, stands: DataFrame) -> DataFrame:
    """Add to each dispute whether it remains.

    Args:
        disputes: as from `existing_disputes`.
        stands: as from `standing`.

    Returns:
        Rows of `disputes`, with the column `stands`.
    """
    now = stands.select(*_CLAIM, F.lit(True).alias("stands"))
    return disputes.join(now, on=_CLAIM, how="left").withColumn("stands", F.coalesce("stands", F.lit(False)))


def at_or_below(refused: DataFrame, *also: str) -> tuple[DataFrame, Column]:
    """Return the other side and the condition of a join with entities that were rejected, or are below one that was.

    Args:
        refused: as from `refused_in`.
        also: other columns that must be equal.
    """
    names = ["registryid", *also]
    other = refused.select(*(F.col(name).alias(f"_{name}") for name in (*names, "xid"))).distinct()
    same = [F.col(name) == F.col(f"_{name}") for name in names]
    below = (F.col("xid") == F.col("_xid")) | F.col("xid").startswith(F.concat("_xid", F.lit("/")))
    return F.broadcast(other), reduce(Column.__and__, same) & below


def disputes_after(reconciled: DataFrame, stands: DataFrame | None, refused: DataFrame | None) -> DataFrame:
    """Return the disputes of documents after a plan; of unread documents only those that the plan adds.

    Args:
        reconciled: as from `compare.compare`.
        stands: as from `standing`; None: no document had any.
        refused: entities that were refused in documents that do not own them: document_uri, KEY; None: none were.

    Returns:
        One row per document and entity: registryid, document_uri and the columns of `schema.DISPUTE`.
    """
    own = reconciled.select(*KEY, F.posexplode("disputes").alias("_nth", "dispute")).select(*KEY, "dispute.*", "_nth")
    parts = [own.select(*_NAMES, "_nth")]
    # What the plan says of a document that could not be read goes before what was said earlier.
    if stands is not None:
        parts.append(stands.filter("is_read").select(*_NAMES, F.lit(_LATER).alias("_nth")))
    if refused is not None:
        nothing = {name: F.lit(None).cast("string") for name in DISPUTE.names if name not in KEY}
        broken = refused.withColumns(nothing | {"_nth": F.lit(_LATER)}).select(*_NAMES, "_nth")
        parts.append(broken if stands is None else broken.join(stands, on=_CLAIM, how="left_anti").select(*_NAMES, "_nth"))
    every = reduce(DataFrame.unionByName, parts)
    names = [name for name in DISPUTE.names if name not in KEY]
    first = F.min_by(F.struct(*names), "_nth").alias("_first")
    return every.groupBy(*_CLAIM).agg(first).select(*_CLAIM, *(F.col(f"_first.{name}").alias(name) for name in names))


def by_document(disputes: DataFrame) -> DataFrame:
    """Return the disputes of each document.

    Args:
        disputes: as from `disputes_after`.

    Returns:
        One row per document: registryid, xid (its URI), disputes (array of `schema.DISPUTE`, sorted; NULL: none), settled (array
        of the same: what it waits with no more).
    """
    dispute = F.struct(*(F.col(name) for name in DISPUTE.names))
    is_settled = F.coalesce(F.col("rule_id") == SETTLED, F.lit(False))
    listed = {"disputes": F.collect_list(F.when(~is_settled, dispute)), "settled": F.collect_list(F.when(is_settled, dispute))}
    grouped = disputes.groupBy("registryid", F.col("document_uri").alias("xid"))
    both = grouped.agg(*(rows.alias(name) for name, rows in listed.items()))
    return both.withColumn("disputes", F.when(F.size("disputes") > 0, F.array_sort("disputes")))


def added_to(registryid: Column, uri: Column, facts: Column, more: Column, settled: Column) -> Column:
    """Add disputes to the facts of a document that was not read, and remove findings of takeovers that are undone.

    Args:
        registryid: of the document.
        uri: its URI.
        facts: struct `schema.DOCUMENT_BODY`.
        more: they take the place of earlier ones about the same entity; as from `by_document`.
        settled: those that are none any more; as from `by_document`.
    """
    none = F.array().cast(f"array<{DISPUTE.simpleString()}>")
    details = F.coalesce(more, none)

    def is_untouched(old: Column) -> Column:
        return ~F.exists(F.concat(details, settled), lambda new: (new["kind"] == old["kind"]) & (new["xid"] == old["xid"]))

    before = F.coalesce(facts["disputes"], none)
    after = F.concat(F.filter(before, is_untouched), details)
    ended = F.filter(before, lambda old: ~is_untouched(old) & F.coalesce(old["rule_id"].isin(*REPORTED_ONLY), F.lit(False)))
    findings = F.array_except(
        F.coalesce(facts["findings"], no_uris()), F.transform(ended, lambda old: taking_id(registryid, uri, old))
    )
    return facts.withField("disputes", F.when(F.size(after) > 0, F.array_sort(after))).withField(
        "findings", F.when(F.size(findings) > 0, findings)
    )


def find_refusals(reconciled: DataFrame, stage: DataFrame) -> DataFrame:
    """Return the findings of what was rejected or got another owner since documents disagree, each with both documents.

    Args:
        reconciled: as from `compare.compare`.
        stage: columns `schema.STAGE`.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`.
    """
    rows = reconciled.select(*KEY, F.explode("reports").alias("finding"))
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
    """Return the violation_id of the finding that a document took an entity over, or got it back.

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
