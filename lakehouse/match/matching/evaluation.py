"""One definition against one event: each declared attribute passes, fails or is unknown.

A definition matches when nothing that decides fails. What a hop may change only deviates, unless it is asked to be strict; what
the landing did not capture is unknown, and never a failure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote

from lakehouse.match.definition.definitions import CONTENT_TYPE, ENVELOPE, OWN_PROTOCOL, Attribute, Definition
from lakehouse.match.definition.templates import Rule
from lakehouse.match.definition.valuetypes import (
    MARKER,
    TEMPLATED_THEN_TYPED,
    as_text,
    is_media_type,
    is_of_type,
    is_timestamp,
    is_uri_reference,
    is_value,
    timestamp_of,
)
from lakehouse.match.event.landed import Event
from lakehouse.text.names import Pointer

_TIMES = frozenset({"timestamp", "datetime"})
_NOT_EMPTY = frozenset({"id", "source", "type"})
_URI_KINDS = frozenset({"uritemplate"})
_CONTENT_KEYS = frozenset({"content_type", "properties/content-type", "properties/content-encoding", "headers/content-type"})
_ATTRIBUTES = frozenset({"specversion", "id", "source", "type", "time", "subject", "datacontenttype", "dataschema"})


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
class Outcome:
    """What came of one definition and one event.

    Attributes:
        reasons: what decides and fails; none: it matches.
        deviations: what differs and does not decide.
        unchecked: pointers of what the landing could not tell.
        variables: what the placeholders hold.
    """

    definition: Definition
    reasons: list[Reason] = field(default_factory=list)
    deviations: list[Reason] = field(default_factory=list)
    unchecked: list[Pointer] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def matches(self) -> bool:
        """Tell that nothing that decides fails."""
        return not self.reasons


def evaluate(definition: Definition, event: Event, tolerance: Tolerance, *, envelope_too: bool = False) -> Outcome:
    """Check all that a definition asks of an event.

    Args:
        definition: what is asked.
        event: the event.
        tolerance: how strictly.
        envelope_too: where the protocol is another, check what is asked of the envelope all the same.
    """
    outcome = Outcome(definition)
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
    for name, held in captures.items():
        _bind(name, held, outcome)
    if tolerance.level == "strict" and definition.is_cloudevent and not tolerance.native:
        declared = {attribute.key for attribute in definition.attributes if attribute.section == "envelope"}
        further = sorted(event.ce.keys() - declared - _ATTRIBUTES)
        outcome.deviations += [Reason(Pointer(ENVELOPE + name), "undeclared", None, as_text(event.ce[name])) for name in further]
    return outcome


def _check_protocol(definition: Definition, event: Event, tolerance: Tolerance, outcome: Outcome) -> None:
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


def is_version(one: str | None, other: str | None) -> bool:
    """Tell whether two versions of a protocol are the same: 5 is 5.0; one that is not told is any."""
    return not one or not other or one.removesuffix(".0") == other.removesuffix(".0")


def _check(
    attribute: Attribute, event: Event, tolerance: Tolerance, outcome: Outcome, captures: dict[str, list[tuple[Pointer, str]]]
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
        agreeing = (one for one in passing if all(captures.get(name, [("", text)])[0][1] == text for name, _, text in one[1]))
        value, captured = passing[0] if len(passing) == 1 else next(agreeing, passing[0])
        for name, pointer, text in captured:
            captures.setdefault(name, []).append((pointer, text))
        _check_uri(attribute, value, outcome)
        return
    typed = failure is not None and failure.reason == "type"
    decides = (attribute.decides or tolerance.level == "strict") and not (typed and tolerance.level == "lenient")
    if failure is not None:
        (outcome.reasons if decides else outcome.deviations).append(failure)


def values_of(attribute: Attribute, event: Event) -> list[Any]:
    """Give the values of an attribute; of a name that repeats any may satisfy, but of Kafka's headers the last."""
    if attribute.section == "envelope":
        found = event.ce.get(attribute.key)
        if found is None and attribute.key == "datacontenttype":
            found = event.data_content_type()
    elif attribute.section == "message":
        told = [event.data_content_type(), event.content_type if event.mode == "structured" else None]
        return [one for one in told if one is not None]
    else:
        if attribute.key in event.repeated and event.family != "KAFKA":
            return event.repeated[attribute.key]
        found = event.options.get(attribute.key)
    return [] if found is None else [found]


def _check_absent(attribute: Attribute, event: Event, tolerance: Tolerance, outcome: Outcome) -> None:
    if not is_told(attribute, event):
        outcome.unchecked.append(attribute.pointer)
        return
    if not (attribute.required or attribute.has_value):
        return
    reason = Reason(attribute.pointer, "absent", _expected(attribute))
    tolerated = tolerance.level == "lenient" and not attribute.required
    decides = tolerance.level == "strict" or (attribute.decides and not tolerated)
    (outcome.reasons if decides else outcome.deviations).append(reason)


