"""All rules over what is published: a small catalog is checked in the driver, a large one by Spark; both find the same."""

from __future__ import annotations

import json
from random import Random

from builders import document, group
from relational import WRITTEN

from lakehouse.log.commits import read_head
from lakehouse.match import catalogrules
from lakehouse.match.catalogrules import check_all
from lakehouse.rules.declared import RULES
from lakehouse.store.session import without_codegen

BROKEN_IN_WHAT_IS_PUBLISHED = {
    "MSG-146", "MSG-150", "MSG-156", "MSG-161", "MSG-166", "MSG-175", "MSG-134", "END-074", "END-130", "MATCH-001", "MATCH-004",
}  # fmt: skip


LACKING = {"basemessage": "/messagegroups/g/messages/b", "envelope": "CloudEvents/1.0", "protocol": "KAFKA", "dataschema": {}}


def with_versions(**ancestors: str) -> dict:
    """Return a document with Versions of a schema and of a message that promise compatibility; Version 3 breaks it."""
    meta = {"compatibility": "full", "defaultversionid": "1"}
    schemas: dict = {"meta": meta, "versions": {}}
    messages: dict = {"meta": meta, "versions": {}}
    for name, ancestor in ancestors.items():
        field = "new" if name == "v3" else "old"
        record = {"type": "record", "name": "R", "fields": [{"name": field, "type": "int"}]}
        schemas["versions"][name[1:]] = {"ancestor": ancestor, "format": "Avro/1.11", "schema": record}
        declared = {field: {"type": "string", "required": True}}
        messages["versions"][name[1:]] = {"ancestor": ancestor, "envelope": "CloudEvents/1.0", "envelopemetadata": declared}
    return document({"g": group({"m": messages})}) | {"schemagroups": {"g": {"schemas": {"s": schemas}}}}


def carried_over_chains(seed: int) -> dict:
    """Return endpoints with options, which carry groups whose messages inherit theirs over chains, aliases and cycles."""
    random = Random(seed)
    topics, places = ["a", "b", "{any}"], [f"/messagegroups/g{number % 4}/messages/m{number}" for number in range(40)]
    groups: dict = {f"g{number}": group({}) for number in range(4)}
    for number, place in enumerate(places):
        message: dict = {"basemessage": random.choice(places[: number + 1])} if random.random() < 0.7 else {}
        if random.random() < 0.1:
            message = {"meta": {"xref": random.choice(places)}}
        elif random.random() < 0.5:
            options = {"topic": {"value": random.choice(topics)}}
            options |= {random.choice(["key", "key_base64"]): {"value": random.choice(["YQ==", "a"])}} if number % 3 else {}
            message |= {"protocol": random.choice(["KAFKA", "KAFKA", "MQTT/5.0"]), "protocoloptions": options}
        groups[place.split("/")[2]]["messages"][f"m{number}"] = message
    longest = {f"c{number}": {"basemessage": f"/messagegroups/long/messages/c{number - 1}"} for number in range(1, 12)}
    groups["long"] = group(longest | {"c0": {"protocol": "KAFKA", "protocoloptions": {"topic": {"value": "b"}}}})
    endpoints = {
        f"e{number}": {"usage": ["producer"], "protocol": "KAFKA", "protocoloptions": {"topic": topics[number % 2], "key": "a"}}
        | {"messagegroups": [f"/messagegroups/{name}" for name in random.sample(list(groups), 2)]}
        for number in range(5)
    }
    return document(groups, endpoints, registryid=f"chains{seed}")


def templates() -> dict:
    """Return definitions with different `type`s and the same flaws, and others without flaws; two are alike but for a value."""
    flawed = {"attempt": {"type": "integer", "value": "x{n}"}, "when": {"type": "binary", "value": "{when}"}}
    sound = {"subject": {"type": "uritemplate", "value": "{s}"}, "region": {"value": "north"}}
    messages = {
        f"m{number}": {
            "envelope": "CloudEvents/1.0",
            "envelopemetadata": {"type": {"value": f"t{number}"}} | (flawed if number % 3 == 0 else sound),
            "datacontenttype": "{kind}" if number == 4 else "text/plain",
        }
        for number in range(9)
    }
    unread = {"envelope": "Own/1", "envelopemetadata": {"type": {"value": "{t}"}}}
    return document({"g": group(messages | {"twin": messages["m1"], "unread": unread})}, registryid="templates")


