"""JSON Schema: no instance refutes what is called compatible, and each keyword's change is reported with its reason."""

from __future__ import annotations

from random import Random

import jsonschema_rs
import pytest

from lakehouse.compatibility import Answer, compare, judge
from lakehouse.compatibility.jsonschemas import JsonComparison
from lakehouse.compatibility.jsonshapes import JsonDocument
from lakehouse.compatibility.limits import StepBudget
from tests.compatibility.jsonsamples import Instances, JsonSchemas, opened

PAIRS = 400
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def _validator(schema):
    return jsonschema_rs.validator_for({"$schema": DRAFT, **schema})


@pytest.mark.parametrize("mode", ["lenient", "strict"])
def test_no_instance_refutes_what_is_called_compatible(mode):
    claims = instances = 0
    for seed in range(PAIRS):
        random = Random(seed)
        made = JsonSchemas(random)
        before = made.document()
        after = made.edited(before)
        for writer, reader in ((before, after), (after, before)):
            sides = JsonDocument(writer), JsonDocument(reader)
            found = JsonComparison(*sides, is_backward=True, steps=StepBudget()).compare()
            if any(getattr(one, mode) for one in found):
                continue
            claims += 1
            writes, reads = _validator(writer), _validator(opened(reader) if mode == "lenient" else reader)
            source = Instances(writer, random, is_open=mode == "strict")
            for value in (source.make() for _ in range(30)):
                if writes.is_valid(value):
                    instances += 1
                    assert reads.is_valid(value), (seed, writer, reader, value)
    assert claims > PAIRS / 2
    assert instances > 10 * claims


def _order(required=("id",), **members):
    return {"type": "object", "properties": {"id": {"type": "string"}, **members}, "required": list(required)}


NUMBER, TEXT = {"type": "number"}, {"type": "string"}


@pytest.mark.parametrize(
    ("before", "after", "pointer", "kind", "readers", "writers"),
    [
        (_order(), _order(n=TEXT), "/n", "field-added", "no", "no"),
        (_order(), _order(n=TEXT) | {"additionalProperties": False}, "/n", "field-added", "no", "no"),
        (_order(), _order(("id", "n"), n=TEXT), "/n", "field-added", "no", "yes"),
        (_order(n=TEXT), _order(), "/n", "field-removed", "no", "no"),
        (_order(("id", "n"), n=TEXT), _order(), "/n", "field-removed", "yes", "no"),
        (_order(n=TEXT), _order(("id", "n"), n=TEXT), "/n", "became-required", "no", "yes"),
        (_order(("id", "n"), n=TEXT), _order(n=TEXT), "/n", "became-optional", "yes", "no"),
        (_order(n=TEXT), _order(n=NUMBER), "/n", "type-changed", "yes", "yes"),
        (_order(n={"type": "integer"}), _order(n=NUMBER), "/n", "type-changed", "yes", "no"),
        (_order(n={"enum": ["A"]}), _order(n={"enum": ["A", "B"]}), "/n", "value-added", "yes", "no"),
        (_order(n={"enum": ["A", "B"]}), _order(n={"enum": ["A"]}), "/n", "value-removed", "no", "yes"),
        (_order(n=NUMBER | {"minimum": 0}), _order(n=NUMBER | {"minimum": 1}), "/n", "range-changed", "no", "yes"),
        (_order(n=TEXT | {"maxLength": 5}), _order(n=TEXT | {"maxLength": 9}), "/n", "size-changed", "yes", "no"),
        (_order(n=TEXT), _order(n=TEXT | {"pattern": "^a"}), "/n", "pattern-changed", "no", "unknown"),
        (_order(n={"not": TEXT}), _order(n={"not": NUMBER}), "/n", "condition-changed", "unknown", "unknown"),
        (_order(n={"items": TEXT}), _order(n={"items": NUMBER}), "/n/*", "type-changed", "yes", "yes"),
    ],
)
def test_a_change_of_an_object_reports_where_and_whom_it_breaks(before, after, pointer, kind, readers, writers):
    found = [one for one in compare(before, after, "JsonSchema/2020-12") if (one.pointer, one.kind) == (pointer, kind)]
    assert [one.breaks.as_json() for one in found] == [{"readers": readers, "writers": writers}]


def test_a_consumer_that_validates_is_judged_strictly():
    closed = {"additionalProperties": False}
    judgement = judge(_order() | closed, _order(n=TEXT) | closed, "JsonSchema")
    assert judgement.breaks.as_json() == {"readers": "no", "writers": "no"}
    assert judgement.strictly.as_json() == {"readers": "yes", "writers": "no"}
    assert judgement.differences[0].reason.startswith("Strictly: a producer with the new schema may write it")


