"""What a process of the server and the one that writes say to each other over a local socket.

A message is JSON, and for a request its body behind it. The writer answers a request once or twice: before a commit with its id
and what the request comes to (`announced`), and at the end with the snapshot, or with the error.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import orjson

from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.write.apply import WriteOutcome
from lakehouse.serve.write.writerequest import WriteRequest


class WriterAddress(NamedTuple):
    """Where the writer listens, and what opens it."""

    path: str
    key: bytes


class Announced(NamedTuple):
    """A request is about to be committed: by which process, in which commit, and what it comes to."""

    pid: int
    ingest_id: str
    outcome: WriteOutcome


class Done(NamedTuple):
    """A request was committed, or needed no commit: the snapshot that has it."""

    snapshot_id: int
    outcome: WriteOutcome


def send_writing(link: Connection, write_request: WriteRequest) -> None:
    """Send a request."""
    members = write_request._asdict() | {"body": None}
    link.send_bytes(orjson.dumps(members))
    link.send_bytes(write_request.body)


def receive_writing(link: Connection) -> WriteRequest:
    """Receive a request.

    Raises:
        EOFError: the other side is gone.
    """
    members = orjson.loads(link.recv_bytes())
    body = link.recv_bytes()
    members |= {"parts": tuple(members["parts"]), "parameters": [tuple(pair) for pair in members["parameters"]], "body": body}
    return WriteRequest(**members)


def send_answer(link: Connection, answer: Announced | Done | ProblemFound) -> None:
    """Send what came of a request."""
    if isinstance(answer, ProblemFound):
        link.send_bytes(orjson.dumps({"problem": answer.as_record()}))
    else:
        name = "announced" if isinstance(answer, Announced) else "done"
        link.send_bytes(orjson.dumps({name: answer._asdict() | {"outcome": answer.outcome._asdict()}}))


def receive_answer(link: Connection) -> Announced | Done | ProblemFound:
    """Receive what came of a request.

    Raises:
        EOFError: the other side is gone.
    """
    members: dict[str, Any] = orjson.loads(link.recv_bytes())
    if "problem" in members:
        return ProblemFound.of_record(members["problem"])
    kind = Announced if "announced" in members else Done
    fields = members["announced" if "announced" in members else "done"]
    return kind(**fields | {"outcome": WriteOutcome(**fields["outcome"])})
