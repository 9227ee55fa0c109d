"""Differences between documents that need not be loaded: what each of two sets would make in an empty catalog.

Local files and folders are read here, without Spark; Spark reads globs and other stores. What is refused in a document is left
out, and of several documents that define an entity the first by URI counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.domain.diff import COMPARABLE_KINDS, Difference, Key
from lakehouse.domain.effective import EntityBodies, compare_bodies
from lakehouse.errors import SourceNotFound
from lakehouse.ingest.parse.parse import DOCUMENTS, limits_of, parse_documents, parser
from lakehouse.ingest.sources import HIDDEN_NAME, find_sources, is_hidden, look_into, read_documents
from lakehouse.query.snapshotdiff import COLUMNS
from lakehouse.readmodel.queries import ReferringBodies, with_endpoints
from lakehouse.settings import Settings
from lakehouse.store.localpaths import local_path
from lakehouse.text.names import JsonText, RegistryId, Xid

_Row = tuple[RegistryId, str, Xid, JsonText]
_ROW = ("registryid", "kind", "xid", "body")
_UNKNOWN = {"unchanged": False, "again": False, "last_sha256": None, "last_clean": False, "named": False, "last_registry": None}
_TYPES = {pa.string(): "string", pa.bool_(): "boolean"}


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
            raise SourceNotFound(source, f"{HIDDEN_NAME} Rename it.")
        return [path] if os.access(path, os.R_OK) else []
    inside = look_into(f"file:{path}")
    if f"file:{path}" in inside.closed:
        raise SourceNotFound(source, inside.hidden[0].reason)
    return [Path(uri.removeprefix("file:")) for uri in inside.files]


def _read_by_spark(spark: SparkSession, settings: Settings, sources: list[str]) -> Iterator[_Row]:
    documents = read_documents(spark, find_sources(spark, sources), settings.stream_bytes)
    declared = {**_UNKNOWN, "registry": settings.registry or None}
    columns = {name: F.lit(value).cast(_TYPES[DOCUMENTS.field(name).type]) for name, value in declared.items()}
    stage = parse_documents(documents.withColumns(columns), limits_of(settings)).filter(F.col("row") == "entity")
    for row in stage.orderBy("document_uri").select(*_ROW).toLocalIterator():
        yield tuple(row)
