"""A small change of a large catalog: what is read by keys is all that rules between entities need."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from builders import group
from soak.sessions import forget_attached

from lakehouse.domain.ownership import Policy
from lakehouse.ingest import settle
from lakehouse.ingest.pipeline import Request
from lakehouse.settings import read_settings

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


# What stands in the document that is edited, before and after; what stands in another one; the rules that then tell something.
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
        groups(g={"m": extending("b", protocol="MQTT/5.0", description="new")}),
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
    "nothing": (
        groups(g={"m": extending("b")}),
        groups(g={"m": extending("b", description="new")}),
        groups(g={"b": extending("c"), "c": message()}) | endpoint("g"),
        set(),
    ),
}
TYPED = {"format": "CloudEvents/1.0", "metadata": {"attributes": {"type": {"value": "t"}}}}


def written(catalog: Any, *, edited: bool) -> None:
    """Write two documents of each case, in a registry of its own, and two of which each defines a `type` (CAT-007)."""
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


@pytest.mark.slow
@pytest.mark.parametrize("near", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_change_is_judged_with_what_it_has_to_do_with(catalog, monkeypatch, near, ways):
    written(catalog, edited=False)
    catalog.ingest()
    known = set(catalog.rows("SELECT violation_id FROM xregistry.violations"))
    bytes_ = 0 if near else 1 << 30
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse, interpreted_rows=5000, interpreted_bytes=bytes_)
    read = []
    monkeypatch.setattr(settle, "read_near", lambda *given: read.append(near_of(*given)) or read[-1])
    written(catalog, edited=True)
    forget_attached(catalog.spark)
    summary = catalog.ingest()
    columns = "registryid, rule_id, xid, pointer, action, message"  # MSG-115: what cannot stand without what was refused
    found = catalog.rows(f"SELECT violation_id, {columns} FROM xregistry.violations ORDER BY {columns}")
    told = [row[1:] for row in found if row[0] not in known and row[2] != "MSG-115"]
    for number, (*_, rules) in enumerate(CASES.values()):
        assert {one[1] for one in told if one[0] == f"r{number}"} == rules
    assert {one[1] for one in told if one[0] == "default"} == {"CAT-007"}
    # Twice, since documents from which others take an entity are read in the same ingest.
    assert [one is not None for one in read] == ([True, True] if near else [])
    broken = catalog.write("z.json", b"{")  # which has to do with nothing
    assert catalog.ingest(broken).documents == {"read": 1, "unchanged": 0, "skipped": 0, "rejected": 1}
    assert len(read) == 3 * near
    ways[near] = (told, json.dumps(summary.as_json()["entities"]), contents_of(catalog))
    if near:
        assert ways[True] == ways.get(False, ways[True])


@pytest.mark.slow
def test_documents_that_did_not_change_are_no_work(catalog, monkeypatch):
    for number in range(12):
        catalog.write(f"{number}.json", groups(**{f"g{number}": {"m": message()}}))
    catalog.ingest()
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse, interpreted_rows=10, interpreted_bytes=0)
    read = []
    monkeypatch.setattr(settle, "read_near", lambda *given: read.append(near_of(*given)) or read[-1])
    catalog.write("3.json", groups(g3={"m": message(description="changed")}))
    forget_attached(catalog.spark)
    summary = catalog.ingest()
    assert [one.state.count() for one in read] == [4]  # the registry, the group, the message, its Version
    assert summary.documents == {"read": 12, "unchanged": 11, "skipped": 0, "rejected": 0}
    told = summary.as_json()["entities"]["versions"]
    assert (told["updated"], told["unchanged"]) == (1, 11)
    (catalog.documents / "5.json").unlink()  # what is pruned may be anything: all documents are looked at
    summary = catalog.ingest(request=Request(policy=Policy(prune=True)))
    assert (len(read), summary.as_json()["entities"]["messages"]["deleted"]) == (1, 1)


near_of = settle.read_near


def contents_of(catalog: Any) -> list[str]:
    rows = catalog.rows(
        "SELECT registryid, xid, chain_status, attributes, depends_on, snapshot_id FROM xregistry.effective_messages"
    )
    versions = catalog.rows("SELECT registryid, xid, content_hash, document_uris, snapshot_id FROM xregistry.versions")
    return [re.sub(r"file:\S*/", "", text) for text in sorted(map(str, [*rows, *versions]))]
