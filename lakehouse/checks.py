"""Rules between entities: joins over the candidate, which is what was staged and, where that does not say, what is published.

The rules about one entity were applied while it was parsed (`constraints`). Here a message meets its group and endpoint, its
base, its schema, its earlier self. An error takes the staged entity out before anything is planned, with what cannot live
without it; what is published stays. `check_catalog` applies all rules, those of one entity too, to what is published.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial, reduce
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, StringType, StructField, StructType

from lakehouse.constraints import Subject, check_entity
from lakehouse.dialects import DIALECTS, asks, severity_in, spelled_in, that_ask
from lakehouse.documents import current_documents
from lakehouse.findings import STRICT, violation_id
from lakehouse.jsontext import pointer_of
from lakehouse.model import (
    DOCUMENT_BODY,
    ENDPOINTS,
    FINDING,
    GROUPS,
    MESSAGES,
    REGISTRIES,
    SCHEMA,
    SCHEMAS,
    SCHEMAVERSIONS,
    STAGE,
    VERSIONS,
    Table,
)
from lakehouse.projections import project
from lakehouse.refusals import KEY
from lakehouse.rules import RULES
from lakehouse.settings import Settings
from lakehouse.tables import table_name
from lakehouse.views import session_with_views

FOUND = ("row", "document_uri", *KEY, "finding")
_STRING = StringType()
# What the rules between entities look at, of the entities that have it.
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
_COLUMNS = (
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
)
_TABLES = (GROUPS, ENDPOINTS, MESSAGES, VERSIONS, SCHEMAS)
_ERRORS_TOLD = 20
# Collections from the inside out: what stands before them in an XID, which entity has them, their name.
_COLLECTIONS = (
    ("/messagegroups/[^/]+", "messagegroup", "messages"),
    ("/endpoints/[^/]+", "endpoint", "messages"),
    ("", "registry", "messagegroups"),
    ("", "registry", "schemagroups"),
)
# Rules that compare with what is published.
_ABOUT_CHANGE = ("CAT-024", "CAT-038", "CAT-064")


class Checked(NamedTuple):
    """What came out of checking a stage: the stage without what was refused; the findings; documents refused whole."""

    stage: DataFrame
    findings: DataFrame
    rejected: int


def check_stage(
    spark: SparkSession,
    settings: Settings,
    stage: DataFrame,
    used: Iterable[str],
    *,
    dialects: Collection[str] = DIALECTS,
    strict: bool = False,
) -> Checked:
    """Check a stage against itself and the catalog.

    Args:
        spark: the session.
        settings: how far chains of bases are followed.
        stage: columns `model.STAGE`.
        used: names of the entity tables that hold something.
        dialects: those of the documents; few have rules about change.
        strict: a document with an error is refused whole.

    Returns:
        `findings` has the columns row, document_uri, registryid, kind, xid, finding, as in `model.STAGE`.
    """
    if not stage.filter(F.col("row") == "entity").take(1):
        return Checked(stage, no_findings(spark), 0)
    # Checkpoints, not caches: what follows is planned over rows, and not over all that they were made from.
    # A union of a dozen frames has a dozen times their partitions, each of which costs every later step a task.
    cores = spark.sparkContext.defaultParallelism
    compare = any(asks(dialect, rule) for dialect in dialects for rule in _ABOUT_CHANGE)
    things = candidate(spark, stage, set(used), compare=compare).coalesce(cores).localCheckpoint()
    flattened = check_flattened(spark, settings, stage, things, set(used))
    found = check_entities(things).unionByName(flattened).coalesce(cores).localCheckpoint()
    if not found.select(F.count_if(F.col("finding.action") == "quarantined")).collect()[0][0]:
        return Checked(stage, found, 0)
    return _reject_documents(stage, found) if strict else _take_out(stage, things, found)


def check_catalog(spark: SparkSession) -> DataFrame:
    """Check everything that is published in the current schema, by all rules.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `model.STAGE`. All are kept.
    """
    documents = current_dialects(spark)
    things = reduce(DataFrame.unionByName, [_published(spark.table(table.name), table) for table in _TABLES])
    things = things.join(F.broadcast(documents), on=["registryid", "document_uri"], how="left")
    between = check_entities(things.withColumn("staged", F.lit(False)).select(*_COLUMNS))
    return _check_alone(spark, documents).unionByName(between)


def no_findings(spark: SparkSession) -> DataFrame:
    """Give a frame of findings without any."""
    return spark.createDataFrame([], StructType([STAGE[name] for name in FOUND]))


def current_dialects(spark: SparkSession) -> DataFrame:
    """Give the dialect of each document of the current schema: registryid, document_uri, dialect."""
    if spark.catalog.tableExists("documents"):
        return spark.table("documents").select("registryid", "document_uri", "dialect")
    known = current_documents(spark.table("changes"))
    return known.select("registryid", F.col("xid").alias("document_uri"), F.col("facts.dialect").alias("dialect"))


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
    kinds = [table.kind for table in _TABLES]
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
    staged = staged.withColumn("staged", F.lit(True)).select(*_COLUMNS)
    tables = [table for table in _TABLES if table.name in used]
    if not tables:
        return staged
    # A published entity whose documents are all read now and no longer hold it is on its way out.
    read_now = documents.filter(F.get_json_object("facts", "$.status") == "loaded")
    read_now = read_now.groupBy("registryid").agg(F.collect_set("document_uri").alias("_read"))
    parts = [_published(spark.table(table_name(table.name)), table, "document_uris") for table in tables]
    published = reduce(DataFrame.unionByName, parts)
    published = published.join(F.broadcast(read_now), on="registryid", how="inner")
    leaving = F.size(F.array_except("document_uris", "_read")) == 0
    published = published.filter(~leaving).join(entities.select(*KEY).distinct(), on=KEY, how="left_anti")
    published = published.withColumns({"staged": F.lit(False), "dialect": F.lit(None).cast("string")})
    things = staged.unionByName(published.select(*_COLUMNS))
    return things.unionByName(_earlier(spark, entities, used)) if compare else things


def _earlier(spark: SparkSession, entities: DataFrame, used: set[str]) -> DataFrame:
    """Give the published state of what is staged, as kinds of its own: rules about change compare with it."""
    keys = entities.select(*KEY).distinct()
    parts = [
        _published(spark.table(table_name(table.name)), table).join(keys, on=KEY, how="left_semi")
        for table in (GROUPS, MESSAGES, VERSIONS)
        if table.name in used
    ]
    if not parts:
        return _published(spark.table(table_name("groups")), GROUPS).limit(0).transform(_as_earlier)
    return reduce(DataFrame.unionByName, parts).transform(_as_earlier)


def _as_earlier(published: DataFrame) -> DataFrame:
    named = published.withColumn("kind", F.concat(F.lit("earlier "), "kind"))
    return named.withColumns({"staged": F.lit(False), "dialect": F.lit(None).cast("string")}).select(*_COLUMNS)


def _published(rows: DataFrame, table: Table, *also: str) -> DataFrame:
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


def check_entities(things: DataFrame) -> DataFrame:
    """Apply the rules between entities.

    Args:
        things: as from `candidate`.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `model.STAGE`.
    """
    checks = (check_members, check_references, check_cycles, check_versions, check_endpoints, check_variants, check_changes)
    every = reduce(DataFrame.unionByName, [check(things) for check in checks])
    # What two documents hold in common, or two ways lead to, is told once.
    return every.withColumn("_id", F.col("finding.violation_id")).dropDuplicates(["_id"]).drop("_id")


def members(things: DataFrame) -> DataFrame:
    """Give the messages with what they say by their default Version: also those that stand for another one (xref).

    Returns:
        `things` of the default Versions, with xid of the Version, message_xid, container (XID of the group or endpoint) and
        borrowed.
    """
    defaults = things.filter((F.col("kind") == "version") & F.col("isdefault")).withColumn("message_xid", _message("xid"))
    own = defaults.withColumns({"container": _holder("message_xid"), "borrowed": F.lit(False)})
    aliases = things.filter((F.col("kind") == "message") & F.col("xref").isNotNull())
    targets = defaults.select(
        "registryid", F.col("message_xid").alias("xref"), *(F.col(name).alias(f"_{name}") for name in ("envelope", "protocol"))
    ).distinct()
    borrowed = aliases.join(targets, on=["registryid", "xref"], how="inner").withColumns(
        {
            "envelope": F.col("_envelope"),
            "protocol": F.col("_protocol"),
            "message_xid": F.col("xid"),
            "container": _holder("xid"),
            "borrowed": F.lit(True),
        }
    )
    return own.unionByName(borrowed.drop("_envelope", "_protocol"))


def check_members(things: DataFrame) -> DataFrame:
    """A message has the envelope and the protocol of its group or endpoint (MSG-134, 156, 157; END-074, 096)."""
    holders = _holders(things)
    both = members(things).join(holders, on=["registryid", "container"], how="inner")
    is_group = F.col("holder_kind") == "group"
    envelope, protocol = F.col("envelope"), F.col("protocol")
    other_protocol = _one_protocol("protocol") != _one_protocol("holder_protocol")
    told = [
        _broken("MSG-157", _differ("envelope"), "/envelope").when(is_group & (F.lower(envelope) != F.lower("holder_envelope"))),
        _broken("MSG-156", F.concat(F.lit("`envelope` is missing, and that of the group is "), "holder_envelope"), "").when(
            is_group & envelope.isNull() & F.col("basemessage").isNull() & F.col("holder_envelope").isNotNull()
        ),
        _broken("MSG-134", _differ("protocol"), "/protocol").when(is_group & other_protocol),
        _broken("END-074", _differ("envelope"), "/envelope").when(~is_group & ~_is_as_precise()),
        _broken("END-096", _differ("protocol"), "/protocol").when(~is_group & other_protocol),
    ]
    return _found(both.filter(envelope.isNotNull() | protocol.isNotNull() | F.col("holder_envelope").isNotNull()), told)


def check_references(things: DataFrame) -> DataFrame:
    """A base, a schema, a will message are there; an ancestor is a Version of the message (MSG-049, 150, 183; END-173, 174)."""
    version, endpoint = F.col("kind") == "version", F.col("kind") == "endpoint"
    base = F.when(version & F.col("basemessage").startswith("/"), _message("basemessage"))
    schema = F.when(version & F.col("dataschemaxid").startswith("/"), F.regexp_replace("dataschemaxid", r"/versions/[^/]*\z", ""))
    ancestor = F.when(version, F.concat(_message("xid"), F.lit("/versions/"), "ancestor"))
    will = F.when(endpoint & F.col("willmessage").startswith("/"), _message("willmessage"))
    targets = {"MSG-150": base, "MSG-183": schema, "MSG-049": ancestor, "END-173": will}
    named = F.array(*(F.struct(F.lit(rule).alias("rule"), target.alias("target")) for rule, target in targets.items()))
    sources = things.filter(
        (version | endpoint) & F.coalesce("basemessage", "dataschemaxid", "ancestor", "willmessage").isNotNull()
    )
    wanted = sources.withColumn("reference", F.explode(F.filter(named, lambda one: one["target"].isNotNull())))
    # An ancestor that is the Version itself needs no look-up.
    wanted = wanted.filter(F.col("reference.target") != F.col("xid"))
    wanted = wanted.withColumns({"rule": F.col("reference.rule"), "target": F.col("reference.target")}).drop("reference")
    there = things.filter(F.col("kind").isin("message", "version", "schema"))
    there = there.groupBy("registryid", F.col("xid").alias("target")).agg(F.lit(True).alias("is_there"))
    groups = things.filter(F.col("kind") == "group").select(
        "registryid", F.col("xid").alias("target_group"), F.lit(True).alias("has_group")
    )
    defaults = things.filter((F.col("kind") == "version") & F.col("isdefault"))
    kinds = defaults.groupBy("registryid", _message("xid").alias("target")).agg(
        F.first("envelope").alias("target_envelope"), F.first("protocol").alias("target_protocol")
    )
    looked_up = (
        wanted.join(there, on=["registryid", "target"], how="left")
        .withColumn("target_group", F.when(F.col("rule") == "MSG-183", _holder("target")))
        .join(groups, on=["registryid", "target_group"], how="left")
        .join(kinds, on=["registryid", "target"], how="left")
    )
    absent, rule = F.col("is_there").isNull(), F.col("rule")
    is_event = F.lower("target_envelope").startswith("cloudevents") | F.upper("target_protocol").startswith("MQTT")
    leads_nowhere = F.concat(F.lit("it leads to "), "target", F.lit(", which is not there"))
    told = [
        _broken("MSG-150", F.concat(F.lit("`basemessage`: "), leads_nowhere), "/basemessage").when((rule == "MSG-150") & absent),
        _broken("MSG-183", F.concat(F.lit("`dataschemaxid`: "), leads_nowhere), "/dataschemaxid").when(
            (rule == "MSG-183") & absent & F.col("has_group")
        ),
        _broken("MSG-049", F.concat(F.lit("`ancestor`: "), leads_nowhere), "/ancestor").when((rule == "MSG-049") & absent),
        _broken("END-173", F.concat(F.lit("`willmessage`: "), leads_nowhere), "/protocoloptions/willmessage").when(
            (rule == "END-173") & absent
        ),
        _broken(
            "END-174",
            F.concat(F.lit("`willmessage` leads to "), "target", F.lit(", which is neither a CloudEvents nor an MQTT message")),
            "/protocoloptions/willmessage",
        ).when((rule == "END-173") & ~absent & ~F.coalesce(is_event, F.lit(False))),
    ]
    return _found(looked_up, told)


def check_cycles(things: DataFrame) -> DataFrame:
    """A chain of bases does not come back to itself (MSG-146).

    Each step doubles the way: an edge then leads two, four, eight bases on. Ways that end drop out, so a catalog without
    cycles is done after as many steps as its longest chain has bits.
    """
    versions = things.filter((F.col("kind") == "version") & F.col("isdefault") & F.col("basemessage").startswith("/"))
    edges = versions.select("registryid", _message("xid").alias("from"), _message("basemessage").alias("to")).distinct()
    starts = edges.select("registryid", F.col("from").alias("to"))
    # Each step is a checkpoint: a plan that holds the earlier steps twice would double with each.
    way = edges.join(starts, on=["registryid", "to"], how="left_semi").localCheckpoint()
    total = left = way.count()
    length = 1
    while left and length <= total:  # a way longer than there are edges comes back somewhere
        further = way.select("registryid", F.col("from").alias("to"), F.col("to").alias("end"))
        way = way.join(further, on=["registryid", "to"]).select("registryid", "from", F.col("end").alias("to")).localCheckpoint()
        left, length = way.count(), length * 2
    if not left:
        return _found(versions.limit(0), [_broken("MSG-146", F.lit(""), "")])
    on_cycle = way.select("registryid", F.col("to").alias("message_xid")).distinct()
    on_it = versions.withColumn("message_xid", _message("xid")).join(on_cycle, on=["registryid", "message_xid"])
    told = F.concat(F.lit("`basemessage` leads over "), _message("basemessage"), F.lit(" back to this message"))
    return _found(on_it, [_broken("MSG-146", told, "/basemessage")])


def check_versions(things: DataFrame) -> DataFrame:
    """Versions of a message have the same metadata (MSG-140); by 003 a `type` is one message's (CAT-007)."""
    versions = things.filter(F.col("kind") == "version").withColumn("message_xid", _message("xid"))
    differing = versions.groupBy("registryid", "message_xid", "document_uri").agg(
        F.min("metadata").alias("least"), F.max("metadata").alias("most"), F.count("basemessage").alias("based")
    )
    differing = differing.filter((F.col("least") != F.col("most")) & (F.col("based") == 0))
    several = versions.filter("isdefault").join(differing, on=["registryid", "message_xid", "document_uri"], how="left_semi")
    told = F.lit("its Versions differ in envelope or protocol: messages with other metadata are other messages")
    first = _found(several, [_broken("MSG-140", told, "")])
    old = versions.filter(_asks("CAT-007") & F.col("isdefault") & F.col("ce_type").isNotNull() & F.col("basemessage").isNull())
    earliest = F.min("message_xid").over(Window.partitionBy("registryid", "ce_type"))
    doubled = old.withColumn("earliest", earliest).filter(F.col("earliest") != F.col("message_xid"))
    twice = F.concat(F.lit("`type` "), "ce_type", F.lit(" is that of "), "earliest", F.lit(" too"))
    return first.unionByName(_found(doubled, [_broken("CAT-007", twice, "/envelopemetadata/type")]))


