"""Whether a schema keeps the rules of its format: the answer is that of Apache's library and of the meta-schemas."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import avro.schema
import jsonschema
import pytest

from lakehouse.compatibility.formatchecks import FormatCheck, check_format
from tests.compatibility.avrosamples import AvroSchemas
from tests.compatibility.jsonsamples import VALUES, JsonSchemas

DRAFTS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
SCHEMAS = 150  # of each draft


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Return each member of objects and lists: what holds it, and its name or index."""
    for at, inner in list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()):
        yield value, at
        yield from places_in(inner)


@pytest.mark.parametrize("draft", DRAFTS)
def test_json_schemas_are_judged_as_their_meta_schema_judges_them(draft):
    answers = {True: 0, False: 0}
    for seed in range(SCHEMAS):
        random = Random(seed)
        made = JsonSchemas(random).document() | {"$schema": draft}
        for _ in range(4):
            schema = copy.deepcopy(made)
            holder, at = random.choice([place for place in places_in(schema) if place[1] not in ("$schema", "$ref")])
            holder[at] = random.choice(VALUES)
            is_valid = check_format(schema, "JSONSchema").is_valid
            try:
                DRAFTS[draft].check_schema(schema)
                expected = True
            except jsonschema.SchemaError:
                expected = False
            assert is_valid == expected, (seed, schema, check_format(schema, "JSONSchema"))
            answers[expected] += 1
    assert min(answers.values()) > SCHEMAS / 2


def is_field_name(holder: Any, at: Any) -> bool:
    """Return whether this is the name of a field, which Apache's library for Python does not check."""
    return at == "name" and holder.get("type") not in ("record", "enum", "fixed")


def test_avro_schemas_are_judged_as_apaches_library_judges_them():
    answers = {True: 0, False: 0}
    for seed in range(600):
        random = Random(seed)
        schema = AvroSchemas(random).schema()
        for holder, at in list(places_in(schema)):
            if at == "default":  # which this library does not look at
                del holder[at]
        checked = [place for place in places_in(schema) if place[1] != "symbols" and not is_field_name(*place)]
        holder, at = random.choice(checked)
        holder[at] = random.choice(["1x", "", 7, [], {}, "int", ["int", "int"], "string", None])
        check = check_format(schema, "Avro/1.11")
        try:
            avro.schema.parse(json.dumps(schema))
            expected = True
        except avro.errors.AvroException:
            expected = False
        assert bool(check.is_valid) == expected, (seed, schema, check)
        answers[expected] += 1
    assert min(answers.values()) > 50


@pytest.mark.parametrize(
    ("format_", "schema", "is_valid", "reason"),
    [
        (
            "Avro/1.11",
            {"type": "record", "name": "R", "fields": [{"name": "1x", "type": "int"}]},
            False,
            "R: '1x' is no name of a field",
        ),
        (
            "Avro/1.11",
            {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int", "default": "x"}]},
            False,
            "R.n: the default 'x' is of another type",
        ),
        (
            "Avro/1.11",
            {"type": "record", "name": "R", "fields": [{"name": "n", "type": ["int", "null"], "default": None}]},
            True,
            "",
        ),
        ("Avro/1.11", {"type": "enum", "name": "E", "symbols": ["A", "A"]}, False, "E has a symbol twice"),
        ("Avro/1.11", "\n" + json.dumps({"type": "enum", "name": "E", "symbols": ["A", "A"]}), False, "E has a symbol twice"),
        ("Avro/1.11", '{"type": "array", "items": "com.example.Other"}', None, "the type com.example.Other is not declared"),
        ("Avro/1.11", "string", True, ""),
        (
            "JSONSchema/draft-07",
            '{"type": "object"',
            False,
            "the schema is not JSON: unexpected end of data: line 1 column 18 (char 17)",
        ),
        ("JSONSchema/draft-07", {"properties": {"a": {"type": "text"}}}, False, "/properties/a/type: text is no value of `type`"),
        ("JSONSchema/draft-03", {"type": "any"}, None, "JSON Schema is checked from draft 4 on"),
        ("Protobuf/3", 'syntax = "proto3"; message A { string a = 1; } }', False, "no Protobuf: '}' is not expected"),
        ("Protobuf/3", "edition = '2023'; message A {}", None, "editions of Protobuf are not read"),
        ("Protobuf/3", 'syntax = "proto3"; message A { string a = 1; int32 b = 1; }', False, "A has the number 1 twice"),
        ("XSD/1.1", "<schema>", False, "the schema is not XML: no element found: line 1, column 8"),
        (
            "XSD/1.1",
            '<s:schema xmlns:s="http://www.w3.org/2001/XMLSchema"><s:elment name="a"/></s:schema>',
            False,
            "`elment` is no element of XML Schema",
        ),
        ("XSD/1.1", '<s:schema xmlns:s="http://www.w3.org/2001/XMLSchema"><s:element name="a"/></s:schema>', True, ""),
        (
            "JsonStructure/1.0",
            {"type": "object", "properties": {"a": {"type": "int12"}}},
            False,
            "/properties/a/type: int12 is no type",
        ),
        (
            "JsonStructure/1.0",
            {
                "$root": "#/definitions/A",
                "definitions": {"A": {"type": "object", "properties": {"b": {"type": {"$ref": "#/definitions/A"}}}}},
            },
            True,
            "",
        ),
        ("GraphQL", "type A", None, "schemas of format GraphQL are not checked"),
    ],
)
def test_what_is_wrong_is_said(format_, schema, is_valid, reason):
    assert check_format(schema, format_) == FormatCheck(is_valid, reason)
