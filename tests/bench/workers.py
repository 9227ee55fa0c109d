"""What a second worker of a cluster gives: `sudo python -m tests.bench.workers --messages 100000 --share 0.66`.

A new catalog is loaded on standalone clusters of one and of two workers with one core each, in a fresh driver each time. The
machine may have fewer cores than there are processes: `--share` gives the driver, and each worker with all that it starts, that
part of a core and no more, as if each ran on its own machine with a slower core. Linux keeps such shares in its control
groups, which only root may make; `--share 0` goes without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_fixed

from lakehouse.ingest.pipeline import ingest
from lakehouse.settings import read_settings
from lakehouse.store.session import open_session
from tests.bench.generator import Shape, write_documents
from tests.cluster.sparkcluster import Cluster

_GROUPS = Path("/sys/fs/cgroup")
_PERIOD = 100_000  # microseconds
ROOT = Path(__file__).parents[2]


class Share:
    """A part of a core for some processes, as long as its block."""

    def __init__(self, name: str, cores: float) -> None:
        quota = round(cores * _PERIOD)
        is_first = (_GROUPS / "cpu").is_dir()  # version 1 of control groups
        self._folder = _GROUPS / ("cpu" if is_first else "") / f"lakehouse-bench-{os.getpid()}-{name}"
        self._limit = ("cpu.cfs_quota_us", str(quota)) if is_first else ("cpu.max", f"{quota} {_PERIOD}")

    def __enter__(self) -> Share:
        self._folder.mkdir()
        name, limit = self._limit
        (self._folder / name).write_text(limit, encoding="ascii")
        return self

    def __exit__(self, *_: object) -> None:
        # Processes that were ended are not gone at once.
        Retrying(retry=retry_if_exception_type(OSError), stop=stop_after_delay(10), wait=wait_fixed(0.1), reraise=True)(
            self._folder.rmdir
        )

    def hold(self, process: int) -> None:
        """Let a process, and all that it starts from now on, have this share and no more."""
        (self._folder / "cgroup.procs").write_text(str(process), encoding="ascii")


@click.command()
@click.option("--messages", default=100_000)
@click.option("--documents", default=100)
@click.option("--share", default=0.66, help="Part of a core that the driver and each worker have; 0: as much as there is.")
@click.option("--repeat", default=1)
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark, added to those of the catalog.")
@click.option("--load", "loaded", type=(str, str, str), hidden=True, help="Documents, warehouse, master.")
def main(
    messages: int, documents: int, share: float, repeat: int, conf: tuple[str, ...], loaded: tuple[str, str, str] | None
) -> None:
    """Load with one worker and with two, in turn, and print the seconds of each stage."""
    if loaded is not None:
        click.echo(json.dumps(_load(*loaded, conf)))
        return
    table = Table("workers", *(stages := ["total", "attach", "parse", "check", "commit", "project"]))
    for column in table.columns:
        column.justify = "right"
    totals: dict[int, list[float]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as scratch:
        write_documents(Path(scratch) / "documents", Shape(messages, documents=documents))
        for number in range(repeat):
            for workers, of_all in totals.items():
                seconds = _measure(Path(scratch), f"{number}-{workers}", workers, share, conf)
                of_all.append(seconds["total"])
                table.add_row(str(workers), *(f"{seconds.get(stage, 0.0):.1f}" for stage in stages))
                click.echo(f"{workers} workers: {seconds['total']:.1f} s", err=True)
    Console().print(table)
    click.echo(f"two workers next to one: {sum(totals[1]) / sum(totals[2]):.2f} (goal: at least 1.7)")


def _measure(scratch: Path, name: str, workers: int, share: float, conf: tuple[str, ...]) -> dict[str, float]:
    """Load into a new warehouse, and return the seconds by stage."""
    with ExitStack() as stack:
        shares = [stack.enter_context(Share(part, share)) for part in ("driver", "1", "2")[: workers + 1] if share]
        cluster = stack.enter_context(Cluster(scratch / f"cluster-{name}", memory="4g", workers=workers))
        for part, process in zip(shares[1:], cluster.processes[1:], strict=True) if shares else ():
            part.hold(process.pid)
        command = [sys.executable, "-m", "tests.bench.workers", "--load"]
        command += [str(scratch / "documents"), str(scratch / f"warehouse-{name}"), cluster.master]
        command += [part for one in conf for part in ("--conf", one)]
        driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if shares:
            shares[0].hold(driver.pid)
        reported, _ = driver.communicate()
        if driver.returncode:
            raise click.ClickException(f"the load ended with {driver.returncode}")
    return dict(json.loads(reported))


def _load(documents: str, warehouse: str, master: str, conf: tuple[str, ...]) -> dict[str, float]:
    given = {
        "spark.master": master,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "3g",
        "spark.executorEnv.PYTHONPATH": str(ROOT),
        "spark.pyspark.python": sys.executable,
        "spark.sql.files.minPartitionNum": "8",
        **dict(one.split("=", 1) for one in conf),
    }
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = read_settings(warehouse=warehouse, registry="one", spark=given)
    spark = open_session(settings, "lakehouse-bench")
    try:
        return dict(ingest(spark, settings, [documents]).as_json()["seconds"])
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
