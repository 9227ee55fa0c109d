"""What clients may take of a server: connections, bodies, and turns of the workers.

A client has to send its request, and the body of a write, in time and within a size; what all bodies take together is limited.
Turns go around between clients, so that one that asks for much keeps no other waiting: a client has at most half of the workers,
since what a worker has begun cannot be taken back; it may fill the queue while no other client needs the room.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
import time
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.origins import raw_answer

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_LATER = {"Retry-After": "5"}
T = TypeVar("T")
_TRY_AGAIN = {"Retry-After": "1"}
_MOST = 10_000
_AT_ONCE = 16  # that are accepted before others have their turn
_SECONDS_OF_A_HANDSHAKE = 10.0
_SECONDS_WITHOUT_DESCRIPTORS = 0.1
_MOST_TRAILER_BYTES = 8 << 10  # and between two parts of a body
_TOO_LARGE = raw_answer(431, "Request Header Fields Too Large", "The request line and headers are too long.")
_NO_REQUEST = raw_answer(400, "Bad Request", "This is not an HTTP request.")


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
        self._most_of_client = max(most_together // 2, self.most)
        self._reading: Counter[str] = Counter()  # by client

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
                self._reading[client] += len(part)
                size += len(part)
                parts.append(part)
            whole = b"".join(parts)
            parts.clear()
            yield whole
        finally:
            self._reading[client] -= size
            if not self._reading[client]:
                del self._reading[client]

    async def _parts(self, receive: Receive) -> AsyncIterator[bytes]:
        until = time.monotonic() + self.seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), min(self.part_seconds, until - time.monotonic()))
            except asyncio.TimeoutError as error:
                detail = (
                    f"The body did not come in time: whole within {self.seconds:g} s, some of it every {self.part_seconds:g} s."
                )
                raise ProblemFound("", status=408, detail=detail) from error
            if message["type"] == "http.disconnect":
                raise ProblemFound("bad_request", error_detail="The body ended before its end")
            yield message.get("body", b"")
            if not message.get("more_body"):
                return

    def _check(self, size: int, more: int, client: str) -> None:
        """Check that there is room for more of a body, which has a size then."""
        if size > self.most:
            raise ProblemFound("", status=413, detail=f"The body is larger than {self.most} bytes.")
        if self._reading[client] + more > self._most_of_client:
            raise ProblemFound("", status=429, detail="Too many of your bodies are on their way.", headers=_LATER)
        if self._reading.total() + more > self.most_together:
            raise ProblemFound("", status=503, detail="Too many bodies are on their way.", headers=_LATER)


class Shares:
    """Has work done in threads, for many clients; used within one event loop.

    Args:
        threads: where the work is done.
        workers: how many of them there are.
        most_waiting: pieces of work that wait.
    """

    def __init__(self, threads: Executor, workers: int, most_waiting: int) -> None:
        self.threads = threads
        self.most_waiting = most_waiting
        self.waiting = 0
        self._most_of_client = max(1, workers // 2)
        self._free = workers
        self._working: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # whose turn is next comes first

    async def run(self, client: str, work: Callable[[], T]) -> T:
        """Run work when it is the client's turn.

        Raises:
            ProblemFound: the queue is full, and nobody waits with more than the client.
        """
        if self._free and self._working[client] < self._most_of_client:  # nobody waits who could begin
            self._begin(client)
        else:
            await self._turn(client)
        try:
            return await asyncio.get_running_loop().run_in_executor(self.threads, work)
        finally:
            self._end(client)

    async def _turn(self, client: str) -> None:
        """Wait until it is the client's turn, which has begun then."""
        if self.waiting >= self.most_waiting:
            self._make_room(client)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                if turn.exception() is None:  # it had just begun
                    self._end(client)
            elif turn in self._queues.get(client, ()):
                self._take(client, turn)
            raise

    def _make_room(self, client: str) -> None:
        """Refuse whoever waits with most, the one that comes included.

        Raises:
            ProblemFound: that is the client that comes.
        """
        mine = len(self._queues.get(client, ())) + 1
        longest = max(self._queues, key=lambda waiting_client: len(self._queues[waiting_client]), default=client)
        if longest == client or len(self._queues[longest]) <= mine:
            raise self._refusal(mine)
        refusal, turn = self._refusal(len(self._queues[longest])), self._queues[longest][-1]
        self._take(longest, turn)
        if not turn.done():
            turn.set_exception(refusal)

    def _refusal(self, waiting: int) -> ProblemFound:
        if waiting > self.most_waiting // 2:
            return ProblemFound("", status=429, detail="Too many of your requests are waiting.", headers=_TRY_AGAIN)
        return ProblemFound("", status=503, detail="Too many requests are waiting.", headers=_TRY_AGAIN)

    def _take(self, client: str, turn: asyncio.Future[None]) -> None:
        """Take a turn out of its queue."""
        self.waiting -= 1
        self._queues[client].remove(turn)
        if not self._queues[client]:
            del self._queues[client]

    def _begin(self, client: str) -> None:
        self._free -= 1
        self._working[client] += 1

    def _end(self, client: str) -> None:
        """Make a worker free, and let those begin whose turn it is."""
        self._free += 1
        self._working[client] -= 1
        if not self._working[client]:
            del self._working[client]
        while self._free and (following := self._next()) is not None:
            turn = self._queues[following][0]
            self._queues.move_to_end(following)
            self._take(following, turn)
            if not turn.done():  # nobody waits for one that was cancelled
                self._begin(following)
                turn.set_result(None)

    def _next(self) -> str | None:
        """Return whose turn it is; None: all that wait have their share of the workers."""
        return next((client for client in self._queues if self._working[client] < self._most_of_client), None)


