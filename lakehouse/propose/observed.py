"""The Delta table `observed_paths`: what was counted, by source, kind, path, JSON type and day.

Rows of one key add up. A source that is counted again replaces its own rows in one commit, so the same input adds nothing; the
micro-batches of a stream are appended once each, whatever is replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.propose.decided import Observed
from lakehouse.propose.eventcounts import Counts, KindCounts, settle
from lakehouse.propose.kinds import EventCounter
from lakehouse.propose.pathcounts import PathCounts
from lakehouse.settings import Settings, data_folder
from lakehouse.store.files import exists
from lakehouse.store.session import absolute_location

TABLE = "observed_paths"
_COUNTS = pa.map_(pa.string(), pa.int64())
OBSERVED_ROWS = pa.schema(
    [
        ("source", pa.string()), ("kind", pa.string()), ("path", pa.string()), ("type", pa.string()), ("day", pa.string()),
        ("events", pa.int64()), ("values", _COUNTS), ("sketch", pa.binary()), ("least", pa.float64()), ("greatest", pa.float64()),
        ("shortest", pa.int64()), ("longest", pa.int64()), ("formats", pa.list_(pa.string())), ("compared", pa.int64()),
        ("equals", _COUNTS),
    ]
)  # fmt: skip
COLUMNS = (
    "source STRING, kind STRING, path STRING, type STRING, day STRING, events BIGINT, values MAP<STRING, BIGINT>, sketch BINARY, "
    "least DOUBLE, greatest DOUBLE, shortest BIGINT, longest BIGINT, formats ARRAY<STRING>, compared BIGINT, "
    "equals MAP<STRING, BIGINT>"
)


def location_of(settings: Settings) -> str:
    """Return where the table is: below the warehouse, apart from the catalog's tables."""
    return f"{absolute_location(settings.warehouse)}/_propose/{TABLE}"


def open_observed(spark: SparkSession, settings: Settings) -> None:
    """Make the table where it is not there yet."""
    place = location_of(settings)
    if not exists(spark, f"{place}/_delta_log"):
        statement = (data_folder("ddl") / "propose" / f"{TABLE}.sql").read_text(encoding="utf-8").rstrip().removesuffix(";")
        spark.sql(statement.replace(f"IF NOT EXISTS {TABLE}", f"IF NOT EXISTS delta.`{place}`"))


def rows_of(counter: EventCounter, source: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of what was counted of a source."""
    for (kind, day), counted in sorted(counter.kinds.items()):
        yield from _rows(source, kind, day, settle(counted.counts))


def _rows(source: str, kind: str, day: str, counts: Counts) -> Iterator[dict[str, Any]]:
    for (path, name), one in counts.items():
        yield {
            "source": source, "kind": kind, "path": path, "type": name, "day": day, "events": one.events,
            "values": None if one.values is None else sorted(one.values.items()), "sketch": one.sketch,
            "least": one.least, "greatest": one.greatest, "shortest": one.shortest, "longest": one.longest,
            "formats": None if one.formats is None else sorted(one.formats),
            "compared": one.compared, "equals": sorted(one.equals.items()),
        }  # fmt: skip


def _counts(row: dict[str, Any]) -> PathCounts:
    return PathCounts(
        row["events"], None if row["values"] is None else dict(row["values"]), row["sketch"], row["least"], row["greatest"],
        row["shortest"], row["longest"], None if row["formats"] is None else frozenset(row["formats"]),
        row["compared"], dict(row["equals"]),
    )  # fmt: skip


def by_day(rows: Iterable[dict[str, Any]]) -> dict[str, Counts]:
    """Add up the rows of one kind, by day."""
    days: dict[str, KindCounts] = {}
    for row in rows:
        days.setdefault(row["day"], KindCounts()).add({(row["path"], row["type"]): _counts(row)})
    return {day: counts.counts for day, counts in days.items()}


def merged(rows: DataFrame) -> DataFrame:
    """Add up the rows of each source and kind: one shuffle of rows, of which there are as many as paths in each partition."""

    def merge(table: pa.Table) -> pa.Table:
        of_kind = table.to_pylist()
        source, kind = of_kind[0]["source"], of_kind[0]["kind"]
        added = (row for day, counts in sorted(by_day(of_kind).items()) for row in _rows(source, kind, day, settle(counts)))
        return pa.Table.from_pylist(list(added), OBSERVED_ROWS)

    return rows.groupBy("source", "kind").applyInArrow(merge, COLUMNS)


def replace_sources(rows: DataFrame, settings: Settings, sources: Iterable[str]) -> None:
    """Replace what was counted of sources, in one commit."""
    names = ", ".join("'" + source.replace("\\", "\\\\").replace("'", "\\'") + "'" for source in sources)
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", f"source IN ({names})")
    writer.save(location_of(settings))


def append_batch(rows: DataFrame, settings: Settings, stream: str, number: int) -> None:
    """Append what was counted of a micro-batch, once."""
    writer = rows.write.format("delta").mode("append").option("txnAppId", f"lakehouse-propose-{stream}")
    writer.option("txnVersion", str(number)).save(location_of(settings))


def read_observed(spark: SparkSession, settings: Settings) -> Iterator[Observed]:
    """Yield what was counted of each kind, over all sources and days, sorted by name; one kind is in memory at a time."""
    rows = spark.read.format("delta").load(location_of(settings)).drop("source").withColumn("source", F.lit(""))
    ordered = merged(rows.select(*OBSERVED_ROWS.names)).orderBy("kind")
    for kind, of_kind in groupby((row.asDict() for row in ordered.toLocalIterator()), itemgetter("kind")):
        yield Observed.of(kind, by_day(of_kind))
