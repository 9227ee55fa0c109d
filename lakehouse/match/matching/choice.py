"""An event against all candidates: which match, which of them is the most specific, and if none, what came nearest.

All matches are kept; best are those that no other match is more specific than, in each registry by itself (MSG-076 to MSG-079,
MSG-142).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lakehouse.match.definition.definitions import (
    ADDRESSES,
    CONTENT_TYPE,
    OWN_PROTOCOL,
    PROTOCOL,
    SPECVERSION,
    TYPE,
    Definition,
)
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.landed import Event
from lakehouse.match.matching.evaluation import Outcome, Reason, Tolerance, evaluate
from lakehouse.text.names import WHOLE, Pointer

STATUSES = MATCHED, AMBIGUOUS, INCOMPLETE, UNMATCHED, UNREADABLE = "matched", "ambiguous", "incomplete", "unmatched", "unreadable"
FAILURES = (UNMATCHED, INCOMPLETE)  # nothing whole matches
_ENOUGH_BARE = 100
_WEIGHTS = {TYPE: 100, OWN_PROTOCOL: 40, "/envelopemetadata/source": 20, "/envelopemetadata/subject": 20}
_ADDRESSES = frozenset(PROTOCOL + name for name in ADDRESSES.values())


@dataclass
class Match:
    """The result of matching one event.

    Attributes:
        status: matched, ambiguous (more than one best in one registry), incomplete (only definitions may match whose chain of
            bases is not whole), unmatched or unreadable.
        matches: outcomes that match, sorted by registry and XID.
        best: those of them that nothing is more specific than.
        nearest: the outcome that came nearest: of an unmatched event; of one that matches, of a definition for its own
            protocol that would have been more specific. None: there is none.
        reasons: why it is unreadable, or what the event lacks of `nearest`.
        undecided: of an incomplete one, outcomes of definitions whose chain of bases is not whole, and of which nothing fails.
    """

    status: str
    matches: list[Outcome] = field(default_factory=list)
    best: list[Outcome] = field(default_factory=list)
    nearest: Outcome | None = None
    reasons: list[Reason] = field(default_factory=list)
    undecided: list[Outcome] = field(default_factory=list)

    @property
    def shown(self) -> Outcome | None:
        """Give the outcome whose variables, deviations and payload are told: the first of the best."""
        return self.best[0] if self.best else None


Bare = Callable[[Definition, Event], bool]


def match_event(
    event: Event,
    candidates: Sequence[Definition],
    tolerance: Tolerance,
    *,
    scoped: bool = False,
    bare_fits: Bare | None = None,
    near: Callable[[Event], Iterable[Definition]] | None = None,
) -> Match:
    """Match an event.

    Args:
        event: the event.
        candidates: definitions that it may be of, such as `Index.candidates` gives.
        tolerance: how strictly.
        scoped: the candidates are those of an endpoint or group, so one that nothing but its payload tells is taken too.
        bare_fits: whether the payload is that of such a definition; None: it is not looked at.
        near: gives further definitions to compare an event with that matches none.
    """
    if event.problem:
        pointer, _, told = event.problem.partition(": ")
        return Match(UNREADABLE, reasons=[Reason(Pointer(pointer), "unreadable", None, told)])
    outcomes, matches, bare = [], [], []
    for definition in candidates:
        if definition.older or definition.incomplete:
            continue
        if definition.is_bare:
            bare.append(definition)
            continue
        outcome = evaluate(definition, event, tolerance)
        outcomes.append(outcome)
        if outcome.matches:
            matches.append(outcome)
    if bare and not matches:
        found, too_many = _match_bare(bare, event, tolerance, scoped, bare_fits)
        matches += found
        if too_many:
            return Match(UNMATCHED, reasons=[too_many])
    if not matches:
        matches = _match_older(event, candidates, tolerance)
    if not matches:
        partial = [evaluate(one, event, tolerance) for one in candidates if one.incomplete and not one.older]
        return _unmatched(event, outcomes, [one for one in partial if one.matches], tolerance, near)
    matches.sort(key=lambda outcome: outcome.definition.key)
    best = best_of(matches, protocol_known=event.family is not None)
    missed = _missed(event, best, outcomes)
    return Match(status_of([one.definition for one in best]), matches, best, missed, list(missed.reasons) if missed else [])


def best_of(matches: Sequence[Outcome], *, protocol_known: bool = True) -> list[Outcome]:
    """Give the matches that no other match of the same registry is more specific than.

    Where the landing does not tell the protocol, a definition for one is not more specific than one for any: that part of it was
    not checked.
    """
    kept: list[Outcome] = []
    for registry in dict.fromkeys(outcome.definition.registryid for outcome in matches):
        own = [outcome for outcome in matches if outcome.definition.registryid == registry]
        if not protocol_known and any(outcome.definition.family is None for outcome in own):
            own = [outcome for outcome in own if outcome.definition.family is None]
        best = [one for one in own if not any(is_more_specific(two.definition, one.definition) for two in own if two is not one)]
        kept += best or own
    return kept


def is_more_specific(one: Definition, other: Definition) -> bool:
    """Tell whether one definition extends the other, or asks all that the other asks and more.

    Compared are protocol, pointers and values with the names of placeholders removed; where these are the same, demands and
    types.
    """
    if other.xid in one.chain or one.xid in other.chain:
        return other.xid in one.chain and one.xid not in other.chain
    if one.shapes == other.shapes:
        return other.demands < one.demands
    return other.shapes < one.shapes


def _missed(event: Event, best: Sequence[Outcome], outcomes: Sequence[Outcome]) -> Outcome | None:
    """Find what would have been more specific on the event's own protocol, and misses: a base hides the drift of its variants."""
    missed = [
        one
        for one in outcomes
        if one.reasons
        and event.family is not None
        and one.definition.family == event.family
        and any(
            two.definition.registryid == one.definition.registryid and is_more_specific(one.definition, two.definition)
            for two in best
        )
    ]
    return min(missed, key=lambda outcome: (_distance(outcome), outcome.definition.key), default=None)


