"""One large document on all cores: its parts are shared over tasks.

A task cuts the document and reads its root (an outline); then each part is read by itself, on any core; then one task adds up
what the parts have of the document: counts, findings, ids of groups. Where its root determines no dialect, the parts are read as
the normal form, and record the spellings and names in them; where these determine a dialect with its own rules, the parts are
read again. Whatever cannot be decided part by part (an error, ids that clash, `--strict`, a `.gz`) is left to one task, which
reads the whole document: the rows are the same either way.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from functools import cache, reduce
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.dialects.detection import declared_dialect, dialect_of, has_own_rules, marks_of, not_a_registry
from lakehouse.dialects.tables import NORMAL
from lakehouse.ingest.parse.batches import StageBatches
from lakehouse.ingest.parse.document import ParseLimits, wrong_collection
from lakehouse.ingest.parse.parse import (
    DEFAULT_REGISTRY,
    OWN_READERS,
    Parts,
    Source,
    hash_of,
    parse_documents,
    read_part,
    without_collector,
)
from lakehouse.ingest.parse.readings import Reading, Whole
from lakehouse.store.schema import STAGE
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.streams import Range, open_document, read_ranges
from lakehouse.text.xid import id_problem
from lakehouse.text.yamltext import is_yaml

_LARGEST_ROOT = 32 << 20
_TASKS_A_CORE = 4
_COUNTED = ("entities", "quarantined", "spellings")
_SOURCE = (
    "document_uri string, size bigint, sha256 string, registry string, unchanged boolean, again boolean, content binary, "
    "last_sha256 string, last_clean boolean, named boolean, last_registry string"
)
_OUTLINE = "document_uri string, sha256 string, again boolean, outline string, root binary"
_PART = "document_uri string, outline string, root binary, range string"

_PartRow = tuple[str, str, bytearray | None, str | None]  # columns _PART
Keep = Callable[[DataFrame, str], DataFrame]


class Outline(NamedTuple):
    """What all parts of a document must know, and where they are.

    Attributes:
        size: bytes of the document, as its other facts are.
        registry: that it goes into.
        dialect: of all its parts; None: only they determine it.
        ranges: where its groups are, as of `Range`.
    """

    size: int
    sha256: str
    own_registry: bool
    registry: RegistryId
    again: bool
    dialect: str | None
    specversion: str | None
    ranges: list[tuple[str, int, int]]


def stage_large(documents: DataFrame, large: list[str], limits: ParseLimits, keep: Keep) -> DataFrame:
    """Parse documents of which some are large, each of these in many tasks.

    Args:
        documents: as from `unchanged.with_unchanged`.
        large: URIs of those above `stream_bytes`.
        limits: of all documents.
        keep: computes a frame and holds its rows, under a name.

    Returns:
        The stage, as from `parse_documents`.
    """
    spark = documents.sparkSession
    is_large = F.col("document_uri").isin(large)
    results = documents.filter(is_large).withColumn("content", F.lit(None).cast("binary")).select(*Source._fields).collect()
    sources = {row["document_uri"]: Source(*row) for row in results}
    outlined = _frame(spark, sources.values()).mapInArrow(outliner(limits), _OUTLINE).collect()
    outlines = {row["document_uri"]: row for row in outlined if row["outline"] is not None}
    for row in outlined:
        sources[row["document_uri"]] = sources[row["document_uri"]]._replace(sha256=row["sha256"])
    rest = documents.filter(~is_large)
    alone = [source for uri, source in sources.items() if uri not in outlines]
    if alone:
        rest = rest.select(*Source._fields).unionByName(_frame(spark, alone))
    frames = [keep(parse_documents(rest, limits), "whole")]
    if not outlines:
        return frames[0]
    shared = _read_shared(spark, [part for row in outlines.values() for part in _parts_of(row)], limits, keep, "")
    frames.append(shared.rows)
    dialects = {uri: dialect for uri, dialect in shared.left.items() if dialect}
    failed = [uri for uri in shared.left if uri not in dialects]
    if dialects:
        parts = [part for uri, dialect in dialects.items() for part in _parts_of(outlines[uri], dialect)]
        again = _read_shared(spark, parts, limits, keep, "-of-dialect")
        frames.append(again.rows)
        failed += again.left
    if failed:
        frames.append(keep(parse_documents(_frame(spark, [sources[uri] for uri in failed]), limits), "again"))
    return reduce(DataFrame.unionByName, frames)


class _Shared(NamedTuple):
    """What was read part by part.

    rows: of the stage; left: documents that have none yet, and the dialect as of which their parts must be read; None: one task
    must read it.
    """

    rows: DataFrame
    left: dict[str, str | None]


def _read_shared(spark: SparkSession, parts: list[_PartRow], limits: ParseLimits, keep: Keep, name: str) -> _Shared:
    tasks = min(len(parts), _TASKS_A_CORE * spark.sparkContext.defaultParallelism)
    details = spark.createDataFrame(parts, _PART).repartition(tasks).mapInArrow(part_parser(limits), STAGE)
    read = keep(details, f"parts{name}")
    is_document = F.col("row") == "document"
    closed = keep(read.filter(is_document).repartition(1).mapInArrow(part_summer(limits), STAGE), f"closed{name}")
    left = {
        row["document_uri"]: json.loads(row["facts"]).get("dialect")
        for row in closed.filter(~is_document).select("document_uri", "facts").collect()
    }
    rows = read.filter(~is_document & ~F.col("document_uri").isin(list(left)))
    return _Shared(rows.unionByName(closed.filter(is_document)), left)


def _frame(spark: SparkSession, sources: Iterable[Source]) -> DataFrame:
    """Return documents as a DataFrame with a task for each."""
    rows = list(sources)
    return spark.createDataFrame([tuple(source) for source in rows], _SOURCE).repartition(max(len(rows), 1))


def _parts_of(row: Any, dialect: str | None = None) -> Iterator[_PartRow]:
    """Yield the parts of an outlined document, root first, to be read in a dialect; None: in the one that is detected."""
    outline = Outline(*json.loads(row["outline"]))
    outline = outline._replace(dialect=dialect or outline.dialect)
    shared = json.dumps(outline._replace(ranges=[]))
    yield row["document_uri"], shared, row["root"], None
    for part in outline.ranges:
        yield row["document_uri"], shared, None, json.dumps(part)


def outliner(limits: ParseLimits) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that cuts documents: batches of documents to batches of outlines; NULL: to be read by one task."""

    def outline(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                source = Source(**{name: row[name] for name in Source._fields})
                sha256, again, made, root = _outline(source, limits)
                columns = [[source.document_uri], [sha256], [again], [None if made is None else json.dumps(made)], [root]]
                types = (pa.string(), pa.string(), pa.bool_(), pa.string(), pa.binary())
                yield pa.RecordBatch.from_arrays(
                    [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)],
                    names=["document_uri", "sha256", "again", "outline", "root"],
                )

    return outline


