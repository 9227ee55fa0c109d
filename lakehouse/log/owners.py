"""Who defines an entity, of many at once: Spark brings together what is said of each; `domain.ownership` decides (decision 4).

Claims and verdicts are narrow: keys, hashes, dates, owners. Their frames have one row per entity; what the staged documents say
of it is an array. Dates are in microseconds since 1970 between the two, as `domain.ownership` has them.

A dispute is what a document says of an entity that is not published so, or that it took from another document: a fact of the
document's last load. A document that lost keeps its claim with it: it is no new finding when the document is read again, and
what the document still says is not pruned.

Each message and schema has one default Version: the one that the published message names (decision 7). What a document says of
`isdefault` holds for the Versions that it knows; another document may hold others. So whose Versions and whose message are
published is decided first, and `isdefault` follows from that, here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType
from pyspark.sql.window import Window

from lakehouse.domain.ownership import (
    REPORT_HINTS,
    SETTLED,
    Claim,
    Dispute,
    Policy,
    Published,
    Verdict,
    disputes_after,
    is_reported,
    reports,
    verdict,
    without_stale,
)
from lakehouse.store.keys import KEY, LIFECYCLE, VERSION_KIND
from lakehouse.store.materialize import is_known_empty, materialize
from lakehouse.store.schema import DISPUTE, TABLE_OF_KIND, arrow_schema_of
from lakehouse.store.xids import id_in, message_of, no_uris, version_xid
from lakehouse.text.problems import OWNER_CHANGED, REPORTED_ONLY, violation_id_column

_DOCUMENT = ["registryid", "document_uri"]
_NAMES = [*_DOCUMENT, *DISPUTE.names]
_CLAIM_KEY = ["document_uri", *KEY]
_LATER = 1_000_000  # behind every dispute of the plan
_OF_RESOURCE = ["registryid", "version_kind", "resource_xid"]
CLAIM_COLUMNS = ("document_uri", "content_hash", "twin_hash", *LIFECYCLE, "again", "isdefault", "defaultversionid")
_DATES = ("createdat", "modifiedat")
_OF_DISPUTE = [name for name in DISPUTE.names if name not in KEY]
_URIS = ArrayType(StringType())
_SAME = (
    "op", "refused", "document_uri", "content_hash", *LIFECYCLE, "isdefault", "defaultversionid", "twin_hash", "document_uris",
    "displaced", "is_single_insert", "is_repeated", "is_suspect", "declared_epoch", "declared_modifiedat",
)  # fmt: skip
_STORED: dict[str, Callable[[Published], Any]] = {
    "stored_in": lambda stored: stored.snapshot_id,
    "stored_content_hash": lambda stored: stored.content_hash,
    "stored_modifiedat": lambda stored: stored.modifiedat,
    "stored_document_uris": lambda stored: stored.document_uris,
    "stored_isdefault": lambda stored: stored.isdefault,
    "stored_defaultversionid": lambda stored: stored.defaultversionid,
}
_RESOURCES = ("message", "schema")
_VERSIONS = ("version", "schemaversion")


def existing_disputes(existing_documents: DataFrame, gone: DataFrame) -> DataFrame:
    """Return the disputes of existing documents that are not settled.

    Args:
        existing_documents: as from `baseline.current_documents`.
        gone: registryid, xid of documents that are not there any more.

    Returns:
        One row per document and entity: registryid, document_uri, last_sha256 (of the document) and the columns of
        `schema.DISPUTE`.
    """
    remaining = existing_documents.join(gone, on=["registryid", "xid"], how="left_anti")
    uri, last = F.col("xid").alias("document_uri"), F.col("facts.sha256").alias("last_sha256")
    exploded = remaining.select("registryid", uri, last, F.explode("facts.disputes").alias("dispute"))
    return exploded.select(*_DOCUMENT, "last_sha256", *(F.col(f"dispute.{name}").alias(name) for name in DISPUTE.names))


def refused_in(details: DataFrame) -> DataFrame:
    """Return the entities that were rejected in documents: document_uri, KEY."""
    is_entity = F.col("kind").isin(*TABLE_OF_KIND) & F.col("xid").isNotNull()
    return details.filter((F.col("finding.action") == "quarantined") & is_entity).select(*_CLAIM_KEY).distinct()


def remaining_disputes(disputes: DataFrame, stage: DataFrame, refused: DataFrame) -> DataFrame:
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


def with_remaining(disputes: DataFrame, remaining: DataFrame) -> DataFrame:
    """Add to each dispute whether it remains.

    Args:
        disputes: as from `existing_disputes`.
        remaining: as from `remaining_disputes`.

    Returns:
        Rows of `disputes`, with the column `remains`.
    """
    now = remaining.select(*_CLAIM_KEY, F.lit(True).alias("remains"))
    return disputes.join(now, on=_CLAIM_KEY, how="left").withColumn("remains", F.coalesce("remains", F.lit(False)))


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


def disputes_after_plan(reconciled: DataFrame, remaining: DataFrame | None, refused: DataFrame | None) -> DataFrame:
    """Return the disputes of documents after a plan; of unread documents only those that the plan adds.

    Args:
        reconciled: as from `plan.compare`.
        remaining: as from `remaining_disputes`; None: no document had any.
        refused: entities that were refused in documents that do not own them: document_uri, KEY; None: none were.

    Returns:
        One row per document and entity: registryid, document_uri and the columns of `schema.DISPUTE`.
    """
    own = reconciled.select(*KEY, F.posexplode("disputes").alias("_nth", "dispute")).select(*KEY, "dispute.*", "_nth")
    parts = [own.select(*_NAMES, "_nth")]
    # What the plan says of a document that could not be read goes before what was said earlier.
    if remaining is not None:
        parts.append(remaining.filter("is_read").select(*_NAMES, F.lit(_LATER).alias("_nth")))
    if refused is not None:
        nothing = {name: F.lit(None).cast("string") for name in _OF_DISPUTE}
        broken = refused.withColumns(nothing | {"_nth": F.lit(_LATER)}).select(*_NAMES, "_nth")
        parts.append(
            broken if remaining is None else broken.join(remaining, on=_CLAIM_KEY, how="left_anti").select(*_NAMES, "_nth")
        )
    every = reduce(DataFrame.unionByName, parts)
    first = F.min_by(F.struct(*_OF_DISPUTE), "_nth").alias("_first")
    return (
        every.groupBy(*_CLAIM_KEY).agg(first).select(*_CLAIM_KEY, *(F.col(f"_first.{name}").alias(name) for name in _OF_DISPUTE))
    )


def by_document(disputes: DataFrame) -> DataFrame:
    """Return the disputes of each document.

    Args:
        disputes: as from `disputes_after_plan`.

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
        reconciled: as from `plan.compare`.
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


