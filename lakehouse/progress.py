"""The stages of a run: measured, and told to whoever waits."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

logger = logging.getLogger(__name__)


class Watcher(Protocol):
    """Somebody who waits: told when a stage begins and what is known then."""

    def stage(self, name: str, told: str) -> AbstractContextManager[None]:
        """Be open while a stage runs."""


class Unwatched:
    """Nobody waits."""

    def stage(self, name: str, told: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()


class Clock:
    """Measures the stages, and tells the watcher of them."""

    def __init__(self, watcher: Watcher | None) -> None:
        self.watcher = watcher or Unwatched()
        self.begun = time.monotonic()
        self.spent: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str, told: str) -> Iterator[None]:
        """Be open while a stage runs."""
        begun = time.monotonic()
        with self.watcher.stage(name, told):
            yield
        self.spent[name] = self.spent.get(name, 0.0) + time.monotonic() - begun
        logger.info("%s: %.2f s (%s)", name, time.monotonic() - begun, told)

    def seconds(self) -> dict[str, float]:
        """Give the seconds of each stage, and in total."""
        return {"total": time.monotonic() - self.begun, **self.spent}
