"""Messages and schemas of a registry become those of `components`."""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.asyncapi.following import placed
from lakehouse.asyncapi.headerschemas import (
    COMPUTED,
    HINT,
    STRUCTURED,
    as_headers,
    as_payload,
    declared,
    declares_the_same,
    headers_schema,
)
from lakehouse.asyncapi.protocoltables import FAMILY_NAMES, bindings_of, has_references, is_json_schema, media_type_of
from lakehouse.asyncapi.servers import bindings_with, key_of, unique
from lakehouse.asyncapi.texts import texts_of
from lakehouse.dialects.tables import Loss, family_of
from lakehouse.domain.references import schema_places
from lakehouse.text.jsontext import below, canonical_text, object_at, objects_at, pointer_of
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.xid import xid_of

OF_VERSIONS = "AAPI-101"
OF_SCHEMA = "AAPI-102"
OF_GROUP = "AAPI-103"
OF_META = "AAPI-104"
_META = ("deprecated", "compatibility", "readonly", "authority")
_COMPUTED = frozenset((*COMPUTED, "basemessage", "version_uri"))


class MessageOut(NamedTuple):
    """A message: its XID, its key in `components`, its protocol and address, its group (empty: an endpoint)."""

    xid: Xid
    component: str
    protocol: str | None
    address: str | None
    group: str


class _SchemaOut(NamedTuple):
    """A schema Version that messages use: its key in `components`, its format, its id."""

    key: str
    schema_format: str
    versionid: str
    value: Any


