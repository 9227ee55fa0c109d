"""The operations of requests that write: groups, Resources, documents of schemas, deletions, and the writes of the CNCF draft.

Groups and the registry itself are written with what they hold in a body; of a Resource the meta entity, Versions, and with its
own attributes its default Version. A document is uploaded as the bytes of the body, its attributes in `xRegistry-` headers.
Entities are deleted, one or all of a collection, with what they hold. A group or a version of a definition of the CNCF draft (its
section 4) is converted as a document of the draft is, and written as the group or Version that it becomes. The server numbers
these
versions: a definition is changed by a new version only (CAT-037, CAT-038).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from lakehouse.dialects.detection import DRAFT
from lakehouse.dialects.draft.conversions import formats
from lakehouse.dialects.draft.reader import Converted, convert
from lakehouse.dialects.draft.writer import is_number_of_version
from lakehouse.dialects.schemadocuments import document_of, member_of
from lakehouse.serve.answer.drafted import Definition, drafted_definition, drafted_group
from lakehouse.serve.apierrors import ProblemFound, raise_problems
from lakehouse.serve.targets import MEMBERS, SINGULAR
from lakehouse.serve.write.context import WriteContext
from lakehouse.serve.write.effects import group_attributes, registry_attributes
from lakehouse.serve.write.overlay import OverlayRow, check_owner
from lakehouse.serve.write.resourcestate import (
    READ_ONLY,
    Life,
    ResourceState,
    check_body_epoch,
    check_form_of_id,
    check_id,
    life_of,
)
from lakehouse.serve.write.writerequest import Json, WriteRequest, check_text, object_of
from lakehouse.text.jsontext import read_canonical, same, without
from lakehouse.text.names import REGISTRY, Xid
from lakehouse.text.xid import last_id, parent_xid, xid_of, xid_of_version

_PREFIX = "xregistry-"
_NUMBER = re.compile(r"[0-9]{1,18}")
_NUMBERS = ("epoch",)
_BOOLEANS = ("isdefault", "readonly")
_READ_ONLY_OF_RESOURCES = (*READ_ONLY, "epoch", "createdat", "modifiedat", "versionid")
_OF_ALIAS = ("xref", "epoch", "createdat", "modifiedat")
_OF_COLLECTION = ("url", "count")
_CONFIGURATION = ("capabilities", "model", "modelsource")
_READ_ONLY_OF_GROUPS = frozenset(("self", "shortself", "xid", "epoch", "createdat", "modifiedat", "specversion", "registryid"))
CATALOG = "messagecatalog"
_BY_SERVER = ("version", "createdtimeutc", "updatedtimeutc")
_OF_VERSION = ("ancestor", "version_uri", "isdefault")


def body_of_document(write_request: WriteRequest) -> Json:
    """Return the attributes that headers name, and the document of the body; what no header names is left as it is.

    Raises:
        ProblemFound: a header is of no attribute that can be in one, or there is both a body and a URL.
    """
    attributes: Json = {}
    labels: dict[str, str] = {}
    for name, value in write_request.headers.items():
        if name.startswith(_PREFIX):
            attribute = name.removeprefix(_PREFIX)
            if attribute in ("schema", "schemabase64", "contenttype"):
                detail = "it is in the body" if attribute != "contenttype" else "it is the header Content-Type"
                raise ProblemFound("extra_xregistry_header", write_request.path, name=name, error_detail=detail)
            text = _decoded(name, value, write_request.path)
            if attribute.startswith(("labels.", "labels-")):
                labels[attribute[len("labels.") :]] = text
            else:
                attributes[attribute] = _value(attribute, text)
    if labels:
        attributes["labels"] = labels
    contenttype = write_request.headers.get("content-type")
    attributes["contenttype"] = contenttype or None
    if attributes.get("schemaurl") is not None:
        if write_request.body:
            detail = "the body must be empty with it"
            raise ProblemFound("extra_xregistry_header", write_request.path, name="xRegistry-schemaurl", error_detail=detail)
        return attributes
    check_text(attributes | {"schema": document_of(write_request.body, contenttype)}, [], write_request.path)
    name, document = member_of(write_request.body, contenttype)
    return attributes | {name: document}


def _value(attribute: str, text: str) -> Any:
    if text == "null":
        return None
    if attribute in _NUMBERS and _NUMBER.fullmatch(text):
        return int(text)
    if attribute in _BOOLEANS and text in ("true", "false"):
        return text == "true"
    return text


def _decoded(name: str, value: str, path: str) -> str:
    """Undo the quotes and percent signs of a header's value."""
    text = value
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise ProblemFound("header_error", path, name=name, error_detail="it is not UTF-8") from error


