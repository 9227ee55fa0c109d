"""Subjects become documents: each row of the mapping, and what is wrong in a registry."""

from __future__ import annotations

import re
from typing import Any

import pytest
from builders import read, rows

from lakehouse.registries.subjectdocuments import GLOBAL, RegistryContent, SubjectMapping, SubjectVersion, version_of

ORDER = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"string"}]}'
S = "/schemagroups/default/schemas/orders-value"


def version(subject: str = "orders-value", number: int = 1, schema: str = ORDER, **more: Any) -> SubjectVersion:
    return SubjectVersion(subject, number, schema, **more)


def documents(*versions: SubjectVersion, **more: Any) -> dict[str, Any]:
    settings = {name: more.pop(name) for name in ("levels", "modes") if name in more}
    mapping = SubjectMapping(RegistryContent([*versions], **settings), **more)
    return {one.subject: one.value for one in mapping.documents()}


def schema(*versions: SubjectVersion, **more: Any) -> dict[str, Any]:
    (value,) = documents(*versions, **more).values()
    (group,) = value["schemagroups"].values()
    (found,) = group["schemas"].values()
    return found


def remarks(*versions: SubjectVersion, **more: Any) -> list[str]:
    return [str(one) for one in SubjectMapping(RegistryContent([*versions]), **more).remarks()]


def test_a_subject_is_a_schema_in_normal_form():
    guid = "0000000A-0000-0000-0000-000000000001"
    found = documents(version(number=3, id=8), version(id=7, guid=guid))["orders-value"]
    reading = read(found, rules=True)
    assert reading.findings == []
    assert set(rows(reading)) == {"/", "/schemagroups/default", S, f"{S}/versions/1", f"{S}/versions/3"}
    written = found["schemagroups"]["default"]["schemas"]["orders-value"]["versions"]
    assert [(one["versionid"], one["ancestorid"]) for one in written.values()] == [("1", "1"), ("3", "1")]
    assert written["1"]["labels"] == {"confluent.id": "7", "confluent.guid": guid.lower()}
    assert written["1"]["schema"]["namespace"] == "shop"
    assert '"defaultversionid":"3"' in rows(reading)[S].body


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("AVRO", '"string"', ("Avro/1.9.0", '"string"')),
        ("AVRO", "{not", ("Avro/1.9.0", "{not")),
        ("JSON", "true", ("JSONSchema/draft-07", "true")),
        ("JSON", '{"$schema":"https://json-schema.org/draft/2020-12/schema"}',
         ("JSONSchema/2020-12", {"$schema": "https://json-schema.org/draft/2020-12/schema"})),
        ("PROTOBUF", 'syntax = "proto3";\nmessage A {}', ("Protobuf/3", 'syntax = "proto3";\nmessage A {}')),
        ("PROTOBUF", "message A {}", ("Protobuf/2", "message A {}")),
        ("PROTOBUF", 'edition = "2023";', ("Protobuf/2023", 'edition = "2023";')),
        ("THRIFT", "struct A {}", ("THRIFT", "struct A {}")),
        ("AVRO", "\0", ("Avro/1.9.0", "\0")),
    ],
)  # fmt: skip
def test_formats_and_texts(kind, text, expected):
    written = schema(version(schema=text, kind=kind))["versions"]["1"]
    assert (written["format"], written["schema"]) == expected


def test_a_schema_that_does_not_parse_comes_in_with_a_finding_that_names_subject_and_version():
    reading = read(documents(version(), version(number=2, schema="{not"))["orders-value"], rules=True)
    assert [(one.rule_id, one.xid, one.action) for one in reading.findings] == [("COMP-003", f"{S}/versions/2", "kept")]
    assert f"{S}/versions/1" in rows(reading)
    assert '"schema":"{not"' in rows(reading)[f"{S}/versions/2"].body


@pytest.mark.parametrize(
    ("subject", "group", "schemaid", "name"),
    [
        (":.eu:orders-value", "eu", "orders-value", None),
        (":.:orders-value", "default", "orders-value", None),
        ("a/b c", "default", "a~2Fb~20c", "a/b c"),
        ("ä~", "default", "_~C3~A4~7E", "ä~"),
        (".x:y", "default", "_.x:y", ".x:y"),
        ("n" * 128, "default", "n" * 128, None),
    ],
)
def test_contexts_are_groups_and_names_are_ids(subject, group, schemaid, name):
    value = documents(version(subject))[subject]
    assert list(value["schemagroups"]) == [group]
    written = value["schemagroups"][group]["schemas"]
    assert list(written) == [schemaid]
    assert written[schemaid]["versions"]["1"].get("name") == name
    assert read(value, rules=True).findings == []


