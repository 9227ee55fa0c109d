"""Documents go into the catalog: found, parsed to a stage, checked, compared, committed.

`ingest` is one run over sources; `watch` follows a folder. Each document is read alone, so that one that cannot be read costs no
other; what is refused is kept with its reason.
"""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "landing": ["watch"],
        "parse.parse": ["parse_documents"],
        "pipeline": ["Located", "Summary", "ingest"],
        "sources": ["find_sources"],
    },
)
