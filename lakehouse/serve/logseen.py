"""The newest snapshot that a process has seen stays in the log: an older copy that is put in its place is noticed.

Snapshots that were acknowledged would get their numbers a second time, with other contents: ETags, events and copies of other
catalogs would speak of snapshots that never were. So nothing is written until the log is back, or the server is started again.
"""

from __future__ import annotations

from lakehouse.errors import LakehouseError
from lakehouse.readmodel import View
from lakehouse.serve.problems import ProblemFound


class LogWentBack(LakehouseError):
    """The log no longer holds a snapshot that this process has seen."""

    def __init__(self, seen: int, head: int) -> None:
        found = f"snapshot {head} is its newest" if head < seen else f"it holds another snapshot {seen}"
        super().__init__(
            f"the catalog's log went back. This server has seen snapshot {seen}, and now {found}: an older copy was put in its "
            "place, or a file of it is gone. Put the newer one back (`lakehouse doctor` shows what is wrong); or, if the older "
            "one is what you want, restart the server."
        )


class LogSeen:
    """Knows the newest snapshot that a process has seen, by number and digest."""

    def __init__(self) -> None:
        self._number, self._digest = 0, ""

    def check(self, view: View) -> None:
        """See a snapshot, which must be that one or follow it.

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
