"""Entities are deleted, one or all of a collection, with what they hold."""

from __future__ import annotations

from typing import Any

from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import SINGULAR
from lakehouse.serve.write.asked import Json, object_of
from lakehouse.serve.write.context import Context
from lakehouse.serve.write.trees import Tree, check_given_epoch, check_id
from lakehouse.serve.write.working import Row, check_owner
from lakehouse.text.names import Xid
from lakehouse.text.xid import holder_of, last_id, xid_of, xid_of_version


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
        _delete_whole(context, row, context.given_epoch())


def _tree_of_path(context: Context) -> Tree:
    tree = context.tree(xid_of(*context.writing.parts[:4]))
    if tree.is_new:
        raise ProblemFound("not_found", tree.xid)
    return tree


def _delete_members(context: Context) -> None:
    """Delete the members of a collection that the body names; without a body, all of them (spec.md, Deleting Entities)."""
    parts, path = context.writing.parts, context.writing.path
    holder = holder_of(Xid(path + "/x"))
    if len(parts) > 1 and context.row(holder) is None:
        raise ProblemFound("not_found", holder)
    tree = _tree_of_path(context) if len(parts) == 5 else None
    rows = {row.xid: row for row in _held(context, path)}
    given = context.body() if context.writing.body else {last_id(xid): {} for xid in sorted(rows)}
    for name, told in given.items():
        xid = Xid(f"{path}/{name}")
        body = object_of(told, xid)
        _check_ids(body, xid)
        epoch = _epoch_of_member(body, xid, is_resource=len(parts) == 3) if context.checks_epoch else None
        if xid in rows and tree is not None:
            _delete_version(tree, name, epoch)
        elif xid in rows and not _leaves_out(context, xid):
            _delete_whole(context, rows[xid], epoch)


def _check_ids(body: Json, xid: Xid) -> None:
    """Make sure that the ids that a body gives a member are those of its key, and of the Resource that holds it.

    Raises:
        ProblemFound: one is another entity's.
    """
    parts = xid[1:].split("/")
    for place in (4, 2) if len(parts) == 6 else (len(parts) - 2,):
        singular = SINGULAR[parts[place]]
        check_id(body, f"{singular}id", singular, xid, parts[place + 1])


def _epoch_of_member(body: Json, xid: Xid, *, is_resource: bool) -> Any:
    """Give the epoch that a body asks for; that of a Resource is in its `meta`.

    Raises:
        ProblemFound: it is elsewhere only.
    """
    if not is_resource:
        return body.get("epoch")
    meta = object_of(body.get("meta") or {}, xid + "/meta")
    if body.get("epoch") is not None and meta.get("epoch") is None:
        raise ProblemFound("misplaced_epoch", xid)
    return meta.get("epoch")


def _leaves_out(context: Context, xid: Xid) -> bool:
    """Return whether a member of a collection is passed over (`?ignore=readonly`): it is read-only, or a group that holds it."""
    if "readonly" not in context.ignored:
        return False
    return context.leaves_out(xid) or any(
        context.leaves_out(child.xid) for child in context.working.children(context.registryid, xid) if xid.count("/") == 2
    )


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