def with_defaults(reconciled: DataFrame, state: DataFrame, log: DataFrame) -> DataFrame:
    """Make `isdefault` of Versions what the published message or schema says.

    Args:
        reconciled: as from `owners.with_verdict`.
        state: as from `baseline.read_state`.
        log: rows of `changes` up to the head.

    Returns:
        `reconciled`, with rows for published Versions that only change their `isdefault` (op update; epoch and dates stay, and
        document_uri is NULL: their text is the stored one), and isdefault_differs (`isdefault` is not as the text says). The
        default Version of a message that stays is not deleted.
    """
    version_kind = F.create_map(*(F.lit(part) for pair in VERSION_KIND.items() for part in pair))
    is_version = F.col("kind").isin(*VERSION_KIND.values())
    by_resource = reconciled.withColumns(
        {
            "version_kind": F.when(is_version, F.col("kind")).otherwise(version_kind[F.col("kind")]),
            "resource_xid": message_of("xid"),
            "was_compared": F.lit(True),
        }
    )
    touched = by_resource.filter(F.col("version_kind").isNotNull()).select(*_OF_RESOURCE).distinct()
    stored = state.withColumn("version_kind", F.coalesce(version_kind[F.col("kind")], "kind"))
    stored = stored.withColumn("resource_xid", message_of("xid")).join(touched, on=_OF_RESOURCE, how="left_semi")
    untouched = stored.join(reconciled.select(*KEY), on=KEY, how="left_anti")
    named = F.when(F.coalesce(F.col("op") != "delete", F.lit(True)), F.col("defaultversionid")).alias("default")
    is_resource = F.col("kind").isin(*VERSION_KIND)
    defaults = by_resource.filter(is_resource).select(*_OF_RESOURCE, named)
    defaults = defaults.unionByName(
        untouched.filter(is_resource).select(*_OF_RESOURCE, F.col("defaultversionid").alias("default"))
    )
    every = by_resource.unionByName(untouched.filter(is_version).transform(as_unchanged), allowMissingColumns=True)
    judged = every.join(defaults.withColumn("has_resource", F.lit(True)), on=_OF_RESOURCE, how="left")
    wanted = F.coalesce(id_in("xid") == F.col("default"), F.lit(False))
    differs = is_version & F.col("has_resource") & (F.col("isdefault") != wanted)
    stays = is_version & (F.col("op") == "delete") & wanted
    owners_change = F.size("stored_document_uris") > 0
    op = (
        F.when(F.col("stays"), F.when(owners_change, "own"))
        .when(F.col("isdefault_differs") & F.coalesce(F.col("op") == "own", F.lit(True)), "update")
        .otherwise(F.col("op"))
    )
    settled = (
        judged.withColumn("stays", F.coalesce(stays, F.lit(False)))
        .withColumn("isdefault_differs", F.coalesce(differs & (F.coalesce(F.col("op") != "delete", F.lit(True))), F.lit(False)))
        .withColumn("isdefault", F.when(F.col("isdefault_differs"), ~F.col("isdefault")).otherwise(F.col("isdefault")))
        .withColumn("op", op)
        .filter(F.col("was_compared") | F.col("isdefault_differs"))
    )
    return _with_hashes(settled, log).select(*reconciled.columns, "isdefault_differs")


