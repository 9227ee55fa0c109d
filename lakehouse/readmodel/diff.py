"""Differences between two snapshots, whatever their age: definitions are computed of the bodies in the log.

Only what changed between the two is compared, and the messages that are merged from it, on either side. Tests hold that equal to
the whole, and to what Spark and `ddl/diffs/snapshot_diff.sql` find.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lakehouse.domain.bodies import compared_bodies
from lakehouse.domain.diff import COMPARED_KINDS, Definitions, Difference, Key
from lakehouse.readmodel.model import ReadModel
from lakehouse.readmodel.view import View
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.xid import xid_of_resource


class TooManyChanges(Exception):
    """More entities may differ than shall be compared."""


def diff_snapshots(model: ReadModel, before: str | int, after: str | int, most: int | None = None) -> list[Difference]:
    """Compare two snapshots; only what changed between them, and what depends on that, is read.

    Args:
        model: the read model, up to date.
        before: number, label, date or time of a snapshot.
        after: likewise; it may be the earlier one.
        most: how many entities are compared; None: all.

    Raises:
        SnapshotNotFound: one of them is not there.
        TooManyChanges: more than `most` may differ.
    """

    def compare(one: View) -> list[Difference]:
        with model.at(after) as other:
            keys = changed_between(one, other)
            if most is not None and len(keys) > most:
                raise TooManyChanges
            return compared_bodies(one.bodies, other.bodies, keys)

    return model.answer(compare, before)


def changed_between(one: View, other: View) -> set[Key]:
    """Return the entities that may differ between two snapshots, among others that do not."""
    first, last = sorted((one.snapshot_id, other.snapshot_id))
    rows = one.db.execute(
        "SELECT DISTINCT registryid, kind, xid FROM log WHERE snapshot_id > ? AND snapshot_id <= ?", (first, last)
    ).fetchall()
    messages = {(registryid, xid_of_resource(xid)) for registryid, kind, xid in rows if kind in ("message", "version")}
    affected = {*_merged_from(one, messages), *_merged_from(other, messages)}
    return {key for key in rows if key[1] in COMPARED_KINDS} | {(registryid, "message", xid) for registryid, xid in affected}


def definitions_of(view: View) -> Definitions:
    """Return the rows of the view `comparable_definitions` at a snapshot: registryid, kind, xid to leaves."""
    keys = [
        (registryid, one.kind, one.xid)
        for registryid in view.registries()
        for one in view.below(registryid, REGISTRY)
        if one.kind in COMPARED_KINDS
    ]
    return {key: leaves for key in keys if (leaves := view.bodies.leaves_of(key)) is not None}


def _merged_from(view: View, messages: Iterable[tuple[RegistryId, Xid]]) -> set[tuple[RegistryId, Xid]]:
    """Return messages with all that name one of them, or a Version of it, as base or by xref, over any number of steps."""
    found = set(messages)
    left = list(found)
    while left:
        registryid, xid = left.pop()
        below = f"{xid}/versions/"
        rows: Any = view.db.execute(
            f"""
            SELECT l.xid FROM edges AS e INNER JOIN log AS l ON l.id = e.log_id
            WHERE (e.whole = ? OR (e.whole >= ? AND e.whole < ?)) AND e.relation IN ('basemessage', 'xref')
            AND l.registryid = ? AND {view.holds("l.")}
            """,
            (xid, below, f"{below}\U0010ffff", registryid),
        ).fetchall()
        new = {(registryid, xid_of_resource(one)) for (one,) in rows} - found
        found |= new
        left += new
    return found
