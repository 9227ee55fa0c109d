"""Versions of a definition of the draft by their numbers, whichever way they are written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse.dialects.detection import is_definition, is_group


def is_lone(item: Any) -> bool:
    """Tell a definition that stands by itself, without a group."""
    return isinstance(item, dict) and not is_group(item) and is_definition(item)


@dataclass
class Keyed:
    """A member of a map, with its key."""

    value: Any
    key: str


def numbered(member: Any) -> Any:
    """Give a version with its number, which may be its key."""
    if isinstance(member, Keyed):
        if isinstance(member.value, dict) and "version" not in member.value:
            return member.value | {"version": int(member.key) if member.key.isdigit() else member.key}
        return member.value
    return member


def number_of(one: Any) -> int | None:
    """Give the number that a version declares, None when it declares none that can be one."""
    number = one.get("version") if isinstance(one, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def numbers_differ(parts: Sequence[tuple[str, dict[str, Any]]], written: dict[str, Any]) -> bool:
    """Tell that parts of one id are versions of it: each has a number, and no two the same."""
    numbers = [number_of(one) for _, one in parts] + [number_of(written)]
    return None not in numbers and len(set(numbers)) == len(numbers) and "versions" not in written
