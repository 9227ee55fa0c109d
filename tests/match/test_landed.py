"""What landed becomes an event: bindings undone once, modes reported, batches opened, what cannot be read says why."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from random import Random
from typing import Any

import pytest

from lakehouse.match.definition.compiled import definition_of
from lakehouse.match.evaluation import Tolerance, evaluate
from lakehouse.match.event.canonical import CapturedEvent, captured_by, events_of, unpacked
from lakehouse.match.event.captured import landed_of_columns, landed_of_http, landed_of_text
from match.catalogs import pairs_of, row_of

EVENT = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s"}


def of_captured(protocol, captured, body=b"{}"):
    written = {"protocol": protocol, "captured": captured, "payload_base64": base64.b64encode(body).decode()}
    [landed] = landed_of_text(json.dumps(written).encode())
    return list(events_of(landed))


def pairs(**named):
    return [{"name": name.replace("__", "-"), "value": text} for name, text in named.items()]


def test_binary_bindings():
    kafka = of_captured("KAFKA", {"topic": "t", "headers": pairs(ce_type="T", ce_source="/a%20b", content__type="text/plain")})[0]
    assert kafka.ce == {"type": "T", "source": "/a%20b", "datacontenttype": "text/plain"}
    http = of_captured("HTTP", {"method": "POST", "path": "/", "headers": pairs(CE__Type="T", ce__source="/a%2520b")})[0]
    assert http.ce == {"type": "T", "source": "/a%20b"}  # decoded once
    amqp = of_captured("AMQP/1.0", {"application-properties": {"cloudEvents:type": "T", "cloudEvents_id": "1"}})[0]
    assert amqp.ce == {"type": "T", "id": "1"}
    mqtt = of_captured("MQTT/5.0", {"topic_name": "t", "user_properties": pairs(**EVENT, x="1")})[0]
    assert mqtt.ce == EVENT | {"x": "1"}
    assert of_captured("MQTT/5.0", {"topic_name": "t", "user_properties": pairs(x="1")})[0].mode is None


def test_the_last_kafka_header_counts_and_any_http_header():
    twice = pairs(ce_type="T") + pairs(ce_type="U")
    assert of_captured("KAFKA", {"topic": "t", "headers": twice})[0].ce["type"] == "U"
    http = of_captured("HTTP", {"path": "/", "headers": pairs(x="1") + pairs(X="2")})[0]
    assert http.repeated == {"headers/x": ["1", "2"]}


BIG = 123456789012345678901234567890
BIG_LINES = {
    "CloudEvent": EVENT | {"data": {"n": BIG}},
    "captured message": {"protocol": "KAFKA", "captured": {"topic": "t", "headers": pairs(ce_type="T")}, "payload": {"n": BIG}},
    "columns": EVENT | {"specversion": None, "data": {"n": BIG}},
    "columns of KQL": {f"___{name}": text for name, text in EVENT.items()} | {"n": BIG},
}


@pytest.mark.parametrize("written", BIG_LINES.values(), ids=BIG_LINES)
def test_a_line_keeps_all_digits_of_an_integer(written):
    [landed] = landed_of_text(json.dumps(written).encode(), form="cloudevents" if "data" in written else None)
    [event] = events_of(landed)
    assert not event.problem
    assert (event.data if event.has_data else json.loads(event.body)) == {"n": BIG}


def test_structured_events_and_batches():
    body = json.dumps(EVENT | {"data": {"a": 1}, "subject": None}).encode()
    for content in ("application/cloudevents+json", "Application/CloudEvents; charset=utf-8"):
        [event] = of_captured("KAFKA", {"topic": "t", "headers": pairs(content__type=content)}, body)
        assert (event.mode, event.ce, event.data) == ("structured", EVENT, {"a": 1})
    [sniffed] = of_captured("MQTT/5.0", {"topic_name": "t"}, body)
    assert sniffed.mode == "structured"
    batch = json.dumps([EVENT, 5, EVENT | {"data_base64": "AQI="}]).encode()
    found = of_captured("KAFKA", {"topic": "t", "headers": pairs(content__type="application/cloudevents-batch+json")}, batch)
    assert [(event.item, bool(event.problem)) for event in found] == [(0, False), (1, True), (2, False)]
    assert found[2].body == b"\1\2"


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (b"{", "not JSON"),
        (b"7", "no captured message, CloudEvent or HAR entry"),
        (b'{"captured": {}}', "names the protocol"),
        (b'{"protocol": "KAFKA", "captured": {}, "payload_base64": "%"}', "no base64"),
    ],
)
def test_what_cannot_be_read_says_why(text, reported):
    [landed] = landed_of_text(text)
    [event] = events_of(landed)
    assert reported in event.problem


def test_kafka_without_headers_is_a_wrong_landing():
    row = {
        "protocol": "KAFKA",
        "ce": None,
        "options": pairs_of({"topic": "t"}),
        "headers": None,
        "key": b"\xff",
        "payload": b"{}",
    }
    landed = landed_of_columns(row | {"captured": ["/protocoloptions/topic", "/protocoloptions/key"]})
    assert landed.options == {"topic": "t", "key_base64": "/w=="}
    [event] = events_of(landed)
    assert "includeHeaders" in event.problem
    bad = [{"key": "ce_type", "value": b"\xff"}]
    assert "not UTF-8" in landed_of_columns(row | {"headers": bad, "captured": ["/protocoloptions/headers"]}).problem


def test_a_compressed_envelope_is_unpacked_up_to_the_limit():
    packed = gzip.compress(json.dumps(EVENT | {"data": {"text": "x" * 10_000}}).encode())
    headers = pairs(content__type="application/cloudevents+json", content__encoding="gzip")
    reported = {"protocol": "KAFKA", "captured": {"topic": "t", "headers": headers},
            "payload_base64": base64.b64encode(packed).decode()}  # fmt: skip
    [landed] = landed_of_text(json.dumps(reported).encode())
    assert [(event.mode, event.ce["type"]) for event in events_of(landed)] == [("structured", "T")]
    assert [event.problem for event in events_of(landed, 1_000)] == [
        "payload: unpacks to more than 1000 bytes (max_unpacked_bytes)"
    ]
    [event] = of_captured("KAFKA", {"topic": "t", "headers": headers}, b"no gzip")
    assert event.problem.startswith("payload: content encoding gzip: ")


def test_members_of_gzip_are_one_payload():
    two = gzip.compress(b'{"a":') + gzip.compress(b"1}")
    assert unpacked(two, "gzip") == b'{"a":1}'
    assert unpacked(two, "gzip", 7) == b'{"a":1}'
    for wrong, most, why in (
        (two[:-3], 100, "cut off"),
        (two, 6, "more than 6 bytes"),
        (two + b"x", 100, "gzip: "),
        (b"", 9, "cut off"),
    ):
        with pytest.raises(ValueError, match=why):
            unpacked(wrong, "gzip", most)


@pytest.mark.parametrize("lengths", [[0] * 5000, [200_000, 0, 1, 70_000, 0], [511, 512, 513]], ids=["empty", "long", "short"])
def test_of_many_members_of_gzip_no_byte_is_looked_at_often(lengths, monkeypatch):
    texts = [Random(length).randbytes(length) for length in lengths]  # which no packing makes shorter
    packed = b"".join(map(gzip.compress, texts))
    looked: list[int] = []
    made = zlib.decompressobj

    class Counted:
        def __init__(self, wbits: int) -> None:
            self._made = made(wbits=wbits)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._made, name)

        def decompress(self, text: bytes, most: int) -> bytes:
            looked.append(len(text))
            return self._made.decompress(text, most)

    monkeypatch.setattr(zlib, "decompressobj", Counted)
    assert unpacked(packed, "gzip") == b"".join(texts)
    assert sum(looked) <= 30 * len(packed)


def test_http_rows_report_what_their_columns_report():
    options = pairs_of({"url": "/in?a=1", "method": "post"})
    row = {"protocol": "HTTP", "options": options, "headers": None, "key": None, "ce": None, "payload": b"{}"}  # fmt: skip
    known = [f"/protocoloptions/{name}" for name in ("path", "method", "status", "query")]
    [bare] = events_of(landed_of_columns(row | {"captured": known}))
    assert "land the headers too" in bare.problem
    headers = [{"key": f"CE-{name}", "value": text.encode()} for name, text in EVENT.items()]
    reported = row | {"headers": headers, "captured": [*known, "/protocoloptions/headers"]}
    [event] = events_of(landed_of_columns(reported))
    assert (event.ce, event.options["query/a"], event.address) == (EVENT, "1", "/in")
    assert event.knows("/protocoloptions/headers/x")
    assert not event.knows("/protocoloptions/body")


def test_http_keeps_no_credentials_and_splits_the_query():
    headers = {"Authorization": "Basic YTpi", "X": "1", "Cookie": ["a=1", "b=2"]}
    landed = landed_of_http("post", "https://x.example/a/b?k=1&k=2", headers, None, None)
    assert landed.options == {"headers/x": "1", "query/k": "2", "path": "/a/b", "method": "POST"}
    assert landed.repeated == {"query/k": ["1", "2"]}


def test_of_a_har_file_requests_and_responses_that_hold_cloudevents():
    event = EVENT | {"data": {"a": 1}}
    named = [{"name": f"Ce-{name}", "value": value} for name, value in EVENT.items()]
    request = {"method": "get", "url": "https://x.example/next?k=1", "headers": [{"name": "Cookie", "value": "c"}]}
    packed = {"name": "Content-Encoding", "value": "gzip"}
    answers = [
        {"status": 200, "headers": [*named, packed], "content": {"mimeType": "text/plain", "text": "aGk=", "encoding": "base64"}},
        {"status": 201, "headers": [], "content": {"mimeType": "application/cloudevents+json", "text": json.dumps(event)}},
        {"status": 200, "headers": [], "content": {"mimeType": "application/json", "text": '{"ok": true}'}},
        {"status": 0, "headers": [], "content": {}},
        {"status": 200, "headers": named, "content": {"text": "%", "encoding": "base64"}},
    ]
    har = {"log": {"entries": [{"request": request, "response": answer} for answer in answers]}}
    found = [one for landed in landed_of_text(json.dumps(har).encode()) for one in events_of(landed)]
    assert [(one.options.get("method"), one.options.get("status"), one.mode, one.problem) for one in found] == [
        ("GET", None, None, ""), (None, 200, "binary", ""), ("GET", None, None, ""), (None, 201, "structured", ""),
        ("GET", None, None, ""), ("GET", None, None, ""), ("GET", None, None, ""),
        (None, None, None, "content: no base64 text"),
    ]  # fmt: skip
    assert found[1].body == b"hi"
    assert (found[1].ce["datacontenttype"], found[1].address) == ("text/plain", "/next")
    assert "headers/cookie" not in found[0].options
    assert found[3].data == {"a": 1}


def test_what_the_landing_does_not_show_is_unknown():
    [event] = of_captured("MQTT/5.0", {"topic_name": "t"})
    assert not event.knows("/protocoloptions/qos")
    assert event.knows("/protocoloptions/content_type")  # none was sent
    [event] = of_captured("AMQP/1.0", {"properties": {"subject": "s"}})
    assert event.knows("/protocoloptions/properties/group-id")
    assert not event.knows("/protocoloptions/properties/to")  # the link may say it
    assert not event.knows("/protocoloptions/header/ttl")
    [event] = events_of(CapturedEvent("KAFKA", {"topic": "t"}, captured=captured_by("KAFKA", {"topic", "headers"}), body=b"x"))
    assert event.knows("/protocoloptions/headers/x")
    assert not event.knows("/protocoloptions/partition")


def test_the_content_type_of_an_envelope_is_unknown_where_the_landing_has_no_place_for_it():
    made = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"type": {"value": "T"}},
        "datacontenttype": "application/cloudevents+json",
    }
    definition = definition_of(row_of("r", "/messagegroups/g/messages/m", "none", made))
    event = {"specversion": "1.0", "type": "T", "source": "/s", "id": "1"}
    for protocol in (None, "MQTT/5.0"):
        [landed] = landed_of_text(json.dumps(event).encode(), protocol)
        outcome = evaluate(definition, next(events_of(landed)), Tolerance())
        assert (outcome.reasons, "/datacontenttype" in outcome.unchecked) == ([], True)
    captured = {
        "protocol": "HTTP",
        "captured": {"headers": [{"name": "content-type", "value": "application/json"}]},
        "payload": event,
    }
    [landed] = landed_of_text(json.dumps(captured).encode())
    assert evaluate(definition, next(events_of(landed)), Tolerance()).reasons[0].pointer == "/datacontenttype"


@pytest.mark.parametrize(
    ("protocol", "captured"),
    [
        ("NATS", {"subject": "s", "headers": []}), ("KAFKA", {"topic": "t", "headers": []}),
        ("MQTT/5.0", {"topic_name": "t", "user_properties": []}), ("AMQP/1.0", {"properties": {"subject": "s"}}),
        ("HTTP", {"path": "/", "headers": []}),
    ],
)  # fmt: skip
@pytest.mark.parametrize(("declared", "count"), [("application/cloudevents+json", 0), ("application/cloudevents+avro", 1)])
def test_an_envelope_that_no_header_says_is_of_json(protocol, captured, declared, count):
    """MSG-190: the content type that a message declares is of the envelope, and not of its data."""
    made = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}}, "datacontenttype": declared}
    definition = definition_of(row_of("r", "/messagegroups/g/messages/m", "none", made))
    [event] = of_captured(protocol, captured, json.dumps(EVENT | {"datacontenttype": "text/xml", "data": "<a/>"}).encode())
    outcome = evaluate(definition, event, Tolerance())
    assert (len(outcome.reasons), outcome.unchecked) == (count, [])


@pytest.mark.parametrize("is_header", [True, False])
@pytest.mark.parametrize(
    ("declared", "count"), [("application/cloudevents+json", 0), ("application/cloudevents-batch+json", 0), ("text/xml", 1)]
)
def test_an_event_of_a_batch_is_an_envelope_of_json(declared, count, is_header):
    made: dict[str, Any] = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}}, "protocol": "HTTP"}
    header = {"protocoloptions": {"headers": [{"name": "Content-Type", "value": declared}]}}
    made |= header if is_header else {"datacontenttype": declared}
    definition = definition_of(row_of("r", "/messagegroups/g/messages/m", "none", made))
    captured = {"path": "/", "headers": pairs(content__type="application/cloudevents-batch+json")}
    for event in of_captured("HTTP", captured, json.dumps([EVENT, EVENT]).encode()):
        reasons = evaluate(definition, event, Tolerance()).reasons
        assert [reason.actual for reason in reasons] == ["application/cloudevents-batch+json"] * count
