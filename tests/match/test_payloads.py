"""Payloads against schemas of all formats, and what hostile ones cost."""

from __future__ import annotations

import gzip
import io
import json
import time
from typing import Any

import fastavro
import pytest

from lakehouse.match.definition.compiled import Definition
from lakehouse.match.event.canonical import Event
from lakehouse.match.payload.payloads import Payloads
from lakehouse.match.payload.schemas import Schemas, SchemaVersion

JSON_SCHEMA = {
    "type": "object",
    "required": ["n"],
    "properties": {"n": {"type": "integer"}, "t": {"type": "string", "format": "date-time"}},
}
AVRO = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
PROTO = 'syntax = "proto3"; package p; message R { int32 n = 1; } message Other { string s = 1; }'
STRUCTURE = {"$schema": "https://json-structure.org/meta/core/v0/#", "$id": "urn:r", "name": "R", "type": "object",
             "properties": {"n": {"type": "int32"}}, "required": ["n"]}  # fmt: skip
S = "/schemagroups/g/schemas/R"


def verdict(
    format_: str, schema: Any, *, uri: str = S, more: tuple[SchemaVersion, ...] = (), unpacked: int = 10_000, **event: Any
) -> Any:
    versions = [SchemaVersion("r", f"{S}/versions/1", S, True, format_, json.dumps(schema)), *more]
    definition = Definition("r", "/messagegroups/g/messages/m", dataschemauri=uri)
    given = {"mode": "binary", "family": "KAFKA", "content_type": "application/json"} | event
    return Payloads(Schemas(versions), unpacked).check(definition, Event(**given))


def reported(found: Any) -> tuple[str, list[str]]:
    return found.status, [error.pointer for error in found.errors]


@pytest.mark.parametrize(
    ("format_", "schema"),
    [
        ("JSONSchema/draft-07", JSON_SCHEMA), ("JsonSchema/draft-07", JSON_SCHEMA), ("Draft/2020-12", JSON_SCHEMA),
        ("JSONSchema/draft-04", json.dumps(JSON_SCHEMA)), ("Avro/1.11.3", AVRO), ("AVRO", AVRO), ("Protobuf/3", PROTO),
        ("Proto/3", PROTO), ("JsonStructure/draft-02", STRUCTURE), ("Unknown", STRUCTURE),
    ],
)  # fmt: skip
def test_json_payloads_in_all_formats(format_, schema):
    assert reported(verdict(format_, schema, body=b'{"n": 1}')) == ("valid", [])
    assert reported(verdict(format_, schema, mode="structured", data={"n": 1}, has_data=True)) == ("valid", [])
    assert verdict(format_, schema, body=b'{"n": "x"}').status in ("invalid", "undecodable")
    assert verdict(format_, schema, body=b"{").status == "undecodable"
    if "Proto" not in format_:
        assert reported(verdict(format_, schema, body=b"{}")) == ("invalid", ["/n"])


BIG = 123456789012345678901234567890
BIG_SCHEMAS = {
    "const": ({"properties": {"n": {"const": BIG}}}, BIG, BIG + 1),
    "maximum": ({"properties": {"n": {"maximum": 2**64}}}, 2**64, 2**64 + 1),
    "multipleOf": ({"properties": {"n": {"multipleOf": 10}}}, BIG, BIG + 1),
    "schema in a text": (json.dumps({"properties": {"n": {"const": BIG}}}), BIG, BIG + 1),
}


@pytest.mark.parametrize(("schema", "good", "bad"), BIG_SCHEMAS.values(), ids=BIG_SCHEMAS)
def test_integers_of_any_size_are_compared_to_the_last_digit(schema, good, bad):
    for number, status in ((good, "valid"), (bad, "invalid")):
        text = json.dumps({"n": number})
        for event in ({"body": text.encode()}, {"data": text, "has_data": True}, {"data": {"n": number}, "has_data": True}):
            assert verdict("JSONSchema/draft-07", schema, **event).status == status
    assert verdict("JSONSchema/draft-07", schema, body=b'{"n": 1e400}').status == "undecodable"  # no double holds it


