"""One message of each kind, in the words of each dialect, and a document of the dialect that holds it."""

from __future__ import annotations

import base64
from typing import Any

from hypothesis import strategies as st

from lakehouse.dialects.tables import FAMILIES, table

TYPE = "com.example.reading"
SCHEMA = {"type": "object"}

# One message a protocol, in the words of each dialect. 003 holds a CloudEvent or a message of a protocol, never both.
NOW = "0000-01-01T00:00:00Z"
CE = {"type": {"value": TYPE}, "subject": {"type": "uritemplate", "value": "{device}"}, "time": {"type": "any", "value": NOW}}
CE_WIP = {"type": {"value": TYPE}, "subject": {"type": "uritemplate", "value": "{device}"},
          "time": {"type": "var", "value": "01-01-0000T00:00:00Z"}}  # fmt: skip
SUBJECT = {"type": "uritemplate", "value": "s.{t}"}  # the draft has templates only
BASE = "/messagegroups/g/messages/base"
KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "CloudEvents-over-MQTT": {
        "1.0-rc2": {"envelope": "CloudEvents/1.0", "envelopemetadata": CE, "protocol": "MQTT/5.0", "basemessage": BASE,
                    "protocoloptions": {"qos": 1, "topic_name": "a/{b}", "user_properties": [{"name": "k", "value": "v"}]},
                    "dataschemaformat": "JSONSchema/draft-07", "dataschema": SCHEMA},
        "1.0-rc1": {"envelope": "CloudEvents/1.0", "envelopemetadata": CE, "protocol": "MQTT/5.0", "basemessageuri": BASE,
                    "protocoloptions": {"qos": 1, "topic_name": "a/{b}", "user_properties": [{"name": "k", "value": "v"}]},
                    "dataschemaformat": "JSONSchema/draft-07", "dataschema": SCHEMA},
        "1.0-rc4": {"envelope": "CloudEvents/1.0", "envelopemetadata": CE, "protocol": "MQTT/5.0", "basemessage": BASE,
                    "protocoloptions": {"qos": {"value": 1}, "topic_name": {"value": "a/{b}"},
                                        "user_properties": [{"name": "k", "value": "v"}]},
                    "dataschemaformat": "JSONSchema/draft-07", "dataschema": SCHEMA, "ancestorid": "1"},
        "0.5-wip": {"envelope": "CloudEvents/1.0", "envelopemetadata": CE_WIP, "protocol": "MQTT/5.0",
                    "basemessageurl": "#" + BASE, "schemaformat": "JSONSchema/draft-07", "schema": SCHEMA,
                    "protocoloptions": {"qos": {"value": 1}, "topic-name": {"value": "a/{b}"},
                                        "user-properties": [{"k": {"value": "v"}}]}},
        "cereg": {"format": "CloudEvents/1.0", "metadata": {"attributes": CE}, "protocol": "MQTT/5.0",
                  "basemessageurl": "#/definitionGroups/g/definitions/base", "schemaformat": "JSONSchema/draft-07",
                  "schema": SCHEMA,
                  "protocoloptions": {"qos": 1, "topic": "a/{b}", "user_properties": {"k": "v"}}},
    },
    "CloudEvents": {
        "1.0-rc2": {"envelope": "CloudEvents/1.0", "dataschemaformat": "JSONSchema/draft-07", "dataschema": SCHEMA,
                    "envelopemetadata": {"type": {"value": TYPE}, "subject": {"type": "uritemplate", "value": "{device}"}}},
        "0.5-wip": {"envelope": "CloudEvents/1.0", "schemaformat": "JSONSchema/draft-07", "schema": SCHEMA,
                    "envelopemetadata": {"type": {"value": TYPE}, "subject": {"type": "uritemplate", "value": "{device}"}}},
        "cereg": {"format": "CloudEvents/1.0", "schemaformat": "JSONSchema/draft-07", "schema": SCHEMA,
                  "metadata": {"attributes": {"type": {"value": TYPE}, "subject": {"type": "uritemplate", "value": "{device}"}}}},
        "cncf-catalog": {"attributes": {"type": {"value": TYPE}, "subject": {"value": "{device}"},
                                        "dataschema": {"schematype": "JSON", "schema": SCHEMA}}},
    },
    "AMQP": {
        "1.0-rc2": {"protocol": "AMQP/1.0", "dataschemauri": "https://a.example/s", "dataschemaformat": "Protobuf/3",
                    "protocoloptions": {"properties": {"message-id": {"required": True, "value": "m"}, "to": {"value": "q"}},
                                        "application-properties": {"p": {"value": "v"}}, "header": {"durable": True}}},
        "0.5-wip": {"protocol": "AMQP/1.0", "schemauri": "https://a.example/s", "schemaformat": "Protobuf/3",
                    "protocoloptions": {"properties": {"message-id": {"required": True, "value": "m"}, "to": {"value": "q"}},
                                        "application_properties": {"p": {"value": "v"}}, "header": {"durable": {"value": True}}}},
        "cereg": {"format": "AMQP/1.0", "schemaurl": "https://a.example/s", "schemaformat": "Protobuf/3",
                  "protocoloptions": {"properties": {"message_id": {"required": True, "value": "m"}, "to": "q"},
                                      "applicationproperties": {"p": "v"}, "header": {"durable": True}}},
        "cncf-catalog": {"properties": {"messageid": {"required": True, "value": "m"}, "to": {"value": "q"}},
                         "applicationproperties": {"p": {"value": "v"}}, "header": {"durable": True},
                         "applicationdata": {"dataschema": {"schematype": "Protobuf", "value": "https://a.example/s"}}},
    },
    "MQTT": {
        "1.0-rc2": {"protocol": "MQTT/5.0", "protocoloptions": {"retain": False, "payload_format": 1, "content_type": "a/b"}},
        "0.5-wip": {"protocol": "MQTT/5.0", "protocoloptions": {"retain": {"value": False}, "payload-format": {"value": 1},
                                                                "content-type": {"value": "a/b"}}},
        "cereg": {"format": "MQTT/5.0",
                  "protocoloptions": {"retain": False, "payloadformat": {"value": 1}, "contenttype": "a/b"}},
        "cncf-catalog": {"publish": {"mqttversion": "5.0", "retain": False, "payloadformat": 1, "contenttype": "a/b"}},
    },
    "Kafka": {
        "1.0-rc2": {"protocol": "KAFKA", "protocoloptions": {"topic": "t", "key": "my key", "headers": {"h": "v"}}},
        "0.5-wip": {"protocol": "Kafka", "protocoloptions": {"topic": {"value": "t"}, "headers": {"h": {"value": "v"}},
                                                             "key": {"value": base64.b64encode(b"my key").decode()}}},
        "cereg": {"format": "Kafka", "protocoloptions": {"topic": "t", "key": "my key", "headers": {"h": "v"}}},
    },
    "HTTP": {
        "1.0-rc2": {"protocol": "HTTP", "protocoloptions": {"method": "POST", "path": "/p", "query": {"foo": "bar"},
                                                            "headers": [{"name": "h", "value": "v"}]}},
        "0.5-wip": {"protocol": "HTTP", "protocoloptions": {"method": "POST", "path": "/p",
                                                            "query": [{"name": "foo", "value": "bar"}],
                                                            "headers": [{"h": {"value": "v"}}]}},
        "cereg": {"format": "HTTP", "protocoloptions": {"method": "POST", "path": "/p", "query": {"foo": "bar"},
                                                        "headers": {"h": "v"}}},
    },
    "NATS": {
        "1.0-rc2": {"protocol": "NATS", "protocoloptions": {"subject": SUBJECT, "reply-to": "r"}},
        "0.5-wip": {"protocol": "NATS", "protocoloptions": {"subject": SUBJECT, "reply-to": "r"}},  # WIP-063
        "cereg": {"format": "NATS", "protocoloptions": {"subject": SUBJECT, "replyto": {"value": "r"}}},
        "cncf-catalog": {"pub": {"subject": "s.{t}", "replyto": "r"}},
    },
}  # fmt: skip
FORMATS = {"CloudEvents": "CloudEvents", "AMQP": "AMQP", "MQTT": "MQTT", "NATS": "NATS"}
for _said in KINDS.values():  # the release candidates differ in a few words only
    _said.setdefault("1.0-rc1", _said["1.0-rc2"])
    _said.setdefault("1.0-rc4", _said["1.0-rc2"] | {"ancestorid": "1"})


