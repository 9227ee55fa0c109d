"""Match events: `spark-submit jobs/match.py`, with options, output and exit codes of `lakehouse match`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main("match")
