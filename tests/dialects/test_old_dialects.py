"""What the older dialects alone say and ask for (0.5-wip, 1.0-rc4), and the tables of protocols and options."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import errors, group, message, rows, warnings

from lakehouse.dialects.tables import FAMILIES, dialects_with_rule, has_rule, protocol_version, severity_in, spelled_in, table
from lakehouse.ingest.parse.parse import read_as
from lakehouse.ingest.parse.readings import Reading
from lakehouse.text.jsontext import read_json

BASE = "/messagegroups/g/messages/b"


def read_old(written: dict[str, Any], **group_attributes: Any) -> Reading:
    attributes = {"envelope": "CloudEvents/1.0"} | group_attributes
    return read_in("0.5-wip", {"specversion": "0.5-wip", "messagegroups": {"g": group({"m": written}, **attributes)}})


def read_in(dialect: str | None, document: dict[str, Any]) -> Reading:
    value, problems = read_json(json.dumps(document).encode(), 100)
    reported, reading = read_as(value, problems, "", None, rules=False)
    assert dialect in (None, reported)
    return reading


def bodies(reading: Reading) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the bodies of the message and of its only Version."""
    assert errors(reading) == []
    found = rows(reading)
    (version,) = [row for row in reading.rows if row.kind == "version"]
    return json.loads(found["/messagegroups/g/messages/m"].body), json.loads(version.body)


def test_an_old_document_without_the_new_attributes_is_complete():
    """WIP-001 to WIP-004, WIP-006, WIP-013 to WIP-015, WIP-021: XIDs, versionid, ancestor and meta are made."""
    reading = read_old({"messageid": "m"}, messagegroupid="g")
    assert reading.findings == []
    assert list(rows(reading)) == [
        "/",
        "/messagegroups/g",
        "/messagegroups/g/messages/m/versions/1",
        "/messagegroups/g/messages/m",
    ]
    assert bodies(reading) == ({"defaultversionid": "1"}, {"ancestor": "1", "isdefault": True})


def test_origin_and_other_unknown_attributes_are_extensions():
    """WIP-005, WIP-009, WIP-023."""
    reading = read_old({"origin": "x", "anything": 1}, origin="y")
    assert bodies(reading)[1]["extensions"] == {"origin": "x", "anything": 1}
    assert json.loads(rows(reading)["/messagegroups/g"].body)["extensions"] == {"origin": "y"}


def test_attributes_of_the_message_move_into_meta():
    """WIP-008, WIP-010, WIP-011, WIP-013."""
    reading = read_old({"readonly": True, "defaultversionsticky": True, "defaultversionid": "7"})
    meta, version = bodies(reading)
    assert meta == {"readonly": True, "defaultversionsticky": True, "defaultversionid": "7"}
    assert version["ancestor"] == "7"


@pytest.mark.parametrize("xref", ["#" + BASE, BASE])
def test_a_borrowed_message(xref):
    """WIP-007."""
    found = rows(read_old({"xref": xref}))["/messagegroups/g/messages/m"]
    assert json.loads(found.body) == {"xref": BASE}


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("#/messagegroups/g/messages/m", "/messagegroups/g/messages/m"),
        ("#/messagegroups/a~0b/messages/m%41", "/messagegroups/a~b/messages/mA"),
        ("#/messagegroups/a~1b/messages/m", "#/messagegroups/a~1b/messages/m"),  # no id holds a slash
        ("https://other/messagegroups/g/messages/m", "https://other/messagegroups/g/messages/m"),
    ],
)
def test_a_base_is_an_xid_unless_it_leads_elsewhere(written, normal):
    """WIP-016, WIP-028, WIP-029."""
    assert bodies(read_old({"basemessageurl": written}))[1]["basemessage"] == normal


def test_schemas_have_other_names():
    """WIP-017, WIP-018, WIP-019, WIP-033."""
    _, version = bodies(read_old({"schemaformat": "Avro/1.9.0", "schema": {}, "schemauri": "x"}))
    assert {name: version[name] for name in version if name.startswith("data")} == {
        "dataschemaformat": "Avro/1.9.0", "dataschema": {}, "dataschemauri": "x",
    }  # fmt: skip


def test_envelopeoptions_stay():
    """WIP-031."""
    assert bodies(read_old({"envelopeoptions": {"mode": "binary"}}))[1]["envelopeoptions"] == {"mode": "binary"}


