"""What was really sent, as pages show it next to what is declared: events a day, never seen, never declared."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any, NamedTuple

from lakehouse.readmodel.traffic import Sent
from lakehouse.site.overview import Key
from lakehouse.site.pagecontext import PageContext
from lakehouse.site.pages.endpointview import carried_xids
from lakehouse.text.names import Xid

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


def sent_of(page_context: PageContext, key: Key) -> dict[str, Any]:
    """Return what the page of a message shows of what was sent: `sent`, `reasons`, `chart`, `valid`, `is_matched`.

    `is_matched` says whether events of any message are known: only then a page says that one was never seen.
    """
    message = page_context.sent(*key)
    if message is None:
        return {"sent": None, "reasons": [], "chart": None, "valid": "", "is_matched": page_context.all_sent() is not None}
    reasons = [(_KINDS[reason.kind], reason) for reason in message.reasons]
    return _shown(message.sent) | {"reasons": reasons, "is_matched": True}


def _shown(sent: Sent) -> dict[str, Any]:
    judged = sent.valid + sent.invalid
    valid = share(sent.valid, judged) if judged else ""
    return {"sent": sent if sent.events else None, "chart": chart_of(sent), "valid": valid}


def sent_of_all(page_context: PageContext) -> dict[str, Any] | None:
    """Return what the first page shows of what was sent; None: nothing is known.

    Returns:
        `sent`, `chart` and `valid` as `sent_of`; the first `unseen` keys, and `unseen_count`; `undeclared` kinds of events.
    """
    totals = page_context.all_sent()
    if totals is None:
        return None
    unseen = [key for key in carried_keys(page_context) if key not in totals.seen]
    shown = {"unseen": unseen[:_MOST_UNSEEN], "unseen_count": len(unseen), "undeclared": totals.undeclared}
    return _shown(totals.sent) | shown


def carried_keys(page_context: PageContext) -> list[Key]:
    """List the messages that endpoints carry, but for those not deployed, as the view `unseen_messages` does."""

    def read() -> list[Key]:
        overview = page_context.overview
        endpoints = [
            group
            for group in overview.groups.values()
            if group.kind == "endpoint" and group.attributes.get("deployed") is not False
        ]
        return sorted({(endpoint.registryid, Xid(xid)) for endpoint in endpoints for xid in carried_xids(overview, endpoint)})

    return page_context.remember(("carried",), read)
