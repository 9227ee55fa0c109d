"""Entities as JSON: the document view of 1.0-rc2, as an export writes them, one entity at a time."""

from __future__ import annotations

from typing import Any

from lakehouse.export.view import Stored, Urls, group_view, registry_view, resource_view
from lakehouse.readmodel.view import Entity, View
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of_group


def stored(entity: Entity) -> Stored:
    """Give an entity as `lakehouse.export.view` takes it."""
    return Stored(*entity[:8])


def rendered(view: View, registryid: RegistryId, xid: Xid, base: str | None = None) -> dict[str, Any] | None:
    """Give an entity in the document view: of a message or schema with `meta` and `versions`, of a group without its members.

    Args:
        view: the snapshot.
        registryid: the registry.
        xid: of a registry (`/`), group, endpoint, message, schema or Version.
        base: absolute URLs below this one; None: references into a document (`#/messagegroups/g`).

    Returns:
        Its members in the order in which they are written; None: there is no such entity at the snapshot.
    """
    urls, depth = Urls(base), xid.count("/")
    if xid == "/":
        return _registry(view, registryid, urls)
    if depth == 6:
        holder = rendered(view, registryid, Xid(xid.rsplit("/", 2)[0]), base)
        version: dict[str, Any] | None = (holder or {}).get("versions", {}).get(last_id(xid))
        return version
    row = view.entity(registryid, xid)
    if depth == 2:
        return None if row is None else group_view(xid, stored(row), urls)
    versions = [stored(one) for one in view.versions(registryid, xid)] if depth == 4 else []
    if row is None and not versions:
        return None
    group = view.entity(registryid, xid_of_group(xid))
    protocol = group.attributes.get("protocol") if group is not None and group.kind == "group" else None
    return resource_view(xid, None if row is None else stored(row), versions, protocol, urls)


def _registry(view: View, registryid: RegistryId, urls: Urls) -> dict[str, Any] | None:
    row = view.entity(registryid, REGISTRY)
    if row is not None:
        return registry_view(registryid, stored(row), (0, 0), urls)
    lived = view.lived(registryid)
    return None if lived is None else registry_view(registryid, None, lived, urls)
