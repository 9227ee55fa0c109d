"""What a definition asks of an event, and which definitions an event matches best.

`evaluate` checks one definition: each declared attribute passes, fails or is unknown. A definition matches when nothing that
decides fails. What a hop may change only deviates, unless `strict` is set; what the landing did not capture is unknown, and never
a failure. `match_event` checks all candidates: all matches are kept; best are those that no other match is more specific than, in
each registry by itself (MSG-076 to MSG-079, MSG-142); without a match, what came nearest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from lakehouse.dialects.tables import PROTOCOLS
from lakehouse.match.definition.compiled import (
    ADDRESSES,
    CONTENT_TYPE,
    ENVELOPE,
    OWN_PROTOCOL,
    PROTOCOL,
    SPECVERSION,
    TYPE,
    DeclaredAttribute,
    Definition,
)
from lakehouse.match.definition.templates import Rule, Template
from lakehouse.match.definition.valuetypes import (
    MARKER,
    TEMPLATED_THEN_TYPED,
    as_text,
    is_media_type,
    is_of_type,
    is_timestamp,
    is_uri_reference,
    is_value,
    milliseconds_of,
    timestamp_of,
)
from lakehouse.match.event.canonical import STRUCTURED_JSON, Event
from lakehouse.match.event.captured import SECRET_HEADERS
from lakehouse.text.names import ROOT, Pointer

_TIMES = frozenset({"timestamp", "datetime"})
_NOT_EMPTY = frozenset({"id", "source", "type"})
_URI_KINDS = frozenset({"uritemplate"})
_CONTENT_KEYS = frozenset({"content_type", "properties/content-type", "properties/content-encoding", "headers/content-type"})
_CONTENT_TYPES = frozenset(protocol.content_type for protocol in PROTOCOLS.values())  # of the whole message
_ATTRIBUTES = frozenset({"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema"})
STATUSES = MATCHED, AMBIGUOUS, INCOMPLETE, UNMATCHED, UNREADABLE = "matched", "ambiguous", "incomplete", "unmatched", "unreadable"
FAILURES = (UNMATCHED, INCOMPLETE)  # nothing whole matches
_ENOUGH_BARE = 100
_WEIGHTS = {TYPE: 100, OWN_PROTOCOL: 40, "/envelopemetadata/source": 20, "/envelopemetadata/subject": 20}
_ADDRESSES = frozenset(PROTOCOL + name for name in ADDRESSES.values())
Bare = Callable[[Definition, Event], bool]


class Reason(NamedTuple):
    """Why an attribute fails: `pointer` of the declaration, `reason`, what was `expected`, what was there (`actual`)."""

    pointer: Pointer
    reason: str
    expected: str | None = None
    actual: str | None = None


@dataclass(frozen=True)
class Tolerance:
    """How strictly definitions are applied (MSG-119 leaves it to the processor).

    Attributes:
        level: `default`; `strict`: deviations decide, and further CloudEvents extensions are reported; `lenient`: an absent
            value that is not required, and wrong types, deviate.
        placeholders: what a placeholder takes: `auto`, `segment` or `any`.
        native: only the protocol part is matched; the CloudEvent is not asked for.
    """

    level: str = "default"
    placeholders: Rule = "auto"
    native: bool = False


@dataclass
class Evaluation:
    """What came of one definition and one event.

    Attributes:
        reasons: what decides and fails; none: it matches.
        deviations: what differs and does not decide.
        unchecked: pointers of what the landing does not hold.
        variables: what the placeholders hold.
    """

    definition: Definition
    reasons: list[Reason] = field(default_factory=list)
    deviations: list[Reason] = field(default_factory=list)
    unchecked: list[Pointer] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def matches(self) -> bool:
        """Return whether nothing that decides fails."""
        return not self.reasons


def evaluate(definition: Definition, event: Event, tolerance: Tolerance, *, envelope_too: bool = False) -> Evaluation:
    """Check all that a definition asks of an event.

    Args:
        definition: what is asked.
        event: the event.
        tolerance: how strictly.
        envelope_too: where the protocol is another, check what is required of the envelope all the same.
    """
    outcome = Evaluation(definition)
    _check_protocol(definition, event, tolerance, outcome)
    is_other = bool(outcome.reasons)
    if is_other and not envelope_too:
        return outcome
    captures: dict[str, list[tuple[Pointer, str]]] = {}
    repeated = []
    for attribute in definition.attributes:
        if (tolerance.native and attribute.section != "protocol") or (is_other and attribute.section != "envelope"):
            continue
        if event.repeated and attribute.key in event.repeated:
            repeated.append(attribute)  # last: of its values the one that holds what the others do
        else:
            _check(attribute, event, tolerance, outcome, captures)
    for attribute in repeated:
        _check(attribute, event, tolerance, outcome, captures)
    for name, places in captures.items():
        _bind(name, places, outcome)
    if tolerance.level == "strict" and definition.is_cloudevent and not tolerance.native:
        declared = {attribute.key for attribute in definition.attributes if attribute.section == "envelope"}
        further = sorted(event.ce.keys() - declared - _ATTRIBUTES)
        outcome.deviations += [Reason(Pointer(ENVELOPE + name), "undeclared", None, as_text(event.ce[name])) for name in further]
    return outcome


def _check_protocol(definition: Definition, event: Event, tolerance: Tolerance, outcome: Evaluation) -> None:
    if definition.family is None:
        if tolerance.native:
            outcome.reasons.append(Reason(OWN_PROTOCOL, "absent", "a protocol", event.family))
        return
    if event.family is None:
        outcome.unchecked.append(OWN_PROTOCOL)
    elif event.family != definition.family:
        outcome.reasons.append(Reason(OWN_PROTOCOL, "protocol", definition.family, event.family))
    elif definition.family == "MQTT" and not is_version(event.version, definition.version):
        outcome.deviations.append(Reason(OWN_PROTOCOL, "version", f"MQTT/{definition.version}", f"MQTT/{event.version}"))


def is_version(version: str | None, other: str | None) -> bool:
    """Return whether two versions of a protocol are the same: 5 is 5.0; an unknown one is any."""
    return not version or not other or version.removesuffix(".0") == other.removesuffix(".0")


def _check(
    attribute: DeclaredAttribute,
    event: Event,
    tolerance: Tolerance,
    outcome: Evaluation,
    captures: dict[str, list[tuple[Pointer, str]]],
) -> None:
    if attribute.section == "message" and hides_envelope_type(attribute, event):
        outcome.unchecked.append(attribute.pointer)
        return
    values = values_of(attribute, event)
    if not values:
        _check_absent(attribute, event, tolerance, outcome)
        return
    failure: Reason | None = None
    passing: list[tuple[Any, list[tuple[str, Pointer, str]]]] = []
    for value in values:
        captured: list[tuple[str, Pointer, str]] = []
        failure = compare(attribute, value, event, captured)
        if failure is None:
            passing.append((value, captured))
    if passing:
        agreeing = (
            passed for passed in passing if all(captures.get(name, [("", text)])[0][1] == text for name, _, text in passed[1])
        )
        value, captured = passing[0] if len(passing) == 1 else next(agreeing, passing[0])
        for name, pointer, text in captured:
            captures.setdefault(name, []).append((pointer, text))
        _check_uri(attribute, value, event, outcome)
        return
    typed = failure is not None and failure.reason == "type"
    decides = (attribute.decides or tolerance.level == "strict") and not (typed and tolerance.level == "lenient")
    if failure is not None:
        (outcome.reasons if decides else outcome.deviations).append(failure)


def values_of(attribute: DeclaredAttribute, event: Event) -> list[Any]:
    """Return the values of an attribute; of a name that repeats any may satisfy, but of Kafka's headers the last."""
    if attribute.section == "envelope":
        result = event.ce.get(attribute.key)
        if result is None and attribute.key == "datacontenttype":
            result = event.data_content_type()
    elif attribute.section == "message":
        sent = event.content_type if event.mode == "structured" else None
        of_data = event.data_content_type() or ("application/json" if event.mode == "structured" else None)  # no bytes deny it
        content_types = [_implied_type(event), of_data, sent]
        return [content_type for content_type in content_types if content_type is not None]
    else:
        if attribute.key in event.repeated and event.family != "KAFKA":
            return event.repeated[attribute.key]
        result = event.options.get(attribute.key)
        if result is not None and event.item is not None and attribute.key.lower() in _CONTENT_TYPES:
            return [STRUCTURED_JSON, result]
    return [] if result is None else [result]


