"""All benchmarks in one process and one warm session: `python -m tests.bench --messages 10000 [--json FILE] [--chart FILE.png]`.

Each case is measured with its floor in alternating pairs, so that the ratio is of use on a busy machine too. Results are
checked, times are not.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from lakehouse.settings import Settings, read_settings
from lakehouse.store.session import open_session
from tests.bench import ingest
from tests.bench.catalog import CatalogBench
from tests.bench.chart import draw_chart
from tests.bench.generator import Shape
from tests.bench.match import MatchBench, reported_rate
from tests.bench.matchindex import measure_index, reported_index
from tests.bench.memory import Memory
from tests.bench.pairs import Case, progress, spread
from tests.bench.small import SmallBench
from tests.bench.starts import measure_first_ingests, measure_starts

LARGE = 1_000_000  # from here on each case is measured once
ENOUGH = 3  # pairs: the median leaves out the first, which pays for what a session does only once; with fewer all is run before
DEFINITIONS_A_MESSAGE = 10  # of the index of matching, which `python -m tests.bench.matchindex` makes with 1,000,000
SMALL_SHARE = "1% changed, of a new ingest"

console = Console(width=150)


def small_share_of_new(cases: dict[str, Case]) -> Case:
    """Compare an ingest with 1% changed with one of everything, both as they were measured."""
    changed, new = cases[ingest.CHANGED], cases[ingest.NEW]
    return Case(SMALL_SHARE, "ingest of a new catalog", None, changed.seconds, new.seconds)


def measure_all(
    spark: SparkSession, settings: Settings, work: Path, shape: Shape, repeats: int
) -> tuple[ingest.Bench, CatalogBench]:
    """Measure the ingests, and then the catalog that the last one leaves."""
    work.mkdir(exist_ok=True)
    loads = ingest.Bench(spark, settings, work, ingest.Data(work, shape), beside=False)
    for _ in range(repeats):
        loads.repeat()
    loaded = loads.settings.model_copy(update={"registry": loads.registry})
    reads = CatalogBench(spark, loaded, work, shape, loads.data.written.files)
    for _ in range(repeats):
        reads.repeat()
    return loads, reads


def measure(work: Path, shape: Shape, repeats: int) -> dict[str, Any]:
    """Measure everything."""
    settings = read_settings(warehouse=str(work / "warehouse"))
    begun = time.perf_counter()
    with Memory() as memory:
        spark = open_session(settings, "lakehouse-bench")
        try:
            if repeats < ENOUGH:
                measure_all(spark, settings, work / "warm", replace(shape, messages=100, documents=4), 1)
                ingest.leave_catalog(spark)
            loads, reads = measure_all(spark, settings, work, shape, repeats)
            reads.check()
            small = SmallBench(spark, reads.settings, work, loads.data.written.files[0])
            for _ in range(repeats):
                small.repeat()
            matching = MatchBench(spark, work / "match", max(shape.messages * 10, 1000))
            matching.check()
            for _ in range(repeats):
                matching.repeat()
            rate = matching.events_a_core()
        finally:
            spark.stop()
    started = measure_starts(reads.settings, shape.messages, repeats)
    first = measure_first_ingests(reads.settings, loads.data.written.files, work, shape.messages, repeats)
    cases = [*loads.cases.values(), small_share_of_new(loads.cases), *reads.cases.values(), started, first]
    cases += [small.case, *matching.cases]
    progress.log("index of matching")
    return {
        **ingest.as_json(loads),
        "machine": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
        "repeats": repeats,
        "seconds": round(time.perf_counter() - begun, 1),
        "peak_mib": memory.as_json(),
        "events_a_core": round(rate),
        "small_change": small.reported(),
        "match_index": measure_index(shape.messages * DEFINITIONS_A_MESSAGE),
        "ms_per_message": round(1000 * median(loads.cases[ingest.NEW].seconds) / shape.messages, 3),
        "cases": cases,
    }


def show(measured: dict[str, Any]) -> None:
    """Print the table."""
    table = Table(title=_title(measured))
    for name in ("what", "floor"):
        table.add_column(name, no_wrap=False)
    for name in ("seconds", "floor seconds", "ratio", "goal"):
        table.add_column(name, justify="right", no_wrap=True)
    for case in measured["cases"]:
        goal = "" if case.goal is None else f"{case.goal:g}"
        table.add_row(case.what, case.floor, spread(case.seconds), spread(case.floor_seconds), f"{case.ratio:.2f}", goal)
    console.print(table)
    peak = ", ".join(f"{name.replace('_', ' ')} {mib:,.0f} MiB" for name, mib in measured["peak_mib"].items())
    console.print(measured["small_change"])
    console.print(reported_rate(measured["events_a_core"]))
    console.print(reported_index(measured["match_index"]))
    console.print(
        f"Peak memory: {peak}. A new ingest: {measured['ms_per_message']} ms a message. {measured['seconds']:.0f} s in all."
    )


def _title(measured: dict[str, Any]) -> str:
    return (
        f"{measured['messages']:,} messages in {measured['documents']:,} documents, {measured['bytes'] / 1e6:.1f} MB; "
        f"medians of {measured['repeats']}; {measured['cores']} cores, load {measured['load']:.1f}"
    )


@click.command()
@click.option("--messages", type=click.IntRange(min=100), default=10_000, show_default=True, help="Messages over all documents.")
@click.option("--documents", type=click.IntRange(min=1), default=100, show_default=True, help="Documents that hold them.")
@click.option("--repeat", "repeats", type=click.IntRange(min=1), help="Pairs of each case; default 3, 1 from 1,000,000.")
@click.option("--json", "target", type=click.Path(dir_okay=False, path_type=Path), help="File to write the numbers to.")
@click.option("--chart", type=click.Path(dir_okay=False, path_type=Path), help="PNG file to draw the ratios into.")
def main(messages: int, documents: int, repeats: int | None, target: Path | None, chart: Path | None) -> None:
    """Measure the product, compared with the least that Spark has to do for the same result."""
    if documents > messages:
        raise click.UsageError("--documents is more than --messages: each document holds at least one.")
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        measured = measure(Path(folder), Shape(messages, documents), repeats or (1 if messages >= LARGE else ENOUGH))
    progress.log(f"load {os.getloadavg()[0]:.1f}")
    show(measured)
    if chart:
        draw_chart(measured["cases"], _title(measured), chart)
    if target:
        text = json.dumps(measured | {"cases": [case.as_json() for case in measured["cases"]]}, indent=2)
        target.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
