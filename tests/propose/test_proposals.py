"""Documents of proposals: values, templates and their names, variants by protocol; they are read without findings and match."""

from __future__ import annotations

import json
import sys

import pytest
from builders import read
from match.catalogs import load

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.evidence import evidence_page
from lakehouse.propose.kinds import EventCounter
from lakehouse.propose.pathcounts import PathCounts
from lakehouse.propose.proposals import ProposedGroup, as_bytes, groups_of, propose_kinds

FEW = Thresholds(required_events=20, required_days=2)


def kafka(number, kind="shop.orders.OrderPlaced", **headers):
    """Return a captured record of Kafka, a binary CloudEvent."""
    region, order = ["eu", "us"][number % 2], f"2026-{number:04}"
    attributes = {"specversion": "1.0", "id": f"e{number}", "type": kind, "source": f"https://shop.example.com/{region}/orders",
                  "subject": order, "time": f"2026-03-{1 + number % 2:02}T10:00:00Z"}  # fmt: skip
    named = {f"ce_{name}": text for name, text in attributes.items()} | {"content-type": "application/json", "region": region}
    return {
        "protocol": "KAFKA", "payload": {"orderid": order, "total": number + 0.5} | ({"note": "x"} if number % 3 else {}),
        "captured": {"topic": "harbour.orders", "key": order,
                     "headers": [{"name": name, "value": text} for name, text in (named | headers).items()]},
    }  # fmt: skip


def observed(messages, keeps_values=True):
    counter = EventCounter(keeps_values)
    for message in messages:
        counter.add([(event, "") for landed in landed_of_text(json.dumps(message).encode()) for event in events_of(landed)])
    return [Observed.of(kind, days) for kind, days in counter.by_kind.items()]


def documents_of(kinds):
    return {name: group.document for name, group in groups_of(kinds).items()}


def proposed(messages, keeps_values=True):
    return propose_kinds(observed(messages, keeps_values), FEW)


def test_constants_are_values_and_segments_that_vary_are_placeholders():
    (document,) = documents_of(proposed(map(kafka, range(40)))).values()
    base = document["messagegroups"]["shop.orders"]["messages"]["shop.orders.OrderPlaced"]
    variant = document["messagegroups"]["shop.orders.kafka"]["messages"]["shop.orders.OrderPlaced"]
    always = {"description": "In 100% of 40."}
    assert base["envelopemetadata"] == {
        "type": {"value": "shop.orders.OrderPlaced"},
        "source": {"type": "uritemplate", "value": "https://shop.example.com/{region}/orders", "required": True} | always,
        "subject": {"type": "string", "value": "{orderid}", "required": True} | always,
        "time": {"type": "timestamp", "required": True} | always,
    }
    assert variant["protocoloptions"] == {
        "topic": "harbour.orders", "key": "{orderid}",
        "headers": {"region": {"type": "string", "value": "{region}", "required": True} | always},
    }  # fmt: skip
    assert base["labels"] == {"proposed": "true", "observed.events": "40", "observed.from": "2026-03-01",
                              "observed.until": "2026-03-02"}  # fmt: skip
    schema = document["schemagroups"]["shop.orders"]["schemas"]["shop.orders.OrderPlaced"]["versions"]["1"]["schema"]
    assert schema["required"] == ["orderid", "total"]
    assert schema["properties"]["note"] == {"type": "string", "examples": ["x"], "description": "In 65.00% of 40."}
    assert document["endpoints"]["shop.orders.kafka"]["protocoloptions"]["topic"] == "harbour.orders"


def test_a_document_is_read_without_findings_and_its_definitions_match_what_they_were_made_of():
    messages = list(map(kafka, range(40)))
    (document,) = documents_of(proposed(messages)).values()
    reading = read(as_bytes(document))
    assert (reading.findings, reading.quarantined.total()) == ([], 0)
    rows, schemas = load({"proposed": as_bytes(document)})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    for message in map(kafka, range(40, 60)):
        (result,) = [row for landed in landed_of_text(json.dumps(message).encode()) for row in matcher.rows(landed)]
        assert result["best"][0]["xid"] == "/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPlaced"
        assert result["variables"] == {
            "orderid": message["payload"]["orderid"],
            "region": message["captured"]["headers"][-1]["value"],
        }
        assert result["payload_status"] == "valid"


