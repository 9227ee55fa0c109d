"""Change events, snapshot by snapshot, out of the log of the read model: `lakehouse.domain.events` makes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lakehouse.domain.events import FEEDS, Changed, Commit, cloudevents
from lakehouse.readmodel.view import View
from lakehouse.text.names import JsonText


def change_events(
    view: View, source: str, since: int, until: int | None = None, feeds: Sequence[str] = FEEDS
) -> Iterator[tuple[int, JsonText]]:
    """Return the events of the snapshots after `since`, in order.

    Args:
        view: whose `head` is the newest snapshot that can be told.
        source: URL of the registry, setting `events_source`; `{registryid}` stands for its id.
        since: the last snapshot that the reader knows; 0: none.
        until: the last snapshot to report; None: the head.
        feeds: which feeds.

    Returns:
        Snapshot and event (CloudEvents JSON).
    """
    for snapshot_id in range(since + 1, (view.head if until is None else until) + 1):
        commit = view.commit_of(snapshot_id)
        of_commit = Commit(snapshot_id, commit["committed_at"], commit["ingest_id"])
        for event in cloudevents(of_commit, _changed_in(view, snapshot_id), source, feeds):
            yield snapshot_id, event


def _changed_in(view: View, snapshot_id: int) -> Iterator[Changed]:
    rows = view.db.execute(
        """
        SELECT n.registryid, n.kind, n.xid, n.op, n.createdat, n.modifiedat, n.raw, n.body, p.body, p.op
        FROM log AS n
        LEFT JOIN log AS p ON p.registryid = n.registryid AND p.xid = n.xid AND p.kind = n.kind AND p.until = n.snapshot_id
        WHERE n.snapshot_id = ? AND n.op <> 'own'
        """,
        (snapshot_id,),
    )
    for *row, before, op in rows:
        yield Changed._make((*row, None if op == "delete" else before))