def _match_bare(
    bare: list[Definition], event: Event, tolerance: Tolerance, scoped: bool, fits: Bare | None
) -> tuple[list[Outcome], Reason | None]:
    """Match definitions that only a content type and a schema tell apart: inside a scope, or when there are few (MSG-087)."""
    if not scoped and len(bare) > _ENOUGH_BARE:
        return [], Reason(WHOLE, "too_many_candidates", f"{_ENOUGH_BARE}", str(len(bare)))
    found = []
    for definition in bare:
        outcome = evaluate(definition, event, tolerance)
        if outcome.matches and (fits(definition, event) if fits and _has_schema(definition) else scoped):
            found.append(outcome)
    return found, None


def _match_older(event: Event, candidates: Sequence[Definition], tolerance: Tolerance) -> list[Outcome]:
    """Match Versions that are not the default; of each message the newest that matches."""
    found: dict[tuple[str, str], Outcome] = {}
    for definition in sorted(
        (one for one in candidates if one.older and not (one.is_bare or one.incomplete)), key=lambda one: one.older
    ):
        outcome = evaluate(definition, event, tolerance)
        if outcome.matches:
            found.setdefault(definition.key, outcome)
    return list(found.values())


def _has_schema(definition: Definition) -> bool:
    return bool(definition.schema_xid or definition.inline_schema or definition.dataschemauri)


def status_of(best: Sequence[Definition]) -> str:
    """Tell the status of an event by its best definitions."""
    registries = [definition.registryid for definition in best]
    return AMBIGUOUS if len(registries) != len(set(registries)) else MATCHED


