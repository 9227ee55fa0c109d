"""Which definitions some events may be of, or come near to, by the few columns that tell definitions apart.

It never leaves out a definition that the index would give for one of the events, so a matcher with only these definitions gives
the same results. One event is matched so against a catalog of any size without all its definitions being read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from lakehouse.match.definition.definitions import incomplete_of, separator_of
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.landed import Event
from lakehouse.match.matching.index import CLOSE_TYPES, is_close, last_segment
from lakehouse.readmodel.view import Telling


class Preselection:
    """Tells of a definition whether it is to be read for some events.

    Args:
        events: what is to be matched; some, not many.
        near: events that match nothing; what comes near to them is wanted, too.
        among: all definitions of the scope, where `near` are sought.
    """

    def __init__(self, events: Sequence[Event], near: Sequence[Event] = (), among: Iterable[Telling] = ()) -> None:
        self._types = frozenset(as_text(event.ce["type"]) for event in events if event.ce.get("type") is not None)
        self._addresses = frozenset(event.address for event in events if event.address is not None)
        self._starts = frozenset(_start(event.family, event.address) for event in events if event.address is not None)
        self._is_blind = any(event.family is not None and event.address is None for event in events)
        self._near = frozenset(_near_ones(near, among) if near else ())

    def __call__(self, one: Telling) -> bool:
        """Tell whether a definition is to be read."""
        kind = _constant_type(one)
        found = self._may_be_at(one) if kind is None else kind in self._types
        return found or (one.registryid, one.xid) in self._near

    def _may_be_at(self, one: Telling) -> bool:
        """Tell of a definition without a constant type whether one of the events may have travelled where it says."""
        family = (one.protocol or "").partition("/")[0].upper()
        if family in ("", "NONE", "AMQP") or one.address is None or self._is_blind:
            return True
        if "{" not in one.address:
            return one.address in self._addresses
        start = _start(family, one.address)
        return "{" in start or start in self._starts


def _near_ones(events: Sequence[Event], among: Iterable[Telling]) -> Iterator[tuple[str, str]]:
    """Give the definitions that `Index.near` would give, for each event those of the first likeness that any has."""
    whole = (one for one in among if not incomplete_of(one.chain_status))
    typed = [(kind, one) for one in whole if (kind := _constant_type(one)) is not None]
    known = {kind for kind, _ in typed}
    for event in events:
        for wanted in _likenesses(event, known):
            found = [(one.registryid, one.xid) for kind, one in typed if wanted(kind, one)]
            if found:
                yield from found
                break


def _likenesses(event: Event, known: set[str]) -> Iterator[Callable[[str, Telling], bool]]:
    """Give what tells that a definition is like an event, in the order of `Index.near`: type folded, close, its end; address."""
    told = event.ce.get("type")
    if isinstance(told, str):
        folded, end = told.strip().casefold(), last_segment(told).casefold()
        yield lambda kind, _: kind.strip().casefold() == folded
        if len(known) <= CLOSE_TYPES:
            close = {kind for kind in known if is_close(kind, told)}
            yield lambda kind, _: kind in close
        yield lambda kind, _: last_segment(kind).casefold() == end
    if event.address is not None:
        yield lambda _, one: one.address == event.address


def _constant_type(one: Telling) -> str | None:
    """Give the type of a CloudEvent, where it is one without placeholders."""
    is_cloudevent = not one.envelope or one.envelope.upper().startswith("CLOUDEVENTS")
    return one.ce_type if one.ce_type is not None and is_cloudevent and "{" not in one.ce_type else None


def _start(family: str | None, address: str) -> str:
    return address.partition(separator_of(family, "subject"))[0]
