"""Stale updates: older than what is stored, by epoch or date. Declared is compared with declared (decision 8)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.store.keys import KEY, LIFE
from lakehouse.store.xids import message_of, no_uris, version_xid
from lakehouse.text.problems import STALE

_RESOURCES = ("message", "schema")
_VERSIONS = ("version", "schemaversion")


def is_suspect() -> Column:
    """Tell updates that look older than what is stored; whether they are, `without_stale` looks up."""
    older_epoch = F.col("declared_epoch") < F.col("stored_epoch")
    older_date = F.col("declared_modifiedat") < F.col("stored_modifiedat")
    return F.coalesce((F.col("op") == "update") & (older_epoch | older_date), F.lit(False))


def without_stale(compared: DataFrame, log: DataFrame) -> DataFrame:
    """Refuse updates that are older than what is stored.

    Args:
        compared: as from `owners.with_verdict`.
        log: rows of `changes` up to the head.

    Returns:
        `compared`; a stale update has no op, and `refused` tells why.
    """
    suspects = compared.filter(is_suspect()).select(*KEY, "stored_modifiedat")
    looked_up = with_declared(suspects, log).drop("stored_modifiedat")
    older = [F.col(f"has_{name}") & (F.col(f"declared_{name}") < F.col(f"stored_{name}")) for name in ("epoch", "modifiedat")]
    is_older = reduce(Column.__or__, older)
    both = compared.join(F.broadcast(looked_up), on=KEY, how="left")
    both = both.withColumn("stale", F.coalesce(is_suspect() & is_older, F.lit(False)))
    stale = F.col("stale")
    stored = ("content_hash", *LIFE, "isdefault", "defaultversionid")
    undone = {name: F.when(stale, F.col(f"stored_{name}")).otherwise(F.col(name)) for name in stored}
    undone["document_uris"] = F.when(stale, F.array_sort("kept")).otherwise(F.col("document_uris"))
    undone |= {name: F.when(stale, no_uris()).otherwise(F.col(name)) for name in ("displaced", "joined")}
    dropped = {name: F.when(~stale, F.col(name)) for name in ("taken_from", "document_uri")}
    dropped["op"] = F.when(~stale, F.col("op")).when(F.array_sort("kept") != F.col("stored_document_uris"), "own")
    dropped["regained"] = F.col("regained") & ~stale
    refused = {"refused": F.when(stale, STALE).otherwise(F.col("refused"))}
    columns = undone | dropped | refused
    return both.select(*(columns.get(name, F.col(name)).alias(name) for name in compared.columns))


def with_declared(entities: DataFrame, log: DataFrame, texts: DataFrame | None = None) -> DataFrame:
    """Tell of published entities whether a document declared the epoch and the date that are stored.

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
    """Tell by the texts that entities came with whether their epochs were declared; KEY, has_epoch.

    A message's epoch stands in its `meta`, the epoch of its default Version at the Version or at the message itself. Where a
    message has no `versions`, its text stands with its only Version. The same goes for schemas.
    """
    holder = message_of("xid")  # the message of a Version, else the entity itself
    wanted = entities.select("registryid", holder.alias("holder")).distinct()
    about = log.filter(~F.col("kind").isin("snapshot", "label", "document")).withColumn("holder", holder)
    about = about.join(F.broadcast(wanted), on=["registryid", "holder"], how="left_semi")
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
