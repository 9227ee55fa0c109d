"""From a place in the normal form back to where it was written: a JSON Pointer that a person can follow in the document.

It is looked for only where something was found, so it may take its time: at each step the names of `dialects.csv` are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from lakehouse.dialects.tables import spellings_of, table
from lakehouse.text.jsontext import pointer_of
from lakehouse.text.names import Pointer


def locate(entity: str, path: tuple[str, ...], *written: tuple[Pointer, dict[str, Any]]) -> Pointer:
    """Find a place of the normal form in an object as written.

    Args:
        entity: entity of `dialects.csv`.
        path: keys from the entity in normal form to the place.
        written: where to look, in this order: the JSON Pointer of an object, and the object.

    Returns:
        The JSON Pointer as written, as deep as the place was found.
    """
    best, depth = written[0][0], 0
    for pointer, parent in written:
        result, steps = _walk(entity, path, parent)
        if steps > depth:
            best, depth = Pointer(pointer + result), steps
    return best


def _walk(entity: str, path: tuple[str, ...], written: dict[str, Any]) -> tuple[str, int]:
    """Follow a path as far as it leads: the pointer, and how many steps."""
    pointer, parent = "", written
    for depth, token in enumerate(path):
        place = "/".join(path[:depth])
        step = next(_steps(entity, place, token, parent), None)
        if step is None and depth == 0:
            step = _moved(entity, path, written)
            if step is not None:
                keys, _ = step
                return pointer_of(*keys), 2
        if step is None:
            return pointer, depth
        keys, parent = step
        pointer += pointer_of(*keys)
    return pointer, len(path)


def _steps(entity: str, place: str, token: str, parent: Any) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Try the spellings of one name in one object, directly and inside the wrappers whose members belong there."""
    if isinstance(parent, list):
        index = next((n for n, item in enumerate(parent) if isinstance(item, dict) and item.get("name") == token), None)
        index = int(token) if index is None and token.isdecimal() else index
        if index is not None and index < len(parent):
            yield (str(index),), parent[index]
        return
    if not isinstance(parent, dict):
        return
    names, wrappers = _spellings(entity, place, token)
    for name in names:
        if name in parent:
            yield (name,), parent[name]
    for wrapper in wrappers:
        inner = parent.get(wrapper)
        if isinstance(inner, dict):
            yield from (((wrapper, name), inner[name]) for name in names if name in inner)


def _moved(entity: str, path: tuple[str, ...], written: dict[str, Any]) -> tuple[tuple[str, ...], Any] | None:
    """Try the spellings that start at the entity: `/config/endpoints` for `endpoints` of `protocoloptions`."""
    for word in _roots(entity, *path[:2]) if len(path) > 1 else ():
        keys = tuple(path[1] if key == "*" else key for key in word[1:].split("/"))
        parent: Any = written
        for key in keys:
            parent = parent.get(key) if isinstance(parent, dict) else None
        if parent is not None:
            return keys, parent
    return None


@cache
def _spellings(entity: str, place: str, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names: dict[str, None] = {name: None}
    wrappers: dict[str, None] = {}
    for row in table():
        if row["entity"] == entity and row["place"] == place and row["name"] in (name, "*"):
            for word in spellings_of(row):
                if word.endswith("/*") and not word.startswith("/"):
                    wrappers[word[:-2]] = None
                elif not word.startswith("/") and row["name"] == name:
                    names[word] = None
    return tuple(names), tuple(wrappers)


@cache
def _roots(entity: str, place: str, name: str) -> tuple[str, ...]:
    rows = [row for row in table() if row["entity"] == entity and row["place"] == place and row["name"] in (name, "*")]
    return tuple(word for row in rows for word in spellings_of(row) if word.startswith("/"))
