"""Asks the catalog: SQL, differences, history, events, a server for SQL clients; results as lists that print as tables."""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "audit": ["blame", "history", "read_history"],
        "differences": ["diff_documents", "diff_files", "diff_snapshots"],
        "changeevents": ["change_events", "stream_changes"],
        "sql": ["run_query"],
    },
)
