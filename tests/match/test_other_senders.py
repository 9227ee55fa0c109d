"""Messages of senders that the published samples do not show, and what the specifications say of each."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pyarrow as pa
import pytest
from builders import document, group

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas, Tolerance
from lakehouse.match.event.adapters import LANDED
from lakehouse.match.event.captured import landed_of_columns, landed_of_text
from lakehouse.match.vectorized.batch import match_batch, match_row
from match.catalogs import load, pairs_of
from match.test_columns import LANDED as COLUMNS

CE = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s"}
SCHEMA = {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}
GOOD, BAD = b'{"x": 1}', b'{"x": "a"}'


def event(**declared: Any) -> dict[str, Any]:
    """Declare a CloudEvent of type T, with a schema."""
    envelope = {"type": {"value": "T"}} | declared
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": envelope, "dataschemaformat": "JSONSchema/draft-07",
            "dataschema": SCHEMA}  # fmt: skip


def over(protocol: str, options: dict[str, Any], declared: dict[str, Any] | None = None) -> dict[str, Any]:
    return (declared or {}) | {"protocol": protocol, "protocoloptions": options}


def matcher_of(*definitions: dict[str, Any], **tolerance: Any) -> Matcher:
    rows, schemas = load({"r": document({"g": group({f"m{at}": one for at, one in enumerate(definitions)})})})
    asked = Tolerance(**tolerance)
    return Matcher(Index.of(rows, asked.placeholders), Payloads(Schemas(schemas)), MatchRequest(asked))


def lines(matcher: Matcher, text: bytes, protocol: str | None = None) -> list[dict[str, Any]]:
    return [row for landed in landed_of_text(text, protocol) for row in matcher.rows(landed)]


def sent(matcher: Matcher, protocol: str, captured: dict[str, Any], body: bytes | None = GOOD) -> dict[str, Any]:
    written: dict[str, Any] = {"protocol": protocol, "captured": captured}
    if body is not None:
        written["payload_base64"] = base64.b64encode(body).decode()
    [row] = lines(matcher, json.dumps(written).encode())
    return row


def pairs(prefix: str = "", **named: str) -> list[dict[str, str]]:
    return [{"name": prefix + name, "value": text} for name, text in named.items()]


def reported(row: dict[str, Any]) -> tuple[str, list[str], list[str]]:
    return row["status"], [one["pointer"] for one in row["reasons"]], [one["pointer"] for one in row["deviations"]]


MATCHED: tuple[str, list[str], list[str]] = ("matched", [], [])


def test_event_grid_in_its_own_schema():
    """No CloudEvent, so that nothing but HTTP reports it: header names without regard to case (RFC 9110, section 5.1)."""
    options = {"method": {"value": "POST"}, "headers": [{"name": "aeg-event-type", "value": "Notification"},
                                                       {"name": "aeg-subscription-name", "value": "{subscription}"}]}  # fmt: skip
    headers = pairs(**{"Aeg-Event-Type": "Notification", "AEG-Subscription-Name": "ORDERS"})
    captured = {"method": "POST", "path": "/hook", "query": [], "headers": headers}
    body = json.dumps([{"id": "1", "eventType": "shop.Order", "subject": "o/1", "data": {}}]).encode()
    row = sent(matcher_of(over("HTTP", options), event()), "HTTP/1.1", captured, body)
    assert (reported(row), row["mode"], row["variables"]) == (MATCHED, None, {"subscription": "ORDERS"})


def test_event_grid_as_cloudevents():
    source = "/subscriptions/{id}/resourceGroups/{group}/providers/Microsoft.Storage/storageAccounts/{account}"
    subject = "blobServices/default/containers/{container}/blobs/{blob}"
    matcher = matcher_of(event(source={"value": source}, subject={"value": subject}))
    value = CE | {"source": "/subscriptions/7/resourceGroups/g/providers/Microsoft.Storage/storageAccounts/a",
                  "subject": "blobServices/default/containers/c/blobs/a.txt", "data": {"x": 1}}  # fmt: skip
    headers = pairs(**{"Content-Type": "application/cloudevents+json; charset=utf-8"})
    captured = {"method": "POST", "path": "/hook", "query": [], "headers": headers}
    row = sent(matcher, "HTTP", captured, json.dumps(value).encode())
    assert (reported(row), row["mode"], row["payload_status"]) == (MATCHED, "structured", "valid")
    assert row["variables"] == {"id": "7", "group": "g", "account": "a", "container": "c", "blob": "a.txt"}
    deep = value | {"subject": "blobServices/default/containers/c/blobs/folder/a.txt"}
    row = sent(matcher, "HTTP", captured, json.dumps(deep).encode())
    assert reported(row)[:2] == ("unmatched", ["/envelopemetadata/subject"])


def test_a_webhook_with_a_batch():
    captured = {"method": "POST", "path": "/", "headers": pairs(**{"content-type": "Application/CloudEvents-Batch+JSON"})}
    batch = json.dumps([CE | {"data": {"x": 1}}, CE | {"type": "U"}, CE | {"data": {"x": "a"}}]).encode()
    written = {"protocol": "HTTP", "captured": captured, "payload_base64": base64.b64encode(batch).decode()}
    found = lines(matcher_of(event()), json.dumps(written).encode())
    assert [(row["item"], row["status"], row["payload_status"]) for row in found] == [
        (0, "matched", "valid"), (1, "unmatched", "not_checked"), (2, "matched", "invalid")
    ]  # fmt: skip


def test_eventbridge_needs_a_map():
    """It is no CloudEvent: which member is the type, only its reader knows; with a map it is one."""
    envelope = {"version": "0", "id": "1", "detail-type": "Order Placed", "source": "com.shop", "detail": {"x": 1}}
    matcher = matcher_of(event(type={"value": "Order Placed"}, source={"value": "com.{shop}"}))
    [row] = lines(matcher, json.dumps(envelope).encode())
    assert row["status"] == "unreadable"
    assert "detail-type" in row["reasons"][0]["actual"]
    ce = {"specversion": "1.0", "id": "1", "type": "Order Placed", "source": "com.shop"}
    mapped = {"protocol": None, "ce": pairs_of(ce), "options": [], "headers": None, "key": None, "captured": [],
              "payload": json.dumps(envelope["detail"]).encode()}  # fmt: skip
    [row] = matcher.rows(landed_of_columns(mapped))
    assert (reported(row), row["variables"], row["payload_status"]) == (MATCHED, {"shop": "shop"}, "valid")
    line = dict.fromkeys(LANDED) | mapped | {"line": json.dumps(envelope).encode()}  # of JSON lines, as the adapter makes it
    assert [found["xid"] for found in match_row(matcher, line)] == [row["xid"]]
    many = pa.RecordBatch.from_pylist([line | {"row": number} for number in range(100)], schema=COLUMNS)
    assert {one for part in match_batch(matcher, many) for one in part.column("xid").to_pylist()} == {row["xid"]}


def test_pubsub_push():
    """Wrapped, it is HTTP with JSON; of Eventarc, it is a binary CloudEvent, whose object names may hold slashes."""
    wrapped = json.dumps({"message": {"data": "e30=", "messageId": "1"}, "subscription": "projects/p/subscriptions/s"}).encode()
    push = over("HTTP", {"path": {"value": "/push/{subscription}"}})
    captured = {"method": "POST", "path": "/push/s", "query": [], "headers": pairs(**{"content-type": "application/json"})}
    row = sent(matcher_of(push, event()), "HTTP", captured, wrapped)
    assert (reported(row), row["variables"]) == (MATCHED, {"subscription": "s"})
    declared = event(
        source={"value": "//storage.googleapis.com/projects/_/buckets/{bucket}"}, subject={"value": "objects/{object}"}
    )
    named = CE | {"source": "//storage.googleapis.com/projects/_/buckets/b", "subject": "objects/folder/a.txt"}
    captured["headers"] = pairs("ce-", **named) + pairs(**{"content-type": "application/json"})
    row = sent(matcher_of(declared), "HTTP", captured)
    assert reported(row)[:2] == ("unmatched", ["/envelopemetadata/subject"])
    assert row["reasons"][0]["reason"] == "pattern: {object} would have to hold /"
    row = sent(matcher_of(declared, placeholders="any"), "HTTP", captured)
    assert (reported(row), row["variables"]) == (MATCHED, {"bucket": "b", "object": "folder/a.txt"})


def test_mqtt_user_properties():
    """Their names may repeat (MQTT 5, section 3.3.2.3.7), and attributes have no prefix there."""
    options = {"topic_name": {"value": "site/{site}/t"}, "user_properties": [{"name": "tag", "value": "b"}]}
    matcher = matcher_of(
        over("MQTT/5.0", options, event(site={"value": "{site}"}, datacontenttype={"value": "application/json"}))
    )
    named = pairs(**CE, site="7", tag="a") + pairs(tag="b")
    captured = {"topic_name": "site/7/t", "content_type": "application/json;charset=utf-8", "user_properties": named, "qos": 1,
                "retain": False}  # fmt: skip
    for protocol in ("MQTT/5.0", "mqtt/5", "MQTT"):
        row = sent(matcher, protocol, captured)
        assert (reported(row), row["variables"], row["payload_status"]) == (MATCHED, {"site": "7"}, "valid"), protocol
    assert sent(matcher, "MQTT/5.0", captured | {"topic_name": "/site/7/t"})["status"] == "unmatched"


def test_amqp_values_with_types():
    """AMQP has its own types: a timestamp is milliseconds (AMQP binding of CloudEvents, section 2.2)."""
    options = {
        "properties": {"message-id": {"value": "{id}"}, "creation-time": {"type": "timestamp"}},
        "application-properties": {"urgent": {"type": "boolean", "value": True}, "weight": {"type": "number"},
                                   "blob": {"type": "binary"}, "seen": {"type": "timestamp", "required": True}},
    }  # fmt: skip
    matcher = matcher_of(over("AMQP/1.0", options, event(time={"type": "timestamp", "required": True}, n={"type": "integer"})))
    typed = {"urgent": True, "weight": 1.5, "blob": "AQI=", "seen": 1_700_000_000_000}
    for prefix in ("cloudEvents:", "cloudEvents_"):
        named = {prefix + name: value for name, value in (CE | {"time": 1_700_000_000_123, "n": 5}).items()}
        captured = {"properties": {"message_id": 12, "creation_time": 1_700_000_000_123, "content_type": "application/json"},
                    "application_properties": named | typed}  # fmt: skip
        row = sent(matcher, "AMQP", captured)
        assert (reported(row), row["variables"], row["payload_status"]) == (MATCHED, {"id": "12"}, "valid")
    timed = matcher_of(over("AMQP/1.0", {}, event(time={"type": "timestamp", "required": True})))
    capture = {
        "SequenceNumber": 1,
        "SystemProperties": {},
        "Body": {"bytes": '{"x": 1}'},
        "Properties": {f"cloudEvents:{name}": {"string": text} for name, text in CE.items()}
        | {"cloudEvents:time": {"long": 1_700_000_000_123}},
    }
    [row] = lines(timed, json.dumps(capture).encode())
    assert (reported(row), row["payload_status"]) == (MATCHED, "valid")
    in_json = json.dumps(CE | {"time": "1700000000123", "data": {"x": 1}}).encode()  # where digits are no type of AMQP
    assert sent(timed, "AMQP", {"properties": {"content_type": "application/cloudevents+json"}}, in_json)["status"] == "unmatched"
    captured["application_properties"]["urgent"] = False
    assert reported(sent(matcher, "AMQP/1.0", captured))[1] == ["/protocoloptions/application-properties/urgent"]


def test_kafka_headers():
    """Names are exact; a structured event reports itself where the name of its content type is in other letters."""
    matcher = matcher_of(over("KAFKA", {"topic": {"value": "t"}, "headers": [{"name": "trace", "value": "{trace}"}]}, event()))
    headers = pairs("ce_", **CE) + pairs(**{"content-type": "application/json", "trace": "00-abc-01"})
    row = sent(matcher, "kafka", {"topic": "t", "key": '{"id": 1}', "headers": headers})
    assert (reported(row), row["variables"]) == (MATCHED, {"trace": "00-abc-01"})
    row = sent(matcher, "KAFKA", {"topic": "t", "headers": pairs("CE_", **CE)})
    assert (row["status"], row["mode"]) == ("unmatched", None)
    other = pairs(**{"Content-Type": "application/cloudevents+json", "trace": "1"})
    row = sent(matcher, "KAFKA", {"topic": "t", "headers": other}, json.dumps(CE | {"data": {"x": 1}}).encode())
    assert (reported(row), row["mode"], row["payload_status"]) == (MATCHED, "structured", "valid")


def test_a_kafka_header_that_is_no_text_is_reported():
    """The landing is not taken apart further: which header it is would have to be guessed."""
    binary = [{"key": f"ce_{name}", "value": text.encode()} for name, text in CE.items()] + [{"key": "n", "value": b"\xff\0"}]
    row = {"protocol": "KAFKA", "ce": None, "options": pairs_of({"topic": "t"}), "headers": binary, "key": None, "payload": GOOD,
           "captured": ["/protocoloptions/topic", "/protocoloptions/headers"]}  # fmt: skip
    [result] = matcher_of(event()).rows(landed_of_columns(row))
    assert (result["status"], result["reasons"][0]["actual"]) == ("unreadable", "not UTF-8 (invalid start byte)")


def test_nats_headers():
    """Values of a name are a list; attributes are percent-encoded (NATS binding of CloudEvents, section 3.1.3.2)."""
    options = {"subject": {"value": "orders.{region}.placed"}, "headers": [{"name": "Region", "value": "{region}"}]}
    matcher = matcher_of(over("NATS", options, event(subject={"value": "{what}"})))
    headers = {f"ce-{name}": [text] for name, text in (CE | {"subject": "caf%C3%A9%20%25"}).items()}
    headers |= {"Region": ["us", "eu"], "content-type": ["application/json"]}
    row = sent(matcher, "NATS", {"subject": "orders.eu.placed", "headers": headers})
    assert (reported(row), row["variables"]) == (MATCHED, {"region": "eu", "what": "café %"})
    row = sent(matcher, "NATS", {"subject": "orders.eu.west.placed", "headers": headers})
    assert reported(row)[1] == ["/protocoloptions/subject"]


@pytest.mark.parametrize(
    ("written", "subject"),
    [
        ("plain", "plain"), ("100%25", "100%"), ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"), ('"quoted"', "quoted"),
        ('"a \\"b\\" c"', 'a "b" c'), ('"100%25"', "100%"), ("a+b", "a+b"), ("%zz", "%zz"), ('"', '"'), ('a"b"', 'a"b"'),
    ],
)  # fmt: skip
def test_values_of_http_headers(written, subject):
    """Quoted strings are undone first, then one round of percent-encoding (HTTP binding of CloudEvents, section 3.1.3.2)."""
    headers = pairs("CE-", **(CE | {"subject": written})) + pairs(**{"CONTENT-TYPE": "application/json"})
    row = sent(matcher_of(event(subject={"value": "{subject}"})), "HTTP/2", {"method": "POST", "path": "/", "headers": headers})
    assert (reported(row), row["variables"], row["payload_status"]) == (MATCHED, {"subject": subject}, "valid")


@pytest.mark.parametrize(
    ("time", "is_time"),
    [
        ("2016-12-31T23:59:60Z", True), ("2016-12-31t23:59:60.5z", True), ("2024-02-29T00:00:00-00:00", True),
        ("2023-02-29T00:00:00Z", False), ("2016-12-31T24:00:00Z", False), ("2016-12-31 23:59:59Z", False),
        ("2016-12-31T23:59:59", False), ("2016-12-31T23:59:59+0100", False), ("1700000000000", False),
        ("2016-12-31T23:59:59,5Z", False), ("٢٠١٦-12-31T23:59:59Z", False),
    ],
)  # fmt: skip
def test_times_are_those_of_rfc_3339(time, is_time):
    matcher = matcher_of(event(time={"type": "timestamp", "required": True}))
    [row] = lines(matcher, json.dumps(CE | {"time": time}).encode())
    assert reported(row)[:2] == (("matched", []) if is_time else ("unmatched", ["/envelopemetadata/time"]))


@pytest.mark.parametrize(
    ("declared", "written", "is_same"),
    [
        ("application/json", "Application/JSON; charset=utf-8", True), ("application/json", "application/vnd.x+json", False),
        ("application/json;profile=x", 'application/json; Profile="X"', True),
        ("application/json;profile=x", "application/json", False), ("text/plain", "text/plain;", True),
    ],
)  # fmt: skip
def test_content_types(declared, written, is_same):
    matcher = matcher_of(event(datacontenttype={"value": declared}))
    row = sent(matcher, "KAFKA", {"topic": "t", "headers": pairs("ce_", **CE) + pairs(**{"content-type": written})})
    assert reported(row)[:2] == (("matched", []) if is_same else ("unmatched", ["/envelopemetadata/datacontenttype"]))


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"", "application/json", "none"), (None, "application/json", "none"), (b" ", "application/json", "undecodable"),
        (b"null", "application/json", "invalid"), (b'\xef\xbb\xbf{"x": 1}', "application/json", "valid"),
        (GOOD + b"\r\n", "application/json", "valid"), (BAD, "application/problem+json", "invalid"),
        (b"\0\0\0\0\x07" + GOOD, "application/json", "valid"), (b"\0\0\0\0\x07", "application/json", "undecodable"),
        (b"<x>1</x>", "application/xml", "undecodable"), (b"// no JSON\n{}", "application/json", "undecodable"),
        (gzip.compress(GOOD, mtime=0), "application/json", "undecodable"), (b'{"x": 1, "x": "a"}', "application/json", "invalid"),
        (b'{"x": 1.0}', "application/json", "valid"), (b'{"x": 1e2}', "text/plain", "valid"),
    ],
)  # fmt: skip
def test_payloads(body, kind, status):
    """Confluent's five bytes precede JSON of its serializer, too; of repeated members the last counts (RFC 8259, 4)."""
    row = sent(
        matcher_of(event()), "KAFKA", {"topic": "t", "headers": pairs("ce_", **CE) + pairs(**{"content-type": kind})}, body
    )
    assert (row["status"], row["payload_status"]) == ("matched", status)


