"""Columns are the row loop, quicker: the same results for the same rows, whatever the batch."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from builders import document, group

from lakehouse.dialects.tables import PROTOCOLS
from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.matcher import PLACE, RESULT_SCHEMA
from lakehouse.match.vectorized.batch import match_batch, match_columns, match_row
from lakehouse.match.vectorized.columns import BINDINGS
from match.catalogs import SAMPLES, load, pairs_of, samples

PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
LANDED = pa.schema(
    [
        ("ordinal", pa.int32()), ("place", PLACE), ("source", pa.string()), ("partition", pa.int64()), ("offset", pa.int64()),
        ("row", pa.int64()), ("landed_at", pa.timestamp("us", "UTC")), ("protocol", pa.string()),
        ("ce", PAIRS), ("options", PAIRS),
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
    pairs = pairs_of({name: text.encode() if isinstance(text, str) else text for name, text in headers.items()})
    place = {"file": "f", "block": 0, "position": number}
    landed_at = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return {"ordinal": 0, "place": place, "landed_at": landed_at, "source": topic, "partition": 0, "offset": number,
            "protocol": "KAFKA", "options": pairs_of({"topic": topic}), "headers": pairs, "key": key, "captured": KNOWN,
            "payload": payload}  # fmt: skip


def by_loop(matcher: Matcher, batch: pa.RecordBatch) -> list[dict[str, Any]]:
    reported = [found for one in batch.to_pylist() for found in match_row(matcher, one)]
    return pa.RecordBatch.from_pylist(reported, schema=RESULT_SCHEMA).to_pylist()


def both(matcher: Matcher, rows: list[Any]) -> tuple[int, list[Any], list[Any]]:
    """Return how many rows went through columns, and the results of both ways, in one order."""
    batch = pa.RecordBatch.from_pylist(rows, schema=FROM_SPARK)
    quick, left = match_columns(matcher, batch)
    by_columns = [one for part in quick for one in part.to_pylist()] + by_loop(matcher, left)
    order = lambda one: one["event_ref"]["offset"]  # noqa: E731
    return batch.num_rows - left.num_rows, sorted(by_columns, key=order), sorted(by_loop(matcher, batch), key=order)


@pytest.mark.skipif(not (SAMPLES / "events").is_dir(), reason="the published samples are not next to this checkout")
@pytest.mark.parametrize("share", [0, 1])
def test_published_messages(share):
    rows, schemas = samples("feeds")
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest(payload_share=share))
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


@pytest.mark.slow
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
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
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
    # a row that is not UTF-8, or has many names, or a name that is none, costs no other
    hostile = [{"x": b"\xff"}, {f"h{number}": "x" for number in range(500)}, {None: "x"}]
    mixed = [row(number, good | (hostile[number] if number < 3 else {})) for number in range(90)] + [row(90, good, key=b"\xff")]
    count, by_columns, looped = both(matcher, mixed)
    assert count == 89  # the row whose header is no text, and the one whose key is none, have something to report
    assert by_columns == looped
    assert [one["status"] for one in looped[:3]] == ["unreadable", "matched", "matched"]


def test_a_tombstone_costs_no_other_row():
    attributes = {"type": {"value": "T"}}
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
    message = {"envelope": "CloudEvents/1.0", "envelopemetadata": attributes, "dataschemaformat": "JSONSchema/draft-07",
               "dataschema": schema}  # fmt: skip
    rows, schemas = load({"r": document({"g": group({"m": message})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    good = {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "T", "ce_source": "/s", "content-type": "application/json"}
    made = [row(number, good, payload=b'{"x": 1}' if number < 90 else None) for number in range(91)]
    count, by_columns, looped = both(matcher, made)
    assert (count, by_columns) == (91, looped)
    assert [one["payload_status"] for one in looped] == ["valid"] * 90 + ["none"]


@pytest.mark.parametrize(
    ("declared", "key", "count"),
    [
        ({"value": "/w=="}, b"\xff", 100), ({"value": "/w=="}, b"\xfe", 100), ({"value": "aw=="}, b"k", 100),
        ({"type": "binary", "value": "{code}"}, b"\xff", 100),
        ({"required": True}, b"\xff", 0), ({"required": True}, None, 0),  # what the other misses is reported
    ],
)  # fmt: skip
def test_keys_in_base64(declared, key, count):
    """A key that is no UTF-8 is there, too (MSG-368)."""
    base = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}}}
    by_key = base | {"protocol": "KAFKA", "protocoloptions": {"key_base64": declared}}
    other = base | {"protocol": "KAFKA", "protocoloptions": {"key_base64": {"value": "/g=="}}}
    rows, schemas = load({"r": document({"g": group({"k": by_key, "o": other})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    headers = {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "T", "ce_source": "/s"}
    quick, by_columns, looped = both(matcher, [row(number, headers, key=key) for number in range(100)])
    assert by_columns == looped
    assert (quick, looped[0]["status"]) == (count, "matched" if key else "unmatched")


def test_placeholders_that_may_hold_a_secret_are_blanked():
    options = {"headers": {"x-api-key": {"value": "{k}"}, "h": {"value": "{shop}"}, "i": {"value": "{token}"}}}
    written = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}},
               "protocol": "KAFKA", "protocoloptions": options}  # fmt: skip
    rows, schemas = load({"r": document({"g": group({"m": written})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    named = {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "T", "ce_source": "/s", "h": "eu"}
    made = [row(number, named | {"x-api-key": f"a{number}", "i": f"b{number}"}) for number in range(90)]
    count, by_columns, looped = both(matcher, made)
    assert count == 90
    assert by_columns == looped
    assert {tuple(sorted(one["variables"])) for one in looped} == {(("k", "REDACTED"), ("shop", "eu"), ("token", "REDACTED"))}


READING = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "T"}, "source": {"value": "/s/{room}"}, "subject": {"value": "{id}"}},
    "dataschemaformat": "JSONSchema/draft-07",
    "dataschema": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}},
}
BASE = "/messagegroups/g/messages/m"
GOOD = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s/eu", "subject": "k"}


def options_of(number: int, protocol: str, options: dict[str, str | None], captured: list[str], **more: Any) -> Any:
    """Return a row whose options are pairs, as the adapters of MQTT bridges and of Event Hubs make it."""
    known = [f"/protocoloptions/{name}" for name in captured]
    return (
        row(number, {})
        | {"protocol": protocol, "options": pairs_of(options), "captured": known, "key": None, "headers": None}
        | more
    )


def changed(changes: list[dict[str, Any]], make: Any, bodies: Any = (b'{"x": 1}', b"{}", None)) -> list[Any]:
    """Make enough rows of each change for columns to be worth it, and one that is alone."""
    made: list[Any] = []
    for change in changes:
        for body in bodies:
            made += [make(len(made) + at, change, body) for at in range(70)]
    return [*made, make(len(made), {"id": "alone"}, b"{}")]


@pytest.mark.slow
def test_mqtt_rows():
    on_mqtt = {"basemessage": BASE, "protocol": "MQTT/5.0",
               "protocoloptions": {"topic_name": {"value": "t/{room}"}, "qos": {"value": 1}, "retain": {"value": False},
                                   "user_properties": {"unit": {"value": "C"}},
                                   "message_expiry_interval": {"value": 60}}}  # fmt: skip
    older = on_mqtt | {"protocol": "MQTT/3.1.1", "protocoloptions": {"topic_name": {"value": "old/{room}"}}}
    reported = document({"g": group({"m": READING}), "q": group({"q": on_mqtt}), "o": group({"o": older})})
    rows, schemas = load({"r": reported})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
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
    assert count > 1_200  # the rest has something to report
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
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
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


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "timestamp", "required": True}, {"required": True}, {"value": "{at}"}, {"value": "2025-01-01T00:00:00Z"},
        {"type": "timestamp", "value": "{day}T00:00:00Z"},
    ],
)  # fmt: skip
def test_amqp_times_that_are_digits_in_columns_of_texts_are_timestamps(declared):
    """Event Hubs Capture writes the type of AMQP for times as a number."""
    reading = READING | {"envelopemetadata": READING["envelopemetadata"] | {"time": declared}}
    on_amqp = {"basemessage": BASE, "protocol": "AMQP/1.0",
               "protocoloptions": {"application-properties": {"seen": {"type": "timestamp", "required": True}}}}  # fmt: skip
    rows, schemas = load({"r": document({"g": group({"m": reading}), "q": group({"q": on_amqp})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())

    def make(number: int, change: dict[str, Any], body: bytes | None) -> Any:
        named = GOOD | {"time": "1735689600000", "seen": "1735689600123"} | change
        own = {f"application-properties/{'' if name == 'seen' else 'cloudEvents:'}{name}": text for name, text in named.items()}
        return options_of(number, "AMQP/1.0", own, ["application-properties"], payload=body)

    count, by_columns, looped = both(matcher, [make(number, {}, b'{"x": 1}') for number in range(100)])
    assert count == 100
    assert by_columns == looped
    assert {(one["status"], one["best"][0]["xid"][-1], len(one["deviations"])) for one in looped} == {("matched", "q", 0)}
    held = {"{at}": {"at": "2025-01-01T00:00:00Z"}, "{day}T00:00:00Z": {"day": "2025-01-01"}}
    assert held.get(declared.get("value"), {}).items() <= dict(looped[0]["variables"]).items()
    for wrong in ("1735689600000000000", "-1735689600000", "noon"):
        [row, *_] = both(matcher, [make(0, {"seen": wrong}, None)])[2]
        assert row["best"][0]["xid"].endswith("/m")


STRUCTURED: list[dict[str, Any]] = [
    {}, {"data": {}}, {"data": "text"}, {"data": '{"x": 1}'}, {"data": None}, {"data": 1}, {"id": 7}, {"id": None}, {"id": ""},
    {"type": 7}, {"type": "other"}, {"source": ["/s/eu"]}, {"source": "/s/a b"}, {"subject": 5}, {"subject": "x" * 200},
    {"n": 7}, {"n": "7"}, {"n": "seven"}, {"n": 2**40}, {"further": {"a": 1}}, {"datacontenttype": "text/plain"},
    {"datacontenttype": 5}, {"specversion": "0.3"}, {"specversion": 1.0}, {"data_base64": "eyJ4IjogMX0=", "data": None},
    {"data_base64": "no base64!"}, {"data_base64": 7}, {"data_base64": None}, {"captured": {}}, {"log": {}},
]  # fmt: skip


def structured(change: dict[str, Any], *gone: str) -> bytes:
    event = GOOD | {"datacontenttype": "application/json", "data": {"x": 1}} | change
    return json.dumps({name: value for name, value in event.items() if name not in gone}).encode()


UNTYPED = structured({"data_base64": "eyJ4IjogMX0="}, "data", "datacontenttype")  # bytes of which nothing says that they are JSON


def structured_matcher() -> Matcher:
    reading = READING | {"envelopemetadata": READING["envelopemetadata"] | {"n": {"type": "integer"}}}
    asked = {
        "kafka": {"basemessage": BASE, "protocol": "KAFKA", "protocoloptions": {"topic": {"value": "t"}}},
        "mqtt": {"basemessage": BASE, "protocol": "MQTT/5.0", "protocoloptions": {"topic_name": {"value": "t/{room}"}},
                 "datacontenttype": "application/cloudevents+json"},
        "amqp": {"basemessage": BASE, "protocol": "AMQP/1.0", "protocoloptions": {"properties": {"subject": {"value": "S"}}},
                 "datacontenttype": "application/json"},
    }  # fmt: skip
    rows, schemas = load({"r": document({"g": group({"m": reading})} | {name: group({name: asked[name]}) for name in asked})})
    return Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())


@pytest.mark.parametrize("protocol", ["KAFKA", "MQTT/5.0", "AMQP/1.0"])
def test_structured_rows(protocol):
    kinds = ["application/cloudevents+json; charset=utf-8", "Application/CloudEvents", "application/cloudevents+avro",
             "application/cloudevents-batch+json"]  # fmt: skip
    bodies = [structured(change) for change in STRUCTURED]
    bodies += [structured({}, "type"), structured({}, "data"), structured({}, "datacontenttype"), UNTYPED, b"[]", b"{", b"", None]
    made: list[Any] = []
    for kind in kinds:
        for body in bodies if kind == kinds[0] else bodies[:3]:
            for _ in range(30):
                number = len(made)
                if protocol == "KAFKA":
                    made.append(row(number, {"content-type": kind, "ce_type": "ignored"}, payload=body))
                else:
                    reported = {"MQTT/5.0": {"topic_name": "t/eu", "content_type": kind},
                            "AMQP/1.0": {"properties/subject": "S", "properties/content-type": kind}}[protocol]  # fmt: skip
                    headers = [] if protocol == "MQTT/5.0" else None
                    made.append(
                        options_of(number, protocol, reported, [*reported, "user_properties"], headers=headers, payload=body)
                    )
    count, by_columns, looped = both(structured_matcher(), made)
    assert count >= 400  # the rest has something to report
    assert by_columns == looped
    assert {one["mode"] for one in by_columns if one["status"] == "matched"} == {"structured"}
    assert {"valid", "invalid"} <= {one["payload_status"] for one in by_columns}


@pytest.mark.parametrize("protocol", [None, "KAFKA", "MQTT/3.1.1", "AMQP/1.0", "HTTP"])
def test_lines(protocol):
    texts = [structured(change) for change in STRUCTURED]
    texts += [structured({}, "type"), structured({}, "specversion"), b"[" + structured({}) + b"]", UNTYPED, b"{", b"7"]
    empty = dict.fromkeys(FROM_SPARK.names)
    made = [
        empty | {"source": "f", "partition": 0, "row": number, "offset": number, "line": text, "protocol": protocol}
        for number, text in enumerate(texts * 30)
    ]
    count, by_columns, looped = both(structured_matcher(), made)
    assert count >= (0 if protocol == "MQTT/3.1.1" else 300)  # another version deviates
    assert by_columns == looped
    assert {one["protocol"] for one in by_columns if one["status"] == "matched"} == {protocol}


@pytest.mark.parametrize("is_line", [True, False])
def test_integers_of_any_size_are_compared_to_the_last_digit(is_line):
    big = 123456789012345678901234567890
    schema = {"dataschemaformat": "JSONSchema/draft-07", "dataschema": {"properties": {"x": {"const": big}}}}
    written = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}, "n": {"type": "number"}}}
    rows, schemas = load({"r": document({"g": group({"m": written | schema})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    changes: list[dict[str, Any]] = [{"data": {"x": big}}, {"data": {"x": big + 1}}, {"n": big}, {"further": {"n": big}}]
    made: list[Any] = []
    for number, change in enumerate(changes * 40):
        text = structured({"source": "/s", **change})
        made.append(row(number, {"content-type": "application/cloudevents+json"}, payload=text))
        if is_line:
            made[-1] = dict.fromkeys(FROM_SPARK.names) | {"source": "f", "partition": 0, "row": number, "offset": number,
                                                          "line": text}  # fmt: skip
    _, by_columns, looped = both(matcher, made)
    assert by_columns == looped
    assert [one["payload_status"] for one in looped[:2]] == ["valid", "invalid"]
    binary = {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "T", "ce_source": "/s", "content-type": "application/json"}
    bodies = [row(number, binary, payload=b'{"x": %d}' % (big + number % 2)) for number in range(80)]
    count, by_columns, looped = both(matcher, bodies)
    assert count == 80
    assert by_columns == looped
    assert [one["payload_status"] for one in looped[:2]] == ["valid", "invalid"]


def test_many_types_and_many_values():
    """Small groups that ask alike, and large ones, are looked at by kernels: what is odd still comes out as in the loop."""
    asked = {"subject": {"value": "{id}"}, "time": {"type": "timestamp", "required": True}, "who": {"type": "string"},
             "at": {"value": "{place}/{id}", "type": "uritemplate"}}  # fmt: skip
    messages = {
        f"m{number}": READING
        | {"envelopemetadata": asked | {"type": {"value": f"T{number}"}, "source": {"value": "/s/{room}/x"}}}
        for number in range(5)
    }
    rows, schemas = load({"r": document({"g": group(messages)})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    odd = [{}] * 20 + [
        {"ce_source": "/s//x"}, {"ce_source": "/s/a/y"}, {"ce_source": "/s/a%20/x"}, {"ce_source": "/s/a b/x"}, {"ce_id": ""},
        {"ce_subject": ""}, {"ce_subject": "x" * 121}, {"ce_subject": "1"}, {"ce_time": "2024-02-30T00:00:00Z"},
        {"ce_time": "2024-02-29T00:00:00Z"}, {"ce_who": "a\x00"}, {"ce_who": ""}, {"ce_who": None}, {"ce_at": "a b/1"},
        {"ce_at": "1"},
    ]  # fmt: skip
    made = []
    for number in range(4_000):
        kind = number % 4 if number < 700 else 4
        good = {"ce_specversion": "1.0", "ce_id": f"i{number}", "ce_type": f"T{kind}", "ce_source": f"/s/r{number}/x",
                "ce_subject": str(number), "ce_time": f"2026-01-01T00:00:{number % 60:02}.{number}Z", "ce_who": f"w{number}",
                "ce_at": f"p{number}/{number}"}  # fmt: skip
        made.append(row(number, good | odd[number % len(odd)], payload=b'{"x": 1}'))
    count, by_columns, looped = both(matcher, made)
    assert count > 2_500
    assert by_columns == looped
    alike = [one for one in made if len(one["headers"]) == 8]  # the same headers in the same order
    part = pa.RecordBatch.from_pylist(alike, schema=FROM_SPARK).slice(13, 2_000)
    quick, left = match_columns(matcher, part)
    reported = [one for found in quick for one in found.to_pylist()] + by_loop(matcher, left)
    offsets = {one["offset"] for one in alike[13:2_013]}
    assert left.num_rows < 800
    assert sorted(reported, key=lambda one: one["event_ref"]["offset"]) == [
        one for one in looped if one["event_ref"]["offset"] in offsets
    ]


def test_types_that_ask_alike_go_together():
    """Rows of many types are matched at once; what they are of and what their schemas say is reported for each type."""
    whole, part = ({"type": "object", "properties": {"x": {"type": name}}} for name in ("integer", "string"))

    def reading(number: int, **more: Any) -> dict[str, Any]:
        reported = READING | {"envelopemetadata": READING["envelopemetadata"] | {"type": {"value": f"T{number}"}}}
        return reported | {"dataschema": part if number % 3 else whole} | more

    def on_kafka(number: int) -> dict[str, Any]:
        base = f"/messagegroups/g/messages/m{number}"
        return {"basemessage": base, "protocol": "KAFKA", "protocoloptions": {"topic": {"value": "t" if number % 5 else "other"}}}

    first = document({
        "g": group({f"m{number}": reading(number) for number in range(30)}),
        "a": group({f"k{number}": on_kafka(number) for number in range(0, 30, 2)}),
        "z": group({f"twin{number}": reading(number) for number in (3, 4)}),  # the same again: ambiguous
    })  # fmt: skip
    second = document({"g": group({f"n{99 - number}": reading(number, deprecated={}) for number in range(0, 30, 4)})})
    rows, schemas = load({"r": first, "b": second})
    for one in rows:
        one["deprecated"] = one["registryid"] == "b"
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    bodies = [b'{"x": 1}', b'{"x": "a"}', b"{", b"", None]
    made = []
    for number in range(1_500):
        at = number % 32  # two types that nobody declares
        good = {"ce_specversion": "1.0", "ce_id": str(number), "ce_type": f"T{at}", "ce_source": f"/s/r{number % 7}",
                "ce_subject": f"k{number}", "content-type": "application/json"}  # fmt: skip
        made.append(row(number, good | ({"ce_source": "/elsewhere"} if number % 11 == 0 else {}), payload=bodies[number % 5]))
    count, by_columns, looped = both(matcher, made)
    assert count > 900
    assert by_columns == looped
    assert {one["status"] for one in looped} == {"matched", "ambiguous", "unmatched"}
    assert {one["payload_status"] for one in looped} == {"valid", "invalid", "undecodable", "none", "not_checked"}
    few = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest(payload_share=0, with_values=False))
    assert both(few, made)[1] == both(few, made)[2]


def test_a_failure_is_reported_in_its_own_row(monkeypatch):
    matcher = structured_matcher()
    made = [row(number, {"ce_type": "T" if number else "fails"}) for number in range(3)]
    batch = pa.RecordBatch.from_pylist(made, schema=FROM_SPARK)
    candidates = matcher.index.candidates
    monkeypatch.setattr(
        matcher.index, "candidates", lambda event, **how: candidates(event, **how) if event.ce["type"] == "T" else 1 / 0
    )
    reported = [one for part in match_batch(matcher, batch) for one in part.to_pylist()]
    assert [one["status"] for one in reported] == ["unreadable", "unmatched", "unmatched"]
    assert reported[0]["why"] == "row: it cannot be matched (ZeroDivisionError)"
    many = [row(number, {"ce_type": "fails" if number < 70 else "T"}) for number in range(140)]
    reported = [
        one for part in match_batch(matcher, pa.RecordBatch.from_pylist(many, schema=FROM_SPARK)) for one in part.to_pylist()
    ]
    assert [one["status"] for one in reported] == ["unreadable"] * 70 + ["unmatched"] * 70


def test_columns_read_cloudevents_of_each_protocol_whose_attributes_are_not_encoded():
    plain = {one.family for one in PROTOCOLS.values() if one.ce_attributes and not one.ce_encoding}
    assert {one.family for one in BINDINGS} == plain == {"KAFKA", "MQTT", "AMQP"}
    amqp = next(one for one in BINDINGS if one.family == "AMQP")
    assert (amqp.protocol, amqp.prefixes, amqp.in_pairs) == ("AMQP/1.0", ("cloudEvents:", "cloudEvents_"), False)
    assert (amqp.content_encoding, amqp.address, amqp.discriminator) == (
        "properties/content-encoding",
        "properties/to",
        "properties/subject",
    )
