"""A catalog to serve, written without Spark, and servers of it over real sockets."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from warehouses import CHANGES, START, Written

ROOT = Path(__file__).parents[2]
MEMBERS = {"messagegroups": "messages", "endpoints": "messages", "schemagroups": "schemas"}
EVENT = {"envelope": "CloudEvents/1.0", "isdefault": True, "ancestor": "1"}


class Shops(Written):
    """A warehouse with catalogs that are reported as nested documents in normal form."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1)
        self.held: dict[tuple[str, str], tuple[str, Any]] = {}

    def load(self, registries: dict[str, dict[str, Any]], label: str | None = None) -> int:
        """Commit a snapshot in which the registries hold these documents and nothing else."""
        self.head += 1
        wanted = {
            (registryid, xid): (kind, body)
            for registryid, reported in registries.items()
            for xid, kind, body in entities(reported)
        }
        rows = []
        for key, (kind, body) in wanted.items():
            if key not in self.held:
                rows.append(self.row(kind, key[1], "insert", body) | {"registryid": key[0]})
            elif self.held[key][1] != body:
                rows.append(self.row(kind, key[1], "update", body) | {"registryid": key[0]})
        gone = [key for key in self.held if key not in wanted]
        rows += [self.row(self.held[key][0], key[1], "delete", self.held[key][1]) | {"registryid": key[0]} for key in gone]
        self.held = wanted
        if any(row["kind"] in ("message", "version") for row in rows):
            self.last |= {"messages": self.head, "versions": self.head}
        if label:
            rows.append(self.row("label", label, "insert", {"snapshot_id": self.head}) | {"registryid": ""})
        rows.append(self.snapshot())
        reported = json.dumps({"snapshot_id": self.head, "ingest_id": f"i{self.head}", "command": "ingest"})
        self.append("changes", pa.Table.from_pylist(rows, CHANGES), reported)
        return self.head

    def row(self, kind: str, xid: str, op: str, body: Any) -> dict[str, Any]:
        row = super().row(kind, xid, op, body)
        return row | {"createdat": START, "modifiedat": START + timedelta(minutes=self.head)}


