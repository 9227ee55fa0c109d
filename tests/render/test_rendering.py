"""A definition and values make the message that the definition says, over each protocol and in both modes."""

from __future__ import annotations

import base64
import json

import pytest

from lakehouse.errors import SettingsError
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.render import Endpoint, MissingValues, RenderInput, RenderRefused, RenderStyle, bindings_of, protocolbinding
from lakehouse.render.filling import check_names, input_of, read_values
from lakehouse.render.rendering import batched
from render.definitions import NOW, cloudevent, matched, pairs, rendered, row

SUBJECT = {"value": "{region}/{id}"}
VALUES = {"region": "eu", "id": "7"}


def test_a_cloudevent_over_kafka_has_its_attributes_in_headers():
    message = rendered(cloudevent(subject=SUBJECT), VALUES | {"topic": "orders"}, "KAFKA", payload={"a": 1})
    assert message.captured["topic"] == "orders"
    headers = pairs(message)
    assert headers.pop("ce_id")
    assert headers == {"ce_specversion": "1.0", "ce_type": "T", "ce_source": "/s", "ce_subject": "eu/7", "ce_time": NOW}
    assert message.body == b'{"a": 1}'
    assert message.variables == VALUES


def test_over_http_headers_are_percent_encoded_and_the_method_is_post():
    message = rendered(cloudevent(subject=SUBJECT), {"region": "Zürich 1%", "id": "7"}, "HTTP")
    assert (message.captured["method"], message.captured["path"]) == ("POST", "/")
    assert pairs(message)["ce-subject"] == "Z%C3%BCrich%201%25/7"


def test_over_mqtt_5_attributes_are_user_properties_and_qos_is_0():
    message = rendered(cloudevent("MQTT", {"topic_name": {"value": "t/{id}"}}, subject=SUBJECT), VALUES)
    assert message.protocol == "MQTT/5.0"
    assert (message.captured["topic_name"], message.captured["qos"], message.captured["retain"]) == ("t/7", 0, False)
    assert pairs(message, "user_properties")["subject"] == "eu/7"


def test_over_amqp_numbers_and_booleans_keep_their_type():
    extensions = {"count": {"value": 3, "type": "integer"}, "last": {"value": True, "type": "boolean"}}
    options = {"properties": {"subject": {"value": "{id}"}}, "header": {"ttl": {"value": 5}}}
    message = rendered(cloudevent("AMQP/1.0", options, **extensions), {"id": "7"})
    properties = message.captured["application-properties"]
    assert (properties["cloudEvents:count"], properties["cloudEvents:last"]) == (3, True)
    assert message.captured["properties"] == {"subject": "7"}
    assert message.captured["header"] == {"ttl": 5}


def test_over_nats_attributes_are_headers():
    message = rendered(cloudevent("NATS", {"subject": {"value": "orders.{id}"}}), {"id": "7"})
    assert message.captured["subject"] == "orders.7"
    assert pairs(message)["ce-type"] == "T"


@pytest.mark.parametrize(
    ("protocol", "section", "address"),
    [("HTTP", "headers", {}), ("MQTT/5.0", "user_properties", {"topic_name": {"value": "t"}}),
     ("NATS", "headers", {"subject": {"value": "s"}})],
)  # fmt: skip
def test_a_name_that_a_list_repeats_is_sent_as_often(protocol, section, address):
    entries = [{"name": "tag", "value": "no-{n}"}, {"name": "tag", "value": "b"}, {"name": "tag"}]
    message = rendered({"protocol": protocol, "protocoloptions": address | {section: entries}}, {"n": "7"})
    sent = [entry["value"] for entry in message.captured[section] if entry["name"] == "tag"]
    assert sorted(sent) == ["b", "no-7"]


def test_a_message_without_envelope_has_its_options_only():
    options = {"topic": {"value": "orders"}, "headers": {"kind": {"value": "{kind}"}}, "key": {"value": "{id}"}}
    message = rendered(
        {"protocol": "KAFKA", "protocoloptions": options, "datacontenttype": "application/json"}, {"kind": "a", "id": "1"}
    )
    assert message.mode is None
    assert message.captured == {
        "topic": "orders", "key": "1",
        "headers": [{"name": "kind", "value": "a"}, {"name": "content-type", "value": "application/json"}],
    }  # fmt: skip