def may_move_default() -> Column:
    """Return whether a row of a comparison may change the default Version of its message or schema, or a Version's flag.

    Where no row says so, what is published stays as `with_defaults` left it.
    """
    comes_or_goes = F.coalesce(F.col("op").isin("insert", "delete"), F.lit(False))
    is_version, is_resource = F.col("kind").isin(*VERSION_KIND.values()), F.col("kind").isin(*VERSION_KIND)
    flag_differs, name_differs = (~F.col(name).eqNullSafe(F.col(f"stored_{name}")) for name in ("isdefault", "defaultversionid"))
    return (is_version & (comes_or_goes | flag_differs)) | (is_resource & (comes_or_goes | name_differs))


def as_unchanged(stored: DataFrame) -> DataFrame:
    """Return published entities that no document was read for as rows of a comparison that changes nothing."""
    names = ("content_hash", "modifiedat", "document_uris", "isdefault", "defaultversionid")
    same = {f"stored_{name}": F.col(name) for name in names}
    same |= {name: F.array() for name in ("agreed", "displaced", "reports", "disputes")}
    same |= {name: F.lit(False) for name in ("is_single_insert", "is_repeated", "is_suspect", "is_reported")}
    return stored.withColumns(same | {"stored_in": F.col("snapshot_id"), "was_compared": F.lit(False)}).drop("snapshot_id")


