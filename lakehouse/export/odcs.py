"""A registry as data contracts of the Open Data Contract Standard (ODCS), one for each message."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lakehouse.asyncapi.messagewriting import address_of, identity_of
from lakehouse.asyncapi.outward import endpoint_address
from lakehouse.dialects.tables import family_of
from lakehouse.domain.references import schema_places
from lakehouse.export.backstage import OWNER, first_of
from lakehouse.export.odcsproperties import properties_of
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of

VERSION = "v3.2.0"
_HOST = re.compile(r"(?:[A-Za-z][A-Za-z0-9+._\-]*://)?([^/]*)")
_WITH_TOPICS = ("KAFKA", "MQTT")
_OWN_LABELS = (*OWNER, "domain", "status")  # what a contract has a member for
_FORMATS = {"jsonschema": "json", "avro": "avro", "protobuf": "protobuf", "xsd": "xml"}


def write_contracts(registry: dict[str, Any]) -> dict[Xid, dict[str, Any]]:
    """Return a contract for each message of a registry, by its XID.

    A message of an endpoint that says the same as one of a group has that one's contract.

    Args:
        registry: in normal form, with effective definitions of messages.
    """
    contracts: dict[Xid, dict[str, Any]] = {}
    identities: set[tuple[str, str]] = set()
    for collection in ("messagegroups", "endpoints"):
        for parentid, parent in registry.get(collection, {}).items():
            for messageid, message in parent.get("messages", {}).items():
                identity = (messageid, identity_of(message))
                if collection == "messagegroups" or identity not in identities:
                    identities.add(identity)
                    xid = xid_of(collection, parentid, "messages", messageid)
                    contracts[xid] = _contract(registry, xid, parent, message)
    return contracts


def _contract(registry: dict[str, Any], xid: Xid, parent: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    parentid, messageid = xid.split("/")[2], xid.rpartition("/")[2]
    labels = (parent.get("labels") or {}) | (message.get("labels") or {})
    is_old = message.get("deprecated") or (message.get("meta") or {}).get("deprecated") or parent.get("deprecated")
    schema_format, schema, reference = _schema(registry, message)
    endpoints = _endpoints(registry, xid, message)
    contract = {
        "apiVersion": VERSION,
        "kind": "DataContract",
        "id": f"{registry.get('registryid')}:{xid}",
        "name": message.get("name") or messageid,
        "version": str(message.get("versionid") or "1"),
        "status": labels.get("status") or ("deprecated" if is_old else "active"),
        "domain": labels.get("domain"),
        "dataProduct": parent.get("name") or parentid,
        "description": {"purpose": message["description"]} if message.get("description") else None,
        "authoritativeDefinitions": _links(message, parent),
        "tags": sorted(name for name, value in labels.items() if not value),
        "servers": list(_servers(endpoints, schema_format)),
        "schema": [_object(messageid, message, parent, endpoints, schema_format, schema, reference)],
        "team": {"name": first_of(labels, OWNER)} if first_of(labels, OWNER) else None,
        "customProperties": _custom(xid, message, parent, schema_format, reference, labels),
    }
    return {name: value for name, value in contract.items() if value not in (None, [], {})}


def _links(*entities: dict[str, Any]) -> list[dict[str, str]]:
    urls = dict.fromkeys(entity["documentation"] for entity in entities if entity.get("documentation"))
    return [{"url": url, "type": "documentation"} for url in urls]


def _endpoints(registry: dict[str, Any], xid: Xid, message: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the endpoints that carry a message, by their ids."""
    parent, _, messageid = xid.partition("/messages/")
    identity = identity_of(message)
    return {
        endpointid: endpoint
        for endpointid, endpoint in registry.get("endpoints", {}).items()
        if parent in (endpoint.get("messagegroups") or ())
        or any(
            (key, identity_of(own_message)) == (messageid, identity) for key, own_message in endpoint.get("messages", {}).items()
        )
    }


