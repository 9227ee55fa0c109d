"""What keeps a warehouse sound: the doctor, rebuilding tables from the log, backups, maintenance of files."""

import lazy_loader

# Named here, loaded at first use: `lakehouse --help` starts without Spark.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "backups": ["backup", "restore"],
        "doctor": ["diagnose"],
        "maintenance": ["maintain"],
        "rebuild": ["rebuild_tables"],
    },
)
