"""Connections of urllib3 on which a request and its whole answer have a limit of time and of bytes.

The timeouts of urllib3 count from one receive to the next, so a server that sends a byte now and then holds its client as long
as it likes: within the headers, within interim answers (1xx), or by not taking the body in.
"""

from __future__ import annotations

import io
import math
import socket
import time
from http.client import HTTPResponse
from typing import Any, cast

from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection

_PIECE = 1 << 14  # bytes that TLS sends under one timeout


class _Metered(io.RawIOBase):
    """What comes from a socket, until a moment and up to a number of bytes."""

    def __init__(self, connected: socket.socket, until: float, most: float) -> None:
        self._socket = connected
        self._raw = connected.makefile("rb", buffering=0)
        self._seconds = connected.gettimeout()
        self._until = until
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(_until(self._until, self._seconds))
        size = self._raw.readinto(buffer)
        self._left -= size or 0
        if self._left < 0:
            raise OSError("the answer is too long")
        return size

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Limited(HTTPConnection):
    """A connection whose requests have a limit each, from their first byte sent to the last one received."""

    def __init__(self, *args: Any, whole_seconds: float, most_bytes: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._whole_seconds, self._most_bytes = whole_seconds, most_bytes
        self._whole_until = 0.0
        self.response_class = cast("type[HTTPResponse]", self._answer_of)

    def request(self, *args: Any, **more: Any) -> None:
        self._whole_until = time.monotonic() + self._whole_seconds
        super().request(*args, **more)

    def send(self, data: Any) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            if self.sock is not None:
                self.sock.settimeout(_until(self._whole_until, self.sock.gettimeout()))
            super().send(view[start : start + _PIECE])

    def _answer_of(self, connected: socket.socket, *args: Any, **more: Any) -> HTTPResponse:
        answer = HTTPResponse(connected, *args, **more)
        answer.fp.close()
        answer.fp = io.BufferedReader(_Metered(connected, self._whole_until, self._most_bytes))
        return answer


class _LimitedTls(_Limited, HTTPSConnection):
    """The same over TLS."""


class LimitedPool(HTTPConnectionPool):
    """Connections to one server over http; `whole_seconds` and `most_bytes` are limits of each request and its answer."""

    ConnectionCls = _Limited


class LimitedTlsPool(HTTPSConnectionPool):
    """The same over https."""

    ConnectionCls = _LimitedTls


class LimitedPools(PoolManager):
    """Connections to any server, each request and its answer with a limit of time."""

    def __init__(self, whole_seconds: float, **more: Any) -> None:
        super().__init__(**more)
        self.pool_classes_by_scheme = {"http": LimitedPool, "https": LimitedTlsPool}
        self._limits = {"whole_seconds": whole_seconds, "most_bytes": math.inf}

    def _new_pool(self, scheme: str, host: str, port: int, request_context: dict[str, Any] | None = None) -> HTTPConnectionPool:
        context = self.connection_pool_kw if request_context is None else request_context
        return super()._new_pool(scheme, host, port, context | self._limits)


def _until(moment: float, seconds: float | None) -> float:
    """Return the seconds until a moment, or the given ones where they are fewer.

    Raises:
        TimeoutError: the moment has passed.
    """
    left = moment - time.monotonic()
    if left <= 0:
        raise TimeoutError("the answer was not whole in time")
    return left if seconds is None else min(left, seconds)
