"""`lakehouse match --watch`: what lands is matched as it comes, by Structured Streaming.

Each micro-batch is matched and appended once: the stream's identity and its number go into Delta's transactions, so one that is
replayed writes nothing. When the catalog moves, the next batch opens the new index; each row keeps the snapshot that it was
matched with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

from pyspark import StorageLevel
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from lakehouse.log.snapshots import resolve_snapshot
from lakehouse.match import conformance
from lakehouse.match.event.sources import read_stream
from lakehouse.match.matching.engine import Opened, large_batches, open_index, with_matches
from lakehouse.match.runs import Asked, Summary, add_samples, land, summarize, write_tables
from lakehouse.progress import Clock, Watcher
from lakehouse.settings import Settings
from lakehouse.store.session import absolute_location


def watch(
    spark: SparkSession,
    settings: Settings,
    asked: Asked,
    told: Callable[[Summary], None],
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    every: int | None = 10,
    watcher: Watcher | None = None,
) -> None:
    """Match what comes into a source, until stopped.

    Args:
        spark: the session.
        settings: the warehouse; the stream remembers below it what it has seen.
        asked: one source, and `into`.
        told: is called with the counts of each micro-batch.
        is_stopped: tells whether to stop; asked each second.
        every: seconds between two looks; None: end when all that is there has been matched.
        watcher: who is told of the stages.

    Raises:
        SourceNotFound: the source cannot be streamed.
        LakehouseError: what `run_match` raises.
    """
    rows = read_stream(spark, asked.sources[0], asked.form)
    land(rows, asked)  # tells at once what the columns lack
    conformance.create_conformance(spark, settings, str(asked.into))
    batches = _Batches(spark, settings, asked, told, Clock(watcher))
    writer = rows.writeStream.foreachBatch(batches.match).option("checkpointLocation", checkpoint(settings, asked))
    writer = writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=f"{every} seconds")
    query = writer.start()
    try:
        while not query.awaitTermination(1) and not is_stopped():
            pass
    except StreamingQueryException:
        if batches.failures:
            raise batches.failures[0] from None
        raise
    finally:
        query.stop()


def checkpoint(settings: Settings, asked: Asked) -> str:
    """Give the folder in which a stream remembers: one for each source, scope and schema of results."""
    return f"{absolute_location(settings.warehouse)}/_watch/match-{_identity(asked)}"


class _Batches:
    """Matches micro-batches, with the index of the catalog's head."""

    def __init__(
        self, spark: SparkSession, settings: Settings, asked: Asked, told: Callable[[Summary], None], stage: Clock
    ) -> None:
        self.spark, self.settings, self.asked, self.told, self.stage = spark, settings, asked, told, stage
        self.opened: Opened | None = None
        self.failures: list[Exception] = []

    def match(self, batch: DataFrame, number: int) -> None:
        """Match a micro-batch and append what came out."""
        try:
            self._match(batch, number)
        except Exception as error:
            self.failures.append(error)
            raise

    def _match(self, batch: DataFrame, number: int) -> None:
        opened = self._index()
        identity = (f"lakehouse-match-{_identity(self.asked)}", number)
        landed = land(batch, self.asked)
        results = with_matches(landed, opened, self.asked.request, self.asked.columns()).persist(StorageLevel.MEMORY_AND_DISK)
        run: dict[str, Any] = {
            "run_id": f"{_identity(self.asked)}-{number}", "catalog_snapshot": opened.snapshot_id,
            "begun_at": datetime.now(timezone.utc),
        }  # fmt: skip
        try:
            # A stream has a session of its own, with settings of its own.
            with large_batches(batch.sparkSession, landed), self.stage("match", f"micro-batch {number}"):
                summary = summarize(results, opened, run["run_id"])
                if self.asked.samples:
                    add_samples(results, summary, self.asked.samples)
                if summary.read:
                    write_tables(self.spark, self.asked, results, summary, run, batch=identity)
            self.told(summary)
        finally:
            results.unpersist()

    def _index(self) -> Opened:
        """Give the index of the head; a new one when the catalog has moved."""
        if self.opened is None or resolve_snapshot(self.spark, "head") != self.opened.snapshot_id:
            with self.stage("index", "definitions of the catalog"):
                self.opened = open_index(self.spark, self.settings, self.asked.scope)
        return self.opened


def _identity(asked: Asked) -> str:
    source, scope = asked.sources[0], asked.scope
    told = [absolute_location(source) if "/" in source else source, asked.into, scope.registry, scope.group, scope.endpoint]
    what = json.dumps(told)
    return hashlib.sha256(what.encode()).hexdigest()[:16]
