"""Who gets in by name and password: soon, whoever else tries, and only as long as the users file has them."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from lakehouse.query.sqlserver import write_user
from lakehouse.serve import Options
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.auth import Accounts, Guard, Tries

HASH = hashlib.pbkdf2_hmac
HERE, THERE = "127.0.0.1", "127.0.0.2"


def line(name: str, password: str, iterations: int = 1000) -> str:
    """Return the line of a user, whose hash takes no time."""
    digest = HASH("sha256", password.encode(), b"salt", iterations)
    return f"{name}:{iterations}:{base64.b64encode(b'salt').decode()}:{base64.b64encode(digest).decode()}\n"


def basic(pair: str) -> dict[bytes, bytes]:
    return {b"authorization": b"Basic " + base64.b64encode(pair.encode())}


async def asked(guard: Guard, pair: str, client: str = HERE) -> Any:
    """Return the user who gets in, else the status of the refusal."""
    try:
        return await guard.check(basic(pair), client)
    except ProblemFound as problem:
        return problem.status if problem.status != 429 or "Retry-After" in problem.headers else problem


@pytest.fixture
def users(tmp_path):
    path = tmp_path / "users.txt"
    path.write_text(line("anna", "one") + line("bert", "two") + line("carl", "three"))
    return path


@pytest.fixture
def guard(users):
    found = Guard(str(users))
    yield found
    found.stop()


class Hashes:
    """Hashes that take until it is said so; `carl` has one that takes no time."""

    def __init__(self, monkeypatch: Any) -> None:
        self.over = threading.Event()
        self.count = 0

        def slow(kind: str, password: bytes, salt: bytes, iterations: int) -> bytes:
            self.count += 1
            assert password == b"three" or self.over.wait(20)
            return HASH(kind, password, salt, iterations)

        monkeypatch.setattr(hashlib, "pbkdf2_hmac", slow)


# Many who are wrong


def test_wrong_passwords_keep_no_other_address_waiting(guard, monkeypatch):
    hashes = Hashes(monkeypatch)

    async def run() -> None:
        wrong = [asyncio.create_task(asked(guard, f"anna:{number}")) for number in range(150)]
        # one is being checked, 50 wait, and the others are refused
        await asyncio.wait_for(asyncio.gather(*wrong[51:]), 20)
        assert not any(one.done() for one in wrong[:51])
        assert await asyncio.wait_for(asked(guard, "carl:three", THERE), 20) == "carl"
        hashes.over.set()
        found = await asyncio.gather(*wrong)
        assert (found.count(401), found.count(429)) == (5, 145)
        assert hashes.count == 6

    asyncio.run(run())


def test_who_was_let_in_lately_passes_at_once_from_the_same_address_too(guard):
    async def run() -> None:
        assert await asked(guard, "anna:one") == "anna"
        found = [await asked(guard, f"anna:wrong{number}") for number in range(8)]
        assert found == [401] * 5 + [429] * 3
        assert await asked(guard, "anna:one") == "anna"
        assert await asked(guard, "bert:two") == "bert"  # another name, from that address
        assert await asked(guard, "anna:wrong", THERE) == 401

    asyncio.run(run())


def test_many_names_from_one_address_are_slowed_down(guard, monkeypatch):
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *_: b"another")

    async def run() -> None:
        found = [await asked(guard, f"nobody{number}:x") for number in range(40)]
        assert found == [401] * 30 + [429] * 10
        assert await asked(guard, "nobody:x", THERE) == 401

    asyncio.run(run())


def test_a_page_whose_requests_come_at_once_is_checked_once(guard, monkeypatch):
    hashes = Hashes(monkeypatch)

    async def run() -> None:
        page = [asyncio.create_task(asked(guard, "anna:one")) for _ in range(100)]
        await asyncio.sleep(0.1)
        page[0].cancel()
        hashes.over.set()
        assert await asyncio.gather(*page[1:]) == ["anna"] * 99
        assert hashes.count == 1

    asyncio.run(run())


def test_being_remembered_lasts_while_one_asks(guard, monkeypatch):
    hashes, now = Hashes(monkeypatch), [1000.0]
    hashes.over.set()
    monkeypatch.setattr("lakehouse.serve.auth.time.monotonic", lambda: now[0])

    async def run() -> None:
        for _ in range(10):
            assert await asked(guard, "anna:one") == "anna"
            now[0] += 200
        assert hashes.count == 1
        now[0] += 200
        assert await asked(guard, "anna:one") == "anna"
        assert hashes.count == 2

    asyncio.run(run())


def test_who_was_wrong_may_try_again_after_a_while(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("lakehouse.serve.auth.time.monotonic", lambda: now[0])
    tries = Tries(2, 10.0)
    for _ in range(2):
        assert tries.wait("a") == 0
        tries.went_wrong("a")
    assert (tries.wait("a"), tries.wait("b")) == (10, 0)
    now[0] += 4
    assert tries.wait("a") == pytest.approx(6)
    now[0] += 6
    assert tries.wait("a") == 0
    for number in range(20_000):
        tries.went_wrong(number)
    assert len(tries._wrong) == 10_000


# The file, as it is now


def test_a_user_who_is_taken_out_while_the_password_is_checked_is_not_remembered(guard, users, monkeypatch):
    hashes = Hashes(monkeypatch)

    async def run() -> None:
        first = asyncio.create_task(asked(guard, "anna:one"))
        await asyncio.sleep(0.1)
        users.write_text(line("bert", "two"))
        assert await asked(guard, "carl:three", THERE) == 401
        hashes.over.set()
        assert await first == "anna"  # who came before
        assert await asked(guard, "anna:one") == 401

    asyncio.run(run())


def replaced(path: Path, text: str) -> None:
    fresh = path.with_suffix(".fresh")
    fresh.write_text(text)
    fresh.replace(path)


def linked(path: Path, text: str) -> None:
    other = path.with_suffix(".other")
    other.write_text(text)
    path.unlink()
    path.symlink_to(other)


def linked_to(target: str):
    def change(path: Path, _: str) -> None:
        path.unlink()
        path.symlink_to(target)

    return change


def piped(path: Path, _: str) -> None:
    path.unlink()
    os.mkfifo(path)


def made_a_folder(path: Path, _: str) -> None:
    path.unlink()
    path.mkdir()


def huge(path: Path, _: str) -> None:
    with path.open("r+b") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize(
    ("change", "is_read"),
    [
        (Path.write_text, True),
        (replaced, True),
        (linked, True),
        (lambda path, text: path.write_bytes(b"\xff\xfe\x00\nanna\n:::\n" + text.encode()), True),
        (linked_to("/dev/zero"), False),
        (linked_to("/nowhere/at/all"), False),
        (piped, False),
        (made_a_folder, False),
        (huge, False),
        (lambda path, _: path.unlink(), False),
        (lambda path, _: path.write_text(""), False),
    ],
)
def test_a_file_that_changes_counts_at_once_and_one_that_cannot_be_read_lets_nobody_in(guard, users, change, is_read):
    async def run() -> None:
        assert await asked(guard, "anna:one") == "anna"
        assert await asked(guard, "bert:two") == "bert"
        change(users, line("anna", "another") + line("bert", "two"))
        assert await asyncio.wait_for(asked(guard, "anna:one"), 20) == 401
        assert await asked(guard, "anna:another") == ("anna" if is_read else 401)
        assert await asked(guard, "bert:two") == ("bert" if is_read else 401)

    asyncio.run(run())


def test_a_file_that_is_gone_for_a_while_slows_nobody_down_and_is_logged_once(guard, users, monkeypatch, caplog):
    text = users.read_text()

    async def run() -> None:
        users.unlink()
        monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *_: b"another")
        assert [await asked(guard, "anna:one") for _ in range(40)] == [401] * 40
        monkeypatch.setattr(hashlib, "pbkdf2_hmac", HASH)
        users.write_text(text)
        assert await asked(guard, "anna:one") == "anna"
        assert caplog.text.count("nobody gets in") == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "pair", "expected"),
    [
        (line("anna", "one") + line("anna", "two"), "anna:one", 401),
        (line("anna", "one") + line("anna", "two"), "anna:two", "anna"),
        (line("anna", "one") + "anna:1000:c2FsdA==:\n", "anna:one", 401),
        (line("anna", "one"), "anna:", 401),
        (line("anna", "one"), "anna", 401),
        (line("anna", "one"), "Anna:one", 401),
        (line("anna", "one"), " anna:one", 401),
        (line("anna", "one"), ":one", 401),
        (line("", "one"), ":one", 401),
        ("anna:1000:c2FsdA==:\n", "anna:", 401),
        ("anna:-1:c2FsdA==:c2FsdA==\n", "anna:one", 401),
        ("anna:99999999999999:c2FsdA==:c2FsdA==\n", "anna:one", 401),
        ("anna:1000:%%%:c2FsdA==\n", "anna:one", 401),
        ("anna:one\n", "anna:one", 401),
        (line("a" * 1000, "one"), "a" * 1000 + ":one", "a" * 1000),
        (line("a" * 100_000, "one"), "a" * 100_000 + ":one", 401),
        (line("anna", "a:b: ü€"), "anna:a:b: ü€", "anna"),
        (line("anna", "one").replace("\n", "  \r\n"), "anna:one", "anna"),
        (line("anna\x00", "one"), "anna:one", 401),
    ],
)
def test_lines_of_users(guard, users, text, pair, expected):
    users.write_text(text)
    assert asyncio.run(asked(guard, pair)) == expected


@pytest.mark.parametrize("given", [b"", b"Basic", b"Basic ", b"Basic !!!", b"Basic /w==", b"Bearer x", b"Basic " + b"YQ" * 5000])
def test_what_is_no_pair_is_refused_before_anything_is_checked(guard, monkeypatch, given):
    monkeypatch.setattr(Accounts, "read", None)
    with pytest.raises(ProblemFound) as refused:
        asyncio.run(guard.check({b"authorization": given}, HERE))
    assert refused.value.status == 401


def test_a_user_with_an_empty_password_is_not_written(tmp_path):
    with pytest.raises(Exception, match="a password"):
        write_user(str(tmp_path / "users"), "anna", "")
    Options(users=__file__).check()
