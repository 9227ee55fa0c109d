"""Who defines an entity: of what documents say of it, staged and known, one definition is published (decision 4).

Everything here is narrow: keys, hashes, dates, owners. The frames have one row per entity; what the staged documents say of it
is an array, sorted by URI. A claim is new when the document did not hold the entity at its last load.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.store.keys import KEY, LIFE
from lakehouse.store.schema import DISPUTE
from lakehouse.store.xids import no_uris
from lakehouse.text.problems import CONFLICT, STALE


@dataclass(frozen=True)
class Policy:
    """What an ingest may do.

    Attributes:
        force: read unchanged documents again, take stale entities, prune more than half.
        prune: delete what its last document dropped.
        on_conflict: 'update' lets a later document take an entity over; 'refuse' does not.
    """

    force: bool = False
    prune: bool = False
    on_conflict: str = "update"


_OF_DISPUTE = [name for name in DISPUTE.names if name not in KEY]
_SAID_BEFORE = f"array<struct<document_uri: string, {', '.join(f'{name}: string' for name in _OF_DISPUTE)}, stands: boolean>>"
SAID = ("document_uri", "content_hash", "twin_hash", *LIFE, "again", "isdefault", "defaultversionid")


def claims_of(stage: DataFrame) -> DataFrame:
    """Give what the staged documents say of each entity.

    Args:
        stage: columns `schema.STAGE`.

    Returns:
        One row per entity: KEY, claims (array of structs `SAID`, sorted by document_uri).
    """
    one = F.struct(*(F.col(name) for name in SAID))
    return stage.filter(F.col("row") == "entity").groupBy(*KEY).agg(F.sort_array(F.collect_list(one)).alias("claims"))


def with_verdict(
    claims: DataFrame,
    dropped: DataFrame,
    state: DataFrame,
    deleted: DataFrame,
    said: DataFrame | None,
    *,
    policy: Policy,
    protected: DataFrame | None,
    now: Column,
) -> DataFrame:
    """Tell of each staged or dropped entity which definition of it is published, who owns it, and what changes.

    Args:
        claims: as from `claims_of`.
        dropped: entities that documents say no more; columns KEY, dropped (the documents, sorted).
        state: as from `ground.read_state`.
        deleted: rows of the log with op delete.
        said: as from `disputes.with_standing`; None: no document has a dispute.
        policy: what the ingest may do.
        protected: with `prune`, entities that a known document still says; columns KEY. None: there are none.
        now: time of the snapshot to come.

    Returns:
        One row per entity: KEY; op (insert, update, own, delete; NULL: nothing); refused (NULL, or the rule by which all that
        was said of it was refused); document_uri (whose text is taken; NULL where none is); content_hash, LIFE, isdefault,
        defaultversionid and document_uris after the change; taken_from (owner before, where another document takes it over);
        regained (it had lost its last owner); source_uri (the document of which that is told); agreed and opposed (staged
        claims that say what is published, and the others: document_uri, content_hash, is_new, again, rule_id and other of an
        earlier dispute); displaced (owners that were not read and are none any more, or a registry's next document); joined
        (documents that waited, were not read, and say what is published now); kept (owners before that still are, or could not
        be read); stored_in (snapshot of the stored row) and what is stored. A declared epoch or date is stored as declared;
        where none is, an update counts the epoch and sets modifiedat.
    """
    stored = state.select(*KEY, *(F.col(name).alias(f"stored_{name}") for name in state.columns if name not in KEY))
    before = deleted.groupBy(*KEY).agg(F.max("epoch").alias("deleted_epoch"))
    both = claims.join(dropped, on=KEY, how="full").join(stored, on=KEY, how="left").join(before, on=KEY, how="left")
    dispute = F.struct("document_uri", *(F.col(name) for name in _OF_DISPUTE), "stands")
    if said is None:
        both = both.withColumn("said", F.array().cast(_SAID_BEFORE))
    else:
        both = both.join(said.groupBy(*KEY).agg(F.collect_list(dispute).alias("said")), on=KEY, how="left")
    # Step by step, so that no expression is copied into those that build on it: Spark would plan each copy.
    if protected is None:
        both = both.withColumn("is_said", F.lit(False))
    else:
        kept = protected.select(*KEY).distinct().withColumn("is_said", F.lit(True))
        both = both.join(kept, on=KEY, how="left").withColumn("is_said", F.coalesce("is_said", F.lit(False)))
    judged = both.transform(_with_judgement).transform(_with_winner, policy).transform(_with_owners)
    return judged.transform(_with_outcome, policy).transform(_with_result, now)


def _with_judgement(both: DataFrame) -> DataFrame:
    """Tell of each claim whether it is what is stored, and whether it is new."""
    none = F.array().cast(dict(both.dtypes)["claims"])

    def judge(claim: Column) -> Column:
        def is_of(hash_: Column) -> Column:
            return F.coalesce((hash_ == claim["content_hash"]) | (hash_ == claim["twin_hash"]), F.lit(False))

        def about(one: Column) -> Column:
            # What was stale may be taken once the catalog is older, or with --force: it is looked at anew.
            is_known = is_of(one["content_hash"]) & ~F.coalesce(one["rule_id"] == STALE, F.lit(False))
            return (one["document_uri"] == claim["document_uri"]) & is_known

        is_stored = is_of(F.col("stored_content_hash"))
        earlier = F.get(F.filter("said", about), F.lit(0))
        is_own = is_stored & F.array_contains("kept", claim["document_uri"])
        return F.struct(
            *(claim[name].alias(name) for name in SAID),
            _identity(claim).alias("identity"),
            is_stored.alias("is_stored"),
            (~is_own & earlier.isNull()).alias("is_new"),
            earlier["rule_id"].alias("rule_id"),
            earlier["other"].alias("other"),
        )

    first = {
        "claims": F.coalesce("claims", none),
        "said": F.coalesce("said", F.array().cast(dict(both.dtypes)["said"])),
        "is_published": F.col("stored_content_hash").isNotNull(),
        "is_root": F.col("kind") == "registry",
        "kept": F.array_except(F.coalesce("stored_document_uris", no_uris()), F.coalesce("dropped", no_uris())),
    }
    return both.withColumns(first).withColumn("claims", F.transform("claims", judge))


def _identity(claim: Column) -> Column:
    """Give one hash for a definition, whatever its isdefault."""
    return F.least(claim["content_hash"], F.coalesce(claim["twin_hash"], claim["content_hash"]))


def _with_winner(judged: DataFrame, policy: Policy) -> DataFrame:
    """Choose the claim that is published; NULL: what is published stays."""
    new = F.filter("claims", lambda claim: claim["is_new"])
    is_free = F.size("kept") == 0
    if policy.on_conflict == "refuse":
        new = F.filter(new, lambda claim: claim["is_stored"] | F.array_contains("kept", claim["document_uri"]) | is_free)
    pool = F.when(F.size("new") > 0, F.col("new")).when(is_free, F.col("claims"))
    # A registry's own attributes come from the first of all its documents, also from those that are not read (decision 3).
    is_later = F.get("kept", F.lit(0)) < F.get("claims", F.lit(0))["document_uri"]
    first_root = F.when(~F.coalesce(is_later, F.lit(False)), F.col("claims"))
    chosen = F.get(F.when(F.col("is_root"), first_root).otherwise(pool), F.lit(0))
    changes = F.col("winner").isNotNull() & ~F.coalesce(F.col("is_published") & F.col("winner.is_stored"), F.lit(False))
    return judged.withColumn("new", new).withColumn("winner", chosen).withColumn("changes", changes)


def _with_owners(won: DataFrame) -> DataFrame:
    """Tell who says what is published now, and who does not."""

    def agrees(claim: Column) -> Column:
        return F.when(F.col("changes"), claim["identity"] == F.col("winner.identity")).otherwise(claim["is_stored"])

    def uris(claims: str | Column) -> Column:
        return F.transform(claims, lambda claim: claim["document_uri"])

    # What a document waits with stands though it was not read, or could not be.
    waits = F.filter("said", lambda one: one["stands"] & ~F.coalesce(one["rule_id"] == STALE, F.lit(False)))
    same = F.filter(waits, lambda one: one["content_hash"].isin(F.col("winner.content_hash"), F.col("winner.twin_hash")))
    joined = F.array_except(uris(same), F.array_union("kept", uris("claims")))
    stay = F.array_except(F.when(F.col("changes"), no_uris()).otherwise(F.col("kept")), uris("opposed"))
    all_documents = F.array_union("kept", uris("claims"))
    same_now = F.array_union(F.array_union(stay, uris("agreed")), F.col("joined"))
    owners = F.when(F.col("is_root"), all_documents).otherwise(same_now)
    read = F.array_union(uris("agreed"), uris("opposed"))
    # Of a registry whose first document is gone the next one must be read, be it by a later ingest.
    first = F.get("stored_document_uris", F.lit(0))
    follows = F.col("is_root") & (F.size("kept") > 0) & ~F.array_contains("kept", first)
    next_one = F.filter(F.slice("kept", 1, 1), lambda uri: ~F.array_contains(uris("claims"), uri))
    displaced = F.when(F.col("changes") & ~F.col("is_root"), F.array_except("kept", read)).when(follows, next_one)
    return (
        won.withColumns({"agreed": F.filter("claims", agrees), "opposed": F.filter("claims", lambda claim: ~agrees(claim))})
        .withColumn("joined", F.when(F.col("changes") & ~F.col("is_root"), joined).otherwise(no_uris()))
        .withColumn("owners_after", F.array_sort(owners))
        .withColumn("displaced", F.coalesce(displaced, no_uris()))
    )


def _with_outcome(owned: DataFrame, policy: Policy) -> DataFrame:
    """Tell what happens to each entity, and whose text and dates it gets."""
    lead = F.array_min("owners_after")
    first_owner = F.get(F.filter("agreed", lambda claim: claim["document_uri"] == lead), F.lit(0))
    source = F.when(F.col("changes"), F.get("agreed", F.lit(0))).otherwise(first_owner)
    source = F.when(F.col("is_root"), F.col("winner")).otherwise(source)
    redated = [
        F.col(f"source.{name}").isNotNull() & ~F.col(f"source.{name}").eqNullSafe(F.col(f"stored_{name}")) for name in LIFE
    ]
    is_given_up = F.col("is_published") & (F.size("claims") == 0) & (F.size("owners_after") == 0) & ~F.col("is_said")
    op = (
        F.when(~F.col("is_published") & F.col("source").isNotNull(), "insert")
        .when(F.col("changes") | F.col("redated"), "update")
        .when(is_given_up & F.lit(policy.prune), "delete")
        .when(F.col("is_published") & ~F.col("owners_after").eqNullSafe(F.col("stored_document_uris")), "own")
    )
    is_foreign = F.col("changes") & F.col("is_published") & ~F.col("is_root")
    said_by_owner = F.exists("agreed", lambda claim: F.array_contains("stored_document_uris", claim["document_uri"]))
    first_kept = F.get("kept", F.lit(0))
    return (
        owned.withColumn("source", source)
        .withColumn("redated", F.coalesce(F.col("is_published") & reduce(Column.__or__, redated), F.lit(False)))
        .withColumns(
            {
                "op": op,
                "taken_from": F.when(is_foreign & ~said_by_owner, first_kept),
                "regained": F.coalesce(is_foreign & (F.size("kept") == 0) & ~F.col("source.is_new"), F.lit(False)),
            }
        )
        .withColumn("writes", F.coalesce(F.col("op").isin("insert", "update"), F.lit(False)))
    )


def _with_result(decided: DataFrame, now: Column) -> DataFrame:
    """Give the columns that `with_verdict` tells."""
    writes = F.col("writes")
    first = F.coalesce(F.col("deleted_epoch") + 1, F.lit(1))
    counted = F.when(~F.col("is_published"), first).otherwise(F.col("stored_epoch") + 1)
    after = {
        "epoch": F.coalesce("source.epoch", counted),
        "createdat": F.coalesce("source.createdat", "stored_createdat", now),
        "modifiedat": F.coalesce("source.modifiedat", now),
    }
    all_refused = F.col("op").isNull() & (F.size("agreed") == 0) & (F.size("opposed") > 0) & ~F.col("is_root")

    def told(claims: str) -> Column:
        names = ("document_uri", "content_hash", "is_new", "again", "rule_id", "other")
        return F.transform(claims, lambda claim: F.struct(*(claim[name].alias(name) for name in names)))

    return decided.select(
        *KEY,
        "op",
        F.when(all_refused, CONFLICT).alias("refused"),
        "taken_from",
        "regained",
        F.coalesce("winner.document_uri", "source.document_uri").alias("source_uri"),
        F.when(writes, F.col("source.document_uri")).alias("document_uri"),
        F.when(writes, F.col("source.content_hash")).otherwise(F.col("stored_content_hash")).alias("content_hash"),
        *(F.when(writes, value).otherwise(F.col(f"stored_{name}")).alias(name) for name, value in after.items()),
        F.when(writes, F.col("source.defaultversionid")).otherwise(F.col("stored_defaultversionid")).alias("defaultversionid"),
        F.when(writes, F.col("source.isdefault")).otherwise(F.col("stored_isdefault")).alias("isdefault"),
        F.when(writes, F.col("source.twin_hash")).alias("twin_hash"),
        F.col("owners_after").alias("document_uris"),
        F.col("stored_snapshot_id").alias("stored_in"),
        told("agreed").alias("agreed"),
        told("opposed").alias("opposed"),
        "displaced",
        "joined",
        "kept",
        F.col("source.epoch").alias("declared_epoch"),
        F.col("source.modifiedat").alias("declared_modifiedat"),
        *(f"stored_{name}" for name in ("content_hash", *LIFE, "document_uris", "isdefault", "defaultversionid")),
    )
