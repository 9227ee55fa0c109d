"""Turns of those who write: servers, which commit often, wait for a writer that lost a race and plans again, in seconds.

A lock of the operating system on a file of the warehouse, so it ends with the process that holds it. It keeps nobody from
committing who does not ask: the compare-and-set of the log does that. A warehouse on an object store has no turns.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from lakehouse.store.tablelog import is_lost, retries

T = TypeVar("T")
_REMOTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_FILE = "_turn"
_SECONDS_BETWEEN_TRIES = 0.05


def in_turn(warehouse: str, attempts: int, attempt: Callable[[], T]) -> T:
    """Try a commit until it wins: once together with all others, and after a race that was lost while servers wait.

    Args:
        warehouse: path or URI, as in the settings.
        attempts: how often.
        attempt: plans and commits.

    Raises:
        CommitLost: every race was lost.
    """
    is_first = True

    @retries(attempts, is_lost).wraps
    def tried() -> T:
        nonlocal is_first
        if is_first:
            is_first = False
            return attempt()
        with hold_writer_lock(warehouse):
            return attempt()

    return tried()


@contextmanager
def hold_writer_lock(warehouse: str) -> Iterator[None]:
    """Hold the writer lock: servers wait with their commits.

    Args:
        warehouse: path or URI, as in the settings.
    """
    with _opened(warehouse) as lock_file:
        if lock_file is not None:
            fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


@contextmanager
def no_turn_of_others(warehouse: str, seconds: float) -> Iterator[None]:
    """Wait until nobody holds the turn, and let nobody take it meanwhile; goes on in any case after some time.

    Args:
        warehouse: path or URI, as in the settings.
        seconds: that are waited at most.
    """
    until = time.monotonic() + seconds
    with _opened(warehouse) as lock_file:
        while lock_file is not None:
            try:
                fcntl.flock(lock_file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    break
                time.sleep(_SECONDS_BETWEEN_TRIES)
        yield


@contextmanager
def _opened(warehouse: str) -> Iterator[int | None]:
    """Open the file; None: the warehouse is on an object store, or nothing can be written there."""
    folder = re.sub(r"\Afile:/*", "/", warehouse)
    lock_file = None
    if not _REMOTE.match(folder):
        with contextlib.suppress(OSError):
            lock_file = os.open(Path(folder, _FILE), os.O_CREAT | os.O_RDWR, 0o666)
    try:
        yield lock_file
    finally:
        if lock_file is not None:
            os.close(lock_file)