def test_formats_are_asserted_in_all_drafts():
    for format_ in ("JSONSchema/draft-07", "JSONSchema/2020-12"):
        assert reported(verdict(format_, JSON_SCHEMA, body=b'{"n": 1, "t": "2026-01-01T00:00:00"}')) == ("invalid", ["/t"])


def test_avro_bytes():
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, AVRO, {"n": 5})
    bare = stream.getvalue()
    for body in (bare, b"\xc3\x01" + b"\0" * 8 + bare, b"\0\0\0\0\7" + bare):
        assert verdict("Avro", AVRO, body=body, content_type="application/avro").status == "valid"
    assert verdict("Avro", AVRO, body=bare + b"xx", content_type="application/avro").status == "undecodable"


def _avro(schema: Any, *values: Any, container: bool = False) -> bytes:
    written = io.BytesIO()
    if container:
        fastavro.writer(written, fastavro.parse_schema(schema), values)
    else:
        fastavro.schemaless_writer(written, fastavro.parse_schema(schema), values[0])
    return written.getvalue()


DOUBLE = {"type": "record", "name": "R", "fields": [{"name": "lat", "type": "double"}]}
INTEGERS = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"},
            {"name": "s", "type": "string"}]}  # fmt: skip
FIXED = {"type": "record", "name": "R", "fields": [{"name": "f", "type": {"type": "fixed", "name": "F", "size": 12}}]}


@pytest.mark.parametrize("framing", [b"", b"\0\0\0\0\7"])
@pytest.mark.parametrize(
    ("schema", "value", "start", "content_type"),
    [
        (DOUBLE, {"lat": 50.0207}, b"{", None),
        (AVRO, {"n": -62}, b"{", None),
        (INTEGERS, {"a": -2, "b": -3, "s": "x" * 20}, b"\3\5", None),  # as Glue's framing, with its compression
        (INTEGERS, {"a": -2, "b": -3, "s": "x" * 20}, b"\3\5", "application/avro"),
        (FIXED, {"f": b"\xc3\x01" + b"x" * 10}, b"\xc3\x01", "application/avro"),  # as a single object
        (FIXED, {"f": b"Obj\x01" + b"x" * 8}, b"Obj\x01", "application/avro"),  # as a container
    ],
)
def test_avro_bytes_that_begin_as_another_form_does_are_valid(schema, value, start, content_type, framing):
    body = _avro(schema, value)
    assert body.startswith(start)
    found = verdict("Avro", schema, body=framing + body, content_type=content_type)
    assert reported(found) == ("valid", [])
    assert found.written_with == f"{S}/versions/1"
    longer = verdict("Avro", schema, body=framing + body + b"x", content_type=content_type)
    assert longer.status == "undecodable"


def test_json_without_a_content_type_is_valid_by_an_avro_schema_and_broken_json_says_so():
    assert reported(verdict("Avro", AVRO, body=b'{"n": 1}', content_type=None)) == ("valid", [])
    assert reported(verdict("Avro", AVRO, body=b'{"n": "x"}', content_type=None)) == ("invalid", ["/n"])
    broken = verdict("Avro", AVRO, body=b'{"n": 1', content_type=None)
    assert broken.status == "undecodable"
    assert broken.errors[0].message.startswith("not JSON")


def test_avro_that_begins_as_json_does_is_read_by_the_version_that_wrote_it():
    newer = {"type": "record", "name": "R", "fields": [*DOUBLE["fields"], {"name": "s", "type": "string", "default": ""}]}
    more = (SchemaVersion("r", f"{S}/versions/0", S, False, "Avro", json.dumps(DOUBLE)),)
    found = verdict("Avro", newer, more=more, body=_avro(DOUBLE, {"lat": 50.0207}), content_type=None)
    assert (found.status, found.written_with) == ("valid_older", f"{S}/versions/0")


def test_values_of_logical_types_that_python_has_not_are_read():
    def record(**type_: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [{"name": "n", "type": type_}]}

    for plain, logical, value in (("long", "timestamp-millis", 10**17), ("int", "date", 10**7), ("string", "uuid", "none")):
        body = _avro(record(type=plain), {"n": value})
        found = verdict("Avro/1.11", record(type=plain, logicalType=logical), body=body, content_type="avro/binary")
        assert reported(found) == ("valid", []), logical
    assert (
        verdict("Avro/1.11", record(type="int", logicalType="date"), body=b"\x80", content_type="avro/binary").status
        == "undecodable"
    )


