"""Examples are valid by their schema, whatever its format; they end where a schema does not; values and payload agree."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest
from builders import law
from hypothesis import given as for_all
from hypothesis import strategies as st
from match.test_costly import HANGING

from lakehouse.match import Schemas
from lakehouse.match.payload.payloads import run_in_fork
from lakehouse.match.payload.schemas import SchemaVersion
from lakehouse.render import Renderer, RenderInput, RenderRefused, RenderStyle, bindings_of
from lakehouse.render.example.jsonschema import JsonExample
from lakehouse.render.example.plausible import Impossible, Plausible
from lakehouse.render.example.structureexample import StructureExample
from lakehouse.render.renderruns import payload_of_samples, renderer_of, samples_of
from lakehouse.render.selected import Selected
from render.definitions import NOW, cloudevent, row

XID = "/schemagroups/g/schemas/s"
TREE = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["name", "children"],
    "properties": {"name": {"type": "string", "minLength": 1}, "children": {"type": "array", "items": {"$ref": "#"}}},
}


def example(schema: Any, form: str, seed: int = 1, values: dict[str, Any] | None = None, **metadata: Any) -> Any:
    """Render an example in JSON for no protocol; the payload has been validated by then."""
    [way] = bindings_of(row(cloudevent(**metadata) | {"dataschemauri": XID, "dataschemaformat": form}), (), ["CLOUDEVENTS"])
    schemas = Schemas([SchemaVersion("r", f"{XID}/versions/1", XID, True, form, json.dumps(schema))])
    return Renderer(schemas, RenderStyle(example=True, seed=seed, now=NOW)).render(way, RenderInput(values or {}))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("protocol", "options"),
    [
        ("MQTT/5.0", {"topic_name": {"value": "t"}, "qos": {"value": "{q}"}, "retain": {"value": "{r}"},
                      "payload_format": {"required": True}, "message_expiry_interval": {"required": True}}),
        ("KAFKA", {"topic": {"value": "t"}, "partition": {"value": "{p}", "type": "integer"}}),
        ("AMQP/1.0", {"header": {"priority": {"required": True}, "durable": {"required": True}},
                      "properties": {"message-id": {"type": "ulong", "required": True},
                                     "correlation-id": {"type": "uuid", "required": True}}}),
    ],
)  # fmt: skip
def test_an_example_has_options_that_the_protocol_carries(protocol, options, seed):
    [way] = bindings_of(row({"protocol": protocol, "protocoloptions": options}))
    assert Renderer(Schemas([]), RenderStyle(example=True, seed=seed, now=NOW)).render(way)


JSON_SCHEMAS = {
    "all types": {
        "type": "object",
        "properties": {name: {"type": name} for name in ("string", "integer", "number", "boolean", "null")},
    },
    "union": {"type": ["null", "integer"], "minimum": 3},
    "enum": {"enum": [None, "a", 1]},
    "const": {"const": {"a": [1]}},
    "formats": {
        "type": "object",
        "properties": {
            form: {"type": "string", "format": form}
            for form in (
                "date-time",
                "date",
                "time",
                "duration",
                "email",
                "hostname",
                "ipv4",
                "ipv6",
                "uri",
                "uri-reference",
                "uuid",
                "json-pointer",
                "regex",
                "uri-template",
                "relative-json-pointer",
                "iri",
            )
        },
    },
    "pattern": {"type": "string", "pattern": r"^[A-Z]{2}\d{3,5}(-(x|y)+)?$"},
    "pattern and length": {"type": "string", "pattern": "^[a-z]*$", "minLength": 3, "maxLength": 5},
    "negated class": {"type": "string", "pattern": r"^[^\s/]+/[^0-9]$"},
    "length": {"type": "string", "minLength": 40, "maxLength": 41},
    "bounds": {"type": "number", "minimum": 1.005, "maximum": 1.006},
    "exclusive, draft 4": {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "integer",
        "minimum": 1,
        "exclusiveMinimum": True,
        "maximum": 2,
    },
    "exclusive": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.001},
    "multiple": {"type": "integer", "multipleOf": 7, "minimum": 50},
    "decimal multiple": {"type": "number", "multipleOf": 0.25, "minimum": 0.3},
    "items": {"type": "array", "items": {"type": "integer"}, "minItems": 3, "maxItems": 3, "uniqueItems": True},
    "tuple": {"type": "array", "items": [{"type": "string"}, {"type": "boolean"}], "additionalItems": False, "minItems": 2},
    "tuple, 2020-12": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "null"}],
        "items": False,
        "minItems": 2,
    },
    "contains": {"type": "array", "contains": {"const": 5}, "items": {"type": "integer"}},
    "allOf": {
        "allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "integer", "minimum": 5}}}],
        "properties": {"a": {"maximum": 6}},
    },
    "oneOf": {"oneOf": [{"type": "string"}, {"type": "object", "required": ["x"], "properties": {"x": {"const": 1}}}]},
    "anyOf in an object": {
        "type": "object",
        "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    },
    "if": {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"enum": ["a", "b"]}},
        "if": {"properties": {"kind": {"const": "a"}}},
        "then": {"required": ["x"]},
        "else": {"required": ["y"]},
    },
    "maps": {
        "type": "object",
        "patternProperties": {"^x-[a-z]{3}$": {"type": "integer"}},
        "additionalProperties": False,
        "minProperties": 2,
    },
    "property names": {"type": "object", "propertyNames": {"pattern": "^[a-z]{4}$"}, "minProperties": 1},
    "dependencies": {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
        "dependencies": {"a": ["b"]},
    },
    "references": {
        "$ref": "#/definitions/a/properties/x~1y",
        "definitions": {"a": {"properties": {"x/y": {"$ref": "#/definitions/b"}}}, "b": {"type": "integer"}},
    },
    "anchor": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#here",
        "$defs": {"a": {"$anchor": "here", "type": "boolean"}},
    },
    "recursion": TREE,
    "recursion in anyOf": {
        "$defs": {
            "t": {"anyOf": [{"type": "object", "required": ["t"], "properties": {"t": {"$ref": "#/$defs/t"}}}, {"type": "null"}]}
        },
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/t",
    },
    "not": {"type": "integer", "minimum": 0, "maximum": 3, "not": {"const": 2}},
    "its own examples": {"type": "string", "examples": ["told"], "pattern": "told"},
    "an example that breaks it": {"type": "string", "examples": [5], "default": 6},
    "nothing": {},
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", JSON_SCHEMAS)
def test_json_schema(name, seed):
    assert example(JSON_SCHEMAS[name], "JSONSchema/draft-07", seed).payload_status == "valid"


def test_an_example_of_the_schema_is_taken():
    assert example(JSON_SCHEMAS["its own examples"], "JSONSchema/draft-07").event["data"] is not None
    assert json.loads(example(JSON_SCHEMAS["its own examples"], "JSONSchema/draft-07").body)["data"] == "told"


PLAIN = st.one_of(
    st.tuples(st.integers(-5, 5), st.integers(0, 9)).map(lambda at: {"type": "integer", "minimum": at[0], "maximum": sum(at)}),
    st.tuples(st.floats(-9, 9), st.floats(0.001, 9)).map(lambda at: {"type": "number", "minimum": at[0], "maximum": sum(at)}),
    st.tuples(st.integers(0, 9), st.integers(0, 9)).map(lambda at: {"type": "string", "minLength": at[0], "maxLength": sum(at)}),
    st.sampled_from(["^a+$", "[0-9]{4}-[0-9]{2}", r"\w\.\w", "^(ab|cd)?x$"]).map(
        lambda text: {"type": "string", "pattern": text}
    ),
    st.lists(st.integers(0, 9) | st.none() | st.sampled_from("ab"), min_size=1, max_size=3).map(lambda held: {"enum": held}),
)
SATISFIABLE = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.tuples(inner, st.integers(0, 2)).map(lambda at: {"type": "array", "items": at[0], "minItems": at[1], "maxItems": 2}),
        st.tuples(st.dictionaries(st.sampled_from("abc"), inner, max_size=2), st.sets(st.sampled_from("abd"))).map(
            lambda at: {"type": "object", "properties": at[0], "required": sorted(at[1])}
        ),
        st.lists(inner, min_size=1, max_size=2).map(lambda held: {"anyOf": held}),
    ),
    max_leaves=5,
)


@law
@for_all(SATISFIABLE, st.integers(0, 99))
def test_a_schema_that_can_be_satisfied_has_an_example(schema, seed):
    assert example(schema, "JSONSchema/draft-07", seed).payload_status == "valid"


@pytest.mark.parametrize(
    "schema",
    [
        False,
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"type": "array", "minItems": 10**9},
        {"type": "string", "minLength": 10**9},
        {"type": "string", "pattern": "^(a{1000}){1000}$"},
        {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
    ],
)
def test_a_schema_that_asks_for_too_much_is_refused_or_reported(schema):
    reported = ""
    try:
        reported = example(schema, "JSONSchema/draft-07").remarks[0]
    except RenderRefused as error:
        reported = str(error)
    assert "no example was found" in reported or "no payload was made up" in reported


CIRCLES = {
    "a part of itself": {"allOf": [{"$ref": "#"}]},
    "twice a part of itself": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "a kind that extends its base": {
        "$ref": "#/definitions/Pet",
        "definitions": {
            "Pet": {"oneOf": [{"$ref": "#/definitions/Dog"}]},
            "Dog": {"allOf": [{"$ref": "#/definitions/Pet"}, {"properties": {"name": {"type": "string"}}}]},
        },
    },
    "a base that is itself": {"type": "object", "$extends": "#"},
    "bases of each other": {
        "$root": "#/definitions/A",
        "definitions": {
            "A": {"name": "A", "type": "object", "$extends": "#/definitions/B"},
            "B": {"name": "B", "type": "object", "$extends": "#/definitions/A"},
        },
    },
}


@pytest.mark.parametrize(
    ("form", "name"),
    [("JSONSchema/draft-07", name) for name in list(CIRCLES)[:3]] + [("JsonStructure/draft-02", name) for name in CIRCLES],
)
def test_a_schema_whose_parts_lead_in_circles_has_no_example_and_a_reason(form, name):
    if form.startswith("JsonStructure"):
        pytest.importorskip("json_structure")
    try:
        reported = example({"$id": "https://example.com/s", "name": "S"} | CIRCLES[name], form).remarks[0]
    except RenderRefused as error:
        reported = str(error)
    assert "circle" in reported or "cannot be read" in reported, reported


def test_a_part_of_itself_that_has_another_kind_has_an_example():
    pet = {"oneOf": [{"$ref": "#/definitions/Dog"}, {"type": "object", "required": ["cat"]}]}
    dog = {"allOf": [{"$ref": "#/definitions/Pet"}]}
    schema = {"$ref": "#/definitions/Pet", "definitions": {"Pet": pet, "Dog": dog}}
    made = Plausible(Random(1))
    assert "cat" in JsonExample(schema, {}.__getitem__, made).make()


def test_a_schema_of_very_many_parts_has_no_example():
    steps = {f"d{n}": {"allOf": [{"$ref": f"#/definitions/d{n + 1}"}] * 2} for n in range(40)}
    schema = {"$ref": "#/definitions/d0", "definitions": {**steps, "d40": {"type": "string"}}}
    for made_up in (JsonExample(schema, {}.__getitem__, Plausible(Random(1))), StructureExample(schema, Plausible(Random(1)))):
        with pytest.raises(Impossible, match="too much"):
            made_up.make()


@pytest.mark.parametrize(
    "member",
    [
        {"type": "array", "items": {"type": "string"}, "minItems": "x"},
        {"type": "string", "maxLength": "x"},
        {"type": "int32", "minimum": "x"},
        {"type": "tuple", "properties": [], "tuple": ["a"]},
    ],
)
def test_a_word_of_json_structure_with_a_value_that_it_cannot_have_is_reported(member):
    made_up = StructureExample({"type": "object", "properties": {"x": member}, "required": ["x"]}, Plausible(Random(1)))
    with pytest.raises(Impossible, match="a word of the schema has a value that it cannot have"):
        made_up.make()


TYPES = (
    "string",
    "boolean",
    "null",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
    "int128",
    "uint128",
    "float",
    "double",
    "number",
    "integer",
    "decimal",
    "date",
    "datetime",
    "time",
    "duration",
    "uuid",
    "uri",
    "binary",
    "jsonpointer",
    "any",
)
STRUCTURES = {
    "all types": {"type": "object", "properties": {name: {"type": name} for name in TYPES}, "required": list(TYPES)},
    "compounds": {
        "type": "object",
        "properties": {
            "list": {"type": "array", "items": {"type": "int32"}},
            "set": {"type": "set", "items": {"type": "string"}},
            "map": {"type": "map", "values": {"type": "double"}},
            "pair": {"type": "tuple", "properties": {"a": {"type": "string"}, "b": {"type": "int32"}}, "tuple": ["a", "b"]},
            "choice": {"type": "choice", "choices": {"x": {"type": "string"}, "y": {"type": "int32"}}},
            "union": {"type": ["null", "string"]},
        },
    },
    "references": {
        "$root": "#/definitions/Order",
        "definitions": {
            "Order": {"type": "object", "properties": {"line": {"type": {"$ref": "#/definitions/Line"}}}, "required": ["line"]},
            "Line": {"type": "object", "properties": {"quantity": {"type": "int32"}}, "required": ["quantity"]},
        },
    },
    "bases": {
        "$root": "#/definitions/Cat",
        "definitions": {
            "Animal": {"abstract": True, "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
            "Cat": {"type": "object", "$extends": "#/definitions/Animal", "properties": {"lives": {"type": "uint8"}}},
        },
    },
    "recursion": {
        "$root": "#/definitions/Node",
        "definitions": {
            "Node": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "next": {"type": ["null", {"$ref": "#/definitions/Node"}]}},
                "required": ["name"],
            }
        },
    },
    "bounds": {
        "$uses": ["JSONStructureValidation"],
        "type": "object",
        "properties": {
            "a": {"type": "int32", "minimum": 5, "maximum": 6},
            "b": {"type": "string", "pattern": "^[A-Z]{3}$"},
            "c": {"type": "double", "exclusiveMinimum": 0, "maximum": 0.5},
            "d": {"type": "array", "items": {"type": "string"}, "minItems": 2},
            "e": {"type": "string", "enum": ["x", "y"]},
            "f": {"type": "int32", "const": 4},
        },
    },
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", STRUCTURES)
def test_json_structure(name, seed):
    pytest.importorskip("json_structure")
    document = {
        "$schema": "https://json-structure.org/meta/extended/v0/#",
        "$id": "https://example.com/s",
        "name": "S",
    } | STRUCTURES[name]
    message = example(document, "JsonStructure/draft-02", seed)
    assert (message.payload_status, message.remarks) == ("valid", ())


XSD = "http://www.w3.org/2001/XMLSchema"
AVRO = {
    "type": "record",
    "name": "R",
    "namespace": "n",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "when", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {"name": "hash", "type": {"type": "fixed", "name": "H", "size": 4}},
        {"name": "again", "type": "H"},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A", "B"]}},
        {"name": "f", "type": "double"},
        {"name": "next", "type": ["null", "R"]},
        {"name": "all", "type": {"type": "array", "items": "R"}},
        {"name": "map", "type": {"type": "map", "values": "boolean"}},
    ],
}
PLAIN_AVRO = {"type": "record", "name": "P", "fields": [{"name": "a", "type": ["null", "string"]}, {"name": "n", "type": "long"}]}


@pytest.mark.parametrize("seed", range(3))
def test_avro_binary_and_in_json(seed):
    binary = example(AVRO, "Avro/1.11", seed)
    assert (binary.payload_status, binary.event["datacontenttype"]) == ("valid", "avro/binary")
    assert "data_base64" in binary.event
    plain = example(PLAIN_AVRO, "Avro/1.11", seed, datacontenttype={"value": "application/json"})
    assert plain.payload_status == "valid"
    assert set(json.loads(plain.body)["data"]) == {"a", "n"}


PROTO = """syntax = "proto3"; package p; import "google/protobuf/timestamp.proto";
message M { string id = 1; repeated int32 n = 2; map<string, M> parts = 3; M next = 4; Kind kind = 5; bytes b = 6; double f = 7;
  oneof which { string left = 8; uint64 right = 9; } optional bool flag = 10; google.protobuf.Timestamp at = 11;
  enum Kind { NONE = 0; SOME = 1; } }"""


def test_protobuf_binary_and_in_json():
    pytest.importorskip("grpc_tools")
    assert example(PROTO, "Protobuf/3").event["datacontenttype"] == "application/protobuf"
    plain = example(PROTO, "Protobuf/3", datacontenttype={"value": "application/json"})
    assert (plain.payload_status, "id" in json.loads(plain.body)["data"]) == ("valid", True)


ORDER = {
    "type": "object",
    "required": ["orderId", "total", "paid"],
    "properties": {
        "orderId": {"type": "string", "pattern": "^[0-9]{4}$"},
        "total": {"type": "integer", "maximum": 9},
        "paid": {"type": "boolean"},
    },
}


def test_placeholders_take_the_members_of_their_names_where_they_fit():
    message = example(ORDER, "JSONSchema/draft-07", subject={"value": "{order_id}/{total}"})
    data = json.loads(message.body)["data"]
    assert message.variables == {"order_id": data["orderId"], "total": str(data["total"])}
    slashed = {"type": "object", "required": ["region"], "properties": {"region": {"const": "a/b"}}}
    assert "/" not in example(slashed, "JSONSchema/draft-07", subject={"value": "x/{region}"}).variables["region"]


def test_values_that_were_given_go_into_members_of_their_names():
    message = example(ORDER, "JSONSchema/draft-07", values={"orderid": "1234"}, subject={"value": "{orderid}"})
    assert json.loads(message.body)["data"]["orderId"] == "1234"
    breaking = example(ORDER, "JSONSchema/draft-07", values={"orderid": "x"}, subject={"value": "{orderid}"})
    assert breaking.variables == {"orderid": "x"}
    assert breaking.payload_status == "valid"


def test_a_placeholder_of_a_typed_attribute_has_a_text_of_the_type():
    message = example(
        ORDER,
        "JSONSchema/draft-07",
        time={"value": "{at}", "type": "timestamp"},
        due={"value": "{day}T00:00:00Z", "type": "timestamp"},
        count={"value": "{count}", "type": "integer"},
        last={"value": "{last}", "type": "boolean"},
    )
    assert message.variables["at"].endswith("Z")
    assert message.variables["count"].isdigit()
    assert message.variables["last"] in ("true", "false")


def test_a_schema_that_is_not_there_is_reported():
    [way] = bindings_of(row(cloudevent() | {"dataschemauri": XID}), (), ["CLOUDEVENTS"])
    message = Renderer(Schemas([]), RenderStyle(example=True)).render(way)
    assert message.remarks[0] == f"no payload was made up: {XID} is not in the catalog"
    assert "data" not in message.event


XSD = "http://www.w3.org/2001/XMLSchema"
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "raw", "type": "bytes"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "parts", "type": {"type": "array", "items": ["null", "long"]}},
    ],
}


@pytest.mark.parametrize(
    ("schema", "form", "names"),
    [
        (AVRO, "Avro/1.11.1", {"id", "raw", "day", "parts"}),
        ('syntax = "proto3"; message M { string order_id = 1; repeated int32 n = 2; }', "Protobuf/3", {"order_id", "n"}),
        ({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}}, "JSONSchema/draft-07", None),
        (f'<schema xmlns="{XSD}"><element name="a" type="string"/></schema>', "XSD/1.0", None),
    ],
)
def test_an_encoded_payload_is_readable_as_json(schema, form, names):
    definition = row(cloudevent() | {"dataschemauri": XID, "dataschemaformat": form})
    selected = Selected([definition], [], [SchemaVersion("r", f"{XID}/versions/1", XID, True, form, json.dumps(schema))])
    renderer = renderer_of(selected, NOW)
    samples = samples_of(selected, renderer)
    payload = payload_of_samples(samples, selected, renderer)
    assert (None if payload is None else set(payload)) == names
    assert payload_of_samples(samples[1:], selected, renderer) == payload
    if form.startswith("Avro"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", payload["day"])
        assert all(part is None or isinstance(part, int) for part in payload["parts"])


@pytest.mark.parametrize("name", ["xsd choice", "property names", "avro records"])
def test_a_schema_that_would_hang_has_no_example(name, monkeypatch):
    monkeypatch.setattr("lakehouse.match.payload.payloads._SECONDS_TO_MAKE", 1.0)
    monkeypatch.setattr("lakehouse.render.example.payload._SECONDS", 0.5)
    format_, schema, _, _ = HANGING[name]

    def reported() -> str:
        try:
            return example(schema, format_).remarks[0]
        except RenderRefused as error:
            return str(error)

    assert re.search("took more than|asks for too much", run_in_fork(reported, 60))
