"""Where events are sent: to the address that was looked at, and nowhere else.

A sink is whatever somebody wrote into a subscription, so it might be a way into the server's own network. Its name is resolved
once for each request, every address that comes out must be one of the internet, and the connection goes to that address: a name
that means another one a moment later leads nowhere. No redirection is followed.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from lakehouse.serve.subscriptions.wholeanswers import LimitedPool, LimitedTlsPool

_CONNECT_SECONDS = 10.0
_MOST_READ = 1 << 14
_MOST_BYTES = 1 << 16  # of an answer, with its headers
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: the last four bytes are the address
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")  # the only IPv6 addresses that the internet routes (IANA)
# Networks with a purpose of their own that `ipaddress` counts as global, in this or an older Python.
_SPECIAL = tuple(
    ipaddress.ip_network(one) for one in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "3fff::/20")
)


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
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise NotReachable("its name has no address") from error
    addresses = [str(one[4][0]).partition("%")[0] for one in found]
    if not allow_private and not all(is_of_internet(one) for one in addresses):
        told = "its address is one of this machine or of a private network, to which nothing is sent (--allow-private-sinks)"
        raise NotReachable(told, is_final=True)
    return addresses[0]


def is_of_internet(text: str) -> bool:
    """Tell an address that anybody reaches from those of this machine and of private networks."""
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
        found = made.request(
            method,
            path,
            headers={"Host": named, "User-Agent": "xregistry-lakehouse"} | headers,
            body=body,
            redirect=False,
            preload_content=False,
            assert_same_host=False,
        )
        try:
            found.read(_MOST_READ, decode_content=False)
            return Answered(found.status, {name.lower(): value for name, value in found.headers.items()})
        finally:
            found.close()
    except (HTTPError, OSError) as error:
        raise NotReachable(f"no answer: {type(error).__name__}") from error
    finally:
        made.close()
