"""Rows of the stage while they are collected on an executor, and their way into Arrow, column by column."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from operator import itemgetter
from typing import Any, TypeVar

import orjson
import pyarrow as pa

from lakehouse.ingest.parse.readings import NormalRow
from lakehouse.store.schema import STAGE, arrow_schema_of
from lakehouse.text.names import RegistryId
from lakehouse.text.problems import Finding, violation_id

# A batch ends by what comes first. A text column of Arrow holds 2 GiB at most, and Spark's own memory less.
BATCH_ROWS = 20_000
BATCH_BYTES = 32 << 20


_Row = TypeVar("_Row")


class NotWritable(Exception):
    """A row cannot be written as Arrow, for the reason in `cause`."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class StageBatches:
    """The columns of the stage while they grow: those of one document, or of several."""

    def __init__(self) -> None:
        self.schema = _schema()
        self.spools: list[_Spool] = []
        self.clear()

    def clear(self) -> None:
        """Remove all rows."""
        for spool in self.spools:
            spool.close()
        self.spools = []
        self._clear_memory()

    def _clear_memory(self) -> None:
        self.documents: list[tuple[str, str, str]] = []  # uri, registry, facts
        self.entities: list[tuple[str, bool, bool, str, NormalRow]] = []
        self.findings: list[tuple[str, str, str, Finding]] = []
        self.bytes = 0

    @property
    def is_full(self) -> bool:
        """Return whether there are enough rows for a batch."""
        return len(self.entities) + len(self.findings) + len(self.documents) >= BATCH_ROWS or self.bytes >= BATCH_BYTES

    def extend(self, other: StageBatches) -> None:
        """Add the rows of another one, which keeps them."""
        self.documents += other.documents
        self.entities += other.entities
        self.findings += other.findings
        self.bytes += other.bytes
        self.spools += other.spools

    def add_entities(self, uri: str, registry: RegistryId, rows: Iterable[NormalRow], *, again: bool, draft: bool) -> None:
        """Add rows of entities."""
        for row in rows:
            self.entities.append((uri, again, draft, registry, row))
            self.bytes += _size(row)

    def add_facts(self, uri: str, registry: RegistryId, facts: dict[str, Any]) -> None:
        """Add the row of a document; what is empty is left out."""
        present = {key: value for key, value in facts.items() if value not in (None, {}, [])}
        plain = {key: dict(value) if isinstance(value, Counter) else value for key, value in present.items()}
        self.documents.append((uri, registry, orjson.dumps(plain, option=orjson.OPT_SORT_KEYS).decode()))

    def add_finding(self, uri: str, registry: RegistryId, finding: Finding) -> str:
        """Add a finding, and give its id: the same in every run."""
        name = violation_id(registry, uri, finding.rule_id, finding.xid, finding.pointer, finding.message, finding.action)
        self.findings.append((uri, registry, name, finding))
        self.bytes += _length(finding)
        return name

    def spill_when_full(self) -> None:
        """Write the rows to the executor's disk once there are many: whether they count is known when all are there."""
        if self.is_full:
            self.spools = self.spools or [_Spool(self.schema)]
            self.spools[0].add(self._built())
            self._clear_memory()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow, once.

        Raises:
            NotWritable: one of them cannot be written; none was given.
        """
        try:
            rest = list(self._built())
        except Exception as error:
            raise NotWritable(error) from error
        for spool in self.spools:
            yield from spool.batches()
        yield from rest

    def _built(self) -> Iterator[pa.RecordBatch]:
        is_small = self.bytes < BATCH_BYTES
        for entities in cut_batches(self.entities, lambda row: 0 if is_small else _size(row[4])):
            yield self._entity_batch(entities)
        for findings in cut_batches(self.findings, lambda row: 0 if is_small else _length(row[3])):
            yield self._finding_batch(findings)
        for documents in cut_batches(self.documents, lambda row: len(row[2])):
            yield self._document_batch(documents)

    def _entity_batch(self, entities: list[tuple[str, bool, bool, str, NormalRow]]) -> pa.RecordBatch:
        uris, again, draft, registries, rows = zip(*entities, strict=True)
        kind, xid, content_hash, epoch, createdat, modifiedat, body, raw, attributes, *about_default = zip(*rows, strict=True)
        isdefault, twin_hash, defaultversionid = about_default
        return self._batch(
            len(rows),
            {
                "row": ["entity"] * len(rows),
                "document_uri": uris,
                "again": again,
                "draft": draft,
                "registryid": registries,
                "kind": kind,
                "xid": xid,
                "content_hash": content_hash,
                "epoch": epoch,
                "createdat": createdat,
                "modifiedat": modifiedat,
                "body": body,
                "raw": raw,
                "attributes": map_column(attributes),
                "isdefault": isdefault,
                "twin_hash": twin_hash,
                "defaultversionid": defaultversionid,
            },
        )

    def _finding_batch(self, details: list[tuple[str, str, str, Finding]]) -> pa.RecordBatch:
        uris, registries, ids, findings = zip(*details, strict=True)
        kind, xid, pointer, rule_id, severity, action, message, hint, raw = zip(*findings, strict=True)
        members = {
            "violation_id": ids,
            "pointer": pointer,
            "rule_id": rule_id,
            "severity": severity,
            "action": action,
            "message": message,
            "hint": hint,
            "raw": raw,
        }
        struct = self.schema.field("finding").type
        return self._batch(
            len(findings),
            {
                "row": ["finding"] * len(findings),
                "document_uri": uris,
                "registryid": registries,
                "kind": kind,
                "xid": [text or None for text in xid],
                "finding": pa.StructArray.from_arrays(
                    [pa.array(members[field.name], field.type) for field in struct], fields=list(struct)
                ),
            },
        )

    def _document_batch(self, documents: list[tuple[str, str, str]]) -> pa.RecordBatch:
        uris, registries, facts = zip(*documents, strict=True)
        return self._batch(
            len(uris),
            {
                "row": ["document"] * len(uris),
                "document_uri": uris,
                "registryid": registries,
                "kind": ["document"] * len(uris),
                "xid": uris,
                "facts": facts,
            },
        )

    def _batch(self, count: int, columns: dict[str, Any]) -> pa.RecordBatch:
        return record_batch(self.schema, count, columns)


class _Spool:
    """Batches on the disk of an executor, until they are read or thrown away."""

    def __init__(self, schema: pa.Schema) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  `close` closes it
        self.writer = pa.ipc.new_stream(self.file, schema)

    def add(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self.writer.write_batch(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read them, once."""
        try:
            self.writer.close()
            self.file.seek(0)
            yield from pa.ipc.open_stream(self.file)
        finally:
            self.close()

    def close(self) -> None:
        self.file.close()


