"""Addresses and logins: servers and security schemes of AsyncAPI, `authorization` and addresses of endpoints."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from typing import Any

from lakehouse.asyncapi.application import Application
from lakehouse.asyncapi.following import Spot
from lakehouse.asyncapi.headerschemas import member_of, option_of
from lakehouse.asyncapi.protocoltables import LOGINS, WIRES, BindingMember, Wire, bindings_of
from lakehouse.asyncapi.texts import kept_members
from lakehouse.dialects.tables import PROTOCOLS, family_of
from lakehouse.text.jsontext import array_at, canonical_text, object_at

_FLOWS = {
    "clientCredentials": "client_credentials",
    "authorizationCode": "authorization_code",
    "password": "password",
    "implicit": "implicit",
}
_NAMES = {grant: flow for flow, grant in _FLOWS.items()}


def schemes_of(application: Application, spot: Spot) -> Iterator[dict[str, Any]]:
    """Yield the security schemes of an operation or a server, of which any will do."""
    following = application.following
    for requirement in following.items(spot, "security"):
        if not isinstance(requirement.value, dict):
            continue
        if not application.is_old:
            yield following.plain(requirement)
            continue
        for name, scopes in requirement.value.items():
            scheme = following.member(application.root, "components", "securitySchemes", name)
            if scheme is not None and isinstance(scheme.value, dict):
                plain = following.plain(scheme)
                flows = plain.get("flows")
                if isinstance(flows, dict):
                    plain["flows"] = {flow: _new_flow(flow_object) for flow, flow_object in flows.items()}
                has_scopes = isinstance(scopes, list) and scopes and plain.get("type") in ("oauth2", "openIdConnect")
                yield plain | {"scopes": scopes} if has_scopes else plain


def _new_flow(flow: Any) -> Any:
    """Write a flow as 3.x does, which calls its scopes available ones."""
    if not isinstance(flow, dict) or "scopes" not in flow:
        return flow
    return {name: value for name, value in flow.items() if name != "scopes"} | {"availableScopes": flow["scopes"]}


def authorization_of(schemes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Write the first scheme that has a name in xRegistry as an endpoint's `authorization`."""
    scheme = next((candidate for candidate in schemes if LOGINS.get(str(candidate.get("type")))), None)
    if scheme is None:
        return None
    results: dict[str, Any] = {"type": LOGINS[scheme["type"]]}
    flows = scheme.get("flows")
    if isinstance(flows, dict):
        named = {grant: flows[flow] for flow, grant in _FLOWS.items() if isinstance(flows.get(flow), dict)}
        urls = [flow.get("tokenUrl") or flow.get("authorizationUrl") for flow in named.values()]
        results |= {"grant_types": sorted(named)} if named else {}
        results["authorityuri"] = urls[0] if urls else None
    results["authorityuri"] = scheme.get("openIdConnectUrl") or results.get("authorityuri")
    if not isinstance(results["authorityuri"], str):
        del results["authorityuri"]
    return results


def scheme_of(authorization: Any, family: str | None) -> dict[str, Any] | None:
    """Write an `authorization` as a security scheme; None: AsyncAPI has none of its type."""
    if not isinstance(authorization, dict):
        return None
    kind, authority = authorization.get("type"), authorization.get("authorityuri")
    if kind == "OAuth2" and isinstance(authority, str):
        grants = authorization.get("grant_types")
        if not grants:
            return {"type": "openIdConnect", "openIdConnectUrl": authority}
        return {"type": "oauth2", "flows": {_NAMES[grant]: _flow(grant, authority) for grant in grants if grant in _NAMES}}
    if kind == "Plain":
        return (
            {"type": "http", "scheme": "basic"}
            if family == "HTTP"
            else {"type": "plain" if family == "KAFKA" else "userPassword"}
        )
    if kind == "APIKey":
        return {"type": "httpApiKey", "name": "api-key", "in": "header"} if family == "HTTP" else {"type": "apiKey", "in": "user"}
    return {"type": "X509"} if kind == "X509Cert" else None


def _flow(grant: str, authority: str) -> dict[str, Any]:
    urls = {"authorizationUrl": authority} if grant in ("implicit", "authorization_code") else {}
    return urls | ({} if grant == "implicit" else {"tokenUrl": authority}) | {"availableScopes": {}}


_METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT", "TRACE")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+._\-]*)://([^/]*)(/.*)?")


def key_of(text: str) -> str:
    """Make a key of the maps of AsyncAPI: letters, digits and `.`, `-`, `_`."""
    return re.sub(r"[^A-Za-z0-9_.\-]+", ".", text).strip(".") or "_"