def check_endpoints(things: DataFrame) -> DataFrame:
    """The messages that an endpoint names by their groups fit it, and no messageid comes twice (END-074, 096, 130)."""
    endpoints = things.filter((F.col("kind") == "endpoint") & F.col("messagegroups").isNotNull())
    groups = F.array_distinct(F.array_append("messagegroups", F.col("xid")))
    lists = endpoints.withColumn("container", F.explode(groups)).withColumns(
        {"holder_envelope": F.col("envelope"), "holder_protocol": F.col("protocol")}
    )
    carried = members(things).select(
        "registryid", "container", "message_xid", F.col("envelope").alias("_envelope"), F.col("protocol").alias("_protocol")
    )
    both = lists.join(carried, on=["registryid", "container"], how="inner")
    both = both.withColumns({"envelope": F.col("_envelope"), "protocol": F.col("_protocol")})
    is_referenced = F.col("container") != F.col("xid")
    protocols_differ = is_referenced & (_one_protocol("protocol") != _one_protocol("holder_protocol"))
    envelopes_differ = is_referenced & F.col("envelope").isNotNull() & ~_is_as_precise()
    endpoint = [*KEY, "document_uri", "staged", "dialect"]
    grouped = both.groupBy(*endpoint).agg(
        F.min(F.when(envelopes_differ, F.col("message_xid"))).alias("other_envelope"),
        F.min(F.when(protocols_differ, F.col("message_xid"))).alias("other_protocol"),
        F.count_if(envelopes_differ).alias("other_envelopes"),
        F.count_if(protocols_differ).alias("other_protocols"),
    )
    grouped = grouped.filter(F.coalesce("other_envelope", "other_protocol").isNotNull())
    messageid = F.element_at(F.split("message_xid", "/"), -1).alias("messageid")
    same_id = both.groupBy(*endpoint, messageid).agg(F.min("message_xid").alias("least"), F.max("message_xid").alias("most"))
    twice = same_id.filter(F.col("least") != F.col("most")).groupBy(*endpoint).agg(F.min("messageid").alias("twice"))

    def counted(what: str) -> Column:
        return F.concat(
            F.col(f"other_{what}s").cast("string"), F.lit(f" messages have another {what}, such as "), f"other_{what}"
        )

    told = [
        _broken("END-074", counted("envelope"), "/messagegroups", "warning").when(F.col("other_envelope").isNotNull()),
        _broken("END-096", counted("protocol"), "/messagegroups", "warning").when(F.col("other_protocol").isNotNull()),
    ]
    several = F.concat(F.lit("it carries several messages with the id "), "twice")
    return _found(grouped, told).unionByName(_found(twice, [_broken("END-130", several, "/messagegroups")]))


