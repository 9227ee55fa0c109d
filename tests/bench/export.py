"""How long an export takes, compared with Spark writing `raw` of the same messages as text, in one run.

python -m tests.bench.export --messages 100000
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import click
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from lakehouse.export.run import ExportRequest, WriteStyle, export
from lakehouse.ingest.pipeline import ingest
from lakehouse.settings import Settings, read_settings
from lakehouse.store.session import open_session
from tests.bench.generator import Shape, write_documents

FLOOR = "SELECT raw, written by Spark as text"
console = Console(width=120)


class Bench:
    """Measures exports of one catalog."""

    def __init__(self, spark: SparkSession, settings: Settings, work: Path) -> None:
        self.spark = spark
        self.settings = settings
        self.work = work
        self.cases: dict[str, Callable[[Path], object]] = {
            FLOOR: lambda out: write_raw(spark, out),
            "export, normal form": lambda out: export(spark, settings, ExportRequest(str(out))),
            "export --source": lambda out: export(spark, settings, ExportRequest(str(out), style=WriteStyle(source=True))),
            "export --split group": lambda out: export(
                spark, settings, ExportRequest(str(out), to_folder=True, style=WriteStyle(by_group=True))
            ),
        }
        self.seconds: dict[str, list[float]] = {name: [] for name in self.cases}
        self.bytes: dict[str, int] = {}

    def repeat(self) -> None:
        """Measure each case once, the first one last the next time."""
        names = list(self.cases) if len(self.seconds[FLOOR]) % 2 else list(reversed(self.cases))
        for name in names:
            out = self.work / "out"
            begun = time.perf_counter()
            self.cases[name](out)
            self.seconds[name].append(round(time.perf_counter() - begun, 3))
            files = [out] if out.is_file() else [path for path in out.rglob("*") if path.is_file()]
            self.bytes[name] = sum(path.stat().st_size for path in files)
            if out.is_dir():
                shutil.rmtree(out)
            else:
                out.unlink()


def write_raw(spark: SparkSession, out: Path) -> None:
    """Let Spark write the text of each message and Version of the log."""
    rows = spark.table("xregistry.changes").filter(F.col("kind").isin("message", "version"))
    rows.select(F.coalesce("raw", "body")).write.text(str(out))


@click.command()
@click.option("--messages", type=click.IntRange(min=100), default=100_000, show_default=True, help="Messages over all documents.")
@click.option("--documents", type=click.IntRange(min=1), default=100, show_default=True, help="Documents that hold them.")
@click.option("--repeat", "repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Repetitions of each case.")
@click.option("--json", "target", type=click.Path(dir_okay=False, path_type=Path), help="File to write the numbers to.")
def main(messages: int, documents: int, repeats: int, target: Path | None) -> None:
    """Measure export, compared with the time that Spark takes to write the same texts."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        work = Path(folder)
        write_documents(work / "documents", Shape(messages, documents))
        settings = read_settings(warehouse=str(work / "warehouse"))
        spark = open_session(settings, "lakehouse-bench")
        try:
            ingest(spark, settings, [str(work / "documents")])
            shutil.rmtree(work / "documents")
            bench = Bench(spark, settings, work)
            bench.repeat()  # warms up
            for seconds in bench.seconds.values():
                seconds.clear()
            for _ in range(repeats):
                bench.repeat()
            driver = _driver_memory(spark)
        finally:
            spark.stop()
    floor = median(bench.seconds[FLOOR])
    table = Table(title=f"{messages:,} messages; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; medians of {repeats}")
    for name in ("what", "seconds", "all", "times the floor", "MB"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for name, seconds in bench.seconds.items():
        table.add_row(
            name,
            f"{median(seconds):.2f}",
            " ".join(f"{one:.1f}" for one in seconds),
            f"{median(seconds) / floor:.2f}",
            f"{bench.bytes[name] / 1e6:.0f}",
        )
    console.print(table)
    python = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    console.print(f"Driver: Python {python:.0f} MB at most, JVM heap {driver:.0f} MB used")
    if target:
        target.write_text(json.dumps({"seconds": bench.seconds, "bytes": bench.bytes, "messages": messages}, indent=2) + "\n")


def _driver_memory(spark: SparkSession) -> float:
    """Return the JVM's used heap in MB after a collection; in local mode this includes the executors."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return (runtime.totalMemory() - runtime.freeMemory()) / 1e6


if __name__ == "__main__":
    main()
