"""Kinds that share an address: found by a header or member that decides the shape, and what is proposed distinguishes them."""

from __future__ import annotations

import json

import orjson
import pytest
from builders import law
from hypothesis import given
from hypothesis import strategies as st
from match.catalogs import load

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.discriminators import SharedAddresses, discriminator_of, kind_at
from lakehouse.propose.kinds import EventCounter
from lakehouse.propose.proposals import as_bytes, groups_of, propose_kinds

SHAPES = {"placed": {"orderid": "7", "total": 1.5, "items": []}, "gone": {"reason": "late", "by": "x", "refund": 2}}


def record(number, header=None, **members):
    kind = ["placed", "gone"][number % 2]
    named = [{"name": header, "value": kind}] if header else []
    payload = SHAPES[kind] | ({"note": "n"} if number % 3 else {}) | members
    return {"protocol": "KAFKA", "payload": payload, "captured": {"topic": "orders", "headers": named}}


def events(messages):
    return [event for one in messages for landed in landed_of_text(orjson.dumps(one)) for event in events_of(landed)]


def counted(messages, discriminators=None):
    counter = EventCounter(discriminators=discriminators or {})
    counter.add([(event, "2026-01-01") for event in events(messages)])
    return counter


def found(messages):
    return counted(messages).shared.discriminators()


MEMBER = [record(number, kind=["placed", "gone"][number % 2]) for number in range(60)]
HEADER = [record(number, header="event") for number in range(60)]


@pytest.mark.parametrize(
    ("messages", "path"), [(MEMBER, "/data/kind"), (HEADER, "/protocoloptions/headers~1event")], ids=["member", "header"]
)
def test_what_decides_the_shape_distinguishes_kinds_and_their_proposals(messages, path):
    discriminators = found(messages)
    assert discriminators == {"KAFKA orders": path}
    counter = counted(messages, discriminators)
    observed = [Observed.of(kind, days) for kind, days in counter.by_kind.items()]
    assert [one.kind for one in observed] == [f"KAFKA orders?{path}=gone", f"KAFKA orders?{path}=placed"]
    kinds = propose_kinds(observed, Thresholds(required_events=20, required_days=1))
    assert [kind.messageid for kind in kinds] == ["orders.gone", "orders.placed"]
    rows, schemas = load({name: as_bytes(group.document) for name, group in groups_of(kinds).items()})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    for number, message in enumerate(messages):
        (row,) = (row for landed in landed_of_text(orjson.dumps(message)) for row in matcher.rows(landed))
        assert (row["status"], row["payload_status"]) == ("matched", "valid")
        assert row["best"][0]["xid"].endswith(["orders.placed", "orders.gone"][number % 2])


def test_a_member_that_says_little_about_the_others_does_not_distinguish():
    states = [record(2 * number, state=["open", "done"][number % 2]) for number in range(60)]
    one_more = [
        record(2 * number, state="done", by="x") if number % 2 else record(2 * number, state="open") for number in range(60)
    ]
    names = [record(number, name=f"name {number}") for number in range(60)]
    few = [record(number, kind=["placed", "gone"][number % 2]) for number in range(10)]
    assert [found(messages) for messages in (states, one_more, names, few)] == [{}, {}, {}, {}]


def test_no_secret_distinguishes_and_nothing_where_no_value_may_be_kept():
    assert found([record(number, password=["a", "b"][number % 2]) for number in range(60)]) == {}
    counter = EventCounter(keeps_values=False)
    counter.add([(event, "") for event in events(MEMBER)])
    assert counter.shared.discriminators() == {}


@law
@given(st.integers(0, 60), st.randoms())
def test_parts_add_up_in_any_order(at, random):
    parts = [row for some in (MEMBER[:at], MEMBER[at:]) for row in counted(some).shared.rows()]
    random.shuffle(parts)
    assert list(SharedAddresses.of_rows(parts).rows()) == list(counted(MEMBER).shared.rows())


@pytest.mark.parametrize("value", ["a", "a/b?/c=d", "~1", "{}", "", "ä b"])
def test_a_kind_says_what_distinguishes_it(value):
    assert discriminator_of(kind_at("HTTP /a?b=/c", "/data/x~1y", value)) == ("HTTP /a?b=/c", "/data/x~1y", value)


def test_a_type_of_cloudevents_needs_no_discriminator():
    structured = {"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
    messages = [{"protocol": "KAFKA", "captured": {"topic": "orders"}, "payload": json.dumps(structured)}] * 30
    assert found(messages) == {}
    assert discriminator_of("shop.orders.Placed") is None