def check_variants(things: DataFrame) -> DataFrame:
    """No two ids under one parent differ in letter case only, over all documents (MSG-020, 037, 038; END-033)."""
    rules = {"group": "MSG-020", "endpoint": "END-033", "message": "MSG-037", "version": "MSG-038", "schema": "MSG-037"}
    present = things.filter(F.col("kind").isin(*rules))
    parent, last = F.regexp_replace("xid", r"/[^/]*\z", ""), F.lower(F.element_at(F.split("xid", "/"), -1))
    keyed = present.withColumns({"parent": parent, "last": last})
    # Numbers first: a place where only one XID stands is most of them, and numbers are grouped much sooner than texts.
    numbered = keyed.select(F.xxhash64("registryid", "parent", "last").alias("place"), F.xxhash64("xid").alias("number"))
    crowded = numbered.groupBy("place").agg(F.min("number").alias("least"), F.max("number").alias("most"))
    crowded = crowded.filter(F.col("least") != F.col("most")).select("place")
    near = keyed.withColumn("place", F.xxhash64("registryid", "parent", "last")).join(crowded, on="place", how="left_semi")
    place = ["registryid", "parent", "last"]
    spelled = near.groupBy(*place).agg(
        F.min("xid").alias("least"), F.max("xid").alias("most"), F.min(F.when(~F.col("staged"), F.col("xid"))).alias("published")
    )
    spelled = spelled.filter(F.col("least") != F.col("most"))
    earlier = F.coalesce("published", "least")
    variants = near.join(spelled, on=place, how="inner").filter(F.col("xid") != earlier)
    told = F.concat(F.lit("its id differs from that of "), earlier, F.lit(" in letter case only"))
    return _found(variants, [_broken(rule, told, "").when(F.col("kind") == kind) for kind, rule in rules.items()])