def _outline(source: Source, limits: ParseLimits) -> tuple[str | None, bool, Outline | None, bytes | None]:
    uri = source.document_uri
    location = limits.located.get(uri, uri)
    if source.size > limits.bytes or limits.strict or is_yaml(uri) or uri.endswith(".gz") or limits.dialect in OWN_READERS:
        return None, False, None, None
    sha256: str | None = None
    try:
        sha256 = hash_of(location, limits)
        if sha256 == source.last_sha256 and source.last_clean:
            return sha256, False, None, None
        parts = Parts.cut(lambda: open_document(location, None, limits.unpacked), limits)
        root = parts.root
        dialect = limits.dialect or declared_dialect(root)
        is_odd = (
            not parts.ranges or dialect in OWN_READERS or not_a_registry(root) is not None or wrong_collection(root) is not None
        )
        if is_odd or len(parts.root_text) > _LARGEST_ROOT:
            return sha256, False, None, None
        parts.redact()
        own = parts.root_reading(dialect or NORMAL).registryid
    except Exception:  # whatever it is, the task that reads the document alone reports it
        return sha256, False, None, None
    registry = source.registry or own or DEFAULT_REGISTRY
    if id_problem(registry):
        return sha256, False, None, None
    again = sha256 == source.last_sha256 and not source.last_clean
    version = root.get("specversion")
    specversion = version if isinstance(version, str) else None
    ranges = [(part.collection, part.start, part.end) for part in parts.ranges]
    made = Outline(source.size, sha256, source.registry is None, registry, again, dialect, specversion, ranges)
    return sha256, again, made, parts.root_text


