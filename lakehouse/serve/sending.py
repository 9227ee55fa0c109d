"""An answer as it is sent: headers that caches need, and the body compressed where that is worth it; kept for who asks next."""

from __future__ import annotations

import gzip
import hashlib
from collections import OrderedDict
from typing import Any, NamedTuple

import anyio

from lakehouse.serve.answer.asking import Answer, Asked
from lakehouse.serve.answer.live import Head
from lakehouse.serve.protection import Send

_WORTH_COMPRESSING = 1024
_COMPRESSION = 4
_AT_ONCE = 256 << 10  # bytes that are sent before the client has to take some
_BYTES_OF_AN_ANSWER = 1000  # of memory for the objects that hold it and its key, besides what is in them
_BYTES_OF_A_HEADER = 150  # two texts and a tuple
_FOREVER = "max-age=31536000, immutable"


class Ready(NamedTuple):
    """An answer as it is sent: status, headers, body; and the body compressed, where that is worth it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    etag: bytes
    packed: bytes | None


def as_ready(answer: Answer, asked: Asked) -> Ready:
    """Write an answer's headers, and what caches need."""
    headers = dict(answer.headers)
    root = f"<{asked.base}>;rel=xregistry-root"
    headers["Link"] = f"{headers['Link']}, {root}" if "Link" in headers else root
    is_past = asked.target.at is not None and answer.status in (200, 303)
    digest = hashlib.blake2b(answer.body + repr(sorted(headers.items())).encode(), digest_size=12).hexdigest()
    etag = f'"s{answer.snapshot}-{digest}"' if is_past else f'"{digest}"'
    headers.setdefault("Cache-Control", _FOREVER if is_past else "no-cache")
    headers["ETag"] = etag
    headers["Vary"] = "Accept, Accept-Encoding, Host" if asked.target.path == "/" else "Accept-Encoding, Host"
    if answer.snapshot is not None:
        headers["Lakehouse-Snapshot"] = str(answer.snapshot)
    if answer.media_type and answer.status != 307:
        headers["Content-Type"] = answer.media_type
    packed = gzip.compress(answer.body, _COMPRESSION, mtime=0) if len(answer.body) >= _WORTH_COMPRESSING else None
    written = [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return Ready(answer.status, written, answer.body, etag.encode(), packed)


def matches(given: bytes, etag: bytes) -> bool:
    """Tell whether a client holds what it would be sent (weakly compared, RFC 9110)."""
    plain = etag.strip(b'"')
    return any(one.strip().removeprefix(b"W/").strip(b'"').removesuffix(b"-gzip") in (plain, b"*") for one in given.split(b","))


def takes_gzip(headers: dict[bytes, bytes]) -> bool:
    """Tell whether a client takes a compressed body."""
    for one in headers[b"accept-encoding"].split(b","):
        name, _, quality = one.partition(b";")
        if name.strip() == b"gzip":
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


async def send_answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes, seconds: float) -> None:
    """Send an answer; a large one in parts, each of which the client has to take within some seconds.

    Raises:
        ConnectionAbortedError: it does not.
    """
    if len(body) <= _AT_ONCE:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    with anyio.move_on_after(seconds) as limit:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for start in range(0, len(body), _AT_ONCE):
            limit.deadline = anyio.current_time() + seconds
            part = {"type": "http.response.body", "body": body[start : start + _AT_ONCE]}
            await send(part | {"more_body": start + _AT_ONCE < len(body)})
    if limit.cancelled_caught:
        raise ConnectionAbortedError("the client does not take its answer")


class ReadyAnswers:
    """Answers of the newest snapshot, kept as bytes; those that were asked for last, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._ready: OrderedDict[tuple[Any, ...], Ready] = OrderedDict()
        self._bytes = 0
        self._head: Head | None = None

    def find(self, key: tuple[Any, ...], head: Head | None) -> Ready | None:
        """Give an answer that is kept; all are forgotten when another snapshot is the newest."""
        if head is not self._head:
            self._ready.clear()
            self._bytes, self._head = 0, head
        ready = self._ready.get(key)
        if ready is not None:
            self._ready.move_to_end(key)
        return ready

    def keep(self, key: tuple[Any, ...], ready: Ready) -> None:
        """Keep an answer, unless it takes more than a quarter of the room."""
        size = _size(key, ready)
        if size > self.most_bytes // 4:
            return
        before = self._ready.pop(key, None)  # two who asked at once were both answered anew
        self._bytes += size - (0 if before is None else _size(key, before))
        self._ready[key] = ready
        while self._bytes > self.most_bytes:
            self._bytes -= _size(*self._ready.popitem(last=False))


def _size(key: tuple[Any, ...], ready: Ready) -> int:
    """Count the memory that an answer takes with its key: what a client chose the length of, and what holds it together."""
    texts = [*key, ready.body, ready.packed or b"", *(part for header in ready.headers for part in header)]
    return sum(map(len, texts)) + _BYTES_OF_AN_ANSWER + len(ready.headers) * _BYTES_OF_A_HEADER