def test_an_alternative_that_came_breaks_those_who_read():
    def shapes(*kinds):
        return {"oneOf": [{"type": "object", "properties": {"kind": {"const": one}}, "required": ["kind"]} for one in kinds]}

    (found,) = judge(shapes("a"), shapes("a", "b"), "JsonSchema").reasons()
    assert found.breaks.as_json() == {"readers": "yes", "writers": "no"}


def test_references_are_followed_and_circles_end():
    def tree(type_):
        node = {"type": "object", "properties": {"value": {"type": type_}, "next": {"$ref": "#/$defs/node"}}}
        return {"$defs": {"node": node}, "$ref": "#/$defs/node"}

    assert judge(tree("string"), tree("string"), "JsonSchema").breaks.worst == Answer.NO
    assert "/value" in {one.pointer for one in judge(tree("string"), tree("number"), "JsonSchema").reasons()}


def test_a_reference_to_elsewhere_is_unknown():
    judgement = judge(_order(n={"$ref": "other.json"}), _order(n={"$ref": "another.json"}), "JsonSchema")
    assert judgement.breaks.as_json() == {"readers": "unknown", "writers": "unknown"}


ELSEWHERE = {"type": "object", "allOf": [{"$ref": "base.json"}]}
NEEDS_N = {"required": ["n"]}
TEXT_OR_NULL = {"type": ["string", "null"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(ELSEWHERE, _order(("n",), n=TEXT), id="a base elsewhere"),
        pytest.param(ELSEWHERE, ELSEWHERE | NEEDS_N, id="the same base elsewhere"),
        pytest.param(ELSEWHERE | {"properties": {"n": TEXT_OR_NULL}}, _order((), n=TEXT), id="the type of a member"),
        pytest.param({"$ref": "base.json"}, {"anyOf": [TEXT, NUMBER]}, id="a base elsewhere, alternatives"),
        pytest.param({"$dynamicRef": "#base"}, _order(("n",), n=TEXT), id="a dynamic reference"),
        pytest.param(
            _order(n=TEXT) | {"if": {"required": ["id"]}, "then": NEEDS_N, "else": NEEDS_N}, _order(("id", "n"), n=TEXT), id="if"
        ),
        pytest.param(_order(n=TEXT) | {"dependentRequired": {"id": ["n"]}}, _order(("id", "n"), n=TEXT), id="dependentRequired"),
        pytest.param(_order(n=TEXT_OR_NULL) | {"not": {"properties": {"n": {"type": "null"}}}}, _order(n=TEXT), id="not"),
        pytest.param(
            {"type": "array", "items": TEXT_OR_NULL, "not": {"contains": {"type": "null"}}},
            {"type": "array", "items": TEXT},
            id="no item",
        ),
    ],
)
def test_what_a_reference_to_elsewhere_or_a_condition_may_exclude_is_unknown(before, after):
    assert judge(before, after, "JsonSchema/2020-12").breaks.as_json()["writers"] == "unknown"


def test_a_condition_that_says_nothing_of_a_member_leaves_its_change_decided():
    condition = {"if": {"properties": {"id": {"const": "x"}}}, "then": {"required": ["m"]}}
    judgement = judge(_order(n=TEXT) | condition, _order(n=NUMBER) | condition, "JsonSchema/2020-12")
    assert judgement.breaks.as_json() == {"readers": "yes", "writers": "yes"}


def test_a_description_next_to_a_fraction_of_multiple_of_changes_nothing():
    price = NUMBER | {"multipleOf": 0.01}
    assert compare(_order(n=price), _order(n=price | {"description": "in euros"}), "JsonSchema/2020-12") == []


def test_a_schema_that_takes_too_much_work_is_unknown_with_that_reason():
    def hostile(leaf):
        definitions = {
            f"d{at}": {"anyOf": [{"$ref": f"#/$defs/d{at + 1}"}, {"items": {"$ref": f"#/$defs/d{at + 1}"}}]} for at in range(40)
        }
        return {"$defs": definitions | {"d40": leaf}, "$ref": "#/$defs/d0"}

    (found,) = compare(hostile(TEXT), hostile(NUMBER), "JsonSchema", most=2_000)
    assert found.kind == "undecided"
    assert found.reason == "Comparing takes more than 2000 steps."


DRAFT_07 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 1}),
        ({"type": "integer", "minimum": 0.5, "maximum": 7.5}, {"type": "integer", "minimum": 1, "exclusiveMaximum": 8}),
        ({"type": "boolean"}, {"enum": [True, False]}),
        ({"type": "null"}, {"const": None}),
        ({"type": ["null", "boolean"]}, {"enum": [None, False, True]}),
        ({"type": "integer"}, {"type": "integer", "multipleOf": 0.01}),
    ],
)
def test_schemas_of_the_same_values_break_nobody(before, after):
    for pair in ((before, after), (after, before)):
        assert [one for one in compare(*pair, "JsonSchema") if one.breaks.worst != Answer.NO] == []


