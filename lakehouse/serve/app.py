"""The ASGI application: who may ask, what is ready already, and how an answer is sent.

A ready answer is kept as bytes until a newer snapshot comes; one that is not is made in a worker thread. Written for ASGI itself,
where each microsecond counts; Starlette has what is asked for seldom (`lakehouse.serve.answer.others`).
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import logging
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from lakehouse.errors import DefinitionNotYet, DefinitionsGone, MessageNotFound, WarehouseError
from lakehouse.serve.answer.asking import Answer, Asked
from lakehouse.serve.answer.changes import EventStreams
from lakehouse.serve.answer.live import Head, Live
from lakehouse.serve.answer.pages import Pages
from lakehouse.serve.guard import Guard
from lakehouse.serve.metrics import Metrics
from lakehouse.serve.options import Options
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import read_target
from lakehouse.settings import Settings

logger = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

METHODS = "GET, HEAD, OPTIONS"
_EXPOSED = "Link, ETag, Location, Content-Location, Content-Disposition, Lakehouse-Snapshot, Retry-After, WWW-Authenticate, *"
_CORS = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", _EXPOSED.encode())]
_HOST = re.compile(r"[A-Za-z0-9._\-]{1,255}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~\-]+)+")
_REQUESTED_HEADERS = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~, -]{1,1000}")
_WORTH_COMPRESSING = 1024
_COMPRESSION = 4
_AT_ONCE = 256 << 10  # bytes that are sent before the client has to take some
_MOST_WAITING = 200
_FOREVER = "max-age=31536000, immutable"


class Ready(NamedTuple):
    """An answer as it is sent: status, headers, body; and the body compressed, where that is worth it."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    etag: bytes
    packed: bytes | None


