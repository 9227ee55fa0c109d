"""One default Version of each message and schema: the one that the published message names (decision 7).

What a document says of `isdefault` holds for the Versions that it knows; another document may hold others. So whose Versions
and whose message are published is decided first, and `isdefault` follows from that, here and nowhere else.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.store.keys import KEY, VERSION_KIND
from lakehouse.store.materialize import is_known_empty, materialize
from lakehouse.store.xids import id_in, message_of

_OF_RESOURCE = ["registryid", "version_kind", "resource_xid"]


def with_defaults(reconciled: DataFrame, state: DataFrame, log: DataFrame) -> DataFrame:
    """Make `isdefault` of Versions what the published message or schema says.

    Args:
        reconciled: as from `owners.with_verdict`.
        state: as from `baseline.read_state`.
        log: rows of `changes` up to the head.

    Returns:
        `reconciled`, with rows for published Versions that only change their `isdefault` (op update; epoch and dates stay, and
        document_uri is NULL: their text is the stored one), and flipped (`isdefault` is not as the text says). The default
        Version of a message that stays is not deleted.
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
    others = stored.join(reconciled.select(*KEY), on=KEY, how="left_anti")
    named = F.when(F.coalesce(F.col("op") != "delete", F.lit(True)), F.col("defaultversionid")).alias("default")
    is_resource = F.col("kind").isin(*VERSION_KIND)
    defaults = by_resource.filter(is_resource).select(*_OF_RESOURCE, named)
    defaults = defaults.unionByName(others.filter(is_resource).select(*_OF_RESOURCE, F.col("defaultversionid").alias("default")))
    every = by_resource.unionByName(others.filter(is_version).transform(as_unchanged), allowMissingColumns=True)
    judged = every.join(defaults.withColumn("has_resource", F.lit(True)), on=_OF_RESOURCE, how="left")
    wanted = F.coalesce(id_in("xid") == F.col("default"), F.lit(False))
    differs = is_version & F.col("has_resource") & (F.col("isdefault") != wanted)
    stays = is_version & (F.col("op") == "delete") & wanted
    owners_change = F.size("stored_document_uris") > 0
    op = (
        F.when(F.col("stays"), F.when(owners_change, "own"))
        .when(F.col("flipped") & F.coalesce(F.col("op") == "own", F.lit(True)), "update")
        .otherwise(F.col("op"))
    )
    settled = (
        judged.withColumn("stays", F.coalesce(stays, F.lit(False)))
        .withColumn("flipped", F.coalesce(differs & (F.coalesce(F.col("op") != "delete", F.lit(True))), F.lit(False)))
        .withColumn("isdefault", F.when(F.col("flipped"), ~F.col("isdefault")).otherwise(F.col("isdefault")))
        .withColumn("op", op)
        .filter(F.col("was_compared") | F.col("flipped"))
    )
    return _with_hashes(settled, log).select(*reconciled.columns, "flipped")


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
    same |= {name: F.lit(False) for name in ("is_single_insert", "is_suspect", "is_reported")}
    return stored.withColumns(same | {"stored_in": F.col("snapshot_id"), "was_compared": F.lit(False)}).drop("snapshot_id")


def _with_hashes(settled: DataFrame, log: DataFrame) -> DataFrame:
    """Return rows with the hash of the text that is published, where `isdefault` differs from their text."""
    is_stored_text = F.col("flipped") & F.col("document_uri").isNull()
    staged = F.when(F.col("flipped"), F.col("twin_hash")).otherwise(F.col("content_hash"))
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
