"""What the rules between entities look at: what was staged, laid over what is published."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

from lakehouse.log.ground import OPTIONAL, STATE, concerned_registries, of_registries, optional_columns
from lakehouse.store.frames import keep
from lakehouse.store.keys import KEY
from lakehouse.store.schema import ENDPOINTS, GROUPS, MESSAGES, SCHEMAS, SCHEMAVERSIONS, VERSIONS, Table
from lakehouse.store.tables import open_table
from lakehouse.store.xids import message_of

TABLES = (GROUPS, ENDPOINTS, MESSAGES, VERSIONS, SCHEMAS, SCHEMAVERSIONS)
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
    "schema_reference",
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


class Candidate(NamedTuple):
    """What would be published: things, and what of the stage is new in it.

    things: one row per entity and staged document that would own it, and one for its first owner where that was not staged, so
    that findings are told of the same documents whichever were read: KEY, document_uri (empty where nobody owns it), staged (the
    entity would be written anew by that document), and what the rules between entities look at. rows: staged rows that would be
    written, one per entity, columns `schema.STAGE`. leaving: entities that would be deleted: KEY; None: there are none.
    """

    things: DataFrame
    rows: DataFrame
    leaving: DataFrame | None


class Published(NamedTuple):
    """What is published, read from the entity tables at once, where that is little.

    state: as from `ground.read_state`; rows: as from `published_rows`, of all tables that rules between entities look at.
    """

    state: DataFrame
    rows: DataFrame


def read_published(spark: SparkSession, used: Iterable[Table]) -> Published:
    """Read what is published, for the comparison and for the rules between entities.

    Args:
        spark: the session, whose work is small.
        used: the entity tables that hold something, at least one.
    """
    parts = [published_rows(open_table(spark, table.name), table, *STATE, *optional_columns(table, "stored_")) for table in used]
    every = keep(reduce(DataFrame.unionByName, parts))
    state = every.select(*KEY, "content_hash", *STATE, *(F.col(f"stored_{name}").alias(name) for name in OPTIONAL))
    rows = every.filter(F.col("kind").isin([table.kind for table in TABLES]))
    return Published(state, rows.drop(*STATE, *(f"stored_{name}" for name in OPTIONAL)))


def candidate(
    spark: SparkSession,
    stage: DataFrame,
    used: set[str],
    compared: DataFrame | None = None,
    *,
    compare: bool = True,
    published: DataFrame | None = None,
) -> Candidate:
    """Lay what would be written over what is published.

    Args:
        spark: the session.
        stage: columns `schema.STAGE`.
        used: names of the entity tables that hold something.
        compared: as from `compare.compare`; None: all that is staged is new and would be published as it is.
        compare: give the published state of what would be written, too, as kinds of its own.
        published: as of `read_published`, where that was read; None: the tables are read.
    """
    documents = stage.filter(F.col("row") == "document")
    dialects = documents.select("registryid", "document_uri", F.get_json_object("facts", "$.dialect").alias("dialect")).distinct()
    entities = stage.filter((F.col("row") == "entity") & F.col("kind").isin([table.kind for table in TABLES]))
    if compared is None:
        held = entities.withColumns({"staged": F.lit(True), "_isdefault": F.lit(None).cast("boolean")})
        rows, leaving = entities, None
    else:
        held, rows = _owned(entities, compared)
        leaving = compared.filter(F.col("op") == "delete").select(*KEY)
    # Of Versions of schemas, which are large, only the XIDs are looked at.
    body = F.from_json(F.when(F.col("kind") != SCHEMAVERSIONS.kind, F.col("body")), _LOOKED_AT)
    read = held.withColumn("b", body).select(
        *KEY,
        "document_uri",
        "staged",
        *(F.col(f"b.{name}").alias(name) for name in _LOOKED_AT.names if name != "isdefault"),
        F.coalesce("_isdefault", "b.isdefault").alias("isdefault"),
        F.col("attributes")["/envelopemetadata/type/value"].alias("_type"),
        F.col("attributes")["/dataschema"].alias("_schema"),
        "content_hash",
    )
    read = _with_single(_derived(read), entities, compare=compare)
    staged = read.join(F.broadcast(dialects), on=["registryid", "document_uri"], how="left").select(*COLUMNS)
    tables = [table for table in TABLES if table.name in used]
    if not tables:
        return Candidate(staged, rows, leaving)
    if published is None:
        registries = concerned_registries(*([documents] if leaving is None else [documents, leaving]))
        parts = [published_rows(of_registries(open_table(spark, table.name), registries), table) for table in tables]
        published = reduce(DataFrame.unionByName, parts)
    earlier = _earlier(published, rows) if compare else None
    others = _left_alone(published, documents.select("registryid"), entities.select(*KEY), compared)
    others = others.join(F.broadcast(dialects), on=["registryid", "document_uri"], how="left")
    things = staged.unionByName(others.select(*COLUMNS))
    return Candidate(things if earlier is None else things.unionByName(earlier), rows, leaving)


def _owned(entities: DataFrame, compared: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Give what the documents would own of what they hold.

    Args:
        entities: staged rows of entities.
        compared: as for `candidate`.

    Returns:
        One row per entity and document that findings are told of, columns of `entities` with `staged` and `_isdefault`; and the
        staged rows that would be written, one per entity.
    """
    verdict = compared.select(
        *KEY,
        "document_uris",
        F.col("document_uri").alias("_source"),
        F.when(F.col("flipped"), F.col("isdefault")).alias("_isdefault"),
        F.get("agreed", F.lit(0))["document_uri"].alias("_first_staged"),
    )
    both = entities.join(verdict, on=KEY, how="inner")
    rows = both.filter(F.col("document_uri") == F.col("_source")).select(*entities.columns)
    owned = both.filter(F.array_contains("document_uris", F.col("document_uri")))
    first = F.get("document_uris", F.lit(0))
    told = F.when(F.col("document_uri") == F.col("_first_staged"), F.array_distinct(F.array("document_uri", first)))
    held = owned.withColumn("_told", F.explode(F.coalesce(told, F.array("document_uri"))))
    is_staged = F.col("_source").isNotNull() & (F.col("_told") == F.col("document_uri"))
    return held.withColumns({"staged": is_staged, "document_uri": F.col("_told")}), rows


