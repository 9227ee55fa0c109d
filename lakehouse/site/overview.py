"""What is looked up again and again while pages of one snapshot are made: groups, members, protocols, findings, documents."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from lakehouse.log.snapshotfacts import Snapshot
from lakehouse.readmodel.queries import count_changes_in, labelled_messages, labelled_schemas, listed_members, protocols_of
from lakehouse.readmodel.snapshotview import Entity, View
from lakehouse.readmodel.violationlist import find_violations
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.xid import xid_of_group, xid_of_resource

Key = tuple[RegistryId, Xid]
NO_PROTOCOL = "none"


@dataclass
class Overview:
    """A snapshot as a whole. Keys are registryid and XID.

    Attributes:
        snapshot_id: the snapshot.
        registries: ids, sorted.
        groups: groups and endpoints.
        members: XIDs of the messages or schemas that each of them holds, sorted.
        protocols: family of the protocol of each message whose effective definition is there; None: it names none.
        findings: rows of `violations` that hold, the worst first.
        documents: registryid and URI to snapshot and facts.
        snapshots: all, oldest first.
        owners: of registries, groups and messages whose labels name one.
        lag: the snapshot that the definitions are of.
    """

    snapshot_id: int
    registries: list[RegistryId] = field(default_factory=list)
    groups: dict[Key, Entity] = field(default_factory=dict)
    members: dict[Key, list[Xid]] = field(default_factory=dict)
    protocols: dict[Key, str | None] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    documents: dict[tuple[RegistryId, str], tuple[int, dict[str, Any]]] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)
    owners: dict[Key, str] = field(default_factory=dict)
    lag: int = 0

    @cached_property
    def findings_by_xid(self) -> dict[Key, list[dict[str, Any]]]:
        """Return the findings of each entity; those of a Version are of what it is a Version of."""
        result: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        for finding in self.findings:
            if finding["xid"]:
                result[finding["registryid"], xid_of_resource(finding["xid"])].append(finding)
        return result

    @cached_property
    def findings_by_rule(self) -> dict[str, list[dict[str, Any]]]:
        """Return the findings of each rule, the worst rules first."""
        result: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for finding in self.findings:
            result[finding["rule_id"]].append(finding)
        return result

    @cached_property
    def findings_by_document(self) -> dict[tuple[RegistryId, str], list[dict[str, Any]]]:
        """Return the findings of each document."""
        result: dict[tuple[RegistryId, str], list[dict[str, Any]]] = defaultdict(list)
        for finding in self.findings:
            result[finding["registryid"], finding["document_uri"]].append(finding)
        return result

    @cached_property
    def groups_by_document(self) -> dict[tuple[RegistryId, str], list[Xid]]:
        """Return the groups and endpoints that each document holds."""
        result: dict[tuple[RegistryId, str], list[Xid]] = defaultdict(list)
        for (registryid, xid), group in self.groups.items():
            for uri in group.document_uris:
                result[registryid, uri].append(xid)
        return result

    @cached_property
    def refused(self) -> dict[Key, list[dict[str, Any]]]:
        """Return findings by which members were refused that are not in the catalog, by the group that would hold them."""
        result: dict[Key, list[dict[str, Any]]] = defaultdict(list)
        present = {key: set(xids) for key, xids in self.members.items()}
        for (registryid, xid), findings in self.findings_by_xid.items():
            group = xid_of_group(xid)
            if xid.count("/") == 4 and xid not in present.get((registryid, group), ()):
                refused = [finding for finding in findings if finding["action"] == "quarantined"]
                # That its Versions were refused with it need not be said.
                result[registryid, group] += [finding for finding in refused if finding["xid"] == xid] or refused
        return result

    def is_refused(self, registryid: RegistryId, xid: Xid) -> bool:
        """Return whether what a document says of an entity was not loaded."""
        return any(finding["action"] == "quarantined" for finding in self.findings_by_xid.get((registryid, xid), ()))

    def has(self, registryid: RegistryId, xid: Xid) -> bool:
        """Return whether an entity has a page: a registry, group, endpoint, message or schema; Versions are not looked up."""
        if xid == "/":
            return registryid in self.registries
        if xid.count("/") == 2:
            return (registryid, xid) in self.groups
        return xid in self._present.get((registryid, xid_of_group(xid)), ())

    @cached_property
    def _present(self) -> dict[Key, frozenset[str]]:
        return {key: frozenset(xids) for key, xids in self.members.items()}

    @cached_property
    def by_protocol(self) -> list[tuple[str, int]]:
        """Count messages by protocol, most first."""
        counted = Counter(family or NO_PROTOCOL for family in self.protocols.values())
        return sorted(counted.items(), key=lambda counted_protocol: (-counted_protocol[1], counted_protocol[0]))

    def count(self, collection: str, registryid: RegistryId | None = None) -> int:
        """Count groups of a collection (`messagegroups`, `endpoints`, `schemagroups`), or members (`messages`, `schemas`)."""
        start = f"/{collection}/"
        if collection in ("messages", "schemas"):
            is_schema = collection == "schemas"
            return sum(
                len(xids)
                for (registry, group), xids in self.members.items()
                if registryid in (None, registry) and group.startswith("/schemagroups/") == is_schema
            )
        return sum(registryid in (None, registry) and xid.startswith(start) for registry, xid in self.groups)

    def groups_of(self, registryid: RegistryId, collection: str) -> Iterator[Entity]:
        """Return the groups of a collection, by XID."""
        for (registry, xid), entity in self.groups.items():
            if registry == registryid and xid.startswith(f"/{collection}/"):
                yield entity

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """Return a snapshot by its number."""
        return self.snapshots[snapshot_id - 1]

    def family(self, registryid: RegistryId, xid: Xid) -> str:
        """Return the family of a message's protocol; `none`: it names none."""
        return self.protocols.get((registryid, xid)) or NO_PROTOCOL

    def owner(self, registryid: RegistryId, xid: Xid) -> str:
        """Return the owner that the labels of an entity name, else those of its group, else its registry's; empty: none."""
        near = (xid_of_resource(xid), xid_of_group(xid), REGISTRY) if xid != REGISTRY else (REGISTRY,)
        return next((self.owners[registryid, near_xid] for near_xid in near if (registryid, near_xid) in self.owners), "")


