"""Security schemes of servers and operations, and the `authorization` of endpoints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakehouse.asyncapi.application import Application, OperationPart, ServerPart
from lakehouse.asyncapi.following import Spot
from lakehouse.asyncapi.protocoltables import LOGINS

_FLOWS = {
    "clientCredentials": "client_credentials",
    "authorizationCode": "authorization_code",
    "password": "password",
    "implicit": "implicit",
}
_NAMES = {grant: flow for flow, grant in _FLOWS.items()}


def schemes_of(application: Application, server: ServerPart | None, operation: OperationPart) -> list[dict[str, Any]]:
    """Give the security schemes by which an operation is secured, or else its server: any of them will do."""
    for holder in (operation.spot, server.spot if server else None):
        if holder is not None and holder.value.get("security"):
            return list(_schemes(application, holder))
    return []


def _schemes(application: Application, holder: Spot) -> Iterator[dict[str, Any]]:
    following = application.following
    for one in following.items(holder, "security"):
        if not isinstance(one.value, dict):
            continue
        if not application.is_old:
            yield following.plain(one)
            continue
        for name, scopes in one.value.items():
            scheme = following.member(application.root, "components", "securitySchemes", name)
            if scheme is not None and isinstance(scheme.value, dict):
                plain = following.plain(scheme)
                flows = plain.get("flows")
                if isinstance(flows, dict):
                    plain["flows"] = {flow: _new_flow(one) for flow, one in flows.items()}
                has_scopes = isinstance(scopes, list) and scopes and plain.get("type") in ("oauth2", "openIdConnect")
                yield plain | {"scopes": scopes} if has_scopes else plain


def _new_flow(flow: Any) -> Any:
    """Write a flow as 3.x does, which calls its scopes available ones."""
    if not isinstance(flow, dict) or "scopes" not in flow:
        return flow
    return {name: value for name, value in flow.items() if name != "scopes"} | {"availableScopes": flow["scopes"]}


def authorization_of(schemes: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Write the first scheme that has a name in xRegistry as an endpoint's `authorization`."""
    scheme = next((one for one in schemes if LOGINS.get(str(one.get("type")))), None)
    if scheme is None:
        return None
    found: dict[str, Any] = {"type": LOGINS[scheme["type"]]}
    flows = scheme.get("flows")
    if isinstance(flows, dict):
        named = {grant: flows[flow] for flow, grant in _FLOWS.items() if isinstance(flows.get(flow), dict)}
        urls = [flow.get("tokenUrl") or flow.get("authorizationUrl") for flow in named.values()]
        found |= {"grant_types": sorted(named)} if named else {}
        found["authorityuri"] = urls[0] if urls else None
    found["authorityuri"] = scheme.get("openIdConnectUrl") or found.get("authorityuri")
    if not isinstance(found["authorityuri"], str):
        del found["authorityuri"]
    return found


def scheme_of(authorization: Any, family: str | None) -> dict[str, Any] | None:
    """Write an `authorization` as a security scheme; None: AsyncAPI has none of its type."""
    if not isinstance(authorization, dict):
        return None
    kind, authority = authorization.get("type"), authorization.get("authorityuri")
    if kind == "OAuth2" and isinstance(authority, str):
        grants = authorization.get("grant_types")
        if not grants:
            return {"type": "openIdConnect", "openIdConnectUrl": authority}
        return {"type": "oauth2", "flows": {_NAMES[one]: _flow(one, authority) for one in grants if one in _NAMES}}
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
