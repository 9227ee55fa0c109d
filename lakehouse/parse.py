"""Documents become stage rows: the one place where rows are made in Python, on the executors, column by column.

Grain of the stage: one row per entity, per finding, and per document (its facts). Messages never leave as Python objects.
"""

from __future__ import annotations

import hashlib
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.catalogdraft import read_draft
from lakehouse.detection import DRAFT, dialect_of, not_a_registry, told_dialect
from lakehouse.dialects import table
from lakehouse.findings import LIMIT, NOT_JSON, STRICT, Finding, Problem
from lakehouse.jsontext import NotJson
from lakehouse.model import STAGE
from lakehouse.normalform import Reading, Row, read_document
from lakehouse.redact import redact, redact_text
from lakehouse.settings import Settings
from lakehouse.texts import read_text
from lakehouse.xid import id_problem

DEFAULT_REGISTRY = "default"
_RAW_OF_DOCUMENT = 4096
_ROWS_PER_BATCH = 20_000
_CHUNK = 1 << 20
_ERRORS_TOLD = 20


class Limits(NamedTuple):
    """What holds for all documents: limits, whether an error refuses a document whole, the dialect when it is not detected.

    The limits are on bytes as stored, bytes out of a `.gz`, nesting, entities.
    """

    bytes: int
    unpacked: int
    depth: int
    entities: int
    strict: bool
    dialect: str | None = None


