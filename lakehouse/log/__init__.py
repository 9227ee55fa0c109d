"""The log `changes`: what an ingest changes, its one commit, and the tables that follow from it.

A plan compares what documents say with the last row of each entity; one append to `changes` is the commit, and makes a
snapshot. The entity tables are projections of the log and are brought up to it at once, or by the next command that writes. Any
past snapshot is read from it.
"""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "commits": ["commit", "read_head"],
        "baseline": ["current_documents", "Baseline", "read_baseline"],
        "snapshotfacts": ["Head"],
        "plan": ["Plan", "plan_changes"],
        "projections": ["roll_forward"],
        "snapshots": ["open_relations", "open_snapshot", "read_snapshots", "resolve_snapshot"],
    },
)
