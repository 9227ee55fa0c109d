"""Who may read: everybody, or the users of a file that `lakehouse sql-user` writes, by HTTP Basic.

A password takes as long to check as its hash was made to take. So a pair of name and password that was found right passes at once
for some minutes after each time that it is used, as long as the file stays as it is; it is remembered as a keyed hash that only
this process can make. Others are checked in turn, each address in its share, and who was wrong often waits.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import math
import secrets
import time
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from lakehouse.serve.accounts import Account, Accounts, Stamp
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.shares import Shares
from lakehouse.serve.tries import Tries

_SECONDS_REMEMBERED = 300.0
_MOST_REMEMBERED = 1000
_PARALLEL = 2
_MOST_WAITING = 50
_MOST_BYTES = 2000  # of the header
_NOBODY = Account(600_000, b"nobody", b"")  # of a user that is not there, so that nobody learns of it by the clock
_DENIED = {"WWW-Authenticate": 'Basic realm="lakehouse", charset="UTF-8"'}


class Guard:
    """Lets requests in; used within one event loop."""

    def __init__(self, users: str | None) -> None:
        self.accounts = None if users is None else Accounts(users)
        self._key = secrets.token_bytes(32)
        self._known: OrderedDict[bytes, float] = OrderedDict()
        self._stamp: Stamp | None = None
        self._checks: dict[bytes, asyncio.Task[bool]] = {}  # of pairs that are being checked
        self._threads = ThreadPoolExecutor(_PARALLEL, "lakehouse-password")
        self._shares = Shares(self._threads, _PARALLEL, _MOST_WAITING)
        self._of_address = Tries(30, 1.0)
        self._of_name = Tries(5, 10.0)  # from an address

    async def check(self, headers: dict[bytes, bytes], client: str) -> str | None:
        """Let a request in.

        Args:
            headers: of the request.
            client: the address that it comes from.

        Returns:
            The user that it names; None: everybody may.

        Raises:
            ProblemFound: it names no user, not with the right password, or too many were wrong.
        """
        if self.accounts is None:
            return None
        name, password = _pair(headers.get(b"authorization", b""))
        stamp = self.accounts.stamp()
        if stamp != self._stamp or stamp is None:
            self._known.clear()
            self._stamp = stamp
        mark = hmac.digest(self._key, name + b":" + password, "sha256")
        if self._known.get(mark, 0.0) <= time.monotonic() and not await self._is_right(mark, client, name, password):
            raise _denied()
        if mark in self._known:
            self._remember(mark)
        return name.decode()

    def stop(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _is_right(self, mark: bytes, client: str, name: bytes, password: bytes) -> bool:
        """Check a pair, once for all who ask with it at the same time."""
        check = self._checks.get(mark)
        if check is None:
            self._refuse_who_was_wrong_often(client, name)
            check = self._checks[mark] = asyncio.create_task(self._check(self.accounts, mark, client, name, password))
            check.add_done_callback(partial(self._checked, mark))
        return await asyncio.shield(check)

    def _checked(self, mark: bytes, check: asyncio.Task[bool]) -> None:
        del self._checks[mark]
        if not check.cancelled():
            check.exception()  # is raised for those who wait, if there are any

    async def _check(self, accounts: Accounts | None, mark: bytes, client: str, name: bytes, password: bytes) -> bool:
        def check() -> tuple[bool, Stamp | None]:
            self._refuse_who_was_wrong_often(client, name)  # meanwhile
            stamp, users = (None, {}) if accounts is None else accounts.read()
            account = users.get(name, _NOBODY)
            found = hashlib.pbkdf2_hmac("sha256", password, account.salt, account.iterations)
            is_right = hmac.compare_digest(found, account.digest)
            if not is_right and users:  # where nobody can be right, nobody is wrong
                self._of_address.went_wrong(client)
                self._of_name.went_wrong((client, name))
            return is_right, stamp

        is_right, stamp = await self._shares.run(client, check)
        if is_right and stamp == self._stamp:  # else the file has changed since, and may not have the user any more
            self._remember(mark)
        return is_right

    def _remember(self, mark: bytes) -> None:
        self._known[mark] = time.monotonic() + _SECONDS_REMEMBERED
        self._known.move_to_end(mark)
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)

    def _refuse_who_was_wrong_often(self, client: str, name: bytes) -> None:
        seconds = self._of_name.wait((client, name)) or self._of_address.wait(client)
        if seconds:
            told = {"Retry-After": str(math.ceil(seconds))}
            raise ProblemFound("", status=429, detail="Too many wrong passwords came from this address.", headers=told)


def _pair(given: bytes) -> tuple[bytes, bytes]:
    """Read the name and the password that a header gives.

    Raises:
        ProblemFound: it gives none.
    """
    if len(given) > _MOST_BYTES or given[:6].lower() != b"basic ":
        raise _denied()
    try:
        told = base64.b64decode(given[6:].strip(), validate=True).decode()
    except ValueError:
        raise _denied() from None
    name, colon, password = told.partition(":")
    if not (name and colon):
        raise _denied()
    return name.encode(), password.encode()


def _denied() -> ProblemFound:
    return ProblemFound("", status=401, detail="Name a user and a password.", headers=dict(_DENIED))
