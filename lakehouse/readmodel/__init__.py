"""The catalog in milliseconds, without Spark and Java: a SQLite file that follows the Delta tables, and may be deleted at will.

`open_model(settings)` opens it, built or brought up to date first; `model.at(snapshot)` reads one snapshot of it:

    with open_model(settings) as model, model.at("release-2") as view:
        message = view.definition("default", "/messagegroups/shop/messages/placed")

The file is in the cache folder, one for each warehouse. It holds the log whole, so every past snapshot can be read too;
the effective definitions of a past snapshot are computed from it.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from lakehouse.readmodel.model import ReadModel as ReadModel
    from lakehouse.readmodel.model import open_model as open_model
    from lakehouse.readmodel.snapshotview import Entity as Entity
    from lakehouse.readmodel.snapshotview import Reference as Reference
    from lakehouse.readmodel.snapshotview import View as View

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"model": ["ReadModel", "open_model"], "snapshotview": ["Entity", "Reference", "View"]}
)
