"""Load documents: `spark-submit jobs/ingest.py`, with options, output and exit codes of `lakehouse ingest`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main("ingest")
