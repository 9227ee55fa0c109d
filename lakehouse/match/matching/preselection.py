"""Which definitions some events may be of, or come near to, by the few columns that tell definitions apart.

It never leaves out what the index would give for one of the events, so a matcher that knows only these tells the same of them. A
catalog of any size is asked for one event so, without its definitions being read.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.landed import Event
from lakehouse.match.matching.index import is_close, last_segment
from lakehouse.readmodel.view import Telling


class Preselection:
    """Tells of a definition whether it is to be read for some events.

    Args:
        events: what is to be matched; some, not many.
    """

    def __init__(self, events: Sequence[Event]) -> None:
        kinds = {as_text(event.ce["type"]) for event in events if event.ce.get("type") is not None}
        self._types = frozenset(kinds)
        self._folded = frozenset(kind.strip().casefold() for kind in kinds)
        self._lasts = frozenset(last_segment(kind).casefold() for kind in kinds)
        self._addresses = frozenset(event.address for event in events if event.address is not None)
        self._starts = frozenset(_start(one, separator) for one in self._addresses for separator in "/.")
        self._is_blind = any(event.family is not None and event.address is None for event in events)
        self._may_be_of_type = lru_cache(100_000)(self._is_type)

    def __call__(self, one: Telling) -> bool:
        """Tell whether a definition is to be read."""
        kind = one.ce_type
        if kind is None or "{" in kind or not _is_cloudevent(one.envelope):
            return self._may_be_at(one)
        return self._may_be_of_type(kind) or one.address in self._addresses

    def _is_type(self, kind: str) -> bool:
        return (
            kind in self._types
            or kind.strip().casefold() in self._folded
            or last_segment(kind).casefold() in self._lasts
            or any(is_close(kind, other) for other in self._types)
        )

    def _may_be_at(self, one: Telling) -> bool:
        """Tell of a definition without a constant type whether one of the events may have travelled where it says."""
        family = (one.protocol or "").partition("/")[0].upper()
        if family in ("", "NONE", "AMQP") or one.address is None or self._is_blind:
            return True
        if "{" not in one.address:
            return one.address in self._addresses
        start = _start(one.address, "." if family == "NATS" else "/")
        return "{" in start or start in self._starts


def _start(address: str, separator: str) -> str:
    return address.partition(separator)[0]


def _is_cloudevent(envelope: str | None) -> bool:
    return not envelope or envelope.upper().startswith("CLOUDEVENTS")