def put_resource(context: WriteContext, resource_state: ResourceState, body: Json, *, is_patch: bool | None = None) -> None:
    """Write a Resource: its own attributes into the Version that was the default one, whatever the body makes the default.

    Args:
        context: the request.
        resource_state: the Resource.
        body: its attributes, with `meta` and `versions`.
        is_patch: attributes that are not given stay; None: as the request's method says.

    Raises:
        ProblemFound: it cannot be done.
    """
    patch = context.patch if is_patch is None else is_patch
    check_id(body, f"{resource_state.singular}id", resource_state.singular, resource_state.xid, last_id(resource_state.xid))
    before = None if resource_state.is_new or resource_state.xref is not None else resource_state.default.versionid
    meta = _put_meta(context, resource_state, body)
    own = without(body, ("meta", "versions"))
    versions = object_of({} if body.get("versions") is None else body["versions"], resource_state.xid + "/versions")
    if resource_state.xref is not None:
        make_alias(context, resource_state, without(body, ("meta",)), meta or {})
        return
    for name, version in versions.items():
        put_version(
            context, resource_state, name, object_of(version, xid_of_version(resource_state.xid, name)), is_patch=context.patch
        )
    if before is None:
        _make_default(context, resource_state, own, meta, versions)
        return
    check_id(own, "versionid", "version", resource_state.xid, before)
    if before not in versions and not (patch and (meta is not None or versions) and not _declares(resource_state, own)):
        put_version(context, resource_state, before, own, is_patch=patch)


def _declares(resource_state: ResourceState, own: Json) -> bool:
    """Return whether a Resource's own attributes say anything of its default Version."""
    return any(name not in (*_READ_ONLY_OF_RESOURCES, f"{resource_state.singular}id") for name in own)


def _put_meta(context: WriteContext, resource_state: ResourceState, body: Json) -> Json | None:
    """Write the meta entity of a Resource's body; None: it holds none."""
    if body.get("meta") is None:
        return None
    meta = object_of(body["meta"], resource_state.xid + "/meta")
    context.check_names(meta, resource_state.xid + "/meta")
    resource_state.put_meta(meta, patch=context.patch, check_epoch=context.checks_epoch, ignored=context.ignored)
    return meta


def _make_default(context: WriteContext, resource_state: ResourceState, own: Json, meta: Json | None, versions: Json) -> None:
    """Make the Version that a Resource's own attributes are of, where it had no default Version before.

    The body names it (its `versionid`, else `?setdefaultversionid`, else `meta.defaultversionid`); where it does not, Versions
    of the body are all that there are (spec.md, Resource Processing Algorithm, step 2).

    Raises:
        ProblemFound: it cannot be done.
    """
    named = own.get("versionid") or _named_default(context, meta or {})
    versionid = id_of_version(named or "1", resource_state.xid)
    if versionid not in versions and (named or not versions):
        put_version(context, resource_state, versionid, own, is_patch=False)


def _named_default(context: WriteContext, meta: Json) -> Any:
    """Return the Version that a request names as the default one; the flag goes before the body."""
    if "defaultversionid" in context.ignored:
        return None
    flag = context.write_request.flag("setdefaultversionid")
    if flag is not None:
        return None if flag in ("null", "request") else flag
    return meta.get("defaultversionid")


