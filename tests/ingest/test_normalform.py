from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import pytest
from builders import (
    as_document,
    body,
    document,
    errors,
    group,
    ids,
    law,
    leaves,
    message,
    message_document,
    only_version,
    read,
    refused,
    rows,
    warnings,
)
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dialects.versionorder import natural_order
from lakehouse.ingest.parse.document import read_document
from lakehouse.ingest.parse.parse import read_as
from lakehouse.text.jsontext import NotJson, read_json
from lakehouse.text.problems import Problem

G = "/messagegroups/g"
M = f"{G}/messages/m"
V1 = f"{M}/versions/1"


def versions_of(written: dict[str, Any], **group_attributes: Any) -> dict[str, dict[str, Any]]:
    """Read one message and give the bodies of its Versions by versionid."""
    reading = read(message_document(written, **group_attributes))
    return {row.xid.rsplit("/", 1)[1]: json.loads(row.body) for row in reading.rows if row.kind == "version"}


def default_of(written: dict[str, Any]) -> str:
    """Read one message and give its default versionid, on which message and Versions must agree."""
    reading = read(message_document(written))
    (default,) = [
        row.xid.rsplit("/", 1)[1] for row in reading.rows if row.kind == "version" and json.loads(row.body)["isdefault"]
    ]
    assert body(reading, M)["defaultversionid"] == default
    return default


# Rows


def test_each_entity_of_a_document_is_a_row():
    reading = read(
        document(
            {"g": group({"m": message()})},
            {"e": group({"n": message()}, usage=["producer"])},
            {"s": group({"t": {"format": "Avro/1.9", "schema": "{}"}}, holds="schemas")},
        )
    )
    assert {(row.kind, row.xid) for row in reading.rows} == {
        ("registry", "/"),
        ("group", "/messagegroups/g"),
        ("message", "/messagegroups/g/messages/m"),
        ("version", "/messagegroups/g/messages/m/versions/1"),
        ("endpoint", "/endpoints/e"),
        ("message", "/endpoints/e/messages/n"),
        ("version", "/endpoints/e/messages/n/versions/1"),
        ("group", "/schemagroups/s"),
        ("schema", "/schemagroups/s/schemas/t"),
        ("schemaversion", "/schemagroups/s/schemas/t/versions/1"),
    }
    assert reading.findings == []


def test_entities_are_counted_by_table():
    reading = read(document({"g": group({"m": message(), "n": message()})}, {"e": {}}))
    assert reading.entities == {"registries": 1, "groups": 1, "messages": 2, "versions": 2, "endpoints": 1}
    assert reading.quarantined == {}


def test_an_empty_registry_is_one_row():
    assert list(rows(read(document()))) == ["/"]


def test_a_collection_that_is_null_is_absent():
    reading = read(document({"g": {"messages": None}}) | {"endpoints": None})
    assert list(rows(reading)) == ["/", G]
    assert reading.findings == []


def test_the_body_holds_no_identity_no_life_and_nothing_computed():
    written = message(
        messageid="m",
        versionid="1",
        self="https://a.example/m",
        xid=M,
        epoch=3,
        createdat="2024-01-01T00:00:00Z",
        name="Lamp",
        versionscount=1,
    )
    assert only_version(written) == {"ancestor": "1", "envelope": "CloudEvents/1.0", "isdefault": True, "name": "Lamp"}


def test_the_content_hash_is_that_of_the_body():
    row = rows(read(message_document(message())))[V1]
    assert row.content_hash == hashlib.sha256(row.body.encode()).hexdigest()


def test_the_order_of_keys_and_blanks_are_no_change():
    one = rows(read('{"messagegroups":{"g":{"messages":{"m":{"name":"a","envelope":"x"}}}}}'))
    two = rows(read('{ "messagegroups": {"g": {"messages": {"m": {"envelope": "x", "name": "a"}}}} }'))
    assert {xid: row.content_hash for xid, row in one.items()} == {xid: row.content_hash for xid, row in two.items()}


def test_the_registry_gives_its_id_and_its_root_without_collections():
    reading = read(document({"g": {}}, registryid="contoso", name="Contoso"))
    assert reading.registryid == "contoso"
    assert json.loads(reading.root) == {"specversion": "1.0-rc2", "registryid": "contoso", "name": "Contoso"}
    assert body(reading, "/") == {"specversion": "1.0-rc2", "name": "Contoso"}


# Raw


def test_raw_is_the_entity_as_written_without_its_children():
    reading = read(
        '{"specversion":"1.0","messagegroups":{"g":{"x": 1.10, "name":"a","messages":{"m":{"qos":1.50,"metadata":{}}}}}}'
    )
    assert rows(reading)[G].raw == '{"x":1.10,"name":"a"}'
    assert rows(reading)[M].raw is None
    assert rows(reading)[V1].raw == '{"qos":1.50,"metadata":{}}'
    assert json.loads(rows(reading)[V1].body)["extensions"] == {"qos": 1.5}


def test_raw_is_left_out_when_it_equals_the_body():
    assert rows(read(document({"g": {"description": "d", "name": "n"}})))[G].raw is None
    assert rows(read(document({"g": {"name": "n", "description": "d"}})))[G].raw == '{"name":"n","description":"d"}'


def test_raw_of_a_message_with_versions_is_what_stands_around_them():
    reading = read(message_document({"messageid": "m", "name": "a", "versions": {"1": {"description": "b"}}}))
    assert rows(reading)[M].raw == '{"messageid":"m","name":"a"}'
    assert rows(reading)[V1].raw == '{"description":"b"}'


