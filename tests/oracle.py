"""Flattening written a second time, in plain Python on nested objects: what the views must agree with. No code of the package."""

from __future__ import annotations

from typing import Any

NEVER = {
    "basemessage",
    "ancestor",
    "isdefault",
    "deprecated",
    "version_uri",
    "versionid",
    "messageid",
    "epoch",
    "createdat",
    "modifiedat",
}
SCHEMA = ("dataschema", "dataschemauri", "dataschemaxid")
SLOTS = {"HTTP": ("method", "status"), "KAFKA": ("key", "key_base64")}
Catalog = dict[str, dict[str, Any]]  # by XID of the message: default, versions (definition by id); or xref


def flatten(catalog: Catalog, xid: str, limit: int = 128) -> tuple[str, dict[str, Any]]:
    """Return the status of a message's chain, and its effective definition."""
    at = _version(catalog, xid)
    if at is None:
        return "dangling", {}
    own = _inheritable(catalog, at)
    chain, seen = [own], {at}
    status = "none"
    while base := catalog[at[0]]["versions"][at[1]].get("basemessage"):
        if len(chain) > limit:
            status = "too_deep"
            break
        if not base.startswith("/"):
            status = "external"
            break
        at = _version(catalog, base)
        if at is None:
            status = "dangling"
            break
        if at in seen:
            return "cycle", own
        seen.add(at)
        chain.append(_inheritable(catalog, at))
        status = "resolved"
    merged: dict[str, Any] = {}
    for definition in reversed(chain):
        merged = merge(merged, definition)
    return status, merged


def merge(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    """Lay a definition over that of its base."""
    base = dict(base)
    if _protocol(base) and _protocol(own) and _protocol(base) != _protocol(own):
        base.pop("protocoloptions", None)
    if _other_envelope(base.get("envelope"), own.get("envelope")):
        base.pop("envelopemetadata", None)
        base.pop("envelopeoptions", None)
    if any(name in own for name in SCHEMA):
        base = {name: value for name, value in base.items() if name not in SCHEMA}
    family = (_protocol(own) or _protocol(base) or "").split("/")[0]
    options, changed = own.get("protocoloptions"), base.get("protocoloptions")
    if isinstance(options, dict) and isinstance(changed, dict):
        for protocol, pair in SLOTS.items():
            for one, other in (pair, pair[::-1]):
                if family in ("", protocol) and options.get(one, {}) != {}:
                    changed = {name: value for name, value in changed.items() if name != other}
        base["protocoloptions"] = changed
        if not changed:
            del base["protocoloptions"]
    return _deep(base, own, ())


def _deep(base: Any, own: Any, path: tuple[str, ...]) -> Any:
    opaque = path == ("dataschema",) or (path[:1] in (("envelopemetadata",), ("protocoloptions",)) and path[-1] == "value")
    if opaque or not isinstance(base, dict) or not isinstance(own, dict):
        return own
    names = {**base, **own}
    return {name: _deep(base[name], own[name], (*path, name)) if name in base and name in own else names[name] for name in names}


def _version(catalog: Catalog, xid: str) -> tuple[str, str] | None:
    parts = xid.split("/")
    name, pinned = ("/".join(parts[:5]), parts[6]) if len(parts) == 7 else (xid, None)
    message = catalog.get(name, {})
    if "xref" in message:
        name = message["xref"]
        message = catalog.get(name, {})
    version = pinned or message.get("default")
    return (name, version) if version and version in message.get("versions", {}) else None


def _inheritable(catalog: Catalog, at: tuple[str, str]) -> dict[str, Any]:
    return {name: value for name, value in catalog[at[0]]["versions"][at[1]].items() if name not in NEVER}


def _protocol(definition: dict[str, Any]) -> str:
    family, _, version = definition.get("protocol", "").partition("/")
    return f"MQTT/{version.removesuffix('.0') or 5}" if family.upper() == "MQTT" else family.upper()


def _other_envelope(one: str | None, other: str | None) -> bool:
    if not one or not other:
        return False
    (name, _, version), (other_name, _, other_version) = one.partition("/"), other.partition("/")
    return name.upper() != other_name.upper() or bool(version and other_version and version != other_version)