@pytest.mark.parametrize(
    ("before", "after", "readers"),
    [
        ({"type": "integer"}, {"type": "number", "multipleOf": 0.01}, "yes"),
        (NUMBER | {"multipleOf": 0.3}, NUMBER | {"multipleOf": 0.1}, "unknown"),
        (_order(n=TEXT) | {"maxProperties": 5}, _order(n=TEXT) | {"maxProperties": 3}, "no"),  # two are declared
    ],
)
def test_what_a_producer_may_write_is_taken_by_a_reader_with_a_smaller_limit(before, after, readers):
    assert judge(before, after, "JsonSchema/2020-12").breaks.as_json() == {"readers": readers, "writers": "no"}


@pytest.mark.parametrize("limit", [{}, {"maxProperties": 5}])
def test_members_that_are_required_and_not_declared_count_among_those_that_are_written(limit):
    before = _order(("id", "x", "y")) | limit
    assert judge(before, before | {"maxProperties": 2}, "JsonSchema/2020-12").breaks.as_json()["writers"] == "yes"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"type": "number", "exclusiveMinimum": 0}, {"type": "number", "minimum": 1}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "minimum": 2}),
        ({"type": "boolean"}, {"enum": [True]}),
        ({"type": ["null", "boolean"]}, {"enum": [False, True]}),
        ({"enum": [{"x": 1}]}, {"type": "object", "additionalProperties": False}),
        ({"const": [1, "a"]}, {"prefixItems": [True], "items": {"type": "integer"}}),
    ],
)
def test_a_value_that_is_no_longer_taken_breaks_writers(before, after):
    assert "yes" in {one.breaks.as_json()["writers"] for one in compare(before, after, "JsonSchema")}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"enum": [{"x_a": 1}]},
            {"type": "object", "patternProperties": {"^x_": {}}, "additionalProperties": False},
        ),
        ({"const": [1]}, {"prefixItems": [{"type": "integer"}], "items": False}),
        (
            {"$schema": DRAFT_07, "enum": ["a"]},
            {"$schema": DRAFT_07, "$ref": "#/definitions/s", "type": "integer", "definitions": {"s": {"type": "string"}}},
        ),
    ],
)
def test_a_listed_value_that_is_taken_is_not_called_refused(before, after):
    assert "yes" not in {one.breaks.as_json()["writers"] for one in compare(before, after, "JsonSchema")}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"multipleOf": 0}, {"multipleOf": 3}),
        ({"required": [None]}, {"required": ["a"]}),
        ({"required": ["a"]}, {"required": [5]}),
    ],
)
def test_a_schema_that_is_none_is_undecided_and_raises_nothing(before, after):
    for pair in ((before, after), (after, before)):
        assert judge(*pair, "JsonSchema").breaks.worst != Answer.NO


def test_one_and_true_are_two_values():
    (found,) = judge({"enum": [1, "a"]}, {"enum": [True, "a"]}, "JsonSchema").reasons()[:1]
    assert found.breaks.worst == Answer.YES


@pytest.mark.parametrize("schema", ["draft-04", "draft-07"])
def test_what_stands_next_to_a_reference_counts_in_newer_drafts_only(schema):
    def made(limit):
        uri = f"http://json-schema.org/{schema}/schema#"
        return {"$schema": uri, "definitions": {"t": TEXT}, "properties": {"n": {"$ref": "#/definitions/t", "maxLength": limit}}}

    assert judge(made(5), made(9), "JsonSchema").breaks.worst == Answer.NO


def test_a_schema_with_an_id_within_the_document_is_followed():
    def document(inner):
        return _order(a={"$ref": "address.json"}, b={"$ref": "https://example.com/address.json#/properties/city"}) | {
            "$id": "https://example.com/order.json",
            "$defs": {"address": {"$id": "address.json", "type": "object", "properties": inner}},
        }

    found = compare(document({"city": TEXT}), document({"city": NUMBER}), "JsonSchema/2020-12")
    assert [(one.pointer, one.kind) for one in found] == [("/a/city", "type-changed"), ("/b", "type-changed")]
    own_reference = {"city": {"$ref": "#/properties/zip"}, "zip": TEXT}  # means the embedded schema, and not the document
    (undecided,) = compare(document({"city": TEXT}), document(own_reference), "JsonSchema/2020-12")[:1]
    assert undecided.breaks.worst == Answer.UNKNOWN