def _left_alone(published: DataFrame, concerned: DataFrame, staged: DataFrame, compared: DataFrame | None) -> DataFrame:
    """Give what is published and would stay as it is, of the registries that the documents name; columns of `published_rows`.

    Args:
        published: columns of `published_rows`.
        concerned: the registries, in a column registryid.
        staged: keys of what the documents hold.
        compared: as for `candidate`.
    """
    if compared is None:
        alone = published.join(staged.distinct(), on=KEY, how="left_anti")
    else:
        is_deleted = F.coalesce(F.col("op") == "delete", F.lit(False))
        is_held = F.arrays_overlap("document_uris", F.transform("agreed", lambda claim: claim["document_uri"]))
        after = compared.select(
            *KEY,
            F.coalesce(is_deleted | is_held, F.lit(False)).alias("_is_elsewhere"),
            F.coalesce(F.get("document_uris", F.lit(0)), F.lit("")).alias("_owner"),
            F.when(F.col("flipped"), F.col("isdefault")).alias("_isdefault"),
        )
        concerned = concerned.unionByName(compared.filter(is_deleted).select("registryid"))
        alone = published.join(after, on=KEY, how="left").filter(~F.coalesce("_is_elsewhere", F.lit(False)))
        owner, isdefault = F.coalesce("_owner", "document_uri"), F.coalesce("_isdefault", "isdefault")
        alone = alone.withColumns({"document_uri": owner, "isdefault": isdefault})
    alone = alone.join(F.broadcast(concerned.distinct()), on="registryid", how="left_semi")
    return alone.withColumn("staged", F.lit(False))


