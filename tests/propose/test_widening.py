"""Widened schemas: all payloads that were counted are valid, those that were valid stay so, and nothing changes without need."""

from __future__ import annotations

import json
import sys
from typing import Any

import jsonschema_rs
import orjson
import pytest
from builders import law
from hypothesis import given

from lakehouse.compatibility import Answer, judge
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.widening import widen_schema
from propose.test_payloadschema import OBJECTS, counted, schema_of

FORMAT = "JSONSchema/draft-07"
DRAFT = "http://json-schema.org/draft-07/schema#"


def widened(schema: Any, values: list[Any], keeps_values: bool = True, place: str = "") -> Any:
    observed = Observed.of("k", {"2026-01-01": counted(values, keeps_values)})
    return widen_schema(json.dumps(schema), FORMAT, [observed], Thresholds(), place)


def closed(schema: Any) -> Any:
    """Return a schema whose objects have no other members."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: closed(one) for name, one in schema.items()}
    return {**inner, "additionalProperties": False} if "properties" in schema else inner


@law
@given(OBJECTS, OBJECTS)
def test_a_widened_schema_takes_what_broke_it_and_what_was_valid(before, after):
    schema = closed(schema_of(before))
    result = widened(schema, after)
    is_valid = jsonschema_rs.validator_for(result.schema).is_valid
    assert result.undecided or all(map(is_valid, after))
    assert all(map(is_valid, before))
    assert widened(result.schema, after).schema == result.schema
    if all(map(jsonschema_rs.validator_for(schema).is_valid, after)):
        assert result.schema == schema


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, 5, {"type": ["string", "integer"]}),
        ({"type": "integer"}, 5.5, {"type": "number"}),
        ({"type": "integer"}, 5.0, {"type": "integer"}),
        ({"type": ["string", "null"]}, True, {"type": ["string", "null", "boolean"]}),
        ({"const": "a"}, "b", {"enum": ["a", "b"]}),
        ({"enum": ["a", "b"]}, "c", {"enum": ["a", "b", "c"]}),
        ({"enum": ["a", "b"]}, None, {"enum": ["a", "b", None]}),
        ({"pattern": "^a"}, "b", {}),
        ({"pattern": "^a"}, "ab", {"pattern": "^a"}),
        ({"format": "date"}, "b", {}),
        ({"format": "uuid"}, "b", {"format": "uuid"}),  # draft 7 does not check it
        ({"multipleOf": 5}, 6, {}),
        ({"maxLength": 2, "minLength": 1}, "abc", {"maxLength": 3, "minLength": 1}),
        ({"minItems": 1}, [], {"minItems": 0}),
        ({"minimum": 0, "maximum": 3}, 7, {"minimum": 0, "maximum": 7}),
        ({"exclusiveMinimum": 0}, 0, {"minimum": 0}),
        ({"minimum": 0, "exclusiveMinimum": True}, 0, {"minimum": 0}),
        ({"items": {"type": "string"}}, ["a", 1], {"items": {"type": ["string", "integer"]}}),
        ({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "null"}]}, "ab",
         {"anyOf": [{"type": "string", "maxLength": 2}, {"type": "null"}]}),
        ({"oneOf": [{"type": "string"}, {"type": "null"}]}, 1,
         {"oneOf": [{"type": "string"}, {"type": "null"}, {"type": "integer"}]}),
        ({"allOf": [{"type": "string"}, {"maxLength": 1}]}, "ab", {"allOf": [{"type": "string"}, {"maxLength": 2}]}),
        ({"type": "object", "required": ["a", "b"]}, {"a": 1}, {"type": "object", "required": ["a"]}),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"a": 1, "b": 2},
         {"properties": {"a": {}, "b": {"type": "integer", "examples": [2]}}, "additionalProperties": False}),
        ({"additionalProperties": {"type": "string"}}, {"x": 1}, {"additionalProperties": {"type": ["string", "integer"]}}),
        ({"properties": {"a": False}}, {"a": 1}, {"properties": {"a": {"type": "integer", "examples": [1]}}}),
    ],
)  # fmt: skip
def test_each_keyword_changes_as_far_as_values_break_it(schema, value, expected):
    result = widened({"properties": {"v": schema}}, [{"v": value}])
    assert (result.schema["properties"]["v"], result.undecided) == (expected, [])


@pytest.mark.parametrize(
    ("value", "greatest"), [(10**25, 1e25), (1e25, 1e25), (10**400, sys.float_info.max)], ids=["integer", "number", "no double"]
)
def test_a_limit_beyond_64_bits_can_be_written(value, greatest):
    result = widened({"type": ["integer", "number"], "maximum": 3}, [value])
    assert orjson.loads(orjson.dumps(result.schema))["maximum"] == greatest


def test_a_definition_is_widened_where_it_is_declared_and_a_schema_may_refer_to_itself():
    schema = {"$schema": DRAFT, "type": "object", "properties": {"next": {"$ref": "#"}, "at": {"$ref": "#/definitions/At"}},
              "definitions": {"At": {"type": "string"}}}  # fmt: skip
    result = widened(schema, [{"at": "a", "next": {"at": 5}}])
    assert result.schema == schema | {"definitions": {"At": {"type": ["string", "integer"]}}}
    inner = widened({"definitions": {"At": {"type": "string"}}}, [5], place="/definitions/At")
    assert inner.schema == {"definitions": {"At": {"type": ["string", "integer"]}}}


def test_what_counts_do_not_show_stays_and_is_reported():
    schema = {"properties": {"a": {"not": {"type": "string"}}, "b": {"$ref": "other.json"}, "c": {"pattern": "^a"},
                             "d": {"oneOf": [{"const": 1}, {"const": 2}]}}}  # fmt: skip
    result = widened(schema, [{"a": "x", "b": 1, "c": f"text {number}", "d": 3} for number in range(100)])
    assert result.schema == schema
    assert result.undecided == ["/data/a not", "/data/b $ref", "/data/c pattern", "/data/d oneOf"]


def test_without_values_none_is_added_and_many_values_are_no_enumeration():
    schema = {"properties": {"state": {"enum": ["on", "off"]}}}
    assert widened(schema, [{"state": "gone"}], keeps_values=False).undecided == ["/data/state enum"]
    many = [{"state": f"s{number}"} for number in range(100)]
    assert widened(schema, many).schema == {"properties": {"state": {}}}


@pytest.mark.parametrize(("name", "stays"), [("date", False), ("date-time", True), ("uuid", True)])
def test_a_format_goes_where_one_of_many_texts_has_another_one_and_the_draft_checks_it(name, stays):
    schema = {"properties": {"at": {"format": name}}}
    times = [{"at": f"2026-01-01T00:00:{second:02}Z"} for second in range(60)]
    assert widened(schema, times).schema == (schema if stays else {"properties": {"at": {}}})


@pytest.mark.parametrize(("name", "text"), [("uri", "item:[{}]"), ("email", "a..{}@x.com")])
def test_a_format_goes_that_texts_only_look_like(name, text):
    values = [{"at": text.format(number)} for number in range(1, 41)]
    assert widened({"properties": {"at": {"format": name}}}, values).schema == {"properties": {"at": {}}}


def test_the_difference_is_judged_as_schemas_are():
    schema = {"$schema": DRAFT, "type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]}
    result = widened(schema, [{"total": 1.5}, {"note": "x"}])
    judgement = judge(schema, result.schema, FORMAT)
    assert {one.kind for one in judgement.differences} == {"became-optional"}
    assert (judgement.breaks.writers, judgement.breaks.readers) == (Answer.NO, Answer.YES)
