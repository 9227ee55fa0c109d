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
    "a cycle": [groups(g={"a": extending("b"), "b": extending("a"), "c": message()})],
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


def write_loads(catalog: Any, name: str) -> None:
    """Write the documents of all loads."""
    for number, documents in enumerate(LOADS.values()):
        for nth, document in enumerate(documents):
            registry = {"specversion": "1.0-rc2", "registryid": f"{name}{number}"}
            catalog.write(f"{name}/{number}-{nth}.json", registry | document)


def write_cases(catalog: Any) -> None:
    """Write both documents of each case of a change, and one that cannot be read."""
    for number, (_, after, other, _) in enumerate(CASES.values()):
        for name, document in (("a", after), ("b", other)):
            catalog.write(f"one/case{number}{name}.json", {"specversion": "1.0-rc2", "registryid": f"case{number}"} | document)
    catalog.write("one/broken.json", b"{")


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
    monkeypatch.setattr(pipeline, "_FEW_BYTES", 0)  # what tasks return is written to files
    write_loads(catalog, "one")
    write_cases(catalog)
    write_loads(catalog, "two")
    results = {}
    for way in (other, "in tasks"):
        forget_attached(catalog.spark)
        catalog.settings = read_settings(warehouse=str(tmp_path / way), **WAYS[way])
        summaries = [catalog.ingest(catalog.documents / name, request=IngestRequest(strict=strict)) for name in ("one", "two")]
        results[way] = everything_of(catalog, summaries)
    # What a refused document says of its registry goes with it.
    assert [result is None for result in planned] == [strict, strict]
    for name, rows in results[other].items():
        differing = [row for row in results["in tasks"][name] if row not in rows]
        assert differing[:2] == [], name
        assert len(results["in tasks"][name]) == len(rows), name


def everything_of(catalog: Any, summaries: list[Any]) -> dict[str, Any]:
    """Return what ingests reported and left in the tables, without what the clock and the run say."""
    names = [*(table.name for table in ENTITY_TABLES), "violations", "effective_messages", "changes"]
    tables = {name: catalog.spark.table(f"xregistry.{name}").toPandas().to_dict("records") for name in names}
    tables["changes"] = [row for row in tables["changes"] if row["kind"] != "snapshot"]
    return {name: sorted(map(_as_text, rows)) for name, rows in tables.items()} | {
        "summaries": [str(summary.as_json() | {"seconds": None}) for summary in summaries]
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


@pytest.mark.parametrize(
    "most", ["_MOST_ROWS", *(pytest.param(name, marks=pytest.mark.slow) for name in ("_MOST_BYTES", "_MOST_LINKS"))]
)
def test_what_is_too_large_for_a_task_is_planned_by_spark(catalog, planned, monkeypatch, most):
    monkeypatch.setattr(bundles, most, 2)
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse, **WAYS["in tasks"])
    catalog.write("a.json", groups(g={"m": message(), "n": message()}, h={"m": message()}, i={"m": message()}))
    assert catalog.ingest().entities["messages"]["inserted"] == 4
    assert planned == [None]


@pytest.mark.slow
def test_what_another_bundle_refuses_needs_spark(catalog, planned, monkeypatch):
    """A cycle over two documents: each of their tasks takes the other message as it is staged, and refuses its own."""
    monkeypatch.setattr(bundles, "_MOST_ROWS", 4)
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse, **WAYS["in tasks"])
    catalog.write("a.json", groups(g={"c": message(basemessage="/messagegroups/h/messages/d")}))
    catalog.write("b.json", groups(h={"d": message(basemessage="/messagegroups/g/messages/c")}))
    assert catalog.ingest().entities["messages"]["quarantined"] == 2
    assert planned == [None]
    rules = catalog.rows("SELECT rule_id FROM xregistry.violations ORDER BY rule_id")
    assert rules == ["MSG-115", "MSG-115", "MSG-146", "MSG-146"]


def test_what_bundles_look_up_of_each_other_is_bounded(monkeypatch):
    """Each message extends one of the document before, so that a bundle looks up all before it."""
    edges = {("r", f"/messagegroups/g{n}/messages/m"): [f"/messagegroups/g{n - 1}/messages/m"] for n in range(1, 40)}
    places = {("r", f"/messagegroups/g{n}"): n // 10 for n in range(40)}
    lookups = bundles._follow(edges, places)
    assert lookups is not None
    assert {bundle: sum(lookup.bundle == bundle for lookup in lookups) for bundle in range(4)} == {0: 0, 1: 20, 2: 40, 3: 60}
    assert bundles.UnitLookup("r", "/messagegroups/g0", 3) in lookups
    monkeypatch.setattr(bundles, "_MOST_LOOKUPS", 25)
    assert bundles._follow(edges, places) is None
