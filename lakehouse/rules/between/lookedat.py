"""What the rules between entities look at of an entity, staged or published."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, MapType, StringType, StructField, StructType

from lakehouse.rules.between.options import declared_options, endpoint_options
from lakehouse.store.keys import KEY
from lakehouse.store.schema import ENDPOINTS, GROUPS, MESSAGES, SCHEMAS, SCHEMAVERSIONS, VERSIONS, Table
from lakehouse.store.xids import is_fragment, message_of, named_entities, spelled_xid

TABLES = (GROUPS, ENDPOINTS, MESSAGES, VERSIONS, SCHEMAS, SCHEMAVERSIONS)
_STRING = StringType()
_OPTIONS = MapType(_STRING, _STRING)
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
        StructField("compatibility", _STRING),
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
    "own_default",
    "xref",
    "compatibility",
    "authority",
    "messagegroups",
    "willmessage",
    "ce_type",
    "lacks",
    "options",
    "metadata",
    "content_hash",
    "single",
    "message_xid",
    "container",
)


def staged_rows(entities: DataFrame) -> DataFrame:
    """Give what the rules look at of staged entities.

    Args:
        entities: rows of entities of `schema.STAGE`, of the kinds of `TABLES`; staged; _isdefault (NULL: as the text says, which
            is own_default).
    """
    # Of Versions of schemas, which are large, only the XIDs are looked at.
    body = F.from_json(F.when(F.col("kind") != SCHEMAVERSIONS.kind, F.col("body")), _LOOKED_AT)
    read = entities.withColumn("b", body).select(
        *KEY,
        "document_uri",
        "staged",
        *(F.col(f"b.{name}").alias(name) for name in _LOOKED_AT.names if name != "isdefault"),
        F.coalesce("_isdefault", "b.isdefault").alias("isdefault"),
        F.col("b.isdefault").alias("own_default"),
        F.col("attributes")["/envelopemetadata/type/value"].alias("_type"),
        F.col("attributes")["/dataschema"].alias("_schema"),
        declared_options(F.col("attributes")).alias("_options"),
        "content_hash",
    )
    return _derived(read)


def published_rows(rows: DataFrame, table: Table) -> DataFrame:
    """Give what the rules look at of rows of an entity table."""
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
        (declared_options(F.col("attributes")) if table is VERSIONS else F.lit(None).cast(_OPTIONS)).alias("_options"),
        "content_hash",
        F.lit(False).alias("single"),
        F.lit(None).cast("boolean").alias("own_default"),
    )
    return _derived(read)


def schema_targets() -> Column:
    """Return the schemas and Versions of schemas that a row's `schema_reference` may mean, an array of XIDs; NULL: none."""
    return named_entities(F.regexp_replace("schema_reference", r"\A#", ""))


def _derived(read: DataFrame) -> DataFrame:
    will = F.when(F.col("kind") == "endpoint", F.get_json_object("protocoloptions", "$.willmessage"))
    is_endpoint, is_version = F.col("kind") == "endpoint", F.col("kind") == "version"
    derived = read.withColumns(
        {
            "willmessage": will,
            "message_xid": F.when(F.col("kind").isin("message", "version"), message_of("xid")),
            "container": F.substring_index("xid", "/", 3),
            "schema_reference": _schema_reference(),
            "ce_type": F.get_json_object(F.concat(F.lit('{"v":'), "_type", F.lit("}")), "$.v"),
            "lacks": _lacks(),
            "options": F.when(is_endpoint, endpoint_options()).when(is_version, F.col("_options")),
            "metadata": F.xxhash64("envelope", "envelopemetadata", "protocol", "protocoloptions"),
        }
    )
    return derived.drop("_options")


def _schema_reference() -> Column:
    """Give where in the registry `dataschemauri` leads, spelled as an XID, and after # when it leads into its own document."""
    spelled = F.concat(F.when(is_fragment("dataschemauri"), "#").otherwise(""), spelled_xid("dataschemauri"))
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
