"""The catalog over HTTP, read-only and without Spark: the xRegistry API in two dialects, the past, definitions, events.

A request is read (`requests`, `flags`), answered out of one snapshot of the read model (`answer`), and kept as bytes
for the next one who asks (`app`). `run_server` is what `lakehouse serve` calls; `Options` is what it was told.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from lakehouse.serve.app import make_app as make_app
    from lakehouse.serve.options import Options as Options
    from lakehouse.serve.server import run_server as run_server

# Starlette and uvicorn are there with the extra `serve` only.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"app": ["make_app"], "options": ["Options"], "server": ["run_server"]}
)
