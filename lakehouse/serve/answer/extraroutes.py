"""Paths next to the xRegistry API: those of this product, and the read part of the CNCF draft's HTTP API (its section 4).

What `/messagecatalog` and `/messagedefinition` show is what `lakehouse export --dialect cncf-catalog` writes. Versions are
numbers there: a Version whose id is not a number, and what else the draft cannot say, is not in this API (404), as an export
leaves it out and reports it. The latest version is the one with the highest number (CAT-043, CAT-164).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from lakehouse.dialects.draft.writer import DraftGroup
from lakehouse.readmodel import Entity
from lakehouse.readmodel.detail import show_messages, stored
from lakehouse.serve.answer.changes import batch_answer
from lakehouse.serve.answer.drafted import Definition, drafted_definition, drafted_group
from lakehouse.serve.answer.exchange import ApiAnswer, Part, ReadRequest
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.describe import Document, as_page, openapi
from lakehouse.serve.subjects.registryapi import subjects_answer
from lakehouse.serve.targets import MEMBERS, SUBJECTS
from lakehouse.text.jsontext import in_order
from lakehouse.text.xid import xid_of


def catalog_answer(request: ReadRequest) -> ApiAnswer:
    """Answer below `/messagecatalog` (CAT-156 to CAT-158, CAT-161, CAT-164, CAT-166, CAT-167)."""
    parts = request.parts
    shape = [*parts[2:3], *parts[4:5]]
    if shape != ["messagedefinitions", "versions"][: len(shape)] or len(parts) > 6:
        raise ProblemFound("api_not_found", request.api_request.target.path)
    if len(parts) == 1:
        return _json(request.catalog.ids_of_groups("messagegroups"))
    group = _group(request, parts[1])
    if len(parts) == 2:
        return _json(_group_attributes(request, parts[1]))
    if len(parts) == 3:
        ids = [entry.id for entry in request.catalog.entries(xid_of("messagegroups", parts[1]))]
        return _json([versionid for versionid in ids if _definition(request, group, parts[1], versionid) is not None])
    definition = _definition(request, group, parts[1], parts[3])
    if definition is None:
        raise _not_found(request)
    versions: dict[str, Definition] = definition["versions"]
    if len(parts) == 5:
        return _json([int(number) for number in versions])
    number = parts[5] if len(parts) == 6 else list(versions)[-1]
    if number not in versions:
        raise _not_found(request)
    return _json(_version(definition, number))


def lookup_answer(request: ReadRequest) -> ApiAnswer:
    """Answer `/messagedefinition?uri=`: the version that a URI names, in whichever group it is (CAT-168, CAT-173, CAT-174)."""
    if len(request.parts) > 1:
        raise ProblemFound("api_not_found", request.api_request.target.path)
    uri = next((value for name, value in request.flags.parameters if name == "uri"), None)
    if not uri:
        raise ProblemFound("bad_request", "/messagedefinition", error_detail='The flag "uri" is missing')
    results = [] if request.view is None else request.view.by_version_uri(uri)
    for result in results:
        tokens = result.xid.split("/")
        if result.registryid == request.catalog.registryid and tokens[1] == "messagegroups":
            definition = _definition(request, _group(request, tokens[2]), tokens[2], tokens[4])
            if definition is not None and tokens[6] in definition["versions"]:
                return _json(_version(definition, tokens[6]))
    raise ProblemFound("not_found", "/messagedefinition", f"No version in this catalog has the URI {uri[:200]}.")


def _group(request: ReadRequest, groupid: str) -> Entity | None:
    xid = xid_of("messagegroups", groupid)
    if request.view is None or "/" in groupid or groupid not in request.catalog.ids_of_groups("messagegroups"):
        raise _not_found(request)
    return request.view.entity(request.catalog.registryid, xid)


def _drafted(group: Entity | None, groupid: str) -> DraftGroup:
    return drafted_group(None if group is None else stored(group), groupid)


def _group_attributes(request: ReadRequest, groupid: str) -> Definition:
    """Write a group; where it does not say its format, its first message does."""
    group = _group(request, groupid)
    drafted = _drafted(group, groupid)
    if drafted.name is None:
        for entry in request.catalog.entries(xid_of("messagegroups", groupid)):
            _write(request, drafted, groupid, entry.id)
            if drafted.name is not None:
                break
    return drafted.attributes()


def _definition(request: ReadRequest, group: Entity | None, groupid: str, messageid: str) -> Definition | None:
    """Write a definition; None: there is none, or the draft cannot say it."""
    request.catalog.deadline.tick()
    return None if "/" in messageid else _write(request, _drafted(group, groupid), groupid, messageid)


def _write(request: ReadRequest, drafted: DraftGroup, groupid: str, messageid: str) -> Definition | None:
    view, registryid = request.view, request.catalog.registryid
    xid = xid_of("messagegroups", groupid, "messages", messageid)
    row = None if view is None else view.entity(registryid, xid)
    if view is None or row is None:
        return None
    return drafted_definition(drafted, xid, stored(row), [stored(version) for version in view.versions(registryid, xid)])


def _version(definition: Definition, number: str) -> Definition:
    version: Definition = definition["versions"][number]
    return {name: definition[name] for name in ("authority",) if name in definition} | version


def _json(value: Any) -> ApiAnswer:
    return ApiAnswer(body=in_order(value))


def _not_found(request: ReadRequest) -> ProblemFound:
    return ProblemFound("not_found", request.api_request.target.path)


def effective_answer(request: ReadRequest) -> ApiAnswer:
    """Answer `/effective/<GROUPS>/<GID>/messages/<RID>`: the definition of a message with what it inherits, and from where."""
    parts = request.parts[1:]
    if len(parts) != 4 or MEMBERS.get(parts[0]) != "messages" or parts[2] != "messages":
        raise ProblemFound("api_not_found", request.api_request.target.path)
    xid = xid_of(*parts)
    if request.view is None or any("/" in part for part in parts):
        raise ProblemFound("not_found", xid)
    result = show_messages(request.view, xid, request.catalog.registryid, request.max_chain_depth)
    return ApiAnswer(body=in_order(result[0].as_json()))


# By the first part of the path below a registry.
EXTRA_ROUTES: dict[str, Part] = {
    "effective": effective_answer,
    "events": batch_answer,
    SUBJECTS: subjects_answer,
    "messagecatalog": catalog_answer,
    "messagedefinition": lookup_answer,
}


def routes(
    dialect: str,
    methods_of_path: Callable[[str], tuple[str, ...]] | None,
    more: Document | None,
    cors: Callable[[dict[bytes, bytes]], list[tuple[bytes, bytes]]],
) -> list[Route]:
    """Return the paths that are at the root of the server only: the API as OpenAPI, and as a page.

    Args:
        dialect: of the server.
        methods_of_path: as for `openapi`.
        more: as for `openapi`.
        cors: gives the headers that say whose pages may read an answer.
    """
    described = openapi(dialect, methods_of_path, more)
    text, page = in_order(described), as_page(described)

    async def document(request: HttpRequest) -> Response:
        result = Response(text, media_type="application/json")
        result.raw_headers += cors(dict(request.scope["headers"]))
        return result

    async def shown(_: HttpRequest) -> Response:
        return Response(
            page, media_type="text/html", headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        )

    return [Route("/openapi.json", document), Route("/openapi", shown)]
