"""A registry as entities of Backstage: an API for each message group, whose definition is its AsyncAPI document.

The file is what Backstage calls `catalog-info.yaml`. An endpoint that holds messages of no group is an API, too.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from lakehouse.asyncapi.outward import Perspective, identity_of, write_asyncapi
from lakehouse.asyncapi.servers import unique
from lakehouse.domain.references import schema_places, schema_reference
from lakehouse.domain.schemalookup import shown_schema
from lakehouse.text.jsontext import indented, text_at
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of

_LONGEST = 63  # of names, labels and tags
_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_.\-]{0,61})?[A-Za-z0-9]")
_TAG = re.compile(r"[a-z0-9:+#]+(?:-[a-z0-9:+#]+)*")
# What Backstage has a member for, and the labels that say it.
OWNER, _LIFECYCLE, _SYSTEM = ("owner", "team"), ("lifecycle", "stage"), ("system",)


class _Api(NamedTuple):
    """An API: the group or endpoint that it is of, and the endpoints that carry its messages."""

    xid: Xid
    entity: dict[str, Any]
    endpoints: dict[str, dict[str, Any]]


def write_backstage(registry: dict[str, Any], perspective: Perspective) -> list[dict[str, Any]]:
    """Return the entities of kind API of a registry.

    Args:
        registry: in normal form, with effective definitions of messages.
        perspective: whose sending and receiving the definitions describe.
    """
    entities: dict[str, dict[str, Any]] = {}
    for api in _apis(registry):
        name = unique(_name(api.xid.rpartition("/")[2]), entities)
        entities[name] = _entity(name, api, registry, perspective)
    return list(entities.values())


def _apis(registry: dict[str, Any]) -> Iterator[_Api]:
    endpoints: dict[str, dict[str, Any]] = registry.get("endpoints", {})
    is_carried: set[str] = set()
    for name, group in registry.get("messagegroups", {}).items():
        xid = xid_of("messagegroups", name)
        identities = {(key, identity_of(message)) for key, message in group.get("messages", {}).items()}
        carrying = {
            endpointid: endpoint
            for endpointid, endpoint in endpoints.items()
            if xid in endpoint.get("messagegroups", ())
            or any((key, identity_of(message)) in identities for key, message in endpoint.get("messages", {}).items())
        }
        is_carried |= carrying.keys()
        if identities:
            yield _Api(xid, group, carrying)
    for endpointid, endpoint in endpoints.items():
        if endpointid not in is_carried and endpoint.get("messages"):
            yield _Api(xid_of("endpoints", endpointid), endpoint, {endpointid: endpoint})


def _entity(name: str, api: _Api, registry: dict[str, Any], perspective: Perspective) -> dict[str, Any]:
    near = (api.entity, *api.endpoints.values(), registry)
    metadata: dict[str, Any] = {"name": name, "annotations": {"xregistry-xid": api.xid}}
    metadata |= {"title": api.entity["name"]} if api.entity.get("name") else {}
    metadata |= {"description": api.entity["description"]} if api.entity.get("description") else {}
    own = _labels(api.entity)
    further = {key: value for key, value in own.items() if key not in (*OWNER, *_LIFECYCLE, *_SYSTEM)}
    tags = sorted({key.lower() for key, value in further.items() if not value and _fits(_TAG, key.lower())})
    metadata |= {"tags": tags} if tags else {}
    texts = {key: value for key, value in further.items() if value and _fits(_NAME, key) and _fits(_NAME, value)}
    metadata |= {"labels": texts} if texts else {}
    if api.entity.get("documentation"):
        metadata["links"] = [{"url": api.entity["documentation"], "title": "Documentation"}]
    is_old = bool(api.entity.get("deprecated")) or all(endpoint.get("deprecated") for endpoint in api.endpoints.values() or [{}])
    spec = {
        "type": "asyncapi",
        "lifecycle": nearest_label(_LIFECYCLE, *near) or ("deprecated" if is_old else "production"),
        "owner": nearest_label(OWNER, *near) or "unknown",
    }
    system = nearest_label(_SYSTEM, *near)
    spec |= {"system": system} if system else {}
    document = write_asyncapi(_part(api, registry), perspective).document
    spec["definition"] = indented(document)
    return {"apiVersion": "backstage.io/v1alpha1", "kind": "API", "metadata": metadata, "spec": spec}


def _part(api: _Api, registry: dict[str, Any]) -> dict[str, Any]:
    """Return what an API needs of its registry, as a registry."""
    groupid = api.xid.rpartition("/")[2]
    part: dict[str, Any] = {"registryid": registry.get("registryid"), "name": api.entity.get("name") or groupid}
    part |= {name: api.entity[name] for name in ("description", "documentation") if api.entity.get(name)}
    part["messagegroups"] = {groupid: api.entity} if api.xid.startswith("/messagegroups/") else {}
    part["endpoints"] = api.endpoints
    schemas: dict[str, Any] = {}
    for xid in _schemas_of((api.entity, *api.endpoints.values())):
        _, _, group, _, schemaid = xid.split("/")
        schema = shown_schema(registry, xid)
        if schema is not None:
            schemas.setdefault(group, {"schemas": {}})["schemas"][schemaid] = schema
    return part | {"schemagroups": schemas}


def _schemas_of(entities: Iterable[dict[str, Any]]) -> Iterator[Xid]:
    """Yield the XIDs of the schemas that messages of groups and endpoints refer to."""
    for message in (message for entity in entities for message in entity.get("messages", {}).values()):
        reference = schema_reference(text_at(message, "dataschemauri"), text_at(message, "dataschemaxid"))
        for place in schema_places(reference or ""):
            yield place.schema


def nearest_label(names: tuple[str, ...], *entities: dict[str, Any]) -> str | None:
    """Return the value of the first of these labels that the first entity has which has one; None: none has any of them."""
    return next((labels[name] for labels in map(_labels, entities) for name in names if labels.get(name)), None)


def _labels(entity: dict[str, Any]) -> dict[str, str]:
    return {key: value for key, value in (entity.get("labels") or {}).items() if isinstance(value, str)}


def _name(identifier: str) -> str:
    """Return a name for an id: letters, digits and `-`, `_`, `.`, at most 63; a long one ends with its hash."""
    plain = re.sub(r"[^A-Za-z0-9_.\-]+", "-", identifier).strip("-_.").lower() or "api"
    if len(plain) <= _LONGEST - 5:  # so that a number fits behind it
        return plain
    return f"{plain[:45]}-{hashlib.sha256(identifier.encode()).hexdigest()[:12]}"


def _fits(pattern: re.Pattern[str], text: str) -> bool:
    return len(text) <= _LONGEST and pattern.fullmatch(text) is not None
