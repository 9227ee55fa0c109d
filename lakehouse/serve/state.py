"""`/health`, `/ready` and `/metrics`: how the server is, for those who look after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.responses import Response
from starlette.routing import Route

from lakehouse.serve.answer.live import Live
from lakehouse.serve.metrics import Metrics

if TYPE_CHECKING:
    from lakehouse.serve.subscriptions.api import Subscriptions

_NO_WRITER = b'{"status":"starting","detail":"The process that writes is starting; reads are answered."}'


def state_routes(
    live: Live, metrics: Metrics, told: Subscriptions | None, takes_writes: Callable[[], bool] | None = None
) -> list[Route]:
    """Give the paths, which ask for no user.

    Args:
        live: the newest snapshot.
        metrics: what was counted.
        told: subscriptions; None: there are none.
        takes_writes: tells whether a request that writes would be done now; None: requests may not write.
    """

    async def health(_: Any) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def ready(_: Any) -> Response:
        head = live.head
        if head is None:
            return Response(b'{"status":"loading"}', 503, {"Retry-After": "2"}, "application/json")
        if takes_writes is not None and not await anyio.to_thread.run_sync(takes_writes):
            return Response(_NO_WRITER, 503, {"Retry-After": "2"}, "application/json")
        return Response(b'{"status":"ready","snapshot":%d}' % head.number, media_type="application/json")

    async def figures(_: Any) -> Response:
        text = metrics.text(live.head.number if live.head else None)
        if told is not None:
            text += await anyio.to_thread.run_sync(told.figures)
        return Response(text, media_type=metrics.media_type)

    return [Route("/health", health), Route("/ready", ready), Route("/metrics", figures)]
