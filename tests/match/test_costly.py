"""Schemas and payloads on which libraries hang, run out of memory or end their process: each costs its own row, and seconds."""

from __future__ import annotations

import io
import json
import time
from types import SimpleNamespace
from typing import Any

import fastavro
import pytest
from shortform import first_of

from lakehouse.match.payload.costlimit import effort_of
from lakehouse.match.payload.payloads import EncodedPayload, MadeValidator, NoAnswer, Payloads, run_in_fork
from lakehouse.match.payload.schemas import Schemas, SchemaVersion
from match.test_payloads import STRUCTURE, S, verdict

pytestmark = pytest.mark.attack

LIMIT = 30  # seconds: a test that hangs fails


def doubled(levels: int, keyword: str = "allOf") -> dict[str, Any]:
    """Make a schema that stands for twice as many with each level."""
    parts: dict[str, Any] = {"p0": {"type": "object"}}
    for level in range(1, levels):
        parts[f"p{level}"] = {keyword: [{"$ref": f"#/$defs/p{level - 1}"}, {"$ref": f"#/$defs/p{level - 1}"}]}
    return {"$ref": f"#/$defs/p{levels - 1}", "$defs": parts}


def union(levels: int) -> dict[str, Any]:
    parts: dict[str, Any] = {"p0": {"name": "p0", "type": "object", "properties": {"x": {"type": "int32"}}}}
    for level in range(1, levels):
        called = {"$ref": f"#/definitions/p{level - 1}"}
        parts[f"p{level}"] = {"name": f"p{level}", "type": ["null", called, called]}
    return STRUCTURE | {"type": {"$ref": f"#/definitions/p{levels - 1}"}, "definitions": parts}


TWICE = {"anyOf": [{"required": [name], "properties": {"a": {"$ref": "#"}}} for name in "yz"]}
ANCHORED = {"$anchor": "x"} | {"anyOf": [{"required": [name], "properties": {"a": {"$ref": "#x"}}} for name in "yz"]}
DEEP = b'{"a":' * 60 + b"{}" + b"}" * 60
NODE = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
ENDLESS = b"\xfe\xff\xff\xff\xff\xff\x03\x00"  # some 10^12 items that take no bytes


