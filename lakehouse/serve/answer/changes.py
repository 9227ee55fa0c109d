"""`/events`: what changed, as CloudEvents of both feeds: as a JSON batch, or as a stream of Server-Sent Events that goes on.

An event of the stream has the id `SNAPSHOT.POSITION`, so that `Last-Event-ID` takes a client on where it was.
"""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from lakehouse.domain.events import FEEDS
from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel import View
from lakehouse.readmodel.queries import change_events
from lakehouse.serve.answer.exchange import ApiAnswer, ApiRequest, ReadRequest, RequestResolver
from lakehouse.serve.answer.live import ServedHead, SnapshotWatcher
from lakehouse.serve.answer.queryparameters import read_parameters
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.clientlimits import Shares
from lakehouse.serve.origins import Origins, Send
from lakehouse.text.names import RegistryId

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_BATCH = "application/cloudevents-batch+json"
_MOST_BYTES = 8 << 20  # of a batch; it ends with a whole snapshot
_MOST_STREAMS = 100
_MOST_OF_CLIENT = 50
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_SIGNS = 15.0
_SECONDS_AFTER_A_REFUSAL = 1.0
_EVENT_ID = re.compile(r"([0-9]{1,15})\.([0-9]{1,9})")


def batch_answer(request: ReadRequest) -> ApiAnswer:
    """Answer with the events after `?since=SNAPSHOT` (0: from the beginning), up to a size; `Link` leads to those after them."""
    if len(request.parts) > 1:
        raise ProblemFound("api_not_found", request.api_request.target.path)
    view = request.view
    since, feeds = _start_of(request.flags.parameters, view)
    if view is None:
        return ApiAnswer(body=b"[]", media_type=_BATCH)
    texts: list[bytes] = []
    size, last = 0, since
    for number in range(since + 1, view.snapshot_id + 1):
        result = events_of(view, number, request.catalog.registryid, request.source, feeds)
        request.catalog.deadline.check()
        texts += result
        size += sum(map(len, result))
        last = number
        if size > _MOST_BYTES:
            break
    answer = ApiAnswer(body=b"[" + b",\n".join(texts) + b"]", media_type=_BATCH)
    if last < view.snapshot_id:
        only = "".join(f"&feed={feed}" for feed in feeds) if feeds != FEEDS else ""
        answer.headers["Link"] = f"<{request.api_request.base}/events?since={last}{only}>;rel=next"
    return answer


def events_of(view: View, number: int, registryid: RegistryId, source: str, feeds: tuple[str, ...] = FEEDS) -> list[bytes]:
    """Return the events of one snapshot and registry, in order, each as JSON."""
    results = []
    for _, text in change_events(view, "{registryid}", number - 1, number, feeds):
        event = orjson.loads(text)
        if event["source"] == registryid:
            results.append(orjson.dumps(event | {"source": source.replace("{registryid}", registryid)}))
    return results


