"""The entities of a snapshot: looked up, listed by what holds them, with their history."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from lakehouse.readmodel.file.schema import FEW
from lakehouse.readmodel.timeline import Timeline
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import xid_of_resource

_COLUMNS = "registryid, kind, xid, epoch, createdat, modifiedat, body, raw, document_uris, content_hash, snapshot_id, id"


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
        """Give the normal form, unknown attributes among the others."""
        from lakehouse.text.jsontext import read_canonical

        known: dict[str, Any] = read_canonical(self.body)
        unknown: dict[str, Any] = known.pop("extensions", {})
        return known | unknown


class Entities(Timeline):
    """The entities that are there at the snapshot."""

    def registries(self) -> list[RegistryId]:
        """List the registries that hold anything at the snapshot, sorted."""
        holds = f"SELECT 1 FROM log WHERE registryid = ? AND {self.holds()} AND kind NOT IN ('document', 'label', 'snapshot')"
        return [one for one in self._known_registries() if self.db.execute(holds, (one,)).fetchone() is not None]

    def _known_registries(self) -> list[RegistryId]:
        """List the registries of all times, looked up one after the other: there are few of them and many rows of each."""
        found: list[RegistryId] = []
        last = RegistryId("")
        while (row := self.db.execute("SELECT min(registryid) FROM log WHERE registryid > ?", (last,)).fetchone())[0] is not None:
            last = row[0]
            found.append(last)
        return found

    def count(self) -> int:
        """Count the entities."""
        rows = self.db.execute(f"SELECT count(*) FROM log WHERE {self.holds()} AND kind NOT IN ('document', 'label', 'snapshot')")
        return int(rows.fetchone()[0])

    def lived(self, registryid: RegistryId) -> tuple[int, int] | None:
        """Give the first createdat and the last modifiedat of what a registry holds, in microseconds; None: it holds nothing."""
        found: tuple[int, int] = self.db.execute(
            f"SELECT min(createdat), max(modifiedat) FROM log WHERE registryid = ? AND {self.holds()}"
            " AND kind NOT IN ('document', 'label', 'snapshot')",
            (registryid,),
        ).fetchone()
        return None if found[0] is None else found

    def entity(self, registryid: RegistryId, xid: Xid) -> Entity | None:
        """Look an entity up; None: there is none at the snapshot."""
        rows = self._entities("registryid = ? AND xid = ? AND kind NOT IN ('document', 'label', 'snapshot')", (registryid, xid))
        return next(rows, None)

    def entities(self, xid: Xid, registryid: RegistryId | None = None) -> list[Entity]:
        """Look an XID up in all registries, or in one; by registry."""
        wanted = [registryid] if registryid else self.registries()
        return [found for one in wanted if (found := self.entity(one, xid)) is not None]

    def children(self, registryid: RegistryId, xid: Xid) -> list[Entity]:
        """List what an entity holds itself, by XID: groups and endpoints of `/`, messages of a group, Versions of a message."""
        if xid == "/":
            rows = self._entities(f"kind IN ('group', 'endpoint') AND {FEW} AND registryid = ?", (registryid,), "xid")
        else:
            depth = xid.count("/") + 2
            rows = (one for one in self.below(registryid, xid) if one.xid.count("/") == depth)
        return list(rows)

    def below(self, registryid: RegistryId, xid: Xid) -> Iterator[Entity]:
        """Give everything that stands below an entity, by XID."""
        start = xid.rstrip("/") + "/"
        return self._entities("registryid = ? AND xid > ? AND xid < ?", (registryid, start, start[:-1] + "0"), "xid")

    def may_differ(self, other: Entities) -> set[tuple[RegistryId, str, Xid]]:
        """Return what may differ from another snapshot: registryid, kind, xid of what changed, and messages merged from it."""
        first, last = sorted((self.snapshot_id, other.snapshot_id))
        changed = "SELECT DISTINCT registryid, kind, xid FROM log WHERE snapshot_id > ? AND snapshot_id <= ?"
        rows = set(self.db.execute(changed, (first, last)).fetchall())
        messages = {(registryid, xid_of_resource(xid)) for registryid, kind, xid in rows if kind in ("message", "version")}
        merged = self._merged_from(messages) | other._merged_from(messages)
        return rows | {(registryid, "message", xid) for registryid, xid in merged}

    def _merged_from(self, messages: set[tuple[RegistryId, Xid]]) -> set[tuple[RegistryId, Xid]]:
        """Return messages with all that name one of them, or a Version of it, as base or by xref, over any number of steps."""
        found, left = set(messages), list(messages)
        while left:
            registryid, xid = left.pop()
            rows = self.db.execute(
                f"""
                SELECT l.xid FROM edges AS e INNER JOIN log AS l ON l.id = e.log_id
                WHERE (e.whole = ?1 OR (e.whole > ?1 || '/versions/' AND e.whole < ?1 || '/versions0'))
                  AND e.relation IN ('basemessage', 'xref') AND l.registryid = ?2 AND {self.holds("l.")}
                """,
                (xid, registryid),
            )
            new = {(registryid, xid_of_resource(one)) for (one,) in rows.fetchall()} - found
            found |= new
            left += new
        return found

    def versions(self, registryid: RegistryId, xid: Xid) -> list[Entity]:
        """List the Versions of a message or schema, by XID."""
        return [one for one in self.below(registryid, xid) if one.kind in ("version", "schemaversion")]

    def by_version_uri(self, version_uri: str) -> list[Entity]:
        """Find the Versions that a URI names, by registry."""
        rows = self.db.execute("SELECT log_id FROM version_uris WHERE version_uri = ?", (version_uri,)).fetchall()
        found = (next(self._entities("id = ?", row), None) for row in rows)
        return sorted((one for one in found if one is not None), key=lambda one: (one.registryid, one.xid))

    def documents(self, registryid: RegistryId | None = None) -> list[tuple[RegistryId, str, int, dict[str, Any]]]:
        """List what came of each document when it was loaded last: registryid, document_uri, snapshot_id, facts; by both ids."""
        rows = self.db.execute(
            f"SELECT registryid, xid, snapshot_id, body FROM log WHERE kind = 'document' AND {FEW} AND {self.holds()}"
            " AND (?1 IS NULL OR registryid = ?1) ORDER BY registryid, xid",
            (registryid,),
        )
        return [(one, uri, snapshot_id, orjson.loads(body)) for one, uri, snapshot_id, body in rows]

    def history_rows(self, xid: Xid, registryid: RegistryId | None, *, below: bool = False) -> list[dict[str, Any]]:
        """Give all rows of the log up to the snapshot of an entity and its Versions, or of all that stands below it.

        Returns:
            Rows as `lakehouse.query.audit.history` takes them: snapshot_id, registryid, kind, xid, op, epoch, document_uris,
            body, createdat and modifiedat as text.
        """
        wanted = xid.rstrip("/") or "/"
        start = wanted.rstrip("/") + ("/" if below else "/versions/")
        known = [registryid] if registryid is not None else self._known_registries()
        found = []
        for one in known:
            rows = self.db.execute(
                "SELECT snapshot_id, registryid, kind, xid, op, epoch, document_uris, body, createdat, modifiedat FROM log"
                " WHERE registryid = ? AND (xid = ? OR (xid > ? AND xid < ?)) AND snapshot_id <= ?"
                " AND kind NOT IN ('document', 'label', 'snapshot')",
                (one, wanted, start, start[:-1] + "0", self.snapshot_id),
            )
            names = [column[0] for column in rows.description]
            found += [dict(zip(names, row, strict=True)) for row in rows]
        for row in found:
            row["document_uris"] = orjson.loads(row["document_uris"] or "[]")
            row["createdat"], row["modifiedat"] = _timestamp(row["createdat"]), _timestamp(row["modifiedat"])
        return found

    def _entities(self, condition: str, values: tuple[Any, ...], order: str = "registryid, xid") -> Iterator[Entity]:
        rows = self.db.execute(f"SELECT {_COLUMNS} FROM log WHERE {condition} AND {self.holds()} ORDER BY {order}", values)
        for row in rows:
            yield Entity._make((*row[:8], orjson.loads(row[8] or "[]"), *row[9:]))

    def holds(self, table: str = "") -> str:
        """Give the condition that a row of the log is the last one of its entity at the snapshot, and no deletion."""
        return f"{table}snapshot_id <= {self.snapshot_id:d} AND {table}until > {self.snapshot_id:d} AND {table}op <> 'delete'"


def _timestamp(micros: int | None) -> str | None:
    """Write a moment as Spark writes a TIMESTAMP as text, with T: no zone, no zeros at the end."""
    from lakehouse.text.timestamps import rfc3339

    return None if micros is None else rfc3339(micros).removesuffix("Z")
