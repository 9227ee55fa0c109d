from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from builders import (
    as_document,
    body,
    document,
    errors,
    found,
    group,
    json_values,
    law,
    message,
    message_document,
    only_version,
    read,
    rows,
    warnings,
)
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dialects.entityreader import read_entity
from lakehouse.dialects.tables import FAMILIES, family_of, family_of_options, table

SPELLING_COLUMNS = ("1.0-rc1", "1.0-rc4", "0.5-wip", "cereg", "also")
XID = "/messagegroups/other/messages/m"
# A value of each type in normal form, as it stays.
RIGHT: dict[str, Any] = {
    "string": "text",
    "id": "m",
    "timestamp": "2024-01-01T00:00:00Z",
    "uinteger": 7,
    "boolean": True,
    "object": {"k": 1},
    "authorization": {"type": "OAuth2"},
    "text": "text",
    "url": "https://a.example/docs",
    "labels": {"k": "v"},
    "protocol": "AMQP/1.0",
    "strings": ["a", "b"],
    "xid": XID,
    "xids": [XID],
    "addresses": [{"uri": "https://a.example"}],
    "any": {"type": "object", "nothing": None},
    "plain": "p",
    "declaration": {"value": "v", "required": True},
    "attribute": {"value": "v"},
    "declarations": {"user": {"value": 1}},
    "namedvalues": {"user": {"value": "v"}},
    "headers": [{"name": "user", "value": "v"}],
    "computed": "https://a.example/r",
    "entities": {},
}
# And one that is refused.
WRONG: dict[str, Any] = {
    "string": 5,
    "id": 5,
    "timestamp": 5,
    "uinteger": -1,
    "boolean": "true",
    "object": [],
    "authorization": "OAuth2",
    "text": 5,
    "url": "a b",
    "labels": "x",
    "protocol": 5,
    "strings": 5,
    "xid": 5,
    "xids": [5],
    "addresses": "x",
    "attribute": "bare",
    "declarations": "x",
    "namedvalues": "x",
    "headers": "x",
}
IDS = {"registry": "r", "messagegroup": "g", "endpoint": "e", "message": "m", "schemagroup": "g", "schema": "m"}


def name_of(row: dict[str, str]) -> str:
    return "-".join(part for part in (row["entity"], row["place"], row["protocol"], row["name"]) if part)


def spellings_of(row: dict[str, str]) -> list[str]:
    return sorted({word for column in SPELLING_COLUMNS for word in row[column].split()})


ROWS = [pytest.param(row, id=name_of(row)) for row in table()]
TYPED = [pytest.param(row, id=name_of(row)) for row in table() if row["type"] in WRONG and row["name"] != "*"]
SPELLED = [pytest.param(row, word, id=f"{name_of(row)}-as-{word}") for row in table() for word in spellings_of(row)]


def value_for(row: dict[str, str]) -> Any:
    if row["type"] == "id" and row["name"] not in ("versionid", "defaultversionid"):
        return IDS[row["entity"]]
    if row["name"] == "envelope":
        return "CloudEvents/1.0"
    if row["name"] == "envelopemetadata":
        return {"id": {"value": "a"}}
    if row["name"] == "*":  # the members of a place
        return {"x-user": {"value": "v"}}
    return RIGHT[row["type"]]


def nested(path: str, value: Any) -> dict[str, Any]:
    key, _, rest = path.partition("/")
    return {key: nested(rest, value) if rest else value}


def written_as(row: dict[str, str], word: str, value: Any) -> dict[str, Any]:
    """Write an attribute of the table in one of its spellings."""
    path = word[1:] if word.startswith("/") else "/".join(part for part in (row["place"], word) if part)
    own = {"protocol": row["protocol"]} if row["protocol"] else {}
    return own | nested(path.removesuffix("/*") if word != "*" else row["place"], value)


def placed(entity: str, written: dict[str, Any]) -> dict[str, Any]:
    """Place an entity in a document."""
    return {
        "registry": lambda: document() | written,
        "messagegroup": lambda: document({"g": written}),
        "endpoint": lambda: document(endpoints={"e": written}),
        "message": lambda: document({"g": group({"m": written})}),
        "schemagroup": lambda: document(schemagroups={"g": written}),
        "schema": lambda: document(schemagroups={"g": group({"m": written}, holds="schemas")}),
    }[entity]()


def member(found_in: dict[str, Any], path: str) -> Any:
    for token in path.split("/"):
        found_in = found_in[token]
    return found_in


