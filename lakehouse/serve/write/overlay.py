"""The catalog as the requests of a batch leave it so far: rows of the newest snapshot, and over them what was written since."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from lakehouse.errors import LakehouseError
from lakehouse.export.view import Stored
from lakehouse.readmodel import Entity, View
from lakehouse.readmodel.lookups import Spellings
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.store.keys import OVER_HTTP
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import JsonText, Pointer, RegistryId, Xid
from lakehouse.text.xid import parent_xid

Key = tuple[RegistryId, Xid]  # registryid, xid


class OverlayRow(NamedTuple):
    """An entity as it is now, or as a request leaves it; dates in microseconds since 1970 (UTC).

    attributes: flat, of a Version's definition, of what was written only.
    """

    kind: str
    xid: Xid
    content_hash: str
    epoch: int
    createdat: int
    modifiedat: int
    document_uris: tuple[str, ...]
    body: JsonText
    raw: JsonText | None
    attributes: list[tuple[Pointer, JsonText]] | None = None

    def as_stored(self, registryid: RegistryId) -> Stored:
        """Return it as it is shown."""
        return Stored(registryid, self.kind, self.xid, self.epoch, self.createdat, self.modifiedat, self.body, self.raw)


class OverlayChange(NamedTuple):
    """What a batch makes of an entity: a row, or None for one that was deleted; before: as it was in the snapshot."""

    registryid: RegistryId
    before: OverlayRow | None
    after: OverlayRow | None


class CatalogOverlay:
    """Rows of all registries; what was written may be undone request by request.

    Attributes:
        now: time of the snapshot to come, in microseconds since 1970.
    """

    def __init__(self, view: View | None, now: int) -> None:
        self.view = view
        self.now = now
        self._written: dict[Key, OverlayRow | None] = {}
        self._below: defaultdict[Key, set[Xid]] = defaultdict(set)  # XIDs that were written, by what holds them
        # XIDs by their lower case: those that were written, and those of the snapshot.
        self._alike: defaultdict[tuple[RegistryId, str], set[Xid]] = defaultdict(set)
        self._spellings = Spellings(view)
        self._journal: list[tuple[Key, bool, OverlayRow | None]] = []

    def row(self, registryid: RegistryId, xid: Xid) -> OverlayRow | None:
        """Return the row of an entity; None if it does not exist."""
        key = (registryid, xid)
        if key in self._written:
            return self._written[key]
        return self._stored(registryid, xid)

    def children(self, registryid: RegistryId, xid: Xid) -> list[OverlayRow]:
        """List what a group or a Resource holds itself, by XID."""
        results: dict[Xid, OverlayRow | None] = {}
        if self.view is not None:
            results = {child.xid: _overlay_row(child) for child in self.view.children(registryid, xid)}
        for written in self._below.get((registryid, xid), ()):
            if (registryid, written) in self._written:
                results[written] = self._written[registryid, written]
        return [row for _, row in sorted(results.items()) if row is not None]

    def child_like(self, registryid: RegistryId, xid: Xid) -> Xid | None:
        """Find another entity of the same collection whose XID differs in letter case only."""
        lower = xid.lower()
        alike = [*self._alike.get((registryid, lower), ()), *self._spellings.alike(registryid, xid)]
        return next((other_xid for other_xid in alike if other_xid != xid and self.row(registryid, other_xid) is not None), None)

    def put(self, registryid: RegistryId, row: OverlayRow) -> None:
        """Write an entity."""
        self._write((registryid, row.xid), row)

    def delete(self, registryid: RegistryId, xid: Xid) -> None:
        """Delete an entity, and nothing that it holds."""
        self._write((registryid, xid), None)

    def epoch_after(self, registryid: RegistryId, xid: Xid) -> int:
        """Return the epoch of an entity that is made now: one that was deleted goes on counting (decision 9)."""
        if self.view is None:
            return 1
        result = self.view.db.execute(
            "SELECT max(epoch) FROM log WHERE registryid = ? AND xid = ? AND snapshot_id <= ?",
            (registryid, xid, self.view.snapshot_id),
        ).fetchone()[0]
        return 1 if result is None else int(result) + 1

    def epoch_of_target(self, registryid: RegistryId, row: OverlayRow) -> int:
        """Return the epoch of what a Resource stands for; 0: it stands for nothing."""
        xref = read_canonical(row.body).get("xref")
        target = self.row(registryid, Xid(xref)) if isinstance(xref, str) else None
        return 0 if target is None else target.epoch

    def former(self, registryid: RegistryId, prefix: str) -> set[Xid]:
        """List the XIDs right below a collection that there are, or have ever been."""
        result = {xid for xid in self._below.get((registryid, parent_xid(Xid(prefix + "x"))), ()) if xid.startswith(prefix)}
        if self.view is not None:
            rows = self.view.db.execute(
                "SELECT DISTINCT xid FROM log WHERE registryid = ? AND xid > ? AND xid < ? AND snapshot_id <= ?",
                (registryid, prefix, prefix[:-1] + "0", self.view.snapshot_id),
            )
            result |= {xid for (xid,) in rows}
        return result

    def mark(self) -> int:
        """Return the place that `undo` goes back to."""
        return len(self._journal)

    def undo(self, mark: int) -> None:
        """Take back what was written since."""
        while len(self._journal) > mark:
            key, was_written, before = self._journal.pop()
            if was_written:
                self._written[key] = before
            else:
                del self._written[key]

    def since(self, mark: int) -> list[OverlayChange]:
        """Return what was written since, each entity as it was then and as it is now."""
        first: dict[Key, OverlayRow | None] = {}
        for key, was_written, before in self._journal[mark:]:
            if key not in first:
                first[key] = before if was_written else self._stored(*key)
        return [OverlayChange(key[0], before, self._written[key]) for key, before in first.items()]

    def changes(self) -> Iterator[OverlayChange]:
        """Return what the batch changes, by registry and XID; what came and went within it is nothing."""
        for (registryid, xid), after in sorted(self._written.items()):
            before = self._stored(registryid, xid)
            if (before is not None or after is not None) and before != after:
                yield OverlayChange(registryid, before, after)

    def _write(self, key: Key, row: OverlayRow | None) -> None:
        if len(self._journal) > 5_000_000:
            raise LakehouseError("a batch of requests writes too much.")
        self._journal.append((key, key in self._written, self._written.get(key)))
        self._written[key] = row
        self._below[key[0], parent_xid(key[1])].add(key[1])
        self._alike[key[0], key[1].lower()].add(key[1])

    def _stored(self, registryid: RegistryId, xid: Xid) -> OverlayRow | None:
        if self.view is None:
            return None
        result = self.view.entity(registryid, xid)
        return None if result is None else _overlay_row(result)


def check_owner(xid: Xid, row: OverlayRow | None) -> None:
    """Make sure that no document holds an entity: what documents hold is theirs.

    Raises:
        ProblemFound: documents hold it; it names them.
    """
    problem = owner_problem(xid, row)
    if problem is not None:
        raise problem


def owner_problem(xid: Xid, row: OverlayRow | None) -> ProblemFound | None:
    """Return what is wrong with a write to an entity that documents hold; None: none does."""
    document_uris = [] if row is None else [uri for uri in row.document_uris if uri != OVER_HTTP]
    if not document_uris:
        return None
    named = ", ".join(map(_name_for_clients, document_uris[:3])) + (
        f" and {len(document_uris) - 3} more" if len(document_uris) > 3 else ""
    )
    return ProblemFound("readonly", xid, f"It is held by documents, which are to be changed instead: {named}.")


def _name_for_clients(uri: str) -> str:
    """Return a document's name for who writes over HTTP: the folders of this machine are none of a client's business."""
    return uri.rsplit("/", 1)[1] if uri.startswith("file:") else uri


def _overlay_row(entity: Entity) -> OverlayRow:
    return OverlayRow(
        entity.kind,
        entity.xid,
        entity.content_hash or "",
        entity.epoch or 1,
        entity.createdat or 0,
        entity.modifiedat or 0,
        tuple(entity.document_uris),
        entity.body,
        entity.raw,
    )
