"""The ASGI application: who may ask, what is ready already, and how an answer is sent.

An answer has the headers that caches need, and its body compressed where that is worth it; it is kept as bytes until there is a
newer snapshot. One that is not ready is made in a worker thread. Written for ASGI itself: in one run in one process, a ready
answer took 29 us, and 109 us by a route and the middlewares of Starlette (CORS, GZip); a compressed one 65 us, and 1.7 ms there,
as that middleware compresses each time. Starlette has the paths that are rare (`lakehouse.serve.answer.extraroutes`).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import re
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
from starlette.applications import Starlette
from starlette.routing import Route

from lakehouse.errors import DefinitionNotYet, MessageNotFound, WarehouseError
from lakehouse.serve.answer.changes import EventStreams
from lakehouse.serve.answer.exchange import JSON, ApiAnswer, ApiRequest
from lakehouse.serve.answer.live import ServedHead, SnapshotWatcher
from lakehouse.serve.answer.reads import ReadHandler, bare_page, is_of_pages
from lakehouse.serve.apierrors import REGISTRY_TYPE, ProblemFound, error_body
from lakehouse.serve.auth import Guard
from lakehouse.serve.clientlimits import Bodies, Shares
from lakehouse.serve.config import Options
from lakehouse.serve.monitoring import Metrics, state_routes
from lakehouse.serve.origins import Origins, Send, protecting
from lakehouse.serve.subjects.registryapi import allowed_methods
from lakehouse.serve.targets import RequestTarget, read_target
from lakehouse.settings import Settings
from lakehouse.site.served import HEADERS
from lakehouse.site.templating import MEDIA_TYPES

if TYPE_CHECKING:
    from lakehouse.serve.agentendpoint import AgentEndpoint
    from lakehouse.serve.subscriptions.subscriptionapi import Subscriptions
    from lakehouse.serve.writeendpoint import Writes
    from lakehouse.serve.writer.wire import WriterAddress


_WORTH_COMPRESSING = 1024
_COMPRESSION = 4
_AT_ONCE = 256 << 10  # bytes that are sent before the client has to take some
_BYTES_OF_AN_ANSWER = 1000  # of memory for the objects that hold it and its key, besides what is in them
_BYTES_OF_A_HEADER = 150  # two texts and a tuple
_FOREVER = "max-age=31536000, immutable"
logger = logging.getLogger(__name__)
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
METHODS = "GET, HEAD, OPTIONS"
_REQUESTED_HEADERS = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~, -]{1,1000}")
_OF_PROXIES = "x-forwarded-"  # headers that a page may not send: they say which origin is the server's
_MOST_WAITING = 200
_ARRIVED = "lakehouse.arrived"  # in a scope: when the request came, by the monotonic clock


class CachedResponse(NamedTuple):
    """An answer as it is sent: status, headers, body; and the body compressed, where that is worth it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    etag: bytes
    packed: bytes | None


