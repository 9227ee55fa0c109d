"""Who may read, and write where writes are on: everybody, or the users of a file that `lakehouse sql-user` writes, by HTTP Basic.

The file may change, be deleted or be replaced at any time. A password takes as long to check as its hash was made to take. So a
pair of name and password that was right passes at once for some minutes after each use, as long as the file does not change; it
is remembered as a keyed hash that only this process can make. Others are checked in turn, each address in its share, and clients
that were wrong often wait.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import math
import os
import secrets
import stat
import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.clientlimits import Shares

logger = logging.getLogger(__name__)

Stamp = tuple[int, ...]
_MOST_BYTES_OF_FILE = 8 << 20  # some 80,000 users
_MOST_ITERATIONS = 10_000_000
_MOST_COUNTED = 10_000
_SECONDS_REMEMBERED = 300.0
_MOST_REMEMBERED = 1000
_PARALLEL = 2
_MOST_WAITING = 50
_MOST_BYTES_OF_HEADER = 2000  # of the header
_DENIED = {"WWW-Authenticate": 'Basic realm="lakehouse", charset="UTF-8"'}


class Account(NamedTuple):
    """How the password of a user is checked (PBKDF2 with HMAC-SHA-256)."""

    iterations: int
    salt: bytes
    digest: bytes


class Accounts:
    """A users file; of several lines with one name the last one counts, as for `lakehouse serve-sql`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._logged: str | None = None  # to the log: why the file cannot be read
        self._read: tuple[Stamp | None, dict[bytes, Account]] = (None, {})

    def stamp(self) -> Stamp | None:
        """Return a stamp of the file that changes with it; None: it is missing."""
        try:
            return _stamp(os.stat(self.path))
        except OSError:
            return None

    def read(self) -> tuple[Stamp | None, dict[bytes, Account]]:
        """Return the users by name, and the stamp of the file that has them; a file that cannot be used lets nobody in."""
        with self._lock:
            stamp = self.stamp()
            if stamp is None or stamp != self._read[0]:
                self._read = self._open()
            return self._read

    def _open(self) -> tuple[Stamp | None, dict[bytes, Account]]:
        try:
            opened = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer is not waited for
        except OSError as error:
            return self._unusable(None, error.strerror)
        try:
            result = os.fstat(opened)
            if not stat.S_ISREG(result.st_mode):
                return self._unusable(_stamp(result), "it is no file")
            if result.st_size > _MOST_BYTES_OF_FILE:
                return self._unusable(_stamp(result), f"it has more than {_MOST_BYTES_OF_FILE} bytes")
            return _stamp(result), self._users(os.pread(opened, _MOST_BYTES_OF_FILE, 0))
        except OSError as error:
            return self._unusable(None, error.strerror)
        finally:
            os.close(opened)

    def _users(self, text: bytes) -> dict[bytes, Account]:
        self._logged = None
        users: dict[bytes, Account] = {}
        wrong = []
        for number, line in enumerate(text.splitlines(), 1):
            name, _, entry = line.strip().partition(b":")
            account = _account(entry)
            if account is not None:
                users[name] = account
            elif name:
                users.pop(name, None)
                wrong.append(number)
        if wrong:
            logger.warning(
                "%s: %d lines are no users as `lakehouse sql-user` writes them, the first one line %d.",
                self.path, len(wrong), wrong[0],
            )  # fmt: skip
        return users

    def _unusable(self, stamp: Stamp | None, why: str | None) -> tuple[Stamp | None, dict[bytes, Account]]:
        if why != self._logged:  # once, and not for each request
            logger.error("%s: the users cannot be read, so nobody gets in: %s.", self.path, why)
        self._logged = why
        return stamp, {}


def _stamp(result: os.stat_result) -> Stamp:
    return result.st_dev, result.st_ino, result.st_size, result.st_mtime_ns, result.st_ctime_ns


def _account(text: bytes) -> Account | None:
    try:
        iterations, salt, digest = text.split(b":")
        account = Account(int(iterations), base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True))
    except ValueError:
        return None
    return account if 0 < account.iterations <= _MOST_ITERATIONS and account.digest else None


