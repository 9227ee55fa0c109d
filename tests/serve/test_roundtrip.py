"""`GET /export`, loaded into an empty catalog, gives the same XIDs, content hashes, epochs and dates, and then the same bytes.

Without Spark: a document is read as an ingest reads it, and its rows become a catalog.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from builders import read
from warehouses import CHANGES, START, Written

from serve.served import serving

DIALECTS = ("1.0-rc4", "1.0-rc2")
XML_SCHEMA = '<s:schema xmlns:s="http://www.w3.org/2001/XMLSchema"><s:element name="ä"/></s:schema>'
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.placed"}}}
SHOP: dict[str, Any] = {
    "specversion": "1.0-rc2",
    "registryid": "shop",
    "name": "Shop",
    "epoch": 4,
    "labels": {"stage": "prod"},
    "extra": {"b": 1, "a": [None, 1.5]},
    "messagegroups": {
        "orders": {
            "createdat": "2024-05-01T10:00:00+02:00",
            "messages": {
                "placed": EVENT | {"epoch": 7, "createdat": "2024-05-02T10:00:00Z", "labels": {"team": "ü, #/x"}},
                "many": {
                    "meta": {"defaultversionid": "2", "defaultversionsticky": True, "epoch": 9},
                    "versions": {
                        "1": {"name": "one", "protocol": "KAFKA", "protocoloptions": {"topic": "t"}},
                        "2": {"name": "two", "ancestor": "1", "epoch": 3, "deprecated": {"removal": "2030-01-01T00:00:00Z"}},
                        "10": {"name": "ten", "ancestor": "2"},
                    },
                },
                "alias": {"meta": {"xref": "/messagegroups/orders/messages/placed", "epoch": 5}},
                "of-nothing": {"meta": {"xref": "/messagegroups/orders/messages/none"}},
                "based": {"basemessage": "/messagegroups/orders/messages/placed", "big": 123456789012345678901234567890},
                "x:y@z~1": {"description": "an odd id"},
                "fixed": {"name": "fixed", "meta": {"readonly": True}},
                "free": {"name": "free", "meta": {"readonly": False}},
            },
        },
        "empty": {},
    },
    "endpoints": {
        "e": {
            "usage": ["producer"],
            "protocol": "HTTP",
            "protocoloptions": {"endpoints": [{"uri": "https://shop.example"}]},
            "messagegroups": ["/messagegroups/orders"],
            "messages": {"own": {"name": "own"}},
        }
    },
    "schemagroups": {
        "s": {
            "schemas": {
                "json": {
                    "versions": {
                        "1": {"format": "JSONSchema/draft-07", "schema": {"title": "one"}},
                        "2": {"format": "JSONSchema/draft-07", "ancestor": "1", "schema": {"title": "two", "default": None}},
                    }
                },
                "proto": {"format": "Protobuf/3", "schema": 'syntax = "proto3"; // ä'},
                "bytes": {"format": "x", "contenttype": "image/png", "schemabase64": "iVBORw=="},
                "spelled": {
                    "contenttype": "application/json",
                    "schema": {"z": 1e2, "a": [1.5, {"y": 1, "b": 123456789012345678901}]},
                },
                "coded": {"schemabase64": "77u/eyAieiI6IDFlMiwgImEiOiBbXSB9Cg=="},
                "xml": {"format": "XSD/1.1", "contenttype": "application/xml", "schema": XML_SCHEMA},
                "coded-xml": {"contenttype": "application/xml", "schemabase64": "PHgvPg=="},
                "string": {"contenttype": "application/json", "schema": "{}"},
                "number": {"contenttype": "application/json", "schema": 5},
                "empty": {"schemabase64": ""},
                "far": {"format": "Avro/1.11", "schemaurl": "https://example.com/far"},
                "nothing": {},
            }
        }
    },
}

_TOLD_BY_SERVER = ("capabilities", "model", "modelsource")


class Trip(NamedTuple):
    """Rows of a catalog, and what `/export` gives of it, by dialect; the server's own URL is written alike for all servers."""

    facts: dict[str, tuple[Any, ...]]
    exported: dict[str, bytes]


def write_document(folder: Path, document: bytes) -> list[dict[str, Any]]:
    """Write a warehouse with what a document says; give the rows of its log."""
    reading = read(document)
    assert reading.findings == []
    written = Written(folder, 1)
    written.head = 1
    reported = [written.row(row.kind, row.xid, "insert", json.loads(row.body)) | stored(row) for row in reading.rows]
    written.append("changes", pa.Table.from_pylist([*reported, written.snapshot()], CHANGES), '{"snapshot_id": 1}')
    return reported


def journey(folder: Path, document: bytes) -> Trip:
    """Make a catalog of a document, and ask a server of it for `/export` in each dialect."""
    reported = write_document(folder / "w", document)
    exported = {}
    with serving(folder / "w", folder / "model") as served:
        for dialect in DIALECTS:
            answer = served.ask(f"/export?specversion={dialect}")
            assert answer.status == 200, answer.body[:500]
            exported[dialect] = answer.body.replace(served.url.encode(), b"http://server.example")
    return Trip({row["xid"]: fact_of(row) for row in reported}, exported)


def stored(row: Any) -> dict[str, Any]:
    """Return a row as it is committed: what was not declared is chosen."""
    named = {name: getattr(row, name) for name in ("content_hash", "body", "raw", "epoch", "createdat", "modifiedat")}
    begun = int(START.timestamp()) * 1_000_000
    chosen = {"registryid": "shop", "epoch": 1, "createdat": begun, "modifiedat": begun}
    return named | {name: value for name, value in chosen.items() if named.get(name) is None}


def fact_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """Return what must be the same; of a registry without what a server says of itself, kept (MSG-013 to MSG-015)."""
    body, hashed = json.loads(row["body"]), row["content_hash"]
    if row["kind"] == "registry":
        body, hashed = {name: value for name, value in body.items() if name not in _TOLD_BY_SERVER}, None
    return (row["kind"], hashed, row["epoch"], row["createdat"], row["modifiedat"], json.dumps(body))


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Trip]:
    first = journey(tmp_path_factory.mktemp("first"), json.dumps(SHOP).encode())
    reported = {dialect: journey(tmp_path_factory.mktemp(dialect), first.exported[dialect]) for dialect in DIALECTS}
    return {"first": first} | reported


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_entities_come_out(trips, dialect):
    facts = trips["first"].facts
    kinds = {"registry", "group", "endpoint", "message", "version", "schema", "schemaversion"}
    assert {fact[0] for fact in facts.values()} == kinds
    assert set(trips[dialect].facts) == set(facts)
    for xid, fact in facts.items():
        assert trips[dialect].facts[xid] == fact


@pytest.mark.parametrize("dialect", DIALECTS)
def test_exported_from_there_it_gives_the_same_bytes(trips, dialect):
    assert trips[dialect].exported == trips["first"].exported
