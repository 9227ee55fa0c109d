"""Two ways to read what has landed, columns by Spark and JSON by Python: both return the same events."""

from __future__ import annotations

import base64
import json
import random
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import SettingsError
from lakehouse.match.event.adapters import to_landed
from lakehouse.match.event.canonical import CapturedEvent, Event, events_of
from lakehouse.match.event.captured import PLATFORMS, landed_of_captured, landed_of_object
from lakehouse.match.vectorized.batch import landed_of_row
from match.catalogs import SAMPLES

PAIRS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
NAMED = "ARRAY<STRUCT<name: STRING, value: STRING>>"
MAP = "MAP<STRING, STRING>"
UNION = "STRUCT<member0: BIGINT, member1: STRING>"
SCHEMAS = {
    "kafka": f"topic STRING, value BINARY, key BINARY, `partition` INT, headers {PAIRS}",
    "http": f"method STRING, url STRING, headers {NAMED}, status INT, body STRING",
    "http of a path": f"path STRING, query STRING, headers {MAP}, body STRING, method STRING",
    "mqtt": f"topic STRING, payload BINARY, qos INT, retain BOOLEAN, content_type STRING, user_properties {NAMED}",
    "amqp": f"properties {MAP}, application_properties {MAP}, message_annotations {MAP}, header {MAP}, body BINARY",
    "eventhubs": f"SequenceNumber BIGINT, Properties MAP<STRING, {UNION}>, SystemProperties MAP<STRING, {UNION}>, Body BINARY",
    "cloudevents": "type STRING, source STRING, id STRING, specversion STRING, time STRING, datacontenttype STRING, data STRING, "
    "region STRING, n INT",
    "kql": "___type STRING, ___source STRING, ___id STRING, ___region STRING, n INT, text STRING",
}  # fmt: skip
NAMES = [
    "a",
    "A/b",
    "m~n",
    "content-type",
    "content-encoding",
    "Content-Type",
    "authorization",
    "x-é",
    "ce_type",
    "ce-Type",
    "cloudEvents:type",
]
TEXTS = ["", "T", "a b", "%41", '"q\\"x"', "é", "1", "true", "application/json", "2026-01-01T00:00:00Z", "x" * 200]
BODIES = [
    None,
    "",
    "{}",
    '{"n": 1}',
    "no JSON",
    "7",
    '{"specversion": "1.0", "type": "S", "source": "/s", "id": "1", "data": [1]}',
    "é",
]
SYSTEM: list[dict[str, str]] = [{}, {"x-opt-p/q": "1", "content-type": "application/json"}]
CE = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s"}


def reported(event: Event) -> dict[str, Any]:
    """Return what matching asks of an event, values as texts."""
    text = lambda value: value if isinstance(value, str) else json.dumps(value)  # noqa: E731
    return {
        "family": event.family, "mode": event.mode, "problem": event.problem.partition(":")[0], "item": event.item,
        "content_type": event.content_type, "body": event.body or None, "data": event.data, "address": event.address,
        "ce": {name: text(value) for name, value in event.ce.items()},
        "options": {name: text(value) for name, value in event.options.items()},
        "repeated": {name: list(map(text, values)) for name, values in event.repeated.items()},
    }  # fmt: skip


def events(landed: CapturedEvent | None) -> list[dict[str, Any]]:
    assert landed is not None
    return [reported(event) for event in events_of(landed)]


def platform_of(shape: str) -> str:
    return {"http of a path": "http", "kql": "cloudevents"}.get(shape, shape)


def landed_by_spark(frames: dict[str, DataFrame]) -> list[list[CapturedEvent]]:
    """Bring frames by their shapes into the canonical table in one job."""
    made = (to_landed(frame, platform_of(shape)).withColumn("ordinal", F.lit(number))
            for number, (shape, frame) in enumerate(frames.items()))  # fmt: skip
    found: list[list[CapturedEvent]] = [[] for _ in frames]
    for row in reduce(DataFrame.unionByName, made).collect():
        found[row["ordinal"]] += landed_of_row(row.asDict(recursive=True))
    return found


