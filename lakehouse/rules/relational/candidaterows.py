"""What the rules between entities look at: what was staged, laid over what is published."""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, MapType, StringType, StructField, StructType

from lakehouse.domain.relations import judged_options
from lakehouse.log.baseline import concerned_registries, of_registries
from lakehouse.log.projections import project
from lakehouse.store.deltatables import open_table
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import count_if
from lakehouse.store.schema import ENDPOINTS, GROUPS, MESSAGES, SCHEMAS, SCHEMAVERSIONS, VERSIONS, Table
from lakehouse.store.xids import is_fragment, message_of, named_entities, spelled_xid


class Candidate(NamedTuple):
    """What would be published: things, and what of the stage is new in it.

    entities: one row per entity and staged document that would own it, and one for its first owner where that was not staged, so
    that findings are of the same documents whichever were read: KEY, document_uri (empty where nobody owns it), staged (the
    entity would be written again by that document), and what the rules between entities look at. rows: staged rows that would be
    written, one per entity, columns `schema.STAGE`. leaving: entities that would be deleted: KEY; None: there are none.
    """

    entities: DataFrame
    rows: DataFrame
    leaving: DataFrame | None


def candidate(
    spark: SparkSession,
    stage: DataFrame,
    used: set[str],
    reconciled: DataFrame | None = None,
    *,
    compare: bool = True,
    existing_documents: DataFrame | None = None,
    differing: int | None = None,
) -> Candidate:
    """Return the published rows overlaid with what would be written.

    Args:
        spark: the session.
        stage: columns `schema.STAGE`.
        used: names of the entity tables that hold something.
        reconciled: as from `plan.compare`; None: all that is staged is new and would be published as it is.
        compare: add the published state of what would be written, as separate kinds.
        existing_documents: as from `baseline.current_documents`: the dialects of those that were not read; None: of none.
        differing: how many rows of `reconciled` are not repeated; None: they were not counted.
    """
    documents = stage.filter(F.col("row") == "document")
    dialects = documents.select("registryid", "document_uri", F.get_json_object("facts", "$.dialect").alias("dialect")).distinct()
    staged_entities = stage.filter((F.col("row") == "entity") & F.col("kind").isin([table.kind for table in TABLES]))
    if reconciled is None:
        about = staged_entities.withColumns({"staged": F.lit(True), "_isdefault": F.lit(None).cast("boolean")})
        rows, leaving = staged_entities, None
    else:
        about, rows = _owned(staged_entities, reconciled, differing)
        leaving = reconciled.filter(F.col("op") == "delete").select(*KEY)
    read = _with_single(staged_rows(about), staged_entities, compare=compare)
    staged = _with_dialect(read, dialects, None if reconciled is None else existing_documents).select(*COLUMNS)
    tables = [table for table in TABLES if table.name in used]
    if not tables:
        return Candidate(staged, rows, leaving)
    registries = concerned_registries(*([documents] if leaving is None else [documents, leaving]))
    parts = [published_rows(of_registries(open_table(spark, table.name), registries), table) for table in tables]
    existing = reduce(DataFrame.unionByName, parts)
    earlier = _earlier(existing, rows, differing) if compare else None
    untouched = _left_alone(existing, documents.select("registryid"), staged_entities.select(*KEY), reconciled)
    entities = staged.unionByName(_with_dialect(untouched, dialects, existing_documents).select(*COLUMNS))
    return Candidate(entities if earlier is None else entities.unionByName(earlier), rows, leaving)


def _with_dialect(rows: DataFrame, dialects: DataFrame, existing_documents: DataFrame | None) -> DataFrame:
    """Add the dialects of documents: as read now, else as at their last load."""
    place = ["registryid", "document_uri"]
    rows = rows.join(F.broadcast(dialects), on=place, how="left")
    if existing_documents is None:
        return rows
    before = existing_documents.select("registryid", F.col("xid").alias("document_uri"), F.col("facts.dialect").alias("_dialect"))
    rows = rows.join(F.broadcast(before), on=place, how="left")
    return rows.withColumn("dialect", F.coalesce("dialect", "_dialect")).drop("_dialect")


def _owned(entities: DataFrame, reconciled: DataFrame, differing: int | None) -> tuple[DataFrame, DataFrame]:
    """Return which entities of the documents they would own.

    Args:
        entities: staged rows of entities.
        reconciled: as for `candidate`.
        differing: as for `candidate`.

    Returns:
        One row per entity and document that findings are about, columns of `entities` with `staged` and `_isdefault`; and the
        staged rows that would be written, one per entity.
    """
    verdict = reconciled.filter(~_is_repeated()).select(
        *KEY,
        "document_uris",
        F.col("document_uri").alias("_source"),
        F.col("isdefault").alias("_isdefault"),
        F.get("agreed", F.lit(0))["document_uri"].alias("_first_staged"),
    )
    both = entities.join(broadcast_few(verdict, differing), on=KEY, how="inner")
    rows = both.filter(F.col("document_uri") == F.col("_source")).select(*entities.columns)
    owned = both.filter(F.array_contains("document_uris", F.col("document_uri")))
    first = F.get("document_uris", F.lit(0))
    details = F.when(F.col("document_uri") == F.col("_first_staged"), F.array_distinct(F.array("document_uri", first)))
    about = owned.withColumn("_reported_at", F.explode(F.coalesce(details, F.array("document_uri"))))
    is_staged = F.col("_source").isNotNull() & (F.col("_reported_at") == F.col("document_uri"))
    return about.withColumns({"staged": is_staged, "document_uri": F.col("_reported_at")}), rows


