"""Rows of the stage while they are collected on an executor, and their way into Arrow, column by column."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from lakehouse.findings import Finding, violation_id
from lakehouse.model import STAGE
from lakehouse.rows import Row


class StageBatches:
    """The columns of the stage while they grow."""

    def __init__(self) -> None:
        self.schema = to_arrow_schema(STAGE, timezone="UTC")
        self.clear()

    def clear(self) -> None:
        """Forget all rows."""
        self.documents: list[tuple[str, str, str]] = []  # uri, registry, facts
        self.entities: list[tuple[str, bool, bool, str, Row]] = []
        self.findings: list[tuple[str, str, str, Finding]] = []

    def __len__(self) -> int:
        return len(self.entities) + len(self.findings) + len(self.documents)

    def add_entities(self, uri: str, registry: str, rows: Iterable[Row], *, again: bool, draft: bool) -> None:
        """Add rows of entities."""
        self.entities.extend((uri, again, draft, registry, row) for row in rows)

    def add_facts(self, uri: str, registry: str, facts: dict[str, Any]) -> None:
        """Add the row of a document; what is empty is left out."""
        kept = {key: value for key, value in facts.items() if value not in (None, {}, [])}
        plain = {key: dict(value) if isinstance(value, Counter) else value for key, value in kept.items()}
        self.documents.append((uri, registry, orjson.dumps(plain, option=orjson.OPT_SORT_KEYS).decode()))

    def add_finding(self, uri: str, registry: str, finding: Finding) -> str:
        """Add a finding, and give its id: the same in every run."""
        name = violation_id(registry, uri, finding.rule_id, finding.xid, finding.pointer, finding.message)
        self.findings.append((uri, registry, name, finding))
        return name

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
                "attributes": _maps(attributes),
                "isdefault": isdefault,
                "twin_hash": twin_hash,
                "defaultversionid": defaultversionid,
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
