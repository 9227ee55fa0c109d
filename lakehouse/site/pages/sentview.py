"""What was really sent, as pages show it next to what is declared: events a day, never seen, never declared."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, timedelta
from typing import Any, NamedTuple

from lakehouse.match.definition.scope import endpoint_row
from lakehouse.readmodel.traffic import ReasonCount, Sent
from lakehouse.render.protocolbinding import endpoint_of
from lakehouse.site.overview import Key, carried_xids
from lakehouse.site.pagecontext import PageContext
from lakehouse.text.names import RegistryId, Xid

_DAYS, _STEP, _BAR, _HEIGHT = 30, 14, 10, 60  # days of a chart; pixels from day to day, of a bar, and of the highest one
_MOST_UNSEEN = 20
_KINDS = {
    "payload": "payload breaks the schema",
    "deviation": "differs, and matches",
    "missed": "comes nearest, and does not match",
}


class DayBar(NamedTuple):
    """A day of a chart: its date, events, and the bar's left edge, top and height in pixels."""

    day: str
    events: int
    x: int
    y: int
    height: int


class Chart(NamedTuple):
    """Events a day, up to the last day with any: a bar for each; size in pixels; first and last day; the most of a day."""

    bars: list[DayBar]
    width: int
    height: int
    first: str
    last: str
    most: int


def chart_of(sent: Sent) -> Chart | None:
    """Lay out the last 30 days as bars; None: no event has a day."""
    events = {date.fromisoformat(day): count for day, count in sent.days if day}
    if not events:
        return None
    last = max(events)
    first = last - timedelta(days=_DAYS - 1)
    shown = {day: count for day, count in events.items() if day >= first}
    most = max(shown.values())
    bars = []
    for day, count in sorted(shown.items()):
        height = max(2, round(_HEIGHT * count / most))
        bars.append(DayBar(day.isoformat(), count, (day - first).days * _STEP, _HEIGHT - height, height))
    return Chart(bars, _DAYS * _STEP - (_STEP - _BAR), _HEIGHT, first.isoformat(), last.isoformat(), most)


def share(part: int, whole: int) -> str:
    """Write a share in percent: `100%` and `0%` only where it is all or nothing."""
    if part in (0, whole):
        return "100%" if part else "0%"
    return f"{min(max(100 * part / whole, 0.1), 99.9):.1f}%"


class SentSummary(NamedTuple):
    """What a page shows of what was sent.

    Attributes:
        sent: events; None: none was seen.
        chart: of them, a bar for each day; None: none has a day.
        valid: share of the payloads that were checked; empty: none was.
        matched: share of the events that match, among these and those that come nearest and match nothing; empty: no event is
            known.
        reasons: why events are not as declared: what the reason means, and the reason.
    """

    sent: Sent | None
    chart: Chart | None
    valid: str
    matched: str
    reasons: Sequence[tuple[str, ReasonCount]] = ()


def sent_of(page_context: PageContext, registryid: RegistryId, xids: Collection[Xid]) -> SentSummary | None:
    """Return what a page shows of what was sent of messages; None: no event of any message is known, so nothing is said."""
    totals = page_context.all_sent()
    if totals is None:
        return None
    # Only what has events is looked up: an endpoint may carry thousands of messages.
    with_events = [xid for xid in xids if (registryid, xid) in totals.seen or xid in totals.missed]
    messages = page_context.sent(registryid, with_events) if with_events else None
    if messages is None:
        return SentSummary(None, None, "", "")
    reasons = [(_KINDS[reason.kind], reason) for reason in messages.reasons]
    return _shown(messages.sent, messages.sent.events, sum(totals.missed.get(xid, 0) for xid in xids), reasons)


def _shown(sent: Sent, matched: int, missed: int, reasons: Sequence[tuple[str, ReasonCount]] = ()) -> SentSummary:
    judged = sent.valid + sent.invalid
    return SentSummary(
        sent if sent.events else None,
        chart_of(sent),
        share(sent.valid, judged) if judged else "",
        share(matched, matched + missed) if matched + missed else "",
        reasons,
    )


def sent_of_all(page_context: PageContext) -> dict[str, Any] | None:
    """Return what the first page shows of what was sent; None: nothing is known, or the site shows one registry.

    Events that match nothing belong to no registry.

    Returns:
        `shown`, as of `sent_of`, and how many events `landed`; the first `unseen` keys, and `unseen_count`; `undeclared` kinds
        of events.
    """
    totals = page_context.all_sent()
    if totals is None or page_context.style.registry is not None:
        return None
    missed = sum(totals.missed.values())
    unseen = [key for key in carried_keys(page_context) if key not in totals.seen]
    return {
        "shown": _shown(totals.sent, totals.matched, missed),
        "landed": totals.matched + missed,
        "unseen": unseen[:_MOST_UNSEEN],
        "unseen_count": len(unseen),
        "undeclared": totals.undeclared,
    }


def carried_keys(page_context: PageContext) -> list[Key]:
    """List the messages that endpoints carry, but for those not deployed, as the view `unseen_messages` does."""

    def read() -> list[Key]:
        overview = page_context.overview
        endpoints = [
            group
            for group in overview.groups.values()
            if group.kind == "endpoint" and endpoint_of(endpoint_row(group)).options.get("deployed") is not False
        ]
        return sorted({(endpoint.registryid, Xid(xid)) for endpoint in endpoints for xid in carried_xids(overview, endpoint)})

    return page_context.remember(("carried",), read)