def structured(number, **attributes):
    """Return a structured CloudEvent."""
    return {"specversion": "1.0", "id": f"e{number}", "type": "shop.placed", "source": "https://shop.example/eu/orders",
            "time": f"2026-03-0{1 + number % 2}T10:00:00Z", "datacontenttype": "application/json", "data": {"a": number},
            **attributes}  # fmt: skip


def landed(protocol, number, **captured):
    return {"protocol": protocol, "payload": {"a": number}, "captured": captured}


JSON_TYPE = [{"name": "Content-Type", "value": "application/json"}]
EVENTS = {
    "a URI": structured,
    "integers": lambda number: structured(number, sequence=number),
    "integers of 64 bits": lambda number: structured(number, sequence=2**40 + number),
    "booleans": lambda number: structured(number, sampled=True),
    "several types": lambda number: structured(number, sequence=str(number) if number % 2 else number),
    "a schema": lambda number: structured(number, dataschema="https://shop.example/s/placed"),
    "names that CloudEvents has not": lambda number: structured(number, tenant_id="t", TenantId="t"),
    "segments that may be empty": lambda number: structured(number, source=f"https://shop.example/{'b' * (number % 2)}/{number}"),
    "texts that may be empty": lambda number: structured(number, subject="x" * (number % 2)),
    "properties of AMQP": lambda number: landed(
        "AMQP/1.0", number, properties={"to": "/q/x"}, **{"application-properties": {"retries": number, "ratio": 0.5}}
    ),
    "paths of HTTP": lambda number: landed("HTTP", number, headers=JSON_TYPE, method="POST", path="/orders"),
    "responses of HTTP": lambda number: landed("HTTP", number, headers=JSON_TYPE, status=200),
    "responses of several statuses": lambda number: landed(
        "HTTP", number, headers=[*JSON_TYPE, {"name": "status", "value": str(number)}], status=200 + number % 3
    ),
    "times that are numbers": lambda number: structured(number, time=1_700_000_000 + number, source=number),
    "topics of MQTT": lambda number: landed("MQTT/5.0", number, topic_name="/plant/line"),
    "headers with escapes": lambda number: landed(
        "KAFKA", number, topic="t", key="k", headers=[{"name": "app.kubernetes.io/name~x", "value": "shop"}]
    ),
}


@pytest.mark.parametrize("keeps_values", [True, False])
@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("name", EVENTS)
def test_what_is_proposed_is_read_without_findings_and_matches_all_of_its_events(name, count, keeps_values):
    events = [EVENTS[name](number) for number in range(count)]
    (document,) = documents_of(proposed(events, keeps_values)).values()
    assert [finding for finding in read(as_bytes(document), rules=True).findings if finding.severity == "error"] == []
    rows, schemas = load({"proposed": as_bytes(document)})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    results = [row for event in events for one in landed_of_text(json.dumps(event).encode()) for row in matcher.rows(one)]
    assert [(row["status"], row["reasons"]) for row in results] == [("matched", [])] * count


def test_the_page_names_attributes_that_are_not_declared():
    page = evidence_page("shop", ProposedGroup(proposed(structured(number, tenant_id="t") for number in range(3))), FEW)
    assert r"lower-case letters and digits: tenant\_id." in page


def test_the_same_counts_give_the_same_bytes_in_any_order():
    messages = list(map(kafka, range(40)))
    one, other = (documents_of(proposed(some)) for some in (messages, messages[::-1]))
    assert {group: as_bytes(document) for group, document in one.items()} == {
        group: as_bytes(document) for group, document in other.items()
    }


