"""How a server is run: where it listens, who may read, what it serves, and its limits; read once at its start."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from lakehouse.errors import SettingsError
from lakehouse.serve.apierrors import RC2, RC4
from lakehouse.text.names import RegistryId

SPECIFICATIONS = (RC4, RC2)
LOOPBACK = "127.0.0.1"
ANY_ORIGIN = "*"
_ORIGIN = re.compile(r"https?://[^/\s?#@]+")
_BASE_URL = re.compile(r"https?://[^/\s?#@]+(/[^\s?#]*)?")


@dataclass(frozen=True)
class Options:
    """How to serve.

    Attributes:
        host, port: address; port 0 takes a free one.
        specification: dialect of the answers; 1.0-rc4 answers in 1.0-rc2 too where `?specversion` asks for it.
        registry: what `/` is; None: the only one, else `default`, else nothing.
        workers: processes.
        users: file of users (`lakehouse sql-user`); None: everybody may read.
        allow_anonymous: everybody may, on an address that others reach.
        tls_cert, tls_key: PEM files.
        behind_proxy: a proxy in front speaks TLS and says in `X-Forwarded-...` what it was asked.
        base_url: URL under which clients know `/`; None: what each request says in `Host`.
        allow_anonymous_writes: everybody may write, and subscribe, whom a proxy in front or a base URL leads here.
        subscriptions: folder in which subscriptions are kept; None: nobody can subscribe.
        allow_private_sinks: send their events to addresses of this machine and of private networks too.
        mcp: answer agents at `/mcp`.
        max_response_bytes: of one answer, in bytes.
        max_url_bytes: of a request's target.
        max_header_bytes: of a request's line and headers.
        request_seconds: of work on one request.
        parallel: requests that are worked on at once in a process.
        client_seconds: a client has to send its headers, and to take what it is sent.
        cache_bytes: of ready answers kept in memory.
        drain_seconds: requests have to end after SIGTERM.
        writable: requests may write.
        allow_origin: origins whose pages may read the answers, and write where requests may; `*`: pages of all may read.
        max_request_bytes: of the body of a request that writes.
    """

    host: str = LOOPBACK
    port: int = 8080
    specification: str = RC4
    registry: RegistryId | None = None
    workers: int = 1
    users: str | None = None
    allow_anonymous: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    base_url: str | None = None
    subscriptions: str | None = None
    allow_private_sinks: bool = False
    mcp: bool = False
    max_response_bytes: int = 64 << 20
    max_url_bytes: int = 16 << 10
    max_header_bytes: int = 64 << 10
    request_seconds: float = 30.0
    parallel: int = 8
    client_seconds: float = 30.0
    cache_bytes: int = 64 << 20
    drain_seconds: int = 10
    writable: bool = False
    allow_anonymous_writes: bool = False
    allow_origin: tuple[str, ...] = ()
    max_request_bytes: int = 64 << 20

    def check(self) -> None:
        """Check that nobody gets in who should not.

        Raises:
            SettingsError: a way in is open, or half configured.
        """
        if self.specification not in SPECIFICATIONS:
            raise SettingsError(f"--specification is one of {', '.join(SPECIFICATIONS)}.")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise SettingsError("--tls-cert needs --tls-key, and the other way round.")
        for name, path in (("--users", self.users), ("--tls-cert", self.tls_cert), ("--tls-key", self.tls_key)):
            if path and not Path(path).is_file():
                raise SettingsError(f"{name}: there is no file {path}.")
        if self.users and self.allow_anonymous:
            raise SettingsError("--users and --allow-anonymous exclude each other.")
        self._check_urls()
        if self.allow_private_sinks and self.subscriptions is None:
            raise SettingsError("--allow-private-sinks goes with --subscriptions FOLDER.")
        if is_loopback(self.host):
            self._check_led_here()
            return
        if self.writable and not self.users:
            raise SettingsError(
                f"--writable on --host {self.host} needs --users FILE (`lakehouse sql-user` writes it): who may write is named."
            )
        if self.subscriptions is not None and not self.users:
            raise SettingsError(
                f"--subscriptions on --host {self.host} needs --users FILE (`lakehouse sql-user` writes it): who may let the "
                "server send something is named."
            )
        if not (self.users or self.allow_anonymous):
            raise SettingsError(
                f"--host {self.host} is not the loopback address: others could reach it. Name who may read with --users FILE "
                "(`lakehouse sql-user` writes it), or let everybody read with --allow-anonymous."
            )
        if not (self.tls_cert or self.behind_proxy):
            raise SettingsError(
                f"--host {self.host} is not the loopback address: give --tls-cert and --tls-key, or --behind-proxy when a proxy "
                "in front speaks TLS."
            )

    def knows_host(self, host: str) -> bool:
        """Return whether a server of this address is rightly asked as a host (and port).

        On the loopback address it is asked as that, `localhost`, or the host of the base URL: a page could lead its reader
        here by another name, which then counts as the page's own origin (DNS rebinding). Behind a proxy without a base URL all
        names may be right; elsewhere users or TLS keep others out.
        """
        if not is_loopback(self.host):
            return True
        if self.base_url is None:
            return self.behind_proxy or is_loopback(name_of(host))
        return is_loopback(name_of(host)) or name_of(host) == name_of(urlsplit(self.base_url).netloc)

    def _check_urls(self) -> None:
        """Check what is given as an origin or a URL."""
        for origin in self.allow_origin:
            if origin != ANY_ORIGIN and not _ORIGIN.fullmatch(origin):
                raise SettingsError(
                    f"--allow-origin {origin}: it is * or an origin without a path, such as https://catalog.example."
                )
        if self.base_url is not None and not _BASE_URL.fullmatch(self.base_url):
            raise SettingsError(
                f"--base-url {self.base_url}: it is an http or https URL without query, such as https://catalog.example/r."
            )

    def _check_led_here(self) -> None:
        """Check that strangers whom something leads to the loopback address cannot write.

        Raises:
            SettingsError: they could.
        """
        is_led = self.behind_proxy or (self.base_url is not None and not is_loopback(name_of(urlsplit(self.base_url).netloc)))
        if not is_led or self.users or self.allow_anonymous_writes:
            return
        named = "--behind-proxy" if self.behind_proxy else f"--base-url {self.base_url}"
        for option, is_set in (("--writable", self.writable), ("--subscriptions", self.subscriptions is not None)):
            if is_set:
                raise SettingsError(
                    f"{option} with {named}: others reach this server, and all of them could write. Name who may with --users "
                    "FILE (`lakehouse sql-user` writes it), or let everybody with --allow-anonymous-writes."
                )


def name_of(host: str) -> str:
    """Return the name or address of a `Host`, without port and brackets, in lower case."""
    name = host if host.endswith("]") else host.rsplit(":", 1)[0]
    return name.strip("[]").lower()


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