@cache
def _schema() -> pa.Schema:
    return arrow_schema_of(STAGE)


def record_batch(schema: pa.Schema, count: int, columns: Mapping[str, Any]) -> pa.RecordBatch:
    """Build a batch of so many rows from columns by name, arrays or lists of values; what is not named is NULL."""
    arrays = []
    for field in schema:
        values = columns.get(field.name)
        if values is None:
            arrays.append(pa.nulls(count, field.type))
        elif isinstance(values, pa.Array):
            arrays.append(values)
        elif pa.types.is_timestamp(field.type):
            arrays.append(pa.array(values, pa.int64()).cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _size(row: NormalRow) -> int:
    """Return the approximate size of the texts of a row, in bytes."""
    return len(row.body) + len(row.raw or "") + sum(map(len, chain.from_iterable(row.attributes or ())))


def _length(finding: Finding) -> int:
    return len(finding.raw or "") + len(finding.message)


def cut_batches(rows: list[_Row], size: Callable[[_Row], int]) -> Iterator[list[_Row]]:
    """Cut rows into batches that Arrow holds, by their size in bytes; one holds a row at least, however long."""
    batch: list[_Row] = []
    total = 0
    for row in rows:
        own = size(row)
        if batch and (len(batch) >= BATCH_ROWS or total + own > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += own
    if batch:
        yield batch


def map_column(rows: Iterable[list[tuple[str, str]] | None]) -> pa.Array:
    """Build a column of maps from texts to texts from lists of pairs: keys and values in one run each."""
    lists = list(rows)
    offsets: list[int | None] = []
    count = 0
    for pairs in lists:
        offsets.append(None if pairs is None else count)
        count += len(pairs or ())
    offsets.append(count)
    run = list(chain.from_iterable(filter(None, lists)))
    keys, values = pa.array(list(map(_FIRST, run)), pa.string()), pa.array(list(map(_SECOND, run)), pa.string())
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, values)


_FIRST, _SECOND = itemgetter(0), itemgetter(1)
