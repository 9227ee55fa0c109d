"""Messages and schemas are written: the meta entity, Versions, and with a Resource's own attributes its default Version."""

from __future__ import annotations

from typing import Any

from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.asked import Json, object_of
from lakehouse.serve.write.context import Context
from lakehouse.serve.write.trees import Tree, check_id
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of_version

_OF_SERVER = (
    "self", "shortself", "xid", "metaurl", "versionsurl", "versionscount", "isdefault", "epoch", "createdat", "modifiedat",
    "versionid",
)  # fmt: skip


def put_resource(context: Context, tree: Tree, given: Json, *, is_patch: bool | None = None) -> None:
    """Write a Resource.

    Args:
        context: the request.
        tree: the Resource.
        given: its attributes, with `meta` and `versions`.
        is_patch: attributes that are not given stay; None: as the request's method says.

    Raises:
        ProblemFound: it cannot be done.
    """
    patch = context.patch if is_patch is None else is_patch
    check_id(given, f"{tree.singular}id", tree.singular, tree.xid, tree.xid.rsplit("/", 1)[1])
    meta, was_alias = given.get("meta"), tree.xref is not None
    if meta is not None:
        told = object_of(meta, tree.xid + "/meta")
        tree.put_meta(told, patch=context.patch, check_epoch=context.checks_epoch, ignored=context.ignored)
    own = {name: value for name, value in given.items() if name not in ("meta", "versions")}
    versions = object_of({} if given.get("versions") is None else given["versions"], tree.xid + "/versions")
    if tree.xref is not None:
        make_alias(tree, own, versions)
        return
    for name, body in versions.items():
        put_version(context, tree, name, object_of(body, xid_of_version(tree.xid, name)), is_patch=context.patch)
    says = [name for name in own if name not in (*_OF_SERVER, f"{tree.singular}id")]
    is_about_meta = tree.versions and not tree.is_new and not was_alias and patch and meta is not None
    if not says and (is_about_meta or versions):
        return
    default = tree.default.versionid if tree.default.versionid in tree.versions else None
    versionid = id_of_version(own.get("versionid") or default or (tree.newest() if tree.versions else "1"), tree.xid)
    if default is not None and not tree.is_new and not was_alias:
        check_id(own, "versionid", "version", tree.xid, default)
    if versionid not in versions:
        put_version(context, tree, versionid, own, is_patch=patch)


def put_version(context: Context, tree: Tree, versionid: str, given: Json, *, is_patch: bool) -> None:
    """Write a Version.

    Raises:
        ProblemFound: the Resource stands for another one, or `Tree.put_version` finds something.
    """
    if tree.xref is not None:
        raise ProblemFound("extra_xref_attribute", tree.xid, name="versions", singular=tree.singular)
    if "/" in versionid or not versionid:
        raise ProblemFound("malformed_id", tree.xid, id=versionid[:128], error_detail="an id is not empty, and has no `/`")
    tree.put_version(versionid, given, patch=is_patch, check_epoch=context.checks_epoch)


def put_versions(context: Context, tree: Tree, given: Json) -> list[Xid]:
    """Write several Versions; their XIDs.

    Raises:
        ProblemFound: it cannot be done.
    """
    if not given and tree.is_new:
        raise ProblemFound("missing_versions", tree.xid)
    for versionid, body in given.items():
        told = object_of(body, xid_of_version(tree.xid, versionid))
        put_version(context, tree, versionid, told, is_patch=context.patch)
    return [xid_of_version(tree.xid, versionid) for versionid in given]


def post_version(context: Context, tree: Tree, given: Json) -> tuple[Xid, bool]:
    """Write one Version, whose id the server may choose; its XID, and whether it is new.

    Raises:
        ProblemFound: it cannot be done.
    """
    versionid = id_of_version(given.get("versionid") or str(tree.next_number()), tree.xid)
    is_new = versionid not in tree.versions
    rest = {name: value for name, value in given.items() if name not in ("meta", "versions")}
    put_version(context, tree, versionid, rest, is_patch=False)
    return xid_of_version(tree.xid, versionid), is_new


def put_meta(context: Context, tree: Tree, given: Json) -> None:
    """Write the meta entity; what stood for another one and does no more begins anew.

    Raises:
        ProblemFound: it cannot be done.
    """
    if tree.is_new:
        raise ProblemFound("not_found", tree.xid)
    was_alias = tree.xref is not None
    tree.put_meta(given, patch=context.patch, check_epoch=context.checks_epoch, ignored=context.ignored)
    if tree.xref is not None:
        make_alias(tree, {}, {})
    elif was_alias:
        tree.put_version("1", {}, patch=False, check_epoch=False)


def make_alias(tree: Tree, own: Json, versions: Json) -> None:
    """Let a Resource stand for another one: it has no Versions of its own then.

    Raises:
        ProblemFound: the body has attributes beside `meta`.
    """
    of_server = (*_OF_SERVER, f"{tree.singular}id")
    other = next((name for name in own if name not in of_server and own[name] is not None), None)
    if versions or other is not None:
        raise ProblemFound("extra_xref_attribute", tree.xid, name=other or "versions", singular=tree.singular)
    for versionid in list(tree.versions):
        tree.remove_version(versionid)
    tree.touched.clear()


def id_of_version(value: Any, xid: Xid) -> str:
    """Give an id of a body.

    Raises:
        ProblemFound: it is no text.
    """
    if not isinstance(value, str):
        raise ProblemFound("malformed_id", xid, id=str(value)[:128], error_detail="it is not a string")
    return value
