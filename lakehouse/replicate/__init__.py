"""Catalogs copy from each other over HTTP: from an xRegistry server, or from a catalog of the CNCF draft (its section 5).

`pull` fetches what a source holds into documents (`client`, `crawler`), which an ingest then takes like any other: with
its rules, one snapshot a round, and what vanished at the source deleted. The state of a source is a folder of the warehouse
(`state`): marks for conditional requests, and parts that were fetched before a process died. `push` sends what changed here to a
server that can be written, through an outbox; `subscriber` lets a source report when it is time to pull.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from lakehouse.replicate.client import CatalogAddress as CatalogAddress
    from lakehouse.replicate.client import read_address as read_address
    from lakehouse.replicate.pull import Pull as Pull
    from lakehouse.replicate.pull import Puller as Puller
    from lakehouse.replicate.push import Push as Push
    from lakehouse.replicate.push import Pusher as Pusher

# urllib3 is there with the extra `replicate` only, Spark is started when something is to be loaded.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"client": ["CatalogAddress", "read_address"], "pull": ["Pull", "Puller"], "push": ["Push", "Pusher"]},
)
