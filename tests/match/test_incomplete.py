"""Definitions whose chain of bases is not whole: they keep too little to say which events are of them."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from builders import document, group
from click.testing import CliRunner

from lakehouse.cli.main import cli
from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas, SchemaVersion
from lakehouse.match.event.captured import landed_of_text
from lakehouse.match.matcher import RESULT_SCHEMA
from lakehouse.match.vectorized.batch import match_columns, match_row
from match.catalogs import load
from match.stored import write_catalog
from match.test_columns import FROM_SPARK, by_loop, row

ORDER = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.Order"}, "source": {"value": "/shop/{id}"}}}
GONE = "/messagegroups/g/messages/gone"
ON_AMQP = {
    "basemessage": GONE,
    "protocol": "AMQP/1.0",
    "protocoloptions": {"application-properties": {"region": {"value": "eu"}}},
}
ON_MQTT = {"basemessage": GONE, "protocol": "MQTT/5.0", "protocoloptions": {"topic_name": {"value": "orders/{id}"}}}
MESSAGES = {"order": ORDER, "amqp": ON_AMQP, "mqtt": ON_MQTT}
GOOD = {"specversion": "1.0", "id": "1", "type": "shop.Order", "source": "/shop/eu"}
EVENTS = [
    *(GOOD | {"id": str(number)} for number in range(4)),
    GOOD | {"type": "shop.order"}, GOOD | {"type": "other.Thing"}, GOOD | {"source": "/else"},
    {name: text for name, text in GOOD.items() if name != "id"},
]  # fmt: skip


def matcher_of(messages: dict[str, Any], status: str = "dangling") -> Matcher:
    rows: list[dict[str, Any]]
    schemas: list[SchemaVersion]
    rows, schemas = load({"r": document({"g": group(messages)})})
    for one in rows:
        one["chain_status"] = status if one["chain_status"] == "dangling" else one["chain_status"]
    return Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())


def reported(matcher: Matcher, event: dict[str, Any], protocol: str | None = None) -> dict[str, Any]:
    [landed] = landed_of_text(json.dumps(event).encode(), protocol)
    [found] = matcher.rows(landed)
    return found


@pytest.mark.parametrize("status", ["dangling", "external", "too_deep", "cycle"])
def test_a_variant_without_its_base_matches_nothing(status):
    found = [reported(matcher_of(MESSAGES, status), event) for event in EVENTS]
    assert [one["status"] for one in found] == ["matched"] * 4 + ["unmatched", "incomplete", "unmatched", "unmatched"]
    assert all(
        one["best"] == one["matches"] == [{"registryid": "r", "xid": "/messagegroups/g/messages/order"}] for one in found[:4]
    )
    assert {one["nearest_xid"] for one in found[4:] if one["status"] == "unmatched"} == {"/messagegroups/g/messages/order"}
    assert [one["reasons"][0]["pointer"] for one in found[4:]] == [
        "/envelopemetadata/type", "/envelopemetadata/type", "/envelopemetadata/source", "/envelopemetadata/id",
    ]  # fmt: skip
    assert found[5]["remarks"][1:] == [f"incomplete: /messagegroups/g/messages/amqp: its chain of bases is {status}"]
    assert found[5]["best"] == found[5]["matches"] == []
    assert found[5]["xid"] is None


def test_a_value_that_it_declares_leaves_an_event_open():
    captured = {"topic_name": "orders/eu", "user_properties": GOOD | {"type": "shop.order"}}
    found = reported(matcher_of(MESSAGES), {"protocol": "MQTT/5.0", "captured": captured})
    assert found["status"] == "incomplete"
    assert found["nearest_xid"] == "/messagegroups/g/messages/order"
    assert found["remarks"][1:] == ["incomplete: /messagegroups/g/messages/mqtt: its chain of bases is dangling"]
    captured |= {"topic_name": "elsewhere"}
    assert reported(matcher_of(MESSAGES), {"protocol": "MQTT/5.0", "captured": captured})["status"] == "unmatched"


def test_it_does_not_come_nearest():
    near = {"basemessage": GONE, "envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.ordeR"}}}
    far = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "else.ordeR"}}}
    found = reported(matcher_of({"near": near, "far": far}), GOOD | {"type": "shop.order"})
    assert found["status"] == "unmatched"
    assert found["nearest_xid"] == "/messagegroups/g/messages/far"
    matched = reported(matcher_of({"order": ORDER, "kafka": {**ORDER, **ON_MQTT, "protocol": "KAFKA"}}), GOOD, "KAFKA")
    assert matched["status"] == "matched"
    assert matched["nearest_xid"] is None


def test_columns_report_the_same():
    matcher = matcher_of(
        {"order": ORDER, "kafka": {"basemessage": GONE, "protocol": "KAFKA", "protocoloptions": {"topic": {"value": "t"}}}}
    )
    kinds = ["shop.Order", "shop.order", "other.Thing"]
    made: list[Any] = [
        row(number, {"ce_specversion": "1.0", "ce_id": "1", "ce_type": kinds[number % 3], "ce_source": "/shop/eu"})
        for number in range(300)
    ]
    batch = pa.RecordBatch.from_pylist(made, schema=FROM_SPARK)
    quick, left = match_columns(matcher, batch)
    assert sum(part.num_rows for part in quick) == 100
    assert left.num_rows == 200
    assert all(one["xid"].endswith("/order") for part in quick for one in part.to_pylist())
    looped = by_loop(matcher, batch)
    assert [one["status"] for one in looped] == ["matched", "incomplete", "incomplete"] * 100
    assert looped[1]["why"] == "/messagegroups/g/messages/kafka: its chain of bases is dangling"
    assert pa.RecordBatch.from_pylist(
        [one for made_row in batch.to_pylist() for one in match_row(matcher, made_row)], RESULT_SCHEMA
    )


def test_the_command_counts_it(tmp_path: Path):
    warehouse = write_catalog(tmp_path / "w", {"r": document({"g": group(MESSAGES)})})
    file = tmp_path / "events.jsonl"
    file.write_text("\n".join(map(json.dumps, EVENTS)))
    run = partial(CliRunner().invoke, cli, standalone_mode=False)
    command = ["match", "--warehouse", warehouse, "--one", str(file)]
    shown = run(command).stdout.splitlines()
    counts = Counter(line.split()[0] for line in shown if line and not line.startswith(" "))
    assert counts == {"matched": 4, "unmatched": 3, "incomplete": 1}
    assert run([*command, "--fail-on", "incomplete"]).return_value == 3
    file.write_text(json.dumps(EVENTS[5]))
    assert run([*command, "--fail-on", "unmatched"]).return_value == 3  # nothing that is whole matches it
    explained = run([*command, "--explain"]).stdout
    assert "amqp  (registry r): does not match" in explained
    assert "unknown: the chain is dangling" in explained
