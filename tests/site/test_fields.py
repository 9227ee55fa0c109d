"""Tables of fields: each field of each language is a row, or the page says what is not listed."""

from __future__ import annotations

import json
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.site.fields.listing import DEEPEST, MOST_ROWS
from lakehouse.site.schematext import readable

PROTOBUF = """
syntax = "proto3";
package shop.v1;
import "google/protobuf/timestamp.proto";
// What a customer bought.
message Order {
  string id = 1; string customer = 2; // who bought
  string site = 3 [json_name = "http://x"]; int64 total = 4;
  map<string, Line> lines = 5;
  oneof paid_by { Card card = 6; string voucher = 7; }
  optional string note = 8; repeated Status states = 9;
  google.protobuf.Timestamp at = 10;
  message Card { string number = 1 [deprecated = true]; }
  enum Status { UNKNOWN = 0; OPEN = 1; /* { */ CLOSED = 2; }
}
message Line { Line next = 1; }
enum Colour { RED = 0; }
service Orders { rpc Watch(Order) returns (stream Line); }
"""
XSD = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:element name="order"><xs:complexType>
  <xs:sequence>
    <xs:element name="id" type="Isbn"><xs:annotation><xs:documentation>Its number.</xs:documentation></xs:annotation></xs:element>
    <xs:element name="line" type="Line" minOccurs="0" maxOccurs="unbounded"/>
    <xs:choice><xs:element name="card" type="xs:string"/><xs:sequence><xs:element name="iban" type="xs:string"/>
      <xs:element name="bic" type="xs:string"/></xs:sequence></xs:choice>
  </xs:sequence>
  <xs:attribute name="currency" use="required"><xs:simpleType><xs:restriction base="xs:string">
    <xs:enumeration value="EUR"/><xs:enumeration value="NOK"/></xs:restriction></xs:simpleType></xs:attribute>
