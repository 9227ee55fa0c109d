"""Rules between entities: joins over what was staged and, where that does not say, what is published.

Here a message meets its group and endpoint, its base, its schema, its earlier self. What is not there is not looked for, and
what there is little of is broadcast: most catalogs break few rules, and have few of what the rules are about.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from lakehouse.rules.between.candidate import holders_of
from lakehouse.rules.between.cycles import check_cycles
from lakehouse.rules.between.names import is_as_precise, protocol_key
from lakehouse.rules.between.options import Flattened, check_options
from lakehouse.rules.between.present import Present, few, look_at
from lakehouse.rules.between.references import check_aliases, check_schema_uris
from lakehouse.rules.findings import asked, breaches_of, broken, no_breaches
from lakehouse.store.frames import can_skip, keep
from lakehouse.store.keys import KEY
from lakehouse.store.sessions import is_interpreted
from lakehouse.store.xids import without_version

# Rules that compare with what is published.
ABOUT_CHANGE = ("CAT-024", "CAT-038", "CAT-064")
# Where references stand, by the rule that their targets are there.
_PLACES = {
    "MSG-150": "/basemessage",
    "MSG-183": "/dataschemaxid",
    "MSG-049": "/ancestor",
    "END-173": "/protocoloptions/willmessage",
}


_Check = Callable[[DataFrame, Present], DataFrame]


def check_entities(things: DataFrame, duplicate_messageids: str | None = None, flattened: Flattened | None = None) -> DataFrame:
    """Apply the rules between entities.

    Args:
        things: as from `candidate`; read several times.
        duplicate_messageids: severity of END-130 where it is not the rule's (END-132).
        flattened: as for `options.check_options`.

    Returns:
        Breaches, as from `findings.breaches_of`; one may come in several rows.
    """
    present = look_at(things)
    checks: dict[_Check, int] = {
        check_members: present.holders,
        check_references: present.references,
        check_cycles: present.bases,
        check_versions: 1,
        partial(check_endpoints, duplicate_messageids=duplicate_messageids): present.lists,
        lambda rows, there: check_options(rows, members(rows, there), flattened): present.options,
        check_variants: 1,
        check_changes: present.earlier,
        lambda rows, _: check_schema_uris(rows): present.uris,
        lambda rows, _: check_aliases(rows): present.aliases,
    }
    found = [check(things, present) for check, concerned in checks.items() if concerned]
    return reduce(DataFrame.unionByName, found, no_breaches(things.sparkSession))


def members(things: DataFrame, present: Present) -> DataFrame:
    """Give the messages with what they say by their default Version: also those that stand for another one (xref).

    Returns:
        `things` of the default Versions, with xid of the Version, message_xid, container (XID of the group or endpoint),
        borrowed, and is_based: it says something of its own and of its bases.
    """
    defaults = things.filter((F.col("kind") == "version") & F.col("isdefault"))
    defaults = defaults.withColumn("is_based", F.col("basemessage").isNotNull())
    own = defaults.withColumn("borrowed", F.lit(False))
    if not present.aliases:
        return own
    aliases = few(things.filter((F.col("kind") == "message") & F.col("xref").isNotNull()), present.aliases)
    shown = ("envelope", "protocol", "options")
    targets = defaults.select(
        "registryid", F.col("message_xid").alias("xref"), "is_based", *(F.col(name).alias(f"_{name}") for name in shown)
    )
    borrowed = targets.join(aliases, on=["registryid", "xref"], how="inner").withColumns(
        {name: F.col(f"_{name}") for name in shown} | {"borrowed": F.lit(True)}
    )
    return own.unionByName(borrowed.drop(*(f"_{name}" for name in shown)))


def check_members(things: DataFrame, present: Present) -> DataFrame:
    """A message has the envelope and the protocol of its group or endpoint (MSG-134, 156, 157; END-074, 096)."""
    holders = few(holders_of(things), present.holders)
    both = members(things, present).join(holders, on=["registryid", "container"], how="inner")
    is_group = F.col("holder_kind") == "group"
    envelope, protocol = F.col("envelope"), F.col("protocol")
    other_protocol = protocol_key("protocol") != protocol_key("holder_protocol")
    told = [
        broken("MSG-157", _differ("envelope"), "/envelope").when(is_group & (F.lower(envelope) != F.lower("holder_envelope"))),
        broken("MSG-156", F.concat(F.lit("`envelope` is missing, and that of the group is "), "holder_envelope"), "").when(
            is_group & envelope.isNull() & F.col("basemessage").isNull() & F.col("holder_envelope").isNotNull()
        ),
        broken("MSG-134", _differ("protocol"), "/protocol").when(is_group & other_protocol),
        broken("END-074", _differ("envelope"), "/envelope").when(~is_group & ~is_as_precise("envelope", "holder_envelope")),
        broken("END-096", _differ("protocol"), "/protocol").when(~is_group & other_protocol),
    ]
    return breaches_of(both.filter(envelope.isNotNull() | protocol.isNotNull() | F.col("holder_envelope").isNotNull()), told)


def check_references(things: DataFrame, present: Present) -> DataFrame:
    """A base, a schema, a will message are there; an ancestor is a Version of the message (MSG-049, 150, 183; END-173, 174)."""
    version, endpoint = F.col("kind") == "version", F.col("kind") == "endpoint"
    base = F.when(version & F.col("basemessage").startswith("/"), without_version("basemessage"))
    schema = F.when(version & F.col("dataschemaxid").startswith("/"), without_version("dataschemaxid"))
    ancestor = F.when(version, F.concat("message_xid", F.lit("/versions/"), "ancestor"))
    will = F.when(endpoint & F.col("willmessage").startswith("/"), without_version("willmessage"))
    targets = {"MSG-150": base, "MSG-183": schema, "MSG-049": ancestor, "END-173": will}
    named = F.array(*(F.struct(F.lit(rule).alias("rule"), target.alias("target")) for rule, target in targets.items()))
    sources = things.filter(
        (version | endpoint) & F.coalesce("basemessage", "dataschemaxid", "ancestor", "willmessage").isNotNull()
    )
    wanted = sources.withColumn("reference", F.explode(F.filter(named, lambda one: one["target"].isNotNull())))
    # An ancestor that is the Version itself needs no look-up.
    wanted = wanted.filter(F.col("reference.target") != F.col("xid"))
    wanted = wanted.withColumns({"rule": F.col("reference.rule"), "target": F.col("reference.target")}).drop("reference")
    there = things.filter(F.col("kind").isin("message", "version", "schema")).select("registryid", F.col("xid").alias("target"))
    absent = wanted.join(there, on=["registryid", "target"], how="left_anti")
    # A schema of a group that nothing is known of may be anywhere.
    groups = things.filter(F.col("kind") == "group").select("registryid", F.col("xid").alias("target_group"))
    groups = few(groups.withColumn("has_group", F.lit(True)).distinct(), present.holders)
    target_group = F.when(F.col("rule") == "MSG-183", F.regexp_replace("target", r"/[^/]+/[^/]+\z", ""))
    known = absent.withColumn("target_group", target_group).join(groups, on=["registryid", "target_group"], how="left")
    leads_nowhere = F.concat(F.lit("`"), "target", F.lit("` does not exist"))
    is_told = (F.col("rule") != "MSG-183") | F.col("has_group")
    told = []
    for rule, pointer in _PLACES.items():
        message = F.concat(F.lit(f"`{pointer.split('/')[-1]}`: "), leads_nowhere)
        told.append(broken(rule, message, pointer).when((F.col("rule") == rule) & is_told))
    nowhere = breaches_of(known, told)
    return nowhere.unionByName(_check_wills(things, wanted, present)) if present.wills else nowhere


def _check_wills(things: DataFrame, wanted: DataFrame, present: Present) -> DataFrame:
    """A will message is a CloudEvent, or one of MQTT (END-174)."""
    defaults = things.filter((F.col("kind") == "version") & F.col("isdefault"))
    kinds = defaults.select(
        "registryid",
        F.col("message_xid").alias("target"),
        F.col("envelope").alias("target_envelope"),
        F.col("protocol").alias("target_protocol"),
    )
    wills = few(wanted.filter(F.col("rule") == "END-173"), present.wills)
    both = kinds.join(wills, on=["registryid", "target"], how="inner")
    is_event = F.lower("target_envelope").startswith("cloudevents") | F.upper("target_protocol").startswith("MQTT")
    message = F.concat(F.lit("`willmessage` leads to "), "target", F.lit(", which is neither a CloudEvents nor an MQTT message"))
    told = broken("END-174", message, "/protocoloptions/willmessage").when(~F.coalesce(is_event, F.lit(False)))
    return breaches_of(both, [told])


def check_versions(things: DataFrame, present: Present) -> DataFrame:
    """Versions of a message have the same metadata (MSG-140); by 003 a `type` is one message's (CAT-007)."""
    versions = things.filter(F.col("kind") == "version")
    place = F.xxhash64("registryid", "message_xid", "document_uri")
    differing = versions.groupBy(place.alias("place")).agg(
        F.min("metadata").alias("least"), F.max("metadata").alias("most"), F.count("basemessage").alias("based")
    )
    differing = differing.filter((F.col("least") != F.col("most")) & (F.col("based") == 0)).select("place")
    several = _with_one_of(differing, versions.filter("isdefault").withColumn("place", place))
    told = F.lit("its Versions differ in envelope or protocol: messages with other metadata are other messages")
    first = breaches_of(several, [broken("MSG-140", told, "")])
    old = versions.filter(asked("CAT-007") & F.col("isdefault") & F.col("ce_type").isNotNull() & F.col("basemessage").isNull())
    same = Window.partitionBy("registryid", "ce_type")
    published = F.min(F.when(~F.col("staged"), F.col("message_xid"))).over(same)
    doubled = old.withColumn("earliest", F.coalesce(published, F.min("message_xid").over(same)))
    doubled = doubled.filter(F.col("earliest") != F.col("message_xid"))
    twice = F.concat(F.lit("`type` "), "ce_type", F.lit(" is that of "), "earliest", F.lit(" too"))
    return first.unionByName(breaches_of(doubled, [broken("CAT-007", twice, "/envelopemetadata/type")]))