def _with_hashes(settled: DataFrame, log: DataFrame) -> DataFrame:
    """Return rows with the hash of the text that is published, where `isdefault` differs from their text."""
    is_stored_text = F.col("isdefault_differs") & F.col("document_uri").isNull()
    staged = F.when(F.col("isdefault_differs"), F.col("twin_hash")).otherwise(F.col("content_hash"))
    published = F.when(is_stored_text, F.col("content_hash")).otherwise(staged)
    settled = materialize(settled.withColumn("content_hash", published))
    wanted = settled.filter(is_stored_text).select(*KEY, "stored_in", "isdefault")
    if is_known_empty(wanted):
        return settled
    texts = log.select(*KEY, F.col("snapshot_id").alias("stored_in"), "body").join(F.broadcast(wanted), on=[*KEY, "stored_in"])
    hashes = texts.select(*KEY, F.sha2(with_isdefault(F.col("body"), F.col("isdefault")), 256).alias("_hash"))
    return settled.join(F.broadcast(hashes), on=KEY, how="left").withColumn("content_hash", F.coalesce("_hash", "content_hash"))


def with_isdefault(body: Column, is_default: Column) -> Column:
    """Set `isdefault` of a body, which holds it."""
    texts = [F.concat(F.lit('"isdefault":'), F.when(flag, "true").otherwise("false")) for flag in (~is_default, is_default)]
    return with_member(body, texts[0], texts[1])


def with_member(body: Column, before: Column, after: Column) -> Column:
    """Replace a member of a JSON object by another: the text `before` where it is at the top, and not in what it holds.

    Where a name or a text holds the same text, quote and all, it begins inside a string, and is no member.
    """
    pieces = F.split(body, F.concat(F.lit(r"\Q"), before, F.lit(r"\E")), F.lit(-1))

    def is_top(index: Column) -> Column:
        head = F.call_function("array_join", F.slice(pieces, F.lit(1), index), before)
        plain = F.replace(F.replace(head, F.lit("\\\\"), F.lit("")), F.lit('\\"'), F.lit(""))
        outside = F.regexp_replace(plain, '"[^"]*"', "")  # of strings; a quote that is left begins one
        brackets = F.regexp_replace(outside, r"[^\[\]{}]", "")
        opened, closed = (F.length(F.regexp_replace(brackets, pattern, "")) for pattern in (r"[\]}]", r"[\[{]"))
        return (opened - closed == 1) & ~F.contains(outside, F.lit('"'))

    places = F.filter(F.sequence(F.lit(1), F.size(pieces) - 1), is_top)
    place = F.get(places, F.lit(0))
    left = F.call_function("array_join", F.slice(pieces, F.lit(1), place), before)
    right = F.call_function("array_join", F.slice(pieces, place + 1, F.size(pieces)), before)
    return F.when(F.size(pieces) < 2, body).otherwise(F.coalesce(F.concat(left, after, right), body))


def _texts(*names: str) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


def _longs(*names: str) -> list[StructField]:
    return [StructField(name, LongType()) for name in names]


def _flags(*names: str) -> list[StructField]:
    return [StructField(name, BooleanType()) for name in names]


_DISPUTE_BEFORE = StructType([*_texts("document_uri", *_OF_DISPUTE), *_flags("remains")])
_DISPUTE_AFTER = StructType(_texts("document_uri", *_OF_DISPUTE))
_REPORT = StructType(_texts("document_uri", "rule_id", "severity", "action", "message"))
_AGREED = StructType(_texts("document_uri"))
# What `plan.compare` returns of an entity, but for `isdefault_differs`.
VERDICT = StructType(
    [
        *_texts(*KEY, "op", "refused", "document_uri", "content_hash"),
        *_longs(*LIFECYCLE),
        *_flags("isdefault"),
        *_texts("defaultversionid", "twin_hash"),
        StructField("document_uris", _URIS),
        *_longs("stored_in"),
        StructField("agreed", ArrayType(_AGREED)),
        StructField("displaced", _URIS),
        StructField("reports", ArrayType(_REPORT)),
        StructField("disputes", ArrayType(_DISPUTE_AFTER)),
        *_flags("is_single_insert", "is_repeated", "is_suspect", "is_reported"),
        *_longs("declared_epoch", "declared_modifiedat"),
        *_texts("stored_content_hash"),
        *_longs("stored_modifiedat"),
        StructField("stored_document_uris", _URIS),
        *_flags("stored_isdefault"),
        *_texts("stored_defaultversionid"),
    ]
)


