"""Who defines an entity, of many at once: Spark brings together what is said of each; `domain.ownership` decides (decision 4).

Everything here is narrow: keys, hashes, dates, owners. The frames have one row per entity; what the staged documents say of it
is an array. Dates are in microseconds since 1970 between the two, as `domain.ownership` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType
from pyspark.sql.window import Window

from lakehouse.domain.ownership import (
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
from lakehouse.store.keys import KEY, LIFE
from lakehouse.store.schema import DISPUTE
from lakehouse.store.xids import message_of, version_xid

CLAIM_COLUMNS = ("document_uri", "content_hash", "twin_hash", *LIFE, "again", "isdefault", "defaultversionid")
_DATES = ("createdat", "modifiedat")
_OF_DISPUTE = [name for name in DISPUTE.names if name not in KEY]


def _texts(*names: str) -> list[StructField]:
    return [StructField(name, StringType()) for name in names]


def _longs(*names: str) -> list[StructField]:
    return [StructField(name, LongType()) for name in names]


def _flags(*names: str) -> list[StructField]:
    return [StructField(name, BooleanType()) for name in names]


_URIS = ArrayType(StringType())
_DISPUTE_BEFORE = StructType([*_texts("document_uri", *_OF_DISPUTE), *_flags("holds")])
_DISPUTE_AFTER = StructType(_texts("document_uri", *_OF_DISPUTE))
_REPORT = StructType(_texts("document_uri", "rule_id", "severity", "action", "message"))
_AGREED = StructType(_texts("document_uri"))
# What `compare.compare` returns of an entity, but for `flipped`.
VERDICT = StructType(
    [
        *_texts(*KEY, "op", "refused", "document_uri", "content_hash"),
        *_longs(*LIFE),
        *_flags("isdefault"),
        *_texts("defaultversionid", "twin_hash"),
        StructField("document_uris", _URIS),
        *_longs("stored_in"),
        StructField("agreed", ArrayType(_AGREED)),
        StructField("displaced", _URIS),
        StructField("reports", ArrayType(_REPORT)),
        StructField("disputes", ArrayType(_DISPUTE_AFTER)),
        *_flags("is_single_insert", "is_suspect", "is_reported"),
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


def gathered(
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
        disputes: as from `disputes.with_standing`; None: no document has a dispute.
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
        dispute = F.struct("document_uri", *_OF_DISPUTE, F.col("stands").alias("holds"))
        both = both.join(disputes.groupBy(*KEY).agg(F.collect_list(dispute).alias("disputes_before")), on=KEY, how="left")
    if protected is None:
        return both.withColumn("is_declared", F.lit(False))
    declared = protected.select(*KEY).distinct().withColumn("is_declared", F.lit(True))
    return both.join(declared, on=KEY, how="left").withColumn("is_declared", F.coalesce("is_declared", F.lit(False)))


def with_verdict(entities: DataFrame, *, policy: Policy, now: int, declared: DataFrame | None = None) -> DataFrame:
    """Decide about each entity.

    Args:
        entities: as from `gathered`.
        policy: what the ingest may do.
        now: time of the snapshot to come, in microseconds since 1970.
        declared: as from `with_declared`: updates of these that are older than what is stored are refused.

    Returns:
        One row per entity, columns `VERDICT`, the dates as timestamps; see `domain.ownership.Verdict`.
    """
    if declared is not None:
        looked_up = F.broadcast(declared.select(*KEY, "has_epoch", "has_modifiedat"))
        return _dated(entities.join(looked_up, on=KEY).mapInArrow(partial(_decide, policy, now), VERDICT))
    # What is new, and said by one document alone, needs no decision: a first load is little else.
    is_plain = F.coalesce(
        F.col("stored").isNull() & (F.size("claims") == 1) & F.col("disputes_before").isNull() & F.col("deleted_epoch").isNull(),
        F.lit(False),
    )
    others = entities.filter(~is_plain).mapInArrow(partial(_decide, policy, now), VERDICT)
    return _dated(_inserted(entities.filter(is_plain), now).unionByName(others))


def _dated(decided: DataFrame) -> DataFrame:
    return decided.withColumns({name: F.timestamp_micros(name) for name in (*_DATES, "stored_modifiedat")})


def _inserted(entities: DataFrame, now: int) -> DataFrame:
    claim = F.get("claims", F.lit(0))
    values = {name: claim[name] for name in (*CLAIM_COLUMNS, *LIFE) if name in VERDICT.names} | {
        **{name: F.col(name) for name in KEY},
        "op": F.lit("insert"),
        **{f"declared_{name}": claim[name] for name in ("epoch", "modifiedat")},
        "epoch": F.coalesce(claim["epoch"], F.lit(1)),
        **{name: F.coalesce(claim[name], F.lit(now)) for name in _DATES},
        "document_uris": F.array(claim["document_uri"]),
        "agreed": F.array(F.struct(claim["document_uri"].alias("document_uri"))),
        **{name: F.array() for name in ("displaced", "reports", "disputes")},
        "is_single_insert": F.lit(True),
        **{name: F.lit(False) for name in ("is_suspect", "is_reported")},
    }
    return entities.select(*(values.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in VERDICT))


def _decide(policy: Policy, now: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(VERDICT)
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


_SAME = (
    "op", "refused", "document_uri", "content_hash", *LIFE, "isdefault", "defaultversionid", "twin_hash", "document_uris",
    "displaced", "is_single_insert", "is_suspect", "declared_epoch", "declared_modifiedat",
)  # fmt: skip
_STORED: dict[str, Callable[[Published], Any]] = {
    "stored_in": lambda stored: stored.snapshot_id,
    "stored_content_hash": lambda stored: stored.content_hash,
    "stored_modifiedat": lambda stored: stored.modifiedat,
    "stored_document_uris": lambda stored: stored.document_uris,
    "stored_isdefault": lambda stored: stored.isdefault,
    "stored_defaultversionid": lambda stored: stored.defaultversionid,
}


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


_RESOURCES = ("message", "schema")
_VERSIONS = ("version", "schemaversion")


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
        F.col("raw").isNull().alias("stands_below"),
        version_xid("xid", F.get_json_object("body", "$.defaultversionid")).alias("default_xid"),
    )  # fmt: skip
    is_resource, is_version = F.col("kind").isin(*_RESOURCES), F.col("kind").isin(*_VERSIONS)
    resources, versions = texts.filter(is_resource).alias("r"), texts.filter(is_version).alias("v")
    same = (F.col("r.registryid") == F.col("v.registryid")) & (F.col("r.default_xid") == F.col("v.xid"))
    pairs = resources.join(versions, on=same, how="full")
    of_resource = F.col("r.meta") | (F.col("r.stands_below") & F.coalesce("v.meta", F.lit(False)))
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