def test_a_structured_event_is_json_and_its_attributes_keep_their_types():
    message = rendered(
        cloudevent(count={"type": "integer"}), {"count": "3", "topic": "t"}, "KAFKA", mode="structured", payload=[1]
    )
    assert pairs(message) == {"content-type": "application/cloudevents+json"}
    event = json.loads(message.body)
    assert (event["count"], event["data"], event["type"]) == (3, [1], "T")


@pytest.mark.parametrize(
    ("content_type", "payload", "member", "held"),
    [
        ("application/json", b'{"a":12345678901234567890123}', "data", {"a": 12345678901234567890123}),
        ("application/json", b'{\n "a": 1}', "data", {"a": 1}),
        (
            "application/json",
            b'{\r\n "a": 12345678901234567890123,\n"b": "\\n"}',
            "data",
            {"a": 12345678901234567890123, "b": "\n"},
        ),
        ("text/xml", "<ä/>".encode(), "data", "<ä/>"),
        ("avro/binary", b"\x00\xff", "data_base64", base64.b64encode(b"\x00\xff").decode()),
    ],
)
def test_data_of_a_structured_event_is_as_its_content_type_says(content_type, payload, member, held):
    declared = cloudevent(datacontenttype={"value": content_type})
    event = json.loads(rendered(declared, over="CLOUDEVENTS", payload=payload).line())
    assert event[member] == held
    assert b"\n" not in rendered(declared, over="CLOUDEVENTS", payload=payload).line()


def test_numbers_of_a_payload_are_sent_as_they_are_written():
    payload = b'{\n"price": 1.10, "n": 123456789012345678901234567890}'
    event = rendered(cloudevent(), over="CLOUDEVENTS", payload=payload).body
    assert b'"data":{"price": 1.10, "n": 123456789012345678901234567890}' in event
    shown = rendered(cloudevent(), {"topic": "t"}, "KAFKA", payload=payload).as_json()
    assert json.loads(shown)["payload"]["n"] == 123456789012345678901234567890


def test_an_integer_of_any_size_may_be_a_value_or_the_payload_of_a_line(tmp_path):
    lines = tmp_path / "values.jsonl"
    lines.write_text(
        '{"data": {"n": 123456789012345678901234567890}, "/protocoloptions/headers/n": 123456789012345678901234567890}'
    )
    [given] = [input_of(values, RenderInput()) for values in read_values(str(lines))]
    assert given.payload == b'{"n":123456789012345678901234567890}'
    for mode in ("binary", "structured"):
        message = rendered(cloudevent(), dict(given.values), "HTTP", payload=given.payload, mode=mode)
        assert message.as_json().count(b"123456789012345678901234567890") == 2


def test_a_payload_that_is_no_json_is_refused():
    with pytest.raises(RenderRefused, match="payload: no JSON"):
        rendered(cloudevent(datacontenttype={"value": "application/json"}), over="CLOUDEVENTS", payload=b"{")


def test_all_missing_values_are_reported_at_once():
    declared = cloudevent("KAFKA", {"key": {"value": "{device}"}}, subject=SUBJECT, tenant={"required": True, "type": "string"})
    with pytest.raises(MissingValues) as reported:
        rendered(declared)
    assert {(need.name, need.pointer) for need in reported.value.needs} == {
        ("device", "/protocoloptions/key"), ("region", "/envelopemetadata/subject"), ("id", "/envelopemetadata/subject"),
        ("tenant", "/envelopemetadata/tenant"), ("topic", "/protocoloptions/topic"),
    }  # fmt: skip
    assert reported.value.exit_code == 2


def test_what_is_optional_and_has_no_value_is_left_out():
    message = rendered(cloudevent(subject={"type": "string"}), over="CLOUDEVENTS")
    assert "subject" not in message.event
    assert rendered(cloudevent(subject={"type": "string"}), {"subject": "x"}, "CLOUDEVENTS").event["subject"] == "x"


