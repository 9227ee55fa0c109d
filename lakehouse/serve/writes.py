"""The requests that write, as they come over HTTP: their bodies, who may send them, and their answers."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lakehouse.serve.answer.asking import Answer, Asked
from lakehouse.serve.answer.flags import read_flags, read_parameters
from lakehouse.serve.answer.live import Head, Live
from lakehouse.serve.answer.pages import Pages
from lakehouse.serve.bodies import Bodies, Receive
from lakehouse.serve.options import Options
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import Target
from lakehouse.serve.shares import Shares
from lakehouse.serve.write.apply import methods_of
from lakehouse.serve.write.asked import Writing
from lakehouse.serve.write.draft import draft_methods_of
from lakehouse.serve.writer.client import Writers
from lakehouse.serve.writer.wire import Address, Done
from lakehouse.serve.written import written_answer
from lakehouse.text.names import RegistryId

_PARALLEL = 128  # requests that wait for the writer at once
_MOST_WAITING = 256  # that wait for their turn to do so
_SECONDS_TO_FOLLOW = 30.0


class Writes:
    """Has requests done by the writer."""

    def __init__(self, live: Live, options: Options, pages: Pages, address: Address, bodies: Bodies) -> None:
        self.live = live
        self.options = options
        self.pages = pages
        self.writers = Writers(address, live, options.request_seconds)
        self.threads = ThreadPoolExecutor(_PARALLEL, "lakehouse-write")
        self.shares = Shares(self.threads, _PARALLEL, _MOST_WAITING)
        self.bodies = bodies
        self._turn = threading.Lock()

    async def answer(
        self, method: str, asked: Asked, headers: dict[bytes, bytes], receive: Receive, client: str, user: str | None
    ) -> tuple[Answer, Asked]:
        """Have a request done, and answer it; it takes a place among those that wait once its body is whole.

        Args:
            method: one of `methods`.
            asked: the request.
            headers: as they came.
            receive: gives the body.
            client: whose share it takes.
            user: who asks.

        Raises:
            ProblemFound: nothing was written.
        """
        async with self.bodies.read(receive, client) as body:
            asked = replace(asked, arrived=time.monotonic())
            return await self.shares.run(client, lambda: self._done(method, asked, headers, body, user))

    @staticmethod
    def methods(target: Target) -> tuple[str, ...]:
        """Tell which methods write at what is asked for; the past is not written."""
        return () if target.at is not None else methods_at(target.parts, details=target.details)

    def close(self) -> None:
        """Wait for nobody any more."""
        self.threads.shutdown(wait=False, cancel_futures=True)

    def _done(
        self, method: str, asked: Asked, headers: dict[bytes, bytes], body: bytes, user: str | None
    ) -> tuple[Answer, Asked]:
        """Have a request done, in a thread of its own."""
        if time.monotonic() > asked.arrived + self.options.request_seconds:
            told = "It waited too long for its turn; nothing was written. Ask again."
            raise ProblemFound("server_busy", asked.target.path, told, headers={"Retry-After": "5"})
        head = self.live.head
        if head is None:
            raise ProblemFound("", status=503, detail="The catalog is being loaded.", headers={"Retry-After": "2"})
        parameters = read_parameters(asked.query)
        dialect = self.pages.meanings.dialect_of(parameters)
        read_flags(parameters, asked.target.parts, asked.target.path)  # nothing is written for an answer that cannot be given
        named = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in headers.items()
            if name.startswith(b"xregistry-") or name == b"content-type"
        }
        writing = Writing(
            method, asked.target.parts, asked.target.details, self._registry_of(asked, head), dialect, parameters, named, body,
            asked.base, user,
        )  # fmt: skip
        done = self.writers.write(writing)
        followed = self._followed(done)
        asked = replace(asked, arrived=time.monotonic())  # what was written is shown, however long that took
        with self._turn:  # a whole batch is answered at once: readers shall not wait for all of its threads
            return written_answer(self.pages, asked, done, followed), asked

    def _registry_of(self, asked: Asked, head: Head) -> RegistryId:
        """Find the registry that is meant; one that a mount names may be new."""
        if asked.target.registry is not None:
            return asked.target.registry
        return self.pages.meanings.registry_of(asked, head)

    def _followed(self, done: Done) -> Head:
        """Wait until the read model has a snapshot."""
        head = self.live.await_snapshot(done.snapshot_id, _SECONDS_TO_FOLLOW)
        if head is None:
            told = f"It was written, in snapshot {done.snapshot_id}, but this server does not see it yet."
            raise ProblemFound("data_retrieval_error", detail=told, status=503, headers={"Retry-After": "5"})
        return head


def methods_of_path(path: str) -> tuple[str, ...]:
    """Tell which methods write at a path of OpenAPI."""
    parts = tuple(path.removesuffix("$details").strip("/").split("/")) if path != "/" else ()
    return methods_at(parts, details=path.endswith("$details"))


def methods_at(parts: tuple[str, ...], *, details: bool = True) -> tuple[str, ...]:
    """Tell which methods write at a path.

    Args:
        parts: of the path.
        details: `$details` stands at its end; without, the document of a schema cannot be patched.
    """
    found = draft_methods_of(parts) or methods_of(parts)
    if not details and len(parts) in (4, 6) and parts[2] == "schemas":
        return tuple(method for method in found if method != "PATCH")
    return found