# The table


def test_the_table_names_an_attribute_of_a_place_once():
    keys = Counter((row["entity"], row["place"], row["protocol"], row["name"]) for row in table())
    assert [key for key, count in keys.items() if count > 1] == []


def test_no_spelling_is_another_attribute_of_its_place():
    names = {(row["entity"], row["place"], row["protocol"], row["name"]) for row in table()}
    taken = [(name_of(row), word) for row in table() for word in spellings_of(row)
             if (row["entity"], row["place"], row["protocol"], word) in names]  # fmt: skip
    assert taken == []


def test_a_spelling_belongs_to_one_attribute_of_its_place():
    owners = Counter((row["entity"], row["place"], row["protocol"], word) for row in table() for word in spellings_of(row))
    assert {key[-1] for key, count in owners.items() if count > 1} == {"format"}  # the envelope or the protocol, by its value


@pytest.mark.parametrize("row", ROWS)
def test_each_row_of_the_table_has_a_known_type_and_protocol_and_a_rule(row):
    assert row["type"] in RIGHT
    assert row["protocol"] in ("", *FAMILIES)
    assert row["rule"]


# Every row


@pytest.mark.parametrize("row", ROWS)
def test_a_normal_name_stays(row):
    read_ = read_entity(row["entity"], written_as(row, row["name"], value_for(row)), "", None)
    path = "/".join(part for part in (row["place"], row["name"]) if part)
    assert read_.problems == []
    assert read_.extensions == {}
    assert read_.spellings == {}
    if row["type"] == "computed":
        assert row["name"] not in (read_.attributes.get(row["place"], {}) if row["place"] else read_.attributes)
    elif row["type"] == "entities":
        assert read_.children == {row["name"]: (row["name"], {})}
    elif row["name"] == "*":
        assert read_.attributes[row["place"]] == value_for(row)
    else:
        assert member(read_.attributes, path) == value_for(row)


@pytest.mark.parametrize(("row", "word"), SPELLED)
def test_a_spelling_gives_the_same_rows_as_the_normal_name(row, word):
    normal = read(placed(row["entity"], written_as(row, row["name"], value_for(row))))
    spelled = read(placed(row["entity"], written_as(row, word, value_for(row))))
    assert errors(normal) == errors(spelled) == []
    assert [one._replace(raw=None) for one in spelled.rows] == [one._replace(raw=None) for one in normal.rows]
    assert spelled.registryid == normal.registryid
    assert spelled.spellings != normal.spellings, "a spelling is counted"


@pytest.mark.parametrize(("row", "word"), SPELLED)
def test_no_spelling_is_left_in_a_body(row, word):
    read_ = read_entity(row["entity"], written_as(row, word, value_for(row)), "", None)
    assert read_.extensions == {}
    assert read_.problems == []


@pytest.mark.parametrize("row", TYPED)
def test_a_value_of_another_type_is_an_error_of_its_rule(row):
    written = written_as(row, row["name"], WRONG[row["type"]])
    problems = read_entity(row["entity"], written, "/at", None).problems
    pointer = "/at/" + "/".join(part for part in (row["place"], row["name"]) if part)
    assert found(problems) == [(pointer, row["rule"], "error")]
    assert "must be" in problems[0].message


@pytest.mark.parametrize("row", [param for param in ROWS if param.values[0]["type"] not in ("entities", "computed")])
def test_a_null_is_dropped_from_a_known_attribute(row):
    if row["name"] == "*":
        pytest.skip("names of a user")
    read_ = read_entity(row["entity"], written_as(row, row["name"], None), "", None)
    assert read_.problems == []
    assert row["name"] not in (read_.attributes.get(row["place"].split("/")[0], {}) if row["place"] else read_.attributes)
    assert read_.extensions == {}


# Families


@pytest.mark.parametrize(
    ("protocol", "family"),
    [
        ("AMQP/1.0", "AMQP"),
        ("Kafka", "KAFKA"),
        ("mqtt/5.0", "MQTT"),
        (" NATS ", "NATS"),
        ("HTTP/1.1", "HTTP"),
        ("Acme/2", "ACME"),
        ("None", None),
        ("none", None),
        ("", None),
        ("/1.0", None),
        (None, None),
        (5, None),
    ],
)
def test_the_family_of_a_protocol_is_its_name_in_upper_case(protocol, family):
    assert family_of(protocol) == family


