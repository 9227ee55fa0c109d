"""Events are sent to the sinks of subscriptions: in the order of the log, at least once, and only where a sink wants them.

A sink is asked for permission first (CloudEvents webhooks: OPTIONS with `WebHook-Request-Origin`). How far it has received is
written after each answer, so a process that dies sends one event twice and loses none. While a sink does not answer, its events
wait in the log, with longer and longer pauses; after a day the subscription is parked until it is written again. An event that a
sink refuses for good is parked by itself, and those after it go on.

Sinks that answer soon have their own threads. One that does not is cut off and asked again apart, with the slow ones and with
those that are asked for permission, where it has more time; so no sink that is slow, by fault or on purpose, delays the others.

A sink is whatever somebody wrote into a subscription, so it might be a way into the server's own network. Its name is resolved
once for each request, every address must be one of the internet, and the connection goes to that address: a name that means
another one a moment later leads nowhere. No redirection is followed. A request and its whole answer have a limit of time and of
bytes.
"""

from __future__ import annotations

import fcntl
import io
import ipaddress
import logging
import math
import re
import socket
import ssl
import threading
import time
from http.client import HTTPResponse
from queue import SimpleQueue
from typing import IO, Any, NamedTuple, cast
from urllib.parse import quote, urlsplit

import orjson
import urllib3
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError

from lakehouse.errors import LakehouseError
from lakehouse.readmodel import View
from lakehouse.serve.answer.changes import events_of
from lakehouse.serve.answer.live import SnapshotWatcher
from lakehouse.serve.subscriptions.store import ACTIVE, ALL_EVENTS, LONGEST_PAUSE, PARKED, VALIDATING, Store, StoredSubscription

_CONNECT_SECONDS = 10.0
_MOST_READ = 1 << 14
_MOST_BYTES = 1 << 16  # of an answer, with its headers
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: the last four bytes are the address
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")  # the only IPv6 addresses that the internet routes (IANA)
# Networks with their own purpose that `ipaddress` counts as global, in this or an older Python.
_SPECIAL = tuple(
    ipaddress.ip_network(network) for network in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "3fff::/20")
)
logger = logging.getLogger(__name__)
_AT_ONCE = 8  # of the quick sinks
_APART_AT_ONCE = 16
_QUICK_SECONDS = 3.0  # for one answer of a sink, and for its turn; a sink that takes longer is asked apart
_QUICK_AGAIN_SECONDS = 1.0  # a slow one that takes less is quick again
_APART_SECONDS = 20.0
_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_BETWEEN_TRIES_TO_LEAD = 2.0
_FIRST_PAUSE = 1.0
_MOST_ATTEMPTS = 150  # in a row: a day
_MOST_REFUSALS = 5  # of permission
_TRY_AGAIN = frozenset({401, 403, 404, 405, 407, 408, 409, 423, 425, 429})
_GONE = 410
_RATE = re.compile(r"[0-9]{1,18}")  # requests a minute
_BINARY = "application/json"
_STRUCTURED = "application/cloudevents+json; charset=utf-8"
_UNQUOTED_IN_HEADERS = "!#$&'()*+,/:;<=>?@[]^_`{|}~-."


