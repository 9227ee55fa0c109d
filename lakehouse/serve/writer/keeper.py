"""The writer beside a server: started, started again when it dies, and ended with it."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import secrets
import signal
import tempfile
import threading
from multiprocessing.process import BaseProcess
from pathlib import Path

from lakehouse.serve.writer.wire import Address
from lakehouse.settings import Settings

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_AFTER_DEATH = 1.0


class Keeper:
    """Keeps a writer running.

    Attributes:
        address: where it listens, also after it was started again.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="lakehouse-write-")
        self.address = Address(str(Path(self._folder.name) / "writer"), secrets.token_bytes(32))
        self._process: BaseProcess | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lakehouse-keeper", daemon=True)

    def start(self) -> None:
        """Start the writer, and watch it."""
        self._start()
        self._thread.start()

    def stop(self) -> None:
        """End the writer, with what it started."""
        self._stopped.set()
        self._thread.join(5)
        if self._process is not None:
            end_group(self._process.pid or 0)
            self._process.join(5)
        self._folder.cleanup()

    def _start(self) -> None:
        from lakehouse.serve.writer.process import run_writer

        Path(self.address.path).unlink(missing_ok=True)
        spawning = multiprocessing.get_context("spawn")
        process = spawning.Process(
            target=run_writer, args=(self.settings, self.address, os.getpid()), name="lakehouse-write", daemon=True
        )
        process.start()
        self._process = process

    def _keep(self) -> None:
        while not self._stopped.wait(_SECONDS_BETWEEN_LOOKS):
            process = self._process
            if process is not None and not process.is_alive():
                logger.error("the process that writes died (exit code %s); another one takes its place", process.exitcode)
                end_group(process.pid or 0)
                if self._stopped.wait(_SECONDS_AFTER_DEATH):
                    return
                self._start()


def end_group(pid: int) -> None:
    """End what a process started, and the process: Spark's JVM outlives nobody whom it works for."""
    if pid > 1:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
