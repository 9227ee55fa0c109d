"""New registries are planned in tasks as by Spark's joins and in the driver, whatever documents have to do with each other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import group
from ingest.test_planners import AMQP, CASES, MQTT, TYPED, G, endpoint, extending, groups, message
from soak.runs import WAYS
from soak.sessions import forget_attached

from lakehouse.ingest import bundles, pipeline
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.settings import read_settings
from lakehouse.store.schema import ENTITY_TABLES

INNER = "/messagegroups/i/messages/"
TIMES = ("createdat", "modifiedat", "found_at", "ingest_id")
SCHEMA = {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}
# Documents of one registry each, which have to do with each other or not; what is wrong in them.
LOADS: dict[str, list[dict[str, Any]]] = {
    "one group in three documents, two of which disagree": [
        groups(g={"m": message()}),
        groups(g={"m": message(), "n": AMQP}),
        groups(g={"m": message(description="other"), "n": AMQP}),
    ],
    "groups that differ in letter case": [groups(g={"m": message()}), groups(G={"m": message()})],
    "a base, an alias and a schema in other documents": [
        groups(g={"m": extending("../h/messages/b"), "b": {"meta": {"xref": "/messagegroups/h/messages/b"}}}),
        groups(h={"b": message(basemessage=INNER + "c/versions/1", dataschemauri="#/schemagroups/%73/schemas/t")}),
        groups(i={"c": message(dataschemauri="/schemagroups/s/schemas/t:Type")}),
        {"schemagroups": {"s": {"schemas": {"t": {"versions": {"1": SCHEMA}}}}}},
    ],
    "an endpoint of other documents' messages": [
        endpoint("g", "h", "nowhere", protocol="MQTT/5.0", protocoloptions={"options": {"topic": "t"}}),
        groups(g={"m": MQTT, "n": message(basemessage="/messagegroups/h/messages/n")}),
        groups(h={"m": AMQP, "n": message(protocol="MQTT/5.0", protocoloptions={"topic_name": "u"})}),
        {"endpoints": {"f": {"usage": ["producer"], "protocol": "MQTT/5.0",
                             "protocoloptions": {"options": {"willmessage": "/messagegroups/h/messages/m"}}}}},
    ],
    "registries that say different things of themselves": [
        {"name": "one", "messagegroups": {"g": group({"m": message()})}},
        {"name": "two", "messagegroups": {"h": group({"m": message()})}},
        {"messagegroups": {"i": group({"m": message(basemessage="/messagegroups/i/messages/nowhere")})}},
    ],
    "cycles, also over documents": [
        groups(g={"a": extending("b"), "b": extending("a"), "c": message(basemessage="/messagegroups/h/messages/d")}),
        groups(h={"d": message(basemessage="/messagegroups/g/messages/c")}),
    ],
    "Versions, warnings, what is refused": [
        groups(g={"m": {"meta": {"compatibility": "backward"}, "versions": {"1": message(), "2": message(ancestor="9")}}}),
        groups(h={"m": {"envelope": 7}, "n": message(basemessage="/messagegroups/h/messages/m")}),
        {"messagegroups": 7},
    ],
}  # fmt: skip


@pytest.fixture
def planned(monkeypatch):
    """The results of planning in tasks: None where Spark or the driver had to."""
    results: list[Any] = []
    plan_bundles = bundles.plan_bundles

    def followed(*arguments: Any) -> Any:
        results.append(plan_bundles(*arguments))
        return results[-1]

    monkeypatch.setattr(pipeline, "plan_bundles", followed)
    return results


def write_loads(catalog: Any) -> None:
    """Write the documents of all loads, and both documents of each case of a change."""
    for number, documents in enumerate(LOADS.values()):
        for nth, document in enumerate(documents):
            catalog.write(f"load{number}-{nth}.json", {"specversion": "1.0-rc2", "registryid": f"load{number}"} | document)
    for number, (_, after, other, _) in enumerate(CASES.values()):
        for name, document in (("a", after), ("b", other)):
            catalog.write(f"case{number}{name}.json", {"specversion": "1.0-rc2", "registryid": f"case{number}"} | document)
    catalog.write("broken.json", b"{")


@pytest.mark.parametrize(
    ("other", "strict"),
    [
        ("few rows in the driver", False),
        pytest.param("by Spark", False, marks=pytest.mark.slow),
        pytest.param("by Spark", True, marks=pytest.mark.slow),
    ],
)
def test_new_registries_are_planned_alike(catalog, tmp_path, monkeypatch, planned, other, strict):
    monkeypatch.setattr(bundles, "_MOST_ROWS", 60)
    write_loads(catalog)
    results = {}
    for way in (other, "in tasks"):
        forget_attached(catalog.spark)
        catalog.settings = read_settings(warehouse=str(tmp_path / way), **WAYS[way])
        summary = catalog.ingest(request=IngestRequest(strict=strict))
        results[way] = everything_of(catalog, summary)
    # What a refused document says of its registry goes with it.
    assert [result is None for result in planned] == [strict]
    for name, rows in results[other].items():
        differing = [pair for pair in zip(results["in tasks"][name], rows, strict=False) if pair[0] != pair[1]]
        assert results["in tasks"][name] == rows, (name, differing[:1])


def everything_of(catalog: Any, summary: Any) -> dict[str, Any]:
    """Return what an ingest reported and left in the tables, without what the clock and the run say."""
    names = [*(table.name for table in ENTITY_TABLES), "violations", "effective_messages", "changes"]
    tables = {name: catalog.spark.table(f"xregistry.{name}").toPandas().to_dict("records") for name in names}
    tables["changes"] = [row for row in tables["changes"] if row["kind"] != "snapshot"]
    return {name: sorted(map(_as_text, rows)) for name, rows in tables.items()} | {
        "summary": summary.as_json() | {"seconds": None}
    }


def _as_text(row: dict[str, Any]) -> str:
    """Write a row; the order of a map says nothing."""
    return str(
        {
            name: sorted(value.items()) if isinstance(value, dict) else str(value)
            for name, value in row.items()
            if name not in TIMES
        }
    )


@pytest.mark.slow
def test_a_registry_that_has_rows_is_planned_by_spark(catalog, planned):
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse, **WAYS["in tasks"])
    first = catalog.write("first.json", {"registryid": "one"} | groups(g={"m": message()}))
    catalog.ingest(first)
    second = catalog.write("second.json", {"registryid": "two"} | groups(g={"m": extending("n")}))
    assert catalog.ingest(second).entities["messages"]["inserted"] == 1
    third = catalog.write("third.json", {"registryid": "one"} | groups(h={"m": message(basemessage=f"{G}m")}))
    assert catalog.ingest(third).entities["messages"]["inserted"] == 1
    first.write_text(json.dumps({"registryid": "three"} | groups(g={"m": message()})))
    assert catalog.ingest(first).entities["messages"] == {
        "inserted": 1, "updated": 1, "deleted": 0, "unchanged": 0, "quarantined": 0
    }  # fmt: skip
    assert [result is None for result in planned] == [False, False, True, True]
    assert catalog.rows("SELECT chain_status FROM xregistry.effective_messages ORDER BY 1") == [
        "dangling",
        "none",
        "none",
        "resolved",
    ]


def test_rules_about_a_whole_registry_need_spark(catalog, planned):
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse, **WAYS["in tasks"])
    for name in "xy":
        catalog.write(f"{name}.json", {"definitionGroups": {name: {"format": "CloudEvents/1.0", "definitions": {"t": TYPED}}}})
    catalog.ingest()
    assert planned == [None]
    assert catalog.rows("SELECT rule_id FROM xregistry.violations").count("CAT-007") == 1


@pytest.mark.parametrize("most", ["_MOST_ROWS", "_MOST_LINKS"])
def test_what_is_too_large_for_a_task_is_planned_by_spark(catalog, planned, monkeypatch, most):
    monkeypatch.setattr(bundles, most, 2)
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse, **WAYS["in tasks"])
    catalog.write("a.json", groups(g={"m": message(), "n": message()}, h={"m": message()}, i={"m": message()}))
    assert catalog.ingest().entities["messages"]["inserted"] == 4
    assert planned == [None]
