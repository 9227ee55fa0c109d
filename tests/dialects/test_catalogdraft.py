"""Documents of the CNCF Message and Event Catalog draft, read: what each member becomes, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import as_document, errors, json_values, law, rows, warnings
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dialects.detection import DRAFT, declared_dialect, is_draft, not_a_registry
from lakehouse.dialects.draft.conversions import formats, sections_of, translated
from lakehouse.dialects.draft.conversions import rows as table_rows
from lakehouse.dialects.draft.reader import version_id, version_uri
from lakehouse.dialects.writing import to_dialect
from lakehouse.ingest.parse.draft import read_draft
from lakehouse.ingest.parse.parse import read_as
from lakehouse.ingest.parse.readings import Reading
from lakehouse.text.jsontext import read_json

NAME = "com.example.created"
SOME: dict[str, dict[str, Any]] = {"AMQP": {"properties": {}}, "MQTT": {"publish": {}}, "NATS": {"pub": {}},
        "CloudEvents": {"attributes": {"type": {"value": NAME}}}}  # fmt: skip


def read(written: Any, uri: str = "file:/documents/catalog.json") -> Reading:
    value, problems = read_json(json.dumps(written).encode(), 100)
    dialect, reading = read_as(value, problems, uri, None, rules=False)
    assert dialect == DRAFT
    return reading


def version(name: str = "CloudEvents", **members: Any) -> dict[str, Any]:
    return {"id": NAME, "format": name, "definition": SOME[name]} | members


def group(*definitions: Any, name: str = "CloudEvents", **members: Any) -> dict[str, Any]:
    return {"id": "g", "format": name, "messagedefinitions": list(definitions)} | members


def sections(name: str, written: dict[str, Any]) -> dict[str, Any]:
    base = SOME[name] if name == "CloudEvents" else {}
    merged = {key: base.get(key, {}) | written.get(key, {}) if isinstance(written.get(key, {}), dict) else written[key]
              for key in base.keys() | written.keys()}  # fmt: skip
    return group(version(name, definition=merged), name=name)


def body(written: Any, xid: str = f"/messagegroups/g/messages/{NAME}/versions/1") -> dict[str, Any]:
    reading = read(written)
    assert errors(reading) == []
    return json.loads(rows(reading)[xid].body)


def rules(reading: Reading) -> set[str]:
    return {finding.rule_id for finding in reading.findings}


# What the draft leaves open


@pytest.mark.parametrize(
    ("attributes", "rule_id"),
    [
        ({"dataschema": {"schematype": "XSD", "schema": "<a/>"}}, "MSG-170"),
        ({"dataschema": {"schema": "x"}}, "MSG-175"),
        ({"dataschema": {"value": "https://a.example/x"}}, "MSG-181"),
        ({"source": {"value": "/{+path}"}}, "MSG-220"),
    ],
)
def test_what_later_specifications_forbid_and_the_draft_allows_is_a_warning(attributes, rule_id):
    value, problems = read_json(json.dumps(sections("CloudEvents", {"attributes": attributes})).encode(), 100)
    _, reading = read_as(value, problems, "file:/documents/catalog.json", None)
    assert errors(reading) == []
    assert rule_id in {finding.rule_id for finding in warnings(reading)}


def test_values_that_have_a_form_are_written_as_they_were_read():
    attributes = {"specversion": {"value": "1.0"}, "datacontenttype": {"value": "application/json"}}
    properties = {"userid": {"value": "YQ=="}, "creationtime": {"value": "2024-01-01T00:00:00Z"}}
    for name, written in (("CloudEvents", {"attributes": attributes}), ("AMQP", {"properties": properties})):
        (section,) = written
        document, losses = to_dialect(as_document(read(sections(name, written))), "cncf-catalog")
        assert losses == []
        exported = document[0]["messagedefinitions"][NAME]["versions"]["1"]["definition"][section]
        assert {key: exported[key] for key in written[section]} == written[section]


# Files of the draft


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(version(), id="a definition or version object, CAT-010, CAT-109"),
        pytest.param({"id": NAME, "format": "CloudEvents", "versions": {"1": version()}}, id="a definition with versions"),
        pytest.param(group(version()), id="a group with an array, CAT-011"),
        pytest.param(group() | {"messagedefinitions": {NAME: version()}}, id="a group with a map"),
        pytest.param(group({"id": NAME, "versions": [version(version=1)]}), id="a group with versions in an array"),
        pytest.param(group() | {"messagedefinitions": {NAME: {"versions": {"1": version()}}}}, id="maps of maps"),
        pytest.param([group(version())], id="an array of groups"),
        pytest.param({"id": "g", "format": "AMQP"}, id="a group without definitions"),
    ],
)
def test_each_file_of_the_draft_is_recognised_and_read(written):
    assert is_draft(written)
    assert not_a_registry(written) is None
    assert declared_dialect(written) == DRAFT
    reading = read(written)
    assert errors(reading) == []
    if "AMQP" not in str(written):
        assert [row.kind for row in reading.rows] == ["group", "message", "version"]


@pytest.mark.parametrize("written", [{}, [], [1], {"id": "g"}, {"definition": {}}, {"specversion": "1.0-rc2", "format": "x"}])
def test_anything_else_is_no_document_of_the_draft(written):
    assert not is_draft(written)


def test_a_lone_definition_stands_in_the_group_of_its_path_else_in_the_implied_one():
    """CAT-012: files of a folder are a catalog."""
    for uri, name in (("s3://b/mygroup/messagedefinitions/x.json", "mygroup"), ("file:/x.json", "default")):
        assert f"/messagegroups/{name}/messages/{NAME}" in rows(read(version(), uri))


def lone_and_grouped(lone: dict[str, Any], grouped: dict[str, Any], *, lone_first: bool) -> Reading:
    items = [lone, group(grouped, name="CloudEvents", id="default")]
    return read(items if lone_first else items[::-1])


@pytest.mark.parametrize("lone_first", [True, False])
def test_of_a_lone_definition_and_one_of_its_group_with_the_same_id_the_first_wins(lone_first):
    """CAT-062, as for two definitions of one group."""
    reading = lone_and_grouped(version(description="lone"), version(description="grouped"), lone_first=lone_first)
    taken = json.loads(rows(reading)[f"/messagegroups/default/messages/{NAME}/versions/1"].body)
    assert taken["description"] == ("lone" if lone_first else "grouped")
    (reported,) = [finding for finding in errors(reading) if finding.rule_id == "CAT-062"]
    assert reported.pointer == ("/1/messagedefinitions/0/id" if lone_first else "/1/id")
    assert reported.action == "quarantined"
    assert f"{NAME}' occurs twice" in reported.message
    assert rows(reading)[f"/messagegroups/default/messages/{NAME}"]


def test_of_two_lone_definitions_with_the_same_id_the_first_wins():
    reading = read([version(description="1st"), version(description="2nd")])
    assert json.loads(rows(reading)[f"/messagegroups/default/messages/{NAME}/versions/1"].body)["description"] == "1st"
    assert {finding.rule_id for finding in errors(reading)} >= {"CAT-062", "MSG-115"}


def test_version_objects_may_stand_beside_the_group_of_their_definition():
    """CAT-034, as inside a group."""
    reading = lone_and_grouped(version(version=2), version(version=1), lone_first=True)
    assert errors(reading) == []
    assert sorted(row.xid[-1] for row in reading.rows if row.kind == "version") == ["1", "2"]


def test_version_objects_of_one_definition_may_stand_side_by_side():
    """CAT-004, CAT-034."""
    reading = read(group(version(version=1), version(version=2, description="newer")))
    assert errors(reading) == []
    assert [row.xid.rsplit("/", 1)[1] for row in reading.rows if row.kind == "version"] == ["1", "2"]


def test_the_latest_version_is_the_default_and_a_version_without_a_number_is_the_next():
    """CAT-043, CAT-077, CAT-078: numbers in numeric order."""
    reading = read(group({"id": NAME, "versions": [version(version=10), version(version=9), version()]}))
    message = json.loads(rows(reading)[f"/messagegroups/g/messages/{NAME}"].body)
    assert message == {"defaultversionid": "11"}
    ancestors = {row.xid.rsplit("/", 1)[1]: json.loads(row.body)["ancestor"] for row in reading.rows if row.kind == "version"}
    assert ancestors == {"9": "9", "10": "9", "11": "10"}


def test_a_document_may_be_read_as_one_of_the_draft_whatever_its_shape():
    dialect, reading = read_as({"id": "g"}, [], "", DRAFT, rules=False)
    assert dialect == DRAFT
    assert {finding.rule_id for finding in errors(reading)} == {"CAT-024"}
    assert [finding.rule_id for finding in errors(read_as([1], [], "", DRAFT, rules=False)[1])] == ["MSG-018"]


# Groups


def test_a_format_that_is_defined_elsewhere_needs_no_version():
    """CAT-026, against MSG-129 and MSG-155, which are of other dialects."""
    value, problems = read_json(json.dumps({"id": "g", "format": "Own", "messagedefinitions": [
        {"id": "d", "format": "Own", "definition": {"attributes": {"own": {}}}}]}).encode(), 100)  # fmt: skip
    _, reading = read_as(value, problems, "file:/documents/catalog.json", None, rules=True)
    assert errors(reading) == []
    assert "/messagegroups/g/messages/d" in rows(reading)


def test_the_attributes_of_a_group():
    """CAT-018, CAT-023, CAT-028 to CAT-033."""
    written = group(description="d", documentation="https://a.example/docs", documentationformat="URL", tags="one, two,,",
                    createdtimeutc="2020-10-30T17:31:00Z", updatedtimeutc="2020-10-31T17:31:00Z", owner="me")  # fmt: skip
    row = rows(read(written))["/messagegroups/g"]
    assert json.loads(row.body) == {
        "description": "d",
        "documentation": "https://a.example/docs",
        "envelope": "CloudEvents/1.0",
        "extensions": {"owner": "me"},
        "labels": {"one": "", "two": ""},
    }
    assert (row.createdat, row.modifiedat) == (1604079060000000, 1604165460000000)
    assert json.loads(row.raw or "") == {key: value for key, value in written.items() if key != "messagedefinitions"}


def test_a_documentation_that_is_text_is_kept_beside():
    found = body(group(documentation="**long**", documentationformat="Markdown"), "/messagegroups/g")
    assert found["extensions"] == {"documentationformat": "Markdown", "documentationtext": "**long**"}


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("CloudEvents", {"envelope": "CloudEvents/1.0"}),
        ("AMQP", {"protocol": "AMQP/1.0"}),
        ("MQTT", {"protocol": "MQTT/5.0"}),
        ("NATS", {"protocol": "NATS"}),
        ("Acme/1", {"envelope": "Acme/1"}),
    ],
)
def test_a_format_is_an_envelope_or_a_protocol(name, attribute):
    assert body({"id": "g", "format": name}, "/messagegroups/g") == attribute


def test_versions_of_mqtt_stand_at_the_messages_when_a_group_has_two():
    old = version("MQTT", definition={"publish": {"mqttversion": "3.1.1"}})
    both = group(old, version("MQTT", id="other"), name="MQTT")
    assert body(both, "/messagegroups/g") == {}
    assert body(group(old, name="MQTT"), "/messagegroups/g") == {"protocol": "MQTT/3.1.1"}


# Definitions and versions


def test_a_version_inherits_the_attributes_of_its_definition():
    """CAT-073, CAT-074 to CAT-076, CAT-080, CAT-057."""
    written = group({"id": NAME, "tags": "t", "description": "d", "x": 1, "createdtimeutc": "2020-10-30T17:31:00Z",
                     "versions": [version(createdtimeutc="2021-10-30T17:31:00Z"), version(description="e")]})  # fmt: skip
    reading = read(written)
    both = [json.loads(row.body) for row in sorted(reading.rows, key=lambda row: row.xid) if row.kind == "version"]
    assert [one["description"] for one in both] == ["d", "e"]
    assert [one["labels"] for one in both] == [{"t": ""}] * 2
    assert [one["extensions"] for one in both] == [{"x": 1}] * 2
    found = rows(reading)
    assert found[f"/messagegroups/g/messages/{NAME}"].createdat == 1604079060000000
    first = found[f"/messagegroups/g/messages/{NAME}/versions/1"]
    assert first.createdat == first.modifiedat == 1635615060000000


@pytest.mark.parametrize(
    ("authority", "identifier", "uri"),
    [
        pytest.param("", "342", "https://example.com/messagecatalog/342", id="CAT-052, CAT-065"),
        pytest.param("https://example.com/messagecatalog", "342", "https://example.com/messagecatalog/342", id="CAT-053"),
        pytest.param("http://c.example.com/", "/g/messagedefinitions/m/versions/2",
                     "http://c.example.com/g/messagedefinitions/m/versions/2", id="CAT-054"),
        pytest.param("http://c.example.org/", "http://d.example.org/41751", "http://c.example.org/41751", id="CAT-055"),
        pytest.param("urn:example:catalog", "a1b2c3d4", "urn:example:catalog:a1b2c3d4", id="CAT-056"),
    ],
)  # fmt: skip
def test_the_version_uri_is_the_authority_and_the_id(authority, identifier, uri):
    assert version_uri(authority, identifier, "https://example.com/messagecatalog") == uri


def test_the_version_uri_of_a_catalog_is_that_of_its_api():
    """CAT-050."""
    uri = version_uri(None, version_id("g", "m", 2), "https://a.example/messagecatalog")
    assert uri == "https://a.example/messagecatalog/g/messagedefinitions/m/versions/2"
    assert version_uri(None, "342") is None


def test_the_version_uri_is_stored_where_an_authority_is_set():
    """CAT-046, CAT-049, CAT-063, CAT-065."""
    found = body(group(version(authority="urn:com-example")))
    assert found["version_uri"] == f"urn:com-example:g/messagedefinitions/{NAME}/versions/1"
    assert "version_uri" not in body(group(version(authority="")))


# Sections


def test_cloudevents():
    """CAT-005, CAT-008, CAT-081, CAT-089 to CAT-091, CAT-099, CAT-105 to CAT-107; placeholders by requirements.md 12."""
    attributes = {
        "type": {"value": NAME, "required": True},
        "subject": {"value": "/{container-id}/{path}"},
        "source": None,
        "dataschema": {"value": "http://a.example/x.avsc"},
        "datacontenttype": {"value": "application/json"},
    }
    found = body(sections("CloudEvents", {"attributes": attributes}))
    assert found == {
        "ancestor": "1", "isdefault": True, "envelope": "CloudEvents/1.0",
        "dataschemaformat": "Avro/1.9.0", "dataschemauri": "http://a.example/x.avsc",
        "envelopemetadata": {
            "type": {"value": NAME, "required": True},
            "subject": {"type": "uritemplate", "value": "/{container_id}/{path}"},
            "datacontenttype": {"value": "application/json"},
        },
    }  # fmt: skip


def test_an_inline_schema_is_the_schema_of_the_message():
    """CAT-092, CAT-096, CAT-097, CAT-108: the draft's third example."""
    schema = {"$schema": "http://json-schema.org/draft-07/schema", "type": "object"}
    declared = {"schematype": "JSON", "schema": schema}
    found = body(sections("CloudEvents", {"attributes": {"dataschema": declared}}))
    assert (found["dataschemaformat"], found["dataschema"]) == ("JSONSchema/draft-07", schema)
    assert "dataschema" not in found["envelopemetadata"]


