"""Addresses of other catalogs: where they are, and apart from that what lets us in, which nothing ever shows."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from lakehouse.errors import SettingsError

_HOST = re.compile(r"[A-Za-z0-9._\-]{1,255}|[0-9A-Fa-f:.]{2,45}")
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

    def of(self, path: str) -> str:
        """Return the URL of a path below the base, such as an XID; `:` and `@` may be in ids."""
        return self.url + quote(path.lstrip("/"), safe="/:@~!$&'()*+,;=-._")


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
    default = {"http": 80, "https": 443}[scheme]
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
