"""One event against the definitions that it may be of alone: the same as against all of the catalog."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from builders import document, group

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.definition.scope import Scope, read_catalog, read_definitions
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.match.explain import Preselection, match_text
from match.catalogs import SAMPLES
from match.stored import model_of, write_catalog


def typed(kind: str, **more: Any) -> dict[str, Any]:
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": kind}}, **more}


def on_mqtt(topic: str) -> dict[str, Any]:
    return {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": {"value": topic}}}


MESSAGES = {
    "T": typed("shop.T"), "t": typed("shop.t"), "U": typed("other.shop.T"), "X": typed("shop.Txy"), "far": typed("nothing.like"),
    "any": typed("{kind}"), "a": on_mqtt("a/{x}"), "b": on_mqtt("b/c"), "all": on_mqtt("{x}/y"),
    "nats": {"protocol": "NATS", "protocoloptions": {"subject": {"value": "a.{x}"}}},
    "amqp": {"protocol": "AMQP/1.0", "protocoloptions": {"properties": {"subject": {"value": "s"}}}},
    "kafka": typed("shop.K", protocol="KAFKA", protocoloptions={"topic": {"value": "b/c"}}),
    "schema": typed("shop.S", dataschemauri="/schemagroups/s/schemas/one"),
    "bare": {"dataschemauri": "/schemagroups/s/schemas/two"},
}  # fmt: skip
ONE = {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"n": {"$ref": "https://shop.example/two"}}}
TWO = {"$id": "https://shop.example/two", "type": "integer"}


def schemas() -> dict[str, Any]:
    held = {
        name: {"versions": {"1": {"format": "JSONSchema/draft-07", "schema": text}}}
        for name, text in (("one", ONE), ("two", TWO))
    }
    return {"s": {"schemas": held | {"three": {"versions": {"1": {"format": "Avro/1.11", "schema": {"type": "int"}}}}}}}


def event(kind: str | None, topic: str = "a/1", protocol: str = "MQTT/5.0", **more: Any) -> dict[str, Any]:
    named = {} if kind is None else {"specversion": "1.0", "id": "1", "source": "/s", "type": kind}
    names = {"KAFKA": ("topic", "headers"), "NATS": ("subject", "headers")}.get(protocol, ("topic_name", "user_properties"))
    prefix = {"KAFKA": "ce_", "NATS": "ce-"}.get(protocol, "")
    pairs = [{"name": prefix + name, "value": text} for name, text in named.items()]
    return {"protocol": protocol, "captured": {names[0]: topic, names[1]: pairs}, "payload": {"n": 1}} | more


EVENTS = [
    event("shop.T"), event("SHOP.T "), event("shop.Txz"), event("third.T"), event("unlike.anything", "b/c"), event(None, "a/1"),
    event(None, "b/c"), event(None, "z/y"), event(None, "q/q"), event("shop.K", "b/c", "KAFKA"), event("shop.K", "x", "KAFKA"),
    event(None, "a.7", "NATS"), event("shop.S"), event("shop.S", payload={"n": "x"}),
    {"specversion": "1.0", "id": "1", "source": "/s", "type": "shop.T"},
    {"protocol": "AMQP/1.0", "captured": {"properties": {"subject": "s"}}},
    {"protocol": "AMQP/1.0", "captured": {"application-properties": {}}},
    {"protocol": "MQTT/5.0", "captured": {}}, {"x": 1},
]  # fmt: skip


def by_all(view: Any, line: bytes) -> list[dict[str, Any]]:
    catalog = read_catalog(view, Scope())
    matcher = Matcher(Index.of(catalog.messages), Payloads(Schemas(catalog.schemas)), MatchRequest())
    return [matcher.row(one) for landed in landed_of_text(line) for one in events_of(landed)]


def by_few(view: Any, line: bytes) -> list[dict[str, Any]]:
    reported = match_text(line, view, Scope(), MatchRequest())
    return [{name: held for name, held in one.row.items() if name not in ("row", "catalog_snapshot")} for one in reported]


@pytest.fixture(scope="module")
def model(tmp_path_factory: Any) -> Any:
    reported = document({"g": group(MESSAGES)}, schemagroups=schemas())
    with model_of(write_catalog(tmp_path_factory.mktemp("w"), {"r": reported, "s": reported})) as opened:
        yield opened


@pytest.mark.parametrize("written", EVENTS, ids=range(len(EVENTS)))
def test_what_is_reported_of_one_event_is_what_all_definitions_report(model, written):
    line = json.dumps(written).encode()
    with model.at() as view:
        assert by_few(view, line) == by_all(view, line)
        several = match_text(b"\n".join([line, json.dumps(EVENTS[1]).encode()]), view, Scope(), MatchRequest())
        assert several[0].row["best"] == by_all(view, line)[0]["best"]


def test_a_file_may_be_packed_and_its_lines_of_any_system(model):
    good, other = (json.dumps(one).encode() for one in EVENTS[:2])
    text = b"\xef\xbb\xbf" + good + b"\r\n\r\n# a comment\r\n" + other + b"\r\n"
    with model.at() as view:
        plain = [one.row for one in match_text(text, view, Scope(), MatchRequest())]
        assert [row["status"] == "unreadable" for row in plain] == [False, True, False]
        assert plain[0]["best"] == by_all(view, good)[0]["best"]
        assert [one.row for one in match_text(gzip.compress(text), view, Scope(), MatchRequest())] == plain
        for broken, limit in ((gzip.compress(text)[:-9], 10_000), (gzip.compress(b" " * 100_000), 10_000)):
            [one] = match_text(broken, view, Scope(), MatchRequest(max_unpacked_bytes=limit))
            assert one.row["status"] == "unreadable"


def test_few_definitions_are_read(model):
    [one] = [one for landed in landed_of_text(json.dumps(EVENTS[0]).encode()) for one in events_of(landed)]
    with model.at() as view:
        read = {row["xid"].rpartition("/")[2] for row in read_definitions(view, Scope("r"), Preselection([one]))}
        # of its type, of no type whose address begins likewise, and those that nothing in these columns reports
        assert read == {"T", "any", "a", "nats", "all", "amqp", "bare"}
        assert [one.xid.split("/")[4] for one in read_catalog(view, Scope("r"), lambda one: one.xid.endswith("/S")).schemas] == []
        wanted = read_catalog(view, Scope("r"), lambda one: one.xid.endswith("/schema"))
        assert [one.xid.split("/")[4] for one in wanted.schemas] == ["one", "two"]


@pytest.mark.skipif(not (SAMPLES / "events").is_dir(), reason="the published samples are not next to this checkout")
def test_published_messages_one_by_one(tmp_path):
    files = sorted((SAMPLES / "feeds").glob("*.json"))
    lines = (SAMPLES / "events" / "captured.jsonl").read_bytes().splitlines()[::25]
    with model_of(write_catalog(tmp_path / "w", {one.name: one.read_bytes() for one in files})) as opened, opened.at() as view:
        catalog = read_catalog(view, Scope())
        matcher = Matcher(Index.of(catalog.messages), Payloads(Schemas(catalog.schemas)), MatchRequest())
        for line in lines:
            [row] = [matcher.row(one) for landed in landed_of_text(line) for one in events_of(landed)]
            assert by_few(view, line) == [row]
