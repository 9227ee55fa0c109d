"""The rules between entities on records alone: each rule by its examples, and what the look-ups find around an entity."""

from __future__ import annotations

import pytest
from builders import document, group
from exampled import RELATIONAL
from records import Records, records_of

from lakehouse.domain import relations
from lakehouse.rules.declared import RULES, examples, registry_of

M = "/messagegroups/g/messages"
E = "/endpoints/e"
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}


def rules(found):
    return {violation.rule_id for _, violation in found if (violation.severity or RULES[violation.rule_id].severity) != "info"}


@pytest.mark.parametrize("rule_id", sorted(RELATIONAL))
def test_the_bad_example_breaks_the_rule_and_the_good_one_none(rule_id):
    example = examples()[rule_id]
    bad, good = (records_of(registry_of(example.at, one)).broken() for one in (example.bad, example.good))
    assert rule_id in {violation.rule_id for _, violation in bad}
    assert rules(bad) <= {rule_id}
    assert rules(good) == set()


def of_messages(**messages):
    return Records(document({"g": group(messages)})).broken()


def test_what_holds_a_message():
    def judged(in_group, **values):
        return [one.rule_id for one in relations.check_parent(in_group=in_group, **({"is_based": False} | values))]

    given = {"envelope": "CloudEvents/1.0.2", "parent_envelope": "cloudevents/1.0"}
    assert (judged(True, **given), judged(False, **given)) == (["MSG-157"], [])
    other = {"protocol": "MQTT/3.1.1", "parent_protocol": "MQTT/5.0"}
    assert (judged(True, **other), judged(False, **other)) == (["MSG-134"], ["END-096"])
    assert judged(True, parent_envelope="Own/1") == ["MSG-156"]
    assert judged(True, parent_envelope="Own/1", is_based=True) == judged(False, parent_envelope="Own/1") == []


def test_all_members_of_a_cycle_break_the_rule_and_nothing_that_hangs_off_it():
    bases = {name: {"basemessage": f"{M}/{base}"} for name, base in ("ab", "bc", "ca", "da")}
    assert of_messages(**bases) == {
        (
            f"{M}/{name}/versions/1",
            ("MSG-146", "/basemessage", f"`basemessage` leads over {M}/{base} back to this message", None),
        )
        for name, base in ("ab", "bc", "ca")
    }


def test_a_cycle_that_a_message_closes_by_the_version_that_it_shows():
    [found] = relations.check_cycle(basemessage=f"{M}/b", by_default=True)
    assert (found.pointer, found.message) == ("", f"`basemessage` of its default Version leads over {M}/b back to this message")


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"envelope": "CloudEvents/1.0"}, {("MSG-161", "/envelope", None)}),
        ({"protocol": "KAFKA"}, {("MSG-166", "/protocol", None)}),
        ({"envelope": "CloudEvents/1.0", "envelopemetadata": {}}, set()),
        ({"dataschema": {}}, {("MSG-175", "/dataschema", None)}),
        ({"dataschemauri": "https://a.example/s"}, {("MSG-181", "/dataschemauri", None)}),
        ({"dataschemauri": "#/schemagroups/s/schemas/t"}, {("MSG-181", "/dataschemauri", "warning")}),
        ({"dataschema": {}, "dataschemaformat": "JSONSchema/draft-07"}, set()),
    ],
)
def test_what_a_definition_lacks_with_its_bases(own, expected):
    messages = {"base": {"name": "x"}, "m": {"basemessage": f"{M}/base"} | own, "open": {"basemessage": f"{M}/none"} | own}
    found = of_messages(**messages)
    lacks = {
        (one.rule_id, one.pointer, one.severity) for xid, one in found if xid == f"{M}/m/versions/1" and one.rule_id != "MSG-179"
    }
    assert lacks == expected
    # What hangs off a base that may come later is not judged
    assert {one.rule_id for xid, one in found if xid == f"{M}/open/versions/1"} <= {"MSG-150", "MSG-179"}


def test_what_a_base_supplies_is_not_missing():
    supplied = EVENT | {"protocol": "KAFKA", "protocoloptions": {"topic": {"value": "t"}}}
    assert of_messages(base=supplied, m={"basemessage": f"{M}/base", "envelope": "CloudEvents/1.0"}) == set()
    empty = {"envelope": "Own/1", "envelopemetadata": {}}
    assert of_messages(base=empty, m={"basemessage": f"{M}/base", "envelope": "Own/1"}) == set()
    found = of_messages(base=supplied, m={"basemessage": f"{M}/base", "envelope": "Own/1"})
    assert {one.rule_id for _, one in found} == {"MSG-161"}


def test_aliases():
    named = {name: {"meta": {"xref": f"{M}/{to}"}} for name, to in (("a", "b"), ("b", "a"), ("self", "self"), ("c", "a"))}
    found = {xid.rsplit("/", 1)[1]: one for xid, one in of_messages(**named, gone={"meta": {"xref": f"{M}/none"}})}
    assert {name: one.severity for name, one in found.items()} == {"a": None, "b": None, "self": None, "c": None, "gone": "info"}
    assert {one.rule_id for one in found.values()} == {"MSG-096"}
    assert "neither has a definition" in found["a"].message
    assert "it shows nothing" in found["c"].message
    assert "this entity itself" in found["self"].message


