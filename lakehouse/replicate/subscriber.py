"""A source that reports its changes: subscribed to, and each event wakes a round of pulling (CAT-191 to CAT-195).

Events carry no data (CAT-210), so they only say that it is time. Many events make one round, and a round comes now and then
without any: after a gap (a source that was restored, a sink that was not reached) nothing stays unseen.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import secrets
import socket
import threading
import time
from typing import Any

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from lakehouse.errors import ReplicationError, SettingsError
from lakehouse.replicate.client import Client, RequestRefused
from lakehouse.replicate.state import PeerState
from lakehouse.text.names import Xid

logger = logging.getLogger(__name__)

PATH = "/events"
_MOST_BYTES = 1 << 20
_MEDIA_TYPE = "application/cloudevents-subscription+json"
_SETTLE_SECONDS = 0.5  # events of one commit come one after another
_SUBJECT = re.compile(r"/messagecatalog/([^/]+)(?:/messagedefinitions/([^/]+)(?:/versions?/[^/]+)?)?/?")


def xid_of(subject: str) -> Xid:
    """Return the XID of an event's subject.

    In events of the core it is one; in those of the draft a path, in which samples spell `/versions/` as `/version/` (CAT-211).
    """
    subject_match = _SUBJECT.fullmatch(subject)
    if subject_match is None:
        return Xid(subject)
    return Xid(f"/messagegroups/{subject_match[1]}" + (f"/messages/{subject_match[2]}" if subject_match[2] else ""))


def concerns(subject: str, scope: tuple[Xid, ...]) -> bool:
    """Return whether what an event is about lies in a scope, or holds a part of it."""
    xid = xid_of(subject)
    return not scope or any(
        selected == xid or selected.startswith(xid.rstrip("/") + "/") or xid.startswith(selected + "/") for selected in scope
    )


class Listener:
    """Takes events from one source, and remembers that there were some.

    Args:
        host, port: where it listens; port 0 takes a free one.
        scope: XIDs that are wanted; none: all.

    Raises:
        SettingsError: the address cannot be bound.
    """

    def __init__(self, host: str, port: int, scope: tuple[Xid, ...]) -> None:
        self.scope = scope
        self.token = secrets.token_urlsafe(32)
        self.count = 0
        self.news = threading.Event()
        self._socket = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen(128)
        except OSError as error:
            self._socket.close()
            raise SettingsError(f"--listen {host}:{port} cannot be bound: {error.strerror}. Choose another one.") from error
        self.port: int = self._socket.getsockname()[1]
        written = f"[{host}]" if ":" in host else host
        self.url = f"http://{written}:{self.port}{PATH}"
        routes = [Route(PATH, self._answer, methods=["POST", "OPTIONS"])]
        config = uvicorn.Config(
            Starlette(routes=routes), log_level="error", access_log=False, server_header=False, ws="none", lifespan="off"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="lakehouse-listen", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.run(self._server.serve(sockets=[self._socket]))

    def close(self) -> None:
        """End."""
        self._server.should_exit = True
        self._thread.join(10)
        self._socket.close()

    def wait(self, seconds: float, stopped: threading.Event) -> bool:
        """Wait for events, and until no more come for a moment; False: there were none."""
        until = time.monotonic() + seconds
        while not self.news.wait(0.1):
            if stopped.is_set() or time.monotonic() > until:
                return False
        while self.news.is_set():
            self.news.clear()
            if stopped.wait(_SETTLE_SECONDS):
                break
        return True

    async def _answer(self, request: Request) -> Response:
        authorization = request.headers.get("authorization", "").encode()
        if not hmac.compare_digest(authorization, f"Bearer {self.token}".encode()):
            return Response(b"", 401, {"WWW-Authenticate": "Bearer"})
        if request.method == "OPTIONS":
            headers = {"WebHook-Allowed-Origin": request.headers.get("webhook-request-origin", "*"), "Allow": "POST, OPTIONS"}
            return Response(b"", 200, headers | {"WebHook-Allowed-Rate": "*"})
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MOST_BYTES:
                    return Response(b"", 413)
        except ClientDisconnect:
            return Response(b"", 400)
        for subject in _subjects(request.headers.get("content-type", ""), request.headers.get("ce-subject"), bytes(body)):
            if concerns(subject, self.scope):
                self.count += 1
                self.news.set()
        return Response(b"", 204)


def _subjects(kind: str, subject: str | None, body: bytes) -> list[str]:
    """Return the subjects of what was sent: binary, structured, or a batch. What cannot be read is news too."""
    if not kind.lower().startswith("application/cloudevents"):
        return [subject or "/"]
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ["/"]
    events = value if isinstance(value, list) else [value]
    return [str(event.get("subject", "/")) if isinstance(event, dict) else "/" for event in events]


class Subscriber:
    """Keeps a subscription at a source.

    Args:
        client: asks the source.
        state: remembers the subscription's id.
        sink: URL under which the source reaches the listener.
        token: that it has to show there.
        scope: XIDs that are wanted.
    """

    def __init__(self, client: Client, state: PeerState, sink: str, token: str, scope: tuple[Xid, ...]) -> None:
        self.client = client
        self.state = state
        self.subscription: dict[str, Any] = {
            "source": client.address.url,
            "protocol": "HTTPS" if sink.startswith("https:") else "HTTP",
            "sink": sink,
            "sinkcredential": {"credentialtype": "ACCESSTOKEN", "accesstoken": token, "accesstokentype": "bearer"},
        }
        if scope:
            self.subscription["filters"] = [
                {"any": [{"prefix": {"subject": prefix}} for xid in scope for prefix in _prefixes(xid)]}
            ]
        self.gaps = 0
        self.is_ours = False

    def keep(self) -> bool:
        """Check that the subscription exists and is served; return True if a round is needed: it did not, or events are missing.

        Raises:
            ReplicationError: the source does not answer, or has no subscriptions.
        """
        name = self.state.subscription
        existing = None if name is None else self._existing(name)
        if existing is not None and self.is_ours and existing.get("sink") == self.subscription["sink"]:
            status = existing.get("status") or {}
            was, self.gaps = self.gaps, status.get("gaps", 0) + status.get("parked", 0)
            if status.get("state") != "parked":
                return bool(self.gaps > was)
        if existing is not None:  # of an earlier process, or parked: it is written again
            self._send("PUT", name)
        else:
            made = self._send("POST")
            if not isinstance(made, dict) or not isinstance(made.get("id"), str):
                raise ReplicationError(self.client.address.url, "its answer to a subscription has no `id`.")
            self.state.subscription = made["id"]
            self.state.save()
        self.is_ours = True
        return True

    def _existing(self, name: str) -> dict[str, Any] | None:
        try:
            subscription = self.client.json(self.client.address.url_of_subscriptions(name))
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            return None
        return subscription if isinstance(subscription, dict) else None

    def end(self) -> None:
        """Return the subscription up; a source that does not answer keeps it, and parks it some day."""
        name, self.state.subscription = self.state.subscription, None
        if name is None:
            return
        self.state.save()
        try:
            self.client.send("DELETE", self.client.address.url_of_subscriptions(name), None)
        except ReplicationError as error:
            logger.info("the subscription was not given up: %s", error)

    def _send(self, method: str, name: str | None = None) -> Any:
        body = orjson.dumps(self.subscription)
        try:
            answer = self.client.send(method, self.client.address.url_of_subscriptions(name), body, {"Content-Type": _MEDIA_TYPE})
        except RequestRefused as refused:
            if refused.status in (404, 405, 501):
                detail = "it has no subscriptions (`lakehouse serve --subscriptions FOLDER` has). Leave --on-events out"
                raise ReplicationError(self.client.address.url, detail) from refused
            raise
        return self.client.value(answer)


def _prefixes(xid: Xid) -> list[str]:
    """Return the prefixes of subjects in both feeds."""
    _, collection, groupid, *member = xid.split("/")
    prefixes: list[str] = [xid]
    if collection == "messagegroups":
        prefixes.append(f"/messagecatalog/{groupid}" + (f"/messagedefinitions/{member[1]}" if member else ""))
    return prefixes