def with_etag(answer: ApiAnswer, api_request: ApiRequest) -> CachedResponse:
    """Write an answer's headers, and what caches need."""
    headers = dict(answer.headers)
    root = f"<{api_request.base}>;rel=xregistry-root"
    headers["Link"] = f"{headers['Link']}, {root}" if "Link" in headers else root
    is_past = api_request.target.at is not None and answer.status in (200, 303)
    digest = hashlib.blake2b(answer.body + repr(sorted(headers.items())).encode(), digest_size=12).hexdigest()
    etag = f'"s{answer.snapshot}-{digest}"' if is_past else f'"{digest}"'
    headers.setdefault("Cache-Control", _FOREVER if is_past else "no-cache")
    headers["ETag"] = etag
    headers["Vary"] = "Accept, Accept-Encoding, Host" if api_request.target.path == "/" else "Accept-Encoding, Host"
    if answer.snapshot is not None:
        headers["Lakehouse-Snapshot"] = str(answer.snapshot)
    if answer.media_type and answer.status != 307:
        headers["Content-Type"] = answer.media_type
    packed = gzip.compress(answer.body, _COMPRESSION, mtime=0) if len(answer.body) >= _WORTH_COMPRESSING else None
    written = [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return CachedResponse(answer.status, written, answer.body, etag.encode(), packed)


def as_sent(ready: CachedResponse, headers: dict[bytes, bytes], method: str) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Return status, headers and body for one client: 304 where it holds the answer already, compressed where it takes that."""
    is_read = method in ("GET", "HEAD") and ready.status == 200
    if is_read and headers.get(b"if-none-match") and matches(headers[b"if-none-match"], ready.etag):
        unmodified = [header for header in ready.headers if header[0] not in (b"content-type", b"content-disposition")]
        return 304, unmodified, b""
    body, more = ready.body, list(ready.headers)
    if ready.packed is not None and b"gzip" in headers.get(b"accept-encoding", b"") and takes_gzip(headers):
        body = ready.packed
        more = [(n, v) if n != b"etag" else (n, v[:-1] + b'-gzip"') for n, v in more] + [(b"content-encoding", b"gzip")]
    if ready.status not in (204, 304):
        more.append((b"content-length", b"%d" % len(body)))
    return ready.status, more, body


def matches(header: bytes, etag: bytes) -> bool:
    """Return whether a client holds what it would be sent (weakly compared, RFC 9110)."""
    plain = etag.strip(b'"')
    return any(tag.strip().removeprefix(b"W/").strip(b'"').removesuffix(b"-gzip") in (plain, b"*") for tag in header.split(b","))


def takes_gzip(headers: dict[bytes, bytes]) -> bool:
    """Return whether a client takes a compressed body."""
    for coding in headers[b"accept-encoding"].split(b","):
        name, _, quality = coding.partition(b";")
        if name.strip() == b"gzip":
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False


async def send_answer(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes, seconds: float) -> None:
    """Send an answer; a large one in parts, each of which the client has to take within some seconds.

    Raises:
        ConnectionAbortedError: it does not.
    """
    if len(body) <= _AT_ONCE:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
        return
    with anyio.move_on_after(seconds) as limit:
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for start in range(0, len(body), _AT_ONCE):
            limit.deadline = anyio.current_time() + seconds
            part = {"type": "http.response.body", "body": body[start : start + _AT_ONCE]}
            await send(part | {"more_body": start + _AT_ONCE < len(body)})
    if limit.cancelled_caught:
        raise ConnectionAbortedError("the client does not take its answer")


class ResponseCache:
    """Answers of the newest snapshot, kept as bytes; those that were asked for last, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._ready: OrderedDict[tuple[Any, ...], CachedResponse] = OrderedDict()
        self._bytes = 0
        self._head: ServedHead | None = None

    def find(self, key: tuple[Any, ...], head: ServedHead | None) -> CachedResponse | None:
        """Return an answer that is kept; all are forgotten when another snapshot is the newest."""
        if head is not self._head:
            self._ready.clear()
            self._bytes, self._head = 0, head
        ready = self._ready.get(key)
        if ready is not None:
            self._ready.move_to_end(key)
        return ready

    def keep(self, key: tuple[Any, ...], ready: CachedResponse) -> None:
        """Keep an answer, unless it takes more than a quarter of the room."""
        size = _size(key, ready)
        if size > self.most_bytes // 4:
            return
        before = self._ready.pop(key, None)  # two who asked at once were both answered again
        self._bytes += size - (0 if before is None else _size(key, before))
        self._ready[key] = ready
        while self._bytes > self.most_bytes:
            self._bytes -= _size(*self._ready.popitem(last=False))


def _size(key: tuple[Any, ...], ready: CachedResponse) -> int:
    """Count the memory that an answer takes with its key: what a client chose the length of, and what holds it together."""
    texts = [*key, ready.body, ready.packed or b"", *(part for header in ready.headers for part in header)]
    return sum(map(len, texts)) + _BYTES_OF_AN_ANSWER + len(ready.headers) * _BYTES_OF_A_HEADER


def _today() -> str:
    return datetime.now(timezone.utc).date().isoformat()


class App:
    """The application without its own paths (`/health` ...): the API of the registries."""

    def __init__(
        self,
        live: SnapshotWatcher,
        options: Options,
        *,
        pages: ReadHandler,
        guard: Guard,
        metrics: Metrics,
        closing: threading.Event,
        bodies: Bodies,
        writes: Writes | None = None,
    ) -> None:
        self.live = live
        self.options = options
        self.pages = pages
        self.guard = guard
        self.metrics = metrics
        self.closing = closing
        self.bodies = bodies
        self.writes = writes
        self.threads = ThreadPoolExecutor(options.parallel, "lakehouse-answer")
        self.origins = Origins(options)
        self.shares = Shares(self.threads, options.parallel, _MOST_WAITING)
        self.streams = EventStreams(live, pages.meanings, self.shares, self.origins, closing, pages.source)
        self.ready = ResponseCache(options.cache_bytes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begun = scope[_ARRIVED] = time.monotonic()
        headers, method = dict(scope["headers"]), scope["method"]
        if method == "GET" and b"text/event-stream" in headers.get(b"accept", b""):
            result = await self._streamed(scope, headers, receive, send)
            if result is None:
                self.metrics.answered(method, 200, 0.0)
                return
            ready = result
        else:
            ready = await self._answered(scope, headers, method, receive)
        status, more, body = as_sent(ready, headers, method)
        more += self.origins.cors(headers)
        await send_answer(send, status, more, b"" if method == "HEAD" else body, self.options.client_seconds)
        self.metrics.answered(method, status, time.monotonic() - begun)

    async def _answered(self, scope: Scope, headers: dict[bytes, bytes], method: str, receive: Receive) -> CachedResponse:
        origin = ""
        try:
            origin = self.origins.base_url_of(scope, headers)
            if method == "OPTIONS":
                return self._options(scope["raw_path"], headers)
            client, user = await self.client(scope, headers)
            raw_path: bytes = scope["raw_path"]
            query: bytes = scope["query_string"]
            if len(raw_path) + len(query) > self.options.max_url_bytes:
                raise ProblemFound("", status=414, detail=f"The URL is longer than {self.options.max_url_bytes} bytes.")
            if method not in ("GET", "HEAD"):
                target = read_target(raw_path)
                if target.is_of_subjects:
                    return await self._answered_by_body(method, self._api_request(scope, origin), receive, client)
                if self.writes is None or method not in self.writes.methods(target):
                    raise self._not_allowed(target, method)
                self.origins.check_writes(scope, headers)
                api_request = self._api_request(scope, origin)
                return with_etag(*await self.writes.answer(method, api_request, headers, receive, client, user))
            if raw_path == b"/" and not query and _is_browser(headers):
                return _to_the_site(origin)
            return await self._ready_or_made(scope, origin, client)
        except ProblemFound as problem:
            return self._problem(problem, scope, origin)
        except Exception:
            logger.exception("a request failed: %s %r", method, scope["raw_path"][:200])
            return self._problem(ProblemFound("server_error", status=500), scope, origin)

    async def _answered_by_body(self, method: str, api_request: ApiRequest, receive: Receive, client: str) -> CachedResponse:
        """Answer a request that reads, and says in its body what."""
        async with self.bodies.read(receive, client) as body:
            query = replace(api_request, method=method, body=body, arrived=time.monotonic())
            return await self.shares.run(client, lambda: self._made(query))

    async def _streamed(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> CachedResponse | None:
        """Stream events; None when that is done, else what is sent instead."""
        origin = ""
        try:
            origin = self.origins.base_url_of(scope, headers)
            client, _ = await self.client(scope, headers)
            api_request = self._api_request(scope, origin)
            if api_request.target.parts != ("events",) or api_request.target.at is not None:
                return await self._answered(scope, headers, "GET", receive)
            await self.streams.serve(api_request, client, headers, receive, send)
        except ProblemFound as problem:
            return self._problem(problem, scope, origin)
        return None

    async def client(self, scope: Scope, headers: dict[bytes, bytes]) -> tuple[str, str | None]:
        """Admit a request; return the client whose share of the work it takes, a user or else an address, and the user."""
        address = self.origins.client(scope, headers)
        user = await self.guard.check(headers, address)
        return address if user is None else f"user {user}", user

    @staticmethod
    def _api_request(scope: Scope, origin: str) -> ApiRequest:
        raw_path: bytes = scope["raw_path"]
        return ApiRequest(
            read_target(raw_path), scope["query_string"], raw_path.decode("ascii", "replace"), origin, scope[_ARRIVED]
        )

    async def _ready_or_made(self, scope: Scope, origin: str, client: str) -> CachedResponse:
        head = self.live.head
        key = (scope["raw_path"], scope["query_string"], origin, _today())  # pages speak of the last days
        ready = self.ready.find(key, head)
        if ready is not None:
            self.metrics.count_ready()
            return ready
        api_request = self._api_request(scope, origin)
        ready = await self.shares.run(client, lambda: self._made(api_request))
        if ready.status in (200, 303) and self.live.head is head:
            self.ready.keep(key, ready)
        return ready

    def _made(self, api_request: ApiRequest) -> CachedResponse:
        """Make an answer, in a worker thread."""
        try:
            return with_etag(self.pages.answer(api_request), api_request)
        except MessageNotFound as error:
            raise ProblemFound("not_found", api_request.target.path, error.detail) from error
        except DefinitionNotYet as error:
            headers = {"Retry-After": "5"}
            raise ProblemFound(
                "data_retrieval_error", api_request.target.path, str(error), status=503, headers=headers
            ) from error
        except (WarehouseError, sqlite3.Error, OSError) as error:
            logger.warning("the warehouse cannot be read: %s", error)
            raise ProblemFound("data_retrieval_error", status=503, headers={"Retry-After": "5"}) from error

    def _not_allowed(self, target: RequestTarget, method: str) -> ProblemFound:
        if not self.pages.has_path(target):
            return ProblemFound("api_not_found", target.path)
        allow = {"Allow": self._methods(target)}
        if self.writes is not None and method in self.writes.methods(target._replace(details=True)):
            return ProblemFound("details_required", target.path, headers=allow)
        return ProblemFound("action_not_supported", target.path, action=method, headers=allow)

    def _methods(self, target: RequestTarget) -> str:
        """Return the methods of a path."""
        if target.is_of_subjects:
            return allowed_methods(target.parts)
        if self.writes is None:
            return METHODS
        return ", ".join((METHODS, *self.writes.methods(target)))

    def _options(self, raw_path: bytes, headers: dict[bytes, bytes]) -> CachedResponse:
        methods = self._methods(read_target(raw_path)).encode()
        allowed = [(b"allow", methods), (b"access-control-allow-methods", methods)]
        wanted = headers.get(b"access-control-request-headers", b"").decode("latin-1")
        if wanted and _REQUESTED_HEADERS.fullmatch(wanted):
            wanted = ",".join(name for name in wanted.split(",") if not name.strip().lower().startswith(_OF_PROXIES))
            allowed += [(b"access-control-allow-headers", wanted.encode()), (b"access-control-max-age", b"86400")]
        return CachedResponse(200, allowed, b"", b"", None)

    async def refuse(self, problem: ProblemFound, scope: Scope, send: Send) -> None:
        """Send a problem as the answer to a request that another part of the server takes."""
        refused = self._problem(problem, scope, "")
        content = [*refused.headers, (b"content-length", b"%d" % len(refused.body))]
        await send_answer(send, refused.status, content, refused.body, self.options.client_seconds)

    def refused_by_host(self, scope: Scope) -> CachedResponse | None:
        """Return the answer to a request under a name that this server is not asked as; None: it is."""
        try:
            self.origins.base_url_of(scope, dict(scope["headers"]))
        except ProblemFound as problem:
            return self._problem(problem, scope, "")
        return None

    def _problem(self, problem: ProblemFound, scope: Scope, origin: str) -> CachedResponse:
        if is_of_pages(scope["raw_path"]) and _is_browser(dict(scope["headers"])):
            page = bare_page(problem.title, problem.detail or "", origin)
            more = HEADERS | problem.headers | {"Content-Type": MEDIA_TYPES["html"], "Cache-Control": "no-store"}
            lines = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in more.items()]
            return CachedResponse(problem.status, lines, page, b"", None)
        dialect = self.options.specification
        try:
            target = read_target(scope["raw_path"])
            if b"specversion" in scope["query_string"]:
                from lakehouse.serve.answer.queryparameters import read_parameters

                dialect = self.pages.meanings.dialect_of(read_parameters(scope["query_string"]))
            prefix, is_of_subjects = target.prefix, target.is_of_subjects
        except ProblemFound:
            prefix, is_of_subjects = "", False
        body = error_body(problem) if is_of_subjects else problem.as_json(dialect, origin + prefix)
        headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
        headers += [
            (b"content-type", (REGISTRY_TYPE if is_of_subjects else JSON).encode()),
            (b"cache-control", b"no-store"),
        ]
        if origin:
            headers.append((b"link", f"<{origin}{prefix}>;rel=xregistry-root".encode()))
        return CachedResponse(problem.status, headers, body, b"", None)


class Dispatcher:
    """The whole application: what is asked for seldom is routed by Starlette, all else goes to the API at once."""

    def __init__(self, starlette: Starlette, app: App, own: frozenset[bytes], below: tuple[bytes, ...] = ()) -> None:
        self.starlette = starlette
        self.app = app
        self.own = own
        self.below = below

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or begin and end."""
        send = protecting(send)
        if scope["type"] == "http" and scope["raw_path"] not in self.own and not self._is_below(scope["raw_path"]):
            await self.app(scope, receive, send)
        elif scope["type"] == "http" and (refused := self.app.refused_by_host(scope)) is not None:
            content = [*refused.headers, (b"content-length", b"%d" % len(refused.body))]
            await send_answer(send, refused.status, content, refused.body, self.app.options.client_seconds)
        else:
            await self.starlette(scope, receive, send)

    def _is_below(self, raw_path: bytes) -> bool:
        return bool(self.below) and raw_path.startswith(self.below)


def make_app(
    settings: Settings,
    options: Options,
    on_ready: Callable[[], None] | None = None,
    closing: threading.Event | None = None,
    writer: WriterAddress | None = None,
) -> Dispatcher:
    """Make the application.

    Args:
        settings: the warehouse.
        options: how to serve.
        on_ready: is called when the first snapshot is loaded.
        closing: is set when the server shall end.
        writer: where the process listens that writes; None: requests may not write.
    """
    from lakehouse.serve.answer import extraroutes

    live, metrics = SnapshotWatcher(settings, options), Metrics()
    guard = Guard(options.users)
    pages = ReadHandler(live, settings, options, extraroutes.EXTRA_ROUTES)
    live.on_new = pages.warm
    writes, methods_of_path = None, None
    most, together = options.max_request_bytes, settings.http_bodies_bytes
    bodies = Bodies(most, together, settings.http_body_seconds, options.client_seconds)
    if writer is not None:
        from lakehouse.serve import writeendpoint

        writes, methods_of_path = writeendpoint.Writes(live, options, pages, writer, bodies), writeendpoint.methods_of_path
    ending = closing or threading.Event()
    app = App(live, options, pages=pages, guard=guard, metrics=metrics, closing=ending, bodies=bodies, writes=writes)

    subscriptions, agents = _subscriptions(app, settings), _agents(app, settings)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        loading = asyncio.create_task(_load(live, on_ready))
        if subscriptions is not None:
            subscriptions.deliverer.start()
        async with agents.run() if agents is not None else nullcontext():
            yield
        loading.cancel()
        if subscriptions is not None:
            await anyio.to_thread.run_sync(subscriptions.deliverer.stop)
        app.threads.shutdown(wait=False, cancel_futures=True)
        guard.stop()
        if writes is not None:
            writes.close()
        await anyio.to_thread.run_sync(live.stop)

    figures, described = (subscriptions.figures, subscriptions.described()) if subscriptions else (None, None)
    own: list[Route] = [
        *state_routes(live, metrics, figures, writes.writers.hindrance if writes else None),
        *extraroutes.routes(options.specification, methods_of_path, described, app.origins.cors),
        *(subscriptions.routes() if subscriptions is not None else ()),
        *((agents.route(),) if agents is not None else ()),
    ]
    below = (b"/subscriptions/",) if subscriptions is not None else ()
    return Dispatcher(Starlette(routes=own, lifespan=lifespan), app, frozenset(route.path.encode() for route in own), below)


def _subscriptions(app: App, settings: Settings) -> Subscriptions | None:
    if app.options.subscriptions is None:
        return None
    from lakehouse.serve.subscriptions.subscriptionapi import Subscriptions

    folder = Path(app.options.subscriptions)
    return Subscriptions(folder, app.live, app.options, settings.events_source, app.guard, app.origins)


def _agents(app: App, settings: Settings) -> AgentEndpoint | None:
    if not app.options.mcp:
        return None
    from lakehouse.agents import CatalogQuestions
    from lakehouse.serve.agentendpoint import AgentEndpoint

    async def admit(scope: Scope) -> str:
        headers = dict(scope["headers"])
        app.origins.check_writes(scope, headers)  # pages of other sites may not ask either
        return (await app.client(scope, headers))[0]

    questions = CatalogQuestions(app.live.model, app.options.registry, settings.max_unpacked_bytes)
    return AgentEndpoint(questions, app.shares, admit, app.refuse)


async def _load(live: SnapshotWatcher, on_ready: Callable[[], None] | None) -> None:
    while True:
        try:
            await anyio.to_thread.run_sync(live.load)
            break
        except (WarehouseError, OSError) as error:
            logger.error("the warehouse cannot be read: %s", error)
            await asyncio.sleep(5)
    live.follow()
    if on_ready is not None:
        on_ready()


def _is_browser(headers: dict[bytes, bytes]) -> bool:
    """Return whether a client asks for HTML, and not for JSON."""
    accept = headers.get(b"accept", b"")
    return b"text/html" in accept and b"application/json" not in accept


def _to_the_site(origin: str) -> CachedResponse:
    """Redirect a browser, which requests HTML by `Accept`, to the pages; the API has none."""
    headers = [(b"location", f"{origin}/ui/".encode()), (b"vary", b"Accept"), (b"cache-control", b"no-cache")]
    return CachedResponse(303, headers, b"", b"", None)
