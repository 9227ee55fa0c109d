"""The stages of a run: measured, and shown to whoever waits."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

logger = logging.getLogger(__name__)


class Watcher(Protocol):
    """A listener that is called when a stage begins, with what is known then."""

    def stage(self, name: str, message: str) -> AbstractContextManager[None]:
        """Return a context in which a stage runs."""


class Unwatched:
    """Nobody waits."""

    def stage(self, name: str, message: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()


def period() -> float:
    """Return the seconds between two lines of progress where no terminal shows it: 10, or `LAKEHOUSE_PROGRESS_SECONDS`."""
    return float(os.environ.get("LAKEHOUSE_PROGRESS_SECONDS", "10"))


class EverySeconds:
    """Reports when the next line of progress is due."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.last = time.monotonic()

    def is_due(self) -> bool:
        """Return whether the seconds have passed since the last time that it was due, or since the beginning."""
        if time.monotonic() - self.last < self.seconds:
            return False
        self.last = time.monotonic()
        return True


class Periodic:
    """Writes a line now and then while a stage runs, where no terminal shows progress.

    Args:
        write: takes a line.
        seconds: between two lines.
    """

    def __init__(self, write: Callable[[str], None], seconds: float) -> None:
        self.write = write
        self.seconds = seconds

    @contextmanager
    def stage(self, name: str, message: str) -> Iterator[None]:
        """Write the stage and its time so far every few seconds while it is open."""
        ended, begun = threading.Event(), time.monotonic()

        def report() -> None:
            while not ended.wait(self.seconds):
                self.write(f"{name}: {message[:100]} ({time.monotonic() - begun:.0f} s)")

        reporter = threading.Thread(target=report, name=f"progress of {name}", daemon=True)
        reporter.start()
        try:
            yield
        finally:
            ended.set()
            reporter.join()


class Clock:
    """Measures the stages, and notifies the watcher of them."""

    def __init__(self, watcher: Watcher | None) -> None:
        self.watcher = watcher or Unwatched()
        self.begun = time.monotonic()
        self.spent: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str, message: str) -> Iterator[None]:
        """Measure the stage that runs in the block."""
        begun = time.monotonic()
        with self.watcher.stage(name, message):
            yield
        self.spent[name] = self.spent.get(name, 0.0) + time.monotonic() - begun
        logger.info("%s: %.2f s (%s)", name, time.monotonic() - begun, message)

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each stage, and in total."""
        return {"total": time.monotonic() - self.begun, **self.spent}
