"""An event against all candidates: which match, which of them is the most specific, and if none, what came nearest.

All matches are kept; best are those that no other match is more specific than, in each registry by itself (MSG-076 to MSG-079,
MSG-142).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from lakehouse.match.definition.definitions import ADDRESSES, OWN_PROTOCOL, PROTOCOL, TYPE, Definition
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.landed import Event
from lakehouse.match.matching.evaluation import Outcome, Reason, Tolerance, evaluate
from lakehouse.text.names import WHOLE, Pointer

MATCHED, AMBIGUOUS, UNMATCHED, UNREADABLE = "matched", "ambiguous", "unmatched", "unreadable"
_ENOUGH_BARE = 100
_WEIGHTS = {TYPE: 100, OWN_PROTOCOL: 40, "/envelopemetadata/source": 20, "/envelopemetadata/subject": 20}
_ADDRESSES = frozenset(PROTOCOL + name for name in ADDRESSES.values())


@dataclass
class Match:
    """What is told of one event.

    Attributes:
        status: matched, ambiguous (more than one best in one registry), unmatched or unreadable.
        matches: outcomes that match, sorted by registry and XID.
        best: those of them that nothing is more specific than.
        nearest: the outcome that came nearest: of an unmatched event; of one that matches, of a definition for its own protocol
            that
            would have been more specific. None: there is none.
        reasons: why it is unreadable, or what the event lacks of `nearest`.
    """

    status: str
    matches: list[Outcome] = field(default_factory=list)
    best: list[Outcome] = field(default_factory=list)
    nearest: Outcome | None = None
    reasons: list[Reason] = field(default_factory=list)

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
        if definition.older:
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
        return _unmatched(event, outcomes, tolerance, near)
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
    for definition in sorted((one for one in candidates if one.older and not one.is_bare), key=lambda one: one.older):
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
    event: Event, outcomes: list[Outcome], tolerance: Tolerance, near: Callable[[Event], Iterable[Definition]] | None
) -> Match:
    """Find what came nearest: of the definitions of its type, else of those like it, else of all that were asked."""
    known = {outcome.definition.key for outcome in outcomes}
    further = [] if near is None else [one for one in near(event) if one.key not in known and not one.is_bare]
    alike = [evaluate(definition, event, tolerance) for definition in further]
    tiers = ([one for one in outcomes if _is_of_type(one.definition, event)], alike, outcomes)
    ranked = next((found for tier in tiers if (found := [one for one in tier if one.reasons])), [])
    if not ranked:
        kind = event.ce.get("type")
        told = [] if kind is None else [Reason(TYPE, "undeclared", None, as_text(kind))]
        return Match(UNMATCHED, reasons=told)
    nearest = min(ranked, key=lambda outcome: (_distance(outcome), outcome.definition.key))
    reasons = nearest.reasons
    if any(reason.pointer == OWN_PROTOCOL for reason in reasons):
        reasons = [_other_protocol(reason) for reason in reasons]
    return Match(UNMATCHED, nearest=nearest, reasons=list(reasons))


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
