"""Whom a change breaks: the endpoints that carry messages with it, by the role in which clients use them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from lakehouse.domain.diff import Difference
from lakehouse.domain.versionchanges import VERSION_KINDS, ancestor_of, version_change
from lakehouse.readmodel.file.sqliteschema import edges_of
from lakehouse.readmodel.flattened import carrying
from lakehouse.readmodel.snapshotview import Entity, EntityReferences, Reference, View
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import split_version, xid_of_group, xid_of_resource, xid_of_version

_ROLES = {"producers": frozenset({"producer"}), "consumers": frozenset({"consumer", "subscriber"})}
_MOST_SHOWN = 5


class ReferringBodies:
    """The entities of a state by their bodies alone, with what refers to what: for documents, and for Spark.

    Args:
        rows: registryid, kind, XID and body of each; of several for one entity the first counts.
    """

    def __init__(self, rows: Iterable[tuple[RegistryId, str, Xid, JsonText]]) -> None:
        self._entities: dict[tuple[RegistryId, Xid], Entity] = {}
        for registryid, kind, xid, body in rows:
            entity = Entity(registryid, kind, xid, None, None, None, body, None, [], None, 0, 0)
            self._entities.setdefault((registryid, xid), entity)
        self._referring: dict[tuple[RegistryId, Xid], list[Reference]] = {}
        for (registryid, source), entity in self._entities.items():
            for relation, pointer, target, whole, without_suffix, type_name in edges_of(entity.kind, entity.body):
                is_whole = (registryid, whole) in self._entities or without_suffix is None
                place = whole if is_whole else without_suffix
                if place is not None:
                    reference = Reference(registryid, source, relation, pointer, target, place, type_name, "resolves")
                    self._referring.setdefault((registryid, place), []).append(reference)

    def entity(self, registryid: RegistryId, xid: Xid) -> Entity | None:
        """Look an entity up; None: there is none."""
        return self._entities.get((registryid, xid))

    def referring_to(self, registryid: RegistryId, xid: Xid) -> list[Reference]:
        """List the references that lead to an entity."""
        return self._referring.get((registryid, xid), [])


def with_endpoints(references: EntityReferences, one: Difference) -> Difference:
    """Add to a difference within a schema at which endpoints it breaks whom; others are returned as they are.

    Args:
        references: of the state after it.
        one: the difference.
    """
    broken = [who for who, effect in (("producers", one.for_producers), ("consumers", one.for_consumers)) if effect == "breaking"]
    if not one.is_about_schema or not broken:
        return one
    sentences = []
    for who, xids in endpoints_broken_by(references, one.registryid, one.xid, broken).items():
        more = f" and {len(xids) - _MOST_SHOWN} more" if len(xids) > _MOST_SHOWN else ""
        sentences.append(f"It breaks {who} at {', '.join(xids[:_MOST_SHOWN])}{more}.")
    return replace(one, told=" ".join([one.told, *sentences]))


def endpoints_broken_by(
    references: EntityReferences, registryid: RegistryId, xid: Xid, broken: Iterable[str]
) -> dict[str, list[Xid]]:
    """Return the endpoints at which a change breaks clients, by `producers` and `consumers`; who has none is left out.

    Args:
        references: of the state after it.
        registryid: of what changed.
        xid: a message, a schema, or a Version of one.
        broken: who breaks, `producers` or `consumers`.
    """
    groups = sorted({xid_of_group(message) for message in messages_changed_by(references, registryid, xid)})
    endpoints = {endpoint.xid: endpoint for group in groups for endpoint in carrying(references, registryid, group)}
    found = {who: [xid for xid, one in sorted(endpoints.items()) if is_endpoint_of(one, who)] for who in broken}
    return {who: xids for who, xids in found.items() if xids}


def changes_in_use(view: View, registryid: RegistryId, version: Xid, schemas: Sequence[Xid]) -> list[dict[str, Any]]:
    """Compare the Version that a message shows, and those of its schemas, each with the Version that it was made from.

    Args:
        view: the snapshot.
        registryid: of all.
        version: of the message.
        schemas: XIDs of schemas (their default Version) or of Versions of them.

    Returns:
        One object for each that differs: version, comparedwith, breaks, differences, endpoints.
    """
    found = []
    for xid in dict.fromkeys([version, *(_shown_version(view, registryid, one) for one in schemas)]):
        entity = view.entity(registryid, xid)
        if entity is None or entity.kind not in VERSION_KINDS:
            continue
        ancestor = ancestor_of(xid, entity.body)
        earlier = None if ancestor is None else view.entity(registryid, ancestor)
        change = version_change(entity.kind, earlier.xid, earlier.body, entity.body) if earlier is not None else None
        if change is not None:
            endpoints = endpoints_broken_by(view, registryid, xid, change.broken)
            found.append({"version": xid} | change.as_json() | {"endpoints": endpoints})
    return found


def _shown_version(view: View, registryid: RegistryId, schema: Xid) -> Xid:
    if split_version(schema)[1] is not None:
        return schema
    holder = view.entity(registryid, schema)
    return xid_of_version(schema, None if holder is None else holder.attributes.get("defaultversionid"))


def is_endpoint_of(endpoint: Entity, who: str) -> bool:
    """Return whether `producers` or `consumers` are clients of an endpoint; one that says no `usage` may have both."""
    usage = endpoint.attributes.get("usage")
    return not usage or not _ROLES[who].isdisjoint(usage)


def messages_changed_by(references: EntityReferences, registryid: RegistryId, xid: Xid) -> set[Xid]:
    """Return the messages that a change is about: the message itself or those that name the schema, and all based on them."""
    holder, versionid = split_version(xid)
    if xid_of_group(xid).startswith(("/messagegroups/", "/endpoints/")):
        return _extending(references, registryid, {holder})
    named = [xid] if versionid is not None else []
    schema = references.entity(registryid, holder)
    if versionid is None or (schema is not None and schema.attributes.get("defaultversionid") == versionid):
        named.append(holder)
    naming = (reference for one in named for reference in references.referring_to(registryid, one))
    found = {xid_of_resource(one.source_xid) for one in naming if one.relation.startswith("dataschema")}
    return _extending(references, registryid, found)


def _extending(references: EntityReferences, registryid: RegistryId, messages: set[Xid]) -> set[Xid]:
    """Return messages and those that are based on them, directly or not."""
    found, left = set(messages), list(messages)
    while left:
        naming = references.referring_to(registryid, left.pop())
        new = {xid_of_resource(one.source_xid) for one in naming if one.relation == "basemessage"} - found
        found |= new
        left += new
    return found
