"""Some events without Spark: what they are, and each candidate attribute by attribute.

`Preselection` says which definitions some events may be of, or come near to, by the few columns that distinguish definitions. It
never leaves out a definition that the index would return for one of the events, so a matcher with only these definitions has the
same results. One event is matched so against a catalog of any size without reading all its definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.dialects.tables import address_separator
from lakehouse.match.definition.compiled import OWN_PROTOCOL, Definition, incomplete_of
from lakehouse.match.definition.scope import MatchCatalog, Scope, read_catalog
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.evaluation import FAILURES, Evaluation, values_of
from lakehouse.match.event.canonical import CapturedEvent, Event, events_of, unpacked
from lakehouse.match.event.captured import landed_of_text, read_lines
from lakehouse.match.index import CLOSE_TYPES, Index, is_close, last_segment
from lakehouse.match.matcher import Matcher, MatchRequest
from lakehouse.match.payload.payloads import Payloads
from lakehouse.match.payload.schemas import Schemas
from lakehouse.readmodel.snapshotview import Discriminators, View

_GZIP = b"\x1f\x8b"
_MOST_CANDIDATES = 10
_FEW_EVENTS = 100  # above, all definitions are read


class Preselection:
    """Decides whether a definition is to be read for some events.

    Args:
        events: what is to be matched; some, not many.
        near: events that match nothing; what comes near to them is wanted, too.
        among: all definitions of the scope, where `near` are sought.
    """

    def __init__(self, events: Sequence[Event], near: Sequence[Event] = (), among: Iterable[Discriminators] = ()) -> None:
        self._types = frozenset(as_text(event.ce["type"]) for event in events if event.ce.get("type") is not None)
        self._addresses = frozenset(event.address for event in events if event.address is not None)
        self._starts = frozenset(_start(event.family, event.address) for event in events if event.address is not None)
        self._is_blind = any(event.family is not None and event.address is None for event in events)
        self._near = frozenset(_near_definitions(near, among) if near else ())

    def __call__(self, discriminators: Discriminators) -> bool:
        """Return whether a definition is to be read."""
        kind = _constant_type(discriminators)
        result = self._may_be_at(discriminators) if kind is None else kind in self._types
        return result or (discriminators.registryid, discriminators.xid) in self._near

    def _may_be_at(self, discriminators: Discriminators) -> bool:
        """Return of a definition without a constant type whether one of the events may have travelled where it says."""
        family = (discriminators.protocol or "").partition("/")[0].upper()
        if family in ("", "NONE", "AMQP") or discriminators.address is None or self._is_blind:
            return True
        if "{" not in discriminators.address:
            return discriminators.address in self._addresses
        start = _start(family, discriminators.address)
        return "{" in start or start in self._starts


def _near_definitions(events: Sequence[Event], among: Iterable[Discriminators]) -> Iterator[tuple[str, str]]:
    """Return the definitions that `Index.near` would give, for each event those of the first likeness that any has."""
    whole = (discriminators for discriminators in among if not incomplete_of(discriminators.chain_status))
    typed = [(kind, discriminators) for discriminators in whole if (kind := _constant_type(discriminators)) is not None]
    types = {kind for kind, _ in typed}
    for event in events:
        for wanted in _likenesses(event, types):
            results = [
                (discriminators.registryid, discriminators.xid) for kind, discriminators in typed if wanted(kind, discriminators)
            ]
            if results:
                yield from results
                break


def _likenesses(event: Event, types: set[str]) -> Iterator[Callable[[str, Discriminators], bool]]:
    """Yield predicates that a definition is like an event, in the order of `Index.near`: type folded, close, its end; address."""
    event_type = event.ce.get("type")
    if isinstance(event_type, str):
        folded, end = event_type.strip().casefold(), last_segment(event_type).casefold()
        yield lambda kind, _: kind.strip().casefold() == folded
        if len(types) <= CLOSE_TYPES:
            close = {kind for kind in types if is_close(kind, event_type)}
            yield lambda kind, _: kind in close
        yield lambda kind, _: last_segment(kind).casefold() == end
    if event.address is not None:
        yield lambda _, discriminators: discriminators.address == event.address


def _constant_type(discriminators: Discriminators) -> str | None:
    """Return the type of a CloudEvent, where it is one without placeholders."""
    is_cloudevent = not discriminators.envelope or discriminators.envelope.upper().startswith("CLOUDEVENTS")
    return (
        discriminators.ce_type
        if discriminators.ce_type is not None and is_cloudevent and "{" not in discriminators.ce_type
        else None
    )


def _start(family: str | None, address: str) -> str:
    return address.partition(address_separator(family))[0]


@dataclass
class Explained:
    """A result, and what the candidates say.

    Attributes:
        row: the result, as a line of `--results` holds it.
        candidates: for each, its key, whether it matches, and its attributes: pointer, declared, actual, verdict.
    """

    row: dict[str, Any]
    candidates: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as one JSON value."""
        return self.row | ({"candidates": self.candidates} if self.candidates else {})


