"""Requests a second of `lakehouse serve`, compared with a floor: the same server answering fixed bytes of the same size.

    python -m tests.bench.http --messages 10000 --seconds 5

Prints one JSON object. The load comes from this process, on the cores that the server has too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of tests import each other from there

from serve.served import Served, Shops, message, serving


def catalog_of(folder: Path, messages: int) -> None:
    """Write a catalog with groups of 100 messages."""
    reported = {
        f"g{group}": {
            "envelope": "CloudEvents/1.0",
            "messages": {
                f"m{number}": message(
                    f"Message {number} of group {group}",
                    description="What is sent when something has happened to an order of the shop. " * 4,
                    labels={"team": f"team-{number % 7}", "stage": "prod"},
                    envelopemetadata={
                        name: {"type": "string", "required": True} for name in ("type", "source", "subject", "time")
                    },
                )
                for number in range(100)
            },
        }
        for group in range(messages // 100)
    }
    Shops(folder).load({"default": {"messagegroups": reported}})


def processor_seconds(pid: int) -> float:
    """Return the processor time that the threads of a process took."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


async def load(address: str, pid: int, paths: list[str], connections: int, seconds: float) -> dict[str, float]:
    """Ask over and over on some connections.

    Returns:
        Requests a second; latencies in milliseconds; processor time of the server for each request in microseconds, which a
        machine with other work to do leaves as it is.
    """
    host, port = address.split(":")
    until = time.perf_counter() + seconds
    taken: list[float] = []

    async def ask(start: int) -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        at = start
        while time.perf_counter() < until:
            begun = time.perf_counter()
            writer.write(f"GET {paths[at % len(paths)]} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head[:200]
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            taken.append((time.perf_counter() - begun) * 1000)
            at += 1
        writer.close()

    before, begun = processor_seconds(pid), time.perf_counter()
    await asyncio.gather(*(ask(number * 7) for number in range(connections)))
    passed = time.perf_counter() - begun
    ranked = sorted(taken)
    return {
        "requests_per_second": round(len(taken) / passed),
        "server_us": round((processor_seconds(pid) - before) / len(taken) * 1e6),
        "p50_ms": round(statistics.median(ranked), 2),
        "p99_ms": round(ranked[int(len(ranked) * 0.99)], 2),
    }


def ask_often(served: Served, path: str, times: int = 7) -> dict[str, float]:
    """Ask for something large, one request after the other: the first, the median, and the processor time of each."""
    taken, before = [], processor_seconds(served.process.pid)
    for _ in range(times):
        begun = time.perf_counter()
        answer = served.ask(path)
        taken.append((time.perf_counter() - begun) * 1000)
        assert answer.status == 200
    spent = (processor_seconds(served.process.pid) - before) / times * 1000
    reported = {"first_ms": taken[0], "median_ms": statistics.median(taken), "server_ms": spent}
    return {name: round(value, 1) for name, value in reported.items()} | {"bytes": len(answer.body)}


def wait_until_idle(pid: int) -> None:
    """Wait until a server has loaded what it keeps."""
    before = -1.0
    while (now := processor_seconds(pid)) - before > 0.05:
        before = now
        time.sleep(5)


def floor(size: int, port: Any) -> None:
    """Answer fixed bytes with the server that `lakehouse serve` runs on."""
    import socket

    import uvicorn

    body = b"x" * size
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % size)]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    port.value = listening.getsockname()[1]
    config = uvicorn.Config(app, http="httptools", loop="uvloop", lifespan="off", log_level="warning", access_log=False)
    uvicorn.Server(config).run(sockets=[listening])


def measure(messages: int, seconds: float) -> dict[str, Any]:
    """Measure all of it."""
    found: dict[str, Any] = {"messages": messages}
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        catalog_of(Path(folder, "w"), messages)
        with serving(Path(folder, "w"), Path(folder, "model")) as served:
            one = "/messagegroups/g1/messages/m1"
            paths = [f"/messagegroups/g{n % (messages // 100)}/messages/m{n % 100}" for n in range(1000)]
            size = len(served.ask(one).body)
            found["message_bytes"] = size
            wait_until_idle(served.process.pid)
            port = multiprocessing.Value("i", 0)
            beneath = multiprocessing.get_context("fork").Process(target=floor, args=(size, port), daemon=True)
            beneath.start()
            while not port.value:
                time.sleep(0.05)
            time.sleep(1)
            for connections in (10, 100):
                found[f"floor_{connections}"] = asyncio.run(
                    load(f"127.0.0.1:{port.value}", beneath.pid, ["/"], connections, seconds)
                )
                found[f"message_{connections}"] = asyncio.run(
                    load(served.address, served.process.pid, [one], connections, seconds)
                )
                found[f"messages_{connections}"] = asyncio.run(
                    load(served.address, served.process.pid, paths, connections, seconds)
                )
            beneath.terminate()
            for name, path in (
                ("group", "/messagegroups/g2/messages"),
                ("filter", "/?filter=messagegroups.messages.name=*number*"),
                ("filter_again", "/?filter=messagegroups.messages.labels.team=team-3,messagegroups.messages.name=*99*"),
                ("export", "/export"),
            ):
                found[name] = ask_often(served, path)
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=5)
    given = parser.parse_args()
    print(json.dumps(measure(given.messages, given.seconds), indent=1))


if __name__ == "__main__":
    main()
