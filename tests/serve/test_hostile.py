"""What clients send that mean no good, or know no better: each gets an answer or is cut off, and the others are served on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import pytest

from serve.served import Shops, message, serving

pytestmark = pytest.mark.attack

HEAD = b"GET %b HTTP/1.1\r\nHost: localhost\r\n%b\r\n"


def connected(served, seconds: float = 30.0) -> socket.socket:
    host, port = served.address.split(":")
    return socket.create_connection((host, int(port)), timeout=seconds)


def send(served, text: bytes) -> bytes:
    """Send bytes, and give the head and the beginning of what comes back; nothing: the connection was closed."""
    with closing(connected(served)) as client:
        client.sendall(text)
        found = b""
        try:
            while b"\r\n\r\n" not in found and (more := client.recv(65536)):
                found += more
        except ConnectionResetError:
            pass
        return found


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


BROKEN = {
    "noise": b"\x16\x03\x01\x02\x00\x01" + bytes(range(256)),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no number": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "two lengths": b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
    "control character": HEAD % (b"/messagegroups/a\x01b", b""),
    "line end": HEAD % (b"/?filter=a=%0d%0aX:y", b""),
    "zero": HEAD % (b"/messagegroups?filter=a=%00", b""),
    "half a character": HEAD % (b"/messagegroups/%C3", b""),
    "half a pair": HEAD % (b"/messagegroups?filter=name=%ED%A0%80", b""),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_request_is_refused(served, name):
    assert status(send(served, BROKEN[name])) == 400
    assert served.ask("/").status == 200


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (b"filter=" + b"a." * 5000 + b"a", 400),
        (b"filter=" + b"[" * 9000, 400),
        (b"filter=" + b"a['x']" * 2000, 400),
        (b"filter=a=" + b"*a" * 4000, 400),
        (b"filter=" + b"&filter=".join([b"a"] * 60), 400),
        (b"filter=" + b",".join([b"messages.versions.name=*a*b*c*"] * 300), 200),
        (b"filter=" + b",".join([b"a"] * 301), 400),
        (b"&".join([b"filter=" + b",".join([b"a"] * 31)] * 10), 400),
        (b"filter=epoch>" + b"9" * 9000, 200),
        (b"filter=epoch>1e99999", 200),
        (b"inline=" + b"messages." * 1000 + b"*", 400),
        (b"sort=" + b"a." * 19 + b"a", 200),
        (b"sort=" + b"a." * 20 + b"a", 400),
        (b"sort=" + b"a." * 7000 + b"a", 400),
        (b"limit=99999999999999999999", 400),
        (b"limit=2&page=" + b"W" * 9000, 400),
        (b"specversion=%0D%0A", 400),
        (b"a=" + b"a" * 17_000, 414),
    ],
    ids=lambda value: value[:20].decode() if isinstance(value, bytes) else str(value),
)
def test_a_query_without_measure_is_answered_soon(served, query, expected):
    begun = time.monotonic()
    assert status(send(served, HEAD % (b"/messagegroups?" + query, b""))) == expected
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "path",
    [
        "/at/'%20OR%201=1--/", "/at/0/", "/at/-1/", "/at/99999999999999999999/", "/at/0001-01-01/", "/at/1/reg-none/",
        "/reg-/", "/reg-%27%3B/", "//messagegroups", "/messagegroups/../capabilities/x", "/messagegroups/%2e%2e%2f%2e%2e",
        "/events?since=-1", "/events?since=99999999999999999999", "/messagedefinition?uri=%27%20OR%201=1",
    ],
)  # fmt: skip
def test_what_is_not_there_is_reported_as_such(served, path):
    answer = served.ask(path)
    assert (answer.status, answer.headers["content-type"][:16]) == (404, "application/json")
    assert answer.json["title"]


def test_a_stream_that_resumes_where_nothing_is(served):
    wanted = {"Accept": "text/event-stream"}
    assert served.ask("/events", **wanted, Last_Event_ID="99.1").status == 404
    for before in ("0.0", "nonsense"):
        reported = f"Accept: text/event-stream\r\nLast-Event-ID: {before}\r\n".encode()
        with closing(connected(served)) as client:
            client.sendall(HEAD % (b"/events", reported))
            found = b""
            while b"id: 1.1\n" not in found:
                more = client.recv(65536)
                assert more, found
                found += more


def test_a_body_that_nobody_asked_for_is_not_waited_for(served):
    assert status(send(served, b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc")) == 405
    assert status(send(served, HEAD % (b"/", b"Content-Length: 1000000\r\n"))) == 200
    assert status(send(served, HEAD % (b"/", b"Connection: Upgrade\r\nUpgrade: websocket\r\n"))) == 200


def test_many_who_say_nothing_do_not_keep_others_out(served):
    silent = [connected(served) for _ in range(300)]
    try:
        for client in silent[::2]:
            client.sendall(b"GET / HT")
        begun = time.monotonic()
        assert served.ask("/messagegroups").status == 200
        assert time.monotonic() - begun < 10
    finally:
        for client in silent:
            client.close()


def test_requests_that_come_at_once_are_answered_in_order(served):
    with closing(connected(served)) as client:
        client.sendall(HEAD % (b"/capabilities", b"") * 50 + HEAD % (b"/none", b"Connection: close\r\n"))
        found = b""
        while more := client.recv(1 << 20):
            found += more
    assert found.count(b"HTTP/1.1 200 OK") == 50
    assert found.rindex(b"HTTP/1.1 404") > found.rindex(b"HTTP/1.1 200")


SCRIPT = """
import sys
from lakehouse.serve import Options, run_server
from lakehouse.settings import read_settings
run_server(read_settings(warehouse=sys.argv[1]), Options(port=0, client_seconds=2.0, max_response_bytes=int(sys.argv[2])),
           lambda url, _: print(url, flush=True))
