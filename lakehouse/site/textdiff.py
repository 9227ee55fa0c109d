"""Two long texts as a person compares them: the lines by which they differ, or what follows where they begin to differ."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from difflib import SequenceMatcher

import orjson

_MOST_LINES = 300  # that are matched: the time grows with their square
_BEFORE = 40  # characters before the first that differs
_GAP = "…"


def unquoted(text: str) -> str:
    """Write JSON text without the quotes of a text; all else as it is."""
    if text.startswith('"'):
        with suppress(orjson.JSONDecodeError):  # else it is no JSON text
            return str(orjson.loads(text))
    return text


def parts_apart(before: str | None, after: str | None, most: int) -> tuple[str, str]:
    """Give what differs of two texts, of JSON text or as it is written.

    Args:
        before: one of them; None: there is none.
        after: the other.
        most: characters up to which they are given whole.
    """
    one, other = ("" if text is None else unquoted(text) for text in (before, after))
    if max(len(one), len(other)) <= most or not one or not other:
        return one, other
    sides = _lines(*_trimmed(_laid_out(one), _laid_out(other)))
    return _near(sides[0], sides[1], most)


def _laid_out(text: str) -> list[str]:
    """Give the lines of a text; JSON is laid out."""
    if text.startswith(("{", "[")):
        with suppress(orjson.JSONDecodeError, orjson.JSONEncodeError):  # no JSON, or nested too deep
            text = orjson.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2).decode()
    return text.split("\n")


def _trimmed(one: list[str], other: list[str]) -> tuple[list[str], list[str]]:
    """Take off the lines that both begin and end with."""
    start = 0
    while start < min(len(one), len(other)) and one[start] == other[start]:
        start += 1
    end = 0
    while end < min(len(one), len(other)) - start and one[-1 - end] == other[-1 - end]:
        end += 1
    return one[start : len(one) - end], other[start : len(other) - end]


def _lines(one: list[str], other: list[str]) -> tuple[str, str]:
    """Give the lines by which two texts differ; a gap where lines between them are the same."""
    if max(len(one), len(other)) > _MOST_LINES:
        return "\n".join(one), "\n".join(other)
    found: tuple[list[str], list[str]] = ([], [])
    for op, i, j, k, m in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        for side, lines in zip(found, ([_GAP], [_GAP]) if op == "equal" else (one[i:j], other[k:m]), strict=True):
            side.extend(lines)
    return "\n".join(_joined(found[0])), "\n".join(_joined(found[1]))


def _joined(lines: list[str]) -> Iterator[str]:
    """Give lines without a gap at an end or next to another."""
    last = _GAP
    for at, line in enumerate(lines):
        if line == _GAP and (last == _GAP or not any(one != _GAP for one in lines[at:])):
            continue
        last = line
        yield line


def _near(one: str, other: str, most: int) -> tuple[str, str]:
    """Begin shortly before the first character that differs, where both are long up to there."""
    if max(len(one), len(other)) <= most:
        return one, other
    same = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    start = max(0, same - _BEFORE)
    return (one, other) if not start else (f"{_GAP}{one[start:]}", f"{_GAP}{other[start:]}")
