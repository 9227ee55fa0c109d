from __future__ import annotations

from collections import Counter

import pytest
from builders import document, group, message, read

from lakehouse.dialects.detection import dialect_of, not_a_registry
from lakehouse.ingest.parse.parse import read_as


@pytest.mark.parametrize("collection", ["messagegroups", "endpoints", "schemagroups", "definitionGroups", "schemaGroups"])
def test_an_object_with_a_collection_of_a_registry_is_a_registry_document(collection):
    assert not_a_registry({collection: {}}) is None


def test_a_registry_without_entities_is_a_registry_document():
    assert not_a_registry({"specversion": "1.0-rc2", "registryid": "r"}) is None


@pytest.mark.parametrize("attribute", ["model", "modelsource", "capabilities"])
def test_attributes_of_the_registry_are_no_foreign_collections(attribute):
    assert not_a_registry({"specversion": "1.0-rc2", attribute: {"groups": {"dirs": {"singular": "dir"}}}}) is None


def test_a_registry_document_may_refer_to_its_json_schema():
    written = {"$schema": "https://json-schema.org/draft/2020-12/schema", "messagegroups": {}}
    assert not_a_registry(written) is None


def test_a_collection_of_the_wrong_shape_is_a_registry_document_with_an_error():
    assert not_a_registry({"specversion": "1.0-rc2", "messagegroups": []}) is None


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ([], "an array"),
        ("text", "a scalar"),
        (None, "a scalar"),
        ({}, "no messagegroups, endpoints or schemagroups"),
        ({"hello": "world"}, "no messagegroups, endpoints or schemagroups"),
        ({"asyncapi": "1.2.0", "channels": {}}, "AsyncAPI"),
        ({"openapi": "3.1.0", "paths": {}}, "OpenAPI"),
        ({"swagger": "2.0"}, "OpenAPI"),
        ({"groups": {"dirs": {"singular": "dir", "resources": {}}}}, "a model file"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}, "JSON Schema"),
        ({"type": "object", "properties": {"a": {"type": "string"}}}, "JSON Schema"),
        ({"type": "object", "$defs": {"a": {"type": "string"}}}, "JSON Schema"),
        ({"specversion": "1.0", "dirs": {"d": {"files": {}}}}, "another model (collections: dirs)"),
        ({"specversion": "1.0", "id": "1", "source": "/lamp", "type": "lamp.on"}, "not a registry document"),
    ],
)
def test_anything_else_is_reported_by_its_kind(written, reason):
    assert reason in str(not_a_registry(written))


def test_an_array_is_read_as_what_it_is_only():
    groups = [{"id": "g", "format": "AMQP"}]
    assert not_a_registry(groups) is None
    assert "an array" in str(not_a_registry(groups, "0.5-wip"))


# Dialects


def dialect(written):
    return dialect_of(written, read(written).spellings)


def test_the_dialect_is_the_specversion():
    assert dialect(document({}, specversion="1.0-rc4")) == "1.0-rc4"


def test_old_collections_report_the_oldest_dialect_whatever_the_specversion():
    assert dialect({"specversion": "0.4", "definitionGroups": {}}) == "cereg"
    assert dialect({"schemaGroups": {}}) == "cereg"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (message(basemessageurl="#/messagegroups/g/messages/b"), "0.5-wip"),
        (message(schemaformat="JsonSchema/draft-07"), "0.5-wip"),
        (message(protocol="MQTT/5.0", protocoloptions={"topic-name": {"value": "t"}}), "0.5-wip"),
        (message(basemessageuri="/messagegroups/g/messages/b"), "1.0-rc1"),
        (message(basemessage="/messagegroups/g/messages/b"), "1.0-rc2"),
        (message(), "1.0-rc2"),
    ],
)
def test_without_a_specversion_the_spellings_report_the_dialect(written, name):
    assert dialect({"messagegroups": {"g": group({"m": written})}}) == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ({"$schema": "https://a.example/1.0-rc4/registry.json", "messagegroups": {}}, "1.0-rc4"),
        ({"$schema": "https://a.example/1.0-rc4#", "specversion": "1.0-rc1", "messagegroups": {}}, "1.0-rc1"),
        ({"$schema": "https://a.example/registry", "messagegroups": {}}, "1.0-rc2"),
        ({"messagegroups": {"g": group({"m": {"ancestorid": "1"}})}}, "1.0-rc4"),
        ({"endpoints": {"e": {"protocoloptions": {"topicfilter": "a/#"}}}}, "1.0-rc4"),
        ({"endpoints": {"e": {"protocoloptions": {"bootstrap.servers": "a:9092"}}}}, "1.0-rc4"),
        ({"endpoints": {"e": {"protocoloptions": {"topic": "a"}}}}, "1.0-rc2"),
    ],
)
def test_the_schema_and_names_of_one_dialect_report_it(written, name):
    assert dialect(written) == name


def test_a_dialect_may_be_given():
    written = {"messagegroups": {"g": group({"m": message(basemessageurl="#/messagegroups/g/messages/b")})}}
    assert read_as(written, [], "", None)[0] == "0.5-wip"
    assert read_as(written, [], "", "1.0-rc2")[0] == "1.0-rc2"


@pytest.mark.parametrize("specversion", ["", 1, None])
def test_a_specversion_without_meaning_is_passed_over(specversion):
    assert dialect_of({"specversion": specversion}, Counter()) == "1.0-rc2"
