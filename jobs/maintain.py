"""Look after the tables: `spark-submit jobs/maintain.py`, with options, output and exit codes of `lakehouse maintain`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main("maintain")