class Tries:
    """Counts what went wrong, by who tried; shared by threads.

    Args:
        at_once: how often one may be wrong without waiting.
        seconds: after which it may be once more.
    """

    def __init__(self, at_once: int, seconds: float) -> None:
        self.at_once = at_once
        self.seconds = seconds
        self._lock = threading.Lock()
        self._wrong: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()  # how many are left, and since when

    def wait(self, client: Hashable) -> float:
        """Return the seconds until somebody may try again; 0: now."""
        with self._lock:
            return max(0.0, (self._left(client) - self.at_once + 1) * self.seconds)

    def went_wrong(self, client: Hashable) -> None:
        """Count a try that was wrong."""
        with self._lock:
            self._wrong[client] = (self._left(client) + 1, time.monotonic())
            self._wrong.move_to_end(client)
            if len(self._wrong) > _MOST_COUNTED:
                self._wrong.popitem(last=False)

    def _left(self, client: Hashable) -> float:
        count, since = self._wrong.get(client, (0.0, 0.0))
        return max(0.0, count - (time.monotonic() - since) / self.seconds)


_NOBODY = Account(600_000, b"nobody", b"")  # of a user that is not there, so that nobody learns of it by the clock


class Guard:
    """Lets requests in; used within one event loop."""

    def __init__(self, users: str | None) -> None:
        self.accounts = None if users is None else Accounts(users)
        self._key = secrets.token_bytes(32)
        self._admitted: OrderedDict[bytes, float] = OrderedDict()
        self._stamp: Stamp | None = None
        self._checks: dict[bytes, asyncio.Task[bool]] = {}  # of pairs that are being checked
        self._threads = ThreadPoolExecutor(_PARALLEL, "lakehouse-password")
        self._shares = Shares(self._threads, _PARALLEL, _MOST_WAITING)
        self._of_address = Tries(30, 1.0)
        self._of_name = Tries(5, 10.0)  # from an address

    async def check(self, headers: dict[bytes, bytes], client: str) -> str | None:
        """Admit a request, or raise an error; return the user.

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
            self._admitted.clear()
            self._stamp = stamp
        mark = hmac.digest(self._key, name + b":" + password, "sha256")
        if self._admitted.get(mark, 0.0) <= time.monotonic() and not await self._is_right(mark, client, name, password):
            raise _denied()
        if mark in self._admitted:
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
            result = hashlib.pbkdf2_hmac("sha256", password, account.salt, account.iterations)
            is_right = hmac.compare_digest(result, account.digest)
            if not is_right and users:  # where nobody can be right, nobody is wrong
                self._of_address.went_wrong(client)
                self._of_name.went_wrong((client, name))
            return is_right, stamp

        is_right, stamp = await self._shares.run(client, check)
        if is_right and stamp == self._stamp:  # else the file has changed since, and may not have the user any more
            self._remember(mark)
        return is_right

    def _remember(self, mark: bytes) -> None:
        self._admitted[mark] = time.monotonic() + _SECONDS_REMEMBERED
        self._admitted.move_to_end(mark)
        if len(self._admitted) > _MOST_REMEMBERED:
            self._admitted.popitem(last=False)

    def _refuse_who_was_wrong_often(self, client: str, name: bytes) -> None:
        seconds = self._of_name.wait((client, name)) or self._of_address.wait(client)
        if seconds:
            headers = {"Retry-After": str(math.ceil(seconds))}
            raise ProblemFound("", status=429, detail="Too many wrong passwords came from this address.", headers=headers)


def _pair(header: bytes) -> tuple[bytes, bytes]:
    """Read the name and the password that a header gives.

    Raises:
        ProblemFound: it gives none.
    """
    if len(header) > _MOST_BYTES_OF_HEADER or header[:6].lower() != b"basic ":
        raise _denied()
    try:
        pair = base64.b64decode(header[6:].strip(), validate=True).decode()
    except ValueError:
        raise _denied() from None
    name, colon, password = pair.partition(":")
    if not (name and colon):
        raise _denied()
    return name.encode(), password.encode()


def _denied() -> ProblemFound:
    return ProblemFound("", status=401, detail="Name a user and a password.", headers=dict(_DENIED))
