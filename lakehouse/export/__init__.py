"""The catalog back as documents, in any writable dialect, from any snapshot; what a dialect cannot express is reported."""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "run": ["Exported", "ExportRequest", "export"],
    },
)
