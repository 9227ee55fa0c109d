"""Addresses of other catalogs, and requests to them: limited in size and time, tried again when it stumbles, never led elsewhere.

An answer that is not whole is none: a body that breaks off, or is longer or of another kind than it may be, is an error, and what
was there before stays. Nothing that lets us in is in an error or a log.
"""

from __future__ import annotations

import base64
import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote, unquote, urljoin, urlsplit

import urllib3
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential
from urllib3.exceptions import HTTPError

from lakehouse.errors import ReplicationError, SettingsError
from lakehouse.serve.subscriptions.deliver import LimitedPools
from lakehouse.store.durable import replace_synced
from lakehouse.text.blanking import blank_text
from lakehouse.text.jsontext import NotJson, read_json

logger = logging.getLogger(__name__)

_CHUNK = 1 << 18
_MOST_REDIRECTS = 5
_LONGEST_WAIT = 60.0  # seconds that a server may ask us to wait
_MOST_DETAIL = 300  # characters of an error's body
_TRY_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_NEXT = re.compile(r'<([^<>]*)>\s*((?:;\s*[A-Za-z*]+\s*=\s*(?:"[^"]*"|[^\s;,"]*)\s*)*)')
_REL = re.compile(r';\s*rel\s*=\s*"?([^";]*)"?', re.IGNORECASE)
_JSON = re.compile(r"application/(?:[A-Za-z0-9.+\-]+\+)?json\b", re.IGNORECASE)


@dataclass(frozen=True)
class RequestLimits:
    """What another catalog may ask of us.

    Attributes:
        bytes: of an answer that is kept as a file, unpacked (setting max_document_bytes).
        page_bytes: of an answer that is held in memory.
        depth: levels of nesting of JSON (setting max_json_depth).
        connect_seconds: to connect.
        read_seconds: until the next bytes come.
        answer_seconds: until an answer is whole.
        attempts: of a request.
        pause: seconds that the first pause between two attempts has at most; each later one twice as many.
    """

    bytes: int = 256 << 20
    page_bytes: int = 64 << 20
    depth: int = 64
    connect_seconds: float = 10.0
    read_seconds: float = 60.0
    answer_seconds: float = 1800.0
    attempts: int = 5
    pause: float = 0.5


class SourceResponse(NamedTuple):
    """What was answered: status 200 with the body (empty when it went into a file), or 304; header names in lower case."""

    status: int
    url: str
    headers: dict[str, str]
    body: bytes

    @property
    def etag(self) -> str | None:
        """Return the mark for a conditional request."""
        return self.headers.get("etag")

    @property
    def snapshot(self) -> str | None:
        """Return the snapshot that a server of this product answered from."""
        return self.headers.get("lakehouse-snapshot")

    @property
    def next(self) -> str | None:
        """Return the URL of the next page, as `Link` says it."""
        for url, parameters in _NEXT.findall(self.headers.get("link", "")):
            rel = _REL.search(parameters)
            if rel and "next" in rel[1].lower().split():
                return str(urljoin(self.url, url))
        return None


