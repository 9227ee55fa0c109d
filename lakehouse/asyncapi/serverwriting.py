"""Addresses of endpoints become servers, with the security schemes that they need."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any

from lakehouse.asyncapi.logins import scheme_of
from lakehouse.asyncapi.protocoltables import WIRES, Wire
from lakehouse.dialects.tables import PROTOCOLS, family_of
from lakehouse.text.jsontext import canonical_text

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+._\-]*)://([^/]*)(/.*)?")


def key_of(text: str) -> str:
    """Make a key of the maps of AsyncAPI: letters, digits and `.`, `-`, `_`."""
    return re.sub(r"[^A-Za-z0-9_.\-]+", ".", text).strip(".") or "_"


def unique(key: str, taken: Container[str]) -> str:
    """Make a key that is not taken."""
    found, nth = key, 1
    while found in taken:
        nth += 1
        found = f"{key}-{nth}"
    return found


class ServerWriter:
    """Collects servers: those with one address and protocol are one.

    Attributes:
        servers: by their keys.
        schemes: security schemes by their keys.
    """

    def __init__(self) -> None:
        self.servers: dict[str, dict[str, Any]] = {}
        self.schemes: dict[str, dict[str, Any]] = {}
        self._keys: dict[str, str] = {}
        self._scheme_keys: dict[str, str] = {}

    def add(self, uri: str, protocol: Any, authorization: Any, kept: dict[str, Any]) -> str:
        """Add the server of an address, and give its key.

        Args:
            uri: the address.
            protocol: of the endpoint.
            authorization: of the endpoint.
            kept: what the endpoint keeps of an AsyncAPI document.
        """
        told = kept.get("server")
        own: dict[str, Any] = told if isinstance(told, dict) else {}
        server = self._server(uri, protocol) | {name: one for name, one in own.items() if name != "key"}
        security = [self._scheme(one) for one in self._schemes(authorization, protocol, kept)]
        server |= {"security": security} if security else {}
        identity = canonical_text(server)
        if identity not in self._keys:
            key = own["key"] if isinstance(own.get("key"), str) else server["host"].split(":")[0]
            self._keys[identity] = unique(key_of(key), self.servers)
            self.servers[self._keys[identity]] = server
        return self._keys[identity]

    def _server(self, uri: str, protocol: Any) -> dict[str, Any]:
        found = _URI.fullmatch(uri)
        scheme, host, path = (found[1].lower(), found[2], found[3]) if found else ("", uri, None)
        spoken = protocol if isinstance(protocol, str) else ""
        wire = _wire_of(spoken, scheme)
        _, _, version = spoken.partition("/")
        server: dict[str, Any] = {"host": host, "protocol": wire.protocol}
        server |= {"pathname": path} if path else {}
        known = PROTOCOLS.get(family_of(spoken) or "")
        if version and version != wire.version and not (known and known.family == "HTTP" and version == "1.1"):
            server["protocolVersion"] = version
        usual = wire.scheme if wire.normal != "KAFKA" else scheme.removeprefix("sasl_")
        told = {} if scheme == usual and found else {"uri": uri}
        if wire.normal == "KAFKA" and scheme.startswith("sasl_"):
            told = {"uri": uri}
        hints = told | ({"protocol": spoken} if known and known.family == "HTTP" and version != "1.1" else {})
        return server | ({"x-xregistry": hints} if hints else {})

    def _schemes(self, authorization: Any, protocol: Any, kept: dict[str, Any]) -> list[dict[str, Any]]:
        told = kept.get("security")
        if isinstance(told, list):
            return [one for one in told if isinstance(one, dict)]
        every = authorization if isinstance(authorization, list) else [authorization]
        made = [scheme_of(one, family_of(protocol)) for one in every]
        return [one for one in made if one is not None]

    def _scheme(self, scheme: dict[str, Any]) -> dict[str, str]:
        identity = canonical_text(scheme)
        if identity not in self._scheme_keys:
            key = unique(key_of(str(scheme.get("type", "login"))), self.schemes)
            self._scheme_keys[identity] = key
            self.schemes[key] = scheme
        return {"$ref": f"#/components/securitySchemes/{self._scheme_keys[identity]}"}


def _wire_of(protocol: str, scheme: str) -> Wire:
    """Give the protocol of AsyncAPI for one of the normal form at an address; one without a row is its own name."""
    family = family_of(protocol) or ""
    name = protocol.partition("/")[0]
    fits = [wire for wire in WIRES.values() if wire.normal.upper() == family]
    exact = [wire for wire in fits if wire.scheme == scheme.removeprefix("sasl_")]
    known: list[Wire] = [*exact, *fits]
    if known:
        return known[0]
    return Wire(name or scheme or "unknown", name, scheme, "", "", "", "")
