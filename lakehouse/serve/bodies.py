"""The bodies of requests that write, as they come: each in time, and not too much of all of them in memory."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from lakehouse.serve.problems import ProblemFound

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_LATER = {"Retry-After": "5"}


class Bodies:
    """Reads bodies, and counts what all clients have sent of those that are not done.

    Args:
        most: bytes of one body.
        most_together: bytes of all; one client has half of them, and always one body.
        seconds: in which a body has to come whole.
        part_seconds: in which some of it has to come.
    """

    def __init__(self, most: int, most_together: int, seconds: float, part_seconds: float) -> None:
        self.most = min(most, most_together)
        self.most_together = most_together
        self.seconds = seconds
        self.part_seconds = part_seconds
        self._of_one = max(most_together // 2, self.most)
        self._held: Counter[str] = Counter()  # by client

    @asynccontextmanager
    async def read(self, receive: Receive, client: str) -> AsyncIterator[bytes]:
        """Read a body, which counts until the block ends.

        Raises:
            ProblemFound: it is too large, does not come in time, or there is no room for it now.
        """
        parts: list[bytes] = []
        size = 0
        try:
            async for part in self._parts(receive):
                self._check(size + len(part), len(part), client)
                self._held[client] += len(part)
                size += len(part)
                parts.append(part)
            whole = b"".join(parts)
            parts.clear()
            yield whole
        finally:
            self._held[client] -= size
            if not self._held[client]:
                del self._held[client]

    async def _parts(self, receive: Receive) -> AsyncIterator[bytes]:
        until = time.monotonic() + self.seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), min(self.part_seconds, until - time.monotonic()))
            except asyncio.TimeoutError as error:
                told = (
                    f"The body did not come in time: whole within {self.seconds:g} s, some of it every {self.part_seconds:g} s."
                )
                raise ProblemFound("", status=408, detail=told) from error
            if message["type"] == "http.disconnect":
                raise ProblemFound("bad_request", error_detail="The body ended before its end")
            yield message.get("body", b"")
            if not message.get("more_body"):
                return

    def _check(self, size: int, more: int, client: str) -> None:
        """Check that there is room for more of a body, which has a size then."""
        if size > self.most:
            raise ProblemFound("", status=413, detail=f"The body is larger than {self.most} bytes.")
        if self._held[client] + more > self._of_one:
            raise ProblemFound("", status=429, detail="Too many of your bodies are on their way.", headers=_LATER)
        if self._held.total() + more > self.most_together:
            raise ProblemFound("", status=503, detail="Too many bodies are on their way.", headers=_LATER)
