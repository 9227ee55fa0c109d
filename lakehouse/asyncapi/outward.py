"""A registry document in normal form, with effective definitions, becomes an AsyncAPI 3 document.

Endpoints become operations, what carries the same address of a protocol a channel, addresses servers, payload schemas
`components`. What AsyncAPI has no word for is in `x-xregistry`, so that a load of the document finds it again; what
is not even there is a loss.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

from lakehouse.asyncapi.following import with_placed_references
from lakehouse.asyncapi.headerschemas import (
    COMPUTED,
    HINT,
    STRUCTURED,
    as_headers,
    as_payload,
    declared,
    declares_the_same,
    from_payload,
    headers_schema,
)
from lakehouse.asyncapi.identifiers import placeholders
from lakehouse.asyncapi.inward import convert
from lakehouse.asyncapi.protocoltables import FAMILY_NAMES, bindings_of, format_of, has_references, is_json_schema, media_type_of
from lakehouse.asyncapi.servers import ServerWriter, bindings_with, kept_schemes, key_of, unique
from lakehouse.asyncapi.texts import kept_members, texts_of
from lakehouse.compatibility.jsonshapes import JsonDocument
from lakehouse.dialects.entityreader import read_entity
from lakehouse.dialects.tables import Loss, family_of
from lakehouse.domain.references import SchemaPlace, schema_places, schema_reference
from lakehouse.domain.schemalookup import stored_schema
from lakehouse.text.jsontext import (
    NotJson,
    array_at,
    below,
    canonical_text,
    object_at,
    objects_at,
    pointer_of,
    read_exactly,
    read_json,
    same,
    text_at,
)
from lakehouse.text.names import ROOT, Pointer, Xid
from lakehouse.text.xid import last_id, xid_of, xid_of_version

OF_VERSIONS = "AAPI-101"
_MOST_LEVELS = 150  # of a schema that is text: the document has it some levels deeper, and a reader may take 200
OF_SCHEMA = "AAPI-102"
OF_GROUP = "AAPI-103"
OF_META = "AAPI-104"
OF_REGISTRY = "AAPI-105"
OF_ADDRESS = "AAPI-106"
ASYNCAPI_VERSION = "3.0.0"
_TEXT = "text/plain"  # of a schema that is no object, as Schema Objects are
_META = ("deprecated", "compatibility", "readonly", "authority", "xref")
_NOT_COMPARED = frozenset((*COMPUTED, "basemessage", "version_uri"))
Perspective = Literal["client", "server"]
_ADDRESS_OPTIONS = {
    "KAFKA": ("topic",),
    "MQTT": ("topic", "topicfilter"),
    "AMQP": ("node",),
    "NATS": ("subject", "subjectfilter"),
}


class MessageOut(NamedTuple):
    """A message: its XID, its key in `components`, its protocol and address, its group (empty: an endpoint)."""

    xid: Xid
    component: str
    protocol: str | None
    address: str | None
    group: str


class _SchemaOut(NamedTuple):
    """A schema Version that messages use: its key in `components`, its format, its id, its value as it is written there."""

    key: str
    schema_format: str
    versionid: str
    value: Any

    def reference(self, part: Pointer) -> dict[str, Any]:
        """Return what refers to the schema, or to a part of it: that names the format, too."""
        media_type = media_type_of(self.schema_format)
        if not part or media_type is None:
            return {"$ref": f"#/components/schemas/{self.key}{quote(part)}"}
        return {"schemaFormat": media_type, "schema": {"$ref": f"#/components/schemas/{self.key}/schema{quote(part)}"}}


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

    def messages_of(self, parent: Xid, entity: dict[str, Any]) -> list[MessageOut]:
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
            for name in sorted(set(schema_group) - _NOT_COMPARED):
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
        for version in sorted(written):
            if objects_at(schema, "versions").get(version, schema).get("contenttype"):
                at = Pointer(pointer_of("versions", version, "contenttype"))
                self._losses.append((xid, Loss(at, OF_SCHEMA, "`contenttype` of a schema has no place in AsyncAPI")))
        for name in sorted(set(schema) - _NOT_COMPARED - {"format", "schema", "contenttype"}):
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
        written = kept_members(own, "headers", "bindings", "payload", "traits")
        hints: dict[str, Any] = {"xid": made.xid}
        versionid = text_at(message, "versionid") or "1"
        hints |= {"versionid": versionid} if versionid != "1" else {}
        written |= texts_of(message, own)
        options = dict(object_at(message, "protocoloptions"))
        is_event = str(message.get("envelope") or "").lower().startswith("cloudevents")
        is_structured = is_event and object_at(message, "envelopeoptions").get("mode") == "structured"
        content_type = message.get("datacontenttype")
        written |= {"contentType": content_type} if content_type else {"contentType": STRUCTURED} if is_structured else {}
        hints |= {"structured": True} if is_structured else {}
        headers = self._headers(message, options, family, is_binary=is_event and not is_structured)
        if own.get("headers") and declares_the_same(own["headers"], headers, family):
            written["headers"] = with_placed_references(
                own["headers"], pointer_of("components", "messages", made.component, "headers")
            )
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
        reference = schema_reference(text_at(message, "dataschemauri"), text_at(message, "dataschemaxid"))
        here = pointer_of("components", "messages", made.component, "payload")
        original = _kept_event(message, here) if is_structured and (schema is not None or reference is None) else None
        if original is not None:
            return original
        if schema is None and reference is not None:
            places = schema_places(reference)
            place = places[-1] if places else None
            version = place.version.rpartition("/")[2] if place and place.version else None
            used = self._schema(place.schema, version) if place else None
            if place is None or used is None:
                return as_payload(object_at(message, "envelopemetadata"), None) if is_structured else None
            part = _part_of(used.value, place) if is_json_schema(used.schema_format) else ROOT
            hints |= {"dataschemaxid": place.schema, "schemaversion": used.versionid, "format": used.schema_format}
            hints |= {"part": part} if part else {}
            shown = used.reference(part)
            return as_payload(object_at(message, "envelopemetadata"), shown) if is_structured else shown
        if schema is None:
            return as_payload(object_at(message, "envelopemetadata"), None) if is_structured else None
        at = below(here, "properties", "data") if is_structured else here
        shown = _shown(schema, str(schema_format or ""), at)
        return as_payload(object_at(message, "envelopemetadata"), shown) if is_structured else shown

    def _schema(self, xid: Xid, versionid: str | None, *, is_free: bool = False) -> _SchemaOut | None:
        """Write a Version of a schema, the default one without an id, and give its place; None: the registry does not hold it.

        An alias gets a copy of what it names, since AsyncAPI has none; its `xref` is a loss.
        """
        named = None if versionid is None else xid_of_version(xid, versionid)
        stored = stored_schema(self._registry, SchemaPlace(xid, named, None, None))
        if stored is None or stored.attributes.get("schema") is None:
            return None
        body, version = stored.attributes, last_id(stored.xid)
        if (xid, version) not in self._used:
            key = unique(key_of(xid.rpartition("/")[2]), self._schemas)
            schema_format = str(body.get("format") or "JSONSchema/draft-07")
            value = body["schema"] if media_type_of(schema_format) else _parsed(body["schema"])
            self._used[xid, version] = _SchemaOut(key, schema_format, version, value)
            hint = {"xid": xid, "version": version, "format": schema_format} if is_free else None
            shown = _shown(body["schema"], schema_format, pointer_of("components", "schemas", key))
            self._schemas[key] = shown | {HINT: object_at(shown, HINT) | hint} if hint and isinstance(shown, dict) else shown
        return self._used[xid, version]


def identity_of(message: dict[str, Any]) -> str:
    """Return what a message says as text: two that say the same have the same."""
    return canonical_text({name: value for name, value in message.items() if name not in _NOT_COMPARED})


def _shown(schema: Any, schema_format: str, at: Pointer) -> Any:
    """Write a schema at a place: one of the draft of JSON Schema that AsyncAPI uses as it is, any other with its format.

    Text is parsed where AsyncAPI takes no text, and kept for the way back.
    """
    media_type = media_type_of(schema_format)
    if media_type is None and isinstance(schema, str):
        parsed = _parsed(schema)
        is_object = isinstance(parsed, dict)
        hint = {HINT: {"text": schema}}
        return with_placed_references(parsed, at) | hint if is_object else {"schemaFormat": _TEXT, "schema": schema}
    if media_type is None:
        return with_placed_references(schema, at)
    inner = with_placed_references(schema, below(at, "schema")) if has_references(schema_format) else schema
    return {"schemaFormat": media_type, "schema": inner}


def _parsed(schema: Any) -> Any:
    """Return a schema that is JSON text as its value; any other as it is, and text that a reader might find too deep."""
    if not isinstance(schema, str):
        return schema
    try:
        read_json(schema.encode(), _MOST_LEVELS)
        return read_exactly(schema.encode())
    except (NotJson, ValueError):
        return schema


def _part_of(schema: Any, place: SchemaPlace) -> Pointer:
    """Return the place in a JSON Schema that a reference names; empty: the whole, or there is no such place."""
    pointer = "/" + unquote(place.type_name or place.place or "").lstrip("/")
    is_there = pointer != "/" and isinstance(schema, dict) and JsonDocument(schema).follow(f"#{quote(pointer)}") is not None
    return Pointer(pointer) if is_there else ROOT


def _kept_event(message: dict[str, Any], at: Pointer) -> Any:
    """Return the payload of a structured event that was kept as it was read; None: the message says something else now."""
    original = object_at(object_at(message, "asyncapi"), "payload")
    original_format = format_of(text_at(original, "schemaFormat"))
    schema = original.get("schema") if "schemaFormat" in original else original
    event, now = from_payload(schema), from_payload(as_payload(object_at(message, "envelopemetadata"), message.get("dataschema")))
    is_same = event == now and message.get("dataschemaformat", original_format) == original_format
    return None if event is None or not is_same else _shown(schema, original_format, at)


def address_of(message: dict[str, Any], family: str | None) -> str | None:
    """Return the address that a message declares; None: it declares none."""
    names = FAMILY_NAMES.get(family or "")
    name = names.declared_address if names else "address"
    option = object_at(message, "protocoloptions").get(name) if name else None
    value = None if option is None else declared(option).get("value")
    return value if isinstance(value, str) and value else None


class AsyncApi(NamedTuple):
    """An AsyncAPI document, and what it could not say: each with the XID of the entity."""

    document: dict[str, Any]
    losses: list[tuple[Xid, Loss]]


class _ChannelOut:
    """A channel on its way: key, address, protocol, the messages by their keys, servers, and the groups that it shows."""

    def __init__(self, key: str, protocol: str | None, address: str | None) -> None:
        self.key = key
        self.protocol = protocol
        self.address = address
        self.messages: dict[str, MessageOut] = {}
        self.servers: list[str] = []
        self.groups: list[str] = []
        self.has_endpoint = False
        self.uninterpreted: dict[str, Any] = {}

    def key_of_message(self, message: MessageOut) -> str:
        """Return the key of a message in this channel, which it gets if it has none yet."""
        for key, other in self.messages.items():
            if other.xid == message.xid:
                return key
        key = unique(key_of(message.xid.rpartition("/")[2]), self.messages)
        self.messages[key] = message
        return key


def write_asyncapi(registry: dict[str, Any], perspective: Perspective = "client", version: str = ASYNCAPI_VERSION) -> AsyncApi:
    """Write a registry document as AsyncAPI 3.

    Args:
        registry: in normal form, with effective definitions of messages.
        perspective: `client`: the document describes who uses the endpoints (a producer sends); `server`: who offers them.
        version: of AsyncAPI, `3.0.0` or `3.1.0`.
    """
    return _Writing(registry, perspective, version).write()


def endpoint_address(endpoint: dict[str, Any], protocol: Any) -> str | None:
    """Return the address of a protocol that an endpoint names; None: it names none."""
    options, family = object_at(endpoint, "protocoloptions"), family_of(protocol) or ""
    addresses = [options.get(name) for name in _ADDRESS_OPTIONS.get(family, ())]
    is_deployed = options.get("deployed") is not False
    if is_deployed and (family == "HTTP" or family not in FAMILY_NAMES) and "channel" in _uninterpreted(endpoint):
        addresses.append(endpoint.get("channel"))
    return next((address for address in addresses if isinstance(address, str) and address), None)


class _Writing:
    """A registry document on its way."""

    def __init__(self, registry: dict[str, Any], perspective: Perspective, version: str) -> None:
        self.registry = registry
        self.perspective = perspective
        self.version = version
        self.losses: list[tuple[Xid, Loss]] = []
        self.servers = ServerWriter()
        self.messages = MessageWriter(registry, self.losses)
        self.channels: dict[tuple[str | None, str | None, str], _ChannelOut] = {}
        self.operations: dict[str, Any] = {}
        self.groups: dict[str, dict[str, Any]] = objects_at(registry, "messagegroups")
        self.applications = {
            name: group for name, group in self.groups.items() if isinstance(_uninterpreted(group).get("info"), dict)
        }

    def write(self) -> AsyncApi:
        for name, group in self.groups.items():
            self.messages.messages_of(xid_of("messagegroups", name), group)
        for name, endpoint in objects_at(self.registry, "endpoints").items():
            self._endpoint(name, endpoint)
        for name, group in self.groups.items():
            self._group(name, group)
        self.messages.add_free_schemas()
        document = self._document()
        add_attributes(
            document, self.registry, self.messages, {channel.key: channel.groups for channel in self.channels.values()}
        )
        return AsyncApi(document, self.losses)

    def _endpoint(self, name: str, endpoint: dict[str, Any]) -> None:
        """Write an endpoint: an operation for each of its roles and each address of its messages."""
        xid, uninterpreted, options = xid_of("endpoints", name), _uninterpreted(endpoint), object_at(endpoint, "protocoloptions")
        protocol = endpoint.get("protocol")
        carried, bases, groups = self._carried(xid, endpoint)
        servers = self._servers(xid, endpoint, options)
        by_address: dict[tuple[str | None, str | None], list[MessageOut]] = {}
        for message in carried:
            spoken = message.protocol or protocol
            by_address.setdefault((spoken, message.address or endpoint_address(endpoint, spoken)), []).append(message)
        for (spoken, address), messages in (by_address or {(protocol, endpoint_address(endpoint, protocol)): []}).items():
            group = messages[0].group if messages else (groups[0].rpartition("/")[2] if groups else name)
            channel = self._channel(spoken, address, group, object_at(uninterpreted, "channel").get("key"))
            channel.has_endpoint = True
            channel.uninterpreted = channel.uninterpreted or _of_channel(object_at(uninterpreted, "channel"))
            channel.servers += [server for server in servers if server not in channel.servers]
            keys = [channel.key_of_message(message) for message in messages]
            channel.groups = list(dict.fromkeys([*channel.groups, *(message.group for message in messages if message.group)]))
            for usage in endpoint.get("usage") or ["producer"]:
                hints: dict[str, Any] = {"endpointid": name} | ({"messages": bases} if bases else {})
                self._operation(name, endpoint, usage, channel, keys=keys, hints=hints)

    def _carried(self, xid: Xid, endpoint: dict[str, Any]) -> tuple[list[MessageOut], list[Xid], list[str]]:
        """Return the messages of an endpoint; which of them are those of a group; and its groups."""
        carried = self.messages.messages_of(xid, endpoint)
        bases = [message.xid for message in carried if message.group]
        groups = [group for group in endpoint.get("messagegroups") or [] if isinstance(group, str)]
        for group in groups:
            name = group.rpartition("/")[2]
            carried += self.messages.messages_of(xid_of("messagegroups", name), self.groups.get(name, {}))
        return carried, bases, groups

    def _servers(self, xid: Xid, endpoint: dict[str, Any], options: dict[str, Any]) -> list[str]:
        names = []
        for index, address in enumerate(options.get("endpoints") or []):
            if not isinstance(address, dict) or not isinstance(address.get("uri"), str):
                continue
            if set(address) - {"uri"}:
                at = Pointer(f"/protocoloptions/endpoints/{index}")
                self.losses.append(
                    (xid, Loss(at, OF_ADDRESS, f"`{sorted(set(address) - {'uri'})[0]}` of an address has no place in AsyncAPI"))
                )
            names.append(self.servers.add(address["uri"], endpoint.get("protocol"), options, _uninterpreted(endpoint)))
        return list(dict.fromkeys(names))

    def _channel(self, protocol: str | None, address: str | None, group: str, wanted: Any) -> _ChannelOut:
        place = (protocol, address, "" if address is not None and protocol else group)
        if place not in self.channels:
            key = key_of(str(wanted or group or address or "channel"))
            taken = {channel.key for channel in self.channels.values()}
            self.channels[place] = _ChannelOut(unique(key, taken), protocol, address)
        return self.channels[place]

    def _operation(
        self, name: str, endpoint: dict[str, Any], usage: str, channel: _ChannelOut, *, keys: list[str], hints: dict[str, Any]
    ) -> None:
        own = object_at(_uninterpreted(endpoint), "operation")
        written = kept_members(own, "key", "reply", "bindings", "security", "action", "channel", "messages", "traits")
        sends = (usage == "producer") == (self.perspective == "client")
        operation: dict[str, Any] = {"action": "send" if sends else "receive", "channel": {"$ref": f"#/channels/{channel.key}"}}
        operation |= written | texts_of(endpoint, own)
        if set(keys) != set(channel.messages) or len(self.messages.messages_of(xid_of("endpoints", name), endpoint)):
            operation["messages"] = [{"$ref": f"#/channels/{channel.key}/messages/{key}"} for key in keys]
        operation |= bindings_with(own, bindings_of(channel.protocol, "operation"), object_at(endpoint, "protocoloptions"))
        security = [self.servers.scheme(scheme) for scheme in kept_schemes(own)]
        operation |= {"security": security} if security else {}
        operation |= {"reply": own["reply"]} if object_at(own, "reply") else {}
        key = unique(key_of(str(own.get("key") or name)), self.operations)
        self.operations[key] = operation | {HINT: hints}

    def _group(self, name: str, group: dict[str, Any]) -> None:
        """Write the messages of a group that no endpoint carries, and what the group says itself."""
        own = {attribute: value for attribute, value in group.items() if attribute not in COMPUTED}
        messages = self.messages.messages_of(xid_of("messagegroups", name), group)
        shown = [channel for channel in self.channels.values() if name in channel.groups]
        is_application = name in self.applications
        carried = {message.xid for channel in self.channels.values() for message in channel.messages.values()}
        for message in messages:
            if message.xid not in carried and not is_application:
                channel = self._idle_channel(message.protocol or group.get("protocol"), message.address, name)
                channel.key_of_message(message)
                shown += [channel] if channel not in shown else []
        if not shown and not messages and not is_application:
            shown = [self._idle_channel(group.get("protocol"), None, name)]
        if is_application and len(self.applications) == 1:
            return
        alone = [channel for channel in shown if channel.groups == [name]]
        if not alone and (set(own) - {"protocol"}):
            self.losses.append(
                (xid_of("messagegroups", name), Loss(ROOT, OF_GROUP, "attributes of the group: no channel shows it alone"))
            )

    def _idle_channel(self, protocol: str | None, address: str | None, group: str) -> _ChannelOut:
        """Return the channel of a group that no endpoint carries."""
        described = [
            object_at(object_at(_uninterpreted(application), "channels"), group) for application in self.applications.values()
        ]
        channel_texts = next((channel_texts for channel_texts in described if channel_texts), {})
        channel = self._channel(protocol, address, group, text_at(channel_texts, "key"))
        channel.uninterpreted = channel.uninterpreted or _of_channel(channel_texts)
        channel.groups += [group] if group not in channel.groups else []
        return channel

    def _document(self) -> dict[str, Any]:
        channels = {channel.key: self._write_channel(channel) for channel in self.channels.values()}
        for operation in self.operations.values():
            if "reply" in operation:
                operation["reply"] = _reply_of(operation["reply"], self.channels.values())
        components: dict[str, Any] = self.messages.components()
        schemes = self.servers.schemes
        components |= {"securitySchemes": schemes} if schemes else {}
        about, hint = self._about()
        return {
            "asyncapi": self.version,
            **about,
            **({"servers": self.servers.servers} if self.servers.servers else {}),
            "channels": channels,
            "operations": self.operations,
            **({"components": components} if components else {}),
            HINT: hint,
        }

    def _write_channel(self, channel: _ChannelOut) -> dict[str, Any]:
        """Write a channel."""
        written: dict[str, Any] = {"address": channel.address} | {
            k: v for k, v in channel.uninterpreted.items() if k != "parameters"
        }
        hints: dict[str, Any] = {"protocol": channel.protocol} if channel.protocol else {}
        if channel.groups and channel.groups == channel.groups[:1]:
            name = channel.groups[0]
            group = self.groups.get(name, {})
            hints["group"] = name
            written |= {} if channel.uninterpreted or name in self.applications else texts_of(group, {})
        if not channel.servers:
            hints["servers"] = []
        else:
            written["servers"] = [{"$ref": f"#/servers/{name}"} for name in channel.servers]
        named = placeholders(written["address"] or "")
        if named:
            described = object_at(channel.uninterpreted, "parameters")
            written["parameters"] = {name: described.get(name) or {} for name in named}
        refs = {key: {"$ref": f"#/components/messages/{message.component}"} for key, message in channel.messages.items()}
        return written | ({"messages": refs} if refs else {}) | {HINT: hints}

    def _about(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the members of the document besides its parts, and what identifies the application."""
        hint: dict[str, Any] = {"perspective": self.perspective}
        own = {k for k in self.registry if k not in COMPUTED | {"name", "description", "documentation", "$schema"}}
        for name in sorted(own):
            self.losses.append(
                (Xid("/"), Loss(Pointer(f"/{name}"), OF_REGISTRY, f"`{name}` of the registry has no place in AsyncAPI"))
            )
        if len(self.applications) != 1:
            title = self.registry.get("name") or self.registry.get("registryid") or "registry"
            info = {"title": title, "version": "1"} | texts_of({k: v for k, v in self.registry.items() if k != "name"}, {})
            return {"info": info}, hint
        [(name, group)] = self.applications.items()
        uninterpreted = _uninterpreted(group)
        texts = texts_of(group, {})
        info = {"title": texts.pop("title", name), "version": "1"} | uninterpreted["info"] | texts
        for key, server in object_at(uninterpreted, "servers").items():
            self.servers.servers.setdefault(key, server)
        outside = {k: v for k, v in uninterpreted.items() if k == "id" or k.startswith("x-")}
        default = {"defaultContentType": uninterpreted["defaultContentType"]} if "defaultContentType" in uninterpreted else {}
        return {**outside, "info": info, **default}, hint | {"group": name}