def _implied_type(event: Event) -> str | None:
    """Return the content type of an envelope that no header says: of one in a batch, or where the landing shows no header."""
    shows_none = event.content_type is None and event.knows(f"/protocoloptions/{_content_type_place(event)}")
    return STRUCTURED_JSON if event.mode == "structured" and (event.item is not None or shows_none) else None


def _check_absent(attribute: DeclaredAttribute, event: Event, tolerance: Tolerance, outcome: Evaluation) -> None:
    if not is_captured(attribute, event):
        outcome.unchecked.append(attribute.pointer)
        return
    if not (attribute.required or attribute.has_value):
        return
    reason = Reason(attribute.pointer, "absent", _expected(attribute))
    tolerated = tolerance.level == "lenient" and not attribute.required
    decides = tolerance.level == "strict" or (attribute.decides and not tolerated)
    (outcome.reasons if decides else outcome.deviations).append(reason)


def is_captured(attribute: DeclaredAttribute, event: Event) -> bool:
    """Return whether the landing shows an attribute, were it there."""
    if attribute.section == "message":
        return event.family is not None and not _content_type_unknown(event)
    if is_credential(attribute):
        return False
    if attribute.section == "envelope" and attribute.key == "datacontenttype" and _content_type_unknown(event):
        return False
    return event.knows(attribute.pointer)