def claims_of(stage: DataFrame) -> DataFrame:
    """Return what the staged documents say of each entity.

    Args:
        stage: columns `schema.STAGE`.

    Returns:
        One row per entity: KEY, claims (array of structs `CLAIM_COLUMNS`, sorted by document_uri).
    """
    claim = F.struct(*((F.unix_micros(name).alias(name) if name in _DATES else F.col(name)) for name in CLAIM_COLUMNS))
    return stage.filter(F.col("row") == "entity").groupBy(*KEY).agg(F.sort_array(F.collect_list(claim)).alias("claims"))


def gather_facts(
    claims: DataFrame,
    dropped: DataFrame,
    state: DataFrame,
    deleted: DataFrame,
    disputes: DataFrame | None,
    protected: DataFrame | None,
) -> DataFrame:
    """Return one row with all facts for each staged or dropped entity.

    Args:
        claims: as from `claims_of`.
        dropped: entities that documents say no more; columns KEY, dropped (the documents, sorted).
        state: as from `baseline.read_state`.
        deleted: rows of the log with op delete.
        disputes: as from `with_remaining`; None: no document has a dispute.
        protected: with `prune`, entities that a known document still says; columns KEY. None: there are none.

    Returns:
        One row per entity: KEY, claims, dropped, stored (struct; NULL: it is not published), deleted_epoch, disputes_before
        (array), is_declared. Claims and arrays may be NULL.
    """
    columns = [F.unix_micros(name).alias(name) if name in _DATES else F.col(name) for name in Published._fields]
    stored = state.select(*KEY, F.struct(*columns).alias("stored"))
    before = deleted.groupBy(*KEY).agg(F.max("epoch").alias("deleted_epoch"))
    both = claims.join(dropped, on=KEY, how="full").join(stored, on=KEY, how="left").join(before, on=KEY, how="left")
    if disputes is None:
        both = both.withColumn("disputes_before", F.lit(None).cast(ArrayType(_DISPUTE_BEFORE)))
    else:
        dispute = F.struct("document_uri", *_OF_DISPUTE, F.col("remains"))
        both = both.join(disputes.groupBy(*KEY).agg(F.collect_list(dispute).alias("disputes_before")), on=KEY, how="left")
    if protected is None:
        return both.withColumn("is_declared", F.lit(False))
    declared = protected.select(*KEY).distinct().withColumn("is_declared", F.lit(True))
    return both.join(declared, on=KEY, how="left").withColumn("is_declared", F.coalesce("is_declared", F.lit(False)))


def with_verdict(entities: DataFrame, *, policy: Policy, now: int, declared: DataFrame | None = None) -> DataFrame:
    """Decide about each entity.

    Args:
        entities: as from `gather_facts`.
        policy: what the ingest may do.
        now: time of the snapshot to come, in microseconds since 1970.
        declared: as from `with_declared`: updates of these that are older than what is stored are refused.

    Returns:
        One row per entity, columns `VERDICT`, the dates as timestamps; see `domain.ownership.Verdict`.
    """
    if declared is not None:
        looked_up = F.broadcast(declared.select(*KEY, "has_epoch", "has_modifiedat"))
        return _dated(entities.join(looked_up, on=KEY).mapInArrow(partial(_decide, policy, now), VERDICT))
    # What one document alone says needs no decision where it is new, or is what is published of that document alone: a first load
    # is little else than the one, a document that was edited little else than the other.
    stored, claim = F.col("stored"), F.get("claims", F.lit(0))
    is_undisputed = F.coalesce((F.size("claims") == 1) & F.col("disputes_before").isNull(), F.lit(False))
    is_new = F.coalesce(is_undisputed & stored.isNull() & F.col("deleted_epoch").isNull(), F.lit(False))
    is_same = is_undisputed & F.col("dropped").isNull() & (F.col("kind") != "registry")
    is_same &= (stored["content_hash"] == claim["content_hash"]) & (stored["document_uris"] == F.array(claim["document_uri"]))
    for name in LIFECYCLE:
        is_same &= claim[name].isNull() | (claim[name] == stored[name])
    is_same = F.coalesce(is_same, F.lit(False))
    decided = entities.filter(~is_new & ~is_same).mapInArrow(partial(_decide, policy, now), VERDICT)
    return _dated(_undecided(entities.filter(is_new | is_same), is_new, now).unionByName(decided))


