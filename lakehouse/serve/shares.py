"""Who is worked for next: turns go around between clients, so that one who asks for much keeps nobody else waiting.

A client has at most half of the workers, for what a worker has begun cannot be taken back from it; the others are there at once
for whoever comes next. It may fill the queue as long as nobody else needs the room.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from lakehouse.serve.problems import ProblemFound

T = TypeVar("T")
_TRY_AGAIN = {"Retry-After": "1"}


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
        self._of_one = max(1, workers // 2)
        self._free = workers
        self._working: Counter[str] = Counter()
        self._queues: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()  # whose turn is next comes first

    async def run(self, client: str, work: Callable[[], T]) -> T:
        """Have a piece of work done when it is the client's turn.

        Raises:
            ProblemFound: the queue is full, and nobody waits with more than the client.
        """
        if self._free and self._working[client] < self._of_one:  # nobody waits who could begin
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
        longest = max(self._queues, key=lambda one: len(self._queues[one]), default=client)
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
        return next((client for client in self._queues if self._working[client] < self._of_one), None)
