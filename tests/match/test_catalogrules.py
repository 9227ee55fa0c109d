"""All rules over what is published: a small catalog is checked in the driver, a large one by Spark; both find the same."""

from __future__ import annotations

import json

from builders import document, group
from relational import WRITTEN

from lakehouse.log.commits import read_head
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


def test_the_driver_finds_what_spark_finds(catalog):
    """Each example of a rule is a registry of its own; what ingests would refuse of relations is published."""
    lacking = {"lacking": document({"g": group({"b": {}, "m": LACKING})})}
    for number, (registry, written) in enumerate((WRITTEN | lacking).items()):
        if isinstance(written, dict):
            catalog.write(f"{number}.json", written | {"registryid": registry.lower().replace(" ", "-")})
    for name, versions in {"a": with_versions(v1="1", v3="2"), "b": with_versions(v1="1", v2="1")}.items():
        catalog.write(f"{name}.json", versions | {"registryid": "promises"})
    catalog.settings = catalog.settings.model_copy(update={"check_relations": False})
    catalog.ingest()
    catalog.spark.catalog.setCurrentDatabase("xregistry")
    snapshot_id = read_head(catalog.spark).snapshot_id
    results = {}
    for planner in ("driver", "spark"):
        settings = catalog.settings.model_copy(update={"planner": planner})
        with without_codegen(catalog.spark, True):  # as `validate` does for a catalog of this size
            rows = check_all(catalog.spark, snapshot_id, settings).collect()
        results[planner] = sorted(json.dumps(row.asDict(recursive=True), sort_keys=True) for row in rows)
    assert results["driver"] == results["spark"]
    reported = {json.loads(row)["finding"]["rule_id"] for row in results["driver"]}
    assert BROKEN_IN_WHAT_IS_PUBLISHED <= reported <= RULES.keys()
    promises = [one for one in map(json.loads, results["driver"]) if one["finding"]["rule_id"] == "COMP-001"]
    assert {(one["kind"], one["xid"].rpartition("/")[2]) for one in promises} == {("version", "3"), ("schemaversion", "3")}


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