@pytest.mark.parametrize(
    ("kind", "schema", "normal"),
    [
        ("Avro", {"type": "string"}, "Avro/1.9.0"),
        ("JSON", {"type": "object"}, "JSONSchema/draft-07"),
        ("JSON", {"$schema": "https://json-schema.org/draft/2020-12/schema"}, "JSONSchema/2020-12"),
        ("Protobuf", 'syntax = "proto3";', "Protobuf/3"),
        ("XSD/1.1", "<schema/>", "XSD/1.1"),
    ],
)
def test_a_kind_of_schema_gets_its_version(kind, schema, normal):
    """CAT-093, CAT-094, CAT-095."""
    written = {"pub": {}, "payload": {"dataschema": {"schematype": kind, "schema": schema}}}
    assert body(sections("NATS", written))["dataschemaformat"] == normal


@pytest.mark.parametrize("row", [row for row in sections_of("AMQP") if row["path"].startswith("properties/")], ids=str)
def test_the_properties_of_amqp_get_their_names(row):
    """CAT-117 to CAT-130."""
    value = {"template binary": "AAE=", "template timestamp": "2020-10-30T17:31:00Z", "template integer": "7"}.get(
        row["type"], "t"
    )
    found = body(sections("AMQP", {"properties": {row["path"].split("/")[1]: {"value": value}}}))
    normal = row["normal"].rsplit("/", 1)[1]
    assert found["protocoloptions"] == {"properties": {normal: {"value": 7 if value == "7" else value}}}
    assert normal.replace("-", "") == row["path"].split("/")[1]