def test_numbers_keep_their_spelling_in_raw_only():
    written = '{"messagegroups":{"g":{"messages":{"m":{"dataschema":{"big":123456789012345678901234567890,"price":1.10}}}}}}'
    row = rows(read(written))[V1]
    assert row.raw == '{"dataschema":{"big":123456789012345678901234567890,"price":1.10}}'
    assert '"dataschema":{"big":123456789012345678901234567890,"price":1.1}' in row.body


# Unknown attributes


def test_unknown_attributes_are_kept_as_written_at_every_level():
    unknown = {"x-acme": {"nothing": None, "list": [1, None]}}
    reading = read(
        document(
            {"g": group({"m": message(**unknown), "v": {"meta": unknown, "versions": {"1": unknown}} | unknown}, **unknown)},
            {"e": group({"n": unknown}, **unknown)},
            {"s": group({"t": unknown}, holds="schemas", **unknown)},
            **unknown,
        )
    )
    holders = ["/", G, V1, f"{G}/messages/v", f"{G}/messages/v/versions/1", "/endpoints/e", "/endpoints/e/messages/n/versions/1",
               "/schemagroups/s", "/schemagroups/s/schemas/t/versions/1"]  # fmt: skip
    assert errors(reading) == []
    assert {xid: body(reading, xid).get("extensions") for xid in holders} == dict.fromkeys(holders, unknown)


def test_readonly_false_is_what_its_absence_means():
    for entity in ("message", "schema"):
        reported = document({"g": group({"m": message()})}, schemagroups={"s": {"schemas": {"m": {"format": "x/1"}}}})
        bare, spelled, fixed = (json.loads(json.dumps(reported)) for _ in range(3))
        for written, value in ((spelled, False), (fixed, True)):
            written["messagegroups"]["g"]["messages"]["m"]["meta"] = {"readonly": value}
            written["schemagroups"]["s"]["schemas"]["m"]["meta"] = {"readonly": value}
        found = [next(iter(rows(read(one), entity).values())) for one in (bare, spelled, fixed)]
        assert found[0].content_hash == found[1].content_hash != found[2].content_hash
        assert "readonly" not in json.loads(found[1].body)
        assert json.loads(found[2].body)["readonly"] is True


def test_an_unknown_member_of_meta_is_kept():
    assert body(read(message_document(message(meta={"x-acme": 1}))), M)["extensions"] == {"x-acme": 1}


def test_an_attribute_called_extensions_is_an_unknown_one():
    assert only_version({"extensions": {"a": 1}})["extensions"] == {"extensions": {"a": 1}}
    assert leaves({"extensions": {"a": 1}}) == {"/extensions/a": "1"}


# Ids (decision 1)


@pytest.mark.parametrize("name", ["", ".a", "a b", "a/b", "é", "a" * 129])
def test_an_entity_whose_key_is_no_id_is_refused(name):
    reading = read(document({"g": group({name: message()})}))
    assert "MSG-037" in refused(reading)[f"{G}/messages/{name}"]
    assert list(rows(reading)) == ["/", G]


def test_a_group_whose_key_is_no_id_is_refused_with_what_it_holds():
    reading = read(document({"a b": group({"m": message()})}))
    assert refused(reading) == {
        "/messagegroups/a b": {"MSG-020"},
        "/messagegroups/a b/messages/m": {"MSG-115"},
        "/messagegroups/a b/messages/m/versions/1": {"MSG-115"},
    }


@pytest.mark.parametrize(
    ("written", "pointer", "rule"),
    [
        (document({"g": {"messagegroupid": "x"}}), "/messagegroups/g/messagegroupid", "MSG-020"),
        (document({"g": {"id": "x"}}), "/messagegroups/g/id", "MSG-020"),
        (document(endpoints={"e": {"endpointid": "x"}}), "/endpoints/e/endpointid", "END-033"),
        (document(schemagroups={"s": {"schemagroupid": "x"}}), "/schemagroups/s/schemagroupid", "MSG-020"),
        (message_document({"messageid": "x"}), f"{M}/messageid", "MSG-037"),
        (message_document({"versions": {"1": {"versionid": "2"}}}), f"{V1}/versionid", "MSG-038"),
    ],
)
def test_a_declared_id_must_equal_its_key(written, pointer, rule):
    assert (pointer, rule) in [(one.pointer, one.rule_id) for one in errors(read(written))]


def test_of_two_ids_that_differ_in_letter_case_only_the_second_is_refused():
    reading = read(document({"g": group({"Lamp": message(), "lamp": message()})}))
    assert list(rows(reading, "message")) == [f"{G}/messages/Lamp"]
    assert "MSG-037" in refused(reading)[f"{G}/messages/lamp"]


def test_ids_may_differ_in_letter_case_under_different_parents():
    reading = read(document({"g": group({"Lamp": message()}), "h": group({"lamp": message()})}))
    assert errors(reading) == []


def test_a_versionid_of_thousands_of_digits_is_refused():
    reading = read(message_document({"versions": {"1": {}, "9" * 5000: {}}}))
    assert "MSG-038" in refused(reading)[f"{M}/versions/{'9' * 5000}"]


# Cascades of refusals


def test_a_bad_message_leaves_its_group_and_its_neighbours():
    reading = read(document({"g": group({"bad": message(envelope=5), "good": message()})}))
    assert sorted(rows(reading)) == ["/", G, f"{G}/messages/good", f"{G}/messages/good/versions/1"]
    assert refused(reading) == {f"{G}/messages/bad": {"MSG-115"}, f"{G}/messages/bad/versions/1": {"MSG-051"}}
    assert reading.quarantined == {"messages": 1, "versions": 1}


