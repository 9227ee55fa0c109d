"""xRegistry Lakehouse: a Spark-native Delta Lake catalog store for CNCF xRegistry documents.

`from lakehouse import Catalog` gives a program what the command `lakehouse` gives a shell.
"""

from typing import TYPE_CHECKING

import lazy_loader

from lakehouse.version import VERSION

if TYPE_CHECKING:
    from lakehouse.catalog import Catalog as Catalog

# Loaded at first use: the command starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"catalog": ["Catalog"]})

__version__ = VERSION
