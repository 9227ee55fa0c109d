"""The requests that write, as they come over HTTP: their bodies and their answers. Who may send them: `auth` and `origins`.

A request that wrote is answered with what it wrote, as a GET shows it, from the snapshot that has it.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from lakehouse.serve.answer.entityviews import keyed, unmarked
from lakehouse.serve.answer.exchange import ApiAnswer, ApiRequest, ReadRequest, header_value
from lakehouse.serve.answer.live import ServedHead, SnapshotWatcher
from lakehouse.serve.answer.nested import Answers
from lakehouse.serve.answer.queryparameters import read_flags, read_parameters
from lakehouse.serve.answer.reads import ReadHandler, entity_answers
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.clientlimits import Bodies, Receive, Shares
from lakehouse.serve.config import Options
from lakehouse.serve.targets import DETAILS, RequestTarget, quote_path
from lakehouse.serve.write.apply import WriteOutcome, methods_of
from lakehouse.serve.write.operations import draft_methods_of
from lakehouse.serve.write.writerequest import WriteRequest
from lakehouse.serve.writer.wire import Done, WriterAddress
from lakehouse.serve.writer.writerclient import Writers
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of

logger = logging.getLogger(__name__)
_PARALLEL = 128  # requests that wait for the writer at once
_MOST_WAITING = 256  # that wait for their turn to do so
_CONDITIONS = frozenset({b"if-match", b"if-none-match", b"if-unmodified-since"})
_SECONDS_TO_FOLLOW = 30.0


def written_answer(pages: ReadHandler, api_request: ApiRequest, done: Done, head: ServedHead) -> ApiAnswer:
    """Answer a request that wrote.

    Args:
        pages: what answers.
        api_request: the request.
        done: what it did, in a snapshot that the read model has.
        head: the newest snapshot.

    Raises:
        ProblemFound: what was written cannot be shown.
    """
    outcome, number = done.outcome, done.snapshot_id
    if outcome.shows == "nothing":
        return ApiAnswer(204, body=b"", media_type="", snapshot=number)
    if number in (0, head.number):
        key = head.digest if number else ""
    else:
        key = pages.live.model.answer(lambda view: str(view.commit_of(number)["digest"]))
    if outcome.shows == "entity":
        return _entity(pages, api_request, outcome, head, number, key)

    def collections(request: ReadRequest) -> ApiAnswer:
        if outcome.shows == "collection":
            return _json(request, _members(request, entity_answers(request), api_request.target.parts, outcome.xids))
        parts = []
        for collection in sorted({xid.rsplit("/", 2)[1] for xid in outcome.xids}):
            xids = [xid for xid in outcome.xids if xid.rsplit("/", 2)[1] == collection]
            text = _members(request, entity_answers(request), (*api_request.target.parts, collection), xids)
            parts.append(keyed(collection) + text)
        return _json(request, b"{" + b",".join(parts) + b"}")

    return pages.answer_at(api_request, head, number, key, collections)


def _entity(
    pages: ReadHandler, api_request: ApiRequest, outcome: WriteOutcome, head: ServedHead, number: int, key: str
) -> ApiAnswer:
    shown = ApiRequest(_written(api_request, outcome), api_request.query, api_request.raw_path, api_request.origin)
    answer = pages.answer_at(shown, head, number, key, pages.answered)
    if answer.status == 200 and outcome.created:
        answer.status = 201
    if outcome.created:
        answer.headers["Location"] = _url(shown.target, api_request.base)
    if outcome.version is not None:
        version = RequestTarget(None, None, tuple(outcome.version[1:].split("/")), "", api_request.target.details)
        answer.headers["Content-Location"] = _url(version, api_request.base)
    return answer


def _written(api_request: ApiRequest, outcome: WriteOutcome) -> RequestTarget:
    """Return the entity that a request wrote."""
    xid = outcome.xids[0]
    return api_request.target._replace(parts=tuple(xid[1:].split("/")) if xid != "/" else ())


def _url(target: RequestTarget, base: str) -> str:
    details = DETAILS if target.details and "schemas" in target.parts else ""
    return header_value(base + quote_path(target.path) + details)


def _members(request: ReadRequest, answers: Answers, parts: tuple[str, ...], xids: list[Xid]) -> bytes:
    """Write the members of a collection that were processed."""
    wanted = {last_id(xid) for xid in xids}
    if len(parts) == 1:
        return answers.groups(parts[0], lambda results: [result for result in results if result.entity.id in wanted])
    parent = xid_of(*parts[:-1])
    if len(parts) == 3:
        group = request.catalog.group(parent)
        if group is None:
            raise ProblemFound("not_found", parent)

        def of_entries(entries: list[Any]) -> list[Any]:
            return [entry for entry in entries if entry.id in wanted]

        return answers.resources(group, of_entries)
    resource = request.catalog.resource(parent)
    if resource is None:
        raise ProblemFound("not_found", parent)
    return answers.versions(resource, lambda results: [result for result in results if result.entity["versionid"] in wanted])


def _json(request: ReadRequest, text: bytes) -> ApiAnswer:
    return ApiAnswer(body=unmarked(text, request.api_request.base, request.api_request.target.path))


def _refuse_conditions(headers: dict[bytes, bytes], path: str) -> None:
    """Refuse a write that holds for an ETag alone (RFC 9110, 13.2): it is not compared, and to ignore it could lose data.

    Raises:
        ProblemFound: there is such a header.
    """
    for name in _CONDITIONS & headers.keys():
        detail = f"the header {name.decode().title()} is not supported for writes; send `epoch`, which is compared"
        raise ProblemFound("bad_request", path, error_detail=detail)


class Writes:
    """Has requests done by the writer."""

    def __init__(
        self, live: SnapshotWatcher, options: Options, pages: ReadHandler, address: WriterAddress, bodies: Bodies
    ) -> None:
        self.live = live
        self.options = options
        self.pages = pages
        self.writers = Writers(address, live, options.request_seconds)
        self.threads = ThreadPoolExecutor(_PARALLEL, "lakehouse-write")
        self.shares = Shares(self.threads, _PARALLEL, _MOST_WAITING)
        self.bodies = bodies
        self._turn = threading.Lock()

    async def answer(
        self, method: str, api_request: ApiRequest, headers: dict[bytes, bytes], receive: Receive, client: str, user: str | None
    ) -> tuple[ApiAnswer, ApiRequest]:
        """Apply a request and return its answer; it joins the queue once its body is complete.

        Args:
            method: one of `methods`.
            api_request: the request.
            headers: as they came.
            receive: gives the body.
            client: whose share it takes.
            user: who asks.

        Raises:
            ProblemFound: nothing was written.
        """
        async with self.bodies.read(receive, client) as body:
            api_request = replace(api_request, arrived=time.monotonic())
            return await self.shares.run(client, lambda: self._done(method, api_request, headers, body, user))

    @staticmethod
    def methods(target: RequestTarget) -> tuple[str, ...]:
        """Return which methods write at what is asked for; the past is not written."""
        return () if target.at is not None else methods_at(target.parts, details=target.details)

    def close(self) -> None:
        """Wait for nobody any more."""
        self.threads.shutdown(wait=False, cancel_futures=True)

    def _done(
        self, method: str, api_request: ApiRequest, headers: dict[bytes, bytes], body: bytes, user: str | None
    ) -> tuple[ApiAnswer, ApiRequest]:
        """Apply a request in its own thread."""
        if time.monotonic() > api_request.arrived + self.options.request_seconds:
            detail = "It waited too long for its turn; nothing was written. Ask again."
            raise ProblemFound("server_busy", api_request.target.path, detail, headers={"Retry-After": "5"})
        head = self.live.head
        if head is None:
            raise ProblemFound("", status=503, detail="The catalog is being loaded.", headers={"Retry-After": "2"})
        parameters = read_parameters(api_request.query)
        dialect = self.pages.meanings.dialect_of(parameters)
        _refuse_conditions(headers, api_request.target.path)
        _check_flags(parameters, api_request.target)
        named = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in headers.items()
            if name.startswith(b"xregistry-") or name == b"content-type"
        }
        target = api_request.target
        write_request = WriteRequest(
            method=method,
            parts=target.parts,
            details=target.details,
            registryid=self._registry_of(method, api_request, head),
            dialect=dialect,
            parameters=parameters,
            headers=named,
            body=body,
            base=api_request.base,
            user=user,
        )
        done = self.writers.write(write_request)
        followed = self._followed(done)
        api_request = replace(api_request, arrived=time.monotonic())  # what was written is shown, however long that took
        with self._turn:  # a whole batch is answered at once: readers shall not wait for all of its threads
            return self._shown(api_request, done, followed), api_request

    def _shown(self, api_request: ApiRequest, done: Done, head: ServedHead) -> ApiAnswer:
        """Answer a request that wrote, which is no error any more: at least without `inline`, else without a body.

        Not shown is what another request of the same snapshot deleted, or what is too large.
        """
        without_inline = b"&".join(pair for pair in api_request.query.split(b"&") if pair.partition(b"=")[0] != b"inline")
        for query in dict.fromkeys((api_request.query, without_inline)):
            try:
                return written_answer(self.pages, replace(api_request, query=query), done, head)
            except ProblemFound as problem:
                logger.info("%s was written, and cannot be shown: %s", api_request.target.path, problem)
        created = done.outcome.created and done.outcome.shows == "entity"
        answer = ApiAnswer(201 if created else 204, body=b"", media_type="", snapshot=done.snapshot_id)
        if created:
            answer.headers["Location"] = _url(_written(api_request, done.outcome), api_request.base)
        return answer

    def _registry_of(self, method: str, api_request: ApiRequest, head: ServedHead) -> RegistryId:
        """Find the registry that is meant; one that a mount names may be new, unless something in it is deleted.

        Raises:
            ProblemFound: there is none.
        """
        if api_request.target.registry is not None and method != "DELETE":
            return api_request.target.registry
        return self.pages.meanings.registry_of(api_request, head)

    def _followed(self, done: Done) -> ServedHead:
        """Wait until the read model has a snapshot."""
        head = self.live.await_snapshot(done.snapshot_id, _SECONDS_TO_FOLLOW)
        if head is None:
            detail = f"It was written, in snapshot {done.snapshot_id}, but this server does not see it yet."
            raise ProblemFound("data_retrieval_error", detail=detail, status=503, headers={"Retry-After": "5"})
        return head


def _check_flags(parameters: list[tuple[str, str]], target: RequestTarget) -> None:
    """Make sure that a request can be answered with what it writes: nothing is written for an answer that cannot be given.

    Raises:
        ProblemFound: a flag is malformed or does not go with the path, or a filter might leave out what is written.
    """
    flags = read_flags(parameters, target.parts, target.path)
    if flags.filters or flags.excludes_all:
        detail = "The answer to a write is what was written. Filter what GET answers."
        raise ProblemFound("bad_flag", target.path, detail, flag="filter")


def methods_of_path(path: str) -> tuple[str, ...]:
    """Return which methods write at a path of OpenAPI."""
    parts = tuple(path.removesuffix("$details").strip("/").split("/")) if path != "/" else ()
    return methods_at(parts, details=path.endswith("$details"))


def methods_at(parts: tuple[str, ...], *, details: bool = True) -> tuple[str, ...]:
    """Return which methods write at a path.

    Args:
        parts: of the path.
        details: `$details` is at its end; without, the document of a schema cannot be patched.
    """
    results = draft_methods_of(parts) or methods_of(parts)
    if not details and len(parts) in (4, 6) and parts[2] == "schemas":
        return tuple(method for method in results if method != "PATCH")
    return results