@pytest.mark.parametrize(
    ("rule", "written", "of_group"),
    [
        ("WIP-024", {}, {"envelope": None}),
        ("WIP-026", {}, {"protocol": "Kafka"}),
        ("WIP-026", {"protocol": "Kafka", "protocoloptions": {}}, {}),
        ("WIP-032", {"protocol": "MQTT/5.0"}, {}),
        ("WIP-034", {"schemaformat": ""}, {}),
        ("WIP-041", {"envelopemetadata": {"dataschema": {"value": "https://a"}}, "schemauri": "https://b"}, {}),
    ],
)
def test_what_only_this_dialect_asks_for_is_a_warning(rule, written, of_group):
    reading = read_old(written, **of_group)
    assert errors(reading) == []
    assert [one.rule_id for one in warnings(reading)] == [rule]
    assert "/messagegroups/g/messages/m" in rows(reading)
    later = {
        "specversion": "1.0-rc2",
        "messagegroups": {"g": group({"m": written}, **({"envelope": "CloudEvents/1.0"} | of_group))},
    }
    assert [one for one in warnings(read_in("1.0-rc2", later)) if one.rule_id.startswith("WIP")] == []


def test_a_document_that_only_its_spellings_report_is_asked_too():
    reading = read_in("0.5-wip", {"messagegroups": {"g": group({"m": {"basemessageurl": "#" + BASE}})}})
    assert [one.rule_id for one in warnings(reading)] == ["WIP-024"]


def test_types_and_the_marker_of_the_current_time():
    """WIP-035, WIP-037, WIP-039, WIP-042."""
    declared = {"x": {"type": "var"}, "time": {"value": "01-01-0000T00:00:00Z"}, "y": {"type": "timestamp", "value": "t"}}
    reading = read_old({"envelopemetadata": declared})
    assert bodies(reading)[1]["envelopemetadata"] == {
        "x": {"type": "any"}, "time": {"value": "0000-01-01T00:00:00Z"}, "y": {"type": "timestamp", "value": "t"},
    }  # fmt: skip
    assert sum(count for reported, count in reading.spellings.items() if reported.startswith("message")) == 2


@pytest.mark.parametrize("protocol", ["Kafka", "Kafka/0.11", "KAFKA"])
def test_kafka_is_one_family_with_or_without_a_version(protocol):
    """WIP-027, WIP-057, WIP-058."""
    normal = bodies(read_old({"protocol": protocol, "protocoloptions": {}}))[1]["protocol"]
    assert normal == protocol.replace("Kafka", "KAFKA")
    assert protocol_version(normal) == ("0.11" if "/" in protocol else None)


@pytest.mark.parametrize(
    ("key", "normal"),
    [
        ({"value": "AAE="}, {"key_base64": {"value": "AAE="}}),
        ({"value": "bXkga2V5"}, {"key": {"value": "my key"}}),
        ({"value": "{device}"}, {"key": {"value": "{device}"}}),
        ({"value": "no base64!"}, {"key": {"value": "no base64!"}}),
        ({"type": "binary"}, {"key": {"type": "binary"}}),
        ({"value": ""}, {"key_base64": {"value": ""}}),
        ({"value": "é"}, {"key": {"value": "é"}}),  # no base64, nor ASCII
        (5, {"key": {"value": 5}}),
    ],
)
def test_the_binary_key_of_kafka(key, normal):
    """WIP-059, WIP-061."""
    assert bodies(read_old({"protocol": "Kafka", "protocoloptions": {"key": key}}))[1]["protocoloptions"] == normal
    other = {
        "specversion": "1.0-rc2",
        "messagegroups": {"g": group({"m": message(protocol="KAFKA", protocoloptions={"key": "AAE="})})},
    }
    assert bodies(read_in("1.0-rc2", other))[1]["protocoloptions"] == {"key": {"value": "AAE="}}


def test_a_timestamp_of_kafka_is_kept_and_never_filled_in():
    """WIP-060."""
    options = {"timestamp": {"value": 0}}
    assert bodies(read_old({"protocol": "Kafka", "protocoloptions": options}))[1]["protocoloptions"] == options
    assert bodies(read_old({"protocol": "Kafka", "protocoloptions": {}}))[1]["protocoloptions"] == {}


def test_options_of_http_and_amqp():
    """WIP-043, WIP-044, WIP-045, WIP-046."""
    http = {"protocol": "HTTP/1.1", "protocoloptions": {"query": [{"name": "foo", "value": "bar"}]}}
    assert bodies(read_old(http))[1]["protocoloptions"] == {"query": {"foo": {"value": "bar"}}}
    amqp = {"application_properties": {}, "properties": {"message-id": {"type": "string"}}}
    options = bodies(read_old({"protocol": "AMQP/1.0", "protocoloptions": amqp}))[1]["protocoloptions"]
    assert options == {"application-properties": {}, "properties": {"message-id": {"type": "string"}}}


OLD_MQTT = ("topic-name", "payload-format", "message-expiry-interval", "response-topic", "correlation-data", "content-type")


