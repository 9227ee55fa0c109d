"""The read model says what the views say in Spark: chains, origins, endpoints, references, events, differences, findings."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import document, group, message
from conftest import Catalog
from pyspark.sql import functions as F
from soak.sessions import forget, forget_attached

from lakehouse.domain.diff import differences
from lakehouse.domain.events import FEEDS
from lakehouse.errors import DocumentNotFound
from lakehouse.ingest.pipeline import Request
from lakehouse.log.ownership.owners import Policy
from lakehouse.log.relations import open_relations
from lakehouse.log.snapshots import open_snapshot, read_snapshots
from lakehouse.query.audit import read_history
from lakehouse.query.diff import diff_snapshots, read_differences
from lakehouse.query.events import change_events
from lakehouse.readmodel import ReadModel, View, open_model
from lakehouse.readmodel import events as quick_events
from lakehouse.readmodel.diff import definitions_of
from lakehouse.readmodel.flattened import attributes_of, chain_of, endpoints_of, messages_of
from lakehouse.readmodel.found import find_violations, violations_by_rule
from lakehouse.readmodel.shown import show_messages
from lakehouse.store.schema import TABLE_OF_KIND
from lakehouse.store.tables import table_name
from lakehouse.store.views import with_read

pytestmark = pytest.mark.slow

PROTOCOLS: list[dict[str, Any]] = [
    {},
    {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": "a/{b}", "qos": 1, "retain": True}},
    {"protocol": "MQTT/3.1.1", "protocoloptions": {"topic_name": "a"}},
    {"protocol": "KAFKA", "protocoloptions": {"topic": "t", "key": "{id}", "headers": {"h": {"value": "x"}}}},
    {"protocol": "AMQP/1.0", "protocoloptions": {"properties": {"to": {"value": "q"}}}},
    {"protocol": "HTTP", "protocoloptions": {"method": "PUT", "path": "/p"}},
    {"protocol": "KAFKA", "protocoloptions": {"key_base64": "AA==", "partition": 7}},
]
NUMBERS = {"a": 1e16, "b": [0.5, 1e-5], "c": {"d": 12345678.9}, "e": 0.001, "f": -1.5e300, "g": 1e6, "h": 123456789012, "i": 0.0}
ENDPOINTS: list[dict[str, Any]] = [
    {
        "usage": ["producer"],
        "protocol": "MQTT/5.0",
        "protocoloptions": {"qos": 2, "retain": True, "willmessage": "/messagegroups/g0/messages/m0"},
    },
    {"usage": ["consumer"], "protocol": "KAFKA", "protocoloptions": {"topic": "other", "consumergroup": "c"}},
    {"usage": ["consumer", "producer"], "protocol": "AMQP", "protocoloptions": {"node": "n", "authorization": {"type": "Plain"}}},
    {
        "usage": ["subscriber"],
        "protocol": "HTTP",
        "envelope": "CloudEvents/1.0",
        "envelopeoptions": {"mode": "structured", "format": "json"},
    },
    {
        "usage": ["producer"],
        "channel": "c",
        "protocol": "NATS",
        "protocoloptions": {"endpoints": [{"uri": "nats://a", "x": 1}], **NUMBERS},
    },
    {"usage": ["producer"], "envelope": "CloudEvents"},
]
SCHEMAS = [None, "/schemagroups/s/schemas/t", "#/schemagroups/s/schemas/t:Type", "/schemagroups/s/schemas/u/versions/1#Type"]
SCHEMAS += [
    "/schemagroups/s/schemas/none",
    "https://example.com/schema.json",
    "/schemagroups/s/schemas/a:b",
    "#/schemagroups/%73/schemas/t",
]


def catalog_of(seed: int) -> dict[str, Any]:
    """Make a document at random: chains, cycles, aliases, Versions, what leads nowhere, endpoints of all protocols."""
    chance = random.Random(seed)
    names = [f"/messagegroups/g{n % 4}/messages/m{n}" for n in range(24)]
    lost = ["/messagegroups/none/messages/x", "https://example.com/messagegroups/a/messages/b"]

    def definition() -> dict[str, Any]:
        base = chance.choice([None, None, *names[:12], *(f"{name}/versions/1" for name in names[:6]), *lost])
        schema = chance.choice(SCHEMAS)
        told: dict[str, Any] = {"envelopemetadata": {"type": {"value": f"t{chance.randrange(9)}"}, "subject": {"required": True}}}
        told |= (
            {"name": f"name {chance.randrange(99)}", "labels": {"team": chance.choice("abc")}} if chance.random() < 0.5 else {}
        )
        told |= {} if base is None else {"basemessage": base}
        told |= {} if schema is None else {"dataschemaformat": "JSONSchema/draft-07", "dataschemauri": schema}
        told |= (
            {"x-own": {"a": [1, {"b": "/~"}]}, "deprecated": {"effective": "2030-01-01T00:00:00Z"}}
            if chance.random() < 0.2
            else {}
        )
        return message(**told, **chance.choice(PROTOCOLS))

    messages: dict[str, dict[str, Any]] = {f"g{n}": {} for n in range(4)}
    for n in range(24):
        kind = chance.random()
        made: dict[str, Any] = definition()
        if kind < 0.12:
            made = {"meta": {"xref": chance.choice(names)}}
        elif kind < 0.3:
            made = {"versions": {versionid: definition() for versionid in chance.sample(["1", "2", "10"], 2)}}
        if chance.random() < 0.9:
            messages[f"g{n % 4}"][f"m{n}"] = made
    messages["g0"] |= {"plain": message(), "based": message(basemessage="/messagegroups/g0/messages/plain")}
    messages["g0"] |= {"abroad": message(basemessage=lost[1]), "lost": message(basemessage=lost[0])}
    groups = {name: group(held, **({"protocol": "MQTT/5.0"} if name == "g3" else {})) for name, held in messages.items()}
    endpoints = {}
    for n, one in enumerate(ENDPOINTS):
        named = [f"/messagegroups/g{chance.choice(['', '', '~'])}{chance.randrange(5)}" for _ in range(2)]
        endpoints[f"e{n}"] = group({f"own{n}": definition()}, messagegroups=named, **one)
    versions = {str(number): {"format": "JSONSchema/draft-07", "schema": {"title": f"{seed}"}} for number in (1, 2)}
    held = {
        "t": {"versions": versions},
        "u": {"format": "Avro/1.11.1", "schema": {"type": "string"}},
        "a:b": {"versions": versions},
    }
    return document(groups, endpoints, {"s": group(held, holds="schemas")}, name=f"of {seed}")


class Loaded:
    """A catalog of several snapshots, and its read model."""

    def __init__(self, catalog: Catalog, model: ReadModel) -> None:
        self.catalog, self.model = catalog, model
        self.snapshots = range(1, model.answer(lambda view: view.head) + 1)

    def rows(self, snapshot_id: int, view: str, *columns: str) -> list[str]:
        schema = open_snapshot(self.catalog.spark, self.catalog.settings, snapshot_id)
        table = self.catalog.spark.table(f"{schema}.{view}")
        text = F.to_json(F.struct(*(columns or table.columns)), {"ignoreNullFields": "false"})
        return texts(json.loads(row[0]) for row in table.select(text).collect())


def texts(rows: Any) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def load(catalog: Catalog, folder: Path, *steps: Any) -> Loaded:
    settings = catalog.settings.model_copy(update={"refresh_effective": True, "readmodel_dir": str(folder / "model")})
    for step in steps:
        step(settings)
    model = open_model(settings)
    return Loaded(catalog, model)


@pytest.fixture(scope="module")
def generated(spark, empty_warehouse, tmp_path_factory) -> Iterator[Loaded]:
    forget_attached(spark)
    folder = tmp_path_factory.mktemp("generated")
    made = Catalog(spark, folder)
    shutil.copytree(empty_warehouse, made.settings.warehouse)

    def first(settings):
        made.write("a.json", catalog_of(1))
        made.ingest(settings=settings, request=Request(label="first"))

    def second(settings):
        made.write("a.json", catalog_of(2) | {"bad": 1})
        made.write("b.json", {"registryid": "other"} | catalog_of(3))
        made.ingest(settings=settings, request=Request(Policy(prune=True, force=True)))

    loaded = load(made, folder, first, second)
    yield loaded
    loaded.model.close()
    forget(spark, Path(made.settings.warehouse))


def every(view: View, kind: str) -> Iterator[Any]:
    return (one for registryid in view.registries() for one in view.below(registryid, "/") if one.kind == kind)


@pytest.mark.parametrize("snapshot_id", [1, 2])
def test_definitions_chains_and_origins_are_those_of_the_views(generated, snapshot_id):
    with generated.model.at(snapshot_id) as view:
        known = list(view.definitions())
        statuses = {one["chain_status"] for one in known}
        assert statuses >= {"none", "resolved", "dangling", "external"}
        columns = [name for name in known[0] if name != "snapshot_id"]
        flat = texts({name: one[name] for name in columns} for one in known)
        assert flat == generated.rows(snapshot_id, "flat_messages", *columns)
        assert texts(row for one in known for row in chain_of(view, one)) == generated.rows(snapshot_id, "message_chains")
        assert texts(row for one in known for row in attributes_of(view, one)) == generated.rows(snapshot_id, "flat_attributes")


@pytest.mark.parametrize("snapshot_id", [1, 2])
def test_what_endpoints_carry_and_references_are_those_of_the_views(generated, snapshot_id):
    with generated.model.at(snapshot_id) as view:
        carried = generated.rows(snapshot_id, "endpoint_messages")
        assert texts(row for one in view.definitions() for row in endpoints_of(view, one)) == carried != []
        assert texts(row for one in every(view, "endpoint") for row in messages_of(view, one)) == carried
        references = generated.rows(snapshot_id, "entity_references")
        entities = [one for registryid in view.registries() for one in view.below(registryid, "/")]
        assert texts(row._asdict() for one in entities for row in view.references_of(one)) == references != []
        reached = [json.loads(row) for row in references]
        targets = {(row["registryid"], row["target_xid"]) for row in reached if row["target_xid"]}
        back = texts(row._asdict() for target in targets for row in view.referring_to(*target))
        assert back == texts(row for row in reached if row["target_xid"])


def test_differences_events_snapshots_and_findings_are_spark_s(generated):
    spark, settings, model = generated.catalog.spark, generated.catalog.settings, generated.model
    quick = differences(model.answer(definitions_of, 1), model.answer(definitions_of, 2))
    assert quick == read_differences(diff_snapshots(spark, settings, 1, 2)) != []
    told = [row["event"] for row in change_events(spark, settings, 0, 2, FEEDS).collect()]
    assert [
        event for _, event in model.answer(lambda view: list(quick_events.change_events(view, settings.events_source, 0)))
    ] == told
    assert [one.as_json() for one in model.answer(lambda view: view.snapshots())] == [
        one.as_json() for one in read_snapshots(spark)
    ]
    for at in (None, "1"):
        spark.catalog.setCurrentDatabase(
            open_relations(spark, settings, with_read(["current_violations"]), ["violations"], at and str(at))
        )
        counted = spark.sql("SELECT rule_id, severity, count(*) AS n FROM current_violations GROUP BY ALL").collect()
        found = violations_by_rule(model.answer(find_violations, at))
        assert {(one.rule_id, one.severity): one.findings for one in found} == {(row[0], row[1]): row[2] for row in counted} != {}
    path = model.answer(find_violations)[0]["document_uri"].removeprefix("file:")
    assert model.answer(lambda view: find_violations(view, document=path)) != []
    with pytest.raises(DocumentNotFound, match=r"no\.json: the catalog has loaded no such document"):
        model.answer(lambda view: find_violations(view, document="no.json"))


def test_a_message_and_a_history_are_those_of_the_views(generated):
    spark, settings, model = generated.catalog.spark, generated.catalog.settings, generated.model
    known = sorted({one["xid"] for one in model.answer(lambda view: list(view.definitions()))})
    for xid, at in ((known[len(known) // 2], None), (known[0], "first")):
        schema = open_relations(spark, settings, with_read(["flat_attributes"]), ["changes"], at)
        rows = spark.table(f"{schema}.flat_attributes").filter(F.col("xid") == xid).orderBy("registryid", "pointer").collect()
        names = ("pointer", "value", "origin", "declared_by", "depth")
        found = [
            (shown.message["registryid"], *(one[name] for name in names))
            for shown in model.answer(lambda view, xid=xid: show_messages(view, xid), at)
            for one in shown.attributes
        ]
        assert found == [(row["registryid"], *(row[name] for name in names)) for row in rows] != []
    for xid, below in (("/messagegroups/g0", True), (known[0], False)):
        beneath = F.col("xid").startswith(f"{xid}/" if below else f"{xid}/versions/")
        rows = spark.table(table_name("changes")).filter(F.col("kind").isin(*TABLE_OF_KIND) & (beneath | (F.col("xid") == xid)))
        found = model.answer(lambda view, xid=xid, below=below: read_history(view, xid, below=below))
        told = sorted((row["snapshot_id"], row["xid"], row["op"]) for row in rows.collect())
        assert sorted((one.snapshot_id, one.xid, one.op) for one in found) == told != []


def test_the_published_samples_are_told_alike(spark, bare_catalog, samples, tmp_path):
    def whole(settings):
        bare_catalog.ingest(samples, settings=settings, registry_from="document")

    loaded = load(bare_catalog, tmp_path, whole)
    with loaded.model.at() as view:
        known = list(view.definitions())
        assert texts(row for one in known for row in chain_of(view, one)) == loaded.rows(1, "message_chains")
        assert texts(row for one in known for row in attributes_of(view, one)) == loaded.rows(1, "flat_attributes")
        assert texts(row for one in known for row in endpoints_of(view, one)) == loaded.rows(1, "endpoint_messages")
        entities = [one for registryid in view.registries() for one in view.below(registryid, "/")]
        assert texts(row._asdict() for one in entities for row in view.references_of(one)) == loaded.rows(1, "entity_references")
    loaded.model.close()
