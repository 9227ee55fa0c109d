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

_SEED = 0


def examples_of(selected: Selected) -> list[dict[str, Any]]:
    """Make up examples.

    Returns:
        For each definition and each protocol `registryid`, `xid`, `as`, and `example`, as `render` writes it, or `error`.
    """
    renderer = Renderer(Schemas(selected.schemas), Style(example=True, seed=_SEED))
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


def examples_in(view: View, registryid: str, xid: str) -> list[dict[str, Any]]:
    """Make up examples of a message of a snapshot; where they cannot be had, one entry tells why."""
    try:
        definition = view.definition(registryid, xid)
        return [] if definition is None else examples_of(selected_at(view, definition))
    except LakehouseError as error:
        return [{"registryid": registryid, "xid": xid, "as": None, "error": str(error)}]