def test_the_other_sections_of_amqp():
    """CAT-110 to CAT-116, CAT-131 to CAT-135."""
    written = {"header": {"durable": True, "priority": 4, "ttl": {"value": 1000, "description": "d"}, "delivery-count": 1},
               "deliveryannotations": {"x-a": {"value": ""}}, "messageannotations": {"x-b": {"value": "b"}},
               "applicationproperties": {"p": {"value": "{q}"}}, "footer": {"f": {"value": "f"}},
               "applicationdata": {"amqpencoding": "Value", "dataschema": {"value": "https://a.example/s.proto"}}}  # fmt: skip
    reading = read(sections("AMQP", written))
    assert errors(reading) == []
    assert {"CAT-114", "CAT-091"} <= rules(reading)
    found = json.loads(rows(reading)[f"/messagegroups/g/messages/{NAME}/versions/1"].body)
    assert found["protocoloptions"] == {
        "header": {"durable": {"value": True}, "priority": {"value": 4}, "ttl": {"value": 1000, "description": "d"},
                   "delivery-count": {"value": 1}},
        "delivery-annotations": {"x-a": {}}, "message-annotations": {"x-b": {"value": "b"}},
        "application-properties": {"p": {"type": "uritemplate", "value": "{q}"}}, "footer": {"f": {"value": "f"}},
    }  # fmt: skip
    assert found["extensions"] == {"amqpencoding": "Value"}
    assert found["dataschemauri"] == "https://a.example/s.proto"


