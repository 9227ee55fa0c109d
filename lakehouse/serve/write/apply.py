"""A request is applied to the catalog as it is: which entities it writes and deletes, by the rules of the xRegistry API.

All or nothing: where anything is wrong, ProblemFound is raised, and nothing of the request remains.
"""

from __future__ import annotations

from typing import NamedTuple

from lakehouse.dialects.detection import DRAFT
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.targets import MEMBERS, is_catalog_path
from lakehouse.serve.write.context import WriteContext
from lakehouse.serve.write.effects import write_effects
from lakehouse.serve.write.operations import (
    CATALOG,
    body_of_document,
    delete,
    delete_of_draft,
    only_collections,
    post_definition,
    post_version,
    put_draft_group,
    put_group,
    put_members,
    put_meta,
    put_registry,
    put_resource,
    put_types,
    put_version,
    put_versions,
)
from lakehouse.serve.write.overlay import CatalogOverlay
from lakehouse.serve.write.resourcestate import check_form_of_id
from lakehouse.serve.write.writerequest import WriteRequest
from lakehouse.settings import Settings
from lakehouse.text.names import REGISTRY, Xid
from lakehouse.text.xid import xid_of, xid_of_version

_ALLOWED = {  # by what a path names
    "registry": ("PUT", "PATCH", "POST"),
    "entity": ("PUT", "PATCH", "POST", "DELETE"),
    "collection": ("POST", "PATCH", "DELETE"),
    "meta": ("PUT", "PATCH"),
    "version": ("PUT", "PATCH", "DELETE"),
}


class WriteOutcome(NamedTuple):
    """What a request did, for its answer.

    Attributes:
        shows: `entity`, `collection` (of what was processed), `types` (a map of collections) or `nothing`.
        xids: what was processed: one entity, or the members of the collections.
        created: the entity is new.
        version: XID of the Version that the request made, where it is directed at one Resource or Version.
    """

    shows: str
    xids: list[Xid]
    created: bool = False
    version: Xid | None = None


def methods_of(parts: tuple[str, ...]) -> tuple[str, ...]:
    """Return which methods write at a path; none: the API has no such path."""
    if not is_catalog_path(parts):
        return ()
    if not parts:
        return _ALLOWED["registry"]
    if len(parts) == 5 and parts[4] == "meta":
        return _ALLOWED["meta"]
    if len(parts) == 6:
        return _ALLOWED["version"]
    return _ALLOWED["entity" if len(parts) % 2 == 0 else "collection"]


def apply(overlay: CatalogOverlay, write_request: WriteRequest, settings: Settings) -> WriteOutcome:
    """Apply a request.

    Args:
        overlay: the catalog; written to, unless anything is wrong.
        write_request: the request, to a path and with a method of `methods_of`.
        settings: levels of nesting of its body, and which rules between entities hold.

    Raises:
        ProblemFound: it cannot be done; nothing was changed.
    """
    mark = overlay.mark()
    try:
        if write_request.parts[:1] == (CATALOG,):
            write_request = write_request._replace(dialect=DRAFT)
        context = WriteContext(overlay, write_request, settings.max_json_depth)
        _check_ids(write_request)
        outcome = _outcome(context)
        _set_default(context, outcome)
        write_effects(overlay, context.write_request, context.effects, settings)
    except Exception:
        overlay.undo(mark)
        raise
    return outcome


def _outcome(context: WriteContext) -> WriteOutcome:
    write_request, parts = context.write_request, context.write_request.parts
    if parts[:1] == (CATALOG,):
        return _of_draft(context)
    if write_request.method == "DELETE":
        delete(context)
        return WriteOutcome("nothing", [])
    if not parts:
        body = context.body()
        if write_request.method != "POST":
            return WriteOutcome("entity", [REGISTRY], put_registry(context, body))
        body = only_collections(body, tuple(MEMBERS), "groups_only", write_request.path)
        return WriteOutcome("types", put_types(context, body, ""))
    if len(parts) == 1:
        return WriteOutcome("collection", put_members(context, context.body(), write_request.path))
    if len(parts) == 2:
        body = context.body()
        if write_request.method != "POST":
            return WriteOutcome("entity", [write_request.path], put_group(context, write_request.path, body))
        body = only_collections(body, (MEMBERS[parts[0]],), "resources_only", write_request.path)
        context.make_parents()
        return WriteOutcome("types", put_types(context, body, write_request.path))
    context.make_parents()
    if len(parts) == 3:
        return WriteOutcome("collection", put_members(context, context.body(), write_request.path))
    return _of_resource(context)


