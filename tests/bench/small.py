"""A small change and its floor: one description edited in one document of a loaded catalog, in a warm session.

The floor is the least that Spark does for the same end: it reads the rows of the message in all tables at once, appends one row
to a copy of the log, and rewrites that row in copies of three tables at once. Also counted: SQL executions and jobs, which do
not depend on the machine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.ingest.pipeline import ingest
from lakehouse.settings import Settings
from lakehouse.store.schema import ENTITY_TABLES
from tests.bench.pairs import Case
from tests.queries import executions

SMALL = "one description changed, warm"
_REWRITTEN = ("messages", "versions", "effective_messages")
_THREADS = 4


class SmallBench:
    """Measures the change of one message.

    Attributes:
        executions, jobs: of each ingest.
    """

    def __init__(self, spark: SparkSession, settings: Settings, work: Path, document: Path) -> None:
        """Choose the first message of a document, which the catalog of `settings` has loaded, and copy tables for the floor."""
        self.spark = spark
        self.settings = settings
        self.document = document
        self.case = Case(SMALL, "the rows read, one append, three rows written anew", 2.0)
        self.executions: list[int] = []
        self.jobs: list[int] = []
        self.edits = 0
        group_id, group = next(iter(json.loads(document.read_bytes())["messagegroups"].items()))
        self.place = (group_id, next(iter(group["messages"])))
        self.key = f"/messagegroups/{group_id}/messages/{self.place[1]}"
        self.copies = {name: str(work / f"floor-{name}") for name in ("changes", *_REWRITTEN)}
        for name, path in self.copies.items():
            spark.table(f"xregistry.{name}").write.format("delta").mode("overwrite").save(path)
        self.rows = {name: self._one_row(name) for name in self.copies}

    def repeat(self) -> None:
        """Measure one pair, after one that is not counted where it is the first."""
        if not self.edits:
            self._change()
            self._floor()
        self.case.measure(self._counted, self._floor)

    def reported(self) -> str:
        """Return the counts in a sentence."""
        counts = f"{median(self.executions):.0f} SQL executions and {median(self.jobs):.0f} jobs"
        return f"{SMALL}: {counts} (goals 35 and 60)."

    def _counted(self) -> None:
        before = self._counts()
        self._change()
        after = self._counts()
        self.executions.append(after[0] - before[0])
        self.jobs.append(after[1] - before[1])

    def _counts(self) -> tuple[int, int]:
        """Return the numbers of the newest SQL execution and job: Spark counts them on, and keeps the last thousand."""
        queries = executions(self.spark)
        context: Any = self.spark.sparkContext._jsc.sc()
        return queries, context.statusStore().jobsList(None).head().jobId()

    def _change(self) -> None:
        self.edits += 1
        written = json.loads(self.document.read_bytes())
        group_id, message_id = self.place
        written["messagegroups"][group_id]["messages"][message_id]["description"] = f"edit {self.edits}"
        self.document.write_text(json.dumps(written), encoding="utf-8")
        summary = ingest(self.spark, self.settings, [str(self.document)])
        if summary.entities["versions"]["updated"] != 1:
            raise click.ClickException(f"one Version should have changed, and it was {summary.entities['versions']}")

    def _floor(self) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            _all(pool.map(self._read, (table.name for table in ENTITY_TABLES)))
            self.rows["changes"].write.format("delta").mode("append").save(self.copies["changes"])
            _all(pool.map(self._write_anew, _REWRITTEN))

    def _read(self, name: str) -> None:
        self._of_message(self.spark.table(f"xregistry.{name}")).collect()

    def _write_anew(self, name: str) -> None:
        row = self.rows[name]
        (xid,) = {one["xid"] for one in row.collect()}
        row.write.format("delta").mode("overwrite").option("replaceWhere", f"xid = '{xid}'").save(self.copies[name])

    def _one_row(self, name: str) -> DataFrame:
        table = self.spark.table(f"xregistry.{name}")
        return self.spark.createDataFrame(self._of_message(table).limit(1).collect(), table.schema)

    def _of_message(self, table: DataFrame) -> DataFrame:
        return table.filter((F.col("xid") == self.key) | F.col("xid").startswith(f"{self.key}/"))


def _all(results: Iterable[object]) -> None:
    """Wait for what was begun."""
    for _ in results:
        pass