"""


@contextmanager
def limited(warehouse, cache, most_bytes: int):
    """Run a server with little patience; give its process, host and port."""
    reported = os.environ | {"LAKEHOUSE_READMODEL_DIR": str(cache), "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-c", SCRIPT, str(warehouse), str(most_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=reported) as process:
        try:
            host, port = process.stdout.readline().strip().strip("/").split("//")[1].split(":")
            yield process, (host, int(port))
        finally:
            process.kill()


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A catalog whose export is larger than what a socket holds."""
    written = Shops(tmp_path_factory.mktemp("large") / "w")
    messages = {f"m{number}": message(f"No. {number}", description="x" * 20_000) for number in range(600)}
    written.load({"default": {"messagegroups": {"g": {"messages": messages}}}})
    return written.folder


@pytest.mark.slow
def test_a_client_that_does_not_take_its_answer_is_cut_off(large, tmp_path):
    with limited(large, tmp_path, 1 << 30) as (_, address), socket.create_connection(address, timeout=60) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(HEAD % (b"/export", b""))
        assert slow.recv(100).startswith(b"HTTP/1.1 200")
        time.sleep(6)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        taken = 0
        try:
            while more := slow.recv(1 << 20):
                taken += len(more)
        except ConnectionResetError:
            pass
        assert taken < 11 << 20
        with socket.create_connection(address, timeout=60) as other:
            other.sendall(HEAD % (b"/messagegroups/g/messages/m1", b""))
            assert other.recv(100).startswith(b"HTTP/1.1 200")


def test_an_answer_that_is_too_large_is_refused_and_its_pages_are_not(large, tmp_path):
    with limited(large, tmp_path, 1 << 20) as (_, address):
        for path, expected in (
            (b"/export", 406),
            (b"/messagegroups/g/messages", 406),
            (b"/messagegroups/g/messages?limit=50", 200),
        ):
            with socket.create_connection(address, timeout=60) as client:
                client.sendall(HEAD % (path, b""))
                assert status(client.recv(1000)) == expected


def test_a_request_that_is_worked_on_is_ended_before_the_server_is(large, tmp_path):
    with serving(large, tmp_path) as served:
        assert served.ask("/messagegroups/g?inline=messages").status == 200  # it is loaded
        found = []
        asking = threading.Thread(target=lambda: found.append(served.ask("/?inline=*&filter=messagegroups.messages.name=No*")))
        asking.start()
        time.sleep(0.1)
        served.process.send_signal(signal.SIGTERM)
        asking.join(60)
        assert served.process.wait(60) == 0
    assert found[0].status == 200
    assert len(found[0].json["messagegroups"]["g"]["messages"]) == 600