def check_changes(things: DataFrame) -> DataFrame:
    """What 003 forbids to change does not change: Versions, a group's format, an authority (CAT-024, 038, 064)."""
    earlier = things.filter(F.col("kind").startswith("earlier ")).select(
        "registryid",
        F.substring("kind", len("earlier ") + 1, 100).alias("kind"),
        "xid",
        *(F.col(name).alias(f"old_{name}") for name in ("content_hash", "envelope", "protocol", "authority")),
    )
    old = things.filter(
        F.col("staged") & reduce(Column.__or__, map(_asks, _ABOUT_CHANGE)) & F.col("kind").isin("group", "message", "version")
    )
    singles = things.filter(F.col("single")).select(
        "registryid", "document_uri", F.col("xid").alias("message_xid"), F.lit(True).alias("_single")
    )
    both = old.join(earlier, on=KEY, how="inner").withColumn("message_xid", F.when(F.col("kind") == "version", _message("xid")))
    both = both.join(singles, on=["registryid", "document_uri", "message_xid"], how="left")
    is_declared = (F.col("kind") == "version") & F.col("_single").isNull()
    was, now = (F.coalesce(f"{prefix}envelope", f"{prefix}protocol") for prefix in ("old_", ""))
    told = [
        _broken("CAT-038", F.lit("a Version that is published was changed; the published one stays"), "").when(
            is_declared & (F.col("content_hash") != F.col("old_content_hash"))
        ),
        _broken("CAT-024", F.concat(F.lit("`format` was "), was, F.lit(" and is "), now), "").when(
            (F.col("kind") == "group") & (F.lower(was) != F.lower(now))
        ),
        _broken("CAT-064", F.concat(F.lit("`authority` was "), "old_authority", F.lit(" and is "), "authority"), "").when(
            F.col("old_authority") != F.col("authority")
        ),
    ]
    return _found(both, told)


