"""Schemas and payloads on which libraries hang, run out of memory or end their process: each costs its own row, and seconds."""

from __future__ import annotations

import io
import json
import time
from typing import Any

import fastavro
import pytest

from lakehouse.match.payload.apart import NoAnswer, apart
from lakehouse.match.payload.effort import effort_of
from lakehouse.match.payload.payloads import Payloads
from lakehouse.match.payload.schemas import Schemas, SchemaVersion
from match.test_payloads import STRUCTURE, S, verdict

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
def test_what_takes_long_or_ends_its_process_is_told(format_, schema, body, kind):
    found = apart(lambda: verdict(format_, schema, body=body, content_type=kind), LIMIT)
    assert (found.status, found.errors) == ("unsupported_format", ())
    assert found.remarks[-1] in ("it took more than 3 s", "the library ended its process")


class Hog:
    """A validator that takes memory without end, and nearly no time."""

    def __init__(self, is_apart: bool) -> None:
        self._is_apart = is_apart

    def may_hang(self, body, data):
        return self._is_apart

    def decode(self, body, data, content_type):
        raise MemoryError


@pytest.mark.parametrize(
    ("is_apart", "told"), [(True, "the library ended its process"), (False, "the library ran out of memory")]
)
def test_what_runs_out_of_memory_is_told(is_apart, told):
    payloads = Payloads(Schemas([]))
    found = [payloads._checked((Hog(is_apart), ()), b"{}", None, None) for _ in range(2)]
    assert {verdict.status for verdict in found} == {"unsupported_format"}
    assert {verdict.remarks for verdict in found} == {(told,)}


def test_null_in_a_structured_event_meets_the_same_limit():
    found = apart(lambda: verdict("JSONSchema/2020-12", doubled(40), mode="structured", data=None, has_data=True), LIMIT)
    assert found.status == "none"


def test_after_some_that_hang_no_other_is_tried(monkeypatch):
    monkeypatch.setattr("lakehouse.match.payload.payloads._SECONDS", 0.2)
    from lakehouse.match.definition.definitions import Definition
    from lakehouse.match.event.landed import Event

    version = SchemaVersion("r", f"{S}/versions/1", S, True, "JSONSchema/2020-12", json.dumps(doubled(40)))
    payloads = Payloads(Schemas([version]))
    definitions = [Definition("r", f"/messagegroups/g/messages/m{number}", dataschemauri=S) for number in range(2)]
    event = Event("KAFKA", mode="binary", body=b"{}", content_type="application/json")
    assert payloads.quick(definitions[0]) is None
    told = [payloads.check(definitions[number % 2], event).remarks for number in range(5)]  # both name the schema
    assert told == [("it took more than 0.2 s",)] * 3 + [("others of this schema took too long",)] * 2


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
        STRUCTURE, True, {"$ref": "#"}, {"$ref": "#/none"}, {"type": ["string", "null"]}, doubled(10),
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
    begun = time.process_time()
    wide = {"$defs": {f"p{n}": {"allOf": [{"$ref": f"#/$defs/p{n + 1}"}]} for n in range(50_000)}, "$ref": "#/$defs/p0"}
    assert effort_of(wide).is_plain
    assert time.process_time() - begun < 30


def test_a_process_apart_is_limited_and_gives_what_it_made():
    assert apart(lambda: {"a": b"x" * 300_000}, LIMIT) == {"a": b"x" * 300_000}
    with pytest.raises(NoAnswer, match=r"more than 0\.2 s"):
        apart(lambda: time.sleep(60), 0.2)
    with pytest.raises(NoAnswer, match="ended its process"):
        apart(lambda: 1 / 0, LIMIT)
    with pytest.raises(NoAnswer, match="ended its process"):
        apart(lambda: len(bytearray(2**33)), LIMIT)
