"""One event, without Spark: what it is, and each candidate attribute by attribute."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lakehouse.match.definition.catalog import Catalog, Scope, read_catalog
from lakehouse.match.definition.definitions import OWN_PROTOCOL, Definition
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.captured import landed_of_text, read_lines
from lakehouse.match.event.encodings import unpacked
from lakehouse.match.event.landed import Event, Landed, events_of
from lakehouse.match.matching.choice import FAILURES
from lakehouse.match.matching.evaluation import Outcome, values_of
from lakehouse.match.matching.index import Index
from lakehouse.match.matching.matcher import Matcher, Request
from lakehouse.match.matching.preselection import Preselection
from lakehouse.match.payload.payloads import Payloads
from lakehouse.match.payload.schemas import Schemas
from lakehouse.readmodel.view import View

_GZIP = b"\x1f\x8b"
_MOST_CANDIDATES = 10
_FEW_EVENTS = 100  # above, all definitions are read


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
        """Give it as one JSON value."""
        return self.row | ({"candidates": self.candidates} if self.candidates else {})


def match_text(
    text: bytes,
    view: View,
    scope: Scope,
    request: Request,
    *,
    protocol: str | None = None,
    form: str | None = None,
    explain: bool = False,
) -> list[Explained]:
    """Match what stands in a text: captured messages, CloudEvents, columns of a platform, a HAR file; one, or lines of them.

    Args:
        text: the file.
        view: the snapshot of the catalog; of a few events only the definitions are read that they may be of.
        scope: whose messages are candidates.
        request: how they are matched.
        protocol: what the landing was, where the text does not tell.
        form: the platform whose columns it holds; None: what it holds tells.
        explain: tell the candidates too.

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
    found = _match(events, read_catalog(view, scope, Preselection(events)), request, explain=False)
    near = events if explain else [event for event, one in zip(events, found, strict=True) if one.row["status"] in FAILURES]
    if not near:
        return found
    selection = Preselection(events, near, view.telling(scope.registry or None, group_xid=scope.group))
    return _match(events, read_catalog(view, scope, selection), request, explain=explain)


def _match(events: list[Event], catalog: Catalog, request: Request, *, explain: bool) -> list[Explained]:
    matcher = Matcher(
        Index.of(catalog.messages, request.tolerance.placeholders),
        Payloads(Schemas(catalog.schemas), request.max_unpacked_bytes),
        request,
    )
    found: list[Explained] = []
    for number, event in enumerate(events):
        row = {"row": number} | matcher.row(event) | {"catalog_snapshot": catalog.snapshot_id}
        found.append(Explained(row, _candidates(matcher, event, row) if explain and not event.problem else []))
    return found


def _landed(text: bytes, protocol: str | None, form: str | None, most: int) -> list[Landed]:
    if text.startswith(_GZIP):
        try:
            text = unpacked(text, "gzip", most)
        except ValueError as error:
            return [Landed(None, problem=f"file: {error}")]
    whole = landed_of_text(text, protocol, form)
    if len(whole) == 1 and whole[0].problem.startswith("line: not JSON") and len(text.splitlines()) > 1:
        return list(read_lines(text.splitlines(), protocol, form))
    return whole


def _candidates(matcher: Matcher, event: Event, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Tell of each candidate what passes; those that declare nothing to compare come last, and match by their payload or not."""
    matched = {(one["registryid"], one["xid"]) for one in row["matches"]}
    outcomes = sorted(matcher.explain(event), key=lambda outcome: outcome.definition.is_bare)
    return [
        {
            "registryid": outcome.definition.registryid,
            "xid": outcome.definition.xid,
            "matches": outcome.matches and (outcome.definition.key in matched or not _is_left_open(outcome.definition)),
            "attributes": _attributes(outcome, event),
        }
        for outcome in outcomes[:_MOST_CANDIDATES]
    ]


def _is_left_open(definition: Definition) -> bool:
    """Return whether what a definition declares does not say which events are of it."""
    return definition.is_bare or bool(definition.incomplete)


def _attributes(outcome: Outcome, event: Event) -> list[dict[str, Any]]:
    """Tell each declared attribute: pass, fail (and why), deviates, or unknown."""
    failed = {reason.pointer: f"fail: {reason.reason}" for reason in outcome.reasons}
    failed |= {reason.pointer: f"deviates: {reason.reason}" for reason in outcome.deviations if reason.pointer not in failed}
    failed |= dict.fromkeys(outcome.unchecked, "unknown")
    told: list[dict[str, Any]] = []
    if outcome.definition.incomplete:
        verdict = f"unknown: the chain is {outcome.definition.incomplete}"
        told.append({"pointer": "/basemessage", "declared": None, "actual": None, "verdict": verdict})
    if outcome.definition.family:
        verdict = failed.get(OWN_PROTOCOL, "pass")
        told.append({"pointer": OWN_PROTOCOL, "declared": outcome.definition.family, "actual": event.family, "verdict": verdict})
    if OWN_PROTOCOL in failed and failed[OWN_PROTOCOL].startswith("fail"):
        return told
    for attribute in outcome.definition.attributes:
        actual = values_of(attribute, event)
        declared = as_text(attribute.value) if attribute.has_value else attribute.kind
        told.append(
            {
                "pointer": attribute.pointer,
                "declared": declared if not attribute.required or attribute.has_value else f"{declared or 'anything'}, required",
                "actual": as_text(actual[0]) if actual else None,
                "verdict": failed.get(attribute.pointer, "pass"),
            }
        )
    return told