def put_version(context: WriteContext, resource_state: ResourceState, versionid: str, body: Json, *, is_patch: bool) -> None:
    """Write a Version.

    Raises:
        ProblemFound: the Resource stands for another one, the body holds what a Resource has and a Version has not, or
            `ResourceState.put_version` finds something.
    """
    _check_no_alias(resource_state)
    check_form_of_id(versionid, resource_state.xid)
    extra = next((name for name in ("meta", "versions") if body.get(name) is not None), None)
    if extra is not None:
        detail = "This writes a Version. Write `meta` and `versions` with PUT or PATCH of the Resource, or at their own paths."
        raise ProblemFound("unknown_attribute", xid_of_version(resource_state.xid, versionid), detail, name=extra)
    context.check_names(body, xid_of_version(resource_state.xid, versionid))
    resource_state.put_version(versionid, body, patch=is_patch, check_epoch=context.checks_epoch)


def _check_no_alias(resource_state: ResourceState) -> None:
    """Make sure that a Resource may have Versions.

    Raises:
        ProblemFound: it stands for another one.
    """
    if resource_state.xref is not None:
        raise ProblemFound("extra_xref_attribute", resource_state.xid, name="versions", singular=resource_state.singular)


def put_versions(context: WriteContext, resource_state: ResourceState, versions: Json) -> list[Xid]:
    """Write several Versions; their XIDs.

    Raises:
        ProblemFound: it cannot be done.
    """
    if not versions and resource_state.is_new:
        raise ProblemFound("missing_versions", resource_state.xid)
    for versionid, body in versions.items():
        members = object_of(body, xid_of_version(resource_state.xid, versionid))
        put_version(context, resource_state, versionid, members, is_patch=context.patch)
    return [xid_of_version(resource_state.xid, versionid) for versionid in versions]


def post_version(context: WriteContext, resource_state: ResourceState, body: Json) -> tuple[Xid, bool]:
    """Write one Version, whose id the server may choose; its XID, and whether it is new.

    Raises:
        ProblemFound: it cannot be done.
    """
    versionid = id_of_version(body.get("versionid") or str(resource_state.next_number()), resource_state.xid)
    is_new = versionid not in resource_state.versions
    put_version(context, resource_state, versionid, body, is_patch=False)
    return xid_of_version(resource_state.xid, versionid), is_new


def put_meta(context: WriteContext, resource_state: ResourceState, body: Json) -> None:
    """Write the meta entity; a Resource that is new, or stood for another one and does no more, begins with a Version.

    Raises:
        ProblemFound: it cannot be done.
    """
    begins = resource_state.is_new or resource_state.xref is not None
    context.check_names(body, resource_state.xid + "/meta")
    resource_state.put_meta(body, patch=context.patch, check_epoch=context.checks_epoch, ignored=context.ignored)
    if resource_state.xref is not None:
        make_alias(context, resource_state, {}, body)
    elif begins:
        _make_default(context, resource_state, {}, body, {})


def make_alias(context: WriteContext, resource_state: ResourceState, own: Json, meta: Json) -> None:
    """Make a Resource a reference to another one: it has no Versions then (spec.md, Cross Referencing Resources).

    In `meta` dates are taken with `xref` and epoch, since `/export` has those of an alias.

    Raises:
        ProblemFound: the body has other attributes, or names a default Version.
    """
    named = f"{resource_state.singular}id"
    flag = {} if context.write_request.flag("setdefaultversionid") is None else {"defaultversionid": ""}
    for subject, attributes, allowed in ((resource_state.xid, own | flag, ()), (resource_state.xid + "/meta", meta, _OF_ALIAS)):
        for name, value in attributes.items():
            if value is not None and name not in (*READ_ONLY, *allowed, *context.ignored, named):
                raise ProblemFound("extra_xref_attribute", subject, name=name, singular=resource_state.singular)
    resource_state.meta = {}
    for versionid in list(resource_state.versions):
        resource_state.remove_version(versionid)
    resource_state.touched.clear()


def id_of_version(value: Any, xid: Xid) -> str:
    """Return an id of a body.

    Raises:
        ProblemFound: it is no text.
    """
    if not isinstance(value, str):
        raise ProblemFound("malformed_id", xid, id=str(value)[:128], error_detail="it is not a string")
    return value


