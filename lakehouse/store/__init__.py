"""The Spark session, and the Delta tables and views of a warehouse by their names.

`schema` declares every column once, with its comment; the statements are in `ddl/`. Files of the warehouse are reached through
Hadoop, so that a local folder and an object store are alike.
"""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "schema": ["ENTITY_TABLES", "SCHEMA"],
        "session": ["open_session"],
        "deltatables": ["attach_tables", "create_tables", "open_table"],
        "views": ["create_views"],
    },
)