# After flattening.


def check_flattened(spark: SparkSession, settings: Settings, stage: DataFrame, things: DataFrame, used: set[str]) -> DataFrame:
    """Tell what staged messages lack that have a base, which may supply it (MSG-156, 161, 166, 175, 181; requirements.md 21).

    Only those are flattened that lack something by themselves: what the others have, no base takes away. A message whose base
    is not there yet is not judged.
    """
    defaults = things.filter(
        F.col("staged") & F.col("isdefault") & (F.col("kind") == "version") & F.col("basemessage").isNotNull()
    )
    in_group = _holders(things).filter("holder_kind = 'group'")
    based = defaults.withColumns({"message_xid": _message("xid"), "container": _holder(_message("xid"))})
    based = based.join(in_group, on=["registryid", "container"], how="left")
    needs_envelope = F.col("envelope").isNull() & F.col("holder_envelope").isNotNull()
    lacking = based.filter(F.col("lacks") | needs_envelope).localCheckpoint()
    if lacking.isEmpty():
        return no_findings(spark)
    wanted = lacking.select("registryid", F.col("message_xid").alias("xid")).distinct()
    stand_ins = {table.name: _candidate_rows(spark, stage, table, used) for table in (MESSAGES, VERSIONS)}
    stand_ins["scope"] = stand_ins["messages"].join(wanted, on=["registryid", "xid"], how="left_semi")
    session = session_with_views(spark, settings, SCHEMA, stand_ins, ["flat_messages"])
    flat = session.table("flat_messages").select("registryid", F.col("xid").alias("message_xid"), "chain_status", "attributes")
    both = lacking.join(flat, on=["registryid", "message_xid"], how="inner").filter(F.col("chain_status") == "resolved")
    envelope, protocol = _leaf("/envelope"), _leaf("/protocol")
    form, uri = _leaf("/dataschemaformat"), _leaf("/dataschemauri")
    other = F.concat(F.lit("`envelope` is missing, and that of the group is "), "holder_envelope")
    told = [_broken("MSG-156", other, "").when(envelope.isNull() & F.col("holder_envelope").isNotNull())]
    for rule_id, pointer, what, section, value in (
        ("MSG-161", "/envelope", "`envelopemetadata`", "/envelopemetadata", envelope),
        ("MSG-166", "/protocol", "`protocoloptions`", "/protocoloptions", protocol),
    ):
        message = F.concat(F.lit(f"`{pointer[1:]}` is "), value, F.lit(f", and neither here nor in its bases there is {what}"))
        lacks = value.isNotNull() & ~_has_leaf_below(section)
        told.append(_broken(rule_id, message, pointer).when(lacks))
    is_inline = _leaf("/dataschema").isNotNull() & form.isNull()
    without = F.lit(" stands without `dataschemaformat`, here and in its bases")
    is_near = uri.startswith('"/schemagroups/') | uri.startswith('"#/')
    told.append(_broken("MSG-175", F.concat(F.lit("`dataschema`"), without), "/dataschema").when(is_inline))
    message = F.concat(F.lit("`dataschemauri` "), uri, without)
    told.append(_broken("MSG-181", message, "/dataschemauri").when(uri.isNotNull() & form.isNull() & ~is_near))
    told.append(_broken("MSG-181", message, "/dataschemauri", "warning").when(uri.isNotNull() & form.isNull() & is_near))
    return _found(both, told).localCheckpoint()


