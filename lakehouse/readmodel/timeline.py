"""The snapshots of a catalog: their facts and labels, and the texts that name one."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from typing import Any

import orjson

from lakehouse.errors import SnapshotNotFound
from lakehouse.log.snapshotfacts import HEAD, NUMBER, Snapshot, moment_of
from lakehouse.readmodel.file.schema import FEW


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
        found = [one.snapshot_id for one in self.snapshots() if one.committed_at <= moment]
        if not found:
            raise SnapshotNotFound(text, "the first one is later")
        return found[-1]

    def snapshots(self) -> list[Snapshot]:
        """List all snapshots, oldest first, also those after this one."""
        names: dict[int, dict[str, str | None]] = {}
        for name, (snapshot_id, why) in self.labels().items():
            names.setdefault(snapshot_id, {})[name] = why
        rows = self.db.execute(f"SELECT snapshot_id, body FROM log WHERE kind = 'snapshot' AND {FEW} ORDER BY snapshot_id")
        return [Snapshot(number, orjson.loads(body), names.get(number, {})) for number, body in rows]

    def labels(self) -> dict[str, tuple[int, str | None]]:
        """Give all labels: name to snapshot and reason; the last row of a name counts."""
        rows = self.db.execute(f"SELECT xid, body FROM log WHERE kind = 'label' AND {FEW} ORDER BY snapshot_id, xid")
        told = ((name, orjson.loads(body)) for name, body in rows)
        return {name: (facts["snapshot_id"], facts.get("why")) for name, facts in told}

    def commit_of(self, snapshot_id: int) -> dict[str, Any]:
        """Give the facts of a snapshot: committed_at, command, counts, digest, tables ..."""
        # A snapshot may have a hundred thousand rows, so it is looked for among the snapshots.
        row = self.db.execute(
            f"SELECT body FROM log WHERE kind = 'snapshot' AND registryid = '' AND xid = '' AND snapshot_id = ? AND {FEW}",
            (snapshot_id,),
        ).fetchone()
        facts: dict[str, Any] = orjson.loads(row[0])
        return facts

    @property
    def committed_at(self) -> datetime:
        """Give the time of this snapshot."""
        return datetime.fromisoformat(self.commit_of(self.snapshot_id)["committed_at"])