def test_the_default_encoding_is_reported_by_the_table_and_not_stored():
    """CAT-134: Data."""
    assert [row["default"] for row in sections_of("AMQP") if row["rule"] == "CAT-133"] == ["Data"]
    assert "extensions" not in body(sections("AMQP", {"applicationdata": {}}))


def test_mqtt():
    """CAT-136 to CAT-149: bare values, and user properties as a list."""
    publish = {"qos": 1, "retain": False, "topicname": "a/{b-c}", "payloadformat": 1, "expiryinterval": 5, "responsetopic": "r",
               "correlationdata": "AA==", "contenttype": "a/b"}  # fmt: skip
    written = {
        "publish": publish,
        "userproperty": {"k": {"value": "v"}},
        "payload": {"dataschema": {"value": "https://a.example"}},
    }
    found = body(sections("MQTT", written))
    assert found["protocol"] == "MQTT/5.0"
    assert found["dataschemauri"] == "https://a.example"
    assert found["protocoloptions"] == {
        "qos": {"value": 1}, "retain": {"value": False}, "topic_name": {"type": "uritemplate", "value": "a/{b_c}"},
        "payload_format": {"value": 1}, "message_expiry_interval": {"value": 5}, "response_topic": {"value": "r"},
        "correlation_data": {"value": "AA=="}, "content_type": {"value": "a/b"},
        "user_properties": [{"name": "k", "value": "v"}],
    }  # fmt: skip