def test_a_group_that_falls_takes_its_messages_and_versions_each_with_a_finding_of_its_own():
    members = {"m": message(), "v": {"versions": {"1": {}, "2": {}}}}
    reading = read(document({"g": group(members, envelope=5), "h": group({"m": message()})}))
    assert refused(reading) == {
        G: {"MSG-032"},
        M: {"MSG-115"},
        V1: {"MSG-115"},
        f"{G}/messages/v": {"MSG-115"},
        f"{G}/messages/v/versions/1": {"MSG-115"},
        f"{G}/messages/v/versions/2": {"MSG-115"},
    }
    assert "/messagegroups/h/messages/m/versions/1" in rows(reading)
    assert reading.quarantined == {"groups": 1, "messages": 2, "versions": 3}


def test_what_falls_in_two_spellings_is_counted_once():
    other = {"definitionGroups": {"g": group({"m": message(), "n": message()})}}
    reading = read(document({"g": group({"m": message()}, envelope=5)}) | other)
    assert len([finding for finding in errors(reading) if finding.xid == M]) == 2
    assert reading.quarantined == {"groups": 1, "messages": 2, "versions": 2, "registries": 1}


def test_a_schema_group_that_falls_takes_its_schemas():
    reading = read(document(schemagroups={"s": group({"t": {}}, holds="schemas", epoch=-1)}))
    assert set(refused(reading)) == {"/schemagroups/s", "/schemagroups/s/schemas/t", "/schemagroups/s/schemas/t/versions/1"}


def test_what_is_refused_is_kept_raw_and_a_group_without_its_messages():
    reading = read('{"messagegroups":{"g":{"envelope":5,"x":1.10,"messages":{"m":{"y":1.50}}}}}')
    raws = {finding.xid: finding.raw for finding in errors(reading)}
    assert raws[G] == '{"envelope":5,"x":1.10}'
    assert raws[M] == '{"y":1.50}'


def test_a_message_that_falls_takes_all_its_versions():
    reading = read(message_document({"messageid": "x", "versions": {"1": {}, "2": {}}}))
    assert refused(reading) == {M: {"MSG-037"}, V1: {"MSG-115"}, f"{M}/versions/2": {"MSG-115"}}


def test_a_version_that_is_not_the_default_falls_alone():
    reading = read(message_document({"versions": {"1": {"envelope": 5}, "2": {}}}))
    assert refused(reading) == {V1: {"MSG-051"}}
    assert list(rows(reading, "message")) == [M]
    assert list(rows(reading, "version")) == [f"{M}/versions/2"]


def test_a_refused_version_is_no_ancestor():
    assert versions_of({"versions": {"1": {}, "2": {"envelope": 5}, "3": {}}})["3"]["ancestor"] == "1"


def test_a_message_falls_with_its_default_version():
    reading = read(message_document({"versions": {"1": {}, "2": {"envelope": 5}}}))
    assert refused(reading) == {M: {"MSG-115"}, V1: {"MSG-115"}, f"{M}/versions/2": {"MSG-051"}}


BAD_ONLY_WHEN_WRITTEN = [
    pytest.param('"createdat":"yesterday"', id="a date that is none"),
    pytest.param('"modifiedat":"0000-01-01T00:00:00Z"', id="the year 0"),
    pytest.param('"x-number":1e400', id="a number that no double holds"),
    pytest.param('"dataschema":{"maximum":-1e400}', id="such a number in a schema"),
]


@pytest.mark.parametrize("attribute", BAD_ONLY_WHEN_WRITTEN)
def test_a_message_falls_with_its_only_version_whatever_the_error(attribute):
    reading = read(f'{{"messagegroups":{{"g":{{"messages":{{"m":{{{attribute}}}}}}}}}}}')
    assert list(rows(reading)) == ["/", G]
    assert set(refused(reading)) == {M, V1}


@pytest.mark.parametrize("attribute", BAD_ONLY_WHEN_WRITTEN)
def test_a_message_falls_with_its_default_version_whatever_the_error(attribute):
    reading = read(
        '{"messagegroups":{"g":{"messages":{"m":{"meta":{"defaultversionid":"1"},"versions":{"1":{' + attribute + "}}}}}}}"
    )
    assert list(rows(reading)) == ["/", G]
    assert set(refused(reading)) == {M, V1}


@pytest.mark.parametrize("wrong", [None, [], "x", 5])
def test_an_entity_that_is_no_object_is_refused(wrong):
    reading = read(document({"g": wrong, "h": group({"m": wrong, "v": {"versions": {"1": {}, "2": wrong}}})}, {"e": wrong}))
    assert set(refused(reading)) == {
        "/messagegroups/g",
        "/messagegroups/h/messages/m",
        "/messagegroups/h/messages/m/versions/1",
        "/messagegroups/h/messages/v",
        "/messagegroups/h/messages/v/versions/1",
        "/messagegroups/h/messages/v/versions/2",
        "/endpoints/e",
    }
    assert list(rows(reading)) == ["/", "/messagegroups/h"]


@pytest.mark.parametrize(
    ("written", "xid", "rule"),
    [
        (document() | {"messagegroups": []}, "/", "MSG-018"),
        (document() | {"endpoints": "x"}, "/", "END-031"),
        (document({"g": {"messages": []}}), G, "MSG-036"),
        (document(endpoints={"e": {"messages": 5}}), "/endpoints/e", "END-045"),
        (message_document({"versions": []}), M, "MSG-069"),
    ],
)
def test_a_collection_that_is_no_map_is_an_error_of_its_holder(written, xid, rule):
    assert rule in refused(read(written))[xid]