@pytest.mark.parametrize(
    ("declared", "values", "pointer"),
    [
        (cloudevent(subject=SUBJECT), {"region": "a/b", "id": "7"}, "/envelopemetadata/subject"),
        (cloudevent(subject={"value": "{a}-{b}"}), {"a": "1", "b": "2-3"}, "/envelopemetadata/subject"),
        (cloudevent(subject={"value": "{a}"}), {"a": ""}, "/envelopemetadata/subject"),
        (cloudevent(time={"value": "{t}", "type": "timestamp"}), {"t": "noon"}, "/envelopemetadata/time"),
        (cloudevent(n={"type": "integer"}), {"n": "4294967296"}, "/envelopemetadata/n"),
        (cloudevent(n={"value": "x"}), {"n": "y"}, "/envelopemetadata/n"),
        (cloudevent("HTTP", {"path": {"value": "/a/{x}"}}), {"x": "b?c"}, "/protocoloptions/path"),
        (cloudevent("HTTP", {"headers": {"k": {"value": "{x}"}}}), {"x": "a\r\nevil: 1"}, "/protocoloptions/headers/k"),
        (cloudevent("MQTT/5.0", {"topic_name": {"value": "t/{x}"}}), {"x": "#"}, "/protocoloptions/topic_name"),
        (
            cloudevent("MQTT/3.1.1", {"topic_name": {"value": "t"}, "content_type": {"value": "a/b"}}),
            {},
            "/protocoloptions/content_type",
        ),
        (cloudevent("KAFKA", {"topic": {"value": "t{x}"}}), {"x": " "}, "/protocoloptions/topic"),
        (cloudevent("NATS", {"subject": {"value": "a.{x}"}}), {"x": ">"}, "/protocoloptions/subject"),
        (
            cloudevent("AMQP/1.0", {"properties": {"message-id": {"type": "ulong"}}}),
            {"message-id": "7", "properties/message-id": "-7"},
            "/protocoloptions/properties/message-id",
        ),
        (
            cloudevent("AMQP/1.0", {"properties": {"message-id": {"value": "7", "type": "uuid"}}}),
            {},
            "/protocoloptions/properties/message-id",
        ),
    ],
)
def test_values_that_would_not_come_back_are_refused_with_the_attribute(declared, values, pointer):
    with pytest.raises(RenderRefused) as reported:
        rendered(declared, values)
    assert pointer in {one.pointer for one in reported.value.refusals}
    assert reported.value.exit_code == 3


@pytest.mark.parametrize(
    ("protocol", "options", "given", "reported"),
    [
        ("MQTT/5.0", {"qos": {"value": "{q}", "type": "integer"}}, {"q": "1"}, {"qos": 1}),
        ("MQTT/5.0", {"qos": {"value": "{q}"}}, {"q": "2"}, {"qos": 2}),
        ("MQTT/5.0", {"qos": {"value": "1"}, "retain": {"value": "true"}}, {}, {"qos": 1, "retain": True}),
        ("MQTT/5.0", {"retain": {"value": "{r}", "type": "boolean"}}, {"r": "true"}, {"retain": True}),
        ("MQTT/5.0", {"message_expiry_interval": {"value": "60"}}, {}, {"message_expiry_interval": 60}),
        ("KAFKA", {"partition": {"value": "{p}"}}, {"p": "3"}, {"partition": 3}),
        ("AMQP/1.0", {"header": {"ttl": {"value": "{t}"}, "durable": {"value": "true"}}}, {"t": "5"},
         {"header": {"ttl": 5, "durable": True}}),
        ("AMQP/1.0", {"application-properties": {"n": {"value": "{n}", "type": "integer"}}}, {"n": "7"},
         {"application-properties": {"n": 7}}),
        ("NATS", {"headers": {"n": {"value": "{n}", "type": "integer"}}}, {"n": "-0"},
         {"headers": [{"name": "n", "value": "-0"}]}),
    ],
)  # fmt: skip
def test_an_option_with_a_type_is_written_in_it(protocol, options, given, reported):
    address = {"MQTT/5.0": "topic_name", "KAFKA": "topic", "NATS": "subject"}.get(protocol)
    addressed = options | ({address: {"value": "t"}} if address else {})
    message = rendered({"protocol": protocol, "protocoloptions": addressed}, given)
    assert {name: message.captured[name] for name in reported} == reported
    assert message.variables == given


