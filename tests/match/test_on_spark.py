"""Matching on Spark: sources of several shapes give the same results; tables, views and streams hold them once."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from builders import document, group

from lakehouse.errors import SettingsError
from lakehouse.expectations.validation import validate
from lakehouse.match.conformance import all_runs, open_named_in
from lakehouse.match.definition.scope import Scope
from lakehouse.match.distributed import large_batches, match
from lakehouse.match.matcher import MatchRequest
from lakehouse.match.runs import MatchOptions, MatchSummary, read_landed, run_match, watch
from lakehouse.query.sql import run_query
from match.test_costly import HANGING

ORDER = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {
        "type": {"value": "shop.Order"},
        "source": {"value": "/shops/{shop}"},
        "subject": {"value": "{orderid}"},
    },
    "dataschemaformat": "JSONSchema/draft-07",
    "dataschema": {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}},
}
ON_KAFKA = {
    "basemessage": "/messagegroups/shop/messages/Order",
    "protocol": "KAFKA",
    "protocoloptions": {"topic": {"value": "orders"}, "key": {"value": "{orderid}"}},
}
SHOP = document({"shop": group({"Order": ORDER}), "shop.kafka": group({"OrderOnKafka": ON_KAFKA})})
BEST = [{"registryid": "default", "xid": "/messagegroups/shop.kafka/messages/OrderOnKafka"}]


def attributes(number: int, **changed: str) -> dict[str, str]:
    made = {"specversion": "1.0", "id": str(number), "type": "shop.Order", "source": "/shops/eu", "subject": f"o{number}"}
    return {name: text for name, text in (made | changed).items() if text}


def kafka_row(number: int, data: Any, topic: str = "orders", **changed: str) -> tuple[Any, ...]:
    headers = [(f"ce_{name}", text.encode()) for name, text in attributes(number, **changed).items()]
    headers.append(("content-type", b"application/json"))
    return (f"o{number}".encode(), json.dumps(data).encode(), topic, 0, number, headers)


def captured(row: tuple[Any, ...]) -> dict[str, Any]:
    key, value, topic, partition, _, headers = row
    pairs = [{"name": name, "value": text.decode()} for name, text in headers]
    options = {"topic": topic, "partition": partition, "key": key.decode(), "headers": pairs}
    return {"protocol": "KAFKA", "captured": options, "payload_base64": base64.b64encode(value).decode()}


KAFKA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
ROWS = [
    kafka_row(0, {"total": 1}),
    kafka_row(1, {"total": "1"}),
    kafka_row(2, {"total": 2}, topic="orders.v2"),
    kafka_row(3, {"total": 3}, type="shop.order"),
    kafka_row(4, {"total": 4}, subject="o5"),
    kafka_row(5, {}, source=""),
]
EXPECTED = ["matched", "matched", "matched", "unmatched", "matched", "unmatched"]


@pytest.fixture
def shop(catalog):
    catalog.write("shop.json", SHOP)
    catalog.ingest()
    return catalog


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


def match_lines(shop, tmp_path, into: str) -> tuple[MatchSummary, list[dict]]:
    """Match the captured lines, and one that is no JSON, into a schema; return the summary and the results."""
    text = tmp_path / "captured.jsonl"
    text.write_text("".join(json.dumps(captured(row)) + "\n" for row in ROWS) + "no JSON\n")
    options = MatchOptions((str(text),), results=str(tmp_path / "one.jsonl"), into=into)
    return run_match(shop.spark, shop.settings, options), lines(tmp_path / "one.jsonl")


def test_lines(shop, tmp_path):
    summary, reported = match_lines(shop, tmp_path, "lines")
    # in the order of the input, and what is no event is reported too
    assert [row["row"] for row in reported] == list(range(7))
    assert [row["status"] for row in reported] == [*EXPECTED, "unreadable"]
    assert [row["best"] for row in reported[:2]] == [BEST, BEST]
    assert [row["payload_status"] for row in reported[:3]] == ["valid", "invalid", "valid"]
    assert reported[1]["payload_errors"][0]["pointer"] == "/total"
    assert reported[0]["variables"] == {"shop": "eu", "orderid": "o0"}
    # another topic: the base matches, and the variant for Kafka says what it misses
    assert reported[2]["best"] == [{"registryid": "default", "xid": "/messagegroups/shop/messages/Order"}]
    assert [(one["pointer"], one["expected"], one["actual"]) for one in reported[2]["reasons"]] == [
        ("/protocoloptions/topic", "orders", "orders.v2")
    ]
    assert [one["pointer"] for one in reported[3]["reasons"]] == ["/envelopemetadata/type"]
    assert {one["pointer"] for one in reported[4]["reasons"]} == {"/protocoloptions/key", "/envelopemetadata/subject"}
    assert [one["pointer"] for one in reported[5]["reasons"]] == ["/envelopemetadata/source"]
    counted = summary.as_json()
    assert (counted["read"], counted["matched"], counted["unmatched"], counted["unreadable"]) == (7, 4, 2, 1)
    assert counted["payloads"] == {"invalid": 1, "valid": 3}


@pytest.mark.slow
def test_kafka_rows_tables_and_the_suite(shop, tmp_path):
    spark, settings = shop.spark, shop.settings
    _, reported = match_lines(shop, tmp_path, "conformance")

    # Kafka as Spark lands it
    landed = spark.createDataFrame(ROWS, KAFKA)
    landed.write.format("delta").save(str(tmp_path / "landed"))
    landed.drop("headers").write.parquet(str(tmp_path / "bare"))
    run_match(spark, settings, MatchOptions((str(tmp_path / "landed"),), results=str(tmp_path / "two.jsonl"), into="conformance"))
    assert [without(row, "row") for row in lines(tmp_path / "two.jsonl")] == [without(row, "row") for row in reported[:6]]
    bare = run_match(spark, settings, MatchOptions((str(tmp_path / "bare"),))).as_json()
    assert bare["unreadable"] == 6
    assert "includeHeaders" in bare["why"][0]["why"]

    # tables and views
    runs = query(shop, "SELECT read, matched, unmatched, unreadable FROM conformance.match_runs ORDER BY read")
    assert runs == [(6, 4, 2, 0), (7, 4, 2, 1)]
    producers = query(
        shop, "SELECT ce_source, sum(events), sum(invalid) FROM conformance.conformance_by_producer GROUP BY 1 ORDER BY 1"
    )
    assert producers == [(None, 2, 0), ("/shops/eu", 10, 2)]
    seen = query(shop, "SELECT xid, sum(events) FROM conformance.conformance_by_message GROUP BY 1 ORDER BY 1")
    assert seen == [("/messagegroups/shop.kafka/messages/OrderOnKafka", 4), ("/messagegroups/shop/messages/Order", 4)]
    undeclared = query(shop, "SELECT why, events FROM conformance.undeclared_messages ORDER BY 1")
    assert undeclared == [("source: absent, declared /shops/{shop}", 2), ("type shop.order: letter case, declared shop.Order", 2)]
    predicates = query(
        shop, "SELECT pointer, value FROM conformance.match_predicates WHERE xid LIKE '%OrderOnKafka' AND is_template"
    )
    assert ("/protocoloptions/key", '"{orderid}"') in predicates

    # the suite over the runs of all schemas of results
    extra_tables = {"match_runs": partial(all_runs, settings=settings)}
    validation = validate(spark, settings, lambda *_: spark.range(0), {}, suites=["match_runs"], extra_tables=extra_tables)
    failed = [(one["name"], one["severity"], one["unexpected"], one["error"]) for one in validation.as_json()["failed"]]
    wanted = ("most_events_match", "events_can_be_read", "most_payloads_are_valid")
    assert failed == [(name, "info", 1, None) for name in wanted]
    assert (validation.has_findings, validation.skipped) == (False, [])
    assert validate(spark, settings, lambda *_: spark.range(0), {}, suites=["match_runs"]).skipped == ["match_runs"]


@pytest.mark.slow
def test_what_an_earlier_process_left_is_opened_and_added_to(shop, tmp_path):
    (tmp_path / "e.jsonl").write_text(json.dumps(captured(ROWS[0])) + "\n")
    asked = MatchOptions((str(tmp_path / "e.jsonl"),), into="first")
    run_match(shop.spark, shop.settings, asked)
    folder = Path(shop.settings.warehouse) / "_match"
    shutil.copytree(folder / "first", folder / "second")  # tables that this session's catalog does not know
    assert query(shop, "SELECT count(*) FROM second.event_matches") == [(1,)]
    shutil.copytree(folder / "first", folder / "third")
    run_match(shop.spark, shop.settings, replace(asked, into="third"))
    assert query(shop, "SELECT status, count(*) FROM third.event_matches GROUP BY status") == [("matched", 2)]


@pytest.mark.slow
def test_again_adds_only_what_changed(shop, tmp_path):
    spark, settings = shop.spark, shop.settings
    spark.createDataFrame(ROWS, KAFKA).write.format("delta").save(str(tmp_path / "landed"))
    asked = MatchOptions((str(tmp_path / "landed"),), into="kept")
    run_match(spark, settings, asked)
    assert run_match(spark, settings, replace(asked, again=True)).read == 0
    renamed = ORDER | {"envelopemetadata": ORDER["envelopemetadata"] | {"type": {"value": "shop.order"}}}
    shop.write("shop.json", document({"shop": group({"Order": renamed}), "shop.kafka": group({"OrderOnKafka": ON_KAFKA})}))
    shop.ingest()
    reported = run_match(spark, settings, replace(asked, again=True)).as_json()
    assert (reported["read"], reported["matched"], reported["catalog_snapshot"]) == (6, 1, 2)
    assert run_match(spark, settings, replace(asked, at="1")).as_json()["matched"] == 4
    # the same from Python
    found = match(spark, settings, spark.createDataFrame(ROWS, KAFKA)).filter("status = 'matched'").select("ce_id").collect()
    assert [row["ce_id"] for row in found] == ["3"]


def constraints(shop: Any, table: str) -> str:
    rows = shop.spark.sql(f"SHOW TBLPROPERTIES aged.{table}").collect()
    return " ".join(row["value"] for row in rows if row["key"].startswith("delta.constraints."))


@pytest.mark.slow
def test_tables_get_new_columns_and_lose_what_is_too_old(shop, tmp_path):
    spark = shop.spark
    (tmp_path / "e.jsonl").write_text(json.dumps(captured(ROWS[0])) + "\n")
    asked = MatchOptions((str(tmp_path / "e.jsonl"),), into="aged")
    run_match(spark, shop.settings, asked)
    spark.sql("ALTER TABLE aged.match_runs SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    older = {"match_runs": "`read` = matched + ambiguous + unmatched + unreadable", "event_matches": "status IN ('matched')"}
    declared = {"match_runs": "counts_add_up", "event_matches": "status_is_known"}
    for table, text in older.items():  # as an older version made them
        spark.sql(f"ALTER TABLE aged.{table} DROP CONSTRAINT {declared[table]}")
        if table == "match_runs":
            spark.sql("ALTER TABLE aged.match_runs DROP COLUMNS (seen, incomplete)")
        spark.sql(f"ALTER TABLE aged.{table} ADD CONSTRAINT {declared[table]} CHECK ({text})")
    spark.sql("UPDATE aged.match_runs SET begun_at = begun_at - INTERVAL 3 DAYS")
    run_match(spark, shop.settings, asked)
    assert query(shop, "SELECT seen, incomplete FROM aged.match_runs ORDER BY begun_at") == [(None, None), (1, 0)]
    held = {table: constraints(shop, table) for table in older}
    assert "incomplete" in held["match_runs"]
    assert "'incomplete'" in held["event_matches"]
    before = spark.sql("DESCRIBE HISTORY aged.event_matches").count()
    assert query(shop, "SELECT count(*) FROM aged.event_matches") == [(2,)]
    assert spark.sql("DESCRIBE HISTORY aged.event_matches").count() == before  # they are as declared, and stay
    brief = shop.settings.model_copy(update={"match_retention_days": 2})
    open_named_in(spark, brief, "SELECT * FROM aged.event_matches")  # who reads deletes nothing
    assert query(shop, "SELECT count(*) FROM aged.event_matches") == [(2,)]
    run_match(spark, brief, asked)
    assert query(shop, "SELECT count(*) FROM aged.event_matches") == [(2,)]
    assert query(shop, "SELECT count(*) FROM aged.match_runs") == [(3,)]
    reported = "SELECT comment FROM aged.dictionary WHERE table_name = 'match_runs' AND column_name = 'run_id'"
    assert query(shop, reported) == [("Identity of the run",)]


@pytest.mark.slow
def test_other_versions_are_tried_where_no_default_one_matches(catalog, tmp_path):
    base = {"versions": {"1": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"source": {"value": "/old"}}},
                         "2": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"source": {"value": "/new"}}}}}  # fmt: skip
    order = {
        f"{number}": {
            "basemessage": "/messagegroups/g/messages/base",
            "envelopemetadata": {"type": {"value": f"order.v{number}"}},
        }
        for number in (1, 2, 3)
    }
    catalog.write("d.json", document({"g": group({"base": base, "order": {"versions": order}})}))
    catalog.ingest()
    reported = [("order.v3", "/new"), ("order.v1", "/new"), ("order.v1", "/old"), ("order.v0", "/new")]
    events = [attributes(number, type=kind, source=source) for number, (kind, source) in enumerate(reported)]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    asked = MatchOptions((str(tmp_path / "e.jsonl"),), results=str(tmp_path / "r.jsonl"))
    assert run_match(catalog.spark, catalog.settings, asked).as_json()["definitions"] == 2
    assert [row["best"] and row["best"][0]["xid"][-5:] for row in lines(tmp_path / "r.jsonl")] == [
        "order", "/base", [], "/base",
    ]  # fmt: skip
    summary = run_match(catalog.spark, catalog.settings, replace(asked, scope=Scope(all_versions=True))).as_json()
    assert (summary["matched"], summary["definitions"], summary["unseen"]) == (4, 2, 0)
    found = lines(tmp_path / "r.jsonl")
    assert [row["remarks"] for row in found] == [[], [], ["matches Version 1, which is not the default"], []]


def query(shop, text: str) -> list[Any]:
    """Ask as `lakehouse sql` does, which opens the schemas of results that a query names."""
    open_named_in(shop.spark, shop.settings, text)
    result = run_query(shop.spark, shop.settings, text)
    return [tuple(json.loads(row).values()) for row in result.json_rows()]


@pytest.mark.slow
def test_other_shapes(shop, tmp_path):
    spark = shop.spark
    event = attributes(0) | {"data": {"total": 1}}
    (tmp_path / "events.jsonl").write_text(json.dumps(event) + "\n" + json.dumps([event, event]) + "\n")
    typed = spark.createDataFrame(
        [("1.0", "0", "shop.Order", "/shops/eu", "o0", '{"total": 1}')],
        "specversion STRING, id STRING, type STRING, source STRING, subject STRING, data STRING",
    )
    typed.write.parquet(str(tmp_path / "typed"))
    other = typed.selectExpr("type AS kind", "id AS number", "source AS producer", "subject AS about", "data AS text")
    other.write.parquet(str(tmp_path / "other"))
    envelopes = [{"detail-type": "shop.Order", "source": "/shops/eu", "id": "0", "about": "o0", "detail": {"total": 1}}] * 2
    (tmp_path / "bridge.jsonl").write_text("".join(json.dumps(one) + "\n" for one in envelopes))
    taken = {name: f"get_json_object(json, '$.{place}')" for name, place in
             {"type": "detail-type", "id": "id", "source": "source", "subject": "about"}.items()}  # fmt: skip
    bridge = {"ce": taken, "payload": "get_json_object(json, '$.detail')"}
    named = {"ce": {"type": "kind", "id": "number", "source": "producer", "subject": "about"}, "payload": "text"}
    http = spark.createDataFrame(
        [("post", "https://x.example/in?a=1", {f"CE-{name}": text for name, text in attributes(0).items()}, b'{"total": 1}')],
        "method STRING, url STRING, headers MAP<STRING, STRING>, body BINARY",
    )
    http.write.parquet(str(tmp_path / "http"))
    base = [{"registryid": "default", "xid": "/messagegroups/shop/messages/Order"}]
    for name, count, asked in (
        ("events.jsonl", 3, {}), ("typed", 1, {}), ("other", 1, {"mapping": named}), ("http", 1, {}),
        ("bridge.jsonl", 2, {"mapping": bridge}),
    ):  # fmt: skip
        place = tmp_path / f"{name}.results"
        run_match(spark, shop.settings, MatchOptions((str(tmp_path / name),), results=str(place), **asked))
        reported = lines(place)
        assert [(row["status"], row["best"], row["payload_status"]) for row in reported] == [
            ("matched", base, "valid")
        ] * count, name
    with pytest.raises(SettingsError, match="--map FILE"):
        read_landed(spark, MatchOptions((str(tmp_path / "other"),)), 0)


@pytest.mark.slow
def test_batches_hold_as_many_rows_as_fit(shop):
    """Spark's own limit of bytes is not set: with it time grows with the square of the rows of a batch."""
    spark = shop.spark
    rows, most = ("spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch")
    before = [spark.conf.get(name, None) for name in (rows, most)]
    made = spark.range(2_000).selectExpr("CAST(NULL AS BINARY) AS line", "CAST('k' AS BINARY) AS key", "id")
    for text, expected in (("'{}'", 50_000), ("repeat('x', 10000)", 6_390), ("repeat('x', 5000000)", 100), ("NULL", 50_000)):
        landed = made.selectExpr("*", f"CAST({text} AS BINARY) AS payload")
        with large_batches(spark, landed, made.selectExpr("*", "CAST(NULL AS BINARY) AS payload").filter("id < 0")):
            assert (int(spark.conf.get(rows)), spark.conf.get(most)) == (expected, "2147483647")
    assert [spark.conf.get(name, None) for name in (rows, most)] == before


