"""The process that writes: takes requests from the processes of a server, and commits those that wait together.

`WriterSupervisor` starts it, again when it dies, and it ends with its server. Requests that wait are applied one after
the other, each accepted or refused alone, and committed together as one snapshot. The process may end at any time, by kill -9
too: a commit is one append, and the server finds out whether it was made (`writerclient`). The entity tables follow: a Spark
session next to the writer updates them, once for many commits.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import queue
import random
import secrets
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from multiprocessing.connection import Connection, Listener
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.errors import CommitLost, LakehouseError, PartMissing, WarehouseError
from lakehouse.log.commits import CommitInfo
from lakehouse.log.snapshotfacts import Head
from lakehouse.log.writerlock import no_turn_of_others
from lakehouse.readmodel import ReadModel, View
from lakehouse.readmodel.file.build import Facts
from lakehouse.serve.answer.live import LogSeen, LogWentBack, not_written
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.write.apply import WriteOutcome, apply
from lakehouse.serve.write.overlay import CatalogOverlay, OverlayChange
from lakehouse.serve.write.writerequest import WriteRequest
from lakehouse.serve.writer.append import Appender, DeltaAppender, SparkAppender, admits_delta_rs, storage_refusal
from lakehouse.serve.writer.wire import Announced, Done, WriterAddress, receive_writing, send_answer
from lakehouse.settings import Settings
from lakehouse.store.durable import Durable
from lakehouse.text.timestamps import micros_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)

_SECONDS_AFTER_A_FAILURE = 10.0
_NICENESS_OF_TABLES = 10  # readers and writers come first
_NO_DOCUMENTS = {"read": 0, "unchanged": 0, "skipped": 0, "rejected": 0}
_TRIES_TO_READ_BACK = 5
_SECONDS_BETWEEN_TRIES = 0.2
_SECONDS_AFTER_A_RACE = 0.1
Result = WriteOutcome | ProblemFound
_SECONDS_GATHERED = 0.02  # while several clients write
_SECONDS_ALONE = 0.005
_MOST_REQUESTS = 500
_MOST_BYTES = 64 << 20
_SECONDS_OF_A_TURN = 30.0  # of an ingest that was not as quick as this one
_NICENESS = 5  # readers come first
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_AFTER_DEATH = 1.0


class Tables:
    """Brings the tables forward in its own thread; Spark starts with the first need of it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._session: SparkSession | None = None
        self._guard = threading.Lock()
        self._wanted = threading.Event()

    def session(self) -> SparkSession:
        """Return the Spark session, with the tables attached.

        Raises:
            JavaNotFound: Java is missing.
        """
        with self._guard:
            if self._session is None:
                from lakehouse.store.deltatables import attach_log, create_tables
                from lakehouse.store.session import open_session

                spark = open_session(self.settings)
                if not attach_log(spark, self.settings):
                    create_tables(spark, self.settings)
                self._session = spark
            return self._session

    def create(self) -> None:
        """Make the tables of a new warehouse."""
        self.session()

    def follow(self) -> None:
        """Begin to follow."""
        threading.Thread(target=self._follow, name="lakehouse-tables", daemon=True).start()

    def bring(self) -> None:
        """Have the tables rolled forward to what is committed now."""
        self._wanted.set()

    def _follow(self) -> None:
        if sys.platform == "linux":  # elsewhere it would be that of the whole process
            os.nice(_NICENESS_OF_TABLES)
        stop, reported = threading.Event(), ""
        while True:
            self._wanted.wait()
            self._wanted.clear()
            try:
                self._roll()
                reported = ""
            except LakehouseError as error:
                if str(error) != reported:  # once, and not after each commit
                    reported = str(error)
                    logger.warning("the tables do not follow: %s", error)
                stop.wait(_SECONDS_AFTER_A_FAILURE)
            except Exception:
                logger.exception("the tables do not follow")
                stop.wait(_SECONDS_AFTER_A_FAILURE)
                self._wanted.set()

    def _roll(self) -> None:
        from lakehouse.log.commits import read_head
        from lakehouse.log.projections import find_lagging, roll_forward
        from lakehouse.store.deltatables import create_tables, is_small
        from lakehouse.store.session import without_codegen

        spark = self.session()
        with without_codegen(spark, is_small(spark, self.settings)):
            head = read_head(spark)
            if find_lagging(spark, head, settings=self.settings):
                create_tables(spark, self.settings)
                roll_forward(spark, head, settings=self.settings)


