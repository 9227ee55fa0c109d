"""The writes of the HTTP API of the CNCF Message and Event Catalog draft (its section 4).

A group or a version of a definition is converted as a document of the draft is, and written as the group or Version that it
becomes. The server numbers the versions: a definition is changed by a new version only (CAT-037, CAT-038).
"""

from __future__ import annotations

from typing import Any

from lakehouse.dialects.draft.attributes import formats
from lakehouse.dialects.draft.groups import Converted, convert
from lakehouse.serve.problems import ProblemFound, raise_problems
from lakehouse.serve.write.asked import Json
from lakehouse.serve.write.context import Context
from lakehouse.serve.write.trees import Life, Tree
from lakehouse.serve.write.working import check_owner
from lakehouse.text.jsontext import read_canonical, same
from lakehouse.text.xid import xid_of

CATALOG = "messagecatalog"
_BY_SERVER = ("version", "createdtimeutc", "updatedtimeutc")
_OF_VERSION = ("ancestor", "version_uri", "isdefault")


def draft_methods_of(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Tell which methods write at a path of the draft; none: it is not one of them."""
    shape = (*parts[:1], *parts[2:3], *parts[4:5])
    if shape != (CATALOG, "messagedefinitions", "versions")[: len(shape)] or len(parts) in (0, 1):
        return ()
    return {2: ("PUT", "DELETE"), 3: ("POST", "DELETE"), 4: ("DELETE",), 6: ("DELETE",)}.get(len(parts), ())


def xregistry_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Give the path of the same entity in the xRegistry API."""
    names = {0: "messagegroups", 2: "messages", 4: "versions"}
    return tuple(names.get(index, part) for index, part in enumerate(parts))


def put_draft_group(context: Context) -> bool:
    """Create or update a group (CAT-159, CAT-169); True when it is new.

    Raises:
        ProblemFound: 400 where it is invalid, 409 where its format changes while it has definitions (CAT-025).
    """
    groupid = context.writing.parts[1]
    given = context.body()
    if given.get("id", groupid) != groupid:
        raise ProblemFound("mismatched_id", f"/{groupid}", singular="", invalid_id=str(given["id"])[:128], expected_id=groupid)
    own = {name: value for name, value in given.items() if name != "messagedefinitions"}
    converted = convert([own | {"id": groupid}])
    _check(converted)
    attributes = {name: value for name, value in _only(converted.document["messagegroups"]).items() if name != "messages"}
    xid = xid_of("messagegroups", groupid)
    row = context.row(xid)
    check_owner(xid, row)
    is_other = row is not None and _format(read_canonical(row.body)) != _format(attributes)
    if is_other and any(one.kind == "message" for one in context.working.children(context.registryid, xid)):
        raise ProblemFound("", status=409, detail="CAT-025: `format` cannot change while the group has definitions.")
    context.effects.groups[xid] = _named(attributes)
    context.effects.life[xid] = Life()
    return row is None


def post_definition(context: Context) -> tuple[str, bool]:
    """Make a definition, or a version of one (CAT-163); the path of the version, and whether it is new: the same again is not.

    Raises:
        ProblemFound: 404 where there is no group, 400 where the definition is invalid, 409 where it has another authority.
    """
    groupid = context.writing.parts[1]
    group = context.row(xid_of("messagegroups", groupid))
    if group is None:
        raise ProblemFound("not_found", f"/{CATALOG}/{groupid}")
    given = {name: value for name, value in context.body().items() if name not in _BY_SERVER}
    name = given.get("id")
    if not isinstance(name, str) or not name or "/" in name:
        raise ProblemFound("required_attribute_missing", context.writing.path, list="id")
    tree = context.tree(xid_of("messagegroups", groupid, "messages", name))
    _keep_authority(context, tree, given)
    number = tree.next_number()
    made = _version(groupid, _draft_format(read_canonical(group.body)), name, given | {"version": number})
    for versionid, attributes in tree.versions.items():
        if same(_told(attributes), _told(made)):
            return f"/{CATALOG}/{groupid}/messagedefinitions/{name}/versions/{versionid}", False
    attributes = made | {tree.ancestor: tree.newest() or str(number)}
    tree.versions[str(number)] = attributes
    tree.touched.add(str(number))
    tree.life[str(number)] = Life()
    return f"/{CATALOG}/{groupid}/messagedefinitions/{name}/versions/{number}", True


def _keep_authority(context: Context, tree: Tree, given: Json) -> None:
    """Give a new definition its authority; it never changes (CAT-064), and an absent or empty one is this catalog (CAT-065).

    Raises:
        ProblemFound: 409, it is another one.
    """
    ours = f"{context.writing.base}/{CATALOG}"
    known, wanted = tree.meta.get("authority"), given.pop("authority", None) or None
    if wanted is not None and (tree.is_new or wanted == known):
        given["authority"] = wanted
        tree.meta["authority"] = wanted
        return
    if known is not None:
        given["authority"] = known  # of which the URI of each version is made
    if isinstance(wanted, str) and wanted.rstrip("/") in (context.writing.base.rstrip("/"), ours) and known is None:
        return
    if wanted is not None:
        told = f"CAT-064: the authority of the definition is {known or 'this catalog'}, and does not change."
        raise ProblemFound("", f"{context.writing.path}/{given['id']}", told, status=409)


def _version(groupid: str, form: str | None, name: str, given: Json) -> Json:
    """Convert a version of a definition into a Version's attributes."""
    known = form if form in formats() else given.get("format") or form
    group = {"id": groupid, "format": known, "messagedefinitions": {name: given}}
    converted = convert([group])
    _check(converted)
    message = _only(_only(converted.document["messagegroups"])["messages"])
    return _named(_only(message["versions"]))


def _check(converted: Converted) -> None:
    problems = [*converted.errors, *(problem for _, problem in converted.told if problem.severity == "error")]
    raise_problems(
        ProblemFound(
            "invalid_attribute",
            "/",
            f"{one.rule_id}: {one.hint}",
            name=one.pointer.rsplit("/", 1)[-1],
            error_detail=one.message.rstrip("."),
        )
        for one in problems
    )


def _only(members: Json) -> Any:
    return next(iter(members.values()))


def _named(attributes: Json) -> Json:
    """Leave out what a row has beside its attributes."""
    out = ("messagegroupid", "messageid", "versionid", "epoch", "createdat", "modifiedat", "isdefault", "meta")
    return {name: value for name, value in attributes.items() if name not in out}


def _told(attributes: Json) -> Json:
    return {name: value for name, value in attributes.items() if name not in _OF_VERSION}


def _draft_format(attributes: Json) -> str | None:
    """Give the draft's name of a group's format."""
    stored = _format(attributes)
    return next((name for name, known in formats().items() if known["type"] == stored), stored)


def _format(attributes: Json) -> str | None:
    found = attributes.get("envelope") or attributes.get("protocol")
    return found if isinstance(found, str) else None