class LimitedProtocol(HttpToolsProtocol):
    """HTTP/1.1 from clients that must send a whole head in time, and not too much of it, nor of what comes with a body."""

    max_header_bytes = 64 << 10
    client_seconds = 30.0
    door: ConnectionLimit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first head."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._unused_bytes = 0  # since the last head or part of a body
        self._is_in_body = False
        self._cycles: deque[RequestResponseCycle] = deque()  # that are not answered, in their order
        self._timer: asyncio.TimerHandle | None = self.loop.call_later(self.client_seconds, self.transport.close)
        self.door.waits_for(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_waiting()
        self.door.forget(self)
        for cycle in self._cycles:  # uvicorn knows the last one only, and this one may be behind a stream of events
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what comes until a head, or a part of a body, is whole."""
        if self._timer is None and (self.cycle is None or self.cycle.response_complete):
            self._timer = self.loop.call_later(self.client_seconds, self.transport.close)
        self._unused_bytes += len(data)
        is_long = self._unused_bytes > self.max_header_bytes and not self._is_in_body
        if is_long and b"\r\n\r\n" not in data[: self.max_header_bytes]:
            self._refuse()
            return
        super().data_received(data)
        if self._unused_bytes > (_MOST_TRAILER_BYTES if self._is_in_body else self.max_header_bytes):
            self._refuse()

    def on_headers_complete(self) -> None:
        """Begin to answer."""
        self._stop_waiting()
        self._unused_bytes = 0
        self._is_in_body = True
        super().on_headers_complete()
        while self._cycles and self._cycles[0].response_complete:
            self._cycles.popleft()
        self._cycles.append(self.cycle)
        self.headers = []  # what comes after the body is no header of the request

    def on_body(self, body: bytes) -> None:
        """Hand on a part of a body."""
        self._unused_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Record that the request is complete: it now waits for the server."""
        self._unused_bytes = 0
        self._is_in_body = False
        if not self.cycle.response_complete:
            self.door.serves(self)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request, or for the rest of this one."""
        super().on_response_complete()
        if self.cycle.response_complete:
            self.door.waits_for(self)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no request."""
        self._refuse(_NO_REQUEST)

    def _refuse(self, answer: bytes = _TOO_LARGE) -> None:
        """Answer and close; a client that is being answered is only cut off."""
        if not any(cycle.response_started and not cycle.response_complete for cycle in self._cycles):
            self.transport.write(answer)
        self.transport.close()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ConnectionLimit:
    """Accepts the connections of a process.

    Args:
        most: that are open at once.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._entering: dict[asyncio.Task[Any], float] = {}  # those whose handshake is not done, and since when
        self._inside: set[LimitedProtocol] = set()
        self._waiting: dict[LimitedProtocol, float] = {}  # those that wait for their client, the longest first
        self._listening: socket.socket | None = None
        self._later: asyncio.TimerHandle | None = None

    def open(self, listening: socket.socket, make: Callable[[], asyncio.Protocol], tls: ssl.SSLContext | None) -> None:
        """Accept from now on.

        Args:
            listening: the socket.
            make: makes what a connection speaks.
            tls: None: without TLS.
        """
        self._listening, self._make, self._tls = listening, make, tls
        self._loop = asyncio.get_running_loop()
        listening.setblocking(False)
        self._loop.add_reader(listening.fileno(), self._accept)

    def close(self) -> None:
        """Accept nobody any more."""
        if self._listening is not None:
            self._loop.remove_reader(self._listening.fileno())
            self._listening = None
        if self._later is not None:
            self._later.cancel()
        for task in self._entering:
            task.cancel()

    def waits_for(self, connection: LimitedProtocol) -> None:
        """Record that a connection waits for its client from now on."""
        self._inside.add(connection)
        self._waiting.pop(connection, None)
        self._waiting[connection] = connection.loop.time()

    def serves(self, connection: LimitedProtocol) -> None:
        """Record that a client waits for the server."""
        self._waiting.pop(connection, None)

    def forget(self, connection: LimitedProtocol) -> None:
        """Record that a connection is closed."""
        self._inside.discard(connection)
        self._waiting.pop(connection, None)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
            if self._listening is None:
                return
            try:
                accepted, _ = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # no file descriptor is left
                self._make_room()
                self._loop.remove_reader(self._listening.fileno())
                self._later = self._loop.call_later(_SECONDS_WITHOUT_DESCRIPTORS, self._accept_again)
                return
            if len(self._inside) + len(self._entering) >= self.most and not self._make_room():
                accepted.close()
                continue
            accepted.setblocking(False)
            entering = self._loop.create_task(self._enter(accepted))
            self._entering[entering] = self._loop.time()
            entering.add_done_callback(lambda done: self._entering.pop(done, None))

    def _accept_again(self) -> None:
        if self._listening is not None:
            self._loop.add_reader(self._listening.fileno(), self._accept)

    async def _enter(self, accepted: socket.socket) -> None:
        seconds = {} if self._tls is None else {"ssl_handshake_timeout": _SECONDS_OF_A_HANDSHAKE}
        with contextlib.suppress(OSError, asyncio.TimeoutError):  # it went away, or speaks no TLS
            await self._loop.connect_accepted_socket(self._make, accepted, ssl=self._tls, **seconds)

    def _make_room(self) -> bool:
        """Close the connection that has waited longest for its client; False: there is none."""
        connection, since = next(iter(self._waiting.items()), (None, float("inf")))
        entering, entered = next(iter(self._entering.items()), (None, float("inf")))
        if entering is not None and entered <= since:
            self._entering.pop(entering)
            entering.cancel()
        elif connection is not None:
            self.forget(connection)
            connection.transport.abort()
        return entering is not None or connection is not None


def most_connections(reserve: int = 0) -> int:
    """Return how many connections a process has file descriptors for.

    Args:
        reserve: descriptors that are needed for something else, besides a quarter of them and at least 64.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _MOST
    return max(16, min(_MOST, limit - max(64, limit // 4) - reserve))
