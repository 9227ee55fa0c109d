"""One snapshot of the catalog, read from the SQLite file: entities and their history, what holds what, references, definitions.

The snapshots of a catalog are read too: their facts and labels, and the texts that name one.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeVar

import orjson

from lakehouse.domain.effective import EntityBodies
from lakehouse.errors import RegistryNotFound, SnapshotNotFound
from lakehouse.log.snapshotfacts import HEAD, NUMBER, Snapshot, moment_of
from lakehouse.readmodel.file.build import Facts
from lakehouse.readmodel.file.sqliteschema import EDGES, EFFECTIVE_COLUMNS, FEW, GROUPS, TELLING_COLUMNS, Edge, decoded
from lakehouse.text.names import REGISTRY, JsonText, Pointer, RegistryId, Xid
from lakehouse.text.xid import xid_of_group, xid_of_resource

_COLUMNS = "registryid, kind, xid, epoch, createdat, modifiedat, body, raw, document_uris, content_hash, snapshot_id, id"
__all__ = ["Entity", "Reference", "View"]
_DEFINING = ("messages", "versions")
_MOST_ENTITIES, _MOST_LISTS = 200, 20  # that are remembered
T = TypeVar("T")


class Timeline:
    """All snapshots that a file knows, seen from one of them.

    Attributes:
        db: the file, within a transaction.
        head: the newest snapshot.
        snapshot_id: the one that is looked at.
    """

    def __init__(self, db: sqlite3.Connection, head: int, snapshot_id: int) -> None:
        self.db = db
        self.head = head
        self.snapshot_id = snapshot_id

    def resolve(self, text: str) -> int:
        """Find a snapshot: by number, label, `head`, time (the last by then) or date (the last of that day or before).

        Raises:
            SnapshotNotFound: it names none.
        """
        wanted = text.strip()
        if wanted == HEAD:
            if not self.head:
                raise SnapshotNotFound(text, "the catalog has none yet")
            return self.head
        if NUMBER.match(wanted):
            if not 1 <= int(wanted) <= self.head:
                raise SnapshotNotFound(
                    text, f"there are the snapshots 1 to {self.head}" if self.head else "the catalog has none yet"
                )
            return int(wanted)
        labelled = self.labels().get(wanted)
        if labelled is not None:
            return labelled[0]
        moment = moment_of(text)
        if moment is None:
            raise SnapshotNotFound(text, "it is not a number, label, date (2026-03-01) or time (2026-03-01T12:00:00Z)")
        results = [snapshot.snapshot_id for snapshot in self.snapshots() if snapshot.committed_at <= moment]
        if not results:
            raise SnapshotNotFound(text, "the first one is later")
        return results[-1]

    def snapshots(self) -> list[Snapshot]:
        """List all snapshots, oldest first, also those after this one."""
        names: dict[int, dict[str, str | None]] = {}
        for name, (snapshot_id, why) in self.labels().items():
            names.setdefault(snapshot_id, {})[name] = why
        rows = self.db.execute(f"SELECT snapshot_id, body FROM log WHERE kind = 'snapshot' AND {FEW} ORDER BY snapshot_id")
        return [Snapshot(number, orjson.loads(body), names.get(number, {})) for number, body in rows]

    def labels(self) -> dict[str, tuple[int, str | None]]:
        """Return all labels: name to snapshot and reason; the last row of a name counts."""
        rows = self.db.execute(f"SELECT xid, body FROM log WHERE kind = 'label' AND {FEW} ORDER BY snapshot_id, xid")
        label = ((name, orjson.loads(body)) for name, body in rows)
        return {name: (facts["snapshot_id"], facts.get("why")) for name, facts in label}

    def commit_of(self, snapshot_id: int) -> dict[str, Any]:
        """Return the facts of a snapshot: committed_at, command, counts, digest, tables ..."""
        # A snapshot may have a hundred thousand rows, so it is looked for among the snapshots.
        row = self.db.execute(
            f"SELECT body FROM log WHERE kind = 'snapshot' AND registryid = '' AND xid = '' AND snapshot_id = ? AND {FEW}",
            (snapshot_id,),
        ).fetchone()
        facts: dict[str, Any] = orjson.loads(row[0])
        return facts

    @property
    def committed_at(self) -> datetime:
        """Return the time of this snapshot."""
        return datetime.fromisoformat(self.commit_of(self.snapshot_id)["committed_at"])


class Entity(NamedTuple):
    """A row of the log that holds at the snapshot.

    Attributes:
        registryid, kind, xid: which entity.
        epoch, createdat, modifiedat: dates in microseconds since 1970 (UTC).
        body: JSON text of the normal form, without children, ids, URLs, epoch and dates.
        raw: JSON text as written; None: equal to body.
        document_uris: the documents that hold it, sorted.
        content_hash: SHA-256 of body.
        snapshot_id: the snapshot that last changed it.
        log_id: its row in the file.
    """

    registryid: RegistryId
    kind: str
    xid: Xid
    epoch: int | None
    createdat: int | None
    modifiedat: int | None
    body: JsonText
    raw: JsonText | None
    document_uris: list[str]
    content_hash: str | None
    snapshot_id: int
    log_id: int

    @property
    def attributes(self) -> dict[str, Any]:
        """Return the normal form, unknown attributes among the others."""
        from lakehouse.text.jsontext import read_canonical

        attributes: dict[str, Any] = read_canonical(self.body)
        unknown: dict[str, Any] = attributes.pop("extensions", {})
        return attributes | unknown


class Entities(Timeline):
    """The entities that are there at the snapshot; those that were looked up last are remembered."""

    def __init__(self, db: sqlite3.Connection, head: int, snapshot_id: int) -> None:
        super().__init__(db, head, snapshot_id)
        self._found: OrderedDict[tuple[RegistryId, Xid], Entity | None] = OrderedDict()
        self._found_versions: OrderedDict[tuple[RegistryId, Xid], list[Entity]] = OrderedDict()

    def registries(self) -> list[RegistryId]:
        """List the registries that hold anything at the snapshot, sorted."""
        holds = (
            f"SELECT 1 FROM log WHERE registryid = ? AND {self.in_snapshot()} AND kind NOT IN ('document', 'label', 'snapshot')"
        )
        return [
            candidate for candidate in self._registries_of_log() if self.db.execute(holds, (candidate,)).fetchone() is not None
        ]

    def _registries_of_log(self) -> list[RegistryId]:
        """List the registries of all times, looked up one after the other: there are few of them and many rows of each."""
        results: list[RegistryId] = []
        last = RegistryId("")
        while (row := self.db.execute("SELECT min(registryid) FROM log WHERE registryid > ?", (last,)).fetchone())[0] is not None:
            last = row[0]
            results.append(last)
        return results

    def check_registry(self, registryid: RegistryId | None, *, ever: bool = False) -> None:
        """Check that a registry holds anything; None: all of them are meant.

        Args:
            registryid: the registry.
            ever: at any snapshot, not only at this one.

        Raises:
            RegistryNotFound: it does not.
        """
        if registryid is None:
            return
        existing = self._registries_of_log() if ever else self.registries()
        if registryid not in existing:
            raise RegistryNotFound(registryid, existing)

    def count(self) -> int:
        """Count the entities."""
        rows = self.db.execute(
            f"SELECT count(*) FROM log WHERE {self.in_snapshot()} AND kind NOT IN ('document', 'label', 'snapshot')"
        )
        return int(rows.fetchone()[0])

    def lived(self, registryid: RegistryId) -> tuple[int, int] | None:
        """Return the first createdat and last modifiedat in a registry, in microseconds; None: it holds nothing."""
        result: tuple[int, int] = self.db.execute(
            f"SELECT min(createdat), max(modifiedat) FROM log WHERE registryid = ? AND {self.in_snapshot()}"
            " AND kind NOT IN ('document', 'label', 'snapshot')",
            (registryid,),
        ).fetchone()
        return None if result[0] is None else result

    def entity(self, registryid: RegistryId, xid: Xid) -> Entity | None:
        """Return an entity; None if there is none at the snapshot."""
        key = (registryid, xid)
        condition = "registryid = ? AND xid = ? AND kind NOT IN ('document', 'label', 'snapshot')"
        return remember(self._found, key, lambda: next(self._entities(condition, key), None), _MOST_ENTITIES)

    def entities(self, xid: Xid, registryid: RegistryId | None = None) -> list[Entity]:
        """Return the entities of an XID in all registries, or in one; by registry."""
        wanted = [registryid] if registryid else self.registries()
        return [result for registry in wanted if (result := self.entity(registry, xid)) is not None]

    def children(self, registryid: RegistryId, xid: Xid) -> list[Entity]:
        """List what an entity holds itself, by XID: groups and endpoints of `/`, messages of a group, Versions of a message."""
        if xid == "/":
            rows = self._entities(f"{GROUPS} AND registryid = ?", (registryid,), "xid")
        else:
            depth = xid.count("/") + 2
            rows = (entity for entity in self.below(registryid, xid) if entity.xid.count("/") == depth)
        return list(rows)

    def below(self, registryid: RegistryId, xid: Xid) -> Iterator[Entity]:
        """Return everything that is below an entity, by XID."""
        start = xid.rstrip("/") + "/"
        return self._entities("registryid = ? AND xid > ? AND xid < ?", (registryid, start, start[:-1] + "0"), "xid")

    def may_differ(self, other: Entities) -> set[tuple[RegistryId, str, Xid]]:
        """Return what may differ from another snapshot: registryid, kind, xid of what changed, and messages merged from it."""
        first, last = sorted((self.snapshot_id, other.snapshot_id))
        changed = "SELECT DISTINCT registryid, kind, xid FROM log WHERE snapshot_id > ? AND snapshot_id <= ?"
        rows = set(self.db.execute(changed, (first, last)).fetchall())
        messages = {(registryid, xid_of_resource(xid)) for registryid, kind, xid in rows if kind in ("message", "version")}
        merged = self.merged_from(messages) | other.merged_from(messages)
        return rows | {(registryid, "message", xid) for registryid, xid in merged}

    def merged_from(self, messages: set[tuple[RegistryId, Xid]]) -> set[tuple[RegistryId, Xid]]:
        """Return messages with all that name one of them, or a Version of it, as base or by xref, over any number of steps."""
        result, left = set(messages), list(messages)
        while left:
            registryid, xid = left.pop()
            rows = self.db.execute(
                f"""
                SELECT l.xid FROM {EDGES}
                WHERE (e.whole = ?1 OR (e.whole > ?1 || '/versions/' AND e.whole < ?1 || '/versions0'))
                  AND e.relation IN ('basemessage', 'xref') AND l.registryid = ?2 AND {self.in_snapshot("l.")}
                """,
                (xid, registryid),
            )
            new = {(registryid, xid_of_resource(named_xid)) for (named_xid,) in rows.fetchall()} - result
            result |= new
            left += new
        return result

    def versions(self, registryid: RegistryId, xid: Xid) -> list[Entity]:
        """List the Versions of a message or schema, by XID."""
        key = (registryid, xid)

        def read() -> list[Entity]:
            return [entity for entity in self.below(*key) if entity.kind in ("version", "schemaversion")]

        return remember(self._found_versions, key, read, _MOST_LISTS).copy()

    def by_version_uri(self, version_uri: str) -> list[Entity]:
        """Find the Versions that a URI names, by registry."""
        rows = self.db.execute("SELECT log_id FROM version_uris WHERE version_uri = ?", (version_uri,)).fetchall()
        results = (next(self._entities("id = ?", row), None) for row in rows)
        return sorted((entity for entity in results if entity is not None), key=lambda entity: (entity.registryid, entity.xid))

    def documents(self, registryid: RegistryId | None = None) -> list[tuple[RegistryId, str, int, dict[str, Any]]]:
        """List what came of each document when it was loaded last: registryid, document_uri, snapshot_id, facts; by both ids."""
        rows = self.db.execute(
            f"SELECT registryid, xid, snapshot_id, body FROM log WHERE kind = 'document' AND {FEW} AND {self.in_snapshot()}"
            " AND (?1 IS NULL OR registryid = ?1) ORDER BY registryid, xid",
            (registryid,),
        )
        return [(registry, uri, snapshot_id, orjson.loads(body)) for registry, uri, snapshot_id, body in rows]

    def history_rows(self, xid: Xid, registryid: RegistryId | None, *, below: bool = False) -> list[dict[str, Any]]:
        """Return all rows of the log up to the snapshot of an entity and its Versions, or of all that is below it.

        Returns:
            Rows as `lakehouse.query.audit.history` takes them: snapshot_id, registryid, kind, xid, op, epoch, document_uris,
            body, createdat and modifiedat as text.
        """
        wanted = xid.rstrip("/") or "/"
        start = wanted.rstrip("/") + ("/" if below else "/versions/")
        registryids = [registryid] if registryid is not None else self._registries_of_log()
        results = []
        for registry in registryids:
            rows = self.db.execute(
                "SELECT snapshot_id, registryid, kind, xid, op, epoch, document_uris, body, createdat, modifiedat FROM log"
                " WHERE registryid = ? AND (xid = ? OR (xid > ? AND xid < ?)) AND snapshot_id <= ?"
                " AND kind NOT IN ('document', 'label', 'snapshot')",
                (registry, wanted, start, start[:-1] + "0", self.snapshot_id),
            )
            names = [column[0] for column in rows.description]
            results += [dict(zip(names, row, strict=True)) for row in rows]
        for row in results:
            row["document_uris"] = orjson.loads(row["document_uris"] or "[]")
            row["createdat"], row["modifiedat"] = _timestamp(row["createdat"]), _timestamp(row["modifiedat"])
        return results

    def _entities(self, condition: str, values: tuple[Any, ...], order: str = "registryid, xid") -> Iterator[Entity]:
        rows = self.db.execute(f"SELECT {_COLUMNS} FROM log WHERE {condition} AND {self.in_snapshot()} ORDER BY {order}", values)
        for row in rows:
            yield Entity._make((*row[:8], orjson.loads(row[8] or "[]"), *row[9:]))

    def in_snapshot(self, table: str = "") -> str:
        """Return the condition that a row of the log is the last one of its entity at the snapshot, and no deletion."""
        return f"{table}snapshot_id <= {self.snapshot_id:d} AND {table}until > {self.snapshot_id:d} AND {table}op <> 'delete'"


class _Nothing:
    """What is kept under a key that is not there; None may be kept."""


_NOTHING = _Nothing()


def remember(cache: OrderedDict[Any, T], key: Any, make: Callable[[], T], most: int) -> T:
    """Make something once, and keep it in place of the first where there is no room.

    Args:
        cache: what is kept; threads may share it.
        key: of this.
        make: makes it.
        most: are kept.
    """
    result: T | _Nothing = cache.get(key, _NOTHING)  # what one thread reads another may drop
    if isinstance(result, _Nothing):
        result = cache[key] = make()
        if len(cache) > most:
            cache.popitem(last=False)
    return result


def _timestamp(micros: int | None) -> str | None:
    """Write a moment as Spark writes a TIMESTAMP as text, with T: no zone, no zeros at the end."""
    from lakehouse.text.timestamps import rfc3339

    return None if micros is None else rfc3339(micros).removesuffix("Z")


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


class EntityReferences(Protocol):
    """A state of which entities and what refers to them can be looked up, such as a `View`."""

    def entity(self, registryid: RegistryId, xid: Xid) -> Entity | None:
        """Look an entity up; None: there is none."""

    def referring_to(self, registryid: RegistryId, xid: Xid) -> list[Reference]:
        """List the references that lead to an entity."""


class Discriminators(NamedTuple):
    """What distinguishes an effective definition from others: columns of `effective_messages`."""

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

    def at(self, snapshot_id: int) -> View:
        """Return another snapshot of the same file."""
        return View(self.db, self._max_depth, snapshot_id)

    # References

    def references_of(self, entity: Entity) -> list[Reference]:
        """List the references that an entity holds, as the view `entity_references` has them."""
        rows = self.db.execute(
            "SELECT relation, pointer, target, whole, without_suffix, type_name FROM edges WHERE log_id = ?", (entity.log_id,)
        )
        return [self._reference(entity.registryid, entity.xid, Edge(*row)) for row in rows.fetchall()]

    def referring_to(self, registryid: RegistryId, xid: Xid) -> list[Reference]:
        """List the references that lead to an entity, by source."""
        rows = self.db.execute(
            f"""
            SELECT l.xid, e.relation, e.pointer, e.target, e.whole, e.without_suffix, e.type_name
            FROM {EDGES}
            WHERE (e.whole = ?1 OR e.without_suffix = ?1) AND l.registryid = ?2 AND {self.in_snapshot("l.")}
            """,
            (xid, registryid),
        )
        results = (self._reference(registryid, source_xid, Edge(*edge)) for source_xid, *edge in rows.fetchall())
        return sorted(reference for reference in results if reference.target_xid == xid)

    def _reference(self, registryid: RegistryId, source_xid: Xid, edge: Edge) -> Reference:
        whole, without_suffix, type_name = edge.whole, edge.without_suffix, edge.type_name
        is_whole = whole is not None and self._has(registryid, whole)
        resolves = is_whole or (without_suffix is not None and self._has(registryid, without_suffix))
        leads_away = whole is None and not edge.target.lstrip(" ").startswith("#")
        status = "resolves" if resolves else "external" if leads_away else "dangling"
        target_xid = whole if is_whole or without_suffix is None else without_suffix
        if type_name is None and not is_whole and whole is not None and without_suffix is not None:
            type_name = whole[len(without_suffix) + 1 :]
        return Reference(registryid, source_xid, edge.relation, edge.pointer, edge.target, target_xid, type_name, status)

    def _has(self, registryid: RegistryId, xid: Xid) -> bool:
        row = self.db.execute(
            f"SELECT 1 FROM log WHERE registryid = ? AND xid = ? AND {self.in_snapshot()}"
            " AND kind NOT IN ('registry', 'document', 'label', 'snapshot')",
            (registryid, xid),
        ).fetchone()
        return row is not None

    # Effective definitions

    @property
    def definitions_snapshot(self) -> int:
        """Return of which snapshot the effective definitions are: this one, or an older one while `effective_messages` lags."""
        is_behind = self.snapshot_id == self.head and self._reached() < self.last_defining()
        return self._reached() if is_behind else self.snapshot_id

    def definition(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        """Return the effective definition of a message, a row of `effective_messages`: maps as dict, lists as list."""
        return next(self.definitions(registryid, xids=[xid]), None)

    def definitions(
        self, registryid: RegistryId | None = None, *, group_xid: Xid | None = None, xids: Iterable[Xid] | None = None
    ) -> Iterator[dict[str, Any]]:
        """Return effective definitions, rows of `effective_messages` (`sqliteschema.EFFECTIVE_COLUMNS`), by registry and XID.

        Args:
            registryid: only of this registry.
            group_xid: only of this group or endpoint.
            xids: only these messages.
        """
        wanted = None if xids is None else list(xids)
        if not self.is_stored():
            yield from self._computed(registryid, group_xid, wanted)
            return
        filters = (("registryid = ?", registryid), ("group_xid = ?", group_xid))
        conditions = [text for text, value in filters if value is not None]
        values: list[Any] = [value for _, value in filters if value is not None]
        if wanted is not None:
            conditions.append("xid IN (SELECT value FROM json_each(?))")
            values.append(orjson.dumps(wanted).decode())
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = self.db.execute(f"SELECT {', '.join(EFFECTIVE_COLUMNS)} FROM effective{where} ORDER BY registryid, xid", values)
        for row in rows:
            yield decoded(row)

    @cached_property
    def bodies(self) -> EntityBodies:
        """Return the entities of the snapshot by their bodies, from which definitions are computed."""

        def find(registryid: RegistryId, xid: Xid) -> JsonText | None:
            row = self.entity(registryid, xid)
            return None if row is None else row.body

        return EntityBodies(find, self._max_depth)

    def _computed(
        self, registryid: RegistryId | None, group_xid: Xid | None, xids: Sequence[Xid] | None
    ) -> Iterator[dict[str, Any]]:
        """Return definitions that the file does not hold; of many, only those are computed that may differ from what it holds."""
        reached = min(self._reached(), self.head)
        differ = self.may_differ(View(self.db, self._max_depth, reached)) if reached and xids is None else None
        for registry in self.registries() if registryid is None else [registryid]:
            below = self.below(registry, REGISTRY if group_xid is None else group_xid)
            looked_up = (self.entity(registry, xid) for xid in sorted(set(xids or ())))
            messages = below if xids is None else (entity for entity in looked_up if entity is not None)
            for entity in messages:
                if entity.kind == "message" and group_xid in (None, xid_of_group(entity.xid)):
                    is_stored = differ is not None and (registry, "message", entity.xid) not in differ
                    stored_definition = self._stored(registry, entity.xid) if is_stored else None
                    columns = {"document_uris": entity.document_uris, "snapshot_id": self.snapshot_id}
                    yield stored_definition or self.bodies.effective(registry, entity.xid) | columns

    def _stored(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        """Return the definition of a message that the file holds."""
        columns = ", ".join(EFFECTIVE_COLUMNS)
        row = self.db.execute(f"SELECT {columns} FROM effective WHERE registryid = ? AND xid = ?", (registryid, xid)).fetchone()
        return None if row is None else decoded(row)

    def discriminators(self, registryid: RegistryId | None = None, *, group_xid: Xid | None = None) -> Iterator[Discriminators]:
        """Return of effective definitions what distinguishes them, which takes a hundredth of the time of `definitions`.

        Args:
            registryid: only of this registry.
            group_xid: only of this group or endpoint.
        """
        if not self.is_stored():
            for row in self.definitions(registryid, group_xid=group_xid):
                yield Discriminators(*(row[name] for name in Discriminators._fields))
            return
        registries = self._registries_of_log() if registryid is None else [registryid]
        for registry in registries:
            of_group, values = ("", [registry]) if group_xid is None else (" AND group_xid = ?", [registry, group_xid])
            rows = self.db.execute(
                f"SELECT registryid, group_xid, xid, {', '.join(TELLING_COLUMNS)} FROM effective"
                f" WHERE registryid = ?{of_group} ORDER BY group_xid, xid",
                values,
            )
            yield from map(Discriminators._make, rows)

    def is_stored(self) -> bool:
        """Return whether the file's definitions are those of the snapshot: no message changed between the two."""
        if self.snapshot_id == self.head:
            return True  # lagging or not: there are no newer ones
        defined, reached = self.last_defining(), self._reached()
        return reached >= defined and self.last_defining(min(reached, self.head)) == defined

    def _reached(self) -> int:
        return int(self.facts["definitions"])

    def last_defining(self, snapshot_id: int | None = None) -> int:
        """Return the last snapshot up to this one that changed a message or a Version of one."""
        number = self.snapshot_id if snapshot_id is None else snapshot_id
        tables = self.commit_of(number)["tables"] if number else {}
        return max((tables.get(name, 0) for name in _DEFINING), default=0)
