"""What a small ingest is compared with, and what its rules between entities need, looked up in the read model.

The work follows what the documents say and held, not the size of the catalog. `Lookups` without a snapshot is an empty catalog,
to which entities can be supplied.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Any

import orjson

from lakehouse.domain.documents import FACTS, Facts, Key, Uri
from lakehouse.domain.ownership import Published
from lakehouse.readmodel.file.sqliteschema import EDGES, FEW, GROUPS
from lakehouse.readmodel.snapshotview import Entity, View
from lakehouse.store.keys import VERSION_KIND
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.timestamps import microseconds
from lakehouse.text.xid import parent_xid, xid_of_resource, xid_of_version

VERSION_KINDS = frozenset(VERSION_KIND.values())
_NO_ENTITY = "('document', 'label', 'snapshot')"


class TooManyLookups(Exception):
    """A change has to do with more entities than are looked up one by one."""


class Spellings:
    """XIDs of a snapshot by their letter case; a view of None has those that are supplied."""

    def __init__(self, view: View | None) -> None:
        self._view = view
        self._collections: dict[tuple[RegistryId, str], dict[str, list[Xid]]] = {}

    def supply(self, registryid: RegistryId, xid: Xid) -> None:
        """Add an XID."""
        spellings = self._collections.setdefault((registryid, xid.rpartition("/")[0] + "/"), {})
        spellings.setdefault(xid.lower(), []).append(xid)

    def alike(self, registryid: RegistryId, xid: Xid) -> list[Xid]:
        """List the XIDs of the same collection that differ in letter case at most.

        The first time that a collection is looked into, this is looked up; the second time, the whole collection is read.
        """
        collection = xid.rpartition("/")[0] + "/"
        if self._view is None:
            return self._collections.get((registryid, collection), {}).get(xid.lower(), [])
        kinds = f"{GROUPS} AND " if collection.count("/") == 2 else ""
        query = f"SELECT xid FROM log WHERE {kinds}registryid = ? AND xid > ? AND xid < ? AND {self._view.in_snapshot()}"
        within = (registryid, collection, collection[:-1] + "0")
        spellings = self._collections.get((registryid, collection))
        if spellings is None:
            self._collections[registryid, collection] = {}
            return [
                existing_xid for (existing_xid,) in self._view.db.execute(f"{query} AND xid = ? COLLATE NOCASE", (*within, xid))
            ]
        if not spellings:
            for (existing_xid,) in self._view.db.execute(query, within):
                spellings.setdefault(existing_xid.lower(), []).append(existing_xid)
        return spellings.get(xid.lower(), [])


class EntityLookups:
    """The newest snapshot, entity by entity; each is read once.

    Args:
        view: the snapshot that the ingest is compared with; None: nothing is published.
        most: how many entities are looked up; beyond that the method that reads them raises TooManyLookups.
    """

    def __init__(self, view: View | None, most: int) -> None:
        self.view = view
        self._most = most
        self._entities: dict[tuple[RegistryId, Xid], Entity | None] = {}
        self._attributes: dict[tuple[RegistryId, Xid], dict[str, Any]] = {}
        self._children: dict[tuple[RegistryId, Xid], list[Entity]] = {}
        self._spellings = Spellings(view)

    def supply(self, entities: Iterable[Entity]) -> None:
        """Add entities to an empty catalog as if they were published: to be found by XID, by letter case and as children."""
        assert self.view is None, "entities are looked up in the view"
        for entity in entities:
            self._entities[entity.registryid, entity.xid] = entity
            self._children.setdefault((entity.registryid, parent_xid(entity.xid)), []).append(entity)
            self._spellings.supply(entity.registryid, entity.xid)

    def entity(self, registryid: RegistryId, xid: Xid) -> Entity | None:
        """Return an entity; None if it is not published."""
        if self.view is not None and (registryid, xid) not in self._entities:
            self._keep(registryid, xid, self.view.entity(registryid, xid))
        return self._entities.get((registryid, xid))

    def attributes(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        """Return the attributes of an entity in normal form; None: it is not published."""
        entity = self.entity(registryid, xid)
        if entity is None:
            return None
        if (registryid, xid) not in self._attributes:
            self._attributes[registryid, xid] = read_canonical(entity.body)
        return self._attributes[registryid, xid]

    def children(self, registryid: RegistryId, xid: Xid) -> list[Entity]:
        """List what an entity holds itself."""
        if self.view is not None and (registryid, xid) not in self._children:
            self._children[registryid, xid] = self.view.children(registryid, xid)
            for child in self._children[registryid, xid]:
                self._keep(registryid, child.xid, child)
        return self._children.get((registryid, xid), [])

    def published(self, key: Key) -> Published | None:
        """Return an entity as the comparison needs it; None: it is not published."""
        entity = self.entity(key.registryid, key.xid)
        if entity is None or entity.kind != key.kind:
            return None
        attributes = self.attributes(key.registryid, key.xid) or {} if key.kind not in ("registry", "group", "endpoint") else {}
        return Published(
            entity.content_hash or "",
            entity.epoch or 0,
            entity.createdat or 0,
            entity.modifiedat or 0,
            tuple(entity.document_uris),
            entity.snapshot_id,
            attributes.get("isdefault") if key.kind in VERSION_KINDS else None,
            attributes.get("defaultversionid") if key.kind in VERSION_KIND else None,
        )

    def all_keys(self) -> Iterator[Key]:
        """Yield the keys of all that is published."""
        for registryid in [] if self.view is None else self.view.registries():
            assert self.view is not None
            root = self.entity(registryid, REGISTRY)
            if root is not None:
                yield Key(registryid, root.kind, root.xid)
            for entity in self.view.below(registryid, REGISTRY):
                self._keep(registryid, entity.xid, entity)
                yield Key(registryid, entity.kind, entity.xid)

    def keys_of_documents(self, documents: Iterable[Uri]) -> Iterator[Key]:
        """Yield the keys of what documents hold."""
        if self.view is None:
            return
        single = f"registryid = ? AND document_uris = ? AND {self._is_entity()}"
        shared = f"document_uris LIKE '%\",%' AND registryid = ? AND instr(document_uris, ?) AND {self._is_entity()}"
        for uri in documents:
            quoted = orjson.dumps(uri.document_uri).decode()
            for condition, value in ((single, f"[{quoted}]"), (shared, quoted)):
                rows = self.view.db.execute(f"SELECT kind, xid FROM log WHERE {condition}", (uri.registryid, value))
                yield from (Key(uri.registryid, kind, xid) for kind, xid in rows.fetchall())

    def deleted_epochs(self, keys: Iterable[Key]) -> dict[Key, int]:
        """Return the epochs that entities which are created again had when they were deleted (decision 9)."""
        if self.view is None:
            return {}
        query = (
            "SELECT max(epoch) FROM log WHERE registryid = ? AND xid = ? AND kind = ? AND op = 'delete'"
            f" AND snapshot_id <= {self.view.snapshot_id:d}"
        )
        results = ((key, self.view.db.execute(query, (key.registryid, key.xid, key.kind)).fetchone()[0]) for key in keys)
        return {key: epoch for key, epoch in results if epoch is not None}

    def declares(self, key: Key, modifiedat: int) -> tuple[bool, bool]:
        """Return whether documents declared the epoch and the date that are stored of an entity (decision 8).

        A message's epoch is in its `meta`, that of its default Version at the Version or at the message itself. Where a message
        has no `versions`, its text is that of its only Version. The same goes for schemas.
        """
        own = self._raw(key.registryid, key.xid)
        has_modifiedat = modifiedat not in self._commit_times
        if key.kind in VERSION_KIND:
            named = (self.attributes(key.registryid, key.xid) or {}).get("defaultversionid")
            version = {} if own is not None else self._raw(key.registryid, xid_of_version(key.xid, named)) or {}
            metas = [source.get("meta") for source in (own or {}, version)]
            return any(isinstance(meta, dict) and meta.get("epoch") is not None for meta in metas), has_modifiedat
        if key.kind in VERSION_KINDS:
            resource = xid_of_resource(key.xid)
            named = (self.attributes(key.registryid, resource) or {}).get("defaultversionid")
            is_default = xid_of_version(resource, named) == key.xid
            of_resource = (self._raw(key.registryid, resource) if is_default else None) or {}
            return any(source.get("epoch") is not None for source in (own or {}, of_resource)), has_modifiedat
        return (own or {}).get("epoch") is not None, has_modifiedat

    @cached_property
    def _commit_times(self) -> set[int]:
        """Return the times of all snapshots: a stored date that is one of them was not declared."""
        if self.view is None:
            return set()
        rows = self.view.db.execute(
            f"SELECT json_extract(body, '$.committed_at') FROM log WHERE kind = 'snapshot' AND {FEW}"
            f" AND snapshot_id <= {self.view.snapshot_id:d}"
        )
        return {microseconds(text)[0] for (text,) in rows}

    def _is_entity(self) -> str:
        return f"{self.view.in_snapshot()} AND kind NOT IN {_NO_ENTITY}" if self.view is not None else "0"

    def _raw(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        """Return the text of an entity as it was written; None: it says no more than its normal form, or is not there."""
        entity = self.entity(registryid, xid)
        result: dict[str, Any] | None = None if entity is None or entity.raw is None else read_canonical(entity.raw)
        return result

    def _keep(self, registryid: RegistryId, xid: Xid, entity: Entity | None) -> None:
        self._entities.setdefault((registryid, xid), entity)
        if len(self._entities) > self._most:
            raise TooManyLookups


class Lookups(EntityLookups):
    """The newest snapshot: also what came of documents, what leads to an entity, which findings are recorded."""

    def __init__(self, view: View | None, most: int) -> None:
        """Look up; arguments as for `EntityLookups`."""
        super().__init__(view, most)
        self._loaded: dict[Uri, int] = {}
        self._documents: dict[Uri, Facts | None] = {}

    # Documents

    def documents_of(self, uris: Collection[str]) -> dict[Uri, Facts]:
        """Return the facts of documents' last load, in any registry, and of all documents that have disputes."""
        if self.view is None:
            return {}
        rows = self.view.db.execute(
            f"SELECT registryid, xid, snapshot_id, body FROM log WHERE kind = 'document' AND {FEW} AND {self.view.in_snapshot()}"
            " AND (xid IN (SELECT value FROM json_each(?)) OR instr(body, '\"disputes\"'))",
            (orjson.dumps(list(uris)).decode(),),
        )
        results = {}
        for registryid, xid, snapshot_id, body in rows:
            results[Uri(registryid, xid)] = facts_of(orjson.loads(body))
            self._loaded[Uri(registryid, xid)] = snapshot_id
        return results

    def loaded_in(self, uri: Uri) -> int:
        """Return the snapshot of the last load of a document that `documents_of` returned."""
        return self._loaded[uri]

    def document(self, uri: Uri) -> Facts | None:
        """Return the facts of a document's last load into a registry; None if it was not loaded there."""
        if self.view is None:
            return None
        if uri not in self._documents:
            condition = f"kind = 'document' AND {FEW} AND registryid = ? AND xid = ? AND {self.view.in_snapshot()}"
            result = self.view.db.execute(f"SELECT body FROM log WHERE {condition}", uri).fetchone()
            self._documents[uri] = None if result is None else facts_of(orjson.loads(result[0]))
        return self._documents[uri]

    # What leads to an entity

    def depending_on(self, messages: set[tuple[RegistryId, Xid]]) -> set[tuple[RegistryId, Xid]]:
        """Return messages with all that have one of them as base or stand for it, over any number of steps."""
        return set(messages) if self.view is None else self.view.merged_from(messages)

    def leading_to(self, registryid: RegistryId, xids: Iterable[Xid], *relations: str) -> set[Xid]:
        """Return the entities with a reference to one of some entities, or to what is below it.

        Args:
            registryid: of all of them.
            xids: where the references lead.
            relations: the kinds of references that count, as in the view `entity_references`.
        """
        if self.view is None:
            return set()
        result: set[Xid] = set()
        kinds = ", ".join(f"'{relation}'" for relation in relations)
        for xid in xids:
            for column in ("whole", "without_suffix"):
                rows = self.view.db.execute(
                    f"""
                    SELECT l.xid FROM {EDGES}
                    WHERE (e.{column} = ?1 OR (e.{column} > ?1 || '/' AND e.{column} < ?1 || '0'))
                      AND e.relation IN ({kinds}) AND l.registryid = ?2 AND {self.view.in_snapshot("l.")}
                    """,
                    (xid, registryid),
                )
                result |= {xid for (xid,) in rows.fetchall()}
        return result

    def default_versions(self, registryid: RegistryId) -> Iterator[Entity]:
        """Yield the Versions that messages of a registry show; all of its Versions are read."""
        if self.view is None:
            supplied = (entity for entity in self._entities.values() if entity is not None and entity.registryid == registryid)
            yield from filter(_is_default_version, supplied)
            return
        for entity in filter(_is_default_version, self.view.below(registryid, REGISTRY)):
            self._keep(registryid, entity.xid, entity)
            yield entity

    def alike(self, registryid: RegistryId, xid: Xid) -> list[Xid]:
        """List the XIDs of the same collection that differ in letter case at most."""
        return self._spellings.alike(registryid, xid)

    def recorded(self, ids: Collection[str]) -> set[str]:
        """Return which findings the table `violations` holds."""
        if self.view is None:
            return set()
        query = "SELECT violation_id FROM violations WHERE violation_id IN (SELECT value FROM json_each(?))"
        return {violation_id for (violation_id,) in self.view.db.execute(query, (orjson.dumps(list(ids)).decode(),))}


def _is_default_version(entity: Entity) -> bool:
    return entity.kind == "version" and '"isdefault":true' in entity.body


def facts_of(columns: dict[str, Any]) -> Facts:
    """Return the facts of a document without the members that are null or unknown."""
    facts = {name: value for name, value in columns.items() if name in FACTS and value is not None}
    if "disputes" in facts:
        facts["disputes"] = [
            {name: value for name, value in dispute.items() if value is not None} for dispute in facts["disputes"]
        ]
    return facts