def is_credential(attribute: DeclaredAttribute) -> bool:
    """Return whether an attribute is a header of credentials: they are dropped while an event is read."""
    section, _, name = attribute.key.partition("/")
    return attribute.section == "protocol" and section in ("headers", "query") and name.lower() in SECRET_HEADERS


def hides_envelope_type(attribute: DeclaredAttribute, event: Event) -> bool:
    """Return whether the declared type is of the envelope (MSG-190), and the landing or MQTT 3.1.1 has no place for it."""
    if event.mode != "structured" or event.content_type is not None:
        return False
    is_enveloped = as_text(attribute.value).lower().startswith("application/cloudevents")
    is_mqtt_3 = event.family == "MQTT" and (event.version or "").startswith("3")
    return is_enveloped and (is_mqtt_3 or not event.knows(f"/protocoloptions/{_content_type_place(event)}"))


def _content_type_place(event: Event) -> str:
    return {"MQTT": "content_type", "AMQP": "properties/content-type"}.get(event.family or "", "headers")


def _content_type_unknown(event: Event) -> bool:
    """Return whether the landing does not show content types."""
    return event.mode == "binary" and not event.knows(f"/protocoloptions/{_content_type_place(event)}")


def compare(attribute: DeclaredAttribute, value: Any, event: Event, captured: list[tuple[str, Pointer, str]]) -> Reason | None:
    """Compare a value with a declaration.

    Returns:
        Why it fails; None: it holds. What placeholders hold is added to `captured`: name, pointer, text.
    """
    pointer, value = attribute.pointer, _with_time(attribute, value, event)
    if attribute.section == "envelope" and attribute.key in _NOT_EMPTY and value == "":
        return Reason(pointer, "empty", _expected(attribute) or "text", "")
    if not attribute.has_value:
        return _compare_type(attribute, value, event)
    if attribute.template is not None:
        return _compare_template(attribute, attribute.template, value, captured)
    return _compare_value(attribute, value, event)


