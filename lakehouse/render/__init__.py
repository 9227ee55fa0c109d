"""Messages made from their definitions: a definition is a template, and values fill it in.

A row of `flat_messages` and an endpoint that carries it (`ways`) → what is asked and what was given (`filling`) → the message
as a protocol carries it, in either mode of CloudEvents (`bindings`) → matched back with its definition before it is handed out
(`rendering`). `example` makes up payloads from schemas; `rendered` and `clients` write messages
as tools read them. Nothing is ever sent.
The core needs no Spark; `engine` renders tables. docs/render.md tells the rules.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from lakehouse.render.endpoints import Endpoint as Endpoint
    from lakehouse.render.faults import MissingValues as MissingValues
    from lakehouse.render.faults import Need as Need
    from lakehouse.render.faults import Refusal as Refusal
    from lakehouse.render.faults import RenderRefused as RenderRefused
    from lakehouse.render.filling import Given as Given
    from lakehouse.render.rendered import Rendered as Rendered
    from lakehouse.render.rendering import Renderer as Renderer
    from lakehouse.render.rendering import Style as Style
    from lakehouse.render.ways import Way as Way
    from lakehouse.render.ways import ways_of as ways_of

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "endpoints": ["Endpoint"],
        "faults": ["MissingValues", "Need", "Refusal", "RenderRefused"],
        "filling": ["Given"],
        "rendered": ["Rendered"],
        "rendering": ["Renderer", "Style"],
        "ways": ["Way", "ways_of"],
    },
)
