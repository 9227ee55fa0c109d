"""How long loading a schema registry takes, compared with `spark.read.json` of the same bytes: `python -m tests.bench.registry`.

A stand-in server in its own process answers as a registry does, each request after `--latency` milliseconds; the same content is
loaded as the topic landed. All is measured in one warm session, each into its own registry, and the floor before and after.
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import click
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of tests import each other from there

from registries.registrystandins import RegistryStandIn
from replicate.sources import answering

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.registries import RegistryOptions, fetch_registry, load_registry, read_registry_source
from lakehouse.settings import Settings, read_settings
from lakehouse.store.session import open_session
from tests.bench.pairs import progress, to_nowhere

FIELDS = 8
Stages = dict[str, float]


def made_registry(subjects: int, versions: int) -> RegistryStandIn:
    """Make subjects of records that grow by an optional field with each version; every tenth has its own level."""
    registry = RegistryStandIn()
    for number in range(versions):
        for subject in range(subjects):
            fields: list[Any] = [{"name": f"field{at}", "type": "string", "doc": "of a record"} for at in range(FIELDS)]
            fields += [{"name": f"more{at}", "type": ["null", "long"], "default": None} for at in range(number)]
            record = {"type": "record", "name": f"Record{subject}", "namespace": "bench", "fields": fields}
            registry.register(f"topic{subject}-value", record)
    for subject in range(0, subjects, 10):
        registry.set("config", f"topic{subject}-value", "FULL")
    return registry


def _serve(subjects: int, versions: int, latency: float, into: Connection) -> None:
    registry = made_registry(subjects, versions)
    registry.before = lambda asked: time.sleep(latency)
    with answering(registry.answer) as server:
        into.send((server.url, registry.lines()))
        into.recv()


def measured(stages: Stages, name: str, work: Callable[[], Any]) -> Any:
    """Run work, and write down how long it took."""
    begun = time.perf_counter()
    made = work()
    stages[name] = time.perf_counter() - begun
    progress.log(f"{name}: {stages[name]:.2f} s")
    return made


def load(spark: SparkSession, settings: Settings, source: str, versions: int) -> Stages:
    """Load a registry twice: all of it, and again without a change.

    Returns:
        Seconds to fetch and to load it, and of both the second time.
    """
    options, stages = RegistryOptions(messages="topic"), Stages()
    place = read_registry_source(f"confluent+{source}")
    for time_ in ("", " again"):
        content = measured(stages, f"fetch{time_}", lambda: fetch_registry(place, settings, options))
        assert len(content.versions) == versions

        def write(content: Any = content) -> Any:
            return load_registry(spark, settings, place, content, options=options, request=IngestRequest(Policy()))

        summary = measured(stages, f"load{time_}", write)
        assert (summary.snapshot_id is None) == bool(time_), summary
    return stages


@click.command()
@click.option("--subjects", default=2000, show_default=True)
@click.option("--versions", default=10, show_default=True, help="of each subject")
@click.option("--latency", default=5.0, show_default=True, help="milliseconds of each answer")
def main(subjects: int, versions: int, latency: float) -> None:
    """Measure and print a table."""
    here, there = multiprocessing.Pipe()
    arguments = (subjects, versions, latency / 1000, there)
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=arguments, daemon=True)
    server.start()
    url, lines = here.recv()
    with tempfile.TemporaryDirectory() as folder:
        landed = Path(folder) / "schemas.jsonl"  # Spark skips files whose names begin with `_`
        landed.write_bytes(lines)
        settings = read_settings(warehouse=f"{folder}/warehouse")
        spark = open_session(settings)
        (Path(folder) / "first.jsonl").write_bytes(b"".join(lines.splitlines(keepends=True)[:20]))
        load(
            spark, settings.model_copy(update={"registry": "warm"}), f"file:{folder}/first.jsonl", 20
        )  # what a session does only once
        floors: list[float] = []

        def floor() -> None:
            stages: Stages = {}
            measured(stages, "spark.read.json", lambda: to_nowhere(spark.read.json(str(landed))))
            floors.append(stages["spark.read.json"])

        found = {}
        for name, source in (("api", url), ("topic", f"file:{landed}")):
            floor()
            found[name] = load(spark, settings.model_copy(update={"registry": name}), source, subjects * versions)
            floor()
        here.send(None)
        server.join(10)
        spark.stop()
    least = median(floors)
    title = f"{subjects} subjects with {versions} versions, {len(lines) / 1e6:.1f} MB; spark.read.json {least:.2f} s"
    table = Table("source", *found["api"], "first load / spark.read.json", title=title)
    for name, stages in found.items():
        ratio = (stages["fetch"] + stages["load"]) / least
        table.add_row(name, *(f"{seconds:.2f}" for seconds in stages.values()), f"{ratio:.1f}")
    Console().print(table)


if __name__ == "__main__":
    main()
