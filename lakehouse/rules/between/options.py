"""What an endpoint says of how messages travel, and what the messages that it carries declare instead (MATCH-004)."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.dialects.tables import FAMILIES, SharedOption, shared_options
from lakehouse.rules.between.names import family
from lakehouse.rules.findings import breaches_of, broken
from lakehouse.store.frames import is_empty, keep
from lakehouse.store.keys import KEY
from lakehouse.store.xids import no_uris

# 002 lets a message override these (END-164, END-166), so another value there contradicts nothing.
OVERRIDDEN = frozenset({"qos", "retain"})

# Gives the effective definitions of messages: registryid and message_xid of some → these, with chain_status and attributes.
Flattened = Callable[[DataFrame], DataFrame]


def judged_options() -> dict[str, tuple[SharedOption, ...]]:
    """Give the options that a protocol's endpoints and their messages have to agree in, by protocol."""
    shared = {family: tuple(one for one in shared_options(family) if one.name not in OVERRIDDEN) for family in FAMILIES}
    return {family: options for family, options in shared.items() if options}


def endpoint_options() -> Column:
    """Give the options of an endpoint that its messages may contradict: pointer in a message → text; NULL: it has none."""
    name = family("protocol")
    given = [
        F.struct(
            F.lit(str(one.pointer)).alias("key"),
            F.when(name == own, F.get_json_object("protocoloptions", f"$.{one.name}")).alias("value"),
        )
        for own, options in judged_options().items()
        for one in options
    ]
    told = F.map_from_entries(F.filter(F.array(*given), lambda one: one["value"] != ""))
    return F.when(F.size(told) > 0, told)


def declared_options(attributes: Column) -> Column:
    """Give what a definition declares of these: pointer → JSON text; NULL: nothing."""
    options = [one for options in judged_options().values() for one in options]
    pointers = sorted({str(pointer) for one in options for pointer in (one.pointer, one.instead) if pointer is not None})
    told = F.map_filter(attributes, lambda pointer, _: pointer.isin(pointers))
    return F.when(F.size(told) > 0, told)


def check_options(things: DataFrame, carried: DataFrame, flattened: Flattened | None) -> DataFrame:
    """Find the endpoints whose options contradict what the messages that they carry declare.

    What either writes with placeholders, or as a filter of topics, is not judged: it means many values.

    Args:
        things: as from `candidate`.
        carried: as from `relations.members`.
        flattened: what messages that have a base inherit; None: only what they declare themselves is looked at.
    """
    own = ["document_uri", *KEY, "staged", "dialect"]
    endpoints = things.filter((F.col("kind") == "endpoint") & F.col("options").isNotNull())
    groups = F.array_distinct(F.array_append(F.coalesce("messagegroups", no_uris()), F.col("xid")))
    ways = endpoints.select(*own, family("protocol").alias("family"), F.explode(groups).alias("container"), "options")
    asked = ways.select(*own, "family", "container", F.explode("options").alias("pointer", "asked"))
    said = carried.filter(F.col("options").isNotNull() | F.col("is_based")).select(
        "registryid",
        "container",
        "message_xid",
        "is_based",
        family("protocol").alias("said_family"),
        F.col("options").alias("declared"),
    )
    both = keep(asked.join(said, on=["registryid", "container"], how="inner"))
    if flattened is not None and not is_empty(based := both.filter("is_based")):
        merged = flattened(based.select("registryid", "message_xid").distinct())
        merged = merged.select("registryid", "message_xid", F.col("attributes").alias("merged"))
        both = both.join(merged, on=["registryid", "message_xid"], how="left")
        inherited = family(_text_of(F.col("merged")["/protocol"]))
        both = both.withColumn("declared", F.coalesce("merged", "declared"))
        both = both.withColumn("said_family", F.coalesce(inherited, "said_family"))
    return _told(both.filter(F.coalesce(F.col("family") == F.col("said_family"), F.lit(True))), own)


def _told(both: DataFrame, own: list[str]) -> DataFrame:
    """Make breaches of endpoints and the messages that they carry: one for each option, whatever the number of messages."""
    said = _text_of(F.col("declared")[F.col("pointer")])
    bytes_said = F.rtrim(_text_of(F.col("declared")["/protocoloptions/key_base64/value"]), F.lit("="))
    bytes_asked = F.rtrim(F.base64(F.encode("asked", "utf-8")), F.lit("="))
    is_key = F.col("pointer") == "/protocoloptions/key/value"
    differing = both.withColumn(
        "said", F.coalesce(said, F.when(is_key & (bytes_said != bytes_asked), F.concat(bytes_said, F.lit(" in base64"))))
    )
    is_one = ~F.contains("asked", F.lit("{")) & ~F.contains("said", F.lit("{"))
    is_filter = (F.col("pointer") == "/protocoloptions/topic_name/value") & F.col("asked").rlike("[+#]")
    differing = differing.filter((F.col("asked") != F.col("said")) & is_one & ~is_filter)
    grouped = differing.groupBy(*own, "pointer", "asked").agg(
        F.count_distinct("message_xid").alias("n"), F.min(F.struct("message_xid", "said")).alias("one")
    )
    names = {str(one.pointer): one.name for options in judged_options().values() for one in options}
    told = []
    for pointer, name in sorted(names.items()):
        message = F.concat(
            F.lit(f"`{name}` is "),
            "asked",
            F.lit(", and other values are declared by messages that it carries: "),
            F.col("n").cast("string"),
            F.lit(", such as "),
            "one.message_xid",
            F.lit(" with "),
            "one.said",
        )
        told.append(broken("MATCH-004", message, f"/protocoloptions/{name}").when(F.col("pointer") == pointer))
    return breaches_of(grouped, told)


def _text_of(value: Column) -> Column:
    """Give a JSON value as text: a text without its quotes."""
    unquoted = F.get_json_object(F.concat(F.lit('{"v":'), value, F.lit("}")), "$.v")
    return F.when(F.startswith(value, F.lit('"')), unquoted).otherwise(value)