class EventStreams:
    """The streams of a process.

    Args:
        live: the newest snapshot.
        meanings: find the registry of a request.
        shares: have the work done, for each client its share.
        origins: knows who may read an answer in a browser.
        closing: is set when the server shall end.
        source: setting `events_source`.
    """

    def __init__(
        self,
        live: SnapshotWatcher,
        meanings: RequestResolver,
        shares: Shares,
        origins: Origins,
        closing: threading.Event,
        source: str,
    ) -> None:
        self.live = live
        self.meanings = meanings
        self.shares = shares
        self.origins = origins
        self.closing = closing
        self.source = source
        self.open: Counter[str] = Counter()  # by client

    async def serve(
        self, api_request: ApiRequest, client: str, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        """Send events until the client goes, or the server ends.

        Raises:
            ProblemFound: before anything is sent.
        """
        live = self.live
        if live.head is None:
            raise ProblemFound("", status=503, detail="The catalog is being loaded.", headers={"Retry-After": "2"})
        if self.open[client] >= _MOST_OF_CLIENT:
            raise ProblemFound("", status=429, detail="Too many of your streams are open.", headers={"Retry-After": "10"})
        if self.open.total() >= _MOST_STREAMS:
            raise ProblemFound("", status=503, detail="Too many streams are open.", headers={"Retry-After": "10"})
        self.open[client] += 1
        try:
            await self._serve(live.head, api_request, client, headers, receive, send)
        finally:
            self.open[client] -= 1
            self.open += Counter()  # without those that have none

    async def _serve(
        self, head: ServedHead, api_request: ApiRequest, client: str, headers: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        registryid = self.meanings.registry_of(api_request, head)
        parameters = read_parameters(api_request.query)
        resumed = _EVENT_ID.fullmatch(headers.get(b"last-event-id", b"").decode("latin-1"))
        if resumed:
            number, skipped, feeds = max(0, int(resumed[1]) - 1), int(resumed[2]), _feeds(parameters)
            if number > head.number:  # a restore took it back
                raise ProblemFound("not_found", "/events", f"There is no snapshot {int(resumed[1])}.")
        else:
            skipped = 0
            number, feeds = await self.shares.run(client, lambda: self._since(parameters))

        def events(wanted: int) -> Awaitable[list[bytes]]:
            return self.shares.run(client, lambda: self._events(wanted, registryid, feeds))

        gone = asyncio.create_task(_until_gone(receive))
        try:
            response_headers = [
                (b"content-type", b"text/event-stream"),
                (b"cache-control", b"no-store"),
                (b"x-accel-buffering", b"no"),
            ]
            response_headers += self.origins.cors(headers)
            await send({"type": "http.response.start", "status": 200, "headers": response_headers})
            await self._send_all(events, number, skipped, gone, send)
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()

    async def _send_all(
        self, events: Callable[[int], Awaitable[list[bytes]]], number: int, skipped: int, gone: asyncio.Task[None], send: Send
    ) -> None:
        """Send what `events` gives for each snapshot after `number`, but for so many events of the first one."""
        live, closing = self.live, self.closing
        await _part(send, b"retry: 2000\n\n")
        last_sign = time.monotonic()
        while not (gone.done() or closing.is_set()):
            head = live.head
            if head is not None and head.number > number and not live.is_empty:
                try:
                    texts = await events(number + 1)
                except ProblemFound:  # the queue is full, and those who ask go first
                    await asyncio.sleep(_SECONDS_AFTER_A_REFUSAL)
                    continue
                number += 1
                lines = [b"id: %d.%d\ndata: %b\n\n" % (number, at, text) for at, text in enumerate(texts, 1) if at > skipped]
                skipped = 0
                if lines:
                    await _part(send, b"".join(lines))
                    last_sign = time.monotonic()
                continue
            if time.monotonic() - last_sign > _SECONDS_BETWEEN_SIGNS:
                await _part(send, b": still here\n\n")
                last_sign = time.monotonic()
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)

    def _events(self, number: int, registryid: RegistryId, feeds: tuple[str, ...]) -> list[bytes]:
        return self.live.model.answer(lambda view: events_of(view, number, registryid, self.source, feeds))

    def _since(self, parameters: list[tuple[str, str]]) -> tuple[int, tuple[str, ...]]:
        if self.live.is_empty:
            return 0, _feeds(parameters)
        return self.live.model.answer(lambda view: _start_of(parameters, view))


async def _part(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _start_of(parameters: list[tuple[str, str]], view: View | None) -> tuple[int, tuple[str, ...]]:
    """Read `?since` and `?feed`."""
    written = next((value for name, value in parameters if name == "since"), "0")
    if written == "0" or view is None:
        return 0, _feeds(parameters)
    try:
        return view.resolve(written), _feeds(parameters)
    except SnapshotNotFound as error:
        raise ProblemFound("not_found", "/events", str(error)) from error


def _feeds(parameters: list[tuple[str, str]]) -> tuple[str, ...]:
    wanted = tuple(value for name, value in parameters if name == "feed") or FEEDS
    if not set(wanted) <= set(FEEDS):
        raise ProblemFound("bad_request", "/events", error_detail=f'The flag "feed" is one of {", ".join(FEEDS)}')
    return wanted
