"""Copy from another catalog: `spark-submit jobs/replicate.py pull URL`, with options and output of `lakehouse replicate`."""

from __future__ import annotations

from lakehouse.cli.main import main

if __name__ == "__main__":
    main("replicate")