class NotReachable(Exception):
    """A sink did not answer, or may not be asked; `is_final`: that will not change."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Answered(NamedTuple):
    """What a sink answered; header names in lower case."""

    status: int
    headers: dict[str, str]


def address_of(host: str, port: int, *, allow_private: bool) -> str:
    """Resolve a name to the address that is connected to.

    Raises:
        NotReachable: it has no address, or one that is not of the internet.
    """
    try:
        results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotReachable("its name has no address") from error
    addresses = [str(info[4][0]).partition("%")[0] for info in results]
    if not allow_private and not all(is_of_internet(address) for address in addresses):
        reason = "its address is one of this machine or of a private network, to which nothing is sent (--allow-private-sinks)"
        raise NotReachable(reason, is_final=True)
    return addresses[0]


def is_of_internet(text: str) -> bool:
    """Return whether anybody reaches an address: it is none of this machine or of private networks."""
    address = ipaddress.ip_address(text)
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is not None:
            address = inner
        elif address in _TRANSLATED:
            address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        elif address not in _GLOBAL_UNICAST:
            return False
    is_special = any(address in network for network in _SPECIAL if network.version == address.version)
    return address.is_global and not address.is_multicast and not is_special


def send(method: str, sink: str, headers: dict[str, str], body: bytes | None, *, allow_private: bool, seconds: float) -> Answered:
    """Send one request to a sink; once it is connected, the request and its whole answer have a number of seconds.

    Raises:
        NotReachable: there is no answer.
    """
    parts = urlsplit(sink)
    is_tls = parts.scheme == "https"
    host = parts.hostname or ""
    port = parts.port or (443 if is_tls else 80)
    address = address_of(host, port, allow_private=allow_private)
    timeout = urllib3.Timeout(connect=min(_CONNECT_SECONDS, seconds), read=seconds)
    more: dict[str, Any] = {"timeout": timeout, "retries": False, "maxsize": 1}
    more |= {"whole_seconds": seconds, "most_bytes": _MOST_BYTES}
    if is_tls:
        context = ssl.create_default_context()
        made: urllib3.HTTPConnectionPool = LimitedTlsPool(
            address, port, ssl_context=context, server_hostname=host, assert_hostname=host, **more
        )
    else:
        made = LimitedPool(address, port, **more)
    written = f"[{host}]" if ":" in host else host
    named = written if port == (443 if is_tls else 80) else f"{written}:{port}"
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        result = made.request(
            method,
            path,
            headers={"Host": named, "User-Agent": "xregistry-lakehouse"} | headers,
            body=body,
            redirect=False,
            preload_content=False,
            assert_same_host=False,
        )
        try:
            result.read(_MOST_READ, decode_content=False)
            return Answered(result.status, {name.lower(): value for name, value in result.headers.items()})
        finally:
            result.close()
    except (HTTPError, OSError) as error:
        raise NotReachable(f"no answer: {type(error).__name__}") from error
    finally:
        made.close()


class Deliverer:
    """Sends the events of a server's subscriptions, in its own threads; of several processes one does.

    Args:
        store: the subscriptions.
        live: the catalog.
        source: setting `events_source`.
        allow_private: send to addresses of this machine and of private networks too.
    """

    def __init__(self, store: Store, live: SnapshotWatcher, source: str, *, allow_private: bool) -> None:
        self.store = store
        self.live = live
        self.source = source
        self.allow_private = allow_private
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lakehouse-deliver", daemon=True)
        self._waiting = {apart: SimpleQueue[StoredSubscription]() for apart in (False, True)}  # the quick, and those apart
        self._busy: set[str] = set()
        self._slow: set[str] = set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        for is_apart, count in ((False, _AT_ONCE), (True, _APART_AT_ONCE)):
            for _ in range(count):  # daemons: a sink that takes its time does not hold up the end of the process
                threading.Thread(target=self._work, args=(is_apart,), name="lakehouse-deliver-to", daemon=True).start()

    def stop(self) -> None:
        """End; what is being sent is not waited for long: it is sent again by the next one."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        with (self.store.folder / "lead").open("a") as lock:
            if not self._lead(lock):
                return
            while not self._stopped.wait(_SECONDS_BETWEEN_LOOKS):
                try:
                    head = self.live.head
                    if head is None:
                        continue
                    for stored in self.store.due(time.time()):
                        has_news = stored.snapshot < head.number or stored.position != ALL_EVENTS
                        if stored.id not in self._busy and (stored.status == VALIDATING or has_news):
                            self._busy.add(stored.id)
                            self._waiting[stored.status == VALIDATING or stored.id in self._slow].put(stored)
                except Exception:
                    logger.exception("subscriptions cannot be served now")
                    self._stopped.wait(5)

    def _lead(self, lock: IO[str]) -> bool:
        """Wait until no other process sends; False: it is time to end."""
        while not self._stopped.is_set():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                self._stopped.wait(_SECONDS_BETWEEN_TRIES_TO_LEAD)
        return False

    def _work(self, is_apart: bool) -> None:
        while not self._stopped.is_set():
            stored = self._waiting[is_apart].get()
            try:
                self._serve(stored, is_apart)
            except Exception:
                logger.exception("what became of subscription %s cannot be kept", stored.id)
            finally:
                self._busy.discard(stored.id)

    def _serve(self, listed: StoredSubscription, is_apart: bool) -> None:
        """Deliver what is due for one subscription; another thread may have served it since it was listed."""
        stored = self.store.get(listed.id)
        if stored is None or stored.status == PARKED or stored.next_at != listed.next_at:
            return
        try:
            if stored.status == VALIDATING:
                self._validate(stored)
            else:
                self._deliver(stored, _APART_SECONDS if is_apart else _QUICK_SECONDS)
        except NotReachable as error:
            if is_apart or error.is_final or stored.id not in self._slow:  # else it is asked again apart, which has more time
                self._failed(stored, str(error), is_final=error.is_final)
        except LakehouseError as error:
            logger.warning("the events of subscription %s cannot be read: %s", stored.id, error)
        except Exception:
            logger.exception("subscription %s cannot be served", stored.id)
            self._failed(stored, "an error of this server; see its log")

    def _validate(self, stored: StoredSubscription) -> None:
        """Ask a sink for permission (CloudEvents webhooks, section 4)."""
        headers = _authorization(stored) | {"WebHook-Request-Origin": stored.origin}
        answered = self._ask("OPTIONS", stored, headers, None, _APART_SECONDS)
        allowed = [origin.strip().lower() for origin in answered.headers.get("webhook-allowed-origin", "").split(",")]
        if answered.status >= 300 or not {"*", stored.origin.lower()} & set(allowed):
            reason = f"the sink answers OPTIONS with {answered.status}, and without WebHook-Allowed-Origin for {stored.origin}"
            self._failed(stored, reason, is_final=stored.attempts + 1 >= _MOST_REFUSALS)
            return
        rate = answered.headers.get("webhook-allowed-rate", "*").strip()
        pause = 60 / int(rate) if _RATE.fullmatch(rate) and int(rate) else 0.0
        self.store.update(stored, status=ACTIVE, reason=None, attempts=0, next_at=0.0, pause=pause)

    def _ask(
        self, method: str, stored: StoredSubscription, headers: dict[str, str], body: bytes | None, seconds: float
    ) -> Answered:
        """Send a request to the sink, and note whether it is slow."""
        begun = time.monotonic()
        try:
            return send(method, stored.subscription.sink, headers, body, allow_private=self.allow_private, seconds=seconds)
        finally:
            taken = time.monotonic() - begun
            if taken >= _QUICK_SECONDS:
                self._slow.add(stored.id)
            elif taken < _QUICK_AGAIN_SECONDS:
                self._slow.discard(stored.id)

    def _deliver(self, stored: StoredSubscription, seconds: float) -> None:
        """Send what a sink has not received yet, for some seconds."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stopped.is_set():
            number, texts, digest = self._next(stored)
            if number is None:
                return
            start = stored.position if number == stored.snapshot else 0
            for position, text in enumerate(texts[start:], start + 1):
                event = orjson.loads(text)
                wanted = stored.subscription.wants(event)
                outcome = self._send(stored, number, position, text, event, seconds) if wanted else {}
                stored = stored._replace(snapshot=number, position=position, digest=digest, **outcome)
                pause = stored.pause if wanted else 0.0
                is_last = time.monotonic() + pause >= until
                if is_last and pause:  # others have their turn meanwhile
                    stored = stored._replace(next_at=time.time() + pause)
                if (wanted or is_last) and not self._write(stored):
                    return
                if is_last or self._stopped.wait(pause):
                    return
            stored = stored._replace(snapshot=number, position=ALL_EVENTS, digest=digest)
            if not self._write(stored):
                return

    def _next(self, stored: StoredSubscription) -> tuple[int | None, list[bytes], str]:
        """Return the snapshot that comes next, or the one that was begun; None: there is none yet."""
        head = self.live.head
        if head is None or not head.number:
            return None, [], ""

        def ask(view: View) -> tuple[int | None, list[bytes], str]:
            if stored.snapshot and not _is_of(view, stored):  # a restore took it back
                self.store.update(stored, snapshot=view.head, position=ALL_EVENTS, digest="", gaps=stored.gaps + 1)
                return None, [], ""
            number = stored.snapshot + (stored.position == ALL_EVENTS)
            if number > view.head:
                return None, [], ""
            texts = events_of(view, number, stored.subscription.registryid, self.source)
            return number, texts, str(view.commit_of(number)["digest"])

        return self.live.model.answer(ask)

    def _send(
        self, stored: StoredSubscription, number: int, position: int, text: bytes, event: dict[str, Any], seconds: float
    ) -> dict[str, Any]:
        """Send an event; give what of the subscription that changes.

        Raises:
            NotReachable: it has to be sent again.
        """
        headers, body = as_request(event, text, stored.subscription.mode)
        headers |= _authorization(stored) | {"WebHook-Request-Origin": stored.origin}
        answered = self._ask("POST", stored, headers, body, seconds)
        if answered.status < 300:
            return {"delivered": stored.delivered + 1, "attempts": 0, "reason": None, "next_at": 0.0}
        if answered.status == _GONE:
            raise NotReachable("the sink answers 410: it is gone", is_final=True)
        if 300 <= answered.status < 400 or answered.status in _TRY_AGAIN or answered.status >= 500:
            raise NotReachable(f"the sink answers {answered.status}")
        self.store.park_event(stored, number, position, text, f"the sink answers {answered.status}")
        return {"parked": stored.parked + 1, "attempts": 0}

    def _write(self, stored: StoredSubscription) -> bool:
        names = ("snapshot", "position", "digest", "delivered", "parked", "attempts", "reason", "next_at")
        return self._update(stored, **{name: getattr(stored, name) for name in names})

    def _update(self, stored: StoredSubscription, **columns: Any) -> bool:
        is_as_it_was = self.store.update(stored, **columns)
        if not is_as_it_was:  # deleted, or another sink
            self._slow.discard(stored.id)
        return is_as_it_was

    def _failed(self, stored: StoredSubscription, reason: str, *, is_final: bool = False) -> None:
        """Try again later, longer after each failure; or never."""
        attempts = (self.store.get(stored.id) or stored).attempts + 1
        if is_final or attempts >= _MOST_ATTEMPTS:
            self._update(stored, status=PARKED, reason=reason, attempts=attempts)
            logger.warning("subscription %s is parked: %s", stored.id, reason)
            return
        pause = min(LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts - 1, 20))
        self._update(stored, reason=reason, attempts=attempts, next_at=time.time() + pause)


def as_request(event: dict[str, Any], text: bytes, mode: str) -> tuple[dict[str, str], bytes]:
    """Write an event as CloudEvents over HTTP: headers and body."""
    if mode == "structured":
        return {"Content-Type": _STRUCTURED}, text
    headers = {
        f"ce-{name}": quote(str(value), safe=_UNQUOTED_IN_HEADERS)
        for name, value in event.items()
        if name not in ("data", "data_base64", "datacontenttype")
    }
    if "data" not in event:
        return headers, b""
    return headers | {"Content-Type": str(event.get("datacontenttype", _BINARY))}, orjson.dumps(event["data"])


def _authorization(stored: StoredSubscription) -> dict[str, str]:
    return {} if stored.subscription.token is None else {"Authorization": f"Bearer {stored.subscription.token}"}


def _is_of(view: View, stored: StoredSubscription) -> bool:
    if view.head < stored.snapshot:
        return False
    return not stored.digest or str(view.commit_of(stored.snapshot)["digest"]) == stored.digest


_PIECE = 1 << 14  # bytes that TLS sends under one timeout


class _Metered(io.RawIOBase):
    """What comes from a socket, until a moment and up to a number of bytes."""

    def __init__(self, connected: socket.socket, until: float, most: float) -> None:
        self._socket = connected
        self._raw = connected.makefile("rb", buffering=0)
        self._seconds = connected.gettimeout()
        self._until = until
        self._left = most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._socket.settimeout(_until(self._until, self._seconds))
        size = self._raw.readinto(buffer)
        self._left -= size or 0
        if self._left < 0:
            raise OSError("the answer is too long")
        return size

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


class _Limited(HTTPConnection):
    """A connection whose requests have a limit each, from their first byte sent to the last one received."""

    def __init__(self, *args: Any, whole_seconds: float, most_bytes: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._whole_seconds, self._most_bytes = whole_seconds, most_bytes
        self._whole_until = 0.0
        self.response_class = cast("type[HTTPResponse]", self._answer_of)

    def request(self, *args: Any, **more: Any) -> None:
        self._whole_until = time.monotonic() + self._whole_seconds
        super().request(*args, **more)

    def send(self, data: Any) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _PIECE):
            if self.sock is not None:
                self.sock.settimeout(_until(self._whole_until, self.sock.gettimeout()))
            super().send(view[start : start + _PIECE])

    def _answer_of(self, connected: socket.socket, *args: Any, **more: Any) -> HTTPResponse:
        answer = HTTPResponse(connected, *args, **more)
        answer.fp.close()
        answer.fp = io.BufferedReader(_Metered(connected, self._whole_until, self._most_bytes))
        return answer


class _LimitedTls(_Limited, HTTPSConnection):
    """The same over TLS."""


class LimitedPool(HTTPConnectionPool):
    """Connections to one server over http; `whole_seconds` and `most_bytes` are limits of each request and its answer."""

    ConnectionCls = _Limited


class LimitedTlsPool(HTTPSConnectionPool):
    """The same over https."""

    ConnectionCls = _LimitedTls


class LimitedPools(PoolManager):
    """Connections to any server, each request and its answer with a limit of time."""

    def __init__(self, whole_seconds: float, **more: Any) -> None:
        super().__init__(**more)
        self.pool_classes_by_scheme = {"http": LimitedPool, "https": LimitedTlsPool}
        self._limits = {"whole_seconds": whole_seconds, "most_bytes": math.inf}

    def _new_pool(self, scheme: str, host: str, port: int, request_context: dict[str, Any] | None = None) -> HTTPConnectionPool:
        context = self.connection_pool_kw if request_context is None else request_context
        return super()._new_pool(scheme, host, port, context | self._limits)


def _until(moment: float, seconds: float | None) -> float:
    """Return the seconds until a moment, or the given ones where they are fewer.

    Raises:
        TimeoutError: the moment has passed.
    """
    left = moment - time.monotonic()
    if left <= 0:
        raise TimeoutError("the answer was not whole in time")
    return left if seconds is None else min(left, seconds)
