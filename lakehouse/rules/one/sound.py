"""What was found sound is not looked at again: most messages declare the same properties as thousands of others."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Any

import orjson

_MOST, _LONGEST = 20_000, 500  # texts that are remembered, and bytes of each: 10 MB at most, a tenth of it mostly


class Sound:
    """The JSON of members of an object that broke no rule, by all that the rules look at beside a member.

    The rules about such a member must depend on its name, its value and that context alone.
    """

    def __init__(self) -> None:
        self._texts: dict[Hashable, set[tuple[str, bytes]]] = {}
        self._count = 0

    def others(self, context: Hashable, members: dict[str, Any]) -> dict[str, tuple[Any, bytes]]:
        """Give the members that were not found sound yet, each with its JSON; of one that has none here it is empty."""
        seen = self._texts.get(context, ())
        found = {}
        for name, member in members.items():
            try:
                text = orjson.dumps(member)
            except TypeError:  # a number with a spelling of its own
                text = b""
            if (name, text) not in seen:
                found[name] = member, text
        return found

    def add(self, context: Hashable, members: dict[str, tuple[Any, bytes]], unsound: Collection[str]) -> None:
        """Remember members, as from `others`, but for the unsound ones."""
        if self._count > _MOST:
            self._texts.clear()
            self._count = 0
        texts = self._texts.setdefault(context, set())
        before = len(texts)
        texts.update((name, text) for name, (_, text) in members.items() if 0 < len(text) <= _LONGEST and name not in unsound)
        self._count += len(texts) - before