def narrow(match: Match, is_valid: Callable[[Definition], bool | None]) -> None:
    """Take out of several best ones those whose schema the payload breaks, as long as one is left (MSG-079)."""
    if match.status != AMBIGUOUS:
        return
    left: list[Outcome] = []
    for registry in dict.fromkeys(outcome.definition.registryid for outcome in match.best):
        own = [outcome for outcome in match.best if outcome.definition.registryid == registry]
        verdicts = [is_valid(outcome.definition) for outcome in own] if len(own) > 1 else [None]
        left += [outcome for outcome, verdict in zip(own, verdicts, strict=True) if verdict is not False] or own
    match.best, match.status = left, status_of([one.definition for one in left])


def _unmatched(
    event: Event,
    outcomes: list[Outcome],
    undecided: list[Outcome],
    tolerance: Tolerance,
    near: Callable[[Event], Iterable[Definition]] | None,
) -> Match:
    """Find what came nearest: of the definitions of its type, else of those like it, else of all that were asked.

    Definitions whose chain of bases is not whole leave it open what an event is where a value that they declare holds, and where
    no whole one is for a type like its own.
    """
    known = {outcome.definition.key for outcome in outcomes}
    further = [] if near is None else [one for one in near(event) if one.key not in known and not one.is_bare]
    alike = [evaluate(definition, event, tolerance) for definition in further]
    tiers = ([one for one in outcomes if _is_of_type(one.definition, event)], alike, outcomes)
    told = ((number, found) for number, tier in enumerate(tiers) if (found := [one for one in tier if one.reasons]))
    number, ranked = next(told, (len(tiers), []))
    is_near = number < len(tiers) - 1
    undecided = [one for one in undecided if not is_near or _shows_value(one)]
    undecided.sort(key=lambda outcome: outcome.definition.key)
    status = INCOMPLETE if undecided else UNMATCHED
    if not ranked:
        kind = event.ce.get("type")
        undeclared = [] if kind is None else [Reason(TYPE, "undeclared", None, as_text(kind))]
        return Match(status, reasons=undeclared, undecided=undecided)
    nearest = min((_with_envelope(one, event, tolerance) for one in ranked), key=lambda one: _nearness(one, event))
    reasons = [_other_protocol(reason) for reason in nearest.reasons]
    return Match(status, nearest=nearest, reasons=reasons, undecided=undecided)


def _shows_value(outcome: Outcome) -> bool:
    """Return whether a value of the event is one that the definition declares, so that more than silence speaks for it."""
    quiet = {CONTENT_TYPE, SPECVERSION, *outcome.unchecked}
    return any(one.has_value and one.pointer not in quiet for one in outcome.definition.attributes)


def _with_envelope(outcome: Outcome, event: Event, tolerance: Tolerance) -> Outcome:
    """Check the envelope of a definition for another protocol, too: it would seem nearer than one that only misses there."""
    is_other = any(reason.pointer == OWN_PROTOCOL for reason in outcome.reasons)
    return evaluate(outcome.definition, event, tolerance, envelope_too=True) if is_other else outcome


def _nearness(outcome: Outcome, event: Event) -> tuple[int, bool, tuple[str, str]]:
    """Return what sorts outcomes: the nearest first; where two miss alike, the one for the event's own protocol."""
    return _distance(outcome), outcome.definition.family != event.family, outcome.definition.key


def _is_of_type(definition: Definition, event: Event) -> bool:
    """Tell that a definition says of which type its events are, and the event is."""
    declared, kind = definition.attribute(TYPE), event.ce.get("type")
    if declared is None or not declared.has_value or kind is None:
        return False
    text = as_text(kind)
    return text == as_text(declared.value) if declared.template is None else declared.template.match(text) is not None


def _other_protocol(reason: Reason) -> Reason:
    if reason.reason != "protocol":
        return reason
    return Reason(reason.pointer, f"declared for {reason.expected}, seen on {reason.actual}", reason.expected, reason.actual)


def _distance(outcome: Outcome) -> int:
    return sum(30 if reason.pointer in _ADDRESSES else _WEIGHTS.get(reason.pointer, 10) for reason in outcome.reasons)