def frame_of(spark: SparkSession, shape: str, rows: list[dict[str, Any]]) -> DataFrame:
    schema = spark.createDataFrame([], SCHEMAS[shape]).schema
    return spark.createDataFrame(
        [tuple(_spark(row.get(field.name), field.dataType.simpleString()) for field in schema) for row in rows], schema
    )


def _spark(value: Any, kind: str) -> Any:
    if kind == "binary":
        return None if value is None else value.encode() if isinstance(value, str) else json.dumps(value).encode()
    if kind.startswith("array") and value is not None:
        return [(name, text.encode() if "binary" in kind and text is not None else text) for name, text in value]
    if "member0" in kind:
        return {name: (one, None) if isinstance(one, int) else (None, one) for name, one in value.items()}
    return value


def _json(row: dict[str, Any], shape: str) -> dict[str, Any]:
    key = "key" if shape == "kafka" else "name"
    pairs = {name for name in ("headers", "user_properties") if isinstance(row.get(name), list)}
    return {name: [{key: one, "value": text} for one, text in value] if name in pairs else value for name, value in row.items()}


def some_rows(shape: str, count: int) -> list[dict[str, Any]]:
    chance = random.Random(shape)
    start = {
        "kafka": "ce_",
        "http": "ce-",
        "http of a path": "ce-",
        "mqtt": "",
        "amqp": "cloudEvents:",
        "eventhubs": "cloudEvents:",
    }

    def pairs(empty: bool = True) -> list[tuple[str, Any]]:
        own = [(start[shape] + name, text) for name, text in CE.items() if chance.random() < 0.9] if chance.random() < 0.7 else []
        more = [(chance.choice(NAMES), chance.choice([*TEXTS, None] if empty else TEXTS)) for _ in range(chance.randrange(4))]
        return own + more

    def a_map() -> dict[str, Any]:
        return dict({name.lower(): (name, text) for name, text in pairs()}.values())  # a map has no order

    def row() -> Any:
        body = chance.choice(BODIES)
        url = chance.choice(["/in", "/in?a=1&a=2&b=", "https://h.example/x%20y?q=%41", "", "/a/b#c"])
        return {
            "kafka": lambda: {"topic": chance.choice(["t", "a/b"]), "value": body, "key": chance.choice([None, "k", "é", ""]),
                              "partition": chance.choice([None, 3]), "headers": pairs()},
            "http": lambda: {"method": chance.choice(["post", "GET"]), "url": url, "headers": pairs(), "body": body,
                             "status": chance.choice([None, 200])},
            "http of a path": lambda: {"path": "/in", "query": chance.choice(["", "a=1", None]), "headers": a_map(), "body": body,
                                       "method": "POST"},
            "mqtt": lambda: {"topic": "a/b", "payload": body, "qos": chance.choice([None, 1]),
                             "retain": chance.choice([True, None]),
                             "content_type": chance.choice([None, "application/json", "application/cloudevents+json"]),
                             "user_properties": pairs()},
            "amqp": lambda: {"properties": chance.choice([None, {}, {"subject": "s", "content_type": "text/plain", "to": "n"}]),
                             "application_properties": a_map(), "message_annotations": chance.choice([None, {"x-opt-a/b": "1"}]),
                             "header": chance.choice([None, {"durable": "true"}]), "body": body},
            "eventhubs": lambda: {"SequenceNumber": 1, "Properties": a_map() | {"n": 7}, "Body": body,
                                  "SystemProperties": chance.choice(SYSTEM)},
            "cloudevents": lambda: CE | {"time": chance.choice(TEXTS), "data": body, "datacontenttype": chance.choice(TEXTS),
                                        "region": chance.choice(TEXTS), "n": chance.choice([None, 7])},
            "kql": lambda: {f"___{name}": text for name, text in CE.items() if name != "specversion"} | {
                "___region": chance.choice(TEXTS), "n": chance.choice([None, 1]), "text": chance.choice(TEXTS)},
        }[shape]()  # fmt: skip

    return [row() for _ in range(count)]