def document_in(dialect: str, written: dict[str, Any], kind: str) -> Any:
    """Write a document of a dialect that holds a message of a kind, in a group of the same envelope or protocol."""
    if dialect == "cncf-catalog":
        definition = {"id": TYPE, "version": 1, "format": FORMATS[kind], "definition": written}
        return {"id": "g", "format": FORMATS[kind], "messagedefinitions": [definition]}
    of_group = {name: written[name] for name in ("envelope", "protocol", "format") if name in written}
    if dialect == "cereg":
        return {"definitionGroups": {"g": {"id": "g", **of_group, "definitions": {TYPE: {"id": TYPE} | written}}}}
    return {"specversion": dialect, "messagegroups": {"g": of_group | {"messages": {TYPE: written}}}}


# Messages of any protocol, with any options and a few other attributes

_words = {family: [row for row in table() if row["entity"] == "message" and row["protocol"] == family and "*" not in row["name"]]
          for family in FAMILIES}  # fmt: skip
_texts = st.sampled_from(["", "t", "a b", "{t}", "a/{b}", "AAE=", "bXkga2V5", "01-01", "é"])
_declarations = st.fixed_dictionaries({}, optional={
    "value": _texts | st.integers(0, 9) | st.booleans() | st.just({"a": 1}),
    "type": st.sampled_from(["any", "string", "uritemplate"]),
    "required": st.booleans(), "description": _texts})  # fmt: skip
