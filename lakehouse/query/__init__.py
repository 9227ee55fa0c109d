"""Asks the catalog: SQL, one message, differences, history, events, violations, a server for SQL clients."""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "audit": ["blame", "history"],
        "diff": ["diff_documents", "diff_snapshots"],
        "events": ["change_events", "stream_changes"],
        "show": ["show_message"],
        "sql": ["run_query"],
        "violations": ["list_violations"],
    },
)