class NotReadBack(LakehouseError):
    """A batch was appended, and what the log holds now cannot be read, or not be written through to the disk.

    Attributes:
        snapshot_id: as which it was appended.
        failed: what could not be done then.
    """

    def __init__(self, snapshot_id: int, reason: str, failed: str = "read back") -> None:
        super().__init__(f"snapshot {snapshot_id} was appended, and cannot be {failed}: {reason}")
        self.snapshot_id = snapshot_id
        self.failed = failed


class Planned(NamedTuple):
    """A batch that was applied to a snapshot, and is not committed yet."""

    head: Head
    version: int
    committed_at: datetime
    results: list[Result]
    changes: list[OverlayChange]
    users: dict[str, str]


class Batches:
    """Commits batches of requests."""

    def __init__(self, model: ReadModel, appender: Appender, *, attempts: int) -> None:
        self.model = model
        self.appender = appender
        self.attempts = attempts
        self._durable = Durable(f"{model.location}/changes", model.settings)
        self._seen = LogSeen()
        model.answer(self._seen.check)

    def commit(self, requests: list[WriteRequest], announce: Callable[[str, list[Result]], None]) -> tuple[int, list[Result]]:
        """Apply requests in their order, and commit what they do.

        Args:
            requests: the requests.
            announce: is called with the id of the commit, and what each request comes to, before anything is committed.

        Returns:
            The snapshot that has what they did, and what each came to.

        Raises:
            CommitLost: other writers won the race more often than `attempts`; nothing was written.
            LogWentBack: the log lacks a snapshot that it had; nothing was written.
            WarehouseError: the log cannot be read; nothing was written.
            NotReadBack: whether it was written is not known.
        """
        snapshot_id = 0
        for _ in range(self.attempts):
            self.model.refresh()
            with self.model.at() as view:
                self._seen.check(view)
                planned = self._plan(view, requests)
            self.model.warehouse.check_newest_parts("changes", planned.version)  # else it could not be read back
            if not planned.changes:
                self._sync(planned.head.snapshot_id)  # what it agrees with may be another writer's
                return planned.head.snapshot_id, planned.results
            snapshot_id = planned.head.snapshot_id + 1
            run = CommitInfo(uuid.uuid4().hex, "serve", _NO_DOCUMENTS, users=planned.users)
            announce(run.ingest_id, planned.results)
            failure: Exception | None = None
            try:
                self.appender.append(planned.head, planned.version, planned.committed_at, planned.changes, run)
            except Exception as error:
                failure = error
            # Whatever the append reports, the log decides: it may fail after its commit, and another commit may be in its place.
            if self._is_committed(snapshot_id, run.ingest_id):
                self._sync(snapshot_id)
                return snapshot_id, planned.results
            if failure is not None and not isinstance(failure, CommitLost):
                raise failure
            time.sleep(random.uniform(0, _SECONDS_AFTER_A_RACE))  # noqa: S311  two servers shall not keep step
        raise CommitLost(snapshot_id)

    def _sync(self, snapshot_id: int) -> None:
        """Sync a snapshot, and all before it, to the disk.

        Raises:
            NotReadBack: it is not, and nobody may hear that it was written.
        """
        try:
            self._durable.sync_commits()
        except OSError as error:
            raise NotReadBack(snapshot_id, str(error), "synced to the disk") from error

    def _is_committed(self, snapshot_id: int, ingest_id: str) -> bool:
        """Read back whose commit a snapshot is.

        Raises:
            NotReadBack: it cannot be read.
        """
        for attempt in range(_TRIES_TO_READ_BACK):
            try:
                self.model.refresh()
                with self.model.at() as view:
                    self._seen.check(view)
                    return view.head >= snapshot_id and view.commit_of(snapshot_id).get("ingest_id") == ingest_id
            except (LakehouseError, OSError, sqlite3.Error) as error:
                if attempt + 1 == _TRIES_TO_READ_BACK:
                    raise NotReadBack(snapshot_id, str(error)) from error
                time.sleep(_SECONDS_BETWEEN_TRIES)
        raise AssertionError("at least one try")

    def _plan(self, view: View, requests: list[WriteRequest]) -> Planned:
        head = head_of(view)
        committed_at = head.next_moment()
        overlay = CatalogOverlay(view, micros_of(committed_at))
        results: list[Result] = []
        users: dict[str, str] = {}
        for write_request in requests:
            mark = overlay.mark()
            results.append(self._apply(overlay, write_request))
            if write_request.user is not None:
                users |= {
                    f"{change.registryid} {(change.after or change.before).xid}": write_request.user  # type: ignore[union-attr]
                    for change in overlay.since(mark)
                }
        named = {*users.values()}
        by_user = {"": named.pop()} if len(named) == 1 else users
        version = Facts(view.db).table_versions()["changes"].version
        return Planned(head, version, committed_at, results, list(overlay.changes()), by_user)

    def _apply(self, overlay: CatalogOverlay, write_request: WriteRequest) -> Result:
        """Apply a request of a batch; one that cannot be planned at all fails alone."""
        try:
            return apply(overlay, write_request, self.model.settings)
        except ProblemFound as problem:
            return problem
        except (LakehouseError, OSError, sqlite3.Error):  # of the catalog, and not of the request
            raise
        except Exception:
            logger.exception("%s %s cannot be planned", write_request.method, write_request.path)
            return ProblemFound("server_error", write_request.path, "Nothing was written.")


