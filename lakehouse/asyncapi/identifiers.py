"""Ids of what AsyncAPI names by a key, a title or an address; and the placeholders of addresses."""

from __future__ import annotations

import hashlib
import re

_LONGEST_ID = 128
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_OUTSIDE = re.compile(r"[^A-Za-z0-9_.\-]")


def slug(text: str) -> str:
    """Make an id of a name that people read."""
    return fitted(re.sub(r"[^A-Za-z0-9_.]+", "-", re.sub(r"(?i)\Aurn:", "", text)).strip("-.").lower() or "asyncapi")


def id_of_address(address: str) -> str:
    """Make an id of an address: no two have the same, letter case counts; `/` becomes `:`, `{x}` becomes `@x`."""
    plain = _PLACEHOLDER.sub(lambda result: "\x1f" + result[1], address)
    return _OUTSIDE.sub(lambda result: {"/": ":", "\x1f": "@"}.get(result[0]) or _coded(result[0]), plain)


def id_of_key(key: str) -> str:
    """Make an id of a key of a map."""
    coded = id_of_address(key)
    return fitted(coded if coded[:1].isalnum() or coded[:1] == "_" else f"_{coded}")


def fitted(identifier: str) -> str:
    """Shorten an id that is too long; its hash keeps it apart from others."""
    return identifier if len(identifier) <= _LONGEST_ID else _hashed(identifier)


def apart(identifier: str, taken: dict[str, str]) -> str:
    """Return an id; of ids that differ only in letter case, which a collection cannot hold, the later ones get their hash.

    Args:
        identifier: the id.
        taken: the first ids of the collection by their case-folded forms; gets this one if it is the first.
    """
    return identifier if taken.setdefault(identifier.casefold(), identifier) == identifier else _hashed(identifier)


def _hashed(identifier: str) -> str:
    return f"{identifier[:100]}~{hashlib.sha256(identifier.encode()).hexdigest()[:12]}"


def with_symbols(address: str) -> str:
    """Write the names of placeholders as symbols: letters, digits and `_`."""
    return _PLACEHOLDER.sub(lambda result: "{" + re.sub(r"\W", "_", result[1], flags=re.ASCII) + "}", address)


def placeholders(text: str) -> list[str]:
    """Return the names of the placeholders in a text."""
    return [re.sub(r"\A[+#./;?&]|[:*].*", "", name) for name in _PLACEHOLDER.findall(text)]


def _coded(character: str) -> str:
    return "".join(f"~{byte:02X}" for byte in character.encode())
