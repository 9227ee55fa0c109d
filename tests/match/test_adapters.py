"""Rows of many shapes on Spark: what the adapters make of them, without a catalog."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from lakehouse.match.event.adapters import LANDED, to_landed
from lakehouse.match.event.canonical import CapturedEvent
from lakehouse.match.event.captured import landed_of_columns

UNION = "STRUCT<member0: BIGINT, member1: STRING, member2: BINARY>"
CAPTURE = (
    f"SequenceNumber BIGINT, EnqueuedTimeUtc STRING, SystemProperties MAP<STRING, {UNION}>, Properties MAP<STRING, {UNION}>, "
)
HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"


def landed(rows: DataFrame, mapping: dict[str, Any] | None = None) -> list[CapturedEvent]:
    made = to_landed(rows, mapping=mapping)
    assert [field.dataType.simpleString() for field in made.schema] == [kind.lower().replace(" ", "") for kind in LANDED.values()]
    return [landed_of_columns(one.asDict(recursive=True)) for one in made.collect()]


def known(*names: str) -> frozenset[str]:
    return frozenset(f"/protocoloptions/{name}" for name in names)


def test_kafka(spark):
    rows = [(b"k", b"{}", "t", 3, [("ce_type", b"T"), ("x", None)]), (None, None, None, None, None)]
    made = spark.createDataFrame(rows, f"key BINARY, value BINARY, topic STRING, partition INT, headers {HEADERS}")
    full, empty = landed(made)
    assert full.options == {"topic": "t", "partition": "3", "headers/ce_type": "T", "key": "k", "key_base64": "aw=="}
    assert full.captured == known("topic", "partition", "key", "key_base64", "headers")
    assert (empty.options, empty.body) == ({}, None)
    renamed = landed(made, {"topic": "concat(topic, '.v2')"})  # what a mapping says wins, where it says something
    assert [one.options.get("topic") for one in renamed] == ["t.v2", None]


def test_event_hubs_capture(spark):
    text = lambda value: (None, value, None)  # noqa: E731
    by_amqp = {"cloudEvents:type": text("T"), "n": (7, None, None), "none": (None, None, None)}
    system = {"x-opt-partition-key": text("p"), "content-type": text("application/json"), "other": text("o")}
    by_kafka = {"ce_type": (None, None, b"T"), "a/b": (None, None, b"c")}
    rows = [(1, "3/2/2026 6:32:18 PM", system, by_amqp, b"{}"), (2, "2026-03-02T18:32:19Z", {}, by_kafka, b"{}"),
            (3, "no time", {}, {}, b"{}")]  # fmt: skip
    made = spark.createDataFrame(rows, CAPTURE + "Body BINARY")
    amqp, kafka, bare = landed(made)
    assert (amqp.protocol, kafka.protocol, bare.protocol) == ("AMQP/1.0", "KAFKA", "AMQP/1.0")
    assert amqp.options == {
        "application-properties/cloudEvents:type": "T", "application-properties/n": "7",
        "message-annotations/x-opt-partition-key": "p", "properties/content-type": "application/json",
    }  # fmt: skip
    assert amqp.captured == known("application-properties", "properties/content-type", "properties/subject")
    assert (kafka.options, kafka.captured) == ({"headers/ce_type": "T", "headers/a~1b": "c"}, known("headers"))
    reported = [row["landed_at"] for row in to_landed(made).selectExpr("CAST(landed_at AS STRING)").collect()]
    assert reported == [str(datetime(2026, 3, 2, 18, 32, 18)), str(datetime(2026, 3, 2, 18, 32, 19)), None]


def test_other_protocols(spark):
    mqtt = spark.createDataFrame(
        [("a/b", b"{}", 1, {"type": "T"})], "topic STRING, payload BINARY, qos INT, properties MAP<STRING, STRING>"
    )
    [bridged] = landed(mqtt)
    assert bridged.options == {"topic_name": "a/b", "qos": "1", "user_properties/type": "T"}
    assert bridged.captured == known("topic_name", "qos", "user_properties")
    numbered = spark.createDataFrame([("t", b"{}", 0), ("t", b"{}", 1)], "topic STRING, payload BINARY, retain INT")
    assert [one.options["retain"] for one in landed(numbered)] == ["false", "true"]
    headers = [("CE-Type", "T"), ("Cookie", "c")]
    http = spark.createDataFrame(
        [("post", "/in?a=1", headers, "{}")],
        "method STRING, url STRING, headers ARRAY<STRUCT<name: STRING, value: STRING>>, body STRING",
    )
    [asked] = landed(http)
    assert asked.options == {"headers/ce-type": "T", "query/a": "1", "path": "/in", "method": "POST"}
    assert to_landed(mqtt).unionByName(to_landed(http)).count() == 2


def test_typed_cloudevents_and_mappings(spark):
    typed = spark.createDataFrame(
        [("T", "/s", "1", None, "{}")], "type STRING, source STRING, id STRING, subject STRING, data STRING"
    )
    [one] = landed(typed)
    assert (one.ce, one.body) == ({"specversion": "1.0", "type": "T", "source": "/s", "id": "1"}, b"{}")
    kql = spark.createDataFrame([("T", "/s", 5)], "___type STRING, ___source STRING, n INT")
    [one] = landed(kql)
    assert (one.ce, one.body) == ({"specversion": "1.0", "type": "T", "source": "/s"}, b'{"n":5}')
    typed = spark.createDataFrame(
        [("T", "/s", "1", "eu", 7, None, {"a": "b"}, "x", "{}")],
        "type STRING, source STRING, id STRING, region STRING, n INT, none STRING, tags MAP<STRING, STRING>, a_b STRING, "
        "data STRING",
    )
    [one] = landed(typed)
    assert one.ce == {"specversion": "1.0", "type": "T", "source": "/s", "id": "1", "region": "eu", "n": "7"}
    kql = spark.createDataFrame([("T", "/s", "eu", 5)], "___type STRING, ___source STRING, ___region STRING, n INT")
    [one] = landed(kql)
    assert (one.ce, one.body) == ({"specversion": "1.0", "type": "T", "source": "/s", "region": "eu"}, b'{"n":5}')
    times = spark.sql("SELECT 'T' type, '/s' source, '1' id, to_timestamp(at) time FROM VALUES "
                      "('2025-01-01T00:00:00Z'), ('2025-01-01T00:00:00.12Z'), (NULL) AS t(at)")  # fmt: skip
    assert [one.ce.get("time") for one in landed(times)] == ["2025-01-01T00:00:00Z", "2025-01-01T00:00:00.120000Z", None]
    both = spark.createDataFrame(
        [("T", "/s", "1", None, "Yg=="), ("T", "/s", "1", "d", "Yg=="), ("T", "/s", "1", None, None)],
        "type STRING, source STRING, id STRING, data STRING, data_base64 STRING",
    )
    assert [one.body for one in landed(both)] == [b"b", b"d", None]
    other = spark.createDataFrame([("T", "a/b", None)], "kind STRING, place STRING, missing STRING")
    mapping = {"protocol": "'MQTT/5.0'", "topic_name": "place", "qos": "missing", "ce": {"type": "kind", "subject": "missing"}}
    [one] = landed(other, mapping)
    assert (one.ce, one.options) == ({"specversion": "1.0", "type": "T"}, {"topic_name": "a/b"})
    [one] = landed(other, {"protocol": "'MQTT/5.0'", "options": "map('topic_name', place)", "ce": "map('type', kind)"})
    assert (one.ce, one.options) == ({"type": "T"}, {"topic_name": "a/b"})
