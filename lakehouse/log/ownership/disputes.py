"""Disputes: what a document says of an entity that is not published so, or that it took from another document.

They are facts of the document's last load. A document that lost waits with them: what it said is nothing new when it is read
again, and nothing that it still says is pruned.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.log.ownership.refusals import is_contested, taken
from lakehouse.store.keys import KEY
from lakehouse.store.schema import DISPUTE, TABLE_OF_KIND
from lakehouse.text.problems import CONFLICT, STALE

_DOCUMENT = ["registryid", "document_uri"]
_NAMES = [*_DOCUMENT, *DISPUTE.names]
_CLAIM = ["document_uri", *KEY]


def known_disputes(known: DataFrame, gone: DataFrame) -> DataFrame:
    """Give the disputes of the known documents that are still there.

    Args:
        known: as from `documents.current_documents`.
        gone: registryid, xid of documents that are not there any more.

    Returns:
        One row per document and entity: registryid, document_uri and the columns of `model.DISPUTE`.
    """
    there = known.join(gone, on=["registryid", "xid"], how="left_anti")
    one = there.select("registryid", F.col("xid").alias("document_uri"), F.explode("facts.disputes").alias("dispute"))
    return one.select(*_DOCUMENT, *(F.col(f"dispute.{name}").alias(name) for name in DISPUTE.names))


def refused_in(told: DataFrame) -> DataFrame:
    """Give the entities that were refused in documents: document_uri, KEY."""
    is_entity = F.col("kind").isin(*TABLE_OF_KIND) & F.col("xid").isNotNull()
    return told.filter((F.col("finding.action") == "quarantined") & is_entity).select(*_CLAIM).distinct()


def standing(said: DataFrame, stage: DataFrame, refused: DataFrame) -> DataFrame:
    """Give the disputes that stand, since the document was not read, or could not be, or the entity was refused in it.

    Args:
        said: as from `known_disputes`.
        stage: columns `model.STAGE`.
        refused: as from `refused_in`.

    Returns:
        Rows of `said`, with is_read (the document was).
    """
    status = F.get_json_object("facts", "$.status").alias("status")
    read = stage.filter(F.col("row") == "document").select(*_DOCUMENT, status).filter("status <> 'unchanged'").distinct()
    both = said.join(read, on=_DOCUMENT, how="left")
    unread = both.filter(F.col("status").isNull() | (F.col("status") == "rejected"))
    broken = both.join(*at_or_below(refused, "document_uri"), how="left_semi").filter("status <> 'rejected'")
    return unread.unionByName(broken).select(*_NAMES, F.col("status").isNotNull().alias("is_read"))


def at_or_below(refused: DataFrame, *also: str) -> tuple[DataFrame, Column]:
    """Give what to join with for entities that were refused or stand below one that was: the other side, and the condition.

    Args:
        refused: as from `refused_in`.
        also: other columns that must be equal.
    """
    names = ["registryid", *also]
    other = refused.select(*(F.col(name).alias(f"_{name}") for name in (*names, "xid"))).distinct()
    same = [F.col(name) == F.col(f"_{name}") for name in names]
    below = (F.col("xid") == F.col("_xid")) | F.col("xid").startswith(F.concat("_xid", F.lit("/")))
    return F.broadcast(other), reduce(Column.__and__, same) & below


def disputes_after(compared: DataFrame, stands: DataFrame | None, refused: DataFrame | None) -> DataFrame:
    """Give the disputes of documents after a plan; of those that were not read only what the plan adds.

    Args:
        compared: as from `plans.compare`.
        stands: as from `standing`; None: no document had any.
        refused: entities that were refused in documents that do not own them: document_uri, KEY; None: none were.

    Returns:
        One row per document and entity: registryid, document_uri and the columns of `model.DISPUTE`.
    """
    lost = F.transform(
        F.when(F.col("kind") != "registry", F.col("opposed")),
        lambda one: _dispute(one["document_uri"], one["content_hash"], F.when(is_contested(one), CONFLICT)),
    )
    displaced = F.transform("displaced", lambda uri: _dispute(uri, F.col("stored_content_hash")))
    stale = F.transform(
        F.filter(
            F.when(F.col("refused") == STALE, F.col("agreed")),
            lambda one: ~F.array_contains("document_uris", one["document_uri"]),
        ),
        lambda one: _dispute(one["document_uri"], one["content_hash"], F.lit(STALE)),
    )
    told = F.transform(taken(), lambda one: _dispute(one["document_uri"], one["content_hash"], one["rule_id"], one["other"]))
    parts = [
        compared.select(*KEY, F.explode(one).alias("one")).select(*KEY, "one.*").select(*_NAMES)
        for one in (lost, displaced, stale, told)
    ]
    if stands is not None:
        parts.append(stands.filter("is_read").select(*_NAMES))
    if refused is not None:
        broken = refused.withColumns({name: F.lit(None).cast("string") for name in DISPUTE.names if name not in KEY})
        parts.append(broken if stands is None else broken.join(stands, on=_CLAIM, how="left_anti"))
    every = parts[0]
    for part in parts[1:]:
        every = every.unionByName(part.select(*_NAMES))
    # What the plan says of an owner that was displaced although it could not be read goes before what was said earlier.
    return every.groupBy(*_CLAIM).agg(*(F.first(name).alias(name) for name in DISPUTE.names if name not in KEY))


def by_document(disputes: DataFrame) -> DataFrame:
    """Give the disputes of each document: registryid, xid (its URI), disputes (array of `model.DISPUTE`, sorted)."""
    one = F.struct(*(F.col(name) for name in DISPUTE.names))
    grouped = disputes.groupBy("registryid", F.col("document_uri").alias("xid"))
    return grouped.agg(F.array_sort(F.collect_list(one)).alias("disputes"))


def added_to(facts: Column, more: Column) -> Column:
    """Add disputes to the facts of a document that was not read; they take the place of earlier ones about the same entity."""

    def is_kept(old: Column) -> Column:
        return ~F.exists(more, lambda new: (new["kind"] == old["kind"]) & (new["xid"] == old["xid"]))

    before = F.coalesce(facts["disputes"], F.array().cast(f"array<{DISPUTE.simpleString()}>"))
    return facts.withField("disputes", F.array_sort(F.concat(F.filter(before, is_kept), more)))


def _dispute(uri: Column, content_hash: Column, rule_id: Column | None = None, other: Column | None = None) -> Column:
    nothing = F.lit(None).cast("string")
    return F.struct(
        uri.alias("document_uri"),
        content_hash.alias("content_hash"),
        (nothing if rule_id is None else rule_id).alias("rule_id"),
        (nothing if other is None else other).alias("other"),
    )
