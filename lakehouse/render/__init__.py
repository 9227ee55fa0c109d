"""Messages made from their definitions: a definition is a template, and values fill it in.

A row of `flat_messages` and an endpoint that carries it (`ways`) → what is asked and what was given (`filling`) → the message
as a protocol carries it, in either mode of CloudEvents (`bindings`) → matched back with its definition before it is handed out
(`rendering`). `examples` makes up payloads from schemas; `rendered` and `clients` put messages on paper. Nothing is ever sent.
The core needs no Spark; `engine` renders tables. docs/render.md tells the rules.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.render.endpoints import Endpoint
    from lakehouse.render.faults import MissingValues, Need, Refusal, RenderRefused
    from lakehouse.render.filling import Given
    from lakehouse.render.rendered import Rendered
    from lakehouse.render.rendering import Renderer, Style
    from lakehouse.render.ways import Way, ways_of

_PLACES = {
    "endpoints": ("Endpoint",),
    "faults": ("MissingValues", "Need", "Refusal", "RenderRefused"),
    "filling": ("Given",),
    "rendered": ("Rendered",),
    "rendering": ("Renderer", "Style"),
    "ways": ("Way", "ways_of"),
}
__all__ = [
    "Endpoint", "Given", "MissingValues", "Need", "Refusal", "RenderRefused", "Rendered", "Renderer", "Style", "Way", "ways_of",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(f"lakehouse.render.{module}"), name)
    raise AttributeError(name)
