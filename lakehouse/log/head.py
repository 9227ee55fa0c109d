"""The newest snapshot of the log, and what a row of the log says of an entity besides its texts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone

from lakehouse.store.keys import KEY

APPLICATION = "lakehouse.changes"  # whose transactions of Delta Lake the snapshots are
LOGGED = [*KEY, "op", "content_hash", "epoch", "createdat", "modifiedat", "document_uris"]


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
