"""Conflicts: what Delta says of a commit that another one was quicker than. The exceptions share no base class: each is named."""

from __future__ import annotations

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
    """Tell a conflict from other errors; what fails in a thread of Delta's own reaches Python as an error of Java."""
    if isinstance(error, CONFLICTS):
        return True
    return isinstance(error, Py4JJavaError) and any(f"io.delta.exceptions.{one.__name__}" in str(error) for one in CONFLICTS)
