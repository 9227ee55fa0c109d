"""Write the catalog as documents: `spark-submit jobs/export.py`, with options, output and exit codes of `lakehouse export`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main("export")