def test_a_wrong_registry_leaves_its_groups():
    reading = read(document({"g": {}}, epoch=-1))
    assert refused(reading) == {"/": {"MSG-006"}}
    assert list(rows(reading)) == [G]


def test_every_problem_of_an_entity_is_reported():
    reading = read(document({"g": {"name": 5, "epoch": -1, "createdat": "x", "labels": {"a": 1}}}))
    assert sorted(one.pointer for one in errors(reading)) == [f"{G}/createdat", f"{G}/epoch", f"{G}/labels/a", f"{G}/name"]


def test_pointers_of_findings_are_escaped():
    reading = read(document({"g": {"labels": {"a/b~c": 1}}}))
    assert [one.pointer for one in errors(reading)] == [f"{G}/labels/a~1b~0c"]


def test_pointers_of_findings_are_those_of_the_spelling():
    reading = read({"definitionGroups": {"g": {"definitions": {"m": {"metadata": {"attributes": {"source": "bare"}}}}}}})
    assert "/definitionGroups/g/definitions/m/metadata/attributes/source" in [one.pointer for one in errors(reading)]


# Errors of the text


def test_a_key_twice_with_different_values_takes_out_the_entity_around_it():
    reading = read('{"messagegroups":{"g":{"messages":{"m":{"name":"a","name":"b"},"n":{}}}}}')
    assert list(rows(reading, "message")) == [f"{G}/messages/n"]
    assert [(one.xid, one.pointer) for one in errors(reading) if one.rule_id == "JSON-002"] == [(V1, f"{M}/name")]


def test_a_message_twice_with_different_values_takes_out_that_message():
    reading = read('{"messagegroups":{"g":{"messages":{"m":{"name":"a"},"m":{"name":"b"},"n":{}}}}}')
    assert list(rows(reading, "group")) == [G]
    assert list(rows(reading, "message")) == [f"{G}/messages/n"]


def test_a_version_twice_with_different_values_takes_out_that_version():
    reading = read('{"messagegroups":{"g":{"messages":{"m":{"versions":{"1":{"name":"a"},"1":{"name":"b"},"2":{}}}}}}}')
    assert list(rows(reading, "version")) == [f"{M}/versions/2"]


def test_a_group_twice_with_different_values_takes_out_the_group():
    reading = read('{"messagegroups":{"g":{"name":"a","messages":{"m":{}}},"g":{"name":"b"}}}')
    assert list(rows(reading)) == ["/"]
    assert set(refused(reading)) == {G, M, V1}


def test_a_key_twice_at_the_root_leaves_the_groups():
    reading = read('{"name":"a","name":"b","messagegroups":{"g":{}}}')
    assert list(rows(reading)) == [G]


def test_a_key_twice_with_one_value_is_kept_and_reported():
    reading = read('{"messagegroups":{"g":{"messages":{"m":{"name":"a","name":"a"}}}}}')
    assert body(reading, V1)["name"] == "a"
    assert [(one.rule_id, one.action) for one in reading.findings] == [("JSON-002", "kept")]


def test_an_id_that_begins_like_another_is_another():
    reading = read('{"messagegroups":{"g":{"messages":{"m":{"name":"a","name":"b"},"m2":{}}}}}')
    assert list(rows(reading, "message")) == [f"{G}/messages/m2"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(b'{"k":1,"k":1,"messagegroups":{"g":{"name":"\\ud800"}}}', id="a lone surrogate and a duplicate key"),
        pytest.param(
            b'{"messagegroups":{"g":{"a":18446744073709551616,"b":1e400}}}', id="a number out of range and a big integer"
        ),
        pytest.param(b'{"messagegroups":{"g":{"a":1e400,"a":1}}}', id="a number out of range that stands twice"),
        pytest.param(b'{"k":1,"k":1,"messagegroups":{"g":{"a":' + b"9" * 5000 + b"}}}", id="an integer of thousands of digits"),
    ],
)
def test_a_hostile_document_is_refused_and_breaks_nothing(text):
    try:
        reading = read(text)
    except NotJson:
        return
    assert G in refused(reading)


def test_a_byte_order_mark_is_reported_of_the_document():
    reading = read(b"\xef\xbb\xbf" + json.dumps(document()).encode())
    assert [(one.kind, one.xid, one.rule_id, one.action) for one in reading.findings] == [("", "", "JSON-003", "kept")]


# Two spellings of one collection: nothing is lost silently


def test_a_group_in_both_spellings_of_the_collection_has_one_row_or_a_finding():
    reading = read({"messagegroups": {"g": {"name": "a"}}, "definitionGroups": {"g": {"name": "b"}}})
    assert list(rows(reading, "group")) in ([G], [])
    assert errors(reading) != []


def test_messages_in_both_spellings_of_the_collection_are_all_read_or_reported():
    reading = read(document({"g": {"messages": {"m": {}}, "definitions": {"n": {}}}}))
    assert set(rows(reading, "message")) == {M, f"{G}/messages/n"} or errors(reading) != []


# Versions (decision 7)


@pytest.mark.parametrize(
    ("written", "versionid"),
    [
        ({}, "1"),
        ({"versionid": "7"}, "7"),
        ({"meta": {"defaultversionid": "3"}}, "3"),
        ({"versions": {}}, "1"),
        ({"versions": None}, "1"),
    ],
)
def test_a_message_without_versions_has_one(written, versionid):
    assert list(versions_of(written)) == [versionid]
    assert default_of(written) == versionid


