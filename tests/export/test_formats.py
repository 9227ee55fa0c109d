"""What is written for other tools: entities of Backstage, data contracts, sources of dbt."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from asyncapitrips import bodies, load
from builders import stored
from called import Caller
from conftest import Catalog
from jsonschema.validators import validator_for
from open_data_contract_standard.model import OpenDataContractStandard

from lakehouse.export.odcs import MOST_PROPERTIES, properties_of
from lakehouse.export.otherformats import FORMATS
from lakehouse.export.run import ExportRequest, export
from lakehouse.export.writers import WriteStyle, whole_registry
from lakehouse.text.names import RegistryId
from lakehouse.text.yamltext import as_yaml

DATA = Path(__file__).parents[1] / "data" / "asyncapi"
DEMO = Path(__file__).parents[2] / "lakehouse" / "cli" / "demo"
DDL = Path(__file__).parents[2] / "ddl"
ODCS_SCHEMA = json.loads((files("open_data_contract_standard") / "schema.json").read_text())
DOCUMENTS = sorted([*DATA.glob("*.yaml"), *DEMO.glob("*.json")])


def registry_of(path: Path) -> dict[str, Any]:
    """Return a document as an export reads it from the catalog."""
    reading = load(path)
    flat = bodies(reading)
    rows = [row._replace(body=json.dumps(flat[row.xid])) if row.kind == "version" else row for row in stored(reading)]
    return whole_registry(RegistryId("r"), rows)


def apis(registry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the entities of Backstage by the XID that they are of."""
    (text,) = FORMATS["backstage"].write({"registryid": "r"} | registry, WriteStyle()).files.values()
    return {one["metadata"]["annotations"]["xregistry-xid"]: one for one in yaml.safe_load_all(text)}


