"""A rendered message, and how it is told: as the line that `match` reads, or as JSON that a person reads."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from lakehouse.text.names import RegistryId, Xid


@dataclass(frozen=True)
class Rendered:
    """A message made from a definition.

    Attributes:
        registryid, xid: the definition.
        protocol: as the catalog writes it; None: a CloudEvent for no protocol.
        mode: `binary` or `structured`; None: no CloudEvent.
        captured: what the transport carries, named as in `protocoloptions`.
        event: a structured CloudEvent, or None.
        body: payload of the transport's message; None: it has none.
        variables: what the placeholders hold.
        payload_status: as in `event_matches`: `valid`, `none`, `no_schema` ….
        remarks: why the payload was not checked, or not made.
        endpoint: XID of the endpoint whose options were used, or None.
        uri: first address of that endpoint, or None.
        acks: of that endpoint, or None (END-178).
    """

    registryid: RegistryId
    xid: Xid
    protocol: str | None
    mode: str | None
    captured: Mapping[str, Any]
    event: Mapping[str, Any] | None = None
    body: bytes | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    payload_status: str = "none"
    remarks: tuple[str, ...] = ()
    endpoint: str | None = None
    uri: str | None = None
    acks: int | None = None

    @property
    def family(self) -> str | None:
        """Give the name of the protocol."""
        return self.protocol.partition("/")[0].upper() if self.protocol else None

    def line(self) -> bytes:
        """Give the line that `match` reads: registryid, sent_as, protocol, captured, payload_base64; or the CloudEvent."""
        if self.protocol is None:
            return self.body or b""
        encoded = None if self.body is None else base64.b64encode(self.body).decode()
        told = {"registryid": self.registryid, "sent_as": self.xid or None, "protocol": self.protocol, "captured": self.captured}
        return orjson.dumps(told | {"payload_base64": encoded})

    def as_json(self) -> bytes:
        """Give it as one JSON value, its payload as JSON or text where it is that; or the CloudEvent."""
        if self.protocol is None:
            return self.body or b""
        told: dict[str, Any] = {
            "registryid": self.registryid,
            "xid": self.xid or None,
            "protocol": self.protocol,
            "mode": self.mode,
        }
        told |= {"endpoint": self.endpoint} if self.endpoint else {}
        told |= {"captured": self.captured} | _payload(self.body)
        told |= {"variables": self.variables, "payload_status": self.payload_status}
        return orjson.dumps(told | ({"remarks": self.remarks} if self.remarks else {}))


def _payload(body: bytes | None) -> dict[str, Any]:
    """Tell a payload: JSON objects and arrays as they are, other texts as texts, bytes in base64."""
    if body is None:
        return {}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(body).decode()}
    if text[:1] in ("{", "["):
        try:
            return {"payload": orjson.loads(body)}
        except orjson.JSONDecodeError:
            return {"payload": text}
    return {"payload": text}