def test_two_placeholders_have_one_name_only_if_they_always_held_the_same_text():
    messages = [kafka(number, region="de" if number == 7 else ["eu", "us"][number % 2]) for number in range(40)]
    (document,) = documents_of(proposed(messages)).values()
    source = document["messagegroups"]["shop.orders"]["messages"]["shop.orders.OrderPlaced"]["envelopemetadata"]["source"][
        "value"
    ]
    variant = document["messagegroups"]["shop.orders.kafka"]["messages"]["shop.orders.OrderPlaced"]
    header = variant["protocoloptions"]["headers"]["region"]["value"]
    assert source.startswith("https://shop.example.com/{")
    assert header not in source


def test_an_event_without_envelope_is_of_the_kind_of_its_address():
    def reading(number):
        return {"protocol": "MQTT/5.0", "payload": {"celsius": number}, "captured": {"topic_name": f"site/{number}/temperature"}}

    (kind,) = proposed(map(reading, range(30)))
    assert kind.observed.kind == "MQTT site/{}/temperature"
    assert kind.variants["MQTT"]["protocoloptions"]["topic_name"].startswith("site/{")
    assert kind.variants["MQTT"]["protocoloptions"]["topic_name"].endswith("}/temperature")
    assert read(as_bytes(documents_of([kind]).popitem()[1])).rows


def test_without_values_nothing_of_an_event_is_written():
    (kind,) = proposed(map(kafka, range(40)), keeps_values=False)
    text = json.dumps(documents_of([kind])) + evidence_page("g", ProposedGroup([kind]), FEW)
    assert not [value for value in ("harbour", "2026-00", "/eu/", "example.com") if value in text]


def test_the_page_says_how_often_and_why():
    kinds = proposed(map(kafka, range(40)))
    page = evidence_page("shop.orders", ProposedGroup(kinds), FEW)
    assert "40 events on 2 days, 2026-03-01 to 2026-03-02, of 2 sources." in page
    assert r"| /data/note | string | 65.00% of 40 | no: absent from 14 | x |" in page
    assert r"| /data/orderid | string | 100% of 40 | yes | 40 distinct |" in page


@pytest.mark.parametrize("text", ["<script>alert(1)</script>", "a|b", "![x](y)", "line\nbreak"])
def test_texts_of_events_are_shown_and_never_markup(text):
    kinds = proposed(kafka(number, note=text) for number in range(40))
    page = evidence_page("g", ProposedGroup(kinds), FEW)
    assert "<script" not in page
    assert "![x]" not in page
    rows = [line for line in page.splitlines() if line.startswith("|")]
    assert {line.replace(r"\|", "").count("|") for line in rows} == {6}


def test_kinds_that_differ_in_letter_case_alone_get_ids_that_do_not():
    names = ("Shop.OrderPlaced", "shop.orderplaced", "shop.order placed", "shop.order_placed")
    documents = documents_of(proposed([kafka(number, kind) for kind in names for number in range(3)]))
    (document,) = documents.values()
    messages = document["messagegroups"]["Shop"]["messages"]
    types = {messageid: one["envelopemetadata"]["type"]["value"] for messageid, one in messages.items()}
    assert types == {
        "Shop.OrderPlaced": "Shop.OrderPlaced",
        "shop.orderplaced-2": "shop.orderplaced",
        "shop.order_placed": "shop.order placed",
        "shop.order_placed-2": "shop.order_placed",
    }
    assert [one for one in read(json.dumps(document), rules=True).findings if one.severity == "error"] == []


