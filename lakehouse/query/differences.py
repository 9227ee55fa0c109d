"""Differences between two snapshots, by Spark, and between two sets of documents that need not be loaded.

Of snapshots Spark makes the definitions (`ddl/views/comparable_definitions.sql`) and finds the entities that differ;
`lakehouse.domain.diff` says what the differences are. `ddl/diffs/snapshot_diff.sql` finds the same in SQL, for queries.

Documents are compared by what each set would make in an empty catalog. Local files and folders are read without Spark; Spark
reads globs and other stores. What is refused in a document is left out, and of several documents that define an entity the first
by URI counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.bases import FlatAttributes
from lakehouse.domain.diff import (
    CLASSES,
    COMPARABLE_KINDS,
    OF_OTHER_SCHEMA,
    Definitions,
    Difference,
    Key,
    differences_of,
    schemas_named,
    with_other_schema,
)
from lakehouse.domain.effective import EntityBodies, compare_bodies
from lakehouse.errors import SourceNotFound
from lakehouse.ingest.parse.parse import DOCUMENTS, limits_of, parse_documents, parser
from lakehouse.ingest.sources import HIDDEN_NAME, find_sources, is_hidden, look_into, read_documents
from lakehouse.log.snapshots import create_view_schema, open_snapshot
from lakehouse.readmodel.queries import ReferringBodies, with_endpoints
from lakehouse.settings import Settings, data_folder
from lakehouse.store.localpaths import local_path
from lakehouse.store.materialize import map_few
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import open_sibling
from lakehouse.store.views import create_views
from lakehouse.store.xids import message_of
from lakehouse.text.names import JsonText, RegistryId, Xid

_COMPARABLE = "comparable_definitions"
DIFF = "snapshot_diff"
_SIDES = ("before_definitions", "after_definitions")
_SIDE = Template("CREATE OR REPLACE VIEW $schema.$name AS SELECT registryid, kind, xid, attributes FROM $source")
_KEY = ["registryid", "kind", "xid"]
COLUMNS = [field.name.rstrip("_") for field in fields(Difference) if field.compare]  # `within` is no column
_TYPES = ", ".join(f"{name} string" for name in COLUMNS)
_Row = tuple[RegistryId, str, Xid, JsonText]
_ROW = ("registryid", "kind", "xid", "body")
_UNKNOWN = {"unchanged": False, "again": False, "last_sha256": None, "last_clean": False, "named": False, "last_registry": None}
_ARROW_TYPES = {pa.string(): "string", pa.bool_(): "boolean"}


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


def can_read(source: str) -> bool:
    """Return whether a source is a local file or folder, which needs no Spark."""
    path = local_path(source)
    return path is not None and os.path.exists(path)


def diff_files(settings: Settings, before: str, after: str) -> list[Difference]:
    """Return the differences between two local files or folders, in order, without Spark.

    Raises:
        SourceNotFound: one of them may not be read.
    """
    return _differences(settings, *(_read_here(settings, source) for source in (before, after)))


def diff_documents(spark: SparkSession, settings: Settings, before: list[str], after: list[str]) -> DataFrame:
    """Return the differences between documents: columns of the view `snapshot_diff`, in order.

    Args:
        spark: the session.
        settings: registry, limits.
        before: files, folders, globs or URIs.
        after: the same.

    Raises:
        SourceNotFound: one of them names nothing.
    """
    sides = (_read_by_spark(spark, settings, sources) for sources in (before, after))
    rows = [tuple(difference.as_row().values()) for difference in _differences(settings, *sides)]
    return spark.createDataFrame(rows, ", ".join(f"{name} string" for name in COLUMNS))


def _differences(settings: Settings, before: Iterable[_Row], after: Iterable[_Row]) -> list[Difference]:
    """Compare entities, and say at which endpoints of the later state they break; of several for one entity the first counts."""
    keys: set[Key] = set()
    sides: list[EntityBodies] = []
    rows: list[_Row] = []
    for rows in map(list, (before, after)):
        bodies: dict[tuple[RegistryId, Xid], JsonText] = {}
        for registryid, kind, xid, body in rows:
            bodies.setdefault((registryid, xid), body)
            keys |= {(registryid, kind, xid)} if kind in COMPARABLE_KINDS else set()
        sides.append(EntityBodies(partial(_find, bodies), settings.max_chain_depth))
    differences = compare_bodies(sides[0], sides[1], keys)
    references = ReferringBodies(rows)
    return [with_endpoints(references, difference) for difference in differences]


def _find(bodies: dict[tuple[RegistryId, Xid], JsonText], registryid: RegistryId, xid: Xid) -> JsonText | None:
    return bodies.get((registryid, xid))


def _read_here(settings: Settings, source: str) -> Iterator[_Row]:
    read = parser(limits_of(settings))
    declared = {**_UNKNOWN, "registry": settings.registry or None}
    for path in sorted(_files_of(source)):
        size = path.stat().st_size
        content = path.read_bytes() if size <= settings.stream_bytes else None
        row = {**declared, "document_uri": f"file:{path}", "size": size, "content": content}
        for batch in read([pa.RecordBatch.from_pylist([row], DOCUMENTS)]):
            entities = batch.filter(pc.equal(batch["row"], "entity"))
            yield from zip(*(entities[name].to_pylist() for name in _ROW), strict=True)


def _files_of(source: str) -> Iterable[Path]:
    """Return the documents that a local source names: itself, or what a search of the folder finds and may read."""
    path = Path(os.path.abspath(local_path(source) or source))
    if not path.is_dir():
        if is_hidden(path.name):
            raise SourceNotFound(source, f"{HIDDEN_NAME}. Rename it.")
        return [path] if os.access(path, os.R_OK) else []
    inside = look_into(f"file:{path}")
    if f"file:{path}" in inside.closed:
        raise SourceNotFound(source, inside.hidden[0].reason)
    return [Path(uri.removeprefix("file:")) for uri in inside.files]


def _read_by_spark(spark: SparkSession, settings: Settings, sources: list[str]) -> Iterator[_Row]:
    documents = read_documents(spark, find_sources(spark, sources), settings.stream_bytes)
    declared = {**_UNKNOWN, "registry": settings.registry or None}
    columns = {name: F.lit(value).cast(_ARROW_TYPES[DOCUMENTS.field(name).type]) for name, value in declared.items()}
    stage = parse_documents(documents.withColumns(columns), limits_of(settings)).filter(F.col("row") == "entity")
    for row in stage.orderBy("document_uri").select(*_ROW).toLocalIterator():
        yield tuple(row)