@pytest.mark.slow
def test_a_stream_writes_each_batch_once(shop, tmp_path):
    spark, settings = shop.spark, shop.settings
    folder = tmp_path / "landing"
    landed = spark.createDataFrame(ROWS[:3], KAFKA)
    landed.write.format("delta").save(str(folder))
    asked = MatchOptions((str(folder),), Scope(), MatchRequest(), into="streamed")
    reported: list[Any] = []
    watch(spark, settings, asked, reported.append, every=None)
    watch(spark, settings, asked, reported.append, every=None)  # nothing is new
    spark.createDataFrame(ROWS[3:], KAFKA).write.format("delta").mode("append").save(str(folder))
    watch(spark, settings, asked, reported.append, every=None)
    assert sum(summary.read for summary in reported) == 6
    statuses = query(shop, "SELECT status FROM streamed.event_matches ORDER BY event_ref.`offset`")
    assert [status for (status,) in statuses] == EXPECTED
    assert query(shop, "SELECT sum(read), count(*) FROM streamed.match_runs") == [(6, 2)]


@pytest.mark.slow
def test_schemas_that_would_hang_cost_their_own_events(catalog, tmp_path):
    """Cover a whole run: each event of such a schema has a status, and those of others are validated."""
    messages, events = {}, []
    for number, name in enumerate(("avro fields", "xsd unions", "all of", "unevaluated", "good")):
        format_, schema, body, kind = HANGING.get(name, ("JSONSchema/draft-07", {"type": "object"}, b"{}", "application/json"))
        metadata = {"type": {"value": f"T{number}"}}
        messages[f"m{number}"] = {
            "envelope": "CloudEvents/1.0", "envelopemetadata": metadata, "dataschemaformat": format_, "dataschema": schema,
        }  # fmt: skip
        encoded = base64.b64encode(body).decode()
        event = attributes(number, type=f"T{number}") | {"datacontenttype": kind, "data_base64": encoded}
        events += [event] * 2
    catalog.write("hostile.json", document({"g": group(messages)}))
    ingested = catalog.ingest().as_json()
    assert (ingested["documents"]["rejected"], ingested["violations"]["error"]) == (0, 0), catalog.rows(
        "SELECT * FROM violations"
    )
    (tmp_path / "events.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    summary = run_match(
        catalog.spark, catalog.settings, MatchOptions((str(tmp_path / "events.jsonl"),), results=str(tmp_path / "told.jsonl"))
    )
    assert (summary.counts["matched"], summary.payloads) == (10, {"unsupported_format": 8, "valid": 2}), summary.as_json()
    assert [row["payload_status"] for row in lines(tmp_path / "told.jsonl")] == ["unsupported_format"] * 8 + ["valid"] * 2