def _candidate_rows(spark: SparkSession, stage: DataFrame, table: Table, used: set[str]) -> DataFrame:
    """Lay staged rows of a table over the published ones, as the table has them."""
    entities = stage.filter((F.col("row") == "entity") & (F.col("kind") == table.kind))
    logged = entities.withColumns({"document_uris": F.array("document_uri"), "snapshot_id": F.lit(0).cast("bigint")})
    staged = project(logged, table).dropDuplicates(["registryid", "xid"])
    if table.name not in used:
        return staged
    published = spark.table(table_name(table.name)).join(staged, on=["registryid", "xid"], how="left_anti")
    return staged.unionByName(published.select(*staged.columns))


def _leaf(pointer: str) -> Column:
    return F.col("attributes")[pointer]


def _has_leaf_below(pointer: str) -> Column:
    return F.exists(F.map_keys("attributes"), lambda key: key.startswith(pointer + "/"))


# What is told.


class _Telling(NamedTuple):
    """A finding to be: its rule, the message, where in the entity, and its severity when that is not the rule's."""

    rule_id: str
    message: Column
    pointer: str
    severity: str | None = None

    def when(self, condition: Column) -> Column:
        """Make it a struct where a condition holds, NULL elsewhere."""
        rule = RULES[self.rule_id]
        told = F.struct(
            F.lit(self.rule_id).alias("rule_id"),
            _by_dialect(self.severity or rule.severity, partial(_severity, self)).alias("severity"),
            _by_dialect(self.pointer, partial(_spelled, self.pointer)).alias("pointer"),
            self.message.alias("message"),
            F.lit(rule.hint).alias("hint"),
        )
        return F.when(condition, told)


def _by_dialect(usual: str, in_dialect: Callable[[str], str]) -> Column:
    """Give a text that some dialects have otherwise."""
    others = [(dialect, in_dialect(dialect)) for dialect in DIALECTS]
    return reduce(
        lambda so_far, other: F.when(F.col("dialect") == other[0], other[1]).otherwise(so_far),
        [other for other in others if other[1] != usual],
        F.lit(usual),
    )


def _severity(telling: _Telling, dialect: str) -> str:
    return severity_in(dialect, telling.rule_id) or telling.severity or RULES[telling.rule_id].severity


def _spelled(pointer: str, dialect: str) -> str:
    entity = "endpoint" if pointer.startswith(("/messagegroups", "/protocoloptions")) else "message"
    return spelled_in(dialect, entity, *pointer.split("/")[1:])


def _asks(rule_id: str) -> Column:
    return F.col("dialect").isin(that_ask(rule_id))


def _broken(rule_id: str, message: Column, pointer: str, severity: str | None = None) -> _Telling:
    return _Telling(rule_id, message, pointer, severity)


def _found(rows: DataFrame, told: list[Column] | list[_Telling]) -> DataFrame:
    """Make findings of rows that have the columns of `KEY`, document_uri, staged and dialect."""
    columns = [one.when(F.lit(True)) if isinstance(one, _Telling) else one for one in told]
    shows_message = (F.col("kind") == "version") & (F.col("isdefault") if "isdefault" in rows.columns else F.lit(False))
    entity = F.when(shows_message, _message("xid")).otherwise(F.col("xid"))
    named = rows.withColumn("_at", _as_written(entity)).withColumn("told", F.explode(F.filter(F.array(*columns), F.isnotnull)))
    pointer = F.concat("_at", "told.pointer")
    identity = F.concat_ws("\0", "registryid", "document_uri", "told.rule_id", "xid", pointer, "told.message")
    action = F.when(F.col("staged") & (F.col("told.severity") == "error"), "quarantined").otherwise("kept")
    finding = F.struct(
        F.substring(F.sha2(identity, 256), 1, 32).alias("violation_id"),
        pointer.alias("pointer"),
        F.col("told.rule_id").alias("rule_id"),
        F.col("told.severity").alias("severity"),
        action.alias("action"),
        F.col("told.message").alias("message"),
        F.col("told.hint").alias("hint"),
        F.lit(None).cast("string").alias("raw"),
    )
    return named.select(F.lit("finding").alias("row"), "document_uri", *KEY, finding.alias("finding"))


def _as_written(xid: Column) -> Column:
    """Turn an XID into the JSON Pointer of the entity in its document."""
    pointer = F.replace(xid, F.lit("~"), F.lit("~0"))
    for dialect in DIALECTS:
        for holder, entity, collection in _COLLECTIONS:
            spelled = spelled_in(dialect, entity, collection)
            if spelled != f"/{collection}":
                written = F.regexp_replace(pointer, rf"\A({holder})/{collection}/", f"$1{spelled}/")
                pointer = F.when(F.col("dialect") == dialect, written).otherwise(pointer)
    return pointer


def _message(xid: str | Column) -> Column:
    """Give the XID of the message, of that of it or of a Version of it."""
    return F.regexp_replace(xid, r"/versions/[^/]*\z", "")


def _holder(xid: str | Column) -> Column:
    """Give the XID of the group or endpoint that holds an entity."""
    return F.regexp_replace(xid, r"/[^/]+/[^/]+\z", "")


