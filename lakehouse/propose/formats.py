"""Formats of JSON Schema that a text has. Patterns are fixed and linear."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from lakehouse.match.definition.valuetypes import is_timestamp

_PATTERNS = {
    "date": r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])",
    "time": r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": r"[A-Za-z][A-Za-z0-9+.-]*:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+",
    "email": r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+",
    "ipv4": r"(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)",
}
_HAS: dict[str, Callable[[str], object]] = {
    "date-time": is_timestamp,
    **{name: re.compile(pattern, re.ASCII).fullmatch for name, pattern in _PATTERNS.items()},
}


def formats_of(texts: Iterable[str], among: Iterable[str] | None = None) -> frozenset[str]:
    """Return the formats that all texts have.

    Args:
        texts: at least one.
        among: formats that are still possible; None: all.
    """
    possible = list(_HAS if among is None else among)
    for text in texts:
        if not possible:
            break
        possible = [name for name in possible if _HAS[name](text)]
    return frozenset(possible)
