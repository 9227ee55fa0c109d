"""Bodies of requests that write: they come in time, have their place once they are whole, and fill no memory."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import closing
from typing import Any

import pytest

from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.clientlimits import Bodies
from serve.test_hostile import connected, status
from serve.writing import EVENT, empty_warehouse, writing

HEAD = b"PUT /messagegroups/g/messages/%b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"


@pytest.fixture(scope="module")
def writable(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bodies")
    limits = {"LAKEHOUSE_HTTP_BODY_SECONDS": "3", "LAKEHOUSE_HTTP_BODIES_BYTES": str(4 << 20)}
    with writing(empty_warehouse(folder / "w").folder, folder / "r", **limits) as found:
        found.done("PUT", "/messagegroups/g/messages/m", EVENT)
        yield found


def answer(client: socket.socket) -> bytes:
    found = b""
    while b"\r\n\r\n" not in found and (more := client.recv(65536)):
        found += more
    return found


def test_bodies_that_trickle_hold_no_place(writable):
    clients = [connected(writable) for _ in range(200)]
    try:
        for client in clients:
            client.sendall(HEAD % (b"t", 1000) + b"{")
        assert writable.send("PUT", "/messagegroups/g/messages/m", EVENT).status == 200
    finally:
        for client in clients:
            client.close()


def test_a_body_that_trickles_is_ended(writable):
    with closing(connected(writable)) as client:
        client.sendall(HEAD % (b"t", 1000))
        client.settimeout(0.2)
        found, begun = b"", time.monotonic()
        while not found and time.monotonic() - begun < 30:
            client.sendall(b" ")
            try:
                found = client.recv(1000)
            except TimeoutError:
                continue
    assert status(found) == 408


def test_what_does_not_fit_is_refused_and_the_others_are_served(writable):
    with closing(connected(writable)) as first, closing(connected(writable)) as second:
        for client in (first, second):
            client.sendall(HEAD % (b"t", 3 << 20) + b" " * (5 << 19))
        assert {status(answer(second)), status(answer(first))} == {429, 408}
    assert writable.send("PUT", "/messagegroups/g/messages/m", EVENT).status == 200


def read(bodies: Bodies, client: str, *parts: bytes, more: bool = False) -> Any:
    """Read a body of parts; more: it does not end."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.sleep(60)
        return {"type": "http.request", "body": left.pop(0), "more_body": bool(left) or more}

    return bodies.read(receive, client)


def test_bytes_of_all_clients_are_counted_until_they_are_done():
    async def refused(*given: Any) -> tuple[int, str | None]:
        with pytest.raises(ProblemFound) as found:
            async with read(*given):
                pass
        return found.value.status, found.value.headers.get("Retry-After")

    async def run() -> None:
        bodies = Bodies(40, 100, 10, 10)
        async with read(bodies, "a", b"x" * 30, b"y" * 10) as body:
            assert body == b"x" * 30 + b"y" * 10
            assert await refused(bodies, "a", b"x" * 11) == (429, "5")
            async with read(bodies, "b", b"x" * 40), read(bodies, "c", b"x" * 20):
                assert await refused(bodies, "d", b"x") == (503, "5")
                assert await refused(bodies, "a", b"x" * 11) == (429, "5")
            async with read(bodies, "d", b"x" * 40):
                pass
        assert await refused(bodies, "a", b"x" * 41) == (413, None)
        assert not bodies._reading

    asyncio.run(run())


def test_a_body_has_a_time_for_all_of_it_and_for_each_part():
    async def run() -> None:
        for seconds, part_seconds in ((0.05, 10.0), (10.0, 0.05)):
            bodies = Bodies(40, 100, seconds, part_seconds)
            with pytest.raises(ProblemFound) as found:
                async with read(bodies, "a", b"x", more=True):
                    pass
            assert (found.value.status, not bodies._reading) == (408, True)

    asyncio.run(run())