@pytest.mark.parametrize(
    ("encoded", "status", "payload"),
    [
        (base64.b64encode(GOOD).decode(), "matched", "valid"), (base64.b64encode(BAD).decode(), "matched", "invalid"),
        ("", "matched", "none"), ("eyJ4IjogMX0", "unreadable", "not_checked"), ("-_-_", "unreadable", "not_checked"),
    ],
)  # fmt: skip
def test_data_base64(encoded, status, payload):
    """It is of RFC 4648, section 4: with padding, and not of the alphabet for URLs (JSON format of CloudEvents, section 3.1)."""
    value = CE | {"datacontenttype": "application/json", "data_base64": encoded}
    [row] = lines(matcher_of(event()), json.dumps(value).encode())
    assert (row["status"], row["payload_status"]) == (status, payload)


def test_lines_of_all_kinds():
    matcher = matcher_of(event())
    good = json.dumps(CE | {"data": {"x": 1}}).encode()
    for text in (
        b"\xef\xbb\xbf" + good,
        good + b"\r",
        b"  \t" + good,
        json.dumps([CE]).encode(),
        json.dumps(CE, indent=1).encode(),
    ):
        assert [row["status"] for row in lines(matcher, text)] == ["matched"], text
    for text in (b"# a comment", b"// another", good[:-1], good + good, "{}".encode("utf-16"), b"null", b'"text"', b"{}"):
        assert [row["status"] for row in lines(matcher, text)] == ["unreadable"], text
    assert lines(matcher, b"[]") == []