def _left_alone(published: DataFrame, concerned: DataFrame, staged: DataFrame, reconciled: DataFrame | None) -> DataFrame:
    """Return the published rows that would stay unchanged, of the documents' registries; columns of `published_rows`.

    Args:
        published: columns of `published_rows`.
        concerned: the registries, in a column registryid.
        staged: keys of what the documents hold.
        reconciled: as for `candidate`.
    """
    if reconciled is None:
        alone = published.join(staged.distinct(), on=KEY, how="left_anti")
    else:
        is_deleted = F.coalesce(F.col("op") == "delete", F.lit(False))
        is_agreed = F.arrays_overlap("document_uris", F.transform("agreed", lambda claim: claim["document_uri"]))
        after = reconciled.select(
            *KEY,
            F.coalesce((is_deleted | is_agreed) & ~_is_repeated(), F.lit(False)).alias("_is_elsewhere"),
            F.when(_is_repeated(), F.col("isdefault")).alias("_own_default"),
            F.coalesce(F.get("document_uris", F.lit(0)), F.lit("")).alias("_owner"),
            F.col("isdefault").alias("_isdefault"),
        )
        concerned = concerned.unionByName(reconciled.filter(is_deleted).select("registryid"))
        alone = published.join(after, on=KEY, how="left").filter(~F.coalesce("_is_elsewhere", F.lit(False)))
        owner, isdefault = F.coalesce("_owner", "document_uri"), F.coalesce("_isdefault", "isdefault")
        alone = alone.withColumns({"document_uri": owner, "isdefault": isdefault, "own_default": F.col("_own_default")})
    alone = alone.join(F.broadcast(concerned.distinct()), on="registryid", how="left_semi")
    return alone.withColumn("staged", F.lit(False))


def _is_repeated() -> Column:
    """Return whether what is published of an entity is what would be: it has columns, where a staged text has to be parsed."""
    return F.col("is_repeated") & F.col("op").isNull()


def _with_single(read: DataFrame, entities: DataFrame, *, compare: bool) -> DataFrame:
    """Mark the only Version of a message that its document writes without `versions`, whoever owns the message."""
    if not compare:
        return read.withColumn("single", F.lit(False))
    plain = entities.filter(F.col("raw").isNull() & (F.col("kind") == "message"))
    named = plain.select("registryid", "document_uri", F.col("xid").alias("message_xid"), F.lit(True).alias("single"))
    both = read.join(named, on=["registryid", "document_uri", "message_xid"], how="left")
    return both.withColumn("single", F.coalesce("single", F.lit(False)))


def candidate_rows(spark: SparkSession, result: Candidate, table: Table, used: set[str]) -> DataFrame:
    """Return the rows of a published table overlaid with those that would be written.

    Args:
        spark: the session.
        result: what would be published.
        table: the table.
        used: names of the entity tables that hold something.

    Returns:
        Rows that would be written have 0 as `snapshot_id`, and the document that writes them as the only one.
    """
    entities = result.rows.filter(F.col("kind") == table.kind)
    logged = entities.withColumns({"document_uris": F.array("document_uri"), "snapshot_id": F.lit(0).cast("bigint")})
    staged = project(logged, table).dropDuplicates(["registryid", "xid"])
    if table.name not in used:
        return staged
    published = open_table(spark, table.name).join(staged, on=["registryid", "xid"], how="left_anti")
    if result.leaving is not None:
        published = published.join(result.leaving.filter(F.col("kind") == table.kind), on=["registryid", "xid"], how="left_anti")
    return staged.unionByName(published.select(*staged.columns))


def parents_of(entities: DataFrame) -> DataFrame:
    """Return groups and endpoints: registryid, container (their XID), parent_kind, parent_envelope, parent_protocol."""
    named = entities.filter(F.col("kind").isin("group", "endpoint"))
    return named.groupBy("registryid", F.col("xid").alias("container")).agg(
        F.min("kind").alias("parent_kind"), F.min("envelope").alias("parent_envelope"), F.min("protocol").alias("parent_protocol")
    )


def _earlier(published: DataFrame, entities: DataFrame, differing: int | None) -> DataFrame:
    """Return the published state of staged rows as separate kinds, with which rules about change compare."""
    keys = entities.select(*KEY).distinct()
    own = published.filter(F.col("kind").isin([table.kind for table in (GROUPS, MESSAGES, VERSIONS)]))
    return own.join(broadcast_few(keys, differing), on=KEY, how="left_semi").transform(_as_earlier)