def _with_time(attribute: DeclaredAttribute, value: Any, event: Event) -> Any:
    """Write a time of AMQP, which has a type of milliseconds for it, as a timestamp; a text in a JSON envelope is none."""
    in_json = isinstance(value, str) and event.mode == "structured" and attribute.section == "envelope"
    if event.family != "AMQP" or in_json or (attribute.kind or attribute.inferred_kind) not in _TIMES:
        return value
    milliseconds = milliseconds_of(value)
    return value if milliseconds is None else timestamp_of(milliseconds)


def _compare_template(
    attribute: DeclaredAttribute, template: Template, value: Any, captured: list[tuple[str, Pointer, str]]
) -> Reason | None:
    text, pointer, kind = as_text(value), attribute.pointer, attribute.kind
    pieces = template.match(text)
    if pieces is None:
        reason = template.explain(text)
        return Reason(pointer, f"pattern: {reason}" if reason else "pattern", template.text, text)
    if kind in TEMPLATED_THEN_TYPED and not is_of_type(value, kind or "", small=attribute.section == "envelope"):
        return Reason(pointer, "type", kind, text)
    captured += [(name, pointer, piece) for name, piece in zip(template.names, pieces, strict=True)]
    return None


def _compare_value(attribute: DeclaredAttribute, value: Any, event: Event) -> Reason | None:
    pointer, kind, declared = attribute.pointer, attribute.kind, attribute.value
    if isinstance(declared, str) and kind in ("timestamp", "datetime", None) and MARKER.match(declared):
        return None if is_timestamp(as_text(value)) else Reason(pointer, "type", "timestamp", as_text(value))
    if pointer == CONTENT_TYPE or attribute.key == "datacontenttype" or attribute.key in _CONTENT_KEYS:
        same = is_media_type(as_text(value), as_text(declared))
    elif attribute.section == "protocol":
        same = _is_option(attribute.key, event.family, value, declared, kind)
    else:
        same = is_value(value, declared, kind)
    return None if same else Reason(pointer, "value", as_text(declared), as_text(value))


def _is_option(key: str, family: str | None, value: Any, declared: Any, kind: str | None) -> bool:
    if family == "HTTP" and key == "method":
        return as_text(value).upper() == as_text(declared).upper()
    if family == "MQTT" and key == "message_expiry_interval":  # counts down on its way
        try:
            return 0 <= int(as_text(value)) <= int(as_text(declared))
        except ValueError:
            return False
    return is_value(value, declared, kind)


def _compare_type(attribute: DeclaredAttribute, value: Any, event: Event) -> Reason | None:
    kind, in_envelope = attribute.kind, attribute.section == "envelope"
    if kind is None or kind in _URI_KINDS:  # what is not in the form of a URI deviates only
        return None
    if in_envelope and attribute.key == "source" and kind in ("uri", "urireference"):
        return None
    if kind == "symbol" and in_envelope and attribute.key == "datacontenttype":
        return None if "/" in as_text(value) else Reason(attribute.pointer, "type", "media type", as_text(value))
    loose = event.family in ("AMQP", "MQTT") and attribute.key in _CONTENT_KEYS
    fits = is_of_type(value, kind, small=in_envelope, loose_symbol=loose)
    return None if fits else Reason(attribute.pointer, "type", kind, as_text(value))


def _check_uri(attribute: DeclaredAttribute, value: Any, event: Event, outcome: Evaluation) -> None:
    """Return what is not in the form of a URI or of an inferred type: a deviation, never a failure."""
    if deviates_in_form(attribute, value, event):
        is_time = attribute.kind is None and attribute.inferred_kind == "timestamp"
        outcome.deviations.append(Reason(attribute.pointer, "type", "timestamp" if is_time else "URI-reference", as_text(value)))


