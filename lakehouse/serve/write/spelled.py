"""The documents of schemas that stand as JSON values in the body of a request, with the text that they have there."""

from __future__ import annotations

from collections.abc import Iterator
from json import JSONDecoder
from typing import Any, NamedTuple

from lakehouse.serve.write.asked import Json

# What each level of a body has below it: the members that lead on, `*` for all of them, and the level of these.
_BELOW = {
    0: {"schemagroups": 1},
    1: {"*": 2},
    2: {"schemas": 3},
    3: {"*": 4},
    4: {"versions": 5},
    5: {"*": 6},
    6: {},
}
_BLANKS = " \t\n\r"
_SKIP = JSONDecoder(parse_int=str, parse_float=str, strict=False)


class Spelled(NamedTuple):
    """A JSON object or array with its text, as UTF-8."""

    value: Any
    text: bytes


def with_texts(body: Json, content: bytes, parts: tuple[str, ...]) -> Json:
    """Put each document of a schema that is an object or array with its text.

    Args:
        body: of a request, as read out of the content.
        content: its text.
        parts: of the path that the request is directed at.

    Returns:
        The body, in which such a `schema` is a `Spelled`; everything else is as it was.
    """
    if b'"schema"' not in content or parts[:1] not in ((), ("schemagroups",)) or parts[4:] == ("meta",):
        return body
    return _level(body, content.decode("utf-8-sig"), 0, len(parts))


def _level(value: Json, text: str, at: int, level: int) -> Json:
    """Put the texts into an object whose text begins at a place."""
    found = dict(value)
    for name, start, end in _members(text, at):
        member = value.get(name)
        below = _BELOW[level].get(name, _BELOW[level].get("*"))
        if below is not None and isinstance(member, dict):
            found[name] = _level(member, text, start, below)
        elif level in (4, 6) and name == "schema" and isinstance(member, (dict, list)):
            found[name] = Spelled(member, text[start:end].encode())
    return found


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Give the members of an object of valid JSON: name, begin and end of the value."""
    at = _past_blanks(text, _past_blanks(text, at) + 1)
    while text[at] != "}":
        name, at = _SKIP.raw_decode(text, at)
        start = _past_blanks(text, _past_blanks(text, at) + 1)
        _, end = _SKIP.raw_decode(text, start)
        yield name, start, end
        at = _past_blanks(text, end)
        if text[at] == ",":
            at = _past_blanks(text, at + 1)


def _past_blanks(text: str, at: int) -> int:
    while text[at] in _BLANKS:
        at += 1
    return at
