"""Events match the messages of an AsyncAPI document, and the same ones when it was exported and loaded again."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from asyncapitrips import load, trip

from lakehouse.ingest.parse.readings import Reading
from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.event.captured import landed_of_text
from match.catalogs import load_readings

DATA = Path(__file__).parents[1] / "data" / "asyncapi"


def captured(protocol: str, payload: Any, **options: Any) -> bytes:
    body = base64.b64encode(json.dumps(payload).encode()).decode()
    return json.dumps({"protocol": protocol, "captured": options, "payload_base64": body}).encode()


def headers(values: dict[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


JSON = {"content-type": "application/json"}
ALARM = {"ce-specversion": "1.0", "ce-type": "depot.alarm", "ce-source": "/sites/1", "ce-id": "1", "level": "high"}
WISH = {"ce_specversion": "1.0", "ce_type": "seat.wanted", "ce_source": "/desks/1", "ce_id": "1", "request": "5"}
SHIFT, TRAIN = headers({"shift": "night"}), headers({"train": "17", "size": "1"})
KEY = "6f2a4c2e-58a0-4c6c-8d1e-1b9f3f2f7d10"
EVENTS = {
    "depot.yaml": {
        "kafka.depot.parcels/messages/ParcelMoved": captured(
            "KAFKA", {"id": "7"}, topic="depot.parcels", key="parcel", headers=headers(JSON)
        ),
        "mqtt.gates:@gate_id:opened/messages/GateOpened": captured(
            "MQTT/5.0", {"gate": "2"}, topic_name="gates/2/opened", content_type="application/json", user_properties=SHIFT
        ),
        "nats.depot.alarms.@site/messages/Alarm": captured(
            "NATS", {"text": "fire"}, subject="depot.alarms.north", headers=headers(ALARM | JSON)
        ),
        "": captured("KAFKA", {"id": "7"}, topic="depot.others", key="parcel", headers=[]),
    },
    "station.yaml": {
        "mqtt.trains:@number:arrived/messages/arrived": captured(
            "MQTT/5.0", {"number": 17}, topic_name="trains/17/arrived", content_type="application/json", user_properties=TRAIN
        ),
    },
    "booking.yaml": {
        "kafka.booking.requests.v2/messages/BookSeat": captured(
            "KAFKA", {"train": "17"}, topic="booking.requests.v2", key=KEY, headers=headers(WISH | JSON)
        ),
    },
}


def results(reading: Reading, event: bytes) -> list[tuple[str, str | None, str | None]]:
    """Return status, message and verdict on the payload, as an event matches a document."""
    rows, schemas = load_readings({"r": reading})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    return [
        (row["status"], row["xid"], row["payload_status"]) for landed in landed_of_text(event) for row in matcher.rows(landed)
    ]


@pytest.mark.parametrize(("name", "xid"), [(name, xid) for name, events in EVENTS.items() for xid in events])
def test_an_event_matches_the_same_message_after_a_round_trip(name, xid):
    event = EVENTS[name][xid]
    before, after = results(load(DATA / name), event), results(trip(DATA / name).reading, event)
    assert before == after
    assert str(before[0][1] or "").rpartition("/")[2] == xid.rpartition("/")[2]
    assert (before[0][0] == "unmatched") == (xid == "")
