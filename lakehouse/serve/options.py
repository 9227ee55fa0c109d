"""What a server is told at its start: where it listens, whom it lets in, what it serves, and its limits."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors import SettingsError
from lakehouse.serve.problems import RC2, RC4
from lakehouse.text.names import RegistryId

SPECIFICATIONS = (RC4, RC2)
LOOPBACK = "127.0.0.1"


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
        behind_proxy: a proxy in front speaks TLS and tells in `X-Forwarded-...` what it was asked.
        base_url: URL under which clients know `/`; None: what each request says in `Host`.
        subscriptions: folder in which subscriptions are kept; None: nobody can subscribe.
        allow_private_sinks: send their events to addresses of this machine and of private networks too.
        max_response_bytes: of one answer, in bytes.
        max_url_bytes: of a request's target.
        max_header_bytes: of a request's line and headers.
        request_seconds: of work on one request.
        parallel: requests that are worked on at once in a process.
        client_seconds: a client has to send its headers, and to take what it is sent.
        cache_bytes: of ready answers kept in memory.
        drain_seconds: requests have to end after SIGTERM.
        writable: requests may write.
        allow_origin: origins whose pages may write; they and no others are told in CORS, where requests may write.
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
    max_response_bytes: int = 64 << 20
    max_url_bytes: int = 16 << 10
    max_header_bytes: int = 64 << 10
    request_seconds: float = 30.0
    parallel: int = 8
    client_seconds: float = 30.0
    cache_bytes: int = 64 << 20
    drain_seconds: int = 10
    writable: bool = False
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
        if self.allow_origin and not self.writable:
            raise SettingsError("--allow-origin goes with --writable: without, every page may read.")
        if self.allow_private_sinks and self.subscriptions is None:
            raise SettingsError("--allow-private-sinks goes with --subscriptions FOLDER.")
        if is_loopback(self.host):
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


def is_loopback(host: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
