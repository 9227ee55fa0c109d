"""Objects of JSON in which a key occurs twice: all values of such a key are kept, so that no way through the product drops one.

`jsontext` reads such an object and reports its keys; whoever passes an object on takes it apart by `members` and puts it together
by `object_of`, and `jsontext.as_read` writes it as it was read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any


class Duplicated(dict[str, Any]):
    """An object in which keys occur twice; as a dict it holds the first value of each.

    Attributes:
        twice: all values of each such key.
    """

    twice: dict[str, list[Any]]


def members(value: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield keys and values of an object, with each value of a duplicate key."""
    if not isinstance(value, Duplicated):
        yield from value.items()
        return
    for key, first in value.items():
        for one in value.twice.get(key, [first]):
            yield key, one


def object_of(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of keys and values; one in which no key occurs twice is a plain dict."""
    first = Duplicated()
    first.twice = {}
    for key, value in pairs:
        if key in first:
            first.twice.setdefault(key, [first[key]]).append(value)
        else:
            first[key] = value
    return first if first.twice else dict(first)


def without(value: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """Return an object without some of its members."""
    return object_of((key, member) for key, member in members(value) if key not in names)


def with_member(value: dict[str, Any], name: str, member: Any) -> dict[str, Any]:
    """Return an object with another value of one member, which becomes the last."""
    return object_of([*members(without(value, (name,))), (name, member)])


def values_of(value: dict[str, Any], name: str) -> list[Any]:
    """Return all values of a key in an object; an empty list if it has none."""
    return [member for key, member in members(value) if key == name]
