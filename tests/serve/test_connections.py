"""Connections: what comes with a body has a limit, and many of them keep no new one out, with and without TLS."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
import time
from contextlib import closing, contextmanager

import pytest

from lakehouse.serve.clientlimits import most_connections
from serve.served import ROOT
from serve.test_hostile import HEAD, status
from serve.writing import EVENT, empty_warehouse, writing

CHUNKED = b"PUT /messagegroups/g/messages/%b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n%b\r\n"
CHUNKS = b"2\r\n{}\r\n0\r\n"
SCRIPT = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
from lakehouse.serve import Options, run_server
from lakehouse.settings import read_settings
tls = dict(zip(("tls_cert", "tls_key"), sys.argv[3:]))
run_server(read_settings(warehouse=sys.argv[1]), Options(port=0, **tls), lambda url, _: print(url, flush=True))
"""


@contextmanager
def with_descriptors(warehouse, cache, number: int, *tls: str):
    """Run a server that has few file descriptors; give its host and port."""
    reported = os.environ | {"LAKEHOUSE_READMODEL_DIR": str(cache), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", SCRIPT, str(warehouse), str(number), *tls]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=reported) as process:
        try:
            host, port = process.stdout.readline().strip().strip("/").split("//")[1].split(":")
            yield host, int(port)
        finally:
            process.kill()


def is_served(address: tuple[str, int], trust: ssl.SSLContext | None = None) -> bool:
    plain = socket.create_connection(address, timeout=60)
    with closing(plain if trust is None else trust.wrap_socket(plain, server_hostname="localhost")) as client:
        client.sendall(HEAD % (b"/messagegroups", b""))
        return status(client.recv(1000)) == 200


def are_open(clients: list[socket.socket]) -> list[bool]:
    """Return which connections the server has not closed."""
    return [is_open(client) for client in clients]


def is_open(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        while client.recv(65536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


@pytest.fixture(scope="module")
def writable(tmp_path_factory):
    folder = tmp_path_factory.mktemp("connections")
    with writing(empty_warehouse(folder / "w").folder, folder / "r") as found:
        found.done("PUT", "/messagegroups/g/messages/m", EVENT)
        yield found


def sent_on(served, first: bytes, more: bytes, most: int) -> int:
    """Send bytes again and again until the server closes the connection; give how many it took."""
    host, port = served.address.split(":")
    taken = 0
    with closing(socket.create_connection((host, int(port)), timeout=60)) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        client.sendall(first)
        try:
            while taken < most:
                client.sendall(more)
                taken += len(more)
                time.sleep(0.001)
        except OSError:
            pass
    return taken


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (CHUNKED % (b"t", b"") + CHUNKS, b"X-Y: " + b"y" * 1000 + b"\r\n"),
        (CHUNKED % (b"t", b"") + CHUNKS + b"X: ", b"y" * 1000),
        (CHUNKED % (b"t", b"") + b"2;", b"y" * 1000),
        (HEAD % (b"/events", b"Accept: text/event-stream\r\n") + b"GET / HTTP/1.1\r\n", b"X-Y: " + b"y" * 1000 + b"\r\n"),
        (HEAD % (b"/", b"") + b"GET / HTTP/1.1\r\n", b"X-Y: " + b"y" * 1000 + b"\r\n"),
        (b"", b"y" * 1000),
    ],
    ids=["trailers", "a trailer", "an extension of a chunk", "a head behind a stream", "a second head", "a method"],
)
def test_what_has_no_end_is_cut_off(writable, first, more):
    assert sent_on(writable, first, more, 20_000_000) < 10_000_000
    assert writable.ask("/").status == 200


def test_a_trailer_is_no_header(writable):
    answers = []
    for trailers in (b"", b"Host: elsewhere.example\r\nOrigin: https://elsewhere.example\r\nHost: x\r\n"):
        host, port = writable.address.split(":")
        with closing(socket.create_connection((host, int(port)), timeout=60)) as client:
            client.sendall(
                HEAD % (b"/messagegroups", b"") + CHUNKED % (b"c", b"Connection: close\r\n") + CHUNKS + trailers + b"\r\n"
            )
            found = b""
            while more := client.recv(65536):
                found += more
        answers.append(re.findall(rb"HTTP/1.1 ([0-9]{3})", found))
    assert answers == [[b"200", b"201"], [b"200", b"200"]]


def test_a_stream_ends_with_its_connection_whatever_was_asked_behind_it(writable):
    host, port = writable.address.split(":")
    for _ in range(3):
        clients = [socket.create_connection((host, int(port)), timeout=60) for _ in range(50)]
        for client in clients:
            client.sendall(HEAD % (b"/events", b"Accept: text/event-stream\r\n") + HEAD % (b"/messagegroups", b""))
            assert status(client.recv(1000)) == 200
            client.close()
        time.sleep(1)  # a stream looks whether anybody is there a few times a second


def test_connections_that_are_idle_keep_no_new_one_out(catalog, tmp_path):
    with with_descriptors(catalog.folder, tmp_path, 200) as address:
        idle = [socket.create_connection(address, timeout=60) for _ in range(200)]
        for client in idle[::2]:
            client.sendall(HEAD % (b"/messagegroups", b""))
        try:
            for _ in range(50):
                idle.append(socket.create_connection(address, timeout=60))
                assert is_served(address)
            assert is_served(address)
            found = are_open(idle)
            assert 100 < sum(found) <= 136
            assert all(found[-50:])
        finally:
            for client in idle:
                client.close()


def test_handshakes_that_are_not_done_keep_no_new_one_out(catalog, tmp_path):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    trust = ssl.create_default_context(cafile=str(cert))
    trust.check_hostname = False
    with with_descriptors(catalog.folder, tmp_path / "model", 200, str(cert), str(key)) as address:
        silent = [socket.create_connection(address, timeout=60) for _ in range(300)]
        for client in silent[::2]:
            client.sendall(b"\x16\x03\x01\x02\x00\x01\x00")  # the beginning of one
        try:
            for _ in range(3):
                assert is_served(address, trust)
            assert 0 < sum(are_open(silent)) <= 136
        finally:
            for client in silent:
                client.close()
        with socket.create_connection(address, timeout=60) as plain:
            plain.sendall(HEAD % (b"/messagegroups", b""))
            assert not plain.recv(1000).startswith(b"HTTP/1.1 200")
        assert is_served(address, trust)


def test_how_many_connections_there_are_follows_from_the_descriptors(monkeypatch):
    for limit, reserve, expected in ((200, 0, 136), (1024, 0, 768), (1024, 128, 640), (1 << 20, 0, 10_000), (-1, 0, 10_000)):
        monkeypatch.setattr("resource.getrlimit", lambda _, limit=limit: (limit, limit))
        assert most_connections(reserve) == expected
