"""Fields of payloads as search knows them: names with those that they are within, of each format of schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sitecatalogs import Catalog, opened

from lakehouse.readmodel.file.words import EFFECTIVE, field_paths, payload_fields, words_of_message
from lakehouse.readmodel.wordsearch import search
from lakehouse.text.names import Xid

JSON_SCHEMA = {
    "properties": {
        "id": {"type": "string"},
        "address": {"type": "object", "properties": {"region": {"type": "string"}}},
        "lines": {"type": "array", "items": {"properties": {"isbn": {}}}},
        "properties": {"enum": [{"properties": {"never": {}}}]},
    },
    "allOf": [{"properties": {"total": {}}}],
    "$defs": {"Place": {"properties": {"city": {}}}},
}
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "address", "type": ["null", {"type": "record", "name": "A", "fields": [{"name": "region", "type": "string"}]}]},
    ],
}
PROTOBUF = """syntax = "proto3"; // string no = 9;
message Order { string id = 1; repeated Line lines = 2; map<string, string> notes = 3; oneof way { int32 van = 4; }
/* int32 gone = 5; */ }"""
XML = """<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">
<xs:element name="order"><xs:complexType><xs:attribute type="xs:string" name='id'/></xs:complexType></xs:element></xs:schema>"""


@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        (JSON_SCHEMA, ["id", "address", "address.region", "lines", "lines.isbn", "properties", "total", "city"]),
        (json.dumps(AVRO), ["id", "address", "address.region"]),
        (PROTOBUF, ["id", "lines", "notes", "van"]),
        (XML, ["order", "id"]),
        (True, []),
        ("{", []),
    ],
)
def test_fields_are_listed_of_every_format(schema, paths):
    assert field_paths(schema) == paths


def test_a_schema_that_never_ends_is_cut():
    nested: dict = {}
    for _ in range(200):
        nested = {"properties": {"a": nested}}
    assert len(field_paths(nested)) < 200
    assert len(field_paths({"properties": {f"p{n}": {} for n in range(5000)}})) == 1000


def test_the_version_that_a_message_names_counts_else_the_default_one():
    bodies: dict[str, dict[str, Any]] = {
        "/schemagroups/s/schemas/o": {"defaultversionid": "2"},
        "/schemagroups/s/schemas/o/versions/1": {"schema": {"properties": {"first": {}}}},
        "/schemagroups/s/schemas/o/versions/2": {"schema": {"properties": {"second": {}}}},
    }
    for uri, wanted in (
        ("#/schemagroups/s/schemas/o/versions/1", ["first"]),
        ("#/schemagroups/s/schemas/o", ["second"]),
        ("#/no", []),
    ):
        definition = {"schema_xid": None, "dataschemauri": uri, "attributes": {}}
        assert payload_fields(definition, lambda _, xid: bodies.get(xid)) == wanted
    inline = {"schema_xid": None, "dataschemauri": None, "attributes": {"/dataschema": '{"properties": {"own": {}}}'}}
    assert payload_fields(inline, lambda *_: None) == ["own"]


NAMED = ({"dataschemauri": "#/schemagroups/s/schemas/o"}, {"dataschemaxid": "/schemagroups/s/schemas/o"},
         {"dataschemaxid": "/schemagroups/s/schemas/o/versions/1"}, {"dataschemauri": "#/schemagroups/s/schemas/alias"},
         {"dataschemaxid": "/schemagroups/s/schemas/alias/versions/1"})  # fmt: skip


def document(named: dict, *fields: str) -> dict:
    versions = {"1": {"format": "JSONSchema/draft-07", "schema": {"properties": {name: {} for name in fields}}}}
    if "versions" in named.get("dataschemaxid", ""):
        versions["2"] = {"format": "JSONSchema/draft-07", "schema": {"properties": {"orderOfTheDefault": {}}}, "ancestor": "1"}
    return {
        "messagegroups": {"g": {"messages": {"m": named | {"dataschemaformat": "JSONSchema/draft-07"}}}},
        "schemagroups": {
            "s": {"schemas": {"o": {"versions": versions}, "alias": {"meta": {"xref": "/schemagroups/s/schemas/o"}}}}
        },
    }


@pytest.mark.parametrize("named", NAMED)
def test_a_message_is_found_by_a_field_that_its_schema_has_since_a_moment_ago(tmp_path, named):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.ingest({"file:/a.json": ("default", document(named, "orderId"))})
    model = opened(catalog.folder, tmp_path / "readmodel")
    with model.at() as view:
        (hit,) = search(view, "field:order", ["message"])
        assert (hit.where, hit.fragments) == (["fields"], ["payload field orderId"])
    catalog.ingest({"file:/a.json": ("default", document(named, "customer"))})
    model.refresh()
    with model.at() as view:
        assert search(view, "field:order", ["message"]) == []
        assert [one.xid for one in search(view, "field:cust", ["message"])] == [hit.xid]
        assert search(view, "attr:cust") == []


def test_declared_names_of_a_long_definition_are_the_same_in_a_first_index_and_a_later_one():
    attributes = {f"/labels/l{number}": json.dumps("x" * 100) for number in range(300)}
    attributes["/envelopemetadata/zone/required"] = "true"
    row = [json.dumps(attributes) if name == "attributes" else None for name in EFFECTIVE]
    xid = Xid("/messagegroups/g/messages/m")
    assert words_of_message(xid, row).names == words_of_message(xid, row, (), tuple(attributes)).names == "zone"
