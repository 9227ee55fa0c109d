"""Catalogs of documents as warehouses that the read model reads, written with deltalake and without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from builders import read
from deltalake import CommitProperties, write_deltalake
from warehouses import CHANGES, Written, definitions_as_table

from lakehouse.match.definition.compiled import ADDRESSES
from lakehouse.readmodel import ReadModel
from lakehouse.readmodel.file.sqliteschema import EFFECTIVE_COLUMNS
from lakehouse.settings import read_settings
from match.catalogs import load

_KINDS = ("registry", "group", "endpoint", "message", "version", "schema", "schemaversion")


def write_catalog(folder: Path, documents: dict[str, dict[str, Any] | bytes]) -> str:
    """Write a warehouse of one snapshot that holds documents, each in the registry that its key names."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Written(folder, 1)
    made.head = 1
    rows = [
        made.row(one.kind, one.xid, "insert", json.loads(one.body) if one.body else {}) | {"registryid": registryid}
        for registryid, written in documents.items()
        for one in read(written).rows
        if one.kind in _KINDS
    ]
    made.last = {"messages": 1, "versions": 1}
    reported = {"snapshot_id": 1, "ingest_id": "i1", "command": "ingest"}
    made.append("changes", pa.Table.from_pylist([*rows, made.snapshot()], CHANGES), json.dumps(reported))
    write_definitions(made, load(documents)[0])
    return str(folder)


def write_definitions(made: Written, rows: list[dict[str, Any]]) -> None:
    """Write effective definitions, given as rows of `flat_messages` with fewer columns."""
    done = CommitProperties(custom_metadata={"userMetadata": json.dumps({"snapshot_id": made.head, "job": "project"})})
    table = definitions_as_table(stored(row) | {"snapshot_id": made.head} for row in rows)
    write_deltalake(made.table("effective_messages"), table, mode="append", commit_properties=done)


def stored(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `effective_messages` for one of `flat_messages` with fewer columns."""
    leaves = row["attributes"]
    family, _, version = (row["protocol"] or "").partition("/")

    def text(pointer: str) -> Any:
        value = json.loads(leaves.get(pointer, "null"))
        return value if isinstance(value, str | None) else json.dumps(value)

    reported: dict[str, Any] = dict.fromkeys(EFFECTIVE_COLUMNS) | {"chain_depth": 0, "document_uris": ["file:/d.json"]}
    reported |= {name: row[name] for name in EFFECTIVE_COLUMNS if name in row}
    return reported | {
        "messageid": row["xid"].rpartition("/")[2], "ce_type": text("/envelopemetadata/type/value"),
        "protocol_family": family or None, "protocol_version": version or None,
        "address": text(f"/protocoloptions/{ADDRESSES.get(family.upper(), '-')}/value"),
    }  # fmt: skip


def model_of(warehouse: str) -> ReadModel:
    """Open the read model of a warehouse, and bring it up to date."""
    model = ReadModel(read_settings(warehouse=warehouse))
    model.refresh()
    return model