def test_long_names_and_those_that_differ_in_letter_case_stay_apart():
    long = ["n" * 200, "n" * 201]
    pairs = ["Orders", "orders"]
    found = documents(*(version(subject, id=number) for number, subject in enumerate([*long, *pairs][::-1])))
    ids = [next(iter(one["schemagroups"]["default"]["schemas"])) for one in found.values()]
    assert len({one.lower() for one in ids}) == 4
    assert max(map(len, ids)) == 128
    assert "orders" in ids  # its id is the lower one: it was first
    groups = documents(version("a"), version(":.default:a"))
    assert len({next(iter(one["schemagroups"])) for one in groups.values()}) == 2
    assert groups[":.default:a"]["schemagroups"].popitem()[1]["name"] == "default"


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ({}, "backward"),
        ({GLOBAL: "FULL"}, "full"),
        ({GLOBAL: "NONE"}, None),
        ({GLOBAL: "FULL", ":.eu:": "forward_transitive"}, "forward_transitive"),
        ({GLOBAL: "FULL", ":.eu:": "NONE", ":.eu:s": "BACKWARD_TRANSITIVE"}, "backward_transitive"),
        ({":.eu:s": "NONE"}, None),
        ({"s": "FULL"}, "backward"),
    ],
)
def test_levels_are_of_the_subject_else_of_its_context_else_of_all(levels, expected):
    assert schema(version(":.eu:s"), levels=levels)["meta"].get("compatibility") == expected


def test_a_subject_that_only_reads_is_readonly():
    assert schema(version(), modes={"orders-value": "READONLY"})["meta"]["readonly"] is True
    assert "readonly" not in schema(version(), modes={GLOBAL: "READONLY", "orders-value": "READWRITE"})["meta"]


def test_what_was_deleted_is_left_out_or_marked():
    versions = [version(number=number, is_deleted=number in (2, 4)) for number in (1, 2, 3, 4)]
    found = schema(*versions)
    assert (list(found["versions"]), "defaultversionid" in found["meta"]) == (["1", "3"], False)
    found = schema(*versions, keep_deleted=True)
    assert found["meta"] | {"defaultversionid": "3", "defaultversionsticky": True} == found["meta"]
    assert [one["ancestorid"] for one in found["versions"].values()] == ["1", "1", "1", "3"]
    assert [one.get("labels") for one in found["versions"].values()] == [None, {"confluent.deleted": "true"}] * 2
    assert read(documents(*versions, keep_deleted=True)["orders-value"], rules=True).findings == []
    gone = version(is_deleted=True)
    assert documents(gone) == {}
    assert schema(gone, keep_deleted=True)["meta"]["deprecated"] == {}


def test_references_have_the_xid_that_they_lead_to():
    to = {"name": "shop.Order", "subject": "orders-value", "version": 1}
    found = documents(version(), version("lines", references=[to]), version(":.eu:lines", references=[to]))
    written = found["lines"]["schemagroups"]["default"]["schemas"]["lines"]["versions"]["1"]
    assert written["references"] == [to | {"xid": f"{S}/versions/1"}]
    written = found[":.eu:lines"]["schemagroups"]["eu"]["schemas"]["lines"]["versions"]["1"]
    assert written["references"] == [to | {"xid": "/schemagroups/eu/schemas/orders-value/versions/1"}]  # in its own context
    nowhere = {"name": "x", "subject": "x"}
    assert schema(version(references=[nowhere]))["versions"]["1"]["references"] == [nowhere]
    assert remarks(version(":.eu:lines", references=[to])) == [
        ":.eu:lines version 1: it refers to :.eu:orders-value version 1, which is not loaded"
    ]


