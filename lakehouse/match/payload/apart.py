"""Work in a process of its own, with a limit of time and memory: for payloads on which a library may hang, or end its process."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import TypeVar

_MORE_BYTES = 2**30  # that the process may take beside what it has from this one
_CHUNK = 2**16

Made = TypeVar("Made")


class NoAnswer(Exception):
    """The process ended without an answer, or took too long."""


def apart(work: Callable[[], Made], seconds: float) -> Made:
    """Do work in a fork of this process.

    Args:
        work: gives what can be pickled.
        seconds: how long it may take.

    Raises:
        NoAnswer: it took longer, or the process ended: of memory, or a fault of a library.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(work, reading, writing, seconds)
    os.close(writing)
    try:
        text = _read(reading, time.monotonic() + seconds)
    finally:
        os.close(reading)
        with contextlib.suppress(ProcessLookupError):  # it may have ended
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if text is None:
        raise NoAnswer(f"it took more than {seconds:g} s")
    if not text:
        raise NoAnswer("the library ended its process")
    made: Made = pickle.loads(text)  # noqa: S301  what this process wrote itself
    return made


def _answer(work: Callable[[], Made], reading: int, writing: int, seconds: float) -> None:
    """Do the work and write it down: in the fork, which ends here whatever happens."""
    try:
        os.close(reading)
        faulthandler.disable()
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries that fail for good say so at length
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError, ValueError):  # a system without /proc, or a limit that is lower already
            with open("/proc/self/statm", encoding="ascii") as file:
                most = int(file.read().split()[0]) * resource.getpagesize() + _MORE_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (most, most))
        text = pickle.dumps(work())
        while text:
            text = text[os.write(writing, text) :]
    finally:
        os._exit(0)


def _read(reading: int, deadline: float) -> bytes | None:
    """Read to the end; None: the time is over."""
    parts: list[bytes] = []
    while True:
        ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            return None
        part = os.read(reading, _CHUNK)
        if not part:
            return b"".join(parts)
        parts.append(part)
