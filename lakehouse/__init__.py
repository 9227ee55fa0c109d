"""xRegistry Lakehouse: a Spark-native Delta Lake catalog store for CNCF xRegistry documents.

`from lakehouse import Catalog` gives a program what the command `lakehouse` gives a shell.
"""

from typing import TYPE_CHECKING, Any

import lazy_loader

from lakehouse.errors import NotInstalled
from lakehouse.extras import not_installed
from lakehouse.version import VERSION

if TYPE_CHECKING:
    from lakehouse.catalog import Catalog as Catalog

# Loaded at first use: the command starts without Spark.
_load, __dir__, __all__ = lazy_loader.attach(__name__, submod_attrs={"catalog": ["Catalog"]})

__version__ = VERSION


def __getattr__(name: str) -> Any:
    """Return what this package exports.

    Raises:
        NotInstalled: it needs an extra.
    """
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        raise NotInstalled(f"{not_installed(error)}.") from error