def overview_of(view: View, owner_labels: Sequence[str], only: RegistryId | None = None) -> Overview:
    """Look through a snapshot.

    Args:
        view: the snapshot.
        owner_labels: names of the labels that name an owner; the first that an entity has counts.
        only: the registry that is looked at; None: all.

    Raises:
        RegistryNotFound: it holds nothing at the snapshot.
    """
    view.check_registry(only)
    registries = view.registries() if only is None else [only]
    made = Overview(view.snapshot_id, registries, snapshots=_snapshots(view, only), lag=view.definitions_snapshot)
    for registryid in made.registries:
        made.groups |= {(registryid, group.xid): group for group in view.children(registryid, REGISTRY)}
    made.members = {key: xids for key, xids in listed_members(view).items() if only in (None, key[0])}
    for key in made.groups:
        made.members.setdefault(key, [])
    made.protocols = {key: family for key, family in protocols_of(view).items() if only in (None, key[0])}
    made.owners = dict(_owners(view, made, owner_labels))
    made.findings = find_violations(view, registryid=only)
    made.documents = {(registryid, uri): (number, facts) for registryid, uri, number, facts in view.documents(only)}
    return made


def _snapshots(view: View, only: RegistryId | None) -> list[Snapshot]:
    """List all snapshots; of one registry with the counts of what they changed in it."""
    if only is None:
        return view.snapshots()
    counts = count_changes_in(view, only)
    return [
        replace(snapshot, facts=snapshot.facts | {"counts": {only: counts.get(snapshot.snapshot_id, {})}})
        for snapshot in view.snapshots()
    ]


def _owners(view: View, overview: Overview, names: Sequence[str]) -> Iterator[tuple[Key, str]]:
    """Yield the registries, groups, messages and schemas whose labels name an owner, and the owner."""
    registries = ((registryid, view.entity(registryid, REGISTRY)) for registryid in overview.registries)
    labelled: list[tuple[Key, Any]] = [
        ((registryid, REGISTRY), entity.attributes.get("labels")) for registryid, entity in registries if entity
    ]
    labelled += [(key, group.attributes.get("labels")) for key, group in overview.groups.items() if '"labels"' in group.body]
    labelled += [((registryid, xid), labels) for registryid, xid, labels in (*labelled_messages(view), *labelled_schemas(view))]
    for key, labels in labelled:
        owner = next((labels[name] for name in names if labels.get(name)), None) if isinstance(labels, dict) else None
        if isinstance(owner, str):
            yield key, owner


def carried_xids(overview: Overview, endpoint: Entity) -> list[Xid]:
    """List the messages that an endpoint carries: its own, then those of the groups that it names."""
    parents = dict.fromkeys([endpoint.xid, *named_groups(endpoint)])
    return [xid for parent in parents for xid in overview.members.get((endpoint.registryid, parent), ())]


def named_groups(endpoint: Entity) -> list[Xid]:
    """List the groups that an endpoint names."""
    names = endpoint.attributes.get("messagegroups")
    return [Xid(name) for name in dict.fromkeys(names) if isinstance(name, str)] if isinstance(names, list) else []
