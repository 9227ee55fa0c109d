"""The catalog over HTTP, without Spark: the xRegistry API in two dialects, the past, definitions, events, and writes.

A request is read (`targets`, `answer.exchange`), answered from one snapshot of the read model (`answer`), and kept as bytes for
the next client (`app`). One that writes goes from `writeendpoint` over a socket to one process (`writer`), which makes rows of
the log from it (`write.apply`, `write.effects`) and commits them, again from the start when another writer was first
(`writer.process`, `writer.append`); then it is answered like a GET. `run_server` is what `lakehouse serve` calls, with `Options`.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from lakehouse.serve.app import make_app as make_app
    from lakehouse.serve.config import Options as Options
    from lakehouse.serve.server import run_server as run_server

# Starlette and uvicorn are there with the extra `serve` only.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"app": ["make_app"], "config": ["Options"], "server": ["run_server"]}
)
