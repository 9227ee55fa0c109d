"""The rules about all that is published, of a large catalog in tasks: each has some groups, and what their references lead to.

Groups are put together as documents of a large load are (`ingest.bundles`): an endpoint with the groups that it names, and ids
that differ in letter case only. A task applies the rules as the driver does to a small catalog.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.dialects.tables import dialects_with_rule
from lakehouse.domain.documents import Facts, Key, Uri
from lakehouse.domain.neighbours import RuleLimits
from lakehouse.domain.relations import UNIQUE_TYPE
from lakehouse.ingest.bundles import BUNDLES_A_CORE, LOOKED_UP, find_bundles, placed, rows_looked_up
from lakehouse.ingest.parse.batches import cut_batches
from lakehouse.ingest.parse.parse import without_collector
from lakehouse.ingest.stagerows import PlannedState
from lakehouse.readmodel.lookups import Lookups
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.rules.findings import FINDINGS, arrow_schema
from lakehouse.rules.published import Parents, check_published_entity, current_dialects
from lakehouse.settings import Settings
from lakehouse.store.deltatables import open_table
from lakehouse.store.materialize import count, materialize
from lakehouse.store.schema import ENTITY_TABLES
from lakehouse.store.xids import group_of
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import xid_of_group

_MOST_ROWS = 5_000_000  # of which 8 bytes each are sent to every executor


def check_in_tasks(spark: SparkSession, snapshot_id: int, settings: Settings) -> DataFrame | None:
    """Apply the rules about entities and between them to a published state.

    Args:
        spark: the session; its current schema has the tables of the state.
        snapshot_id: number of the state.
        settings: how far chains of bases are followed, severity of END-130.

    Returns:
        Findings, columns `rules.findings.FINDINGS`, all kept. None where only joins can: groups are too large for a task,
        or refer to too much.
    """
    documents = current_dialects(spark)
    wanting_types = F.col("dialect").isin(dialects_with_rule(UNIQUE_TYPE))
    whole = {row["registryid"] for row in documents.filter(wanting_types).select("registryid").distinct().collect()}
    rows = _published_rows(spark, snapshot_id)
    bundles = None if rows is None else find_bundles(rows, BUNDLES_A_CORE * spark.sparkContext.defaultParallelism, whole)
    if rows is None or bundles is None:
        return None
    together = placed(spark, rows, bundles, rows_looked_up(spark, rows, bundles))
    owner = documents.withColumnRenamed("document_uri", "owner")
    together = together.join(F.broadcast(owner), on=["registryid", "owner"], how="left")
    return together.select(*_PublishedRow._fields).mapInArrow(_CheckTask(published_limits(settings)), FINDINGS)


def published_limits(settings: Settings) -> RuleLimits:
    """Return the settings that the rules follow when they look at what is published."""
    return RuleLimits(settings.max_chain_depth, settings.duplicate_messageids, with_published=True)


class _PublishedRow(NamedTuple):
    """An entity; `row` is `LOOKED_UP` where it is not checked, and `owner` the first document that holds it, with its dialect."""

    row: str
    registryid: RegistryId
    kind: str
    xid: Xid
    snapshot_id: int
    body: JsonText
    owner: str
    dialect: str | None


def _published_rows(spark: SparkSession, snapshot_id: int) -> DataFrame | None:
    """Return the rows of the log that are published, as `find_bundles` takes a stage: a group takes the place of a document.

    Of a few rows an earlier one may come along, which the task leaves out. None: there are too many to send their hashes along.
    """
    tables = [spark.table(table.name).select("registryid", "xid", "snapshot_id") for table in ENTITY_TABLES]
    place = F.xxhash64("registryid", "xid", "snapshot_id").alias("place")
    current = materialize(reduce(DataFrame.unionByName, tables).select(place))
    if count(current) > _MOST_ROWS:
        return None
    log = open_table(spark, "changes").filter((F.col("snapshot_id") <= snapshot_id) & (F.col("op") != "delete"))
    rows = log.withColumn("place", place).join(F.broadcast(current), on="place", how="left_semi")
    return rows.select(
        F.lit("entity").alias("row"),
        F.concat_ws(" ", "registryid", F.lower(group_of("xid"))).alias("document_uri"),
        "registryid",
        "kind",
        "xid",
        "snapshot_id",
        "body",
        F.lit(None).cast("string").alias("raw"),
        F.coalesce(F.get("document_uris", F.lit(0)), F.lit("")).alias("owner"),
    )


class _CheckTask:
    """Checks the rows of one partition: batches of `_PublishedRow` to batches of findings."""

    def __init__(self, limits: RuleLimits) -> None:
        self.limits = limits

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Check the rows."""
        rows: dict[tuple[RegistryId, Xid], _PublishedRow] = {}
        with without_collector():
            for batch in batches:
                for row in map(_PublishedRow._make, zip(*(column.to_pylist() for column in batch.columns), strict=True)):
                    earlier = rows.get((row.registryid, row.xid))
                    if earlier is None or earlier.snapshot_id < row.snapshot_id:
                        rows[row.registryid, row.xid] = row
            for some in cut_batches(list(self._findings(rows.values())), lambda finding: len(finding["finding"]["message"])):
                yield pa.RecordBatch.from_pylist(some, schema=arrow_schema())

    def _findings(self, rows: Iterable[_PublishedRow]) -> Iterator[dict[str, Any]]:
        lookups = Lookups(None, 0)
        lookups.supply(_entity_of(row) for row in rows)
        documents: dict[Uri, Facts] = {
            Uri(row.registryid, row.owner): {"dialect": row.dialect} for row in rows if row.dialect is not None
        }
        keys = [Key(row.registryid, row.kind, row.xid) for row in rows if row.row != LOOKED_UP]
        yield from check_published_keys(PlannedState.published(lookups, documents), keys, self.limits)


def _entity_of(row: _PublishedRow) -> Entity:
    owners = [row.owner] if row.owner else []
    return Entity(row.registryid, row.kind, row.xid, None, None, None, row.body, None, owners, None, row.snapshot_id, 0)


def check_published_keys(published: PlannedState, keys: list[Key], limits: RuleLimits) -> Iterator[dict[str, Any]]:
    """Yield the findings about published entities, alone and with their neighbours; columns `rules.findings.FINDINGS`, as dict.

    Args:
        published: the state.
        keys: the entities.
        limits: of the rules.
    """
    lookups = published.lookups
    for key in keys:
        attributes = published.attributes(key, None)
        for holding in published.holdings(key):
            dialect = published.dialect_of(key.registryid, holding.document)
            group = lookups.attributes(key.registryid, xid_of_group(key.xid)) if key.kind == "version" else None
            of_group = (None, None) if group is None else (group.get("envelope"), group.get("protocol"))
            parents = Parents(key.registryid, key.kind, key.xid, holding.document, dialect, *of_group)
            yield from check_published_entity(parents, attributes)
    yield from published.findings(limits, keys)
