"""AsyncAPI 3 is written: what entities become, what is lost, and that a load of it finds the same again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from asyncapitrips import trip

from lakehouse.asyncapi.inward import convert
from lakehouse.asyncapi.outward import AsyncApi, write_asyncapi
from lakehouse.ingest.parse.parse import read_as
from lakehouse.rules.declared import enforcement

DATA = Path(__file__).parents[1] / "data" / "asyncapi"
DEMO = Path(__file__).parents[2] / "lakehouse" / "cli" / "demo"
EVENT: dict[str, Any] = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "lamp.on"}}}
MESSAGE: dict[str, Any] = {
    "protocol": "KAFKA",
    "protocoloptions": {"topic": {"value": "lamps"}},
    "datacontenttype": "application/json",
}


def written(registry: dict[str, Any], **ways: Any) -> AsyncApi:
    return write_asyncapi({"registryid": "r"} | registry, **ways)


def endpoint(**attributes: Any) -> dict[str, Any]:
    options = {"topic": "lamps", "endpoints": [{"uri": "ssl://bus.example:9093"}]}
    return {
        "usage": ["producer"],
        "protocol": "KAFKA",
        "protocoloptions": options,
        "messagegroups": ["/messagegroups/g"],
    } | attributes


@pytest.mark.parametrize("name", ["booking", "depot", "reader", "station"])
@pytest.mark.parametrize("perspective", ["client", "server"])
def test_an_asyncapi_document_is_found_again(name, perspective):
    there = trip(DATA / f"{name}.yaml", perspective)
    assert len(there.first) > 10
    assert there.differing == set()
    assert there.written.losses == []


@pytest.mark.parametrize("path", sorted(DEMO.glob("*.json")), ids=lambda path: path.stem)
def test_a_registry_is_found_again_but_for_what_is_reported(path):
    there = trip(path)
    differing = {"/".join(xid.split("/")[:5]) for xid in there.differing if xid != "/"}
    lost = {xid for xid, _ in there.written.losses}
    assert {xid for xid in differing if not any(xid == one or one.startswith(f"{xid}/") for one in lost)} == set()
    assert {xid for xid in differing if "/messages/" in xid} <= lost


def test_documents_of_several_applications_become_one_and_lose_what_is_said_of_the_applications():
    there = trip(DATA / "depot.yaml", "client", *(DATA / f"{name}.yaml" for name in ("reader", "booking", "station")))
    applications = {f"/messagegroups/{name}" for name in ("example-depot", "parcel-reader", "example-booking", "example-station")}
    assert there.differing == applications == {xid for xid, _ in there.written.losses}
    assert {loss.rule_id for _, loss in there.written.losses} == {"AAPI-103"}
    operations = there.written.document["operations"]
    assert operations["onParcel"]["channel"] == operations["moveParcel"]["channel"]  # both at one broker


def test_endpoints_become_operations_of_a_channel():
    registry = {
        "messagegroups": {"g": {"messages": {"On": MESSAGE}}},
        "endpoints": {"in": endpoint(), "out": endpoint(usage=["consumer"])},
    }
    document = written(registry).document
    assert list(document["channels"]) == ["g"]
    assert document["channels"]["g"]["address"] == "lamps"
    assert {key: one["action"] for key, one in document["operations"].items()} == {"in": "send", "out": "receive"}
    other = written(registry, perspective="server").document
    assert {key: one["action"] for key, one in other["operations"].items()} == {"in": "receive", "out": "send"}
    assert list(document["servers"].values()) == [{"host": "bus.example:9093", "protocol": "kafka-secure"}]  # one for both


def test_an_endpoint_of_two_roles_has_two_operations():
    registry = {
        "messagegroups": {"g": {"messages": {"On": MESSAGE}}},
        "endpoints": {"e": endpoint(usage=["consumer", "producer"])},
    }
    operations = written(registry).document["operations"]
    assert [one["action"] for one in operations.values()] == ["receive", "send"]


def test_messages_of_two_addresses_are_two_channels():
    other = MESSAGE | {"protocoloptions": {"topic": {"value": "lamps.{room}"}}}
    registry = {"messagegroups": {"g": {"messages": {"On": MESSAGE, "Off": other}}}, "endpoints": {"e": endpoint()}}
    channels = written(registry).document["channels"]
    assert {one["address"]: one.get("parameters") for one in channels.values()} == {"lamps": None, "lamps.{room}": {"room": {}}}


def test_a_cloudevent_has_its_attributes_in_headers_or_in_the_payload():
    for mode, place in (("binary", "headers"), ("structured", "payload")):
        message = MESSAGE | EVENT | {"envelopeoptions": {"mode": mode}}
        document = written({"messagegroups": {"g": {"messages": {"On": message}}}}).document
        schema = document["components"]["messages"]["On"][place]
        prefix = "ce_" if mode == "binary" else ""
        assert schema["properties"][f"{prefix}type"]["const"] == "lamp.on"
        assert set(schema["required"]) == {f"{prefix}{name}" for name in ("specversion", "id", "source", "type")}


def test_a_schema_is_written_once_for_each_version_that_is_used():
    versions = {number: {"format": "Avro/1.9.0", "schema": {"type": number}} for number in ("1", "2", "3")}
    schemas = {"schemagroups": {"s": {"schemas": {"Lamp": {"versionid": "3", "versions": versions}}}}}
    xid = "/schemagroups/s/schemas/Lamp"
    messages = {"A": MESSAGE | {"dataschemaxid": xid}, "B": MESSAGE | {"dataschemaxid": f"{xid}/versions/1"}}
    made = written({"messagegroups": {"g": {"messages": messages}}} | schemas)
    assert [one["schema"]["type"] for one in made.document["components"]["schemas"].values()] == ["3", "1"]
    assert [(one, loss.pointer, loss.rule_id) for one, loss in made.losses] == [(xid, "/versions/2", "AAPI-102")]


@pytest.mark.parametrize("used", ["Alias", "Lamp", None])
def test_a_schema_that_is_an_alias_becomes_a_copy_and_the_alias_is_a_loss(used):
    version = {"format": "JSONSchema/draft-07", "schema": {"type": "object"}}
    alias = {"meta": {"xref": "/schemagroups/s/schemas/Lamp"}}
    schemas = {"Lamp": {"versionid": "2", "versions": {"2": version}}, "Alias": alias}
    message = MESSAGE | ({} if used is None else {"dataschemaxid": f"/schemagroups/s/schemas/{used}"})
    made = written({"messagegroups": {"g": {"messages": {"On": message}}}, "schemagroups": {"s": {"schemas": schemas}}})
    assert [(xid, loss.pointer, loss.rule_id) for xid, loss in made.losses] == [
        ("/schemagroups/s/schemas/Alias", "/meta/xref", "AAPI-104")
    ]
    components = made.document["components"]
    assert components["messages"]["On"].get("payload") == (None if used is None else {"$ref": f"#/components/schemas/{used}"})
    again = convert(made.document).document
    assert again["messagegroups"]["g"]["messages"]["On"].get("dataschemaxid") == message.get("dataschemaxid")
    assert again["schemagroups"] == {"s": {"schemas": {name: {"versions": {"2": version}} for name in schemas}}}


def test_an_alias_of_a_schema_that_is_not_there_is_a_loss():
    schemas = {"Alias": {"meta": {"xref": "/schemagroups/s/schemas/Lamp"}}}
    message = MESSAGE | {"dataschemaxid": "/schemagroups/s/schemas/Alias"}
    made = written({"messagegroups": {"g": {"messages": {"On": message}}}, "schemagroups": {"s": {"schemas": schemas}}})
    assert [loss.rule_id for _, loss in made.losses] == ["AAPI-104"]
    assert "schemas" not in made.document["components"]


SCHEMAS = [
    (
        "JSONSchema/draft-04",
        {"type": "number", "minimum": 0, "exclusiveMinimum": True},
        "application/schema+json;version=draft-04",
    ),
    (
        "JSONSchema/2020-12",
        {"prefixItems": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "string"}}},
        "application/schema+json;version=2020-12",
    ),
    ("Avro/1.9.0", {"type": "record", "name": "R", "fields": []}, "application/vnd.apache.avro;version=1.9.0"),
    ("JSONSchema/draft-07", {"items": {"$ref": "#/definitions/a"}, "definitions": {"a": {"type": "string"}}}, None),
]


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize(("schema_format", "schema", "media_type"), SCHEMAS, ids=[one[0] for one in SCHEMAS])
def test_a_schema_of_another_draft_or_format_names_its_format_and_is_found_again(schema_format, schema, media_type, mode):
    event = MESSAGE | EVENT | {"envelopeoptions": {"mode": mode}, "dataschemaformat": schema_format}
    messages = {"In": event | {"dataschema": schema}, "Of": event | {"dataschemaxid": "/schemagroups/s/schemas/Lamp"}}
    schemas = {
        name: {"versionid": "1", "versions": {"1": {"format": schema_format, "schema": schema}}} for name in ("Lamp", "Free")
    }
    made = written({"messagegroups": {"g": {"messages": messages}}, "schemagroups": {"s": {"schemas": schemas}}})
    components = made.document["components"]
    payload = components["messages"]["In"]["payload"]
    inside = payload["properties"]["data"] if mode == "structured" else payload
    for one in (inside, components["schemas"]["Lamp"], components["schemas"]["Free"]):
        assert one.get("schemaFormat") == media_type
        assert ("schema" in one) == (media_type is not None)
    again = convert(made.document).document
    found = again["messagegroups"]["g"]["messages"]
    assert {name: found[name].get("dataschema") for name in messages} == {"In": schema, "Of": None}
    assert {one["dataschemaformat"] for one in found.values()} == {schema_format}
    assert again["schemagroups"] == {
        "s": {"schemas": {name: {"versions": {"1": {"format": schema_format, "schema": schema}}} for name in schemas}}
    }


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"type": "object"}', {"type": "object", "x-xregistry": {"text": '{"type": "object"}'}}),
        ("true", {"schemaFormat": "text/plain", "schema": "true"}),
        ("{", {"schemaFormat": "text/plain", "schema": "{"}),
    ],
)
def test_a_json_schema_that_is_text_is_an_object_and_found_again(text, shown, mode):
    event = MESSAGE | EVENT | {"envelopeoptions": {"mode": mode}, "dataschemaformat": "JSONSchema/draft-07"}
    messages = {"In": event | {"dataschema": text}, "Of": event | {"dataschemaxid": "/schemagroups/s/schemas/Lamp"}}
    version = {"format": "JSONSchema/draft-07", "schema": text}
    schemas = {"s": {"schemas": {name: {"versions": {"1": version}} for name in ("Lamp", "Free")}}}
    document = written({"messagegroups": {"g": {"messages": messages}}, "schemagroups": schemas}).document
    payload = document["components"]["messages"]["In"]["payload"]
    assert (payload["properties"]["data"] if mode == "structured" else payload) == shown
    assert document["components"]["schemas"]["Lamp"] == shown
    again = convert(document).document
    assert again["messagegroups"]["g"]["messages"]["In"]["dataschema"] == text
    assert again["schemagroups"] == schemas


@pytest.mark.parametrize("levels", [151, 300, 900])
def test_a_json_schema_that_is_deep_text_stays_text(levels):
    text = '{"items":' * levels + "{}" + "}" * levels
    schemas = {"s": {"schemas": {"Lamp": {"versions": {"1": {"format": "JSONSchema/draft-07", "schema": text}}}}}}
    message = MESSAGE | {"dataschemaformat": "JSONSchema/draft-07", "dataschemaxid": "/schemagroups/s/schemas/Lamp"}
    document = written({"messagegroups": {"g": {"messages": {"Of": message}}}, "schemagroups": schemas}).document
    assert document["components"]["schemas"]["Lamp"] == {"schemaFormat": "text/plain", "schema": text}
    assert convert(document).document["schemagroups"] == schemas


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize(
    ("schema_format", "is_text", "payload"),
    [
        ("JSONSchema/draft-07", False, {"$ref": "#/components/schemas/Lamp/definitions/On"}),
        ("JSONSchema/draft-07", True, {"$ref": "#/components/schemas/Lamp/definitions/On"}),
        (
            "JSONSchema/2020-12",
            False,
            {
                "schemaFormat": "application/schema+json;version=2020-12",
                "schema": {"$ref": "#/components/schemas/Lamp/schema/definitions/On"},
            },
        ),
        ("JSONSchema/2020-12", True, {"$ref": "#/components/schemas/Lamp"}),  # no reference leads into text
    ],
)
def test_a_message_may_mean_a_part_of_a_schema(schema_format, is_text, payload, mode):
    schema: Any = {"type": "object", "definitions": {"On": {"properties": {"room": {"$ref": "#/definitions/Room"}}}, "Room": {}}}
    schema = json.dumps(schema) if is_text else schema
    uri = "#/schemagroups/s/schemas/Lamp/versions/1:/definitions/On"
    event = MESSAGE | EVENT | {"envelopeoptions": {"mode": mode}, "dataschemaformat": schema_format}
    messages = {"On": event | {"dataschemauri": uri}, "No": event | {"dataschemauri": uri.replace("On", "Off")}}
    schemas = {"s": {"schemas": {"Lamp": {"versions": {"1": {"format": schema_format, "schema": schema}}}}}}
    document = written({"messagegroups": {"g": {"messages": messages}}, "schemagroups": schemas}).document
    shown = {name: document["components"]["messages"][name]["payload"] for name in messages}
    shown = {name: one["properties"]["data"] for name, one in shown.items()} if mode == "structured" else shown
    assert shown == {"On": payload, "No": {"$ref": "#/components/schemas/Lamp"}}  # there is no `Off`
    again = convert(document).document
    assert {name: one["dataschemauri"] for name, one in again["messagegroups"]["g"]["messages"].items()} == {
        name: one["dataschemauri"] for name, one in messages.items()
    }
    assert again["schemagroups"] == schemas


def test_ids_of_two_groups_do_not_meet():
    groups = {name: {"messages": {"On": MESSAGE | {"name": name}}} for name in ("a", "b")}
    assert sorted(written({"messagegroups": groups}).document["components"]["messages"]) == ["On", "On-2"]


LOSSES = [
    ({"messagegroups": {"g": {"messages": {"On": MESSAGE | {"meta": {"deprecated": {"effective": "now"}}}}}}}, "AAPI-104"),
    ({"capabilities": {"flags": []}}, "AAPI-105"),
    ({"endpoints": {"e": endpoint(protocoloptions={"endpoints": [{"uri": "ssl://a.example:1", "priority": 1}]})}}, "AAPI-106"),
    ({"schemagroups": {"s": {"description": "empty"}}}, "AAPI-103"),
    ({"messagegroups": {"g": {"messages": {"On": MESSAGE | {"versionid": "2", "versions": {"1": {}, "2": {}}}}}}}, "AAPI-101"),
    ({"schemagroups": {"s": {"schemas": {"A": {"versionid": "1", "name": "a", "versions": {"1": {"schema": {}}}}}}}}, "AAPI-102"),
]


def test_the_version_of_a_message_is_found_again():
    message = MESSAGE | {"versionid": "3", "versions": {"3": {"isdefault": True}}}
    made = written({"messagegroups": {"g": {"messages": {"On": message, "Off": MESSAGE | {"versionid": "1"}}}}})
    assert made.losses == []
    reading = read_as(made.document, [], "lamps.json", None)[1]
    versions = [row.xid for row in reading.rows if "/versions/" in row.xid]
    assert versions == [f"/messagegroups/g/messages/{version}" for version in ("On/versions/3", "Off/versions/1")]


@pytest.mark.parametrize("used", [False, True])
def test_the_content_type_of_a_schema_is_a_loss(used):
    version = {"format": "JSONSchema/draft-07", "schema": {}, "contenttype": "application/schema+json"}
    message = MESSAGE | ({"dataschemaxid": "/schemagroups/s/schemas/A"} if used else {})
    schemas = {"A": {"versionid": "7", **version, "versions": {"7": version}}}
    made = written({"messagegroups": {"g": {"messages": {"On": message}}}, "schemagroups": {"s": {"schemas": schemas}}})
    assert [(xid, loss.pointer, loss.rule_id) for xid, loss in made.losses] == [
        ("/schemagroups/s/schemas/A", "/versions/7/contenttype", "AAPI-102")
    ]


@pytest.mark.parametrize(("registry", "rule_id"), LOSSES, ids=[one[1] for one in LOSSES])
def test_what_cannot_be_written_is_a_loss(registry, rule_id):
    assert [loss.rule_id for _, loss in written(registry).losses] == [rule_id]


def test_the_docs_and_the_rules_list_every_loss():
    docs = (Path(__file__).parents[2] / "docs" / "asyncapi.md").read_text()
    listed = re.findall(r"^\| (AAPI-1\d\d) \|", docs, re.MULTILINE)
    assert listed == sorted(rule_id for rule_id in enforcement() if rule_id.startswith("AAPI-1"))
    assert {rule_id for _, rule_id in LOSSES} == set(listed)


def test_operations_have_what_was_said_of_them():
    document = trip(DATA / "booking.yaml").written.document
    listed, requests = document["operations"]["listSeats"], document["operations"]["takeRequests"]
    assert listed["reply"]["messages"] == [{"$ref": "#/channels/seats/messages/SeatsListed"}]
    assert listed["bindings"]["http"]["query"]["properties"] == {"class": {"type": "string", "const": "first"}}
    assert requests["security"] == [{"$ref": "#/components/securitySchemes/scramSha512"}]
    inbox = requests["reply"]["channel"]["$ref"].rpartition("/")[2]
    assert document["channels"][inbox]["address"] is None
    assert document["channels"]["requests"]["address"] == "booking.requests"
    message = document["components"]["messages"]["BookSeat"]
    assert (message["summary"], "description" in message) == ("Somebody wants a seat.", False)
    assert message["headers"]["properties"]["ce_source"]["pattern"] == "^/desks/"
    assert trip(DATA / "station.yaml").written.document["servers"]["broker"]["bindings"]["mqtt"]["cleanSession"] is True


def test_what_changed_in_the_catalog_wins_over_what_was_read():
    kept = {"headers": {"type": "object", "properties": {"h": {"type": "string", "maxLength": 3}}}}
    for declared, properties in (
        ({"type": "string"}, kept["headers"]["properties"]),
        ({"type": "integer"}, {"h": {"type": "integer"}}),
    ):
        options = MESSAGE["protocoloptions"] | {"headers": {"h": declared}}
        messages = {"On": MESSAGE | {"protocoloptions": options, "asyncapi": kept}}
        document = written({"messagegroups": {"g": {"messages": messages}}}).document
        assert document["components"]["messages"]["On"]["headers"]["properties"] == properties


def test_headers_behind_references_are_written_as_they_were_read():
    schema = {"allOf": [{"$ref": "#/definitions/H"}], "definitions": {"H": {"properties": {"h": {"const": "1"}}}}}
    options = MESSAGE["protocoloptions"] | {"headers": {"h": {"value": "1"}}}
    messages = {"On": MESSAGE | {"protocoloptions": options, "asyncapi": {"headers": schema}}}
    document = written({"messagegroups": {"g": {"messages": messages}}}).document
    headers = document["components"]["messages"]["On"]["headers"]
    assert headers == schema | {"allOf": [{"$ref": "#/components/messages/On/headers/definitions/H"}]}
    assert convert(document).document["messagegroups"]["g"]["messages"]["On"]["asyncapi"]["headers"] == schema


def structured_event(schema: dict[str, Any], schema_format: str | None) -> dict[str, Any]:
    """Return a document of one message, whose payload is the schema of a structured CloudEvent."""
    properties: dict[str, Any] = {name: {"type": "string"} for name in ("id", "source", "type")}
    properties |= {"specversion": {"const": "1.0"}, "id": {"type": "string", "minLength": 5}}
    payload: dict[str, Any] = {"type": "object", "required": list(properties), "properties": properties | schema}
    if schema_format is not None:
        payload = {"schemaFormat": schema_format, "schema": payload}
    return {"asyncapi": "3.0.0", "info": {"title": "r", "version": "1"}, "components": {"messages": {"On": {"payload": payload}}}}


@pytest.mark.parametrize("schema_format", [None, "application/schema+json;version=2020-12"])
@pytest.mark.parametrize("schema", [{"data": {"type": "object"}}, {}], ids=json.dumps)
def test_a_structured_event_is_written_as_it_was_read_until_it_changes_in_the_catalog(schema, schema_format):
    document = structured_event(schema, schema_format)
    registry = convert(document).document
    payload = document["components"]["messages"]["On"]["payload"]
    again = written(registry).document
    assert again["components"]["messages"]["On"]["payload"] == payload
    message = registry["messagegroups"]["r"]["messages"]["On"]
    assert convert(again).document["messagegroups"]["r"]["messages"]["On"] == message
    for changed in ({"envelopemetadata": {"type": {"value": "lamp.off"}}}, {"dataschemaxid": "/schemagroups/s/schemas/Lamp"}):
        other = {name: value for name, value in message.items() if name != "dataschema"} | changed
        off = written({"messagegroups": {"r": {"messages": {"On": other}}}}).document["components"]["messages"]["On"]
        assert "minLength" not in off["payload"]["properties"]["id"]


def test_a_group_without_messages_is_a_channel():
    made = written({"messagegroups": {"g": {"description": "empty"}}})
    assert made.losses == []
    assert made.document["channels"]["g"]["description"] == "empty"


def test_an_empty_registry_is_a_document():
    document = written({}).document
    assert document["info"] == {"title": "r", "version": "1"}
    assert json.dumps(document["channels"]) == "{}"


@pytest.mark.parametrize(
    "kept",
    [
        {"server": {"host": 5}},
        {"server": {"$ref": "#/servers/b", "pathname": [], "protocol": 5, "bindings": 5, "x-xregistry": 5}},
        {"channel": {"address": 5}},
        {"channel": {"$ref": "#/channels/b", "messages": 5, "servers": 5, "parameters": 5, "bindings": {"kafka": 5}}},
        {"server": {}, "security": 5},
        {"operation": {"channel": 5}},
        {"operation": {"action": "x", "security": 5, "messages": 5, "tags": 5}},
        {"operation": {"$ref": "#/operations/b"}},
        {"operation": {"reply": {"messages": 5, "messagegroup": "/messagegroups/g", "$ref": "#"}}},
        {"operation": 5, "channel": 5, "server": 5},
    ],
    ids=json.dumps,
)
def test_an_extension_of_another_shape_is_found_again_and_breaks_no_object(kept):
    registry = {"messagegroups": {"g": {"messages": {"On": MESSAGE}}}, "endpoints": {"e": endpoint(asyncapi=kept)}}
    document = json.loads(json.dumps(written(registry).document))
    usual = written(registry | {"endpoints": {"e": endpoint()}}).document
    assert document["operations"].keys() == usual["operations"].keys() == {"e"}
    for name, of_usual in (("operations", ("action", "channel")), ("channels", ("address", "servers", "messages"))):
        [made], [expected] = document[name].values(), usual[name].values()
        assert {one: made.get(one) for one in of_usual} == {one: expected.get(one) for one in of_usual}
    [server] = document["servers"].values()
    assert server["host"] == "bus.example:9093"
    assert not any("$ref" in one for part in ("servers", "channels", "operations") for one in document[part].values())
    again = convert(document).document["endpoints"]["e"]
    assert (again["asyncapi"], again["protocoloptions"]) == (kept, endpoint()["protocoloptions"])


def test_an_application_that_keeps_members_of_other_types_is_a_document():
    kept = {"info": {"title": 5}, "asyncapi": 5, "operations": 5, "servers": 5, "channels": {"g": 5}, "x-a": 1}
    document = written({"messagegroups": {"g": {"name": "G", "asyncapi": kept}}}).document
    assert (document["asyncapi"], document["operations"], document["x-a"]) == ("3.0.0", {}, 1)