def put_registry(context: WriteContext, body: Json) -> bool:
    """Write the registry's attributes, and groups in a body; True when it has had none before.

    Raises:
        ProblemFound: it cannot be done.
    """
    row = context.row(REGISTRY)
    check_id(body, "registryid", "registry", REGISTRY, context.registryid)
    if context.checks_epoch and row is not None:
        check_body_epoch(body, REGISTRY, row.epoch)
    for name in ("capabilities", "modelsource"):
        if name in body and name not in context.ignored:
            raise ProblemFound(
                "bad_request", "/", error_detail=f"`{name}` cannot be changed here; leave it out, or add ?ignore={name}"
            )
    context.ignores(REGISTRY)
    own = {name: value for name, value in body.items() if name not in (*MEMBERS, *_CONFIGURATION)}
    context.effects.registry = _merged(context, own, REGISTRY)
    context.effects.life[REGISTRY] = life_of(body, REGISTRY, row)
    put_types(context, {name: value for name, value in body.items() if name in MEMBERS}, "")
    return row is None


def put_group(context: WriteContext, xid: Xid, body: Json) -> bool:
    """Write a group and what it holds in a body; True when it is new.

    Raises:
        ProblemFound: it cannot be done.
    """
    collection, groupid = xid[1:].split("/")
    row = context.row(xid)
    check_id(body, f"{SINGULAR[collection]}id", SINGULAR[collection], xid, groupid)
    members = body.get(MEMBERS[collection])
    if not context.ignores(xid):
        if context.checks_epoch and row is not None:
            check_body_epoch(body, xid, row.epoch)
        own = {name: value for name, value in body.items() if name != MEMBERS[collection]}
        context.effects.groups[xid] = _merged(context, own, xid)
        context.effects.life[xid] = life_of(body, xid, row)
    if members is not None:
        put_types(context, {MEMBERS[collection]: members}, xid)
    return row is None


def put_types(context: WriteContext, collections: Json, above: str) -> list[Xid]:
    """Write members of several collections below an entity; their XIDs.

    Raises:
        ProblemFound: it cannot be done.
    """
    xids: list[Xid] = []
    for name, members in collections.items():
        xids += put_members(context, object_of(members, f"{above}/{name}"), f"{above}/{name}")
    return xids


def put_members(context: WriteContext, members: Json, path: str) -> list[Xid]:
    """Write members of a collection of groups or Resources; their XIDs.

    Raises:
        ProblemFound: it cannot be done.
    """
    xids: list[Xid] = []
    for name, member in members.items():
        xid = Xid(f"{path}/{name}")
        body = object_of(member, xid)
        check_form_of_id(name, xid)
        if path.count("/") == 1:
            put_group(context, xid, body)
            is_left_out = xid not in context.effects.groups
        else:
            resource_state = context.tree_unless_left_out(xid)
            is_left_out = resource_state is None
            if resource_state is not None:
                put_resource(context, resource_state, body)
        if not is_left_out:
            xids.append(xid)
    return xids


def only_collections(body: Json, names: tuple[str, ...], problem: str, path: str) -> Json:
    """Return the collections of a body that names nothing else; their URLs and counts are ignored (core, Registry Collections).

    Raises:
        ProblemFound: it names something else.
    """
    counted = {f"{name}{end}" for name in names for end in _OF_COLLECTION}
    other = next((name for name in body if name not in names and name not in counted), None)
    if other is not None:
        raise ProblemFound(problem, path, name=other[:128])
    return {name: value for name, value in body.items() if name in names}