def _dated(decided: DataFrame) -> DataFrame:
    return decided.withColumns({name: F.timestamp_micros(name) for name in (*_DATES, "stored_modifiedat")})


def _undecided(entities: DataFrame, is_new: Column, now: int) -> DataFrame:
    """Return entities that one document alone says, and that are new or published so, as rows of `VERDICT`."""
    stored, claim = F.col("stored"), F.get("claims", F.lit(0))
    new = {name: claim[name] for name in (*CLAIM_COLUMNS, *LIFECYCLE) if name in VERDICT.names} | {
        "op": F.lit("insert"),
        "epoch": F.coalesce(claim["epoch"], F.lit(1)),
        **{name: F.coalesce(claim[name], F.lit(now)) for name in _DATES},
        "document_uris": F.array(claim["document_uri"]),
    }
    same = {name: stored[name] for name in VERDICT.names if name in Published._fields}
    same |= {name: stored[name.removeprefix("stored_")] for name in _STORED if name != "stored_in"}
    same["stored_in"] = stored["snapshot_id"]
    none = F.lit(None)
    values = {name: F.when(is_new, new.get(name, none)).otherwise(same.get(name, none)) for name in VERDICT.names} | {
        **{name: F.col(name) for name in KEY},
        **{f"declared_{name}": claim[name] for name in ("epoch", "modifiedat")},
        "agreed": F.array(F.struct(claim["document_uri"].alias("document_uri"))),
        **{name: F.array() for name in ("displaced", "reports", "disputes")},
        "is_single_insert": is_new,
        "is_repeated": ~is_new,
        **{name: F.lit(False) for name in ("is_suspect", "is_reported")},
    }
    return entities.select(*(values[field.name].cast(field.dataType).alias(field.name) for field in VERDICT))


