"""Propose definitions: `spark-submit jobs/propose.py`, with options, output and exit codes of `lakehouse propose`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main("propose")