@pytest.mark.parametrize(
    ("declared", "given", "pointer", "reason"),
    [
        ({}, {"time": "yesterday"}, "time", "RFC 3339"),
        ({}, {"subject": ""}, "subject", "must not be empty"),
        ({"source": {"value": ""}}, {}, "source", "must not be empty"),
        ({"datacontenttype": {"value": ""}}, {}, "datacontenttype", "must not be empty"),
        ({}, {"dataschema": "foo bar"}, "dataschema", "no URI"),
        ({"source": {"value": "/s/{x}"}}, {"x": "a b"}, "source", "no URI-reference"),
        ({"link": {"value": "{x}", "type": "uritemplate"}}, {"x": "a b"}, "link", "no URI-reference"),
        ({}, {"subject": "a\nb"}, "subject", "control characters"),
        ({}, {"/envelopemetadata/tenant": "\ud800"}, "tenant", "control characters"),
        ({}, {"/envelopemetadata/Trace-Id": "x"}, "Trace-Id", "a to z and digits"),
        ({"trace_id": {"value": "x"}}, {}, "trace_id", "a to z and digits"),
        ({}, {"/envelopemetadata/data": "x"}, "data", "of the payload"),
        ({}, {"/envelopemetadata/data_base64": "x"}, "data_base64", "of the payload"),
        ({}, {"/envelopemetadata/x": 1.5}, "x", "integers of 32 bits"),
        ({}, {"/envelopemetadata/x": {"a": 1}}, "x", "integers of 32 bits"),
        ({}, {"/envelopemetadata/x": 2**40}, "x", "integers of 32 bits"),
        ({}, {"/envelopemetadata/x": 2**70}, "x", "integers of 32 bits"),
        ({}, {"id": True}, "id", "a text is needed"),
    ],
)
@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_what_cloudevents_forbids_is_refused(declared, given, pointer, reason, mode):
    with pytest.raises(RenderRefused, match=reason) as refused:
        rendered(cloudevent(**declared), given, "HTTP", mode=mode)
    assert {one.pointer for one in refused.value.refusals} == {f"/envelopemetadata/{pointer}"}


def test_what_cloudevents_has_no_type_for_is_a_text():
    declared = cloudevent(n={"type": "number"}, m={"value": 2.5, "type": "number"})
    event = rendered(declared, {"n": "1.5", "id": 7}, "CLOUDEVENTS").event
    assert (event["n"], event["m"], event["id"]) == ("1.5", "2.5", "7")


TO_TOPIC = {"topic_name": {"value": "t"}}


