"""An AsyncAPI document of 2.0 to 3.1 in one shape, that of 3: servers, channels, operations, messages, traits merged.

In 2.x a channel's key is its address, `publish` is what the application receives and `subscribe` what it sends, and a trait wins
over what it is applied to; in 3.x the trait gives way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehouse.asyncapi.following import Following, Spot, apply_merge_patch, completed, for_merging
from lakehouse.asyncapi.headerschemas import HINT
from lakehouse.asyncapi.identifiers import apart, fitted, id_of_address, id_of_key, with_symbols
from lakehouse.asyncapi.protocoltables import Wire, normal_protocol, wire_of
from lakehouse.asyncapi.texts import NAMES, Texts
from lakehouse.dialects.detection import asyncapi_of
from lakehouse.dialects.tables import PROTOCOLS, family_of
from lakehouse.text.jsontext import below, object_at, pointer_of, text_at
from lakehouse.text.names import Pointer

UNKNOWN_TARGET = "AAPI-008"
_ACTIONS = {"publish": "receive", "subscribe": "send"}
_HOST = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.\-]*://)?([^/]*)(/.*)?")


@dataclass
class ServerPart:
    """A server: `host` and `pathname` with the variables in them as written."""

    name: str
    spot: Spot
    host: str
    pathname: str
    protocol: str
    version: str | None


@dataclass
class MessagePart:
    """A message: `spot` has its traits merged; `payload` and `headers` as written, not followed."""

    key: str
    spot: Spot
    payload: Spot | None
    schema_format: str | None
    headers: Spot | None


@dataclass
class ChannelPart:
    """A channel; `address` None: it is not known before run time."""

    key: str
    spot: Spot
    address: str | None
    servers: list[ServerPart]
    messages: dict[str, MessagePart] = field(default_factory=dict)


@dataclass
class OperationPart:
    """An operation of the application: `action` is `send` or `receive`; `messages`: keys in its channel."""

    key: str
    spot: Spot
    action: str
    channel: ChannelPart
    messages: list[str]


class Application:
    """A document: its `servers`, `channels` and `operations` by their names."""

    def __init__(self, following: Following) -> None:
        self.following = following
        self.root = following.root
        self.is_old = asyncapi_of(self.root.value) == "asyncapi-2"
        self.servers = {name: self._server(name, spot) for name, spot in following.members(self.root, "servers")}
        self.channels: dict[str, ChannelPart] = {}
        self.operations: dict[str, OperationPart] = {}
        self._places: dict[tuple[str, Pointer], ChannelPart] = {}
        if self.is_old:
            self._read_old_channels()
        else:
            self._read_channels()
            self._read_operations()

    def component_messages(self) -> dict[str, MessagePart]:
        """Return the messages of `components`, with their traits merged."""
        return {name: self.message(name, spot) for name, spot in self.following.members(self.root, "components", "messages")}

    def message(self, key: str, spot: Spot) -> MessagePart:
        """Read a message that was followed."""
        merged = self._with_traits(spot)
        if self.is_old:
            schema_format = merged.value.get("schemaFormat")
            payload = self.following.child(merged, "payload") if "payload" in merged.value else None
        else:
            payload, schema_format = self.with_format(merged, "payload")
        headers, _ = self.with_format(merged, "headers")
        format_name = schema_format if isinstance(schema_format, str) else None
        return MessagePart(key, merged, payload, format_name, headers)

    def with_format(self, spot: Spot, name: str) -> tuple[Spot | None, Any]:
        """Return a schema and its format: a multi-format schema names its own."""
        if spot.value.get(name) is None:
            return None, None
        written = self.following.child(spot, name)
        result = self.following.target(written, written.value["$ref"]) if _is_reference(written.value) else written
        if result is not None and isinstance(result.value, dict) and {"schemaFormat", "schema"} <= result.value.keys():
            inner = self.following.child(result, "schema")
            keeps_name = _is_reference(written.value) and not _is_reference(inner.value)
            path, _, fragment = written.value["$ref"].partition("#") if keeps_name else ("", "", "")
            return (inner._replace(value={"$ref": f"{path}#{fragment}/schema"}, file=written.file, at=written.at)
                    if keeps_name else inner), result.value["schemaFormat"]  # fmt: skip
        return written, None

    def _with_traits(self, spot: Spot) -> Spot:
        """Merge the traits of an operation or message into it."""
        if not isinstance(spot.value.get("traits"), list):
            return spot
        traits = [trait for trait in self.following.items(spot, "traits") if isinstance(trait.value, dict)]
        target = spot._replace(value={name: value for name, value in spot.value.items() if name != "traits"})
        own, *patches = for_merging(self.following, [target, *traits], spot.file)
        merged: Any = own if self.is_old else {}
        for patch in patches:
            merged = apply_merge_patch(merged, patch)
        return spot._replace(value=completed(own, merged) if not self.is_old else merged)

    def _server(self, name: str, spot: Spot) -> ServerPart:
        value = spot.value
        written = value.get("url") if self.is_old else value.get("host")
        result = _HOST.fullmatch(written) if isinstance(written, str) else None
        host, path = (result[1], result[2] or "") if result else ("", "")
        pathname = value.get("pathname")
        if isinstance(pathname, str):
            path += pathname if pathname.startswith("/") or not pathname else f"/{pathname}"
        version = value.get("protocolVersion")
        protocol_version = str(version) if isinstance(version, str | int | float) and not isinstance(version, bool) else None
        return ServerPart(name, spot, host, path, str(value.get("protocol") or "").strip().lower(), protocol_version)

    def _read_channels(self) -> None:
        by_place = {server.spot.place: server for server in self.servers.values()}
        for key, spot in self.following.members(self.root, "channels"):
            address = spot.value.get("address")
            named = [by_place[server.place] for server in self.following.items(spot, "servers") if server.place in by_place]
            servers = self._servers_of(key, spot, named)
            channel = ChannelPart(key, spot, address if isinstance(address, str) else None, servers)
            for name, message in self.following.members(spot, "messages"):
                channel.messages[name] = self.message(name, message)
                map_of_messages = self.following.member(spot, "messages")
                if map_of_messages is not None:
                    self._places[map_of_messages.file, below(map_of_messages.inside, name)] = channel
            self.channels[key] = channel
            self._places[spot.place] = channel
        for key, channel in self.channels.items():  # of two that are one component each has its own key
            self._places["", pointer_of("channels", key)] = channel

    def _servers_of(self, key: str, spot: Spot, named: list[ServerPart]) -> list[ServerPart]:
        """Return the servers of a channel: those that it names, all of the document if it names none."""
        listed = self.following.member(spot, "servers")
        count = len(listed.value) if listed is not None and isinstance(listed.value, list) else 0
        if listed is not None and len(named) < count:
            message = f"the channel `{key}` names a server that the document does not have; that is left out"
            self.following.report(listed.at, UNKNOWN_TARGET, message, "Refer to a server of the document.")
        return named if count else list(self.servers.values())

    def _read_operations(self) -> None:
        for key, spot in self.following.members(self.root, "operations"):
            channel = self.channel_of(spot)
            action = spot.value.get("action")
            if channel is None or action not in ("send", "receive"):
                message = f"the operation `{key}` names no channel of the document, or no action; it is left out"
                self.following.report(spot.at, UNKNOWN_TARGET, message, "Name a channel of the document, and send or receive.")
                continue
            operation = self._with_traits(spot)
            keys = self.message_keys(channel, spot)
            self.operations[key] = OperationPart(key, operation, action, channel, keys)

    def channel_of(self, spot: Spot) -> ChannelPart | None:
        """Return the channel of an operation or a reply; None: it names none of the document."""
        channel = self.following.member(spot, "channel")
        if channel is None:
            return None
        written = self.following.child(spot, "channel")
        named = self.following.target(written, text_at(written.value, "$ref") or "")
        return (named and self._places.get(named.place)) or self._places.get(channel.place)

    def message_keys(self, channel: ChannelPart, spot: Spot) -> list[str]:
        """Return the keys in a channel of the messages of an operation or a reply: all, or those that it refers to."""
        if "messages" not in spot.value:
            return list(channel.messages)
        map_of_messages = self.following.member(channel.spot, "messages")
        places = (
            {}
            if map_of_messages is None
            else {(map_of_messages.file, below(map_of_messages.inside, key)): key for key in channel.messages}
        )
        targets = {message.spot.place: key for key, message in channel.messages.items()}
        by_key = {pointer_of("channels", channel.key, "messages", key): key for key in channel.messages}
        keys = []
        for index, written in enumerate(spot.value["messages"] if isinstance(spot.value["messages"], list) else []):
            at = self.following.child(self.following.child(spot, "messages"), str(index))
            result = self.following.target(at, written["$ref"]) if _is_reference(written) else None
            followed = self.following.follow(result) if result else None
            path, _, fragment = (text_at(written, "$ref") or "").partition("#")
            key = places.get(result.place) if result else None
            if result is None and self.following.file_of(at, path) == "":  # of a channel elsewhere
                key = by_key.get(Pointer(fragment))
            key = key or (targets.get(followed.place) if followed else None)
            if key is None:
                message = "a message of the operation is none of its channel; it is left out"
                self.following.report(at.at, UNKNOWN_TARGET, message, "Refer to a message of the channel.")
            elif key not in keys:
                keys.append(key)
        return keys

    def _read_old_channels(self) -> None:
        for address, spot in self.following.members(self.root, "channels"):
            names = [server.value for server in self.following.items(spot, "servers") if isinstance(server.value, str)]
            named = [self.servers[name] for name in names if name in self.servers]
            channel = ChannelPart(address, spot, address, self._servers_of(address, spot, named))
            self.channels[address] = channel
            for verb, action in _ACTIONS.items():
                written = self.following.member(spot, verb)
                if written is None or not isinstance(written.value, dict):
                    continue
                operation = self._with_traits(written)
                keys = [self._add_old(channel, message, verb) for message in self._old_messages(operation)]
                named_so = operation.value.get("operationId")
                key = named_so if isinstance(named_so, str) and named_so else f"{address}.{verb}"
                self.operations[key] = OperationPart(key, operation, action, channel, list(dict.fromkeys(keys)))

    def _old_messages(self, operation: Spot) -> Iterable[tuple[str | None, Spot]]:
        """Return the messages of an operation with the names that references to them end in."""
        if operation.value.get("message") is None:
            return
        written = self.following.child(operation, "message")
        result = self.following.follow(written)
        choices = result.value.get("oneOf") if result and isinstance(result.value, dict) else None
        if result is None or not isinstance(result.value, dict):
            return
        if isinstance(choices, list):
            several = self.following.child(result, "oneOf")
            for index in range(len(choices)):
                choice = self.following.child(several, str(index))
                message = self.following.follow(choice)
                if message is not None and isinstance(message.value, dict):
                    yield _last_token(choice.value), message
        else:
            yield _last_token(written.value), result

    def _add_old(self, channel: ChannelPart, named_message: tuple[str | None, Spot], verb: str) -> str:
        """Add a message of 2.x to its channel; its key is its `messageId`, its name, or that in `components`."""
        name, spot = named_message
        message = self.message("", spot)
        wanted = text_at(message.spot.value, "messageId") or name or text_at(message.spot.value, "name") or f"{verb}Message"
        key, nth = wanted, 1
        while key in channel.messages and channel.messages[key].spot.place != spot.place:
            nth += 1
            key = f"{wanted}-{nth}"
        message.key = key
        channel.messages[key] = message
        return key


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("$ref"), str)


def _last_token(value: Any) -> str | None:
    return value["$ref"].rpartition("/")[2] or None if _is_reference(value) else None


ASSUMED_VERSION = "AAPI-003"
OTHER_PROTOCOL = "AAPI-004"


class Meant(NamedTuple):
    """What a message means at a channel: its protocol and address, and the group that holds it."""

    protocol: str | None
    address: str | None
    group: str


class ServedChannels:
    """Reads what channels mean at their servers.

    Args:
        name: id of the application.
    """

    def __init__(self, following: Following, texts: Texts, name: str) -> None:
        self._following = following
        self._texts = texts
        self.name = name
        self._reported: set[str] = set()
        self._groups = {name.casefold(): name}  # ids by their case-folded forms

    def servers(self, channel: ChannelPart) -> list[ServerPart] | list[None]:
        """Return the servers of a channel; an export writes channels that have none, which AsyncAPI has no word for."""
        return [None] if hint_of(channel.spot).get("servers") == [] or not channel.servers else channel.servers

    def meant(self, channel: ChannelPart, server: ServerPart | None) -> tuple[str, Meant]:
        """Return the group of a channel at a server, and what protocol and address mean there."""
        address = channel.address
        wire, protocol = self.wire(server)
        protocol = text_at(hint_of(channel.spot), "protocol") or protocol
        family = family_of(protocol)
        topic = self._following.member(channel.spot, "bindings", "kafka", "topic") if family == "KAFKA" else None
        if topic is not None and isinstance(topic.value, str):
            address = topic.value
        if address is not None and with_symbols(address) != address:
            self._texts.note_uninterpreted(NAMES, channel.spot)
        address = None if address is None else with_symbols(address)
        hinted = text_at(hint_of(channel.spot), "group")
        if hinted is not None and "/" not in hinted:
            group = hinted
            self._groups.setdefault(hinted.casefold(), hinted)
        elif wire is not None and address:
            prefix = "mqtt3" if protocol == "MQTT/3.1.1" else wire.normal.lower()
            group = apart(fitted(f"{prefix}.{id_of_address(address)}"), self._groups)
        else:
            keyed = f"{self.name}.{id_of_key(channel.key)}" + (f".{wire.normal.lower()}" if wire else "")
            group = apart(fitted(keyed), self._groups)
        return group, Meant(protocol, address, group)

    def wire(self, server: ServerPart | None) -> tuple[Wire | None, str | None]:
        """Return the protocol of a server, as AsyncAPI and as the normal form names it."""
        if server is None or not server.protocol:
            return None, None
        wire = wire_of(server.protocol, server.version)
        protocol = text_at(hint_of(server.spot), "protocol") or normal_protocol(wire, server.version)
        protocol_row = PROTOCOLS.get(wire.normal)
        if server.name not in self._reported:
            self._reported.add(server.name)
            if protocol_row is None:
                message = f"xRegistry does not define the protocol {server.protocol!r}; it is loaded as {wire.normal!r}"
                self._following.report(server.spot.at, OTHER_PROTOCOL, message, "Nothing to do.", "info")
            elif wire.normal == "MQTT" and server.version is None and wire.protocol != "mqtt5":
                message = f"the server `{server.name}` names no version of MQTT; it is read as {protocol}"
                self._following.report(server.spot.at, ASSUMED_VERSION, message, "Write `protocolVersion`.", "info")
        return wire, protocol


def hint_of(spot: Spot) -> dict[str, Any]:
    """Return what an export added for the way back; empty: nothing."""
    return object_at(spot.value, HINT)


def with_attributes(entity: dict[str, Any], hints: dict[str, Any]) -> dict[str, Any]:
    """Replace attributes by those that an export wrote for the way back; null: the entity has none."""
    return {name: value for name, value in (entity | object_at(hints, "attributes")).items() if value is not None}
