"""What an endpoint says of how messages travel, and what the messages that it carries declare instead."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.rules.relational.candidaterows import Present, as_bases, declared_options, family
from lakehouse.rules.relational.pairs import pairs_of
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import is_empty, is_known_empty, materialize
from lakehouse.store.session import is_without_codegen
from lakehouse.store.xids import no_uris

# Gives the effective definitions of messages: registryid and message_xid of some → these, with chain_status and attributes.
Flattened = Callable[[DataFrame], DataFrame]
_LOOKED_AT = 8  # bases of a chain; messages with longer ones are flattened


def check_endpoint_options(entities: DataFrame, carried: DataFrame, present: Present, flattened: Flattened | None) -> DataFrame:
    """Find what messages declare of the options of the endpoints that carry them, where it is not what these say.

    Args:
        entities: as from `candidate`.
        carried: as from `joins.members`.
        present: as from `candidaterows.look_at`.
        flattened: what messages that have a base inherit; None: only what they declare themselves is looked at.
    """
    own = ["document_uri", *KEY, "staged", "dialect"]
    endpoints = entities.filter((F.col("kind") == "endpoint") & F.col("options").isNotNull())
    groups = F.array_distinct(F.array_append(F.coalesce("messagegroups", no_uris()), F.col("xid")))
    listed = endpoints.select(*own, family("protocol").alias("family"), F.explode(groups).alias("container"), "options")
    declarations = carried.filter(F.col("options").isNotNull() | F.col("is_based")).select(
        "registryid",
        "container",
        "message_xid",
        "is_based",
        "borrowed",
        "basemessage",
        family("protocol").alias("message_family"),
        F.col("options").alias("declared"),
    )
    if flattened is not None:
        declarations = _with_inherited(declarations, _in_question(entities, declarations, listed, present), flattened)
    both = listed.join(declarations, on=["registryid", "container"], how="inner")
    both = both.filter(F.coalesce(F.col("family") == F.col("message_family"), F.lit(True)))
    # What most declare is what the endpoint says, and is no case.
    cases = F.filter(F.transform(F.map_entries("options"), _case_of), lambda case: case["is_case"])
    both = materialize(both.withColumn("case", F.explode(cases))).select(*own, "message_xid", "case.*")
    kinds = both.groupBy(*own, "pointer", "endpoint_value", "value", "key_base64").agg(
        F.min("message_xid").alias("message_xid"), F.count_distinct("message_xid").alias("messages")
    )
    declared = F.collect_list(F.struct("value", "key_base64", "message_xid", "messages")).alias("declared")
    grouped = kinds.groupBy(*own, "pointer", "endpoint_value").agg(declared)
    return pairs_of(grouped, "check_endpoint_option", **{name: F.col(name) for name in ("pointer", "endpoint_value", "declared")})


def _in_question(entities: DataFrame, declarations: DataFrame, listed: DataFrame, present: Present) -> DataFrame:
    """Return the messages that may inherit what contradicts an endpoint: registryid, message_xid.

    A message inherits what its chain of bases declares. So where nothing in a chain contradicts an endpoint, the message does not
    either, and what it inherits need not be computed.
    """
    place, start = ["registryid", "container"], ["registryid", "container", "start"]
    options = listed.select(*place, F.explode(F.map_entries("options")).alias("option"))
    options = options.groupBy(*place).agg(F.collect_set("option").alias("options"))
    based = declarations.filter("is_based").join(options, on=place, how="inner")
    if is_without_codegen(entities.sparkSession):  # to look first takes as long as what it might save
        return based.select("registryid", "message_xid").distinct()
    is_case = F.coalesce(F.exists("options", lambda option: _case_of(option)["is_case"]), F.lit(False))
    based = materialize(based.withColumns({"start": F.col("basemessage"), "is_case": F.col("borrowed") | is_case}))
    steps = based.filter("NOT is_case").select(*start, "basemessage", "options").distinct()
    bases = _bases(entities, present)
    contradicting = []
    for _ in range(_LOOKED_AT):
        reached = materialize(steps.join(bases, on=["registryid", "basemessage"], how="inner").withColumn("is_case", is_case))
        contradicting.append(reached.filter("is_case").select(*start))
        steps = reached.filter("NOT is_case AND next IS NOT NULL").select(*start, F.col("next").alias("basemessage"), "options")
        if is_known_empty(steps):
            break
    else:
        contradicting.append(steps.select(*start))
    by_base = reduce(DataFrame.unionByName, contradicting).distinct()
    inherited = based.filter("NOT is_case").join(by_base, on=start, how="left_semi")
    return based.filter("is_case").unionByName(inherited).select("registryid", "message_xid").distinct()


def _bases(entities: DataFrame, present: Present) -> DataFrame:
    """Return what a `basemessage` means: registryid, basemessage, declared (its options), next (its own `basemessage`)."""
    versions = entities.filter(F.col("kind") == "version")
    named = versions.filter(F.col("basemessage").startswith("/")).select("registryid", "basemessage").distinct()
    bases = as_bases(entities, versions, present).join(named, on=named.columns, how="left_semi")
    declared = versions.select(
        "registryid", F.col("xid").alias("to"), F.col("options").alias("declared"), F.col("basemessage").alias("next")
    )
    return materialize(bases.join(declared, on=["registryid", "to"], how="inner").drop("to"))


def _with_inherited(declarations: DataFrame, wanted: DataFrame, flattened: Flattened) -> DataFrame:
    """Put what messages inherit in place of what they declare."""
    wanted = materialize(wanted)
    if is_empty(wanted):
        return declarations
    attributes = F.col("attributes")
    merged = flattened(wanted).select(
        "registryid",
        "message_xid",
        F.struct(declared_options(attributes).alias("declared"), family(_text_of(attributes["/protocol"])).alias("family")).alias(
            "merged"
        ),
    )
    # Cut off from the view's long plan, which each step below would analyse again.
    both = declarations.join(materialize(merged), on=["registryid", "message_xid"], how="left")
    return both.withColumns(
        {
            "declared": F.when(F.col("merged").isNotNull(), F.col("merged.declared")).otherwise(F.col("declared")),
            "message_family": F.coalesce("merged.family", "message_family"),
        }
    )


def _case_of(option: Column) -> Column:
    """Return what a message declares of an endpoint's option: pointer, endpoint_value, value, key_base64; is_case: it differs."""
    value = F.col("declared")[option["key"]]
    key = F.when(value.isNull(), F.col("declared")["/protocoloptions/key_base64/value"])
    is_same = F.coalesce(_text_of(value) == option["value"], F.lit(False))
    return F.struct(
        option["key"].alias("pointer"),
        option["value"].alias("endpoint_value"),
        value.alias("value"),
        key.alias("key_base64"),
        (F.coalesce(value, key).isNotNull() & ~is_same).alias("is_case"),
    )


def _text_of(value: Column) -> Column:
    """Return a JSON value as text, a string without its quotes."""
    unquoted = F.get_json_object(F.concat(F.lit('{"v":'), value, F.lit("}")), "$.v")
    return F.when(F.startswith(value, F.lit('"')), unquoted).otherwise(value)
