"""What an endpoint says of how messages travel, and what the messages that it carries declare instead."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.domain.relations import judged_options
from lakehouse.rules.relational.pairs import pairs_of
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import is_empty, materialize
from lakehouse.store.xids import no_uris

# Gives the effective definitions of messages: registryid and message_xid of some → these, with chain_status and attributes.
Flattened = Callable[[DataFrame], DataFrame]


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


def check_options(entities: DataFrame, carried: DataFrame, flattened: Flattened | None) -> DataFrame:
    """Find what messages declare of the options of the endpoints that carry them, where it is not what these say.

    Args:
        entities: as from `candidate`.
        carried: as from `joins.members`.
        flattened: what messages that have a base inherit; None: only what they declare themselves is looked at.
    """
    own = ["document_uri", *KEY, "staged", "dialect"]
    endpoints = entities.filter((F.col("kind") == "endpoint") & F.col("options").isNotNull())
    groups = F.array_distinct(F.array_append(F.coalesce("messagegroups", no_uris()), F.col("xid")))
    listed = endpoints.select(*own, family("protocol").alias("family"), F.explode(groups).alias("container"), "options")
    endpoint_values = listed.select(*own, "family", "container", F.explode("options").alias("pointer", "endpoint_value"))
    declarations = carried.filter(F.col("options").isNotNull() | F.col("is_based")).select(
        "registryid",
        "container",
        "message_xid",
        "is_based",
        family("protocol").alias("message_family"),
        F.col("options").alias("declared"),
    )
    both = materialize(endpoint_values.join(declarations, on=["registryid", "container"], how="inner"))
    if flattened is not None and not is_empty(based := both.filter("is_based")):
        merged = flattened(based.select("registryid", "message_xid").distinct())
        # Cut off from the view's long plan, which each step below would analyse again.
        merged = materialize(merged.select("registryid", "message_xid", F.col("attributes").alias("merged")))
        both = both.join(merged, on=["registryid", "message_xid"], how="left")
        inherited = family(_text_of(F.col("merged")["/protocol"]))
        both = both.withColumn("declared", F.coalesce("merged", "declared"))
        both = both.withColumn("message_family", F.coalesce(inherited, "message_family"))
    value, key = F.col("declared")[F.col("pointer")], F.col("declared")["/protocoloptions/key_base64/value"]
    both = both.filter(F.coalesce(F.col("family") == F.col("message_family"), F.lit(True)))
    # What most declare is what the endpoint says, and is no case.
    both = both.withColumns({"value": value, "key_base64": F.when(value.isNull(), key)}).filter(
        F.coalesce("value", "key_base64").isNotNull()
        & ~F.coalesce(_text_of(F.col("value")) == F.col("endpoint_value"), F.lit(False))
    )
    kinds = both.groupBy(*own, "pointer", "endpoint_value", "value", "key_base64").agg(
        F.min("message_xid").alias("message_xid"), F.count_distinct("message_xid").alias("messages")
    )
    declared = F.collect_list(F.struct("value", "key_base64", "message_xid", "messages")).alias("declared")
    grouped = kinds.groupBy(*own, "pointer", "endpoint_value").agg(declared)
    return pairs_of(grouped, "check_option", **{name: F.col(name) for name in ("pointer", "endpoint_value", "declared")})


def _text_of(value: Column) -> Column:
    """Return a JSON value as text, a string without its quotes."""
    unquoted = F.get_json_object(F.concat(F.lit('{"v":'), value, F.lit("}")), "$.v")
    return F.when(F.startswith(value, F.lit('"')), unquoted).otherwise(value)
