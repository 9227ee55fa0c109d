"""Examples of a message for `lakehouse show`: one over each protocol that it goes over, made up anew, and kept nowhere."""

from __future__ import annotations

from typing import Any

import orjson

from lakehouse.errors import LakehouseError
from lakehouse.match.payload.schemas import Schemas
from lakehouse.readmodel.view import View
from lakehouse.render.catalog import Selected, selected_at
from lakehouse.render.faults import RenderRefused
from lakehouse.render.rendering import Renderer, Style
from lakehouse.render.ways import ALL, CLOUDEVENTS, ways_of
from lakehouse.text.names import RegistryId, Xid

_SEED = 0


def examples_of(selected: Selected, renderer: Renderer | None = None) -> list[dict[str, Any]]:
    """Make up examples.

    Args:
        selected: the definitions.
        renderer: of `renderer_of`, for many messages with the same schemas; None: one is made.

    Returns:
        For each definition and each protocol `registryid`, `xid`, `as`, and `example`, as `render` writes it, or `error`.
    """
    renderer = renderer or renderer_of(selected)
    found: list[dict[str, Any]] = []
    for row in selected.messages:
        whose = {"registryid": row["registryid"], "xid": row["xid"]}
        try:
            ways = ways_of(row, selected.endpoints, (ALL,))
        except RenderRefused as error:
            found.append(whose | {"as": None, "error": str(error)})
            continue
        for way in ways:
            told: dict[str, Any] = whose | {"as": CLOUDEVENTS.lower() if way.protocol is None else way.family.lower()}
            try:
                found.append(told | {"example": orjson.loads(renderer.render(way).as_json())})
            except RenderRefused as error:
                found.append(told | {"error": str(error)})
    return found


def renderer_of(selected: Selected, now: str | None = None) -> Renderer:
    """Make what renders examples; now: RFC 3339 timestamp that stands for the current time, None: the clock's."""
    return Renderer(Schemas(selected.schemas), Style(example=True, seed=_SEED, now=now))


def examples_in(view: View, registryid: RegistryId, xid: Xid) -> list[dict[str, Any]]:
    """Make up examples of a message of a snapshot, at its time; where they cannot be had, one entry tells why."""
    try:
        definition = view.definition(registryid, xid)
        if definition is None:
            return []
        selected = selected_at(view, definition)
        now = view.committed_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return examples_of(selected, renderer_of(selected, now))
    except LakehouseError as error:
        return [{"registryid": registryid, "xid": xid, "as": None, "error": str(error)}]