class RequestRefused(ReplicationError):
    """A request was answered with an error that stays: another way may lead there.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, url: str, status: int, reason: str) -> None:
        super().__init__(url, reason)
        self.status = status


class RequestStumbled(ReplicationError):
    """A request that may succeed later: no connection, a server that is overloaded, an answer that broke off."""

    def __init__(self, url: str, reason: str, wait: float = 0.0) -> None:
        super().__init__(url, reason)
        self.wait = wait


class Client:
    """Asks one catalog.

    Attributes:
        requests: how many requests were sent.
        received: bytes of bodies, unpacked.
    """

    def __init__(self, address: CatalogAddress, limits: RequestLimits | None = None) -> None:
        self.address = address
        self.limits = limits or RequestLimits()
        self.requests = 0
        self.received = 0
        timeout = urllib3.Timeout(connect=self.limits.connect_seconds, read=self.limits.read_seconds)
        self._pool = LimitedPools(self.limits.answer_seconds, num_pools=2, maxsize=8, timeout=timeout, retries=False)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def get(self, url: str, etag: str | None = None, *, is_json: bool = True) -> SourceResponse:
        """Fetch JSON into memory.

        Args:
            url: below the origin of the address.
            etag: mark of what we have; the answer may be 304 then.
            is_json: anything else is an error; else any kind is taken.

        Raises:
            RequestRefused: the answer is an error that stays.
            ReplicationError: there is no whole answer, or it is not JSON.
        """
        headers = ({"If-None-Match": etag} if etag else {}) | ({} if is_json else {"Accept": "*/*"})
        return self._tried(lambda: self._ask("GET", url, headers, None, None))

    def json(self, url: str) -> Any:
        """Return the value of an answer.

        Raises:
            ReplicationError: as from `get`.
        """
        return self.value(self.get(url))

    def value(self, answer: SourceResponse) -> Any:
        """Read the body of an answer.

        Raises:
            ReplicationError: it is not JSON.
        """
        try:
            return read_json(answer.body, self.limits.depth)[0]
        except NotJson as error:
            raise ReplicationError(answer.url, f"its answer cannot be read: {blank_text(str(error))}") from error

    def download(self, url: str, file: Path, etag: str | None = None) -> SourceResponse:
        """Fetch JSON into a file, which exists only if the response was complete.

        Raises:
            RequestRefused: the answer is an error that stays.
            ReplicationError: there is no whole answer.
        """
        part = file.with_suffix(".part")

        def ask() -> SourceResponse:
            with part.open("wb") as stream:
                return self._ask("GET", url, {"If-None-Match": etag} if etag else {}, None, stream)

        try:
            answer = self._tried(ask)
            if answer.status == 200:
                replace_synced(part, file)
            return answer
        finally:
            part.unlink(missing_ok=True)

    def send(self, method: str, url: str, body: bytes | None, headers: dict[str, str] | None = None) -> SourceResponse:
        """Write: PUT, PATCH, POST or DELETE.

        Raises:
            RequestRefused: the answer is an error that stays.
            ReplicationError: there is no answer.
        """
        request_headers = ({"Content-Type": "application/json"} if body is not None else {}) | (headers or {})
        return self._tried(lambda: self._ask(method, url, request_headers, body, None))

    def _tried(self, ask: Callable[[], SourceResponse]) -> SourceResponse:
        exponential = wait_random_exponential(multiplier=self.limits.pause, max=30)

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            requested = error.wait if isinstance(error, RequestStumbled) else 0.0
            pause = max(requested, exponential(state))
            logger.info("%s; again in %.1f s", error, pause)
            return pause

        return Retrying(
            retry=retry_if_exception_type(RequestStumbled), stop=stop_after_attempt(self.limits.attempts), wait=wait, reraise=True
        )(ask)

    def _ask(self, method: str, url: str, headers: dict[str, str], body: bytes | None, into: BinaryIO | None) -> SourceResponse:
        request_headers = {"Accept": "application/json", "Accept-Encoding": "gzip", "User-Agent": "xregistry-lakehouse"} | headers
        if self.address.authorization is not None:
            request_headers["Authorization"] = self.address.authorization
        until = time.monotonic() + self.limits.answer_seconds
        for _ in range(_MOST_REDIRECTS + 1):
            self._check_origin(url)
            self.requests += 1
            try:
                response = self._pool.request(
                    method, url, headers=request_headers, body=body, redirect=False, preload_content=False, retries=False
                )
            except HTTPError as error:
                raise RequestStumbled(url, f"no answer: {_reason(error)}") from error
            try:
                location = response.headers.get("location") if response.status in (301, 302, 303, 307, 308) else None
                if location is None:
                    return self._read(method, url, request_headers, response, into, until)
                url = urljoin(url, location)
            except (HTTPError, OSError) as error:
                raise RequestStumbled(url, f"its answer broke off: {_reason(error)}") from error
            finally:
                response.close()
        raise ReplicationError(url, f"it leads on more than {_MOST_REDIRECTS} times")

    def _check_origin(self, url: str) -> None:
        if _origin(url) != _origin(self.address.url):
            parts = urlsplit(url)
            elsewhere = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
            raise ReplicationError(
                self.address.url, f"it leads to {elsewhere}, which is another server. If that is meant, name it in the command."
            )

    def _read(
        self,
        method: str,
        url: str,
        response_headers: dict[str, str],
        response: urllib3.BaseHTTPResponse,
        into: BinaryIO | None,
        until: float,
    ) -> SourceResponse:
        headers = {name.lower(): value for name, value in response.headers.items()}
        if response.status == 304:
            response.drain_conn()
            return SourceResponse(304, url, headers, b"")
        is_error = response.status >= 300
        most = 1 << 16 if is_error else self.limits.bytes if into is not None else self.limits.page_bytes
        length = headers.get("content-length", "")
        if not is_error and length.isdigit() and int(length) > most:
            raise self._too_large(url, most)
        chunks: list[bytes] = []
        size = 0
        while chunk := response.read1(_CHUNK, decode_content=True):  # as it comes, so that drop by drop is seen to be too slow
            size += len(chunk)
            self.received += len(chunk)
            if size > most and not is_error:
                raise self._too_large(url, most)
            if time.monotonic() > until:
                raise RequestStumbled(url, f"its answer was not whole after {self.limits.answer_seconds:.0f} s")
            if into is not None and not is_error:
                into.write(chunk)
            else:
                chunks.append(chunk)
            if size > most:
                break
        body = b"".join(chunks)
        if is_error:
            raise self._refused(url, response.status, headers, body)
        kind = headers.get("content-type", "")
        if method == "GET" and response_headers["Accept"] != "*/*" and not is_json(kind):
            raise ReplicationError(url, f"it answers with {kind[:80] or 'no Content-Type'}, not JSON. Is this a registry's URL?")
        return SourceResponse(response.status, url, headers, body)

    def _too_large(self, url: str, most: int) -> ReplicationError:
        return TooLarge(url, f"its answer has more than {most} bytes (setting max_document_bytes)")

    def _refused(self, url: str, status: int, headers: dict[str, str], body: bytes) -> ReplicationError:
        text = blank_text(body.decode("utf-8", errors="replace")).strip()[:_MOST_DETAIL] if body else ""
        reason = f"it answers {status}" + (f": {' '.join(text.split())}" if text else "")
        if status in _TRY_AGAIN:
            after = headers.get("retry-after", "")
            return RequestStumbled(url, reason, min(float(after), _LONGEST_WAIT) if after.isdigit() else 0.0)
        if status in (401, 403):
            named = f"LAKEHOUSE_{self.address.role}"
            reason += f". Give user and password in {named}_USER and {named}_PASSWORD, or {named}_TOKEN"
        return RequestRefused(url, status, reason)


class TooLarge(ReplicationError):
    """An answer is larger than may be: it may come in parts."""


def is_json(media_type: str) -> bool:
    """Return whether a Content-Type is one of JSON."""
    return _JSON.match(media_type) is not None


def _reason(error: Exception) -> str:
    """Return what failed without what a library says of its objects."""
    text = re.sub(r"<[^<>]*object at 0x[0-9a-f]+>:? ?", "", str(error))
    text = re.sub(r"\A\w+\(host='[^']*', port=\d+\): ", "", text)
    return blank_text(text)[:_MOST_DETAIL] or type(error).__name__


_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._\-]{1,255}|[0-9A-Fa-f:.]{2,45}")
_OF_REGISTRY = re.compile(r"/reg-[^/]+/\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+")
DRAFT_ROOT = "messagecatalog"


@dataclass(frozen=True)
class CatalogAddress:
    """A catalog's address.

    Attributes:
        url: its base URL without user and password; ends with `/`.
        authorization: value of the header that lets us in; None: nobody asks.
        is_draft: the URL was that of `/messagecatalog`.
        role: SOURCE or TARGET.
    """

    url: str
    authorization: str | None = field(default=None, repr=False)
    is_draft: bool = False
    role: str = "SOURCE"

    @property
    def origin(self) -> str:
        """Return scheme, host and port."""
        scheme, host = urlsplit(self.url)[:2]
        return f"{scheme}://{host}"

    @property
    def is_plain(self) -> bool:
        """Return whether what lets us in would go over the network for everybody to read."""
        host = urlsplit(self.url).hostname or ""
        return self.authorization is not None and self.url.startswith("http:") and not _is_here(host)

    def url_of(self, path: str) -> str:
        """Return the URL of a path below the base, such as an XID; `:` and `@` may be in ids."""
        return self.url + quote(path.lstrip("/"), safe="/:@~!$&'()*+,;=-._")

    def url_of_subscriptions(self, name: str | None = None) -> str:
        """Return the URL of the subscriptions, or of one of them: those of a registry at `/reg-ID` are its server's."""
        return _OF_REGISTRY.sub("/", self.url) + "subscriptions" + ("" if name is None else f"/{name}")


