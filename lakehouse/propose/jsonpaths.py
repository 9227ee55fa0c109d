"""Paths in the payloads of one kind: a JSON Pointer in which `*` is any item of an array and `{}` any key of a map.

Attributes of the envelope and options of a protocol have paths in the same tree, so that all of a kind is counted alike.
The segments of a text have paths, too: `/envelopemetadata/source#3/1` is the second of three.
"""

from __future__ import annotations

import re

ITEM, MEMBER = "*", "{}"
ENVELOPE, OPTIONS, DATA = "/envelopemetadata", "/protocoloptions", "/data"
CONTENT_TYPE = "/datacontenttype"
SEGMENT = "#"
_ESCAPES = (("~", "~0"), ("/", "~1"), ("*", "~2"), ("{", "~3"), ("#", "~4"))
_ID = re.compile(
    r"\A(?:\d+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{8,}|\d{4}-\d\d(?:-\d\d.*)?"
    r"|(?=(?:[^\d]*\d){4})[A-Za-z0-9_-]{16,})\Z"
)


def child(path: str, name: str) -> str:
    """Return the path of a member; characters that have a meaning in paths are escaped as JSON Pointer does."""
    if not name.isalnum():
        for plain, escaped in _ESCAPES:
            name = name.replace(plain, escaped)
    return f"{path}/{name}"


def name_in(path: str) -> str:
    """Return the name of the member that a path leads to."""
    name = path.rpartition("/")[2]
    for plain, escaped in reversed(_ESCAPES):
        name = name.replace(escaped, plain)
    return name


def parent(path: str) -> str:
    """Return the path of the object or array that holds a member."""
    return path.rpartition("/")[0]


def segment(path: str, count: int, index: int) -> str:
    """Return the path of a segment of a text: of how many, and which, from 0."""
    return f"{path}{SEGMENT}{count}/{index}"


def looks_like_id(name: str) -> bool:
    """Return whether a text names one thing and not a kind of thing: a number, a UUID, a date, a long token with digits."""
    return _ID.match(name) is not None
