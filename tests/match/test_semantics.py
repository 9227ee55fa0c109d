"""What decides, protocol by protocol and type by type (section by section of docs/match.md)."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from builders import document, group

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas, Tolerance
from lakehouse.match.event.captured import landed_of_text
from match.catalogs import load

EVENT = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s"}


def reported(
    written: dict[str, Any], protocol: str, captured: dict[str, Any], body: bytes = b"{}", **tolerance: Any
) -> dict[str, Any]:
    rows, schemas = load({"r": document({"g": group({"m": written})})})
    asked = Tolerance(**tolerance)
    matcher = Matcher(Index.of(rows, asked.placeholders), Payloads(Schemas(schemas)), MatchRequest(asked))
    message = {"protocol": protocol, "captured": captured, "payload_base64": base64.b64encode(body).decode()}
    [landed] = landed_of_text(json.dumps(message).encode())
    [row] = list(matcher.rows(landed))
    return row


def verdict(*arguments: Any, **more: Any) -> tuple[str, list[str], list[str]]:
    row = reported(*arguments, **more)
    return row["status"], [one["pointer"] for one in row["reasons"]], [one["pointer"] for one in row["deviations"]]


def options(protocol: str, **written: Any) -> dict[str, Any]:
    return {"protocol": protocol, "protocoloptions": written}


def test_http():
    definition = options(
        "HTTP",
        method={"value": "post"},
        path={"value": "/orders/{id}"},
        query={"k": "{v}"},
        headers=[{"name": "X-Id", "value": "{id}"}, {"name": "Content-Type", "value": "application/json"}],
    )
    headers = [
        {"name": "x-id", "value": "7"},
        {"name": "X-ID", "value": "8"},
        {"name": "content-type", "value": "Application/JSON; a=b"},
    ]
    good = {"method": "POST", "path": "/orders/8", "query": {"k": "1", "other": "2"}, "headers": headers}
    for path in ("/orders/7", "/orders/8"):  # any of the repeated headers
        assert reported(definition, "HTTP", good | {"path": path})["variables"] == {"id": path[-1], "v": "1"}
    assert verdict(definition, "HTTP", good | {"path": "/orders/9"})[0] == "unmatched"
    assert verdict(definition, "HTTP", good | {"path": "/orders/7", "method": "GET"})[1] == ["/protocoloptions/method"]
    assert verdict(definition, "HTTP", good | {"path": "/orders/7/x"})[1] == ["/protocoloptions/path"]
    assert verdict(definition, "HTTP", good | {"path": "/orders/7?k=1", "query": {}})[0] == "matched"
    assert verdict(definition, "HTTP", good | {"path": "/orders/7", "query": {}})[1] == ["/protocoloptions/query/k"]


def test_nats():
    definition = options("NATS", subject={"value": "orders.{region}.{id}"}, headers=[{"name": "Region", "value": "{region}"}])
    good = {"subject": "orders.eu.a/b", "headers": [{"name": "Region", "value": "eu"}]}
    assert reported(definition, "NATS", good)["variables"] == {"region": "eu", "id": "a/b"}
    assert verdict(definition, "NATS", good | {"subject": "orders.eu.a.b"})[1] == ["/protocoloptions/subject"]
    assert verdict(definition, "NATS", good | {"headers": [{"name": "region", "value": "eu"}]})[1] == [
        "/protocoloptions/headers/Region"
    ]


def test_amqp():
    definition = options(
        "AMQP/1.0",
        properties={"subject": {"value": "s"}, "to": {"value": "node"}, "creation-time": {"type": "timestamp"}},
        header={"durable": {"value": True}},
        **{"application-properties": {"n": {"type": "integer", "value": 5}}},
    )
    good = {
        "properties": {"subject": "s", "creation_time": 1795299143739},
        "application_properties": {"n": "5"},
        "header": {"durable": False},
    }
    assert verdict(definition, "AMQP/1.0", good) == ("matched", [], ["/protocoloptions/header/durable"])
    assert reported(definition, "AMQP/1.0", good)["unchecked"] == ["/protocoloptions/properties/to"]
    assert verdict(definition, "AMQP/1.0", good, level="strict") == ("unmatched", ["/protocoloptions/header/durable"], [])
    wrong = good | {"application_properties": {"n": "6"}}
    assert verdict(definition, "AMQP/1.0", wrong)[1] == ["/protocoloptions/application-properties/n"]


def test_mqtt():
    definition = options("MQTT/5.0", topic_name={"value": "a/{x}"}, qos={"value": 1}, retain={"value": True},
                         message_expiry_interval={"value": 60})  # fmt: skip
    good = {"topic_name": "a/1", "qos": 0, "retain": True, "message_expiry_interval": 59}
    assert verdict(definition, "MQTT/5.0", good) == ("matched", [], ["/protocoloptions/qos"])
    assert verdict(definition, "MQTT/3.1.1", good)[2] == ["/protocol", "/protocoloptions/qos"]
    assert (
        verdict(definition, "MQTT/5.0", good | {"message_expiry_interval": 61})[2][0]
        == "/protocoloptions/message_expiry_interval"
    )
    assert verdict(definition, "KAFKA", {"topic": "t", "headers": []})[1] == []


@pytest.mark.parametrize(
    ("protocol", "listed", "address"),
    [
        ("HTTP", "headers", {"path": "/p"}),  # MSG-282
        ("MQTT/5.0", "user_properties", {"topic_name": "t"}),  # MSG-359
        ("NATS", "headers", {"subject": "s"}),  # MSG-379
    ],
)
def test_a_name_that_a_list_repeats_is_checked_each_time(protocol, listed, address):
    twice = [{"name": "Tag", "value": "a"}, {"name": "Tag", "value": "b"}]
    definition = options(protocol, **{listed: twice})
    assert verdict(definition, protocol, address | {listed: twice})[0] == "matched"
    for entry in twice:
        assert verdict(definition, protocol, address | {listed: [entry]})[1] == [f"/protocoloptions/{listed}/" + (
            "tag" if protocol == "HTTP" else "Tag")]  # fmt: skip


def test_of_a_header_of_kafka_that_repeats_the_last_is_checked():
    definition = options("KAFKA", headers=[{"name": "h", "value": "a"}, {"name": "h", "value": "b"}])
    assert verdict(definition, "KAFKA", {"topic": "t", "headers": [{"name": "h", "value": "b"}]})[0] == "matched"


def test_kafka_keys():
    text = options("KAFKA", topic={"value": "t"}, key={"value": "k/{x}"})
    binary = options("KAFKA", topic={"value": "t"}, key_base64={"value": "/w=="})
    assert verdict(text, "KAFKA", {"topic": "t", "key": "k/1", "headers": []})[0] == "matched"
    assert verdict(text, "KAFKA", {"topic": "t", "key_base64": "/w==", "headers": []})[1] == ["/protocoloptions/key"]
    assert verdict(binary, "KAFKA", {"topic": "t", "key_base64": "/w==", "headers": []})[0] == "matched"
    in_base64 = {"topic": "t", "key_base64": base64.b64encode(b"k/1").decode(), "headers": []}
    assert reported(text, "KAFKA", in_base64)["variables"] == {"x": "1"}
    assert verdict(text, "KAFKA", in_base64 | {"key_base64": "no base64"})[1] == ["/protocoloptions/key"]
    assert verdict(text, "KAFKA", {"topic": "t", "key": None, "headers": []})[1] == ["/protocoloptions/key"]


@pytest.mark.parametrize(
    ("protocol", "address"), [("HTTP", {"path": "/p"}), ("KAFKA", {"topic": "t"}), ("NATS", {"subject": "s"})]
)
@pytest.mark.parametrize("declared", [{"value": "Bearer {key}"}, {"required": True}])
def test_a_header_with_credentials_is_dropped_so_it_is_unchecked(protocol, address, declared):
    """Also where it repeats, as cookies do in HTTP/2."""
    definition = options(protocol, **{name: {"value": text} for name, text in address.items()}, headers={"Cookie": declared})
    sent = [{"name": "Cookie", "value": "Bearer x"}]
    for headers in ([], sent, sent * 2):
        row = reported(definition, protocol, address | {"headers": headers})
        pointer = "/protocoloptions/headers/" + ("cookie" if protocol == "HTTP" else "Cookie")
        assert (row["status"], row["unchecked"], row["variables"]) == ("matched", [pointer], {})


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        ({"type": "integer"}, ["5", 5, "-7"], ["5.0", "x", 2**31, "05"]),
        ({"type": "boolean"}, ["true", False], ["yes", 1]),
        ({"type": "timestamp"}, ["2026-01-01t00:00:00.123456789+05:30"], ["2026-01-01T00:00:00", "2026-02-29T00:00:00Z"]),
        ({"type": "timestamp", "value": "0000-01-01T00:00:00Z"}, ["1999-12-31T23:59:60Z"], ["now"]),
        ({"type": "timestamp", "value": "{day}T00:00:00Z"}, ["2026-01-01T00:00:00Z"], ["rainT00:00:00Z", "2026-01-01T00:00:01Z"]),
        ({"type": "binary"}, ["AQI="], ["%%%"]),
        ({"type": "symbol"}, ["a_1"], ["a-b"]),
        ({"type": "uri"}, ["urn:a"], ["no scheme"]),
        ({"type": "duration"}, ["PT1H", "P1W"], ["1 hour", "P"]),
        ({"type": "integer", "value": 5}, [5, "5"], [5.0, "6"]),
        ({"type": "number", "value": 1}, [1.0, "1.0", 1], ["x"]),
        ({"type": "boolean", "value": True}, [True, "true"], [False, "True"]),
        ({"value": "a b"}, ["a b"], ["A b", "a b "]),
        ({"value": "{x}"}, ["a/b"], [""]),
        ({"required": True}, ["", "x"], [None]),
        ({"value": "x"}, ["x"], [None]),
        ({"type": "string"}, [None, "x"], ["a\x01b"]),
    ],
)  # fmt: skip
def test_types_and_values_of_an_attribute(declared, good, bad):
    definition = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}, "x": declared}}
    for values, expected in ((good, "matched"), (bad, "unmatched")):
        for value in values:
            body = json.dumps(EVENT | {"x": value, "data": {}}).encode()
            headers = [{"name": "content-type", "value": "application/cloudevents+json"}]
            found = verdict(definition, "KAFKA", {"topic": "t", "headers": headers}, body)
            assert found[0] == expected, (declared, value, found)
            assert expected == "matched" or found[1] == ["/envelopemetadata/x"]


def test_a_definition_of_a_similar_type_is_nearer_than_one_that_asks_no_type():
    order = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.Order"}, "source": {"value": "/s/{x}"}}}
    anything = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"source": {"value": "/warehouse"}}}
    rows, schemas = load({"r": document({"g": group({"order": order, "anything": anything})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    event = {"specversion": "1.0", "id": "1", "type": "shop.order", "source": "/s/a/b"}
    for kind, nearest in (("shop.order", "order"), ("shop.Order", "order"), ("elsewhere", "anything")):
        (row,) = [row for one in landed_of_text(json.dumps(event | {"type": kind}).encode()) for row in matcher.rows(one)]
        assert (row["status"], row["nearest_xid"].rpartition("/")[2]) == ("unmatched", nearest)


def test_lenient_and_native():
    definition = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}, "subject": {"value": "{x}"}}}
    definition |= options("KAFKA", topic={"value": "t"})
    headers = [{"name": f"ce_{name}", "value": text} for name, text in EVENT.items()]
    assert verdict(definition, "KAFKA", {"topic": "t", "headers": headers})[:2] == ("unmatched", ["/envelopemetadata/subject"])
    assert verdict(definition, "KAFKA", {"topic": "t", "headers": headers}, level="lenient")[2] == ["/envelopemetadata/subject"]
    assert verdict(definition, "KAFKA", {"topic": "t", "headers": headers}, native=True)[0] == "matched"


@pytest.mark.parametrize(
    ("protocol", "own", "captured"),
    [
        ("KAFKA", {"topic": "t"}, {"topic": "t", "headers": []}),
        ("MQTT/5.0", {"topic_name": "a/{b}/c"}, {"topic_name": "a/x/c", "qos": 0, "retain": False}),
        ("MQTT/5.0", {"topic_name": "{a}/c"}, {"topic_name": "x/c", "qos": 0, "retain": False}),
        ("NATS", {"subject": "a.b"}, {"subject": "a.b", "headers": []}),
    ],
)
def test_native_asks_for_no_type(protocol, own, captured):
    """A definition is found by what its protocol carries, whatever type the event has, or if it is no CloudEvent."""
    definition = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}}}
    definition |= options(protocol, **{name: {"value": value} for name, value in own.items()})
    assert verdict(definition, protocol, captured, native=True)[0] == "matched"
    assert verdict(definition, protocol, captured)[0] == "unmatched"


def test_one_percent_decoding_is_forgiven():
    definition = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": "T"}, "source": {"value": "/{x}"}, "subject": {"value": "{x}"}},
    }
    for subject, expected in (("a b", "matched"), ("a%20b", "matched"), ("a%2520b", "unmatched")):
        attributes = EVENT | {"source": "/a%20b", "subject": subject}
        headers = [{"name": f"ce_{name}", "value": text} for name, text in attributes.items()]
        assert verdict(definition, "KAFKA", {"topic": "t", "headers": headers})[0] == expected, subject


def test_the_nearest_is_the_one_for_the_own_protocol_which_only_misses_the_type():
    base = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.Order"}}}
    others = {
        name: {**base, "protocol": protocol, "protocoloptions": reported}
        for name, protocol, reported in (
            ("amqp", "AMQP/1.0", {"properties": {"subject": {"value": "s"}}}), ("kafka", "KAFKA", {"topic": {"value": "t"}}),
        )
    }  # fmt: skip
    rows, schemas = load({"r": document({"g": group({"a": base, **others})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    headers = {f"ce_{name}": text for name, text in (EVENT | {"type": "shop.order"}).items()}
    [landed] = landed_of_text(json.dumps({"protocol": "KAFKA", "captured": {"topic": "t", "headers": headers}}).encode())
    [found] = matcher.rows(landed)
    assert found["nearest_xid"] == "/messagegroups/g/messages/kafka"
    assert [(one["pointer"], one["expected"]) for one in found["reasons"]] == [("/envelopemetadata/type", "shop.Order")]
    [landed] = landed_of_text(
        json.dumps({"protocol": "MQTT/5.0", "captured": {"user_properties": EVENT | {"type": "shop.order"}}}).encode()
    )
    assert next(matcher.rows(landed))["nearest_xid"] == "/messagegroups/g/messages/a"  # for any protocol


def test_bytes_that_name_no_content_type_deny_none_that_is_declared():
    message = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}}, "datacontenttype": "application/json"}
    rows, schemas = load({"r": document({"g": group({"m": message})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    event = {"specversion": "1.0", "type": "T", "id": "1", "source": "/s", "data_base64": "e30="}
    captured = {"properties": {"content-type": "application/cloudevents+json"}}
    for protocol, seen in (("AMQP/1.0", captured), ("AMQP/1.0", {"properties": {}}), ("NATS", {"subject": "x", "headers": {}})):
        sent = {"protocol": protocol, "captured": seen, "payload": json.dumps(event)}
        [landed] = landed_of_text(json.dumps(sent).encode())
        assert [(row["status"], row["reasons"]) for row in matcher.rows(landed)] == [("matched", [])]