</xs:complexType></xs:element>
<xs:complexType name="Line"><xs:sequence><xs:element name="part" type="Line" minOccurs="0"/></xs:sequence></xs:complexType>
<xs:complexType name="Unused"><xs:sequence><xs:element name="lost" type="xs:int"/></xs:sequence></xs:complexType>
<xs:simpleType name="Isbn"><xs:restriction base="xs:string"><xs:pattern value="[0-9]{13}"/></xs:restriction></xs:simpleType>
</xs:schema>"""
AVRO = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "payment", "type": ["null", {"type": "record", "name": "Card", "fields": [{"name": "number", "type": "string"}]},
                                     {"type": "record", "name": "Iban", "fields": [{"name": "iban", "type": "string"}]}]},
        {"name": "refund", "type": ["null", "shop.Card"], "default": None},
        {"name": "next", "type": ["null", "Order"]},
        {"name": "states", "type": {"type": "array", "items": {"type": "enum", "name": "State", "symbols": [*"ABCDEFGHIJKLMN"]}}},
    ],
}  # fmt: skip
JSON_SCHEMA = {
    "type": "object",
    "required": ["id", "undeclared"],
    "properties": {
        "id": {"$ref": "#/definitions/Id"},
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "object", "properties": {"cell": {}}}}},
        "pet": {
            "oneOf": [
                {"title": "Dog", "properties": {"bark": {"type": "string"}}},
                {"title": "Cat", "properties": {"meow": {"type": "integer"}}},
            ]
        },
        "prices": {"type": "object", "additionalProperties": {"type": "object", "properties": {"amount": {"type": "number"}}}},
        "maybe": {"anyOf": [{"type": "null"}, {"properties": {"inside": {"type": "string"}}}]},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "pair": {"type": "array", "items": [{"type": "string"}, {"properties": {"second": {}}}]},
        "other": {"$ref": "https://shop.example/other.json"},
        "parent": {"$ref": "#"},
    },
    "patternProperties": {"^x-": {"type": "string"}},
    "if": {"required": ["pet"]},
    "then": {"properties": {"vet": {"type": "string"}}},
    "definitions": {"Id": {"type": "string", "format": "uuid"}},
}
STRUCTURE = {
    "$root": "#/definitions/Order",
    "definitions": {
        "Base": {"type": "object", "abstract": True, "properties": {"id": {"type": "uuid"}}, "required": ["id"]},
        "Order": {
            "type": "object",
            "$extends": "#/definitions/Base",
            "properties": {
                "lines": {"type": "map", "values": {"type": "object", "properties": {"isbn": {"type": "string"}}}},
                "paid": {"type": "choice", "choices": {"card": {"$ref": "#/definitions/Card"}, "cash": {"type": "decimal"}}},
                "either": {"type": ["null", {"$ref": "#/definitions/Card"}, "string"]},
            },
        },
        "Card": {"type": "object", "properties": {"number": {"type": "string"}}},
    },
}  # fmt: skip


def table(schema, format_: str) -> list[str]:
    """Write the rows of a table as lines: indented by depth."""
    return ["  " * one.depth + f"{one.name}: {one.type}" for one in readable(schema, format_).fields]


def row(schema, format_: str, name: str):
    return next(one for one in readable(schema, format_).fields if one.name == name)


def test_numbers_of_a_schema_keep_their_digits():
    text = json.dumps({"type": "integer", "maximum": 10**25 + 1})
    assert f'"maximum": {10**25 + 1}' in readable(text, "JSONSchema/2020-12").text


def test_protobuf_has_each_field_value_and_comment():
    assert table(PROTOBUF, "Protobuf/3") == [
        "Order: message",
        "  id: string",
        "  customer: string",
        "  site: string",
        "  total: int64",
        "  lines: map<string, Line>",
        "  paid_by: oneof",
        "    card: Order.Card",
        "    voucher: string",
        "  note: string",
        "  states: repeated Order.Status",
        "  at: google.protobuf.Timestamp",
        "  Card: message",
        "    number: string",
        "  Status: enum",
        "    UNKNOWN: value",
        "    OPEN: value",
        "    CLOSED: value",
        "Line: message",
        "  next: Line",
        "Colour: enum",
        "  RED: value",
        "Orders: service",
        "  Watch: Order → stream of Line",
    ]
    assert row(PROTOBUF, "Protobuf/3", "Order").description == "What a customer bought."
    assert row(PROTOBUF, "Protobuf/3", "customer").description == "who bought"
    assert row(PROTOBUF, "Protobuf/3", "number").limits == "no. 1; deprecated"
    assert "google/protobuf/timestamp.proto" in readable(PROTOBUF, "Protobuf/3").notes[0]


def test_proto2_says_what_is_required_and_the_default():
    text = 'syntax = "proto2"; message A { required int32 a = 1; optional string b = 2 [default = "//x"]; optional int32 c = 3; }'
    assert [(one.name, one.required) for one in readable(text, "Protobuf/2").fields[1:]] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]
    assert row(text, "Protobuf/2", "b").limits == "no. 2; default //x"


def test_json_schema_has_alternatives_other_names_and_items():
    assert table(JSON_SCHEMA, "JSONSchema/draft-07") == [
        "id: Id (string)",
        "grid: array of array of object",
        "  cell: any",
        "pet: Dog or Cat",
        "  (one of): Dog",
        "    bark: string",
        "  (one of): Cat",
        "    meow: integer",
        "prices: object",
        "  (other names): object",
        "    amount: number",
        "maybe: null or object",
        "  inside: string",
        "tags: array of enum",
        "pair: array",
        "  [0]: string",
        "  [1]: object",
        "    second: any",
        "other: other.json",
        "parent: the whole schema",
        "undeclared: any",
        "(names like ^x-): string",
        '(then: if {"required":["pet"]}): object',
        "  vet: string",
    ]
    assert row(JSON_SCHEMA, "JSONSchema/draft-07", "id").required
    assert row(JSON_SCHEMA, "JSONSchema/draft-07", "id").limits == "format uuid"
    assert row(JSON_SCHEMA, "JSONSchema/draft-07", "tags").limits == "each: one of a, b"
    assert "recursion" in row(JSON_SCHEMA, "JSONSchema/draft-07", "parent").note
    assert row(JSON_SCHEMA, "JSONSchema/draft-07", "other").note == "https://shop.example/other.json is not in this document"


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        ({"oneOf": [{"title": "A", "properties": {"a": {}}}, {"properties": {"b": {}}}]},
         ["(one of): A", "  a: any", "(one of): object", "  b: any"]),
        ({"type": "array", "items": {"type": "array", "items": {"properties": {"a": {}}}}},
         ["(value): array of array of object", "  a: any"]),
        ({"type": "string", "enum": ["x"]}, ["(value): string"]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, ["(other names): integer"]),
        ({"$defs": {"A": {"properties": {"a": {}}}}}, ["A: object", "  a: any"]),
        ({"allOf": [{"$ref": "#/$defs/A"}, {"required": ["a"]}], "$defs": {"A": {"properties": {"a": {"type": "string"}}}}},
         ["a: string"]),
        ({"$ref": "#a", "$defs": {"A": {"$anchor": "a", "properties": {"a": True}}}}, ["a: any"]),
        ({"properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}, ["kids: array of the whole schema"]),
    ],
)  # fmt: skip
def test_roots_of_json_schema(schema, rows):
    assert table(schema, "JSONSchema/2020-12") == rows


def test_json_structure_has_values_choices_and_bases():
    assert table(STRUCTURE, "JSONStructure/draft-02") == [
        "lines: map of object",
        "  isbn: string",
        "paid: choice",
        "  card: Card",
        "    number: string",
        "  cash: decimal",
        "either: null or Card or string",
        "  (one of): Card",
        "    number: string",
        "  (one of): string",
        "id: uuid",
    ]
    assert row(STRUCTURE, "JSONStructure/draft-02", "id").required
    added = STRUCTURE | {"$offers": {"More": "#/definitions/Base"}}
    assert readable(added, "JSONStructure/draft-02").notes == ("What it offers ($offers) is not listed.",)


def test_avro_has_alternatives_below_their_union_and_named_types_where_they_are_named():
    for schema in (AVRO, json.dumps(AVRO)):
        assert table(schema, "Avro/1.11.1") == [
            "id: string",
            "payment: null or record Card or record Iban",
            "  (one of): record Card",
            "    number: string",
            "  (one of): record Iban",
            "    iban: string",
            "refund: shop.Card",
            "  number: string",
            "next: Order",
            "states: array of enum State",
        ]
    assert row(AVRO, "Avro/1.11.1", "id").limits == "logicalType uuid"
    assert row(AVRO, "Avro/1.11.1", "states").limits.endswith("K, L and 2 more")
    assert row(AVRO, "Avro/1.11.1", "refund").limits == "default null"
    assert "recursion" in row(AVRO, "Avro/1.11.1", "next").note
    assert table({"type": "enum", "name": "E", "symbols": ["A"]}, "Avro/1.9.0") == ["E: enum E"]


def test_xsd_has_elements_attributes_choices_and_types_of_no_element():
    assert table(XSD, "XSD/1.1") == [
        "order: complexType",
        "  @currency: string",
        "  id: Isbn",
        "  line: Line",
        "    part: Line",
        "  (one of): group",
        "    card: string",
        "    (together): group",
        "      iban: string",
        "      bic: string",
        "Unused: complexType",
        "  lost: int",
    ]
    assert row(XSD, "XSD/1.1", "@currency").limits == "one of EUR, NOK"
    assert row(XSD, "XSD/1.1", "id")[4:6] == ("Its number.", "pattern [0-9]{13}")
    assert row(XSD, "XSD/1.1", "line").limits == "0 times or more"
    assert "recursion" in row(XSD, "XSD/1.1", "part").note


@pytest.mark.parametrize(
    ("schema", "format_", "said"),
    [
        ('syntax = "proto3"; message A { string a = 1 }', "Protobuf/3", 'does not compile the schema: 1:45: Expected ";"'),
        ('import "common.proto"; message A {}', "Protobuf/3", "common.proto: File not found"),
        ("<a/>", "XSD/1.1", "no valid XML Schema"),
        ("<xs:schema xmlns:xs='http://www.w3.org/2001/XMLSchema'><xs:include schemaLocation='o.xsd'/></xs:schema>",
         "XSD/1.0", "o.xsd"),
        ("no json", "JSONSchema/draft-07", "it is no JSON"),
        ('{"items":' * 900 + "{}" + "}" * 900, "JSONSchema/draft-07", "nested too deep"),
        ("namespace a { }", "Smithy/2", "Fields of the format Smithy/2 are not listed."),
        ("x" * 400_001, "Protobuf/3", "400,001 characters"),
    ],
)  # fmt: skip
def test_what_is_not_listed_is_said(schema, format_, said):
    found = readable(schema, format_)
    assert found.fields == []
    assert said in found.notes[0]


@pytest.mark.parametrize(("format_", "module"), [("Protobuf/3", "grpc_tools"), ("XSD/1.1", "xmlschema")])
def test_without_its_library_the_page_says_what_to_install(format_, module, monkeypatch):
    reader = "protobufnodes" if module == "grpc_tools" else "xsdnodes"
    for name in (f"lakehouse.site.fields.{reader}", "lakehouse.match.payload.protobuf", "lakehouse.match.payload.xsd"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    note = readable(f"new {format_}", format_).notes[0]
    assert "pip install 'xregistry-lakehouse[match]'" in note
    assert module in note


def test_what_is_too_deep_or_too_much_is_said():
    deep: dict = {"type": "string"}
    for at in range(DEEPEST + 3):
        deep = {"type": "object", "properties": {f"p{at}": deep, f"q{at}": {}}}
    found = readable(deep, "JSONSchema/draft-07")
    assert "too deep: 2 more below" in [one.note for one in found.fields]
    wide = readable({"properties": {f"p{n}": {} for n in range(MOST_ROWS + 1)}}, "JSONSchema/draft-07")
    assert (len(wide.fields), wide.is_more) == (MOST_ROWS, True)
    named = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"oneOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 9}]} for n in range(60)
    }
    found = readable({"$ref": "#/$defs/d0", "$defs": named | {"d60": {"properties": {"a": {}}}}}, "JSONSchema/2020-12")
    assert found.fields or found.notes


def test_recursion_that_never_gains_a_field_ends():
    for schema in (
        {"$ref": "#"},
        {"type": "array", "items": {"$ref": "#"}},
        {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {"$dynamicRef": "#x", "$dynamicAnchor": "x"},
        {"additionalProperties": {"$ref": "#"}},
    ):
        assert len(readable(schema, "JSONSchema/2020-12").fields) <= MOST_ROWS


words = st.sampled_from(
    ["type", "properties", "items", "oneOf", "allOf", "$ref", "required", "enum", "values", "choices", "$extends", "fields",
     "name", "record", "array", "map", "#", "#/properties/a", "a", "definitions", "additionalProperties", "then",
     "symbols", "$root"]
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=5),
    max_leaves=30,
)


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(values, st.sampled_from(["JSONSchema/draft-07", "JSONStructure/draft-02", "Avro/1.11.1", ""]))
def test_no_schema_breaks_a_page(schema, format_):
    found = readable(schema, format_)
    assert len(found.fields) <= MOST_ROWS
