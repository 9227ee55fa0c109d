"""Who may read: everybody, or the users of a file that `lakehouse sql-user` writes, by HTTP Basic.

A password takes as long to check as its hash was made to take, so a pair that was found right is remembered for some minutes, as
a keyed hash that only this process can make, as long as the file stays as it is. Wrong pairs are checked one at a time.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import time
from collections import OrderedDict
from pathlib import Path

import anyio
import anyio.to_thread

from lakehouse.serve.problems import ProblemFound

_SECONDS_REMEMBERED = 300.0
_MOST_REMEMBERED = 1000
_ITERATIONS = 600_000  # for a user that is not there, so that nobody learns of it by the clock
_DENIED = {"WWW-Authenticate": 'Basic realm="lakehouse", charset="UTF-8"'}


class Guard:
    """Lets requests in."""

    def __init__(self, users: str | None) -> None:
        self.users = None if users is None else Path(users)
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, float] = OrderedDict()
        self._stamp: tuple[int, int] | None = None
        self._one_at_a_time = anyio.Semaphore(2)

    async def check(self, headers: dict[bytes, bytes]) -> str | None:
        """Let a request in.

        Returns:
            The user that it names; None: everybody may.

        Raises:
            ProblemFound: it names no user, or not with the right password.
        """
        if self.users is None:
            return None
        given = headers.get(b"authorization", b"")
        if len(given) > 2000 or given[:6].lower() != b"basic ":
            raise self._denied()
        self._forget_if_changed()
        mark = hmac.digest(self._key, given, "sha256")
        until = self._known.get(mark)
        if until is not None and until > time.monotonic():
            return _named(given[6:])
        async with self._one_at_a_time:
            is_right = await anyio.to_thread.run_sync(self._is_right, given[6:])
        if not is_right:
            raise self._denied()
        self._known[mark] = time.monotonic() + _SECONDS_REMEMBERED
        while len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)
        return _named(given[6:])

    def _denied(self) -> ProblemFound:
        return ProblemFound("", status=401, detail="Name a user and a password.", headers=dict(_DENIED))

    def _forget_if_changed(self) -> None:
        try:
            found = os.stat(str(self.users))
            stamp = (found.st_mtime_ns, found.st_ino)
        except OSError:
            stamp = None
        if stamp != self._stamp or stamp is None:
            self._known.clear()
            self._stamp = stamp

    def _is_right(self, coded: bytes) -> bool:
        try:
            name, _, password = base64.b64decode(coded.strip(), validate=True).decode().partition(":")
        except ValueError:
            return False
        iterations, salt, wanted = _ITERATIONS, b"nobody", b""
        for line in self._lines():
            parts = line.split(":")
            if len(parts) == 4 and hmac.compare_digest(parts[0].encode(), name.encode()):
                iterations, salt, wanted = int(parts[1]), base64.b64decode(parts[2]), base64.b64decode(parts[3])
        found = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations)
        return hmac.compare_digest(found, wanted)

    def _lines(self) -> list[str]:
        try:
            return [] if self.users is None else self.users.read_text(encoding="utf-8").splitlines()
        except OSError:  # a file that is gone lets nobody in
            return []


def _named(coded: bytes) -> str:
    """Give the user that a pair names, which was found right."""
    return base64.b64decode(coded.strip()).decode().partition(":")[0]
