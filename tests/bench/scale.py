"""What a small act costs on a log of many rows and snapshots: `python -m tests.bench.scale --rows 10000000 --snapshots 10000`.

The warehouse is made up: slim rows, one file for each snapshot, and the commits of the Delta log are written by hand, as those
of the product say of themselves. Each snapshot loads one document again (a group of messages, each with a Version), each
document was loaded five times, and so the tables hold a fifth of the log. What is measured is the product: attach, head, the
documents that are known, a name of a snapshot, one message at an old snapshot, an ingest of one document of ten messages of
which one changes, `maintain`. Digests of rows are not those of the rows: `doctor` would say so.

With `--warehouse DIR` the warehouse is kept, so that it can be made (`--steps log,make`) and looked at (`--steps measure`,
`--steps maintain,again`) in separate runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import click
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console
from rich.table import Table

from lakehouse.ingest.pipeline import ingest
from lakehouse.log.baseline import current_documents
from lakehouse.log.commits import CommitInfo, Totals, own_bodies, read_head
from lakehouse.log.projections import project
from lakehouse.log.snapshotfacts import Head
from lakehouse.log.snapshots import open_snapshot, resolve_snapshot
from lakehouse.operations.maintenance import maintain
from lakehouse.settings import Settings, read_settings
from lakehouse.store.deltatables import TABLES, attach_tables, create_tables, table_name
from lakehouse.store.internals.jvm import java_class
from lakehouse.store.merges import fill_table
from lakehouse.store.schema import CHANGES, EFFECTIVE_MESSAGES, GROUPS, MESSAGES, VERSIONS, arrow_schema_of
from lakehouse.store.session import open_session, open_sibling
from lakehouse.store.tablelog import newest_version, set_commit_metadata, table_bytes
from tests.bench.generator import Shape, write_documents
from tests.bench.ingest import leave_catalog
from tests.bench.memory import Memory

LOADS = 5  # of each document
OWN_ROWS = 3  # of a snapshot that are no message's: the snapshot, its document, its group
BEGAN = datetime(2026, 1, 1, tzinfo=timezone.utc)
BETWEEN = timedelta(minutes=4)
CHANGED_MESSAGES = 10
SIZED = 10_000  # messages that the bytes of a message are measured with
STEPS = ("log", "sizes", "make", "measure", "maintain", "again")

console = Console(width=140)


class Scale(NamedTuple):
    """How much there is.

    rows: of the log; snapshots: that wrote them; registries: that the documents are spread over.
    """

    rows: int
    snapshots: int
    registries: int

    @property
    def documents(self) -> int:
        """Return the number of documents."""
        return self.snapshots // LOADS

    @property
    def messages(self) -> int:
        """Return the messages of a document."""
        return (self.rows // self.snapshots - OWN_ROWS) // 2

    @property
    def rows_of_snapshot(self) -> int:
        """Return the rows of each snapshot."""
        return self.messages * 2 + OWN_ROWS


def commits(scale: Scale) -> list[tuple[dict[str, Any], str]]:
    """Return what each snapshot's commit reports of itself, and the body of its row, as the product makes them."""
    op = {False: "update", True: "insert"}
    head, reported = Head(), []
    for snapshot_id in range(1, scale.snapshots + 1):
        of = op[snapshot_id <= scale.documents]
        counts = {"groups": {of: 1}, "messages": {of: scale.messages}, "versions": {of: scale.messages}}
        totals = Totals(head, BEGAN + BETWEEN * snapshot_id, counts, 1, f"{snapshot_id:016x}")
        metadata, rows = own_bodies(totals, CommitInfo(f"scale-{snapshot_id}", "ingest", {"read": 1}))
        body = json.loads(rows[0][2])
        head = Head(snapshot_id, totals.committed_at, body["digest"], body["tables"], body["deletions"])
        reported.append((metadata, rows[0][2]))
    return reported


