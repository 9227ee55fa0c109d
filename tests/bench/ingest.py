"""Benchmark of ingest: `python -m tests.bench.ingest --messages 10000 [--documents 100] [--repeat 3] [--json FILE]`.

Each case is measured with its floor, the least that Spark itself has to do for the same end, in one process and one warm
session, in alternating order. Every repetition starts with an empty catalog in a fresh folder, so that repetitions compare:

    case                      floor
    new, empty catalog        read.json → one row a message, all columns → one Delta append to a fresh path
    new, next to another      the same; the catalog holds the same documents under another registry id already
    unchanged                 list and hash the files
    1% of messages changed    list and hash the files, then as for `new`, but of the changed files only
    the same, in 1% of        the ingest of a new catalog just before
      the documents             (the read model is built first)
    the same once more        the same (the read model is at hand)
    parse alone               read.json; both into the noop sink

What the catalog says after each ingest is checked: a benchmark of a wrong result is worth nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StringType, StructField, StructType
from rich.console import Console
from rich.table import Table

from lakehouse.ingest.parse.parse import limits_of, parse_documents
from lakehouse.ingest.pipeline import ingest
from lakehouse.ingest.sources import find_sources, read_documents
from lakehouse.ingest.summary import Summary
from lakehouse.ingest.unchanged import with_unchanged
from lakehouse.log.baseline import current_documents
from lakehouse.settings import Settings, read_settings
from lakehouse.store.session import open_session
from tests.bench.generator import Shape, write_documents
from tests.bench.pairs import Case, spread, to_nowhere

NEW, BESIDE, UNCHANGED, CHANGED, PARSE = "new, empty catalog", "new, next to another", "unchanged", "1% changed", "parse alone"
NEAR = "1% changed, in 1% of the documents"
NEAR_AGAIN = f"{NEAR}, again"
SHARE_CHANGED = 0.01
_APPEND = "read.json, one row a message, one Delta append"
FLOORS: dict[str, tuple[str, float | None]] = {
    NEW: (_APPEND, 5.0),
    BESIDE: (_APPEND, 5.0),
    UNCHANGED: ("list and hash the files", 1.5),
    CHANGED: ("list and hash, then the append for changed files only", None),
    NEAR: ("ingest of a new catalog", None),
    NEAR_AGAIN: ("ingest of a new catalog", 0.15),
    PARSE: ("read.json of the same files", 2.0),
}

_TEXT = StringType()
_MESSAGE = StructType(
    [
        *(StructField(name, _TEXT) for name in ("name", "description", "envelope", "envelopemetadata", "protocol")),
        *(StructField(name, _TEXT) for name in ("protocoloptions", "basemessage", "dataschemaformat", "dataschemauri")),
        StructField("datacontenttype", _TEXT),
        StructField("labels", MapType(_TEXT, _TEXT)),
    ]
)
_GROUP = StructType(
    [
        *(StructField(name, _TEXT) for name in ("description", "envelope", "protocol")),
        StructField("messages", MapType(_TEXT, _MESSAGE)),
    ]
)
DOCUMENT = StructType(
    [
        StructField("specversion", _TEXT),
        StructField("endpoints", MapType(_TEXT, _TEXT)),
        StructField("messagegroups", MapType(_TEXT, _GROUP)),
    ]
)

console = Console(width=120)


class Data:
    """The documents on disk, before and after the change; `folder` holds one of the two."""

    def __init__(self, work: Path, shape: Shape) -> None:
        self.shape = shape
        self.folder = work / "documents"
        self.written = write_documents(self.folder, shape)
        after = write_documents(work / "after", replace(shape, touched=SHARE_CHANGED)).files
        differ = [path for path in after if path.read_bytes() != (self.folder / path.name).read_bytes()]
        self.changed = [self.folder / path.name for path in differ]
        self._texts = [[path.read_bytes() for path in paths] for paths in (self.changed, differ)]
        shutil.rmtree(work / "after")
        self.near = self.written.files[: max(1, round(shape.documents * SHARE_CHANGED))]

    @contextmanager
    def near_edited(self) -> Iterator[int]:
        """Let each message of the first 1% of the documents have another description for a while; give their number."""
        before = [path.read_bytes() for path in self.near]
        count = 0
        for path, text in zip(self.near, before, strict=True):
            document = json.loads(text)
            for message in (one for group in document["messagegroups"].values() for one in group["messages"].values()):
                message["description"] += ", edited"
                count += 1
            path.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
        try:
            yield count
        finally:
            for path, text in zip(self.near, before, strict=True):
                path.write_bytes(text)

    def put(self, *, changed: bool) -> None:
        """Let the folder hold the documents after the change, or before."""
        for path, text in zip(self.changed, self._texts[changed], strict=True):
            path.write_bytes(text)


class Bench:
    """Measures the cases, repetition by repetition; the last one leaves its catalog.

    Attributes:
        registry: the one that is loaded again; two when the case of a catalog that holds another one is measured.
    """

    def __init__(self, spark: SparkSession, settings: Settings, work: Path, data: Data, *, beside: bool = True) -> None:
        self.spark = spark
        self.settings = settings
        self.work = work
        self.data = data
        self.cases = {what: Case(what, floor, goal) for what, (floor, goal) in FLOORS.items() if beside or what != BESIDE}
        self.registry = "two" if beside else "one"
        self.fresh = 0

    def repeat(self) -> None:
        """Measure each case once; what is second in a pair is first in the next repetition."""
        data, count = self.data, self.data.shape.messages
        data.put(changed=False)
        self._empty_catalog()
        new = {"messages.inserted": count, "versions.inserted": count, "documents.read": data.shape.documents}
        self._measure(NEW, lambda: self._ingest(NEW, "one", new), lambda: self._read_and_write([data.folder]))
        if BESIDE in self.cases:
            self._measure(BESIDE, lambda: self._ingest(BESIDE, "two", new), lambda: self._read_and_write([data.folder]))
        same = {"documents.unchanged": data.shape.documents, "snapshot_id": None}
        self._measure(UNCHANGED, lambda: self._ingest(UNCHANGED, self.registry, same), self._hash)
        data.put(changed=True)
        touched = len(replace(data.shape, touched=SHARE_CHANGED).touched_messages)
        few = {
            "messages.updated": 0,
            "versions.updated": touched,
            "documents.unchanged": data.shape.documents - len(data.changed),
        }
        self._measure(CHANGED, lambda: self._ingest(CHANGED, self.registry, few), self._hash_and_write_changed)
        for what in (NEAR, NEAR_AGAIN):
            with data.near_edited() as edited:
                self._ingest_beside_new(what, edited)
            self._load_near_again()
        self._measure(PARSE, self._parse, self._read)

    def _ingest_beside_new(self, what: str, edited: int) -> None:
        """Measure an ingest in which so many messages differ; its floor is the new catalog of the same repetition."""
        case, shape = self.cases[what], self.data.shape
        case.catalog_rows.append(self._catalog_rows())
        few = {"versions.updated": edited, "documents.unchanged": shape.documents - len(self.data.near)}
        begun = time.perf_counter()
        self._ingest(what, self.registry, few)
        case.seconds.append(round(time.perf_counter() - begun, 3))
        case.floor_seconds.append(self.cases[NEW].seconds[-1])

    def _load_near_again(self) -> None:
        """Let the catalog say what the documents say."""
        settings = self.settings.model_copy(update={"registry": self.registry})
        ingest(self.spark, settings, [str(path) for path in self.data.near])

    def _measure(self, what: str, product: Callable[[], None], floor: Callable[[], None]) -> None:
        case = self.cases[what]
        case.catalog_rows.append(self._catalog_rows())
        case.measure(product, floor)

    def _ingest(self, what: str, registry: str, expected: dict[str, int | None]) -> None:
        settings = self.settings.model_copy(update={"registry": registry})
        summary = ingest(self.spark, settings, [str(self.data.folder)])
        check(summary, expected)
        self.cases[what].stages.append(summary.as_json()["seconds"])

    def _empty_catalog(self) -> None:
        """Leave the warehouse for a fresh folder: the session's next ingest is the first of a warehouse."""
        leave_catalog(self.spark)
        self.settings = self.settings.model_copy(update={"warehouse": self._fresh_path()})

    def _catalog_rows(self) -> int:
        return self.spark.table("xregistry.changes").count() if self.spark.catalog.tableExists("xregistry.changes") else 0

    def _fresh_path(self) -> str:
        self.fresh += 1
        return str(self.work / f"fresh-{self.fresh}")

    def _read_and_write(self, paths: Iterable[Path]) -> None:
        messages = explode_messages(read_json(self.spark, paths))
        messages.write.format("delta").mode("append").save(self._fresh_path())

    def _read(self) -> None:
        to_nowhere(read_json(self.spark, [self.data.folder]))

    def _hash(self) -> None:
        files = self.spark.read.format("binaryFile").load(str(self.data.folder))
        to_nowhere(files.select("path", "length", F.sha2("content", 256)))

    def _hash_and_write_changed(self) -> None:
        self._hash()
        self._read_and_write(self.data.changed)

    def _parse(self) -> None:
        documents = read_documents(self.spark, find_sources(self.spark, [str(self.data.folder)]), self.settings.stream_bytes)
        known = current_documents(self.spark.table("xregistry.changes")).filter(F.lit(False))
        to_nowhere(parse_documents(with_unchanged(documents, known, F.lit("one")), limits_of(self.settings)))


