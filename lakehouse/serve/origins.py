"""Under which URL a client knows the server, and whose pages may read its answers."""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

from lakehouse.serve.options import Options
from lakehouse.serve.problems import ProblemFound

if TYPE_CHECKING:  # what a server that only reads does without
    from lakehouse.serve.writes import Writes

_EXPOSED = "Link, ETag, Location, Content-Location, Content-Disposition, Lakehouse-Snapshot, Retry-After, WWW-Authenticate, *"
_CORS = [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", _EXPOSED.encode())]
_HOST = re.compile(r"[A-Za-z0-9._\-]{1,255}(:[0-9]{1,5})?|\[[0-9A-Fa-f:.]{2,45}\](:[0-9]{1,5})?")
_PREFIX = re.compile(r"(/[A-Za-z0-9._~\-]+)+")


class Origins:
    """Reads the origin of the server, and that of the page that asks, from a request.

    Args:
        options: how to serve.
        writes: has requests done that write; None: there are none.
    """

    def __init__(self, options: Options, writes: Writes | None) -> None:
        self.options = options
        self.writes = writes

    def of(self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes]) -> str:
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
        if self.writes is not None:
            self.writes.check_host(host)
        return f"{scheme}://{host}{prefix}"

    def cors(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """Tell whose pages may read the answer: where requests may write, those of named origins."""
        if self.writes is None:
            return _CORS
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin not in self.options.allow_origin:
            return []
        return [(b"access-control-allow-origin", origin.encode()), (b"vary", b"Origin"), _CORS[1]]