@pytest.mark.parametrize(
    ("options", "family"),
    [
        ({"topic_name": "t"}, "MQTT"),
        ({"key": "k", "topic": "t"}, "KAFKA"),
        ({"application_properties": {}}, "AMQP"),
        ({"method": "GET"}, "HTTP"),
        ({"subject": "s"}, "NATS"),
        ({"topic": "t"}, None),
        ({"headers": []}, None),
        ({"acme": 1}, None),
        ({"key": "k", "acme": 1}, None),
        ({}, None),
        (None, None),
        ([], None),
    ],
)
def test_options_report_a_family_when_only_one_has_all_the_names(options, family):
    assert family_of_options(options) == family


def test_a_known_protocol_is_written_in_upper_case_and_an_unknown_one_as_it_is():
    assert only_version(message(protocol="Kafka"))["protocol"] == "KAFKA"
    assert only_version(message(protocol="mqtt/5.0"))["protocol"] == "MQTT/5.0"
    assert only_version(message(protocol="Acme/2"))["protocol"] == "Acme/2"


@pytest.mark.parametrize("text", ["None", "none", " NONE "])
def test_the_protocol_none_is_absent_and_recorded(text):
    reading = read(document({"g": group({"m": message(protocol=text)})}))
    assert "protocol" not in body(reading, "/messagegroups/g/messages/m/versions/1")
    assert reading.spellings == {'message: protocol "None" → absent': 1}
    assert reading.findings == []


@pytest.mark.parametrize(
    ("text", "attribute"),
    [("CloudEvents/1.0", "envelope"), ("AMQP/1.0", "protocol"), ("MQTT", "protocol"), ("Acme", "envelope")],
)
@pytest.mark.parametrize("entity", ["messagegroup", "endpoint", "message"])
def test_the_old_format_is_the_protocol_when_it_names_one_and_else_the_envelope(entity, text, attribute):
    assert read_entity(entity, {"format": text}, "", None).attributes == {attribute: text}


# Declarations are lifted by position (decision 11)


@pytest.mark.parametrize(
    ("written", "declaration"),
    [
        (1, {"value": 1}),
        ("{lampid}", {"value": "{lampid}"}),
        (False, {"value": False}),
        ([1], {"value": [1]}),
        ({"value": 1}, {"value": 1}),
        ({"value": None}, {"value": None}),
        ({"value": {"a": None}}, {"value": {"a": None}}),
        ({"type": None, "required": True}, {"required": True}),
        ({}, {}),
        ({"acme": 1}, {"acme": 1}),
    ],
)
def test_a_bare_option_of_a_message_becomes_a_declaration(written, declaration):
    options = only_version(message(protocol="MQTT/5.0", protocoloptions={"qos": written}))["protocoloptions"]
    assert options == {"qos": declaration}


def test_options_of_an_endpoint_stay_plain():
    reading = read(document(endpoints={"e": {"protocol": "MQTT/5.0", "protocoloptions": {"qos": 1, "topic": "t"}}}))
    assert body(reading, "/endpoints/e")["protocoloptions"] == {"qos": 1, "topic": "t"}


def test_members_of_the_sections_of_amqp_are_declarations():
    written = message(
        protocol="AMQP/1.0",
        protocoloptions={
            "header": {"ttl": 60000},
            "properties": {"to": "q"},
            "application_properties": {"lamp": {"type": "string"}},
        },
    )
    assert only_version(written)["protocoloptions"] == {
        "header": {"ttl": {"value": 60000}},
        "properties": {"to": {"value": "q"}},
        "application-properties": {"lamp": {"type": "string"}},
    }


def test_an_attribute_of_an_envelope_must_be_a_declaration():
    reading = read(document({"g": group({"m": message(envelopemetadata={"type": "lamp.on"})})}))
    pointers = [(one.pointer, one.rule_id) for one in errors(reading) if one.rule_id != "MSG-115"]
    assert pointers == [("/messagegroups/g/messages/m/envelopemetadata/type", "MSG-053")]


# The wrapper `attributes` (requirements.md 7)


@pytest.mark.parametrize("place", ["envelopemetadata", "metadata"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"type": {"value": "lamp.on"}, "source": {"value": "/lamp"}},
        {"type": {"value": "lamp.on"}},
        {"type": {"value": "lamp.on"}, "description": {"value": "d"}},
        {"source": {"value": "/lamp"}},
        {},
    ],
)
def test_the_wrapper_attributes_is_lifted(place, attributes):
    assert only_version(message(**{place: {"attributes": attributes}}))["envelopemetadata"] == attributes


