"""Documents that are as they were at their last load: their hash is the same, and they are not opened again.

Only a document that changed, or of which something was refused, goes on to be parsed. The result of an ingest at a snapshot is
cached: the same ingest again, with nothing published since, reads nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.ingest.parse.draft import WITH_FILES
from lakehouse.ingest.sources import Sources, read_documents
from lakehouse.log.snapshotfacts import Head
from lakehouse.rules.declared import FINDING_RULES
from lakehouse.settings import Settings
from lakehouse.store.files import exists, list_folder, read_text, remove_folder, write_text
from lakehouse.store.materialize import count, is_empty, is_known_empty, materialize
from lakehouse.store.session import absolute_location, is_without_codegen
from lakehouse.text.problems import REPORTED_ONLY
from lakehouse.version import VERSION

_FEW_DOCUMENTS = 1000  # that are named to Spark one by one


@dataclass(frozen=True)
class Reread:
    """Which documents are parsed though they are as they were at their last load.

    Attributes:
        force: all of them.
        dialect: what was read as of another one than this.
        strict: what had findings: an error that rejects nothing otherwise rejects the document now.
        documents: these, by their URIs.
    """

    force: bool = False
    dialect: str | None = None
    strict: bool = False
    documents: tuple[str, ...] = ()


def with_unchanged(
    documents: DataFrame,
    existing_documents: DataFrame,
    registry: Column | None,
    is_named: Column | None = None,
    reread: Reread | None = None,
) -> DataFrame:
    """Mark the documents that need not be parsed: same URI and hash as at the last load, and nothing to check again.

    Args:
        documents: as from `read_documents`.
        existing_documents: one row per document and registry, as from `current_documents`.
        registry: registry that the documents go into; None when each document says it itself.
        is_named: marks documents that were named; such a one that was passed over in a folder is looked at again. None: none was.
        reread: what is parsed all the same.

    Returns:
        `documents` with registry, unchanged, again (the same as at the last load, and parsed all the same), content (NULL for
        an unchanged document), last_sha256, last_clean (hash at the last load, and whether a document with that hash need not
        be parsed), for documents whose hash is not known yet, named, and last_registry (where a document that says its
        registry itself was loaded last).
    """
    is_named = F.lit(False) if is_named is None else is_named
    skipped = F.col("facts.status") == "skipped"
    uri, own = F.col("xid").alias("_uri"), F.when(F.col("facts.own_registry"), F.lit(None)).otherwise(F.col("registryid"))
    reread = reread or Reread()
    clean = needs_no_look("facts", strict=reread.strict) & F.lit(not reread.force)
    if reread.documents:
        clean &= ~F.col("xid").isin(list(reread.documents))
    is_same_dialect = F.lit(True)
    if reread.dialect is not None:
        is_same_dialect = F.coalesce(F.col("facts.dialect") == reread.dialect, F.lit(False))
    sha256 = F.when(is_same_dialect, F.col("facts.sha256"))
    load = F.struct("snapshot_id", sha256.alias("sha256"), clean.alias("clean"), skipped.alias("skipped"), "registryid")
    last = existing_documents.groupBy(uri, own.alias("_registry")).agg(F.max(load).alias("last"))
    wanted = documents.withColumn("registry", F.lit(None).cast("string") if registry is None else registry)
    same_place = (F.col("document_uri") == F.col("_uri")) & F.col("registry").eqNullSafe(F.col("_registry"))
    same = F.coalesce(F.col("sha256") == F.col("last.sha256"), F.lit(False))
    clean = F.coalesce(F.col("last.clean") & ~(is_named & F.col("last.skipped")), F.lit(False))
    return wanted.join(last, on=same_place, how="left").select(
        "document_uri",
        "size",
        "sha256",
        "registry",
        (same & clean).alias("unchanged"),
        (same & ~clean).alias("again"),
        F.when(~(same & clean), F.col("content")).alias("content"),
        F.col("last.sha256").alias("last_sha256"),
        clean.alias("last_clean"),
        F.when(F.col("registry").isNull(), F.col("last.registryid")).alias("last_registry"),
        is_named.alias("named"),
    )


def needs_no_look(facts: str, *, strict: bool = False) -> Column:
    """Return whether a document's facts show that its last load rejected nothing, and that all of it is published.

    Args:
        facts: the column that holds them.
        strict: nor was anything found: what refuses nothing else would refuse the document now.
    """
    nothing_refused = (F.col(f"{facts}.status") != "rejected") & (F.coalesce(F.size(f"{facts}.quarantined"), F.lit(0)) <= 0)
    waits = F.exists(F.col(f"{facts}.disputes"), lambda dispute: ~F.coalesce(dispute["rule_id"], F.lit("")).isin(*REPORTED_ONLY))
    takes_in = F.coalesce(F.array_contains(F.map_keys(f"{facts}.spellings"), WITH_FILES), F.lit(False))  # files that may differ
    clean = nothing_refused & ~takes_in & ~F.coalesce(waits, F.lit(False))
    return clean & (F.coalesce(F.size(f"{facts}.findings"), F.lit(0)) <= 0) if strict else clean


def is_unchanged_row() -> Column:
    """Return whether a row of the stage is a document that was not parsed."""
    return (F.col("row") == "document") & F.get_json_object("facts", "$.status").eqNullSafe("unchanged")


def find_followers(existing_documents: DataFrame, gone: DataFrame, stage: DataFrame) -> list[str]:
    """Find unchanged documents that must be read since the first document of their registry is gone (decision 3).

    Its own attributes are those of the next one then, and whoever differs from the first differs from that one, or not at all.

    Args:
        existing_documents: as from `current_documents`.
        gone: as from `find_gone`.
        stage: columns `schema.STAGE`, with the unchanged documents.

    Returns:
        Their URIs: of each such registry the next document, and those with findings.
    """
    if is_empty(gone):
        return []
    loaded = existing_documents.filter("facts.status = 'loaded'").select(
        "registryid", "xid", (F.size("facts.findings") > 0).alias("_has_findings")
    )
    marked = loaded.join(gone.withColumn("_gone", F.lit(True)), on=["registryid", "xid"], how="left")
    first = marked.groupBy("registryid").agg(
        F.min_by("_gone", "xid").alias("_first_gone"), F.min(F.when(F.col("_gone").isNull(), F.col("xid"))).alias("_next")
    )
    left = marked.join(first.filter("_first_gone"), on="registryid").filter("_gone IS NULL AND (_has_findings OR xid = _next)")
    unchanged = stage.filter(is_unchanged_row()).select("registryid", "xid")
    return sorted(row["xid"] for row in left.join(unchanged, on=["registryid", "xid"], how="left_semi").select("xid").collect())


def find_displaced(reconciled: DataFrame, stage: DataFrame) -> list[str]:
    """Find unchanged documents from which others take an entity.

    They wait with it, and so the next ingest reads them. Their findings are reported now: the same documents again change
    nothing.

    Args:
        reconciled: as from `compare`.
        stage: columns `schema.STAGE`, with the unchanged documents.

    Returns:
        Their URIs.
    """
    displaced = reconciled.select("registryid", F.explode("displaced").alias("xid"))
    unchanged = stage.filter(is_unchanged_row()).select("registryid", "xid")
    both = unchanged.join(displaced, on=["registryid", "xid"], how="left_semi")
    return sorted({row["xid"] for row in both.select("xid").collect()})


class HashedDocuments(NamedTuple):
    """Documents, of which no unchanged one was opened again once it was hashed.

    rows: as from `with_unchanged`; unchanged: how many they are when all of them are, else None; changed_bytes: size of those
    that changed, None where it was not asked for or where one is compressed; is_judged: they were judged as they are, so that
    those of which something was refused need not be read again either.
    """

    rows: DataFrame
    unchanged: int | None
    changed_bytes: int | None
    is_judged: bool = False


def without_content_of_unchanged(
    spark: SparkSession,
    sources: Sources,
    existing_documents: DataFrame,
    registry: Column | None,
    stream_bytes: int,
    reread: Reread,
    is_judged: Callable[[Uris], bool] | None = None,
) -> HashedDocuments:
    """Read the documents, and open no unchanged one again once it was hashed.

    Args:
        spark: the session.
        sources: as from `find_sources`.
        existing_documents: as from `current_documents`.
        registry: as for `with_unchanged`.
        stream_bytes: as for `read_documents`.
        reread: as for `with_unchanged`.
        is_judged: returns whether all documents, by their URIs, were judged with these facts; None: unknown.
    """
    documents = read_documents(spark, sources, stream_bytes)
    every = with_unchanged(documents, existing_documents, registry, sources.is_named(), reread)
    if reread.force or is_known_empty(existing_documents):
        return HashedDocuments(every, None, None)
    details = _without_content(every)
    first = details.filter(~F.col("unchanged")).select("document_uri", "size", "again").limit(_FEW_DOCUMENTS + 1).collect()
    if len(first) > _FEW_DOCUMENTS:
        return HashedDocuments(every, None, None)
    if is_judged is not None and all(row["again"] for row in first):
        uris = uris_of(details.agg(*uris_in(F.col("document_uri"))).collect()[0])
        if is_judged(uris):
            return HashedDocuments(details.withColumn("content", F.lit(None).cast("binary")), uris.number, 0, is_judged=True)
    unchanged = details.filter("unchanged").withColumn("content", F.lit(None).cast("binary"))
    if not first:
        return HashedDocuments(unchanged, count(details), 0)
    changed = {sources.located.get(row["document_uri"], row["document_uri"]): row["size"] for row in first}
    unreadable = [entry for entry in sources.unreadable if entry[0] in changed]
    files = [uri for uri, size in changed.items() if size and (uri, size) not in unreadable]
    empty = [uri for uri, size in changed.items() if not size]
    few = replace(sources, folders=[], files=files, empty=empty, unreadable=unreadable)
    again = with_unchanged(read_documents(spark, few, stream_bytes), existing_documents, registry, few.is_named(), reread)
    compressed = any(uri.endswith(".gz") for uri in changed)
    return HashedDocuments(unchanged.unionByName(again), None, None if compressed else sum(changed.values()))


def _without_content(documents: DataFrame) -> DataFrame:
    """Compute what is known of documents once: in the driver where the catalog is small, and they are few."""
    details = documents.drop("content")
    if is_without_codegen(documents.sparkSession):
        first = materialize(details.limit(_FEW_DOCUMENTS + 1))
        if count(first) <= _FEW_DOCUMENTS:
            return first
    return details.localCheckpoint()


_MOST = 100  # calls that are remembered


class Uris(NamedTuple):
    """Which documents there were: their number, and two sums of their URIs, whatever their order."""

    number: int
    xor: int
    sum: int

    def joined(self, other: Uris) -> Uris:
        """Return the union of both."""
        return Uris(self.number + other.number, self.xor ^ other.xor, self.sum + other.sum)


def uris_in(uri: Column) -> list[Column]:
    """Return the aggregates that `uris_of` reads, over a column with the URIs of documents, where NULL means none."""
    xor, total = (F.when(uri.isNotNull(), hashed) for hashed in (F.xxhash64(uri), F.hash(uri)))  # a hash of NULL is a number
    xor, total = (F.coalesce(aggregate, F.lit(0)) for aggregate in (F.bit_xor(xor), F.sum(total)))
    return [F.count(uri).alias("number"), xor.alias("xor"), total.alias("sum")]


def uris_of(row: Row) -> Uris:
    """Read what the columns of `uris_in` hold."""
    return Uris(row["number"], row["xor"], row["sum"])


def cached_result_file(settings: Settings, **call: Any) -> str:
    """Return the file of an ingest's cached result; its name covers all that the findings depend on.

    Args:
        settings: all of them count.
        call: what the ingest was called with.
    """
    details = json.dumps([VERSION, _rules(), settings.model_dump(), call], sort_keys=True, default=str)
    return f"{_folder(settings)}/{hashlib.sha256(details.encode()).hexdigest()}"


def is_judged(spark: SparkSession, location: str, head: Head, scopes: list[str], uris: Uris) -> bool:
    """Return whether a file says that its ingest ended at this head with these documents, of SOURCEs that covered the same."""
    return exists(spark, location) and read_text(spark, location) == _text(head, scopes, uris)


def remember_ingest(spark: SparkSession, settings: Settings, location: str, head: Head, scopes: list[str], uris: Uris) -> None:
    """Record that an ingest ended at a head: repeating it would change nothing.

    Args:
        spark: the session.
        settings: the warehouse.
        location: as from `cached_result_file`.
        head: the snapshot.
        scopes: as in `Sources`; what could not be looked at is left out of them, so they may be others where no document is.
        uris: of the documents that there were.
    """
    if len(list_folder(spark, _folder(settings))) >= _MOST:
        remove_folder(spark, _folder(settings))
    write_text(spark, location, _text(head, scopes, uris))


def _folder(settings: Settings) -> str:
    return f"{absolute_location(settings.warehouse)}/_judged"


def _text(head: Head, scopes: list[str], uris: Uris) -> str:
    return json.dumps([head.snapshot_id, head.digest, *uris, scopes])


@cache
def _rules() -> str:
    return hashlib.sha256(repr(sorted(FINDING_RULES.items())).encode()).hexdigest()
