"""Columns are the row loop, quicker: the same results for the same rows, whatever the batch."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from builders import document, group

from lakehouse.match import Index, Matcher, Payloads, Request, Schemas
from lakehouse.match.event.captured import landed_of_columns
from lakehouse.match.matching.columns import match_columns
from lakehouse.match.matching.results import PLACE, RESULT_SCHEMA, why_of
from match.catalogs import SAMPLES, load, samples

LANDED = pa.schema(
    [
        ("ordinal", pa.int32()), ("place", PLACE), ("source", pa.string()), ("partition", pa.int64()), ("offset", pa.int64()),
        ("row", pa.int64()), ("landed_at", pa.timestamp("us", "UTC")), ("protocol", pa.string()),
        ("ce", pa.map_(pa.string(), pa.string())), ("options", pa.map_(pa.string(), pa.string())),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))), ("key", pa.binary()),
        ("captured", pa.list_(pa.string())), ("payload", pa.binary()), ("line", pa.binary()), ("problem", pa.string()),
    ]
)  # fmt: skip
KNOWN = [f"/protocoloptions/{name}" for name in ("topic", "key", "headers", "key_base64")]


# As Spark gives them: a time zone of the session, and what is never NULL.
FROM_SPARK = LANDED.set(1, pa.field("place", pa.struct([pa.field(one.name, one.type, one.name != "position") for one in PLACE])))
FROM_SPARK = FROM_SPARK.set(6, pa.field("landed_at", pa.timestamp("us", "Europe/Berlin")))


def row(
    number: int,
    headers: dict[str, str | bytes | None],
    topic: str = "t",
    key: bytes | None = b"k",
    payload: bytes | None = b"{}",
) -> Any:
    pairs = [{"key": name, "value": text.encode() if isinstance(text, str) else text} for name, text in headers.items()]
    place = {"file": "f", "block": 0, "position": number}
    landed_at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return {"ordinal": 0, "place": place, "landed_at": landed_at, "source": topic, "partition": 0, "offset": number,
            "protocol": "KAFKA", "options": [("topic", topic)], "headers": pairs, "key": key, "captured": KNOWN,
            "payload": payload}  # fmt: skip


def by_loop(matcher: Matcher, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    told = []
    for one in batch.to_pylist():
        own = {name: one[name] for name in ("ordinal", "place", "landed_at")}
        own["event_ref"] = {name: one[name] for name in ("source", "partition", "offset", "row")}
        told += [found | own | {"why": why_of(found)} for found in matcher.rows(landed_of_columns(one))]
    return pa.RecordBatch.from_pylist(told, schema=RESULT_SCHEMA).to_pylist()


def both(matcher: Matcher, rows: list[Any]) -> tuple[int, list[Any], list[Any]]:
    """Give how many rows went through columns, and the results of both ways, in one order."""
    batch = pa.RecordBatch.from_pylist(rows, schema=FROM_SPARK)
    quick, left = match_columns(matcher, batch)
    by_columns = [one for part in quick for one in part.to_pylist()] + by_loop(matcher, left)
    order = lambda one: one["event_ref"]["offset"]  # noqa: E731
    return batch.num_rows - left.num_rows, sorted(by_columns, key=order), sorted(by_loop(matcher, batch), key=order)


@pytest.mark.skipif(not (SAMPLES / "events").is_dir(), reason="the published samples are not beside this checkout")
@pytest.mark.parametrize("share", [0, 1])
def test_published_messages(share):
    rows, schemas = samples("feeds")
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), Request(payload_share=share))
    lines = [json.loads(line) for line in (SAMPLES / "events" / "captured.jsonl").read_bytes().splitlines()]
    made = []
    for line in lines * 12:
        if line["protocol"] == "KAFKA" and line["document"] == "entsoe.xreg.json":
            captured = line["captured"]
            headers = {one["name"]: one["value"] for one in captured["headers"]}
            body = base64.b64decode(line["payload_base64"])
            made.append(row(len(made), headers, captured["topic"], captured["key"].encode(), body))
            if len(made) % 7 == 0:  # some are wrong
                made[-1]["headers"] = made[-1]["headers"][1:]
    count, by_columns, looped = both(matcher, made)
    assert count > 700
    assert by_columns == looped


def test_rows_of_all_kinds():
    order = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {
            "type": {"value": "T"}, "source": {"value": "/s/{shop}"}, "subject": {"value": "{id}"}, "n": {"type": "integer"},
            "time": {"type": "timestamp", "required": True}, "datacontenttype": {"value": "application/json"},
        },
        "dataschemaformat": "JSONSchema/draft-07",
        "dataschema": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
    }  # fmt: skip
    on_kafka = {"basemessage": "/messagegroups/g/messages/m", "protocol": "KAFKA",
                "protocoloptions": {"key": {"value": "{id}"}, "headers": {"h": {"value": "{shop}"}}}}  # fmt: skip
    rows, schemas = load({"r": document({"g": group({"m": order}), "k": group({"k": on_kafka})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), Request())
    good = {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "T", "ce_source": "/s/eu", "ce_subject": "k",
            "ce_time": "2026-01-01T00:00:00Z", "content-type": "application/json; charset=utf-8", "h": "eu"}  # fmt: skip
    changes: list[dict[str, Any]] = [
        {}, {"ce_source": "/s/a b"}, {"ce_source": "/s/a/b"}, {"ce_subject": ""}, {"ce_time": "2026-02-30T00:00:00Z"},
        {"h": "us"},
        {"ce_time": "2024-02-29T23:59:60+01:00"}, {"ce_n": "7"}, {"ce_n": "7.5"}, {"ce_id": ""}, {"ce_id": None},
        {"ce_type": "t"},
        {"content-type": "text/plain"}, {"content-type": None}, {"ce_subject": "x" * 200}, {"ce_specversion": "0.3"},
        {"ce_source": "/s/%65u"}, {"content-encoding": "gzip"}, {"authorization": "Basic YTpi"},
        {"ce_datacontenttype": "text/plain"},
    ]  # fmt: skip
    made = []
    for change in changes:
        for body in (b'{"x": 1}', b"{}", b"", None, b"{"):
            made += [row(len(made) + at, good | change, payload=body) for at in range(70)]
            made += [row(len(made), good | change, key=None, payload=body)]
    count, by_columns, looped = both(matcher, made)
    assert count > 700
    assert by_columns == looped
    headers = row(0, good)["headers"]
    twice = [
        row(number, good) | {"headers": [*headers, {"key": "h", "value": b"us"}, {"key": "h", "value": b"eu"}]}
        for number in range(90)
    ]
    assert both(matcher, twice)[1:] == (by_loop(matcher, pa.RecordBatch.from_pylist(twice, schema=FROM_SPARK)),) * 2
    not_text = [row(number, good | {"x": b"\xff"}) for number in range(90)]
    assert both(matcher, not_text)[0] == 0


READING = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "T"}, "source": {"value": "/s/{room}"}, "subject": {"value": "{id}"}},
    "dataschemaformat": "JSONSchema/draft-07",
    "dataschema": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
}
BASE = "/messagegroups/g/messages/m"
GOOD = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s/eu", "subject": "k"}


def options_of(number: int, protocol: str, options: dict[str, str | None], captured: list[str], **more: Any) -> Any:
    """Give a row whose options stand in a map, as the adapters of MQTT bridges and of Event Hubs make it."""
    held = [(name, text) for name, text in options.items() if text is not None]
    known = [f"/protocoloptions/{name}" for name in captured]
    return row(number, {}) | {"protocol": protocol, "options": held, "captured": known, "key": None, "headers": None} | more


def changed(changes: list[dict[str, Any]], make: Any, bodies: Any = (b'{"x": 1}', b"{}", None)) -> list[Any]:
    """Make enough rows of each change for columns to be worth it, and one that is alone."""
    made: list[Any] = []
    for change in changes:
        for body in bodies:
            made += [make(len(made) + at, change, body) for at in range(70)]
    return [*made, make(len(made), {"id": "alone"}, b"{}")]


def test_mqtt_rows():
    on_mqtt = {"basemessage": BASE, "protocol": "MQTT/5.0",
               "protocoloptions": {"topic_name": {"value": "t/{room}"}, "qos": {"value": 1}, "retain": {"value": False},
                                   "user_properties": {"unit": {"value": "C"}},
                                   "message_expiry_interval": {"value": 60}}}  # fmt: skip
    older = on_mqtt | {"protocol": "MQTT/3.1.1", "protocoloptions": {"topic_name": {"value": "old/{room}"}}}
    told = document({"g": group({"m": READING}), "q": group({"q": on_mqtt}), "o": group({"o": older})})
    rows, schemas = load({"r": told})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), Request())
    plain = {
        "topic_name": "t/eu",
        "qos": "1",
        "retain": "false",
        "content_type": "application/json",
        "message_expiry_interval": "9",
    }
    names = ("topic_name", "qos", "retain", "content_type", "user_properties", "message_expiry_interval")

    def make(number: int, change: dict[str, Any], body: bytes | None) -> Any:
        options = plain | {name: change[name] for name in plain if name in change}
        named = GOOD | {"unit": "C"} | {name: text for name, text in change.items() if name not in plain}
        pairs = [{"key": name, "value": text.encode()} for name, text in named.items() if text is not None]
        pairs += [{"key": "unit", "value": b"F"}] * bool(change.get("twice"))
        return options_of(number, "MQTT/5.0", options, list(names), headers=pairs, payload=body)

    changes: list[dict[str, Any]] = [
        {}, {"qos": "0"}, {"qos": None}, {"retain": "true"}, {"message_expiry_interval": "61"}, {"topic_name": "t/us"},
        {"topic_name": "old/eu"}, {"topic_name": "t/eu/x"}, {"unit": "F"}, {"unit": None}, {"specversion": None}, {"id": None},
        {"specversion": None, "id": None}, {"type": None}, {"content_type": "application/cloudevents+json"},
        {"content_type": None}, {"content_type": "text/plain"}, {"datacontenttype": "text/plain"}, {"content-encoding": "gzip"},
        {"source": "/s/a b"}, {"authorization": "x"}, {"a/b": "1"},
    ]  # fmt: skip
    count, by_columns, looped = both(matcher, changed(changes, make))
    assert count > 1_200  # the rest has something to tell
    assert by_columns == looped
    assert {one["best"][0]["xid"][-1] for one in looped if one["best"]} == {"m", "q", "o"}
    repeated = [make(number, {"twice": "1"}, b"{}") for number in range(90)]  # any value of a name that repeats counts
    assert both(matcher, repeated)[1] == both(matcher, repeated)[2]


def test_amqp_rows():
    on_amqp = {"basemessage": BASE, "protocol": "AMQP/1.0",
               "protocoloptions": {"properties": {"subject": {"value": "S"}},
                                   "application-properties": {"shop": {"value": "{room}"}},
                                   "header": {"durable": {"value": True}}}}  # fmt: skip
    alone = {"protocol": "AMQP/1.0", "protocoloptions": {"properties": {"subject": {"value": "alone"}}}}
    rows, schemas = load({"r": document({"g": group({"m": READING}), "q": group({"q": on_amqp, "alone": alone})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), Request())
    plain = {"properties/subject": "S", "properties/content-type": "application/json"}
    names = ["application-properties", "properties/content-type", "properties/subject"]

    def make(number: int, change: dict[str, Any], body: bytes | None) -> Any:
        prefix = "cloudEvents_" if number % 2 else "cloudEvents:"
        named = GOOD | {name: text for name, text in change.items() if name in GOOD or name == "datacontenttype"}
        own = {f"application-properties/{prefix}{name}": text for name, text in named.items()}
        rest = {name: text for name, text in change.items() if "/" in name}
        return options_of(number, "AMQP/1.0", plain | own | {"application-properties/shop": "eu"} | rest, names, payload=body)

    changes: list[dict[str, Any]] = [
        {}, {"properties/subject": "other"}, {"properties/subject": None}, {"properties/subject": "alone"}, {"type": None},
        {"application-properties/shop": "us"}, {"application-properties/shop": None}, {"properties/content-type": None},
        {"properties/content-type": "application/cloudevents+json"}, {"properties/content-encoding": "gzip"}, {"id": ""},
        {"application-properties/cloudEvents_source": "/s/us", "application-properties/cloudEvents:source": "/s/eu"},
        {"datacontenttype": "text/plain"}, {"source": "/t"},
    ]  # fmt: skip
    count, by_columns, looped = both(matcher, changed(changes, make))
    assert count > 600
    assert by_columns == looped
