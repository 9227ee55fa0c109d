"""Under which URL a client knows the server, and whose pages may read its answers and write."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import MutableMapping
from typing import Any

from lakehouse.serve.options import ANY_ORIGIN, Options
from lakehouse.serve.problems import ProblemFound

_EXPOSED = "Link, ETag, Location, Content-Location, Content-Disposition, Lakehouse-Snapshot, Retry-After, WWW-Authenticate, *"
_HOST = re.compile(r"[A-Za-z0-9._\-]{1,255}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~\-]+)+")


class Origins:
    """Reads the origin of the server, and that of the page that asks, from a request.

    Args:
        options: how to serve.
    """

    def __init__(self, options: Options) -> None:
        self.options = options

    def of(self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes]) -> str:
        """Give the URL under which the client knows `/`.

        Raises:
            ProblemFound: `Host` is none, or another one than this server is asked as.
        """
        host, scheme, prefix = headers.get(b"host", b"").decode("latin-1"), scope["scheme"], ""
        self._check_host(scope, host)
        if self.options.base_url:
            return self.options.base_url.rstrip("/")
        if self.options.behind_proxy:
            host = headers.get(b"x-forwarded-host", b"").decode("latin-1").split(",")[0].strip() or host
            told = headers.get(b"x-forwarded-proto", b"").decode("latin-1").split(",")[0].strip().lower()
            scheme = told if told in ("http", "https") else scheme
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
            told = headers.get(b"x-forwarded-for", b"").decode("latin-1").rsplit(",", 1)[-1].strip()
            has_port = told.count(":") == 1 or "]:" in told
            if forwarded := _address((told.rsplit(":", 1)[0] if has_port else told).strip("[]")):
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

    def check_writes(self, headers: dict[bytes, bytes]) -> None:
        """Refuse a write that another site's page has a browser send: it sends `Origin`, and may not choose it.

        Raises:
            ProblemFound: pages of the origin may not write.
        """
        origin = headers.get(b"origin", b"").decode("latin-1")
        if not origin or origin in self.options.allow_origin:
            return
        host = headers.get(b"host", b"").decode("latin-1")
        if origin.partition("://")[2] != host:
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
