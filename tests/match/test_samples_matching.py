"""The published messages of real senders: each is what its sender says, on its own protocol and on others."""

from __future__ import annotations

import base64
from collections import Counter

import orjson
import pytest

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas, Tolerance
from lakehouse.match.event.captured import landed_of_columns, landed_of_text
from match.catalogs import SAMPLES, pairs_of, samples

EVENTS = SAMPLES / "events" / "captured.jsonl"
pytestmark = pytest.mark.skipif(not EVENTS.is_file(), reason="the published samples are not next to this checkout")


@pytest.fixture(scope="module")
def catalog():
    rows, schemas = samples("feeds")
    return rows, Schemas(schemas)


@pytest.fixture(scope="module")
def lines():
    return [orjson.loads(line) for line in EVENTS.read_bytes().splitlines()]


def results(catalog, lines, request):
    rows, schemas = catalog
    matcher = Matcher(Index.of(rows), Payloads(schemas), request)
    return [row for line in lines for landed in landed_of_text(orjson.dumps(line)) for row in matcher.rows(landed)]


@pytest.mark.parametrize("level", ["default", "strict"])
def test_every_message_is_what_was_expected(catalog, lines, level):
    found = results(catalog, lines, MatchRequest(Tolerance(level), payload_share=0))
    assert len(found) == len(lines) == 1108
    for line, row in zip(lines, found, strict=True):
        reported = (line["document"], line["sent_as"], row["reasons"])
        assert {one["registryid"] for one in row["matches"]} == {line["document"]}, reported
        assert sorted(one["xid"] for one in row["matches"]) == sorted(line["expected"]["matches"]), reported
        assert [one["xid"] for one in row["best"]] == line["expected"]["best"], reported
        assert row["variables"] == line["expected"]["variables"], reported


def test_on_its_own_protocol_the_best_is_what_the_sender_names(catalog, lines):
    family = {(row["registryid"], row["xid"]): (row["protocol"] or "None").partition("/")[0].upper() for row in catalog[0]}
    found = results(catalog, lines, MatchRequest(payload_share=0))
    own = [
        (line["sent_as"], [one["xid"] for one in row["best"]])
        for line, row in zip(lines, found, strict=True)
        if family[line["document"], line["sent_as"]] in ("NONE", line["protocol"].partition("/")[0])
    ]
    assert len(own) == 888
    assert [(sent_as, best) for sent_as, best in own if best != [sent_as]] == []


def test_over_another_protocol_the_best_is_its_base(catalog, lines):
    family = {(row["registryid"], row["xid"]): (row["protocol"] or "None").partition("/")[0].upper() for row in catalog[0]}
    bases = {(row["registryid"], row["xid"]): set(row["depends_on"]) - {row["xid"]} for row in catalog[0]}
    found = results(catalog, lines, MatchRequest(payload_share=0))
    others = [
        (bases[line["document"], line["sent_as"]], {(line["document"], one["xid"]) for one in row["best"]})
        for line, row in zip(lines, found, strict=True)
        if family[line["document"], line["sent_as"]] not in ("NONE", line["protocol"].partition("/")[0])
    ]
    assert len(others) == 220
    assert all({xid for _, xid in best} == base for base, best in others if base)
    without = [best for base, best in others if not base]  # definitions that extend none; one for any protocol is of their type
    assert len(without) == 46
    assert all(len(best) == 1 and {family[one] for one in best} == {"NONE"} for best in without)


def test_kafka_as_landed_and_cloudevents_lines_give_the_same(catalog, lines):
    rows, schemas = catalog
    matcher = Matcher(Index.of(rows), Payloads(schemas), MatchRequest())
    reported = ("status", "best", "matches", "variables", "reasons", "deviations", "payload_status", "payload_errors")
    on_kafka = structured = 0
    for line in lines:
        (captured,) = [row for landed in landed_of_text(orjson.dumps(line)) for row in matcher.rows(landed)]
        body = base64.b64decode(line["payload_base64"])
        if line["protocol"] == "KAFKA":
            on_kafka += 1
            (landed,) = matcher.rows(landed_of_columns(kafka_columns(line, body)))
            assert {name: landed[name] for name in reported} == {name: captured[name] for name in reported}
        if captured["mode"] == "structured":  # the value alone: nothing of the protocol but its name, so less fails
            structured += 1
            (alone,) = [row for landed in landed_of_text(body, line["protocol"]) for row in matcher.rows(landed)]
            same = ("status", "best", "payload_status", "payload_errors")
            assert {name: alone[name] for name in same} == {name: captured[name] for name in same}
    assert (on_kafka, structured) == (668, 554)


def kafka_columns(line, body):
    """Return a captured message as the adapter of Kafka's columns makes it."""
    reported = line["captured"]
    options = pairs_of({name: None if reported.get(name) is None else str(reported[name]) for name in ("topic", "partition")})
    headers = [{"key": one["name"], "value": one["value"].encode()} for one in reported["headers"]]
    key = None if reported.get("key") is None else reported["key"].encode()
    known = [f"/protocoloptions/{name}" for name in ("topic", "partition", "key", "key_base64", "headers")]
    return {"protocol": "KAFKA", "ce": None, "options": options, "headers": headers, "key": key, "captured": known,
            "payload": body}  # fmt: skip


def test_payloads_of_real_senders_are_mostly_valid(catalog, lines):
    pytest.importorskip("json_structure")
    found = results(catalog, lines, MatchRequest())
    counted = Counter((line["origin"], row["payload_status"]) for line, row in zip(lines, found, strict=True))
    assert {status for _, status in counted} == {"valid", "invalid"}
    assert counted["real", "valid"] == 462
    assert counted["real", "invalid"] == 30
    assert all(row["payload_errors"] for row in found if row["payload_status"] == "invalid")