def check_endpoints(things: DataFrame, present: Present, duplicate_messageids: str | None = None) -> DataFrame:
    """The groups that an endpoint names are there and fit it, and no messageid comes twice (END-074, 096, 125, 130)."""
    endpoints = things.filter((F.col("kind") == "endpoint") & F.col("messagegroups").isNotNull())
    groups = F.array_distinct(F.array_append("messagegroups", F.col("xid")))
    lists = (
        endpoints.drop("message_xid")
        .withColumn("container", F.explode(groups))
        .withColumns({"holder_envelope": F.col("envelope"), "holder_protocol": F.col("protocol")})
    )
    carried = members(things, present).select("registryid", "container", "message_xid", "envelope", "protocol")
    # A group's messages are mostly of one kind: what they are is looked at once for each kind, and not for each message.
    kinds = carried.groupBy("registryid", "container", F.col("envelope").alias("_envelope"), F.col("protocol").alias("_protocol"))
    # A message that several documents define alike is one.
    of_kind = [F.min("message_xid").alias("message_xid"), F.count_distinct("message_xid").alias("messages")]
    both = lists.join(kinds.agg(*of_kind), on=["registryid", "container"], how="inner")
    both = both.withColumns({"envelope": F.col("_envelope"), "protocol": F.col("_protocol")})
    is_referenced = F.col("container") != F.col("xid")
    protocols_differ = is_referenced & (protocol_key("protocol") != protocol_key("holder_protocol"))
    envelopes_differ = is_referenced & F.col("envelope").isNotNull() & ~is_as_precise("envelope", "holder_envelope")
    endpoint = [*KEY, "document_uri", "staged", "dialect"]
    grouped = both.groupBy(*endpoint).agg(
        F.min(F.when(envelopes_differ, F.col("message_xid"))).alias("other_envelope"),
        F.min(F.when(protocols_differ, F.col("message_xid"))).alias("other_protocol"),
        F.sum(F.when(envelopes_differ, F.col("messages"))).alias("other_envelopes"),
        F.sum(F.when(protocols_differ, F.col("messages"))).alias("other_protocols"),
        F.count_distinct("container").alias("containers"),
    )
    grouped = keep(grouped)

    def counted(what: str) -> Column:
        return F.concat(
            F.col(f"other_{what}s").cast("string"), F.lit(f" messages have another {what}, such as "), f"other_{what}"
        )

    told = [
        broken("END-074", counted("envelope"), "/messagegroups", "warning").when(F.col("other_envelope").isNotNull()),
        broken("END-096", counted("protocol"), "/messagegroups", "warning").when(F.col("other_protocol").isNotNull()),
    ]
    found = breaches_of(grouped.filter(F.coalesce("other_envelope", "other_protocol").isNotNull()), told)
    found = found.unionByName(_check_groups_named(things, lists, present))
    # Only what has messages in two places can have an id twice.
    several = grouped.filter(F.col("containers") > 1).select(*KEY, "document_uri")
    if can_skip(several):
        return found
    messageid = F.substring_index("message_xid", "/", -1).alias("messageid")
    own = lists.join(several, on=[*KEY, "document_uri"], how="left_semi").select(*endpoint, "container")
    same_id = own.join(carried, on=["registryid", "container"], how="inner").groupBy(*endpoint, messageid)
    ids = same_id.agg(F.min("message_xid").alias("least"), F.max("message_xid").alias("most"))
    twice = ids.filter(F.col("least") != F.col("most")).groupBy(*endpoint).agg(F.min("messageid").alias("twice"))
    message = F.concat(F.lit("it carries several messages with the id "), "twice")
    return found.unionByName(breaches_of(twice, [broken("END-130", message, "/messagegroups", duplicate_messageids)]))


