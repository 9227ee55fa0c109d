"""The newest snapshot: loaded at the start, looked for a few times a second, and followed by one thread.

The newest snapshot that a process has seen must stay in the log: an older copy in its place is noticed (`LogSeen`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import NamedTuple

from lakehouse.errors import LakehouseError, WarehouseError, WarehouseTooNew
from lakehouse.readmodel import ReadModel, View
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.config import Options
from lakehouse.settings import Settings
from lakehouse.text.names import RegistryId

logger = logging.getLogger(__name__)
DEFAULT = RegistryId("default")
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_LOOKS_FAR_AWAY = 2.0  # on S3 a look opens Delta's logs
_SECONDS_AFTER_A_FAILURE = 5.0


class LogWentBack(LakehouseError):
    """The log no longer holds a snapshot that this process has seen."""

    def __init__(self, seen: int, head: int) -> None:
        result = f"snapshot {head} is its newest" if head < seen else f"it holds another snapshot {seen}"
        super().__init__(
            f"the catalog's log went back. This server has seen snapshot {seen}, and now {result}: an older copy was put in its "
            "place, or a file of it is gone. Put the newer one back (`lakehouse doctor` shows what is wrong); or, if the older "
            "one is what you want, restart the server."
        )


class LogSeen:
    """Knows the newest snapshot that a process has seen, by number and digest."""

    def __init__(self) -> None:
        self._number, self._digest = 0, ""

    def check(self, view: View) -> None:
        """Check that a snapshot is this one or a later one.

        Raises:
            LogWentBack: it does not.
        """
        number, digest = self._number, self._digest
        if number and (view.head < number or str(view.commit_of(number)["digest"]) != digest):
            raise LogWentBack(number, view.head)
        if view.head > number:
            self._number, self._digest = view.head, str(view.commit_of(view.head)["digest"])


def not_written(error: LakehouseError) -> ProblemFound:
    """Return the answer to a request that is not written as long as the log is as it is."""
    return ProblemFound("data_retrieval_error", "/", f"Nothing was written: {error}", status=503, headers={"Retry-After": "60"})


class ServedHead(NamedTuple):
    """The newest snapshot.

    Attributes:
        number: of the snapshot; 0: the catalog is empty.
        digest: that no other catalog had under this number.
        registries: ids, sorted.
    """

    number: int
    digest: str
    registries: tuple[RegistryId, ...]


class SnapshotWatcher:
    """Knows the newest snapshot; `head` is None until the first one is loaded.

    Attributes:
        root: the registry that `/` is, settled with the first snapshot; None: there are several, and none is named.
        is_empty: there is no catalog yet.
        went_back: the log lacks a snapshot that it had, and nothing is written.
    """

    def __init__(self, settings: Settings, options: Options) -> None:
        self.model = ReadModel(settings)
        self.head: ServedHead | None = None
        self.root = options.registry
        self.is_empty = False
        self.failure: str | None = None
        self.went_back: LogWentBack | None = None
        self._seen = LogSeen()
        self.on_new: Callable[[ServedHead], None] = lambda head: (
            None
        )  # is called, in the thread that follows, with each new snapshot
        self._stopped = threading.Event()
        self._wanted = threading.Event()
        self._news = threading.Condition()
        self._threads: list[threading.Thread] = []

    def load(self) -> ServedHead:
        """Load the newest snapshot; of a warehouse without a catalog, an empty one.

        Raises:
            WarehouseError: the warehouse cannot be read.
        """
        head = self._look()
        if head is not self.head and not self.is_empty:
            self._check_log()
        if self.head is None and self.root is None:
            registryids = head.registries or (DEFAULT,)
            self.root = registryids[0] if len(registryids) == 1 else DEFAULT if DEFAULT in registryids else None
        with self._news:
            self.head = head
            self._news.notify_all()
        return head

    def follow(self) -> None:
        """Watch for newer snapshots and for results of `match --into` from now on, each in a thread."""
        for target, name in ((self._follow, "lakehouse-follow"), (self._count, "lakehouse-count")):
            self._threads.append(threading.Thread(target=target, name=name, daemon=True))
            self._threads[-1].start()

    def await_snapshot(self, number: int, seconds: float) -> ServedHead | None:
        """Wait until the newest snapshot is this one or a later one; None: it took too long."""
        with self._news:
            if self.head is None or self.head.number < number:
                self._wanted.set()
            self._news.wait_for(lambda: self.head is not None and self.head.number >= number, seconds)
            return self.head if self.head is not None and self.head.number >= number else None

    def stop(self) -> None:
        """End the thread, and close the file."""
        self._stopped.set()
        self._wanted.set()
        for thread in self._threads:
            thread.join(5)
        self.model.close()

    @property
    def _pause(self) -> float:
        return _SECONDS_BETWEEN_LOOKS_FAR_AWAY if self.model.warehouse.is_remote else _SECONDS_BETWEEN_LOOKS

    def _count(self) -> None:
        """Count what was sent: of many events that takes long, and no snapshot waits for it."""
        self.model.traffic.refresh()
        while not self._stopped.wait(self._pause):
            self.model.traffic.refresh()

    def _follow(self) -> None:
        wait, reported = 0.0, None
        while True:
            self._wanted.wait(wait)
            self._wanted.clear()
            if self._stopped.is_set():
                return
            try:
                head = self.load()
                if head is not reported:
                    reported = head
                    self._report(head)
                self.failure, wait = None, self._pause
            except (LakehouseError, OSError) as error:  # what is known stays served
                if self.failure is None:
                    logger.warning("the warehouse cannot be followed: %s", error)
                self.failure, wait = str(error), _SECONDS_AFTER_A_FAILURE

    def _report(self, head: ServedHead) -> None:
        try:
            self.on_new(head)
        except Exception:  # an entity that cannot be shown costs its own requests, and never what follows the warehouse
            logger.exception("snapshot %d is served, but not all that follows it was done", head.number)

    def _check_log(self) -> None:
        try:
            self.model.answer(self._seen.check)
            self.went_back = None
        except LogWentBack as error:
            logger.error("nothing is written any more: %s", error)
            self.went_back = error

    def _look(self) -> ServedHead:
        try:
            self.model.refresh()
        except WarehouseTooNew:
            raise
        except WarehouseError as error:
            if not _is_missing(error):
                raise
            self.is_empty = True
            return ServedHead(0, "", ())
        # Another process may have brought the file forward: its content counts, and not who did it.
        newest = self.model.answer(lambda view: (view.head, str(view.facts["head_digest"])))
        if self.head is not None and self.head.number and not self.is_empty and newest == self.head[:2]:
            return self.head
        head = self.model.answer(
            lambda view: ServedHead(
                view.head, str(view.commit_of(view.head)["digest"]) if view.head else "", tuple(view.registries())
            )
        )
        self.is_empty = False
        return head


def _is_missing(error: WarehouseError) -> bool:
    """Return whether there is no catalog yet, and not one that cannot be read."""
    from deltalake.exceptions import TableNotFoundError

    return isinstance(error.__cause__, TableNotFoundError)
