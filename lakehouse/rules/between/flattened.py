"""What definitions lack after flattening (MSG-156, 161, 166, 175, 181; requirements.md 21)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.log.projections import project
from lakehouse.rules.between.candidate import Candidate, holders_of
from lakehouse.rules.findings import breaches_of, broken, no_breaches
from lakehouse.settings import Settings
from lakehouse.store.frames import can_skip, is_empty, keep
from lakehouse.store.schema import MESSAGES, VERSIONS, Table
from lakehouse.store.tables import open_table
from lakehouse.store.views import read_view


def check_flattened(spark: SparkSession, settings: Settings, found: Candidate, used: set[str]) -> DataFrame:
    """Tell what messages lack that would be written and have a base, which may supply it.

    Rules MSG-156, 161, 166, 175, 181; requirements.md 21.

    Args:
        spark: the session.
        settings: how far chains of bases are followed.
        found: what would be published.
        used: names of the entity tables that hold something.
    """
    lacking = _find_lacking(found.things, F.col("staged"))
    if is_empty(lacking):
        return no_breaches(spark)
    return _judge(lacking, flattened_candidate(spark, settings, found, used, lacking))


def flattened_candidate(
    spark: SparkSession, settings: Settings, found: Candidate, used: set[str], wanted: DataFrame
) -> DataFrame:
    """Give the effective definitions that messages would have: registryid, message_xid, chain_status, attributes.

    Args:
        spark: the session.
        settings: how far chains of bases are followed.
        found: what would be published.
        used: names of the entity tables that hold something.
        wanted: the messages: registryid, message_xid.
    """
    stand_ins = {table.name: _candidate_rows(spark, found, table, used) for table in (MESSAGES, VERSIONS)}
    stand_ins["scope"] = _only(stand_ins["messages"], wanted)
    return _read_flattened(spark, settings, stand_ins)


def check_published(spark: SparkSession, settings: Settings | None, things: DataFrame) -> DataFrame:
    """Tell what published messages of the current schema lack that have a base: one that changed since may supply it no more.

    Args:
        spark: the session.
        settings: how far chains of bases are followed; None: as far as the views can.
        things: what is published, as for the rules between entities.
    """
    lacking = _find_lacking(things, F.lit(True))
    if is_empty(lacking):
        return no_breaches(spark)
    return _judge(lacking, flattened_published(spark, settings, lacking))


def flattened_published(spark: SparkSession, settings: Settings | None, wanted: DataFrame) -> DataFrame:
    """Give the effective definitions of published messages of the current schema: as `flattened_candidate`."""
    return _read_flattened(spark, settings, {"scope": _only(spark.table("messages"), wanted)})


def _find_lacking(things: DataFrame, concerned: Column) -> DataFrame:
    """Find default Versions that have a base, and lack something by themselves: what the others have, no base takes away."""
    defaults = things.filter(concerned & F.col("isdefault") & (F.col("kind") == "version") & F.col("basemessage").isNotNull())
    in_group = holders_of(things).filter("holder_kind = 'group'")
    if can_skip(defaults):
        return defaults
    based = defaults.join(in_group, on=["registryid", "container"], how="left")
    needs_envelope = F.col("envelope").isNull() & F.col("holder_envelope").isNotNull()
    return keep(based.filter(F.col("lacks") | needs_envelope))


def _only(messages: DataFrame, wanted: DataFrame) -> DataFrame:
    keys = wanted.select("registryid", F.col("message_xid").alias("xid")).distinct()
    return messages.join(keys, on=["registryid", "xid"], how="left_semi")


def _read_flattened(spark: SparkSession, settings: Settings | None, stand_ins: dict[str, DataFrame]) -> DataFrame:
    flat = read_view(spark, settings, spark.catalog.currentDatabase(), stand_ins, "computed_messages")
    return flat.select("registryid", F.col("xid").alias("message_xid"), "chain_status", "attributes")


def _judge(lacking: DataFrame, flattened: DataFrame) -> DataFrame:
    """Tell what the effective definitions lack; a message whose base is not there yet is not judged."""
    both = lacking.join(flattened, on=["registryid", "message_xid"], how="inner").filter(F.col("chain_status") == "resolved")
    envelope, protocol = _leaf("/envelope"), _leaf("/protocol")
    form, uri = _leaf("/dataschemaformat"), _leaf("/dataschemauri")
    other = F.concat(F.lit("`envelope` is missing, and that of the group is "), "holder_envelope")
    told = [broken("MSG-156", other, "").when(envelope.isNull() & F.col("holder_envelope").isNotNull())]
    for rule_id, pointer, what, section, value in (
        ("MSG-161", "/envelope", "`envelopemetadata`", "/envelopemetadata", envelope),
        ("MSG-166", "/protocol", "`protocoloptions`", "/protocoloptions", protocol),
    ):
        message = F.concat(F.lit(f"`{pointer[1:]}` is "), value, F.lit(f", and neither here nor in its bases there is {what}"))
        lacks = value.isNotNull() & ~_has_leaf_below(section)
        told.append(broken(rule_id, message, pointer).when(lacks))
    is_inline = _leaf("/dataschema").isNotNull() & form.isNull()
    without = F.lit(" is given without `dataschemaformat`, here and in its bases")
    is_near = uri.rlike(r'\A"(?: *#/|/schema[gG]roups/)')
    told.append(broken("MSG-175", F.concat(F.lit("`dataschema`"), without), "/dataschema").when(is_inline))
    message = F.concat(F.lit("`dataschemauri` "), uri, without)
    told.append(broken("MSG-181", message, "/dataschemauri").when(uri.isNotNull() & form.isNull() & ~is_near))
    told.append(broken("MSG-181", message, "/dataschemauri", "warning").when(uri.isNotNull() & form.isNull() & is_near))
    return keep(breaches_of(both, told))


def _candidate_rows(spark: SparkSession, found: Candidate, table: Table, used: set[str]) -> DataFrame:
    """Lay rows of a table that would be written over the published ones, as the table has them."""
    entities = found.rows.filter(F.col("kind") == table.kind)
    logged = entities.withColumns({"document_uris": F.array("document_uri"), "snapshot_id": F.lit(0).cast("bigint")})
    staged = project(logged, table).dropDuplicates(["registryid", "xid"])
    if table.name not in used:
        return staged
    published = open_table(spark, table.name).join(staged, on=["registryid", "xid"], how="left_anti")
    if found.near is not None:
        near = found.near.filter(F.col("kind") == table.kind)
        published = published.join(F.broadcast(near), on=["registryid", "xid"], how="left_semi")
    if found.leaving is not None:
        published = published.join(found.leaving.filter(F.col("kind") == table.kind), on=["registryid", "xid"], how="left_anti")
    return staged.unionByName(published.select(*staged.columns))


def _leaf(pointer: str) -> Column:
    return F.col("attributes")[pointer]


def _has_leaf_below(pointer: str) -> Column:
    return F.exists(F.map_keys("attributes"), lambda key: key.startswith(pointer + "/"))
