"""Ready answers are kept up to a number of bytes, as long as a snapshot is the newest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lakehouse.serve.app import CachedResponse, ResponseCache

HEAD: Any = SimpleNamespace()


def answer(size: int) -> CachedResponse:
    return CachedResponse(200, [], b"x" * size, b'"e"', None)


def test_what_was_asked_for_last_stays_when_the_room_is_full():
    kept = ResponseCache(10_000)
    for key in "abcd":
        assert kept.find((key,), HEAD) is None
        kept.keep((key,), answer(1_400))
    assert kept.find(("a",), HEAD) is not None
    kept.keep(("e",), answer(1_400))
    assert [key for key in "abcde" if kept.find((key,), HEAD)] == ["a", "c", "d", "e"]


def test_what_takes_more_than_a_quarter_is_not_kept():
    kept = ResponseCache(10_000)
    assert kept.find(("a",), HEAD) is None
    kept.keep(("a",), answer(1_501))
    assert kept.find(("a",), HEAD) is None


def test_an_answer_that_was_made_twice_takes_its_room_once():
    kept = ResponseCache(10_000)
    assert kept.find(("a",), HEAD) is None
    for _ in range(20):
        kept.keep(("a",), answer(1_400))
    kept.keep(("b",), answer(1_400))
    assert kept.find(("a",), HEAD) is not None


def test_all_is_forgotten_with_the_next_snapshot():
    kept = ResponseCache(10_000)
    kept.find(("a",), HEAD)
    kept.keep(("a",), answer(10))
    assert kept.find(("a",), SimpleNamespace()) is None
    assert kept.find(("a",), HEAD) is None


def test_the_room_counts_keys_and_headers_too():
    kept = ResponseCache(100_000)
    kept.find(("a",), HEAD)
    for number in range(100):
        query = b"x" * 16_000 + b"%d" % number
        kept.keep((b"/", query, "http://a"), CachedResponse(200, [(b"link", b"l" * 4_000)], b"{}", b'"e"', None))
    held = sum(len(key[1]) + len(ready.headers[0][1]) for key, ready in kept._ready.items())
    assert 0 < held <= 100_000
