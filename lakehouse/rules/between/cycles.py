"""Chains of bases that come back to where they began."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.rules.between.judged import no_pairs, pairs_of
from lakehouse.rules.between.present import Present, few
from lakehouse.store.frames import count, keep


def check_cycles(things: DataFrame, present: Present) -> DataFrame:
    """Find Versions whose chain of bases comes back to them; to an older Version of the same message it may lead.

    Each step doubles the way: an edge then leads two, four, eight bases on. Ways that end drop out, so a catalog without
    cycles is done after as many steps as its longest chain has bits.
    """
    versions = things.filter((F.col("kind") == "version") & F.col("basemessage").startswith("/"))
    edges = versions.select("registryid", F.col("xid").alias("from"), "basemessage")
    # Each step is a checkpoint: a plan that holds the earlier steps twice would double with each.
    way = keep(edges.join(_as_bases(things, versions, present), on=["registryid", "basemessage"]).drop("basemessage").distinct())
    total = left = count(way)
    length = 1
    while left and length <= total:  # a way longer than there are edges comes back somewhere
        further = way.select("registryid", F.col("from").alias("to"), F.col("to").alias("end"))
        way = keep(way.join(further, on=["registryid", "to"]).select("registryid", "from", F.col("end").alias("to")))
        left, length = count(way), length * 2
    if not left:
        return no_pairs(things.sparkSession)
    on_cycle = way.select("registryid", F.col("to").alias("xid")).distinct()
    on_it = versions.join(on_cycle, on=["registryid", "xid"])
    # A message that is written anew, and comes to show a Version that was there, is what closes the cycle: that is told of it.
    shown = on_it.filter("isdefault").groupBy("registryid", "message_xid")
    there = shown.agg(F.bool_or("staged").alias("_is_written"), F.min("basemessage").alias("_base")).filter("NOT _is_written")
    messages = things.filter((F.col("kind") == "message") & F.col("staged")).drop("basemessage")
    closing = keep(messages.join(there, on=["registryid", "message_xid"]).withColumnRenamed("_base", "basemessage"))
    by_shown = closing.select("registryid", "message_xid", F.lit(True).alias("isdefault"))
    others = on_it.join(by_shown.distinct(), on=by_shown.columns, how="left_anti")
    found = pairs_of(others, "of_cycle", basemessage=F.col("basemessage"))
    return found.unionByName(pairs_of(closing, "of_cycle", basemessage=F.col("basemessage"), by_default=F.lit(True)))


def _as_bases(things: DataFrame, versions: DataFrame, present: Present) -> DataFrame:
    """Return the names by which a base means a Version: its own and those through aliases; of the default one its message's, too.

    Returns:
        One row per name: registryid, basemessage (the name), to (the Version).
    """
    default = F.when(F.col("isdefault"), F.col("message_xid"))
    names = F.explode(F.array_compact(F.array("xid", default))).alias("basemessage")
    own = versions.select("registryid", F.col("xid").alias("to"), names)
    if not present.aliases:
        return own
    aliases = few(things.filter((F.col("kind") == "message") & F.col("xref").isNotNull()), present.aliases)
    aliases = aliases.select("registryid", F.col("xid").alias("alias"), F.col("xref").alias("message_xid"))
    shown = versions.select("registryid", "message_xid", "isdefault", F.col("xid").alias("to"))
    borrowed = shown.join(aliases, on=["registryid", "message_xid"])
    by_version = F.concat("alias", F.lit("/versions/"), F.substring_index("to", "/", -1))
    names = F.explode(F.array_compact(F.array(by_version, F.when(F.col("isdefault"), F.col("alias"))))).alias("basemessage")
    return own.unionByName(borrowed.select("registryid", "to", names))
