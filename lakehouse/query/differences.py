"""Differences between two snapshots, by Spark.

Spark makes the definitions of both (`ddl/views/comparable_definitions.sql`) and finds the entities that differ;
`lakehouse.domain.diff` says what the differences are. `ddl/diffs/snapshot_diff.sql` finds the same in SQL, for queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from string import Template
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.bases import FlatAttributes
from lakehouse.domain.diff import (
    CLASSES,
    OF_OTHER_SCHEMA,
    Definitions,
    Difference,
    differences_of,
    schemas_named,
    with_other_schema,
)
from lakehouse.log.snapshots import create_view_schema, open_snapshot
from lakehouse.settings import Settings, data_folder
from lakehouse.store.materialize import map_few
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import open_sibling
from lakehouse.store.views import create_views
from lakehouse.store.xids import message_of

_COMPARABLE = "comparable_definitions"
DIFF = "snapshot_diff"
_SIDES = ("before_definitions", "after_definitions")
_SIDE = Template("CREATE OR REPLACE VIEW $schema.$name AS SELECT registryid, kind, xid, attributes FROM $source")
_KEY = ["registryid", "kind", "xid"]
COLUMNS = [field.name.rstrip("_") for field in fields(Difference) if field.compare]  # `within` is no column
_TYPES = ", ".join(f"{name} string" for name in COLUMNS)


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
        source = open_snapshot(spark, settings, snapshot_id, [_COMPARABLE])
        spark.sql(_SIDE.substitute(schema=schema, name=name, source=f"{source}.{_COMPARABLE}"))
    create_views(spark, settings, schema, ["compatibility_rules"])
    session = open_sibling(spark, schema)
    session.sql(_statement())
    return schema


def diff_snapshots(spark: SparkSession, settings: Settings, before: int, after: int) -> DataFrame:
    """Return the differences between two snapshots: columns of the view `snapshot_diff`, in order.

    Raises:
        SnapshotNotFound: one of them is not there.
    """
    schemas = [open_snapshot(spark, settings, snapshot_id, [_COMPARABLE]) for snapshot_id in (before, after)]
    return compare(*(spark.table(f"{schema}.{_COMPARABLE}") for schema in schemas))


def compare(before: DataFrame, after: DataFrame) -> DataFrame:
    """Compare definitions, columns of the view `comparable_definitions`.

    Both sides are worked out first, which is much quicker than within one large plan.
    """
    with ThreadPoolExecutor(2) as pool:
        sides = list(pool.map(lambda side: side.localCheckpoint(), (before, after)))
    # Maps cannot be compared, their sorted entries can.
    flat_attributes = F.sort_array(F.map_entries("attributes"))
    left, right = (side.select(*_KEY, flat_attributes.alias(name)) for side, name in zip(sides, ("before", "after"), strict=True))
    changed = left.join(right, on=_KEY, how="full_outer").filter(~F.col("before").eqNullSafe(F.col("after")))
    rank = F.array_position(F.array(*map(F.lit, CLASSES)), F.col("class"))
    result = map_few(changed, _batches_of_differences, _TYPES).localCheckpoint()
    is_other = F.col("rule").isin(*OF_OTHER_SCHEMA)
    judged = _with_other_schemas(read_differences(result.filter(is_other)), sides)
    if judged:
        rows = [tuple(difference.as_row().values()) for difference in judged]
        result = result.filter(~is_other).unionByName(before.sparkSession.createDataFrame(rows, _TYPES))
    return result.orderBy(rank, "registryid", "xid", "pointer")


def read_differences(rows: DataFrame) -> list[Difference]:
    """Fetch the differences."""
    return [Difference(*row) for row in rows.select(*COLUMNS).collect()]


def _with_other_schemas(results: list[Difference], sides: list[DataFrame]) -> list[Difference]:
    """Judge differences that lead to other schemas; the documents are few, and looked up at once."""
    named = sorted({xid for difference in results for xid in schemas_named(difference)})
    if not named:
        return results
    of_schema = F.col("kind").isin("schema", "schemaversion") & message_of("xid").isin(*named)
    states: list[Definitions] = [
        {(row["registryid"], row["kind"], row["xid"]): row["attributes"] for row in side.filter(of_schema).collect()}
        for side in sides
    ]
    return [with_other_schema(difference, states[0].get, states[1].get) for difference in results]


def _batches_of_differences(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the differences of entities, of which each batch has key, entries before and entries after."""
    schema = pa.schema([(name, pa.string()) for name in COLUMNS])
    for batch in batches:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        results = [
            difference
            for registryid, kind, xid, was, now in rows
            for difference in differences_of((registryid, kind, xid), _flat_attributes(was), _flat_attributes(now))
        ]
        yield pa.RecordBatch.from_pylist([difference.as_row() for difference in results], schema)


def _flat_attributes(entries: list[dict[str, Any]] | None) -> FlatAttributes | None:
    return None if entries is None else {entry["key"]: entry["value"] for entry in entries}


def _statement() -> str:
    text = (data_folder("ddl") / "diffs" / f"{DIFF}.sql").read_text(encoding="utf-8")
    return text.rstrip().removesuffix(";")
