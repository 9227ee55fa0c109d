"""The catalog in milliseconds, without Spark and Java: a SQLite file that follows the Delta tables, and may be deleted at will.

`open_model(settings)` opens it, built or brought up to date first; `model.at(snapshot)` reads one snapshot of it:

    with open_model(settings) as model, model.at("release-2") as view:
        message = view.definition("default", "/messagegroups/shop/messages/placed")

The file stands in the cache folder, one for each warehouse. It holds the log whole, so every past snapshot can be read too; the
effective definitions of a past snapshot come out of Delta's history of `effective_messages`, as far as that goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse.readmodel.model import ReadModel, open_model
    from lakehouse.readmodel.view import Entity, Reference, View

__all__ = ["Entity", "ReadModel", "Reference", "View", "open_model"]

_HOMES = {"Entity": "view", "ReadModel": "model", "Reference": "view", "View": "view", "open_model": "model"}


def __getattr__(name: str) -> Any:
    """Import a module when something of it is wanted: nobody who needs only the names pays for it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
