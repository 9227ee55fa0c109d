"""What the rules between entities look at: what was staged, laid over what is published."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

from lakehouse.model import ENDPOINTS, GROUPS, MESSAGES, SCHEMAS, VERSIONS, Table
from lakehouse.refusals import KEY
from lakehouse.tables import open_table
from lakehouse.telling import message_of

TABLES = (GROUPS, ENDPOINTS, MESSAGES, VERSIONS, SCHEMAS)
_STRING = StringType()
_LOOKED_AT = StructType(
    [
        StructField("envelope", _STRING),
        StructField("protocol", _STRING),
        StructField("envelopemetadata", _STRING),
        StructField("protocoloptions", _STRING),
        StructField("basemessage", _STRING),
        StructField("dataschemaxid", _STRING),
        StructField("dataschemauri", _STRING),
        StructField("dataschemaformat", _STRING),
        StructField("ancestor", _STRING),
        StructField("isdefault", BooleanType()),
        StructField("xref", _STRING),
        StructField("authority", _STRING),
        StructField("messagegroups", ArrayType(_STRING)),
    ]
)
COLUMNS = (
    *KEY,
    "document_uri",
    "staged",
    "dialect",
    "envelope",
    "protocol",
    "basemessage",
    "dataschemaxid",
    "ancestor",
    "isdefault",
    "xref",
    "authority",
    "messagegroups",
    "willmessage",
    "ce_type",
    "lacks",
    "metadata",
    "content_hash",
    "single",
    "message_xid",
    "container",
)


def candidate(spark: SparkSession, stage: DataFrame, used: set[str], *, compare: bool = True) -> DataFrame:
    """Lay what is staged over what is published.

    Args:
        spark: the session.
        stage: columns `model.STAGE`.
        used: names of the entity tables that hold something.
        compare: give the published state of what is staged, too, as kinds of its own.

    Returns:
        One row per staged entity and document, and per published entity that is not staged: KEY, document_uri, staged, and what
        the rules between entities look at.
    """
    documents = stage.filter(F.col("row") == "document")
    dialects = documents.select("registryid", "document_uri", F.get_json_object("facts", "$.dialect").alias("dialect")).distinct()
    kinds = [table.kind for table in TABLES]
    entities = stage.filter((F.col("row") == "entity") & F.col("kind").isin(kinds))
    body = F.from_json("body", _LOOKED_AT)
    read = entities.withColumn("b", body).select(
        *KEY,
        "document_uri",
        *(F.col(f"b.{name}").alias(name) for name in _LOOKED_AT.names),
        F.col("attributes")["/envelopemetadata/type/value"].alias("_type"),
        F.col("attributes")["/dataschema"].alias("_schema"),
        "content_hash",
        (F.col("raw").isNull() & (F.col("kind") == "message")).alias("single"),
    )
    staged = _derived(read).join(F.broadcast(dialects), on=["registryid", "document_uri"], how="left")
    staged = staged.withColumn("staged", F.lit(True)).select(*COLUMNS)
    tables = [table for table in TABLES if table.name in used]
    if not tables:
        return staged
    # A published entity whose documents are all read now and no longer hold it is on its way out.
    read_now = documents.filter(F.get_json_object("facts", "$.status") == "loaded")
    read_now = read_now.groupBy("registryid").agg(F.collect_set("document_uri").alias("_read"))
    parts = [published_rows(open_table(spark, table.name), table, "document_uris") for table in tables]
    published = reduce(DataFrame.unionByName, parts)
    published = published.join(F.broadcast(read_now), on="registryid", how="inner")
    leaving = F.size(F.array_except("document_uris", "_read")) == 0
    published = published.filter(~leaving).join(entities.select(*KEY).distinct(), on=KEY, how="left_anti")
    published = published.withColumns({"staged": F.lit(False), "dialect": F.lit(None).cast("string")})
    things = staged.unionByName(published.select(*COLUMNS))
    return things.unionByName(_earlier(spark, entities, used)) if compare else things


def holders_of(things: DataFrame) -> DataFrame:
    """Give groups and endpoints: registryid, container (their XID), holder_kind, holder_envelope, holder_protocol."""
    named = things.filter(F.col("kind").isin("group", "endpoint"))
    return named.groupBy("registryid", F.col("xid").alias("container")).agg(
        F.min("kind").alias("holder_kind"), F.min("envelope").alias("holder_envelope"), F.min("protocol").alias("holder_protocol")
    )


def _earlier(spark: SparkSession, entities: DataFrame, used: set[str]) -> DataFrame:
    """Give the published state of what is staged, as kinds of its own: rules about change compare with it."""
    keys = entities.select(*KEY).distinct()
    parts = [
        published_rows(open_table(spark, table.name), table).join(keys, on=KEY, how="left_semi")
        for table in (GROUPS, MESSAGES, VERSIONS)
        if table.name in used
    ]
    if not parts:
        return published_rows(open_table(spark, "groups"), GROUPS).limit(0).transform(_as_earlier)
    return reduce(DataFrame.unionByName, parts).transform(_as_earlier)


def _as_earlier(published: DataFrame) -> DataFrame:
    named = published.withColumn("kind", F.concat(F.lit("earlier "), "kind"))
    return named.withColumns({"staged": F.lit(False), "dialect": F.lit(None).cast("string")}).select(*COLUMNS)


def published_rows(rows: DataFrame, table: Table, *also: str) -> DataFrame:
    """Give what the rules look at of rows of an entity table, and columns of it beside."""
    present = set(table.columns.names)
    looked_at = [
        (F.col(field.name) if field.name in present else F.lit(None).cast(field.dataType)).alias(field.name)
        for field in _LOOKED_AT
    ]
    kind, schema = (
        F.col("attributes")[pointer] if "attributes" in present else F.lit(None).cast("string")
        for pointer in ("/envelopemetadata/type/value", "/dataschema")
    )
    read = rows.select(
        "registryid",
        F.lit(table.kind).alias("kind"),
        "xid",
        F.coalesce(F.get("document_uris", F.lit(0)), F.lit("")).alias("document_uri"),
        *looked_at,
        kind.alias("_type"),
        schema.alias("_schema"),
        "content_hash",
        F.lit(False).alias("single"),
        *also,
    )
    return _derived(read)


def _derived(read: DataFrame) -> DataFrame:
    will = F.when(F.col("kind") == "endpoint", F.get_json_object("protocoloptions", "$.willmessage"))
    return read.withColumns(
        {
            "willmessage": will,
            "message_xid": F.when(F.col("kind").isin("message", "version"), message_of("xid")),
            "container": F.substring_index("xid", "/", 3),
            "ce_type": F.get_json_object(F.concat(F.lit('{"v":'), "_type", F.lit("}")), "$.v"),
            "lacks": _lacks(),
            "metadata": F.xxhash64("envelope", "envelopemetadata", "protocol", "protocoloptions"),
        }
    )


def _lacks() -> Column:
    """Tell that a definition by itself lacks what its attributes ask for."""
    has_schema = F.col("dataschemauri").isNotNull() | F.col("_schema").isNotNull()
    lacks = (
        (F.col("envelope").isNotNull() & F.col("envelopemetadata").isNull())
        | (F.col("protocol").isNotNull() & F.col("protocoloptions").isNull())
        | (has_schema & F.col("dataschemaformat").isNull())
    )
    return (F.col("kind") == "version") & lacks