def test_the_driver_finds_what_spark_finds(catalog, monkeypatch):
    """Each example of a rule is its own registry; what ingests would refuse of relations is published."""
    lacking = {"lacking": document({"g": group({"b": {}, "m": LACKING})})}
    for number, (registry, written) in enumerate((WRITTEN | lacking).items()):
        if isinstance(written, dict):
            catalog.write(f"{number}.json", written | {"registryid": registry.lower().replace(" ", "-")})
    for name, versions in {"a": with_versions(v1="1", v3="2"), "b": with_versions(v1="1", v2="1")}.items():
        catalog.write(f"{name}.json", versions | {"registryid": "promises"})
    for name, written in {"chains1": carried_over_chains(1), "chains2": carried_over_chains(2), "templates": templates()}.items():
        catalog.write(f"{name}.json", written)
    catalog.settings = catalog.settings.model_copy(update={"check_relations": False})
    catalog.ingest()
    catalog.spark.catalog.setCurrentDatabase("xregistry")
    snapshot_id = read_head(catalog.spark).snapshot_id
    results = {}
    for planner, is_small in (("driver", True), ("spark", True), ("spark", False), ("in tasks", False)):
        update = {"planner": "auto", "interpreted_bytes": 0} if planner == "in tasks" else {"planner": planner}
        settings = catalog.settings.model_copy(update=update)
        if planner == "in tasks":
            monkeypatch.setattr(catalogrules, "check_catalog", None)  # joins
        with without_codegen(catalog.spark, is_small):  # as `validate` does for a small catalog, and for a large one
            rows = check_all(catalog.spark, snapshot_id, settings).collect()
        results[planner, is_small] = sorted(json.dumps(row.asDict(recursive=True), sort_keys=True) for row in rows)
    assert results["spark", True] == results["driver", True]
    assert results["spark", False] == results["driver", True]
    assert results["in tasks", False] == results["driver", True]
    rows = [json.loads(row) for row in results["driver", True]]
    of_chains = [row["finding"]["rule_id"] for row in rows if row["registryid"].startswith("chains")]
    assert of_chains.count("MATCH-004") >= 6
    flawed = {(row["finding"]["rule_id"], row["xid"].rpartition("/")[2]) for row in rows if row["registryid"] == "templates"}
    assert {xid for rule_id, xid in flawed if rule_id == "MATCH-002"} == {"m0", "m3", "m6"}
    assert {xid for rule_id, xid in flawed if rule_id == "MATCH-001"} == {"m1", "twin"}
    reported = {row["finding"]["rule_id"] for row in rows}
    assert BROKEN_IN_WHAT_IS_PUBLISHED <= reported <= RULES.keys()
    promises = [row for row in rows if row["finding"]["rule_id"] == "COMP-001"]
    assert {(row["kind"], row["xid"].rpartition("/")[2]) for row in promises} == {("version", "3"), ("schemaversion", "3")}


def test_a_past_state_is_checked_as_it_was(catalog):
    text = {"messagegroups": {"g": {"messages": {"m": {"basemessage": "/messagegroups/g/messages/b"}}}}}
    catalog.write("a.json", text)
    catalog.ingest()
    text["messagegroups"]["g"]["messages"]["b"] = {"name": "base"}
    catalog.write("a.json", text)
    catalog.ingest()
    assert _rules_at(catalog, 1) == ["MSG-150"]
    assert _rules_at(catalog, 2) == []


def _rules_at(catalog, snapshot_id: int) -> list[str]:
    return [row["finding"]["rule_id"] for row in check_all(catalog.spark, snapshot_id, catalog.settings).collect()]
