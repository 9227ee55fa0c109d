"""Differences between two snapshots, as long as what changed fits in memory: `lakehouse.domain.diff` compares.

Tests hold what is narrowed to the changes equal to the whole, and both equal to `ddl/diffs/snapshot_diff.sql`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from lakehouse.domain.diff import COMPARED_KINDS, Definitions, Difference, Key, differences, leaves_of_entity, leaves_of_message
from lakehouse.readmodel.model import ReadModel
from lakehouse.readmodel.view import View
from lakehouse.text.names import REGISTRY, RegistryId, Xid

MOST_CHANGED = 20_000  # entities that are compared here


class TooManyChanges(Exception):
    """More than `MOST_CHANGED` entities changed: Spark compares them."""


def diff_snapshots(model: ReadModel, before: str | int, after: str | int) -> list[Difference]:
    """Compare two snapshots; only what changed between them is read.

    Args:
        model: the read model, up to date.
        before: number, label, date or time of a snapshot.
        after: likewise; it may be the earlier one.

    Raises:
        DefinitionsGone: effective definitions are not stored for one of them any more.
        SnapshotNotFound: one of them is not there.
        TooManyChanges: they are too far apart.
    """
    first, last = sorted(model.answer(lambda view: view.snapshot_id, side) for side in (before, after))
    changed = model.answer(lambda view: changed_since(view, first), last)
    if len(changed) > MOST_CHANGED:
        raise TooManyChanges
    return differences(*(model.answer(lambda view: definitions_of(view, changed), side) for side in (before, after)))


def changed_since(view: View, first: int) -> set[Key]:
    """Give the entities whose definition may differ between a snapshot and the view's, among others that do not.

    Args:
        view: the later snapshot.
        first: number of the earlier one.

    Raises:
        DefinitionsGone: effective definitions are not stored for the view's snapshot any more.
    """
    marks = ", ".join("?" * len(COMPARED_KINDS))
    rows = view.db.execute(
        f"SELECT DISTINCT registryid, kind, xid FROM log WHERE snapshot_id > ? AND snapshot_id <= ? AND kind IN ({marks})",
        (first, view.snapshot_id, *COMPARED_KINDS),
    )
    return {*rows, *((registryid, "message", xid) for registryid, xid in view.defined_since(first))}


def definitions_of(view: View, only: Iterable[Key] | None = None) -> Definitions:
    """Give the rows of the view `comparable_definitions` at a snapshot: registryid, kind, xid to leaves.

    Args:
        view: the snapshot.
        only: these entities; None: all.

    Raises:
        DefinitionsGone: effective definitions are not stored for this snapshot any more.
    """
    if only is None:
        entities = (one for registryid in view.registries() for one in view.below(registryid, REGISTRY))
    else:
        looked_up = (view.entity(registryid, xid) for registryid, _, xid in only)
        entities = (one for one in looked_up if one is not None)
    found: Definitions = {}
    deprecated: dict[RegistryId, dict[Xid, Any]] = defaultdict(dict)
    for entity in entities:
        if entity.kind == "message":
            deprecated[entity.registryid][entity.xid] = entity.attributes.get("deprecated")
        elif entity.kind in COMPARED_KINDS:
            found[entity.registryid, entity.kind, entity.xid] = leaves_of_entity(entity.kind, entity.body)
    for registryid, messages in deprecated.items():
        for one in view.definitions(registryid, xids=None if only is None else messages):
            if one["xid"] in messages:
                leaves = leaves_of_message(one["inferred"], one["attributes"], messages[one["xid"]])
                found[registryid, "message", one["xid"]] = leaves
    return found