def contracts(registry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the data contracts by the names of their files."""
    written = FORMATS["odcs"].write({"registryid": "r"} | registry, WriteStyle()).files
    return {name: yaml.safe_load(text) for name, text in written.items()}


def messages_of(registry: dict[str, Any]) -> set[str]:
    return {
        f"/messagegroups/{name}/messages/{key}"
        for name, one in registry["messagegroups"].items()
        for key in one.get("messages", ())
    }


# Backstage


def test_each_group_that_has_messages_is_an_api():
    registry = registry_of(DATA / "depot.yaml")
    made = apis(registry)
    assert set(made) == {xid.partition("/messages/")[0] for xid in messages_of(registry)}
    parcels = made["/messagegroups/kafka.depot.parcels"]
    assert parcels["kind"] == "API"
    assert parcels["spec"]["type"] == "asyncapi"
    definition = json.loads(parcels["spec"]["definition"])
    assert {one["address"] for one in definition["channels"].values()} == {"depot.parcels"}
    assert {one["action"] for one in definition["operations"].values()} == {"send", "receive"}
    assert set(definition["components"]["messages"]) == {"ParcelMoved", "ParcelLost"}


def test_labels_say_owner_lifecycle_and_system():
    group = {
        "labels": {"team": "lamps", "stage": "experimental", "system": "light", "urgent": "", "x": "y"},
        "messages": {"On": {}},
    }
    (made,) = apis({"messagegroups": {"g": group}}).values()
    assert {name: made["spec"][name] for name in ("owner", "lifecycle", "system")} == {
        "owner": "lamps",
        "lifecycle": "experimental",
        "system": "light",
    }
    assert made["metadata"]["tags"] == ["urgent"]
    assert made["metadata"]["labels"] == {"x": "y"}


@pytest.mark.parametrize(
    ("registry", "endpoint", "group", "said"),
    [
        ({"owner": "platform"}, {}, {"team": "checkout"}, {"owner": "checkout", "lifecycle": "production"}),
        ({"lifecycle": "production"}, {}, {"stage": "test"}, {"owner": "unknown", "lifecycle": "test"}),
        ({"owner": "platform"}, {"team": "carts"}, {"owner": ""}, {"owner": "carts", "lifecycle": "production"}),
        ({"owner": "platform", "system": "shop"}, {"system": "till"}, {},
         {"owner": "platform", "lifecycle": "production", "system": "till"}),
    ],
)  # fmt: skip
def test_the_nearest_label_says_owner_lifecycle_and_system(registry, endpoint, group, said):
    groups = {"g": {"labels": group, "messages": {"On": {}}}}
    endpoints = {"e": {"usage": ["producer"], "messagegroups": ["/messagegroups/g"], "labels": endpoint}}
    (made,) = apis({"labels": registry, "messagegroups": groups, "endpoints": endpoints}).values()
    assert {name: value for name, value in made["spec"].items() if name not in ("type", "definition")} == said


def test_the_nearest_label_says_whose_a_contract_is():
    group = {
        "labels": {"owner": "platform", "status": "draft", "domain": "shop"},
        "messages": {"On": {"labels": {"team": "lamps", "status": ""}}},
    }
    (contract,) = contracts({"messagegroups": {"g": group}}).values()
    assert {name: contract[name] for name in ("team", "status", "domain")} == {
        "team": {"name": "lamps"},
        "status": "draft",
        "domain": "shop",
    }


def test_an_endpoint_that_has_messages_of_no_group_is_an_api_and_a_deprecated_one_says_so():
    endpoint = {"usage": ["producer"], "messages": {"On": {}}, "deprecated": {"effective": "2020-01-01T00:00:00Z"}}
    made = apis({"endpoints": {"e": endpoint}})
    assert list(made) == ["/endpoints/e"]
    assert made["/endpoints/e"]["spec"] | {"definition": ""} == {
        "type": "asyncapi",
        "lifecycle": "deprecated",
        "owner": "unknown",
        "definition": "",
    }


def test_names_are_unique_and_short():
    groups = {name: {"messages": {"On": {}}} for name in ("a:b", "a~b", "l" * 90, "l" * 91)}
    names = [one["metadata"]["name"] for one in apis({"messagegroups": groups}).values()]
    assert names[:2] == ["a-b", "a-b-2"]
    assert len(set(names)) == 4
    assert max(map(len, names)) <= 63


# Data contracts


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.stem)
def test_contracts_are_valid_by_the_schema_of_the_standard(path):
    registry = registry_of(path)
    made = contracts(registry)
    assert {one["id"].removeprefix("r:") for one in made.values()} >= messages_of(registry)
    validator = validator_for(ODCS_SCHEMA)(ODCS_SCHEMA)
    assert [(name, error.message) for name, one in made.items() for error in validator.iter_errors(one)] == []
    for one in made.values():
        OpenDataContractStandard.from_string(as_yaml(one).decode())


def test_a_contract_has_servers_topic_and_fields():
    made = contracts(registry_of(DATA / "depot.yaml"))["messagegroups/kafka.depot.parcels/ParcelMoved"]
    assert made["servers"][0] == {
        "server": "example-depot.moveParcel",
        "type": "kafka",
        "host": "bus.depot.example:9093",
        "format": "json",
        "description": "Signed by the sender.",
    }
    (schema,) = made["schema"]
    assert (schema["name"], schema["physicalName"], schema["physicalType"]) == ("ParcelMoved", "depot.parcels", "topic")
    assert [one["name"] for one in schema["properties"]] == ["at", "id", "inside"]


LAMP = "/schemagroups/s/schemas/Lamp"


@pytest.mark.parametrize(
    ("named", "fields"),
    [
        (LAMP, {"second"}),
        (f"{LAMP}/versions/1", {"first"}),
        (f"{LAMP}/versions/3", None),
        ("/schemagroups/s/schemas/Alias", {"second"}),
        ("/schemagroups/s/schemas/Alias/versions/1", {"first"}),
        ("/schemagroups/s/schemas/Alias/versions/3", None),
        ("/schemagroups/s/schemas/OfAlias", None),
        ("/schemagroups/s/schemas/Nowhere", None),
    ],
)
@pytest.mark.parametrize("attribute", ["dataschemaxid", "dataschemauri"])
def test_a_message_has_the_fields_of_the_schema_that_it_names_also_by_an_alias(attribute, named, fields):
    versions = {
        str(number): {"format": "JSONSchema/draft-07", "schema": {"type": "object", "properties": {name: {"type": "string"}}}}
        for number, name in enumerate(("first", "second"), 1)
    }
    lamp = {"versionid": "2", **versions["2"], "versions": versions}
    aliases = {
        name: {"meta": {"xref": f"/schemagroups/s/schemas/{target}"}}
        for name, target in (("Alias", "Lamp"), ("OfAlias", "Alias"), ("Nowhere", "none"))
    }
    message = {"protocol": "KAFKA", "dataschemaformat": "JSONSchema/draft-07", attribute: named}
    registry = {
        "messagegroups": {"g": {"messages": {"On": message}}},
        "schemagroups": {"s": {"schemas": {"Lamp": lamp, **aliases}}},
    }
    (contract,) = contracts(registry).values()
    properties = contract["schema"][0].get("properties")
    assert (properties and {one["name"] for one in properties}) == fields
    definition = json.loads(apis(registry)["/messagegroups/g"]["spec"]["definition"])
    (written,) = definition["components"]["messages"].values()
    schemas = definition.get("components", {}).get("schemas", {})
    shown = schemas.get(written.get("payload", {}).get("$ref", "").rpartition("/")[2], {})
    assert (set(shown["properties"]) if shown else None) == fields


def test_a_message_of_an_endpoint_that_says_the_same_has_no_second_contract():
    groups = {"g": {"messages": {"On": {"name": "on"}}}}
    endpoints = {"e": {"messages": {"On": {"name": "on"}, "Off": {"name": "off"}}}}
    assert list(contracts({"messagegroups": groups, "endpoints": endpoints})) == ["messagegroups/g/On", "endpoints/e/Off"]


JSON_SCHEMA = {
    "type": "object",
    "required": ["id"],
    "properties": {
        "id": {"type": "string", "minLength": 1, "description": "number"},
        "at": {"type": "string", "format": "date-time"},
        "next": {"$ref": "#"},
        "either": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}
AVRO = """{"type": "record", "name": "P", "fields": [
  {"name": "id", "type": "string"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
  {"name": "next", "type": ["null", "P"], "default": null},
  {"name": "either", "type": ["string", "int"]},
  {"name": "tags", "type": {"type": "array", "items": "string"}},
  {"name": "counts", "type": {"type": "map", "values": "int"}}]}"""
PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message P { string id = 1; google.protobuf.Timestamp at = 2; P next = 3; E either = 4; repeated string tags = 5;
  map<string, int32> counts = 6; } enum E { NONE = 0; ONE = 1; }"""
SHAPES = [("JSONSchema/draft-07", JSON_SCHEMA), ("Avro/1.11", AVRO), ("Protobuf/3", PROTO)]


@pytest.mark.parametrize(("schema_format", "schema"), SHAPES, ids=[one for one, _ in SHAPES])
def test_fields_of_a_schema_are_properties(schema_format, schema):
    fields = {one["name"]: one for one in properties_of(schema_format, schema) or []}
    assert {name: one["logicalType"] for name, one in fields.items()} == {
        "id": "string",
        "at": "timestamp",
        "next": "object",
        "either": "string",
        "tags": "array",
        "counts": "map",
    }
    assert fields["tags"]["items"]["logicalType"] == "string"
    assert fields["counts"]["map"]["value"]["logicalType"] == "integer"


def test_what_is_required_and_how_long_it_is():
    fields = {one["name"]: one for one in properties_of("JSONSchema/draft-07", JSON_SCHEMA) or []}
    assert fields["id"]["required"] is True
    assert fields["id"]["logicalTypeOptions"] == {"minLength": 1}
    assert fields["id"]["description"] == "number"
    assert "required" not in fields["at"]


def fields_of(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in properties_of("JSONSchema/draft-07", schema) or []}


@pytest.mark.parametrize("again", [{"$ref": "#/definitions/Item"}, {"allOf": [{"$ref": "#/definitions/Base"}]}])
def test_a_base_class_may_be_used_again_further_down(again):
    definitions = {
        "Base": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        "Item": {"allOf": [{"$ref": "#/definitions/Base"}], "properties": {"item": again}},
    }
    fields = fields_of(
        {"allOf": [{"$ref": "#/definitions/Base"}], "properties": {"item": {"$ref": "#/definitions/Item"}}}
        | {"definitions": definitions}
    )
    assert list(fields) == ["id", "item"]
    inner = {one["name"]: one for one in fields["item"]["properties"]}
    assert inner["id"] == fields["id"]
    is_circle = again == {"$ref": "#/definitions/Item"}
    assert inner["item"].get("properties") == (None if is_circle else [fields["id"]])


def test_types_that_contain_themselves_end():
    a = {"properties": {"x": {"allOf": [{"$ref": "#/definitions/A"}]}, "y": {"type": "string"}}}
    fields = fields_of(
        {"allOf": [{"$ref": "#/definitions/A"}], "definitions": {"A": {"allOf": [a, {"$ref": "#/definitions/A"}]}}}
    )
    assert list(fields) == ["x", "y"]
    assert "properties" not in fields["x"]


def test_a_branch_that_refers_to_another_one_is_no_circle():
    leaf, pair = {"properties": {"x": {"type": "string"}}}, {"properties": {"x": {"$ref": "#/definitions/Leaf"}, "id": {}}}
    for names in (("Leaf", "Pair"), ("Pair", "Leaf")):
        alternatives = [{"$ref": f"#/definitions/{name}"} for name in names]
        fields = fields_of({"oneOf": alternatives, "definitions": {"Leaf": leaf, "Pair": pair}})
        assert (fields["x"]["logicalType"], [one["name"] for one in fields["x"]["properties"]]) == ("object", ["x"])


@pytest.mark.parametrize("are_bases", [False, True])
def test_many_mixins_or_bases_lose_no_fields(are_bases):
    names = [f"m{n}" for n in range(30)]
    inner = {"type": "object", "properties": {"id": {"type": "string"}}}
    mixins = {name: {"properties": {name: inner}} for name in names}
    every = [{"$ref": f"#/definitions/{name}"} for name in names]
    if are_bases:  # each of the next
        mixins = {name: mixins[name] | {"allOf": every[n + 1 : n + 2]} for n, name in enumerate(names)}
        every = every[:1]
    fields = fields_of({"allOf": every, "definitions": mixins})
    assert sorted(fields) == sorted(names)
    assert all(one["properties"] for one in fields.values())


@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
def test_a_field_of_several_branches_may_be_as_each_says(word):
    branches = [
        {
            "properties": {
                "kind": {"const": "a"},
                "value": {"type": "string"},
                "at": {"type": "string"},
                "in": {"enum": [1, True]},
            }
        },
        {"properties": {"kind": {"enum": ["b", "c"]}, "value": {"type": "integer"}, "at": {"type": "string"}, "in": {}}},
        {"properties": {"kind": {"const": "a"}, "object": {"type": "object"}, "in": {}}},
    ]
    fields = fields_of({word: branches})
    assert [one["value"] for one in fields["kind"]["enum"]] == ["a", "b", "c"]
    assert (fields["kind"]["logicalType"], fields["at"]["physicalType"]) == ("string", "string")
    assert (fields["value"]["logicalType"], fields["value"]["physicalType"]) == ("string", "string or integer")
    assert "enum" not in fields["in"]


@pytest.mark.parametrize(
    ("schema", "is_required"),
    [
        ({"type": "string"}, True),
        ({"type": ["string", "null"]}, False),
        ({"type": ["string", "null"], "enum": ["a"]}, True),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, False),
        ({"anyOf": [{"type": "null"}, {"const": "a"}]}, False),
        ({"type": "string", "anyOf": [{"type": "null"}, {"const": "a"}]}, True),
        ({"enum": ["a", None]}, False),
        ({"$ref": "#/definitions/N"}, False),
        ({}, True),
    ],
)
def test_a_required_field_that_may_be_null_is_not_required(schema, is_required):
    definitions = {"N": {"type": ["null", "object"]}}
    fields = fields_of({"properties": {"a": schema, "b": {}}, "required": ["a"], "definitions": definitions})
    assert fields["a"].get("required", False) is is_required


UNREADABLE = [
    ("XSD/1.1", "<x/>"),
    ("Avro/1.11", "{"),
    ("Avro/1.11", []),
    ("Avro/1.11", {"type": "record", "name": "A", "aliases": 1, "fields": []}),
    ("Avro/1.11", {"type": "record", "name": "A", "fields": [{"name": "u", "type": "int", "aliases": 1}]}),
    ("Avro/1.11", {"type": "record", "name": "A", "namespace": 1, "fields": [{"name": "u", "type": "B"}]}),
    ("JSONSchema/draft-07", "{"),
    ("JSONSchema/draft-07", '{"maximum": 1e400}'),
    ("Protobuf/3", ""),
]


@pytest.mark.parametrize(("schema_format", "schema"), UNREADABLE, ids=lambda value: json.dumps(value)[:60])
def test_a_schema_that_cannot_be_read_has_no_properties(schema_format, schema):
    message = {"dataschemaformat": schema_format, "dataschema": schema}
    (made,) = contracts({"messagegroups": {"g": {"messages": {"m": message}}}}).values()
    assert "properties" not in made["schema"][0]
    assert properties_of(schema_format, schema) is None


def test_a_field_of_several_avro_types_names_what_is_in_parentheses():
    union = ["null", {"type": {"type": "string"}}, "int", {"type": {"type": "array", "items": "int"}}]
    [field] = properties_of("Avro/1.11", {"type": "record", "name": "A", "fields": [{"name": "u", "type": union}]}) or []
    assert (field["logicalType"], field["physicalType"]) == ("object", "string or int or array")


def json_types(count: int, reach: int) -> dict[str, Any]:
    """Return types that each refer to as many of the types behind them, the last to the first."""
    places = {n: [{"$ref": f"#/definitions/T{(n + 1 + m) % count}"} for m in range(reach)] for n in range(count)}
    types = {f"T{n}": {"properties": {f"p{m}": place for m, place in enumerate(places[n])}} for n in range(count)}
    return {"$ref": "#/definitions/T0", "definitions": types}


def json_alternatives(count: int, word: str) -> dict[str, Any]:
    """Return a schema whose alternatives double on every level."""
    parts = {f"T{n}": {word: [{"$ref": f"#/definitions/T{n + 1}"}, {word: [{"$ref": f"#/definitions/T{n + 1}"}]}]}
             for n in range(count)}  # fmt: skip
    return {"properties": {"a": {"$ref": "#/definitions/T0"}, "z": {"type": "string"}}, "definitions": parts}


def proto_types(count: int) -> str:
    messages = (f"message T{n} {{ {' '.join(f'T{m} p{m} = {m + 1};' for m in range(count))} }}" for n in range(count))
    return f'syntax = "proto3"; {"".join(messages)}'


def avro_types(depth: int) -> dict[str, Any]:
    inner: Any = "int"
    for n in range(depth):
        fields = [{"name": "a", "type": inner}, *({"name": f"p{m}", "type": f"T{n - 1}"} for m in range(3 if n else 0))]
        inner = {"type": "record", "name": f"T{n}", "fields": fields}
    return inner


INVOLVED = {
    "each type refers to each": ("JSONSchema/draft-07", json_types(9, 9)),
    "each type refers to the next four times": ("JSONSchema/draft-07", json_types(11, 4)),
    "many fields": ("JSONSchema/draft-07", {"properties": {f"p{n}": {"type": "string"} for n in range(3000)}}),
    "alternatives that double": ("JSONSchema/draft-07", json_alternatives(40, "anyOf")),
    "parts that double": ("JSONSchema/draft-07", json_alternatives(40, "allOf")),
    "messages": ("Protobuf/3", proto_types(9)),
    "records": ("Avro/1.11", avro_types(14)),
}


@pytest.mark.parametrize(("schema_format", "schema"), INVOLVED.values(), ids=INVOLVED)
def test_a_contract_has_so_many_properties_at_most_and_the_outer_ones_first(schema_format, schema):
    made = properties_of(schema_format, schema)
    assert made
    count = json.dumps(made).count('"name"')
    assert count <= MOST_PROPERTIES
    if "properties" in schema and "z" in schema["properties"]:
        assert [field["name"] for field in made] == ["a", "z"]
    else:
        assert count == MOST_PROPERTIES


def test_a_number_of_a_schema_that_is_text_keeps_its_digits():
    text = f'{{"type": "object", "properties": {{"n": {{"type": "integer", "maximum": {10**25 + 1}, "multipleOf": 0.5}}}}}}'
    [field] = properties_of("JSONSchema/draft-07", text) or []
    assert field["logicalTypeOptions"] == {"maximum": 10**25 + 1, "multipleOf": 0.5}


# The command


def test_dbt_names_dialect_and_file(call: Caller, tmp_path):
    for more in (["--out", "x"], ["--dialect", "odcs"]):
        refused = call(tmp_path, "export", "--dbt", str(tmp_path / "s.yaml"), *more)
        assert refused.code == 2
        assert "--dbt FILE is short for --dialect dbt --out FILE" in refused.err
    assert call(tmp_path, "export", "--dialect", "dbt", "--at", "1").code == 2


@pytest.mark.slow
def test_a_catalog_is_exported_for_other_tools(catalog: Catalog, tmp_path):
    catalog.ingest(DATA / "depot.yaml")
    spark, settings = catalog.spark, catalog.settings
    for name, out in (("backstage", "catalog-info.yaml"), ("odcs", "contracts/"), ("dbt", "sources.yaml")):
        made = export(spark, settings, ExportRequest(str(tmp_path / out), None, out.endswith("/"), WriteStyle(dialect=name)))
        assert made.losses.count == 0
    counts = made.as_json()["entities"]
    entities = list(yaml.safe_load_all((tmp_path / "catalog-info.yaml").read_text()))
    assert {one["kind"] for one in entities} == {"API"}
    folder = tmp_path / "contracts"
    contract = yaml.safe_load((folder / "messagegroups" / "kafka.depot.parcels" / "ParcelMoved.yaml").read_text())
    assert contract["id"] == "default:/messagegroups/kafka.depot.parcels/messages/ParcelMoved"
    assert len([*folder.rglob("*.yaml")]) >= len(entities)
    (source,) = yaml.safe_load((tmp_path / "sources.yaml").read_text())["sources"]
    tables = {one["name"]: one for one in source["tables"]}
    assert counts == {"tables": len([*(DDL / "tables").glob("*.sql")]), "views": len([*(DDL / "views").glob("*.sql")])}
    for name in ("messages", "flat_messages"):
        columns = {field.name: field.dataType.simpleString() for field in spark.table(f"{source['name']}.{name}").schema}
        assert {one["name"]: one["data_type"] for one in tables[name]["columns"]} == columns
        assert tables[name]["description"]
        assert all(one["description"] for one in tables[name]["columns"])