def _schema(registry: dict[str, Any], message: dict[str, Any]) -> tuple[str, Any, str | None]:
    """Return format and value of a message's schema, and the reference to it; None: the message itself has it."""
    reference = message.get("dataschemaxid") or message.get("dataschemauri")
    if message.get("dataschema") is not None or not isinstance(reference, str):
        return str(message.get("dataschemaformat") or "JSONSchema/draft-07"), message.get("dataschema"), None
    for place in schema_places(reference):
        _, _, group, _, schemaid = place.schema.split("/")
        stored_schema = registry.get("schemagroups", {}).get(group, {}).get("schemas", {}).get(schemaid)
        if stored_schema is not None:
            versionid = place.version.rpartition("/")[2] if place.version else stored_schema.get("versionid")
            body = stored_schema.get("versions", {}).get(versionid, stored_schema)
            return str(body.get("format") or message.get("dataschemaformat") or ""), body.get("schema"), reference
    return str(message.get("dataschemaformat") or ""), None, reference


def _object(
    messageid: str, message: dict[str, Any], parent: dict[str, Any], endpoints: dict[str, dict[str, Any]], schema_format: str,
    schema: Any, reference: str | None,
) -> dict[str, Any]:  # fmt: skip
    protocol = message.get("protocol") or parent.get("protocol")
    address = address_of(message, family_of(protocol))
    address = address or next(
        (text for endpoint in endpoints.values() if (text := endpoint_address(endpoint, endpoint.get("protocol")))), None
    )
    places = schema_places(reference) if reference else []
    made = {
        "name": messageid,
        "physicalName": address,
        "physicalType": "topic" if family_of(protocol) in _WITH_TOPICS else "message",
        "logicalType": "object",
        "description": message.get("description"),
        "properties": None if schema is None else properties_of(schema_format, schema, _type_name(places)),
    }
    return {name: value for name, value in made.items() if value not in (None, [])}


def _type_name(places: list[Any]) -> str | None:
    return next((place.type_name or place.place for place in places if place.type_name or place.place), None)


def _servers(endpoints: dict[str, dict[str, Any]], schema_format: str) -> Iterator[dict[str, Any]]:
    form = _FORMATS.get(schema_format.partition("/")[0].lower())
    for endpointid, endpoint in endpoints.items():
        family = family_of(endpoint.get("protocol"))
        addresses = (endpoint.get("protocoloptions") or {}).get("endpoints") or []
        uris = [address["uri"] for address in addresses if isinstance(address, dict) and isinstance(address.get("uri"), str)]
        for nth, uri in enumerate(uris, 1):
            server = {"server": endpointid if nth == 1 else f"{endpointid}-{nth}"}
            about = {"description": endpoint["description"]} if endpoint.get("description") else {}
            host = _HOST.match(uri)
            if family == "KAFKA" and host is not None:
                yield server | {"type": "kafka", "host": host[1]} | ({"format": form} if form else {}) | about
            elif family == "HTTP":
                yield server | {"type": "api", "location": uri} | about
            else:
                yield server | {"type": "custom", "location": uri} | ({"format": form} if form else {}) | about


def _custom(
    xid: Xid, message: dict[str, Any], parent: dict[str, Any], schema_format: str, reference: str | None, labels: dict[str, str]
) -> list[dict[str, Any]]:  # fmt: skip
    """Return what a contract has no member for."""
    metadata = message.get("envelopemetadata") or {}
    values = {
        "xid": xid,
        "protocol": message.get("protocol") or parent.get("protocol"),
        "envelope": message.get("envelope"),
        "contentType": message.get("datacontenttype"),
        "schemaFormat": message.get("dataschemaformat") or schema_format,
        "schema": reference,
    }
    types = metadata.get("type")
    values["cloudEventsType"] = types.get("value") if isinstance(types, dict) else types
    values |= {name: value for name, value in labels.items() if value and name not in _OWN_LABELS and name not in values}
    return [{"property": name, "value": value} for name, value in values.items() if value]
