"""The Delta tables of a catalog of generated messages, in the shape that an ingest gives them, written without Spark."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import CommitProperties, write_deltalake

from lakehouse.readmodel.file.sqliteschema import EFFECTIVE_COLUMNS, VIOLATION_COLUMNS
from tests.bench.generator import Json, Shape, make_documents

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of tests import each other from there

from match.catalogs import chain_of, row_of
from oracle import flatten
from sitecatalogs import effective_row
from warehouses import _VIOLATIONS, CHANGES, Written, definitions_as_table

REGISTRY = "default"
_COMMITS = ds.field("kind") == "snapshot"
_ROWS = 10_000  # of a batch
_FILE_BYTES = 64 << 20
_BEFORE = 10_000  # messages that are remembered as bases: a chain does not reach further back


class Generated(Written):
    """A warehouse with the messages of a shape: one document of 1,000 after another, all in one registry.

    Attributes:
        shape: what is generated.
    """

    def __init__(self, folder: Path, shape: Shape) -> None:
        super().__init__(folder, shape.seed)
        self.shape = replace(shape, documents=max(1, shape.messages // 1000))

    def load(self) -> None:
        """Commit everything as snapshot 1, and bring `effective_messages` there; or go on where an earlier run left off."""
        log = self.table("changes").to_pyarrow_dataset()
        commits = log.to_table(["snapshot_id", "body"], _COMMITS).to_pylist()
        if commits:
            newest = max(commits, key=lambda row: row["snapshot_id"])
            self.head, self.digest = newest["snapshot_id"], json.loads(newest["body"])["digest"]
            return
        self.head = 1
        self.last = {"messages": self.head, "versions": self.head}
        documents = list(uris_of(self.shape.documents))
        self._write("violations", ([self._finding(uri)] for uri in documents), _VIOLATIONS, None)
        rows = (self._of_document(uri, one) for uri, one in zip(documents, make_documents(self.shape), strict=True))
        self._write("changes", self._with_snapshot(rows), CHANGES, {"command": "ingest"})
        self._project(make_documents(self.shape), documents)

    def touch(self, messages: int) -> None:
        """Commit a snapshot in which the first messages of the first document have another description."""
        self.head += 1
        self.last = {"messages": self.head, "versions": self.head}
        uri, document = self._touched(messages)
        rows = [row | {"op": "update"} for row in self._of_document(uri, document) if row["kind"] in ("version", "document")]
        self._write("changes", self._with_snapshot([rows]), CHANGES, {"command": "ingest"})

    def project_touched(self, messages: int) -> None:
        """Bring `effective_messages` to the head after a `touch`, with one MERGE, which rewrites files as Spark's does."""
        uri, document = self._touched(messages)
        rows = definitions_as_table(self._definitions([document], [uri]))
        reported = _reported({"snapshot_id": self.head, "job": "project"})
        merger = self.table("effective_messages").merge(
            rows, "target.xid = source.xid", source_alias="source", target_alias="target", commit_properties=reported
        )
        merger.when_matched_update({name: f"source.{name}" for name in EFFECTIVE_COLUMNS}).execute()
        self.projected = self.head

    def label(self, name: str, snapshot_id: int) -> None:
        """Commit a label."""
        self.head += 1
        row = self.row("label", name, "insert", {"snapshot_id": snapshot_id}) | {"registryid": ""}
        self._write("changes", self._with_snapshot([[row]]), CHANGES, {"command": "label"})

    def first_message(self) -> str:
        """Return the XID of the first message."""
        groups = next(make_documents(self.shape))["messagegroups"]
        return next(f"/messagegroups/{groupid}/messages/{one}" for groupid, group in groups.items() for one in group["messages"])

    def _touched(self, messages: int) -> tuple[str, Json]:
        uri, document = next(uris_of(1)), next(make_documents(self.shape))
        left = messages
        for group in document["messagegroups"].values():
            group["messages"] = dict(islice(group["messages"].items(), left))
            left -= len(group["messages"])
            for message in group["messages"].values():
                message["description"] = f"As of snapshot {self.head}"
        return uri, document

    def _write(self, name: str, parts: Iterable[list[Json]], schema: pa.Schema, reported: Json | None) -> None:
        """Append rows in one commit, of which few are in memory at once."""
        batches = (pa.RecordBatch.from_pylist(some, schema) for some in _again(parts, _ROWS))
        properties = None if reported is None else _reported({"snapshot_id": self.head, "ingest_id": f"i{self.head}"} | reported)
        reader = pa.RecordBatchReader.from_batches(schema, batches)
        write_deltalake(self.table(name), reader, mode="append", target_file_size=_FILE_BYTES, commit_properties=properties)

    def _project(self, documents: Iterable[Json], uris: list[str]) -> None:
        rows = self._definitions(documents, uris)
        tables = (definitions_as_table(some) for some in _again(([row] for row in rows), _ROWS))
        batches = (batch for table in tables for batch in table.to_batches())
        reader = pa.RecordBatchReader.from_batches(definitions_as_table([]).schema, batches)
        reported = _reported({"snapshot_id": self.head, "job": "project"})
        table = self.table("effective_messages")
        write_deltalake(table, reader, mode="append", target_file_size=_FILE_BYTES, commit_properties=reported)
        self.projected = self.head

    def _of_document(self, uri: str, document: Json) -> list[Json]:
        """Return the rows of the log for a document."""
        is_first = self.head == 1 and uri == next(uris_of(1))
        rows = [self._row("registry", "/", uri, {"specversion": "1.0-rc2"})] if is_first else []
        for collection, members in (("endpoints", document["endpoints"]), ("messagegroups", document["messagegroups"])):
            for groupid, group in members.items():
                xid = f"/{collection}/{groupid}"
                own = {name: value for name, value in group.items() if name != "messages"}
                rows.append(self._row("endpoint" if collection == "endpoints" else "group", xid, uri, own))
                for messageid, message in group.get("messages", {}).items():
                    inner, raw = f"{xid}/messages/{messageid}", {"messageid": messageid} | message
                    rows.append(self._row("message", inner, uri, {"defaultversionid": "1"}))
                    body = {"ancestor": "1", "isdefault": True} | message
                    rows.append(self._row("version", f"{inner}/versions/1", uri, body) | {"raw": json.dumps(raw)})
                    rows[-1]["attributes"] = list(row_of(REGISTRY, inner, "none", message)["attributes"].items())
        facts = {"status": "loaded", "dialect": "1.0-rc2", "findings": [f"v{self.head}.{uri}"]}
        return [*rows, self._row("document", uri, uri, facts)]

    def _with_snapshot(self, parts: Iterable[list[Json]]) -> Iterator[list[Json]]:
        yield from parts
        yield [self.snapshot()]

    def _row(self, kind: str, xid: str, uri: str, body: Json) -> Json:
        row = self.row(kind, xid, "insert", body)
        digest = hashlib.sha256(row["body"].encode()).hexdigest()
        return row | {"registryid": REGISTRY, "document_uris": [uri] if kind != "document" else [], "content_hash": digest}

    def _definitions(self, documents: Iterable[Json], uris: list[str]) -> Iterator[Json]:
        known: OrderedDict[str, Json] = OrderedDict()
        for uri, document in zip(uris, documents, strict=False):
            for groupid, group in document["messagegroups"].items():
                for messageid, message in group["messages"].items():
                    xid = f"/messagegroups/{groupid}/messages/{messageid}"
                    known[xid] = {"default": "1", "versions": {"1": message}}
                    row = row_of(REGISTRY, xid, *flatten(known, xid), chain_of(known, xid))
                    yield effective_row(row, "1", uri, self.head)
                    if len(known) > _BEFORE:
                        known.popitem(last=False)

    def _finding(self, uri: str) -> Json:
        reported = dict.fromkeys(VIOLATION_COLUMNS, "x") | {"violation_id": f"v{self.head}.{uri}", "severity": "info"}
        reported |= {"rule_id": "DOC-005", "document_uri": uri, "registryid": REGISTRY, "ingest_id": f"i{self.head}", "xid": None}
        return reported | {"found_at": self.row("", "", "", None)["createdat"]}


def uris_of(documents: int) -> Iterator[str]:
    """Name documents."""
    return (f"file:/bench/document-{number:06d}.xreg.json" for number in range(documents))


def _reported(reported: Json) -> CommitProperties:
    return CommitProperties(custom_metadata={"userMetadata": json.dumps(reported)})


def _again(parts: Iterable[list[Any]], size: int) -> Iterator[list[Any]]:
    """Return the same rows in lists of another length."""
    rows = (row for part in parts for row in part)
    while some := list(islice(rows, size)):
        yield some
