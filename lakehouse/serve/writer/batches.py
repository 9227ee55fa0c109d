"""Requests that wait are applied one after the other, each accepted or refused alone, and committed together as one snapshot."""

from __future__ import annotations

import random
import sqlite3
import time
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from lakehouse.errors import CommitLost, LakehouseError
from lakehouse.log.commits import Run
from lakehouse.log.head import Head
from lakehouse.readmodel import ReadModel, View
from lakehouse.readmodel.file.build import Facts
from lakehouse.serve.logseen import LogSeen
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.apply import Outcome, apply
from lakehouse.serve.write.asked import Writing
from lakehouse.serve.write.working import Change, Working
from lakehouse.serve.writer.append import Appender
from lakehouse.store.durable import Durable
from lakehouse.text.timestamps import micros_of

_NO_DOCUMENTS = {"read": 0, "unchanged": 0, "skipped": 0, "rejected": 0}

_TRIES_TO_READ_BACK = 5
_SECONDS_BETWEEN_TRIES = 0.2
_SECONDS_AFTER_A_RACE = 0.1

Result = Outcome | ProblemFound


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
    changes: list[Change]
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

    def commit(self, writings: list[Writing], announce: Callable[[str, list[Result]], None]) -> tuple[int, list[Result]]:
        """Apply requests in their order, and commit what they do.

        Args:
            writings: the requests.
            announce: is told the id of the commit, and what each request comes to, before anything is committed.

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
                planned = self._plan(view, writings)
            self.model.warehouse.check_newest_parts("changes", planned.version)  # else it could not be read back
            if not planned.changes:
                self._sync(planned.head.snapshot_id)  # what it agrees with may be another writer's
                return planned.head.snapshot_id, planned.results
            snapshot_id = planned.head.snapshot_id + 1
            run = Run(uuid.uuid4().hex, "serve", _NO_DOCUMENTS, users=planned.users)
            announce(run.ingest_id, planned.results)
            failure: Exception | None = None
            try:
                self.appender.append(planned.head, planned.version, planned.committed_at, planned.changes, run)
            except Exception as error:
                failure = error
            # Whatever the append says, the log tells: it may fail after its commit, and another's commit may be in its place.
            if self._is_committed(snapshot_id, run.ingest_id):
                self._sync(snapshot_id)
                return snapshot_id, planned.results
            if failure is not None and not isinstance(failure, CommitLost):
                raise failure
            time.sleep(random.uniform(0, _SECONDS_AFTER_A_RACE))  # noqa: S311  two servers shall not keep step
        raise CommitLost(snapshot_id)

    def _sync(self, snapshot_id: int) -> None:
        """Let a snapshot, and all before it, be on the disk.

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

    def _plan(self, view: View, writings: list[Writing]) -> Planned:
        head = head_of(view)
        committed_at = head.next_moment()
        working = Working(view, micros_of(committed_at))
        results: list[Result] = []
        users: dict[str, str] = {}
        for writing in writings:
            mark = working.mark()
            try:
                results.append(apply(working, writing, self.model.settings))
            except ProblemFound as problem:
                results.append(problem)
                continue
            if writing.user is not None:
                users |= {f"{one.registryid} {(one.after or one.before).xid}": writing.user for one in working.since(mark)}  # type: ignore[union-attr]
        named = {*users.values()}
        told = {"": named.pop()} if len(named) == 1 else users
        version = Facts(view.db).known()["changes"].version
        return Planned(head, version, committed_at, results, list(working.changes()), told)


def head_of(view: View) -> Head:
    """Give the snapshot that a view reads, as the next one is planned against it."""
    if not view.snapshot_id:
        return Head()
    told: dict[str, Any] = view.commit_of(view.snapshot_id)
    moment = datetime.fromisoformat(told["committed_at"])
    return Head(view.snapshot_id, moment, told["digest"], told["tables"], told["deletions"])