def deviates_in_form(attribute: DeclaredAttribute, value: Any, event: Event) -> bool:
    """Return whether a value of the envelope has not the form of a URI, or of a timestamp where that type is inferred only."""
    if attribute.section != "envelope":
        return False
    kind = attribute.kind or attribute.inferred_kind
    if kind in ("uritemplate", "urireference", "uri"):
        return not (isinstance(value, str) and is_uri_reference(value))
    return attribute.kind is None and kind == "timestamp" and not is_timestamp(as_text(_with_time(attribute, value, event)))


def _bind(name: str, places: list[tuple[Pointer, str]], outcome: Evaluation) -> None:
    """Return a placeholder its one text; texts that differ fail, but for one percent-decoding (MSG-228)."""
    first = places[0][1]
    outcome.variables[name] = first
    if all(text == first for _, text in places[1:]):
        return
    decoded = {unquote(text) for _, text in places}
    if len(decoded) == 1:
        outcome.variables[name] = decoded.pop()
        outcome.deviations += [
            Reason(pointer, f"variable {name}: percent-encoded", outcome.variables[name], text)
            for pointer, text in places
            if text != outcome.variables[name]
        ]
        return
    counts: dict[str, int] = {}
    for _, text in places:
        counts[text] = counts.get(text, 0) + 1
    most = max(counts, key=lambda text: counts[text])
    outcome.variables[name] = most
    has_usual = counts[most] * 2 > len(places)
    differing = [(pointer, text) for pointer, text in places if not (has_usual and text == most)]
    for pointer, text in differing:
        expected = most if has_usual else next(two for _, two in places if two != text)
        outcome.reasons.append(Reason(pointer, f"variable {name}", expected, text))


def _expected(attribute: DeclaredAttribute) -> str | None:
    if attribute.has_value:
        return as_text(attribute.value)
    return attribute.kind


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
    matches: list[Evaluation] = field(default_factory=list)
    best: list[Evaluation] = field(default_factory=list)
    nearest: Evaluation | None = None
    reasons: list[Reason] = field(default_factory=list)
    undecided: list[Evaluation] = field(default_factory=list)

    @property
    def shown(self) -> Evaluation | None:
        """Return the outcome whose variables, deviations and payload are reported: the first of the best."""
        return self.best[0] if self.best else None


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
        scoped: the candidates are those of an endpoint or group, so a definition that only its payload distinguishes is taken
            too.
        bare_fits: whether the payload is that of such a definition; None: it is not looked at.
        near: gives further definitions to compare an event with that matches none.
    """
    if event.problem:
        pointer, _, problem = event.problem.partition(": ")
        return Match(UNREADABLE, reasons=[Reason(Pointer(pointer), "unreadable", None, problem)])
    outcomes, matches, bare = [], [], []
    for definition in candidates:
        if definition.version_age or definition.incomplete:
            continue
        if definition.is_bare:
            bare.append(definition)
            continue
        outcome = evaluate(definition, event, tolerance)
        outcomes.append(outcome)
        if outcome.matches:
            matches.append(outcome)
    if bare and not matches:
        result, too_many = _match_bare(bare, event, tolerance, scoped, bare_fits)
        matches += result
        if too_many:
            return Match(UNMATCHED, reasons=[too_many])
    if not matches:
        matches = _match_older(event, candidates, tolerance)
    if not matches:
        partial = [
            evaluate(definition, event, tolerance)
            for definition in candidates
            if definition.incomplete and not definition.version_age
        ]
        return _unmatched(event, outcomes, [outcome for outcome in partial if outcome.matches], tolerance, near)
    matches.sort(key=lambda outcome: outcome.definition.key)
    best = best_of(matches, has_protocol=event.family is not None)
    missed = _missed(event, best, outcomes)
    return Match(
        status_of([outcome.definition for outcome in best]), matches, best, missed, list(missed.reasons) if missed else []
    )


def best_of(matches: Sequence[Evaluation], *, has_protocol: bool = True) -> list[Evaluation]:
    """Return the matches that no other match of the same registry is more specific than.

    Where the landing does not say the protocol, a definition for one is not more specific than one for any: that part of it was
    not checked.
    """
    chosen: list[Evaluation] = []
    for registry in dict.fromkeys(outcome.definition.registryid for outcome in matches):
        own = [outcome for outcome in matches if outcome.definition.registryid == registry]
        if not has_protocol and any(outcome.definition.family is None for outcome in own):
            own = [outcome for outcome in own if outcome.definition.family is None]
        best = [
            outcome
            for outcome in own
            if not any(is_more_specific(two.definition, outcome.definition) for two in own if two is not outcome)
        ]
        chosen += best or own
    return chosen


def is_more_specific(definition: Definition, other: Definition) -> bool:
    """Return whether one definition extends the other, or asks all that the other asks and more.

    Compared are protocol, pointers and values with the names of placeholders removed; where these are the same, demands and
    types.
    """
    if other.xid in definition.chain or definition.xid in other.chain:
        return other.xid in definition.chain and definition.xid not in other.chain
    if definition.shapes == other.shapes:
        return other.demands < definition.demands
    return other.shapes < definition.shapes


def _missed(event: Event, best: Sequence[Evaluation], outcomes: Sequence[Evaluation]) -> Evaluation | None:
    """Find what would have been more specific on the event's own protocol, and misses: a base hides the drift of its variants."""
    missed = [
        outcome
        for outcome in outcomes
        if outcome.reasons
        and event.family is not None
        and outcome.definition.family == event.family
        and any(
            two.definition.registryid == outcome.definition.registryid and is_more_specific(outcome.definition, two.definition)
            for two in best
        )
    ]
    return min(missed, key=lambda outcome: (_distance(outcome), outcome.definition.key), default=None)