def _of_draft(context: WriteContext) -> WriteOutcome:
    """Apply a request of the CNCF draft."""
    write_request = context.write_request
    if write_request.method == "PUT":
        return WriteOutcome("entity", [write_request.path], put_draft_group(context))
    if write_request.method == "POST":
        path, is_new = post_definition(context)
        return WriteOutcome("entity", [Xid(path)], is_new)
    delete_of_draft(context)
    return WriteOutcome("nothing", [])


def _of_resource(context: WriteContext) -> WriteOutcome:
    """Write a Resource, or a part of one."""
    write_request, parts = context.write_request, context.write_request.parts
    is_document = parts[2] == "schemas" and not write_request.details and len(parts) in (4, 6)
    if not is_document:
        _check_headers(write_request)
    body = context.without_ids(body_of_document(write_request)) if is_document else context.body()
    resource_state = context.resource_state(xid_of(*parts[:4]))
    is_new, before = resource_state.is_new, set(resource_state.versions)
    if len(parts) == 4 and write_request.method == "POST":
        xid, is_made = post_version(context, resource_state, body)
        return WriteOutcome("entity", [xid], is_made, xid)
    if len(parts) == 4:
        put_resource(context, resource_state, body, is_patch=context.patch or is_document)
        made = sorted(set(resource_state.versions) - before)
        return WriteOutcome(
            "entity", [resource_state.xid], is_new, xid_of_version(resource_state.xid, made[-1]) if made else None
        )
    if parts[4] == "meta":
        put_meta(context, resource_state, body)
        return WriteOutcome("entity", [write_request.path], is_new)
    if len(parts) == 5:
        return WriteOutcome("collection", put_versions(context, resource_state, body))
    put_version(context, resource_state, parts[5], body, is_patch=context.patch or is_document)
    is_made = parts[5] not in before
    return WriteOutcome("entity", [write_request.path], is_made, write_request.path if is_made else None)


def _check_ids(write_request: WriteRequest) -> None:
    if not write_request.registryid:  # the log would take its rows, and each table refuse them later
        raise ProblemFound("malformed_id", write_request.path, id="", error_detail="the id of a registry is not empty")
    for part in write_request.parts[1::2]:
        check_form_of_id(part, write_request.path)


def _check_headers(write_request: WriteRequest) -> None:
    name = next((name for name in write_request.headers if name.startswith("xregistry-")), None)
    if name is not None:
        detail = "the attributes are in the body"
        raise ProblemFound("extra_xregistry_header", write_request.path, name=name[:128], error_detail=detail)


def _set_default(context: WriteContext, outcome: WriteOutcome) -> None:
    """Follow `?setdefaultversionid`."""
    write_request = context.write_request
    wanted = write_request.flag("setdefaultversionid")
    if wanted is None or "defaultversionid" in context.ignored:
        return
    if (
        len(write_request.parts) < 4
        or len(context.effects.resource_states) != 1
        or (wanted == "request" and write_request.method != "POST")
    ):
        raise ProblemFound("bad_flag", write_request.path, flag="setdefaultversionid")
    resource_state = next(iter(context.effects.resource_states.values()))
    if wanted == "request":
        if len(outcome.xids) > 1:
            raise ProblemFound("too_many_versions", write_request.path)
        if not outcome.xids:
            raise ProblemFound("defaultversionid_request", resource_state.xid)
        wanted = outcome.xids[0].rsplit("/", 1)[1]
    if wanted == "":
        raise ProblemFound("bad_defaultversionid", write_request.path, value="", error_detail="it is empty")
    resource_state.set_default(None if wanted == "null" else wanted)