def test_nats():
    """CAT-150 to CAT-154."""
    written = {"pub": {"subject": "s", "replyto": "r"}, "payload": {"dataschema": {"value": "https://a.example"}}}
    found = body(sections("NATS", written))
    assert found["protocoloptions"] == {"subject": {"value": "s"}, "reply-to": {"value": "r"}}


# What is refused. Each with the rule that its requirement names, by the example of the requirement.

CE = "CloudEvents"
REFUSED: list[tuple[str, Any]] = [
    ("CAT-007", [group(version(), version(id="b"))]),
    ("CAT-018", group(id=5)),
    ("CAT-019", {"format": CE, "description": "x", "messagedefinitions": {}}),
    ("CAT-020", group(id="")),
    ("CAT-021", group(id="a:b")),
    ("CAT-022", [group(), group()]),
    ("CAT-023", group(name=[])),
    ("CAT-024", {"id": "g", "messagedefinitions": []}),
    ("CAT-027", group(version("AMQP", definition={"attributes": {}}), name="AMQP")),
    ("CAT-032", group(createdtimeutc="30.10.2020")),  # CAT-014
    ("CAT-033", group(updatedtimeutc="x")),
    ("CAT-035", group({"id": NAME, "versions": {}})),
    ("CAT-036", group({"id": NAME, "format": CE, "versions": [version("MQTT", version=1)]})),
    ("CAT-036", group({"id": NAME, "versions": [version(version=1, id="other")]})),  # CAT-009
    ("CAT-058", group(version(id=1))),
    ("CAT-059", {"definition": {}, "format": "AMQP"}),  # CAT-109
    ("CAT-060", group(version(id=""))),
    ("CAT-061", group(version(id="my definition"))),
    ("CAT-062", group(version(), version())),
    ("CAT-066", group(version(authority="urn:com-example-message definitions"))),  # CAT-063
    ("CAT-066", group(version(authority="not a uri"))),
    ("CAT-069", group(version("MQTT"))),
    ("CAT-071", group(version(format=""))),
    ("CAT-074", group(version(createdtimeutc=1))),
    ("CAT-075", group(version(updatedtimeutc=1))),
    ("CAT-077", group(version(version="v1"))),
    ("CAT-078", group(version(version=0))),
    ("CAT-081", group(version(definition=[]))),
    ("CAT-082", sections(CE, {"attributes": {"source": {"value": 5}}})),
    ("CAT-086", sections(CE, {"attributes": {"source": {"value": "{unclosed"}}})),
    ("CAT-087", sections(CE, {"attributes": {"source": {"value": "", "required": "y"}}})),
    ("CAT-088", sections(CE, {"attributes": {"source": {"value": "", "description": 1}}})),
    ("CAT-089", sections(CE, {"attributes": {"dataschema": "https://x"}})),
    ("CAT-090", sections("NATS", {"payload": {"dataschema": {"value": "a b"}}})),
    ("CAT-092", sections("NATS", {"payload": {"dataschema": {"schematype": 1}}})),
    ("CAT-098", sections("NATS", {"payload": {"dataschema": {"schematype": "Protobuf", "schema": {"a": 1}}}})),
    ("CAT-100", sections(CE, {"attributes": {"My-Attr": {}}})),
    ("CAT-101", sections(CE, {"attributes": {"specversion": {"value": "0.1"}}})),
    ("CAT-102", group(version(definition={"attributes": {"subject": {"value": "x"}}}))),  # CAT-008
    ("CAT-103", group(version(definition={"attributes": {"type": {"value": "b"}}}))),
    ("CAT-105", sections(CE, {"attributes": {"datacontenttype": {"value": "json"}}})),
    ("CAT-107", sections(CE, {"attributes": {"dataschema": {"value": "a b"}}})),
    ("CAT-110", sections("AMQP", {"header": {"x": True}})),
    ("CAT-111", sections("AMQP", {"header": {"durable": "y"}})),
    ("CAT-112", sections("AMQP", {"header": {"priority": "high"}})),
    ("CAT-113", sections("AMQP", {"header": {"ttl": "1s"}})),
    ("CAT-115", sections("AMQP", {"deliveryannotations": {"a b": {}}})),
    ("CAT-116", sections("AMQP", {"messageannotations": {"é": {}}})),
    ("CAT-117", sections("AMQP", {"properties": {"x": {"value": "1"}}})),
    *((row["rule"], sections("AMQP", {"properties": {row["path"].split("/")[1]: "plain"}}))
      for row in sections_of("AMQP") if row["path"].startswith("properties/")),
    ("CAT-131", sections("AMQP", {"applicationproperties": {"a": "b"}})),
    ("CAT-133", sections("AMQP", {"applicationdata": {"amqpencoding": "Json"}})),
    ("CAT-135", sections("AMQP", {"footer": {"a b": {}}})),
    ("CAT-137", sections("MQTT", {"publish": {"dup": True}})),
    ("CAT-138", sections("MQTT", {"publish": {"mqttversion": "4"}})),
    ("CAT-140", sections("MQTT", {"publish": {"qos": 3}})),
    ("CAT-141", sections("MQTT", {"publish": {"retain": "n"}})),
    ("CAT-142", sections("MQTT", {"publish": {"topicname": 1}})),
    *((f"CAT-{rule}", sections("MQTT", {"publish": {"mqttversion": "3.1.1", name: value}})) for rule, name, value in (
        (143, "payloadformat", 1), (144, "expiryinterval", 5), (145, "responsetopic", "r"), (146, "correlationdata", "AA=="),
        (147, "contenttype", "a/b"))),
    ("CAT-148", sections("MQTT", {"userproperty": [{"a": "b"}]})),
    ("CAT-151", sections("NATS", {"pub": {"headers": {}}})),
    ("CAT-152", sections("NATS", {"pub": {"subject": 1}})),
    ("CAT-153", sections("NATS", {"pub": {"replyto": 1}})),
]  # fmt: skip