def _match_bare(
    bare: list[Definition], event: Event, tolerance: Tolerance, scoped: bool, fits: Bare | None
) -> tuple[list[Evaluation], Reason | None]:
    """Match definitions that only a content type and a schema distinguish: inside a scope, or when there are few (MSG-087)."""
    if not scoped and len(bare) > _ENOUGH_BARE:
        return [], Reason(ROOT, "too_many_candidates", f"{_ENOUGH_BARE}", str(len(bare)))
    results = []
    for definition in bare:
        outcome = evaluate(definition, event, tolerance)
        if outcome.matches and (fits(definition, event) if fits and _has_schema(definition) else scoped):
            results.append(outcome)
    return results, None


def _match_older(event: Event, candidates: Sequence[Definition], tolerance: Tolerance) -> list[Evaluation]:
    """Match Versions that are not the default; of each message the newest that matches."""
    results: dict[tuple[str, str], Evaluation] = {}
    for definition in sorted(
        (definition for definition in candidates if definition.version_age and not (definition.is_bare or definition.incomplete)),
        key=lambda definition: definition.version_age,
    ):
        outcome = evaluate(definition, event, tolerance)
        if outcome.matches:
            results.setdefault(definition.key, outcome)
    return list(results.values())


def _has_schema(definition: Definition) -> bool:
    return bool(definition.inline_schema or definition.schema_reference)


def status_of(best: Sequence[Definition]) -> str:
    """Return the status of an event by its best definitions."""
    registries = [definition.registryid for definition in best]
    return AMBIGUOUS if len(registries) != len(set(registries)) else MATCHED


def narrow_by_payload(match: Match, is_valid: Callable[[Definition], bool | None]) -> None:
    """Take out of several best ones those whose schema the payload breaks, as long as one is left (MSG-079)."""
    if match.status != AMBIGUOUS:
        return
    left: list[Evaluation] = []
    for registry in dict.fromkeys(outcome.definition.registryid for outcome in match.best):
        own = [outcome for outcome in match.best if outcome.definition.registryid == registry]
        verdicts = [is_valid(outcome.definition) for outcome in own] if len(own) > 1 else [None]
        left += [outcome for outcome, verdict in zip(own, verdicts, strict=True) if verdict is not False] or own
    match.best, match.status = left, status_of([definition.definition for definition in left])