def test_a_container_of_an_older_version_is_read_by_its_own_schema():
    def record(**field: Any) -> dict[str, Any]:
        return {"type": "record", "name": "R", "fields": [field]}

    older = record(name="name", type="string")
    newer = record(name="title", type="string", aliases=["name"])
    more = (SchemaVersion("r", f"{S}/versions/0", S, False, "Avro/1.11", json.dumps(older)),)
    for container in (False, True):
        body = _avro(older, {"name": "x"}, container=container)
        assert verdict("Avro/1.11", newer, more=more, body=body, content_type="avro/binary").status in ("valid", "valid_older")


def test_a_field_in_a_map_that_the_schema_does_not_know_is_reported():
    schema = 'syntax = "proto3"; message R { map<string, B> m = 2; } message B { int32 n = 1; }'
    unknown = bytes.fromhex("12070a016112021801")
    found = verdict("Protobuf/3", schema, body=unknown, content_type="application/protobuf")
    assert reported(found) == ("invalid", ["/m/a/3"])


def test_protobuf_bytes():
    kind = "application/protobuf"
    assert reported(verdict("Protobuf/3", PROTO, body=b"\x08\x05", content_type=kind)) == ("valid", [])
    assert reported(verdict("Protobuf/3", PROTO, body=b"\x08\x05\x58\x01", content_type=kind)) == ("invalid", ["/11"])
    assert verdict("Protobuf/3", PROTO, uri=f"{S}:Other", body=b"\x0a\x01a", content_type=kind).status == "valid"
    assert verdict("Protobuf/3", PROTO, body=b"\xff", content_type=kind).status == "undecodable"
    for place in (b"\0", b"\x02\0", b"\x04\0\x02"):  # of Confluent's serializer: the first type, also in full; one within another
        found = verdict("Protobuf/3", PROTO, body=b"\0\0\0\0\7" + place + b"\x08\x05", content_type=kind)
        assert (found.status, found.remarks) == ("valid", ("confluent_framing",))
    assert verdict("Protobuf/3", PROTO, body=b"\0" * 5 + b"\xff" * 40, content_type=kind).status in ("valid", "undecodable")


@pytest.mark.parametrize(
    ("format_", "schema", "body"),
    [
        ("Avro", AVRO, b"\x02"), ("Protobuf/3", PROTO, b"\x08\x05"), ("JSONSchema", JSON_SCHEMA, b'{"n": 1}'),
        ("XSD/1.0", '<schema xmlns="http://www.w3.org/2001/XMLSchema"><element name="n" type="int"/></schema>', b"<n>1</n>"),
    ],
)  # fmt: skip
def test_bytes_of_a_structured_event_that_says_no_content_type_are_of_the_schema(format_, schema, body):
    """JSON is meant where `data` is there (JSON format of CloudEvents, 3.1.2), and these are of `data_base64`."""
    envelope = {"mode": "structured", "content_type": "application/cloudevents+json"}
    assert verdict(format_, schema, body=body, **envelope).status == "valid"


NESTED = 'syntax = "proto3"; package p; message S { string a = 1; message I { int32 b = 1; } }'
I_OF_S, S_ITSELF = b"\x08\x01", b"\x0a\x01x"