class App:
    """The application without its own paths (`/health` ...): the API of the registries."""

    def __init__(
        self, live: Live, options: Options, pages: Pages, guard: Guard, metrics: Metrics, closing: threading.Event
    ) -> None:
        self.live = live
        self.options = options
        self.pages = pages
        self.guard = guard
        self.metrics = metrics
        self.closing = closing
        self.threads = ThreadPoolExecutor(options.parallel, "lakehouse-answer")
        self.streams = EventStreams(self, pages.source)
        self.waiting = 0
        self._ready: OrderedDict[tuple[Any, ...], Ready] = OrderedDict()
        self._bytes = 0
        self._head: Head | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        begun = time.perf_counter()
        headers = dict(scope["headers"])
        method = scope["method"]
        if method == "GET" and b"text/event-stream" in headers.get(b"accept", b""):
            found = await self._streamed(scope, headers, receive, send)
            if found is None:
                self.metrics.answered(method, 200, 0.0)
                return
            ready = found
        else:
            ready = await self._answered(scope, headers, method)
        if headers.get(b"if-none-match") and ready.status == 200 and _matches(headers[b"if-none-match"], ready.etag):
            kept = [one for one in ready.headers if one[0] not in (b"content-type", b"content-disposition")]
            ready = Ready(304, kept, b"", ready.etag, None)
        body, more = ready.body, ready.headers
        if ready.packed is not None and b"gzip" in headers.get(b"accept-encoding", b"") and _takes_gzip(headers):
            body = ready.packed
            more = [(n, v) if n != b"etag" else (n, v[:-1] + b'-gzip"') for n, v in more] + [(b"content-encoding", b"gzip")]
        if ready.status != 304:
            more = [*more, (b"content-length", b"%d" % len(body))]
        await self._send(send, ready.status, more, b"" if method == "HEAD" else body)
        self.metrics.answered(method, ready.status, time.perf_counter() - begun)

    async def _answered(self, scope: Scope, headers: dict[bytes, bytes], method: str) -> Ready:
        origin = ""
        try:
            origin = self._origin(scope, headers)
            await self.guard.check(headers)
            if method == "OPTIONS":
                return _options(headers)
            raw_path: bytes = scope["raw_path"]
            query: bytes = scope["query_string"]
            if len(raw_path) + len(query) > self.options.max_url_bytes:
                raise ProblemFound("", status=414, detail=f"The URL is longer than {self.options.max_url_bytes} bytes.")
            if method not in ("GET", "HEAD"):
                raise self._not_allowed(raw_path, method)
            if raw_path == b"/" and not query and _is_browser(headers):
                return _to_the_site(origin)
            return await self._ready_or_made(raw_path, query, origin)
        except ProblemFound as problem:
            return self._problem(problem, scope, origin)
        except Exception:
            logger.exception("a request failed: %s %r", method, scope["raw_path"][:200])
            return self._problem(ProblemFound("server_error", status=500), scope, origin)

    async def _streamed(self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send) -> Ready | None:
        """Stream events; None when that is done, else what is sent instead."""
        origin = ""
        try:
            origin = self._origin(scope, headers)
            await self.guard.check(headers)
            raw_path: bytes = scope["raw_path"]
            asked = Asked(read_target(raw_path), scope["query_string"], raw_path.decode("ascii", "replace"), origin)
            if asked.target.parts != ("events",) or asked.target.at is not None:
                return await self._answered(scope, headers, "GET")
            await self.streams.serve(asked, headers, receive, send)
        except ProblemFound as problem:
            return self._problem(problem, scope, origin)
        return None

    async def _ready_or_made(self, raw_path: bytes, query: bytes, origin: str) -> Ready:
        head = self.live.head
        if head is not self._head:
            self._ready.clear()
            self._bytes, self._head = 0, head
        key = (raw_path, query, origin)
        ready = self._ready.get(key)
        if ready is not None:
            self._ready.move_to_end(key)
            self.metrics.found_ready()
            return ready
        asked = Asked(read_target(raw_path), query, raw_path.decode("ascii", "replace"), origin)
        if self.waiting >= _MOST_WAITING:
            raise ProblemFound("", status=503, detail="Too many requests are waiting.", headers={"Retry-After": "1"})
        self.waiting += 1
        try:
            ready = await asyncio.get_running_loop().run_in_executor(self.threads, self._made, asked)
        finally:
            self.waiting -= 1
        if ready.status in (200, 303) and self.live.head is head:
            self._keep(key, ready)
        return ready

    def _made(self, asked: Asked) -> Ready:
        """Make an answer, in a worker thread."""
        try:
            return _as_ready(self.pages.answer(asked), asked)
        except MessageNotFound as error:
            raise ProblemFound("not_found", asked.target.path, str(error)) from error
        except DefinitionNotYet as error:
            told = {"Retry-After": "5"}
            raise ProblemFound("data_retrieval_error", asked.target.path, str(error), status=503, headers=told) from error
        except DefinitionsGone as error:
            raise ProblemFound("not_found", asked.target.path, str(error)) from error
        except WarehouseError as error:
            logger.warning("the warehouse cannot be read: %s", error)
            raise ProblemFound("data_retrieval_error", status=503, headers={"Retry-After": "5"}) from error

    def _keep(self, key: tuple[Any, ...], ready: Ready) -> None:
        size = len(ready.body) + len(ready.packed or b"") + 1000
        if size > self.options.cache_bytes // 4:
            return
        self._ready[key] = ready
        self._bytes += size
        while self._bytes > self.options.cache_bytes:
            _, gone = self._ready.popitem(last=False)
            self._bytes -= len(gone.body) + len(gone.packed or b"") + 1000

    def _not_allowed(self, raw_path: bytes, method: str) -> ProblemFound:
        path = read_target(raw_path).path
        return ProblemFound("action_not_supported", path, action=method, headers={"Allow": METHODS})

    def _problem(self, problem: ProblemFound, scope: Scope, origin: str) -> Ready:
        dialect = self.options.specification
        try:
            target = read_target(scope["raw_path"])
            if b"specversion" in scope["query_string"]:
                from lakehouse.serve.answer.flags import read_parameters

                dialect = self.pages.dialect_of(read_parameters(scope["query_string"]))
            prefix = target.prefix
        except ProblemFound:
            prefix = ""
        body = problem.as_json(dialect, origin + prefix)
        headers = [(name.lower().encode(), value.encode("latin-1", "replace")) for name, value in problem.headers.items()]
        headers += [(b"content-type", b"application/json; charset=utf-8"), (b"cache-control", b"no-store")]
        if origin:
            headers.append((b"link", f"<{origin}{prefix}>;rel=xregistry-root".encode()))
        return Ready(problem.status, headers, body, b"", None)

    def _origin(self, scope: Scope, headers: dict[bytes, bytes]) -> str:
        """Give the URL under which the client knows `/`.

        Raises:
            ProblemFound: `Host` is none.
        """
        if self.options.base_url:
            return self.options.base_url.rstrip("/")
        host, scheme, prefix = headers.get(b"host", b"").decode("latin-1"), scope["scheme"], ""
        if self.options.behind_proxy:
            host = headers.get(b"x-forwarded-host", b"").decode("latin-1").split(",")[0].strip() or host
            told = headers.get(b"x-forwarded-proto", b"").decode("latin-1").split(",")[0].strip().lower()
            scheme = told if told in ("http", "https") else scheme
            prefix = headers.get(b"x-forwarded-prefix", b"").decode("latin-1").rstrip("/")
            if prefix and not _PREFIX.fullmatch(prefix):
                raise ProblemFound("bad_request", error_detail="X-Forwarded-Prefix is not a path")
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise ProblemFound("bad_request", error_detail="Host stands twice")
        if not host and scope.get("server"):
            host = f"{scope['server'][0]}:{scope['server'][1]}"
        if not _HOST.fullmatch(host):
            raise ProblemFound("bad_request", error_detail="Host is not a host and port")
        return f"{scheme}://{host}{prefix}"

    async def _send(self, send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Send an answer; a large one in parts that the client has to take in time."""
        if len(body) <= _AT_ONCE:
            await send({"type": "http.response.start", "status": status, "headers": [*headers, *_CORS]})
            await send({"type": "http.response.body", "body": body})
            return
        with anyio.move_on_after(self.options.client_seconds) as limit:
            await send({"type": "http.response.start", "status": status, "headers": [*headers, *_CORS]})
            for start in range(0, len(body), _AT_ONCE):
                limit.deadline = anyio.current_time() + self.options.client_seconds
                part = {"type": "http.response.body", "body": body[start : start + _AT_ONCE]}
                await send(part | {"more_body": start + _AT_ONCE < len(body)})
        if limit.cancelled_caught:
            raise ConnectionAbortedError("the client does not take its answer")


class Front:
    """The whole application: what is asked for seldom is routed by Starlette, all else goes to the API at once."""

    def __init__(self, starlette: Starlette, app: App, own: frozenset[bytes]) -> None:
        self.starlette = starlette
        self.app = app
        self.own = own

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or begin and end."""
        if scope["type"] == "http" and scope["raw_path"] not in self.own:
            await self.app(scope, receive, send)
        else:
            await self.starlette(scope, receive, send)


def make_app(
    settings: Settings,
    options: Options,
    on_ready: Callable[[], None] | None = None,
    closing: threading.Event | None = None,
) -> Front:
    """Make the application.

    Args:
        settings: the warehouse.
        options: how to serve.
        on_ready: is called when the first snapshot is loaded.
        closing: is set when the server shall end.
    """
    from lakehouse.serve.answer import others

    live, metrics = Live(settings, options), Metrics()
    guard = Guard(options.users)
    pages = Pages(live, settings, options, others.PARTS)
    live.on_new = pages.warm
    app = App(live, options, pages, guard, metrics, closing or threading.Event())

    @asynccontextmanager
    async def lifespan(_: Starlette) -> Any:
        loading = asyncio.create_task(_load(live, on_ready))
        yield
        loading.cancel()
        app.threads.shutdown(wait=False, cancel_futures=True)
        await anyio.to_thread.run_sync(live.stop)

    async def health(_: Any) -> Response:
        return Response(b'{"status":"ok"}', media_type="application/json")

    async def ready(_: Any) -> Response:
        head = live.head
        if head is None:
            return Response(b'{"status":"loading"}', 503, {"Retry-After": "2"}, "application/json")
        return Response(b'{"status":"ready","snapshot":%d}' % head.number, media_type="application/json")

    async def figures(request: Any) -> Response:
        return Response(metrics.text(live.head.number if live.head else None), media_type=metrics.media_type)

    own: list[Route] = [
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", figures),
        *others.routes(options.specification),
    ]
    return Front(Starlette(routes=own, lifespan=lifespan), app, frozenset(route.path.encode() for route in own))


async def _load(live: Live, on_ready: Callable[[], None] | None) -> None:
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


def _as_ready(answer: Answer, asked: Asked) -> Ready:
    """Write an answer's headers, and what caches need."""
    headers = dict(answer.headers)
    root = f"<{asked.base}>;rel=xregistry-root"
    headers["Link"] = f"{headers['Link']}, {root}" if "Link" in headers else root
    is_past = asked.target.at is not None and answer.status in (200, 303)
    digest = hashlib.blake2b(answer.body + repr(sorted(headers.items())).encode(), digest_size=12).hexdigest()
    etag = f'"s{answer.snapshot}-{digest}"' if is_past else f'"{digest}"'
    headers.setdefault("Cache-Control", _FOREVER if is_past else "no-cache")
    headers["ETag"] = etag
    headers["Vary"] = "Accept, Accept-Encoding, Host" if asked.target.path == "/" else "Accept-Encoding, Host"
    if answer.snapshot is not None:
        headers["Lakehouse-Snapshot"] = str(answer.snapshot)
    if answer.media_type and answer.status != 307:
        headers["Content-Type"] = answer.media_type
    headers["X-Content-Type-Options"] = "nosniff"
    packed = gzip.compress(answer.body, _COMPRESSION, mtime=0) if len(answer.body) >= _WORTH_COMPRESSING else None
    written = [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
    return Ready(answer.status, written, answer.body, etag.encode(), packed)


def _is_browser(headers: dict[bytes, bytes]) -> bool:
    """Tell whether a client asks for HTML, and not for JSON."""
    accept = headers.get(b"accept", b"")
    return b"text/html" in accept and b"application/json" not in accept


def _to_the_site(origin: str) -> Ready:
    """Lead a browser, which asks for HTML by `Accept`, to the pages; the API has none."""
    told = [(b"location", f"{origin}/ui/".encode()), (b"vary", b"Accept"), (b"cache-control", b"no-cache")]
    return Ready(303, told, b"", b"", None)


def _options(headers: dict[bytes, bytes]) -> Ready:
    allowed = [(b"allow", METHODS.encode()), (b"access-control-allow-methods", METHODS.encode())]
    wanted = headers.get(b"access-control-request-headers", b"").decode("latin-1")
    if wanted and _REQUESTED_HEADERS.fullmatch(wanted):
        allowed += [(b"access-control-allow-headers", wanted.encode()), (b"access-control-max-age", b"86400")]
    return Ready(200, allowed, b"", b"", None)


def _matches(given: bytes, etag: bytes) -> bool:
    """Tell whether a client holds what it would be sent (weakly compared, RFC 9110)."""
    plain = etag.strip(b'"')
    return any(one.strip().removeprefix(b"W/").strip(b'"').removesuffix(b"-gzip") in (plain, b"*") for one in given.split(b","))


def _takes_gzip(headers: dict[bytes, bytes]) -> bool:
    for one in headers[b"accept-encoding"].split(b","):
        name, _, quality = one.partition(b";")
        if name.strip() == b"gzip":
            return quality.replace(b" ", b"") not in (b"q=0", b"q=0.0", b"q=0.00", b"q=0.000")
    return False
