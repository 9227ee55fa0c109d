"""Differences: what they mean by the published rules, in Python and in the view `snapshot_diff` alike."""

from __future__ import annotations

from lakehouse.domain.diff import CLASSES, Difference, compatibility_rules, differences
from lakehouse.query.diff import compare, read_differences
from lakehouse.settings import data_folder
from lakehouse.store.views import session_with_views

CE, MQTT = "/envelopemetadata/", "/protocoloptions/"
DECLARED = {CE + "a/type": '"string"', CE + "a/value": '"v"', CE + "a/required": "false"}

# kind, before, after → rule, for producers, for consumers
CASES = [
    ("message", None, {"/name": '"x"'}, "message-added", "compatible", "compatible"),
    ("message", {"/name": '"x"'}, None, "message-removed", "breaking", "breaking"),
    ("endpoint", {}, None, "endpoint-removed", "breaking", "breaking"),
    ("message", {"/name": '"x"'}, {"/name": '"y"'}, "text", "cosmetic", "cosmetic"),
    ("message", {}, {"/labels/a": '"y"'}, "text", "cosmetic", "cosmetic"),
    ("message", {}, {"/deprecated": "{}"}, "deprecated", "compatible", "compatible"),
    ("message", {}, {"/envelope": '"CloudEvents/1.0"'}, "envelope", "breaking", "breaking"),
    ("message", {"/protocol": '"KAFKA"'}, {"/protocol": '"MQTT/5.0"'}, "protocol", "breaking", "breaking"),
    ("message", {}, {CE + "n/required": "true"}, "required-attribute-added", "breaking", "compatible"),
    ("message", {CE + "n/required": "true"}, {}, "required-attribute-removed", "compatible", "breaking"),
    ("message", {}, {CE + "n/type": '"string"'}, "optional-attribute-added", "compatible", "compatible"),
    ("message", {CE + "n/type": '"string"'}, {}, "optional-attribute-removed", "compatible", "compatible"),
    ("message", DECLARED, DECLARED | {CE + "a/required": "true"}, "became-required", "breaking", "compatible"),
    ("message", DECLARED | {CE + "a/required": "true"}, DECLARED, "became-optional", "compatible", "breaking"),
    ("message", DECLARED, DECLARED | {CE + "a/type": '"integer"'}, "type", "breaking", "breaking"),
    ("message", DECLARED, DECLARED | {CE + "a/value": '"w"'}, "value", "breaking", "breaking"),
    ("message", DECLARED, {k: v for k, v in DECLARED.items() if k != CE + "a/value"}, "value-freed", "compatible", "breaking"),
    ("message", {k: v for k, v in DECLARED.items() if k != CE + "a/value"}, DECLARED, "value-fixed", "breaking", "compatible"),
    ("message", {k: v for k, v in DECLARED.items() if "req" not in k}, DECLARED, "still-optional", "cosmetic", "cosmetic"),
    ("message", {MQTT + "topic/value": '"a"'}, {MQTT + "topic/value": '"b"'}, "address", "breaking", "breaking"),
    ("message", {}, {"/dataschemauri": '"#/x"'}, "schema-declared", "breaking", "compatible"),
    ("message", {"/dataschemaformat": '"a"'}, {"/dataschemaformat": '"b"'}, "schema-reference", "breaking", "breaking"),
    ("message", {"/dataschema": "{}"}, {"/dataschema": "[]"}, "schema-reference", "breaking", "breaking"),
    ("message", {MQTT + "user_properties": "[]"}, {MQTT + "user_properties": "[1]"}, "protocol-options", "breaking", "breaking"),
    ("message", {}, {"/house": "1"}, "other", "compatible", "compatible"),
    ("endpoint", {}, {"/usage/producer": "true"}, "role-or-group-added", "compatible", "compatible"),
    ("endpoint", {"/messagegroups/~1g": "true"}, {}, "role-or-group-removed", "breaking", "breaking"),
    ("endpoint", {MQTT + "endpoints": "[]"}, {MQTT + "endpoints": "[1]"}, "endpoint-options", "breaking", "breaking"),
    ("endpoint", {}, {MQTT + "deployed": "true"}, "endpoint-options-added", "compatible", "compatible"),
    ("schemaversion", {"/schema": "{}"}, {"/schema": "[]"}, "schema-document", "breaking", "breaking"),
    ("schemaversion", None, {}, "schemaversion-added", "compatible", "compatible"),
    ("schema", {"/defaultversionid": '"1"'}, {"/defaultversionid": '"2"'}, "default-schema", "compatible", "compatible"),
    ("group", {"/protocol": '"KAFKA"'}, {"/protocol": '"NATS"'}, "protocol", "breaking", "breaking"),
]


def definitions(side: int) -> dict:
    """Return one side of all cases: the keys are numbered as the cases are."""
    found = {("r", case[0], f"/{number:02}"): case[side] for number, case in enumerate(CASES) if case[side] is not None}
    return found | {("r", "message", "/same"): DECLARED}


def test_each_difference_is_what_the_rules_say():
    found = differences(definitions(1), definitions(2))
    assert len(found) == len(CASES)
    for one in found:
        case = CASES[int(one.xid[1:])]
        assert (one.rule, one.for_producers, one.for_consumers) == case[3:], case
        assert one.class_ == next(name for name in CLASSES if name in case[4:])
    assert [one.class_ for one in found] == sorted(one.class_ for one in found)


def test_spark_and_the_view_find_the_same(spark):
    schema = "registryid string, kind string, xid string, leaves map<string,string>"
    sides = [spark.createDataFrame([(*key, leaves) for key, leaves in definitions(side).items()], schema) for side in (1, 2)]
    expected = differences(definitions(1), definitions(2))
    assert read_differences(compare(*sides)) == expected
    named = dict(zip(("before_definitions", "after_definitions"), sides, strict=True))
    session = session_with_views(spark, None, "default", named, ["compatibility_rules"])
    text = (data_folder("ddl") / "diffs" / "snapshot_diff.sql").read_text(encoding="utf-8").rstrip().removesuffix(";")
    session.sql(text.replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMPORARY VIEW", 1))
    found = [Difference(*row) for row in session.table("snapshot_diff").collect()]
    assert sorted(found, key=str) == sorted(expected, key=str)


def test_rules_have_an_order_and_the_last_fits_everything():
    ordinals = [int(rule.ordinal) for rule in compatibility_rules()]
    assert ordinals == sorted(set(ordinals))
    last = compatibility_rules()[-1]
    assert {last.kind, last.change, last.place, last.pointer, last.value} == {""}
