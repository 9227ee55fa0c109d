"""What a Python worker does with events (`match_batch`), without Spark, compared with the bare loop of the libraries.

`python -m tests.bench.matchbatch [--types 12] [--types 492] [--mode binary] [--rounds 5]` prints events a second of CPU time: by
metadata only, with JSON payloads, and the bare loop, measured in turn so that all three meet the same machine.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import click
import jsonschema_rs
import orjson
import pyarrow as pa

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas, SchemaVersion
from lakehouse.match.vectorized.batch import match_batch
from tests.bench.match import SCHEMA
from tests.bench.matchindex import SCHEMA_XID, definitions_of

_DEFINITIONS = 1_000  # each is made twice: for any protocol, and for Kafka
_PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
_PLACE = pa.struct([("file", pa.string()), ("block", pa.int64()), ("position", pa.int64())])
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
COLUMNS = pa.schema(
    [("ordinal", pa.int32()), ("place", _PLACE), ("source", pa.string()), ("partition", pa.int64()), ("offset", pa.int64()),
     ("row", pa.int64()), ("landed_at", pa.timestamp("us", "UTC")), ("protocol", pa.string()), ("ce", _PAIRS),
     ("options", _PAIRS), ("headers", _HEADERS), ("key", pa.binary()), ("captured", pa.list_(pa.string())),
     ("payload", pa.binary()), ("line", pa.binary()), ("problem", pa.string())]
)  # fmt: skip


def kafka_batch(start: int, count: int, types: int, mode: str) -> pa.RecordBatch:
    """Make events as the adapter of Kafka's rows gives them; columns of `LANDED`."""
    known = [f"/protocoloptions/{name}" for name in ("topic", "partition", "key", "key_base64", "headers")]
    options = [{"key": "topic", "value": "bench"}, {"key": "partition", "value": "0"}]
    rows: list[dict[str, Any]] = []
    for number, (attributes, data) in enumerate(_events(start, count, types), start):
        if mode == "binary":
            headers = {f"ce_{name}": text for name, text in attributes.items()} | {"content-type": "application/json"}
            body = orjson.dumps(data)
        else:
            headers, body = {"content-type": "application/cloudevents+json"}, orjson.dumps(attributes | {"data": data})
        pairs = [{"key": name, "value": text.encode()} for name, text in headers.items()]
        rows.append(
            {"ordinal": 0, "source": "bench", "partition": 0, "offset": number, "protocol": "KAFKA", "headers": pairs,
             "options": options, "key": attributes["subject"].encode(), "captured": known,
             "payload": body}
        )  # fmt: skip
    return pa.RecordBatch.from_pylist(rows, schema=COLUMNS)


def _events(start: int, count: int, types: int) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    chance = random.Random(start)
    for number in range(start, start + count):
        ident = f"d{number % 10_000}"
        yield (
            {"specversion": "1.0", "id": str(number), "type": f"bench.T{number % types}", "source": f"/devices/{number % 100}",
             "subject": ident, "time": f"2026-01-0{number % 9 + 1}T00:00:00.5Z"},
            {"id": ident, "value": number / 7, "unit": "C", "ok": True, "count": number, "name": "a sensor",
             "x": chance.random(), "y": chance.random()},
        )  # fmt: skip


def measure(types: int, mode: str, rounds: int, rows: int) -> dict[str, float]:
    """Measure in turn; events a second of CPU time, the median of the rounds.

    Args:
        types: of the events.
        mode: `binary` or `structured`.
        rounds: how often.
        rows: of a batch.

    Returns:
        `metadata`, `payloads`, `bare`.
    """
    version = SchemaVersion("bench", f"{SCHEMA_XID}/versions/1", SCHEMA_XID, True, "JSONSchema/draft-07", json.dumps(SCHEMA))
    index = Index.of(row for number in range(_DEFINITIONS) for row in definitions_of(number))
    payloads = Payloads(Schemas([version]))
    batches = [kafka_batch(number * rows, rows, types, mode) for number in range(2)]
    is_valid = jsonschema_rs.validator_for(SCHEMA, validate_formats=True).is_valid
    ways: dict[str, Callable[[pa.RecordBatch], int]] = {
        "metadata": _matched(Matcher(index, payloads, MatchRequest(payload_share=0.0)), "not_checked"),
        "payloads": _matched(Matcher(index, payloads, MatchRequest()), "valid"),
        "bare": lambda batch: _bare(is_valid, batch, mode),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            begun = time.process_time()
            count = sum(way(batch) for batch in batches)
            if number:  # the first one compiles
                seconds[name].append(time.process_time() - begun)
            assert count == rows * len(batches), f"{name}: {count}"
    return {name: rows * len(batches) / median(reported) for name, reported in seconds.items()}


def _matched(matcher: Matcher, payload_status: str) -> Callable[[pa.RecordBatch], int]:
    def run(batch: pa.RecordBatch) -> int:
        made = list(match_batch(matcher, batch))
        for part in made:
            assert part.column("status").unique().to_pylist() == ["matched"]
            assert part.column("payload_status").unique().to_pylist() == [payload_status]
        return sum(part.num_rows for part in made)

    return run


def _bare(is_valid: Callable[[Any], bool], batch: pa.RecordBatch, mode: str) -> int:
    bodies = batch.column("payload").to_pylist()
    if mode == "binary":
        return sum(is_valid(orjson.loads(body)) for body in bodies)
    return sum(is_valid(orjson.loads(body)["data"]) for body in bodies)


@click.command()
@click.option("--types", type=click.IntRange(1, _DEFINITIONS), multiple=True, default=(12, 492), show_default=True)
@click.option("--mode", "modes", type=click.Choice(["binary", "structured"]), multiple=True, default=("binary",))
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--rows", type=click.IntRange(1000), default=50_000, show_default=True, help="Rows of a batch.")
def main(types: tuple[int, ...], modes: tuple[str, ...], rounds: int, rows: int) -> None:
    """Measure the work of a Python worker alone."""
    for mode in modes:
        for count in types:
            found = measure(count, mode, rounds, rows)
            reported = ", ".join(f"{name} {rate:,.0f}" for name, rate in found.items())
            click.echo(f"{mode}, {count} types: {reported} events/s; bare / payloads {found['bare'] / found['payloads']:.2f}")


if __name__ == "__main__":
    main()