def test_older_cloudevents_are_reported_by_their_version():
    [row] = lines(matcher_of(event()), json.dumps(CE | {"specversion": "0.3"}).encode())
    assert (reported(row)[:2], row["reasons"][0]["expected"]) == (("unmatched", ["/envelopemetadata/specversion"]), "1.0")
    [row] = lines(matcher_of(event()), json.dumps({"cloudEventsVersion": "0.1", "eventType": "T", "eventID": "1"}).encode())
    assert row["status"] == "unreadable"


def test_a_response_is_no_request():
    asks, answers = (
        over("HTTP", {"method": {"value": "GET"}, "path": {"value": "/o/{id}"}}),
        over("HTTP", {"status": {"value": 200}}),
    )
    matcher = matcher_of(asks, answers)
    request = {"method": "get", "path": "/o/7?full=1", "headers": {"accept": "*/*"}}
    response = {"status": 200, "path": "/o/7", "headers": {"content-type": "application/json"}}
    for captured, best in ((request, "m0"), (response, "m1")):
        row = sent(matcher, "HTTP/1.1", captured)
        assert [one["xid"].rpartition("/")[2] for one in row["best"]] == [best]


def test_escaped_segments_of_a_path():
    """One text in two places may be percent-encoded in one of them (MSG-228): a deviation, and reported."""
    matcher = matcher_of(over("HTTP", {"path": {"value": "/o/{id}"}}, event(subject={"value": "{id}"})))
    captured = {"method": "POST", "path": "/o/a%2Fb", "headers": pairs("ce-", **(CE | {"subject": "a/b"}))}
    row = sent(matcher, "HTTP", captured)
    assert (row["status"], row["variables"], reported(row)[2]) == ("matched", {"id": "a/b"}, ["/protocoloptions/path"])


