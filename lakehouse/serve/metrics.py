"""Figures of the server, as Prometheus reads them; with several processes each adds to files that all read."""

from __future__ import annotations

import os

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_METHODS = ("GET", "HEAD", "OPTIONS")


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

    def found_ready(self) -> None:
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