def _with_single(read: DataFrame, entities: DataFrame, *, compare: bool) -> DataFrame:
    """Tell of what is the only Version of a message that its document writes without `versions`, whoever owns the message."""
    if not compare:
        return read.withColumn("single", F.lit(False))
    plain = entities.filter(F.col("raw").isNull() & (F.col("kind") == "message"))
    named = plain.select("registryid", "document_uri", F.col("xid").alias("message_xid"), F.lit(True).alias("single"))
    both = read.join(named, on=["registryid", "document_uri", "message_xid"], how="left")
    return both.withColumn("single", F.coalesce("single", F.lit(False)))


def holders_of(things: DataFrame) -> DataFrame:
    """Give groups and endpoints: registryid, container (their XID), holder_kind, holder_envelope, holder_protocol."""
    named = things.filter(F.col("kind").isin("group", "endpoint"))
    return named.groupBy("registryid", F.col("xid").alias("container")).agg(
        F.min("kind").alias("holder_kind"), F.min("envelope").alias("holder_envelope"), F.min("protocol").alias("holder_protocol")
    )


def _earlier(published: DataFrame, entities: DataFrame) -> DataFrame:
    """Give the published state of what is staged, as kinds of its own: rules about change compare with it."""
    keys = entities.select(*KEY).distinct()
    own = published.filter(F.col("kind").isin([table.kind for table in (GROUPS, MESSAGES, VERSIONS)]))
    return own.join(keys, on=KEY, how="left_semi").transform(_as_earlier)


def _as_earlier(published: DataFrame) -> DataFrame:
    named = published.withColumn("kind", F.concat(F.lit("earlier "), "kind"))
    return named.withColumns({"staged": F.lit(False), "dialect": F.lit(None).cast("string")}).select(*COLUMNS)


def published_rows(rows: DataFrame, table: Table, *also: str | Column) -> DataFrame:
    """Give what the rules look at of rows of an entity table, and columns of it beside."""
    present = set() if table is SCHEMAVERSIONS else set(table.columns.names)
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
            "schema_reference": _schema_reference(),
            "ce_type": F.get_json_object(F.concat(F.lit('{"v":'), "_type", F.lit("}")), "$.v"),
            "lacks": _lacks(),
            "metadata": F.xxhash64("envelope", "envelopemetadata", "protocol", "protocoloptions"),
        }
    )


def _schema_reference() -> Column:
    """Give where in the registry `dataschemauri` leads, spelled as an XID, and after # when it leads into its own document."""
    is_fragment = F.ltrim("dataschemauri").startswith("#")
    path = F.split_part(F.regexp_replace("dataschemauri", r"\A\s*#?", ""), F.lit("#"), F.lit(1))
    decoded = F.coalesce(F.try_url_decode(F.replace(path, F.lit("+"), F.lit("%2B"))), path)
    unescaped = F.replace(F.replace(decoded, F.lit("~1"), F.lit("/")), F.lit("~0"), F.lit("~"))
    whole = F.concat(F.when(is_fragment, "#").otherwise(""), F.when(is_fragment, unescaped).otherwise(path))
    spelled = F.regexp_replace(whole, r"\A(#?)/schemaGroups/", "$1/schemagroups/")
    return F.when((F.col("kind") == "version") & spelled.rlike(r"(?i)\A#?/schemagroups"), spelled)


def _lacks() -> Column:
    """Tell that a definition by itself lacks what its attributes ask for."""
    has_schema = F.col("dataschemauri").isNotNull() | F.col("_schema").isNotNull()
    lacks = (
        (F.col("envelope").isNotNull() & F.col("envelopemetadata").isNull())
        | (F.col("protocol").isNotNull() & F.col("protocoloptions").isNull())
        | (has_schema & F.col("dataschemaformat").isNull())
    )
    return (F.col("kind") == "version") & lacks
