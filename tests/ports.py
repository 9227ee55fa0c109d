"""Ports of the loopback address: a free one for a server that a test starts, and until it listens there.

It needs nothing that is installed: suites with their own environments import it, too.
"""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from typing import Any

LOOPBACK = "127.0.0.1"
_SECONDS = 240  # until a server listens


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as free:
        free.bind((LOOPBACK, 0))
        return int(free.getsockname()[1])


def wait_for_port(port: int, process: subprocess.Popen[Any], log: Path | None = None) -> None:
    """Wait until a process listens; where it does not, the end of its log is the reason."""
    until = time.monotonic() + _SECONDS
    while not _is_open(port):
        is_starting = process.poll() is None and time.monotonic() < until
        assert is_starting, f"nobody listens at port {port}\n{log.read_text()[-3000:] if log else ''}"
        time.sleep(0.5)


def _is_open(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex((LOOPBACK, port)) == 0
