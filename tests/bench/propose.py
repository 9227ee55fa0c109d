"""Counting of `lakehouse propose`, compared with `from_json` and a known schema: the same records of Kafka, 30 fields each.

`python -m tests.bench.propose --events 200000 --large 2000000` measures both in one run, and then counts more events as they are
made: the memory of a Python worker, and how many rows the pass gives to the shuffle, with a tenth of the events and with all.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import click
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.match.distributed import large_batches
from lakehouse.match.event.adapters import LANDED, to_landed
from lakehouse.propose.proposalruns import COLUMNS, counting
from lakehouse.settings import read_settings
from lakehouse.store.session import open_session
from tests.bench.memory import Memory
from tests.bench.pairs import Case, progress, to_nowhere

PAYLOAD = (
    "orderid STRING, customerid STRING, total DOUBLE, currency STRING, placed STRING, paid BOOLEAN, items BIGINT, weight DOUBLE, "
    "street STRING, city STRING, zip STRING, country STRING, sku STRING, quantity BIGINT, price DOUBLE, channel STRING, "
    "coupon STRING, priority BIGINT, gift BOOLEAN, trace STRING, session STRING, score DOUBLE, latitude DOUBLE, "
    "longitude DOUBLE, retries BIGINT, warehouse STRING, carrier STRING, eta STRING, locale STRING, email STRING"
)


def records(spark: SparkSession, count: int, parts: int, types: int) -> DataFrame:
    """Make records of Kafka that hold binary CloudEvents on two days, payloads of 30 fields."""
    number, order = F.col("id"), F.concat(F.lit("2026-"), F.lpad(F.col("id").cast("string"), 9, "0"))
    named = {
        "ce_specversion": F.lit("1.0"), "ce_id": number.cast("string"), "ce_subject": order,
        "ce_type": F.concat(F.lit("bench.orders.T"), number % types), "content-type": F.lit("application/json"),
        "ce_source": F.concat(F.lit("https://shop.example.com/"), number % 3, F.lit("/orders")),
        "ce_time": F.concat(F.lit("2026-03-0"), number % 2 + 1, F.lit("T00:00:00Z")),
    }  # fmt: skip
    headers = F.array(*(F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value")) for name, text in named.items()))
    return spark.range(0, count, 1, parts).select(
        order.cast("binary").alias("key"),
        F.to_json(F.struct(*_members(number, order))).cast("binary").alias("value"),
        F.lit("bench").alias("topic"),
        F.lit(0).alias("partition"),
        number.alias("offset"),
        F.lit(None).cast("timestamp").alias("timestamp"),
        headers.alias("headers"),
    )


def _members(number: Column, order: Column) -> list[Column]:
    """Make the members of a payload: texts, numbers and times with few and with many values."""
    texts = {
        "orderid": order, "customerid": F.concat(F.lit("c"), number % 5_000), "zip": (10_000 + number % 90_000).cast("string"),
        "placed": F.concat(F.lit("2026-03-"), F.lpad((number % 28 + 1).cast("string"), 2, "0"), F.lit("T10:00:00Z")),
        "trace": F.md5(number.cast("string")), "session": F.substring(F.md5((number / 7).cast("string")), 1, 16),
        "email": F.concat(F.lit("u"), number % 7_000, F.lit("@example.com")), "eta": F.lit("2026-04-01"),
    }  # fmt: skip
    made = []
    for at, field in enumerate(PAYLOAD.split(", ")):
        name, kind = field.split(" ")
        values = {
            "STRING": F.concat(F.lit(f"{name} "), number % (3 + 7 * at)), "DOUBLE": F.rand(at) * 100 + 0.001,
            "BIGINT": number % (3 + 5 * at), "BOOLEAN": number % 9 > 0,
        }  # fmt: skip
        made.append(texts.get(name, values[kind]).alias(name))
    return made


def counted(rows: DataFrame) -> DataFrame:
    """Count records: the rows that each task gives to the shuffle."""
    return to_landed(rows).select(*LANDED).mapInArrow(counting(None, True, ["bench"], {}), COLUMNS)


@click.command()
@click.option("--events", type=click.IntRange(1000), default=200_000, show_default=True)
@click.option(
    "--large", type=click.IntRange(1000), default=2_000_000, show_default=True, help="Events that are counted as they are made."
)
@click.option("--types", type=click.IntRange(1), default=3, show_default=True)
@click.option("--repeat", "repeats", type=click.IntRange(1), default=3, show_default=True)
def main(events: int, large: int, types: int, repeats: int) -> None:
    """Measure counting alone."""
    case = Case(f"count {events:,} events of 30 fields", "from_json with the known schema of their payloads")
    with Memory() as memory, tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        spark = open_session(read_settings(warehouse=f"{folder}/warehouse"), "lakehouse-bench")
        cores = spark.sparkContext.defaultParallelism
        place = str(Path(folder) / "landed")
        records(spark, events, cores, types).write.parquet(place)
        landed = spark.read.parquet(place)
        with large_batches(spark, to_landed(landed)):
            read = landed.select(F.from_json(F.col("value").cast("string"), PAYLOAD).alias("payload"))
            for _ in range(repeats):
                case.measure(lambda: to_nowhere(counted(landed)), lambda: to_nowhere(read))
            sizes = []
            for count in (large // 10, large):
                begun = time.perf_counter()
                rows = counted(records(spark, count, cores, types)).filter("kind IS NOT NULL").count()
                sizes.append((count, time.perf_counter() - begun, rows, memory.peaks["python_worker"]))
        spark.stop()
    progress.print(f"{case.what}: {case.seconds} s, from_json {case.floor_seconds} s, ratio {case.ratio:.2f}")
    progress.print(f"{events / min(case.seconds) / cores:,.0f} events a second and core")
    for count, seconds, rows, peak in sizes:
        progress.print(f"{count:,} events: {seconds:.0f} s, {rows:,} rows for the shuffle, a Python worker {peak:,.0f} MiB")


if __name__ == "__main__":
    main()