def test_options_of_mqtt():
    """WIP-048 to WIP-056."""
    written = {name: {"value": 1} for name in (*OLD_MQTT, "qos")} | {"user-properties": [{"my-prop": {"value": "v"}}]}
    options = bodies(read_old({"protocol": "MQTT/5.0", "protocoloptions": written}))[1]["protocoloptions"]
    assert options == {name.replace("-", "_"): {"value": 1} for name in (*OLD_MQTT, "qos")} | {
        "user_properties": [{"name": "my-prop", "value": "v"}]
    }
    nothing = dict.fromkeys([*OLD_MQTT, "user-properties"])
    assert bodies(read_old({"protocol": "MQTT/5.0", "protocoloptions": nothing}))[1]["protocoloptions"] == {}


def test_nats_in_an_old_document_is_read_as_in_a_new_one():
    """WIP-063."""
    written = {"protocol": "NATS", "protocoloptions": {"subject": "s", "reply-to": {"value": "r"}}}
    assert bodies(read_old(written))[1]["protocoloptions"] == {"subject": {"value": "s"}, "reply-to": {"value": "r"}}


# 1.0-rc4


def test_rc4_spellings():
    endpoint = {
        "protocol": "AMQP/1.0", "usage": ["subscriber", "consumer"],
        "deprecated": {"effective": "2030-01-01T00:00:00Z", "removal": "2031-01-01T00:00:00Z", "alternative": "u"},
        "protocoloptions": {"link-properties": {"a": "b"}, "distribution-mode": "copy", "authorization": [{"type": "SASL"}]},
    }  # fmt: skip
    document = {"specversion": "1.0-rc4", "endpoints": {"e": endpoint}, "messagegroups": {"g": group({"m": {"ancestorid": "1"}})}}
    reading = read_in("1.0-rc4", document)
    assert bodies(reading)[1]["ancestor"] == "1"
    found = json.loads(rows(reading)["/endpoints/e"].body)
    assert found["usage"] == ["subscriber", "consumer"]
    assert found["deprecated"] == endpoint["deprecated"]
    assert found["protocoloptions"] == {
        "linkproperties": {"a": "b"},
        "distributionmode": "copy",
        "authorization": {"type": "SASL"},
    }


def test_several_authorizations_are_kept_with_a_warning():
    choices = [{"type": "SASL"}, {"type": "OAuth2"}]
    reading = read_in(None, {"endpoints": {"e": {"protocoloptions": {"authorization": choices}}}})
    assert json.loads(rows(reading)["/endpoints/e"].body)["protocoloptions"] == {"authorization": choices}
    assert [one.rule_id for one in warnings(reading)] == ["END-048"]


# Tables


def test_shorthands_of_protocols():
    """END-088, END-090, END-092."""
    assert [protocol_version(one) for one in ("AMQP", "mqtt", "MQTT/3.1.1", "HTTP", "KAFKA", "Acme")] == [
        "1.0", "5.0", "3.1.1", None, None, None,
    ]  # fmt: skip


def test_the_tables_of_protocols_and_options_name_known_families_and_options():
    assert sorted(row["family"] for row in table("protocols")) == sorted(FAMILIES)
    options = {
        (row["protocol"], row["name"]) for row in table() if (row["entity"], row["place"]) == ("endpoint", "protocoloptions")
    }
    for row in table("option_defaults"):
        assert (row["protocol_family"], row["option"]) in options
        assert row["usage"] in ("", "producer", "consumer", "subscriber")
        assert json.loads(row["default"]) is not None
        assert row["rule"].startswith("END-")


@pytest.mark.parametrize("name", ["dialect_values", "dialect_types", "dialect_rules", "dialect_lacks", "dialect_writes"])
def test_each_row_of_the_tables_beside_has_a_rule(name):
    assert all(row["rule"] and None not in row.values() for row in table(name))


@pytest.mark.parametrize(
    ("dialect", "path", "pointer"),
    [
        ("1.0-rc2", ("basemessage",), "/basemessage"),
        ("1.0-rc1", ("basemessage",), "/basemessageuri"),
        ("0.5-wip", ("dataschemauri",), "/schemauri"),
        ("cereg", ("envelopemetadata", "type"), "/metadata/attributes/type"),
        ("cereg", ("envelopemetadata",), "/metadata"),
    ],
)
def test_a_place_is_named_as_the_dialect_spells_it(dialect, path, pointer):
    assert spelled_in(dialect, "message", *path) == pointer


def test_a_spelling_that_starts_at_the_entity_is_one_in_pointers_too():
    assert spelled_in("cereg", "endpoint", "protocoloptions", "willmessage") == "/config/willmessage"


def test_rules_of_some_dialects_stand_in_a_table():
    assert dialects_with_rule("CAT-007") == ["cereg"]
    assert has_rule("cereg", "CAT-007")
    assert not has_rule("1.0-rc2", "CAT-007")
    assert [severity_in(dialect, "MSG-161") for dialect in ("1.0-rc2", "0.5-wip", "cereg")] == [None, "warning", "warning"]
    assert severity_in("cereg", "CAT-007") is None  # the rule's own