def _holders(things: DataFrame) -> DataFrame:
    named = things.filter(F.col("kind").isin("group", "endpoint"))
    return named.groupBy("registryid", F.col("xid").alias("container")).agg(
        F.min("kind").alias("holder_kind"), F.min("envelope").alias("holder_envelope"), F.min("protocol").alias("holder_protocol")
    )


def _differ(name: str) -> Column:
    return F.concat(F.lit(f"`{name}` is "), name, F.lit(", and that of what holds it is "), f"holder_{name}")


def _one_protocol(name: str) -> Column:
    """Write a protocol so that the same one is the same text: requirements.md 22."""
    family, version = F.upper(F.split_part(name, F.lit("/"), F.lit(1))), F.split_part(name, F.lit("/"), F.lit(2))
    number = (
        F.when(family.isin("AMQP", "MQTT") & (version != ""), version)
        .when(family == "AMQP", "1.0")
        .when(family == "MQTT", "5.0")
        .when(family.isin("HTTP", "KAFKA", "NATS"), "")
        .otherwise(version)
    )
    return F.when(F.col(name) != "", F.concat(family, F.lit("/"), number))


def _is_as_precise() -> Column:
    """Tell that a message's envelope is the endpoint's, or a closer version of it (END-074, 075; requirements.md 23)."""
    asked, given = F.lower("holder_envelope"), F.lower("envelope")
    refines = reduce(Column.__or__, [F.startswith(given, F.concat(asked, F.lit(mark))) for mark in "/.-"])
    return F.coalesce((given == asked) | refines, F.lit(True))


# The gate.


def _take_out(stage: DataFrame, things: DataFrame, found: DataFrame) -> Checked:
    """Take what was refused out of the stage, and what cannot live without it: each with a finding of its own."""
    entities = stage.filter(F.col("row") == "entity")
    keys = ["document_uri", *KEY]
    refused = found.filter(F.col("finding.action") == "quarantined").select(*keys).distinct()
    # A message shows nothing without its default Version.
    defaults = things.filter(F.col("staged") & F.col("isdefault") & (F.col("kind") == "version")).select(*keys)
    bare = refused.join(defaults, on=keys, how="left_semi").select(
        "document_uri", "registryid", F.lit("message").alias("kind"), _message("xid").alias("xid"), F.col("xid").alias("cause")
    )
    seeds = refused.select("document_uri", "registryid", "xid").unionByName(bare.select("document_uri", "registryid", "xid"))
    above = F.transform(
        F.filter(F.sequence(F.lit(2), F.size(F.split("xid", "/")) - 3, F.lit(2)), lambda n: n >= 2),
        lambda n: F.array_join(F.slice(F.split("xid", "/"), 1, n + 1), "/"),
    )
    deep = entities.filter(F.size(F.split("xid", "/")) > 4).select(*keys, F.explode(above).alias("cause"))
    seeds = seeds.distinct().withColumnRenamed("xid", "cause")
    below = deep.join(seeds, on=["document_uri", "registryid", "cause"], how="inner")
    hanging = bare.unionByName(below.select(*bare.columns)).groupBy(*keys).agg(F.min("cause").alias("cause"))
    hanging = hanging.join(refused, on=keys, how="left_anti")
    dependent = hanging.withColumns({"staged": F.lit(True), "dialect": F.lit(None).cast("string")})
    told = F.concat(F.lit("it cannot be loaded: "), "cause", F.lit(" was refused"))
    every = found.unionByName(_found(dependent, [_broken("MSG-115", told, "")]))
    texts = entities.select(*keys, F.coalesce("raw", "body").alias("_raw"))
    raw = F.when(F.col("finding.action") == "quarantined", F.col("_raw"))
    every = every.join(texts, on=keys, how="left").withColumn("finding", F.col("finding").withField("raw", raw)).select(*FOUND)
    every = every.localCheckpoint()
    out = every.filter(F.col("finding.action") == "quarantined").select(*keys).distinct().localCheckpoint()
    kept = entities.join(F.broadcast(out), on=keys, how="left_anti").select(*stage.columns)
    return Checked(kept.unionByName(stage.filter(F.col("row") != "entity")), every, 0)


