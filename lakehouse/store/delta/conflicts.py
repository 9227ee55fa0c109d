"""Commits that another one was quicker than: what Delta says of them, and trying again."""

from __future__ import annotations

from collections.abc import Callable

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from lakehouse.errors import CommitLost

# They share no base class.
CONFLICTS = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    MetadataChangedException,
    ProtocolChangedException,
)


def is_conflict(error: BaseException) -> bool:
    """Return whether an error is a conflict with another writer.

    What fails in a thread of Delta's own reaches Python as an error of Java, or as one of Spark that a conflict caused.
    """
    if isinstance(error, CONFLICTS):
        return True
    if isinstance(error, Py4JJavaError):
        return any(f"io.delta.exceptions.{exception.__name__}" in str(error) for exception in CONFLICTS)
    cause = getattr(error, "_cause", None) if isinstance(error, PySparkException) else None
    return cause is not None and is_conflict(cause)


def is_lost(error: BaseException) -> bool:
    """Return whether a snapshot was not committed because another writer took its number."""
    return isinstance(error, CommitLost)


def retries(attempts: int, again: Callable[[BaseException], bool] = is_conflict) -> Retrying:
    """Return the attempts at work that a conflict may end; the last error is raised unchanged."""
    wait = wait_random_exponential(multiplier=0.5, max=10)
    return Retrying(retry=retry_if_exception(again), stop=stop_after_attempt(attempts), wait=wait, reraise=True)
