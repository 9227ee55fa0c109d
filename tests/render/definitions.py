"""Small definitions, written out, and how a rendered message is matched back."""

from __future__ import annotations

import json
from typing import Any

from match.catalogs import row_of

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.render import Renderer, RenderInput, RenderStyle, bindings_of

NOW = "2026-01-01T00:00:00Z"


def row(message: dict[str, Any], xid: str = "/messagegroups/g/messages/m") -> dict[str, Any]:
    """Return the row of `flat_messages` of an effective definition."""
    return row_of("r", xid, "none", message)


def cloudevent(protocol: str | None = None, options: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """Write a CloudEvent: `type` T and `source` /s, unless it is reported otherwise."""
    named = {"type": {"value": "T"}, "source": {"value": "/s"}} | metadata
    made: dict[str, Any] = {"envelope": "CloudEvents/1.0", "envelopemetadata": named}
    return made | ({"protocol": protocol} if protocol else {}) | ({"protocoloptions": options} if options else {})


def rendered(
    message: dict[str, Any],
    values: dict[str, Any] | None = None,
    over: str = "",
    *,
    endpoints: Any = (),
    payload: Any = None,
    **style: Any,
) -> Any:
    """Render a definition over one protocol, at a fixed time and with a fixed id."""
    renderer = Renderer(Schemas([]), RenderStyle(**({"now": NOW, "seed": 1} | style)))
    [way] = bindings_of(row(message), endpoints, [over] if over else [])
    body = payload if payload is None or isinstance(payload, bytes) else json.dumps(payload).encode()
    return renderer.render(way, RenderInput(values or {}, body))


def matched(
    rows: list[dict[str, Any]], schemas: list[Any], lines: list[bytes], protocol: str | None = None
) -> list[dict[str, Any]]:
    """Match lines back with definitions."""
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    return [matcher.row(event) for line in lines for landed in landed_of_text(line, protocol) for event in events_of(landed)]


def pairs(message: Any, section: str = "headers") -> dict[str, str]:
    """Return headers or user properties by name."""
    return {one["name"]: one["value"] for one in message.captured[section]}
