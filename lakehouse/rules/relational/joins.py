"""Pairs of an entity and its neighbours: joins over what was staged and, where that does not say, what is published.

Here a message meets its group and endpoint, its base, its schema, its earlier self; `domain.relations` says which rules a pair
breaks. Rules without anything to check are skipped, and small tables are broadcast: most catalogs break few rules, and have few
of what the rules are about.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.dialects.tables import dialects_with_rule
from lakehouse.domain.relations import ABOUT_CHANGE, UNIQUE_TYPE, VARYING
from lakehouse.rules.relational.candidaterows import Present, as_bases, broadcast_few, look_at, parents_of, schema_targets
from lakehouse.rules.relational.options import Flattened, check_endpoint_options
from lakehouse.rules.relational.pairs import no_pairs, only_broken, pairs_of
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import count, is_known_empty, materialize
from lakehouse.store.session import is_without_codegen
from lakehouse.store.xids import without_version

_Check = Callable[[DataFrame, Present], DataFrame]


def check_entities(entities: DataFrame, duplicate_messageids: str | None = None, flattened: Flattened | None = None) -> DataFrame:
    """Find what the rules between entities look at.

    Args:
        entities: as from `candidate`; read several times.
        duplicate_messageids: severity of a messageid that comes twice, where it is not the rule's.
        flattened: as for `options.check_endpoint_options`.

    Returns:
        Pairs, as from `pairs.pairs_of`; one may come in several rows.
    """
    present = look_at(entities)
    checks: dict[_Check, int] = {
        check_members: present.parents,
        check_references: present.references,
        check_cycles: present.bases,
        check_versions: 1,
        partial(check_endpoints, duplicate_messageids=duplicate_messageids): present.lists,
        lambda rows, existing: check_endpoint_options(rows, members(rows, existing), existing, flattened): present.options,
        check_variants: 1,
        check_changes: present.earlier,
        check_schema_uris: present.uris,
        check_aliases: present.aliases,
    }
    results = [check(entities, present) for check, concerned in checks.items() if concerned]
    return reduce(DataFrame.unionByName, results, no_pairs(entities.sparkSession))


def members(entities: DataFrame, present: Present) -> DataFrame:
    """Return the messages with the attributes of their default Version, including those that refer to another one (xref).

    Returns:
        `entities` of the default Versions, with xid of the Version, message_xid, container (XID of the group or endpoint),
        borrowed, and is_based: it has attributes and bases.
    """
    defaults = entities.filter((F.col("kind") == "version") & F.col("isdefault"))
    defaults = defaults.withColumn("is_based", F.col("basemessage").isNotNull())
    own = defaults.withColumn("borrowed", F.lit(False))
    if not present.aliases:
        return own
    aliases = broadcast_few(entities.filter((F.col("kind") == "message") & F.col("xref").isNotNull()), present.aliases)
    shown = ("envelope", "protocol", "options")
    targets = defaults.select(
        "registryid", F.col("message_xid").alias("xref"), "is_based", *(F.col(name).alias(f"_{name}") for name in shown)
    )
    borrowed = targets.join(aliases, on=["registryid", "xref"], how="inner").withColumns(
        {name: F.col(f"_{name}") for name in shown} | {"borrowed": F.lit(True)}
    )
    return own.unionByName(borrowed.drop(*(f"_{name}" for name in shown)))


def check_members(entities: DataFrame, present: Present) -> DataFrame:
    """Find the messages that do not fit the group or endpoint that holds them."""
    parents = broadcast_few(parents_of(entities), present.parents)
    both = members(entities, present).join(parents, on=["registryid", "container"], how="inner")
    values = {name: F.col(name) for name in ("envelope", "protocol", "parent_envelope", "parent_protocol")}
    values["in_group"] = F.col("parent_kind") == "group"
    values["is_based"] = F.col("basemessage").isNotNull()
    return only_broken(pairs_of(both, "check_parent", **values))


def check_references(entities: DataFrame, present: Present) -> DataFrame:
    """Find the bases, schemas, ancestors and will messages that are not there."""
    version, endpoint = F.col("kind") == "version", F.col("kind") == "endpoint"
    targets = {
        "basemessage": F.when(version & F.col("basemessage").startswith("/"), without_version("basemessage")),
        "dataschemaxid": F.when(version & F.col("dataschemaxid").startswith("/"), without_version("dataschemaxid")),
        "ancestor": F.when(version, F.concat("message_xid", F.lit("/versions/"), "ancestor")),
        "willmessage": F.when(endpoint & F.col("willmessage").startswith("/"), without_version("willmessage")),
    }
    named = F.array(*(F.struct(F.lit(name).alias("attribute"), target.alias("target")) for name, target in targets.items()))
    sources = entities.filter((version | endpoint) & F.coalesce(*targets).isNotNull())
    wanted = sources.withColumn("reference", F.explode(F.filter(named, lambda reference: reference["target"].isNotNull())))
    # An ancestor that is the Version itself needs no look-up.
    wanted = wanted.filter(F.col("reference.target") != F.col("xid"))
    wanted = wanted.withColumns({"attribute": F.col("reference.attribute"), "target": F.col("reference.target")}).drop(
        "reference"
    )
    existing = entities.filter(F.col("kind").isin("message", "version", "schema")).select(
        "registryid", F.col("xid").alias("target")
    )
    absent = wanted.join(existing, on=["registryid", "target"], how="left_anti")
    group = F.when(F.col("attribute") == "dataschemaxid", F.regexp_replace("target", r"/[^/]+/[^/]+\z", ""))
    with_group = _with_group(absent.withColumn("group", group), entities, present)
    nowhere = pairs_of(
        with_group, "check_absent_target", attribute=F.col("attribute"), target=F.col("target"), has_group=F.col("has_group")
    )
    return nowhere.unionByName(_check_wills(entities, wanted, present)) if present.wills else nowhere


def _with_group(rows: DataFrame, entities: DataFrame, present: Present) -> DataFrame:
    """Add whether the group that a column `group` names is there: has_group."""
    groups = entities.filter(F.col("kind") == "group").select("registryid", F.col("xid").alias("group"))
    groups = broadcast_few(groups.withColumn("has_group", F.lit(True)).distinct(), present.parents)
    both = rows.join(groups, on=["registryid", "group"], how="left")
    return both.withColumn("has_group", F.coalesce("has_group", F.lit(False)))


def _check_wills(entities: DataFrame, wanted: DataFrame, present: Present) -> DataFrame:
    defaults = entities.filter((F.col("kind") == "version") & F.col("isdefault"))
    kinds = defaults.select(
        "registryid",
        F.col("message_xid").alias("target"),
        F.col("envelope").alias("target_envelope"),
        F.col("protocol").alias("target_protocol"),
        F.col("basemessage").isNotNull().alias("target_is_based"),
    )
    wills = broadcast_few(wanted.filter(F.col("attribute") == "willmessage"), present.wills)
    both = kinds.join(wills, on=["registryid", "target"], how="inner")
    return pairs_of(
        both,
        "check_will",
        target=F.col("target"),
        is_based=F.col("target_is_based"),
        envelope=F.col("target_envelope"),
        protocol=F.col("target_protocol"),
    )


def check_schema_uris(entities: DataFrame, present: Present) -> DataFrame:
    """Find each `dataschemauri` that leads into the own document, or into a schema group of the registry, and to no schema."""
    key = [*KEY, "document_uri"]
    referring = entities.filter(F.col("schema_reference").isNotNull())
    path = F.regexp_replace("schema_reference", r"\A#", "")
    schemas = entities.filter(F.col("kind").isin("schema", "schemaversion")).select("registryid", F.col("xid").alias("target"))
    wanted = referring.select(*key, F.explode(schema_targets()).alias("target"))
    result = wanted.join(schemas, on=["registryid", "target"], how="left_semi").select(*key).distinct()
    absent = referring.withColumn("group", F.substring_index(path, "/", 3)).join(result, on=key, how="left_anti")
    is_fragment = F.startswith("schema_reference", F.lit("#"))
    with_group = _with_group(absent, entities, present)
    return pairs_of(with_group, "check_absent_schema", path=path, is_fragment=is_fragment, has_group=F.col("has_group"))


def check_aliases(entities: DataFrame, present: Present) -> DataFrame:
    """Find what each alias stands for."""
    either = entities.filter(F.col("kind").isin("message", "schema"))
    targets = either.select("registryid", F.col("xid").alias("xref"), F.col("xref").alias("further")).distinct()
    aliases = broadcast_few(either.filter(F.col("xref").isNotNull()), present.aliases)
    both = aliases.join(targets.withColumn("is_there", F.lit(True)), on=["registryid", "xref"], how="left")
    return pairs_of(both, "check_alias", **{name: F.col(name) for name in ("xid", "xref", "is_there", "further")})


def check_versions(entities: DataFrame, present: Present) -> DataFrame:
    """Find messages whose Versions have different metadata and, where a dialect asks for it, messages of one `type`."""
    versions = entities.filter(F.col("kind") == "version")
    place = F.xxhash64("registryid", "message_xid", "document_uri")
    differing = versions.groupBy(place.alias("place")).agg(
        F.min("metadata").alias("least"), F.max("metadata").alias("most"), F.count("basemessage").alias("based")
    )
    differing = differing.filter((F.col("least") != F.col("most")) & (F.col("based") == 0)).select("place")
    several = _rows_at(differing, versions.filter("isdefault").withColumn("place", place))
    is_checked = F.col("dialect").isin(dialects_with_rule(UNIQUE_TYPE))
    old = versions.filter(is_checked & F.col("isdefault") & F.col("ce_type").isNotNull() & F.col("basemessage").isNull())
    same = Window.partitionBy("registryid", "ce_type")
    published = F.min(F.when(~F.col("staged"), F.col("message_xid"))).over(same)
    doubled = old.withColumn("earliest", F.coalesce(published, F.min("message_xid").over(same)))
    doubled = doubled.filter(F.col("earliest") != F.col("message_xid"))
    twice = pairs_of(doubled, "check_same_type", ce_type=F.col("ce_type"), other=F.col("earliest"))
    return pairs_of(several, "check_versions").unionByName(twice)


def check_endpoints(entities: DataFrame, present: Present, duplicate_messageids: str | None = None) -> DataFrame:
    """Find the groups that endpoints name, the kinds of messages in these, and messageids that come twice."""
    endpoints = entities.filter((F.col("kind") == "endpoint") & F.col("messagegroups").isNotNull())
    groups = F.array_distinct(F.array_append("messagegroups", F.col("xid")))
    endpoint = [*KEY, "document_uri", "staged", "dialect"]
    lists = endpoints.select(
        *endpoint,
        F.col("envelope").alias("own_envelope"),
        F.col("protocol").alias("own_protocol"),
        F.explode(groups).alias("container"),
    )
    carried = members(entities, present).select("registryid", "container", "message_xid", "envelope", "protocol")
    # A group's messages are mostly of one kind. A message that several documents define alike is one.
    of_kind = [F.min("message_xid").alias("message_xid"), F.count_distinct("message_xid").alias("messages")]
    kinds = carried.groupBy("registryid", "container", "envelope", "protocol").agg(*of_kind)
    both = lists.join(kinds, on=["registryid", "container"], how="inner")
    kind = F.when(F.col("container") != F.col("xid"), F.struct("envelope", "protocol", "message_xid", "messages"))
    grouped = both.groupBy(*endpoint, "own_envelope", "own_protocol").agg(
        F.collect_list(kind).alias("listed"), F.count_distinct("container").alias("containers")
    )
    grouped = materialize(grouped)
    values = {"listed": F.col("listed"), "envelope": F.col("own_envelope"), "protocol": F.col("own_protocol")}
    existing = entities.filter(F.col("kind").isin("group", "endpoint")).select("registryid", F.col("xid").alias("container"))
    named = lists.filter(F.col("container").startswith("/"))
    absent = named.join(broadcast_few(existing.distinct(), present.parents), on=["registryid", "container"], how="left_anti")
    result = pairs_of(grouped, "check_listed", **values).unionByName(
        pairs_of(absent, "check_absent_group", group=F.col("container"))
    )
    # Only what has messages in two places can have an id twice.
    several = grouped.filter(F.col("containers") > 1).select(*KEY, "document_uri")
    if is_known_empty(several):
        return result
    messageid = F.substring_index("message_xid", "/", -1).alias("messageid")
    own = lists.join(several, on=[*KEY, "document_uri"], how="left_semi").select(*endpoint, "container")
    same_id = own.join(carried, on=["registryid", "container"], how="inner").groupBy(*endpoint, messageid)
    ids = same_id.agg(F.min("message_xid").alias("least"), F.max("message_xid").alias("most"))
    twice = ids.filter(F.col("least") != F.col("most")).groupBy(*endpoint).agg(F.min("messageid").alias("twice"))
    severity = F.lit(duplicate_messageids).cast("string")
    return result.unionByName(pairs_of(twice, "check_messageids", messageid=F.col("twice"), severity=severity))


def check_variants(entities: DataFrame, present: Present) -> DataFrame:
    """Find ids under one parent that differ in letter case only, over all documents; what is published keeps its id."""
    last = F.substring_index("xid", "/", -1)
    parent = F.expr("left(xid, length(xid) - length(substring_index(xid, '/', -1)))")
    keyed = entities.filter(F.col("kind").isin(*VARYING)).withColumns({"parent": parent, "last": F.lower(last)})
    # By numbers: places with only one XID are most of them, and numbers are grouped much sooner than texts.
    keyed = keyed.withColumn("place", F.xxhash64("registryid", "parent", "last"))
    crowded = keyed.groupBy("place").agg(F.min(F.xxhash64("xid")).alias("least"), F.max(F.xxhash64("xid")).alias("most"))
    near = _rows_at(crowded.filter(F.col("least") != F.col("most")).select("place"), keyed)
    place = ["registryid", "parent", "last"]
    spelled = near.groupBy(*place).agg(
        F.min("xid").alias("least"), F.max("xid").alias("most"), F.min(F.when(~F.col("staged"), F.col("xid"))).alias("published")
    )
    spelled = spelled.filter(F.col("least") != F.col("most"))
    earlier = F.coalesce("published", "least")
    variants = near.join(spelled, on=place, how="inner").filter(F.col("xid") != earlier)
    return pairs_of(variants, "check_variant", kind=F.col("kind"), other=earlier)


def check_changes(entities: DataFrame, present: Present) -> DataFrame:
    """Find what is published and written again, in the dialects that forbid some changes."""
    earlier = entities.filter(F.col("kind").startswith("earlier ")).select(
        "registryid",
        F.substring("kind", len("earlier ") + 1, 100).alias("kind"),
        "xid",
        *(F.col(name).alias(f"old_{name}") for name in ("content_hash", "envelope", "protocol", "authority")),
    )
    is_checked = F.col("dialect").isin([dialect for rule_id in ABOUT_CHANGE for dialect in dialects_with_rule(rule_id)])
    old = entities.filter(F.col("staged") & is_checked & F.col("kind").isin("group", "message", "version"))
    both = old.join(earlier, on=KEY, how="inner")
    return pairs_of(
        both.filter(F.col("content_hash") != F.col("old_content_hash")),
        "check_change",
        kind=F.col("kind"),
        is_declared=~F.col("single"),
        format=F.coalesce("envelope", "protocol"),
        old_format=F.coalesce("old_envelope", "old_protocol"),
        authority=F.col("authority"),
        old_authority=F.col("old_authority"),
    )


def _rows_at(places: DataFrame, rows: DataFrame) -> DataFrame:
    """Keep the rows in one of the places, which are looked for first: mostly there is none, and nothing is joined.

    Args:
        places: a column, place.
        rows: a column place among others.
    """
    if is_without_codegen(rows.sparkSession):  # to look for them first takes as long as what it might save
        return rows.join(F.broadcast(places), on="place", how="left_semi")
    result = places.localCheckpoint(eager=False)
    number = result.count()
    return rows.join(broadcast_few(result, number), on="place", how="left_semi") if number else rows.filter(F.lit(False))


def check_cycles(entities: DataFrame, present: Present) -> DataFrame:
    """Find Versions whose chain of bases comes back to them; to an older Version of the same message it may lead.

    Each step doubles the way: an edge then leads two, four, eight bases on. Ways that end drop out, so a catalog without
    cycles is done after as many steps as its longest chain has bits.
    """
    versions = entities.filter((F.col("kind") == "version") & F.col("basemessage").startswith("/"))
    edges = versions.select("registryid", F.col("xid").alias("from"), "basemessage")
    # Each step is a checkpoint: a plan that holds the earlier steps twice would double with each.
    paths = materialize(
        edges.join(as_bases(entities, versions, present), on=["registryid", "basemessage"]).drop("basemessage").distinct()
    )
    total = left = count(paths)
    length = 1
    while left and length <= total:  # a way longer than there are edges comes back somewhere
        further = paths.select("registryid", F.col("from").alias("to"), F.col("to").alias("end"))
        paths = materialize(paths.join(further, on=["registryid", "to"]).select("registryid", "from", F.col("end").alias("to")))
        left, length = count(paths), length * 2
    if not left:
        return no_pairs(entities.sparkSession)
    on_cycle = paths.select("registryid", F.col("to").alias("xid")).distinct()
    of_cycle = versions.join(on_cycle, on=["registryid", "xid"])
    # A message that is written again, and then refers to an existing Version, closes the cycle, and gets the finding.
    shown = of_cycle.filter("isdefault").groupBy("registryid", "message_xid")
    shown_bases = shown.agg(F.bool_or("staged").alias("_is_written"), F.min("basemessage").alias("_base")).filter(
        "NOT _is_written"
    )
    messages = entities.filter((F.col("kind") == "message") & F.col("staged")).drop("basemessage")
    closing = materialize(messages.join(shown_bases, on=["registryid", "message_xid"]).withColumnRenamed("_base", "basemessage"))
    by_shown = closing.select("registryid", "message_xid", F.lit(True).alias("isdefault"))
    unshown = of_cycle.join(by_shown.distinct(), on=by_shown.columns, how="left_anti")
    result = pairs_of(unshown, "check_cycle", basemessage=F.col("basemessage"))
    return result.unionByName(pairs_of(closing, "check_cycle", basemessage=F.col("basemessage"), by_default=F.lit(True)))
