"""The catalog over HTTP, read-only and without Spark: the xRegistry API in two dialects, the past, definitions, events.

A request is read (`requests`, `flags`), answered out of one snapshot of the read model (`pages`, `answers`), and kept as bytes
for the next one who asks (`app`). `run_server` is what `lakehouse serve` calls; `Options` is what it was told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.serve.app import make_app
    from lakehouse.serve.options import Options
    from lakehouse.serve.server import run_server

__all__ = ["Options", "make_app", "run_server"]

_HOMES = {"Options": "options", "make_app": "app", "run_server": "server"}


def __getattr__(name: str) -> Any:
    """Import a module when something of it is wanted: Starlette and uvicorn are there with the extra `serve` only."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
