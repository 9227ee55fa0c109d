"""What a client may take of a server: its share, and no more."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from lakehouse.serve import Options, make_app
from lakehouse.serve.answer.changes import EventStreams
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.clientlimits import Shares
from lakehouse.serve.origins import Origins
from lakehouse.settings import read_settings

pytestmark = pytest.mark.attack

SECONDS = 20.0  # for what is done at once, or never


# Turns go around between clients


class Work:
    """Work that is done when it is said so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.over = threading.Event()

    def of(self, client: str) -> Any:
        def work() -> str:
            self.begun.append(client)
            assert self.over.wait(SECONDS)
            return client

        return work


async def until(holds: Any) -> None:
    for _ in range(2000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


def in_shares(test: Any, workers: int = 4, most_waiting: int = 10) -> None:
    """Run a test with shares, and work in them."""

    async def run() -> None:
        with ThreadPoolExecutor(workers) as threads:
            work = Work()
            try:
                shares = Shares(threads, workers, most_waiting)
                await test(shares, work)
                assert (shares.waiting, shares._free, dict(shares._working), dict(shares._queues)) == (0, workers, {}, {})
            finally:
                work.over.set()

    asyncio.run(run())


def test_a_client_has_half_of_the_workers_and_the_next_one_begins_at_once():
    async def test(shares: Shares, work: Work) -> None:
        many = [asyncio.create_task(shares.run("a", work.of("a"))) for _ in range(9)]
        await until(lambda: work.begun == ["a", "a"])
        other = asyncio.create_task(shares.run("b", work.of("b")))
        await until(lambda: work.begun == ["a", "a", "b"])
        assert shares.waiting == 7
        work.over.set()
        assert await asyncio.gather(other, *many) == ["b", *["a"] * 9]

    in_shares(test)


def test_turns_go_around():
    async def test(shares: Shares, work: Work) -> None:
        first = asyncio.create_task(shares.run("first", work.of("first")))
        await until(lambda: len(work.begun) == 1)
        wanted = ["a", "a", "a", "b", "b", "c"]
        tasks = [asyncio.create_task(shares.run(client, work.of(client))) for client in wanted]
        await until(lambda: shares.waiting == 6)
        work.over.set()
        await asyncio.gather(first, *tasks)
        assert work.begun == ["first", "a", "b", "c", "a", "b", "a"]

    in_shares(test, workers=1)


def test_a_client_alone_fills_the_queue_and_makes_room_for_others():
    async def test(shares: Shares, work: Work) -> None:
        many = [asyncio.create_task(shares.run("a", work.of("a"))) for _ in range(12)]
        await until(lambda: shares.waiting == 10)
        with pytest.raises(ProblemFound) as refused:
            await shares.run("a", work.of("a"))
        assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "1"})
        others = [asyncio.create_task(shares.run("b", work.of("b"))) for _ in range(7)]
        await until(lambda: len(work.begun) == 4)
        await until(lambda: sum(one.done() for one in many) == 5)
        assert shares.waiting == 10
        with pytest.raises(ProblemFound) as refused:
            await shares.run("b", work.of("b"))
        assert refused.value.status == 429
        third = asyncio.create_task(shares.run("c", work.of("c")))
        await until(lambda: sum(one.done() for one in [*many, *others]) == 6)
        work.over.set()
        found = await asyncio.gather(*many, *others, third, return_exceptions=True)
        assert sum(isinstance(one, ProblemFound) for one in found) == 6
        assert found[-1] == "c"

    in_shares(test)


def test_who_is_refused_and_goes_at_once_frees_no_worker_of_another():
    async def test(shares: Shares, work: Work) -> None:
        first, second, third = (asyncio.create_task(shares.run("a", work.of("a"))) for _ in range(3))
        other = asyncio.create_task(shares.run("b", work.of("b")))
        await until(lambda: sorted(work.begun) == ["a", "b"] and shares.waiting == 2)
        # When one more makes room, and who is refused for it goes before hearing of it
        last = asyncio.create_task(shares.run("b", work.of("b")))
        asyncio.get_running_loop().call_soon(third.cancel)
        with pytest.raises(asyncio.CancelledError):
            await third
        assert shares._free == 0
        work.over.set()
        await asyncio.gather(first, second, other, last)

    in_shares(test, workers=2, most_waiting=2)


def test_work_that_nobody_waits_for_any_more_leaves_nothing():
    async def test(shares: Shares, work: Work) -> None:
        tasks = [asyncio.create_task(shares.run(client, work.of(client))) for client in "aaaabbbb"]
        await until(lambda: len(work.begun) == 4)
        for task in tasks[2:4]:
            task.cancel()
        await until(lambda: shares.waiting == 2)
        work.over.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        assert [one for one in found if isinstance(one, str)] == list("aabbbb")

    in_shares(test)