def _reject_documents(stage: DataFrame, found: DataFrame) -> Checked:
    """Refuse each document with an error whole: one finding, which tells the errors."""
    errors = found.filter(F.col("finding.action") == "quarantined")
    one = F.concat("finding.pointer", F.lit(": "), "finding.rule_id", F.lit(": "), "finding.message")
    by_document = errors.groupBy("document_uri", "registryid").agg(
        F.count("*").alias("n"), F.slice(F.array_sort(F.collect_list(one)), 1, _ERRORS_TOLD).alias("told")
    )
    reason = F.concat(F.col("n").cast("string"), F.lit(" errors under --strict: "), F.array_join("told", "; "))
    rejected = by_document.select("document_uri", "registryid", reason.alias("reason")).localCheckpoint()
    rule = RULES[STRICT]
    identity = F.concat_ws("\0", "registryid", "document_uri", F.lit(STRICT), F.lit(""), F.lit(""), "reason")
    values = {
        "violation_id": F.substring(F.sha2(identity, 256), 1, 32),
        "pointer": F.lit(""),
        "rule_id": F.lit(STRICT),
        "severity": F.lit("error"),
        "action": F.lit("quarantined"),
        "message": F.col("reason"),
        "hint": F.lit(rule.hint),
        "raw": F.lit(None).cast("string"),
    }
    told = rejected.select(
        F.lit("finding").alias("row"),
        "document_uri",
        "registryid",
        F.lit("").alias("kind"),
        F.lit(None).cast("string").alias("xid"),
        F.struct(*(values[field.name].alias(field.name) for field in FINDING)).alias("finding"),
    )
    keys = ["document_uri", "registryid"]
    kept = stage.filter(F.col("row") == "entity").join(F.broadcast(rejected.select(*keys)), on=keys, how="left_anti")
    others = stage.filter(F.col("row") != "entity").join(F.broadcast(rejected), on=keys, how="left")
    facts = F.from_json("facts", DOCUMENT_BODY)
    cleared = reduce(
        lambda facts, name: facts.withField(name, F.lit(None).cast(DOCUMENT_BODY[name].dataType)),
        ("entities", "quarantined", "spellings", "root"),
        facts.withField("status", F.lit("rejected")).withField("reason", F.col("reason")),
    )
    is_rejected = (F.col("row") == "document") & F.col("reason").isNotNull()
    others = others.withColumn("facts", F.when(is_rejected, F.to_json(cleared)).otherwise(F.col("facts")))
    rest = found.join(F.broadcast(rejected.select(*keys)), on=keys, how="left_anti").select(*found.columns)
    every = rest.unionByName(told).localCheckpoint()
    return Checked(kept.select(*stage.columns).unionByName(others.select(*stage.columns)), every, rejected.count())


# What is published, entity by entity.

_JSON_COLUMNS = frozenset(
    ("deprecated", "extensions", "envelopemetadata", "envelopeoptions", "protocoloptions", "dataschema", "schema", "capabilities")
)
_ALONE = {
    "registry": REGISTRIES,
    "messagegroup": GROUPS,
    "endpoint": ENDPOINTS,
    "meta": MESSAGES,
    "message": VERSIONS,
    "schema": SCHEMAVERSIONS,
}
_AROUND = ("registryid", "kind", "xid", "document_uri", "dialect", "holder_envelope", "holder_protocol")


def _check_alone(spark: SparkSession, documents: DataFrame) -> DataFrame:
    """Apply the rules about one entity to what is published."""
    holders = [
        spark.table(table.name).select(
            "registryid",
            F.col("xid").alias("container"),
            F.col("envelope").alias("holder_envelope"),
            F.col("protocol").alias("holder_protocol"),
        )
        for table in (GROUPS, ENDPOINTS)
    ]
    held_by = holders[0].unionByName(holders[1])
    schema = StructType([STAGE[name] for name in FOUND])
    parts = []
    for entity, table in _ALONE.items():
        uri = F.coalesce(F.get("document_uris", F.lit(0)), F.lit("")).alias("document_uri")
        names = [name for name in table.columns.names if name in table.body or name in ("dataschema", "schema", "grouptype")]
        rows = spark.table(table.name).select("registryid", F.lit(table.kind).alias("kind"), "xid", uri, *names)
        rows = rows.join(F.broadcast(documents), on=["registryid", "document_uri"], how="left")
        if entity == "message":
            rows = rows.withColumn("message_xid", _message("xid")).withColumn("container", _holder("message_xid"))
            rows = rows.join(held_by, on=["registryid", "container"], how="left")
        else:
            nothing = F.lit(None).cast("string")
            rows = rows.withColumns({"holder_envelope": nothing, "holder_protocol": nothing})
        parts.append(rows.select(*_AROUND, *names).mapInArrow(_checker(entity, names), schema))
    return reduce(DataFrame.unionByName, parts)


def _checker(entity: str, names: list[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = to_arrow_schema(StructType([STAGE[name] for name in FOUND]), timezone="UTC")

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [one for row in batch.to_pylist() for one in _check_row(entity, names, row)]
            yield pa.RecordBatch.from_pylist(found, schema=schema)

    return check


def _check_row(entity: str, names: list[str], row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    known = {name: _value(name, row[name]) for name in names if row[name] is not None and name not in ("extensions", "grouptype")}
    if entity == "messagegroup" and row.get("grouptype") == "schemagroups":
        entity = "schemagroup"
    ident = row["xid"].split("/")[4 if entity in ("message", "meta") else 2] if row["xid"] != "/" else ""
    extensions = _value("extensions", row["extensions"]) if row.get("extensions") else None
    protocol = row["holder_protocol"]
    family = protocol.split("/", 1)[0].upper() if protocol else None
    subject = Subject(entity, known, ident, family, row["holder_envelope"], row["dialect"] or "", extensions)
    at = row["xid"].replace("~", "~0") if row["xid"] != "/" else ""
    for path, rule_id, message, severity in check_entity(subject):
        rule = RULES[rule_id]
        pointer = at + pointer_of(*path)
        identity = (row["registryid"], row["document_uri"], rule_id, row["xid"], pointer, message)
        yield {
            "row": "finding",
            "document_uri": row["document_uri"],
            "registryid": row["registryid"],
            "kind": row["kind"],
            "xid": row["xid"],
            "finding": {
                "violation_id": violation_id(*identity),
                "pointer": pointer,
                "rule_id": rule_id,
                "severity": severity or rule.severity,
                "action": "kept",
                "message": message,
                "hint": rule.hint,
            },
        }


def _value(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS:
        return orjson.loads(value)
    return dict(value) if name == "labels" else value