@pytest.mark.parametrize(
    ("format_", "schema", "body", "kind"),
    [
        ("JSONSchema/2020-12", doubled(40), b"{}", "application/json"),
        ("JSONSchema/2020-12", doubled(40, "anyOf"), b"1", "application/json"),
        ("JSONSchema/2020-12", TWICE, DEEP, "application/json"),
        ("JSONSchema/2020-12", ANCHORED, DEEP, "application/json"),
        ("JsonStructure/draft-02", union(30), b'{"x": "no"}', "application/json"),
        ("Avro", {"type": "array", "items": "null"}, ENDLESS, "application/avro"),
        ("Avro", {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, ENDLESS, "application/avro"),
        ("Avro", NODE, b"\x02" * 200_000 + b"\0", "application/avro"),
    ],
    ids=range(8),
)  # fmt: skip
def test_what_takes_long_or_ends_its_process_is_reported(format_, schema, body, kind):
    found = run_in_fork(lambda: verdict(format_, schema, body=body, content_type=kind), LIMIT)
    assert (found.status, found.errors) == ("unsupported_format", ())
    assert found.remarks[-1] in ("it took more than 3 s", "the library ended its process")


def records(levels: int, leaf: str) -> Any:
    """Make an Avro schema whose records each hold two of the one before."""
    made: Any = {"type": "record", "name": "R0", "fields": [{"name": "a", "type": leaf}]}
    for level in range(1, levels):
        made = {
            "type": "record",
            "name": f"R{level}",
            "fields": [{"name": "a", "type": made}, {"name": "b", "type": f"R{level - 1}"}],
        }
    return made


def flat_records(levels: int) -> Any:
    """Make the same without nesting it, as a field each that may be null."""
    kinds = [[{"name": "a", "type": "null"}]]
    kinds += [[{"name": name, "type": f"R{level}"} for name in "ab"] for level in range(levels - 1)]
    named = [{"type": "record", "name": f"R{level}", "fields": fields} for level, fields in enumerate(kinds)]
    fields = [{"name": f"f{level}", "type": ["null", record]} for level, record in enumerate(named)]
    return {"type": "record", "name": "All", "fields": fields}


def branches(levels: int) -> Any:
    """Make an Avro schema of unions of two records, both of which have a field of the union before."""
    made, named = "int", "int"
    for level in range(levels):
        both = [
            {"type": "record", "name": f"{name}{level}", "fields": [{"name": "x", "type": kind}]}
            for name, kind in (("A", made), ("B", named))
        ]
        made, named = both, [one["name"] for one in both]
    return made


def xsd(inside: str) -> str:
    return f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema">{inside}</xs:schema>'


def xsd_unions(levels: int) -> str:
    named = [f'<xs:simpleType name="U{n}"><xs:union memberTypes="U{n - 1} U{n - 1}"/></xs:simpleType>' for n in range(1, levels)]
    first = '<xs:simpleType name="U0"><xs:restriction base="xs:integer"/></xs:simpleType>'
    return xsd(first + "".join(named) + f'<xs:element name="e" type="U{levels - 1}"/>')


def xsd_choice(elements: int) -> str:
    inside = "".join(f'<xs:element name="x{number}" type="xs:string"/>' for number in range(elements))
    choice = f'<xs:choice maxOccurs="unbounded">{inside}</xs:choice>'
    return xsd(f'<xs:element name="e"><xs:complexType>{choice}</xs:complexType></xs:element>')


def unevaluated(levels: int) -> dict[str, Any]:
    parts: dict[str, Any] = {"p0": {"properties": {"a": {"type": "integer"}}}}
    for level in range(1, levels):
        parts[f"p{level}"] = {"allOf": [{"$ref": f"#/$defs/p{level - 1}"}], "unevaluatedProperties": False}
    return {"$defs": parts, "$ref": f"#/$defs/p{levels - 1}"}


ALL_OF = doubled(18)
ALL_OF = {"$defs": ALL_OF["$defs"] | {"p0": {"type": "integer"}}, "items": {"$ref": ALL_OF["$ref"]}}
OBJECTS = [{"a": number, "b": {"c": number}} for number in range(20_000)]
TEXTS = [f"s{number}" for number in range(20_000)]
LIST = {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "https://x.example/l", "name": "l", "type": "array"}
STRINGS = LIST | {"items": {"type": "string", "enum": TEXTS}}
MANY = json.dumps(["x"] * 20_000).encode()
NESTED = b'{"x":' * 24 + b'"no"' + b"}" * 24
HANGING = {
    "avro records": ("Avro/1.11.1", records(24, "null"), b"\x02", "application/avro"),
    "avro fields": ("Avro/1.11.1", flat_records(24), b"\x00" * 23 + b"\x02", "application/avro"),
    "avro unions": ("Avro/1.11.1", branches(24), NESTED, "application/json"),
    "xsd unions": ("XSD/1.0", xsd_unions(24), b"<e>x</e>", "application/xml"),
    "xsd choice": ("XSD/1.0", xsd_choice(19_000), b"<e><x1/></e>", "application/xml"),
    "all of": ("JSONSchema/draft-07", ALL_OF, json.dumps([1] * 20_000).encode(), "application/json"),
    "enum of objects": ("JSONSchema/draft-07", {"items": {"enum": OBJECTS}}, json.dumps(OBJECTS).encode(), "application/json"),
    "enum of texts": ("JSONSchema/draft-07", {"items": {"enum": TEXTS}}, MANY, "application/json"),
    "required": ("JSONSchema/draft-07", {"items": {"required": TEXTS}}, json.dumps([{}] * 20_000).encode(), "application/json"),
    "unevaluated": ("JSONSchema/2020-12", unevaluated(30), b'{"a": 1}', "application/json"),
    "property names": ("JSONSchema/2020-12", {"propertyNames": doubled(40), **doubled(40)}, b'{"a": 1}', "application/json"),
    "structure": ("JsonStructure", STRINGS, MANY, "application/json"),
}  # fmt: skip


@pytest.mark.parametrize("name", first_of(HANGING, 6))
def test_a_short_schema_does_not_hang(name, monkeypatch):
    for limit, seconds in (("_SECONDS", 0.5), ("_SECONDS_TO_MAKE", 2.0)):
        monkeypatch.setattr(f"lakehouse.match.payload.payloads.{limit}", seconds)
    format_, schema, body, kind = HANGING[name]
    found = run_in_fork(lambda: verdict(format_, schema, unpacked=2**24, body=body, content_type=kind), LIMIT)
    assert (found.status, found.errors) == ("unsupported_format", ())
    assert found.remarks[-1].endswith(("it took more than 0.5 s", "it took more than 2 s", "the library ended its process"))


def test_references_to_what_is_not_there_take_no_longer_for_there_being_many():
    found = run_in_fork(
        lambda: verdict("JSONSchema/draft-07", {"allOf": [{"$ref": f"#a{n}"} for n in range(4_000)]}, body=b"{}"), LIMIT
    )
    assert found.status in ("unsupported_format", "schema_unresolved")


def test_records_that_double_are_read_where_their_bytes_are_there():
    found = verdict("Avro", records(24, "string"), body=b"\x02a\x02", content_type="application/avro")
    assert found.status == "undecodable"
    assert verdict("Avro", records(3, "string"), body=b"\x02a" * 4, content_type="application/avro").status == "valid"


class Hog:
    """A validator that takes memory without end, and nearly no time."""

    def __init__(self, is_apart: bool) -> None:
        self._is_apart = is_apart

    def may_hang(self, body, data):
        return self._is_apart

    def decode(self, body, data, content_type):
        raise MemoryError


@pytest.mark.parametrize(
    ("is_apart", "reported"), [(True, "the library ended its process"), (False, "the library ran out of memory")]
)
def test_what_runs_out_of_memory_is_reported(is_apart, reported):
    payloads = Payloads(Schemas([]))
    made = MadeValidator(Hog(is_apart), (), SimpleNamespace(xid=None))
    encoded = EncodedPayload(*([None] * len(EncodedPayload._fields)))._replace(body=b"{}")
    found = [payloads._checked(made, made, False, encoded) for _ in range(2)]
    assert {verdict.status for verdict in found} == {"unsupported_format"}
    assert {verdict.remarks for verdict in found} == {(reported,)}


def test_null_in_a_structured_event_meets_the_same_limit():
    found = run_in_fork(lambda: verdict("JSONSchema/2020-12", doubled(40), mode="structured", data=None, has_data=True), LIMIT)
    assert found.status == "none"


def test_after_some_that_hang_no_other_is_tried(monkeypatch):
    monkeypatch.setattr("lakehouse.match.payload.payloads._SECONDS", 0.2)
    from lakehouse.match.definition.compiled import Definition
    from lakehouse.match.event.canonical import Event

    version = SchemaVersion("r", f"{S}/versions/1", S, True, "JSONSchema/2020-12", json.dumps(doubled(40)))
    payloads = Payloads(Schemas([version]))
    definitions = [Definition("r", f"/messagegroups/g/messages/m{number}", dataschemauri=S) for number in range(2)]
    event = Event("KAFKA", mode="binary", body=b"{}", content_type="application/json")
    assert payloads.quick(definitions[0]) is None
    reported = [payloads.check(definitions[number % 2], event).remarks for number in range(5)]  # both name the schema
    assert reported == [("it took more than 0.2 s",)] * 3 + [("others of this schema took too long",)] * 2


def test_the_same_schemas_hold_for_what_is_not_deep():
    body = b'{"a": {"a": {"z": 1}, "y": 1}, "z": 1}'
    assert verdict("JSONSchema/2020-12", TWICE, body=body).status == "valid"
    assert verdict("JSONSchema/2020-12", TWICE, body=b'{"a": {}, "z": 1}').status == "invalid"
    kind = "application/avro"
    assert verdict("Avro", {"type": "array", "items": "null"}, body=b"\x04\0", content_type=kind).status == "valid"
    assert verdict("Avro", NODE, body=b"\x02" * 50 + b"\0", content_type=kind).status == "valid"
    container = io.BytesIO()
    fastavro.writer(container, fastavro.parse_schema(NODE), [{"n": None}], codec="deflate")
    assert verdict("Avro", NODE, body=container.getvalue(), content_type=kind).status == "valid"
    always = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "N"}]}
    assert "always holds itself" in verdict("Avro", always, body=b"\x02", content_type=kind).remarks[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"next": {"$ref": "#"}, "children": {"items": {"$ref": "#"}}}},
        {"additionalProperties": {"$ref": "#"}, "properties": {"a": {"$ref": "#"}}},
        {"items": [{"$ref": "#"}, {"$ref": "#"}], "additionalItems": {"$ref": "#"}},
        {"allOf": [{"$ref": "#/$defs/a"}, {"required": ["x"]}], "$defs": {"a": {"properties": {"a": {"$ref": "#"}}}}},
        STRUCTURE, True, {"$ref": "#"}, {"$ref": "#/none"}, {"type": ["string", "null"]}, doubled(6),
    ],
    ids=range(10),
)  # fmt: skip
def test_usual_schemas_are_not_costly(schema):
    assert effort_of(schema).is_plain


