"""`/subscriptions` and `/subscriptions/{id}`, as the CloudEvents Subscriptions API has them (CAT-192, CAT-195), and in OpenAPI.

An answer holds what was requested, without credentials, and in addition `status`: how far the sink has received, and what it
refused. A test compares the description with what the server routes, takes and answers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import orjson
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import Response
from starlette.routing import Route

from lakehouse.serve.answer.live import SnapshotWatcher
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.auth import Guard
from lakehouse.serve.config import Options, is_loopback
from lakehouse.serve.describe import Document, errors
from lakehouse.serve.origins import Origins
from lakehouse.serve.subscriptions.deliver import Deliverer
from lakehouse.serve.subscriptions.store import (
    ACTIVE,
    MEDIA_TYPES,
    MODES,
    MOST,
    PARKED,
    PROTOCOLS,
    VALIDATING,
    NotValid,
    Store,
    StoredSubscription,
    Subscription,
    read_subscription,
)

PATH = "/subscriptions"
_FILTER = "#/components/schemas/SubscriptionFilter"
_TEXT: Document = {"type": "string", "minLength": 1}
_COUNT: Document = {"type": "integer", "minimum": 0}
_MOST_BYTES = 64 << 10
_COLLECTION_METHODS, _ENTITY_METHODS = "GET, POST, OPTIONS", "GET, PUT, DELETE, OPTIONS"


def described(dialect: str) -> Document:
    """Describe the paths, and what they refer to.

    Args:
        dialect: of errors.

    Returns:
        `paths` and `components` of an OpenAPI document.
    """
    return {"paths": _paths(dialect), "components": {"schemas": {"SubscriptionFilter": _filter()}}}


def _paths(dialect: str) -> Document:
    single = {"content": {"application/json": {"schema": _shown()}}}
    many = {"content": {"application/json": {"schema": {"type": "array", "items": _shown()}}}}
    location = {"headers": {"Location": {"schema": _TEXT}}}
    always = ("400", "401")
    of_one = _errors(dialect, *always, "404")
    writing = _errors(dialect, *always, "408", "413", "415")
    name = {"name": "subscriptionid", "in": "path", "required": True, "schema": _TEXT}
    return {
        PATH: {
            "parameters": [],
            "get": _operation("All subscriptions", {"200": _response("All.", many)} | _errors(dialect, *always)),
            "post": _operation(
                "Subscribe to events",
                {"201": _response("It is kept.", single | location)} | writing | _errors(dialect, "503"),
                _request_body(),
            ),
        },
        PATH + "/{subscriptionid}": {
            "parameters": [name],
            "get": _operation(
                "A subscription, with the last event its sink received", {"200": _response("There it is.", single)} | of_one
            ),
            "put": _operation(
                "Replace it; a parked one resumes", {"200": _response("It is kept.", single)} | of_one | writing, _request_body()
            ),
            "delete": _operation("End it", {"204": {"description": "It is no more."}} | of_one),
        },
    }


def _filter() -> Document:
    texts = {"type": "object", "minProperties": 1, "additionalProperties": _TEXT}
    several = {"type": "array", "minItems": 1, "items": {"$ref": _FILTER}}
    members = {"exact": texts, "prefix": texts, "suffix": texts, "all": several, "any": several, "not": {"$ref": _FILTER}}
    description = "Attributes of an event that are, begin or end so; all, any or none of other filters."
    return _object(members) | {"description": description, "minProperties": 1}


def _members() -> Document:
    """Describe the members that a client writes and is shown."""
    return {
        "source": _TEXT | {"description": "The root of the catalog, or `/reg-ID` below it (CAT-193)."},
        "types": {"type": ["array", "null"], "items": _TEXT, "description": "Types of events; without, all."},
        "filter": {"$ref": _FILTER},
        "filters": {"type": "array", "items": {"$ref": _FILTER}, "description": "Each has to match."},
        "sink": _TEXT | {"format": "uri", "description": "A URL of https or http that events are sent to."},
        "protocol": {"enum": list(PROTOCOLS)},
        "protocolsettings": _object({"method": {"const": "POST"}}),
        "config": _object({"contentmode": {"enum": list(MODES)}}),
    }


def _request_body() -> Document:
    credential = {
        "credentialtype": {"const": "ACCESSTOKEN"},
        "accesstokentype": {"const": "bearer"},
        "accesstoken": _TEXT | {"description": "Sent as Bearer; shown by nothing."},
    }
    set_by_server = {"id": {"description": "The server chooses it."}, "status": {"description": "The server knows it."}}
    subscription = _object(set_by_server | _members() | {"sinkcredential": _object(credential, "accesstoken")}, "sink")
    return {"required": True, "content": {media_type: {"schema": subscription} for media_type in MEDIA_TYPES}}


def _shown() -> Document:
    event = {"type": "object", "required": ["specversion", "id", "source", "type"]}
    status = {
        "state": {"enum": [VALIDATING, ACTIVE, PARKED]},
        "reason": {"type": ["string", "null"], "description": "Why the last attempt failed."},
        "snapshot": _COUNT | {"description": "The last event that the sink received."},
        **dict.fromkeys(("delivered", "parked", "gaps", "attempts"), _COUNT),
        "parkedevents": {"type": "array", "items": _object({"event": event, "reason": _TEXT}, "event", "reason")},
    }
    counts = ("state", "reason", "snapshot", "delivered", "parked", "gaps", "attempts")
    return _object({"id": _TEXT} | _members() | {"status": _object(status, *counts)}, "id", "sink", "status")


def _object(members: dict[str, Any], *required: str) -> Document:
    return {"type": "object", "properties": members, "required": list(required), "additionalProperties": False}


def _response(text: str, content: Document) -> Document:
    return {"description": text} | content


def _operation(summary: str, responses: Document, body: Document | None = None) -> Document:
    return {"summary": summary, "parameters": [], "responses": responses} | ({"requestBody": body} if body is not None else {})


def _errors(dialect: str, *statuses: str) -> Document:
    described = errors(dialect)
    content = described["400"]["content"]
    more = {"408": "The body did not come in time.", "413": "The body is too large.", "415": "The body is of another type."}
    return {status: described.get(status) or {"description": more[status], "content": content} for status in statuses}


class Subscriptions:
    """The subscriptions of a server: their paths, and the sending.

    Args:
        folder: where they are kept.
        live: the catalog.
        options: how it is served.
        source: setting `events_source`.
        guard: lets requests in.
        origins: knows under which URL a client knows `/`, and which client it is.
    """

    def __init__(
        self, folder: Path, live: SnapshotWatcher, options: Options, source: str, guard: Guard, origins: Origins
    ) -> None:
        self.live = live
        self.options = options
        self.guard = guard
        self.origins = origins
        self.store = Store(folder)
        self.deliverer = Deliverer(self.store, live, source, allow_private=options.allow_private_sinks)

    def routes(self) -> list[Route]:
        """Return the paths."""
        every = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
        return [
            Route(PATH, partial(self._answer, self._all), methods=every),
            Route(PATH + "/{id:path}", partial(self._answer, self._single), methods=every),
        ]

    def described(self) -> dict[str, Any]:
        """Describe the paths, for OpenAPI."""
        return described(self.options.specification)

    def figures(self) -> bytes:
        """Write how many there are, and what became of their events, as Prometheus reads it."""
        registry = CollectorRegistry()
        every = self.store.all()
        by_status = Gauge("lakehouse_subscriptions", "Subscriptions by status.", ["status"], registry=registry)
        for status in (VALIDATING, ACTIVE, PARKED):
            by_status.labels(status).set(sum(stored.status == status for stored in every))
        for name, text in (("delivered", "sinks have taken"), ("parked", "sinks refused")):
            of_events = Gauge(
                f"lakehouse_subscription_events_{name}", f"Events that {text}, of all subscriptions.", registry=registry
            )
            of_events.set(sum(getattr(stored, name) for stored in every))
        behind = Gauge(
            "lakehouse_subscription_snapshots_behind", "Snapshots that the last active sink is behind.", registry=registry
        )
        head = self.live.head.number if self.live.head else 0
        behind.set(max((head - stored.snapshot for stored in every if stored.status == ACTIVE), default=0))
        return generate_latest(registry)

    async def _answer(self, answer: Callable[[HttpRequest, str], Awaitable[Response]], request: HttpRequest) -> Response:
        headers = dict(request.scope["headers"])
        try:
            origin = self.origins.base_url_of(request.scope, headers)
            await self.guard.check(headers, self.origins.client(request.scope, headers))
            result = await answer(request, origin)
        except ProblemFound as problem:
            body = problem.as_json(self.options.specification, "")
            result = Response(body, problem.status, problem.headers, "application/json")
        except ClientDisconnect:
            result = Response(b"", 400)
        result.headers["Cache-Control"] = "no-store"
        return result

    async def _all(self, request: HttpRequest, origin: str) -> Response:
        if request.method == "OPTIONS":
            return Response(b"", 200, {"Allow": _COLLECTION_METHODS})
        if request.method in ("GET", "HEAD"):
            results = await anyio.to_thread.run_sync(self.store.all)
            return _json([self._shown(stored) for stored in results])
        if request.method != "POST":
            raise self._not_allowed(request, _COLLECTION_METHODS)
        subscription = await self._read(request, origin)
        stored = await anyio.to_thread.run_sync(self._add, subscription, origin)
        return _json(self._shown(stored), 201, {"Location": f"{origin}{PATH}/{stored.id}"})

    async def _single(self, request: HttpRequest, origin: str) -> Response:
        name = request.path_params["id"]
        if request.method == "OPTIONS":
            return Response(b"", 200, {"Allow": _ENTITY_METHODS})
        if request.method == "DELETE":
            if not await anyio.to_thread.run_sync(self.store.delete, name):
                raise self._not_found(name)
            return Response(b"", 204)
        if request.method == "PUT":
            subscription = await self._read(request, origin)
            replaced = await anyio.to_thread.run_sync(self.store.replace, name, subscription, _host(origin))
        elif request.method in ("GET", "HEAD"):
            replaced = await anyio.to_thread.run_sync(self.store.get, name)
        else:
            raise self._not_allowed(request, _ENTITY_METHODS)
        if replaced is None:
            raise self._not_found(name)
        parked = await anyio.to_thread.run_sync(self.store.parked_events, name)
        return _json(self._shown(replaced, parked))

    async def _read(self, request: HttpRequest, origin: str) -> Subscription:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in MEDIA_TYPES:  # those that a page of another origin may send without asking are not among them
            raise ProblemFound("", PATH, f"Send {MEDIA_TYPES[0]}.", status=415)
        body = bytearray()
        with anyio.move_on_after(self.options.client_seconds) as limit:
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MOST_BYTES:
                    raise ProblemFound("", PATH, f"A subscription has at most {_MOST_BYTES} bytes.", status=413)
        if limit.cancelled_caught:
            raise ProblemFound("", PATH, "The request did not come whole in time.", status=408)
        try:
            subscription = read_subscription(orjson.loads(bytes(body)), origin, self.live.root)
        except (orjson.JSONDecodeError, RecursionError) as error:
            raise ProblemFound("bad_request", PATH, error_detail="The body is not JSON") from error
        except NotValid as error:
            raise ProblemFound("bad_request", PATH, error_detail=str(error).rstrip(".")) from error
        self._check_sink(subscription.sink)
        return subscription

    def _check_sink(self, sink: str) -> None:
        """Refuse at once what is an address of a private network; names are looked up when something is sent."""
        from lakehouse.serve.subscriptions.deliver import is_of_internet

        host = urlsplit(sink).hostname or ""
        try:
            is_open = is_of_internet(str(ipaddress.ip_address(host)))
        except ValueError:
            is_open = not is_loopback(host)
        if not (is_open or self.options.allow_private_sinks):
            detail = "`sink` is an address of this machine or of a private network; --allow-private-sinks allows these"
            raise ProblemFound("bad_request", PATH, error_detail=detail)

    def _add(self, subscription: Subscription, origin: str) -> StoredSubscription:
        head = self.live.head
        if head is None:
            raise ProblemFound("", PATH, "The catalog is being loaded.", status=503, headers={"Retry-After": "2"})
        stored = self.store.add(subscription, _host(origin), head.number, head.digest)
        if stored is None:
            raise ProblemFound("", PATH, f"There are {MOST} subscriptions, and no more are kept.", status=503)
        return stored

    def _shown(self, stored: StoredSubscription, parked: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        status: dict[str, Any] = {"state": stored.status, "reason": stored.reason, "snapshot": stored.snapshot}
        status |= {"delivered": stored.delivered, "parked": stored.parked, "gaps": stored.gaps, "attempts": stored.attempts}
        if parked:
            status["parkedevents"] = parked
        return {"id": stored.id} | stored.subscription.members | {"status": status}

    def _not_found(self, name: str) -> ProblemFound:
        return ProblemFound("not_found", f"{PATH}/{name[:100]}", "There is no such subscription.")

    def _not_allowed(self, request: HttpRequest, methods: str) -> ProblemFound:
        return ProblemFound("action_not_supported", request.url.path[:200], action=request.method, headers={"Allow": methods})


def _host(origin: str) -> str:
    """Return the name by which a sink is asked for permission."""
    return urlsplit(origin).netloc


def _json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")
