"""How six dialects spell one normal form, both ways.

Tables first (`data/*.csv`: an attribute a row, its spelling in each dialect a column), code for what no table can say. A
document is read from its dialect into the normal form (xRegistry 1.0-rc2) and written back out of it; `draft` is the CNCF
Message and Event Catalog, which names things otherwise.
"""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "detection": ["dialect_of"],
        "entityreader": ["NormalEntity", "read_entity"],
        "tables": ["DIALECTS", "NORMAL", "WRITABLE", "table"],
        "writing": ["layout_of", "to_dialect"],
    },
)