def test_how_often_a_schema_looks_is_counted():
    assert effort_of(doubled(11)).looks == 4 * 2**10 - 2  # each $ref, and what it is of
    assert effort_of(TWICE).branches == 2
    assert effort_of({"$ref": "https://elsewhere.example/schema"}).branches == 2  # what it may lead to is not known
    others = {"https://x.example/n": {"$id": "https://x.example/n", "properties": {"a": {"$ref": "o#/$defs/o"}}},
              "https://x.example/o": {"$defs": {"o": {"anyOf": [{"$ref": "n"}, {"properties": {"a": {"$ref": "n"}}}]}}},
              "https://x.example/p": {"$id": "https://x.example/p", "items": {"$anchor": "i", "type": "string"}}}  # fmt: skip
    assert effort_of({"$id": "https://x.example/m", "$ref": "p"}, others.__getitem__).is_plain
    assert effort_of({"$id": "https://x.example/m", "items": {"$ref": "p#i"}}, others.__getitem__).is_plain
    assert effort_of({"$id": "https://x.example/m", "$ref": "none"}, others.__getitem__).is_plain  # it is unresolved
    others["https://x.example/o"]["$id"] = "https://x.example/o"
    assert effort_of({"$id": "https://x.example/m", "$ref": "n"}, others.__getitem__).branches == 2  # itself, over another
    wide = {"$defs": {f"p{n}": {"allOf": [{"$ref": f"#/$defs/p{n + 1}"}]} for n in range(50_000)}, "$ref": "#/$defs/p0"}
    effort = effort_of(wide)
    assert not effort.is_high({"a": 1})
    assert effort.is_high([1] * 1000)  # each of them takes 100,000 looks


