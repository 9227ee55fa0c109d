"""Messages that were sent against messages that were declared: which are what the catalog says, which are not, and why.

Landed rows → one canonical event (`landed`) → candidates of a memory-mapped index (`index`) → predicates of each definition
(`definitions`, `templates`, `evaluation`) → the most specific match (`matching`) → its payload against its schema (`payloads`).
The core needs no Spark; `engine` runs it over tables and streams. docs/match.md tells what decides and what only deviates.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.match.definitions import Definition, definition_of
    from lakehouse.match.evaluation import Tolerance, evaluate
    from lakehouse.match.index import Index
    from lakehouse.match.landed import Event, Landed, events_of
    from lakehouse.match.matcher import Matcher, Request
    from lakehouse.match.payloads import Payloads
    from lakehouse.match.schemas import Schemas, SchemaVersion
    from lakehouse.match.templates import Template, compile_template

_PLACES = {
    "definitions": ("Definition", "definition_of"),
    "evaluation": ("Tolerance", "evaluate"),
    "index": ("Index",),
    "landed": ("Event", "Landed", "events_of"),
    "matcher": ("Matcher", "Request"),
    "payloads": ("Payloads",),
    "schemas": ("SchemaVersion", "Schemas"),
    "templates": ("Template", "compile_template"),
}
__all__ = [
    "Definition", "Event", "Index", "Landed", "Matcher", "Payloads", "Request", "SchemaVersion", "Schemas", "Template",
    "Tolerance", "compile_template", "definition_of", "evaluate", "events_of",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(f"lakehouse.match.{module}"), name)
    raise AttributeError(name)
