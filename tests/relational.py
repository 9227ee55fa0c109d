"""Small documents, each its own registry, that show what rules between entities find and what not; examples of all rules."""

from __future__ import annotations

from typing import Any

from builders import document, group

from lakehouse.rules.declared import examples, registry_of


def of_versions(**bases: str | None) -> dict[str, Any]:
    """Write a message whose Versions extend what lies below the messages of group `g`, or nothing."""
    versions = {
        name: {} if base is None else {"basemessage": f"/messagegroups/g/messages/{base}"} for name, base in bases.items()
    }
    return {"versions": versions}


CYCLE_OF_THREE = {name: {"basemessage": f"/messagegroups/g/messages/{base}"} for name, base in ("ab", "bc", "ca")}
OWN = {
    "cycle": document({"g": group(CYCLE_OF_THREE | {"d": {"basemessage": "/messagegroups/g/messages/a"}})}),
    "itself": document({"g": group({"a": {"basemessage": "/messagegroups/g/messages/a"}})}),
    "older Version": document({"g": group({"a": of_versions(**{"1": None, "2": "a/versions/1"})})}),
    "older Version of a base": document(
        {"g": group({"a": of_versions(**{"1": "b/versions/1"}), "b": of_versions(**{"1": None, "2": "a"})})}
    ),
    "cycle of Versions": document(
        {"g": group({"a": of_versions(**{"1": "b/versions/1", "2": None}), "b": of_versions(**{"1": "a/versions/1", "2": "a"})})}
    ),
    "cycle over an alias": document(
        {"g": group({"a": of_versions(**{"1": "x"}), "x": {"meta": {"xref": "/messagegroups/g/messages/a"}}})}
    ),
    "chain": document(
        {"g": group({f"m{n}": {"basemessage": f"/messagegroups/g/messages/m{n + 1}"} for n in range(300)} | {"m300": {}})}
    ),
    "borrowed": document(
        {
            "g": group({"m": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"id": {}}}}, envelope="CloudEvents/1.0"),
            "h": group({"m": {"meta": {"xref": "/messagegroups/g/messages/m"}}}, envelope="own/1"),
        }
    ),
    "mqtt": document(
        {
            "g": group(
                {
                    "bare": {"protocol": "mqtt", "protocoloptions": {"qos": 1}},
                    "old": {"protocol": "MQTT/3.1.1", "protocoloptions": {"qos": 1}},
                },
                protocol="MQTT/5.0",
            )
        }
    ),
    "referenced": document(
        {"g": group({"m": {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}}})},
        {"e": {"usage": ["producer"], "protocol": "HTTP/1.1", "messagegroups": ["/messagegroups/g", "/messagegroups/g"]}},
    ),
    "schemas": document(
        {
            "g": group(
                {
                    name: {"dataschemauri": uri, "dataschemaformat": "Avro/1.9"}
                    for name, uri in {
                        "schema": "#/schemagroups/s/schemas/a",
                        "version": " #/schemagroups/s/schemas/a/versions/1",
                        "type": "#/schemagroups/s/schemas/a/versions/1:Order",
                        "typeofschema": "#/schemagroups/s/schemas/a:Order",
                        "path": "#/schemagroups/s/schemas/a/versions/1:definitions/Order",
                        "inside": "#/schemagroups/s/schemas/a/versions/1/schema/fields/0",
                        "second": "#/schemagroups/s/schemas/a#Order",
                        "colon": "#/schemagroups/s/schemas/b:1",
                        "escaped": "#/schemagroups/s/schemas/%61",
                        "older": "#/schemaGroups/s/schemas/a",
                        "absolute": "/schemagroups/s/schemas/a",
                        "elsewhere": "/schemagroups/t/schemas/a",
                        "other": "https://a.example/schemagroups/s/schemas/c",
                        "anchor": "#Order",
                        "no-schema": "#/schemagroups/s/schemas/c",
                        "no-version": "#/schemagroups/s/schemas/a/versions/2:Order",
                        "no-group": "#/schemagroups/t/schemas/a",
                        "no-slash": "#/schemagroupss/schemas/a",
                        "only-a-group": "#/schemagroups/s",
                        "absolute-none": "/schemagroups/s/schemas/c",
                    }.items()
                }
            )
        },
        schemagroups={"s": group({"a": {"format": "Avro/1.9", "schema": {}}, "b:1": {"format": "Avro/1.9"}}, holds="schemas")},
    ),
    "aliases": document(
        {
            "g": group(
                {
                    name: {"meta": {"xref": f"/messagegroups/g/messages/{to}"}}
                    for name, to in (("a", "b"), ("b", "a"), ("self", "self"), ("c", "d"), ("d", "m"), ("gone", "nobody"))
                }
                | {"m": {}}
            )
        },
        schemagroups={
            "s": group({name: {"meta": {"xref": f"/schemagroups/s/schemas/{to}"}} for name, to in ("ab", "ba")}, holds="schemas")
        },
    ),
    "older alias": {
        "specversion": "0.5-wip",
        "messagegroups": {"g": {"envelope": "own/1", "messages": {"a": {"xref": "#/messagegroups/g/messages/a"}}}},
    },
    "oldest": {
        "definitionGroups": {
            "g": {
                "format": "CloudEvents/1.0",
                "definitions": {"a": {"format": "own/1", "metadata": {"attributes": {"type": {"value": "a"}}}}},
            }
        }
    },
}


def written() -> dict[str, Any]:
    """Return the documents, and the examples of the rules, by the registry that each is."""
    documents = dict(OWN)
    for rule_id, example in examples().items():
        if rule_id != "MSG-002":
            for name, fragment in (("bad", example.bad), ("good", example.good)):
                documents[f"{rule_id}.{name}"] = fragment if isinstance(fragment, str) else registry_of(example.at, fragment)
    return documents


WRITTEN = written()
