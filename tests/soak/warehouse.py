"""Looks at a warehouse without the product: its tables by another reader of Delta Lake, its files byte by byte."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from .model import TABLES, Definition, Key, definition

LIFECYCLE = ("epoch", "createdat", "modifiedat")
_COMMON = ("registryid", "xid", "content_hash", "snapshot_id", "document_uris", *LIFECYCLE)
# Columns that hold what the model calls a definition.
_SAID = {
    "registry": {"name": "name"},
    "group": {"name": "name"},
    "endpoint": {"name": "name", "protocoloptions": "will"},
    "message": {"defaultversionid": "default"},
    "schema": {"defaultversionid": "default"},
    "version": {"name": "name", "ancestor": "ancestor", "basemessage": "base", "dataschemaxid": "schema"},
    "schemaversion": {"name": "name", "ancestor": "ancestor", "schema": "text"},
}


@dataclass(frozen=True)
class Row:
    """An entity as a table has it."""

    said: Definition
    owners: tuple[str, ...]
    epoch: int
    dates: tuple[Any, Any]
    content_hash: str
    snapshot_id: int
    isdefault: bool | None


@dataclass(frozen=True)
class Load:
    """The last load of a document, as the log reports it."""

    registry: str
    path: str
    facts: dict[str, Any]
    snapshot_id: int


class Warehouse:
    """A warehouse, and the folder of the documents that are loaded into it."""

    def __init__(self, folder: Path, documents: Path) -> None:
        self.folder = folder
        self.root = f"file:{documents}/"

    def rows(self, table: str, *columns: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            DeltaTable(str(self.folder / table)).to_pyarrow_table(columns=list(columns) or None).to_pylist()
        )
        return found

    def entities(self) -> dict[Key, Row]:
        """Return all entities that are published."""
        found: dict[Key, Row] = {}
        for kind, table in TABLES.items():
            also = ["isdefault"] if kind in ("version", "schemaversion") else []
            for row in self.rows(table, *_COMMON, *_SAID[kind], *also):
                key = Key(row["registryid"], kind, row["xid"])
                assert key not in found, f"{key} has two rows in {table}"
                values = {name: row[column] for column, name in _SAID[kind].items()}
                if "will" in values:
                    values["will"] = json.loads(values["will"] or "{}").get("willmessage")
                if "text" in values:
                    values["text"] = json.loads(values["text"])["title"]
                found[key] = Row(
                    definition(**values), self._paths(row["document_uris"]), row["epoch"], (row["createdat"], row["modifiedat"]),
                    row["content_hash"], row["snapshot_id"], row.get("isdefault"),
                )  # fmt: skip
        return found

    def from_log(self) -> dict[Key, tuple[Any, ...]]:
        """Return what the log makes of all entities: content_hash, epoch, dates, owners, snapshot_id."""
        columns = ("registryid", "kind", "xid", "op", "content_hash", "snapshot_id", "document_uris", *LIFECYCLE)
        last: dict[Key, dict[str, Any]] = {}
        for row in sorted(self.rows("changes", *columns), key=lambda row: row["snapshot_id"]):
            if row["kind"] in TABLES:
                key = Key(row["registryid"], row["kind"], row["xid"])
                assert last.get(key, {}).get("snapshot_id") != row["snapshot_id"], f"{key} has two rows in one snapshot"
                last[key] = row
        return {
            key: (row["content_hash"], row["epoch"], row["createdat"], row["modifiedat"], self._paths(row["document_uris"]),
                  row["snapshot_id"])
            for key, row in last.items() if row["op"] != "delete"
        }  # fmt: skip

    def head(self) -> int:
        """Return the newest snapshot; 0 before the first, and where there is no warehouse."""
        return max(self.snapshots(), default=0) if (self.folder / "changes").is_dir() else 0

    def snapshots(self) -> dict[int, dict[str, dict[str, int]]]:
        """Return how many rows each snapshot has, by kind and op."""
        counts: dict[int, dict[str, dict[str, int]]] = {}
        for row in self.rows("changes", "snapshot_id", "kind", "op"):
            of_kind = counts.setdefault(row["snapshot_id"], {}).setdefault(row["kind"], {})
            of_kind[row["op"]] = of_kind.get(row["op"], 0) + 1
        return counts

    def changed_in(self, snapshot_id: int) -> set[tuple[str, str, str, str]]:
        """Return the entities that a snapshot changed: op, registryid, kind, xid."""
        columns = ("snapshot_id", "op", "registryid", "kind", "xid")
        rows = (row for row in self.rows("changes", *columns) if row["snapshot_id"] == snapshot_id and row["kind"] in TABLES)
        return {(row["op"], row["registryid"], row["kind"], row["xid"]) for row in rows}

    def loads(self) -> list[Load]:
        """Return the last load of each document and registry."""
        last: dict[tuple[str, str], dict[str, Any]] = {}
        rows = (row for row in self.rows("changes", "snapshot_id", "registryid", "kind", "xid", "op", "body"))
        for row in sorted((row for row in rows if row["kind"] == "document"), key=lambda row: row["snapshot_id"]):
            last[row["registryid"], row["xid"]] = row
        return [
            Load(registry, uri.removeprefix(self.root), json.loads(row["body"]), row["snapshot_id"])
            for (registry, uri), row in last.items()
            if row["op"] != "delete"
        ]

    def findings(self) -> dict[str, dict[str, Any]]:
        """Return all findings by id."""
        columns = ("violation_id", "registryid", "document_uri", "xid", "rule_id", "severity", "action")
        every = self.rows("violations", *columns)
        found = {row["violation_id"]: row for row in every}
        assert len(found) == len(every), "findings occur twice"
        return found

    def flattened(self) -> set[tuple[str, str]]:
        """Return the messages that `effective_messages` has."""
        return {(row["registryid"], row["xid"]) for row in self.rows("effective_messages", "registryid", "xid")}

    def _paths(self, uris: list[str] | None) -> tuple[str, ...]:
        return tuple(uri.removeprefix(self.root) for uri in uris or ())


def kind_of(xid: str) -> str:
    """Return the kind of an entity by its XID."""
    tokens = xid.strip("/").split("/")
    if xid == "/":
        return "registry"
    if len(tokens) == 2:
        return "endpoint" if tokens[0] == "endpoints" else "group"
    if len(tokens) == 4:
        return tokens[2].removesuffix("s")
    return "version" if tokens[2] == "messages" else "schemaversion"


# Files


def files_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.exists() else []


def digest(folder: Path) -> dict[str, str]:
    """Return a digest of each file and folder below a folder."""
    found = {str(path.relative_to(folder)): "" for path in folder.rglob("*") if path.is_dir()} if folder.exists() else {}
    return found | {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files_below(folder)}


def differing(before: dict[str, str], after: dict[str, str]) -> list[str]:
    """Return the files and folders that came, went or changed between two digests; stages are there while an ingest runs."""
    every = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
    return sorted(name for name in every if name != "_stage")


class Search:
    """Looks for a text in all files below a folder, whatever they are packed in; each file once while it stays as it is."""

    def __init__(self, folder: Path, needle: str) -> None:
        self.folder = folder
        self.needle = needle.encode()
        self.seen: dict[Path, tuple[int, int]] = {}

    def found(self, *, again: bool = False) -> list[str]:
        """Return the files that contain the text.

        Args:
            again: look at files that did not change, too.
        """
        hits = []
        for path in files_below(self.folder):
            stat = path.stat()
            if not again and self.seen.get(path) == (stat.st_size, stat.st_mtime_ns):
                continue
            self.seen[path] = (stat.st_size, stat.st_mtime_ns)
            if any(self.needle in text for text in _texts(path)):
                hits.append(str(path))
        return hits


def _texts(path: Path) -> Iterator[bytes]:
    content = path.read_bytes()
    yield content
    if content[:2] == b"\x1f\x8b":
        yield gzip.decompress(content)
    if content[:4] == b"PAR1":
        yield json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