@pytest.mark.parametrize(
    ("types", "groups", "ids"),
    [
        (["注文", "出荷"], ["proposed"], ["_~E5~87~BA~E8~8D~B7", "_~E6~B3~A8~E6~96~87"]),
        (["注文.created"], ["_~E6~B3~A8~E6~96~87"], ["_.created"]),
        (["-x.y", "@a.b", ":c.d", "~e.f"], ["_-x", "_:c", "_@a", "_~e"], ["_-x.y", "_:c.d", "_@a.b", "_~e.f"]),
        ([".created", "/"], ["proposed"], ["_.created", "_~2F"]),
        (["shop." + "a" * 200 + "1", "shop." + "a" * 200 + "2"], ["shop"], None),
        (["shop." + "a" * 123, "shop." + "A" * 123], ["shop"], None),
        (["g" * 200 + ".a", "g" * 200 + ".b", "h" * 128 + ".c"], None, None),
    ],
    ids=["no ASCII", "a group of no ASCII", "odd beginnings", "nothing before a dot", "long", "long and alike", "long groups"],
)
def test_types_of_any_text_get_ids_that_are_read_without_findings(types, groups, ids):
    kinds = proposed([kafka(number, kind) for kind in types for number in range(3)])
    read_messages, schemas = {}, {}
    for document in documents_of(kinds).values():
        reading = read(as_bytes(document), rules=True)
        assert ([one for one in reading.findings if one.severity == "error"], reading.quarantined.total()) == ([], 0)
        for group in document["messagegroups"].values():
            if group.get("envelope"):
                read_messages |= group["messages"]
        schemas |= document["schemagroups"]
    assert len({messageid.lower() for messageid in read_messages}) == len(types)
    assert sorted({kind.group for kind in kinds}) == (groups or sorted({kind.group for kind in kinds}))
    assert sorted(read_messages) == (ids or sorted(read_messages))
    assert sorted(schemas) == sorted({kind.group for kind in kinds})


@pytest.mark.parametrize("topic", ["@orders/new", "-orders", "~a", "注文/1", "t" * 200])
def test_topics_of_any_text_get_ids_that_are_read_without_findings(topic):
    kinds = proposed([{"protocol": "MQTT/5.0", "payload": {"n": 1}, "captured": {"topic_name": topic}}] * 3)
    (document,) = documents_of(kinds).values()
    reading = read(as_bytes(document), rules=True)
    assert ([one for one in reading.findings if one.severity == "error"], reading.quarantined.total()) == ([], 0)
    assert len(document["messagegroups"]) == 1


def test_the_page_says_which_sources_sent_what_others_did_not():
    messages = [kafka(number) for number in range(40)]
    for message in messages[::2]:
        message["payload"]["extra"] = 1
    kinds = proposed(messages)
    page = evidence_page("shop.orders", ProposedGroup(kinds), FEW)
    assert "| /data/extra | integer | 50.00% of 40, from 1 of 2 sources: https://shop.example.com/eu/orders |" in page
    assert "| /data/orderid | string | 100% of 40 |" in page
    (hidden,) = observed(messages, keeps_values=False)
    assert hidden.producers("/data/extra") is None


def test_no_more_distinct_values_are_shown_than_there_were():
    """The sketch estimates 2,057 of these 2,000."""
    (kind,) = proposed([kafka(number) for number in range(2000)])
    assert "| /data/orderid | string | 100% of 2,000 | yes | 2,000 distinct |" in evidence_page(
        kind.group, ProposedGroup([kind]), FEW
    )


@pytest.mark.parametrize("count", [20, 2_000])  # few values, and more than are kept
@pytest.mark.parametrize("least", [2**64, -(10**30), 10**400], ids=["unsigned", "negative", "no double"])
def test_integers_of_any_size_are_integers(least, count):
    (kind,) = proposed([kafka(number) | {"payload": {"n": least + number * 2**20}} for number in range(count)])
    counts = kind.observed.counts["/data/n", "integer"]
    assert kind.observed.types("/data/n") == {"integer": counts}
    assert counts.events == count
    assert counts.least == (float(least) if abs(least) < 10**300 else sys.float_info.max)
    assert b'"type": "integer"' in as_bytes(next(iter(documents_of([kind]).values())))


def test_texts_with_half_of_a_surrogate_pair_are_counted():
    counts = PathCounts()
    counts.add_values({f"{number}\ud800": 1 for number in range(100)})
    assert counts.values is None
    assert counts.sketch