def _as_earlier(published: DataFrame) -> DataFrame:
    named = published.withColumn("kind", F.concat(F.lit("earlier "), "kind"))
    return named.withColumns({"staged": F.lit(False), "dialect": F.lit(None).cast("string")}).select(*COLUMNS)


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
    """Return the columns of staged entities that the rules read.

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
    """Return the columns of an entity table's rows that the rules read."""
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


def family(protocol: str | Column) -> Column:
    """Return the family of a protocol: as `tables.family_of`; a test holds both equal."""
    name = F.upper(F.trim(F.split_part(protocol, F.lit("/"), F.lit(1))))
    return F.when(~name.isin("", "NONE"), name)


def endpoint_options() -> Column:
    """Return an endpoint's options that its messages may contradict: pointer in a message → text; NULL: none."""
    name = family("protocol")
    entries = [
        F.struct(
            F.lit(str(option.pointer)).alias("key"),
            F.when(name == own, F.get_json_object("protocoloptions", f"$.{option.name}")).alias("value"),
        )
        for own, options in judged_options().items()
        for option in options
    ]
    details = F.map_from_entries(F.filter(F.array(*entries), lambda entry: entry["value"] != ""))
    return F.when(F.size(details) > 0, details)


def declared_options(attributes: Column) -> Column:
    """Return what a definition declares of these: pointer → JSON text; NULL: nothing."""
    options = [option for options in judged_options().values() for option in options]
    pointers = sorted({str(pointer) for option in options for pointer in (option.pointer, option.instead) if pointer is not None})
    details = F.map_filter(attributes, lambda pointer, _: pointer.isin(pointers))
    return F.when(F.size(details) > 0, details)


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
    """Return the target of `dataschemauri` in the registry as an XID; after `#` if it is in its own document."""
    spelled = F.concat(F.when(is_fragment("dataschemauri"), "#").otherwise(""), spelled_xid("dataschemauri"))
    return F.when((F.col("kind") == "version") & spelled.rlike(r"(?i)\A#?/schemagroups"), spelled)


def _lacks() -> Column:
    """Return whether a definition by itself lacks what its attributes require."""
    has_schema = F.col("dataschemauri").isNotNull() | F.col("_schema").isNotNull()
    lacks = (
        (F.col("envelope").isNotNull() & F.col("envelopemetadata").isNull())
        | (F.col("protocol").isNotNull() & F.col("protocoloptions").isNull())
        | (has_schema & F.col("dataschemaformat").isNull())
    )
    return (F.col("kind") == "version") & lacks


_FEW = 100_000


class Present(NamedTuple):
    """How many there are of what rules are about."""

    parents: int
    aliases: int
    references: int
    bases: int
    wills: int
    lists: int
    options: int
    earlier: int
    uris: int


def look_at(entities: DataFrame) -> Present:
    """Count what rules are about."""
    version, endpoint = F.col("kind") == "version", F.col("kind") == "endpoint"
    references = F.coalesce("basemessage", "dataschemaxid", "ancestor", "willmessage").isNotNull()
    counted = {
        "parents": F.col("kind").isin("group", "endpoint"),
        "aliases": F.col("kind").isin("message", "schema") & F.col("xref").isNotNull(),
        "references": (version | endpoint) & references,
        "bases": version & F.col("basemessage").isNotNull(),
        "wills": endpoint & F.col("willmessage").isNotNull(),
        "lists": endpoint & F.col("messagegroups").isNotNull(),
        "options": endpoint & F.col("options").isNotNull(),
        "earlier": F.startswith("kind", F.lit("earlier ")),
        "uris": F.col("schema_reference").isNotNull(),
    }
    return Present(**count_if(entities, counted))


def broadcast_few(rows: DataFrame, count: int | None) -> DataFrame:
    """Broadcast rows to the joins that read them if they are few, so that the other side is not shuffled; None: not counted."""
    return rows if count is None or count > _FEW else F.broadcast(rows)


def as_bases(entities: DataFrame, versions: DataFrame, present: Present) -> DataFrame:
    """Return the names by which a base means a Version: its own and those through aliases; of the default one its message's, too.

    Returns:
        One row per name: registryid, basemessage (the name), to (the Version).
    """
    default = F.when(F.col("isdefault"), F.col("message_xid"))
    names = F.explode(F.array_compact(F.array("xid", default))).alias("basemessage")
    own = versions.select("registryid", F.col("xid").alias("to"), names)
    if not present.aliases:
        return own
    aliases = broadcast_few(entities.filter((F.col("kind") == "message") & F.col("xref").isNotNull()), present.aliases)
    aliases = aliases.select("registryid", F.col("xid").alias("alias"), F.col("xref").alias("message_xid"))
    shown = versions.select("registryid", "message_xid", "isdefault", F.col("xid").alias("to"))
    borrowed = shown.join(aliases, on=["registryid", "message_xid"])
    by_version = F.concat("alias", F.lit("/versions/"), F.substring_index("to", "/", -1))
    names = F.explode(F.array_compact(F.array(by_version, F.when(F.col("isdefault"), F.col("alias"))))).alias("basemessage")
    return own.unionByName(borrowed.select("registryid", "to", names))
