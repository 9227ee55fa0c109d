"""What browsers and proxies need: the URL of the server, whose pages may read and write, and headers that protect every answer.

Documents are stored with the media type that their writer names, so a browser could run a script in one of them on the server's
origin, with all that its reader may do. Therefore whatever is not a page of this server has a policy under which a browser runs,
loads and sends nothing; no media type is guessed; and pages of other sites cannot embed it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote, urlsplit

from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.config import ANY_ORIGIN, Options

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_POLICY = b"content-security-policy"
_OF_ALL: Headers = [(b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin")]
_OF_OTHERS: Headers = [(_POLICY, b"sandbox; default-src 'none'")]
_ATTR_CHARS = "!#$&+^`|"  # besides letters, digits and -._~: attr-char of RFC 8187
_EXPOSED = "Link, ETag, Location, Content-Location, Content-Disposition, Lakehouse-Snapshot, Retry-After, WWW-Authenticate, *"
_HOST = re.compile(r"[A-Za-z0-9._\-]{1,255}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~\-]+)+")


def with_protection(headers: Headers) -> Headers:
    """Return headers with those that protect; a page of ours has brought its own policy."""
    if any(name == _POLICY for name, _ in headers):
        return headers + _OF_ALL
    return headers + _OF_ALL + _OF_OTHERS


def protecting(send: Send) -> Send:
    """Return a way to send answers with the headers that protect."""

    async def protected(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = with_protection(list(message.get("headers", ())))
        await send(message)

    return protected


def raw_answer(status: int, reason: str, title: str) -> bytes:
    """Write a whole answer for a client that sent no request that can be read; the connection is closed after it.

    Args:
        status: HTTP status.
        reason: its phrase.
        title: what is wrong; plain ASCII without quotes and backslashes.
    """
    body = b'{"type":"about:blank","title":"%b"}\n' % title.encode("ascii")
    headers: Headers = [(b"content-type", b"application/json"), (b"connection", b"close"), (b"content-length", b"%d" % len(body))]
    lines = [b"HTTP/1.1 %d %b" % (status, reason.encode("ascii"))]
    lines += [b"%b: %b" % header for header in with_protection(headers)]
    return b"\r\n".join([*lines, b"", body])


def as_attachment(name: str) -> str:
    """Return a `Content-Disposition` by which a browser saves a document and never shows it (RFC 6266, RFC 8187).

    xRegistry's HTTP binding gives the bare id there, which a browser reads as a disposition: `inline` is an id like any other.
    """
    return f"attachment; filename*=UTF-8''{quote(name, safe=_ATTR_CHARS)}"


class Origins:
    """Reads the origin of the server, and that of the page that asks, from a request.

    Args:
        options: how to serve.
    """

    def __init__(self, options: Options) -> None:
        self.options = options

    def base_url_of(self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes]) -> str:
        """Return the URL under which the client knows `/`.

        Raises:
            ProblemFound: `Host` is none, or another one than this server is asked as.
        """
        host, scheme, prefix = headers.get(b"host", b"").decode("latin-1"), scope["scheme"], ""
        self._check_host(scope, host)
        if self.options.base_url:
            return self.options.base_url.rstrip("/")
        if self.options.behind_proxy:
            host = headers.get(b"x-forwarded-host", b"").decode("latin-1").split(",")[0].strip() or host
            forwarded_scheme = headers.get(b"x-forwarded-proto", b"").decode("latin-1").split(",")[0].strip().lower()
            scheme = forwarded_scheme if forwarded_scheme in ("http", "https") else scheme
            prefix = headers.get(b"x-forwarded-prefix", b"").decode("latin-1").rstrip("/")
            if prefix and not _PREFIX.fullmatch(prefix):
                raise ProblemFound("bad_request", error_detail="X-Forwarded-Prefix is not a path")
        if not host and scope.get("server"):
            host = f"{scope['server'][0]}:{scope['server'][1]}"
        if not _HOST.fullmatch(host):
            raise ProblemFound("bad_request", error_detail="Host is not a host and port")
        return f"{scheme}://{host}{prefix}"

    def client(self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes]) -> str:
        """Return the address that a request comes from, of which each client has its share.

        Behind a proxy it is the last one in `X-Forwarded-For`, which the proxy wrote; those before it came with the request. Of
        IPv6 it is the network (/64), within which a client chooses its addresses.
        """
        if self.options.behind_proxy:
            address = headers.get(b"x-forwarded-for", b"").decode("latin-1").rsplit(",", 1)[-1].strip()
            has_port = address.count(":") == 1 or "]:" in address
            if forwarded := _address((address.rsplit(":", 1)[0] if has_port else address).strip("[]")):
                return forwarded
        seen = str((scope.get("client") or ("",))[0])
        return _address(seen) if ":" in seen else seen

    def _check_host(self, scope: MutableMapping[str, Any], host: str) -> None:
        """Check the name that a browser was led by, which a page cannot choose as it can `X-Forwarded-Host`."""
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise ProblemFound("bad_request", error_detail="Host is given twice")
        if host and not _HOST.fullmatch(host):
            raise ProblemFound("bad_request", error_detail="Host is not a host and port")
        if host and not self.options.knows_host(host):
            detail = "This server is asked as 127.0.0.1 or localhost; --base-url URL adds the host of another name."
            raise ProblemFound("", status=421, detail=detail)

    def cors(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """Return the headers that say whose pages may read an answer: those of the origins that are named, and no others."""
        named = self.options.allow_origin
        if not named:
            return []
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin not in named and ANY_ORIGIN not in named:
            return [(b"vary", b"Origin")]
        allowed = origin if origin in named else ANY_ORIGIN
        exposed = (b"access-control-expose-headers", _EXPOSED.encode())
        return [(b"access-control-allow-origin", allowed.encode("latin-1")), exposed, (b"vary", b"Origin")]

    def check_writes(self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes]) -> None:
        """Refuse a write that another site's page has a browser send: it sends `Origin`, and may not choose it.

        The server's origin is that of its URL for the client, or of `Host`, which a page cannot choose either.

        Raises:
            ProblemFound: pages of the origin may not write, or as `base_url_of`.
        """
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not origin or origin in self.options.allow_origin:
            return
        base_url = urlsplit(self.base_url_of(scope, headers))
        host = headers.get(b"host", b"").decode("latin-1")
        if origin.partition("://")[2] != host and origin.lower() != f"{base_url.scheme}://{base_url.netloc}".lower():
            raise ProblemFound("", status=403, detail="Pages of this origin may not write; name it with --allow-origin.")


def _address(text: str) -> str:
    """Return an address as its clients are counted; nothing: it is none."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        return str(address.ipv4_mapped or ipaddress.ip_network((int(address) >> 64 << 64, 64)))
    return str(address)
