"""Definitions as predicates: what decides, in which order, and what is reported for those that cannot work."""

from __future__ import annotations

from builders import document, group

from lakehouse.match.catalogrules import flaws_of, signature_of, unused_of
from lakehouse.match.definition.compiled import definition_of
from lakehouse.match.evaluation import is_more_specific
from match.catalogs import load


def definitions(**messages):
    rows, _ = load({"r": document({"g": group(messages)})})
    return {row["xid"].rpartition("/")[2]: definition_of(row) for row in rows}


def event(subject: str, kind: str = "T", **more):
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": kind}, "subject": {"value": subject}, **more}}


def test_an_endpoint_says_what_the_message_does_not():
    """Its key counts where the message says neither `key` nor `key_base64`: they exclude each other (MSG-370)."""
    endpoint = {"/protocol": '"KAFKA"', "/protocoloptions/topic/value": '"e"', "/protocoloptions/key/value": '"{k}"'}
    for options, expected in (
        ({}, {"topic": "e", "key": "{k}"}),
        ({"topic": {"value": "t"}, "key": {"value": "m"}}, {"topic": "t", "key": "m"}),
        ({"key_base64": {"value": "/w=="}}, {"topic": "e", "key_base64": "/w=="}),
    ):
        [row], _ = load({"r": document({"g": group({"a": {"protocol": "KAFKA", "protocoloptions": options}})})})
        assert {one.key: one.value for one in definition_of(row, endpoint=endpoint).attributes} == expected


def test_two_that_nothing_distinguishes():
    made = definitions(
        a=event("{x}"), b=event("{y}"), c=event("{x}", "U"), d=event("{x}", time={"required": True}), e={"name": "e"}
    )
    assert signature_of(made["a"]) == signature_of(made["b"])
    assert len({signature_of(made[name]) for name in "acd"}) == 3
    assert signature_of(made["e"]) is None


def test_what_must_be_equal_distinguishes():
    shared, free = event("{x}", source={"value": "/s/{x}"}), event("{x}", source={"value": "/s/{y}"})
    made = definitions(a=shared, b=free)
    assert signature_of(made["a"]) != signature_of(made["b"])


def test_a_template_that_can_never_match():
    made = definitions(a=event("{x}{y}"), b=event("{x}-{y}"))
    assert [pointer for pointer, _ in flaws_of(made["a"])] == ["/envelopemetadata/subject"]
    assert list(flaws_of(made["b"])) == []


def test_a_template_that_can_never_be_of_its_type():
    typed = {
        "n": {"type": "integer", "value": "a{x}"}, "m": {"type": "integer", "value": "{x}0"},
        "b": {"type": "boolean", "value": "yes{x}"}, "t": {"type": "timestamp", "value": "{day}T00:00:00Z"},
        "w": {"type": "timestamp", "value": "week {n}"},
    }  # fmt: skip
    made = definitions(a=event("s", **typed))
    assert [pointer for pointer, _ in flaws_of(made["a"])] == [f"/envelopemetadata/{name}" for name in "bnw"]


def test_a_placeholder_that_nothing_reads():
    rows, _ = load({"r": document({"g": group({
        "a": event("{x}", n={"type": "number", "value": "{x}"}) | {"datacontenttype": "application/{x}"},
        "b": event("{x}") | {"envelope": "Other/1.0"},
    })})})  # fmt: skip
    made = {row["xid"][-1]: [pointer for pointer, _ in unused_of(row, definition_of(row))] for row in rows}
    assert made == {"a": ["/datacontenttype", "/envelopemetadata/n"], "b": ["/envelopemetadata/subject"]}


def test_specificity():
    made = definitions(
        base=event("{x}"),
        more=event("{y}", ext={"value": "1"}),
        child={"basemessage": "/messagegroups/g/messages/base", "envelope": "CloudEvents/1.0"},
        demands=event("{x}", time={"required": True}),
        other=event("{x}", "U"),
    )
    for name in ("more", "child", "demands"):
        assert is_more_specific(made[name], made["base"]), name
        assert not is_more_specific(made["base"], made[name]), name
    assert not is_more_specific(made["other"], made["base"])


def test_what_decides_and_what_only_deviates():
    made = definitions(
        mqtt={"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": {"value": "a/{x}"}, "qos": {"value": 1}}},
        amqp={
            "protocol": "AMQP/1.0",
            "protocoloptions": {"properties": {"subject": {"value": "s"}}, "header": {"ttl": {"value": 1}}},
        },
        none={"envelope": "CloudEvents/1.0", "protocol": "None"},
    )
    decides = {one.key: one.decides for name in ("mqtt", "amqp") for one in made[name].attributes}
    assert decides == {"topic_name": True, "qos": False, "properties/subject": True, "header/ttl": False}
    assert made["none"].family is None
    assert [one.key for one in made["none"].attributes if one.required] == ["type", "specversion", "id", "source"]
