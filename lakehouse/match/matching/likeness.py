"""Which definitions ask alike, but for the type of their events: rows of all these types are then matched together."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple

from lakehouse.match.definition.definitions import TYPE, Attribute, Definition
from lakehouse.match.event.landed import Event
from lakehouse.match.matching.choice import MATCHED, best_of, is_more_specific, status_of
from lakehouse.match.matching.evaluation import Outcome, compare, deviates_in_form

_MOST_NUMBERS = 20_000


class Choice(NamedTuple):
    """What rows are of: the definitions that match, sorted; the best of them; and which candidate the first of these is."""

    matches: list[Definition]
    best: list[Definition]
    shown: int


class Candidates:
    """The definitions that rows of one type may be of.

    Args:
        definitions: those that are for the protocol of the rows, or for any.
        numbers: for each what it asks; the same number asks the same.
        protocol_known: whether the landing tells the protocol.

    Attributes:
        definitions: in the order of what they ask, so that they stand alike where they ask alike.
        likeness: what they ask.
    """

    def __init__(self, definitions: Sequence[Definition], numbers: Sequence[int], *, protocol_known: bool) -> None:
        pairs = sorted(zip(numbers, definitions, strict=True), key=lambda pair: (pair[0], pair[1].key))
        self.definitions = [one for _, one in pairs]
        self.likeness = tuple(number for number, _ in pairs)
        self._protocol_known = protocol_known
        self._choices: dict[int, Choice | None] = {}

    def __len__(self) -> int:
        return len(self.definitions)

    def choice(self, bits: int) -> Choice | None:
        """Choose among the definitions that match, each a bit; None: the row loop must look at it."""
        if bits not in self._choices:
            self._choices[bits] = self._choose(bits)
        return self._choices[bits]

    def _choose(self, bits: int) -> Choice | None:
        matches = [one for bit, one in enumerate(self.definitions) if bits >> bit & 1]
        missed = [one for bit, one in enumerate(self.definitions) if not bits >> bit & 1 and one.family]
        matches.sort(key=lambda one: one.key)
        best = [one.definition for one in best_of([Outcome(one) for one in matches], protocol_known=self._protocol_known)]
        if not best or status_of(best) != MATCHED:
            return None
        if self._protocol_known and any(is_more_specific(one, two) for one in missed for two in best):
            return None
        return Choice(matches, best, next(bit for bit, one in enumerate(self.definitions) if one is best[0]))


class Likeness:
    """Numbers what definitions ask, and keeps the candidates of a type."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._next = count()
        self._number_of = lru_cache(_MOST_NUMBERS)(self._number)
        self.candidates = lru_cache(_MOST_NUMBERS)(self._candidates)

    def _candidates(self, definitions: tuple[Definition, ...], family: str | None) -> Candidates:
        """Give the candidates of rows of a type: definitions that the index gave, the protocol of the rows."""
        wanted = [
            one
            for one in definitions
            if not (one.is_bare or one.older or one.incomplete) and (family is None or one.family in (None, family))
        ]
        return Candidates(wanted, [self._number_of(one) for one in wanted], protocol_known=family is not None)

    def _number(self, definition: Definition) -> int:
        asked = (
            definition.family,
            definition.version,
            tuple((one.question, one.required, one.decides) for one in definition.attributes if not is_settled(one)),
        )
        if len(self._numbers) > _MOST_NUMBERS:  # what comes again gets another number: it cannot be combined once more
            self._numbers.clear()
        return self._numbers.setdefault(asked, next(self._next))


@lru_cache(_MOST_NUMBERS)
def is_settled(attribute: Attribute) -> bool:
    """Tell that an attribute is the type under which the index finds its definition: it holds of all rows of that type."""
    if attribute.pointer != TYPE or attribute.template is not None or not isinstance(attribute.value, str):
        return False
    return compare(attribute, attribute.value, Event(), []) is None and not deviates_in_form(attribute, attribute.value)
