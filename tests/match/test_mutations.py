"""Each published message, changed in one place: the answer names that place and nothing else."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.event.captured import landed_of_text
from match.catalogs import SAMPLES, samples

EVENTS = SAMPLES / "events" / "captured.jsonl"
pytestmark = pytest.mark.skipif(not EVENTS.is_file(), reason="the published samples are not next to this checkout")
PREFIX = {"KAFKA": "ce_", "AMQP/1.0": "cloudEvents:", "MQTT/5.0": ""}
Message = dict[str, Any]


@pytest.fixture(scope="module")
def matcher():
    rows, schemas = samples("feeds")
    return Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())


@pytest.fixture(scope="module")
def messages(matcher):
    """Messages on their own protocol, that is, whose best definition is the one that the sender names."""
    lines = [orjson.loads(line) for line in EVENTS.read_bytes().splitlines()]
    return [line for line in lines if line["expected"]["best"] == [line["sent_as"]]]


def reported(matcher: Matcher, message: Message) -> dict[str, Any]:
    [landed] = landed_of_text(json.dumps(message).encode())
    [row] = list(matcher.rows(landed))
    return row


def with_attribute(message: Message, name: str, text: str | None) -> Message:
    """Change an attribute of the CloudEvent, in either mode; None takes it out."""
    changed = copy.deepcopy(message)
    if message["mode"] == "structured":
        body = json.loads(base64.b64decode(message["payload_base64"]))
        body[name] = text
        changed["payload_base64"] = base64.b64encode(json.dumps(body).encode()).decode()
        return changed
    captured, key = changed["captured"], PREFIX[message["protocol"]] + name
    if message["protocol"] == "AMQP/1.0":
        captured["application-properties"][key] = text
        return changed
    pairs = captured["headers" if message["protocol"] == "KAFKA" else "user_properties"]
    pairs[:] = [pair for pair in pairs if pair["name"] != key] + ([] if text is None else [{"name": key, "value": text}])
    return changed


def definition_of(matcher: Matcher, message: Message) -> Any:
    return next(one for one in matcher.index.definitions() if one.key == (message["document"], message["sent_as"]))


def pointers(row: dict[str, Any]) -> set[str]:
    return {reason["pointer"] for reason in row["reasons"]}


def only_of(matcher: Matcher, message: Message, wanted: str) -> Iterator[set[str]]:
    """Return the pointers that the definition of the sender misses, when that is what came nearest."""
    row = reported(matcher, message)
    assert message["sent_as"] not in {one["xid"] for one in row["best"]}
    if row["nearest_xid"] == message["sent_as"]:
        yield pointers(row)


@pytest.mark.parametrize("name", ["id", "source", "type"])
def test_a_required_attribute_that_is_missing(matcher, messages, name):
    for message in messages:
        row = reported(matcher, with_attribute(message, name, None))
        assert row["status"] == "unmatched"
        if name != "type":  # without a type nothing reports which definition is meant
            assert pointers(row) == {f"/envelopemetadata/{name}"}
            assert {reason["reason"] for reason in row["reasons"]} == {"absent"}


def test_the_type_in_other_letter_case(matcher, messages):
    for message in messages:
        kind = definition_of(matcher, message).constant("/envelopemetadata/type")
        row = reported(matcher, with_attribute(message, "type", kind.swapcase()))
        assert row["status"] == "unmatched"
        assert pointers(row) <= {"/envelopemetadata/type", "/protocol"}
        assert row["nearest_xid"] is not None
        assert row["reasons"][0]["expected"] in (kind, "MQTT", "AMQP", "KAFKA")


def test_a_source_that_is_constant_and_differs(matcher, messages):
    met = 0
    for message in messages:
        if definition_of(matcher, message).constant("/envelopemetadata/source") is not None:
            met += 1
            row = reported(matcher, with_attribute(message, "source", "urn:another"))
            assert row["status"] == "unmatched"
            assert pointers(row) == {"/envelopemetadata/source"}
            assert row["reasons"][0]["actual"] == "urn:another"
    assert met > 300


def test_one_topic_level_more(matcher, messages):
    met = 0
    for message in messages:
        if message["protocol"] == "MQTT/5.0" and definition_of(matcher, message).family == "MQTT":
            changed = copy.deepcopy(message)
            changed["captured"]["topic_name"] += "/more"
            for found in only_of(matcher, changed, message["sent_as"]):
                met += 1
                assert found == {"/protocoloptions/topic_name"}
    assert met > 150


def test_one_of_two_shared_placeholders(matcher, messages):
    met = 0
    for message in messages:
        definition = definition_of(matcher, message)
        subject = definition.attribute("/envelopemetadata/subject")
        if message["protocol"] != "AMQP/1.0" or not subject or not subject.template or subject.template.shape != "{}":
            continue
        shared = {
            one.pointer for one in definition.attributes if one.template and one.template.names == subject.template.names
        }  # each holds the same text
        if len(shared) < 2:
            continue
        row = reported(matcher, with_attribute(message, "subject", "another"))
        assert row["nearest_xid"] == message["sent_as"] or row["status"] == "matched"
        if row["nearest_xid"] == message["sent_as"]:
            met += 1
            found = pointers(row)
            assert "/envelopemetadata/subject" in found
            assert found <= shared
            assert len(found) == 1 or len(shared) == 2
    assert met > 50


def test_a_member_of_the_payload_that_is_removed(matcher, messages):
    met = 0
    for message in messages:
        before = reported(matcher, message)
        if before["payload_status"] != "valid" or message["mode"] != "binary":
            continue
        body = json.loads(base64.b64decode(message["payload_base64"]))
        for name in body:
            less = {key: value for key, value in body.items() if key != name}
            changed = message | {"payload_base64": base64.b64encode(json.dumps(less).encode()).decode()}
            row = reported(matcher, changed)
            assert row["best"] == before["best"]
            if row["payload_status"] == "invalid":
                met += 1
                assert [error["pointer"] for error in row["payload_errors"]] == [f"/{name}"], row["payload_errors"]
                break
    assert met > 300