def test_the_only_version_is_its_own_ancestor():
    assert versions_of({})["1"] == {"ancestor": "1", "isdefault": True}


def test_a_message_without_versions_falls_when_its_versionid_is_none():
    assert "MSG-038" in refused(read(message_document({"versionid": "a b"})))[f"{M}/versions/a b"]


@pytest.mark.parametrize(
    ("versions", "default"),
    [
        ({"1": {}, "2": {}}, "2"),
        ({"1.9": {}, "1.10": {}}, "1.10"),
        ({"v10": {}, "v9": {}}, "v10"),
        ({"2": {}, "10": {}, "1": {}}, "10"),
        ({"1": {"createdat": "2024-02-01T00:00:00Z"}, "2": {"createdat": "2024-01-01T00:00:00Z"}}, "1"),
        ({"1": {"createdat": "2024-01-01T00:00:00Z"}, "2": {}}, "1"),
        ({"1": {"createdat": "2024-01-01T01:00:00+02:00"}, "2": {"createdat": "2024-01-01T00:00:00Z"}}, "2"),
        ({"1": {"createdat": "2024-01-01T00:00:00Z"}, "2": {"createdat": "2024-01-01T00:00:00Z"}}, "2"),
    ],
)
def test_the_default_is_the_newest_and_else_the_last_in_natural_order(versions, default):
    assert default_of({"versions": versions}) == default


@pytest.mark.parametrize("wrap", [lambda sticky: {"meta": sticky}, lambda sticky: sticky], ids=["in meta", "at the message"])
def test_a_sticky_default_version_stays(wrap):
    assert default_of(wrap({"defaultversionid": "1", "defaultversionsticky": True}) | {"versions": {"1": {}, "2": {}}}) == "1"


def test_a_sticky_default_version_that_is_none_is_an_error():
    reading = read(message_document({"meta": {"defaultversionid": "9", "defaultversionsticky": True}, "versions": {"1": {}}}))
    assert M in refused(reading)


def test_the_ancestor_is_the_version_before_and_a_root_names_itself():
    ancestors = {key: one["ancestor"] for key, one in versions_of({"versions": {"1.10": {}, "1.9": {}, "1.8": {}}}).items()}
    assert ancestors == {"1.8": "1.8", "1.9": "1.8", "1.10": "1.9"}


def test_a_declared_ancestor_stays():
    assert versions_of({"versions": {"1": {}, "2": {}, "3": {"ancestor": "1"}}})["3"]["ancestor"] == "1"


def test_versions_win_over_the_message_and_a_difference_is_reported():
    written = {"name": "outer", "description": "outer", "versions": {"1": {"name": "first"}, "2": {"name": "inner"}}}
    reading = read(message_document(written))
    assert body(reading, f"{M}/versions/2")["name"] == "inner"
    assert [(one.rule_id, one.severity) for one in reading.findings] == [("MSG-038", "warning")]


def test_what_stands_at_the_message_only_belongs_to_its_default_version():
    versions = versions_of({"name": "outer", "versions": {"1": {}, "2": {}}})
    assert versions["2"]["name"] == "outer"
    assert "name" not in versions["1"]


def test_equal_attributes_of_message_and_default_version_are_no_difference():
    written = '{"dataschema":{"minimum":1.5},"versions":{"1":{"dataschema":{"minimum":1.50}}}}'
    assert read('{"messagegroups":{"g":{"messages":{"m":' + written + "}}}}").findings == []


def test_epoch_and_dates_of_a_message_belong_to_its_default_version_and_those_of_meta_to_the_message():
    written = {"epoch": 4, "createdat": "1970-01-01T00:00:01Z", "meta": {"epoch": 9, "modifiedat": "1970-01-01T00:00:02Z"}}
    for versions in ({}, {"versions": {"1": {}}}):
        found = rows(read(message_document(written | versions)))
        assert (found[M].epoch, found[M].createdat, found[M].modifiedat) == (9, None, 2_000_000)
        assert (found[V1].epoch, found[V1].createdat, found[V1].modifiedat) == (4, 1_000_000, None)


def test_the_family_of_the_group_holds_inside_versions_too():
    versions = versions_of({"versions": {"1": {"protocoloptions": {"topic": "t"}}}}, protocol="MQTT/5.0")
    assert versions["1"]["protocoloptions"] == {"topic_name": {"value": "t"}}


def test_the_protocol_of_the_message_holds_inside_versions_too():
    versions = versions_of({"protocol": "MQTT/5.0", "versions": {"1": {"protocoloptions": {"topic": "t"}}}})
    assert versions["1"]["protocoloptions"] == {"topic_name": {"value": "t"}}


def test_what_a_version_says_of_meta_is_not_lost_silently():
    reading = read(message_document({"versions": {"1": {"deprecated": {"alternative": "https://a.example"}}}}))
    assert "deprecated" in rows(reading)[V1].body or reading.findings != []


def test_schemas_have_versions_alike():
    schemas = {"s": {"versions": {"1.9": {"schemaurl": "https://a.example/1"}, "1.10": {"schemaobject": {"type": "record"}}}}}
    reading = read(document(schemagroups={"g": group(schemas, holds="schemas")}))
    at = "/schemagroups/g/schemas/s"
    assert body(reading, at) == {"defaultversionid": "1.10"}
    assert body(reading, f"{at}/versions/1.9") == {"ancestor": "1.9", "isdefault": False, "schemauri": "https://a.example/1"}
    assert body(reading, f"{at}/versions/1.10") == {"ancestor": "1.9", "isdefault": True, "schema": {"type": "record"}}