LEFT_OUT: list[tuple[str, Any, str]] = [
    ("CAT-028", group(version(), description=1), "/description"),
    ("CAT-029", group(version(), documentation={}), "/documentation"),
    ("CAT-030", group(version(), documentationformat=1), "/documentationformat"),
    ("CAT-031", group(version(), tags=["a", "b"]), "/tags"),
    ("CAT-072", group(version(description=[])), "/messagedefinitions/0/description"),
    ("CAT-073", group(version(documentation=5)), "/messagedefinitions/0/documentation"),
    ("CAT-073", group(version(tags=5)), "/messagedefinitions/0/tags"),
    ("CAT-072", group({"id": NAME, "description": 1, "versions": [version(version=1)]}),
     "/messagedefinitions/0/versions/0/description"),
    ("MSG-043", group(version() | {"name": 5}), "/messagedefinitions/0/name"),
    ("TEXT-001", group(version(), icon="a b"), "/icon"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "written", "pointer"), LEFT_OUT, ids=[f"{one[0]}{one[2]}" for one in LEFT_OUT])
def test_a_word_for_people_of_a_wrong_type_is_left_out_and_its_definition_is_loaded(rule, written, pointer):
    reading = read(written)
    found = [(one.rule_id, one.severity, one.action, one.pointer) for one in reading.findings]
    assert found == [(rule, "error", "kept", pointer)]
    assert [row.kind for row in reading.rows] == ["group", "message", "version"]
    assert not reading.quarantined
    name = {"tags": "labels"}.get(pointer.rsplit("/", 1)[1], pointer.rsplit("/", 1)[1])
    for row in reading.rows:
        assert name not in json.loads(row.body) | json.loads(row.body).get("extensions", {})


