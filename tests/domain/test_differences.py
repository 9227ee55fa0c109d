"""Differences: what they mean by the published rules, in Python and in the view `snapshot_diff` alike."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lakehouse.domain.diff import CLASSES, Difference, compatibility_rules, differences
from lakehouse.domain.versionchanges import version_change
from lakehouse.query.differences import compare, read_differences
from lakehouse.settings import data_folder
from lakehouse.store.views import session_with_views
from lakehouse.text.names import JsonText, Xid

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
    ("message", {"/dataschemauri": '"#/x"'}, {"/dataschemauri": '"#/y"'}, "other-schema", "unknown", "unknown"),
    ("message", {"/dataschema": "{}"}, {"/dataschema": "[]"}, "inline-schema", "unknown", "unknown"),
    ("message", {MQTT + "user_properties": "[]"}, {MQTT + "user_properties": "[1]"}, "protocol-options", "breaking", "breaking"),
    ("message", {}, {"/house": "1"}, "other", "compatible", "compatible"),
    ("endpoint", {}, {"/usage/producer": "true"}, "role-or-group-added", "compatible", "compatible"),
    ("endpoint", {"/messagegroups/~1g": "true"}, {}, "role-or-group-removed", "breaking", "breaking"),
    ("endpoint", {MQTT + "endpoints": "[]"}, {MQTT + "endpoints": "[1]"}, "endpoint-options", "breaking", "breaking"),
    ("endpoint", {}, {MQTT + "deployed": "true"}, "endpoint-options-added", "compatible", "compatible"),
    ("schemaversion", {"/schema": '"a"'}, {"/schema": '"b"'}, "schema-document", "unknown", "unknown"),
    ("schemaversion", {"/format": '"Avro"'}, {"/format": '"XSD"'}, "schema-source", "breaking", "breaking"),
    ("schemaversion", None, {}, "schemaversion-added", "compatible", "compatible"),
    ("schema", {"/defaultversionid": '"1"'}, {"/defaultversionid": '"2"'}, "default-schema", "unknown", "unknown"),
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
    assert [one.class_ for one in found] == sorted((one.class_ for one in found), key=CLASSES.index)


def test_spark_and_the_view_find_the_same(spark):
    schema = "registryid string, kind string, xid string, attributes map<string,string>"
    states = [definitions(1) | other_schema("1"), definitions(2) | other_schema("2")]
    sides = [spark.createDataFrame([(*key, attributes) for key, attributes in state.items()], schema) for state in states]
    expected = differences(*states)
    assert read_differences(compare(*sides)) == expected
    ruled = {rule.rule: rule.meaning for rule in reversed(compatibility_rules())}  # SQL does not look into schemas
    unknown = dict.fromkeys(("class_", "for_producers", "for_consumers"), "unknown")
    expected = [replace(one, meaning=ruled[one.rule], **unknown) if one.is_about_schema else one for one in expected]
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


AVRO = '{"type":"record","name":"O","fields":[{"name":"a","type":"int"}%s]}'


def other_schema(versionid: str) -> dict:
    """Return a state in which a schema shows one of its two Versions, one message names it, and one a Version."""
    path = "/schemagroups/g/schemas/s"
    schemas = [AVRO % "", AVRO % ',{"name":"b","type":"int"}']
    versions = {
        ("r", "schemaversion", f"{path}/versions/{at}"): {"/format": '"Avro/1.11"', "/schema": schema}
        for at, schema in enumerate(schemas, 1)
    }
    return versions | {
        ("r", "schema", path): {"/defaultversionid": f'"{versionid}"'},
        ("r", "message", "/messagegroups/g/messages/named"): {"/dataschemauri": f'"{path}"'},
        ("r", "message", "/messagegroups/g/messages/version"): {"/dataschemauri": f'"#{path}/versions/{versionid}"'},
    }


def test_another_schema_is_looked_into():
    found = differences(other_schema("1"), other_schema("2"))
    assert [(one.rule, one.class_, one.for_producers, one.for_consumers) for one in found] == [
        ("other-schema", "breaking", "breaking", "compatible"),
        ("default-schema", "breaking", "breaking", "compatible"),
    ]
    assert all(one.meaning.startswith("/b: came: int without a default. A producer with the old schema") for one in found)
    back = differences(other_schema("2"), other_schema("1"))
    assert [(one.class_, one.for_consumers) for one in back] == [("breaking", "breaking")] * 2


def test_another_schema_that_the_registry_does_not_have_is_unknown():
    state = {("r", "message", "/m"): {"/dataschemauri": '"https://example.com/order"'}}
    (found,) = differences(state, {("r", "message", "/m"): {"/dataschemauri": '"https://example.com/other"'}})
    assert (found.rule, found.class_) == ("other-schema", "unknown")


def changed(before: str, after: str, format_: str = "Avro/1.11") -> Difference:
    """Return the one difference of a schema whose document changed."""
    key = ("r", "schemaversion", "/schemagroups/g/schemas/s/versions/1")
    sides = ({key: {"/format": f'"{format_}"', "/schema": one}} for one in (before, after))
    (found,) = differences(*sides)
    return found


def test_a_changed_schema_is_looked_into():
    required = changed(AVRO % "", AVRO % ',{"name":"b","type":"int"}')
    assert (required.class_, required.for_producers, required.for_consumers) == ("breaking", "breaking", "compatible")
    assert required.meaning.startswith("/b: came: int without a default. A producer with the old schema does not write it")
    assert required.as_json()["meaning"] == required.as_json()["told"] == required.meaning
    optional = changed(AVRO % "", AVRO % ',{"name":"b","type":"int","default":0}')
    assert (optional.class_, optional.meaning) == ("compatible", "/b: came: int with a default.")
    words = changed(AVRO % "", AVRO.replace('"name":"O"', '"name":"O","doc":"x"') % "")
    assert (words.class_, words.meaning) == ("cosmetic", "The document is written differently, and means the same")


LIMIT = '{"properties":{"n":{"maximum":%d,"type":"integer"}},"type":"object"}'


@pytest.mark.parametrize("text", [LIMIT, json.dumps(LIMIT)], ids=["value", "text"])
@pytest.mark.parametrize(("before", "after"), [(10**25, 10**25 + 1000), (2**64, 2**64 + 1), (-(10**20), 1 - 10**20)])
def test_integers_that_differ_beyond_the_digits_of_a_double_differ(text, before, after):
    found = changed(text % before, text % after, "JsonSchema/draft-07")
    assert found.class_ == "breaking"
    assert found.meaning.startswith(f"/n: was at most {before}, is at most {after}. A producer with the new schema may write")
    bodies = (JsonText(f'{{"format":"JsonSchema/draft-07","schema":{text % limit}}}') for limit in (before, after))
    change = version_change("schemaversion", Xid("/schemagroups/g/schemas/s/versions/1"), *bodies)
    assert change is not None
    assert [one.what for one in change.judgement.differences] == [f"was at most {before}, is at most {after}"]


def test_a_schema_that_is_not_compared_is_unknown():
    found = changed('"a"', '"b"', "Thrift")
    assert (found.class_, found.meaning) == (
        "unknown",
        "the whole: cannot be compared. Schemas of format Thrift are not compared.",
    )