@pytest.mark.parametrize(
    ("ordered"), [["1.9", "1.10"], ["2", "10"], ["01", "1"], ["9", "v1"], ["v9", "v10", "v10a"], ["", "0"], ["1", "1.0", "1.0.0"]]
)
def test_natural_order(ordered):
    assert sorted(set(ordered), key=natural_order) == ordered


@law
@given(st.lists(ids, unique=True))
def test_natural_order_is_total(texts):
    backwards = list(reversed(texts))
    assert sorted(texts, key=natural_order) == sorted(backwards, key=natural_order)


# xref (decision 20)


@pytest.mark.parametrize(
    "written",
    [
        {"meta": {"xref": "/messagegroups/h/messages/n"}},
        {"xref": "#/definitionGroups/h/definitions/n"},
        {"uri": "#/messagegroups/h/messages/n"},
    ],
)
def test_a_message_that_is_an_alias_has_no_versions(written):
    reading = read(message_document(written))
    assert body(reading, M) == {"xref": "/messagegroups/h/messages/n"}
    assert rows(reading, "version") == {}
    assert reading.findings == []


def test_own_attributes_of_an_alias_are_ignored_with_a_warning():
    reading = read(
        message_document({"meta": {"xref": "/messagegroups/h/messages/n"}, "name": "a", "x-acme": 1, "versions": {"1": {}}})
    )
    assert body(reading, M) == {"xref": "/messagegroups/h/messages/n"}
    assert rows(reading, "version") == {}
    assert [(one.rule_id, one.severity) for one in reading.findings] == [("MSG-096", "warning")]


def test_an_alias_in_a_group_that_falls_has_no_version_to_fall():
    reading = read(document({"g": group({"m": {"meta": {"xref": "/messagegroups/h/messages/n"}}}, envelope=5)}))
    assert set(refused(reading)) == {G, M}


def test_a_uri_that_is_no_reference_is_an_unknown_attribute():
    assert only_version({"uri": "https://a.example"})["extensions"] == {"uri": "https://a.example"}


# Dates (decision 10)


def test_dates_are_microseconds_and_stay_as_written_in_raw():
    row = rows(read(document({"g": {"createdat": "1970-01-01T00:00:01.1234567Z"}})))[G]
    assert row.createdat == 1_123_456
    assert row.raw == '{"createdat":"1970-01-01T00:00:01.1234567Z"}'
    assert row.body == "{}"


def test_a_date_without_a_zone_is_utc_with_a_warning():
    reading = read(document({"g": {"modifiedat": "1970-01-01T00:00:01"}}))
    assert rows(reading)[G].modifiedat == 1_000_000
    assert [one.pointer for one in warnings(reading)] == [f"{G}/modifiedat"]


def test_a_date_that_no_column_holds_is_an_error():
    assert G in refused(read(document({"g": {"createdat": "0000-01-01T00:00:00Z"}})))


def test_the_now_marker_of_a_declaration_is_a_text():
    declared = {"time": {"value": "0000-01-01T00:00:00Z"}}
    assert only_version(message(envelopemetadata=declared))["envelopemetadata"] == declared


def test_the_pointer_of_a_wrong_date_in_meta_leads_into_meta():
    pointers = [one.pointer for one in errors(read(message_document({"meta": {"createdat": "x"}})))]
    assert f"{M}/meta/createdat" in pointers


# Families of messages without a protocol (decision 15)


def options_of(written: dict[str, Any], others: dict[str, Any] | None = None, **group_attributes: Any) -> dict[str, Any]:
    reading = read(document({"g": group({"m": written} | (others or {}), **group_attributes)}))
    return body(reading, V1)["protocoloptions"]


def test_the_family_is_the_groups():
    assert options_of({"protocoloptions": {"topic": "t"}}, protocol="MQTT/5.0") == {"topic_name": {"value": "t"}}


def test_the_own_protocol_wins_over_the_groups():
    written = {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}
    assert options_of(written, protocol="MQTT/5.0") == {"topic": {"value": "t"}}


@pytest.mark.parametrize("key", ["basemessage", "basemessageuri", "basemessageurl"])
def test_else_the_family_is_that_of_the_base_in_the_document(key):
    base = {"b": {"basemessage": f"{G}/messages/c"}, "c": {"protocol": "MQTT/5.0"}}
    assert options_of({key: f"#{G}/messages/b", "protocoloptions": {"topic": "t"}}, base) == {"topic_name": {"value": "t"}}


@pytest.mark.parametrize(
    "base",
    [
        pytest.param({"format": "MQTT/5.0"}, id="by the older name"),
        pytest.param({"versions": {"1": {"protocol": "MQTT/5.0"}, "2": {"format": "mqtt"}}}, id="in its Versions"),
        pytest.param({"versions": {"1": {"basemessage": f"{G}/messages/c"}}}, id="a Version's base"),
        pytest.param({"meta": {"xref": f"{G}/messages/c"}, "protocol": "KAFKA"}, id="the message that it stands for"),
        pytest.param({"xref": f"#{G}/messages/c"}, id="the message that it stands for, in 0.5"),
    ],
)
def test_a_base_names_its_protocol_however_it_is_written(base):
    others = {"b": base, "c": {"format": "MQTT/5.0"}}
    written = {"basemessage": f"{G}/messages/b", "protocoloptions": {"topic": "t"}}
    assert options_of(written, others) == {"topic_name": {"value": "t"}}


