"""What stands beside the xRegistry API: paths of this product, and those of the CNCF Message and Event Catalog draft."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from lakehouse.readmodel.shown import show_messages
from lakehouse.serve.answer.asking import Answer, Part, Request
from lakehouse.serve.answer.changes import batch_answer
from lakehouse.serve.answer.draft import catalog_answer, lookup_answer
from lakehouse.serve.describe.openapi import Document, as_page, openapi
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import MEMBERS
from lakehouse.text.jsontext import in_order
from lakehouse.text.xid import xid_of


def effective_answer(request: Request) -> Answer:
    """Answer `/effective/<GROUPS>/<GID>/messages/<RID>`: the definition of a message with what it inherits, and from where."""
    parts = request.parts[1:]
    if len(parts) != 4 or MEMBERS.get(parts[0]) != "messages" or parts[2] != "messages":
        raise ProblemFound("api_not_found", request.asked.target.path)
    xid = xid_of(*parts)
    if request.view is None or any("/" in part for part in parts):
        raise ProblemFound("not_found", xid)
    found = show_messages(request.view, xid, request.catalog.registryid, request.max_chain_depth)
    return Answer(body=in_order(found[0].as_json()))


# By the first part of the path below a registry.
PARTS: dict[str, Part] = {
    "effective": effective_answer,
    "events": batch_answer,
    "messagecatalog": catalog_answer,
    "messagedefinition": lookup_answer,
}


def routes(
    dialect: str,
    methods_of_path: Callable[[str], tuple[str, ...]] | None,
    more: Document | None,
    cors: Callable[[dict[bytes, bytes]], list[tuple[bytes, bytes]]],
) -> list[Route]:
    """Give the paths that stand at the root of the server only: the API as OpenAPI, and as a page.

    Args:
        dialect: of the server.
        methods_of_path: as for `openapi`.
        more: as for `openapi`.
        cors: gives the headers that say whose pages may read an answer.
    """
    described = openapi(dialect, methods_of_path, more)
    text, page = in_order(described), as_page(described)

    async def document(request: HttpRequest) -> Response:
        found = Response(text, media_type="application/json")
        found.raw_headers += cors(dict(request.scope["headers"]))
        return found

    async def shown(_: HttpRequest) -> Response:
        return Response(
            page, media_type="text/html", headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        )

    return [Route("/openapi.json", document), Route("/openapi", shown)]
