"""Differences: what they mean by the published rules, between snapshots and between documents."""

from __future__ import annotations

import json

import pytest
from histories import shop

from lakehouse.query.diff import compare, diff_documents, diff_snapshots, read_differences
from lakehouse.query.sql import run_query
from lakehouse.readmodel.differences import as_markdown
from lakehouse.settings import data_folder
from lakehouse.store.tables import attach_tables

pytestmark = pytest.mark.slow

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


def test_each_difference_is_what_the_rules_say(spark, past):
    def definitions(side):
        rows = [("r", case[0], f"/{number:02}", case[side]) for number, case in enumerate(CASES) if case[side] is not None]
        rows.append(("r", "message", "/same", DECLARED))
        return spark.createDataFrame(rows, "registryid string, kind string, xid string, leaves map<string,string>")

    found = read_differences(compare(spark, past.settings, definitions(1), definitions(2)))
    assert len(found) == len(CASES)
    for one in found:
        case = CASES[int(one.xid[1:])]
        assert (one.rule, one.for_producers, one.for_consumers) == case[3:], case
        assert one.class_ == next(name for name in ("breaking", "compatible", "cosmetic") if name in case[4:])
    assert [one.class_ for one in found] == sorted(one.class_ for one in found)


def test_an_edit_of_a_base_shows_in_every_message_that_extends_it(past):
    found = read_differences(diff_snapshots(past.spark, past.settings, 1, 2))
    required = {one.xid for one in found if one.rule == "required-attribute-added"}
    assert required == {"/messagegroups/base/messages/event", *(f"/messagegroups/g/messages/{m}" for m in "mno")}
    assert {one.rule for one in found if one.kind == "schemaversion"} == {"schema-document"}
    gone = read_differences(diff_snapshots(past.spark, past.settings, 2, 3))
    assert [one.xid for one in gone if one.rule == "message-removed"] == ["/messagegroups/g/messages/n"]


def test_the_view_gives_the_same_by_sql(past):
    query = "SELECT kind, class, count(*) AS n FROM snapshot_diff GROUP BY ALL ORDER BY ALL"
    rows = [json.loads(row) for row in run_query(past.spark, past.settings, query, diff=("first", "head")).json_rows()]
    found = read_differences(diff_snapshots(past.spark, past.settings, 1, 3))
    assert {(row["kind"], row["class"]): row["n"] for row in rows} == {
        (one.kind, one.class_): sum((other.kind, other.class_) == (one.kind, one.class_) for other in found) for one in found
    }


def test_documents_are_compared_without_being_loaded(past, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps(shop(name, "m")))
    attach_tables(past.spark, past.settings, ["changes"])
    before = past.rows("SELECT max(snapshot_id) FROM xregistry.changes")
    sides = [[str(tmp_path / "one.json")], [str(tmp_path / "two.json")]]
    found = read_differences(diff_documents(past.spark, past.settings, *sides))
    assert {one.xid for one in found if one.rule == "required-attribute-added"} == {
        "/messagegroups/base/messages/event",
        "/messagegroups/g/messages/m",
    }
    assert past.rows("SELECT max(snapshot_id) FROM xregistry.changes") == before
    text = as_markdown(found, "one", "a|b <script>")
    assert "breaking**" in text
    assert "a\\|b &lt;script>" in text
    assert text.count("<details>") == text.count("</details>") == 2


def test_rules_have_an_order_of_their_own():
    text = (data_folder("ddl") / "views" / "compatibility_rules.sql").read_text(encoding="utf-8")
    ordinals = [int(line.strip()[1:].split(",")[0]) for line in text.splitlines() if line.startswith("  (")]
    assert ordinals == sorted(set(ordinals))
