"""A long-lived process that ingests one new document after the other.

Run as `python -m tests.soak.writer WAREHOUSE FOLDER NAME COUNT`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from lakehouse.ingest.pipeline import ingest
from lakehouse.settings import read_settings
from lakehouse.store.session import open_session


def main(warehouse: str, folder: str, name: str, count: int) -> None:
    """Write and ingest `count` documents of one message each, all of them in one message group."""
    settings = read_settings(warehouse=warehouse, commit_attempts=50)
    spark = open_session(settings)
    for number in range(count):
        path = Path(folder) / f"{name}-{number:04}.json"
        path.write_text(
            json.dumps({"messagegroups": {f"g-{name}": {"messages": {f"{name}-{number:04}": {"name": str(number)}}}}})
        )
        summary = ingest(spark, settings, [str(path)])
        sys.stdout.write(f"{summary.snapshot_id}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    warehouse, folder, name, count = sys.argv[1:]
    main(warehouse, folder, name, int(count))
