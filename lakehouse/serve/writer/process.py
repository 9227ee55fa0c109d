"""The process that writes: takes requests from the processes of a server, and commits those that wait together.

It ends with its server. It may end at any time, by kill -9 too: a commit is one append, and whoever asked finds out whether it
was made (`client`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import threading
import time
from multiprocessing.connection import Connection, Listener
from typing import NamedTuple

from lakehouse.errors import LakehouseError, PartMissing, WarehouseError
from lakehouse.log.turns import no_turn_of_others
from lakehouse.readmodel import ReadModel
from lakehouse.serve.logseen import LogWentBack, not_written
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.asked import Writing
from lakehouse.serve.writer.append import Appender, DeltaAppender, SparkAppender, admits_delta_rs, storage_refusal
from lakehouse.serve.writer.batches import Batches, NotReadBack, Result
from lakehouse.serve.writer.tables import Tables
from lakehouse.serve.writer.wire import Address, Announced, Done, receive_writing, send_answer
from lakehouse.settings import Settings

logger = logging.getLogger(__name__)

_SECONDS_GATHERED = 0.02  # while several clients write
_SECONDS_ALONE = 0.005
_MOST_REQUESTS = 500
_MOST_BYTES = 64 << 20
_SECONDS_OF_A_TURN = 30.0  # of an ingest that was not quick enough beside us
_NICENESS = 5  # readers come first


class Job(NamedTuple):
    """A request, and where its answer goes."""

    writing: Writing
    link: Connection


def run_writer(settings: Settings, address: Address, parent: int) -> None:
    """Take requests until the server is gone.

    Args:
        settings: the warehouse.
        address: where to listen.
        parent: the server's process.
    """
    os.setsid()  # so that what is started here ends with it
    os.nice(_NICENESS)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    jobs: queue.Queue[Job] = queue.Queue(_MOST_REQUESTS * 4)
    tables = Tables(settings)
    model, appender = _open(settings, tables)
    batches = Batches(model, appender, attempts=settings.commit_attempts)
    with Listener(address.path, "AF_UNIX", backlog=128, authkey=address.key) as listener:
        os.chmod(address.path, 0o600)
        threading.Thread(target=_listen, args=(listener, jobs), daemon=True).start()
        tables.follow()
        gathered: list[Job] = []
        while True:
            gathered = _gather(jobs, _SECONDS_GATHERED if len(gathered) > 1 else _SECONDS_ALONE)
            with no_turn_of_others(settings.warehouse, _SECONDS_OF_A_TURN):
                _commit(batches, gathered)
            tables.bring()


def _open(settings: Settings, tables: Tables) -> tuple[ReadModel, Appender]:
    """Open the catalog; one that is not there yet is made."""
    model = ReadModel(settings)
    try:
        model.refresh()
    except WarehouseError:
        tables.create()
        model.refresh()
    # On S3 Spark keeps writers apart, by the log store that its settings name.
    if not model.warehouse.is_remote and admits_delta_rs(model.warehouse.open("changes")):
        return model, DeltaAppender(model.location, settings)
    return model, SparkAppender(tables.session())


def _watch(parent: int) -> None:
    """End with the server."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def _listen(listener: Listener, jobs: queue.Queue[Job]) -> None:
    while True:
        try:
            link = listener.accept()
        except (OSError, EOFError):  # who came did not stay, or does not know the key
            continue
        threading.Thread(target=_serve, args=(link, jobs), daemon=True).start()


def _serve(link: Connection, jobs: queue.Queue[Job]) -> None:
    """Take requests of one connection, one at a time."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            jobs.put(Job(receive_writing(link), link))


def _gather(jobs: queue.Queue[Job], seconds: float) -> list[Job]:
    """Wait for a request, and take those that come with it."""
    found = [jobs.get()]
    until, size = time.monotonic() + seconds, len(found[0].writing.body)
    while len(found) < _MOST_REQUESTS and size < _MOST_BYTES:
        left = until - time.monotonic()
        try:
            job = jobs.get(timeout=left) if left > 0 else jobs.get_nowait()
        except queue.Empty:
            break
        found.append(job)
        size += len(job.writing.body)
    return found


def _commit(batches: Batches, jobs: list[Job]) -> None:
    """Commit a batch, and answer."""

    def announce(ingest_id: str, results: list[Result]) -> None:
        for job, result in zip(jobs, results, strict=True):
            if not isinstance(result, ProblemFound):
                _answer(job, Announced(os.getpid(), ingest_id, result))

    try:
        snapshot_id, results = batches.commit([job.writing for job in jobs], announce)
    except Exception as error:
        problem = _problem_of(error)
        for job in jobs:
            _answer(job, problem)
        return
    for job, result in zip(jobs, results, strict=True):
        _answer(job, result if isinstance(result, ProblemFound) else Done(snapshot_id, result))


def _problem_of(error: Exception) -> ProblemFound:
    """Tell what kept a batch from being committed."""
    if isinstance(error, NotReadBack):
        logger.error("%s", error)
        appended = f"It was appended as snapshot {error.snapshot_id}, and could not be {error.failed}."
        told = f"{appended} Look whether it is there, then go on."
        return ProblemFound("data_retrieval_error", "/", told, status=503, headers={"Retry-After": "5"})
    refusal = storage_refusal(error)
    if refusal is not None:
        logger.error("a batch was not committed: %s", error)
        detail = f"Nothing was written: the storage of the catalog {refusal}, then ask again."
        return ProblemFound("", "/", detail, status=507, headers={"Retry-After": "60"})
    if isinstance(error, (LogWentBack, PartMissing)):
        logger.error("a batch was not committed: %s", error)
        return not_written(error)
    if isinstance(error, LakehouseError):
        logger.warning("a batch was not committed: %s", error)
        told = "Nothing was written; other writers were quicker, or the warehouse cannot be reached. Ask again."
        return ProblemFound("server_busy", "/", told, headers={"Retry-After": "1"})
    logger.exception("a batch was not committed")
    return ProblemFound("server_error", "/", "Nothing was written.")


def _answer(job: Job, answer: Announced | Done | ProblemFound) -> None:
    try:
        send_answer(job.link, answer)
    except (OSError, ValueError):
        logger.info("who asked for %s is gone", job.writing.path)