def part_parser(limits: ParseLimits) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that reads parts: batches of parts to batches of the stage.

    The row of a document has of one part: what `part_summer` adds up; `failed`, and no other rows, when it could not be read.
    """

    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        find = cache(_finder(limits))
        for batch in batches:
            for row in batch.to_pylist():
                uri, outline = row["document_uri"], Outline(*json.loads(row["outline"]))
                stage = StageBatches()
                try:
                    with without_collector():
                        _add_part(stage, uri, outline, row, limits, find(uri))
                    made = list(stage.batches())
                except Exception:  # the task that reads the document alone reports it
                    failed = StageBatches()
                    failed.add_facts(uri, outline.registry, {"failed": True})
                    made = list(failed.batches())
                yield from made

    return parse


_Find = Callable[[Xid], "dict[str, Any] | None"]


def _finder(limits: ParseLimits) -> Callable[[str], _Find]:
    """Return a function from a document's URI to the finder of its messages; it reads the document at the first look-up."""

    def finder(uri: str) -> _Find:
        location = limits.located.get(uri, uri)

        @cache
        def parts() -> Parts:
            return Parts.cut(lambda: open_document(location, None, limits.unpacked), limits)

        return lambda xid: parts().find_message(xid)

    return finder


def _add_part(stage: StageBatches, uri: str, outline: Outline, row: dict[str, Any], limits: ParseLimits, find: _Find) -> None:
    """Read a part, the root or some groups, into rows."""
    location = limits.located.get(uri, uri)
    whole = Whole(find)
    facts: dict[str, Any] = {}
    dialect, marks = outline.dialect or NORMAL, set[str]()
    if row["root"] is not None:
        parts = Parts(lambda: open_document(location, None, limits.unpacked), limits, row["root"], [])
        marks = marks_of(parts.root)
        parts.redact()
        readings = list(parts.readings(dialect, whole))
        facts = {name: getattr(outline, name) for name in ("size", "sha256", "own_registry", "dialect", "specversion")}
        facts["root"] = readings[0].root
    else:
        part = Range(*json.loads(row["range"]))
        with closing(open_document(location, None, limits.unpacked, at=part.start)) as stream:
            ((_, text),) = read_ranges(stream, [part], part.start)
        readings = [read_part(text, dialect, whole, limits.depth)]
    total = Reading(marks=marks)
    findings = set()
    for reading in readings:
        stage.add_entities(uri, outline.registry, reading.rows, again=outline.again, draft=False)
        findings |= {stage.add_finding(uri, outline.registry, finding) for finding in reading.findings}
        total.add_counts(reading)
    counted = {name: getattr(total, name) for name in _COUNTED}
    groups = {collection: list(ids) for collection, ids in whole.groups.items()}
    details = {"findings": sorted(findings), "groups": groups, "marks": sorted(total.marks)}
    stage.add_facts(uri, outline.registry, facts | counted | details)


def part_summer(limits: ParseLimits) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function that sums up the parts of documents: rows of parts to a row for each document.

    A document that must be read again has a row that is none of a document: with the dialect as of which its parts must be read,
    and with none where one task must read all of it.
    """

    def close(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        details: dict[tuple[str, RegistryId], list[dict[str, Any]]] = {}
        for batch in batches:
            for row in batch.select(["document_uri", "registryid", "facts"]).to_pylist():
                details.setdefault((row["document_uri"], row["registryid"]), []).append(json.loads(row["facts"]))
        stage = StageBatches()
        for (uri, registry), parts in details.items():
            stage.add_facts(uri, registry, _added_up(parts, limits))
        for made in stage.batches():
            is_read = ["status" in json.loads(facts) for facts in made.column("facts").to_pylist()]
            rows = pa.array(["document" if is_document else "left" for is_document in is_read], pa.string())
            yield made.set_column(0, "row", rows)

    return close


def _added_up(parts: list[dict[str, Any]], limits: ParseLimits) -> dict[str, Any]:
    """Return the sum of a document's parts; only a dialect if they must be read in it, nothing if by one task."""
    facts: dict[str, Any] = {"status": "loaded"}
    counts = {name: Counter[str]() for name in _COUNTED}
    findings: set[str] = set()
    groups: set[tuple[str, str]] = set()
    marks: set[str] = set()
    for part in parts:
        own = {(collection, groupid) for collection, ids in part.pop("groups", {}).items() for groupid in ids}
        if part.get("failed") or not groups.isdisjoint(own):
            return {}
        groups |= own
        marks.update(part.pop("marks", ()))
        for name, count in counts.items():
            count.update(part.pop(name, {}))
        findings.update(part.pop("findings", ()))
        facts |= part
    if sum(counts["entities"].values()) + sum(counts["quarantined"].values()) > limits.entities:
        return {}
    if "dialect" not in facts:
        dialect = dialect_of({}, counts["spellings"], marks)
        if has_own_rules(dialect):
            return {"dialect": dialect}
        facts["dialect"] = dialect
    return facts | counts | {"findings": sorted(findings)}
