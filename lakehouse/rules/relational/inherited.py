"""Definitions that lack something by themselves, with what they have after flattening (requirements.md 21)."""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.relations import FLATTENED, SECTIONS
from lakehouse.rules.relational.candidaterows import Candidate, candidate_rows, parents_of
from lakehouse.rules.relational.pairs import no_pairs, only_broken, pairs_of
from lakehouse.settings import Settings
from lakehouse.store.materialize import is_empty, is_known_empty, materialize
from lakehouse.store.schema import MESSAGES, VERSIONS
from lakehouse.store.views import read_view


def check_flattened(spark: SparkSession, settings: Settings, result: Candidate, used: set[str]) -> DataFrame:
    """Check that messages to be written have what they need, with what their bases supply.

    Args:
        spark: the session.
        settings: how far chains of bases are followed.
        result: what would be published.
        used: names of the entity tables that hold something.
    """
    lacking = _find_lacking(result.entities, F.col("staged"))
    if is_empty(lacking):
        return no_pairs(spark)
    return _pairs(lacking, flattened_candidate(spark, settings, result, used, lacking))


def flattened_candidate(
    spark: SparkSession, settings: Settings, result: Candidate, used: set[str], wanted: DataFrame
) -> DataFrame:
    """Return the effective definitions that messages would have: registryid, message_xid, chain_status, attributes.

    Args:
        spark: the session.
        settings: how far chains of bases are followed.
        result: what would be published.
        used: names of the entity tables that hold something.
        wanted: the messages: registryid, message_xid.
    """
    stand_ins = {table.name: candidate_rows(spark, result, table, used) for table in (MESSAGES, VERSIONS)}
    stand_ins["scope"] = _only(stand_ins["messages"], wanted)
    return as_flattened(read_view(spark, settings, spark.catalog.currentDatabase(), stand_ins, "computed_messages"))


def check_published(entities: DataFrame, effective: DataFrame) -> DataFrame:
    """Check that published messages with a base still have what they need, since a base may have changed.

    Args:
        entities: what is published, as for the rules between entities.
        effective: as from `snapshots.effective_definitions`.
    """
    lacking = _find_lacking(entities, F.lit(True))
    return no_pairs(entities.sparkSession) if is_empty(lacking) else _pairs(lacking, as_flattened(effective))


def as_flattened(definitions: DataFrame) -> DataFrame:
    """Return effective definitions with the columns that rules read: registryid, message_xid, chain_status, attributes."""
    return definitions.select("registryid", F.col("xid").alias("message_xid"), "chain_status", "attributes")


def _find_lacking(entities: DataFrame, concerned: Column) -> DataFrame:
    """Find default Versions that have a base, and lack something by themselves: what the others have, no base takes away."""
    defaults = entities.filter(concerned & F.col("isdefault") & (F.col("kind") == "version") & F.col("basemessage").isNotNull())
    in_group = parents_of(entities).filter("parent_kind = 'group'")
    if is_known_empty(defaults):
        return defaults
    based = defaults.join(in_group, on=["registryid", "container"], how="left")
    needs_envelope = F.col("envelope").isNull() & F.col("parent_envelope").isNotNull()
    return materialize(based.filter(F.col("lacks") | needs_envelope))


def _only(messages: DataFrame, wanted: DataFrame) -> DataFrame:
    keys = wanted.select("registryid", F.col("message_xid").alias("xid")).distinct()
    return messages.join(keys, on=["registryid", "xid"], how="left_semi")


def _pairs(lacking: DataFrame, flattened: DataFrame) -> DataFrame:
    """Pair messages with their effective definitions; one whose base is not there yet is not judged."""
    both = lacking.join(flattened, on=["registryid", "message_xid"], how="inner").filter(F.col("chain_status") == "resolved")
    values = {at: F.col("attributes")[at] for at in FLATTENED}
    values["/dataschema"] = F.when(values["/dataschema"].isNotNull(), "{}")  # its text decides nothing
    values |= {at: F.when(F.exists(F.map_keys("attributes"), partial(_is_in, at)), "{}") for at in SECTIONS}
    flat_attributes = F.array(*(F.struct(F.lit(at).alias("key"), value.alias("value")) for at, value in values.items()))
    flat_attributes = F.map_from_entries(F.filter(flat_attributes, lambda entry: entry["value"].isNotNull()))
    return only_broken(
        materialize(pairs_of(both, "check_flattened", attributes=flat_attributes, parent_envelope=F.col("parent_envelope")))
    )


def _is_in(section: str, pointer: Column) -> Column:
    return (pointer == section) | pointer.startswith(f"{section}/")
