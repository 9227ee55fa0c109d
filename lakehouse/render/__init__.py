"""Messages made from their definitions: a definition is a template, and values fill it in.

A row of `flat_messages` and an endpoint that carries it (`protocolbinding`) → what is required and what was given (`filling`) →
the message as a protocol carries it, in either mode of CloudEvents (`encode`) → matched back with its definition before it is
returned (`rendering`). `example` makes up payloads from schemas; `renderruns` writes messages as tools read them. Nothing is ever
sent. The core needs no Spark; `onspark` renders tables. docs/render.md has the rules.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from lakehouse.render.filling import RenderInput as RenderInput
    from lakehouse.render.protocolbinding import Endpoint as Endpoint
    from lakehouse.render.protocolbinding import ProtocolBinding as ProtocolBinding
    from lakehouse.render.protocolbinding import bindings_of as bindings_of
    from lakehouse.render.rendering import Rendered as Rendered
    from lakehouse.render.rendering import Renderer as Renderer
    from lakehouse.render.rendering import RenderStyle as RenderStyle
    from lakehouse.render.unrenderable import MissingValues as MissingValues
    from lakehouse.render.unrenderable import Need as Need
    from lakehouse.render.unrenderable import Refusal as Refusal
    from lakehouse.render.unrenderable import RenderRefused as RenderRefused

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "filling": ["RenderInput"],
        "protocolbinding": ["Endpoint", "ProtocolBinding", "bindings_of"],
        "rendering": ["Rendered", "Renderer", "RenderStyle"],
        "unrenderable": ["MissingValues", "Need", "Refusal", "RenderRefused"],
    },
)