@pytest.mark.parametrize(
    ("protocol", "options", "given", "pointer", "reason"),
    [
        ("MQTT/5.0", TO_TOPIC | {"qos": {"value": 3}}, {}, "qos", "from 0 to 2"),
        ("MQTT/5.0", TO_TOPIC | {"qos": {"value": "{q}"}}, {"q": "high"}, "qos", "from 0 to 2"),
        ("MQTT/5.0", TO_TOPIC | {"retain": {"value": "no"}}, {}, "retain", "true or false"),
        (
            "MQTT/5.0",
            TO_TOPIC | {"message_expiry_interval": {"value": -1}},
            {},
            "message_expiry_interval",
            "from 0 to 4294967295",
        ),
        ("MQTT/5.0", TO_TOPIC, {"/protocoloptions/message_expiry_interval": 2**40}, "message_expiry_interval", "from 0 to"),
        ("MQTT/5.0", TO_TOPIC | {"payload_format": {"value": 7}}, {}, "payload_format", "from 0 to 1"),
        ("MQTT/5.0", TO_TOPIC | {"payload_format": {"value": 1}}, {}, "payload_format", "which it is not"),
        ("MQTT/5.0", TO_TOPIC | {"user_properties": [{"name": "a", "value": "x" * 70_000}]}, {}, "user_properties/a", "65,535"),
        ("MQTT/5.0", TO_TOPIC | {"content_type": {"value": "a\0"}}, {}, "content_type", "NUL"),
        ("KAFKA", {"topic": {"value": "t"}, "partition": {"value": -3}}, {}, "partition", "from 0 to 2147483647"),
        ("KAFKA", {"topic": {"value": "t"}, "key": {"value": "a"}}, {"key_base64": "Yg=="}, "key_base64", "MSG-370"),
        ("KAFKA", {"topic": {"value": "t"}}, {"key_base64": "%"}, "key_base64", "no base64"),
        ("HTTP", {"status": {"value": 200}}, {"/protocoloptions/method": "POST"}, "status", "MSG-290"),
        ("AMQP/1.0", {"header": {"priority": {"value": 999}}}, {}, "header/priority", "from 0 to 255"),
        ("AMQP/1.0", {"header": {"ttl": {"value": -5}}}, {}, "header/ttl", "from 0 to"),
        ("AMQP/1.0", {"header": {"durable": {"value": "yes"}}}, {}, "header/durable", "true or false"),
        ("AMQP/1.0", {"properties": {"group-sequence": {"value": -1}}}, {}, "properties/group-sequence", "from 0 to"),
        ("AMQP/1.0", {"properties": {"content-type": {"value": "text/é"}}}, {}, "properties/content-type", "printable ASCII"),
        ("AMQP/1.0", {"properties": {"creation-time": {"value": "soon"}}}, {}, "properties/creation-time", "RFC 3339"),
        ("AMQP/1.0", {"message-annotations": {"x é": {"value": "1"}}}, {}, "message-annotations/x é", "printable ASCII"),
        ("AMQP/1.0", {}, {"/protocoloptions/application-properties/a": {"b": 1}}, "application-properties/a", "no maps"),
    ],
)
def test_what_a_protocol_forbids_is_refused(protocol, options, given, pointer, reason):
    message = {"protocol": protocol, "protocoloptions": options}
    with pytest.raises(RenderRefused, match=reason) as refused:
        rendered(message, given, payload=b"\xff\xfe")
    assert {one.pointer for one in refused.value.refusals} == {f"/protocoloptions/{pointer}"}


def test_what_a_protocol_just_carries_is_rendered():
    options = {
        "header": {"priority": {"value": 255}, "ttl": {"value": 2**32 - 1}},
        "message-annotations": {"x-opt": {"value": 1}},
    }
    properties = {"content-type": {"value": "text/plain; charset=utf-8"}, "creation-time": {"value": NOW}}
    assert rendered({"protocol": "AMQP/1.0", "protocoloptions": options | {"properties": properties}})
    limits = {"message_expiry_interval": {"value": 0}, "payload_format": {"value": 1}, "content_type": {"value": "x" * 65_535}}
    assert rendered({"protocol": "MQTT/5.0", "protocoloptions": TO_TOPIC | limits}, payload="ä".encode())


def test_an_extension_of_a_template_keeps_its_type_in_json():
    declared = cloudevent(n={"value": "{n}", "type": "integer"}, last={"value": "{last}", "type": "boolean"})
    event = rendered(declared, {"n": "7", "last": "false"}, "CLOUDEVENTS").event
    assert (event["n"], event["last"]) == (7, False)


def test_the_marker_is_now_and_an_old_one_too():
    for marker in ("0000-01-01T00:00:00Z", "01-01-0000T00:00:00Z"):
        declared = cloudevent(time={"value": marker, "type": "timestamp"})
        assert rendered(declared, over="CLOUDEVENTS").event["time"] == NOW
        assert rendered(declared, over="CLOUDEVENTS", now=None).event["time"] > NOW
    with pytest.raises(SettingsError, match="RFC 3339"):
        RenderStyle(now="yesterday")


def test_mqtt_3_is_structured_always():
    declared = cloudevent("MQTT/3.1.1", {"topic_name": {"value": "t"}})
    message = rendered(declared)
    assert (message.mode, message.captured) == ("structured", {"topic_name": "t", "qos": 0, "retain": False})
    with pytest.raises(RenderRefused, match="structured mode only"):
        rendered(declared, mode="binary")


def test_the_content_type_of_an_envelope_makes_it_structured():
    assert rendered(cloudevent() | {"datacontenttype": "application/cloudevents+json"}, over="HTTP").mode == "structured"


