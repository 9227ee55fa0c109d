"""Time to open a snapshot's schema and count `flat_messages` in it, against the live schema, in one run.

`python -m tests.bench.snapshots --messages 100000 --snapshots 20`
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from pyspark.sql import SparkSession

from lakehouse.ingest.pipeline import ingest
from lakehouse.log.snapshots import open_snapshot, schema_at
from lakehouse.settings import Settings, read_settings
from lakehouse.store.deltatables import attach_tables
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import open_session
from lakehouse.store.views import create_views
from tests.bench.generator import Shape, write_documents


def edit(file: Path, release: int) -> None:
    """Change the description of every tenth message of a document."""
    document = json.loads(file.read_bytes())
    for group in document["messagegroups"].values():
        for number, message in enumerate(group["messages"].values()):
            if number % 10 == 0:
                message["description"] = f"as of release {release}"
    file.write_text(json.dumps(document))


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    """Return the seconds, and what came out."""
    begun = time.monotonic()
    found = action()
    return time.monotonic() - begun, found


def count(spark: SparkSession, settings: Settings, at: int | None) -> int:
    """Open a schema and count its flat messages."""
    if at is None:
        attach_tables(spark, settings)
        create_views(spark, settings, SCHEMA, ["flat_messages"])
    else:
        open_snapshot(spark, settings, at, ["flat_messages"])
    schema = SCHEMA if at is None else schema_at(at)
    return int(spark.table(f"{schema}.flat_messages").count())


@click.command()
@click.option("--messages", default=100_000)
@click.option("--snapshots", default=20)
@click.option("--repeats", default=3)
def main(messages: int, snapshots: int, repeats: int) -> None:
    """Load messages, edit them release by release, and measure."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as scratch:
        settings = read_settings(warehouse=f"{scratch}/warehouse")
        spark = open_session(settings, "lakehouse-bench")
        files = write_documents(Path(scratch) / "documents", Shape(messages, documents=20)).files
        for release in range(1, snapshots + 1):
            if release > 1:
                edit(files[release % len(files)], release)
            seconds, summary = timed(lambda: ingest(spark, settings, [f"{scratch}/documents"]))
            sys.stdout.write(f"snapshot {summary.snapshot_id}: {seconds:.1f} s\n")
            sys.stdout.flush()
        for at in (None, snapshots, snapshots // 2, 1):
            runs = [timed(lambda at=at: count(spark, settings, at)) for _ in range(repeats + 1)][1:]
            median = statistics.median(seconds for seconds, _ in runs)
            reported = ", ".join(f"{seconds:.1f}" for seconds, _ in runs)
            sys.stdout.write(
                f"{'head' if at is None else f'snapshot {at}':12} {runs[0][1]:9} messages  {median:6.1f} s  ({reported})\n"
            )
            sys.stdout.flush()


if __name__ == "__main__":
    main()
