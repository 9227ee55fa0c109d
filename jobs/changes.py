"""Write what changed as events: `spark-submit jobs/changes.py`, with options, output and exit codes of `lakehouse changes`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main("changes")
