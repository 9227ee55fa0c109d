"""What is rendered: definitions of the head of a catalog by XID, id, group or endpoint, with endpoints and schemas; no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.errors import DefinitionNotYet, MessageNotFound, SettingsError
from lakehouse.match.definition.scope import Scope, endpoint_row, read_definitions, schema_versions
from lakehouse.match.payload.schemas import SchemaVersion
from lakehouse.readmodel.snapshotview import View
from lakehouse.readmodel.wordsearch import find_ids
from lakehouse.render.protocolbinding import Endpoint, endpoint_of
from lakehouse.text.names import RegistryId, Xid


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
    view: View,
    xids: Sequence[str] = (),
    registry: RegistryId | None = None,
    group: Xid | None = None,
    endpoint: Xid | None = None,
) -> Selected:
    """Read definitions; of those that are named nothing but them is read.

    Args:
        view: the snapshot.
        xids: XIDs of messages or of their Versions, or ids that are unique; none: all of the scope.
        registry: of this registry only.
        group: XID of a message group: of this group only.
        endpoint: XID of an endpoint: only what it carries, as it sends it.

    Raises:
        SettingsError: the scope names what is not there, or an id is of several messages.
        MessageNotFound: no message has the XID or id.
        DefinitionNotYet: a message is so new that its definition is not stored yet.
    """
    scope = Scope(registry, group, endpoint)
    wanted = {_xid_of(view, written, registry) for written in xids}
    if not wanted:
        rows = read_definitions(view, scope)
    elif scope.is_narrow:
        rows = read_definitions(view, scope, lambda discriminators: discriminators.xid in wanted)
    else:
        rows = [
            row
            for registryid in ([registry] if registry else view.registries())
            for row in view.definitions(registryid, xids=wanted)
        ]
    for xid in sorted(wanted - {row["xid"] for row in rows}):
        if not scope.is_narrow and view.entities(xid, registry):
            raise DefinitionNotYet(xid, view.definitions_snapshot)
        raise MessageNotFound(xid)
    unique = {(row["registryid"], row["xid"]): row for row in rows}
    chosen = [{name: value for name, value in row.items() if name != "endpoint"} for _, row in sorted(unique.items())]
    return _with_needs(view, chosen, endpoint)


def selected_at(view: View, definition: dict[str, Any]) -> Selected:
    """Gather what one definition of a snapshot needs.

    Args:
        view: the snapshot.
        definition: a row of `effective_messages`, of `View.definition`.
    """
    return _with_needs(view, [definition])


def _with_needs(view: View, rows: list[dict[str, Any]], endpoint: Xid | None = None) -> Selected:
    groups = dict.fromkeys((row["registryid"], row["group_xid"]) for row in rows)
    endpoints = {
        (carrier.registryid, carrier.xid): carrier
        for registryid, group_xid in groups
        for carrier in _carrying(view, registryid, group_xid)
    }
    wanted_endpoints = [carrier for key, carrier in sorted(endpoints.items()) if endpoint in (None, key[1])]
    return Selected(rows, wanted_endpoints, schema_versions(view, rows, with_aliases=True), view.definitions_snapshot)


def _carrying(view: View, registryid: RegistryId, group_xid: Xid) -> list[Endpoint]:
    """Return the endpoints that hold a group's messages, or name the group."""
    naming = (reference for reference in view.referring_to(registryid, group_xid) if reference.relation == "messagegroups")
    sources = dict.fromkeys([group_xid, *(reference.source_xid for reference in naming)])
    results = (view.entity(registryid, xid) for xid in sources)
    return [endpoint_of(endpoint_row(entity)) for entity in results if entity is not None and entity.kind == "endpoint"]


def _xid_of(view: View, written: str, registry: RegistryId | None) -> Xid:
    """Return the XID of a message that is named by it, by that of a Version, or by an id that one message has.

    Raises:
        SettingsError: several messages have the id.
        MessageNotFound: none has.
    """
    wanted = written.strip().removeprefix("#").split("/versions/")[0]
    if wanted.startswith("/"):
        return Xid(wanted)
    named = sorted({xid for _, _, xid in find_ids(view, wanted, ("message",), registry)})
    if len(named) > 1:
        raise SettingsError(f"{wanted}: several messages have this id. Name one by its XID: {', '.join(named[:5])}.")
    if not named:
        raise MessageNotFound(wanted)
    return named[0]
