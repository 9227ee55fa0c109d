"""`GET /export`, loaded into an empty catalog, gives the same XIDs, content hashes, epochs and dates, and then the same bytes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import Catalog
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from soak.sessions import forget

from lakehouse.export.run import read_log
from lakehouse.export.selection import current_rows
from serve.served import serving

DIALECTS = ("1.0-rc4", "1.0-rc2")
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
                "far": {"format": "Avro/1.11", "schemaurl": "https://example.com/far"},
                "nothing": {},
            }
        }
    },
}


class Trip(NamedTuple):
    """Rows of a catalog, and what `/export` gives of it, by dialect; the server's own URL is written alike for all servers."""

    facts: set[tuple[Any, ...]]
    exported: dict[str, bytes]


def facts_of(spark: SparkSession) -> set[tuple[Any, ...]]:
    dates = [F.unix_micros(name) for name in ("createdat", "modifiedat")]
    rows = current_rows(read_log(spark)).select("registryid", "kind", "xid", "content_hash", "epoch", "body", *dates).collect()
    return {_without_configuration(tuple(row)) for row in rows if row["kind"] not in ("document", "snapshot")}


def _without_configuration(fact: tuple[Any, ...]) -> tuple[Any, ...]:
    """Leave out what `/export` tells of the server, and a registry keeps when it is loaded (MSG-013 to MSG-015)."""
    if fact[1] != "registry":
        return fact
    body = {name: value for name, value in json.loads(fact[5]).items() if name not in ("capabilities", "model", "modelsource")}
    return (*fact[:3], None, fact[4], json.dumps(body), *fact[6:])


def journey(spark: SparkSession, folder: Path, name: str, document: Any, empty_warehouse: Path) -> Trip:
    """Load a document into an empty catalog, and ask a server of it for `/export` in each dialect."""
    (folder / name).mkdir()
    catalog = Catalog(spark, folder / name)
    shutil.copytree(empty_warehouse, catalog.settings.warehouse)
    catalog.write("shop.json", document)
    summary = catalog.ingest()
    assert not summary.violations.get("error"), spark.sql("SELECT rule_id, pointer, message FROM xregistry.violations").collect()
    facts = facts_of(spark)
    forget(spark, Path(catalog.settings.warehouse))
    exported = {}
    with serving(Path(catalog.settings.warehouse), folder / f"{name}-model") as served:
        for dialect in DIALECTS:
            answer = served.ask(f"/export?specversion={dialect}")
            assert answer.status == 200, answer.body[:500]
            exported[dialect] = answer.body.replace(served.url.encode(), b"http://server.example")
    return Trip(facts, exported)


@pytest.fixture(scope="module")
def trips(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, empty_warehouse: Path) -> Iterator[dict[str, Trip]]:
    folder = tmp_path_factory.mktemp("trips")
    first = journey(spark, folder, "first", SHOP, empty_warehouse)
    told = {dialect: journey(spark, folder, dialect, first.exported[dialect], empty_warehouse) for dialect in DIALECTS}
    yield {"first": first} | told
    shutil.rmtree(folder)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_entities_come_out(trips, dialect):
    facts = trips["first"].facts
    assert {fact[1] for fact in facts} >= {"registry", "group", "endpoint", "message", "version", "schema", "schemaversion"}
    assert trips[dialect].facts ^ facts == set()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_exported_from_there_it_gives_the_same_bytes(trips, dialect):
    assert trips[dialect].exported == trips["first"].exported
