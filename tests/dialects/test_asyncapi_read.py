"""AsyncAPI documents of 2.x and 3.x are read: what their parts become, and what is reported of them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from builders import body, document, errors, rows
from exampled import BY_ASYNCAPI

from lakehouse.asyncapi.application import Application
from lakehouse.asyncapi.following import Following, NoSuchFile, OpenedFile, apply_merge_patch, with_placed_references
from lakehouse.asyncapi.headerschemas import (
    as_headers,
    as_payload,
    declaration_of,
    from_headers,
    from_payload,
    member_of,
    property_of,
)
from lakehouse.asyncapi.identifiers import id_of_address
from lakehouse.asyncapi.inward import convert
from lakehouse.asyncapi.protocoltables import WIRES, format_of, media_type_of, normal_protocol, wire_of
from lakehouse.asyncapi.texts import LOST_KINDS, UNINTERPRETED_KINDS
from lakehouse.dialects.detection import declared_dialect, not_a_registry
from lakehouse.ingest.parse.document import ParseLimits, Rejected
from lakehouse.ingest.parse.draft import WITH_FILES
from lakehouse.ingest.parse.parse import FilesBeside, read_as
from lakehouse.ingest.parse.readings import Reading
from lakehouse.match.payload.jsonvalidator import JsonSchemaValidator
from lakehouse.match.payload.schemas import Resolved
from lakehouse.rules.declared import FINDING_RULES, RULES, examples
from lakehouse.text.names import Pointer
from lakehouse.text.problems import CREDENTIAL, DUPLICATE_KEY, LIMIT
from lakehouse.text.xid import id_problem
from lakehouse.text.yamltext import read_text

DATA = Path(__file__).parents[1] / "data" / "asyncapi"
LIMITS = ParseLimits(bytes=1 << 20, unpacked=1 << 20, depth=64, entities=1000, stream=1 << 20, strict=False)
KAFKA = {"bus": {"host": "bus.example:9092", "protocol": "kafka"}}


def read_file(path: Path, roots: tuple[str, ...] = ()) -> Reading:
    value, problems = read_text(path.read_bytes(), path.name, 64)
    beside = FilesBeside(path.as_uri().replace("file:///", "file:/"), LIMITS._replace(roots=roots))
    return read_as(value, problems, path.as_uri(), None, open_file=beside)[1]


def read(**members: Any) -> Reading:
    written = {"asyncapi": "3.0.0", "info": {"title": "Lamps", "version": "1"}} | members
    assert not_a_registry(written) is None
    return read_as(written, [], "lamps.json", None)[1]


def result(reading: Reading, rule_id: str) -> list[str]:
    return [finding.pointer for finding in reading.findings if finding.rule_id == rule_id]


@pytest.fixture(scope="module")
def depot() -> Reading:
    reading = read_file(DATA / "depot.yaml")
    assert errors(reading) == []
    return reading


@pytest.fixture(scope="module")
def booking() -> Reading:
    reading = read_file(DATA / "booking.yaml")
    assert errors(reading) == []
    return reading


def message(reading: Reading, xid: str) -> dict[str, Any]:
    return body(reading, f"/messagegroups/{xid}/versions/1")


@pytest.mark.parametrize(
    ("written", "dialect"),
    [
        ("2.0.0", "asyncapi-2"),
        ("2.6.0", "asyncapi-2"),
        ("3.0.0", "asyncapi-3"),
        ("3.1.0", "asyncapi-3"),
        ("3.1.0-beta", "asyncapi-3"),
    ],
)
def test_a_document_is_recognised_by_its_version(written, dialect):
    assert declared_dialect({"asyncapi": written}) == dialect


@pytest.mark.parametrize("written", ["1.2.0", "2.7.0", "4.0.0", 3, None])
def test_a_document_of_another_version_is_none(written):
    reason = not_a_registry({"asyncapi": written})
    assert reason is not None
    assert "2.0 to 2.6, 3.0 and 3.1" in reason


def test_channels_become_groups_and_operations_endpoints(depot):
    assert {xid for xid, row in rows(depot).items() if row.kind == "group"} == {
        "/messagegroups/amqp.depot-orders",
        "/messagegroups/example-depot",
        "/messagegroups/example-depot.later.kafka",
        "/messagegroups/http.:hooks:@tenant",
        "/messagegroups/kafka.depot.parcels",
        "/messagegroups/mqtt.gates:@gate_id:opened",
        "/messagegroups/nats.depot.alarms.@site",
        "/schemagroups/example-depot",
        "/schemagroups/kafka.depot.parcels",
        "/schemagroups/nats.depot.alarms.@site",
    }
    usages = {xid.rpartition(".")[2]: json.loads(row.body)["usage"] for xid, row in rows(depot, "endpoint").items()}
    assert usages == {
        "moveParcel": ["producer"],
        "readParcels": ["consumer"],
        "openGate": ["consumer"],
        "takeOrder": ["consumer"],
        "callHook": ["producer"],  # whoever calls the application's own server sends
        "raise": ["producer"],
        "reply": ["producer"],
    }


def test_an_endpoint_has_addresses_login_and_options(depot):
    reading = body(depot, "/endpoints/example-depot.readParcels")
    assert reading["protocoloptions"] == {
        "authorization": {"type": "Plain"},
        "consumergroup": "depot-readers",
        "endpoints": [{"uri": "sasl_ssl://bus.depot.example:9093"}],
        "topic": "depot.parcels",
    }
    assert reading["messagegroups"] == ["/messagegroups/kafka.depot.parcels"]
    assert body(depot, "/endpoints/example-depot.callHook")["protocoloptions"]["endpoints"] == [
        {"uri": "https://north.depot.example/api"}
    ]
    assert body(depot, "/endpoints/example-depot.reply")["protocoloptions"]["deployed"] is False
    assert body(depot, "/endpoints/example-depot.openGate")["protocoloptions"]["qos"] == 1


def test_an_operation_of_some_messages_carries_these_alone(depot):
    assert "messagegroups" not in body(depot, "/endpoints/example-depot.moveParcel")
    carried = body(depot, "/endpoints/example-depot.moveParcel/messages/ParcelMoved/versions/1")
    assert carried["basemessage"] == "/messagegroups/kafka.depot.parcels/messages/ParcelMoved"


def test_an_operation_carries_no_messages_of_another_channel_with_the_same_address():
    channels = {key: {"address": "lamps", "messages": {key: {"payload": {"type": "object"}}}} for key in ("On", "Off")}
    operations = {key: {"action": "send", "channel": {"$ref": f"#/channels/{key}"}} for key in channels}
    reading = read(servers=KAFKA, channels=channels, operations=operations)
    for key in channels:
        assert "messagegroups" not in body(reading, f"/endpoints/lamps.{key}")
        carried = [xid for xid in rows(reading, "message") if xid.startswith(f"/endpoints/lamps.{key}/")]
        assert carried == [f"/endpoints/lamps.{key}/messages/{key}"]
        version = body(reading, f"{carried[0]}/versions/1")
        assert version["basemessage"] == f"/messagegroups/kafka.lamps/messages/{key}"


def test_a_message_has_options_of_its_protocol(depot):
    moved = message(depot, "kafka.depot.parcels/messages/ParcelMoved")
    assert moved["protocoloptions"] == {
        "headers": {"trace": {"type": "string"}},
        "key": {"type": "string", "value": "parcel"},
        "topic": {"value": "depot.parcels"},
    }
    assert moved["description"] == "A parcel came to another place."  # and not that of the trait
    assert moved["extensions"]["asyncapi"]["x-owner"] == "team-a"
    opened = message(depot, "mqtt.gates:@gate_id:opened/messages/GateOpened")
    assert opened["protocoloptions"]["user_properties"] == [
        {"name": "shift", "required": True, "type": "string", "value": "night"},
        {"name": "count", "type": "integer"},
    ]
    assert opened["dataschema"]["examples"] == [{"gate": "1"}]


def test_cloudevents_are_recognised_in_headers_and_in_payloads(depot):
    alarm = message(depot, "nats.depot.alarms.@site/messages/Alarm")
    assert alarm["envelope"] == "CloudEvents/1.0"
    assert alarm["envelopemetadata"] == {"source": {"type": "uri"}, "type": {"type": "string", "value": "depot.alarm"}}
    assert list(alarm["protocoloptions"]["headers"]) == [{"name": "level", "type": "string", "value": "high"}]
    hook = message(depot, "http.:hooks:@tenant/messages/HookCalled")
    assert hook["envelopeoptions"] == {"mode": "structured"}
    assert hook["datacontenttype"] == "application/cloudevents+json"
    assert hook["dataschema"] == {"type": "object", "properties": {"url": {"type": "string"}}}


OF_EVENT = {
    "type": "object",
    "properties": {
        "ce_type": {"const": "lamp.on"},
        "ce_source": {"const": "/lamps"},
        "ce_id": {"type": "string"},
        "ce_specversion": {"const": "1.0"},
        "room": {"const": "1"},
    },
}


@pytest.mark.parametrize(
    "headers",
    [
        {"allOf": [{"$ref": "#/components/schemas/Event"}]},
        {"allOf": [{"$ref": "#/components/schemas/Both"}, {"properties": {"room": {"const": "1"}}}]},
        {"$ref": "#/components/schemas/Both"},
        {"type": "object", "properties": OF_EVENT["properties"] | {"ce_type": {"$ref": "#/components/schemas/Type"}}},
    ],
)
def test_headers_behind_references_are_read(headers):
    schemas = {
        "Event": OF_EVENT,
        "Both": {"allOf": [{"$ref": "#/components/schemas/Both"}, {"$ref": "#/components/schemas/Event"}]},
        "Type": {"$ref": "#/components/schemas/Name"},
        "Name": {"const": "lamp.on", "x-xregistry": {"xid": "/schemagroups/s/schemas/Name"}},
    }
    channels = {"c": {"address": "a", "messages": {"M": {"headers": headers}}}}
    reading = read(servers=KAFKA, channels=channels, components={"schemas": schemas})
    on = message(reading, "kafka.a/messages/M")
    assert (on["envelope"], on["envelopemetadata"]) == (
        "CloudEvents/1.0",
        {"type": {"value": "lamp.on"}, "source": {"value": "/lamps"}},
    )
    assert on["protocoloptions"]["headers"] == {"room": {"value": "1"}}
    assert "definitions" in on["extensions"]["asyncapi"]["headers"]  # they are more than declarations
    assert errors(reading) == [] == result(reading, "AAPI-001")


EVENT = {
    "type": "object",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string"},
        "source": {},
        "type": {"type": "string", "const": "lamp.on"},
        "time": {"type": "string", "format": "date-time"},
        "data": {"type": "object", "minProperties": 1},
    },
}


@pytest.mark.parametrize(
    "more",
    [
        {"title": "Lamp on"},
        {"additionalProperties": False},
        {"required": [*EVENT["required"], "data"]},
        {"required": [*EVENT["required"], "comment"]},
        {"properties": EVENT["properties"] | {"id": {"type": "string", "minLength": 5}}},
        {"properties": EVENT["properties"] | {"type": {"type": "string", "enum": ["lamp.on", "lamp.off"]}}},
        {"properties": EVENT["properties"] | {"data": True}},
        {},
    ],
    ids=json.dumps,
)
def test_a_structured_event_that_says_more_than_attributes_is_kept(more):
    reading = read(components={"messages": {"On": {"payload": EVENT | more}}})
    on = message(reading, "lamps/messages/On")
    assert (on["envelope"], on["envelopeoptions"]) == ("CloudEvents/1.0", {"mode": "structured"})
    assert on.get("extensions", {}).get("asyncapi") == ({"payload": EVENT | more} if more else None)
    assert result(reading, "AAPI-005") == (["/components/messages/On"] if more else [])


def test_headers_of_a_message_and_of_its_binding_may_both_refer_to_schemas():
    schemas = {"A": {"properties": {"a": {"const": "1"}}}, "B": {"properties": {"b": {"const": "2"}}}}
    first, second = ({"allOf": [{"$ref": f"#/components/schemas/{name}"}]} for name in schemas)
    channels = {"c": {"address": "/a", "messages": {"M": {"headers": first, "bindings": {"http": {"headers": second}}}}}}
    reading = read(servers={"web": {"host": "a.example", "protocol": "http"}}, channels=channels, components={"schemas": schemas})
    headers = message(reading, "http.:a/messages/M")["protocoloptions"]["headers"]
    assert headers == [{"name": "a", "value": "1"}, {"name": "b", "value": "2"}]


def test_a_schema_stands_alone(depot):
    parcel = body(depot, "/schemagroups/kafka.depot.parcels/schemas/Parcel/versions/1")["schema"]
    assert parcel["properties"]["at"] == {"$ref": "#/definitions/Place"}
    assert parcel["properties"]["inside"] == {"$ref": "#"}
    assert list(parcel["definitions"]) == ["Place"]
    alarm = body(depot, "/schemagroups/nats.depot.alarms.@site/schemas/Alarm/versions/1")["schema"]  # of another file
    assert alarm["definitions"] == {"Level": {"minimum": 1, "type": "integer"}}
    assert body(depot, "/schemagroups/example-depot/schemas/Spare/versions/1")["schema"] == {"type": "integer"}
    lost = message(depot, "kafka.depot.parcels/messages/ParcelLost")
    assert (lost["dataschemaformat"], lost["dataschema"]["name"]) == ("Avro/1.9.0", "ParcelLost")


def test_what_has_no_attribute_is_kept_and_reported_once_for_each_kind(depot):
    kept = [finding for finding in depot.findings if finding.rule_id == "AAPI-005"]
    assert len({finding.message for finding in kept}) == len(kept) == 5
    assert {finding.severity for finding in kept} == {"info"}
    about = body(depot, "/messagegroups/example-depot")
    assert about["extensions"]["asyncapi"]["info"]["license"] == {"name": "Apache 2.0"}
    assert about["labels"] == {"logistics": "parcels"}
    assert result(depot, "AAPI-007") == [""]


def test_a_reply_names_its_group_and_messages(booking):
    about = body(booking, "/endpoints/example-booking.takeRequests.bus")["extensions"]["asyncapi"]
    assert about["operation"]["reply"] == {
        "address": {"description": "the inbox of the sender", "location": "$message.header#/replyTo"},
        "messagegroup": "/messagegroups/example-booking.inbox.kafka",
        "messages": ["/messagegroups/example-booking.inbox.kafka/messages/Answer"],
    }
    assert about["operation"]["x-level"] == 2  # its own, and not that of the trait
    assert about["channel"]["address"] == "booking.requests"  # the binding names another topic
    assert about["server"]["host"] == "bus.booking.example:9093,bus3.booking.example:9093"


def test_security_of_an_operation_and_of_its_server_are_kept_apart(booking):
    endpoint = body(booking, "/endpoints/example-booking.takeRequests.backup")
    assert endpoint["protocoloptions"]["authorization"] == {"type": "Plain"}
    kept = endpoint["extensions"]["asyncapi"]
    assert [one["type"] for one in kept["operation"]["security"]] == ["scramSha512"]
    assert [one["type"] for one in kept["security"]] == ["oauth2", "openIdConnect"]


def test_bindings_of_http_are_options(booking):
    options = body(booking, "/endpoints/example-booking.listSeats")["protocoloptions"]
    assert (options["method"], options["query"]) == ("GET", {"class": "first"})
    found = body(booking, "/endpoints/example-booking.findSeats")
    assert "query" not in found["protocoloptions"]  # it has no fixed value
    assert found["extensions"]["asyncapi"]["operation"]["bindings"]["http"]["query"]["required"] == ["class"]
    seats = "http.:trains:@train:seats/messages"
    assert message(booking, f"{seats}/SeatsListed")["protocoloptions"]["status"] == {"value": "200"}
    wanted = message(booking, f"{seats}/SeatsWanted")
    assert wanted["protocoloptions"]["headers"] == [{"name": "x-desk", "required": True, "type": "string", "value": "north"}]
    assert "extensions" not in wanted


def test_schemas_of_other_formats_are_texts_or_values(booking):
    receipt = message(booking, "amqp091.booking.bills/messages/Receipt")
    schema = body(booking, f"{receipt['dataschemaxid']}/versions/1")
    assert (schema["format"], schema["schema"].splitlines()[0]) == ("Protobuf/3", 'syntax = "proto3";')  # of a file
    assert message(booking, "amqp091.booking.bills/messages/Bill")["dataschemaformat"] == "RAML/1.0"
    cancelled = body(booking, "/schemagroups/kafka.booking.requests.v2/schemas/Cancelled/versions/1")
    assert (cancelled["format"], cancelled["schema"]["name"]) == ("Avro/1.9.0", "Cancelled")


def test_what_no_operation_uses_is_kept_with_the_application(booking):
    kept = body(booking, "/messagegroups/example-booking")["extensions"]["asyncapi"]
    assert kept["servers"]["spare"] == {"host": "spare.booking.example", "protocol": "nats", "x-since": 2020}
    assert result(booking, "AAPI-005").count("/servers/spare") == 1


def test_traits_of_2_win_and_old_members_of_bindings_are_lost():
    station = read_file(DATA / "station.yaml")
    assert errors(station) == []
    arrived = body(station, "/endpoints/example-station.trains:@number:arrived.publish.broker")
    assert (arrived["protocoloptions"]["qos"], arrived["description"]) == (1, "From the trait.")
    sizes = message(station, "mqtt.trains:@number:arrived/messages/arrived")["protocoloptions"]["user_properties"]
    assert sizes == [{"name": "train", "type": "string"}, {"name": "size", "type": "integer", "value": 1}]
    lost = [finding.message for finding in station.findings if finding.rule_id == "AAPI-006"]
    assert len(lost) == len(LOST_KINDS)
    assert all(any(kind in one for one in lost) for kind in LOST_KINDS)


def test_the_docs_list_what_is_kept_and_what_is_lost():
    docs = (Path(__file__).parents[2] / "docs" / "asyncapi.md").read_text()
    for after, kinds in (("AAPI-005, info):\n\n", UNINTERPRETED_KINDS), ("AAPI-006, info):\n\n", LOST_KINDS)):
        listed = docs.partition(after)[2].partition("\n\n")[0].splitlines()
        assert [line.removeprefix("- ").rstrip(".;") for line in listed] == list(kinds)


def test_each_kind_that_is_kept_or_lost_is_reported_by_a_document():
    readings = [read_file(path) for path in sorted(DATA.glob("*.yaml"))]
    reported = {one.message for reading in readings for one in reading.findings if one.rule_id in ("AAPI-005", "AAPI-006")}
    assert {kind for kind in (*UNINTERPRETED_KINDS, *LOST_KINDS) if not any(f"for {kind};" in one for one in reported)} == set()


def test_documents_of_2_say_the_same():
    reader = read_file(DATA / "reader.yaml")
    assert errors(reader) == []
    endpoint = body(reader, "/endpoints/parcel-reader.onParcel")
    assert endpoint["usage"] == ["consumer"]  # what a document of 2.x publishes is what the application receives
    assert endpoint["protocoloptions"]["consumergroup"] == "reader"
    assert endpoint["protocoloptions"]["endpoints"] == [{"uri": "sasl_ssl://bus.depot.example:9093"}]
    lost = message(reader, "kafka.depot.parcels/messages/ParcelLost")
    assert lost["dataschemaformat"] == "Protobuf/3"
    assert lost["dataschema"].startswith("syntax")
    state = body(reader, "/endpoints/parcel-reader.gates:@gate:state.subscribe")
    assert state["protocol"] == "MQTT/3.1.1"
    assert state["protocoloptions"]["endpoints"] == [{"uri": "mqtts://gates.depot.example:8883/"}]
    assert state["description"] == "from the trait"
    assert state["extensions"]["asyncapi"]["channel"]["parameters"]["gate"] == {"description": "number", "enum": ["1", "2"]}


def test_channels_of_two_applications_are_one_group(depot):
    reader = read_file(DATA / "reader.yaml")
    group = "/messagegroups/kafka.depot.parcels"
    assert rows(depot)[group].body == rows(reader)[group].body
    assert group in body(reader, "/endpoints/parcel-reader.onParcel")["messagegroups"]


def test_findings_point_into_the_document_as_written():
    bad = {"type": "object", "properties": {"ce_type": {"type": "boolean"}, "ce_source": {"type": "string"}}}
    reading = read(
        servers=KAFKA,
        channels={"lamps": {"address": "lamps", "messages": {"On": {"$ref": "#/components/messages/On"}}}},
        components={"messages": {"On": {"headers": bad}}},
    )
    assert {finding.pointer for finding in errors(reading)} == {
        "/components/messages/On/headers/properties/ce_type",
        "/components/messages/On",
    }


@pytest.mark.parametrize("rule_id", BY_ASYNCAPI)
def test_the_bad_example_breaks_the_rule_and_the_good_one_does_not(rule_id, tmp_path):
    example = examples()[rule_id]
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "lamp.json").write_text('{"type": "object"}')
    found = []
    for name in ("bad", "good"):
        (tmp_path / f"{name}.json").write_text(json.dumps(getattr(example, name)))
        found.append(
            {finding.rule_id for finding in read_file(tmp_path / f"{name}.json").findings if finding.rule_id in FINDING_RULES}
        )
    assert rule_id in found[0]
    assert not any(one.startswith("AAPI") for one in found[1])
    assert rule_id not in RULES


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("https://schemas.example/lamp.json", "only the document"),
        ("/etc/lamp.json", "only the document"),
        ("../outside.json", "not in the SOURCE"),
        ("linked.json", "not in the SOURCE"),
        ("absent.json", "no such file"),
        ("broken.json", "neither JSON nor YAML"),
        ("#/components/schemas/A", "in a circle"),
        ("inside.json#/x", "there is no `x`"),
    ],
)
def test_a_reference_that_is_not_followed(reference, why, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "outside.json").write_text("{}")
    (source / "linked.json").symlink_to(tmp_path / "outside.json")
    (source / "broken.json").write_text("{")
    (source / "inside.json").write_text("{}")
    circle = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    written = {"asyncapi": "3.0.0", "info": {"title": "t"}}
    written |= {"components": {"messages": {"M": {"payload": {"$ref": reference}}}, "schemas": circle}}
    (source / "a.json").write_text(json.dumps(written))
    reading = read_file(source / "a.json")
    [finding] = [one for one in reading.findings if one.pointer == "/components/messages/M/payload/$ref"]
    assert finding.rule_id == "AAPI-001"
    assert why in finding.message
    assert "dataschema" not in message(reading, "t/messages/M")


def test_a_file_may_stand_elsewhere_in_the_source(tmp_path):
    (tmp_path / "apps").mkdir()
    (tmp_path / "types.yaml").write_text("Lamp: {type: object}\n")
    written = {
        "asyncapi": "3.1.0",
        "info": {"title": "t"},
        "components": {"messages": {"M": {"payload": {"$ref": "../types.yaml#/Lamp"}}}},
    }
    (tmp_path / "apps" / "a.json").write_text(json.dumps(written))
    root = tmp_path.as_uri().replace("file:///", "file:/")
    assert result(read_file(tmp_path / "apps" / "a.json"), "AAPI-001") == ["/components/messages/M/payload/$ref"]
    reading = read_file(tmp_path / "apps" / "a.json", (root,))
    assert body(reading, "/schemagroups/t/schemas/Lamp/versions/1")["schema"] == {"type": "object"}


def test_a_reference_in_a_file_is_relative_to_it():
    files = {"common/a.json": {"M": {"payload": {"$ref": "b.json#/S"}}}, "common/b.json": {"S": {"type": "integer"}}}

    def open_file(path: str) -> OpenedFile:
        if path not in files:
            raise NoSuchFile("absent")
        return OpenedFile(files[path])

    written = {"asyncapi": "3.0.0", "info": {"title": "t"}, "components": {"messages": {"M": {"$ref": "common/a.json#/M"}}}}
    made = convert(written, open_file)
    assert made.document["schemagroups"]["t"]["schemas"]["S"]["schema"] == {"type": "integer"}


@pytest.mark.parametrize("back", ["./asyncapi.yaml", "../docs/asyncapi.yaml"])
def test_references_of_other_files_may_lead_back_to_the_document(back, tmp_path):
    servers = {"bus": KAFKA["bus"], "gate": {"host": "gate.example:1883", "protocol": "mqtt5"}}
    lamps = {"address": "lamps", "servers": [{"$ref": f"{back}#/servers/bus"}]}
    lamps |= {"messages": {"On": {"payload": {"$ref": f"{back}#/components/schemas/Lamp"}}, "Off": {}}}
    send = {"action": "send", "channel": {"$ref": f"{back}#/channels/lamps"}}
    send |= {"messages": [{"$ref": f"{back}#/channels/lamps/messages/On"}]}
    document = {
        "asyncapi": "3.0.0",
        "info": {"title": "Lamps", "version": "1"},
        "servers": servers,
        "channels": {"lamps": {"$ref": "parts.yaml#/lamps"}},
        "operations": {"send": {"$ref": "parts.yaml#/send"}},
        "components": {"schemas": {"Lamp": {"type": "object"}}},
    }
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "asyncapi.yaml").write_text(json.dumps(document))
    (tmp_path / "docs" / "parts.yaml").write_text(json.dumps({"lamps": lamps, "send": send}))
    reading = read_file(tmp_path / "docs" / "asyncapi.yaml", (f"file:{tmp_path}",))
    assert [finding.rule_id for finding in reading.findings] == ["AAPI-007", "AAPI-005"]
    assert [xid for xid in rows(reading, "message") if xid.startswith("/endpoints")] == ["/endpoints/lamps.send/messages/On"]
    assert "/messagegroups/mqtt.lamps" not in rows(reading)
    assert message(reading, "kafka.lamps/messages/On")["dataschemaxid"] == "/schemagroups/kafka.lamps/schemas/Lamp"


@pytest.mark.parametrize(
    ("version", "servers", "protocol", "at"),
    [
        ("3.0.0", [{"$ref": "#/info"}], None, ["/channels/lamps/servers"]),
        ("3.0.0", [{"$ref": "#/info"}, {"$ref": "#/servers/bus"}], "KAFKA", ["/channels/lamps/servers"]),
        ("3.0.0", [], "KAFKA", []),
        ("2.6.0", ["buss"], None, ["/channels/lamps/servers"]),
        ("2.6.0", ["buss", "bus"], "KAFKA", ["/channels/lamps/servers"]),
        ("2.6.0", [], "KAFKA", []),
    ],
)
def test_a_channel_whose_server_the_document_does_not_have_is_reported(version, servers, protocol, at):
    servers_of_document = {"bus": {"url": "bus.example:9092", "host": "bus.example:9092", "protocol": "kafka"}}
    channel = {"address": "lamps", "servers": servers, "messages": {"On": {}}, "publish": {"message": {"messageId": "On"}}}
    reading = read(asyncapi=version, servers=servers_of_document, channels={"lamps": channel})
    assert result(reading, "AAPI-008") == at
    [group] = {xid.split("/")[2] for xid in rows(reading, "message") if xid.startswith("/messagegroups")}
    assert body(reading, f"/messagegroups/{group}").get("protocol") == protocol


@pytest.mark.parametrize(("version", "wins"), [("2.6.0", "trait"), ("3.0.0", "own")])
def test_a_trait_wins_in_2_and_gives_way_in_3(version, wins):
    own = {"description": "own", "traits": [{"description": "trait", "x-a": {"b": 1, "c": 1}}, {"x-a": {"b": 2}}]}
    application = Application(Following({"asyncapi": version, "components": {"messages": {"M": own}}}))
    merged = application.component_messages()["M"].spot.value
    assert merged == {"description": wins, "x-a": {"b": 2, "c": 1}}


@pytest.mark.parametrize("version", ["2.6.0", "3.0.0"])
@pytest.mark.parametrize("own", ["#/components/schemas/Own", None, "own.yaml#/Own"])
@pytest.mark.parametrize("of_trait", ["#/components/schemas/OfTrait", None, "own.yaml#/OfTrait"])
def test_headers_of_a_trait_and_of_its_message_are_merged_also_behind_references(version, own, of_trait):
    at = {"type": "string", "format": "date-time"}
    schemas = {
        "Own": {"properties": {"room": {"const": "1"}, "at": {"$ref": "#/At"}}},
        "OfTrait": {"properties": {"tenant": {"const": "a"}, "at": {"description": "when"}}},
    }
    here = json.loads(json.dumps(schemas).replace("#/At", "#/components/schemas/At"))
    traits = [{"headers": {"$ref": of_trait} if of_trait else schemas["OfTrait"]}]
    on = {"headers": {"$ref": own} if own else here["Own"], "traits": traits}
    channels = {"lamps": {"publish": {"message": on | {"messageId": "On"}}}}
    if version == "3.0.0":
        channels = {"lamps": {"address": "lamps", "messages": {"On": on}}}
    servers = {"bus": {"url": "bus.example:9092", "host": "bus.example:9092", "protocol": "kafka"}}
    written = {"asyncapi": version, "servers": servers, "channels": channels, "components": {"schemas": here | {"At": at}}}
    made = convert(written, lambda path: OpenedFile(schemas | {"At": at}))
    headers = made.document["messagegroups"]["kafka.lamps"]["messages"]["On"]["protocoloptions"]["headers"]
    assert headers == {
        "room": {"value": "1"},
        "tenant": {"value": "a"},
        "at": {"type": "timestamp", "description": "when"},
    }
    assert {problem.rule_id for _, problem in made.reported} <= {"AAPI-005", "AAPI-007"}


def test_a_reference_that_a_trait_and_its_message_share_stays():
    shared = {"headers": {"$ref": "#/components/schemas/H"}}
    components = {"messages": {"M": {**shared, "traits": [shared]}}, "schemas": {"H": {}}}
    application = Application(Following({"asyncapi": "3.0.0", "components": components}))
    assert application.component_messages()["M"].spot.value == shared


def test_a_merge_patch_deletes_by_null():
    assert apply_merge_patch({"a": {"b": 1, "c": 2}, "d": 1}, {"a": {"b": None}, "d": None, "e": 1}) == {"a": {"c": 2}, "e": 1}


@pytest.mark.parametrize("protocol", sorted(WIRES))
def test_each_protocol_has_a_name_that_is_read(protocol):
    servers = {"s": {"host": "h.example:1000", "protocol": protocol}}
    channels = {"c": {"address": "a", "messages": {"M": {"payload": {"type": "object"}}}}}
    operations = {"o": {"action": "send", "channel": {"$ref": "#/channels/c"}}}
    reading = read(servers=servers, channels=channels, operations=operations)
    assert errors(reading) == []
    assert len(rows(reading, "message")) == 1
    [endpoint] = rows(reading, "endpoint").values()
    assert json.loads(endpoint.body)["protocol"] == normal_protocol(wire_of(protocol, None), None)


@pytest.mark.parametrize("address", ["a.b", "a/b", "a/{b}/c", "/v1/{x}", "https://a.example/x?y=z", "a:b@c", "ä b", "a~b", "#"])
def test_addresses_have_ids_of_their_own(address):
    made = id_of_address(address)
    assert id_problem(f"kafka.{made}") is None
    others = [one for one in ("a.b", "a/b", "a:b@c", "a~b", "a/@b/c") if one != address]
    assert made not in [id_of_address(one) for one in others]


@pytest.mark.parametrize(
    "written",
    ["application/vnd.apache.avro;version=1.9.0", "application/vnd.google.protobuf;version=3", "application/vnd.own;version=7"],
)
def test_formats_are_written_as_they_were_read(written):
    assert media_type_of(format_of(written)) == written
    assert format_of(None) == format_of("application/vnd.aai.asyncapi;version=3.0.0") == "JSONSchema/draft-07"
    assert media_type_of("JSONSchema/draft-07") is None


@pytest.mark.parametrize(
    "declaration",
    [
        {},
        {"type": "string", "value": "a"},
        {"type": "integer", "value": 3, "description": "three"},
        {"type": "timestamp"},
        {"type": "timestamp", "value": "0000-01-01T00:00:00Z"},
        {"type": "uritemplate", "value": "https://a.example/{b}"},
        {"type": "binary"},
        {"value": "{x}"},
        {"type": "string", "value": "a", "specurl": "https://a.example"},
    ],
)
def test_a_declaration_is_a_schema_and_back(declaration):
    assert declaration_of(property_of(declaration)) == declaration


@pytest.mark.parametrize(
    ("value", "text"), [("/a-b c/{x}#&~!'\"%", "/a-b c/1#&~!'\"%"), ("a.b[{x}](c)+*?^$|\\", "a.b[1](c)+*?^$|\\")]
)
def test_a_template_is_a_pattern_of_json_schema(value, text):
    schema = property_of({"value": value}) | {"$schema": "http://json-schema.org/draft-07/schema#"}
    assert not re.search(r"\\[^\\^$.*+?()\[\]{}|/]", schema["pattern"])  # ECMA-262 allows no other escapes in Unicode mode
    validator = jsonschema_rs.validator_for(schema)
    assert validator.is_valid(text)
    assert not validator.is_valid(f"{text}.")


def test_the_marker_of_the_current_time_is_no_constant():
    schema = property_of({"type": "timestamp", "value": "0000-01-01T00:00:00Z"})
    assert {name: member for name, member in schema.items() if name != "x-xregistry"} == {"type": "string", "format": "date-time"}


@pytest.mark.parametrize(
    "metadata",
    [
        {"type": {"value": "a"}},
        {"type": {"value": "a", "required": True}, "id": {}, "specversion": {"value": "1.0"}},
        {"type": {"type": "string", "value": "a"}, "source": {"type": "uritemplate", "value": "https://a.example/{b}"}},
        {"type": {"value": "a"}, "subject": {"required": True}, "own": {"type": "integer"}},
    ],
)
def test_an_envelope_is_headers_or_a_payload_and_back(metadata):
    from lakehouse.asyncapi.headerschemas import declared_headers, headers_schema

    found = from_headers(declared_headers(headers_schema(as_headers(metadata, "KAFKA"))), "KAFKA")
    assert found is not None
    assert {name: one for name, one in found.metadata.items() if name in metadata} == metadata
    event = from_payload(as_payload(metadata, {"type": "integer"}))
    assert event is not None
    assert event.rest == {"type": "integer"}
    assert {name: one for name, one in event.metadata.items() if name in metadata} == metadata


def test_a_document_of_wrong_shapes_is_no_fault():
    shapes: list[Any] = [None, 1, "a", [], {}, {"a": 1}, {"a": []}, [{"$ref": "#/info"}], {"$ref": "#/nowhere"}]
    for shape in shapes:
        for name in ("info", "servers", "channels", "operations", "components", "id", "tags"):
            read(**{name: shape})
            read(**{name: {"x": {name: shape, "address": shape, "messages": shape, "channel": shape, "traits": shape}}})
        for name in ("messages", "schemas", "securitySchemes"):
            read(components={name: shape})
            read(components={name: {"M": {"payload": shape, "headers": shape, "bindings": shape, "tags": shape, "title": shape}}})
    assert document()["specversion"]


RECURSIVE = {"T": {"type": "object", "properties": {side: {"$ref": "#/components/schemas/T"} for side in ("l", "r")}}}


def test_a_reference_that_leads_back_to_where_it_is_copied_is_left_out():
    message = {"bindings": {"kafka": {"key": {"$ref": "#/components/schemas/T"}}}, "x-all": {"$ref": "#"}}
    reading = read(components={"messages": {"M": message}, "schemas": RECURSIVE})
    at = "/components/schemas/T/properties"
    assert {f"{at}/l/$ref", f"{at}/r/$ref", "/components/messages/M/x-all/$ref"} <= set(result(reading, "AAPI-001"))
    kept = body(reading, "/messagegroups/lamps/messages/M/versions/1")["extensions"]["asyncapi"]
    assert kept["bindings"] == {"kafka": {"key": {"type": "object", "properties": {}}}}
    assert "x-all" not in kept["x-all"]["components"]["messages"]["M"]


@pytest.mark.parametrize(
    ("schemas", "why"),
    [
        ({f"S{n}": {"l": {"$ref": f"#/x-s/S{n + 1}"}, "r": {"$ref": f"#/x-s/S{n + 1}"}} for n in range(30)}, "1000000 values"),
        ({f"S{n}": {"of": {"$ref": f"#/x-s/S{n + 1}"}} for n in range(201)}, "200 levels"),
    ],
)
def test_a_document_that_grows_beyond_limits_by_its_references_is_rejected(schemas, why):
    with pytest.raises(Rejected, match=why) as refused:
        read(**{"x-s": schemas | {f"S{len(schemas)}": 1}}, components={"messages": {"M": {"x-a": {"$ref": "#/x-s/S0"}}}})
    assert refused.value.rule_id == LIMIT


def test_a_reference_may_lead_far():
    schemas = {f"S{n}": {"of": {"$ref": f"#/x-s/S{n + 1}"}} for n in range(100)} | {"S100": "found"}
    reading = read(**{"x-s": schemas}, components={"messages": {"M": {"x-a": {"$ref": "#/x-s/S0"}}}})
    assert "found" in json.dumps(message(reading, "lamps/messages/M"))
    assert errors(reading) == [] == result(reading, "AAPI-001")


AVRO = "application/vnd.apache.avro;version=1.9.0"


@pytest.mark.parametrize("version", ["2.6.0", "3.0.0"])
@pytest.mark.parametrize("traits", [{}, {"traits": [{"payload": None, "description": "trait"}]}])
def test_nulls_of_a_payload_stay(version, traits):
    field = {"name": "x", "type": ["null", "string"], "default": None}
    avro = {"type": "record", "name": "R", "fields": [field]}
    json_schema = {"properties": {"a": {"const": None, "default": None}}}
    patched = version == "2.6.0" and bool(traits)  # where a null of a trait deletes
    for schema, schema_format in ((avro, {"schemaFormat": AVRO}), (json_schema, {})):
        payload = {"payload": schema, **schema_format} if version == "2.6.0" else {"payload": {"schema": schema, **schema_format}}
        if version == "3.0.0" and not schema_format:
            payload = {"payload": schema}
        reading = read(asyncapi=version, channels={}, components={"messages": {"M": payload | traits}})
        assert message(reading, "lamps/messages/M").get("dataschema") == (None if patched else schema)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_document_that_refers_to_a_file_is_read_again_even_if_that_is_missing(is_there, tmp_path):
    written = {"asyncapi": "3.0.0", "info": {"title": "t"}, "components": {"messages": {"M": {"payload": {"$ref": "b.json"}}}}}
    (tmp_path / "a.json").write_text(json.dumps(written))
    if is_there:
        (tmp_path / "b.json").write_text("{}")
    reading = read_file(tmp_path / "a.json")
    assert (result(reading, "AAPI-007"), reading.spellings[WITH_FILES]) == ([""], 1)
    assert bool(result(reading, "AAPI-001")) != is_there


@pytest.mark.parametrize(
    "headers",
    [
        {"type": "object", "properties": {"trace": True}},
        {"allOf": 5},
        {"properties": {"a": {"type": "string", "format": {}}}, "required": [[], {"a": 1}]},
    ],
)
def test_headers_of_wrong_types_are_kept_as_they_are(headers):
    channels = {"c": {"address": "a", "messages": {"M": {"headers": headers, "payload": {"type": "object"} | headers}}}}
    kept = message(read(servers=KAFKA, channels=channels), "kafka.a/messages/M")
    assert kept["extensions"]["asyncapi"]["headers"] == headers
    assert kept["dataschema"] == {"type": "object"} | headers


def test_items_of_required_may_be_of_any_type():
    properties = {name: {} for name in ("specversion", "id", "source", "type")}
    schema = {"type": "object", "properties": properties, "required": [[], *properties]}
    assert from_payload(schema) is not None


def test_an_option_that_is_no_map_is_no_member_of_a_binding():
    assert member_of("map", "a=b") is None


@pytest.mark.parametrize(
    ("file", "text", "rule_id"),
    [
        ("b.json#/A", '{"A": {"default": "https://u:hunter2@a.example"}, "B": {"type": "object"}}', CREDENTIAL),
        ("b.json#/A", '{"A": {"title": "a", "title": "b"}, "B": {"type": "object"}}', DUPLICATE_KEY),
        ("b.json#/C", '{"A": {"title": "a", "title": "b"}, "B": {"type": "object"}, "C": {"$ref": "#/A"}}', DUPLICATE_KEY),
        ("b.proto", "// https://u:hunter2@a.example\n", CREDENTIAL),
    ],
)
@pytest.mark.parametrize("is_inline", [True, False])
def test_a_secret_or_a_duplicate_key_in_another_file_is_an_error_of_what_refers_to_it(file, text, rule_id, is_inline, tmp_path):
    path = file.partition("#")[0]
    (tmp_path / path).write_text(text)
    payload = {"$ref": file}
    if path.endswith(".proto"):
        payload = {"schemaFormat": "application/vnd.google.protobuf;version=3", "schema": payload}
    elif is_inline:
        payload = {"properties": {"a": payload}}
    other = {"payload": {"$ref": "b.json#/B"}} if path == "b.json" else {}
    servers = KAFKA | {"other": {"host": "b.example", "protocol": "nats"}}
    channels = {"c": {"address": "a", "messages": {"Bad": {"payload": payload}, "Good": other}}}
    written = {"asyncapi": "3.0.0", "info": {"title": "t"}, "servers": servers, "channels": channels}
    (tmp_path / "a.json").write_text(json.dumps(written))
    reading = read_file(tmp_path / "a.json")
    found = [finding for finding in reading.findings if finding.rule_id == rule_id]
    assert found
    assert all(one.severity == "error" and one.message.startswith(f"in {path}: ") for one in found)
    at = "/channels/c/messages/Bad/payload"
    assert all(one.pointer.startswith(at) for one in found)
    left = {xid for xid in rows(reading) if xid.count("/") == 4}
    assert {xid for xid in left if "/messages/" in xid} == {
        f"/messagegroups/{name}.a/messages/Good" for name in ("kafka", "nats")
    }
    assert {xid.rpartition("/")[2] for xid in left if "/schemas/" in xid} <= {"B"}
    assert "hunter2" not in str((reading.rows, reading.findings))


def test_an_anchor_stays_in_a_schema_and_leads_nowhere_elsewhere():
    schema = {"properties": {"a": {"$ref": "#addr"}}, "definitions": {"A": {"$id": "#addr", "type": "string"}}}
    messages = {"In": {"payload": schema}, "At": {"payload": {"$ref": "#addr"}}, "Off": {"x-a": {"b": {"$ref": "#addr"}}}}
    reading = read(components={"messages": messages})
    assert message(reading, "lamps/messages/In")["dataschema"] == schema
    at = "/components/messages"
    assert sorted(result(reading, "AAPI-001")) == [f"{at}/At/payload/$ref", f"{at}/Off/x-a/b/$ref"]


@pytest.mark.parametrize(("word", "media_type"), [("$id", "draft-07"), ("id", "draft-04")])
def test_references_in_a_part_with_an_identifier_lead_to_definitions(word, media_type):
    base = "https://lamps.example/"
    lamp = {word: f"{base}lamp", "properties": {"room": {"$ref": "#/components/schemas/Room"}}}
    room = {word: f"{base}room", "properties": {word: {"type": "string"}, "size": {"$ref": "#/components/schemas/Size"}}}
    size = {word: f"{base}size", "type": "integer", "x-id": {"$id": "1", "id": "1"}}
    payload = {"schemaFormat": f"application/schema+json;version={media_type}", "schema": lamp}
    reading = read(
        components={"messages": {"On": {"payload": payload}}, "schemas": {"Room": room, "Size": size}},
    )
    schema = message(reading, "lamps/messages/On")["dataschema"]
    assert schema == {
        word: f"{base}lamp",
        "properties": {"room": {"$ref": "#/definitions/Room"}},
        "definitions": {
            "Room": {"properties": {word: {"type": "string"}, "size": {"$ref": "#/definitions/Size"}}},
            "Size": size,  # it has no references
        },
    }
    validator = JsonSchemaValidator(schema, Resolved("/x", f"JSONSchema/{media_type}", ""), lambda uri: None)
    assert [where for where, *_ in validator.errors({"room": {"size": "x"}})] == ["/room/size"]


@pytest.mark.parametrize(
    "keyword", ["properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas"]
)
def test_a_property_may_have_the_name_of_a_keyword(keyword):
    named = {name: {"$ref": "#/components/schemas/X"} for name in ("example", "const", "enum", "default", "properties")}
    data = {"default": {"$ref": "#/no"}, "examples": [{"properties": {"a": {"$ref": "#/no"}}}]}
    reading = read(components={"messages": {"M": {"payload": {keyword: named} | data}}, "schemas": {"X": {"type": "integer"}}})
    moved = {name: {"$ref": "#/definitions/X"} for name in named}
    schema = message(reading, "lamps/messages/M")["dataschema"]
    assert {name: schema[keyword][name] for name in named} == moved
    assert data.items() <= schema.items()
    placed = with_placed_references(schema, Pointer("/a"))
    assert {name: placed[keyword][name] for name in named} == {name: {"$ref": "#/a/definitions/X"} for name in named}
    assert data.items() <= placed.items()


def test_an_index_of_too_many_digits_leads_nowhere():
    reading = read(components={"messages": {"M": {"payload": {"$ref": f"#/x-a/{'1' * 4301}"}}}}, **{"x-a": [1]})
    assert result(reading, "AAPI-001") == ["/components/messages/M/payload/$ref"]


def test_an_operation_belongs_to_the_channel_that_it_names_of_two_that_are_one_component():
    messages = {"On": {"payload": {"type": "object"}}}
    channels = {key: {"$ref": "#/components/channels/C"} for key in ("a", "b")}
    operations: dict[str, Any] = {
        f"on-{key}": {
            "action": "receive",
            "channel": {"$ref": f"#/channels/{key}"},
            "messages": [{"$ref": f"#/channels/{key}/messages/On"}],
        }
        for key in channels
    }
    document = {
        "asyncapi": "3.0.0",
        "channels": channels,
        "operations": operations,
        "components": {"channels": {"C": {"messages": messages}}},
    }
    application = Application(Following(document))
    assert {key: one.channel.key for key, one in application.operations.items()} == {"on-a": "a", "on-b": "b"}
    assert [one.messages for one in application.operations.values()] == [["On"], ["On"]]
    reading = read(**{name: document[name] for name in ("channels", "operations", "components")})
    for key in channels:
        assert body(reading, f"/endpoints/lamps.on-{key}")["messagegroups"] == [f"/messagegroups/lamps.{key}"]


@pytest.mark.parametrize("name", ["schema", "Lamp", "schemas"])
@pytest.mark.parametrize("is_wrapped", [True, False])
def test_a_schema_has_its_own_name(name, is_wrapped):
    avro = {"schemaFormat": AVRO, "schema": {"type": "string"}}
    payload = {"$ref": f"#/components/schemas/{name}"}
    schemas = {name: avro if is_wrapped else {"type": "string"}}
    reading = read(components={"messages": {"M": {"payload": payload}}, "schemas": schemas})
    assert message(reading, "lamps/messages/M")["dataschemaxid"] == f"/schemagroups/lamps/schemas/{name}"
    assert body(reading, f"/schemagroups/lamps/schemas/{name}/versions/1")["schema"] == {"type": "string"}


@pytest.mark.parametrize("text", ["{}", json.dumps({"schemaFormat": AVRO, "schema": {}})])
def test_a_schema_of_a_file_has_the_name_of_the_file(text, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "schema").write_text(text)
    written = {"asyncapi": "3.0.0", "info": {"title": "t"}, "components": {"messages": {"M": {"payload": {"$ref": "a/schema"}}}}}
    (tmp_path / "a.json").write_text(json.dumps(written))
    assert message(read_file(tmp_path / "a.json"), "t/messages/M")["dataschemaxid"] == "/schemagroups/t/schemas/schema"


@pytest.mark.parametrize("version", ["2.6.0", "3.0.0"])
@pytest.mark.parametrize("server", [KAFKA, {}], ids=["kafka", "no server"])
def test_names_that_differ_only_in_letter_case_are_different_entities(server, version):
    names = ("Orders", "orders", "ORDERS", "other")
    message_of = {name: {"name": name, "payload": {"$ref": f"#/components/schemas/{name}"}} for name in names}
    if version == "2.6.0":
        channels: dict[str, Any] = {
            name: {"publish": {"message": {"oneOf": [{"$ref": f"#/components/messages/{one}"} for one in names]}}}
            for name in names
        }
        written: dict[str, Any] = {"servers": {name: {"url": one["host"], **one} for name, one in server.items()}}
    else:
        channels = {name: {"address": name, "messages": message_of} for name in names}
        operations = {f"{name}.publish": {"action": "receive", "channel": {"$ref": f"#/channels/{name}"}} for name in names}
        written = {"servers": server, "operations": operations}
    schemas = {name: {"const": name} for name in names}
    reading = read(asyncapi=version, channels=channels, components={"schemas": schemas, "messages": message_of}, **written)
    assert errors(reading) == []
    groups = [json.loads(row.body)["name"] for xid, row in rows(reading, "group").items() if "protocol" in row.body]
    assert sorted(groups) == (sorted(names) if server else [])
    endpoints = {xid: json.loads(row.body) for xid, row in rows(reading, "endpoint").items()}
    assert sorted(one["channel"] for one in endpoints.values()) == sorted(names)
    carried = [group for one in endpoints.values() for group in one["messagegroups"]]
    assert len(set(carried)) == len(names)
    for group in carried:
        read_schemas = {
            json.loads(row.body)["name"]: body(reading, f"{json.loads(row.body)['dataschemaxid']}/versions/1")["schema"]["const"]
            for xid, row in rows(reading, "version").items()
            if xid.startswith(f"{group}/")
        }
        assert read_schemas == {name: name for name in names}


def test_the_later_of_two_names_that_differ_only_in_letter_case_gets_another_id():
    channels = {name: {"address": name, "messages": {"On": {}, "ON": {}}} for name in ("Orders", "orders", "others")}
    groups = ("kafka.Orders", "kafka.orders~ccbac5cdb2e0", "kafka.others")
    expected = [f"/messagegroups/{group}/messages/{messageid}" for group in groups for messageid in ("ON-2", "On")]
    assert sorted(rows(read(servers=KAFKA, channels=channels), "message")) == expected


def test_ids_of_messages_are_looked_for_in_their_group_alone():
    shared = {"messages": {"On": {"payload": {"type": "object"}}}}
    channels = {f"c{n}": {"address": f"a{n % 2}"} | shared for n in range(4)}
    reading = read(servers=KAFKA, channels=channels)
    ids = sorted(xid for xid in rows(reading, "message"))
    assert ids == [f"/messagegroups/kafka.a{n}/messages/{name}" for n in (0, 1) for name in ("On", "On-2")]


def test_a_chain_of_many_schemas_is_one_schema():
    names = [f"S{n}" for n in range(2000)]
    schemas: dict[str, Any] = {
        name: {"properties": {"next": {"$ref": f"#/components/schemas/S{n + 1}"}}} for n, name in enumerate(names)
    }
    reading = read(
        components={"messages": {"M": {"payload": {"$ref": "#/components/schemas/S0"}}}, "schemas": schemas | {"S2000": {}}}
    )
    schema = body(reading, "/schemagroups/lamps/schemas/S0/versions/1")["schema"]
    assert sorted(schema["definitions"]) == sorted([*names[1:], "S2000"])


def test_what_many_groups_hold_is_quarantined_in_each_and_reported_in_full_once():
    twice = ", ".join(f'"x-{n}": 1, "x-{n}": 2' for n in range(20))
    channels = {f"c{n}": {"messages": {"M": {"$ref": "#/components/messages/M"}}} for n in range(50)}
    written = {"asyncapi": "3.0.0", "info": {"title": "t"}, "channels": channels, "components": {"messages": {"M": {}}}}
    value, problems = read_text(json.dumps(written).replace('"M": {}', f'"M": {{{twice}}}').encode(), "a.json", 64)
    reading = read_as(value, problems, "a.json", None)[1]
    assert not rows(reading, "message")
    found = [finding.xid for finding in errors(reading) if finding.rule_id == DUPLICATE_KEY]
    assert len(found) == 20 + 49
    assert set(found) == {f"/messagegroups/t.c{n}/messages/M/versions/1" for n in range(50)}


def test_of_many_errors_in_another_file_some_are_reported_for_each_reference(tmp_path):
    (tmp_path / "b.json").write_text('{"A": {' + ", ".join(f'"x-{n}": 1, "x-{n}": 2' for n in range(50)) + "}}")
    messages = {f"M{n}": {"payload": {"$ref": "b.json#/A"}} for n in range(3)}
    (tmp_path / "a.json").write_text(
        json.dumps({"asyncapi": "3.0.0", "info": {"title": "t"}, "components": {"messages": messages}})
    )
    reading = read_file(tmp_path / "a.json")
    assert not rows(reading, "message")
    assert {result(reading, DUPLICATE_KEY).count(f"/components/messages/M{n}/payload/$ref") for n in range(3)} <= {10, 11}


def _hinted(at: str, hint: Any) -> dict[str, Any]:
    """Return a document with a hint for the way back at one of its places."""
    value: dict[str, Any] = {
        "asyncapi": "3.0.0",
        "info": {"title": "t", "version": "1"},
        "channels": {"c": {"address": "c", "messages": {"m": {"$ref": "#/components/messages/m"}}}},
        "operations": {"o": {"action": "send", "channel": {"$ref": "#/channels/c"}}},
        "components": {
            "messages": {"m": {"payload": {"type": "object", "x": {"$ref": "#/components/schemas/s"}}}},
            "schemas": {"s": {"type": "string"}, "free": {"schemaFormat": "application/json", "schema": {}}},
        },
    }
    place = value
    for name in at.split("/"):
        place = place[name]
    place["x-xregistry"] = hint
    return value


@pytest.mark.parametrize(
    ("at", "hint"),
    [
        ("components/messages/m", {"dataschemaxid": "a"}),
        ("components/messages/m", {"dataschemaxid": "/schemagroups/g/schemas/s", "schemaversion": "1"}),
        ("components/messages/m", {"xid": "/a/b/c/d"}),
        ("components/messages/m", {"format": True}),
        ("components/schemas/free", {"xid": "²"}),
        ("components/schemas/free", {"xid": "/schemagroups/t/schemas/s", "version": "1", "format": [None]}),
        ("channels/c", {"group": "/messagegroups/x"}),
        ("operations/o", {"endpointid": "e", "attributes": {"messagegroups": -1, "usage": [{}]}}),
        ("operations/o", {"endpointid": "e", "attributes": {"messagegroups": [[]], "protocoloptions": {"endpoints": -1}}}),
    ],
)
def test_a_hint_of_any_shape_rejects_no_document(at, hint):
    value = _hinted(at, hint)
    value["operations"]["p"] = value["operations"]["o"] | {"action": "receive"}  # one endpoint, if the hint names it
    made = convert(value).document
    messages = [messageid for group in made["messagegroups"].values() for messageid in group["messages"]]
    assert messages == ["m"]


def test_a_message_that_is_the_whole_document_ends():
    value = _hinted("info", {})
    value["channels"]["c"]["messages"]["m"] = {"$ref": "#"}
    assert "AAPI-001" in {problem.rule_id for _, problem in convert(value).reported}