def test_an_attribute_that_is_called_attributes_stays():
    declared = {"attributes": {"type": "string", "required": True}}
    assert only_version(message(envelopemetadata=declared))["envelopemetadata"] == declared


def test_what_stands_beside_a_wrapper_is_taken_with_a_warning():
    reading = read(
        document({"g": group({"m": message(envelopemetadata={"id": {"value": "a"}, "attributes": {"id": {"value": "b"}}})})})
    )
    assert body(reading, "/messagegroups/g/messages/m/versions/1")["envelopemetadata"] == {"id": {"value": "a"}}
    assert [one.pointer for one in warnings(reading)] == ["/messagegroups/g/messages/m/envelopemetadata/attributes/id"]


# Headers and queries (decision 13)

LISTS = [("HTTP", "headers"), ("NATS", "headers"), ("MQTT/5.0", "user_properties")]
MAPS = [("KAFKA", "headers"), ("HTTP", "query")]


@pytest.mark.parametrize(("protocol", "option"), LISTS)
@pytest.mark.parametrize(
    "written",
    [
        [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}],
        [{"name": "a", "value": "1"}, {"a": {"value": "2"}}],
    ],
)
def test_headers_are_a_list_in_which_a_name_may_stand_twice(protocol, option, written):
    options = only_version(message(protocol=protocol, protocoloptions={option: written}))["protocoloptions"]
    assert options[option] == [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]


@pytest.mark.parametrize(("protocol", "option"), LISTS)
def test_a_map_of_headers_becomes_the_list(protocol, option):
    options = only_version(message(protocol=protocol, protocoloptions={option: {"a": "1", "b": {"value": 2}}}))["protocoloptions"]
    assert options[option] == [{"name": "a", "value": "1"}, {"name": "b", "value": 2}]


@pytest.mark.parametrize(("protocol", "option"), MAPS)
@pytest.mark.parametrize(
    "written",
    [
        {"a": {"value": "1"}, "b": {"name": "B", "value": "2"}},
        {"a": "1", "b": {"name": "B", "value": "2"}},
        {"a": {"name": "a", "value": "1"}, "b": {"name": "B", "value": "2"}},
    ],
)
def test_named_values_are_a_map_and_a_name_that_equals_its_key_is_dropped(protocol, option, written):
    options = only_version(message(protocol=protocol, protocoloptions={option: written}))["protocoloptions"]
    assert options[option] == {"a": {"value": "1"}, "b": {"name": "B", "value": "2"}}


@pytest.mark.parametrize(("protocol", "option"), MAPS)
def test_a_list_of_named_values_becomes_the_map(protocol, option):
    written = [{"name": "a", "value": "1"}, {"name": "b", "required": True}]
    options = only_version(message(protocol=protocol, protocoloptions={option: written}))["protocoloptions"]
    assert options[option] == {"a": {"value": "1"}, "b": {"required": True}}