@pytest.mark.parametrize(
    ("name", "definition", "member", "value"),
    [
        ("CloudEvents", SOME["CloudEvents"], "envelopemetadata", 0),
        ("CloudEvents", SOME["CloudEvents"], "envelopemetadata", {"type": {"value": "another"}}),
        ("CloudEvents", SOME["CloudEvents"], "envelope", []),
        ("AMQP", {"footer": {"a": {"value": "b"}}}, "protocoloptions", "x"),
        ("MQTT", {"publish": {"qos": 1}}, "protocoloptions", {"qos": {"value": 2}}),
        ("MQTT", {"publish": {"mqttversion": "3.1.1"}}, "protocol", "MQTT/5.0"),
        ("NATS", {"payload": {"dataschema": {"value": "https://a.example/x"}}}, "dataschemauri", "https://b.example/x"),
    ],
)
def test_a_member_that_the_definition_replaces_is_reported_and_the_definition_is_loaded(name, definition, member, value):
    plain = version(name, definition=definition)
    reading = read(group(plain | {member: value}, plain | {"id": "other"}, name=name), "file:/x.json")
    left_out = [one for one in reading.findings if one.pointer == f"/messagedefinitions/0/{member}"]
    assert [(one.rule_id, one.severity, one.action) for one in left_out] == [("CAT-081", "error", "kept")]
    expected = rows(read(group(plain, name=name)))
    xid = f"/messagegroups/g/messages/{NAME}/versions/1"
    assert json.loads(rows(reading)[xid].body)[member] == json.loads(expected[xid].body)[member]
    assert len(reading.rows) == 5 or name == "CloudEvents"  # of an event, `other` is not the declared type


@pytest.mark.parametrize("member", ["envelopemetadata", "protocoloptions", "protocol", "dataschema", "envelope"])
@law
@given(value=json_values)
def test_any_value_of_a_member_with_a_name_of_the_normal_form_gives_rows_or_findings(member, value):
    for name in SOME:
        reading = read_draft(group(version(name, **{member: value}), name=name), [], "", rules=False)
        assert reading.rows


@pytest.mark.parametrize(("rule", "written"), [pytest.param(*one, id=f"{one[0]}-{n}") for n, one in enumerate(REFUSED)])
def test_what_breaks_a_rule_is_refused_under_its_id(rule, written):
    reading = read(written)
    assert rule in {finding.rule_id for finding in errors(reading)}
    found = next(finding for finding in errors(reading) if finding.rule_id == rule)
    assert found.action == "quarantined"
    assert not found.pointer.startswith("/messagegroups"), "the pointer is one into the document as written"
    assert found.xid not in rows(reading)


REPORTED: list[tuple[str, str, Any]] = [
    ("CAT-026", "warning", {"id": "g", "format": "CloudsEvents"}),
    ("CAT-030", "warning", group(documentationformat="RTF")),
    ("CAT-085", "warning", sections(CE, {"attributes": {"source": {"description": "x"}}})),
    ("CAT-091", "info", sections(CE, {"attributes": {"dataschema": {"value": "https://a.example/x.json"}}})),
    ("CAT-093", "warning", sections("NATS", {"payload": {"dataschema": {"schematype": "Avro", "schema": "not json"}}})),
    ("CAT-094", "warning", sections("NATS", {"payload": {"dataschema": {"schematype": "JSON", "schema": "text"}}})),
    ("CAT-104", "warning", sections(CE, {"attributes": {"dataschema": {"value": "https://a.example/x.json"}}})),
    ("CAT-106", "warning", sections(CE, {"attributes": {"datacontenttype": {"value": "a/b"}}})),
    ("CAT-114", "warning", sections("AMQP", {"header": {"delivery-count": 1}})),
]


@pytest.mark.parametrize(("rule", "severity", "written"), REPORTED, ids=[one[0] for one in REPORTED])
def test_what_is_only_reported_is_loaded(rule, severity, written):
    reading = read(written)
    assert errors(reading) == []
    found = next(finding for finding in reading.findings if finding.rule_id == rule)
    assert (found.severity, found.action) == (severity, "kept")
    assert found.xid in rows(reading)


@pytest.mark.parametrize(
    ("name", "written", "rule"),
    [
        ("AMQP", {"properties": {"userid": {"value": "é"}}}, "CAT-119"),
        ("MQTT", {"publish": {"correlationdata": "é"}}, "CAT-146"),
    ],
)
def test_what_is_no_base64_nor_ascii_takes_out_its_version_only(name, written, rule):
    reading = read(group(version(name, definition=written), {"id": "other", "format": name, "definition": {}}, name=name))
    assert rule in {finding.rule_id for finding in errors(reading)}
    assert "/messagegroups/g/messages/other" in rows(reading)