def _check_groups_named(things: DataFrame, lists: DataFrame, present: Present) -> DataFrame:
    """A group that an endpoint names is there (END-125)."""
    there = things.filter(F.col("kind").isin("group", "endpoint")).select("registryid", F.col("xid").alias("container"))
    named = lists.filter(F.col("container").startswith("/"))
    absent = named.join(few(there.distinct(), present.holders), on=["registryid", "container"], how="left_anti")
    message = F.concat(F.lit("`messagegroups`: `"), "container", F.lit("` does not exist"))
    return breaches_of(absent, [broken("END-125", message, "/messagegroups")])


def check_variants(things: DataFrame, present: Present) -> DataFrame:
    """No two ids under one parent differ in letter case only, over all documents (MSG-020, 037, 038; END-033)."""
    rules = {"group": "MSG-020", "endpoint": "END-033", "message": "MSG-037", "version": "MSG-038", "schema": "MSG-037"}
    last = F.substring_index("xid", "/", -1)
    parent = F.expr("left(xid, length(xid) - length(substring_index(xid, '/', -1)))")
    keyed = things.filter(F.col("kind").isin(*rules)).withColumns({"parent": parent, "last": F.lower(last)})
    # By numbers: a place where only one XID stands is most of them, and numbers are grouped much sooner than texts.
    keyed = keyed.withColumn("place", F.xxhash64("registryid", "parent", "last"))
    crowded = keyed.groupBy("place").agg(F.min(F.xxhash64("xid")).alias("least"), F.max(F.xxhash64("xid")).alias("most"))
    near = _with_one_of(crowded.filter(F.col("least") != F.col("most")).select("place"), keyed)
    place = ["registryid", "parent", "last"]
    spelled = near.groupBy(*place).agg(
        F.min("xid").alias("least"), F.max("xid").alias("most"), F.min(F.when(~F.col("staged"), F.col("xid"))).alias("published")
    )
    spelled = spelled.filter(F.col("least") != F.col("most"))
    earlier = F.coalesce("published", "least")
    variants = near.join(spelled, on=place, how="inner").filter(F.col("xid") != earlier)
    told = F.concat(F.lit("its id differs from that of "), earlier, F.lit(" in letter case only"))
    return breaches_of(variants, [broken(rule, told, "").when(F.col("kind") == kind) for kind, rule in rules.items()])


