"""What is rendered: definitions of the head of a catalog by XID, id, group or endpoint, with endpoints and schemas; no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from lakehouse.errors import MessageNotFound, SettingsError
from lakehouse.match.definition.catalog import Scope, read_catalog, read_rows
from lakehouse.match.payload.schemas import SchemaVersion
from lakehouse.readmodel.entities import Entity
from lakehouse.readmodel.view import View
from lakehouse.render.endpoints import Endpoint, endpoint_of

_ENDPOINT_COLUMNS = ("registryid", "xid", "usage", "protocol", "envelopeoptions", "protocoloptions", "messagegroups")


@dataclass
class Selected:
    """Definitions to render, and what they need.

    Attributes:
        messages: rows of `effective_messages`.
        endpoints: of their registries.
        schemas: Versions of schemas.
        snapshot_id: of the catalog.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    endpoints: list[Endpoint] = field(default_factory=list)
    schemas: list[SchemaVersion] = field(default_factory=list)
    snapshot_id: int = 0


def read_selected(
    warehouse: str, xids: Sequence[str] = (), registry: str | None = None, group: str | None = None, endpoint: str | None = None
) -> Selected:
    """Read definitions.

    Args:
        warehouse: of the catalog.
        xids: XIDs of messages or of their Versions, or ids that are unique; none: all of the scope.
        registry: of this registry only.
        group: XID of a message group: of this group only.
        endpoint: XID of an endpoint: only what it carries, as it sends it.

    Raises:
        WarehouseError: there is no catalog.
        SettingsError: the scope names what is not there, or an id is of several messages.
        MessageNotFound: no message has the XID or id.
    """
    catalog = read_catalog(warehouse, Scope(registry, group, endpoint))
    rows = [{name: held for name, held in row.items() if name != "endpoint"} for row in catalog.messages]
    endpoints = [endpoint_of(row) for row in read_rows(warehouse, "endpoints", _ENDPOINT_COLUMNS)]
    if endpoint:
        endpoints = [one for one in endpoints if one.xid == endpoint]
    chosen = selected(rows, xids)
    registries = {row["registryid"] for row in chosen}
    return Selected(
        sorted(chosen, key=lambda row: (row["registryid"], row["xid"])),
        [one for one in endpoints if one.registryid in registries],
        [one for one in catalog.schemas if one.registryid in registries],
        catalog.snapshot_id,
    )


def selected_at(view: View, definition: dict[str, Any]) -> Selected:
    """Gather what one definition of a snapshot needs.

    Args:
        view: the snapshot.
        definition: a row of `effective_messages`, of `View.definition`.
    """
    registryid = definition["registryid"]
    endpoints = [endpoint_at(one) for one in view.children(registryid, "/") if one.kind == "endpoint"]
    versions = view.versions(registryid, definition["schema_xid"]) if definition["schema_xid"] else []
    return Selected([definition], endpoints, [schema_version_at(one) for one in versions], view.snapshot_id)


def endpoint_at(entity: Entity) -> Endpoint:
    """Make an endpoint of an entity of a snapshot."""
    told = entity.attributes
    options = {name: orjson.dumps(told.get(name) or {}).decode() for name in ("envelopeoptions", "protocoloptions")}
    lists = {name: told.get(name) for name in ("usage", "protocol", "messagegroups")}
    return endpoint_of({"registryid": entity.registryid, "xid": entity.xid, **lists, **options})


def schema_version_at(entity: Entity) -> SchemaVersion:
    """Make a Version of a schema of an entity of a snapshot."""
    told = entity.attributes
    text = orjson.dumps(told["schema"]).decode() if "schema" in told else None
    schema_xid = entity.xid.rpartition("/versions/")[0]
    return SchemaVersion(entity.registryid, entity.xid, schema_xid, bool(told.get("isdefault")), told.get("format"), text)


def selected(rows: list[dict[str, Any]], xids: Sequence[str]) -> list[dict[str, Any]]:
    """Choose rows by XID or by an id that is unique; no XIDs: all.

    Raises:
        SettingsError: an id is of several messages.
        MessageNotFound: no message has the XID or id.
    """
    if not xids:
        return rows
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for written in xids:
        wanted = written.strip().removeprefix("#").split("/versions/")[0]
        if wanted.startswith("/"):
            mine = [row for row in rows if row["xid"] == wanted]
        else:
            mine = [row for row in rows if row["xid"].rpartition("/messages/")[2] == wanted]
            named = sorted({row["xid"] for row in mine})
            if len(named) > 1:
                raise SettingsError(f"{wanted}: several messages have this id. Name one by its XID: {', '.join(named[:5])}.")
        if not mine:
            raise MessageNotFound(wanted)
        found |= {(row["registryid"], row["xid"]): row for row in mine}
    return list(found.values())