@pytest.mark.parametrize("uri", ["http://[", "http://a.example/[x"])
def test_of_a_uri_that_cannot_be_taken_apart_no_format_is_inferred(uri):
    reading = read(sections("AMQP", {"applicationdata": {"dataschema": {"value": uri}}}))
    assert "CAT-091" not in rules(reading)
    assert rows(reading) != {}


def test_a_null_declaration_is_as_if_it_were_not_listed():
    """CAT-084."""
    for nothing in (None, {"value": None}):
        assert "source" not in body(sections(CE, {"attributes": {"source": nothing}}))["envelopemetadata"]


def test_a_required_that_is_not_set_is_not_stored():
    """CAT-087: no default is stated."""
    assert body(group(version()))["envelopemetadata"] == {"type": {"value": NAME}}


def test_a_key_that_stands_twice_takes_out_its_version_only():
    text = json.dumps(group(version(), version(id="other", definition={"attributes": {"type": {"value": "other"}}})))
    twice = text.replace('"type": {"value": "other"}', '"type": {"value": "other"}, "type": {"value": "x"}')
    value, problems = read_json(twice.encode(), 100)
    reading = read_draft(value, problems, "", rules=False)
    assert {finding.rule_id for finding in errors(reading)} == {"JSON-002", "MSG-115"}
    assert f"/messagegroups/g/messages/{NAME}" in rows(reading)


def test_the_definitions_of_the_drafts_own_change_events_are_a_document_of_the_draft():
    """CAT-212."""
    names = [f"io.cloudevents.messagecatalog.{verb}.v1" for verb in ("updated", "deleted")]
    subject = "/messagecatalog/{group-id}/messagedefinitions/{messagedefinition-id}/versions/{version-id}"
    events = [{"id": name, "version": 1, "format": CE, "definition": {"attributes": {
        "specversion": {"value": "1.0"}, "type": {"value": name}, "subject": {"value": subject},
        "source": {"description": "the catalog"}, "time": {"description": "when"}}}} for name in names]  # fmt: skip
    reading = read(group(*events))
    assert errors(reading) == []
    assert {finding.rule_id for finding in warnings(reading)} == {"CAT-085"}


def test_a_pointer_is_translated_without_looking_at_all_others():
    """A document of the draft may hold a hundred thousand of them."""

    class Unlisted(dict[str, str]):
        def __iter__(self) -> Any:
            raise AssertionError("all pointers were looked at")

    pointers = Unlisted({"/a": "/0", "/a/b": "/0/x", "": "/root"})
    reported = [translated(pointer, pointers) for pointer in ("/a/b/c", "/a/bc", "/a/b", "/z")]
    assert reported == ["/0/x/c", "/0/bc", "/0/x", "/root/z"]
    assert translated("/z", {"/a": "/0"}) == "/z"


# The table, and laws


def test_each_row_of_the_table_has_a_rule():
    assert all(
        row["rule"].startswith("CAT-") for level in ("group", "definition", "version", "closed") for row in table_rows(level)
    )
    assert {row["format"] for row in table_rows("section")} == set(formats())


@law
@given(
    json_values, st.sampled_from(["id", "format", "messagedefinitions", "versions", "version", "definition", "tags", "authority"])
)
def test_any_value_anywhere_gives_rows_or_findings(value, key):
    for written in (group(version() | {key: value}), group(version()) | {key: value}, version() | {key: value}):
        if is_draft(written):
            reading = read_draft(written, [], "", rules=False)
            assert reading.rows or errors(reading)


@law
@given(st.sampled_from(list(table_rows("section"))), json_values)
def test_any_value_of_any_member_gives_rows_or_findings(row, value):
    section, member = row["path"].split("/")
    name = "x" if member == "*" else member
    reading = read_draft(sections(row["format"], {section: {name: value}}), [], "", rules=False)
    assert reading.rows


@pytest.mark.parametrize("digits", ["²", "٣", "1" * 4301])
def test_digits_that_are_no_number_break_a_version_and_not_the_document(digits):
    versions = {"1": version(), digits: version()}
    reading = read(group() | {"messagedefinitions": {NAME: {"versions": versions}}})
    assert {finding.rule_id for finding in errors(reading)} == {"CAT-077"}
    values = {"properties": {"groupsequence": {"value": digits}}}
    assert "CAT-129" in rules(read(sections("AMQP", values)))