def _merged(context: WriteContext, body: Json, xid: Xid) -> Json:
    """Return the attributes of a group or the registry: as given, or laid over the existing ones."""
    context.check_names(body, xid)
    names = set(_READ_ONLY_OF_GROUPS)
    if xid == "/":
        names |= {f"{name}{end}" for name in MEMBERS for end in _OF_COLLECTION}
    else:
        collection = xid[1:].split("/", 1)[0]
        names |= {f"{SINGULAR[collection]}id", *(f"{MEMBERS[collection]}{end}" for end in _OF_COLLECTION)}
    before = {}
    if context.patch:
        of = registry_attributes if xid == "/" else group_attributes
        before = of(context.overlay, context.registryid, xid, context.write_request.dialect)
    merged = before | {name: value for name, value in body.items() if name not in names}
    return {name: value for name, value in merged.items() if value is not None}


def delete(context: WriteContext) -> None:
    """Delete what the path names.

    Raises:
        ProblemFound: it is not there, documents hold it, or another epoch is given.
    """
    parts, path = context.write_request.parts, context.write_request.path
    if len(parts) % 2:
        _delete_members(context)
    elif len(parts) == 6:
        _delete_version(_tree_of_path(context), parts[5], context.epoch_of_query())
    else:
        row = context.row(path)
        if row is None:
            raise ProblemFound("not_found", path)
        _delete_whole(context, row, context.epoch_of_query())


def _tree_of_path(context: WriteContext) -> ResourceState:
    resource_state = context.resource_state(xid_of(*context.write_request.parts[:4]))
    if resource_state.is_new:
        raise ProblemFound("not_found", resource_state.xid)
    return resource_state


def _delete_members(context: WriteContext) -> None:
    """Delete the members of a collection that the body names; without a body, all of them (spec.md, Deleting Entities)."""
    parts, path = context.write_request.parts, context.write_request.path
    parent = parent_xid(Xid(path + "/x"))
    if len(parts) > 1 and context.row(parent) is None:
        raise ProblemFound("not_found", parent)
    resource_state = _tree_of_path(context) if len(parts) == 5 else None
    rows = {row.xid: row for row in _members_of(context, path)}
    bodies = context.body() if context.write_request.body else {last_id(xid): {} for xid in sorted(rows)}
    for name, members in bodies.items():
        check_form_of_id(name, path)
        xid = Xid(f"{path}/{name}")
        body = object_of(members, xid)
        _check_ids(body, xid)
        epoch = _epoch_of_member(body, xid, is_resource=len(parts) == 3) if context.checks_epoch else None
        if xid in rows and resource_state is not None:
            _delete_version(resource_state, name, epoch)
        elif xid in rows and not _ignores_member(context, xid):
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
    """Return the epoch that a body asks for; that of a Resource is in its `meta`.

    Raises:
        ProblemFound: it is elsewhere only.
    """
    if not is_resource:
        return body.get("epoch")
    meta = object_of(body.get("meta") or {}, xid + "/meta")
    if body.get("epoch") is not None and meta.get("epoch") is None:
        raise ProblemFound("misplaced_epoch", xid)
    return meta.get("epoch")


def _ignores_member(context: WriteContext, xid: Xid) -> bool:
    """Return whether a member of a collection is passed over (`?ignore=readonly`): it is read-only, or a group that holds it."""
    if "readonly" not in context.ignored:
        return False
    return context.ignores(xid) or any(
        context.ignores(child.xid) for child in context.overlay.children(context.registryid, xid) if xid.count("/") == 2
    )


def _members_of(context: WriteContext, path: str) -> list[OverlayRow]:
    """List the members of a collection; for a request of the draft those that its API lists."""
    collection = path.rsplit("/", 1)[1]
    rows = context.overlay.children(context.registryid, parent_xid(Xid(path + "/x")))
    is_draft = context.write_request.dialect == DRAFT
    return [row for row in rows if row.xid.split("/")[-2] == collection and not (is_draft and _definition(context, row) is None)]


def _definition(context: WriteContext, row: OverlayRow) -> Definition | None:
    """Return a message as a definition of the draft; None: the draft cannot say it."""
    group, groupid = context.row(parent_xid(row.xid)), last_id(parent_xid(row.xid))
    drafted = drafted_group(None if group is None else group.as_stored(context.registryid), groupid)
    versions = [version.as_stored(context.registryid) for version in context.overlay.children(context.registryid, row.xid)]
    return drafted_definition(drafted, row.xid, row.as_stored(context.registryid), versions)


