"""Versions that are compared with those before them, by what `compatibility` of their message or schema promises (COMP-001).

`domain.neighbours` finds the same pairs by look-ups, and says which entity a finding is about.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.versionchanges import PROMISES, pairs_to_compare
from lakehouse.rules.relational.candidaterows import Candidate, candidate_rows
from lakehouse.rules.relational.pairs import no_pairs, pairs_of
from lakehouse.store.deltatables import open_table
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import is_empty, materialize
from lakehouse.store.schema import MESSAGES, SCHEMAS, SCHEMAVERSIONS, VERSIONS
from lakehouse.store.xids import message_of

_PARENT = ["registryid", "parent"]
_PAIRS = "array<struct<later:string,earlier:string>>"


def check_promises(spark: SparkSession, result: Candidate, used: set[str]) -> DataFrame:
    """Pair Versions of which one would be written, or of whose message or schema `compatibility` would be another one.

    Args:
        spark: the session.
        result: what would be published.
        used: names of the entity tables that hold something.

    Returns:
        Pairs, as from `pairs.pairs_of`.
    """
    promising = _promising(result.entities)
    if is_empty(promising):
        return no_pairs(spark)
    staged = result.entities.filter("staged")
    concerned = staged.select("registryid", message_of("xid").alias("parent")).distinct()
    versions, schemaversions = (candidate_rows(spark, result, table, used) for table in (VERSIONS, SCHEMAVERSIONS))
    promising = _with_published(spark, promising.join(concerned, on=_PARENT, how="left_semi"), used)
    both = _version_pairs(promising, versions, schemaversions)
    is_other_promise = F.col("written_by").isNotNull() & (F.col("published") != F.col("compatibility"))
    subject = (
        F.when(F.col("later.written_by").isNotNull(), F.col("later.xid"))
        .when(F.col("earlier.written_by").isNotNull(), F.col("earlier.xid"))
        .when(is_other_promise, F.col("parent"))
    )
    return _pairs(both.withColumn("xid", subject), staged)


def check_published_promises(spark: SparkSession, entities: DataFrame) -> DataFrame:
    """Pair all Versions of the current schema with those that they are compared with.

    Args:
        spark: the session.
        entities: what is published, as for the rules between entities.

    Returns:
        Pairs, as from `pairs.pairs_of`.
    """
    promising = _promising(entities)
    if is_empty(promising):
        return no_pairs(spark)
    both = _version_pairs(promising, spark.table("versions"), spark.table("schemaversions"))
    return _pairs(both.withColumn("xid", F.col("later.xid")), entities)


def _promising(entities: DataFrame) -> DataFrame:
    """Return messages and schemas with a promise: registryid, parent (XID), compatibility, written_by (a document or NULL)."""
    promising = entities.filter(F.col("kind").isin("message", "schema") & F.col("compatibility").isin(*PROMISES))
    written_by = F.min(F.when(F.col("staged"), F.col("document_uri"))).alias("written_by")
    promise = F.max(F.struct("staged", "compatibility"))["compatibility"].alias("compatibility")
    return materialize(promising.groupBy("registryid", F.col("xid").alias("parent")).agg(promise, written_by))


def _with_published(spark: SparkSession, promising: DataFrame, used: set[str]) -> DataFrame:
    """Add what messages and schemas promise as they are published; NULL: they are new."""
    tables = [open_table(spark, table.name) for table in (MESSAGES, SCHEMAS) if table.name in used]
    if not tables:
        return promising.withColumn("published", F.lit(None).cast("string"))
    promise = F.coalesce("compatibility", F.lit("")).alias("published")
    rows = [table.select("registryid", F.col("xid").alias("parent"), promise) for table in tables]
    return promising.join(reduce(DataFrame.unionByName, rows), on=_PARENT, how="left")


def _version_pairs(promising: DataFrame, versions: DataFrame, schemaversions: DataFrame) -> DataFrame:
    """Pair Versions with those that they are compared with.

    Args:
        promising: as from `_promising`, and other columns.
        versions: rows of the table, with all Versions of these messages.
        schemaversions: the same of schemas.

    Returns:
        `promising` with later and earlier, each a struct of xid, versionid, written_by (a document or NULL), kind and comparable
        (members as `ComparableVersion`).
    """
    nothing = {name: F.lit(None).cast("string") for name in ("format", "schema", "basemessage")}
    nothing["attributes"] = F.lit(None).cast("map<string,string>")
    of_message = {"basemessage": F.col("basemessage"), "attributes": F.col("attributes")}
    of_schema = {"format": F.col("format"), "schema": F.col("schema")}
    both = _sides(versions, VERSIONS.kind, "message_xid", nothing | of_message)
    sides = both.unionByName(_sides(schemaversions, SCHEMAVERSIONS.kind, "schema_xid", nothing | of_schema))
    sides = materialize(sides.join(F.broadcast(promising.select(*_PARENT)), on=_PARENT, how="left_semi"))
    ancestors = F.map_from_entries(F.collect_list(F.struct("side.versionid", "ancestor"))).alias("ancestors")
    chains = promising.join(sides.groupBy(*_PARENT).agg(ancestors), on=_PARENT)
    pairs = F.udf(pairs_to_compare, _PAIRS, useArrow=False)("ancestors", "compatibility")
    paired = chains.withColumn("_pair", F.explode(pairs)).drop("ancestors")
    for name in ("later", "earlier"):
        own = sides.select(*_PARENT, F.col("side").alias(name), F.col("side.versionid").alias("_versionid"))
        paired = paired.withColumn("_versionid", F.col(f"_pair.{name}")).join(own, on=[*_PARENT, "_versionid"])
    return paired.drop("_pair", "_versionid")


def _sides(rows: DataFrame, kind: str, parent_column: str, comparable: dict[str, Column]) -> DataFrame:
    written_by = F.when(F.col("snapshot_id") == 0, F.get("document_uris", F.lit(0)))
    side = F.struct(
        "xid",
        "versionid",
        written_by.alias("written_by"),
        F.lit(kind).alias("kind"),
        F.struct(*(value.alias(name) for name, value in comparable.items())).alias("comparable"),
    )
    ancestor = F.coalesce("ancestor", "versionid").alias("ancestor")
    return rows.select("registryid", F.col(parent_column).alias("parent"), ancestor, side.alias("side"))


def _pairs(version_pairs: DataFrame, entities: DataFrame) -> DataFrame:
    """Pair Versions with a finding about an entity: `version_pairs` as from `_version_pairs`, with xid; NULL: none."""
    subjects = entities.select(*KEY, "document_uri", "staged", "dialect", "isdefault", "own_default")
    rows = subjects.join(version_pairs.filter(F.col("xid").isNotNull()), on=["registryid", "xid"])
    return pairs_of(
        rows,
        "check_promise",
        kind=F.col("later.kind"),
        compatibility=F.col("compatibility"),
        version=F.col("later.comparable"),
        versionid=F.col("later.versionid"),
        earlier=F.col("earlier.comparable"),
        earlier_id=F.col("earlier.versionid"),
        is_about_parent=F.col("xid") == F.col("parent"),
    )
