"""Catalogs to look at, written without Spark: the product's reader reads documents, and the oracle of the tests flattens them."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from builders import read
from deltalake import write_deltalake
from match.catalogs import chain_of, row_of
from oracle import flatten
from serve.served import Shops
from warehouses import _VIOLATIONS, CHANGES, START, definitions_as_table

import lakehouse
from lakehouse.readmodel import ReadModel, open_model
from lakehouse.readmodel.file.sqliteschema import EFFECTIVE_COLUMNS, VIOLATION_COLUMNS
from lakehouse.settings import read_settings
from lakehouse.text.problems import violation_id

DEMO = Path(lakehouse.__file__).parent / "cli" / "demo"
Documents = dict[str, tuple[str, Any]]  # URI to registry and document


class Catalog(Shops):
    """A warehouse that documents are loaded into: entities, findings, documents and effective definitions."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.reported: dict[tuple[str, str], str] = {}

    def ingest(self, documents: Documents, label: str | None = None, by: str = "somebody") -> int:
        """Commit a snapshot in which the catalog holds what these documents say, and nothing else."""
        self.head += 1
        wanted: dict[tuple[str, str], tuple[str, str, str]] = {}
        rows, catalogs, found = [], {}, []
        for uri, (registryid, document) in documents.items():
            reading = read(document if isinstance(document, bytes) else json.dumps(document), rules=True)
            findings = [_finding(one, registryid, uri, self.head) for one in reading.findings]
            found += findings
            for row in reading.rows:
                wanted[registryid, row.xid] = (row.kind, row.body, uri)
                _remember(catalogs.setdefault(registryid, {}), row)
            facts = {"status": "loaded", "dialect": "1.0-rc2", "findings": [one["violation_id"] for one in findings]}
            reported = json.dumps(facts)
            if self.reported.get((registryid, uri)) != reported:
                op = "update" if (registryid, uri) in self.reported else "insert"
                rows.append(self._row("document", registryid, uri, op, reported, uri))
                self.reported[registryid, uri] = reported
        rows += self._changes(wanted)
        if any(row["kind"] in ("message", "version") for row in rows):
            self.last |= {"messages": self.head, "versions": self.head}
        if label:
            rows.append(self.row("label", label, "insert", {"snapshot_id": self.head, "why": None}) | {"registryid": ""})
        rows.append(self._commit(by, rows))
        known = {one["violation_id"] for one in self.table("violations").to_pyarrow_table().to_pylist()}
        new = [one for one in found if one["violation_id"] not in known]
        if new:
            self.append("violations", pa.Table.from_pylist(new, _VIOLATIONS), None)
        reported = json.dumps({"snapshot_id": self.head, "ingest_id": f"i{self.head}", "command": "ingest"})
        self.append("changes", pa.Table.from_pylist(rows, CHANGES), reported)
        self._flatten(catalogs, wanted)
        return self.head

    def _changes(self, wanted: dict[tuple[str, str], tuple[str, str, str]]) -> list[dict[str, Any]]:
        rows = []
        for (registryid, xid), (kind, body, uri) in wanted.items():
            known = self.held.get((registryid, xid))
            if known is None or known[1] != body:
                rows.append(self._row(kind, registryid, xid, "insert" if known is None else "update", body, uri))
        for (registryid, xid), (kind, body, *_) in self.held.items():
            if (registryid, xid) not in wanted:
                rows.append(self._row(kind, registryid, xid, "delete", body, None))
        self.held = wanted
        return rows

    def _row(self, kind: str, registryid: str, xid: str, op: str, body: str | None, uri: str | None) -> dict[str, Any]:
        row = self.row(kind, xid, op, None)
        return row | {"registryid": registryid, "body": body, "document_uris": [uri] if uri and kind != "document" else []}

    def _commit(self, by: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        row = self.snapshot()
        counts: dict[str, Counter[str]] = {}
        for one in rows:
            if one["kind"] not in ("document", "label"):
                counts.setdefault(one["kind"], Counter())[one["op"]] += 1
        body = json.loads(row["body"]) | {"committed_by": by, "counts": counts}
        body["committed_at"] = (START + timedelta(days=11 * self.head, minutes=37 * self.head)).isoformat()
        return row | {"body": json.dumps(body)}

    def _flatten(self, catalogs: dict[str, Any], held: dict[tuple[str, str], tuple[str, str, str]]) -> None:
        rows = []
        for registryid, catalog in catalogs.items():
            for xid in sorted(catalog):
                row = row_of(registryid, xid, *flatten(catalog, xid), chain_of(catalog, xid))
                rows.append(effective_row(row, catalog[xid].get("default"), held[registryid, xid][2], self.head))
        commit = {"snapshot_id": self.head, "job": "rebuild"}
        from deltalake import CommitProperties

        reported = CommitProperties(custom_metadata={"userMetadata": json.dumps(commit)})
        write_deltalake(
            self.table("effective_messages"), definitions_as_table(rows), mode="overwrite", commit_properties=reported
        )


def _remember(catalog: dict[str, Any], row: Any) -> None:
    """Gather a message for the oracle."""
    body = json.loads(row.body) if row.body else {}
    if row.kind == "message":
        xref = body.get("xref")
        catalog.setdefault(row.xid, {}).update({"xref": xref} if xref else {"default": row.defaultversionid})
    elif row.kind == "version":
        message, _, versionid = row.xid.rpartition("/versions/")
        catalog.setdefault(message, {}).setdefault("versions", {})[versionid] = {**body.pop("extensions", {}), **body}


def effective_row(row: dict[str, Any], default: str | None, uri: str, head: int) -> dict[str, Any]:
    """Complete a row of `effective_messages`."""

    def value(pointer: str) -> Any:
        return json.loads(row["attributes"].get(pointer, "null"))

    protocol = row["protocol"]
    names = ("topic", "topic_name", "path", "subject", "properties/to")
    addresses = (value(f"/protocoloptions/{name}/value") or value(f"/protocoloptions/{name}") for name in names)
    reported: dict[str, Any] = dict.fromkeys(EFFECTIVE_COLUMNS) | {name: row[name] for name in row if name in EFFECTIVE_COLUMNS}
    return reported | {
        "messageid": row["xid"].rpartition("/")[2],
        "version_xid": f"{row['xid']}/versions/{default or '1'}",
        "chain_depth": max(0, len(row["depends_on"]) - 1),
        "name": value("/name"),
        "description": value("/description"),
        "labels": {p.removeprefix("/labels/"): json.loads(v) for p, v in row["attributes"].items() if p.startswith("/labels/")},
        "ce_type": value("/envelopemetadata/type/value"),
        "protocol_family": protocol.partition("/")[0].upper() if protocol else None,
        "address": next((one for one in addresses if isinstance(one, str)), None),
        "datacontenttype": value("/datacontenttype"),
        "document_uris": [uri],
        "snapshot_id": head,
    }


def _finding(one: Any, registryid: str, uri: str, head: int) -> dict[str, Any]:
    reported = {
        name: getattr(one, name) for name in ("xid", "pointer", "rule_id", "severity", "action", "message", "hint", "raw")
    }
    named = violation_id(registryid, uri, one.rule_id, one.xid, one.pointer, one.message, one.action)
    row = dict.fromkeys(VIOLATION_COLUMNS) | reported | {"violation_id": named, "ingest_id": f"i{head}", "document_uri": uri}
    return row | {"registryid": registryid, "found_at": START + timedelta(minutes=head), "xid": one.xid or None}


def demo_documents() -> dict[str, Any]:
    """Read the documents of the demo, by URI."""
    found = {f"file:/catalog/{path.name}": json.loads(path.read_bytes()) for path in sorted(DEMO.glob("*.json"))}
    assert found
    return found


def write_demo(folder: Path, first_label: str = "spring") -> Catalog:
    """Write the demo with a past: first without the web, then with an older form of the orders, then as it is."""
    final = demo_documents()
    orders = "file:/catalog/orders.xreg.json"
    older = copy.deepcopy(final)
    messages = older[orders]["messagegroups"]["shop.orders"]["messages"]
    del messages["shop.orders.OrderPlaced"]["envelopemetadata"]["region"]["required"]
    messages["shop.orders.OrderPlaced"]["description"] = "A customer has bought something"
    messages["shop.orders.OrderPaid"]["deprecated"] = {"removal": "2027-06-01T00:00:00Z"}
    final[orders]["messagegroups"]["shop.orders"]["messages"]["shop.orders.OrderPaid"]["deprecated"] = {
        "effective": "2026-06-01T00:00:00Z",
        "removal": "2027-06-01T00:00:00Z",
    }
    made = Catalog(folder)
    first = {uri: ("default", one) for uri, one in older.items() if not uri.endswith("web.xreg.json")}
    made.ingest(first, first_label, "ana")
    made.ingest({uri: ("default", one) for uri, one in older.items()}, None, "ben")
    made.ingest({uri: ("default", one) for uri, one in final.items()}, "release-2", "ana")
    return made


STRANGE: dict[str, Any] = {
    "messagegroups": {
        "strange": {
            "envelope": "CloudEvents/1.0",
            "name": "مجموعة الرسائل",
            "messages": {
                "<script>alert(1)<script>": {
                    "name": "<img src=x onerror=alert(1)>",
                    "description": "</script><script>alert(2)</script>",
                },
                "'\"&<>`${7*7}{{7*7}}": {"name": "quotes", "labels": {"<b>": "</script>"}},
                "long." + "x" * 240: {"description": "w" * 900},
                "long." + "x" * 239 + "y": {"name": "its twin"},
                "javascript:alert(1)": {"dataschemauri": "javascript:alert(1)", "dataschemaformat": "JSONSchema/draft-07"},
                "page.html": {"name": "an id that ends as a file does"},
                "page": {"name": "and the one beside it"},
                "..": {"name": "a folder above"},
                "طلب": {"name": "تم تقديم الطلب", "description": "أكد العميل سلة التسوق (OrderPlaced) 123"},
            },
        },
    },
}


def write_strange(folder: Path) -> Shops:
    """Write a catalog of ids that no document may have and a damaged warehouse might: they are written past the reader."""
    made = Catalog(folder)
    made.head += 1
    rows, catalog = [], {}
    for groupid, group in STRANGE["messagegroups"].items():
        own = {name: value for name, value in group.items() if name != "messages"}
        rows.append(("group", f"/messagegroups/{groupid}", own))
        for messageid, message in group["messages"].items():
            xid = f"/messagegroups/{groupid}/messages/{messageid}"
            body = {"ancestor": "1", "isdefault": True, "envelope": "CloudEvents/1.0", **message}
            rows += [("message", xid, {"defaultversionid": "1"}), ("version", f"{xid}/versions/1", body)]
            catalog[xid] = {"default": "1", "versions": {"1": body}}
    held = {
        (registry, xid): (kind, json.dumps(body), "file:/x/<i>.json")
        for registry in ("a/b", "default")
        for kind, xid, body in rows
    }
    changes = made._changes(held)
    made.last |= {"messages": made.head, "versions": made.head}
    changes.append(made._commit("<b>mallory</b>", changes))
    reported = json.dumps({"snapshot_id": made.head, "ingest_id": "i1", "command": "ingest"})
    made.append("changes", pa.Table.from_pylist(changes, CHANGES), reported)
    made._flatten({"a/b": catalog, "default": catalog}, held)
    return made


def numbered(messages: int, groups: int, endpoints: int, change: Callable[[int], dict[str, Any]] | None = None) -> dict[str, Any]:
    """Return a registry of many messages: groups that extend the first over other protocols, and endpoints that carry them."""
    protocols = ["KAFKA", "MQTT/5.0", "AMQP/1.0", "HTTP", "NATS"]
    per_group = max(1, messages // groups)
    reported: dict[str, Any] = {"specversion": "1.0-rc2", "messagegroups": {}, "endpoints": {}, "schemagroups": {}}
    schema = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}, "total": {"type": "number"}}}
    reported["schemagroups"]["payloads"] = {
        "schemas": {"order": {"versions": {"1": {"format": "JSONSchema/draft-07", "schema": schema}}}}
    }
    for at in range(groups):
        protocol = protocols[at % len(protocols)]
        members = {}
        for number in range(per_group):
            one: dict[str, Any] = {
                "envelope": "CloudEvents/1.0",
                "name": f"Event {number}",
                "description": f"What is sent when number {number} of group {at} has happened to an order of the shop",
                "labels": {"team": f"team-{number % 7}", "stage": "prod"},
                "dataschemaformat": "JSONSchema/draft-07",
                "dataschemauri": "#/schemagroups/payloads/schemas/order",
                "envelopemetadata": {
                    "type": {"value": f"com.shop.g{at}.event{number}", "required": True},
                    "source": {"value": "/shops/{shop}", "type": "uritemplate", "required": True},
                    "subject": {"required": True},
                },
            }
            if at:
                one = {
                    "basemessage": f"/messagegroups/g0/messages/g0.event{number}",
                    "protocol": protocol,
                    "description": one["description"],
                }
            members[f"g{at}.event{number}"] = one | (change(number) if change else {})
        reported["messagegroups"][f"g{at}"] = {"envelope": "CloudEvents/1.0", "description": f"Group {at}", "messages": members}
    for at in range(endpoints):
        names = [f"/messagegroups/g{n}" for n in range(groups) if n % endpoints == at]
        reported["endpoints"][f"broker-{at}"] = {"usage": ["producer"], "protocol": protocols[at % 5], "messagegroups": names}
    return reported


def opened(warehouse: Path, folder: Path) -> ReadModel:
    """Open the read model of a warehouse, in another folder."""
    return open_model(read_settings(warehouse=str(warehouse), readmodel_dir=str(folder)))