def captured_rows() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return the published messages as columns: the shape, the row, and the message as it was captured."""
    found = []
    file = SAMPLES / "events" / "captured.jsonl"
    for line in map(json.loads, file.read_bytes().splitlines()) if file.is_file() else ():
        options = line["captured"]
        pairs = [(one["name"], one["value"]) for one in options.get("headers") or options.get("user_properties") or ()]
        body = base64.b64decode(line["payload_base64"] or "").decode() if line.get("payload_base64") is not None else None
        shape = line["protocol"].partition("/")[0].lower()
        sections = {name.replace("-", "_"): one for name, one in options.items() if isinstance(one, dict)}
        text = {
            name: {key: one if isinstance(one, str) else json.dumps(one) for key, one in held.items()}
            for name, held in sections.items()
        }
        row = {
            "kafka": {"topic": options.get("topic"), "value": body, "key": options.get("key"), "headers": pairs},
            "mqtt": {"topic": options.get("topic_name"), "payload": body, "user_properties": pairs}
            | {name: options.get(name) for name in ("qos", "retain", "content_type")},
            "amqp": text | {"body": body},
        }[shape]
        found.append((shape, row, line))
    return found


def test_generated_rows(spark):
    rows = {shape: some_rows(shape, 150) for shape in SCHEMAS}
    by_columns = landed_by_spark({shape: frame_of(spark, shape, rows[shape]) for shape in SCHEMAS})
    for (shape, own), landed in zip(rows.items(), by_columns, strict=True):
        for row, one in zip(own, landed, strict=True):
            assert events(one) == events(landed_of_object(_json(row, shape), None, platform_of(shape))), (shape, row)


def test_the_status_of_a_log_is_no_part_of_its_request(spark):
    headers = [(f"ce-{name}", text) for name, text in CE.items()]
    rows: list[dict[str, Any]] = [{"method": method, "url": "/in", "headers": headers, "status": 202, "body": "{}"}
                                  for method in ("POST", None)]  # fmt: skip
    frame = frame_of(spark, "http", rows)
    for form, statuses in ((None, [None, "202"]), ("http", ["202", "202"])):
        found = [one for row in to_landed(frame, form).collect() for one in landed_of_row(row.asDict(recursive=True))]
        assert [one.options.get("status") for one in found] == statuses
        assert [events(one) for one in found] == [events(landed_of_object(_json(row, "http"), None, form)) for row in rows]


@pytest.mark.skipif(not (SAMPLES / "events").is_dir(), reason="the published samples are not next to this checkout")
def test_published_messages(spark):
    captured = captured_rows()
    for_shape = {shape: [one for one in captured if one[0] == shape] for shape in ("kafka", "mqtt", "amqp")}
    by_columns = landed_by_spark({shape: frame_of(spark, shape, [row for _, row, _ in own]) for shape, own in for_shape.items()})
    assert sum(map(len, by_columns)) == len(captured)
    for (shape, own), landed in zip(for_shape.items(), by_columns, strict=True):
        for (_, row, line), one in zip(own, landed, strict=True):
            assert events(one) == events(landed_of_object(_json(row, shape), None, shape))
            mine, captured_ones = events(one), events(landed_of_captured(line))
            for event in (*mine, *captured_ones):  # what the columns do not have
                event["options"] = {
                    name: text for name, text in event["options"].items() if name not in ("partition", "message_expiry_interval")
                }
            assert mine == captured_ones, (shape, line)


def test_a_column_that_is_missing_is_named(spark):
    rows = spark.createDataFrame([("x", "y")], "a STRING, b STRING")
    for platform in PLATFORMS:
        with pytest.raises(SettingsError, match=f"--format {platform}: the column .* is missing; there are: a, b"):
            to_landed(rows, platform)


def test_lines_keep_the_format_that_is_named(spark):
    line = json.dumps({"topic": "t", "payload": "{}", "value": json.dumps(CE)}).encode()
    lines = spark.createDataFrame([(line, "f", 0), (b'{"value": 1}', "f", 0)], "line BINARY, source STRING, `partition` BIGINT")
    found = [one for row in to_landed(lines, "kafka").collect() for one in landed_of_row(row.asDict(recursive=True))]
    assert (found[0].protocol, found[0].body) == ("KAFKA", json.dumps(CE).encode())
    assert found[1].problem.startswith("topic: kafka: the column topic is missing")