def read_json(spark: SparkSession, paths: Iterable[Path]) -> DataFrame:
    """Read documents with Spark's own reader: one row per document."""
    return spark.read.schema(DOCUMENT).option("multiLine", True).json([str(path) for path in paths])


def explode_messages(documents: DataFrame) -> DataFrame:
    """Turn documents into one row per message with all its columns."""
    groups = documents.select(F.explode("messagegroups").alias("groupid", "group"))
    messages = groups.select("groupid", F.explode("group.messages").alias("messageid", "message"))
    return messages.select("groupid", "messageid", "message.*")


def leave_catalog(spark: SparkSession) -> None:
    """Drop the catalog that the session works on, so that it may work on another."""
    spark.catalog.setCurrentDatabase("default")
    spark.sql("DROP SCHEMA IF EXISTS xregistry CASCADE")


def check(summary: Summary, expected: dict[str, int | None]) -> None:
    """Stop when an ingest did not do what it was measured for."""
    counts = summary.entities | {"documents": summary.documents}
    reported = {f"{table}.{outcome}": count for table, outcomes in counts.items() for outcome, count in outcomes.items()}
    reported["snapshot_id"] = summary.snapshot_id
    found = {name: reported[name] for name in expected}
    if found != expected or summary.refused or any(summary.violations.values()):
        raise click.ClickException(f"the ingest is wrong: {found} instead of {expected}; {summary.as_json()}")