def _unmatched(
    event: Event,
    outcomes: list[Evaluation],
    undecided: list[Evaluation],
    tolerance: Tolerance,
    near: Callable[[Event], Iterable[Definition]] | None,
) -> Match:
    """Find what came nearest: of the definitions of its type, else of those like it, else of all that were asked.

    Definitions whose chain of bases is not whole leave it open what an event is where a value that they declare holds, and where
    no whole one is for a type like its own.
    """
    ranked, is_near = _nearest_tier(event, outcomes, tolerance, near)
    undecided = [outcome for outcome in undecided if not is_near or _shows_value(outcome)]
    undecided.sort(key=lambda outcome: outcome.definition.key)
    status = INCOMPLETE if undecided else UNMATCHED
    if not ranked:
        kind = event.ce.get("type")
        undeclared = [] if kind is None else [Reason(TYPE, "undeclared", None, as_text(kind))]
        return Match(status, reasons=undeclared, undecided=undecided)
    nearest = min(
        (_with_envelope(outcome, event, tolerance) for outcome in ranked), key=lambda outcome: _nearness(outcome, event)
    )
    reasons = [_other_protocol(reason) for reason in nearest.reasons]
    return Match(status, nearest=nearest, reasons=reasons, undecided=undecided)


def _nearest_tier(
    event: Event, outcomes: list[Evaluation], tolerance: Tolerance, near: Callable[[Event], Iterable[Definition]] | None
) -> tuple[list[Evaluation], bool]:
    """Return the outcomes that miss, of the nearest tier that has any; and whether that tier is of types like the event's."""
    existing = {outcome.definition.key for outcome in outcomes}
    further = (
        []
        if near is None
        else [definition for definition in near(event) if definition.key not in existing and not definition.is_bare]
    )
    alike = [evaluate(definition, event, tolerance) for definition in further]
    tiers = ([outcome for outcome in outcomes if _is_of_type(outcome.definition, event)], alike, outcomes)
    reached = ((number, rows) for number, tier in enumerate(tiers) if (rows := [outcome for outcome in tier if outcome.reasons]))
    number, ranked = next(reached, (len(tiers), []))
    return ranked, number < len(tiers) - 1


def _shows_value(outcome: Evaluation) -> bool:
    """Return whether a value of the event is one that the definition declares, so that more than silence speaks for it."""
    quiet = {CONTENT_TYPE, SPECVERSION, *outcome.unchecked}
    return any(attribute.has_value and attribute.pointer not in quiet for attribute in outcome.definition.attributes)


def _with_envelope(outcome: Evaluation, event: Event, tolerance: Tolerance) -> Evaluation:
    """Check the envelope of a definition for another protocol, too: it would seem nearer than one that only misses there."""
    is_other = any(reason.pointer == OWN_PROTOCOL for reason in outcome.reasons)
    return evaluate(outcome.definition, event, tolerance, envelope_too=True) if is_other else outcome


def _nearness(outcome: Evaluation, event: Event) -> tuple[int, bool, tuple[str, str]]:
    """Return what sorts outcomes: the nearest first; where two miss alike, the one for the event's own protocol."""
    return _distance(outcome), outcome.definition.family != event.family, outcome.definition.key


def _is_of_type(definition: Definition, event: Event) -> bool:
    """Return whether a definition says of which type its events are, and the event is."""
    declared, kind = definition.attribute(TYPE), event.ce.get("type")
    if declared is None or not declared.has_value or kind is None:
        return False
    text = as_text(kind)
    return text == as_text(declared.value) if declared.template is None else declared.template.match(text) is not None


def _other_protocol(reason: Reason) -> Reason:
    if reason.reason != "protocol":
        return reason
    return Reason(reason.pointer, f"declared for {reason.expected}, seen on {reason.actual}", reason.expected, reason.actual)


def _distance(outcome: Evaluation) -> int:
    return sum(30 if reason.pointer in _ADDRESSES else _WEIGHTS.get(reason.pointer, 10) for reason in outcome.reasons)