def test_a_schema_that_is_not_there():
    schemas = {"s": group({"a": {"format": "Avro/1.9", "schema": {}}, "b:1": {"format": "Avro/1.9"}}, holds="schemas")}
    uris = {
        "#/schemagroups/s/schemas/a:Order": None,
        "#/schemagroups/s/schemas/b:1": None,
        "/schemagroups/none/schemas/a": None,
        "https://a.example/schemagroups/s/schemas/c": None,
        "#/schemagroups/s/schemas/c": "/schemagroups/s/schemas/c",
        "/schemagroups/s/schemas/c": "/schemagroups/s/schemas/c",
        "#/schemagroups/none/schemas/a": "/schemagroups/none/schemas/a",
        "#/schemagroups/s": "/schemagroups/s",
    }
    for uri, path in uris.items():
        message = {"dataschemauri": uri, "dataschemaformat": "Avro/1.9"}
        found = Records(document({"g": group({"m": message})}, schemagroups=schemas)).broken()
        reported = set() if path is None else {("MSG-179", f"`dataschemauri`: schema `{path}` does not exist")}
        assert (uri, {(one.rule_id, one.message) for _, one in found}) == (uri, reported)


def endpoint(options=None, **messages):
    """Return what an endpoint of KAFKA breaks that lists the group of some messages."""
    written = {"usage": ["producer"], "protocol": "KAFKA", "messagegroups": ["/messagegroups/g"]}
    written |= {"envelope": "CloudEvents/1.0", "protocoloptions": options} if options else {}
    return {one for xid, one in Records(document({"g": group(messages)}, {"e": written})).broken() if xid == E}


def test_messages_that_do_not_fit_the_endpoint_that_lists_them_are_counted():
    other = {
        "envelope": "Own/1",
        "envelopemetadata": {"a": {}},
        "protocol": "NATS",
        "protocoloptions": {"subject": {"value": "s"}},
    }
    found = endpoint({"topic": "t"}, a=other, b=other, c=EVENT)
    expected = {"END-074": "envelope", "END-096": "protocol"}
    assert found == {
        (rule, "/messagegroups", f"2 messages have another {what}, such as {M}/a", "warning") for rule, what in expected.items()
    }


def test_options_that_messages_contradict():
    def of_topic(topic, base=None):
        declared = {"protocoloptions": {"topic": {"value": topic}}} if topic else {}
        return EVENT | {"protocol": "KAFKA"} | declared | ({"basemessage": f"{M}/{base}"} if base else {})

    found = endpoint({"topic": "t"}, same=of_topic("t"), any=of_topic("{tenant}"), a=of_topic("x"), b=of_topic(None, base="a"))
    [one] = [one for one in found if one.rule_id == "MATCH-004"]
    assert one.pointer == "/protocoloptions/topic"
    assert one.message == f"`topic` is t, and other values are declared by messages that it carries: 2, such as {M}/a with x"


def test_ids_in_other_letters():
    records = Records(document({"g": group({"m": {}})}))
    records.states |= Records(document({"g": group({"M": {}})})).states
    assert {(xid, one.rule_id) for xid, one in records.broken()} == {(f"{M}/{name}", "MSG-037") for name in "mM"}
    assert set(relations.VARYING) == {"group", "endpoint", "message", "version", "schema"}
    reported = [next(relations.check_variant(kind=kind, other="/x")).rule_id for kind in relations.VARYING]
    assert reported == ["MSG-020", "END-033", "MSG-037", "MSG-038", "MSG-037"]


def oldest(text, envelope, authority):
    kinds = {"declared": {"versions": {"1": {"description": text}}}, "plain": {"description": text}}
    definitions = {name: written | {"meta": {"authority": authority}} for name, written in kinds.items()}
    records = Records({"definitionGroups": {"g": {"format": envelope, "definitions": definitions}}}, "cereg")
    implied = f"{M}/plain/versions/1"
    records.states[implied] = records.states[implied]._replace(is_declared=False)
    return records


def test_the_oldest_dialect_forbids_changes():
    before = oldest("a", "CloudEvents/1.0", "urn:a")
    found = oldest("b", "own/1", "urn:b").broken(before)
    assert {(one.rule_id, xid) for xid, one in found if one.rule_id.startswith("CAT")} == {
        ("CAT-024", "/messagegroups/g"),
        ("CAT-038", f"{M}/declared/versions/1"),
        ("CAT-064", f"{M}/declared"),
        ("CAT-064", f"{M}/plain"),
    }
    changed = Records(document({"g": group({"m": {"name": "b"}})}))
    assert changed.broken(Records(document({"g": group({"m": {"name": "a"}})}))) == set()


def test_every_judge_is_tried_here():
    assert set(relations.JUDGES) == {name for name in vars(relations) if name.startswith("check_")}
