"""Matching beside its floors: binary CloudEvents as Kafka lands them, results to `noop`.

`python -m tests.bench.match --events 1000000 [--types 12] [--definitions 1000]` measures it alone; `make bench` beside the
rest. The floor of metadata is the same columns through a `mapInArrow` that does nothing; that of payloads is the bare loop of
the libraries, which reads each payload and validates it.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.match.event.adapters import to_landed
from lakehouse.match.matching.engine import Opened, large_batches, with_matches
from lakehouse.match.matching.index import definition_rows, index_of
from lakehouse.match.matching.matcher import Request
from lakehouse.match.payload.schemas import SchemaVersion
from lakehouse.match.store import schema_table, write_store
from lakehouse.settings import read_settings
from lakehouse.store.session import open_session
from tests.bench.pairs import Case, progress, to_nowhere

SCHEMA: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "required": ["id", "value", "unit"],
    "properties": {"id": {"type": "string"}, "value": {"type": "number"}, "unit": {"enum": ["C", "F"]}, "ok": {"type": "boolean"},
                   "count": {"type": "integer"}, "name": {"type": "string"}, "x": {"type": "number"}, "y": {"type": "number"}},
}  # fmt: skip
_XID = "/schemagroups/bench/schemas/S"


class MatchBench:
    """Measures matching of events of some types, among more definitions."""

    def __init__(self, spark: SparkSession, work: Path, events: int, types: int = 12, definitions: int = 1000) -> None:
        self.spark, self.events = spark, events
        self.metadata = Case(f"match {events:,} events, metadata", "the same columns, mapInArrow that does nothing", 3)
        self.payloads = Case(f"match {events:,} events, JSON payloads", "orjson and jsonschema-rs in a bare loop", 1.5)
        schemas = schema_table(
            [SchemaVersion("bench", f"{_XID}/versions/1", _XID, True, "JSONSchema/draft-07", json.dumps(SCHEMA))]
        )
        rows = [row for number in range(definitions) for row in _definitions(number)]
        path = write_store(work, index_of(definition_rows(rows)), schemas)
        spark.sparkContext.addFile(str(path), recursive=True)
        self.opened = Opened(path.name, str(path), 1, len(rows))
        landed = str(work / "landed")
        _events(spark, events, types).write.mode("overwrite").parquet(landed)
        self.landed = spark.read.parquet(landed)

    def repeat(self) -> None:
        """Measure each case once more."""
        with large_batches(self.spark):
            self.metadata.measure(
                lambda: self._match(0.0), lambda: to_nowhere(self.landed.mapInArrow(_identity, self.landed.schema))
            )
            self.payloads.measure(lambda: self._match(1.0), lambda: to_nowhere(self.landed.mapInArrow(_bare, "valid BIGINT")))

    def check(self) -> None:
        """Check that all events match, by the definition for Kafka, and that all payloads are valid."""
        with large_batches(self.spark):
            found = (
                with_matches(to_landed(self.landed), self.opened, Request()).groupBy("status", "payload_status").count().collect()
            )
        assert [(row["status"], row["payload_status"], row["count"]) for row in found] == [("matched", "valid", self.events)]

    def _match(self, share: float) -> None:
        to_nowhere(with_matches(to_landed(self.landed), self.opened, Request(payload_share=share)))


def _definitions(number: int) -> Iterator[dict[str, Any]]:
    """Make a CloudEvent and its variant for Kafka."""
    base = {
        "/envelope": '"CloudEvents/1.0"', "/envelopemetadata/type/value": f'"bench.T{number}"',
        "/envelopemetadata/source/value": '"/devices/{device}"', "/envelopemetadata/subject/value": '"{id}"',
        "/envelopemetadata/time/required": "true", "/envelopemetadata/time/type": '"timestamp"',
    }  # fmt: skip
    variant = base | {"/protocol": '"KAFKA"', "/protocoloptions/topic/value": '"bench"', "/protocoloptions/key/value": '"{id}"'}
    for name, attributes in (("base", base), ("kafka", variant)):
        xid = f"/messagegroups/{name}/messages/T{number}"
        yield {"registryid": "bench", "xid": xid, "version_xid": f"{xid}/versions/1", "group_xid": f"/messagegroups/{name}",
               "chain_status": "none", "envelope": "CloudEvents/1.0", "protocol": "KAFKA" if name == "kafka" else None,
               "dataschemaformat": "JSONSchema/draft-07", "schema_xid": _XID, "dataschemauri": _XID, "attributes": attributes,
               "inferred": {}, "depends_on": [xid]}  # fmt: skip


def _events(spark: SparkSession, count: int, types: int) -> DataFrame:
    ident = F.concat(F.lit("d"), F.col("id") % 10_000)
    header = {
        "ce_specversion": F.lit("1.0"), "ce_id": F.col("id").cast("string"),
        "ce_type": F.concat(F.lit("bench.T"), F.col("id") % types),
        "ce_source": F.concat(F.lit("/devices/"), F.col("id") % 100), "ce_subject": ident,
        "ce_time": F.concat(F.lit("2026-01-0"), F.col("id") % 9 + 1, F.lit("T00:00:00.5Z")),
        "content-type": F.lit("application/json"),
    }  # fmt: skip
    pairs = (F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in header.items())
    headers = F.array(*pairs)
    body = F.to_json(F.struct(
        ident.alias("id"), (F.col("id") / 7).alias("value"), F.lit("C").alias("unit"), F.lit(True).alias("ok"),
        F.col("id").alias("count"), F.lit("a sensor").alias("name"), F.rand(1).alias("x"), F.rand(2).alias("y"),
    ))  # fmt: skip
    return spark.range(count).select(
        ident.cast("binary").alias("key"), body.cast("binary").alias("value"), F.lit("bench").alias("topic"),
        F.lit(0).alias("partition"), F.col("id").alias("offset"), F.current_timestamp().alias("timestamp"),
        headers.alias("headers"),
    )  # fmt: skip


def _identity(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _bare(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import jsonschema_rs
    import orjson

    validator = jsonschema_rs.validator_for(SCHEMA, validate_formats=True)
    for batch in batches:
        valid = sum(validator.is_valid(orjson.loads(body)) for body in batch.column("value").to_pylist())
        yield pa.RecordBatch.from_arrays([pa.array([valid], pa.int64())], names=["valid"])


@click.command()
@click.option("--events", type=click.IntRange(1000), default=1_000_000, show_default=True)
@click.option("--types", type=click.IntRange(1), default=12, show_default=True)
@click.option(
    "--definitions", type=click.IntRange(1), default=1000, show_default=True, help="Each stands twice: any protocol, Kafka."
)
@click.option("--repeat", "repeats", type=click.IntRange(1), default=3, show_default=True)
def main(events: int, types: int, definitions: int, repeats: int) -> None:
    """Measure matching alone."""
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        spark = open_session(read_settings(warehouse=f"{folder}/warehouse"), "lakehouse-bench")
        bench = MatchBench(spark, Path(folder), events, types, max(types, definitions))
        bench.check()
        for _ in range(repeats):
            bench.repeat()
        spark.stop()
    for case in (bench.metadata, bench.payloads):
        progress.print(f"{case.what}: {case.seconds} s, floor {case.floor_seconds} s, ratio {case.ratio:.2f}, goal {case.goal}")


if __name__ == "__main__":
    main()
