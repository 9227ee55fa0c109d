"""What a channel means at a server: its group, protocol and address in the normal form."""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.asyncapi.application import ChannelPart, ServerPart
from lakehouse.asyncapi.following import Following, Spot
from lakehouse.asyncapi.headerschemas import HINT
from lakehouse.asyncapi.protocoltables import Wire, fitted, id_of_address, id_of_key, normal_protocol, wire_of, with_symbols
from lakehouse.asyncapi.texts import Texts
from lakehouse.dialects.tables import PROTOCOLS, family_of

ASSUMED_VERSION = "AAPI-003"
OTHER_PROTOCOL = "AAPI-004"


class Meant(NamedTuple):
    """What a message means at a channel: its protocol and address, and the group that it stands in."""

    protocol: str | None
    address: str | None
    group: str


class ServedChannels:
    """Tells what channels mean at their servers.

    Args:
        name: id of the application.
    """

    def __init__(self, following: Following, texts: Texts, name: str) -> None:
        self._following = following
        self._texts = texts
        self.name = name
        self._told: set[str] = set()

    def servers(self, channel: ChannelPart) -> list[ServerPart] | list[None]:
        """Give the servers of a channel; an export writes channels that have none, which AsyncAPI has no word for."""
        return [None] if hint_of(channel.spot).get("servers") == [] or not channel.servers else channel.servers

    def meant(self, channel: ChannelPart, server: ServerPart | None) -> tuple[str, Meant]:
        """Give the group of a channel at a server, and what protocol and address mean there."""
        address = channel.address
        wire, protocol = self.wire(server)
        told = hint_of(channel.spot).get("protocol")
        protocol = told if isinstance(told, str) else protocol
        family = family_of(protocol)
        topic = self._following.member(channel.spot, "bindings", "kafka", "topic") if family == "KAFKA" else None
        if topic is not None and isinstance(topic.value, str):
            address = topic.value
        if address is not None and with_symbols(address) != address:
            self._texts.tell_kept("parameter names that are no symbols, in which other characters become `_`", channel.spot)
        address = None if address is None else with_symbols(address)
        told = hint_of(channel.spot).get("group")
        if isinstance(told, str):
            group = told
        elif wire is not None and address:
            prefix = "mqtt3" if protocol == "MQTT/3.1.1" else wire.normal.lower()
            group = fitted(f"{prefix}.{id_of_address(address)}")
        else:
            group = fitted(f"{self.name}.{id_of_key(channel.key)}" + (f".{wire.normal.lower()}" if wire else ""))
        return group, Meant(protocol, address, group)

    def wire(self, server: ServerPart | None) -> tuple[Wire | None, str | None]:
        """Give the protocol of a server, as AsyncAPI and as the normal form names it."""
        if server is None or not server.protocol:
            return None, None
        wire = wire_of(server.protocol, server.version)
        told = hint_of(server.spot).get("protocol")
        protocol = told if isinstance(told, str) else normal_protocol(wire, server.version)
        known = PROTOCOLS.get(wire.normal)
        if server.name not in self._told:
            self._told.add(server.name)
            if known is None:
                message = f"xRegistry does not define the protocol {server.protocol!r}; it is loaded as {wire.normal!r}"
                self._following.report(server.spot.at, OTHER_PROTOCOL, message, "Nothing to do.", "info")
            elif wire.normal == "MQTT" and server.version is None and wire.protocol != "mqtt5":
                message = f"the server `{server.name}` names no version of MQTT; it is read as {protocol}"
                self._following.report(server.spot.at, ASSUMED_VERSION, message, "Write `protocolVersion`.", "info")
        return wire, protocol


def hint_of(spot: Spot) -> dict[str, Any]:
    """Return what an export added for the way back; empty: nothing."""
    hints = spot.value.get(HINT)
    return hints if isinstance(hints, dict) else {}


def with_attributes(entity: dict[str, Any], hints: dict[str, Any]) -> dict[str, Any]:
    """Replace attributes by those that an export wrote for the way back; null: the entity has none."""
    told = hints.get("attributes")
    merged = entity | told if isinstance(told, dict) else entity
    return {name: value for name, value in merged.items() if value is not None}