@pytest.mark.parametrize(
    "declared",
    [
        {"datacontenttype": "application/cloudevents+json"},
        {"protocol": "HTTP", "protocoloptions": {"headers": {"Content-Type": {"value": "application/cloudevents+json"}}}},
    ],
)
def test_a_batch_matches_back_where_the_content_type_of_an_envelope_is_declared(declared):
    definition = cloudevent() | declared
    [batch] = batched([rendered(definition, over="HTTP", mode="structured")] * 2)
    assert [one["status"] for one in matched([row(definition)], [], [batch.line()])] == ["matched"] * 2


def test_a_definition_of_a_protocol_goes_over_no_other():
    with pytest.raises(RenderRefused, match="declared for MQTT"):
        rendered(cloudevent("MQTT", {"topic_name": {"value": "t"}}), over="KAFKA")
    with pytest.raises(RenderRefused, match="no envelope"):
        rendered({"protocol": "KAFKA", "protocoloptions": {"topic": {"value": "t"}}}, over="CLOUDEVENTS")


def test_an_endpoint_says_what_the_message_does_not():
    endpoint = Endpoint(
        "r", "/endpoints/e", ("producer",), "KAFKA", "structured", None, {"topic": "orders", "key": "{id}"}, ("/messagegroups/g",)
    )
    other = Endpoint("r", "/endpoints/a", ("producer",), "NATS", None, None, {"subject": "x"}, ("/messagegroups/other",))
    message = rendered(cloudevent(subject={"value": "{id}"}), {"id": "7"}, endpoints=[other, endpoint])
    assert (message.protocol, message.mode, message.endpoint) == ("KAFKA", "structured", "/endpoints/e")
    assert (message.captured["topic"], message.captured["key"]) == ("orders", "7")
    own = rendered(cloudevent("KAFKA", {"topic": {"value": "mine"}}), {"id": "7"}, endpoints=[endpoint])
    assert own.captured["topic"] == "mine"


def test_an_http_endpoint_gives_method_headers_query_and_path():
    options = {
        "method": "PUT",
        "headers": [{"name": "X-Tenant", "value": "{t}"}],
        "query": {"q": "1"},
        "endpoints": [{"uri": "https://h/in"}],
    }
    endpoint = Endpoint("r", "/endpoints/e", (), "HTTP", None, None, options, ("/messagegroups/g",))
    message = rendered(cloudevent(), {"t": "a"}, endpoints=[endpoint])
    assert (message.captured["method"], message.captured["path"]) == ("PUT", "/in")
    assert message.captured["query"] == [{"name": "q", "value": "1"}]
    assert pairs(message)["x-tenant"] == "a"


def test_the_ways_of_a_message():
    def families(message, asked=(), endpoints=()):
        return [way.family for way in bindings_of(row(message), endpoints, asked)]

    kafka = Endpoint("r", "/endpoints/k", ("producer",), "KAFKA", messagegroups=("/messagegroups/g",))
    assert families(cloudevent()) == ["HTTP"]
    assert families(cloudevent(), endpoints=[kafka]) == ["KAFKA"]
    assert families(cloudevent("AMQP/1.0"), endpoints=[kafka]) == ["AMQP"]
    assert families(cloudevent(), ["ALL"]) == ["CLOUDEVENTS", "HTTP", "KAFKA", "AMQP", "MQTT", "NATS"]
    assert families(cloudevent("AMQP/1.0"), ["ALL"]) == ["CLOUDEVENTS", "AMQP"]
    assert families(cloudevent(), ["mqtt", "http"]) == ["MQTT", "HTTP"]


@pytest.mark.parametrize("subject", [{}, {"subject": {"value": "{key}"}}])
def test_a_header_with_credentials_is_sent_though_match_reads_none(subject):
    headers = {"Authorization": {"value": "Bearer {key}", "required": True}, "Region": {"value": "{region}"}}
    message = rendered(cloudevent("HTTP", {"headers": headers}, **subject), {"key": "k", "region": "eu"})
    assert pairs(message)["authorization"] == "Bearer k"


