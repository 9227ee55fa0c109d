"""`/health`, `/ready` and `/metrics`; with several processes each adds to files that all read."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio.to_thread
import orjson
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.responses import Response
from starlette.routing import Route

from lakehouse.errors import LakehouseError
from lakehouse.serve.answer.live import SnapshotWatcher

if TYPE_CHECKING:
    from lakehouse.serve.writer.writerclient import Hindrance


_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = ("GET", "HEAD", "OPTIONS")
logger = logging.getLogger(__name__)
_NOT_READ = b'{"status":"the catalog cannot be read"}'


class Metrics:
    """Counts what is answered."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter("lakehouse_http_requests", "Requests answered.", ["method", "status"], registry=self.registry)
        self._seconds = Histogram(
            "lakehouse_http_request_seconds", "Time from a request to its answer.", registry=self.registry, buckets=_SECONDS
        )
        self._ready = Counter("lakehouse_http_ready_answers", "Answers that were ready.", registry=self.registry)
        self._snapshot = Gauge(
            "lakehouse_snapshot", "Newest snapshot that is served.", registry=self.registry, multiprocess_mode="min"
        )
        self._counters: dict[tuple[str, int], Counter] = {}

    def answered(self, method: str, status: int, seconds: float) -> None:
        """Count an answer."""
        key = (method if method in _METHODS else "other", status)
        counter = self._counters.get(key)
        if counter is None:
            counter = self._counters[key] = self._requests.labels(key[0], str(status))
        counter.inc()
        self._seconds.observe(seconds)

    def count_ready(self) -> None:
        """Count an answer that was ready."""
        self._ready.inc()

    def text(self, snapshot: int | None) -> bytes:
        """Write all figures."""
        if snapshot is not None:
            self._snapshot.set(snapshot)
        if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
            return generate_latest(self.registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)


def state_routes(
    live: SnapshotWatcher,
    metrics: Metrics,
    more: Callable[[], bytes] | None,
    hindrance: Callable[[], Hindrance | None] | None = None,
) -> list[Route]:
    """Return the paths, which ask for no user.

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
        result = None if hindrance is None else await anyio.to_thread.run_sync(hindrance)
        if result is not None:
            return Response(orjson.dumps(result._asdict()), 503, {"Retry-After": "2"}, "application/json")
        return Response(b'{"status":"ready","snapshot":%d}' % head.number, media_type="application/json")

    async def figures(_: Any) -> Response:
        text = metrics.text(live.head.number if live.head else None)
        if more is not None:
            text += await anyio.to_thread.run_sync(more)
        return Response(text, media_type=metrics.media_type)

    return [Route("/health", health), Route("/ready", ready), Route("/metrics", figures)]


def _is_read(live: SnapshotWatcher) -> bool:
    """Return whether a request would be answered out of the catalog now: one is, of the smallest kind."""
    try:
        live.model.answer(lambda view: view.head)
    except (LakehouseError, sqlite3.Error, OSError) as error:
        logger.warning("the catalog cannot be read: %s", error)
        return False
    return True