@pytest.mark.parametrize(("protocol", "option"), MAPS)
def test_a_list_with_a_name_twice_stays(protocol, option):
    written = [{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]
    options = only_version(message(protocol=protocol, protocoloptions={option: written}))["protocoloptions"]
    assert options[option] == written


@pytest.mark.parametrize(("protocol", "option"), MAPS)
@pytest.mark.parametrize(
    "written",
    [
        pytest.param([{"name": "a"}, {"value": "2"}], id="no name"),
        pytest.param([{"name": {"a": 1}}], id="a name that is an object"),
        pytest.param([{"name": ["a"]}, {"name": "b"}], id="a name that is an array"),
        pytest.param(["a"], id="no object"),
    ],
)
def test_a_list_without_names_is_refused(protocol, option, written):
    """MSG-284, MSG-369."""
    reading = read(message_document(message(protocol=protocol, protocoloptions={option: written})))
    wanted = {"HTTP": "MSG-284", "KAFKA": "MSG-369"}[protocol]
    assert wanted in {finding.rule_id for finding in errors(reading)}


def test_kafka_headers_shaped_like_a_json_schema_are_lifted_with_a_warning():
    headers = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    reading = read(document({"g": group({"m": message(protocol="KAFKA", protocoloptions={"headers": headers})})}))
    options = body(reading, "/messagegroups/g/messages/m/versions/1")["protocoloptions"]
    assert options == {"headers": {"a": {"type": "string"}}}
    assert [one.rule_id for one in warnings(reading)] == ["MSG-369"]


# Aliases hold where the table says, and nowhere else (decision 15)


def test_topic_is_another_name_on_mqtt_messages_only():
    def options(protocol):
        return only_version(message(protocol=protocol, protocoloptions={"topic": "t"}))["protocoloptions"]

    assert options("MQTT/5.0") == {"topic_name": {"value": "t"}}
    assert options("KAFKA") == {"topic": {"value": "t"}}
    reading = read(document(endpoints={"e": {"protocol": "MQTT", "protocoloptions": {"topic": "t"}}}))
    assert body(reading, "/endpoints/e")["protocoloptions"] == {"topic": "t"}


def test_properties_are_lifted_on_mqtt_messages_only():
    properties = {"topic": {"value": "t"}}
    mqtt = only_version(message(protocol="MQTT/5.0", protocoloptions={"properties": properties}))
    assert mqtt["protocoloptions"] == {"topic_name": {"value": "t"}}
    kafka = only_version(message(protocol="KAFKA", protocoloptions={"properties": properties}))
    assert kafka["protocoloptions"] == {"properties": properties}


def test_names_of_users_are_never_respelled():
    users = {"water_shortname": {"value": "w"}, "message_id": {"value": "m"}, "topic": {"value": "t"}}
    written = message(protocol="AMQP/1.0", protocoloptions={"application_properties": users})
    assert only_version(written)["protocoloptions"] == {"application-properties": users}


@pytest.mark.parametrize("protocol", ["MQTT/5.0", "KAFKA", "AMQP/1.0", "HTTP", "NATS", "Acme/1"])
def test_an_unknown_option_is_kept_as_written(protocol):
    option = {"acme": {"deep": [None, 1.10], "nothing": None}, "bare": None}
    assert only_version(message(protocol=protocol, protocoloptions=option))["protocoloptions"] == option


def test_two_spellings_with_one_value_are_no_problem():
    reading = read(document({"g": group({"m": message(basemessage=XID, basemessageuri="#" + XID)})}))
    assert body(reading, "/messagegroups/g/messages/m/versions/1")["basemessage"] == XID
    assert reading.findings == []


@pytest.mark.parametrize(
    "written",
    [{"basemessage": XID, "basemessageuri": "/messagegroups/x"}, {"basemessageuri": "/messagegroups/x", "basemessage": XID}],
)
def test_of_two_spellings_with_different_values_the_normal_one_is_taken_with_a_warning(written):
    reading = read(document({"g": group({"m": message(**written)})}))
    assert body(reading, "/messagegroups/g/messages/m/versions/1")["basemessage"] == XID
    assert [one.rule_id for one in warnings(reading)] == ["MSG-050"]


def test_two_spellings_of_a_member_of_a_section_with_different_values_are_reported():
    properties = {"message_id": {"value": "a"}, "message-id": {"value": "b"}}
    reading = read(document({"g": group({"m": message(protocol="AMQP/1.0", protocoloptions={"properties": properties})})}))
    assert [one.severity for one in reading.findings] == ["warning"]


def test_the_pointer_of_a_problem_is_the_place_as_written():
    read_ = read_entity("message", {"protocol": "AMQP", "protocolmetadata": {"header": 5}}, "/at", None)
    assert found(read_.problems) == [("/at/protocolmetadata/header", "MSG-298", "error")]


def test_one_wrong_value_beside_another_spelling_is_reported_once():
    read_ = read_entity("message", {"basemessageuri": XID, "basemessage": 5}, "", None)
    assert found(problem for problem in read_.problems if problem.severity == "error") == [("/basemessage", "MSG-050", "error")]


# Endpoints (decision 16, requirements.md 24, 25, 30)


def endpoint(**written: Any) -> dict[str, Any]:
    reading = read(document(endpoints={"e": written}))
    assert errors(reading) == []
    return body(reading, "/endpoints/e")


def test_outer_deployed_and_endpoints_move_into_the_options():
    assert endpoint(deployed=False, endpoints=[{"uri": "https://a.example"}], protocol="HTTP") == {
        "protocol": "HTTP",
        "protocoloptions": {"deployed": False, "endpoints": [{"uri": "https://a.example"}]},
    }


def test_the_inner_deployed_is_taken_when_both_stand_there():
    reading = read(document(endpoints={"e": {"deployed": False, "protocoloptions": {"deployed": True}}}))
    assert body(reading, "/endpoints/e")["protocoloptions"] == {"deployed": True}
    assert [(one.pointer, one.rule_id) for one in warnings(reading)] == [("/endpoints/e/deployed", "END-049")]


def test_usage_may_be_one_string():
    assert endpoint(usage="producer") == {"usage": ["producer"]}


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("https://a.example", {"uri": "https://a.example"}),
        ({"url": "https://a.example", "x": 1}, {"uri": "https://a.example", "x": 1}),
        ({"url": "https://a.example", "uri": "https://a.example"}, {"uri": "https://a.example"}),
        ({"url": "https://b.example", "uri": "https://a.example"}, {"uri": "https://a.example"}),
        ({"uri": "https://a.example", "options": {"a": None}}, {"uri": "https://a.example", "options": {"a": None}}),
    ],
)
def test_addresses_are_objects_with_uri(written, normal):
    assert endpoint(protocoloptions={"endpoints": [written]}) == {"protocoloptions": {"endpoints": [normal]}}


