"""Micro-batches of Structured Streaming: run until everything is read, or until somebody stops them."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame


def run_stream(
    rows: DataFrame,
    process: Callable[[DataFrame, int], None],
    checkpoint: str,
    is_stopped: Callable[[], bool],
    *,
    every: int | None,
) -> None:
    """Process the micro-batches of a stream.

    Args:
        rows: a streaming frame.
        process: is called with each micro-batch and its number.
        checkpoint: folder in which the stream remembers what it has read.
        is_stopped: says whether to stop; is called each second.
        every: seconds between two looks; None: end when everything was read.

    Raises:
        Exception: what `process` raised, as it was.
        StreamingQueryException: Spark cannot read the stream.
    """
    failures: list[Exception] = []

    def run(batch: DataFrame, number: int) -> None:
        try:
            process(batch, number)
        except Exception as error:
            failures.append(error)
            raise

    writer = rows.writeStream.foreachBatch(run).option("checkpointLocation", checkpoint)
    query = (writer.trigger(availableNow=True) if every is None else writer.trigger(processingTime=f"{every} seconds")).start()
    try:
        while not query.awaitTermination(1) and not is_stopped():
            pass
    except StreamingQueryException:
        if failures:
            raise failures[0] from None
        raise
    finally:
        query.stop()
