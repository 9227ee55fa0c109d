"""Captures of AMQP and HTTP become definitions that later messages of the same senders match."""

from __future__ import annotations

import pytest
from match.catalogs import load

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.proposals import as_bytes, groups_of, propose_kinds
from propose.test_discriminators import counted, events

ORDER = "shop.orders.OrderPlaced"
ALWAYS = {"description": "In 100% of 40."}


def attributes(number):
    return {"specversion": "1.0", "id": f"e{number}", "type": ORDER, "source": "https://shop.example.com/orders",
            "subject": f"2026-{number:04}", "time": f"2026-03-{1 + number % 2:02}T10:00:00Z"}  # fmt: skip


def payload(number):
    return {"orderid": f"2026-{number:04}", "total": number + 0.5}


def amqp(number):
    named = {f"cloudEvents:{name}": text for name, text in attributes(number).items()} | {"region": ["eu", "us"][number % 2]}
    properties = {"content-type": "application/json", "subject": ORDER, "message-id": f"m{number}", "creation-time": number}
    captured = {"application-properties": named, "message-annotations": {"x-opt-offset": number}, "properties": properties}
    return {"protocol": "AMQP/1.0", "payload": payload(number), "captured": captured}


def http(number, content_type="application/json", body=None, **headers):
    named = {"content-type": content_type, "host": f"pod-{number}", "traceparent": f"00-{number}"} | headers
    captured = {"method": "POST", "path": f"/hooks/{number}/orders",
                "headers": [{"name": name, "value": text} for name, text in named.items()]}  # fmt: skip
    return {"protocol": "HTTP", "payload": payload(number) if body is None else body, "captured": captured}


def binary(number):
    return http(number, **{f"ce-{name}": text for name, text in attributes(number).items()})


def structured(number):
    return http(number, "application/cloudevents+json", attributes(number) | {"data": payload(number)})


def batch(number):
    pair = [attributes(one) | {"data": payload(one)} for one in (2 * number, 2 * number + 1)]
    return http(number, "application/cloudevents-batch+json", pair)


def proposals(messages):
    observed = [Observed.of(kind, days) for kind, days in counted(messages).by_kind.items()]
    return propose_kinds(observed, Thresholds(required_events=20, required_days=1))


@pytest.mark.parametrize(
    ("sent", "kind", "options"),
    [
        (amqp, ORDER, {"properties": {"subject": {"type": "string", "value": ORDER, "required": True} | ALWAYS},
                       "application-properties": {"region": {"type": "string", "value": "{region}", "required": True} | ALWAYS}}),
        (binary, ORDER, {"method": "POST", "path": "/hooks/{path_3}/orders"}),
        (structured, ORDER, {"method": "POST", "path": "/hooks/{path_3}/orders"}),
        (batch, ORDER, {"method": "POST", "path": "/hooks/{path_3}/orders"}),
        (http, "HTTP /hooks/{}/orders", {"method": "POST", "path": "/hooks/{path_3}/orders"}),
    ],
)  # fmt: skip
def test_captures_of_a_protocol_become_a_definition_that_later_ones_match(sent, kind, options):
    (one,) = proposals([sent(number) for number in range(40)])
    family = "AMQP" if sent is amqp else "HTTP"
    assert (one.observed.kind, list(one.variants)) == (kind, [family])
    assert one.variants[family]["protocoloptions"] == options
    assert one.payload.schema["required"] == ["orderid", "total"]
    rows, schemas = load({name: as_bytes(group.document) for name, group in groups_of([one]).items()})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    later = [matcher.row(event) for event in events([sent(number) for number in range(40, 50)])]
    assert {(row["status"], row["payload_status"]) for row in later} == {("matched", "valid")}
    assert {row["best"][0]["xid"] for row in later} == {f"/messagegroups/{one.group}.{family.lower()}/messages/{one.messageid}"}


def test_what_connections_and_clients_add_is_not_declared():
    (one,) = proposals([amqp(number) for number in range(40)])
    assert "message-annotations" not in one.variants["AMQP"]["protocoloptions"]
    assert {"message-id", "creation-time"}.isdisjoint(one.variants["AMQP"]["protocoloptions"]["properties"])
    (one,) = proposals([binary(number) for number in range(40)])
    assert "headers" not in one.variants["HTTP"]["protocoloptions"]