def _of_channel(uninterpreted: dict[str, Any]) -> dict[str, Any]:
    return kept_members(uninterpreted, "key", "messages", "servers")


def _reply_of(uninterpreted: dict[str, Any], channels: Iterable[_ChannelOut]) -> dict[str, Any]:
    """Write a reply: its group becomes the channel that shows it, if the document has one."""
    reply = {name: value for name, value in uninterpreted.items() if name not in ("$ref", "messagegroup", "messages")}
    wanted = array_at(uninterpreted, "messages")
    group = str(uninterpreted.get("messagegroup")).rpartition("/")[2]
    channel = next((channel for channel in channels if group in channel.groups), None)
    if channel is not None:
        reply["channel"] = {"$ref": f"#/channels/{channel.key}"}
        keys = [key for key, message in channel.messages.items() if message.xid in wanted]
        reply |= {"messages": [{"$ref": f"#/channels/{channel.key}/messages/{key}"} for key in keys]} if keys else {}
    return reply


def _uninterpreted(entity: dict[str, Any]) -> dict[str, Any]:
    return object_at(entity, "asyncapi")


def add_attributes(
    document: dict[str, Any], registry: dict[str, Any], messages: MessageWriter, groups: dict[str, list[str]]
) -> None:
    """Write the attributes that differ when a document is loaded as it is.

    Args:
        document: of AsyncAPI; messages, operations and channels get `attributes` in their `x-xregistry`.
        registry: what the document is of.
        messages: those that were written.
        groups: of channels, by their keys.
    """
    made = convert(document).document
    for xid, component in messages.keys().items():
        collection, group, _, name = xid[1:].split("/")
        wanted, result = registry[collection][group], made[collection].get(group, {})
        family = family_of(wanted.get("protocol"))
        message = result.get("messages", {}).get(name)
        if message is not None and "basemessage" not in message:
            hint = document["components"]["messages"][component][HINT]
            _add_differing(hint, "message", wanted["messages"][name], message, family)
    for operation in document["operations"].values():
        name = operation[HINT]["endpointid"]
        _add_differing(operation[HINT], "endpoint", registry["endpoints"][name], made["endpoints"].get(name, {}), None)
    for element in (document, *document["channels"].values()):
        name = element[HINT].get("group")
        if name is not None:
            read = made["messagegroups"].get(name, {})
            _add_differing(element[HINT], "messagegroup", registry["messagegroups"].get(name, {}), read, None)


def _add_differing(
    hint: dict[str, Any],
    entity: str,
    wanted: dict[str, Any],
    results: dict[str, Any],
    family: str | None,
) -> None:
    """Note the attributes of an entity that are read otherwise; null: it has none, and one would be read."""
    written, read = _attributes(entity, wanted, family), _attributes(entity, results, family)
    names = sorted({*written, *read})
    differing = {
        name: written.get(name) for name in names if not (name in written and name in read and same(written[name], read[name]))
    }
    if differing:
        hint["attributes"] = differing


def _attributes(entity: str, value: dict[str, Any], family: str | None) -> dict[str, Any]:
    """Return the attributes of an entity in normal form."""
    own = {
        name: value_of_name
        for name, value_of_name in value.items()
        if name not in COMPUTED or (entity, name) == ("endpoint", "messagegroups")
    }
    result = read_entity(entity, own, ROOT, family)
    return result.attributes | result.extensions
