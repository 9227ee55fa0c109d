"""A process of the server hands requests to the one that writes, and finds out what came of those that it did not answer."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import sqlite3
import time
from multiprocessing.connection import Client, Connection
from typing import NamedTuple

from lakehouse.errors import LakehouseError
from lakehouse.readmodel import View
from lakehouse.serve.answer.live import SnapshotWatcher, not_written
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.write.writerequest import WriteRequest
from lakehouse.serve.writer.process import end_group
from lakehouse.serve.writer.wire import Announced, Done, WriterAddress, receive_answer, send_writing
from lakehouse.store.durable import Durable, check_storage

logger = logging.getLogger(__name__)

_SECONDS_BETWEEN_TRIES = 0.1
_SECONDS_TO_END = 10.0


class Hindrance(NamedTuple):
    """Why no request that writes would be done: a word for it, and a sentence, for everybody who may ask."""

    status: str
    detail: str


STARTING = Hindrance("starting", "The process that writes is starting; reads are answered.")
NOT_WRITABLE = Hindrance("not writable", "The catalog takes no writes now, the server's log says why; reads are answered.")


class Writers:
    """Hands requests over; shared by threads, each request has its own connection."""

    def __init__(self, address: WriterAddress, live: SnapshotWatcher, seconds: float) -> None:
        """Know where the writer is.

        Args:
            address: where it listens.
            live: the catalog, to find out what was committed.
            seconds: that a request may wait for the writer to begin.
        """
        self.address = address
        self.live, self.model = live, live.model
        self.seconds = seconds
        self._durable = Durable(f"{self.model.location}/changes", self.model.settings)
        self._free: queue.SimpleQueue[Connection] = queue.SimpleQueue()

    def write(self, write_request: WriteRequest) -> Done:
        """Have a request applied by the writer.

        Raises:
            ProblemFound: it was refused, or could not be done; nothing of it was written.
        """
        if self.live.went_back is not None:
            raise not_written(self.live.went_back)
        link = self._sent(write_request)
        announced: Announced | None = None
        try:
            while True:
                answer = receive_answer(link)
                if isinstance(answer, Announced):
                    announced = answer
                    continue
                self._free.put(link)
                if isinstance(answer, ProblemFound):
                    raise answer
                return answer
        except (EOFError, OSError):
            link.close()
            return self._outcome_of(write_request, announced)

    def hindrance(self) -> Hindrance | None:
        """Return what keeps a request that writes from being done now; None: nothing does.

        A writer listens once it has opened the catalog, or made it.
        """
        try:
            Client(self.address.path, "AF_UNIX", authkey=self.address.key).close()
        except (OSError, EOFError):
            return STARTING
        return None if self.live.is_empty or self._takes_writes() else NOT_WRITABLE

    def _takes_writes(self) -> bool:
        """Return whether the log is one that is written to, and its storage takes what is written."""
        if self.live.went_back is not None:
            return False
        try:
            version = self.model.answer(lambda view: view.facts.table_versions()["changes"].version)
            self.model.warehouse.check_newest_parts("changes", version)
            check_storage(f"{self.model.location}/changes/_delta_log")
        except (LakehouseError, sqlite3.Error, OSError) as error:
            logger.warning("no request that writes would be done: %s", error)
            return False
        return True

    def _sent(self, write_request: WriteRequest) -> Connection:
        """Send a request to a writer that is there; one that is starting is waited for."""
        until = time.monotonic() + self.seconds
        while True:
            try:
                link = self._free.get_nowait()
            except queue.Empty:
                link = self._opened(until, write_request)
            try:
                send_writing(link, write_request)
            except OSError:  # of a writer that died; it did not read the request whole
                link.close()
                continue
            return link

    def _opened(self, until: float, write_request: WriteRequest) -> Connection:
        while True:
            try:
                return Client(self.address.path, "AF_UNIX", authkey=self.address.key)
            except (OSError, EOFError) as error:
                if time.monotonic() > until:
                    detail = "The process that writes is starting; nothing was written. Ask again."
                    raise ProblemFound("server_busy", write_request.path, detail, headers={"Retry-After": "5"}) from error
                time.sleep(_SECONDS_BETWEEN_TRIES)

    def _outcome_of(self, write_request: WriteRequest, announced: Announced | None) -> Done:
        """Check whether a writer that died had committed a request."""
        if announced is not None:
            _await_end(announced.pid)
            self.model.refresh()
            snapshot_id = self.model.answer(lambda view: _committed_by(view, announced.ingest_id))
            if snapshot_id is not None:
                self._sync(write_request)  # the writer may have died before it did
                return Done(snapshot_id, announced.outcome)
        detail = "The process that writes died; nothing was written. Ask again."
        raise ProblemFound("server_busy", write_request.path, detail, headers={"Retry-After": "5"})

    def _sync(self, write_request: WriteRequest) -> None:
        try:
            self._durable.sync_commits()
        except OSError as error:
            detail = f"It was written, but not through to the disk ({error}). Look whether it is there, then go on."
            raise ProblemFound(
                "data_retrieval_error", write_request.path, detail, status=503, headers={"Retry-After": "5"}
            ) from error


def _await_end(pid: int) -> None:
    """Make sure that a writer, and the Spark that it started, cannot commit any more."""
    until = time.monotonic() + _SECONDS_TO_END
    while time.monotonic() < until:
        end_group(pid)
        with contextlib.suppress(PermissionError):
            try:
                os.killpg(pid, 0)
            except ProcessLookupError:
                return
        time.sleep(0.02)


def _committed_by(view: View, ingest_id: str) -> int | None:
    """Find the snapshot of a commit, among the newest ones."""
    for snapshot_id in range(view.head, max(0, view.head - 1000), -1):
        if view.commit_of(snapshot_id).get("ingest_id") == ingest_id:
            return snapshot_id
    return None