def match_text(
    text: bytes,
    view: View,
    scope: Scope,
    request: MatchRequest,
    *,
    protocol: str | None = None,
    form: str | None = None,
    explain: bool = False,
) -> list[Explained]:
    """Match what is in a text: captured messages, CloudEvents, columns of a platform, a HAR file; one, or lines of them.

    Args:
        text: the file.
        view: the snapshot of the catalog; of a few events only the definitions are read that they may be of.
        scope: whose messages are candidates.
        request: how they are matched.
        protocol: what the landing was, where the text does not say.
        form: the platform whose columns it holds; None: its content says.
        explain: return the candidates too.

    Raises:
        SettingsError: the scope names what is not there.
    """
    events = [
        event
        for landed in _landed(text, protocol, form, request.max_unpacked_bytes)
        for event in events_of(landed, request.max_unpacked_bytes)
    ]
    if len(events) > _FEW_EVENTS or scope.endpoint:
        return _match(events, read_catalog(view, scope), request, explain=explain)
    result = _match(events, read_catalog(view, scope, Preselection(events)), request, explain=False)
    near = (
        events if explain else [event for event, matched in zip(events, result, strict=True) if matched.row["status"] in FAILURES]
    )
    if not near:
        return result
    selection = Preselection(events, near, view.discriminators(scope.registry or None, group_xid=scope.group))
    return _match(events, read_catalog(view, scope, selection), request, explain=explain)


def _match(events: list[Event], catalog: MatchCatalog, request: MatchRequest, *, explain: bool) -> list[Explained]:
    matcher = Matcher(
        Index.of(catalog.messages, request.tolerance.placeholders),
        Payloads(Schemas(catalog.schemas), request.max_unpacked_bytes),
        request,
    )
    results: list[Explained] = []
    for number, event in enumerate(events):
        row = {"row": number} | matcher.row(event) | {"catalog_snapshot": catalog.snapshot_id}
        results.append(Explained(row, _candidates(matcher, event, row) if explain and not event.problem else []))
    return results


def _landed(text: bytes, protocol: str | None, form: str | None, most: int) -> list[CapturedEvent]:
    if text.startswith(_GZIP):
        try:
            text = unpacked(text, "gzip", most)
        except ValueError as error:
            return [CapturedEvent(None, problem=f"file: {error}")]
    whole = landed_of_text(text, protocol, form)
    if len(whole) == 1 and whole[0].problem.startswith("line: not JSON") and len(text.splitlines()) > 1:
        return list(read_lines(text.splitlines(), protocol, form))
    return whole


def _candidates(matcher: Matcher, event: Event, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what passes of each candidate; those that declare nothing to compare come last, and match by their payload."""
    matched = {(match["registryid"], match["xid"]) for match in row["matches"]}
    outcomes = sorted(matcher.explain(event), key=lambda outcome: outcome.definition.is_bare)
    return [
        {
            "registryid": outcome.definition.registryid,
            "xid": outcome.definition.xid,
            "matches": outcome.matches and (outcome.definition.key in matched or not _is_left_open(outcome.definition)),
            "attributes": _attributes(matcher, outcome, event),
        }
        for outcome in outcomes[:_MOST_CANDIDATES]
    ]


def _is_left_open(definition: Definition) -> bool:
    """Return whether what a definition declares does not say which events are of it."""
    return definition.is_bare or bool(definition.incomplete)


def _attributes(matcher: Matcher, outcome: Evaluation, event: Event) -> list[dict[str, Any]]:
    """Return the verdict on each declared attribute: pass, fail (and why), deviates, or unknown."""
    failed = {reason.pointer: f"fail: {reason.reason}" for reason in outcome.reasons}
    failed |= {reason.pointer: f"deviates: {reason.reason}" for reason in outcome.deviations if reason.pointer not in failed}
    failed |= dict.fromkeys(outcome.unchecked, "unknown")
    verdicts: list[dict[str, Any]] = []
    if outcome.definition.incomplete:
        verdict = f"unknown: the chain is {outcome.definition.incomplete}"
        verdicts.append({"pointer": "/basemessage", "declared": None, "actual": None, "verdict": verdict})
    if outcome.definition.family:
        verdict = failed.get(OWN_PROTOCOL, "pass")
        verdicts.append(
            {"pointer": OWN_PROTOCOL, "declared": outcome.definition.family, "actual": event.family, "verdict": verdict}
        )
    if OWN_PROTOCOL in failed and failed[OWN_PROTOCOL].startswith("fail"):
        return verdicts
    for attribute in outcome.definition.attributes:
        actual = values_of(attribute, event)
        declared = as_text(attribute.value) if attribute.has_value else attribute.kind
        verdicts.append(
            {
                "pointer": attribute.pointer,
                "declared": declared if not attribute.required or attribute.has_value else f"{declared or 'anything'}, required",
                "actual": matcher.shown_text(as_text(actual[0]), attribute.pointer, outcome.definition) if actual else None,
                "verdict": failed.get(attribute.pointer, "pass"),
            }
        )
    return verdicts