def is_told(attribute: Attribute, event: Event) -> bool:
    """Tell whether the landing shows an attribute, were it there."""
    if attribute.section == "message":
        return event.family is not None and not _content_type_unknown(event)
    if attribute.section == "envelope" and attribute.key == "datacontenttype" and _content_type_unknown(event):
        return False
    return event.knows(attribute.pointer)


def hides_envelope_type(attribute: Attribute, event: Event) -> bool:
    """Tell that the declared type is of the envelope (MSG-190), and the landing or MQTT 3.1.1 has no place for it."""
    if event.mode != "structured" or event.content_type is not None:
        return False
    is_enveloped = as_text(attribute.value).lower().startswith("application/cloudevents")
    is_mqtt_3 = event.family == "MQTT" and (event.version or "").startswith("3")
    return is_enveloped and (is_mqtt_3 or not event.knows(f"/protocoloptions/{_content_type_place(event)}"))


def _content_type_place(event: Event) -> str:
    return {"MQTT": "content_type", "AMQP": "properties/content-type"}.get(event.family or "", "headers")


def _content_type_unknown(event: Event) -> bool:
    """Tell that the landing does not show content types."""
    return event.mode == "binary" and not event.knows(f"/protocoloptions/{_content_type_place(event)}")


def compare(attribute: Attribute, value: Any, event: Event, captured: list[tuple[str, Pointer, str]]) -> Reason | None:
    """Compare a value with a declaration.

    Returns:
        Why it fails; None: it holds. What placeholders hold is added to `captured`: name, pointer, text.
    """
    pointer, kind = attribute.pointer, attribute.kind
    if event.family == "AMQP" and type(value) is int and (kind or attribute.inferred_kind) in _TIMES:
        value = timestamp_of(value)  # AMQP has a type for it, of milliseconds
    if attribute.section == "envelope" and attribute.key in _NOT_EMPTY and value == "":
        return Reason(pointer, "empty", _expected(attribute) or "text", "")
    if not attribute.has_value:
        return _compare_type(attribute, value, event)
    if attribute.template is not None:
        text = as_text(value)
        held = attribute.template.match(text)
        if held is None:
            told = attribute.template.explain(text)
            return Reason(pointer, f"pattern: {told}" if told else "pattern", attribute.template.text, text)
        if kind in TEMPLATED_THEN_TYPED and not is_of_type(value, kind or "", small=attribute.section == "envelope"):
            return Reason(pointer, "type", kind, text)
        captured += [(name, pointer, one) for name, one in zip(attribute.template.names, held, strict=True)]
        return None
    declared = attribute.value
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


def _compare_type(attribute: Attribute, value: Any, event: Event) -> Reason | None:
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


def _check_uri(attribute: Attribute, value: Any, outcome: Outcome) -> None:
    """Tell what is not in the form of a URI or of an inferred type: a deviation, never a failure."""
    if deviates_in_form(attribute, value):
        is_time = attribute.kind is None and attribute.inferred_kind == "timestamp"
        outcome.deviations.append(Reason(attribute.pointer, "type", "timestamp" if is_time else "URI-reference", as_text(value)))


def deviates_in_form(attribute: Attribute, value: Any) -> bool:
    """Tell that a value of the envelope has not the form of a URI, or of a timestamp where that type is inferred only."""
    if attribute.section != "envelope":
        return False
    kind = attribute.kind or attribute.inferred_kind
    if kind in ("uritemplate", "urireference", "uri"):
        return not (isinstance(value, str) and is_uri_reference(value))
    return attribute.kind is None and kind == "timestamp" and not is_timestamp(as_text(value))


def _bind(name: str, held: list[tuple[Pointer, str]], outcome: Outcome) -> None:
    """Give a placeholder its one text; texts that differ fail, but for one percent-decoding (MSG-228)."""
    first = held[0][1]
    outcome.variables[name] = first
    if all(text == first for _, text in held[1:]):
        return
    decoded = {unquote(text) for _, text in held}
    if len(decoded) == 1:
        outcome.variables[name] = decoded.pop()
        outcome.deviations += [
            Reason(pointer, f"variable {name}: percent-encoded", outcome.variables[name], text)
            for pointer, text in held
            if text != outcome.variables[name]
        ]
        return
    counts: dict[str, int] = {}
    for _, text in held:
        counts[text] = counts.get(text, 0) + 1
    most = max(counts, key=lambda text: counts[text])
    outcome.variables[name] = most
    one_is_usual = counts[most] * 2 > len(held)
    others = [(pointer, text) for pointer, text in held if not (one_is_usual and text == most)]
    for pointer, text in others:
        expected = most if one_is_usual else next(two for _, two in held if two != text)
        outcome.reasons.append(Reason(pointer, f"variable {name}", expected, text))


def _expected(attribute: Attribute) -> str | None:
    if attribute.has_value:
        return as_text(attribute.value)
    return attribute.kind