def _decide(policy: Policy, now: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema_of(VERDICT)
    for batch in batches:
        rows = [_row(entity, _verdict(entity, policy, now)) for entity in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema)


def _verdict(row: dict[str, Any], policy: Policy, now: int) -> Verdict:
    stored = row["stored"]
    outcome = verdict(
        [Claim(**claim) for claim in row["claims"] or ()],
        None if stored is None else Published(**stored | {"document_uris": tuple(stored["document_uris"] or ())}),
        [Dispute(**dispute) for dispute in row["disputes_before"] or ()],
        policy=policy,
        now=now,
        dropped=row["dropped"] or (),
        is_registry=row["kind"] == "registry",
        is_declared=row["is_declared"],
        deleted_epoch=row["deleted_epoch"],
    )
    if "has_epoch" not in row:
        return outcome
    return without_stale(outcome, has_epoch=bool(row["has_epoch"]), has_modifiedat=bool(row["has_modifiedat"]))


def _row(entity: dict[str, Any], outcome: Verdict) -> dict[str, Any]:
    """Return a verdict as a row of `VERDICT`."""
    is_registry, stored = entity["kind"] == "registry", outcome.stored
    return (
        {name: entity[name] for name in KEY}
        | {name: getattr(outcome, name) for name in _SAME}
        | {name: None if stored is None else of(stored) for name, of in _STORED.items()}
        | {
            "agreed": [{"document_uri": claim.document_uri} for claim in outcome.agreed],
            "reports": [report._asdict() for report in reports(outcome, is_registry=is_registry)],
            "disputes": [_as_dispute(dispute) for dispute in disputes_after(outcome, is_registry=is_registry)],
            "is_reported": is_reported(outcome),
        }
    )


def _as_dispute(dispute: Dispute) -> dict[str, Any]:
    return {name: getattr(dispute, name) for name in ("document_uri", *_OF_DISPUTE)}


def with_declared(entities: DataFrame, log: DataFrame, texts: DataFrame | None = None) -> DataFrame:
    """Add to published entities whether a document declared the epoch and the date that are stored.

    Args:
        entities: KEY, stored_modifiedat; few.
        log: rows of `changes` up to the head.
        texts: those of them that entities came with, where that is known.

    Returns:
        `entities` with has_epoch and has_modifiedat. Where no date was declared, a commit's time is stored.
    """
    commits = log.filter(F.col("kind") == "snapshot")
    commits = commits.select(F.to_timestamp(F.get_json_object("body", "$.committed_at")).alias("stored_modifiedat")).distinct()
    dated = entities.join(commits.withColumn("is_commit", F.lit(True)), on="stored_modifiedat", how="left")
    dated = dated.withColumn("has_modifiedat", F.col("is_commit").isNull()).drop("is_commit")
    return dated.join(_declared_epochs(entities, log if texts is None else texts), on=KEY, how="left")


def _declared_epochs(entities: DataFrame, log: DataFrame) -> DataFrame:
    """Return by the texts of entities whether their epochs were declared: KEY, has_epoch.

    A message's epoch is in its `meta`, the epoch of its default Version at the Version or at the message itself. Where a
    message has no `versions`, its text is with its only Version. The same goes for schemas.
    """
    resource_xid = message_of("xid")  # the message of a Version, else the entity itself
    wanted = entities.select("registryid", resource_xid.alias("resource")).distinct()
    about = log.filter(~F.col("kind").isin("snapshot", "label", "document")).withColumn("resource", resource_xid)
    about = about.join(F.broadcast(wanted), on=["registryid", "resource"], how="left_semi")
    newest_first = Window.partitionBy(*KEY).orderBy(F.desc("snapshot_id"))
    texts = about.withColumn("nth", F.row_number().over(newest_first)).filter("nth = 1").select(
        *KEY,
        F.get_json_object("raw", "$.epoch").isNotNull().alias("own"),
        F.get_json_object("raw", "$.meta.epoch").isNotNull().alias("meta"),
        F.col("raw").isNull().alias("is_in_version"),
        version_xid("xid", F.get_json_object("body", "$.defaultversionid")).alias("default_xid"),
    )  # fmt: skip
    is_resource, is_version = F.col("kind").isin(*_RESOURCES), F.col("kind").isin(*_VERSIONS)
    resources, versions = texts.filter(is_resource).alias("r"), texts.filter(is_version).alias("v")
    same = (F.col("r.registryid") == F.col("v.registryid")) & (F.col("r.default_xid") == F.col("v.xid"))
    pairs = resources.join(versions, on=same, how="full")
    of_resource = F.col("r.meta") | (F.col("r.is_in_version") & F.coalesce("v.meta", F.lit(False)))
    of_version = F.col("v.own") | F.coalesce("r.own", F.lit(False))
    parts = [
        texts.filter(~is_resource & ~is_version).select(*KEY, F.col("own").alias("has_epoch")),
        *(
            pairs.filter(F.col(f"{side}.xid").isNotNull()).select(
                *(F.col(f"{side}.{name}") for name in KEY), has.alias("has_epoch")
            )
            for side, has in (("r", of_resource), ("v", of_version))
        ),
    ]
    return reduce(DataFrame.unionByName, parts)
