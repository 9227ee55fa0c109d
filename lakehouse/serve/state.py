"""`/health`, `/ready` and `/metrics`: how the server is, for those who look after it."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import orjson
from starlette.responses import Response
from starlette.routing import Route

from lakehouse.errors import LakehouseError
from lakehouse.serve.answer.live import Live
from lakehouse.serve.metrics import Metrics

if TYPE_CHECKING:  # what a server that only reads does without
    from lakehouse.serve.writer.client import Hindrance

logger = logging.getLogger(__name__)

_NOT_READ = b'{"status":"the catalog cannot be read"}'


def state_routes(
    live: Live, metrics: Metrics, more: Callable[[], bytes] | None, hindrance: Callable[[], Hindrance | None] | None = None
) -> list[Route]:
    """Give the paths, which ask for no user.

    Args:
        live: the newest snapshot.
        metrics: what was counted.
        more: gives further metrics; None: there are none.
        hindrance: returns what keeps a request that writes from being done now; None: requests may not write.
    """

    async def health(_: Any) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def ready(_: Any) -> Response:
        head = live.head
        if head is None:
            return Response(b'{"status":"loading"}', 503, {"Retry-After": "2"}, "application/json")
        if not live.is_empty and not await anyio.to_thread.run_sync(_is_read, live):
            return Response(_NOT_READ, 503, {"Retry-After": "5"}, "application/json")
        found = None if hindrance is None else await anyio.to_thread.run_sync(hindrance)
        if found is not None:
            return Response(orjson.dumps(found._asdict()), 503, {"Retry-After": "2"}, "application/json")
        return Response(b'{"status":"ready","snapshot":%d}' % head.number, media_type="application/json")

    async def figures(_: Any) -> Response:
        text = metrics.text(live.head.number if live.head else None)
        if more is not None:
            text += await anyio.to_thread.run_sync(more)
        return Response(text, media_type=metrics.media_type)

    return [Route("/health", health), Route("/ready", ready), Route("/metrics", figures)]


def _is_read(live: Live) -> bool:
    """Return whether a request would be answered out of the catalog now: one is, of the smallest kind."""
    try:
        live.model.answer(lambda view: view.head)
    except (LakehouseError, sqlite3.Error, OSError) as error:
        logger.warning("the catalog cannot be read: %s", error)
        return False
    return True