def test_a_circle_of_references_is_reported_once_and_everything_comes_in():
    to = {name: {"name": name, "subject": name, "version": 1} for name in "abcd"}
    circle = [version("a", references=[to["b"]]), version("b", references=[to["c"]]), version("c", references=[to["a"]])]
    own = version("d", references=[to["d"], to["a"]])
    assert remarks(*circle, own) == [
        "a version 1: its references lead back to itself: b version 1 → c version 1 → a version 1",
        "d version 1: its references lead back to itself: d version 1",
    ]
    assert len(documents(*circle, own)) == 4
    chain = [version(str(n), references=[{"name": "x", "subject": str(n + 1), "version": 1}]) for n in range(3000)]
    assert len(remarks(*chain, version("3000"))) == 0


def test_an_id_of_two_schemas_is_reported():
    same = [version("a", id=1), version("b", id=1), version(":.eu:c", id=1, schema='"int"')]
    assert remarks(*same) == []  # one schema of two subjects has one id; contexts count for themselves
    assert remarks(*same, version("d", id=1, schema='"int"')) == [
        "d version 1: its id 1 is that of another schema, too: a version 1. "
        "Delete one of them in the registry for good, and register it again: it gets a new id."
    ]


def test_metadata_becomes_labels_and_what_is_sensitive_does_not():
    metadata = {"properties": {"owner": "shop", "pin": "1234", "confluent.id": "9"}, "sensitive": ["pin"], "tags": {"a": ["PII"]}}
    ruleset = {"domainRules": [{"name": "r"}]}
    found = schema(version(id=3, metadata=metadata, ruleset=ruleset))
    written = found["versions"]["1"]
    assert written["labels"] == {"owner": "shop", "confluent.id": "3"}
    assert written["metadata"] == {"sensitive": ["pin"], "tags": {"a": ["PII"]}}
    assert written["ruleset"] == ruleset
    assert "1234" not in str(found)


@pytest.mark.parametrize(
    ("subject", "messages", "more", "expected"),
    [
        ("orders-value", "topic", {}, ("orders", "orders", "orders")),
        ("orders-key", "topic", {}, None),
        ("orders-value", "record", {}, None),
        ("orders-shop.Order", "record", {}, ("orders", "shop.Order", "orders")),
        ("shop.Order", "record", {}, ("records", "shop.Order", None)),
        (":.eu:a.b-shop.Order", "record", {}, ("a.b", "shop.Order", "a.b")),
        ("t-Cart", "record", {"kind": "JSON", "schema": '{"title":"Cart"}'}, ("t", "Cart", "t")),
        ("t-p.A", "record", {"kind": "PROTOBUF", "schema": 'syntax="proto3"; package p; message A {}'}, ("t", "p.A", "t")),
        ("t-p.A", "record", {"kind": "PROTOBUF", "schema": "no {"}, None),
        ("t-p.A", "record", {"schema": '"string"'}, None),
        ("orders-value", None, {}, None),
    ],
)
def test_messages_by_the_names_of_subjects(subject, messages, more, expected):
    value = documents(version(subject, **more), messages=messages)[subject]
    if expected is None:
        assert "messagegroups" not in value
        return
    group, name, topic = expected
    message = value["messagegroups"][group]["messages"][name]
    assert message.get("protocoloptions") == (None if topic is None else {"topic": {"value": topic}})
    (schemagroup,) = value["schemagroups"]
    assert message["dataschemaxid"] == f"/schemagroups/{schemagroup}/schemas/{subject.rpartition(':')[2]}"
    assert read(value, rules=True).findings == []


def message_places(messages: str, *subjects: str, **more: Any) -> dict[str, str]:
    """Return group and id of the message of each subject; the ids of the registry grow in the order of the subjects."""
    found = documents(*(version(subject, id=number, **more) for number, subject in enumerate(subjects)), messages=messages)
    return {
        subject: f"{group}/{messageid}"
        for subject, value in found.items()
        for group, of_group in value["messagegroups"].items()
        for messageid in of_group["messages"]
    }


