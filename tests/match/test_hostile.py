"""What lands may be anything: each row gets a result, and none ever ends a run."""

from __future__ import annotations

import base64
import gzip
import json
import time
from typing import Any

import pyarrow as pa
import pytest
from builders import document, group, json_values, law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.definition.templates import has_placeholder
from lakehouse.match.event.captured import landed_of_text
from lakehouse.match.matcher import RESULT_SCHEMA, why_of
from match.catalogs import load

pytestmark = pytest.mark.attack

PROTOCOLS = ["KAFKA", "MQTT/5.0", "MQTT/3.1.1", "AMQP/1.0", "HTTP", "NATS", "", "X", None]
NAMES = ["topic", "key", "key_base64", "headers", "partition", "topic_name", "user_properties", "qos", "retain", "content_type",
         "properties", "application-properties", "application_properties", "header", "path", "query", "method", "status",
         "subject", "message_expiry_interval"]  # fmt: skip
CE = {"specversion": "1.0", "id": "1", "source": "/s/a", "type": "T"}
header_names = st.sampled_from(["ce_type", "ce-type", "content-type", "type", "specversion", "h"]) | json_values
header_values = st.sampled_from(["T", "application/cloudevents+json", "application/cloudevents-batch+json"]) | json_values
pairs = st.lists(st.fixed_dictionaries({"name": header_names, "value": header_values}))
captured = st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=5), json_values | pairs, max_size=6)
bodies = st.none() | json_values | st.just(CE) | st.lists(st.just(CE) | json_values, max_size=3)
events = st.fixed_dictionaries(
    {"protocol": st.sampled_from(PROTOCOLS) | json_values, "captured": captured},
    optional={"payload": bodies, "payload_base64": json_values},
) | st.fixed_dictionaries(
    {"specversion": json_values}, optional=dict.fromkeys(("type", "source", "id", "data", "data_base64", "time"), json_values)
)
requests = st.fixed_dictionaries(
    {"url": json_values, "method": json_values, "headers": pairs | json_values, "postData": json_values}
)
responses = st.fixed_dictionaries({"status": json_values | st.just(200), "headers": pairs | json_values, "content": json_values})
entries = st.fixed_dictionaries({"request": json_values | requests, "response": json_values | responses})
har = st.fixed_dictionaries({"log": st.fixed_dictionaries({"entries": st.lists(json_values | entries)})})


@pytest.fixture(scope="module")
def matcher() -> Matcher:
    def options(**named: Any) -> dict[str, Any]:
        return {
            "envelope": "CloudEvents/1.0",
            "envelopemetadata": {"type": {"value": "T"}, "source": {"value": "/s/{x}"}},
        } | named

    kinds = ("integer", "number", "boolean", "timestamp", "binary", "duration", "uri", "symbol", "any")
    messages = {
        "typed": options(envelopemetadata={name: {"type": name} for name in kinds}, dataschemaformat="JSONSchema/draft-07",
                         dataschema={"type": "object"}),
        "kafka": options(protocol="KAFKA", protocoloptions={"topic": {"value": "{x}"}, "key": {"value": "{x}"}}),
        "mqtt": options(protocol="MQTT/5.0", protocoloptions={"topic_name": {"value": "a/{x}"}, "qos": {"value": 1},
                                                              "message_expiry_interval": {"value": 5}}),
        "amqp": options(protocol="AMQP/1.0", protocoloptions={"properties": {"subject": {"value": "{x}"}}}),
        "http": options(protocol="HTTP", protocoloptions={"path": {"value": "/{x}"}, "query": {"q": {"value": "1"}}}),
        "nats": options(protocol="NATS", protocoloptions={"subject": {"value": "a.{x}"}}),
    }  # fmt: skip
    rows, schemas = load({"r": document({"g": group(messages)})})
    return Matcher(Index.of(rows), Payloads(Schemas(schemas), 10_000), MatchRequest())