def test_a_base_whose_versions_name_several_protocols_has_none():
    base = {"b": {"versions": {"1": {"protocol": "MQTT/5.0"}, "2": {"protocol": "KAFKA"}}}}
    assert options_of({"basemessage": f"{G}/messages/b", "protocoloptions": {"topic": "t"}}, base) == {"topic": "t"}


def test_a_base_is_found_in_either_spelling_of_its_collection():
    members = {"b": {"format": "MQTT/5.0"}, "m": {"basemessageurl": f"#{G}/messages/b", "protocoloptions": {"topic": "t"}}}
    reading = read({"messagegroups": {"h": {}}, "definitionGroups": {"g": {"definitions": members}}})
    assert body(reading, V1)["protocoloptions"] == {"topic_name": {"value": "t"}}


def test_a_base_in_old_collections_gives_the_family_too():
    definitions = {
        "m": {"basemessageurl": "#/definitionGroups/g/definitions/b", "protocoloptions": {"topic": "t"}},
        "b": {"protocol": "MQTT/5.0"},
    }
    reading = read({"definitionGroups": {"g": {"definitions": definitions}}})
    assert body(reading, V1)["protocoloptions"] == {"topic_name": {"value": "t"}}


def test_else_the_family_is_reported_by_names_that_only_one_has():
    assert options_of({"protocoloptions": {"topicname": "t"}}) == {"topic_name": {"value": "t"}}


@pytest.mark.parametrize("base", [f"{G}/messages/m", f"{G}/messages/x", "https://other.example/m", "", 5])
def test_else_options_stay_as_written_with_a_warning(base):
    reading = read(message_document({"basemessage": base, "protocoloptions": {"topic": "t", "nothing": None}}))
    assert "MSG-111" in [one.rule_id for one in warnings(reading)]
    if base != 5:
        assert body(reading, V1)["protocoloptions"] == {"topic": "t", "nothing": None}


# Leaves of a definition (decision 12)


def test_leaves_are_scalars_arrays_and_empty_objects_by_pointer():
    written = message(
        name="Lamp",
        labels={"region": "eu"},
        protocol="AMQP/1.0",
        protocoloptions={"application-properties": {"lamp": {"type": "string", "required": True}}, "header": {}},
        **{"x-acme": {"a": {"b": [1, {"c": 2}]}, "none": None}},
    )
    assert leaves(written) == {
        "/name": '"Lamp"',
        "/envelope": '"CloudEvents/1.0"',
        "/labels/region": '"eu"',
        "/protocol": '"AMQP/1.0"',
        "/protocoloptions/application-properties/lamp/type": '"string"',
        "/protocoloptions/application-properties/lamp/required": "true",
        "/protocoloptions/header": "{}",
        "/x-acme/a/b": '[1,{"c":2}]',
        "/x-acme/none": "null",
    }


def test_identity_and_life_are_no_leaves():
    written = {
        "versionid": "1", "ancestor": "1", "epoch": 1, "createdat": "2024-01-01T00:00:00Z", "basemessage": f"{G}/messages/b",
        "deprecated": {"alternative": "x"}, "version_uri": "https://a.example", "meta": {"readonly": True},
    }  # fmt: skip
    assert leaves(written) == {}


def test_a_schema_is_one_leaf_and_keeps_its_nulls():
    assert leaves({"dataschema": {"b": None, "a": {}}}) == {"/dataschema": '{"a":{},"b":null}'}
    assert leaves({"dataschema": "syntax"}) == {"/dataschema": '"syntax"'}


def test_the_value_of_a_declaration_is_one_leaf_wherever_it_stands():
    value = {"a": {"b": None}}
    assert leaves(message(envelopemetadata={"x": {"value": value, "type": "object"}})) == {
        "/envelope": '"CloudEvents/1.0"',
        "/envelopemetadata/x/value": '{"a":{"b":null}}',
        "/envelopemetadata/x/type": '"object"',
    }
    assert leaves({"protocol": "MQTT/5.0", "protocoloptions": {"topic": value}})["/protocoloptions/topic_name/a/b"] == "null"
    assert leaves({"protocol": "KAFKA", "protocoloptions": {"headers": {"h": {"value": value}}, "key": {"value": value}}}) == {
        "/protocol": '"KAFKA"',
        "/protocoloptions/headers/h/value": '{"a":{"b":null}}',
        "/protocoloptions/key/value": '{"a":{"b":null}}',
    }


def test_a_list_of_headers_is_one_leaf():
    headers = [{"name": "a", "value": "1"}, {"name": "b", "value": 2}]
    assert leaves({"protocol": "HTTP", "protocoloptions": {"headers": headers}})["/protocoloptions/headers"] == json.dumps(
        headers, separators=(",", ":")
    )


@pytest.mark.parametrize("empty", ["envelopemetadata", "protocoloptions", "envelopeoptions", "labels"])
def test_an_empty_object_is_a_leaf(empty):
    assert leaves({empty: {}}) == {f"/{empty}": "{}"}


def test_pointers_of_leaves_are_escaped():
    assert leaves({"labels": {"a/b~c": "v"}, "x/y": 1}) == {"/labels/a~1b~0c": '"v"', "/x~1y": "1"}


def test_leaves_are_reported_in_normal_form():
    text = '{"messagegroups":{"g":{"messages":{"m":{"x":1.10,"big":12345678901234567890123,"schemaformat":"Avro"}}}}}'
    pairs = rows(read(text))[V1].attributes
    assert dict(pairs or ()) == {"/x": "1.1", "/big": "12345678901234567890123", "/dataschemaformat": '"Avro"'}


