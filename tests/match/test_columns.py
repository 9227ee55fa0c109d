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
