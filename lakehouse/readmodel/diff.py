"""Differences between two snapshots, whatever their age: definitions are computed of the bodies in the log.

Only what changed between the two is compared, and the messages that are merged from it, on either side. Tests hold that equal to
the whole, and to what Spark and `ddl/diffs/snapshot_diff.sql` find.
"""

from __future__ import annotations

from lakehouse.domain.bodies import compared_bodies
from lakehouse.domain.diff import COMPARED_KINDS, Definitions, Difference
from lakehouse.readmodel.model import ReadModel
from lakehouse.readmodel.view import View
from lakehouse.text.names import REGISTRY


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
            keys = {key for key in one.may_differ(other) if key[1] in COMPARED_KINDS}
            if most is not None and len(keys) > most:
                raise TooManyChanges
            return compared_bodies(one.bodies, other.bodies, keys)

    return model.answer(compare, before)


def definitions_of(view: View) -> Definitions:
    """Return the rows of the view `comparable_definitions` at a snapshot: registryid, kind, xid to leaves."""
    keys = [
        (registryid, one.kind, one.xid)
        for registryid in view.registries()
        for one in view.below(registryid, REGISTRY)
        if one.kind in COMPARED_KINDS
    ]
    return {key: leaves for key in keys if (leaves := view.bodies.leaves_of(key)) is not None}
