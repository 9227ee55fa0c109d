"""JSON lines of the columns of platforms: each is read as the same columns of a table are."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import Any

import pytest
from builders import document, group
from click.testing import CliRunner

from lakehouse.cli.main import cli
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import PLATFORMS, landed_of_captured, landed_of_text, missing_columns
from match.stored import write_catalog

CE = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s"}


def text64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def prefixed(start: str) -> dict[str, str]:
    return {start + name: text for name, text in CE.items()}


def named(start: str, key: str = "name") -> list[dict[str, str]]:
    return [{key: name, "value": text} for name, text in prefixed(start).items()]


KAFKA = {"topic": "t", "value": '{"n":1}', "key": "k", "partition": 0, "offset": 7}
HTTP = {"method": "post", "url": "/in?a=1", "body": '{"n":1}'}
MQTT = {"topic": "a/b", "payload": {"n": 1}, "qos": 1}
AMQP = {"properties": {"subject": "s", "content_type": "application/json"}, "body": {"n": 1}}
HUBS = {"SequenceNumber": 1, "EnqueuedTimeUtc": "2026-03-02T18:32:19Z", "Body": '{"n":1}'}
NGINX = {"time_local": "now", "request_method": "POST", "request_uri": "/in?a=1", "status": "202", "request_body": '{"n":1}',
         "content_type": "application/json"}  # fmt: skip
LINES: dict[str, tuple[str, dict[str, Any]]] = {  # the platform, and a line
    "kafka, pairs": ("kafka", KAFKA | {"headers": named("ce_", "key")}),
    "kafka, names": ("kafka", KAFKA | {"headers": named("ce_")}),
    "kafka, map": ("kafka", KAFKA | {"headers": prefixed("ce_")}),
    "kafka, by Spark": ("kafka", KAFKA | {"value": text64('{"n":1}'), "key": text64("k"),
        "headers": [one | {"value": text64(one["value"])} for one in named("ce_", "key")]}),
    "kafka, Glue": ("kafka", KAFKA | {"glue_streaming_kafka_headers": named("ce_", "key")}),
    "kafka, structured": ("kafka", KAFKA | {"value": json.dumps(CE | {"data": {"n": 1}}),
        "headers": [{"key": "content-type", "value": "application/cloudevents+json"}]}),
    "kcat": ("kafka", {"topic": "t", "partition": 0, "offset": 7, "tstype": "create", "ts": 1, "broker": 0, "key": "k",
        "headers": [part for pair in prefixed("ce_").items() for part in pair], "payload": '{"n":1}'}),
    "http": ("http", HTTP | {"headers": named("ce-")}),
    "http, path": ("http", {"method": "POST", "path": "/in", "query": "a=1", "headers": prefixed("CE-"), "body": {"n": 1}}),
    "nginx": ("http", NGINX | prefixed("http_ce_")),
    "nginx, request line": ("http", prefixed("http_ce_") | {"request": "POST /in?a=1 HTTP/1.1", "status": 202,
        "request_body": '{"n":1}'}),
    "Caddy": ("http", {"logger": "http.log.access", "request": {"method": "POST", "uri": "/in?a=1", "body": '{"n":1}',
        "headers": {name: [text] for name, text in prefixed("Ce-").items()}}, "status": 202, "duration": 0.1}),
    "load balancer": ("http", prefixed("request_ce-") | {"request_verb": "POST", "request_url": "https://h.example/in?a=1",
        "elb_status_code": "202"}),
    "Google": ("http", prefixed("http_ce_") | {"httpRequest": {"requestMethod": "POST", "requestUrl": "/in?a=1", "status": 202}}),
    "mqtt": ("mqtt", MQTT | {"user_properties": prefixed("")}),
    "mqtt, list": ("mqtt", MQTT | {"properties": named("")}),
    "mosquitto_sub": ("mqtt", {"tst": "2026", "topic": "a/b", "qos": 1, "payload": {"n": 1}, "properties": {
        "content-type": "application/json", "user-properties": [{name: text} for name, text in CE.items()]}}),
    "amqp": ("amqp", AMQP | {"application_properties": prefixed("cloudEvents:")}),
    "amqp, base64": ("amqp", AMQP | {"application_properties": prefixed("cloudEvents:"), "body": text64('{"n":1}')}),
    "amqp, structured in base64": ("amqp", {"properties": {"content_type": "application/cloudevents+json"},
        "application_properties": {}, "body": text64(json.dumps(CE | {"data": {"n": 1}}))}),
    "eventhubs": ("eventhubs", HUBS | {"Properties": prefixed("cloudEvents:"),
        "SystemProperties": {"content-type": "application/json"}}),
    "eventhubs, unions": ("eventhubs", HUBS | {"SystemProperties": {}, "Body": text64('{"n":1}'),
        "Properties": {name: {"string": text} for name, text in prefixed("cloudEvents:").items()}}),
    "eventhubs, by Spark": ("eventhubs", HUBS | {"SystemProperties": {},
        "Properties": {name: {"member0": None, "member1": text} for name, text in prefixed("cloudEvents:").items()}}),
    "eventhubs, Kafka": ("eventhubs", HUBS | {"Properties": prefixed("ce_"), "SystemProperties": {}}),
    "cloudevents, KQL": ("cloudevents", {f"___{name}": text for name, text in CE.items()} | {"n": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", LINES)
def test_a_line_is_read_by_its_columns(name):
    platform, line = LINES[name]
    for form in (None, platform):
        [landed] = landed_of_text(json.dumps(line).encode(), None, form)
        assert landed.problem == ""
        [event] = events_of(landed)
        assert event.problem == ""
        assert {name: event.ce[name] for name in CE} == CE
        if name not in ("load balancer", "Google"):  # which log no bodies
            assert (event.data if event.has_data else json.loads(event.body)) == {"n": 1}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("kafka, pairs", {"topic": "t", "key": "k", "partition": "0"}), ("kafka, by Spark", {"topic": "t", "key": "k"}),
        ("kcat", {"topic": "t", "key": "k", "partition": "0"}), ("http, path", {"path": "/in", "query/a": "1", "method": "POST"}),
        ("nginx", {"path": "/in", "query/a": "1", "method": "POST", "headers/content-type": "application/json"}),
        ("Caddy", {"path": "/in", "method": "POST"}), ("load balancer", {"path": "/in", "method": "POST"}),
        ("mqtt", {"topic_name": "a/b", "qos": "1"}), ("mosquitto_sub", {"topic_name": "a/b", "content_type": "application/json"}),
        ("amqp", {"properties/subject": "s", "properties/content-type": "application/json"}),
        ("eventhubs", {"properties/content-type": "application/json"}),
    ],
)  # fmt: skip
def test_what_a_line_reports_of_the_protocol(name, options):
    [landed] = landed_of_text(json.dumps(LINES[name][1]).encode())
    assert {name: landed.options[name] for name in options} == options
    assert "status" not in landed.options  # that of a log is of the answer


@pytest.mark.parametrize(
    ("line", "form", "options", "knows_method"),
    [
        ({"path": "/in"}, "http", {"path": "/in"}, False),  # no column says the method
        ({"method": "POST", "path": "/in", "status": 202}, None, {"path": "/in", "method": "POST"}, True),
        ({"Method": "POST", "Url": "/in", "Status": 202}, None, {"path": "/in", "method": "POST"}, True),
        ({"request_method": "POST", "path": "/in", "status": 202}, None, {"path": "/in", "method": "POST"}, True),
        ({"method": None, "path": "/in", "status": 202}, None, {"path": "/in", "status": "202"}, True),
        ({"method": "POST", "path": "/in", "status": 202}, "http", {"path": "/in", "status": "202"}, True),
    ],
)
def test_http_columns_give_a_method_where_they_have_one_and_a_status_to_answers_only(line, form, options, knows_method):
    [event] = events_of(landed_of_text(json.dumps(line | {"headers": prefixed("ce-")}).encode(), None, form)[0])
    assert {name: text for name, text in event.options.items() if not name.startswith("headers/")} == options
    assert event.knows("/protocoloptions/method") == knows_method


MOSQUITTO: dict[str, Any] = {"tst": "2026", "topic": "t", "qos": 0, "payloadlen": 2, "payload": "hi"}


@pytest.mark.parametrize("more", [{}, {"user-properties": {"a": "b"}}, {"subscription-identifier": 1}, {"topic-alias": 2}])
def test_properties_of_mosquitto_sub_are_those_of_the_message_also_without_user_properties(more):
    properties = {"content-type": "text/plain", "payload-format-indicator": 1, "message-expiry-interval": 60} | more
    [event] = events_of(landed_of_text(json.dumps(MOSQUITTO | {"properties": properties}).encode())[0])
    own = {"user_properties/a": "b"} if "user-properties" in more else {}
    assert event.options == own | {
        "topic_name": "t", "qos": "0", "content_type": "text/plain", "payload_format": "1", "message_expiry_interval": "60",
    }  # fmt: skip
    assert event.knows("/protocoloptions/user_properties/x")


@pytest.mark.parametrize(
    ("column", "names"), [("properties", {"content-type": "a/b", "x": "y"}), ("user_properties", {"content-type": "a/b"})]
)
def test_names_of_properties_that_a_sender_chose_are_user_properties(column, names):
    [event] = events_of(landed_of_text(json.dumps(MOSQUITTO | {column: names}).encode())[0])
    assert event.options == {"topic_name": "t", "qos": "0"} | {f"user_properties/{name}": text for name, text in names.items()}


@pytest.mark.parametrize(
    ("written", "text"), [(0, "false"), (1, "true"), (True, "true"), (False, "false"), (7, "7"), (None, None)]
)
def test_retain_is_a_boolean_also_where_it_is_a_number(written, text):
    [event] = events_of(landed_of_text(json.dumps(MOSQUITTO | {"retain": written}).encode())[0])
    assert event.options.get("retain") == text


@pytest.mark.parametrize(("protocol", "name"), [("MQTT/5.0", "user_properties"), ("HTTP", "headers"), ("KAFKA", "headers")])
def test_the_last_of_an_attribute_that_repeats_counts_in_lines_of_both_kinds(protocol, name):
    start = {"MQTT/5.0": "", "HTTP": "ce-", "KAFKA": "ce_"}[protocol]
    columns = {"MQTT/5.0": {"topic": "t", "payload": "{}"}, "HTTP": {"method": "POST", "path": "/"},
               "KAFKA": {"topic": "t", "value": "{}"}}[protocol]  # fmt: skip
    repeated = {name: [*named(start), *({"name": f"{start}subject", "value": text} for text in "ab")]}
    captured = {"protocol": protocol, "captured": {"topic": "t", "path": "/"} | repeated}
    for line in (columns | repeated, captured):
        [event] = events_of(landed_of_text(json.dumps(line).encode())[0])
        assert event.ce == CE | {"subject": "b"}


def test_a_log_knows_the_headers_that_it_logs():
    [event] = events_of(landed_of_text(json.dumps(NGINX | prefixed("http_ce_")).encode())[0])
    assert event.knows("/protocoloptions/headers/ce-type")
    assert not event.knows("/protocoloptions/headers/region")
    [bare] = events_of(landed_of_text(json.dumps(NGINX).encode())[0])
    assert bare.problem.startswith("headers: ")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_column_that_is_missing_is_named(platform):
    for line in ({}, {"a": 1}, {"topic": "t"}, {"value": 1}):
        [landed] = landed_of_text(json.dumps(line).encode(), None, platform)
        for wanted in missing_columns(platform, line):
            assert wanted in landed.problem
            assert f"{platform}: the column" in landed.problem
    assert landed_of_text(b"[1]", None, platform)[0].problem.startswith("line: no JSON object")


@pytest.mark.parametrize(
    "line",
    [
        KAFKA | {"headers": 7}, KAFKA | {"headers": [7]}, HTTP | {"headers": "x"}, MQTT | {"properties": [[1, 2]]},
        HUBS | {"Properties": 1, "SystemProperties": {}}, {"properties": 1, "application_properties": {}},
    ],
)  # fmt: skip
def test_columns_that_hold_something_else_are_reported(line):
    [landed] = landed_of_text(json.dumps(line).encode())
    assert "needed" in landed.problem


def test_lines_that_are_of_no_platform_say_so():
    for line in ({"a": 1}, {"type": "T", "source": "/s", "id": "1"}):
        [landed] = landed_of_text(json.dumps(line).encode())
        assert "--format" in landed.problem
    [typed] = landed_of_text(json.dumps({"type": "T", "source": "/s", "id": "1", "data": {"n": 1}}).encode(), None, "cloudevents")
    assert typed.ce == CE | {"id": "1"}


@pytest.mark.parametrize(
    ("line", "data"),
    [
        (
            {**CE, "region": "eu", "n": 7, "ok": True, "none": None, "a_b": "no name", "data": {"x": 1}, "more": {"x": 2}},
            {"x": 1},
        ),
        ({**prefixed("___"), "___region": "eu", "___n": 7, "___ok": True, "___none": None, "x": 1, "y": "z"}, {"x": 1, "y": "z"}),
    ],
)
def test_columns_of_extensions_are_attributes_of_a_cloudevent(line, data):
    [event] = events_of(landed_of_text(json.dumps(line).encode(), None, "cloudevents")[0])
    assert event.ce == CE | {"region": "eu", "n": "7", "ok": "true"}
    assert json.loads(event.body) == data


@pytest.mark.parametrize(
    ("columns", "body"),
    [
        ({"data": None, "data_base64": text64("b")}, b"b"), ({"data_base64": text64("b"), "payload": "p"}, b"b"),
        ({"data": "d", "data_base64": text64("b")}, b"d"), ({"data": None, "data_base64": None, "body": "p"}, b"p"),
        ({"data": None}, None),
    ],
)  # fmt: skip
def test_the_first_column_that_holds_a_payload_counts(columns, body):
    [landed] = landed_of_text(json.dumps({"type": "T", "source": "/s", "id": "1"} | columns).encode(), None, "cloudevents")
    assert landed.body == body


def test_the_command_reads_them(tmp_path):
    message = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}}}
    run = partial(CliRunner().invoke, cli, standalone_mode=False)
    warehouse = write_catalog(tmp_path / "w", {"r": document({"g": group({"m": message})})})
    for platform in PLATFORMS:
        lines = [line for of, line in LINES.values() if of == platform]
        file = tmp_path / f"{platform}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        for more in ([], ["--format", platform]):
            reported = run(["match", "--warehouse", warehouse, "--one", str(file), *more, "--json"])
            assert [one["status"] for one in json.loads(reported.stdout)] == ["matched"] * len(lines)
    file.write_text(json.dumps({"value": 1}))
    assert "topic" in run(["match", "--warehouse", warehouse, "--one", str(file), "--format", "kafka"]).stdout


def test_a_captured_message_means_the_same():
    for name, protocol, options in (
        ("kafka, map", "KAFKA", {"topic": "t", "partition": 0, "key": "k", "headers": prefixed("ce_")}),
        ("mqtt", "MQTT/5.0", {"topic": "a/b", "qos": 1, "user_properties": prefixed("")}),
        ("http", "HTTP", {"method": "POST", "url": "/in?a=1", "headers": named("ce-")}),
    ):
        [one] = events_of(landed_of_text(json.dumps(LINES[name][1]).encode())[0])
        [other] = events_of(landed_of_captured({"protocol": protocol, "captured": options, "payload": {"n": 1}}))
        assert {key: str(value) for key, value in one.options.items()} == {
            key: str(value) for key, value in other.options.items()
        }
        assert (one.ce, one.mode, json.loads(one.body)) == (other.ce, other.mode, json.loads(other.body))


@pytest.mark.parametrize(
    ("value", "is_base64"),
    [
        (b'{"n":1}', True),
        (b"\0\0\0\0\x65\x04o1", True),  # a schema registry's id in four bytes, and Avro
        (b"\x01" + bytes(16) + b"\x04o1", True),  # in sixteen
        (b"\x03\0" + bytes(16) + b"\x04o1", True),  # that of Glue
        (b"\x03\1" + bytes(16) + b"\x04o1", False),  # none of its compressions
        (b"\0\0\0", False),  # shorter than an id: whatever it is, it is taken as it is written
        (b"some", False),
    ],
)
def test_a_kafka_value_without_headers_is_base64_where_it_begins_as_a_body_does(value, is_base64):
    text = base64.b64encode(value).decode()
    (landed,) = landed_of_text(json.dumps({"topic": "t", "value": text, "partition": 0, "offset": 7, "headers": []}).encode())
    assert landed.body == (value if is_base64 else text.encode())