class MessageWriter:
    """Collects messages and the schemas that they use.

    Args:
        registry: in normal form, with effective definitions.
        losses: gets what cannot be said.
    """

    def __init__(self, registry: dict[str, Any], losses: list[tuple[Xid, Loss]]) -> None:
        self._registry = registry
        self._losses = losses
        self._messages: dict[str, Any] = {}
        self._schemas: dict[str, Any] = {}
        self._used: dict[tuple[str, str], _SchemaOut] = {}
        self._written: dict[Xid, MessageOut] = {}
        self._identical: dict[tuple[str, str], MessageOut] = {}  # messages of groups by what they say, and their ids

    def of(self, parent: Xid, entity: dict[str, Any]) -> list[MessageOut]:
        """Return the messages of a group or endpoint, each written once."""
        members = objects_at(entity, "messages").items()
        return [
            self._same(message, name) or self._once(Xid(f"{parent}/messages/{name}"), message, entity)
            for name, message in members
        ]

    def _same(self, message: dict[str, Any], name: str) -> MessageOut | None:
        """Return the message of a group that says the same under the same id, as what an endpoint takes from a group does."""
        return self._identical.get((identity_of(message), name))

    def keys(self) -> dict[Xid, str]:
        """Return the keys in `components` of messages by their XIDs."""
        return {xid: message.component for xid, message in self._written.items()}

    def components(self) -> dict[str, Any]:
        """Return the messages and schemas of `components`."""
        every = {"messages": self._messages, "schemas": self._schemas}
        return {name: value for name, value in every.items() if value}

    def add_free_schemas(self) -> None:
        """Add the default Versions of schemas that no message uses; report Versions that are not written."""
        for group, schema_group in objects_at(self._registry, "schemagroups").items():
            for name in sorted(set(schema_group) - _COMPUTED):
                loss = Loss(Pointer(pointer_of(name)), OF_GROUP, f"`{name}` of a schema group has no place in AsyncAPI")
                self._losses.append((xid_of("schemagroups", group), loss))
            for name, schema in objects_at(schema_group, "schemas").items():
                xid = xid_of("schemagroups", group, "schemas", name)
                if not any(used_xid == xid for used_xid, _ in self._used):
                    self._schema(xid, None, is_free=True)
                self._lose(xid, schema)

    def _lose(self, xid: Xid, schema: dict[str, Any]) -> None:
        written = {version for used_xid, version in self._used if used_xid == xid}
        for version in sorted(set(objects_at(schema, "versions")) - written):
            loss = Loss(Pointer(pointer_of("versions", version)), OF_SCHEMA, "a Version that no message uses")
            self._losses.append((xid, loss))
        for name in sorted(set(schema) - _COMPUTED - {"format", "schema", "contenttype"}):
            if name != "schemauri":
                self._losses.append((xid, Loss(Pointer(f"/{name}"), OF_SCHEMA, f"`{name}` of a schema has no place in AsyncAPI")))
        self._lose_meta(xid, schema)

    def _lose_meta(self, xid: Xid, entity: dict[str, Any]) -> None:
        meta = entity.get("meta")
        for name in _META:
            if isinstance(meta, dict) and meta.get(name):
                self._losses.append((xid, Loss(Pointer(f"/meta/{name}"), OF_META, f"`{name}` has no place in AsyncAPI")))

    def _once(self, xid: Xid, message: dict[str, Any], parent: dict[str, Any]) -> MessageOut:
        if xid not in self._written:
            protocol = message.get("protocol")
            address = address_of(message, family_of(protocol or parent.get("protocol")))
            group = xid.split("/")[2] if xid.startswith("/messagegroups/") else ""
            key = unique(key_of(xid.rpartition("/")[2]), self._messages)
            self._messages[key] = {}
            made = MessageOut(xid, key, protocol, address, group)
            self._written[xid] = made
            if group:
                self._identical.setdefault((identity_of(message), xid.rpartition("/")[2]), made)
            self._messages[key] = self._message(made, message, parent)
            for version in sorted(set(objects_at(message, "versions")) - {message.get("versionid")}):
                loss = Loss(Pointer(pointer_of("versions", version)), OF_VERSIONS, "a Version that is not the default one")
                self._losses.append((xid, loss))
            self._lose_meta(xid, message)
        return self._written[xid]

    def _message(self, made: MessageOut, message: dict[str, Any], parent: dict[str, Any]) -> dict[str, Any]:
        family = family_of(made.protocol or parent.get("protocol"))
        own = object_at(message, "asyncapi")
        written = {name: value for name, value in own.items() if name not in ("headers", "bindings")}
        hints: dict[str, Any] = {"xid": made.xid}
        written |= texts_of(message, own)
        options = dict(object_at(message, "protocoloptions"))
        is_event = str(message.get("envelope") or "").lower().startswith("cloudevents")
        is_structured = is_event and object_at(message, "envelopeoptions").get("mode") == "structured"
        content_type = message.get("datacontenttype")
        written |= {"contentType": content_type} if content_type else {"contentType": STRUCTURED} if is_structured else {}
        hints |= {"structured": True} if is_structured else {}
        headers = self._headers(message, options, family, is_binary=is_event and not is_structured)
        if own.get("headers") and declares_the_same(own["headers"], headers, family):
            written["headers"] = placed(own["headers"], pointer_of("components", "messages", made.component, "headers"))
        elif headers:
            written["headers"] = headers_schema(headers)
        written |= bindings_with(own, bindings_of(made.protocol or parent.get("protocol"), "message"), options)
        payload = self._payload(made, message, hints, is_structured=is_structured)
        written |= {} if payload is None else {"payload": payload}
        return written | {HINT: hints}

    def _headers(
        self, message: dict[str, Any], options: dict[str, Any], family: str | None, *, is_binary: bool
    ) -> dict[str, dict[str, Any]]:
        """Return the headers of a message."""
        names = FAMILY_NAMES.get(family or "")
        headers_of: dict[str, dict[str, Any]] = {}
        if names is not None and names.headers in options:
            headers = options[names.headers]
            pairs = (
                [(header.get("name"), header) for header in headers if isinstance(header, dict)]
                if isinstance(headers, list)
                else []
            )
            pairs = list(headers.items()) if isinstance(headers, dict) else pairs
            if len({name for name, _ in pairs}) == len(pairs) and all(isinstance(name, str) for name, _ in pairs):
                headers_of = {str(name): {k: v for k, v in declared(header).items() if k != "name"} for name, header in pairs}
        if is_binary:
            headers_of = as_headers(object_at(message, "envelopemetadata"), family) | headers_of
        return headers_of

    def _payload(self, made: MessageOut, message: dict[str, Any], hints: dict[str, Any], *, is_structured: bool) -> Any:
        """Return the payload of a message."""
        schema_format, schema = message.get("dataschemaformat"), message.get("dataschema")
        reference = message.get("dataschemaxid") or message.get("dataschemauri")
        if schema is None and isinstance(reference, str):
            places = schema_places(reference)
            place = places[-1] if places else None
            version = place.version.rpartition("/")[2] if place and place.version else None
            used = self._schema(place.schema, version) if place else None
            if place is None or used is None:
                return as_payload(object_at(message, "envelopemetadata"), None) if is_structured else None
            hints |= {"dataschemaxid": place.schema, "schemaversion": used.versionid, "format": used.schema_format}
            shown = {"$ref": f"#/components/schemas/{used.key}"}
            return as_payload(object_at(message, "envelopemetadata"), shown) if is_structured else shown
        if schema is None:
            return as_payload(object_at(message, "envelopemetadata"), None) if is_structured else None
        inside = ["properties", "data"] if is_structured else []
        at = pointer_of("components", "messages", made.component, "payload", *inside)
        shown = _shown(schema, str(schema_format or ""), at)
        return as_payload(object_at(message, "envelopemetadata"), shown) if is_structured else shown

    def _schema(self, xid: Xid, versionid: str | None, *, is_free: bool = False) -> _SchemaOut | None:
        """Write a Version of a schema, the default one without an id, and give its place; None: the registry does not hold it."""
        tokens = xid.split("/")
        schema_group = objects_at(self._registry, "schemagroups").get(tokens[2], {}) if len(tokens) > 4 else {}
        schema = objects_at(schema_group, "schemas").get(tokens[4]) if schema_group else None
        if schema is None:
            return None
        version = versionid or schema.get("versionid") or "1"
        body = objects_at(schema, "versions").get(version) or (schema if version == schema.get("versionid", version) else None)
        if body is None or body.get("schema") is None:
            return None
        if (xid, version) not in self._used:
            key = unique(key_of(tokens[4]), self._schemas)
            schema_format = str(body.get("format") or "JSONSchema/draft-07")
            self._used[xid, version] = _SchemaOut(key, schema_format, version, body["schema"])
            hint = {"xid": xid, "version": version, "format": schema_format} if is_free else None
            shown = _shown(body["schema"], schema_format, pointer_of("components", "schemas", key))
            self._schemas[key] = shown | {HINT: hint} if hint and isinstance(shown, dict) else shown
        return self._used[xid, version]


def identity_of(message: dict[str, Any]) -> str:
    """Return what a message says as text: two that say the same have the same."""
    return canonical_text({name: value for name, value in message.items() if name not in _COMPUTED})


def _shown(schema: Any, schema_format: str, at: Pointer) -> Any:
    """Write a schema at a place: a JSON Schema as it is, any other with its format."""
    if is_json_schema(schema_format):
        return placed(schema, at)
    inner = placed(schema, below(at, "schema")) if has_references(schema_format) else schema
    return {"schemaFormat": media_type_of(schema_format) or schema_format, "schema": inner}


def address_of(message: dict[str, Any], family: str | None) -> str | None:
    """Return the address that a message declares; None: it declares none."""
    names = FAMILY_NAMES.get(family or "")
    name = names.declared_address if names else "address"
    option = object_at(message, "protocoloptions").get(name) if name else None
    value = None if option is None else declared(option).get("value")
    return value if isinstance(value, str) and value else None