@pytest.mark.parametrize(
    ("named", "body", "status"),
    [
        (":.p.S.I", I_OF_S, "valid"),
        (":p.S.I", I_OF_S, "valid"), (":S.I", I_OF_S, "valid"), (":I", I_OF_S, "valid"), (":p.S.I", S_ITSELF, "invalid"),
        (":S", S_ITSELF, "valid"), ("", S_ITSELF, "valid"), (":p.Nope", S_ITSELF, "unsupported_format"),
        (":q.S", S_ITSELF, "unsupported_format"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", ["", " message R { int32 z = 1; message S { int32 y = 1; } }"])
def test_the_message_that_a_reference_names_is_meant_and_no_other(named, body, status, more):
    found = verdict("Protobuf/3", NESTED + more, uri=S + named, body=body, content_type="application/protobuf")
    assert found.status == ("invalid" if more and not named else status)  # then the one that is named like the schema, R


def test_packed_payloads():
    packed = gzip.compress(b'{"n": 1}')
    options = {"headers/content-encoding": "gzip"}
    assert verdict("JSONSchema", JSON_SCHEMA, body=packed, options=options).status == "valid"
    assert verdict("JSONSchema", JSON_SCHEMA, body=packed[:-9], options=options).status == "undecodable"
    bomb = verdict("JSONSchema", JSON_SCHEMA, body=gzip.compress(b" " * 1_000_000), options=options)
    assert "max_unpacked_bytes" in bomb.errors[0].message


def test_a_payload_that_was_encoded_twice_is_read_once_more():
    found = verdict("JSONSchema", JSON_SCHEMA, mode="structured", data='{"n": 1}', has_data=True)
    assert (found.status, found.remarks) == ("valid", ("double_encoded",))


def test_no_payload_and_no_schema():
    assert verdict("JSONSchema", JSON_SCHEMA, body=None).status == "none"
    assert verdict("JSONSchema", JSON_SCHEMA, body=b"").status == "none"
    assert verdict("JSONSchema", JSON_SCHEMA, uri="/schemagroups/g/schemas/other", body=b"{}").status == "schema_unresolved"
    assert verdict("JSONSchema", JSON_SCHEMA, uri="https://x.example/s.json", body=b"{}").status == "schema_unresolved"
    assert verdict("RelaxNG/1.0", "<grammar/>", body=b"<a/>").status == "unsupported_format"


@pytest.mark.attack
@pytest.mark.parametrize("reference", ["http://127.0.0.1:9/s.json", "file:///etc/hostname", "other.json"])
def test_nothing_is_fetched(reference):
    assert verdict("JSONSchema", {"$ref": reference}, body=b"{}").status == "schema_unresolved"


def test_a_schema_may_refer_to_another_of_the_catalog():
    named = {"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://x.example/n", "type": "integer"}
    other = SchemaVersion(
        "r", "/schemagroups/g/schemas/N/versions/1", "/schemagroups/g/schemas/N", True, "JSONSchema", json.dumps(named)
    )
    schema = {"properties": {"n": {"$ref": "https://x.example/n"}}}
    assert reported(verdict("JSONSchema/draft-07", schema, more=(other,), body=b'{"n": "x"}')) == ("invalid", ["/n"])


def test_places_types_and_versions_that_a_reference_names():
    schema = {"definitions": {"T": {"properties": {"n": {"$ref": "#/definitions/U"}}}, "U": {"type": "integer"}}}
    for uri in (f"{S}#/definitions/T", f"#{S}/versions/1#/definitions/T", f"{S}/versions/1:T#/definitions/T"):
        assert reported(verdict("JSONSchema/draft-07", schema, uri=uri, body=b'{"n": "x"}')) == ("invalid", ["/n"]), uri


@pytest.mark.parametrize(
    ("format_", "schema"),
    [
        ("JSONSchema/draft-07", {"properties": {"s": {"pattern": "^(a+)+$"}}}),
        ("JsonStructure/draft-02", STRUCTURE | {"$uses": ["JSONStructureValidation"], "required": [],
                                                "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}}),
    ],
)  # fmt: skip
def test_no_pattern_backtracks(format_, schema):
    begun = time.process_time()
    body = json.dumps({"s": "a" * 5_000 + "!"}).encode()
    assert verdict(format_, schema, body=body).status == "invalid"
    assert time.process_time() - begun < 20


def test_a_hostile_schema_or_payload_costs_its_own_row():
    deep = b"[" * 100_000 + b"]" * 100_000
    assert verdict("JSONSchema", JSON_SCHEMA, body=deep).status in ("undecodable", "invalid")
    assert verdict("JSONSchema", {"type": 7}, body=b"{}").status == "unsupported_format"
    assert verdict("Avro", {"type": "record"}, body=b"{}").status == "unsupported_format"
    assert verdict("Protobuf", "message {", body=b"{}").status == "unsupported_format"
    assert verdict("JSONSchema", JSON_SCHEMA, body=b'{"n": NaN}').status == "undecodable"
    assert verdict("JSONSchema", JSON_SCHEMA, body=b'{"n": 123456789012345678901234567890}').status == "valid"