def entities(document: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Take a document apart: XID, kind, body of each entity."""
    found: list[tuple[str, str, Any]] = [("/", "registry", {k: v for k, v in document.items() if k not in MEMBERS})]
    for collection, members in MEMBERS.items():
        kinds = ("schema", "schemaversion") if members == "schemas" else ("message", "version")
        for groupid, group in document.get(collection, {}).items():
            xid = f"/{collection}/{groupid}"
            own = {k: v for k, v in group.items() if k != members}
            found.append((xid, "endpoint" if collection == "endpoints" else "group", own))
            for memberid, member in group.get(members, {}).items():
                inner = f"{xid}/{members}/{memberid}"
                found.append((inner, kinds[0], {k: v for k, v in member.items() if k != "versions"}))
                found += [(f"{inner}/versions/{v}", kinds[1], body) for v, body in member.get("versions", {}).items()]
    return found


def message(name: str, **more: Any) -> dict[str, Any]:
    """Return a message with one Version."""
    return {"defaultversionid": "1", "versions": {"1": EVENT | {"name": name} | more}}


def made(versionid: str) -> dict[str, Any]:
    """Return a Version that the CNCF draft can say."""
    reported = {"envelope": "CloudEvents/1.0", "isdefault": versionid == "2", "ancestor": "1", "description": f"No. {versionid}"}
    reported["envelopemetadata"] = {"type": {"value": "com.shop.made"}}
    return reported | {
        "version_uri": f"https://shop.example/messagecatalog/draft/messagedefinitions/com.shop.made/versions/{versionid}"
    }


def shop(version: str) -> dict[str, Any]:
    """Return a registry with entities of every kind."""
    return {
        "specversion": "1.0-rc2",
        "name": f"Shop {version}",
        "messagegroups": message_groups(version),
        "endpoints": {
            "e": {
                "usage": ["producer"],
                "protocol": "HTTP",
                "messagegroups": ["/messagegroups/orders"],
                "messages": {"own": message("own")},
            }
        },
        "schemagroups": schema_groups(version),
    }


def message_groups(version: str) -> dict[str, Any]:
    """Return groups of messages: with labels, odd ids, many Versions, aliases, of the CNCF draft, and none at all."""
    many = {
        "1": {"ancestor": "1", "isdefault": False, "name": "first", "protocol": "KAFKA"},
        "2": {
            "ancestor": "1",
            "isdefault": False,
            "name": "second",
            "protocol": "KAFKA",
            "deprecated": {"removal": "2030-01-01T00:00:00Z"},
        },
        "10": {
            "ancestor": "2",
            "isdefault": True,
            "name": f"tenth {version}",
            "protocol": "KAFKA",
            "protocoloptions": {"topic": {"value": "t"}},
        },
    }
    return {
        "orders": {
            "envelope": "CloudEvents/1.0",
            "labels": {"stage": "prod", "Käse": "ja, gerne"},
            "messages": {
                "placed": message(
                    "Placed", labels={"team": "sales", "prio": "2"}, envelopemetadata={"type": {"value": "shop.placed"}}
                ),
                "shipped": message(
                    "shipped", labels={"team": "logistics"}, extensions={"weight": 12, "big": 123456789012345678901234567890}
                ),
                "Cancelled": message("100%* off, \\o/"),
                "x:y@z~1": message("odd id"),
                "many": {"defaultversionid": "10", "versions": many},
                "alias": {"xref": "/messagegroups/orders/messages/many"},
                "nowhere": {"xref": "/messagegroups/orders/messages/none"},
            },
        },
        "orders-2": {"messages": {"placed": message("In another group")}},
        "empty": {},
        "draft": {
            "envelope": "CloudEvents/1.0",
            "messages": {
                "com.shop.made": {
                    "defaultversionid": "2",
                    "versions": {"1": made("1"), "2": made("2"), "beta": made("beta")},
                },
                "unlike-its-type": message("x", envelopemetadata={"type": {"value": "another"}}),
            },
        },
        "mqtt": {
            "protocol": "MQTT/5.0",
            "messages": {"q": message("q", protocol="MQTT/5.0", protocoloptions={"topic_name": {"value": "a/b"}})},
        },
    }


def schema_groups(version: str) -> dict[str, Any]:
    """Return a group of schemas: a document as JSON, as text and as bytes, one that is elsewhere, and none."""
    return {
        "s": {
            "schemas": {
                "json": {
                    "defaultversionid": "2",
                    "versions": {
                        "1": {
                            "ancestor": "1",
                            "isdefault": False,
                            "format": "JSONSchema/draft-07",
                            "schema": {"title": "one"},
                        },
                        "2": {
                            "ancestor": "1",
                            "isdefault": True,
                            "format": "JSONSchema/draft-07",
                            "schema": {"title": version},
                            "labels": {"a b": "ü", "c": "1 2"},
                        },
                    },
                },
                "proto": {
                    "defaultversionid": "1",
                    "versions": {
                        "1": {"ancestor": "1", "isdefault": True, "format": "Protobuf/3", "schema": 'syntax = "proto3"; // ä'}
                    },
                },
                "bytes": {
                    "defaultversionid": "1",
                    "versions": {
                        "1": {
                            "ancestor": "1",
                            "isdefault": True,
                            "format": "x",
                            "contenttype": "image/png",
                            "extensions": {"schemabase64": "iVBORw=="},
                        }
                    },
                },
                "far": {
                    "defaultversionid": "1",
                    "versions": {
                        "1": {
                            "ancestor": "1",
                            "isdefault": True,
                            "format": "Avro/1.9",
                            "schemauri": "https://example.com/ä b",
                        }
                    },
                },
                "nothing": {
                    "defaultversionid": "1",
                    "versions": {"1": {"ancestor": "1", "isdefault": True, "format": "Avro/1.9"}},
                },
            }
        }
    }


def write_catalog(folder: Path) -> Shops:
    """Write a warehouse with three snapshots and two registries, one of which has a slash in its id."""
    written = Shops(folder)
    first = shop("one")
    del first["messagegroups"]["orders"]["messages"]["shipped"]
    written.load({"default": first}, "first")
    written.load(
        {"default": shop("two"), "shop/eu": {"name": "Europe", "messagegroups": {"g": {"messages": {"m": message("m")}}}}}
    )
    last = shop("three")
    del last["messagegroups"]["orders-2"]
    written.load({"default": last, "shop/eu": {"name": "Europe", "messagegroups": {"g": {"messages": {"m": message("m")}}}}})
    return written


class Response(NamedTuple):
    """What came back; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self.process = process
        self.url = url.rstrip("/")
        self.address = self.url.split("://")[1]

    def ask(self, path: str, method: str = "GET", **headers: str) -> Response:
        """Send a request; the path goes out as it is."""
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders()
            answer = connection.getresponse()
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        """Return the JSON of a path that is there."""
        answer = self.ask(path)
        assert answer.status == 200, (path, answer.status, answer.body[:500])
        return answer.json


@contextmanager
def serving(warehouse: Path, folder: Path, *options: str, **environment: str):
    """Run `lakehouse serve` on a free port until the block ends."""
    command = [sys.executable, "-m", "lakehouse", "serve", "--warehouse", str(warehouse), "--port", "0", "--json", *options]
    reported = os.environ | {"LAKEHOUSE_READMODEL_DIR": str(folder), "PYTHONPATH": str(ROOT)} | environment
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=reported)
    try:
        line = process.stdout.readline()
        assert line, f"no ready line, exit code {process.wait(10)}"
        yield Served(process, json.loads(line)["url"])
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        process.wait(120)
        process.stdout.close()
