"""Matching, compared with its floors: CloudEvents as Kafka lands them, results to `noop`.

`python -m tests.bench.match --events 1000000 [--types 12] [--definitions 1000]` measures it alone, with the memory of a Python
worker; `make bench` with the rest. The floor of metadata is the same columns through a `mapInArrow` that does nothing; that of
payloads is the bare loop of the libraries, which reads each payload and validates it.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import click
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.match.distributed import OpenedIndex, large_batches, schema_table, with_matches, write_store
from lakehouse.match.event.adapters import to_landed
from lakehouse.match.index import definition_rows, index_of
from lakehouse.match.matcher import MatchRequest
from lakehouse.match.payload.schemas import SchemaVersion
from lakehouse.settings import read_settings
from lakehouse.store.session import open_session
from tests.bench.matchindex import SCHEMA_XID, definitions_of
from tests.bench.memory import Memory
from tests.bench.pairs import Case, progress, to_nowhere

SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["id", "value", "unit"],
    "properties": {"id": {"type": "string"}, "value": {"type": "number"}, "unit": {"enum": ["C", "F"]}, "ok": {"type": "boolean"},
                   "count": {"type": "integer"}, "name": {"type": "string"}, "x": {"type": "number"}, "y": {"type": "number"}},
}  # fmt: skip


class MatchBench:
    """Measures matching of events of some types, among more definitions."""

    def __init__(self, spark: SparkSession, work: Path, events: int, types: int = 12, definitions: int = 1000) -> None:
        self.spark, self.events = spark, events
        self.metadata = Case(f"match {events:,} events, metadata", "the same columns, mapInArrow that does nothing", 3)
        loop = "orjson and jsonschema-rs in a bare loop"
        self.payloads = Case(f"match {events:,} events, JSON payloads", loop, 1.5)
        self.structured = Case(f"match {events:,} structured events, JSON payloads", loop)
        self.opened = open_bench(spark, work, definitions)
        self.landed, self.enveloped = (self._land(work / mode, types, mode) for mode in ("binary", "structured"))

    def repeat(self) -> None:
        """Measure each case once more."""
        with large_batches(self.spark, to_landed(self.landed)):
            self.metadata.measure(self._match(self.landed, 0.0), self._floor(self.landed, _identity, self.landed.schema))
            self.payloads.measure(self._match(self.landed, 1.0), self._floor(self.landed, _bare, "valid BIGINT"))
            self.structured.measure(self._match(self.enveloped, 1.0), self._floor(self.enveloped, _bare_data, "valid BIGINT"))

    @property
    def cases(self) -> list[Case]:
        """Return all that was measured."""
        return [self.metadata, self.payloads, self.structured]

    def events_a_core(self) -> float:
        """Return how many events a core matches in a second by their metadata only."""
        return self.events / median(self.metadata.seconds) / self.spark.sparkContext.defaultParallelism

    def check(self) -> None:
        """Check that all events match, by the definition for Kafka, and that all payloads are valid."""
        with large_batches(self.spark):
            for rows in (self.landed, self.enveloped):
                matched = with_matches(to_landed(rows), self.opened, MatchRequest())
                found = matched.groupBy("status", "payload_status", F.split("xid", "/")[2].alias("group")).count().collect()
                assert [tuple(row) for row in found] == [("matched", "valid", "kafka", self.events)], found

    def _land(self, place: Path, types: int, mode: str) -> DataFrame:
        _events(self.spark, self.events, types, mode).write.mode("overwrite").parquet(str(place))
        return self.spark.read.parquet(str(place))

    def _match(self, rows: DataFrame, share: float) -> Callable[[], None]:
        return lambda: to_nowhere(with_matches(to_landed(rows), self.opened, MatchRequest(payload_share=share)))

    def _floor(self, rows: DataFrame, loop: Any, schema: Any) -> Callable[[], None]:
        return lambda: to_nowhere(rows.mapInArrow(loop, schema))


def open_bench(spark: SparkSession, work: Path, definitions: int) -> OpenedIndex:
    """Make an index of definitions, each for any protocol and for Kafka, and send it to the executors."""
    schema = SchemaVersion("bench", f"{SCHEMA_XID}/versions/1", SCHEMA_XID, True, "JSONSchema/draft-07", json.dumps(SCHEMA))
    rows = [row for number in range(definitions) for row in definitions_of(number)]
    path = write_store(work, index_of(definition_rows(rows)), schema_table([schema]))
    spark.sparkContext.addFile(str(path), recursive=True)
    return OpenedIndex(path.name, str(path), 1, len(rows))


def match_once(spark: SparkSession, work: Path, events: int, types: int, definitions: int) -> float:
    """Match events with their payloads as they are made, all columns of the results dropped; seconds."""
    landed = to_landed(_events(spark, events, types, "binary"))
    opened = open_bench(spark, work, definitions)
    with large_batches(spark, landed):
        begun = time.perf_counter()
        to_nowhere(with_matches(landed, opened, MatchRequest()))
        return time.perf_counter() - begun


def _events(spark: SparkSession, count: int, types: int, mode: str) -> DataFrame:
    ident = F.concat(F.lit("d"), F.col("id") % 10_000)
    attributes = {
        "specversion": F.lit("1.0"), "id": F.col("id").cast("string"), "type": F.concat(F.lit("bench.T"), F.col("id") % types),
        "source": F.concat(F.lit("/devices/"), F.col("id") % 100), "subject": ident,
        "time": F.concat(F.lit("2026-01-0"), F.col("id") % 9 + 1, F.lit("T00:00:00.5Z")),
    }  # fmt: skip
    data = F.struct(
        ident.alias("id"), (F.col("id") / 7).alias("value"), F.lit("C").alias("unit"), F.lit(True).alias("ok"),
        F.col("id").alias("count"), F.lit("a sensor").alias("name"), F.rand(1).alias("x"), F.rand(2).alias("y"),
    )  # fmt: skip
    if mode == "binary":
        header = {f"ce_{name}": text for name, text in attributes.items()} | {"content-type": F.lit("application/json")}
        body = F.to_json(data)
    else:
        header = {"content-type": F.lit("application/cloudevents+json")}
        body = F.to_json(F.struct(*(text.alias(name) for name, text in attributes.items()), data.alias("data")))
    pairs = (F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in header.items())
    headers = F.array(*pairs)
    return spark.range(count).select(
        ident.cast("binary").alias("key"), body.cast("binary").alias("value"), F.lit("bench").alias("topic"),
        F.lit(0).alias("partition"), F.col("id").alias("offset"), F.current_timestamp().alias("timestamp"),
        headers.alias("headers"),
    )  # fmt: skip


def _identity(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _bare(batches: Iterable[pa.RecordBatch], member: str | None = None) -> Iterator[pa.RecordBatch]:
    import jsonschema_rs
    import orjson

    is_valid = jsonschema_rs.validator_for(SCHEMA, validate_formats=True).is_valid
    for batch in batches:
        bodies = batch.column("value").to_pylist()
        if member is None:
            valid = sum(is_valid(orjson.loads(body)) for body in bodies)
        else:
            valid = sum(is_valid(orjson.loads(body)[member]) for body in bodies)
        yield pa.RecordBatch.from_arrays([pa.array([valid], pa.int64())], names=["valid"])


def _bare_data(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from _bare(batches, "data")


def reported_rate(rate: float) -> str:
    """Return how many events a core matches."""
    return f"Matching by metadata only: {rate:,.0f} events a second and core, goal 150,000."


@click.command()
@click.option("--events", type=click.IntRange(1000), default=1_000_000, show_default=True)
@click.option("--types", type=click.IntRange(1), default=12, show_default=True)
@click.option(
    "--definitions",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="Each is made twice: for any protocol, and for Kafka.",
)
@click.option("--repeat", "repeats", type=click.IntRange(1), default=3, show_default=True)
@click.option(
    "--once", is_flag=True, help="One run with payloads, of events made as they are matched: no floors, nothing stored."
)
def main(events: int, types: int, definitions: int, repeats: int, once: bool) -> None:
    """Measure matching alone."""
    if once:
        with Memory() as memory, tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
            spark = open_session(read_settings(warehouse=f"{folder}/warehouse"), "lakehouse-bench")
            seconds = match_once(spark, Path(folder), events, types, max(types, definitions))
            spark.stop()
        progress.print(f"{events:,} events made and matched, with payloads: {seconds:.0f} s")
        progress.print(_reported_memory(memory))
        return
    with Memory() as memory, tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        spark = open_session(read_settings(warehouse=f"{folder}/warehouse"), "lakehouse-bench")
        bench = MatchBench(spark, Path(folder), events, types, max(types, definitions))
        bench.check()
        for _ in range(repeats):
            bench.repeat()
        rate = bench.events_a_core()
        spark.stop()
    for case in bench.cases:
        progress.print(f"{case.what}: {case.seconds} s, floor {case.floor_seconds} s, ratio {case.ratio:.2f}, goal {case.goal}")
    progress.print(reported_rate(rate))
    progress.print(_reported_memory(memory))


def _reported_memory(memory: Memory) -> str:
    return f"Peak memory of a Python worker: {memory.peaks['python_worker']:,.0f} MiB, goal 1,024 MiB"


if __name__ == "__main__":
    main()
