"""The users of a file that `lakehouse sql-user` writes, as it is now: it may change, be gone or be something else at any time."""

from __future__ import annotations

import base64
import logging
import os
import stat
import threading
from typing import NamedTuple

logger = logging.getLogger(__name__)

Stamp = tuple[int, ...]
_MOST_BYTES = 8 << 20  # some 80,000 users
_MOST_ITERATIONS = 10_000_000


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
        self._told: str | None = None  # to the log: why the file cannot be read
        self._read: tuple[Stamp | None, dict[bytes, Account]] = (None, {})

    def stamp(self) -> Stamp | None:
        """Return what tells the file from what it was before; None: it is not there."""
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
            found = os.fstat(opened)
            if not stat.S_ISREG(found.st_mode):
                return self._unusable(_stamp(found), "it is no file")
            if found.st_size > _MOST_BYTES:
                return self._unusable(_stamp(found), f"it has more than {_MOST_BYTES} bytes")
            return _stamp(found), self._users(os.pread(opened, _MOST_BYTES, 0))
        except OSError as error:
            return self._unusable(None, error.strerror)
        finally:
            os.close(opened)

    def _users(self, text: bytes) -> dict[bytes, Account]:
        self._told = None
        users: dict[bytes, Account] = {}
        wrong = []
        for number, line in enumerate(text.splitlines(), 1):
            name, _, told = line.strip().partition(b":")
            account = _account(told)
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
        if why != self._told:  # once, and not for each request
            logger.error("%s: the users cannot be read, so nobody gets in: %s.", self.path, why)
        self._told = why
        return stamp, {}


def _stamp(found: os.stat_result) -> Stamp:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _account(told: bytes) -> Account | None:
    try:
        iterations, salt, digest = told.split(b":")
        account = Account(int(iterations), base64.b64decode(salt, validate=True), base64.b64decode(digest, validate=True))
    except ValueError:
        return None
    return account if 0 < account.iterations <= _MOST_ITERATIONS and account.digest else None
