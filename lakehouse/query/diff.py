"""Differences between two states of the catalog, or of documents before they are loaded.

Spark makes the definitions of both (`ddl/views/comparable_definitions.sql`) and finds the entities that differ;
`lakehouse.domain.diff` says what the differences are. `ddl/diffs/snapshot_diff.sql` finds the same in SQL, for queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from string import Template
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.diff import CLASSES, Difference, Leaves, differences_of
from lakehouse.ingest.parse.parse import limits_of, parse_documents
from lakehouse.ingest.sources import find_sources, read_documents
from lakehouse.log.ownership.owners import first_claims
from lakehouse.log.projections import project
from lakehouse.log.snapshots import create_view_schema, open_snapshot
from lakehouse.settings import Settings, data_folder
from lakehouse.store.keys import KEY
from lakehouse.store.schema import SCHEMA, TABLE_OF_KIND
from lakehouse.store.sessions import open_sibling
from lakehouse.store.views import create_views, session_with_views

COMPARED = "comparable_definitions"
DIFF = "snapshot_diff"
_SIDES = ("before_definitions", "after_definitions")
_SIDE = Template("CREATE OR REPLACE VIEW $schema.$name AS SELECT registryid, kind, xid, leaves FROM $source")
_NO_SCHEMA = "default"  # everything that is read is handed in
_KEY = ["registryid", "kind", "xid"]
_COLUMNS = [name.rstrip("_") for name in Difference.__dataclass_fields__]


def open_diff(spark: SparkSession, settings: Settings, before: int, after: int) -> str:
    """Create the schema in which the view `snapshot_diff` compares two snapshots.

    Returns:
        Its name.

    Raises:
        SnapshotNotFound: one of them is not there.
    """
    schema = f"{SCHEMA}_diff_{before}_{after}"
    create_view_schema(spark, schema)
    for name, snapshot_id in zip(_SIDES, (before, after), strict=True):
        source = open_snapshot(spark, settings, snapshot_id, [COMPARED])
        spark.sql(_SIDE.substitute(schema=schema, name=name, source=f"{source}.{COMPARED}"))
    create_views(spark, settings, schema, ["compatibility_rules"])
    session = open_sibling(spark, schema)
    session.sql(_statement())
    return schema


def diff_snapshots(spark: SparkSession, settings: Settings, before: int, after: int) -> DataFrame:
    """Give the differences between two snapshots: columns of the view `snapshot_diff`, in order.

    Raises:
        SnapshotNotFound: one of them is not there.
    """
    schemas = [open_snapshot(spark, settings, snapshot_id, [COMPARED]) for snapshot_id in (before, after)]
    return compare(*(spark.table(f"{schema}.{COMPARED}") for schema in schemas))


def diff_documents(spark: SparkSession, settings: Settings, before: list[str], after: list[str]) -> DataFrame:
    """Give the differences between documents that need not be loaded: columns of the view `snapshot_diff`, in order.

    Args:
        spark: the session.
        settings: registry, limits.
        before: files, folders, globs or URIs.
        after: the same.

    Raises:
        SourceNotFound: one of them names nothing.
    """
    tables = [documents_as_tables(spark, settings, sources) for sources in (before, after)]
    sessions = [session_with_views(spark, settings, _NO_SCHEMA, each, [COMPARED]) for each in tables]
    return compare(*(session.table(COMPARED) for session in sessions))


def compare(before: DataFrame, after: DataFrame) -> DataFrame:
    """Compare definitions, columns of the view `comparable_definitions`.

    Both sides are worked out first, which is much quicker than within one large plan.
    """
    with ThreadPoolExecutor(2) as pool:
        sides = list(pool.map(lambda side: side.localCheckpoint(), (before, after)))
    # Maps cannot be compared, their sorted entries can.
    leaves = F.sort_array(F.map_entries("leaves"))
    one, other = (side.select(*_KEY, leaves.alias(name)) for side, name in zip(sides, ("before", "after"), strict=True))
    changed = one.join(other, on=_KEY, how="full_outer").filter(~F.col("before").eqNullSafe(F.col("after")))
    rank = F.array_position(F.array(*map(F.lit, CLASSES)), F.col("class"))
    found: DataFrame = changed.mapInArrow(_compared, ", ".join(f"{name} string" for name in _COLUMNS))
    return found.orderBy(rank, "registryid", "xid", "pointer")


def documents_as_tables(spark: SparkSession, settings: Settings, sources: list[str]) -> dict[str, DataFrame]:
    """Give the entity tables that documents would make in an empty catalog; what is refused in them is left out."""
    documents = read_documents(spark, find_sources(spark, sources), settings.stream_bytes)
    named = documents.withColumns(
        {
            "registry": F.lit(settings.registry or None).cast("string"),
            "unchanged": F.lit(False),
            "again": F.lit(False),
            "last_sha256": F.lit(None).cast("string"),
            "last_clean": F.lit(False),
            "last_registry": F.lit(None).cast("string"),
            "named": F.lit(False),
        }
    )
    stage = parse_documents(named, limits_of(settings)).filter(F.col("row") == "entity").persist()
    chosen = first_claims(stage)
    texts = stage.select(*KEY, "document_uri", "content_hash", "epoch", "createdat", "modifiedat", "body", "raw", "attributes")
    rows = chosen.join(texts, on=[*KEY, "document_uri"], how="inner").withColumns(
        {"snapshot_id": F.lit(1).cast("bigint"), "op": F.lit("insert")}
    )
    return {table.name: project(rows.filter(F.col("kind") == kind), table) for kind, table in TABLE_OF_KIND.items()}


def read_differences(rows: DataFrame) -> list[Difference]:
    """Fetch the differences."""
    return [Difference(*row) for row in rows.select(*_COLUMNS).collect()]


def _compared(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the differences of entities, of which each batch has key, entries before and entries after."""
    schema = pa.schema([(name, pa.string()) for name in _COLUMNS])
    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        found = [
            one
            for registryid, kind, xid, was, now in rows
            for one in differences_of((registryid, kind, xid), _leaves(was), _leaves(now))
        ]
        yield pa.RecordBatch.from_pylist([one.as_json() for one in found], schema)


def _leaves(entries: list[dict[str, Any]] | None) -> Leaves | None:
    return None if entries is None else {one["key"]: one["value"] for one in entries}


def _statement() -> str:
    text = (data_folder("ddl") / "diffs" / f"{DIFF}.sql").read_text(encoding="utf-8")
    return text.rstrip().removesuffix(";")
