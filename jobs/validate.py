"""Validate the catalog: `spark-submit jobs/validate.py`, with options, output and exit codes of `lakehouse validate`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main("validate")
