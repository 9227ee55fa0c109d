"""Avro: the judgement is that of Apache's own checker, and says what and why."""

from __future__ import annotations

import json
from random import Random

import avro.schema
import pytest
from avro.compatibility import ReaderWriterCompatibilityChecker, SchemaCompatibilityType

from lakehouse.compatibility import Answer, compare, judge
from tests.compatibility.avrosamples import AvroSchemas

PAIRS = 1_500


def _reads(reader, writer) -> bool:
    found = ReaderWriterCompatibilityChecker().get_compatibility(reader, writer)
    return found.compatibility is SchemaCompatibilityType.compatible


def test_random_pairs_are_judged_as_apaches_checker_judges_them():
    broken = 0
    for seed in range(PAIRS):
        made = AvroSchemas(Random(seed))
        before = made.schema()
        after = made.edited(before)
        old, new = (avro.schema.parse(json.dumps(one)) for one in (before, after))
        theirs = (Answer.NO if _reads(old, new) else Answer.YES, Answer.NO if _reads(new, old) else Answer.YES)
        assert judge(before, after, "Avro/1.11").breaks == theirs, (seed, before, after)
        broken += Answer.YES in theirs
    assert broken > PAIRS / 10


def _record(*fields, name="Order"):
    return {"type": "record", "name": name, "fields": list(fields)}


PRICE = {"name": "price", "type": "int"}


@pytest.mark.parametrize(
    ("before", "after", "pointer", "kind", "readers", "writers"),
    [
        (_record(PRICE), _record(PRICE, {"name": "n", "type": "int"}), "/n", "field-added", "no", "yes"),
        (_record(PRICE), _record(PRICE, {"name": "n", "type": "int", "default": 0}), "/n", "field-added", "no", "no"),
        (_record(PRICE, {"name": "n", "type": "int"}), _record(PRICE), "/n", "field-removed", "yes", "no"),
        (_record(PRICE), _record(PRICE | {"type": "long"}), "/price", "type-changed", "yes", "no"),
        (_record(PRICE), _record(PRICE | {"type": "string"}), "/price", "type-changed", "yes", "yes"),
        (_record(PRICE), _record(PRICE | {"type": ["null", "int"]}), "/price", "type-changed", "yes", "no"),
        (_record(PRICE), _record(PRICE | {"name": "cost", "aliases": ["price"]}), "/cost", "field-renamed", "no", "no"),
        (_record(PRICE), _record(PRICE, name="Offer"), "", "type-changed", "yes", "yes"),
    ],
)
def test_a_change_of_a_record_reports_where_and_whom_it_breaks(before, after, pointer, kind, readers, writers):
    found = [one for one in compare(before, after, "Avro") if (one.pointer, one.kind) == (pointer, kind)]
    assert [one.breaks.as_json() for one in found] == [{"readers": readers, "writers": writers}]
    assert bool(found[0].reason) == ("yes" in (readers, writers))


def _decimal(scale, precision=9):
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


def _price(type_):
    return _record({"name": "p", "type": type_})


def test_a_decimal_of_another_scale_is_another_value():
    (found,) = compare(_price(_decimal(2)), _price(_decimal(3)), "Avro")
    assert (found.pointer, found.kind, found.breaks.as_json()) == ("/p", "meaning-changed", {"readers": "yes", "writers": "yes"})


@pytest.mark.parametrize("has_null", [False, True])
def test_a_decimal_of_a_larger_precision_is_the_same_value(has_null):
    before, after = (_price(["null", one] if has_null else one) for one in (_decimal(2, 9), _decimal(2, 12)))
    (found,) = compare(before, after, "Avro")
    assert (found.kind, found.what) == ("meaning-changed", "was decimal 9 2, is decimal 12 2")
    assert found.breaks.as_json() == {"readers": "unknown", "writers": "no"}
    because = "a producer with the new schema may write more digits than a consumer with the old schema declares"
    assert found.reason == f"Cannot be decided: {because}."


@pytest.mark.parametrize(
    ("type_", "is_valid"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 9}, True),
        ({"type": "bytes", "logicalType": "decimal"}, False),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, False),
        ({"type": "string", "logicalType": "date"}, False),
        ({"type": "int", "logicalType": "date"}, True),
        ({"type": "string", "logicalType": "uuid"}, True),
        ({"type": "long", "logicalType": ["date"]}, False),
        ({"type": "fixed", "name": "F", "size": 12, "logicalType": "duration"}, True),
        ({"type": "fixed", "name": "F", "size": 11, "logicalType": "duration"}, False),
    ],
)
def test_a_logical_type_that_is_not_valid_is_ignored(type_, is_valid):
    plain = {name: value for name, value in type_.items() if name not in ("logicalType", "precision", "scale")}
    found = compare(_record({"name": "p", "type": plain}), _record({"name": "p", "type": type_}), "Avro")
    assert [one.kind for one in found] == ["meaning-changed"] * is_valid


def test_a_record_that_holds_itself_is_compared():
    def tree(type_):
        return _record({"name": "value", "type": type_}, {"name": "next", "type": ["null", "Order"]})

    assert judge(tree("int"), tree("int"), "Avro").breaks.worst == Answer.NO
    assert [one.pointer for one in judge(tree("int"), tree("string"), "Avro").reasons()] == ["/value"]


def test_a_type_within_a_type_is_read():
    assert judge({"type": {"type": "string"}}, "string", "Avro").differences == ()


def test_what_is_no_schema_is_undecided():
    (found,) = compare("int", {"type": "no such type"}, "Avro")
    assert (found.kind, found.breaks.worst) == ("undecided", Answer.UNKNOWN)
    assert found.reason == "The type no such type is not declared."