@pytest.mark.slow
def test_an_event_that_only_a_dangling_variant_could_be_is_incomplete(catalog, tmp_path):
    dangling = {"basemessage": "/messagegroups/none/messages/gone", "protocol": "AMQP/1.0",
                "protocoloptions": {"application-properties": {"region": {"value": "eu"}}}}  # fmt: skip
    catalog.write("shop.json", document({"shop": group({"Order": ORDER, "Variant": dangling})}))
    catalog.ingest()
    reported = [attributes(0), attributes(1, type="other.Thing"), attributes(2, type="shop.order")]
    (tmp_path / "e.jsonl").write_text("".join(json.dumps(one | {"data": {"total": 1}}) + "\n" for one in reported * 40))
    asked = MatchOptions((str(tmp_path / "e.jsonl"),), into="partial")
    summary = run_match(catalog.spark, catalog.settings, asked).as_json()
    assert [summary[name] for name in ("read", "matched", "incomplete", "unmatched", "unreadable")] == [120, 40, 40, 40, 0]
    assert summary["why"][0]["why"] in ("/messagegroups/shop/messages/Variant: its chain of bases is dangling",
                                        "type shop.order: letter case, declared shop.Order")  # fmt: skip
    assert query(catalog, "SELECT incomplete, unmatched FROM partial.match_runs") == [(40, 40)]
    assert query(catalog, "SELECT status, sum(events) FROM partial.unmatched_signatures GROUP BY 1 ORDER BY 1") == [
        ("incomplete", 40), ("unmatched", 40),
    ]  # fmt: skip
