"""What an endpoint and its messages both say: all readers of the catalog take the message's, and it is reported."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from builders import group
from soak.sessions import forget

from lakehouse.log.snapshots import open_relations
from lakehouse.readmodel import open_model
from lakehouse.readmodel.detail import show_messages
from lakehouse.readmodel.flattened import attributes_of, endpoints_of
from lakehouse.render.renderruns import examples_of, renderer_of, samples_of
from lakehouse.render.selected import read_selected
from lakehouse.rules.published import check_catalog
from lakehouse.site import write_site
from lakehouse.store.views import with_read

# By protocol: options of the endpoint; of the message that it carries, both without what agrees; what is in effect.
SAID: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, str]]] = {
    "KAFKA": (
        {"topic": "harbour.orders", "key": "fixed", "partition": 3},
        {"topic": "harbour.orders.v2", "key": "{orderid}", "partition": 4},
        {"topic": "harbour.orders.v2", "key": "{orderid}", "partition": "4"},
    ),
    "MQTT/5.0": (
        {"topic": "harbour/orders", "qos": 2, "retain": False},
        {"topic_name": "harbour/orders/v2", "qos": 1, "retain": True},
        {"topic": "harbour/orders/v2", "qos": "1", "retain": "true"},
    ),
    "NATS": ({"subject": "harbour.orders"}, {"subject": "harbour.orders.v2"}, {"subject": "harbour.orders.v2"}),
    "HTTP/1.1": ({"method": "PUT"}, {"method": "PATCH"}, {"method": "PATCH"}),
    "AMQP/1.0": ({"durable": False}, {"header": {"durable": True}}, {"durable": "true"}),
}
REPORTED = {
    "KAFKA": {"topic": "harbour.orders.v2", "partition": "4"},
    "MQTT": {"topic": "harbour/orders/v2"},
    "NATS": {"subject": "harbour.orders.v2"},
    "HTTP": {"method": "PATCH"},
    "AMQP": {"durable": "true"},
}


def catalog_of() -> dict[str, Any]:
    """For each protocol a group and an endpoint that names it; a base whose topic is inherited, and an alias of it."""
    groups, endpoints = {}, {}
    for protocol, (asked, declared, _) in SAID.items():
        family = protocol.partition("/")[0]
        groups[family] = group({"m": {"protocol": protocol, "protocoloptions": declared}})
        endpoints[family] = {
            "usage": ["producer"],
            "protocol": protocol,
            "protocoloptions": asked,
            "messagegroups": [f"/messagegroups/{family}"],
        }
    kafka = {"protocol": "KAFKA", "protocoloptions": {"topic": "t2"}}
    groups["bases"] = group({"b": kafka, "bytes": {"protocol": "KAFKA", "protocoloptions": {"key_base64": "aw=="}}})
    groups["heirs"] = group(
        {
            "heir": {"basemessage": "/messagegroups/bases/messages/b", "protocol": "KAFKA"},
            "alias": {"meta": {"xref": "/messagegroups/bases/messages/b"}},
            "bytes": {"protocol": "KAFKA", "protocoloptions": {"key_base64": "aw=="}},
            "template": {"protocol": "KAFKA", "protocoloptions": {"topic": "{region}.t"}},
            "same": {"protocol": "KAFKA", "protocoloptions": {"topic": "t"}},
        }
    )
    options = {"topic": "t", "key": "k"}
    lists = {"usage": ["producer"], "protocol": "KAFKA", "messagegroups": ["/messagegroups/heirs"]}
    endpoints["heirs"] = lists | {"protocoloptions": options}
    endpoints["other"] = lists | {"protocoloptions": options | {"topic": "t2", "key": "z"}}
    endpoints["filter"] = {
        "usage": ["subscriber"],
        "protocol": "MQTT/5.0",
        "protocoloptions": {"topic": "harbour/#"},
        "messagegroups": ["/messagegroups/MQTT"],
    }
    return {"specversion": "1.0-rc2", "messagegroups": groups, "endpoints": endpoints}


@pytest.fixture(scope="module")
def both(spark, empty_warehouse, tmp_path_factory):
    """A catalog as all settings are shipped, but for what is slow, and its read model."""
    import shutil
    from pathlib import Path

    from conftest import Catalog

    folder = tmp_path_factory.mktemp("options")
    made = Catalog(spark, folder)
    shutil.copytree(empty_warehouse, made.settings.warehouse)
    changed = {"refresh_effective": True, "check_relations": True, "readmodel_dir": str(folder / "model")}
    made.settings = made.settings.model_copy(update=changed)
    made.write("a.json", catalog_of())
    made.ingest()
    with open_model(made.settings) as model:
        yield made, model
    forget(spark, Path(made.settings.warehouse))


@pytest.fixture(scope="module")
def carried(both):
    """The options of each message at each endpoint that carries it, by Spark."""
    catalog, _ = both
    schema = open_relations(catalog.spark, catalog.settings, with_read(("endpoint_messages",)), ["changes"])
    rows = catalog.rows(f"SELECT message_xid, endpoint_xid, options FROM {schema}.endpoint_messages")
    return {(message, endpoint): dict(options) for message, endpoint, options in rows}


@pytest.mark.slow
@pytest.mark.parametrize("protocol", SAID)
def test_what_a_message_declares_is_in_effect_for_all_that_read_it(both, carried, protocol):
    _, model = both
    family, (_, _, wanted) = protocol.partition("/")[0], SAID[protocol]
    xid = f"/messagegroups/{family}/messages/m"
    with model.at() as view:
        definition = view.definition("default", xid)
        reported = [row for row in endpoints_of(view, definition) if row["endpoint_xid"] == f"/endpoints/{family}"]
        attributes = {row["pointer"]: row["value"] for row in attributes_of(view, definition) if row["origin"] == "declared"}
        (effective,) = [one.as_json() for one in show_messages(view, xid)]  # of the HTTP API, and of `lakehouse show`
        selected = read_selected(view, [xid], endpoint=f"/endpoints/{family}")
        example = examples_of(samples_of(selected, renderer_of(selected)))
    ((row,), declared) = reported, set(attributes.values())
    shown = {one["endpoint_xid"]: one["options"] for one in effective["endpoints"]}
    assert {row["pointer"]: row["value"] for row in effective["attributes"]}.items() >= attributes.items()
    assert [carried[xid, f"/endpoints/{family}"]] == [row["options"]] == [shown[f"/endpoints/{family}"]]
    assert {name: row["options"][name] for name in wanted} == wanted
    texts = {orjson.loads(value) if value.startswith('"') else value for value in declared}
    assert set(wanted.values()) <= texts
    reported_of = orjson.dumps(example[0]).decode()
    assert all(str(value) in reported_of for name, value in wanted.items() if name in ("topic", "subject", "method"))


def test_the_page_of_a_message_shows_the_same(both, tmp_path):
    _, model = both
    write_site(model, str(tmp_path / "site"))
    page = next((tmp_path / "site").glob("reg-default/messagegroups/KAFKA/m*/**/index.html"), None) or next(
        (tmp_path / "site").glob("reg-default/messagegroups/KAFKA/m*.html")
    )
    text = page.read_text(encoding="utf-8")
    assert "topic=harbour.orders.v2" in text
    assert "topic=harbour.orders<" not in text


@pytest.mark.slow
def test_where_both_contradict_each_other_the_endpoint_is_warned_of_it(both):
    catalog, _ = both
    found = catalog.rows("SELECT xid, pointer, severity, message FROM violations WHERE rule_id = 'MATCH-004'")
    wanted = {
        (f"/endpoints/{family}", f"/endpoints/{family}/protocoloptions/{name}")
        for family, reported in REPORTED.items()
        for name in reported
    }
    wanted |= {("/endpoints/heirs", "/endpoints/heirs/protocoloptions/topic")}
    wanted |= {("/endpoints/other", f"/endpoints/other/protocoloptions/{name}") for name in ("topic", "key")}
    assert {(xid, pointer) for xid, pointer, _, _ in found} == wanted
    assert {severity for _, _, severity, _ in found} == {"warning"}
    reported = {pointer: message for _, pointer, _, message in found}
    assert reported["/endpoints/KAFKA/protocoloptions/topic"] == (
        "`topic` is harbour.orders, and other values are declared by messages that it carries: "
        "1, such as /messagegroups/KAFKA/messages/m with harbour.orders.v2"
    )
    assert ": 2, such as /messagegroups/heirs/messages/alias with t2" in reported["/endpoints/heirs/protocoloptions/topic"]
    checked = check_catalog(catalog.spark, catalog.settings).filter("finding.rule_id = 'MATCH-004'")
    assert {(row[0], row[1], row[2]) for row in checked.select("xid", "finding.pointer", "finding.message").collect()} == {
        (xid, pointer, message) for xid, pointer, _, message in found
    }
