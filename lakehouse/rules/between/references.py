"""What an author surely did not mean: a schema in the own registry that is not there, an alias that shows nothing.

Joins over the same rows as `relations`. All are warnings: what is referred to may be loaded later.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.rules.findings import breaches_of, broken
from lakehouse.store.keys import KEY
from lakehouse.store.xids import named_entities


def check_schema_uris(things: DataFrame) -> DataFrame:
    """A `dataschemauri` into the own document, or into a schema group of the registry, leads to a schema (MSG-179)."""
    key = [*KEY, "document_uri"]
    referring = things.filter(F.col("schema_reference").isNotNull())
    path = F.regexp_replace("schema_reference", r"\A#", "")
    schemas = things.filter(F.col("kind").isin("schema", "schemaversion")).select("registryid", F.col("xid").alias("target"))
    wanted = referring.select(*key, F.explode(schema_targets()).alias("target"))
    found = wanted.join(schemas, on=["registryid", "target"], how="left_semi").select(*key).distinct()
    absent = referring.withColumn("group", F.substring_index(path, "/", 3)).join(found, on=key, how="left_anti")
    # A path that is no fragment may lead anywhere on a server, unless its schema group is here.
    groups = things.filter(F.col("kind") == "group").select("registryid", F.col("xid").alias("group")).distinct()
    known = absent.join(groups.withColumn("is_here", F.lit(True)), on=["registryid", "group"], how="left")
    nowhere = known.filter(F.col("schema_reference").startswith("#") | F.col("is_here"))
    message = F.concat(F.lit("`dataschemauri`: schema `"), path, F.lit("` does not exist"))
    return breaches_of(nowhere, [broken("MSG-179", message, "/dataschemauri")])


def check_aliases(things: DataFrame) -> DataFrame:
    """What an alias stands for has a definition, and is not an alias itself (MSG-096)."""
    either = things.filter(F.col("kind").isin("message", "schema"))
    targets = either.select("registryid", F.col("xid").alias("xref"), F.col("xref").alias("further")).distinct()
    targets = targets.withColumn("is_there", F.lit(True))
    both = either.filter(F.col("xref").isNotNull()).join(targets, on=["registryid", "xref"], how="left")
    leads = F.concat(F.lit("`xref` leads to "), F.col("xref"))
    is_own = F.col("xref") == F.col("xid")
    is_mutual = (F.col("further") == F.col("xid")) & ~is_own
    told = [
        broken("MSG-096", F.lit("`xref` leads to this entity itself, so it has no definition"), "/meta/xref").when(is_own),
        broken("MSG-096", F.concat(leads, F.lit(", which is an alias of this one: neither has a definition")), "/meta/xref").when(
            is_mutual
        ),
        broken("MSG-096", F.concat(leads, F.lit(", which is an alias itself: it shows nothing")), "/meta/xref").when(
            F.col("further").isNotNull() & ~is_own & ~is_mutual
        ),
        # It may come later, like a base (MSG-150).
        broken("MSG-096", F.concat(F.lit("`xref`: `"), F.col("xref"), F.lit("` does not exist")), "/meta/xref", "info").when(
            F.col("is_there").isNull()
        ),
    ]
    return breaches_of(both, told)


def schema_targets() -> Column:
    """Give the schemas and Versions of schemas that a row's `schema_reference` may mean, an array of XIDs; NULL: it has none."""
    return named_entities(F.regexp_replace("schema_reference", r"\A#", ""))