def test_types_of_extensions():
    """In JSON they have JSON's types, in headers their text (CloudEvents, section 3.1)."""
    matcher = matcher_of(event(n={"type": "integer"}, ok={"type": "boolean", "value": True}, at={"type": "timestamp"}))
    assert reported(lines(matcher, json.dumps(CE | {"n": 5, "ok": True, "at": "2026-01-01T00:00:00Z"}).encode())[0]) == MATCHED
    headers = pairs("ce_", **(CE | {"n": "5", "ok": "true", "at": "2026-01-01T00:00:00Z"}))
    assert reported(sent(matcher, "KAFKA", {"topic": "t", "headers": headers})) == MATCHED
    wrong = lines(matcher, json.dumps(CE | {"n": 2**31, "ok": True}).encode())[0]
    assert reported(wrong)[1] == ["/envelopemetadata/n"]


def test_letters_are_compared_as_they_are():
    """Neither letter case nor Unicode's composed forms are the same text (MSG-089)."""
    matcher = matcher_of(event(type={"value": "caf\u00e9"}))
    assert [row["status"] for kind in ("caf\u00e9", "cafe\u0301", "CAF\u00c9") for row in lines(
        matcher, json.dumps(CE | {"type": kind}).encode())] == ["matched", "unmatched", "unmatched"]  # fmt: skip