@pytest.mark.parametrize(
    ("address", "reported", "expected"),
    [
        ("10.0.0.1", None, "10.0.0.1"),
        ("10.0.0.1", "192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "forged, 203.0.113.9, 192.0.2.7", "192.0.2.7"),
        ("10.0.0.1", "192.0.2.7:5555", "192.0.2.7"),
        ("10.0.0.1", "[2001:db8::7]:80", "2001:db8::/64"),
        ("10.0.0.1", "2001:db8::ffff", "2001:db8::/64"),
        ("10.0.0.1", "nonsense", "10.0.0.1"),
        ("10.0.0.1", "x" * 9000, "10.0.0.1"),
        ("2001:db8::1", None, "2001:db8::/64"),
        ("::ffff:192.0.2.7", None, "192.0.2.7"),
    ],
)
def test_a_client_is_its_address_and_behind_a_proxy_the_one_that_the_proxy_saw(address, reported, expected):
    headers = {b"x-forwarded-for": reported.encode()} if reported else {}
    scope = {"client": (address, 1)}
    assert Origins(Options(behind_proxy=reported is not None)).client(scope, headers) == expected
    assert Origins(Options()).client({"client": ("10.0.0.9", 1)}, headers) == "10.0.0.9"


# A whole application, without sockets


class Asking:
    """An application whose work takes until it is said so."""

    def __init__(self, catalog: Any, folder: Any, monkeypatch: Any, **options: Any) -> None:
        settings = read_settings(warehouse=str(catalog.folder), readmodel_dir=str(folder))
        self.front = make_app(settings, Options(**options))
        self.front.app.live.load()
        self.over = threading.Event()
        self.begun: list[str] = []
        answer = self.front.app.pages.answer

        def slow(asked: Any) -> Any:
            self.begun.append(asked.raw_path)
            if b"slow" in asked.query:
                assert self.over.wait(SECONDS)
            return answer(asked)

        monkeypatch.setattr(self.front.app.pages, "answer", slow)

    async def ask(self, path: str, query: str = "", address: str = "127.0.0.1", **headers: str) -> int:
        """Ask, and give the status."""
        found: list[int] = []
        given = [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in headers.items())]
        scope = {"type": "http", "method": "GET", "raw_path": path.encode(), "path": path, "query_string": query.encode()}
        scope |= {"headers": given, "scheme": "http", "server": ("127.0.0.1", 80), "client": (address, 1)}

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(SECONDS)
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                found.append(message["status"])

        await asyncio.wait_for(self.front(scope, receive, send), SECONDS)
        return found[0]


@pytest.mark.parametrize("path", ["/messagegroups", "/ui/index.html"])
def test_requests_of_one_client_do_not_keep_others_waiting(catalog, tmp_path, monkeypatch, path):
    asking = Asking(catalog, tmp_path, monkeypatch)

    async def run() -> None:
        many = [asyncio.create_task(asking.ask(path, f"slow&{at}")) for at in range(24)]
        try:
            await until(lambda: len(asking.begun) == 4)
            assert await asking.ask("/messagegroups", address="127.0.0.2") == 200
            assert await asking.ask("/ui/index.html", address="127.0.0.3") == 200
            assert len(asking.begun) == 6
        finally:
            asking.over.set()
        assert set(await asyncio.gather(*many)) <= {200, 303}

    asyncio.run(run())


def test_a_deadline_counts_from_the_arrival(catalog, tmp_path, monkeypatch):
    asking = Asking(catalog, tmp_path, monkeypatch, parallel=2, request_seconds=0.3)

    async def run() -> list[int]:
        first = asyncio.create_task(asking.ask("/messagegroups", "slow"))
        await until(lambda: asking.begun)
        waiting = asyncio.create_task(asking.ask("/endpoints"))
        await asyncio.sleep(0.5)
        asking.over.set()
        return [await first, await waiting]

    assert asyncio.run(run()) == [503, 503]


def test_streams_of_one_client_leave_some_to_others(catalog, tmp_path, monkeypatch):
    asking = Asking(catalog, tmp_path, monkeypatch)
    monkeypatch.setattr(EventStreams, "_send_all", lambda *_: asyncio.sleep(SECONDS))

    async def run() -> None:
        streams = [asyncio.create_task(asking.ask("/events", accept="text/event-stream")) for _ in range(50)]
        await until(lambda: asking.front.app.streams.open.total() == 50)
        assert await asking.ask("/events", accept="text/event-stream") == 429
        other = asyncio.create_task(asking.ask("/events", address="127.0.0.2", accept="text/event-stream"))
        await until(lambda: asking.front.app.streams.open.total() == 51)
        for stream in [*streams, other]:
            stream.cancel()
        await asyncio.gather(*streams, other, return_exceptions=True)
        assert not asking.front.app.streams.open

    asyncio.run(run())
