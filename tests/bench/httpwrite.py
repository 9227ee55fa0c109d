"""How fast `lakehouse serve --writable` is: single writes, many clients at once, an import, and readers while clients write.

    python -m tests.bench.httpwrite --messages 10000

Prints one JSON object. The load comes from this process, on the cores that the server has too; no Java runs, so the entity tables
do not follow.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.bench.http import catalog_of, load, processor_seconds, wait_until_idle

from serve.writing import EVENT, Writable, writing  # isort: skip  (tests.bench.http made it importable)

_SINGLE = 50
_SECONDS_OF_READERS = 8.0
_READERS = 10


async def write_all(address: str, requests: Iterator[tuple[str, str, bytes]], clients: int) -> list[float]:
    """Send requests over connections that stay open; each client takes the next one.

    Returns:
        Latencies in milliseconds.
    """
    host, port = address.split(":")
    taken: list[float] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection(host, int(port))
        for method, path, body in requests:
            begun = time.perf_counter()
            head = f"{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            content = await reader.readexactly(length)
            assert answer.startswith(b"HTTP/1.1 20"), (answer[:200], content[:300])
            taken.append((time.perf_counter() - begun) * 1000)
        writer.close()

    await asyncio.gather(*(one() for _ in range(clients)))
    return taken


def puts(group: str, count: int) -> Iterator[tuple[str, str, bytes]]:
    """Return requests that create messages."""
    body = json.dumps(EVENT).encode()
    return iter([("PUT", f"/messagegroups/{group}/messages/m{number}", body) for number in range(count)])


def read_beside(address: str, pid: int, path: str, into: Any) -> None:
    """Read for some seconds, and set `into` to the 99th percentile in milliseconds; it runs in its own process."""
    into.value = asyncio.run(load(address, pid, [path], _READERS, _SECONDS_OF_READERS))["p99_ms"]


def measure(messages: int, clients: int, imported: int) -> dict[str, Any]:
    """Measure all of it."""
    found: dict[str, Any] = {"messages": messages}
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        catalog_of(Path(folder, "w"), messages)
        with writing(Path(folder, "w"), Path(folder, "model")) as served:
            wait_until_idle(served.process.pid)
            for group in ("single", "many", "beside", "import"):
                served.done("PUT", f"/messagegroups/{group}", {})
            taken = asyncio.run(write_all(served.address, puts("single", _SINGLE), 1))
            found["single_put_p50_ms"] = round(statistics.median(taken))
            begun = time.perf_counter()
            asyncio.run(write_all(served.address, puts("many", clients * 10), clients))
            found[f"{clients * 10}_puts_by_{clients}_clients_s"] = round(time.perf_counter() - begun, 1)
            found |= _readers(served, clients)
            begun = time.perf_counter()
            served.done("POST", "/messagegroups/import/messages", {f"m{number}": EVENT for number in range(imported)})
            found[f"import_of_{imported}_s"] = round(time.perf_counter() - begun, 1)
            found["server_cpu_s"] = round(processor_seconds(served.process.pid), 1)
    return found


def _readers(served: Writable, clients: int) -> dict[str, float]:
    """Measure the 99th percentile of readers alone, and of readers while clients write all the time."""
    found: dict[str, float] = {}
    for name, writers in (("alone", 0), ("beside_writers", clients)):
        p99 = multiprocessing.Value("d", 0.0)
        path = "/messagegroups/g1/messages/m1"
        reading = multiprocessing.get_context("fork").Process(
            target=read_beside, args=(served.address, served.process.pid, path, p99), daemon=True
        )
        reading.start()
        if writers:
            until = time.monotonic() + _SECONDS_OF_READERS
            endless = itertools.takewhile(lambda _, until=until: time.monotonic() < until, puts("beside", 100_000))
            found["writes_per_second"] = round(
                len(asyncio.run(write_all(served.address, endless, writers))) / _SECONDS_OF_READERS
            )
        reading.join()
        found[f"readers_p99_ms_{name}"] = round(p99.value, 1)
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--imported", type=int, default=10_000)
    given = parser.parse_args()
    print(json.dumps(measure(given.messages, given.clients, given.imported), indent=1))


if __name__ == "__main__":
    main()
