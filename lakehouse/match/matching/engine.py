"""Matching on Spark: landed rows → one `mapInArrow` pass, which matches and validates; no event is joined or shuffled.

The index of a snapshot is written once and sent to the executors as files (`SparkContext.addFile`); each Python worker maps it.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.log.relations import open_relations
from lakehouse.log.snapshots import resolve_snapshot
from lakehouse.match.definition.catalog import MESSAGE_COLUMNS, SCHEMA_COLUMNS, Scope, in_scope
from lakehouse.match.event.adapters import LANDED, to_landed
from lakehouse.match.event.captured import landed_of_columns, landed_of_text
from lakehouse.match.event.landed import Landed
from lakehouse.match.matching.columns import match_columns
from lakehouse.match.matching.index import DEFINITION_ROWS, definition_rows, index_of
from lakehouse.match.matching.matcher import Request
from lakehouse.match.matching.results import RESULT_COLUMNS, RESULT_SCHEMA, why_of
from lakehouse.match.store import open_store, write_store
from lakehouse.settings import Settings
from lakehouse.store.views import with_read

# Rows of a batch, and bytes, whichever is reached first.
_BATCHES = {"spark.sql.execution.arrow.maxRecordsPerBatch": "50000", "spark.sql.execution.arrow.maxBytesPerBatch": "67108864"}


@dataclass(frozen=True)
class Opened:
    """An index that executors can open.

    Attributes:
        name: of the folder that was sent to them.
        path: where it stands on the driver.
        snapshot_id: of the catalog.
        definitions: how many there are.
    """

    name: str
    path: str
    snapshot_id: int
    definitions: int


def open_index(spark: SparkSession, settings: Settings, scope: Scope, at: str | None = None) -> Opened:
    """Make the index of a snapshot, and send it to the executors.

    Raises:
        WarehouseError: the warehouse holds no catalog.
        SnapshotNotFound: `at` names none.
        SettingsError: the scope names what is not there.
    """
    schema = open_relations(
        spark, settings, with_read(["flat_messages"]), ("changes", "schemaversions", "endpoints", "messages"), at
    )
    snapshot_id = resolve_snapshot(spark, at or "head")
    deprecated = spark.table(f"{schema}.messages").select("registryid", "xid", "deprecated")
    messages = (
        spark.table(f"{schema}.flat_messages").select(*MESSAGE_COLUMNS).join(deprecated, on=["registryid", "xid"], how="left")
    )
    if scope.registry:
        messages = messages.filter(F.col("registryid") == scope.registry)
    if scope.is_narrow:
        endpoints = spark.table(f"{schema}.endpoints").select("registryid", "xid", "protocol", "protocoloptions", "messagegroups")
        rows = in_scope([row.asDict() for row in messages.collect()], [row.asDict() for row in endpoints.collect()], scope)
        definitions = definition_rows(rows)
    else:
        columns = "keys ARRAY<STRING>, body BINARY"
        definitions = messages.mapInArrow(_definition_batches, columns).toArrow().cast(DEFINITION_ROWS)
        if scope.registry:
            in_scope([{"registryid": scope.registry}] if definitions.num_rows else [], [], scope)
    schemas = spark.table(f"{schema}.schemaversions").select(*SCHEMA_COLUMNS).toArrow()
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-match-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = write_store(folder, index_of(definitions), schemas)
    spark.sparkContext.addFile(str(path), recursive=True)
    return Opened(path.name, str(path), snapshot_id, definitions.num_rows)


def with_matches(landed: DataFrame, opened: Opened, request: Request) -> DataFrame:
    """Match landed rows.

    Args:
        landed: the columns of `LANDED`.
        opened: the index.
        request: how.

    Returns:
        One row an event: the columns of `RESULT_COLUMNS`.
    """
    return landed.select(*LANDED).mapInArrow(_pass(opened.name, request), RESULT_COLUMNS)


@contextmanager
def large_batches(spark: SparkSession) -> Iterator[None]:
    """Let Arrow's batches be large while events are matched: more rows of one type then go through columns together."""
    before = {key: spark.conf.get(key, None) for key in _BATCHES}
    try:
        for key, value in _BATCHES.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, held in before.items():
            if held is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, held)


def match(
    spark: SparkSession,
    settings: Settings,
    rows: DataFrame,
    scope: Scope | None = None,
    request: Request | None = None,
    at: str | None = None,
) -> DataFrame:
    """Match a DataFrame of landed rows, of any shape that `adapters` know, with the definitions of the catalog.

    Args:
        spark: the session.
        settings: the warehouse.
        rows: as they landed, such as Kafka's columns with `headers`.
        scope: whose messages are candidates; None: all.
        request: how they are matched; None: as `lakehouse match` does without options.
        at: snapshot of the catalog; None: its head.

    Returns:
        One row an event: the columns of `RESULT_COLUMNS`.

    Raises:
        SettingsError: the columns are of no landing that is known, or the scope names what is not there.
        WarehouseError: the warehouse holds no catalog.
    """
    landed = to_landed(rows)
    return with_matches(landed, open_index(spark, settings, scope or Scope(), at), request or Request())


def landed_of_row(row: dict[str, Any]) -> Iterable[Landed]:
    """Give what a row of the canonical table holds: one event, or those of a text."""
    if row["problem"]:
        return [Landed(row["protocol"], problem=row["problem"])]
    if row["line"] is not None:
        return landed_of_text(row["line"], row["protocol"])
    return [landed_of_columns(row)]


def _pass(name: str, request: Request) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = open_store(SparkFiles.get(name), request)
        places: dict[tuple[str | None, int | None], int] = {}
        for batch in batches:
            made: list[dict[str, Any]] = []
            quick, left = match_columns(matcher, batch)
            yield from quick
            for row in left.to_pylist():
                ref = _event_ref(row, places)
                own = {"ordinal": row["ordinal"], "place": row["place"], "event_ref": ref, "landed_at": row["landed_at"]}
                for landed in landed_of_row(row):
                    made += [result | own | {"why": why_of(result)} for result in matcher.rows(landed)]
            if made:
                yield pa.RecordBatch.from_pylist(made, schema=RESULT_SCHEMA)

    return run


def _event_ref(row: dict[str, Any], places: dict[tuple[str | None, int | None], int]) -> dict[str, Any]:
    """Name an event: by what the landing says; a line of a file by the split that it stands in and its number there."""
    ref: dict[str, Any] = {name: row[name] for name in ("source", "partition", "offset", "row")}
    if row["line"] is not None and ref["row"] is None:
        place = (row["source"], row["partition"])
        places[place] = places.get(place, -1) + 1
        ref["row"] = places[place]
    return ref


def _definition_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from definition_rows(batch.to_pylist()).to_batches()
