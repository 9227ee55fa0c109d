"""From a captured event to its result: index, definitions, payload; values that look secret are removed.

The first part holds the columns of results for Arrow and Spark, and `why_of`, one line for each kind of event without a match.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pyarrow as pa

from lakehouse.match.definition.compiled import Definition
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.evaluation import (
    INCOMPLETE,
    UNMATCHED,
    UNREADABLE,
    Evaluation,
    Match,
    Reason,
    Tolerance,
    evaluate,
    match_event,
    narrow_by_payload,
)
from lakehouse.match.event.canonical import MOST_UNPACKED, CapturedEvent, Event, events_of
from lakehouse.match.index import Index, is_close
from lakehouse.match.payload.payloads import NOT_CHECKED, PayloadError, Payloads, PayloadVerdict
from lakehouse.text.blanking import REDACTED, blank_value, looks_secret
from lakehouse.text.names import Pointer
from lakehouse.text.xid import last_id

_REASON = pa.struct([("pointer", pa.string()), ("reason", pa.string()), ("expected", pa.string()), ("actual", pa.string())])
_KEY = pa.struct([("registryid", pa.string()), ("xid", pa.string())])
_ERROR = pa.struct([("pointer", pa.string()), ("keyword", pa.string()), ("message", pa.string())])
PLACE = pa.struct([("file", pa.string()), ("block", pa.int64()), ("position", pa.int64())])
EVENT_REF = pa.struct([("source", pa.string()), ("partition", pa.int64()), ("offset", pa.int64()), ("row", pa.int64())])

RESULT_SCHEMA = pa.schema(
    [
        ("ordinal", pa.int32()), ("place", PLACE), ("event_ref", EVENT_REF), ("item", pa.int32()),
        ("landed_at", pa.timestamp("us", "UTC")),
        ("protocol", pa.string()), ("mode", pa.string()), ("ce_id", pa.string()), ("ce_source", pa.string()),
        ("ce_type", pa.string()), ("address", pa.string()), ("status", pa.string()), ("registryid", pa.string()),
        ("xid", pa.string()), ("version_xid", pa.string()), ("best", pa.list_(_KEY)), ("matches", pa.list_(_KEY)),
        ("variables", pa.map_(pa.string(), pa.string())), ("reasons", pa.list_(_REASON)), ("deviations", pa.list_(_REASON)),
        ("unchecked", pa.list_(pa.string())), ("nearest_xid", pa.string()), ("why", pa.string()),
        ("payload_status", pa.string()), ("payload_errors", pa.list_(_ERROR)), ("written_with", pa.string()),
        ("remarks", pa.list_(pa.string())),
    ]
)  # fmt: skip

_STRUCT = "STRUCT<pointer: STRING, reason: STRING, expected: STRING, actual: STRING>"
_KEYS = "ARRAY<STRUCT<registryid: STRING, xid: STRING>>"
RESULT_COLUMNS: dict[str, str] = {
    "ordinal": "INT", "place": "STRUCT<file: STRING, block: BIGINT, position: BIGINT>",
    "event_ref": "STRUCT<source: STRING, partition: BIGINT, offset: BIGINT, row: BIGINT>", "item": "INT",
    "landed_at": "TIMESTAMP", "protocol": "STRING", "mode": "STRING",
    "ce_id": "STRING", "ce_source": "STRING", "ce_type": "STRING", "address": "STRING",
    "status": "STRING", "registryid": "STRING", "xid": "STRING", "version_xid": "STRING", "best": _KEYS, "matches": _KEYS,
    "variables": "MAP<STRING, STRING>", "reasons": f"ARRAY<{_STRUCT}>", "deviations": f"ARRAY<{_STRUCT}>",
    "unchecked": "ARRAY<STRING>", "nearest_xid": "STRING", "why": "STRING", "payload_status": "STRING",
    "payload_errors": "ARRAY<STRUCT<pointer: STRING, keyword: STRING, message: STRING>>", "written_with": "STRING",
    "remarks": "ARRAY<STRING>",
}  # fmt: skip
# What counting asks of a result.
COUNTED = ("status", "payload_status", "deviations", "why", "nearest_xid", "ce_source", "best")
# What a line of `--results` holds, behind its `row`.
LINE_COLUMNS = ("status", "best", "matches", "variables", "reasons", "deviations", "unchecked", "payload_status",
                "payload_errors", "written_with", "nearest_xid", "remarks", "protocol", "mode", "ce_id", "ce_source", "ce_type",
                "address")  # fmt: skip
LONGEST_VALUE = 120
_MOST_LEFT_OPEN = 5
_MOST_CACHED = 5_000
_NOT_VALIDATED = PayloadVerdict(NOT_CHECKED)
_UNMATCHED_PAYLOAD = PayloadVerdict(NOT_CHECKED, (), ("no definition, so no schema",))


def why_of(row: dict[str, Any]) -> str | None:
    """Return in one line why an event matches nothing or cannot be read; the same line for all events of one kind.

    A constant that differs is shown with both values; what placeholders hold is not, since it differs by event.
    """
    if row["status"] == INCOMPLETE:
        left_open = [remark for remark in row["remarks"] if remark.startswith(f"{INCOMPLETE}: ")]
        return str(left_open[0]).removeprefix(f"{INCOMPLETE}: ")
    if row["status"] not in (UNMATCHED, UNREADABLE):
        return None
    reasons = row["reasons"]
    if not reasons:
        return "nothing like it is declared"
    return "; ".join(_in_words(reason) for reason in reasons[:3])


def _in_words(reason: dict[str, Any]) -> str:
    name = reason["pointer"].rpartition("/")[2] or reason["reason"]
    expected, actual = reason["expected"], reason["actual"]
    if reason["pointer"] == "/envelopemetadata/type" and actual is not None:
        if expected is None or not is_close(actual.strip().casefold(), expected.casefold()):
            return f"type {actual}: not declared" + (
                f", nearest {expected}" if expected and _shares_end(actual, expected) else ""
            )
        is_case = actual.casefold() == expected.casefold()
        return f"type {actual}: letter case, declared {expected}" if is_case else f"type {actual}, declared {expected}"
    if reason["reason"] == "value" and actual is not None and expected is not None:
        return f"{name}: {actual}, declared {expected}"
    if reason["reason"] == "unreadable":
        return f"{name}: {actual}" if actual else f"{name}: cannot be read"
    if reason["reason"].startswith(("declared for", "variable", "pattern:")):
        return f"{name}: {reason['reason']}"
    return f"{name}: {reason['reason']}" + (f", declared {expected}" if expected else "")


def _shares_end(text: str, other: str) -> bool:
    return text.rpartition(".")[2].casefold() == other.rpartition(".")[2].casefold()


@dataclass(frozen=True)
class MatchRequest:
    """How events are matched.

    Attributes:
        tolerance: how strictly.
        payload_share: share of the payloads that is validated, 0 to 1; chosen by what the event is, so the same ones each time.
        scoped: only an endpoint or a group is asked.
        with_values: texts of events go into the result; else only pointers and reasons.
        max_unpacked_bytes: most bytes that come from a compressed payload.
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

    def __init__(self, index: Index, payloads: Payloads, request: MatchRequest) -> None:
        self.index, self.payloads, self.request = index, payloads, request

    def match(self, event: Event) -> tuple[Match, PayloadVerdict]:
        """Match an event and validate its payload against the schema of the best definition."""
        wanted = self.request.payload_share > 0
        match = match_event(
            event,
            [] if event.problem else self.candidates(event),
            self.request.tolerance,
            scoped=self.request.scoped,
            bare_fits=(lambda definition, of: self.payloads.is_valid(definition, of) is True) if wanted else None,
            near=self.index.near,
        )
        if wanted:
            narrow_by_payload(match, lambda definition: self.payloads.is_valid(definition, event))
        if match.shown is None:
            return match, _UNMATCHED_PAYLOAD
        if not wanted or not self._is_sampled(event):
            return match, _NOT_VALIDATED
        return match, self.payloads.check(match.shown.definition, event)

    def rows(self, landed: CapturedEvent) -> Iterator[dict[str, Any]]:
        """Return the results of a row: one, or one for each event of a batch."""
        for event in events_of(landed, self.request.max_unpacked_bytes):
            yield self.row(event)

    def row(self, event: Event) -> dict[str, Any]:
        """Return the result of an event, with the columns of `event_matches` that matching fills."""
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
            "reasons": [self._shown_reason(reason, nearest.definition if nearest else None) for reason in match.reasons],
            "deviations": [self._shown_reason(reason, shown.definition) for reason in shown.deviations] if shown else [],
            "unchecked": shown.unchecked if shown else [],
            "nearest_xid": nearest.definition.xid if nearest else None,
            "payload_status": verdict.status,
            "payload_errors": [self.reported_error(error) for error in verdict.errors],
            "written_with": verdict.written_with,
            "remarks": [*event.remarks, *verdict.remarks, *(remarks_of(shown.definition) if shown else _left_open(match))],
        }

    def candidates(self, event: Event) -> list[Definition]:
        """Return the definitions that an event may be of, as the request asks."""
        return self.index.candidates(event, native=self.request.tolerance.native)

    def explain(self, event: Event) -> list[Evaluation]:
        """Evaluate all candidates and near ones of an event, the best first."""
        results = {
            definition.key: definition
            for definition in (*self.candidates(event), *self.index.near(event))
            if not definition.version_age
        }
        outcomes = [evaluate(definition, event, self.request.tolerance) for definition in results.values()]
        return sorted(
            outcomes, key=lambda outcome: (len(outcome.reasons), -len(outcome.definition.shapes), outcome.definition.key)
        )

    def _is_sampled(self, event: Event) -> bool:
        share = self.request.payload_share
        if share >= 1:
            return True
        identity = f"{event.ce.get('source')}\0{event.ce.get('id')}\0{event.address}\0{len(event.body or b'')}"
        return zlib.crc32(identity.encode("utf-8", "surrogatepass")) < share * 2**32

    def _variables(self, shown: Evaluation | None) -> dict[str, str]:
        if shown is None:
            return {}
        if not self.request.with_values:
            return dict.fromkeys(shown.variables, "")
        secret = secret_variables(shown.definition)
        return {name: REDACTED if name in secret else _shortened(text) for name, text in shown.variables.items()}

    def shown_text(self, text: str, pointer: str, definition: Definition | None) -> str | None:
        """Return a text of an event as a result shows it: cut, and without what looks like a secret.

        Args:
            text: the text.
            pointer: JSON Pointer of the attribute that holds it.
            definition: what declares the attribute, or None.

        Returns:
            None: results are without texts of events.
        """
        if not self.request.with_values:
            return None
        return REDACTED if _is_secret(pointer, definition) else _shortened(blank_value(text))

    def _shown_reason(self, reason: Reason, definition: Definition | None) -> dict[str, str | None]:
        actual = None if reason.actual is None else self.shown_text(reason.actual, reason.pointer, definition)
        expected = reason.expected
        if expected is not None:  # of a placeholder: what it holds elsewhere in the event
            is_text = reason.reason.startswith("variable ")
            expected = self.shown_text(expected, reason.pointer, definition) if is_text else _shortened(expected)
        return {"pointer": reason.pointer, "reason": reason.reason, "expected": expected, "actual": actual}

    def reported_error(self, error: PayloadError) -> dict[str, str]:
        """Return an error of a payload, without what looks like a secret."""
        message = ""
        if self.request.with_values:
            is_secret = any(map(looks_secret, error.pointer.split("/")))
            message = REDACTED if is_secret else _shortened(blank_value(error.message))
        return {"pointer": error.pointer, "keyword": error.keyword, "message": message}


