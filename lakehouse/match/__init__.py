"""Messages that were sent against messages that were declared: which are what the catalog says, which are not, and why.

Landed rows → one canonical event (`event`) → candidates of a memory-mapped index (`index`) → predicates of each
definition (`definition`, `evaluation`) → the most specific match → its payload against its schema
(`payload`). The core needs no Spark; `distributed` runs it over tables, `runs` over streams, `vectorized` over many events at
once. docs/match.md says what decides and what only deviates.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from lakehouse.match.definition.compiled import Definition as Definition
    from lakehouse.match.definition.compiled import definition_of as definition_of
    from lakehouse.match.definition.templates import Template as Template
    from lakehouse.match.definition.templates import compile_template as compile_template
    from lakehouse.match.evaluation import Tolerance as Tolerance
    from lakehouse.match.evaluation import evaluate as evaluate
    from lakehouse.match.event.canonical import CapturedEvent as CapturedEvent
    from lakehouse.match.event.canonical import Event as Event
    from lakehouse.match.event.canonical import events_of as events_of
    from lakehouse.match.index import Index as Index
    from lakehouse.match.matcher import Matcher as Matcher
    from lakehouse.match.matcher import MatchRequest as MatchRequest
    from lakehouse.match.payload.payloads import Payloads as Payloads
    from lakehouse.match.payload.schemas import Schemas as Schemas
    from lakehouse.match.payload.schemas import SchemaVersion as SchemaVersion

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "definition.compiled": ["Definition", "definition_of"],
        "definition.templates": ["Template", "compile_template"],
        "event.canonical": ["Event", "CapturedEvent", "events_of"],
        "evaluation": ["Tolerance", "evaluate"],
        "index": ["Index"],
        "matcher": ["Matcher", "MatchRequest"],
        "payload.payloads": ["Payloads"],
        "payload.schemas": ["SchemaVersion", "Schemas"],
    },
)
