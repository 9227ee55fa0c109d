"""A small change is decided by look-ups in the read model as Spark decides it by joins, whatever the catalog holds besides."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from builders import group
from soak.runs import WAYS
from soak.sessions import forget_attached

from lakehouse.domain.ownership import Policy
from lakehouse.ingest import reconcile
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.ingest.planner import Planner
from lakehouse.readmodel import open_model
from lakehouse.settings import read_settings
from lakehouse.store import materialize

G = "/messagegroups/g/messages/"


def message(**attributes: Any) -> dict[str, Any]:
    metadata = {name: {"type": "string"} for name in ("id", "type", "source")}
    return {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata} | attributes


AMQP = message(protocol="AMQP/1.0", protocoloptions={"properties": {"subject": {"value": "s"}}})
MQTT = message(protocol="MQTT/5.0", protocoloptions={"qos": 1})


def groups(**members: Any) -> dict[str, Any]:
    return {"messagegroups": {name: group(held) for name, held in members.items()}}


def endpoint(*listed: str, **attributes: Any) -> dict[str, Any]:
    lists = [f"/messagegroups/{name}" for name in listed]
    return {"endpoints": {"e": {"usage": ["consumer"], "messagegroups": lists} | attributes}}


def extending(base: str, **attributes: Any) -> dict[str, Any]:
    return message(basemessage=G + base, **attributes)


def schema(compatibility: str | None, **versions: dict[str, Any]) -> dict[str, Any]:
    """Return a document with a schema of which it has the Versions `v1`, `v2` and so on; the default one is Version 1."""
    numbered = {versionid[1:]: version for versionid, version in versions.items()}
    meta = {"defaultversionid": "1"} | ({} if compatibility is None else {"compatibility": compatibility})
    return {"schemagroups": {"s": {"schemas": {"t": {"meta": meta, "versions": numbered}}}}}


def record(*names: str, ancestor: str = "1") -> dict[str, Any]:
    """Return a Version of a schema whose fields have no default."""
    fields = [{"name": name, "type": "int"} for name in names]
    return {"ancestor": ancestor, "format": "Avro/1.11", "schema": {"type": "record", "name": "R", "fields": fields}}


# The edited document, before and after; another document; the rules that then report something.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], set[str]]] = {
    "a group of others' messages": (
        {"messagegroups": {"g": {}}},
        {"messagegroups": {"g": {"envelope": "CloudEvents/1.0"}}},
        {"messagegroups": {"g": group({"m": {"protocol": "MQTT/5.0", "protocoloptions": {"qos": 1}}})}},
        {"MSG-156"},
    ),
    "a cycle over two others": (
        groups(g={"a": message()}),
        groups(g={"a": extending("b")}),
        groups(g={"b": extending("c"), "c": extending("a")}),
        {"MSG-146"},
    ),
    "what an endpoint carries": (
        groups(g={"m": MQTT}),
        groups(g={"m": AMQP}),
        endpoint("g", protocol="MQTT/5.0"),
        {"END-096"},
    ),
    "an option of an endpoint, and what is inherited": (
        groups(g={"m": extending("b", protocol="MQTT/5.0")}),
        groups(g={"m": extending("b", protocol="MQTT/5.0", protocoloptions={"topic_name": "other"})}),
        groups(
            g={
                "b": extending("c"),
                "c": message(protocol="MQTT/5.0", protocoloptions={"topic_name": "t"}),
                "d": extending("b", protocol="MQTT/5.0"),
            }
        )
        | endpoint("g", protocol="MQTT/5.0", protocoloptions={"options": {"topic": "other"}}),
        {"MATCH-004"},
    ),
    "an id twice in what an endpoint carries": (
        groups(g={"m": MQTT}),
        groups(g={"m": MQTT, "n": MQTT}),
        groups(h={"n": MQTT}) | endpoint("g", "h", protocol="MQTT/5.0"),
        {"END-130"},
    ),
    "letter case": (
        groups(g={"m": message()}),
        groups(g={"m": message(), "N": message()}),
        groups(g={"n": message()}),
        {"MSG-037"},
    ),
    "a will": (
        groups(g={"m": message()}),
        groups(g={"m": {"protocol": "AMQP/1.0", "protocoloptions": {"properties": {"subject": {"value": "s"}}}}}),
        {
            "endpoints": {
                "e": {"usage": ["producer"], "protocol": "MQTT/5.0", "protocoloptions": {"options": {"willmessage": G + "m"}}}
            }
        },
        {"END-174"},
    ),
    "a will that inherits its envelope": (
        groups(g={"m": message()}),
        groups(g={"m": {"basemessage": G + "b"}, "n": {"basemessage": G + "b"} | AMQP | {"envelope": "Own/1"}}),
        groups(g={"b": message()})
        | {
            "endpoints": {
                name: {"usage": ["producer"], "protocol": "MQTT/5.0", "protocoloptions": {"options": {"willmessage": G + name}}}
                for name in "mn"
            }
        },
        {"END-174", "MSG-110"},
    ),
    "an alias of an alias": (
        groups(g={"m": message(), "o": message()}),
        groups(g={"m": {"meta": {"xref": G + "o"}}, "o": message()}),
        groups(g={"x": {"meta": {"xref": G + "m"}}}),
        {"MSG-096"},
    ),
    "a schema group that comes": (
        groups(g={"m": message()}),
        {"schemagroups": {"s": {"schemas": {"t": {"format": "JSONSchema/draft-07", "schema": {}}}}}},
        groups(g={"n": message(dataschemaxid="/schemagroups/s/schemas/u", dataschemaformat="JSONSchema/draft-07")}),
        {"MSG-183"},
    ),
    "a base that does not supply what is lacking": (
        groups(g={"m": {"basemessage": G + "b"}}),
        groups(g={"m": {"basemessage": G + "b", "protocol": "MQTT/5.0"}}),
        groups(g={"b": extending("c"), "c": message()}),
        {"MSG-166"},
    ),
    "a base that supplies an empty map": (
        groups(g={"m": {"basemessage": G + "b"}}),
        groups(g={"m": {"basemessage": G + "b", "protocol": "HTTP"}}),
        groups(g={"b": {"protocol": "HTTP", "protocoloptions": {}}}),
        set(),
    ),
    "a Version that breaks with one of another document": (
        schema("backward", v1=record("a")),
        schema("backward", v1=record("a"), v3=record("a", "c", ancestor="2")),
        schema("backward", v1=record("a"), v2=record("a")),
        {"COMP-001"},
    ),
    "a Version from which one of another document was made": (
        schema("full_transitive", v1=record("a")),
        schema("full_transitive", v1=record("b")),
        schema("full_transitive", v1=record("a"), v2=record("a")),
        {"COMP-001"},
    ),
    "a promise that Versions of two documents do not keep": (
        schema("none", v1=record("a"), v3=record(ancestor="2")),
        schema("forward", v1=record("a"), v3=record(ancestor="2")),
        schema("none", v1=record("a"), v2=record("a")),
        {"COMP-001"},
    ),
    "Versions of a message that break no promise, and one that does": (
        groups(g={"m": {"meta": {"compatibility": "backward", "defaultversionid": "1"}, "versions": {"1": message()}}}),
        groups(
            g={
                "m": {
                    "meta": {"compatibility": "backward", "defaultversionid": "1"},
                    "versions": {
                        "1": message(),
                        "3": {"ancestor": "2", "envelope": "CloudEvents/1.0", "envelopemetadata": {"id": {"type": "integer"}}},
                        "4": message(ancestor="2", description="other words"),
                    },
                }
            }
        ),
        groups(
            g={
                "m": {
                    "meta": {"compatibility": "backward", "defaultversionid": "1"},
                    "versions": {"1": message(), "2": message(ancestor="1")},
                }
            }
        ),
        {"COMP-001"},
    ),
    "what the document says again, and was reported": (
        groups(g={"m": message(), "a": extending("nowhere"), "v": {"versions": {"1": extending("nowhere"), "2": message()}}}),
        groups(g={"m": AMQP, "a": extending("nowhere"), "v": {"versions": {"1": extending("nowhere"), "2": message()}}}),
        groups(g={"n": message()}) | endpoint("g", protocol="MQTT/5.0"),
        {"END-096"},
    ),
    "nothing": (
        groups(g={"m": extending("b")}),
        groups(g={"m": extending("b", description="new")}),
        groups(g={"b": extending("c"), "c": message()}) | endpoint("g"),
        set(),
    ),
}
TYPED = {"format": "CloudEvents/1.0", "metadata": {"attributes": {"type": {"value": "t"}}}}


def written(catalog: Any, *, edited: bool) -> None:
    """Write two documents of each case, in one registry for each case, and two that both define a `type` (CAT-007)."""
    for number, (before, after, other, _) in enumerate(CASES.values()):
        registry = {"specversion": "1.0-rc2", "registryid": f"r{number}"}
        catalog.write(f"{number}a.json", registry | (after if edited else before))
        if not edited:
            catalog.write(f"{number}b.json", registry | other)
    for name in "xy":
        held = {"t": TYPED} if edited or name == "x" else {}
        catalog.write(f"{name}.json", {"definitionGroups": {name: {"format": "CloudEvents/1.0", "definitions": held}}})


@pytest.fixture(scope="module")
def ways(request):
    return {}


@pytest.mark.parametrize(
    "way",
    # In tasks all but new registries is planned by Spark, too.
    [way if way.endswith("in the driver") else pytest.param(way, marks=pytest.mark.slow) for way in WAYS],
)
def test_a_change_is_judged_with_what_it_has_to_do_with(catalog, way, ways, planned, monkeypatch):
    if way == "many rows in the driver":
        monkeypatch.setattr(materialize, "_MOST_IN_A_PLAN", 0)
    written(catalog, edited=False)
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse, **WAYS[way])
    catalog.ingest()
    known = set(catalog.rows("SELECT violation_id FROM xregistry.violations"))
    written(catalog, edited=True)
    planned.clear()
    summary = catalog.ingest()
    columns = "registryid, rule_id, xid, pointer, action, message"  # MSG-115: what cannot be without what was refused
    found = catalog.rows(f"SELECT violation_id, {columns} FROM xregistry.violations ORDER BY {columns}")
    reported = [row[1:] for row in found if row[0] not in known and row[2] != "MSG-115"]
    for number, (*_, rules) in enumerate(CASES.values()):
        assert {one[1] for one in reported if one[0] == f"r{number}"} == rules
    assert {one[1] for one in reported if one[0] == "default"} == {"CAT-007"}
    # Twice, since documents from which others take an entity are read in the same ingest.
    assert len(planned) == (2 if "driver" in way else 0)
    broken = catalog.write("z.json", b"{")  # which has to do with nothing
    assert catalog.ingest(broken).documents == {"read": 1, "unchanged": 0, "skipped": 0, "rejected": 1}
    ways[way] = (reported, json.dumps(summary.as_json()["entities"]), contents_of(catalog))
    assert next(iter(ways.values())) == ways[way]


@pytest.mark.slow
def test_what_a_large_catalog_holds_besides_is_no_work(catalog, planned):
    for number in range(12):
        catalog.write(f"{number}.json", groups(**{f"g{number}": {"m": message()}}))
    catalog.ingest()
    warehouse = catalog.settings.warehouse
    catalog.settings = read_settings(warehouse=warehouse, interpreted_bytes=0, planner_bytes=0)  # as if it were large
    catalog.write("3.json", groups(g3={"m": message(description="changed")}))
    forget_attached(catalog.spark)
    planned.clear()
    assert catalog.ingest().as_json()["entities"]["versions"]["updated"] == 1
    assert planned == []  # to build its read model for one change would take longer than Spark's joins
    open_model(catalog.settings).close()
    catalog.write("3.json", groups(g3={"m": message(description="changed again")}))
    summary = catalog.ingest()
    assert [len(one.state) for one in planned] == [4]  # the registry, the group, the message, its Version
    assert summary.documents == {"read": 12, "unchanged": 11, "skipped": 0, "rejected": 0}
    reported = summary.as_json()["entities"]["versions"]
    assert (reported["updated"], reported["unchanged"]) == (1, 11)
    (catalog.documents / "5.json").unlink()  # what is pruned may be anything: all documents are looked at
    summary = catalog.ingest(request=IngestRequest(policy=Policy(prune=True)))
    assert (len(planned), summary.as_json()["entities"]["messages"]["deleted"]) == (1, 1)


def test_the_read_model_of_a_catalog_is_built_for_a_change_up_to_a_size(catalog, planned, tmp_path):
    catalog.write("a.json", groups(g={"m": message(), "n": message()}))
    catalog.ingest()
    none_yet = {"warehouse": catalog.settings.warehouse, "readmodel_dir": str(tmp_path / "models"), "interpreted_bytes": 0}
    for number, planner_bytes in enumerate((0, 1024 * 1024)):
        catalog.settings = read_settings(**none_yet, planner_bytes=planner_bytes)
        catalog.write("a.json", groups(g={"m": message(description=f"changed {number}"), "n": message()}))
        planned.clear()
        assert catalog.ingest().as_json()["entities"]["versions"]["updated"] == 1
        assert len(planned) == number


@pytest.mark.slow
def test_a_change_that_has_to_do_with_too_much_is_left_to_spark(catalog, monkeypatch, planned):
    catalog.write("a.json", groups(g={"m": message(), "n": message()}))
    catalog.ingest()
    monkeypatch.setattr(reconcile, "_MOST_LOOKUPS", 2)
    catalog.write("a.json", groups(g={"m": message(description="changed"), "n": message()}))
    planned.clear()
    assert catalog.ingest().as_json()["entities"]["versions"]["updated"] == 1
    assert planned == []


@pytest.fixture
def planned(monkeypatch):
    """The planners that looked up what they need."""
    found: list[Any] = []
    look_up = Planner.look_up

    def followed(planner):
        look_up(planner)
        found.append(planner)

    monkeypatch.setattr(Planner, "look_up", followed)
    return found


def contents_of(catalog: Any) -> list[str]:
    attributes = "sort_array(map_entries(attributes))"  # the order of a map says nothing
    rows = catalog.rows(
        f"SELECT registryid, xid, chain_status, {attributes}, depends_on, snapshot_id FROM xregistry.effective_messages"
    )
    versions = catalog.rows("SELECT registryid, xid, content_hash, document_uris, snapshot_id FROM xregistry.versions")
    return [re.sub(r"file:\S*/", "", text) for text in sorted(map(str, [*rows, *versions]))]
