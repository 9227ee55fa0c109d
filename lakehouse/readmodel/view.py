"""One snapshot of the catalog, read from the SQLite file: entities, what holds what, references, definitions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import orjson

from lakehouse.domain.bodies import EntityBodies
from lakehouse.readmodel.entities import Entities, Entity
from lakehouse.readmodel.file.build import Facts
from lakehouse.readmodel.file.schema import EFFECTIVE_COLUMNS, TELLING_COLUMNS, decoded
from lakehouse.text.names import REGISTRY, JsonText, Pointer, RegistryId, Xid
from lakehouse.text.xid import xid_of_group

__all__ = ["Entity", "Reference", "View"]

_DEFINING = ("messages", "versions")


class Reference(NamedTuple):
    """A row of the view `entity_references`."""

    registryid: RegistryId
    source_xid: Xid
    relation: str
    pointer: Pointer
    target: str
    target_xid: Xid | None
    type_name: str | None
    status: str


class Telling(NamedTuple):
    """What tells an effective definition from others: columns of `effective_messages`."""

    registryid: RegistryId
    group_xid: Xid
    xid: Xid
    chain_status: str | None
    envelope: str | None
    ce_type: str | None
    protocol: str | None
    address: str | None


class View(Entities):
    """One snapshot; valid within the `with` of `ReadModel.at`.

    Attributes:
        snapshot_id: the snapshot.
        head: the newest that the file knows.
        is_live: no snapshot was named, so findings count that no snapshot holds.
    """

    def __init__(self, db: sqlite3.Connection, max_depth: int, snapshot: str | int | None) -> None:
        """Find the snapshot that is meant.

        Args:
            db: the file, within a transaction.
            max_depth: how many bases of a message are followed.
            snapshot: as in `resolve`; None: the newest.

        Raises:
            SnapshotNotFound: there is no such snapshot.
        """
        self.facts = Facts(db)
        self._max_depth = max_depth
        self.is_live = snapshot is None
        head = int(self.facts["head"])
        super().__init__(db, head, head)
        if snapshot is not None:
            self.snapshot_id = self.resolve(str(snapshot))

    # References

    def references_of(self, entity: Entity) -> list[Reference]:
        """List the references that an entity holds, as the view `entity_references` tells them."""
        rows = self.db.execute(
            "SELECT relation, pointer, target, whole, without_suffix, type_name FROM edges WHERE log_id = ?", (entity.log_id,)
        )
        return [self._reference(entity.registryid, entity.xid, *row) for row in rows.fetchall()]

    def referring_to(self, registryid: RegistryId, xid: Xid) -> list[Reference]:
        """List the references that lead to an entity, by source."""
        rows = self.db.execute(
            f"""
            SELECT l.xid, e.relation, e.pointer, e.target, e.whole, e.without_suffix, e.type_name
            FROM edges AS e INNER JOIN log AS l ON l.id = e.log_id
            WHERE (e.whole = ?1 OR e.without_suffix = ?1) AND l.registryid = ?2 AND {self.holds("l.")}
            """,
            (xid, registryid),
        )
        found = (self._reference(registryid, *row) for row in rows.fetchall())
        return sorted(one for one in found if one.target_xid == xid)

    def _reference(
        self,
        registryid: RegistryId,
        source_xid: Xid,
        relation: str,
        pointer: Pointer,
        target: str,
        whole: Xid | None,
        without_suffix: Xid | None,
        type_name: str | None,
    ) -> Reference:
        is_whole = whole is not None and self._has(registryid, whole)
        resolves = is_whole or (without_suffix is not None and self._has(registryid, without_suffix))
        leads_away = whole is None and not target.lstrip(" ").startswith("#")
        status = "resolves" if resolves else "external" if leads_away else "dangling"
        target_xid = whole if is_whole or without_suffix is None else without_suffix
        if type_name is None and not is_whole and whole is not None and without_suffix is not None:
            type_name = whole[len(without_suffix) + 1 :]
        return Reference(registryid, source_xid, relation, pointer, target, target_xid, type_name, status)

    def _has(self, registryid: RegistryId, xid: Xid) -> bool:
        row = self.db.execute(
            f"SELECT 1 FROM log WHERE registryid = ? AND xid = ? AND {self.holds()}"
            " AND kind NOT IN ('registry', 'document', 'label', 'snapshot')",
            (registryid, xid),
        ).fetchone()
        return row is not None

    # Effective definitions

    @property
    def definitions_snapshot(self) -> int:
        """Tell of which snapshot the effective definitions are: this one, or an older one while `effective_messages` lags."""
        is_behind = self.snapshot_id == self.head and self._reached() < self.last_defining()
        return self._reached() if is_behind else self.snapshot_id

    def definition(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        """Give the effective definition of a message, a row of `effective_messages`: maps as dict, lists as list."""
        return next(self.definitions(registryid, xids=[xid]), None)

    def definitions(
        self, registryid: RegistryId | None = None, *, group_xid: Xid | None = None, xids: Iterable[Xid] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Give effective definitions, rows of `effective_messages` (`schema.EFFECTIVE_COLUMNS`), by registry and XID.

        Args:
            registryid: only of this registry.
            group_xid: only of this group or endpoint.
            xids: only these messages.
        """
        wanted = None if xids is None else list(xids)
        if not self.is_stored():
            yield from self._computed(registryid, group_xid, wanted)
            return
        given = (("registryid = ?", registryid), ("group_xid = ?", group_xid))
        conditions = [text for text, value in given if value is not None]
        values: list[Any] = [value for _, value in given if value is not None]
        if wanted is not None:
            conditions.append("xid IN (SELECT value FROM json_each(?))")
            values.append(orjson.dumps(wanted).decode())
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = self.db.execute(f"SELECT {', '.join(EFFECTIVE_COLUMNS)} FROM effective{where} ORDER BY registryid, xid", values)
        for row in rows:
            yield decoded(row)

    @cached_property
    def bodies(self) -> EntityBodies:
        """The entities of the snapshot by their bodies, of which definitions are computed."""

        def find(registryid: RegistryId, xid: Xid) -> JsonText | None:
            row = self.entity(registryid, xid)
            return None if row is None else row.body

        return EntityBodies(find, self._max_depth)

    def _computed(
        self, registryid: RegistryId | None, group_xid: Xid | None, xids: Sequence[Xid] | None
    ) -> Iterator[dict[str, Any]]:
        """Give definitions that the file does not hold; of many, only those are computed that may differ from what it holds."""
        reached = min(self._reached(), self.head)
        differ = self.may_differ(View(self.db, self._max_depth, reached)) if reached and xids is None else None
        for one in self.registries() if registryid is None else [registryid]:
            below = self.below(one, REGISTRY if group_xid is None else group_xid)
            looked_up = (self.entity(one, xid) for xid in sorted(set(xids or ())))
            messages = below if xids is None else (entity for entity in looked_up if entity is not None)
            for entity in messages:
                if entity.kind == "message" and group_xid in (None, xid_of_group(entity.xid)):
                    is_held = differ is not None and (one, "message", entity.xid) not in differ
                    held = self._held(one, entity.xid) if is_held else None
                    told = {"document_uris": entity.document_uris, "snapshot_id": self.snapshot_id}
                    yield held or self.bodies.effective(one, entity.xid) | told

    def _held(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        """Return the definition of a message that the file holds."""
        columns = ", ".join(EFFECTIVE_COLUMNS)
        row = self.db.execute(f"SELECT {columns} FROM effective WHERE registryid = ? AND xid = ?", (registryid, xid)).fetchone()
        return None if row is None else decoded(row)

    def telling(self, registryid: RegistryId | None = None, *, group_xid: Xid | None = None) -> Iterator[Telling]:
        """Give of effective definitions what tells them apart, which takes a hundredth of the time of `definitions`.

        Args:
            registryid: only of this registry.
            group_xid: only of this group or endpoint.
        """
        if not self.is_stored():
            for row in self.definitions(registryid, group_xid=group_xid):
                yield Telling(*(row[name] for name in Telling._fields))
            return
        registries = self._known_registries() if registryid is None else [registryid]
        for one in registries:
            of_group, values = ("", [one]) if group_xid is None else (" AND group_xid = ?", [one, group_xid])
            rows = self.db.execute(
                f"SELECT registryid, group_xid, xid, {', '.join(TELLING_COLUMNS)} FROM effective"
                f" WHERE registryid = ?{of_group} ORDER BY group_xid, xid",
                values,
            )
            yield from map(Telling._make, rows)

    def is_stored(self) -> bool:
        """Tell whether the file's definitions are those of the snapshot: no message changed between the two."""
        defined = self.last_defining()
        if self.snapshot_id == self.head:
            return True  # lagging or not: there are no newer ones
        reached = self._reached()
        return reached >= defined and self.last_defining(min(reached, self.head)) == defined

    def _reached(self) -> int:
        return int(self.facts["definitions"])

    def last_defining(self, snapshot_id: int | None = None) -> int:
        """Give the last snapshot up to this one that changed a message or a Version of one."""
        number = self.snapshot_id if snapshot_id is None else snapshot_id
        tables = self.commit_of(number)["tables"] if number else {}
        return max((tables.get(name, 0) for name in _DEFINING), default=0)
