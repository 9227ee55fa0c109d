"""From a landed row to its result: the index asked, definitions evaluated, the payload validated, values redacted."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from lakehouse.match.definition.definitions import Definition
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.encodings import MOST_UNPACKED
from lakehouse.match.event.landed import Event, Landed, events_of
from lakehouse.match.matching.choice import INCOMPLETE, Match, match_event, narrow
from lakehouse.match.matching.evaluation import Outcome, Reason, Tolerance, evaluate
from lakehouse.match.matching.index import Index
from lakehouse.match.matching.likeness import Candidates, Likeness
from lakehouse.match.payload.payloads import NOT_CHECKED, PayloadError, Payloads, PayloadVerdict
from lakehouse.text.blanking import REDACTED, blank_value, looks_secret
from lakehouse.text.xid import last_id

LONGEST_VALUE = 120
_MOST_LEFT_OPEN = 5
_NOT_ASKED = PayloadVerdict(NOT_CHECKED)
_UNMATCHED_PAYLOAD = PayloadVerdict(NOT_CHECKED, (), ("no definition, so no schema",))


@dataclass(frozen=True)
class Request:
    """How events are matched.

    Attributes:
        tolerance: how strictly.
        payload_share: share of the payloads that is validated, 0 to 1; chosen by what the event is, so the same ones each time.
        scoped: only an endpoint or a group is asked.
        with_values: texts of events go into the result; else only pointers and reasons.
        max_unpacked_bytes: most bytes that come out of a compressed payload.
    """

    tolerance: Tolerance = field(default_factory=Tolerance)
    payload_share: float = 1.0
    scoped: bool = False
    with_values: bool = True
    max_unpacked_bytes: int = MOST_UNPACKED


class Matcher:
    """Matches landed rows with the definitions of an index.

    Args:
        index: the definitions.
        payloads: what validates payloads.
        request: how.
    """

    def __init__(self, index: Index, payloads: Payloads, request: Request) -> None:
        self.index, self.payloads, self.request = index, payloads, request
        self._likeness = Likeness()

    def match(self, event: Event) -> tuple[Match, PayloadVerdict]:
        """Match an event and validate its payload against the schema of the best definition."""
        wanted = self.request.payload_share > 0
        match = match_event(
            event,
            [] if event.problem else self.index.candidates(event),
            self.request.tolerance,
            scoped=self.request.scoped,
            bare_fits=(lambda one, of: self.payloads.is_valid(one, of) is True) if wanted else None,
            near=self.index.near,
        )
        if wanted:
            narrow(match, lambda definition: self.payloads.is_valid(definition, event))
        if match.shown is None:
            return match, _UNMATCHED_PAYLOAD
        if not wanted or not self._is_sampled(event):
            return match, _NOT_ASKED
        return match, self.payloads.check(match.shown.definition, event)

    def candidates(self, event: Event) -> Candidates:
        """Give the definitions that an event may be of, and others of its type and address, for matching column by column."""
        return self._likeness.candidates(tuple(self.index.candidates(event)), event.family)

    def rows(self, landed: Landed) -> Iterator[dict[str, Any]]:
        """Give the results of a row: one, or one for each event of a batch."""
        for event in events_of(landed, self.request.max_unpacked_bytes):
            yield self.row(event)

    def row(self, event: Event) -> dict[str, Any]:
        """Give the result of an event, with the columns of `event_matches` that matching fills."""
        match, verdict = self.match(event)
        shown, nearest = match.shown, match.nearest
        return {
            "item": event.item,
            "protocol": None if event.family is None else event.family + (f"/{event.version}" if event.version else ""),
            "mode": event.mode,
            "ce_id": _text(event.ce.get("id")),
            "ce_source": _text(event.ce.get("source")),
            "ce_type": _text(event.ce.get("type")),
            "address": event.address,
            "status": match.status,
            "registryid": shown.definition.registryid if shown else None,
            "xid": shown.definition.xid if shown else None,
            "version_xid": shown.definition.version_xid if shown else None,
            "best": [_key(outcome.definition) for outcome in match.best],
            "matches": [_key(outcome.definition) for outcome in match.matches],
            "variables": self._variables(shown),
            "reasons": [self._told(reason) for reason in match.reasons],
            "deviations": [self._told(reason) for reason in shown.deviations] if shown else [],
            "unchecked": shown.unchecked if shown else [],
            "nearest_xid": nearest.definition.xid if nearest else None,
            "payload_status": verdict.status,
            "payload_errors": [self.told_error(error) for error in verdict.errors],
            "remarks": [*event.remarks, *verdict.remarks, *(remarks_of(shown.definition) if shown else _left_open(match))],
        }

    def explain(self, event: Event) -> list[Outcome]:
        """Evaluate all candidates and near ones of an event, the best first."""
        found = {one.key: one for one in (*self.index.candidates(event), *self.index.near(event)) if not one.older}
        outcomes = [evaluate(one, event, self.request.tolerance) for one in found.values()]
        return sorted(outcomes, key=lambda one: (len(one.reasons), -len(one.definition.shapes), one.definition.key))

    def _is_sampled(self, event: Event) -> bool:
        share = self.request.payload_share
        if share >= 1:
            return True
        told = f"{event.ce.get('source')}\0{event.ce.get('id')}\0{event.address}\0{len(event.body or b'')}"
        return zlib.crc32(told.encode("utf-8", "surrogatepass")) < share * 2**32

    def _variables(self, shown: Outcome | None) -> dict[str, str]:
        if shown is None:
            return {}
        if not self.request.with_values:
            return dict.fromkeys(shown.variables, "")
        return {name: REDACTED if looks_secret(name) else _shortened(text) for name, text in shown.variables.items()}

    def _told(self, reason: Reason) -> dict[str, str | None]:
        actual = reason.actual
        if actual is not None:
            named = reason.pointer.count("/") > 2 and not reason.pointer.startswith("/protocoloptions/properties/")
            secret = named and looks_secret(reason.pointer.rpartition("/")[2])  # of a header; a Kafka key is none
            actual = (REDACTED if secret else _shortened(blank_value(actual))) if self.request.with_values else None
        expected = None if reason.expected is None else _shortened(reason.expected)
        if not self.request.with_values and reason.reason.startswith("variable"):
            expected = None
        return {"pointer": reason.pointer, "reason": reason.reason, "expected": expected, "actual": actual}

    def told_error(self, error: PayloadError) -> dict[str, str]:
        """Tell an error of a payload, without what looks like a secret."""
        message = _shortened(blank_value(error.message)) if self.request.with_values else ""
        return {"pointer": error.pointer, "keyword": error.keyword, "message": message}


def remarks_of(definition: Definition) -> list[str]:
    """Tell what is to be known of a definition that matches."""
    version = last_id(definition.version_xid)
    told = [f"matches Version {version}, which is not the default"] if definition.older else []
    return told + (["deprecated"] if definition.deprecated else [])


def _left_open(match: Match) -> list[str]:
    """Return which definitions leave it open what an event is."""
    definitions = [outcome.definition for outcome in match.undecided[:_MOST_LEFT_OPEN]]
    return [f"{INCOMPLETE}: {one.xid}: its chain of bases is {one.incomplete}" for one in definitions]


def _key(definition: Definition) -> dict[str, str]:
    return {"registryid": definition.registryid, "xid": definition.xid}


def _text(value: Any) -> str | None:
    return None if value is None else as_text(value)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
