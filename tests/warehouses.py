"""Warehouses that tests write themselves, with deltalake and without Spark: a random history of a small catalog.

The definitions in `effective_messages` are not flattened ones, only rows that change when their message does: what is tested is
how they are followed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.readmodel.file.sqliteschema import BOOLEAN_COLUMNS, EFFECTIVE_COLUMNS, VIOLATION_COLUMNS

_TIME = pa.timestamp("us", tz="UTC")
CHANGES = pa.schema(
    [
        ("snapshot_id", pa.int64()),
        *((name, pa.string()) for name in ("registryid", "kind", "xid", "op", "content_hash")),
        ("epoch", pa.int64()),
        ("createdat", _TIME),
        ("modifiedat", _TIME),
        ("document_uris", pa.list_(pa.string())),
        ("body", pa.string()),
        ("raw", pa.string()),
        ("attributes", pa.map_(pa.string(), pa.string())),
    ]
)
_VIOLATIONS = pa.schema([(name, _TIME if name == "found_at" else pa.string()) for name in VIOLATION_COLUMNS])
START = datetime(2026, 1, 1, tzinfo=timezone.utc)
_DOCUMENT = "file:/d/a.json"


def definitions_as_table(definitions: Iterable[dict[str, Any]]) -> pa.Table:
    """Return rows of `effective_messages` as an Arrow table: maps as map<string, string>, lists as list<string>."""
    kinds = {name: pa.string() for name in EFFECTIVE_COLUMNS}
    kinds |= {name: pa.map_(pa.string(), pa.string()) for name in ("labels", "attributes", "inferred")}
    kinds |= {name: pa.list_(pa.string()) for name in ("document_uris", "depends_on")}
    kinds |= {name: pa.bool_() for name in BOOLEAN_COLUMNS} | {"chain_depth": pa.int32(), "snapshot_id": pa.int64()}
    rows = list(definitions)
    columns = {name: [_pairs(row[name]) for row in rows] for name in EFFECTIVE_COLUMNS}
    return pa.Table.from_pydict(columns, schema=pa.schema(list(kinds.items())))


def _pairs(value: Any) -> Any:
    return list(value.items()) if isinstance(value, dict) else value


class Written:
    """A warehouse with a catalog that changes at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.head, self.digest, self.found = 0, "", 0
        self.present: dict[str, dict[str, Any]] = {}  # bodies of messages by XID
        self.last = {"messages": 0, "versions": 0}
        self.projected = 0
        for name, schema in (
            ("changes", CHANGES),
            ("effective_messages", definitions_as_table([]).schema),
            ("violations", _VIOLATIONS),
        ):
            DeltaTable.create(str(folder / name), schema, mode="ignore")

    def table(self, name: str) -> DeltaTable:
        return DeltaTable(str(self.folder / name))

    def commit(self, label: str | None = None, *, prune: bool = False) -> int:
        """Commit a snapshot in which some messages come, change and go."""
        self.head += 1
        rows = [self.row("group", f"/messagegroups/g{n}", "insert", {"name": f"g{n}"}) for n in range(3) if self.head == 1]
        for _ in range(self.random.randint(0, 6)):
            rows += self._change(prune)
        unique = list({row["xid"]: row for row in rows}.values())
        if any(row["kind"] == "message" for row in unique):
            self.last |= {"messages": self.head, "versions": self.head}
        self.found += 1
        facts = {"status": "loaded", "findings": [f"v{n}" for n in range(self.found)]}
        unique.append(self.row("document", _DOCUMENT, "insert" if self.head == 1 else "update", facts))
        if label:
            unique.append(self.row("label", label, "insert", {"snapshot_id": self.head}) | {"registryid": ""})
        self._find()
        unique.append(self.snapshot())
        reported = json.dumps({"snapshot_id": self.head, "ingest_id": f"i{self.head}", "command": "ingest"})
        self.append("changes", pa.Table.from_pylist(unique, CHANGES), reported)
        return self.head

    def project(self) -> None:
        """Bring `effective_messages` to the head, as a refresh does: one MERGE."""
        if self.last["messages"] <= self.projected:
            return
        changes = self.table("changes").to_pyarrow_table(columns=["snapshot_id", "kind", "xid"]).to_pylist()
        touched = {row["xid"] for row in changes if row["kind"] == "message" and row["snapshot_id"] > self.projected}
        rows = [self._definition(xid) for xid in sorted(touched)]
        gone = pa.array([row["xid"] not in self.present for row in rows])
        source = definitions_as_table(rows).append_column("gone", gone)
        reported = CommitProperties(custom_metadata={"userMetadata": json.dumps({"snapshot_id": self.head, "job": "project"})})
        values = {name: f"source.{name}" for name in EFFECTIVE_COLUMNS}
        merger = self.table("effective_messages").merge(
            source, "target.xid = source.xid", source_alias="source", target_alias="target", commit_properties=reported
        )
        merger = merger.when_matched_delete("source.gone").when_matched_update(values)
        merger.when_not_matched_insert(values, predicate="NOT source.gone").execute()
        self.projected = self.head

    def rebuild(self) -> None:
        """Rewrite `effective_messages`, as `lakehouse rebuild` does."""
        rows = [self._definition(xid) for xid in sorted(self.present)]
        reported = CommitProperties(custom_metadata={"userMetadata": json.dumps({"snapshot_id": self.head, "job": "rebuild"})})
        write_deltalake(
            self.table("effective_messages"), definitions_as_table(rows), mode="overwrite", commit_properties=reported
        )
        self.projected = self.head

    def maintain(self) -> None:
        """OPTIMIZE and VACUUM, so that no file of an older version is left."""
        for name in ("changes", "effective_messages", "violations"):
            table = self.table(name)
            table.optimize.compact()
            table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def checkpoint(self) -> None:
        """Let Delta's log of each table begin at a checkpoint."""
        for name in ("changes", "effective_messages", "violations"):
            self.table(name).create_checkpoint()

    def lose_tail(self) -> None:
        """Take the newest commit of `changes` away, as a broken disk does; Delta reads on one commit earlier."""
        log = self.folder / "changes" / "_delta_log"
        newest = max(path for path in log.glob("*.json"))
        newest.unlink()

    def _change(self, prune: bool) -> list[dict[str, Any]]:
        name = self.random.randrange(8)
        xid = f"/messagegroups/g{name % 3}/messages/m{name}"
        if xid in self.present and (prune or self.random.random() < 0.25):
            del self.present[xid]
            return [self.row(kind, one, "delete", None) for kind, one in (("message", xid), ("version", f"{xid}/versions/1"))]
        op = "update" if xid in self.present else "insert"
        if op == "update" and self.random.random() < 0.2:
            return [self.row("message", xid, "own", {"defaultversionid": "1"})]
        base = self.random.choice([None, "/messagegroups/g0/messages/m0", "#/messagegroups/g1/messages/m1", "https://x/y"])
        body = {"name": f"name {self.random.randrange(1000)}", "version_uri": f"urn:{name}:{self.random.randrange(3)}"}
        body |= {} if base is None else {"basemessage": base}
        body |= {"dataschemauri": "/schemagroups/s/schemas/t:Type"} if self.random.random() < 0.3 else {}
        self.present[xid] = body
        return [self.row("message", xid, op, {"defaultversionid": "1"}), self.row("version", f"{xid}/versions/1", op, body)]

    def row(self, kind: str, xid: str, op: str, body: Any) -> dict[str, Any]:
        now = START + timedelta(minutes=self.head)
        reported = {
            "snapshot_id": self.head,
            "registryid": "r",
            "kind": kind,
            "xid": xid,
            "op": op,
            "content_hash": "h",
            "epoch": self.head,
        }
        text = None if body is None else json.dumps(body, sort_keys=True)
        return reported | {"createdat": now, "modifiedat": now, "document_uris": [_DOCUMENT], "body": text, "raw": None}

    def snapshot(self) -> dict[str, Any]:
        previous, self.digest = self.digest, f"{self.random.getrandbits(64):x}"
        body = {
            "committed_at": (START + timedelta(minutes=self.head)).isoformat(),
            "command": "ingest",
            "ingest_id": f"i{self.head}",
            "committed_by": "somebody",
            "product_version": "0",
            "documents": {},
            "counts": {},
            "tables": {name: number for name, number in self.last.items() if number},
            "deletions": 0,
            "digest": self.digest,
            "previous_digest": previous,
        }
        return self.row("snapshot", "", "insert", body) | {"registryid": ""}

    def _find(self) -> None:
        """Append a finding, before the commit that names it."""
        row = dict.fromkeys(VIOLATION_COLUMNS, "x") | {
            "violation_id": f"v{self.found - 1}",
            "severity": "warning",
            "rule_id": "MSG-1",
        }
        self.find(f"v{self.found - 1}", row | {"document_uri": _DOCUMENT, "registryid": "r"})

    def find(self, violation_id: str, reported: dict[str, Any]) -> None:
        """Append a finding that says what is given."""
        row = dict.fromkeys(VIOLATION_COLUMNS, "x") | reported | {"violation_id": violation_id}
        row["found_at"] = START + timedelta(minutes=self.head)
        self.append("violations", pa.Table.from_pylist([row], _VIOLATIONS), None)

    def _definition(self, xid: str) -> dict[str, Any]:
        body = self.present.get(xid, {})
        reported: dict[str, Any] = dict.fromkeys(EFFECTIVE_COLUMNS)
        key = {"registryid": "r", "xid": xid, "group_xid": xid.rsplit("/", 2)[0], "messageid": xid.rsplit("/", 1)[1]}
        reported |= key | {"version_xid": f"{xid}/versions/1", "chain_status": "none", "chain_depth": 0, "name": body.get("name")}
        return reported | {
            "attributes": {f"/{name}": json.dumps(value) for name, value in sorted(body.items())},
            "inferred": {},
            "document_uris": [_DOCUMENT],
            "depends_on": [xid],
            "snapshot_id": self.head,
        }

    def append(self, name: str, rows: pa.Table, user_metadata: str | None) -> None:
        reported = None if user_metadata is None else CommitProperties(custom_metadata={"userMetadata": user_metadata})
        write_deltalake(self.table(name), rows, mode="append", commit_properties=reported)