def head_of(view: View) -> Head:
    """Return the snapshot that a view reads, as the next one is planned against it."""
    if not view.snapshot_id:
        return Head()
    commit: dict[str, Any] = view.commit_of(view.snapshot_id)
    moment = datetime.fromisoformat(commit["committed_at"])
    return Head(view.snapshot_id, moment, commit["digest"], commit["tables"], commit["deletions"])


class Job(NamedTuple):
    """A request, and where its answer goes."""

    write_request: WriteRequest
    link: Connection


def run_writer(settings: Settings, address: WriterAddress, parent: int) -> None:
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
    results = [jobs.get()]
    until, size = time.monotonic() + seconds, len(results[0].write_request.body)
    while len(results) < _MOST_REQUESTS and size < _MOST_BYTES:
        left = until - time.monotonic()
        try:
            job = jobs.get(timeout=left) if left > 0 else jobs.get_nowait()
        except queue.Empty:
            break
        results.append(job)
        size += len(job.write_request.body)
    return results


def _commit(batches: Batches, jobs: list[Job]) -> None:
    """Commit a batch, and answer."""

    def announce(ingest_id: str, results: list[Result]) -> None:
        for job, result in zip(jobs, results, strict=True):
            if not isinstance(result, ProblemFound):
                _answer(job, Announced(os.getpid(), ingest_id, result))

    try:
        snapshot_id, results = batches.commit([job.write_request for job in jobs], announce)
    except Exception as error:
        problem = _problem_of(error)
        for job in jobs:
            _answer(job, problem)
        return
    for job, result in zip(jobs, results, strict=True):
        _answer(job, result if isinstance(result, ProblemFound) else Done(snapshot_id, result))


def _problem_of(error: Exception) -> ProblemFound:
    """Return what kept a batch from being committed."""
    if isinstance(error, NotReadBack):
        logger.error("%s", error)
        appended = f"It was appended as snapshot {error.snapshot_id}, and could not be {error.failed}."
        outcome = f"{appended} Look whether it is there, then go on."
        return ProblemFound("data_retrieval_error", "/", outcome, status=503, headers={"Retry-After": "5"})
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
        outcome = "Nothing was written; other writers were quicker, or the warehouse cannot be reached. Ask again."
        return ProblemFound("server_busy", "/", outcome, headers={"Retry-After": "1"})
    logger.exception("a batch was not committed")
    return ProblemFound("server_error", "/", "Nothing was written.")


def _answer(job: Job, answer: Announced | Done | ProblemFound) -> None:
    try:
        send_answer(job.link, answer)
    except (OSError, ValueError):
        logger.info("who asked for %s is gone", job.write_request.path)


class WriterSupervisor:
    """Keeps a writer running.

    Attributes:
        address: where it listens, also after it was started again.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._folder = tempfile.TemporaryDirectory(prefix="lakehouse-write-")
        self.address = WriterAddress(str(Path(self._folder.name) / "writer"), secrets.token_bytes(32))
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
