"""Expectations: suites of the specifications' rules and of the user's own, run by Great Expectations.

`validate` runs them over documents or over the catalog; a suite that is a gate can refuse an ingest. Data Docs are written by
templates of our own (`pages`) and hold counts, never values.
"""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "gates": ["read_gates"],
        "suiteruns": ["check_expectations"],
        "suites": ["Suite"],
        "validation": ["validate"],
    },
)