@lru_cache(_MOST_CACHED)
def secret_variables(definition: Definition) -> frozenset[str]:
    """Return the placeholders of a definition that may hold a secret: by their names, or by an attribute that holds them."""
    return frozenset(
        name
        for attribute in definition.attributes
        if attribute.template is not None
        for name in attribute.template.names
        if looks_secret(name) or _names_secret(attribute.pointer)
    )


def _is_secret(pointer: str, definition: Definition | None) -> bool:
    """Return whether an attribute looks secret: by its name, or by a placeholder that it holds."""
    if _names_secret(pointer):
        return True
    secret = secret_variables(definition) if definition else frozenset()
    attribute = definition.attribute(Pointer(pointer)) if definition and secret else None
    return attribute is not None and attribute.template is not None and not secret.isdisjoint(attribute.template.names)


def _names_secret(pointer: str) -> bool:
    """Return whether the name of an attribute of the envelope, a header or a property looks secret; a Kafka key is none."""
    start, _, name = pointer.rpartition("/")
    return start not in ("", "/protocoloptions", "/protocoloptions/properties") and looks_secret(name)


def remarks_of(definition: Definition) -> list[str]:
    """Return what is to be known of a definition that matches."""
    version = last_id(definition.version_xid)
    remarks = [f"matches Version {version}, which is not the default"] if definition.version_age else []
    return remarks + (["deprecated"] if definition.deprecated else [])


def _left_open(match: Match) -> list[str]:
    """Return which definitions leave it open what an event is."""
    definitions = [outcome.definition for outcome in match.undecided[:_MOST_LEFT_OPEN]]
    return [f"{INCOMPLETE}: {definition.xid}: its chain of bases is {definition.incomplete}" for definition in definitions]


def _key(definition: Definition) -> dict[str, str]:
    return {"registryid": definition.registryid, "xid": definition.xid}


def _text(value: Any) -> str | None:
    return None if value is None else as_text(value)


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 1] + "…"