def _doubled_by(keyword: str, own: str, reference: str, count: int) -> dict[str, Any]:
    """Return a schema of parts that each call the next one twice, by references of some form."""
    parts = {f"a{n}": {"allOf": [{"$ref": f"{reference}{n + 1}"}] * 2} for n in range(count)}
    return {keyword: own, "$ref": f"{reference}0", "definitions": parts | {f"a{count}": {}}}


def test_references_by_an_id_are_counted_as_others_are():
    usual = effort_of(_doubled_by("$comment", "", "#/definitions/a", 12))
    for keyword, own, reference in (
        ("$id", "http://x.example/s", "http://x.example/s#/definitions/a"),
        ("$id", "http://x.example/s", "s#/definitions/a"),
        ("id", "http://x.example/s#", "http://x.example/s#/definitions/a"),
    ):
        assert effort_of(_doubled_by(keyword, own, reference, 12), {}.__getitem__).looks == usual.looks
    inner = {"definitions": {"i": _doubled_by("$id", "http://x.example/i", "#/definitions/a", 12)}}
    assert effort_of(inner | {"$ref": "http://x.example/i"}, {}.__getitem__).is_high({})
    data = {"properties": {"id": {"$ref": "#/definitions/s"}}, "definitions": {"s": {"examples": [{"id": "x", "$id": "y"}]}}}
    assert effort_of(data).is_plain


def test_a_process_apart_is_limited_and_gives_what_it_made():
    assert run_in_fork(lambda: {"a": b"x" * 300_000}, LIMIT) == {"a": b"x" * 300_000}
    with pytest.raises(NoAnswer, match=r"more than 0\.2 s"):
        run_in_fork(lambda: time.sleep(60), 0.2)
    with pytest.raises(NoAnswer, match="ended its process"):
        run_in_fork(lambda: 1 / 0, LIMIT)
    with pytest.raises(NoAnswer, match="ended its process"):
        run_in_fork(lambda: len(bytearray(2**33)), LIMIT)
