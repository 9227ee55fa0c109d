"""Headers that every answer has, so that what a writer stored never acts as a page of this server.

Documents are stored with the media type that their writer names, so a browser could run a script in one of them on the server's
origin, with all that its reader may do. Therefore whatever is no page of ours has a policy under which a browser runs, loads and
sends nothing; no media type is guessed; and pages of other sites cannot embed it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import quote

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_POLICY = b"content-security-policy"
_OF_ALL: Headers = [(b"x-content-type-options", b"nosniff"), (b"cross-origin-resource-policy", b"same-origin")]
_OF_OTHERS: Headers = [(_POLICY, b"sandbox; default-src 'none'")]
_ATTR_CHARS = "!#$&+^`|"  # besides letters, digits and -._~: attr-char of RFC 8187


def with_protection(headers: Headers) -> Headers:
    """Return headers with those that protect; a page of ours has brought a policy of its own."""
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