def reported(matcher: Matcher, text: bytes) -> list[dict[str, Any]]:
    """Match a text, and write its results as the pass over a table does."""
    found = [row | {"why": why_of(row)} for landed in landed_of_text(text) for row in matcher.rows(landed)]
    return pa.RecordBatch.from_pylist(found, schema=RESULT_SCHEMA).to_pylist()


@law
@given(st.one_of(events, har, json_values))
def test_any_json_is_reported_of(matcher, value):
    for row in reported(matcher, json.dumps(value).encode()):
        assert row["status"] in ("matched", "ambiguous", "unmatched", "unreadable")
        assert row["status"] != "unreadable" or row["reasons"]


@law
@given(st.binary(max_size=60))
def test_any_bytes_are_reported_of(matcher, text):
    assert all(row["status"] for row in reported(matcher, text))


@pytest.mark.parametrize(
    "text",
    [
        b'{"log":{"entries":[{"request":{},"response":{"status":200,"headers":1}}]}}',
        b"[" * 100_000, b'{"a":' * 100_000, b'{"specversion":"1.0","type":"\\ud800"}', b'{"specversion":"1.0","id":1e999}',
        b'{"protocol":"MQTT/5.0","captured":{"topic_name":"' + b"a/" * 100_000 + b'"}}',
        b'{"protocol":"KAFKA","captured":{"topic":"' + b"{" * 10_000 + b'","headers":[]}}',
        b'{"protocol":"AMQP/1.0","captured":{"properties":{"creation-time":' + b"9" * 300 + b"}}}",
        b'{"log":{"entries":[{"request":{"url":"http://[bad","method":"GET"}}]}}',
        b'{"specversion":"1.0","type":"T","source":"/s/a","id":"1","time":' + b"9" * 100_000 + b"}",
        '{"specversion":"1.0","type":"T"}'.encode("utf-16"), b'{"specversion":"1.0","type":"\xe9"}',
    ],
    ids=range(12),
)  # fmt: skip
def test_what_is_deep_long_or_large_is_reported_of(matcher, text):
    assert [row["status"] for row in reported(matcher, text)] in (["unmatched"], ["unreadable"])


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe{\0}\0", "é".encode("latin-1"), gzip.compress(b" " * 1_000_000), b"x" * 5_000_000]
)
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "\x00"])
def test_a_payload_of_another_encoding_costs_its_own_row(matcher, body, encoding):
    headers = [{"name": f"ce_{name}", "value": text} for name, text in CE.items()]
    headers += [{"name": "content-type", "value": "application/json"}, {"name": "content-encoding", "value": encoding}]
    whole = {"protocol": "KAFKA", "captured": {"topic": "b", "key": "c", "headers": headers}}
    [row] = reported(matcher, json.dumps(whole | {"payload_base64": base64.b64encode(body).decode()}).encode())
    assert row["status"] == "matched"
    assert row["payload_status"] == ("undecodable" if body else "none")


@pytest.mark.parametrize(
    "value", ["a/{x", "{", "}{", "{x}}", "{{x}", "{" * 10_000, "{x}" * 2_000, "{x}-" * 2_000, "{x}/" * 2_000,
              "{" + "x" * 10_000 + "}"],
)  # fmt: skip
def test_a_template_of_any_kind_takes_its_time_from_the_text(value):
    """A brace without end is text, as any other (RFC 6570 would refuse it; the specifications name only `{name}`)."""
    shape = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}, "source": {"value": value}}}
    rows, schemas = load({"r": document({"g": group({"m": shape})})})
    mine = Matcher(Index.of(rows), Payloads(Schemas(schemas), 10_000), MatchRequest())
    begun = time.process_time()
    for source in (value, "-" * 10_000, "a/" * 10_000, "-a" * 10_000):
        [row] = reported(mine, json.dumps(CE | {"source": source}).encode())
        assert row["status"] == ("matched" if source == value and not has_placeholder(value) else row["status"])
    assert time.process_time() - begun < 30