def snapshot_rows(scale: Scale, snapshot_id: int, body: str) -> pa.Table:
    """Make the rows that a snapshot adds to the log: its own, its document's, and those of a group with its messages."""
    document = (snapshot_id - 1) % scale.documents
    uri, group = f"file:/scale/document-{document:08}.json", f"/messagegroups/group-{document:08}"
    messages = [f"{group}/messages/message-{number:06}" for number in range(scale.messages)]
    said = [f"Message {number} as of snapshot {snapshot_id}" for number in range(scale.messages)]
    facts = {"status": "loaded", "dialect": "1.0-rc2", "sha256": sha256(body.encode()).hexdigest(), "size": 1_000_000}
    bodies = [body, json.dumps(facts), f'{{"description":"Group of {uri}"}}', *['{"defaultversionid":"1"}'] * scale.messages]
    bodies += [f'{{"ancestor":"1","description":"{text}","isdefault":true}}' for text in said]
    entities, rows = scale.rows_of_snapshot - 2, scale.rows_of_snapshot
    registryid = f"registry-{document % scale.registries:05}"
    attributes = [None] * (rows - scale.messages) + [[("/description", f'"{text}"')] for text in said]
    columns: dict[str, list[Any]] = {
        "snapshot_id": [snapshot_id] * rows,
        "registryid": ["", *[registryid] * (rows - 1)],
        "kind": ["snapshot", "document", "group", *["message"] * scale.messages, *["version"] * scale.messages],
        "xid": ["", uri, group, *messages, *[f"{message}/versions/1" for message in messages]],
        "op": ["insert", *["insert" if snapshot_id <= scale.documents else "update"] * (rows - 1)],
        "content_hash": [None, None, *[f"{snapshot_id * rows + nth:064x}" for nth in range(entities)]],
        "epoch": [None, None, *[(snapshot_id - 1) // scale.documents + 1] * entities],
        "createdat": [None, None, *[BEGAN + BETWEEN * (document + 1)] * entities],
        "modifiedat": [None, None, *[BEGAN + BETWEEN * snapshot_id] * entities],
        "document_uris": [None, None, *[[uri]] * entities],
        "body": bodies,
        "raw": [None] * rows,
        "attributes": attributes,
    }
    schema = arrow_schema_of(CHANGES)
    return pa.table([pa.array(columns[field.name], field.type) for field in schema], names=schema.names)


def write_log(folder: Path, scale: Scale) -> None:
    """Write the files of the log, one for each snapshot; without Spark, which takes ten times as long for small files."""
    folder.mkdir(parents=True)
    for index, (_, body) in enumerate(commits(scale)):
        pq.write_table(snapshot_rows(scale, index + 1, body), folder / f"part-{index:05}.snappy.parquet", compression="snappy")


def make(spark: SparkSession, settings: Settings, scale: Scale, written: Path) -> None:
    """Make the warehouse, with the files of the log that are written already."""
    create_tables(spark, settings)
    folder = Path(settings.warehouse) / "changes"
    for file in written.iterdir():
        file.rename(folder / file.name)
    reported = [metadata for metadata, _ in commits(scale)]
    _write_commits(folder, scale, reported, int(newest_version(spark, "changes").version()))
    _forget(spark, settings)
    attach_tables(spark, settings)
    newest_version(spark, "changes").deltaLog().checkpoint()
    newest = spark.table(table_name("changes")).filter(F.col("snapshot_id") > scale.snapshots - scale.documents)
    for table in (GROUPS, MESSAGES, VERSIONS):
        _fill(project(newest.filter(F.col("kind") == table.kind), table), table.name, scale)
    message = "regexp_replace(xid, '/versions/.*', '')"
    known = {
        "xid": message,
        "group_xid": "substring_index(xid, '/', 3)",
        "messageid": f"substring_index({message}, '/', -1)",
        "version_xid": "xid",
        "chain_status": "'none'",
        "chain_depth": "0",
        "description": "description",
        "depends_on": f"array({message})",
        "inferred": "map()",
    }
    known |= {name: name for name in ("registryid", "document_uris", "attributes", "snapshot_id")}
    columns = [
        f"CAST({known.get(field.name, 'NULL')} AS {field.dataType.simpleString()}) AS {field.name}"
        for field in EFFECTIVE_MESSAGES
    ]
    _fill(spark.table(table_name("versions")).selectExpr(*columns), "effective_messages", scale)


def _write_commits(folder: Path, scale: Scale, reported: list[dict[str, Any]], version: int) -> None:
    """Write a commit for each file, which holds one snapshot."""
    files = {int(found[1]): file for file in folder.iterdir() if (found := re.match(r"part-(\d+)\.snappy\.parquet\Z", file.name))}
    if len(files) != scale.snapshots:
        raise click.ClickException(f"{len(files)} files for {scale.snapshots} snapshots")
    now = int(time.time() * 1000)
    for index, metadata in enumerate(reported):
        file, snapshot_id = files[index], index + 1
        ends = {"snapshot_id": snapshot_id, "registryid": "", "kind": "document", "xid": "", "op": "insert"}
        highest = ends | {"registryid": "registry-~", "kind": "version", "xid": "file:/~", "op": "update"}
        stats = {"numRecords": scale.rows_of_snapshot, "minValues": ends, "maxValues": highest, "nullCount": {}}
        actions = [
            {
                "commitInfo": {
                    "timestamp": now,
                    "operation": "WRITE",
                    "operationParameters": {"mode": "Append"},
                    "userMetadata": json.dumps(metadata),
                }
            },
            {"txn": {"appId": "lakehouse.changes", "version": snapshot_id, "lastUpdated": now}},
            {
                "add": {
                    "path": file.name,
                    "partitionValues": {},
                    "size": file.stat().st_size,
                    "modificationTime": now,
                    "dataChange": True,
                    "stats": json.dumps(stats),
                }
            },
        ]
        text = "\n".join(json.dumps(action) for action in actions) + "\n"
        (folder / "_delta_log" / f"{version + snapshot_id:020}.json").write_text(text)


def _fill(rows: DataFrame, name: str, scale: Scale) -> None:
    session = open_sibling(rows.sparkSession)
    set_commit_metadata(session, {"snapshot_id": scale.snapshots, "job": "project"})
    fill_table(session, name, rows)


def _forget(spark: SparkSession, settings: Settings) -> None:
    """Let the session know no table, and Delta remember none: moved aside, nothing is deleted with the schema."""
    spark.catalog.setCurrentDatabase("default")
    warehouse = Path(settings.warehouse)
    aside = warehouse.rename(warehouse.with_name("aside"))
    spark.sql("DROP SCHEMA IF EXISTS xregistry CASCADE")
    shutil.rmtree(warehouse, ignore_errors=True)
    aside.rename(warehouse)
    java_class(spark._jvm, "org.apache.spark.sql.delta.DeltaLog").clearCache()


def sizes(spark: SparkSession, settings: Settings, work: Path) -> None:
    """Load messages that are as long as real ones, and report what each takes in each table."""
    written = write_documents(work / "sized", Shape(SIZED, 10))
    ingest(spark, settings, [str(work / "sized")])
    reported = {name: table_bytes(spark, name) / SIZED for name in TABLES}
    text = ", ".join(f"{name} {size:,.0f}" for name, size in reported.items() if size >= 1)
    console.print(f"Bytes of a message: as JSON {written.bytes / SIZED:,.0f}; in {text}; in all {sum(reported.values()):,.0f}")
    leave_catalog(spark)


class Measured:
    """Measures one warehouse."""

    def __init__(self, spark: SparkSession, settings: Settings, scale: Scale, work: Path) -> None:
        self.spark = spark
        self.settings = settings.model_copy(update={"registry": "registry-00000"})
        self.scale = scale
        self.document = work / "changed.xreg.json"
        self.seconds: dict[str, float] = {}

    def measure(self) -> None:
        """Measure what follows the size of the log; each thing once, after the first ingest of the session."""
        spark, settings, scale = self.spark, self.settings, self.scale
        _forget(spark, settings)
        self._time("attach all tables", lambda: attach_tables(spark, settings))
        self._time("head", lambda: read_head(spark))
        changes = spark.table(table_name("changes"))
        self._time("head, again", lambda: read_head(spark))
        known = self._time("documents that are known", lambda: current_documents(changes).count())
        moment = (BEGAN + BETWEEN * (scale.snapshots // 2)).isoformat()
        middle = self._time("a snapshot by its time", lambda: resolve_snapshot(spark, moment))
        found = self._time("one message at that snapshot", lambda: self._look_up(middle))
        if known < scale.documents or middle != scale.snapshots // 2 or found != 1:
            raise click.ClickException(
                f"{known} documents, snapshot {middle}, {found} messages: the warehouse is not as it was made"
            )
        number = read_head(spark).snapshot_id
        self._load(number)  # the first one of a session pays for what it does once; where it is new the document is
        self._load(number + 1, "ingest, one message changed")

    def maintain(self) -> None:
        """Measure the upkeep of the log."""
        done = self._time("maintain `changes`", lambda: maintain(self.spark, self.settings, names=["changes"]))
        before, after = done.tables[0].before, done.tables[0].after
        console.print(
            f"maintain: {before.files:,} files to {after.files:,}, {before.bytes / 1e6:,.0f} MB to {after.bytes / 1e6:,.0f} MB"
        )

    def _time(self, what: str, action: Callable[[], Any]) -> Any:
        begun = time.perf_counter()
        found = action()
        self.seconds[what] = round(time.perf_counter() - begun, 2)
        console.log(f"{what}: {self.seconds[what]:.2f} s")
        return found

    def _look_up(self, snapshot_id: int) -> int:
        schema = open_snapshot(self.spark, self.settings, snapshot_id, ["documents"])
        document = (snapshot_id - 1) % self.scale.documents
        xid = f"/messagegroups/group-{document:08}/messages/message-000000/versions/1"
        found = self.spark.table(f"{schema}.versions").filter((F.col("xid") == xid) & F.col("registryid").startswith("registry-"))
        return len(found.collect())

    def _load(self, number: int, what: str | None = None) -> None:
        messages = {f"m{nth}": {"description": f"changed {number if nth == 0 else 0}"} for nth in range(CHANGED_MESSAGES)}
        document = {"specversion": "1.0-rc2", "messagegroups": {"changed": {"messages": messages}}}
        self.document.write_text(json.dumps(document))
        begun = time.perf_counter()
        summary = ingest(self.spark, self.settings, [str(self.document)])
        reported = summary.as_json()
        if summary.snapshot_id != number + 1 or any(summary.violations.values()):
            raise click.ClickException(f"the ingest is wrong: {reported}")
        if what is not None:
            self.seconds[what] = round(time.perf_counter() - begun, 2)
            self.seconds |= {
                f"  of it {stage}": round(taken, 2) for stage, taken in reported["seconds"].items() if stage != "total"
            }


def _heap(spark: SparkSession) -> int:
    """Return what the JVM holds after a collection, in MB; in local mode this includes the executors."""
    jvm: Any = spark._jvm
    jvm.System.gc()
    runtime = jvm.Runtime.getRuntime()
    return int((runtime.totalMemory() - runtime.freeMemory()) / 1e6)


def _show(scale: Scale, columns: dict[str, dict[str, float]]) -> None:
    title = f"{scale.rows_of_snapshot * scale.snapshots:,} rows, {scale.snapshots:,} snapshots, {scale.registries:,} registries, "
    title += f"{scale.documents * scale.messages:,} messages; load {os.getloadavg()[0]:.1f}"
    table = Table(title=title)
    table.add_column("seconds")
    for name in columns:
        table.add_column(name, justify="right")
    for what in dict.fromkeys(what for seconds in columns.values() for what in seconds):
        table.add_row(what, *(f"{seconds[what]:.2f}" if what in seconds else "" for seconds in columns.values()))
    console.print(table)


@click.command()
@click.option("--rows", type=click.IntRange(min=1000), default=10_000_000, show_default=True, help="Rows of the log.")
@click.option("--snapshots", type=click.IntRange(min=LOADS), default=10_000, show_default=True, help="Snapshots of the log.")
@click.option("--registries", type=click.IntRange(min=1), default=100, show_default=True, help="Registries of the documents.")
@click.option("--warehouse", type=click.Path(file_okay=False, path_type=Path), help="Where it is kept; else it goes at the end.")
@click.option("--steps", default=",".join(STEPS), show_default=True, help="Which of these are done.")
def main(rows: int, snapshots: int, registries: int, warehouse: Path | None, steps: str) -> None:
    """Measure what a small act costs on a large log."""
    scale = Scale(rows, snapshots - snapshots % LOADS, registries)
    wanted = steps.split(",")
    if scale.messages < 1 or not set(wanted) <= set(STEPS):
        raise click.UsageError(f"Each snapshot takes at least {OWN_ROWS + 2} rows; the steps are {', '.join(STEPS)}.")
    if warehouse is not None:
        warehouse.mkdir(parents=True, exist_ok=True)
    folder = warehouse or Path(tempfile.mkdtemp(prefix="lakehouse-scale-"))
    settings = read_settings(warehouse=str(folder / "warehouse"), readmodel_dir=str(folder / "model"))
    columns: dict[str, dict[str, float]] = {}
    if "log" in wanted:
        begun = time.perf_counter()
        write_log(folder / "log", scale)
        console.log(f"log written: {time.perf_counter() - begun:.0f} s")
    if wanted == ["log"]:
        return
    with Memory() as memory:
        spark = open_session(settings, "lakehouse-bench")
        try:
            if "sizes" in wanted:
                sizes(spark, settings.model_copy(update={"warehouse": str(folder / "sized-warehouse")}), folder)
            if "make" in wanted:
                begun = time.perf_counter()
                make(spark, settings, scale, folder / "log")
                console.log(f"made: {time.perf_counter() - begun:.0f} s")
            for step in [step for step in wanted if step not in ("log", "sizes", "make")]:
                measured = Measured(spark, settings, scale, folder)
                measured.maintain() if step == "maintain" else measured.measure()
                columns[step] = measured.seconds
            heap = _heap(spark)
        finally:
            spark.stop()
    _show(scale, columns)
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    console.print(f"On disk {size / 1e9:.1f} GB. JVM after a collection {heap:,} MB; peaks in MiB: {memory.as_json()}")
    if warehouse is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
