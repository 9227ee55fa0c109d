"""What `lakehouse show` shows: a message with its chain and origins; a group, endpoint, schema, Version or document.

Entities become JSON: the document view of 1.0-rc2, as an export writes them, one entity at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lakehouse.dialects.detection import COLLECTIONS
from lakehouse.errors import AmbiguousId, DefinitionNotYet, MessageNotFound, XidNotFound
from lakehouse.export.view import Stored, Urls, group_view, registry_view, resource_view
from lakehouse.readmodel.snapshotview import Entity, View
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.xid import is_message, last_id, xid_of_group

_SHOWN_COLUMNS = ("registryid", "xid", "version_xid", "chain_status", "protocol", "envelope", "address", "document_uris")
_CARRIED = ("endpoint_xid", "via_xid", "usage", "protocol", "options", "matches")
_OF_ENDPOINT = ("message_xid", "via_xid", "protocol", "protocol_source", "matches")
_OF_SCHEMA = ("relation", "target", "target_xid", "type_name", "status")
_DATES = ("createdat", "modifiedat")
_MOST_IDS = 20


def stored(entity: Entity) -> Stored:
    """Return an entity as `lakehouse.export.view` takes it."""
    return Stored(*entity[:8])


def rendered(view: View, registryid: RegistryId, xid: Xid, base: str | None = None) -> dict[str, Any] | None:
    """Return an entity in the document view: of a message or schema with `meta` and `versions`, of a group without its members.

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
        parent = rendered(view, registryid, Xid(xid.rsplit("/", 2)[0]), base)
        version: dict[str, Any] | None = (parent or {}).get("versions", {}).get(last_id(xid))
        return version
    row = view.entity(registryid, xid)
    if depth == 2:
        return None if row is None else group_view(xid, stored(row), urls)
    versions = [stored(version_row) for version_row in view.versions(registryid, xid)] if depth == 4 else []
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


@dataclass(frozen=True)
class Shown:
    """A message: its row of `flat_messages`, and what the other views say of it; `as_json` is the contract of --json.

    Attributes:
        message, chain, attributes, endpoints, schema: rows of the views.
        changes: the Version that it shows and those of its schemas, compared with the Versions that they were made from.
    """

    message: dict[str, Any]
    chain: list[dict[str, Any]]
    attributes: list[dict[str, Any]]
    endpoints: list[dict[str, Any]]
    schema: list[dict[str, Any]]
    changes: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """Return the message as one JSON value."""
        return {
            **self.message,
            "chain": self.chain,
            "attributes": self.attributes,
            "endpoints": self.endpoints,
            "schema": self.schema,
            "changes": self.changes,
        }


