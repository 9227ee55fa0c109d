"""Definitions of documents without Spark: the product's reader, and the flattening of the oracle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from builders import read
from oracle import Catalog, flatten

from lakehouse.domain.references import schema_places
from lakehouse.ingest.parse.readings import Reading
from lakehouse.match.definition.compiled import escape
from lakehouse.match.payload.schemas import SchemaVersion
from lakehouse.text.xid import xid_of_resource

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"
_OPAQUE = ("dataschema",)
_INFERRED_TYPES = {"source": "uritemplate", "dataschema": "uritemplate", "time": "timestamp"}
_REQUIRED = ("id", "source", "specversion", "type")


def load(documents: dict[str, dict[str, Any] | bytes]) -> tuple[list[dict[str, Any]], list[SchemaVersion]]:
    """Read documents, each into the registry that its key names: rows of `flat_messages`, and the schemas."""
    return load_readings({registryid: read(written) for registryid, written in documents.items()})


def load_readings(readings: dict[str, Reading]) -> tuple[list[dict[str, Any]], list[SchemaVersion]]:
    """Load documents that were read, each into the registry that its key names, as `load` does."""
    rows, schemas = [], []
    for registryid, reading in readings.items():
        catalog: Catalog = {}
        for row in reading.rows:
            body = json.loads(row.body) if row.body else {}
            if row.kind == "message":
                xref = body.get("xref")
                catalog.setdefault(row.xid, {}).update({"xref": xref} if xref else {"default": row.defaultversionid})
            elif row.kind == "version":
                message, _, versionid = row.xid.rpartition("/versions/")
                catalog.setdefault(message, {}).setdefault("versions", {})[versionid] = {**body.pop("extensions", {}), **body}
            elif row.kind == "schemaversion":
                text = json.dumps(body["schema"]) if body.get("schema") is not None else None
                schema_xid = row.xid.rpartition("/versions/")[0]
                schemas.append(
                    SchemaVersion(registryid, row.xid, schema_xid, bool(body.get("isdefault")), body.get("format"), text)
                )
        rows += [row_of(registryid, xid, *flatten(catalog, xid), chain_of(catalog, xid)) for xid in catalog]
    return rows, schemas


def samples(folder: str = "feeds", *names: str) -> tuple[list[dict[str, Any]], list[SchemaVersion]]:
    """Read published documents, each as its own registry, named as the file."""
    files = sorted((SAMPLES / folder).glob("*.json"))
    return load({file.name: file.read_bytes() for file in files if not names or file.name in names})


def chain_of(catalog: Catalog, xid: str) -> list[str]:
    found, at = [], xid
    while at in catalog and at not in found:
        found.append(at)
        message = catalog[at]
        if "xref" in message:
            at = message["xref"]
            continue
        at = (message["versions"].get(message["default"]) or {}).get("basemessage") or ""
        at = at.rpartition("/versions/")[0] or at
    return [*found, at] if at and at not in found else found


def row_of(registryid: str, xid: str, status: str, merged: dict[str, Any], chain: list[str] | None = None) -> dict[str, Any]:
    """Return the row of `flat_messages` for an effective definition."""
    attributes = dict(flat_attributes_of(merged, ""))
    envelope = merged.get("envelope")
    inferred = {}
    if (envelope or "").upper().startswith("CLOUDEVENTS"):
        names = {*_REQUIRED, "time", *merged.get("envelopemetadata", {})}
        for name in names:
            if f"/envelopemetadata/{name}/required" not in attributes:
                inferred[f"/envelopemetadata/{name}/required"] = json.dumps(name in _REQUIRED)
            if f"/envelopemetadata/{name}/type" not in attributes:
                inferred[f"/envelopemetadata/{name}/type"] = json.dumps(_INFERRED_TYPES.get(name, "string"))
    uri = merged.get("dataschemauri") or ""
    places, schema_xid = schema_places(uri), merged.get("dataschemaxid")
    return {
        "registryid": registryid, "xid": xid, "version_xid": f"{xid}/versions/1", "group_xid": xid.rpartition("/messages/")[0],
        "chain_status": status, "envelope": envelope, "protocol": merged.get("protocol"),
        "dataschemaformat": merged.get("dataschemaformat"), "dataschemauri": merged.get("dataschemauri"),
        "schema_xid": xid_of_resource(schema_xid) if schema_xid else (places[-1].schema if places else None),
        "attributes": attributes, "inferred": inferred, "depends_on": chain or [xid], "deprecated": None,
    }  # fmt: skip


def pairs_of(named: dict[str, Any]) -> list[dict[str, Any]]:
    """Return names and values as the adapters write them."""
    return [{"key": name, "value": value} for name, value in named.items()]


def flat_attributes_of(value: Any, pointer: str) -> list[tuple[str, str]]:
    """Return the leaves of a definition: objects are walked through, but for schemas and values."""
    tail = pointer.rpartition("/")[2]
    opaque = pointer == "/dataschema" or (tail == "value" and pointer.startswith(("/envelopemetadata/", "/protocoloptions/")))
    if isinstance(value, dict) and value and not opaque:
        return [leaf for name, member in value.items() for leaf in flat_attributes_of(member, f"{pointer}/{escape(name)}")]
    return [(pointer, json.dumps(value))]
