"""Endpoints as rendering needs them: what they say where the messages that they carry say nothing.

Options of an endpoint become declarations of the message (END-135 to END-192), so one rule fills, matches and refuses both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson

from lakehouse.dialects.tables import shared_options
from lakehouse.match.definition.definitions import escape
from lakehouse.match.event.captured import SECRET_HEADERS
from lakehouse.text.jsontext import decoded
from lakehouse.text.names import JsonText, Pointer, RegistryId, Xid

_PRODUCER_ONLY = frozenset({"key", "partition", "retain", "durable"})  # END-147, END-165, 002 on Kafka's options


@dataclass(frozen=True)
class Endpoint:
    """An endpoint.

    Attributes:
        registryid, xid: whose it is.
        usage: `producer`, `consumer`, `subscriber`; several may stand.
        protocol: as written, such as `MQTT/5.0`; None: it says none.
        mode: of CloudEvents, or None: both (END-081).
        format: content type of structured events, or None.
        options: its `protocoloptions`.
        messagegroups: XIDs of the groups that it carries, beside its own messages.
    """

    registryid: RegistryId
    xid: Xid
    usage: tuple[str, ...] = ()
    protocol: str | None = None
    mode: str | None = None
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    messagegroups: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """Give the name part of the protocol, in upper case; empty: it says none."""
        return (self.protocol or "").partition("/")[0].upper()

    @property
    def uri(self) -> str | None:
        """Give its first address."""
        found = self.options.get("endpoints")
        uris = [one.get("uri") for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        return next((uri for uri in uris if isinstance(uri, str) and uri), None)

    def carries(self, registryid: RegistryId, group_xid: Xid) -> bool:
        """Tell whether it carries the messages of a group, or holds them itself."""
        return registryid == self.registryid and (group_xid == self.xid or group_xid in self.messagegroups)

    def leaves(self) -> dict[Pointer, JsonText]:
        """Give its options as leaves of a message, JSON Pointer → JSON text; credentials are of the connection, and none."""
        found: dict[Pointer, Any] = {}
        is_producer = not self.usage or "producer" in self.usage
        for name, pointer, _ in shared_options(self.family):
            value = self.options.get(name)
            is_filter = name == "topic" and isinstance(value, str) and ("+" in value or "#" in value)
            if value is not None and value != "" and not is_filter and (is_producer or name not in _PRODUCER_ONLY):
                found[pointer] = value
        if self.family == "HTTP":
            pairs = [(kind, name, text) for kind in ("headers", "query") for name, text in self._pairs(kind)]
            told = [one for one in pairs if one[1].lower() not in SECRET_HEADERS]
            found |= {Pointer(f"/protocoloptions/{kind}/{escape(name)}/value"): text for kind, name, text in told}
            path = urlsplit(self.uri or "").path
            if path not in ("", "/"):
                found[Pointer("/protocoloptions/path/value")] = path
        return {pointer: decoded(orjson.dumps(value)) for pointer, value in found.items()}

    def _pairs(self, name: str) -> Iterator[tuple[str, Any]]:
        """Read headers or a query: a list of {name, value}, or a map."""
        held = self.options.get(name)
        if isinstance(held, Mapping):
            yield from held.items()
        for one in held if isinstance(held, list) else ():
            if isinstance(one, Mapping) and isinstance(one.get("name"), str):
                yield one["name"], one.get("value")


def endpoint_of(row: Mapping[str, Any]) -> Endpoint:
    """Make an endpoint of a row of the table `endpoints`: registryid, xid, usage, protocol, envelopeoptions, protocoloptions."""
    envelope = orjson.loads(row.get("envelopeoptions") or "{}")
    options = orjson.loads(row.get("protocoloptions") or "{}")
    texts = {name: envelope[name] for name in ("mode", "format") if isinstance(envelope.get(name), str)}
    return Endpoint(
        row["registryid"],
        row["xid"],
        tuple(row.get("usage") or ()),
        row.get("protocol") or None,
        texts.get("mode"),
        texts.get("format"),
        options if isinstance(options, dict) else {},
        tuple(row.get("messagegroups") or ()),
    )