class _Rejected(Exception):
    """A document is refused whole: the rule, what is wrong, how to mend it."""

    def __init__(self, rule_id: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.rule_id = rule_id
        self.message = message
        self.hint = hint


def parse_documents(documents: DataFrame, settings: Settings, *, strict: bool = False, dialect: str | None = None) -> DataFrame:
    """Parse documents.

    Args:
        documents: one row per document: document_uri, size, sha256, registry (NULL: the document's own), unchanged, again,
            content.
        settings: its limits.
        strict: a document with any error is rejected.
        dialect: read all documents as of this dialect; None detects each one's.

    Returns:
        The stage, columns `model.STAGE`. An unchanged document gives a document row only, with the status `unchanged`.
    """
    limits = Limits(
        settings.max_document_bytes, settings.max_unpacked_bytes, settings.max_json_depth, settings.max_entities, strict, dialect
    )
    return documents.select(*_Source._fields).mapInArrow(_parser(limits), STAGE)


def _parser(limits: Limits) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def parse(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        stage = _Stage()
        for batch in batches:
            for index in range(batch.num_rows):
                stage.add_document(_Source(*(column[index].as_py() for column in batch.columns)), limits)
                if len(stage) >= _ROWS_PER_BATCH:
                    yield from stage.batches()
        yield from stage.batches()

    return parse


class _Source(NamedTuple):
    document_uri: str
    size: int
    sha256: str
    registry: str | None
    unchanged: bool
    again: bool
    content: bytes | None


class _Stage:
    """The columns of the stage while they grow."""

    def __init__(self) -> None:
        self.schema = to_arrow_schema(STAGE, timezone="UTC")
        self.clear()

    def clear(self) -> None:
        self.documents: list[tuple[str, str, str]] = []  # uri, registry, facts
        self.entities: list[tuple[str, bool, bool, str, Row]] = []
        self.findings: list[tuple[str, str, str, Finding]] = []

    def __len__(self) -> int:
        return len(self.entities) + len(self.findings) + len(self.documents)

    def add_document(self, source: _Source, limits: Limits) -> None:
        """Parse one document and add its rows."""
        facts: dict[str, Any] = {"sha256": source.sha256, "size": source.size, "own_registry": source.registry is None}
        registry = source.registry or DEFAULT_REGISTRY
        if source.unchanged:
            self._add_facts(source, registry, facts | {"status": "unchanged"})
            return
        content = source.content or b""
        try:
            text = _plain_text(source, limits)
            content = text
            document, problems = read_text(text, source.document_uri, limits.depth)
            reason = not_a_registry(document)
            if reason is not None and not (limits.dialect in _READERS and isinstance(document, dict | list)):
                self._add_facts(source, registry, facts | {"status": "skipped", "reason": reason})
                return
            problems += redact(document)
            dialect, reading = read_as(document, problems, source.document_uri, limits.dialect)
            registry = source.registry or reading.registryid or DEFAULT_REGISTRY
            _refuse_whole(reading, limits)
            if source.registry is None and (wrong := id_problem(registry)):
                raise _Rejected("MSG-002", f"registryid: {wrong}", "Mend it, or choose a registry with --registry.")
        except NotJson as error:
            rule = LIMIT if "max_json_depth" in str(error) else NOT_JSON
            self._reject(
                source, registry, facts, content, _Rejected(rule, str(error), "Mend the document; nothing of it was loaded.")
            )
        except _Rejected as rejected:
            self._reject(source, registry, facts, content, rejected)
        else:
            self._add_reading(source, registry, facts | {"dialect": dialect}, document, reading)

    def _add_reading(self, source: _Source, registry: str, facts: dict[str, Any], document: Any, reading: Reading) -> None:
        uri = source.document_uri
        is_draft = facts["dialect"] == DRAFT
        self.entities.extend((uri, source.again, is_draft, registry, row) for row in reading.rows)
        ids = [self._add_finding(source, registry, finding) for finding in reading.findings]
        specversion = document.get("specversion") if isinstance(document, dict) else None
        self._add_facts(
            source,
            registry,
            facts
            | {
                "status": "loaded",
                "specversion": specversion if isinstance(specversion, str) else None,
                "entities": reading.entities,
                "quarantined": reading.quarantined,
                "spellings": reading.spellings,
                "root": reading.root,
                "findings": sorted(set(ids)),
            },
        )

    def _reject(self, source: _Source, registry: str, facts: dict[str, Any], content: bytes, why: _Rejected) -> None:
        raw = redact_text(content[:_RAW_OF_DOCUMENT]).decode("utf-8", errors="replace")
        finding = Finding("", "", "", why.rule_id, "error", "quarantined", why.message, why.hint, raw)
        ids = [self._add_finding(source, registry, finding)]
        self._add_facts(source, registry, facts | {"status": "rejected", "reason": why.message, "findings": ids})

    def _add_facts(self, source: _Source, registry: str, facts: dict[str, Any]) -> None:
        kept = {key: value for key, value in facts.items() if value not in (None, {}, [])}
        plain = {key: dict(value) if isinstance(value, Counter) else value for key, value in kept.items()}
        self.documents.append((source.document_uri, registry, orjson.dumps(plain, option=orjson.OPT_SORT_KEYS).decode()))

    def _add_finding(self, source: _Source, registry: str, finding: Finding) -> str:
        identity = (registry, source.document_uri, finding.rule_id, finding.xid, finding.pointer, finding.message)
        violation_id = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:32]
        self.findings.append((source.document_uri, registry, violation_id, finding))
        return violation_id

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Give the rows as Arrow, and start over."""
        for build in (self._entity_batch, self._finding_batch, self._document_batch):
            batch = build()
            if batch is not None:
                yield batch
        self.clear()

    def _entity_batch(self) -> pa.RecordBatch | None:
        if not self.entities:
            return None
        uris, again, draft, registries, rows = zip(*self.entities, strict=True)
        kind, xid, content_hash, epoch, createdat, modifiedat, body, raw, attributes = zip(*rows, strict=True)
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
                "attributes": _maps(attributes),
            },
        )

    def _finding_batch(self) -> pa.RecordBatch | None:
        if not self.findings:
            return None
        uris, registries, ids, findings = zip(*self.findings, strict=True)
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
                "xid": [one or None for one in xid],
                "finding": pa.StructArray.from_arrays(
                    [pa.array(members[field.name], field.type) for field in struct], fields=list(struct)
                ),
            },
        )

    def _document_batch(self) -> pa.RecordBatch | None:
        if not self.documents:
            return None
        uris, registries, facts = zip(*self.documents, strict=True)
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
        arrays = []
        for field in self.schema:
            values = columns.get(field.name)
            if values is None:
                arrays.append(pa.nulls(count, field.type))
            elif isinstance(values, pa.Array):
                arrays.append(values)
            elif pa.types.is_timestamp(field.type):
                arrays.append(pa.array(values, pa.int64()).cast(field.type))
            else:
                arrays.append(pa.array(values, field.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


# Dialects that do not name things as xRegistry does have a reader of their own.
_READERS = {DRAFT: read_draft}


def read_as(document: Any, problems: list[Problem], uri: str, dialect: str | None) -> tuple[str, Reading]:
    """Read a document in its dialect.

    Args:
        document: the value of its text, for which `not_a_registry` gave None.
        problems: what was found in the text.
        uri: of the document.
        dialect: as which it is to be read; None: as the one that it tells, or that its spellings tell.

    Returns:
        The dialect, and what came out.
    """
    told = dialect or told_dialect(document)
    if told in _READERS:
        return told, _READERS[told](document, problems, uri)
    reading = read_document(document, problems, told or "")
    if told is None:
        told = dialect_of(document, reading.spellings)
        if any(row["dialect"] == told for name in ("dialect_types", "dialect_rules") for row in table(name)):
            reading = read_document(document, problems, told)  # again, now that its own rules are known
    return told, reading


def _maps(rows: Iterable[list[tuple[str, str]] | None]) -> pa.Array:
    """Build a map column from lists of pairs: keys and values in one run each."""
    offsets: list[int | None] = []
    keys: list[str] = []
    values: list[str] = []
    for pairs in rows:
        offsets.append(None if pairs is None else len(keys))
        for key, value in pairs or ():
            keys.append(key)
            values.append(value)
    return pa.MapArray.from_arrays(
        pa.array([*offsets, len(keys)], pa.int32()), pa.array(keys, pa.string()), pa.array(values, pa.string())
    )


def _refuse_whole(reading: Reading, limits: Limits) -> None:
    """Refuse a document with too many entities, or under `strict` one with an error."""
    count = sum(reading.entities.values()) + sum(reading.quarantined.values())
    if count > limits.entities:
        raise _Rejected(LIMIT, f"{count} entities, more than max_entities ({limits.entities})", "Split it, or raise the limit.")
    errors = [finding for finding in reading.findings if finding.severity == "error"]
    if limits.strict and errors:
        told = "; ".join(f"{finding.pointer}: {finding.rule_id}: {finding.message}" for finding in errors[:_ERRORS_TOLD])
        raise _Rejected(STRICT, f"{len(errors)} errors under --strict: {told}", "Mend them, or load the rest without --strict.")


def _plain_text(source: _Source, limits: Limits) -> bytes:
    """Give the document's text, unpacked when it is a `.gz`.

    Raises:
        _Rejected: it is larger than allowed, as stored or unpacked, or no gzip file.
    """
    if source.size > limits.bytes or source.content is None:
        raise _Rejected(
            LIMIT, f"{source.size} bytes, more than max_document_bytes ({limits.bytes})", "Split it, or raise the limit."
        )
    if not source.document_uri.endswith(".gz"):
        return source.content
    parts, length = [], 0
    rest = source.content
    try:
        while rest:
            unpack = zlib.decompressobj(wbits=31)
            while not unpack.eof:
                part = unpack.decompress(rest, _CHUNK)
                rest = unpack.unconsumed_tail
                length += len(part)
                if length > limits.unpacked:
                    raise _Rejected(
                        LIMIT, f"unpacks to more than max_unpacked_bytes ({limits.unpacked})", "Split it, or raise the limit."
                    )
                parts.append(part)
                if not part and not rest:
                    break
            if not unpack.eof:
                raise _Rejected(NOT_JSON, "the gzip file ends too early", "Pack the document again.")
            rest = unpack.unused_data
    except zlib.error as error:
        raise _Rejected(NOT_JSON, f"no gzip file: {error}", "Pack the document again, or drop .gz from its name.") from error
    return b"".join(parts)
