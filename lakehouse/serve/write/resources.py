"""Messages and schemas are written: the meta entity, Versions, and with a Resource's own attributes its default Version."""

from __future__ import annotations

from typing import Any

from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.asked import Json, object_of
from lakehouse.serve.write.context import Context
from lakehouse.serve.write.trees import READ_ONLY, Tree, check_id
from lakehouse.text.names import Xid
from lakehouse.text.xid import last_id, xid_of_version

_OF_SERVER = (*READ_ONLY, "epoch", "createdat", "modifiedat", "versionid")
_OF_ALIAS = ("xref", "epoch", "createdat", "modifiedat")


def put_resource(context: Context, tree: Tree, given: Json, *, is_patch: bool | None = None) -> None:
    """Write a Resource: its own attributes into the Version that was the default one, whatever the body makes the default.

    Args:
        context: the request.
        tree: the Resource.
        given: its attributes, with `meta` and `versions`.
        is_patch: attributes that are not given stay; None: as the request's method says.

    Raises:
        ProblemFound: it cannot be done.
    """
    patch = context.patch if is_patch is None else is_patch
    check_id(given, f"{tree.singular}id", tree.singular, tree.xid, last_id(tree.xid))
    before = None if tree.is_new or tree.xref is not None else tree.default.versionid
    meta = None if given.get("meta") is None else object_of(given["meta"], tree.xid + "/meta")
    if meta is not None:
        context.check_names(meta, tree.xid + "/meta")
        tree.put_meta(meta, patch=context.patch, check_epoch=context.checks_epoch, ignored=context.ignored)
    own = {name: value for name, value in given.items() if name not in ("meta", "versions")}
    versions = object_of({} if given.get("versions") is None else given["versions"], tree.xid + "/versions")
    if tree.xref is not None:
        make_alias(context, tree, {name: value for name, value in given.items() if name != "meta"}, meta or {})
        return
    for name, body in versions.items():
        put_version(context, tree, name, object_of(body, xid_of_version(tree.xid, name)), is_patch=context.patch)
    if before is None:
        _make_default(context, tree, own, meta, versions)
        return
    check_id(own, "versionid", "version", tree.xid, before)
    says = any(name not in (*_OF_SERVER, f"{tree.singular}id") for name in own)
    is_elsewhere = patch and not says and (meta is not None or versions)  # nothing is said of the default Version
    if before not in versions and not is_elsewhere:
        put_version(context, tree, before, own, is_patch=patch)


def _make_default(context: Context, tree: Tree, own: Json, meta: Json | None, versions: Json) -> None:
    """Make the Version that a Resource's own attributes are of, where it had no default Version before.

    The body names it (its `versionid`, else `?setdefaultversionid`, else `meta.defaultversionid`); where it does not, Versions
    of the body are all that there are (spec.md, Resource Processing Algorithm, step 2).

    Raises:
        ProblemFound: it cannot be done.
    """
    named = own.get("versionid") or _named_default(context, meta or {})
    versionid = id_of_version(named or "1", tree.xid)
    if versionid not in versions and (named or not versions):
        put_version(context, tree, versionid, own, is_patch=False)


def _named_default(context: Context, meta: Json) -> Any:
    """Return the Version that a request names as the default one; the flag goes before the body."""
    if "defaultversionid" in context.ignored:
        return None
    flag = context.writing.flag("setdefaultversionid")
    if flag is not None:
        return None if flag in ("null", "request") else flag
    return meta.get("defaultversionid")


def put_version(context: Context, tree: Tree, versionid: str, given: Json, *, is_patch: bool) -> None:
    """Write a Version.

    Raises:
        ProblemFound: the Resource stands for another one, the body holds what a Resource has and a Version has not, or
            `Tree.put_version` finds something.
    """
    if tree.xref is not None:
        raise ProblemFound("extra_xref_attribute", tree.xid, name="versions", singular=tree.singular)
    if "/" in versionid or not versionid:
        raise ProblemFound("malformed_id", tree.xid, id=versionid[:128], error_detail="an id is not empty, and has no `/`")
    extra = next((name for name in ("meta", "versions") if given.get(name) is not None), None)
    if extra is not None:
        told = "This writes a Version. Write `meta` and `versions` with PUT or PATCH of the Resource, or at their own paths."
        raise ProblemFound("unknown_attribute", xid_of_version(tree.xid, versionid), told, name=extra)
    context.check_names(given, xid_of_version(tree.xid, versionid))
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
    put_version(context, tree, versionid, given, is_patch=False)
    return xid_of_version(tree.xid, versionid), is_new


def put_meta(context: Context, tree: Tree, given: Json) -> None:
    """Write the meta entity; a Resource that is new, or stood for another one and does no more, begins with a Version.

    Raises:
        ProblemFound: it cannot be done.
    """
    begins = tree.is_new or tree.xref is not None
    context.check_names(given, tree.xid + "/meta")
    tree.put_meta(given, patch=context.patch, check_epoch=context.checks_epoch, ignored=context.ignored)
    if tree.xref is not None:
        make_alias(context, tree, {}, given)
    elif begins:
        _make_default(context, tree, {}, given, {})


def make_alias(context: Context, tree: Tree, own: Json, meta: Json) -> None:
    """Let a Resource stand for another one: it has no Versions of its own then (spec.md, Cross Referencing Resources).

    In `meta` dates are taken beside `xref` and epoch, since `/export` has those of an alias.

    Raises:
        ProblemFound: the body has other attributes, or names a default Version.
    """
    named = f"{tree.singular}id"
    flag = {} if context.writing.flag("setdefaultversionid") is None else {"defaultversionid": ""}
    for subject, given, allowed in ((tree.xid, own | flag, ()), (tree.xid + "/meta", meta, _OF_ALIAS)):
        for name, value in given.items():
            if value is not None and name not in (*READ_ONLY, *allowed, *context.ignored, named):
                raise ProblemFound("extra_xref_attribute", subject, name=name, singular=tree.singular)
    tree.meta = {}
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