_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "declaration": _declarations | _texts | st.integers(),
    "declarations": st.dictionaries(st.sampled_from(["a", "b"]), _declarations, max_size=2),
    "namedvalues": st.dictionaries(st.sampled_from(["a", "b"]), _declarations, max_size=2),
    "headers": st.lists(_declarations.map(lambda one: {"name": "h"} | one), max_size=2),
}


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """Write a message in normal form but for bare declarations."""
    family = draw(st.sampled_from(FAMILIES))
    options: dict[str, Any] = {}
    for row in draw(st.lists(st.sampled_from(_words[family]), max_size=4)):
        holder = options
        for token in row["place"].split("/")[1:]:
            holder = holder.setdefault(token, {})
        if isinstance(holder.get(row["name"], ""), str):
            holder[row["name"]] = draw(_VALUES[row["type"]])
    protocol = {"AMQP": "AMQP/1.0", "MQTT": draw(st.sampled_from(["MQTT/5.0", "MQTT/3.1.1"]))}.get(family, family)
    extra = draw(st.fixed_dictionaries({}, optional={
        "description": _texts, "name": _texts.filter(bool),
        "labels": st.dictionaries(_texts, st.sampled_from(["", "v"]), max_size=2),
        "basemessage": st.sampled_from([BASE, "https://other.example/messages/m", "/messagegroups/g/messages/a~1b"]),
        "dataschemauri": st.just("https://a.example/s"), "dataschemaformat": st.sampled_from(["Avro/1.9.0", "Avro/2"]),
        "datacontenttype": st.just("a/b"), "deprecated": st.just({"effective": NOW}), "x": _texts,
        "envelopemetadata": st.dictionaries(st.sampled_from(["type", "subject"]), _declarations, max_size=2)}))  # fmt: skip
    return {"protocol": protocol, "protocoloptions": options} | extra
