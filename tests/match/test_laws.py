"""Laws of matching, on definitions and messages that are made up: the engine against an oracle, and against itself."""

from __future__ import annotations

import base64
import json
from typing import Any

from builders import law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas, Tolerance
from lakehouse.match.evaluation import evaluate
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from match.catalogs import row_of
from match.plain_matching import best, is_of

WORDS = st.sampled_from(["a", "b", "ab", "A", "x.y", "1", "é"])
PIECES = st.sampled_from(["a", "b", "{p}", "{q}", "a-{p}", "{p}.{q}", "{q}b", "x.y"])
TEMPLATES = st.lists(PIECES, min_size=1, max_size=3).map("/".join)
TEXTS = st.lists(WORDS, min_size=1, max_size=4).map("/".join)
TYPES = st.sampled_from(["T", "U", "t"])
FAMILIES = {"KAFKA": "KAFKA", "MQTT/5.0": "MQTT", "AMQP/1.0": "AMQP"}


def declared(values: st.SearchStrategy[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {}, optional={"value": values, "required": st.booleans(), "type": st.sampled_from(["string", "uritemplate"])}
    )


@st.composite
def definitions(draw: Any) -> dict[str, Any]:
    """Make an effective definition: a CloudEvent or not, of a protocol or of any."""
    made: dict[str, Any] = {}
    if draw(st.booleans()):
        made["envelope"] = "CloudEvents/1.0"
        names = draw(st.sets(st.sampled_from(["source", "subject", "ext"])))
        made["envelopemetadata"] = {"type": {"value": draw(TYPES)}} | {name: draw(declared(TEMPLATES)) for name in sorted(names)}
    protocol = draw(st.sampled_from([None, *FAMILIES]))
    if protocol:
        made["protocol"] = protocol
        made["protocoloptions"] = draw(options_of(protocol, declared(TEMPLATES)))
    elif "envelope" not in made:
        made |= {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": draw(TYPES)}}}
    return made


def options_of(protocol: str, one: Any) -> st.SearchStrategy[dict[str, Any]]:
    if protocol == "KAFKA":
        return st.fixed_dictionaries(
            {"topic": one.filter(bool)}, optional={"key": one, "headers": st.fixed_dictionaries({"h": one})}
        )
    if protocol == "MQTT/5.0":
        return st.fixed_dictionaries({"topic_name": one.filter(bool)}, optional={"qos": st.just({"value": 1})})
    return st.fixed_dictionaries(
        {"properties": st.fixed_dictionaries({"subject": one.filter(bool)})},
        optional={"application-properties": st.fixed_dictionaries({"h": one}), "header": st.just({"ttl": {"value": 5}})},
    )


@st.composite
def messages(draw: Any) -> dict[str, Any]:
    """Make a captured message: a CloudEvent in either mode, or none."""
    protocol = draw(st.sampled_from(list(FAMILIES)))
    attributes = draw(
        st.fixed_dictionaries(
            {"type": TYPES, "source": TEXTS, "id": st.just("1"), "specversion": st.just("1.0")},
            optional={"subject": TEXTS, "ext": TEXTS},
        )
    )
    mode = draw(st.sampled_from(["binary", "structured", "none"]))
    pairs = {"h": draw(TEXTS)} if draw(st.booleans()) else {}
    address, key = draw(TEXTS), draw(TEXTS)
    return message_of(protocol, {} if mode == "none" else attributes, mode, pairs, address, key)


def message_of(
    protocol: str, attributes: dict[str, Any], mode: str, pairs: dict[str, str], address: str, key: str = "k"
) -> dict[str, Any]:
    prefix = {"KAFKA": "ce_", "MQTT/5.0": "", "AMQP/1.0": "cloudEvents:"}[protocol]
    binary = {prefix + name: text for name, text in attributes.items()} if mode == "binary" else {}
    content = "application/cloudevents+json" if mode == "structured" else "application/json"
    body = json.dumps({**attributes, "data": {}}).encode() if mode == "structured" else b"{}"
    if protocol == "KAFKA":
        named = {**pairs, **binary, "content-type": content}
        captured: dict[str, Any] = {"topic": address, "key": key, "headers": [{"name": n, "value": v} for n, v in named.items()]}
    elif protocol == "MQTT/5.0":
        named = {**pairs, **binary} if mode == "binary" else pairs
        captured = {"topic_name": address, "qos": 1, "retain": False, "content_type": content}
        captured["user_properties"] = [{"name": n, "value": v} for n, v in named.items()]
    else:
        captured = {"properties": {"subject": address, "content-type": content}, "application-properties": {**pairs, **binary}}
        captured |= {"header": {"ttl": 5}}
    return {"protocol": protocol, "captured": captured, "payload_base64": base64.b64encode(body).decode()}


def rows_of(made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row_of("r", f"/messagegroups/g/messages/m{number}", "none", one) for number, one in enumerate(made)]


def matcher_of(rows: list[dict[str, Any]], **tolerance: Any) -> Matcher:
    asked = Tolerance(**tolerance)
    return Matcher(Index.of(rows, asked.placeholders), Payloads(Schemas([])), MatchRequest(asked, payload_share=0))


def result_of(matcher: Matcher, message: dict[str, Any]) -> dict[str, Any]:
    [landed] = landed_of_text(json.dumps(message).encode())
    [row] = list(matcher.rows(landed))
    return row


def xids(found: list[dict[str, str]]) -> set[str]:
    return {one["xid"] for one in found}


def is_plain(made: dict[str, Any]) -> bool:
    """Return whether a definition declares more than its payload, so that it is matched by what it declares."""
    rest = [
        one
        for option in made.get("protocoloptions", {}).values()
        for one in (option.values() if "value" not in option else [option])
    ]
    flat = json.dumps(made.get("protocoloptions", {}))
    return "envelope" in made or '"value"' in flat or '"required": true' in flat or not rest


@law
@given(st.lists(definitions().filter(is_plain), min_size=1, max_size=5), messages(), st.sampled_from(["auto", "segment", "any"]))
def test_the_oracle_agrees(made, message, rule):
    rows = rows_of(made)
    reported = result_of(matcher_of(rows, placeholders=rule), message)
    expected = [row for row in rows if is_of(row, message, rule)[0]]
    assert xids(reported["matches"]) == {row["xid"] for row in expected}
    assert xids(reported["best"]) == best(expected)
    if reported["best"]:
        shown = next(row for row in rows if row["xid"] == reported["best"][0]["xid"])
        assert reported["variables"] == is_of(shown, message, rule)[1]
    assert (reported["status"] == "unmatched") == (not expected)


@law
@given(st.lists(definitions().filter(is_plain), min_size=1, max_size=4), messages())
def test_best_is_an_antichain_of_the_matches_whatever_the_order(made, message):
    rows = rows_of(made)
    reported, turned = result_of(matcher_of(rows), message), result_of(matcher_of(rows[::-1]), message)
    assert reported == turned
    assert xids(reported["best"]) <= xids(reported["matches"])
    assert bool(reported["best"]) == bool(reported["matches"])


@law
@given(definitions().filter(is_plain), messages(), st.sampled_from(["source", "subject", "ext"]), TEMPLATES)
def test_one_more_constraint_never_adds_a_match(made, message, name, value):
    narrower = json.loads(json.dumps(made))
    if "envelope" in made and "value" not in made["envelopemetadata"].get(name, {}):
        narrower["envelopemetadata"].setdefault(name, {})["value"] = value
    found = result_of(matcher_of(rows_of([narrower])), message)["matches"]
    assert not found or result_of(matcher_of(rows_of([made])), message)["matches"]


@law
@given(definitions().filter(is_plain), messages())
def test_what_is_moved_to_unknown_never_turns_a_match_into_a_miss(made, message):
    rows = rows_of([made])
    matcher = matcher_of(rows)
    [landed] = landed_of_text(json.dumps(message).encode())
    [event] = list(events_of(landed))
    definition = next(matcher.index.definitions())
    if not evaluate(definition, event, Tolerance()).matches:
        return
    for section in sorted(event.captured):
        name = section.removeprefix("/protocoloptions/")
        event_without = next(events_of(landed))
        event_without.captured = event.captured - {section}
        if section == "/envelopemetadata":
            event_without.ce = {}
        else:
            event_without.options = {
                key: one for key, one in event.options.items() if key != name and not key.startswith(f"{name}/")
            }
        outcome = evaluate(definition, event_without, Tolerance())
        assert outcome.matches, (section, outcome.reasons)


@law
@given(definitions().filter(is_plain), TYPES, TEXTS, TEXTS, TEXTS, st.sampled_from(list(FAMILIES)))
def test_structured_and_binary_of_one_event_match_alike(made, kind, source, subject, address, protocol):
    attributes = {"type": kind, "source": source, "subject": subject, "id": "1", "specversion": "1.0"}
    reported = [
        result_of(matcher_of(rows_of([made])), message_of(protocol, attributes, mode, {"h": "a"}, address))
        for mode in ("binary", "structured")
    ]
    assert reported[0]["matches"] == reported[1]["matches"]
    assert reported[0]["variables"] == reported[1]["variables"]


@law
@given(st.lists(definitions().filter(is_plain), min_size=1, max_size=3), messages())
def test_a_narrower_rule_of_placeholders_matches_less(made, message):
    rows = [
        row for row in rows_of(made) if "{p}" not in json.dumps(row["attributes"]) or "{q}" not in json.dumps(row["attributes"])
    ]
    once = [row for row in rows if json.dumps(row["attributes"]).count("{") <= 3]
    found = [xids(result_of(matcher_of(once, placeholders=rule), message)["matches"]) for rule in ("segment", "auto", "any")]
    held_once = all(text.count("{p}") + text.count("{q}") <= 1 for text in (json.dumps(row["attributes"]) for row in once))
    assert not held_once or found[0] <= found[1] <= found[2]


@law
@given(definitions().filter(is_plain), messages())
def test_renamed_placeholders_change_only_the_names(made, message):
    renamed = json.loads(json.dumps(made).replace("{p}", "{r2}"))
    one, other = (result_of(matcher_of(rows_of([written])), message) for written in (made, renamed))
    assert one["status"] == other["status"]
    assert {name.replace("p", "r2"): text for name, text in one["variables"].items()} == other["variables"]


@law
@given(st.lists(definitions().filter(is_plain), min_size=1, max_size=3), messages())
def test_an_unmatched_event_fails_at_each_candidate(made, message):
    matcher = matcher_of(rows_of(made))
    [landed] = landed_of_text(json.dumps(message).encode())
    [event] = list(events_of(landed))
    for definition in matcher.index.definitions():
        outcome = evaluate(definition, event, Tolerance())
        expected, _, failed = is_of(next(row for row in rows_of(made) if row["xid"] == definition.xid), message)
        assert outcome.matches == expected
        assert expected or {reason.pointer for reason in outcome.reasons} <= failed