def check_changes(things: DataFrame, present: Present) -> DataFrame:
    """What 003 forbids to change does not change: Versions, a group's format, an authority (CAT-024, 038, 064)."""
    earlier = things.filter(F.col("kind").startswith("earlier ")).select(
        "registryid",
        F.substring("kind", len("earlier ") + 1, 100).alias("kind"),
        "xid",
        *(F.col(name).alias(f"old_{name}") for name in ("content_hash", "envelope", "protocol", "authority")),
    )
    old = things.filter(
        F.col("staged") & reduce(Column.__or__, map(asked, ABOUT_CHANGE)) & F.col("kind").isin("group", "message", "version")
    )
    both = old.join(earlier, on=KEY, how="inner")
    is_declared = (F.col("kind") == "version") & ~F.col("single")
    was, now = (F.coalesce(f"{prefix}envelope", f"{prefix}protocol") for prefix in ("old_", ""))
    told = [
        broken("CAT-038", F.lit("a Version that is published was changed; the published one stays"), "").when(
            is_declared & (F.col("content_hash") != F.col("old_content_hash"))
        ),
        broken("CAT-024", F.concat(F.lit("`format` was "), was, F.lit(" and is "), now), "").when(
            (F.col("kind") == "group") & (F.lower(was) != F.lower(now))
        ),
        broken("CAT-064", F.concat(F.lit("`authority` was "), "old_authority", F.lit(" and is "), "authority"), "").when(
            F.col("old_authority") != F.col("authority")
        ),
    ]
    return breaches_of(both, told)


def _differ(name: str) -> Column:
    return F.concat(F.lit(f"`{name}` is "), name, F.lit(", and that of what holds it is "), f"holder_{name}")


def _with_one_of(places: DataFrame, rows: DataFrame) -> DataFrame:
    """Keep the rows in one of the places, which are looked for first: mostly there is none, and nothing is joined.

    Args:
        places: a column, place.
        rows: a column place among others.
    """
    if is_interpreted(rows.sparkSession):  # to look for them first takes as long as what it might save
        return rows.join(F.broadcast(places), on="place", how="left_semi")
    found = places.localCheckpoint(eager=False)
    number = found.count()
    return rows.join(few(found, number), on="place", how="left_semi") if number else rows.filter(F.lit(False))