def test_only_versions_have_leaves():
    reading = read(document({"g": group({"m": message()})}, {"e": {}}))
    assert {row.kind for row in reading.rows if row.attributes is not None} == {"version"}


# Spellings are counted


def test_spellings_are_counted_for_the_document():
    reading = read(document({"g": group({"m": {"schemaformat": "Avro"}, "n": {"schemaformat": "Avro"}})}))
    assert reading.spellings == {"message: schemaformat → dataschemaformat": 2}
    assert reading.findings == []


def test_spellings_of_collections_are_counted():
    reading = read({"definitionGroups": {"g": {"definitions": {}}}})
    assert reading.spellings == {"registry: definitionGroups → messagegroups": 1, "messagegroup: definitions → messages": 1}


# Laws

names = st.sampled_from(["a", "b", "1", "2", "1.10"])
written_versions = st.dictionaries(
    names, st.fixed_dictionaries({}, optional={"name": st.text("xy"), "epoch": st.integers(0, 9)}), min_size=1
)
written_messages = st.fixed_dictionaries(
    {},
    optional={
        "name": st.text("xy") | st.integers(),
        "envelope": st.sampled_from(["CloudEvents/1.0", 5]),
        "versions": written_versions,
        "meta": st.fixed_dictionaries({}, optional={"readonly": st.booleans(), "xref": st.just("/messagegroups/h/messages/n")}),
        "x-acme": st.none() | st.lists(st.integers()),
    },
)
written_groups = st.dictionaries(names, st.dictionaries(names, written_messages, max_size=3).map(group), max_size=3)


@law
@given(written_groups)
def test_every_message_and_version_is_a_row_or_has_an_error(groups):
    reading = read(document(groups))
    reported = set(rows(reading)) | set(refused(reading))
    for groupid, one in groups.items():
        for messageid, written in one["messages"].items():
            xid = f"/messagegroups/{groupid}/messages/{messageid}"
            assert xid in reported
            if "xref" not in written.get("meta", {}):
                assert {f"{xid}/versions/{versionid}" for versionid in written.get("versions", ["1"])} <= reported
    assert set(rows(reading)).isdisjoint(refused(reading))


@law
@given(written_groups)
def test_each_message_that_is_no_alias_has_exactly_one_default_version(groups):
    found = rows(read(document(groups)))
    for xid, row in found.items():
        if row.kind == "message" and "xref" not in json.loads(row.body):
            own = {key: json.loads(one.body) for key, one in found.items() if key.startswith(xid + "/versions/")}
            assert [key for key, one in own.items() if one["isdefault"]] == [
                f"{xid}/versions/{json.loads(row.body)['defaultversionid']}"
            ]
            assert all(f"{xid}/versions/{one['ancestor']}" in own for one in own.values())


@law
@given(written_groups)
def test_reading_the_normal_form_again_changes_nothing(groups):
    first = read(document(groups))
    second = read(as_document(first))
    assert {row.xid: (row.content_hash, row.epoch) for row in second.rows} == {
        row.xid: (row.content_hash, row.epoch) for row in first.rows
    }
    assert second.findings == []


# Errors of the text


@pytest.mark.parametrize(
    ("pointer", "xid"),
    [
        ("", "/"),
        ("/name", "/"),
        ("/messagegroups", "/"),
        (G, G),
        (f"{G}/name", G),
        (f"{G}/messages", G),
        (M, V1),
        (f"{M}/labels/a", V1),
        (f"{G}/messages/n/versions", f"{G}/messages/n"),
        (f"{G}/messages/n/versions/1/x", f"{G}/messages/n/versions/1"),
    ],
)
def test_an_error_of_the_text_belongs_to_the_entity_that_holds_it(pointer, xid):
    written = document({"g": group({"m": {}, "m~": {}, "n": {"versions": {"1": {}}}}), "": group()})
    others = [Problem(f"/messagegroups/{name}/x", "JSON-002", "error", "twice", "Keep one.") for name in ("a", "z", "gg")]
    reading = read_document(written, [others[0], Problem(pointer, "JSON-002", "error", "twice", "Keep one."), *others[1:]])
    reported = {finding.xid for finding in reading.findings if finding.rule_id == "JSON-002"}
    assert reported == {xid}


@pytest.mark.parametrize("dialect", ["1.0-rc2", "cncf-catalog"])
def test_many_errors_of_the_text_take_no_more_work_each(dialect):
    def steps(count):
        if dialect == "1.0-rc2":
            text = ",".join(f'"g{n}":{{"name":"a","name":"b","messages":{{"m":{{}}}}}}' for n in range(count))
            text = f'{{"messagegroups":{{{text}}}}}'
        else:
            text = ",".join(
                f'{{"id":"g{n}","format":"CloudEvents/1.0","description":"a","description":"b"}}' for n in range(count)
            )
            text = f"[{text}]"
        value, problems = read_json(text.encode(), 64)
        taken = 0

        def count_steps(frame, event, _argument):
            nonlocal taken
            frame.f_trace_opcodes = True
            taken += event == "opcode"
            return count_steps

        traced = sys.gettrace()
        sys.settrace(count_steps)
        try:
            findings = read_as(value, problems, "", None)[1].findings
        finally:
            sys.settrace(traced)
        assert sum(finding.rule_id == "JSON-002" for finding in findings) == count
        return taken

    steps(10)
    assert steps(800) < 10 * steps(100)
