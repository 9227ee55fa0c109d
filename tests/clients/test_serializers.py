"""Kafka's serializers and deserializers read the catalog as a schema registry; no broker is needed to try them.

A topic `_schemas` is loaded, so the ids are those that another registry gave.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator

import fastavro
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.error import SchemaRegistryError
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from programs import lakehouse, serving

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "string"}]}
WITH_NOTE = ORDER | {"fields": [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]}
CART = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Cart",
    "type": "object",
    "properties": {"items": {"type": "integer"}},
    "required": ["items"],
}
ITEM = 'syntax = "proto3";\npackage shop;\n\nmessage Item {\n  string sku = 1;\n}\n'
PAID = 'syntax = "proto3";\npackage shop;\n\nimport "item.proto";\n\nmessage Paid {\n  string id = 1;\n  Item item = 2;\n}\n'
VERSIONS = [
    ("orders-value", 1, 101, "AVRO", json.dumps(ORDER), []),
    ("orders-value", 2, 102, "AVRO", json.dumps(WITH_NOTE), []),
    ("carts-value", 1, 103, "JSON", json.dumps(CART), []),
    ("item.proto", 1, 104, "PROTOBUF", ITEM, []),
    ("paid-value", 1, 105, "PROTOBUF", PAID, [{"name": "item.proto", "subject": "item.proto", "version": 1}]),
]
NEVER_REGISTER = {"auto.register.schemas": False}


def topic_line(offset: int, subject: str, version: int, number: int, kind: str, schema: str, references: list[object]) -> str:
    key = {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}
    value = {"subject": subject, "version": version, "id": number, "schemaType": kind, "schema": schema, "references": references}
    return json.dumps({"offset": offset, "key": json.dumps(key), "value": json.dumps(value)})


@pytest.fixture(scope="module")
def registry(tmp_path_factory) -> Iterator[SchemaRegistryClient]:
    place = tmp_path_factory.mktemp("subjects")
    lines = [topic_line(offset, *version) for offset, version in enumerate(VERSIONS)]
    (place / "_schemas.jsonl").write_text("\n".join(lines) + "\n")
    lakehouse("--warehouse", place / "w", "ingest", f"confluent+file:{place / '_schemas.jsonl'}", "--json")
    with serving(place / "w", place / "model") as url:
        yield SchemaRegistryClient({"url": f"{url}/ccompat/v7"})


def value_of(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


def record(number: int, schema: dict[str, object], value: dict[str, object]) -> bytes:
    """Encode a record as a producer of the other registry does."""
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, schema, value)
    return struct.pack(">bI", 0, number) + encoded.getvalue()


def test_records_of_another_registry_are_read_with_the_schema_that_wrote_them(registry):
    read = AvroDeserializer(registry)
    assert read(record(101, ORDER, {"id": "a"}), value_of("orders")) == {"id": "a"}
    assert read(record(102, WITH_NOTE, {"id": "b", "note": "n"}), value_of("orders")) == {"id": "b", "note": "n"}
    as_new = AvroDeserializer(registry, json.dumps(WITH_NOTE))
    assert as_new(record(101, ORDER, {"id": "a"}), value_of("orders")) == {"id": "a", "note": ""}


def test_avro_is_written_with_a_schema_that_is_named_or_the_latest(registry):
    named = AvroSerializer(registry, json.dumps(ORDER), conf=NEVER_REGISTER)
    assert named({"id": "a"}, value_of("orders")) == record(101, ORDER, {"id": "a"})
    latest = AvroSerializer(registry, conf=NEVER_REGISTER | {"use.latest.version": True})
    assert latest({"id": "a", "note": "n"}, value_of("orders")) == record(102, WITH_NOTE, {"id": "a", "note": "n"})


def test_json_is_written_and_read(registry):
    written = JSONSerializer(json.dumps(CART), registry, conf=NEVER_REGISTER)({"items": 3}, value_of("carts"))
    assert written[:5] == struct.pack(">bI", 0, 103)
    assert JSONDeserializer(None, schema_registry_client=registry)(written, value_of("carts")) == {"items": 3}


@pytest.mark.parametrize("options", [{}, {"use.latest.version": True}], ids=["named", "latest"])
def test_protobuf_with_an_import_is_written_and_read(registry, options):
    item = descriptor_pb2.FileDescriptorProto(name="item.proto", package="shop", syntax="proto3")
    item.message_type.add(name="Item").field.add(name="sku", number=1, type=9, label=1)
    paid = descriptor_pb2.FileDescriptorProto(name="paid.proto", package="shop", syntax="proto3", dependency=["item.proto"])
    fields = paid.message_type.add(name="Paid").field
    fields.add(name="id", number=1, type=9, label=1)
    fields.add(name="item", number=2, type=11, label=1, type_name=".shop.Item")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(item)
    pool.Add(paid)
    message_class = message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Paid"))
    message = message_class(id="7")
    message.item.sku = "x"
    written = ProtobufSerializer(message_class, registry, conf=NEVER_REGISTER | options)(message, value_of("paid"))
    assert written[:5] == struct.pack(">bI", 0, 105)
    assert ProtobufDeserializer(message_class, schema_registry_client=registry)(written, value_of("paid")) == message


def test_nothing_is_registered(registry):
    empty = json.dumps({"type": "record", "name": "New", "fields": []})
    with pytest.raises(SchemaRegistryError, match="42205"):
        AvroSerializer(registry, empty)({}, value_of("new"))