def _origin(url: str) -> tuple[str, str, str | int | None]:
    """Return scheme, host with user, and port: equal for URLs of one server, however written (RFC 3986, section 6.2)."""
    parts = urlsplit(url)
    try:
        port: str | int | None = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        port = parts.netloc
    return parts.scheme, f"{parts.netloc.rpartition('@')[0]}@{parts.hostname}", port


def read_address(text: str, role: str, environment: Mapping[str, str] = os.environ) -> CatalogAddress:
    """Read the URL of a catalog.

    Args:
        text: absolute URL, http or https; it may hold user and password.
        role: SOURCE or TARGET: `LAKEHOUSE_<role>_TOKEN` (Bearer), or `LAKEHOUSE_<role>_USER` and `_PASSWORD` (Basic), let us in
            where the URL does not.
        environment: its variables.

    Raises:
        SettingsError: it is no such URL; the message shows no password.
    """
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise SettingsError(f"{role}: not a URL. Give one like https://catalog.example.com/.") from error
    if parts.scheme.lower() not in ("http", "https") or not _HOST.fullmatch(host) or not _PRINTABLE.fullmatch(text.strip()):
        raise SettingsError(f"{role}: not an absolute URL of http or https. Give one like https://catalog.example.com/.")
    if parts.query or parts.fragment:
        raise SettingsError(f"{role}: the URL of a catalog has no query and no fragment; --group says which part of it is meant.")
    scheme = parts.scheme.lower()
    default = _PORTS[scheme]
    written = f"[{host}]" if ":" in host else host
    at = written if port in (None, default) else f"{written}:{port}"
    path = parts.path.strip("/")
    is_draft = path.split("/")[-1] == DRAFT_ROOT
    path = path.removesuffix(DRAFT_ROOT).rstrip("/") if is_draft else path
    user = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else None
    url = f"{scheme}://{at}/" + (f"{path}/" if path else "")
    return CatalogAddress(url, _authorization(user, f"LAKEHOUSE_{role}", environment), is_draft, role)


def _authorization(user: tuple[str, str] | None, prefix: str, environment: Mapping[str, str]) -> str | None:
    token = environment.get(f"{prefix}_TOKEN")
    if user is None and token:
        if not _PRINTABLE.fullmatch(token):
            raise SettingsError(f"{prefix}_TOKEN: a token is printable ASCII without blanks.")
        return f"Bearer {token}"
    if user is None and environment.get(f"{prefix}_USER"):
        user = environment[f"{prefix}_USER"], environment.get(f"{prefix}_PASSWORD", "")
    return None if user is None else "Basic " + base64.b64encode(":".join(user).encode()).decode()


def _is_here(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
