"""Which Version of a schema a payload was written with, by bytes that other libraries made."""

from __future__ import annotations

import io
import json
import struct
import zlib
from typing import Any
from uuid import UUID

import avro.io
import avro.schema
import fastavro
import pytest
from builders import document, group
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.definition.compiled import Definition
from lakehouse.match.event.canonical import SCHEMA_ID, Event
from lakehouse.match.payload.payloads import PayloadVerdict
from lakehouse.match.payload.schemas import SchemaVersion
from match.catalogs import load
from match.test_columns import both, row

S = "/schemagroups/g/schemas/Order"
V1, V2, V3 = (f"{S}/versions/{number}" for number in (1, 2, 3))
GUIDS = {1: "11111111-1111-4111-8111-111111111111", 2: "22222222-2222-4222-8222-222222222222"}


def order(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Order", "fields": list(fields)}


A, B = {"name": "a", "type": "string"}, {"name": "b", "type": "string"}
NOTE = {"name": "note", "type": ["null", "string"], "default": None}
OPTIONAL = (order(A), order(A, NOTE))  # one optional field more
SWAPPED = (order(A, B), order(B, A))
REQUIRED = (order(A), order(A, {"name": "n", "type": "long"}))  # the second cannot read the first


def versions(*schemas: Any, form: str = "Avro/1.12.0", labels: bool = True) -> list[SchemaVersion]:
    made = []
    for number, schema in enumerate(schemas, 1):
        guid = GUIDS.get(number, "")
        ids = {"confluent.id": str(100 + number), "confluent.guid": guid, "glue.versionid": guid, "azure.id": f"{number:032x}"}
        own = (f"{S}/versions/{number}", S, number == len(schemas), form, json.dumps(schema), number)
        made.append(SchemaVersion("r", *own, ids if labels else {}))
    return made


def check(
    schemas: list[SchemaVersion], body: bytes, *, uri: str = S, header: bytes | None = None, kind: str = ""
) -> PayloadVerdict:
    definition = Definition("r", "/messagegroups/g/messages/m", dataschemauri=uri)
    options = {} if header is None else {SCHEMA_ID: header.hex()}
    event = Event("KAFKA", mode="binary", body=body, options=options, content_type=kind or "application/avro")
    return Payloads(Schemas(schemas)).check(definition, event)


def by_fastavro(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, schema, value)
    return stream.getvalue()


def by_apache(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    avro.io.DatumWriter(avro.schema.parse(json.dumps(schema))).write(value, avro.io.BinaryEncoder(stream))
    return stream.getvalue()


def framed(number: int) -> bytes:
    return b"\0" + struct.pack(">I", 100 + number)


@pytest.mark.parametrize("write", [by_fastavro, by_apache])
@pytest.mark.parametrize("labels", [True, False])
def test_avro_of_the_version_before_is_read_by_resolution(write, labels):
    old, new = write(OPTIONAL[0], {"a": "x"}), write(OPTIONAL[1], {"a": "x", "note": "y"})
    schemas = versions(*OPTIONAL, labels=labels)
    for prefix, body, expected in (
        (framed(1), old, ("valid_older", V1)), (framed(2), new, ("valid", V2)),
        (b"", old, ("valid_older", V1)), (b"", new, ("valid", V2)),
    ):  # fmt: skip
        result = check(schemas, prefix + body)
        assert (result.status, result.written_with) == expected
        assert result.remarks == (("confluent_framing",) if prefix else ())


def test_exchanged_fields_are_judged_by_the_id():
    body = by_apache(SWAPPED[0], {"a": "1", "b": "2"})
    limited = (SWAPPED[0], order(B, {"name": "a", "type": {"type": "enum", "name": "E", "symbols": ["no"]}}))
    assert check(versions(*SWAPPED), framed(1) + body)[::3] == ("valid_older", V1)
    assert check(versions(*SWAPPED), body)[::3] == ("valid", V2)  # both read it: the newest counts
    result = check(versions(*limited), framed(1) + body)
    assert (result.status, result.written_with, result.errors[0].keyword) == ("invalid", V1, "resolution")


@pytest.mark.parametrize(
    ("prefix", "header", "kind", "remarks"),
    [
        (b"\1" + UUID(GUIDS[1]).bytes, None, "", ("confluent_framing",)),
        (b"", b"\1" + UUID(GUIDS[1]).bytes, "", ()),
        (b"", b"\0" + struct.pack(">I", 101), "", ()),
        (b"\3\0" + UUID(GUIDS[1]).bytes, None, "", ("glue_framing",)),
        (b"\0\0\0\0" + f"{1:032x}".encode(), None, "", ("azure_framing",)),
        (b"", None, f"avro/binary+{1:032x}", ()),
    ],
)
def test_every_framing_leads_to_its_version(prefix, header, kind, remarks):
    result = check(versions(*SWAPPED), prefix + by_fastavro(SWAPPED[0], {"a": "1", "b": "2"}), header=header, kind=kind)
    assert (result.status, result.written_with, result.remarks) == ("valid_older", V1, remarks)


def test_glue_payloads_that_are_compressed():
    body = by_fastavro(SWAPPED[0], {"a": "1", "b": "2"})
    prefix = b"\3\5" + UUID(GUIDS[1]).bytes
    assert check(versions(*SWAPPED), prefix + zlib.compress(body)).written_with == V1
    for labels in (True, False):
        cut = check(versions(*SWAPPED, labels=labels), prefix + zlib.compress(body)[:-3])
        assert (cut.status, cut.errors[0].message) == ("undecodable", "content encoding deflate: cut off")
        assert cut.written_with == (V1 if labels else None)


def test_a_record_that_is_not_of_the_version_that_it_names():
    result = check(versions(*OPTIONAL), framed(1) + by_fastavro(OPTIONAL[1], {"a": "x", "note": "y"}))
    assert (result.status, result.written_with) == ("undecodable", V1)


def test_what_the_version_of_the_definition_cannot_read():
    result = check(versions(*REQUIRED), framed(1) + by_fastavro(REQUIRED[0], {"a": "x"}))
    assert (result.status, result.written_with, result.errors[0].keyword) == ("invalid", V1, "resolution")


def test_a_definition_may_name_an_older_version():
    body = by_fastavro(OPTIONAL[1], {"a": "x", "note": "y"})
    result = check(versions(*OPTIONAL), framed(2) + body, uri=V1)
    assert (result.status, result.written_with) == ("valid", V2)  # newer, and read by Version 1
    assert check(versions(*OPTIONAL), by_fastavro(OPTIONAL[0], {"a": "x"}), uri=V1)[::3] == ("valid", V1)


def test_an_id_that_no_version_has():
    result = check(versions(*OPTIONAL), b"\0\0\0\0\7" + by_fastavro(OPTIONAL[0], {"a": "x"}))
    assert (result.status, result.written_with) == ("valid_older", V1)
    assert check(versions(*OPTIONAL), b"\xff\xff").status == "undecodable"


def test_no_more_versions_are_tried_than_the_limit():
    added = [{"name": f"f{at}", "type": "string", "default": ""} for at in range(40)]
    many = versions(*(order(A, *added[:size]) for size in range(40)))
    result = check(many, by_fastavro(order(A), {"a": "x"}))
    assert result.status == "undecodable"
    assert result.remarks == ("14 older Versions of the schema were not tried",)


def proto(*fields: tuple[str, int]) -> str:
    return 'syntax = "proto3"; message Order { ' + " ".join(f"string {name} = {number};" for name, number in fields) + " }"


def by_protobuf(**values: tuple[int, str]) -> bytes:
    file = descriptor_pb2.FileDescriptorProto(name="o.proto", syntax="proto3")
    message = file.message_type.add(name="Order")
    for name, (number, _) in values.items():
        message.field.add(name=name, number=number, type=9, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("Order"))
    return made(**{name: text for name, (_, text) in values.items()}).SerializeToString()


@pytest.mark.parametrize("labels", [True, False])
def test_protobuf_fields_that_only_an_older_version_has(labels):
    schemas = versions(proto(("a", 1), ("old", 2)), proto(("a", 1), ("new", 3)), form="Protobuf/3", labels=labels)
    old = by_protobuf(a=(1, "x"), old=(2, "y"))
    kind = "application/protobuf"
    for body in (framed(1) + b"\0" + old, old):
        assert check(schemas, body, kind=kind)[::3] == ("valid_older", V1)
    assert check(schemas, framed(2) + b"\0" + by_protobuf(new=(3, "z")), kind=kind)[::3] == ("valid", V2)
    assert check(schemas, by_protobuf(a=(1, "x"), other=(9, "y")), kind=kind)[::3] == ("invalid", None)


@pytest.mark.parametrize("labels", [True, False])
def test_json_of_an_older_version(labels):
    old = {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": {}}}
    new = {"type": "object", "required": ["a", "b"], "properties": {"a": {}, "b": {}}}
    schemas = versions(old, old | {"properties": {"a": {}, "c": {}}}, new, form="JsonSchema/draft-07", labels=labels)
    kind = "application/json"
    result = check(schemas, framed(1) + b'{"a": 1}', kind=kind)
    assert (result.status, [error.pointer for error in result.errors]) == ("invalid", ["/b"])  # of the definition's Version
    assert result.written_with == (V1 if labels else V2)
    assert check(schemas, framed(3) + b'{"a": 1, "b": 2}', kind=kind)[::3] == ("valid", V3)
    assert check(schemas, b'{"d": 1}', kind=kind)[::3] == ("invalid", None)


def test_both_ways_find_the_same_writers():
    definition = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}}, "dataschemaformat": "Avro/1.12.0",
                  "dataschemauri": S}  # fmt: skip
    rows, _ = load({"r": document({"g": group({"m": definition})})})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(versions(*OPTIONAL))), MatchRequest())
    headers = {"ce_specversion": "1.0", "ce_type": "T", "ce_source": "/s", "content-type": "application/avro"}
    old, new = by_fastavro(OPTIONAL[0], {"a": "x"}), by_fastavro(OPTIONAL[1], {"a": "x", "note": None})
    records = []
    for number in range(700):
        own: dict[str, str | bytes | None] = headers | {"ce_id": str(number)}
        body = (framed(1) + old, new, old, framed(2) + new, b"\xff", old, old)[number % 7]
        if number % 7 == 5:
            own["__value_schema_id"] = b"\1" + UUID(GUIDS[1]).bytes
        if number % 7 == 6:
            own |= {"__value_schema_id": framed(1), "__key_schema_id": framed(1)}
        records.append(row(number, own, payload=body))
    count, by_columns, looped = both(matcher, records)
    assert count == 500
    assert by_columns == looped
    assert {(one["payload_status"], one["written_with"]) for one in looped[:7]} == {
        ("valid_older", V1), ("valid", V2), ("undecodable", None)}  # fmt: skip