def warm_up(spark: SparkSession, settings: Settings, work: Path) -> None:
    """Run every case once with a few messages, so that no case pays for what the session does only once."""
    work.mkdir()
    Bench(spark, settings, work, Data(work, Shape(100, 4))).repeat()


def show(bench: Bench, repeats: int) -> None:
    """Print the tables."""
    shape, written = bench.data.shape, bench.data.written
    console.print(
        f"{shape.messages:,} messages in {shape.documents:,} documents, {written.groups:,} groups, {written.bytes / 1e6:.1f} MB; "
        f"1% of the messages are in {len(bench.data.changed):,} documents. "
        f"Medians of {repeats}; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}."
    )
    console.print(_ratios(bench.cases.values()))
    console.print(_stages([case for case in bench.cases.values() if case.stages]))


def _ratios(cases: Iterable[Case]) -> Table:
    table = Table(title="Beside the floor")
    table.add_column("what")
    for name in ("seconds", "floor seconds", "ratio", "rows in the log before"):
        table.add_column(name, justify="right")
    for case in cases:
        seconds, floor = (spread(numbers) for numbers in (case.seconds, case.floor_seconds))
        table.add_row(case.what, seconds, floor, f"{case.ratio:.2f}", f"{case.catalog_rows[-1]:,}")
    return table


def _stages(cases: list[Case]) -> Table:
    table = Table(title="Seconds by stage")
    table.add_column("what")
    names = list(dict.fromkeys(name for case in cases for name in case.stages[0]))
    for name in names:
        table.add_column(name, justify="right")
    for case in cases:
        medians = case.median_stages()
        table.add_row(case.what, *(f"{medians[name]:.2f}" if name in medians else "" for name in names))
    return table


def as_json(bench: Bench) -> dict[str, Any]:
    """Return everything that was measured as one JSON value."""
    shape, written = bench.data.shape, bench.data.written
    return {
        "messages": shape.messages,
        "documents": shape.documents,
        "groups": written.groups,
        "bytes": written.bytes,
        "documents_changed": len(bench.data.changed),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "cases": [case.as_json() for case in bench.cases.values()],
    }


@click.command()
@click.option("--messages", type=click.IntRange(min=100), default=10_000, show_default=True, help="Messages over all documents.")
@click.option("--documents", type=click.IntRange(min=1), default=100, show_default=True, help="Documents that hold them.")
@click.option("--repeat", "repeats", type=click.IntRange(min=1), default=3, show_default=True, help="Repetitions of each case.")
@click.option("--seed", default=1, show_default=True, help="Seed of the documents.")
@click.option("--json", "target", type=click.Path(dir_okay=False, path_type=Path), help="File to write the numbers to.")
def main(messages: int, documents: int, repeats: int, seed: int, target: Path | None) -> None:
    """Measure ingest, compared with the least that Spark has to do for the same result."""
    if documents > messages:
        raise click.UsageError("--documents is more than --messages: each document holds at least one.")
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        work = Path(folder)
        settings = read_settings(warehouse=str(work / "warehouse"))
        spark = open_session(settings, "lakehouse-bench")
        try:
            warm_up(spark, settings, work / "warm")
            bench = Bench(spark, settings, work, Data(work, Shape(messages, documents, seed=seed)))
            for _ in range(repeats):
                bench.repeat()
        finally:
            spark.stop()
    show(bench, repeats)
    if target:
        target.write_text(json.dumps(as_json(bench), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
