"""The facts of a snapshot, the texts that name one (numbers, labels, dates, times, `head`), and the newest one. No Spark."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any

from lakehouse.errors import SettingsError, SnapshotNotFound
from lakehouse.store.keys import KEY
from lakehouse.text.timestamps import microseconds

HEAD = "head"
NUMBER = re.compile(r"\A[0-9]+\Z")
_DATE = re.compile(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")
_TIME = re.compile(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ]")
_REST_OF_DAY = timedelta(days=1) - timedelta(microseconds=1)  # a whole day after the last date is no date
APPLICATION = "lakehouse.changes"  # whose transactions of Delta Lake the snapshots are
LOGGED = [*KEY, "op", "content_hash", "epoch", "createdat", "modifiedat", "document_uris"]


@dataclass(frozen=True)
class Snapshot:
    """One snapshot of the log.

    Attributes:
        snapshot_id: its number.
        facts: the body of its row: committed_at, command, counts, digest ...
        labels: its names, with the reason of each where one was given.
    """

    snapshot_id: int
    facts: dict[str, Any]
    labels: dict[str, str | None]

    @property
    def committed_at(self) -> datetime:
        """Return the time of the commit."""
        return datetime.fromisoformat(self.facts["committed_at"])

    @property
    def ops(self) -> dict[str, int]:
        """Count what it changed, by op; `own`: only the documents that hold it."""
        result = Counter[str]()
        for counts in self.facts["counts"].values():
            result.update(counts)
        return dict(result)

    def as_json(self) -> dict[str, Any]:
        """Return an item of `lakehouse snapshots --json`."""
        counted = {"inserted": ("insert",), "updated": ("update", "own"), "deleted": ("delete",)}
        details = ("committed_at", "committed_by", "command", "ingest_id", "product_version", "documents", "digest")
        return {
            "snapshot_id": self.snapshot_id,
            **{name: self.facts[name] for name in details},
            **{name: sum(self.ops.get(op, 0) for op in ops) for name, ops in counted.items()},
            "labels": self.labels,
        }


def check_label(name: str) -> None:
    """Check that a name is none of the numbers, times and `head`.

    Raises:
        SettingsError: it cannot.
    """
    wanted = name.strip()
    if not wanted or wanted != name or wanted == HEAD or NUMBER.match(wanted) or _DATE.match(wanted) or _TIME.match(wanted):
        raise SettingsError(f"{name!r} cannot be a label: a number, a date, a time and `head` name snapshots already.")


def moment_of(text: str) -> datetime | None:
    """Read a time, or the last moment of a date; None when it is neither.

    Raises:
        SnapshotNotFound: it looks like one, and there is no such moment.
    """
    wanted = text.strip()
    is_date = _DATE.match(wanted) is not None
    if not is_date and not _TIME.match(wanted):
        return None
    try:
        micros, _ = microseconds(f"{wanted}T00:00:00" if is_date else wanted.replace(" ", "T", 1))
    except ValueError as error:
        raise SnapshotNotFound(text, str(error)) from error
    start = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=micros)
    return start + _REST_OF_DAY if is_date else start


@dataclass(frozen=True)
class Head:
    """The newest snapshot; number 0 before the first.

    Attributes:
        tables: for each entity table the snapshot that changed it last.
        deletions: how many rows of the log are deletions.
    """

    snapshot_id: int = 0
    committed_at: datetime = datetime(1970, 1, 1, tzinfo=timezone.utc)
    digest: str = ""
    tables: dict[str, int] = field(default_factory=dict)
    deletions: int = 0

    def next_moment(self) -> datetime:
        """Return the time of a snapshot that follows now; later than this one's also when the clock was set back."""
        return max(datetime.now(timezone.utc), self.committed_at + datetime.resolution)
