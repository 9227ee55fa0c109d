"""Entities are deleted, one or all of a collection, with what they hold."""

from __future__ import annotations

from typing import Any

from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.asked import object_of
from lakehouse.serve.write.context import Context
from lakehouse.serve.write.trees import Tree, check_given_epoch
from lakehouse.serve.write.working import Row, check_owner, holder_of
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of, xid_of_version


def delete(context: Context) -> None:
    """Delete what the path names.

    Raises:
        ProblemFound: it is not there, documents hold it, or another epoch is given.
    """
    parts, path = context.writing.parts, context.writing.path
    if len(parts) % 2:
        _delete_members(context)
    elif len(parts) == 6:
        _delete_version(_tree_of_path(context), parts[5], context.given_epoch())
    else:
        row = context.row(path)
        if row is None:
            raise ProblemFound("not_found", path)
        epoch = context.given_epoch()
        # Clients send the epoch that they see at a Resource: that of its default Version.
        if row.kind in ("message", "schema") and epoch == _epoch_shown(context, row):
            epoch = None
        _delete_whole(context, row, epoch)


def _epoch_shown(context: Context, row: Row) -> int | None:
    tree = context.tree(row.xid)
    shown = None if tree.default.versionid is None else tree.rows.get(tree.default.versionid)
    return None if shown is None else shown.epoch


def _tree_of_path(context: Context) -> Tree:
    tree = context.tree(xid_of(*context.writing.parts[:4]))
    if tree.is_new:
        raise ProblemFound("not_found", tree.xid)
    return tree


def _delete_members(context: Context) -> None:
    """Delete the members of a collection that the body names; without a body, all of them."""
    parts, path = context.writing.parts, context.writing.path
    holder = holder_of(Xid(path + "/x"))
    if len(parts) > 1 and context.row(holder) is None:
        raise ProblemFound("not_found", holder)
    tree = _tree_of_path(context) if len(parts) == 5 else None
    rows = {row.xid: row for row in _held(context, path)}
    given = context.body() if context.writing.body else {xid.rsplit("/", 1)[1]: {} for xid in sorted(rows)}
    for name, told in given.items():
        xid = Xid(f"{path}/{name}")
        body = object_of(told, xid)
        if len(parts) == 3 and "epoch" in body:
            raise ProblemFound("misplaced_epoch", xid)
        place = body.get("meta") or {} if len(parts) == 3 else body
        epoch = object_of(place, xid).get("epoch") if context.checks_epoch else None
        if xid in rows and tree is not None:
            _delete_version(tree, name, epoch)
        elif xid in rows:
            _delete_whole(context, rows[xid], epoch)


def _held(context: Context, path: str) -> list[Row]:
    """List the members of a collection."""
    collection = path.rsplit("/", 1)[1]
    rows = context.working.children(context.registryid, holder_of(Xid(path + "/x")))
    return [row for row in rows if row.xid.split("/")[-2] == collection]


def _delete_version(tree: Tree, versionid: str, epoch: Any) -> None:
    xid = xid_of_version(tree.xid, versionid)
    if versionid not in tree.versions:
        raise ProblemFound("not_found", xid)
    check_given_epoch({"epoch": epoch}, xid, tree.rows[versionid].epoch)
    tree.remove_version(versionid)


def _delete_whole(context: Context, row: Row, epoch: Any) -> None:
    """Delete a group or a Resource with all that it holds."""
    check_given_epoch({"epoch": epoch}, row.xid, row.epoch)
    if row.kind in ("message", "schema"):
        context.tree(row.xid)
    check_owner(row.xid, row)
    context.effects.deleted.append(row.xid)
