"""CloudEvents in AsyncAPI: attributes as headers (binary mode), or as members of the payload (structured mode)."""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.asyncapi.headerschemas import declared_headers, headers_schema
from lakehouse.dialects.tables import PROTOCOLS

CLOUDEVENTS = "CloudEvents/1.0"
STRUCTURED = "application/cloudevents+json"
_REQUIRED = ("specversion", "id", "source", "type")
_IMPLIED: dict[str, dict[str, Any]] = {"specversion": {"value": "1.0"}, "id": {}, "source": {}, "type": {}}
_ATTRIBUTES = (*_REQUIRED, "subject", "time", "datacontenttype", "dataschema")
_EXPLICIT = "explicit"
_DATA = "data"
_OPEN = {"type", "properties", "required", "title", "description", "additionalProperties", "$schema"}


class Envelope(NamedTuple):
    """A CloudEvents envelope.

    Attributes:
        metadata: `envelopemetadata` of the message.
        rest: what is left of the headers, or of the payload (the schema of `data`; None: it has none).
    """

    metadata: dict[str, Any]
    rest: Any


def prefix_of(family: str | None) -> str | None:
    """Give what headers that are CloudEvents attributes begin with in a protocol, the form that is written."""
    known = PROTOCOLS.get(family or "")
    return known.ce_attributes.split()[0].rpartition("/")[2] if known else "ce_" if family else None


def from_headers(declared: dict[str, dict[str, Any]], family: str | None) -> Envelope | None:
    """Take the attributes of CloudEvents out of headers; None: the headers are not those of a CloudEvent."""
    known = PROTOCOLS.get(family or "")
    prefixes = [one.rpartition("/")[2] for one in known.ce_attributes.split()] if known else ["ce_", "ce-", "cloudEvents:"]
    for prefix in prefixes:
        names = {name: name[len(prefix) :].lower() for name in declared if name.lower().startswith(prefix.lower())}
        names = {name: attribute for name, attribute in names.items() if attribute.isalnum()}
        found = set(names.values())
        is_event = {"type", "source"} <= found or {"specversion", "type"} <= found
        if is_event and (prefix or set(_REQUIRED) <= found):
            taken = names if prefix else {name: one for name, one in names.items() if one in _ATTRIBUTES}
            kept = {name: one for name, one in declared.items() if name not in taken}
            return Envelope(_read({attribute: declared[name] for name, attribute in taken.items()}), kept)
    return None


def from_payload(schema: Any) -> Envelope | None:
    """Take the attributes of CloudEvents out of the schema of a structured event; None: it is none."""
    if not isinstance(schema, dict) or set(schema) - _OPEN or schema.get("type") != "object":
        return None
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list) or not set(_REQUIRED) <= set(required):
        return None
    if not set(_REQUIRED) <= properties.keys() or "#/" in str(properties.get(_DATA)):
        return None
    attributes = {name: one for name, one in properties.items() if name != _DATA}
    return Envelope(_read(declared_headers({"properties": attributes, "required": required})), properties.get(_DATA))


def as_headers(metadata: dict[str, Any], family: str | None) -> dict[str, dict[str, Any]]:
    """Write attributes as declared headers of a protocol."""
    prefix = prefix_of(family) or ""
    return {f"{prefix}{name}": one for name, one in _written(metadata).items()}


def as_payload(metadata: dict[str, Any], data: Any) -> dict[str, Any]:
    """Write attributes and the schema of `data` as the schema of a structured event."""
    schema = headers_schema(_written(metadata))
    if data is not None:
        schema["properties"][_DATA] = data
    return schema


def _written(metadata: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Add what every CloudEvent has; a declaration that says no more than that is marked, so that it is read back."""
    every: dict[str, dict[str, Any]] = {}
    for name, implied in _IMPLIED.items():
        declared = metadata.get(name)
        is_told = declared is not None and _read({name: implied | declared | {"required": True}}).get(name) != declared
        every[name] = implied | (declared or {}) | {"required": True} | ({_EXPLICIT: declared} if is_told else {})
    return every | {name: one for name, one in metadata.items() if name not in every and isinstance(one, dict)}


def _read(declared: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Read attributes; what is true of every CloudEvent is not declared."""
    found = {}
    for name, one in declared.items():
        if _EXPLICIT in one:
            found[name] = one[_EXPLICIT]
        elif name not in _REQUIRED:
            found[name] = one
        else:
            told = {member: value for member, value in one.items() if member != "required"}
            if name in ("type", "source") or told not in (
                {},
                {"type": "string"},
                _IMPLIED[name],
                _IMPLIED[name] | {"type": "string"},
            ):
                found[name] = told
    return found