@dataclass(frozen=True)
class ShownEntity:
    """A group, endpoint, schema or Version; `as_json` is the contract of --json.

    Attributes:
        entity: its row of the log.
        members: XIDs of what it holds.
        references: what it refers to.
        referred_by: what refers to it.
        messages: of an endpoint: what it carries.
    """

    entity: Entity
    members: list[Xid] = field(default_factory=list)
    references: list[dict[str, Any]] = field(default_factory=list)
    referred_by: list[dict[str, Any]] = field(default_factory=list)
    messages: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return the entity as one JSON value."""
        from lakehouse.text.timestamps import rfc3339

        entity = self.entity
        dates = {name: None if moment is None else rfc3339(moment) for name, moment in zip(_DATES, entity[4:6], strict=True)}
        members = {"registryid": entity.registryid, "kind": entity.kind, "xid": entity.xid, "epoch": entity.epoch, **dates}
        return {
            **members,
            "snapshot_id": entity.snapshot_id,
            "document_uris": entity.document_uris,
            "attributes": entity.attributes,
            "members": self.members,
            "references": self.references,
            "referred_by": self.referred_by,
            "messages": self.messages,
        }


@dataclass(frozen=True)
class ShownDocument:
    """A document and what came of it; `as_json` is the contract of --json."""

    registryid: RegistryId
    document_uri: str
    snapshot_id: int
    facts: dict[str, Any]
    findings: list[dict[str, Any]]

    def as_json(self) -> dict[str, Any]:
        """Return the document as one JSON value."""
        names = ("status", "reason", "dialect", "specversion", "sha256", "size", "entities", "quarantined", "spellings")
        members = {"registryid": self.registryid, "kind": "document", "document_uri": self.document_uri}
        facts = {name: self.facts.get(name) for name in names}
        return members | {"snapshot_id": self.snapshot_id} | facts | {"findings": self.findings}


def full_xid(view: View, text: str, registryid: RegistryId | None = None) -> str:
    """Return the XID (of a document: the URI) that a text means: an XID itself, else the id of one entity.

    Raises:
        XidNotFound: nothing in the catalog has that id.
        MessageNotFound: a message of that id was refused; what else has it is not meant.
        AmbiguousId: several have it, under different XIDs.
    """
    from lakehouse.readmodel.violationlist import reasons_of_refusal
    from lakehouse.readmodel.wordsearch import find_documents, find_ids

    wanted = text.strip()
    if wanted.startswith("/") and wanted.split("/")[1] in {"", *COLLECTIONS.values()}:
        return wanted
    # A message is meant before anything else that has the same id.
    for kinds in (("message",), ("group", "endpoint", "schema")):
        results = sorted({xid for _, _, xid in find_ids(view, wanted, kinds, registryid)})
        if results and "message" not in kinds and reasons_of_refusal(view, wanted, registryid, only_messages=True):
            raise MessageNotFound(wanted, results[:_MOST_IDS])
        if len(results) == 1:
            return results[0]
        if results:
            raise AmbiguousId(wanted, list(results[:_MOST_IDS]), max(0, len(results) - _MOST_IDS))
    documents = find_documents(view, wanted, registryid)
    if wanted.startswith("/") and not documents:
        return wanted
    if len(documents) > 1:
        raise AmbiguousId(wanted, documents[:_MOST_IDS], max(0, len(documents) - _MOST_IDS))
    if not documents:
        raise XidNotFound(wanted)
    return documents[0]


def show(
    view: View, text: str, registryid: RegistryId | None = None, max_depth: int = 128
) -> list[Shown | ShownEntity | ShownDocument]:
    """Return what a text refers to, in each registry that has it.

    Args:
        view: the snapshot.
        text: an XID; the id of a message, group, endpoint or schema, where only one has it; the URI of a document, or its end.
        registryid: only of this registry; None: of all.
        max_depth: how far chains of bases are followed.

    Raises:
        MessageNotFound, XidNotFound: there is none at the snapshot.
        AmbiguousId: the id is that of several entities.
        DefinitionNotYet: the message's effective definition is not stored yet.
    """
    xid = full_xid(view, text, registryid)
    parts = xid.split("/")
    if not xid.startswith("/"):
        return [_document(view, *document) for document in view.documents(registryid) if document[1] == xid]
    if len(parts) >= 5 and is_message(Xid(xid)):
        return list(show_messages(view, Xid("/".join(parts[:5])), registryid, max_depth))
    results = [_entity(view, entity) for entity in view.entities(Xid(xid), registryid)]
    if not results:
        raise XidNotFound(xid)
    return list(results)


def show_messages(view: View, xid: Xid, registryid: RegistryId | None = None, max_depth: int = 128) -> list[Shown]:
    """Show a message as it is in each registry that has it, by registry."""
    from lakehouse.readmodel.flattened import attributes_of, chain_of, endpoints_of
    from lakehouse.readmodel.queries import changes_in_use

    messages = view.entities(xid, registryid)
    if not messages:
        raise MessageNotFound(xid)
    results = []
    for message in messages:
        definition = view.definition(message.registryid, xid)
        if definition is None:
            raise DefinitionNotYet(xid, view.definitions_snapshot)
        attributes = attributes_of(view, definition, max_depth)
        schema = _schema_references(view, message.registryid, attributes)
        schemas = [row["target_xid"] for row in schema if row["status"] == "resolves"]
        results.append(
            Shown(
                {name: definition[name] for name in _SHOWN_COLUMNS},
                [
                    {name: step[name] for name in ("depth", "basemessage", "base_version_xid", "status")}
                    for step in chain_of(view, definition, max_depth)
                ],
                [{name: row[name] for name in ("pointer", "value", "origin", "declared_by", "depth")} for row in attributes],
                [{name: row[name] for name in _CARRIED} for row in endpoints_of(view, definition)],
                schema,
                changes_in_use(view, message.registryid, definition["version_xid"], schemas),
            )
        )
    return results


def _schema_references(view: View, registryid: RegistryId, attributes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the references of the Versions that declare the schema: the message's, or those of a base."""
    declared = [row for row in attributes if row["pointer"] in ("/dataschemauri", "/dataschemaxid") and row["declared_by"]]
    return [
        {name: getattr(reference, name) for name in _OF_SCHEMA}
        for row in declared
        for declaring in view.entities(row["declared_by"], registryid)
        for reference in view.references_of(declaring)
        if reference.pointer == row["pointer"]
    ]


def _entity(view: View, entity: Entity) -> ShownEntity:
    from lakehouse.readmodel.flattened import messages_of

    def members(row: Any, *names: str) -> dict[str, Any]:
        return {name: getattr(row, name) for name in names}

    references = [
        members(reference, "relation", "pointer", "target", "target_xid", "status") for reference in view.references_of(entity)
    ]
    referring = [
        members(reference, "source_xid", "relation", "pointer") for reference in view.referring_to(entity.registryid, entity.xid)
    ]
    messages = messages_of(view, entity) if entity.kind == "endpoint" else []
    return ShownEntity(
        entity,
        [child.xid for child in view.children(entity.registryid, entity.xid)],
        references,
        referring,
        [{name: row[name] for name in _OF_ENDPOINT} for row in messages],
    )


def _document(view: View, registryid: RegistryId, uri: str, snapshot_id: int, facts: dict[str, Any]) -> ShownDocument:
    from lakehouse.readmodel.violationlist import find_violations

    names = ("rule_id", "severity", "action", "xid", "pointer", "message", "hint")
    results = find_violations(view, registryid=registryid, document=uri)
    return ShownDocument(registryid, uri, snapshot_id, facts, [{name: finding[name] for name in names} for finding in results])
