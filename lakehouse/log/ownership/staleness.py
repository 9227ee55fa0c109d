"""Whether a document declared the epoch and the date that are stored: declared is compared with declared (decision 8)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.store.keys import KEY
from lakehouse.store.xids import message_of, version_xid

_RESOURCES = ("message", "schema")
_VERSIONS = ("version", "schemaversion")


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