def test_names_as_clients_write_them():
    """Options and sections are known in the spellings of the clients: camelCase, underscores, hyphens."""
    amqp = {"properties": {"message-id": {"value": "{id}"}, "content-type": {"value": "application/json"}},
            "application-properties": {"myKey": {"value": "1"}}, "header": {"first-acquirer": {"value": True}}}  # fmt: skip
    captured: dict[str, Any] = {"properties": {"messageId": "7", "contentType": "application/json"},
                                "header": {"firstAcquirer": True},
                                "applicationProperties": {"myKey": "1", "my_key": "2"}}  # fmt: skip
    row = sent(matcher_of(over("AMQP/1.0", amqp)), "AMQP/1.0", captured)
    assert (reported(row), row["variables"]) == (MATCHED, {"id": "7"})
    captured["applicationProperties"] = {"my_key": "1"}  # a user's names are compared as they are
    assert reported(sent(matcher_of(over("AMQP/1.0", amqp)), "AMQP/1.0", captured))[1] == [
        "/protocoloptions/application-properties/myKey"
    ]
    mqtt = {"topic_name": {"value": "t/{x}"}, "content_type": {"value": "text/plain"}, "user_properties": {"k": {"value": "1"}}}
    packet = {
        "topic": "t/1",
        "contentType": "text/plain",
        "userProperties": {"k": ["0", "1"]},
        "payloadFormatIndicator": 1,
        "qos": 0,
    }
    assert reported(sent(matcher_of(over("MQTT/5.0", mqtt)), "MQTT/5.0", packet)) == MATCHED
    other = packet | {"topic_name": "u"}  # what is spelled as in the specification counts
    assert sent(matcher_of(over("MQTT/5.0", mqtt)), "MQTT/5.0", other)["status"] == "unmatched"
    http = {"path": {"value": "/o/{id}"}, "query": {"q": {"value": "1"}}, "status": {"value": 200}}
    for url in ("https://x.example/o/7?q=1#end", "/o/7?q=1"):
        row = sent(matcher_of(over("HTTP", http)), "HTTP/1.1", {"url": url, "statusCode": 200, "headers": {"Via": ["a", "b"]}})
        assert (reported(row), row["variables"]) == (MATCHED, {"id": "7"})
    assert sent(matcher_of(over("HTTP", http)), "HTTP", {"url": "http://[bad", "headers": {}})["status"] == "unreadable"
    headers = {f"ce-{name}": text for name, text in CE.items()} | {"Content-Type": "application/json"}
    nats = matcher_of(event(datacontenttype={"value": "application/json"}))
    assert reported(sent(nats, "NATS", {"subject": "s", "headers": headers})) == MATCHED


@pytest.mark.parametrize("headers", [
    {"ce-type": ["T"], "ce-id": ["1"], "ce-source": ["/s"], "ce-specversion": ["1.0"]}, [["ce-type", "T"], ["ce-id", 1],
    ["ce-source", "/s"], ["ce-specversion", 1.0]], [{"key": f"Ce-{name}", "value": text} for name, text in CE.items()],
])  # fmt: skip
def test_headers_in_the_forms_of_clients(headers):
    row = sent(matcher_of(event()), "HTTP", {"path": "/", "headers": headers})
    assert row["mode"] == "binary"
    assert reported(row)[:2] in (("matched", []), ("unmatched", ["/envelopemetadata/specversion"]))  # the number 1 is no 1.0