def test_a_name_that_nothing_asks_for_is_reported():
    ways = bindings_of(row(cloudevent(subject=SUBJECT)), (), ["CLOUDEVENTS"])
    check_names(ways, ["region", "/envelopemetadata/anything", "time"])
    with pytest.raises(SettingsError, match="regoin: no placeholder"):
        check_names(ways, ["regoin"])


def test_a_placeholder_called_like_an_attribute_is_meant_first():
    declared = cloudevent(subject={"value": "{id}"})
    assert rendered(declared, {"id": "7"}, "CLOUDEVENTS").event["id"] != "7"
    assert rendered(declared, {"id": "7", "/envelopemetadata/id": "e"}, "CLOUDEVENTS").event["id"] == "e"


def test_an_extension_that_is_not_declared_travels():
    message = rendered(cloudevent(), {"/envelopemetadata/tenant": "a", "topic": "t"}, "KAFKA")
    assert pairs(message)["ce_tenant"] == "a"


def test_a_partition_key_is_the_key():
    message = rendered(cloudevent(partitionkey={"value": "p"}), {"topic": "t"}, "KAFKA")
    assert message.captured["key"] == "p"


def test_a_data_schema_is_written_where_all_can_resolve_it():
    declared = cloudevent()
    assert (
        rendered(declared | {"dataschemauri": "https://example.com/s"}, over="CLOUDEVENTS").event["dataschema"]
        == "https://example.com/s"
    )
    assert "dataschema" not in rendered(declared | {"dataschemauri": "/schemagroups/g/schemas/s"}, over="CLOUDEVENTS").event


def test_strict_refuses_what_only_deviates():
    given = {"/envelopemetadata/tenant": "a"}
    assert rendered(cloudevent(), given, "CLOUDEVENTS").event["tenant"] == "a"
    with pytest.raises(RenderRefused, match="/envelopemetadata/tenant"):
        rendered(cloudevent(), given, "CLOUDEVENTS", strict=True)


def test_a_response_has_a_status_and_no_method():
    message = rendered({"protocol": "HTTP", "protocoloptions": {"status": {"value": "202"}}})
    assert message.captured == {"headers": [], "query": [], "status": "202"}


@pytest.mark.parametrize("over", ["HTTP", "KAFKA", "AMQP", "MQTT", "NATS"])
def test_both_modes_carry_the_same_attributes(over):
    values = {"region": "ö", "id": "a%20b", "topic": "t", "topic_name": "t", "/protocoloptions/subject": "t"}
    declared = cloudevent(subject=SUBJECT, n={"value": 5, "type": "integer"}, datacontenttype={"value": "application/json"})
    values = {name: value for name, value in values.items() if name in ("region", "id") or (over, name) in {
        ("KAFKA", "topic"), ("MQTT", "topic_name"), ("NATS", "/protocoloptions/subject")}}  # fmt: skip
    reported = []
    for mode in ("binary", "structured"):
        [landed] = landed_of_text(rendered(declared, values, over, mode=mode, payload={"a": 1}).line())
        [event] = events_of(landed)
        assert event.mode == mode
        reported.append({name: str(value) for name, value in event.ce.items()})
    assert reported[0] == reported[1]


@pytest.mark.parametrize("protocol", ["KAFKA", "kafka/3.5", "MQTT/5.0", "MQTT", "NATS", None])
def test_a_definition_is_read_once_for_the_protocol_that_it_names(protocol, monkeypatch):
    made: list[str | None] = []
    read = protocolbinding.definition_of
    monkeypatch.setattr(protocolbinding, "definition_of", lambda row, rule: made.append(row["protocol"]) or read(row, rule))
    message = row(cloudevent(protocol, {"topic": {"value": "{a}/{b}"}}))
    bindings = bindings_of(message, (), ["ALL"])
    assert len(made) == 1 if protocol else len(made) == len(bindings)
    for binding in bindings:
        if binding.protocol is not None:  # as if the row named it
            named = message["attributes"] | {"/protocol": json.dumps(binding.protocol)}
            assert repr(binding.definition) == repr(read(message | {"protocol": binding.protocol, "attributes": named}))
        assert list(binding.placeholders) == ([] if binding.protocol is None else ["a", "b"])