def unique(key: str, taken: Container[str]) -> str:
    """Make a key that is not taken."""
    result, nth = key, 1
    while result in taken:
        nth += 1
        result = f"{key}-{nth}"
    return result


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

    def add(self, uri: str, protocol: Any, options: dict[str, Any], uninterpreted: dict[str, Any]) -> str:
        """Add the server of an address, and give its key.

        Args:
            uri: the address.
            protocol: of the endpoint.
            options: `protocoloptions` of the endpoint.
            uninterpreted: what the endpoint keeps of an AsyncAPI document.
        """
        own = object_at(uninterpreted, "server")
        server = self._server(uri, protocol) | kept_members(own, "key", "protocol", "protocolVersion", "security")
        server |= bindings_with(own, bindings_of(protocol, "server"), options)
        security = [self.scheme(scheme) for scheme in _schemes_of_server(options.get("authorization"), protocol, uninterpreted)]
        server |= {"security": security} if security else {}
        identity = canonical_text(server)
        if identity not in self._keys:
            key = own["key"] if isinstance(own.get("key"), str) else server["host"].split(":")[0]
            self._keys[identity] = unique(key_of(key), self.servers)
            self.servers[self._keys[identity]] = server
        return self._keys[identity]

    def _server(self, uri: str, protocol: Any) -> dict[str, Any]:
        match = _URI.fullmatch(uri)
        scheme, host, path = (match[1].lower(), match[2], match[3]) if match else ("", uri, None)
        spoken = protocol if isinstance(protocol, str) else ""
        wire = _wire_of(spoken, scheme)
        _, _, version = spoken.partition("/")
        server: dict[str, Any] = {"host": host, "protocol": wire.protocol}
        server |= {"pathname": path} if path else {}
        protocol_row = PROTOCOLS.get(family_of(spoken) or "")
        if version and version != wire.version and not (protocol_row and protocol_row.family == "HTTP" and version == "1.1"):
            server["protocolVersion"] = version
        usual = wire.scheme if wire.normal != "KAFKA" else scheme.removeprefix("sasl_")
        hints = {} if scheme == usual and match else {"uri": uri}
        if wire.normal == "KAFKA" and scheme.startswith("sasl_"):
            hints = {"uri": uri}
        hints |= {"protocol": spoken} if protocol_row and protocol_row.family == "HTTP" and version != "1.1" else {}
        return server | ({"x-xregistry": hints} if hints else {})

    def scheme(self, scheme: dict[str, Any]) -> dict[str, str]:
        """Return the reference to a security scheme, which is added to `schemes`."""
        identity = canonical_text(scheme)
        if identity not in self._scheme_keys:
            key = unique(key_of(str(scheme.get("type", "login"))), self.schemes)
            self._scheme_keys[identity] = key
            self.schemes[key] = scheme
        return {"$ref": f"#/components/securitySchemes/{self._scheme_keys[identity]}"}


def _schemes_of_server(authorization: Any, protocol: Any, uninterpreted: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the security schemes of a server: as they were read, else those of `authorization`."""
    if "server" in uninterpreted:
        return list(kept_schemes(uninterpreted))
    every = authorization if isinstance(authorization, list) else [authorization]
    made = [scheme_of(each_authorization, family_of(protocol)) for each_authorization in every]
    return [scheme for scheme in made if scheme is not None]


def kept_schemes(uninterpreted: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the security schemes that an endpoint or an operation keeps."""
    yield from (scheme for scheme in array_at(uninterpreted, "security") if isinstance(scheme, dict))


def bindings_with(own: dict[str, Any], rows: Iterable[BindingMember], options: dict[str, Any]) -> dict[str, Any]:
    """Return `{"bindings": ...}`, or nothing: those that were kept, with the members that say options."""
    bindings = {name: binding for name, binding in object_at(own, "bindings").items() if binding}
    for row in rows:
        option, before = options.get(row.option), object_at(bindings, row.binding)
        if option is None or (row.member in before and option_of(row.how, before[row.member]) == option):
            continue
        member = member_of(row.how, option)
        if member is not None and not (row.member == "method" and member not in _METHODS):  # a placeholder, or none of HTTP's
            bindings[row.binding] = before | {row.member: member}
    return {"bindings": bindings} if bindings else {}


def _wire_of(protocol: str, scheme: str) -> Wire:
    """Return the protocol of AsyncAPI for one of the normal form at an address; one without a row is its own name."""
    family = family_of(protocol) or ""
    name = protocol.partition("/")[0]
    fits = [wire for wire in WIRES.values() if wire.normal.upper() == family]
    exact = [wire for wire in fits if wire.scheme == scheme.removeprefix("sasl_")]
    matching: list[Wire] = [*exact, *fits]
    if matching:
        return matching[0]
    return Wire(name or scheme or "unknown", name, scheme, "", "", "", "")