@pytest.mark.parametrize(
    ("subjects", "places"),
    [
        ([":.a:orders-value", "orders-value", ":.b:orders-value"], ["a:orders/orders", "orders/orders", "b:orders/orders"]),
        ([":.a:orders-value", ":.b:orders-value"], ["orders/orders", "b:orders/orders"]),
        ([":.a:orders-value", "lines-value"], ["orders/orders", "lines/lines"]),
        (["orders-value", "Orders-value"], ["orders/orders", "Orders~HASH/Orders"]),
        (["orders-value", ":.a:Orders-value"], ["orders/orders", "a:Orders/Orders"]),
        (["orders-value", ":.a:orders-value", ":.A:orders-value"], ["orders/orders", "a:orders~HASH/orders", "A:orders/orders"]),
    ],
    ids=["contexts", "no default context", "nothing in common", "letter case", "context and case", "contexts in letter case"],
)
def test_every_topic_has_its_message_whatever_its_context_and_letter_case(subjects, places):
    found = message_places("topic", *subjects)
    assert len({place.lower() for place in found.values()}) == len(subjects)
    assert [re.sub("~[0-9a-f]{12}", "~HASH", found[subject]) for subject in subjects] == places


def test_a_topic_keeps_its_id_when_one_of_another_context_would_take_it():
    found = message_places("topic", ":.a:orders-value", "orders-value", ":.z:a:orders-value")
    assert found[":.z:a:orders-value"] == "a:orders/a:orders"
    assert found[":.a:orders-value"].startswith("a:orders~")


def test_every_record_has_its_message_whatever_its_context_and_topic():
    of_topics = ["orders-shop.Order", "Orders-shop.Order", ":.eu:orders-shop.Order", "records-shop.Order"]
    subjects = ["shop.Order", ":.eu:shop.Order", *of_topics]
    found = message_places("record", *subjects)
    assert len({place.lower() for place in found.values()}) == len(subjects)
    assert (found["orders-shop.Order"], found[":.eu:orders-shop.Order"]) == ("orders/shop.Order", "eu:orders/shop.Order")
    assert (found["shop.Order"], found[":.eu:shop.Order"]) == ("records/shop.Order", "eu:records/shop.Order")


def test_the_schema_of_the_key_is_a_label_of_the_message():
    value = documents(version(), version("orders-key", schema='"string"'), messages="topic")["orders-value"]
    labels = value["messagegroups"]["orders"]["messages"]["orders"]["labels"]
    assert labels == {"confluent.key": "/schemagroups/default/schemas/orders-key"}


@pytest.mark.parametrize("value", [None, [], {}, {"subject": "s", "version": "1", "schema": ""}, {"subject": "s", "version": 1}])
def test_what_is_no_version_is_an_error(value):
    with pytest.raises(ValueError, match=r"`(subject|version|schema)` of|version of a schema"):
        version_of(value)


def test_a_version_of_the_api():
    value = {"subject": "s", "version": 2, "id": 5, "schema": '"int"', "references": None, "metadata": None, "deleted": True}
    assert version_of(value) == SubjectVersion("s", 2, '"int"', "AVRO", 5, is_deleted=True)


@pytest.mark.parametrize(("level", "keeps"), [("BACKWARD", False), ("FORWARD", True), ("NONE", None), ("FULL_TRANSITIVE", False)])
def test_a_level_that_the_versions_do_not_keep_is_left_out_and_nothing_is_lost(level, keeps):
    added = ORDER.replace("]}", ',{"name":"n","type":"int"}]}')
    content = RegistryContent([version(), version(number=2, schema=added)], levels={GLOBAL: level})
    mapping = SubjectMapping(content)
    (value,) = [one.value for one in mapping.documents()]
    written = value["schemagroups"]["default"]["schemas"]["orders-value"]
    assert set(written["versions"]) == {"1", "2"}
    assert ("compatibility" in written["meta"]) is bool(keeps)
    expected = [] if keeps is not False else [f"orders-value version 2: it breaks the level {level} over version 1: /n: came"]
    assert [str(one)[: len(line)] for one, line in zip(mapping.remarks(), expected, strict=True)] == expected
    assert [one.rule_id for one in read(value, rules=True).findings if one.rule_id.startswith("COMP")] == []


def test_a_deleted_version_counts_only_where_it_is_loaded():
    added = ORDER.replace("]}", ',{"name":"n","type":"int"}]}')
    deleted = version(number=2, schema=added, is_deleted=True)
    assert schema(version(), deleted, version(number=3), keep_deleted=True)["meta"].get("compatibility") is None
    assert schema(version(), deleted, version(number=3))["meta"]["compatibility"] == "backward"