def _delete_version(resource_state: ResourceState, versionid: str, epoch: Any) -> None:
    xid = xid_of_version(resource_state.xid, versionid)
    if versionid not in resource_state.versions:
        raise ProblemFound("not_found", xid)
    check_body_epoch({"epoch": epoch}, xid, resource_state.rows[versionid].epoch)
    resource_state.remove_version(versionid)


def _delete_whole(context: WriteContext, row: OverlayRow, epoch: Any) -> None:
    """Delete a group or a Resource with all that it holds."""
    check_body_epoch({"epoch": epoch}, row.xid, *context.epochs_of(row))
    if row.kind in ("message", "schema"):
        context.resource_state(row.xid)
    check_owner(row.xid, row)
    context.effects.deleted.append(row.xid)


def draft_methods_of(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return which methods write at a path of the draft; none: it is not one of them."""
    shape = (*parts[:1], *parts[2:3], *parts[4:5])
    if shape != (CATALOG, "messagedefinitions", "versions")[: len(shape)] or len(parts) in (0, 1):
        return ()
    return {2: ("PUT", "DELETE"), 3: ("POST", "DELETE"), 4: ("DELETE",), 6: ("DELETE",)}.get(len(parts), ())


def xregistry_parts(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path of the same entity in the xRegistry API."""
    names = {0: "messagegroups", 2: "messages", 4: "versions"}
    return tuple(names.get(index, part) for index, part in enumerate(parts))


def delete_of_draft(context: WriteContext) -> None:
    """Delete what a path of the draft names (CAT-165, CAT-175): a definition with all Versions of its message.

    Raises:
        ProblemFound: 404 where the draft's API does not show it, else as `delete`.
    """
    path, parts = context.write_request.path, xregistry_parts(context.write_request.parts)
    context.write_request = context.write_request._replace(parts=parts)
    if len(parts) % 2 == 0 and not _is_shown(context, parts):
        raise ProblemFound("not_found", path)
    delete(context)


def _is_shown(context: WriteContext, parts: tuple[str, ...]) -> bool:
    """Return whether the draft's API shows a group, a definition or a version; parts: of its XID."""
    row = context.row(xid_of(*parts[:4]))
    if row is None or len(parts) == 2:
        return row is not None
    definition = _definition(context, row)
    return definition is not None and (len(parts) == 4 or parts[5] in definition["versions"])


def put_draft_group(context: WriteContext) -> bool:
    """Create or update a group (CAT-159, CAT-169); True when it is new.

    Raises:
        ProblemFound: 400 where it is invalid, 409 where its format changes while it has definitions (CAT-025).
    """
    groupid = context.write_request.parts[1]
    body = context.body()
    if body.get("id", groupid) != groupid:
        raise ProblemFound("mismatched_id", f"/{groupid}", singular="", invalid_id=str(body["id"])[:128], expected_id=groupid)
    own = {name: value for name, value in body.items() if name != "messagedefinitions"}
    converted = convert([own | {"id": groupid}])
    _check(converted)
    attributes = {name: value for name, value in _only(converted.document["messagegroups"]).items() if name != "messages"}
    xid = xid_of("messagegroups", groupid)
    row = context.row(xid)
    check_owner(xid, row)
    is_other = row is not None and _format(read_canonical(row.body)) != _format(attributes)
    if is_other and any(child.kind == "message" for child in context.overlay.children(context.registryid, xid)):
        raise ProblemFound("", status=409, detail="CAT-025: `format` cannot change while the group has definitions.")
    context.effects.groups[xid] = _named(attributes)
    context.effects.life[xid] = Life()
    return row is None


def post_definition(context: WriteContext) -> tuple[str, bool]:
    """Make a definition, or a version of one (CAT-163); the path of the version, and whether it is new: the same again is not.

    Raises:
        ProblemFound: 404 where there is no group, 400 where the definition is invalid or its message is an alias, 409 where it
            has another authority.
    """
    groupid = context.write_request.parts[1]
    group = context.row(xid_of("messagegroups", groupid))
    if group is None:
        raise ProblemFound("not_found", f"/{CATALOG}/{groupid}")
    definition = {name: value for name, value in context.body().items() if name not in _BY_SERVER}
    name = definition.get("id")
    if not isinstance(name, str) or not name or "/" in name:
        raise ProblemFound("required_attribute_missing", context.write_request.path, list="id")
    resource_state = context.resource_state(xid_of("messagegroups", groupid, "messages", name))
    _check_no_alias(resource_state)
    _keep_authority(context, resource_state, definition)
    number = resource_state.next_number()
    made = _version(groupid, _draft_format(read_canonical(group.body)), name, definition | {"version": number})
    for versionid, attributes in resource_state.versions.items():
        if is_number_of_version(versionid) and same(_comparable(attributes), _comparable(made)):
            return f"/{CATALOG}/{groupid}/messagedefinitions/{name}/versions/{versionid}", False
    attributes = made | {resource_state.ancestor: resource_state.newest() or str(number)}
    resource_state.versions[str(number)] = attributes
    resource_state.touched.add(str(number))
    resource_state.life[str(number)] = Life()
    return f"/{CATALOG}/{groupid}/messagedefinitions/{name}/versions/{number}", True


def _keep_authority(context: WriteContext, resource_state: ResourceState, definition: Json) -> None:
    """Return a new definition its authority; it never changes (CAT-064), and an absent or empty one is this catalog (CAT-065).

    Raises:
        ProblemFound: 409, it is another one.
    """
    catalog_url = f"{context.write_request.base}/{CATALOG}"
    authority, wanted = resource_state.meta.get("authority"), definition.pop("authority", None) or None
    if wanted is not None and (resource_state.is_new or wanted == authority):
        definition["authority"] = wanted
        resource_state.meta["authority"] = wanted
        return
    if authority is not None:
        definition["authority"] = authority  # of which the URI of each version is made
    if (
        isinstance(wanted, str)
        and wanted.rstrip("/") in (context.write_request.base.rstrip("/"), catalog_url)
        and authority is None
    ):
        return
    if wanted is not None:
        detail = f"CAT-064: the authority of the definition is {authority or 'this catalog'}, and does not change."
        raise ProblemFound("", f"{context.write_request.path}/{definition['id']}", detail, status=409)


def _version(groupid: str, form: str | None, name: str, definition: Json) -> Json:
    """Convert a version of a definition into a Version's attributes."""
    group_format = form if form in formats() else definition.get("format") or form
    group = {"id": groupid, "format": group_format, "messagedefinitions": {name: definition}}
    converted = convert([group])
    _check(converted)
    message = _only(_only(converted.document["messagegroups"])["messages"])
    return _named(_only(message["versions"]))


def _check(converted: Converted) -> None:
    problems = [*converted.errors, *(problem for _, problem in converted.reported if problem.severity == "error")]
    raise_problems(
        ProblemFound(
            "invalid_attribute",
            "/",
            f"{problem.rule_id}: {problem.hint}",
            name=problem.pointer.rsplit("/", 1)[-1],
            error_detail=problem.message.rstrip("."),
        )
        for problem in problems
    )


def _only(members: Json) -> Any:
    return next(iter(members.values()))


def _named(attributes: Json) -> Json:
    """Return the attributes of a row without what it has in addition."""
    out = ("messagegroupid", "messageid", "versionid", "epoch", "createdat", "modifiedat", "isdefault", "meta")
    return {name: value for name, value in attributes.items() if name not in out}


def _comparable(attributes: Json) -> Json:
    return {name: value for name, value in attributes.items() if name not in _OF_VERSION}


def _draft_format(attributes: Json) -> str | None:
    """Return the draft's name of a group's format."""
    stored = _format(attributes)
    return next((name for name, format_row in formats().items() if format_row["type"] == stored), stored)


def _format(attributes: Json) -> str | None:
    result = attributes.get("envelope") or attributes.get("protocol")
    return result if isinstance(result, str) else None
