"""The catalog over HTTP, without Spark: the xRegistry API in two dialects, the past, definitions, events, and writes.

A request is read (`requests`, `meaning`), answered out of one snapshot of the read model (`answer`), and kept as bytes for the
next one who asks (`app`). One that writes goes from `writes` over a socket to one process (`writer`), which makes rows of the log
out of it (`write.apply`, `write.settle`) and commits them, again from the start when another writer was first (`writer.batches`,
`writer.append`); then it is answered like a GET (`written`).
`run_server` is what `lakehouse serve` calls; `Options` is what it was told.
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