def test_an_address_with_two_different_uris_is_reported():
    reading = read(document(endpoints={"e": {"endpoints": [{"url": "https://b.example", "uri": "https://a.example"}]}}))
    assert [(one.pointer, one.rule_id) for one in warnings(reading)] == [("/endpoints/e/endpoints/0", "END-047")]


def test_options_below_options_are_lifted():
    assert endpoint(protocoloptions={"options": {"topic": "t"}, "acme": 1})["protocoloptions"] == {"topic": "t", "acme": 1}


def test_the_config_of_the_oldest_dialect_parts_into_protocol_and_options():
    config = {"protocol": "Kafka", "endpoints": ["tcp://a.example:9092"], "options": {"topic": "t"}, "strict": True}
    assert endpoint(config=config) == {
        "protocol": "KAFKA",
        "protocoloptions": {"endpoints": [{"uri": "tcp://a.example:9092"}], "topic": "t", "strict": True},
    }


def test_references_to_groups_become_xids():
    assert endpoint(messagegroups=["#/definitionGroups/g", "/messagegroups/h", "https://other.example/messagegroups/i"]) == {
        "messagegroups": ["/messagegroups/g", "/messagegroups/h", "https://other.example/messagegroups/i"]
    }


# Laws

_words = {family: [(row, word) for row in table() for word in (row["name"], *spellings_of(row))
                   if row["entity"] == "message" and row["protocol"] == family and "*" not in word]
          for family in FAMILIES}  # fmt: skip


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """Write a message of a family in any mix of spellings, with attributes and options that nobody knows."""
    family = draw(st.sampled_from(FAMILIES))
    options: dict[str, Any] = {}
    for row, word in draw(st.lists(st.sampled_from(_words[family]), max_size=5)):
        value = draw(st.just(RIGHT[row["type"]]) | (json_values if row["type"] == "declaration" else st.nothing()))
        holder = options.setdefault("properties", {}) if row["place"].endswith("/properties") else options
        holder = options.setdefault("header", {}) if row["place"].endswith("/header") else holder
        holder[word] = value
    unknown = draw(st.dictionaries(st.text("xyz/~", min_size=1, max_size=3).map("x-".__add__), json_values, max_size=3))
    key = draw(st.sampled_from(["protocoloptions", "protocolmetadata"]))
    return {"protocol": family, key: options | unknown, "dataschema": draw(json_values)} | unknown


@law
@given(messages())
def test_reading_the_normal_form_again_changes_nothing(written):
    first = read(document({"g": group({"m": written})}))
    second = read(as_document(first))
    assert sorted((row.xid, row.content_hash, sorted(row.attributes or ())) for row in second.rows) == sorted(
        (row.xid, row.content_hash, sorted(row.attributes or ())) for row in first.rows
    )
    assert second.spellings == {}


@law
@given(messages())
def test_reading_does_not_change_what_was_written(written):
    before = repr(written)
    read_entity("message", written, "", None)
    assert repr(written) == before


@law
@given(json_values.filter(lambda value: isinstance(value, dict)), st.sampled_from(sorted({row["entity"] for row in table()})))
def test_any_object_can_be_read(written, entity):
    read_entity(entity, written, "", None)


@law
@given(st.sampled_from(table()), json_values, st.sampled_from([None, *FAMILIES]))
def test_any_value_of_any_attribute_gives_rows_or_findings(row, value, family):
    for word in (row["name"], *spellings_of(row)):
        written = ({"protocol": family} if family else {}) | written_as(row | {"protocol": ""}, word, value)
        reading = read(placed(row["entity"], written))
        assert rows(reading) or errors(reading)
