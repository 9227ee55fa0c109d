"""What the read model answers is what the views in `ddl` and Spark's own ways answer, for the samples and for random catalogs.

Twins, each with a case: chains, attributes, what endpoints carry, references, compared definitions, differences, events,
snapshots, findings. One history of two ingests serves them all; each document is a registry.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import document, group, message
from conftest import Catalog
from published import SMALL_OR_ALL, published
from pyspark.sql import functions as F
from soak.sessions import forget, forget_attached

from lakehouse.domain.diff import differences
from lakehouse.domain.events import FEEDS
from lakehouse.domain.ownership import Policy
from lakehouse.errors import DocumentNotFound
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.log.snapshots import open_relations, read_snapshots
from lakehouse.query.changeevents import change_events
from lakehouse.query.differences import diff_snapshots, read_differences
from lakehouse.readmodel import ReadModel, View, open_model
from lakehouse.readmodel import queries as quick_events
from lakehouse.readmodel.flattened import attributes_of, chain_of, endpoints_of, messages_of
from lakehouse.readmodel.queries import definitions_of, snapshot_differences
from lakehouse.readmodel.violationlist import find_violations, violations_by_rule
from lakehouse.settings import Settings
from lakehouse.store.views import with_read

VIEWS = [
    "computed_messages",
    "message_chains",
    "flat_attributes",
    "endpoint_messages",
    "entity_references",
    "comparable_definitions",
]

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
    "#/schemagroups/s/schemas/my~0s",
]


def catalog_of(seed: int) -> dict[str, Any]:
    """Make a document at random: chains, cycles, aliases, Versions, what leads nowhere, endpoints of all protocols."""
    chance = random.Random(seed)
    names = [f"/messagegroups/g{n % 4}/messages/m{n}" for n in range(24)]
    lost = ["/messagegroups/none/messages/x", "https://example.com/messagegroups/a/messages/b"]

    def definition() -> dict[str, Any]:
        base = chance.choice([None, None, *names[:12], *(f"{name}/versions/1" for name in names[:6]), *lost])
        schema = chance.choice(SCHEMAS)
        reported: dict[str, Any] = {
            "envelopemetadata": {"type": {"value": f"t{chance.randrange(9)}"}, "subject": {"required": True}}
        }
        reported |= (
            {"name": f"name {chance.randrange(99)}", "labels": {"team": chance.choice("abc")}} if chance.random() < 0.5 else {}
        )
        reported |= {} if base is None else {"basemessage": base}
        reported |= {} if schema is None else {"dataschemaformat": "JSONSchema/draft-07", "dataschemauri": schema}
        reported |= (
            {"x-own": {"a": [1, {"b": "/~"}]}, "deprecated": {"effective": "2030-01-01T00:00:00Z"}}
            if chance.random() < 0.2
            else {}
        )
        return message(**reported, **chance.choice(PROTOCOLS))

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
    names = [[], ["id"]]  # what the second Version requires besides, which breaks producers
    versions = {
        str(number): {"format": "JSONSchema/draft-07", "schema": {"title": f"{seed}", "required": required}}
        for number, required in enumerate(names, 1)
    }
    here = [{"name": "a", "xid": f"/schemagroups/s/schemas/{to}"} for to in ("t/versions/1", "none", "a:b", "a:b:c")]
    references = [*here, {"name": "no xid"}, {"xid": 7}, {"xid": None}, {"xid": "x"}, {"xid": {"a": "/b"}}, "text", None, 3]
    other = {"format": "JSONSchema/draft-07", "schema": {}}
    held = {
        "r": other | {"references": references},
        "r2": other | {"references": {"xid": "/schemagroups/s/schemas/t"}, "n": 1},
        "r3": other | {"references": "text"},
        "t": {"versions": versions},
        "u": {"format": "Avro/1.11.1", "schema": {"type": "int" if seed == 3 else "string"}},
        "a:b": {"versions": versions},
        "my~s": {"versions": versions},
    }
    return document(groups, endpoints, {"s": group(held, holds="schemas")}, name=f"of {seed}")


class Loaded:
    """A catalog of two snapshots, its read model, and the views of the newest one."""

    def __init__(self, catalog: Catalog, settings: Settings) -> None:
        self.spark, self.settings = catalog.spark, settings
        self.model: ReadModel = open_model(settings)
        self.schema = open_relations(self.spark, settings, with_read(VIEWS))

    def rows(self, view: str, **replaced: F.Column) -> list[str]:
        """Return the rows of a view, each as JSON."""
        table = self.spark.table(f"{self.schema}.{view}")
        texts = table.withColumns(replaced).select(F.to_json(F.struct("*"), {"ignoreNullFields": "false"}))
        return as_texts(json.loads(row[0]) for row in texts.collect())


def as_texts(rows: Iterable[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


@pytest.fixture(scope="module", params=SMALL_OR_ALL)
def loaded(request, spark, empty_warehouse, tmp_path_factory) -> Iterator[Loaded]:
    """Two random catalogs and the samples, of which one catalog changes and a third comes."""
    forget_attached(spark)
    folder = tmp_path_factory.mktemp("twins")
    made = Catalog(spark, folder)
    shutil.copytree(empty_warehouse, made.settings.warehouse)
    settings = made.settings.model_copy(update={"refresh_effective": True, "readmodel_dir": str(folder / "model")})
    made.write("a.json", catalog_of(1))
    made.write("b.json", catalog_of(2))
    made.ingest(made.documents, *published(request.param), settings=settings, registry_from="document")
    made.write("a.json", catalog_of(3) | {"bad": 1})
    made.write("c.json", catalog_of(4))
    made.ingest(settings=settings, request=IngestRequest(Policy(prune=True, force=True)), registry_from="document")
    found = Loaded(made, settings)
    yield found
    found.model.close()
    forget(spark, Path(made.settings.warehouse))


def of_entities(view: View, answer: Callable[[View, Any], Iterable[Any]], *kinds: str) -> list[Any]:
    entities = (one for registryid in view.registries() for one in view.below(registryid, "/"))
    return [row for one in entities if not kinds or one.kind in kinds for row in answer(view, one)]


def of_messages(view: View, answer: Callable[[View, Any], Iterable[Any]]) -> list[str]:
    return as_texts(row for one in view.definitions() for row in answer(view, one))


def test_effective_definitions_that_spark_stored_are_computed_alike(loaded):
    with loaded.model.at() as view:
        for stored in view.definitions():
            rest = {name: stored[name] for name in ("document_uris", "snapshot_id")}
            assert view.bodies.effective(stored["registryid"], stored["xid"]) | rest == stored


def test_what_is_stored_is_what_the_view_computes(loaded):
    """Ingests of few rows compute it in Python."""
    in_order = {"depends_on": F.array_sort("depends_on"), "snapshot_id": F.lit(None)}
    computed = loaded.rows("computed_messages", **in_order)
    assert loaded.rows("effective_messages", **in_order) == computed != []


@pytest.mark.slow
def test_chains_and_origins(loaded):
    with loaded.model.at() as view:
        assert {one["chain_status"] for one in view.definitions()} >= {"none", "resolved", "dangling", "external", "cycle"}
        assert of_messages(view, chain_of) == loaded.rows("message_chains") != []
        assert of_messages(view, attributes_of) == loaded.rows("flat_attributes") != []


def test_what_endpoints_carry(loaded):
    with loaded.model.at() as view:
        carried = loaded.rows("endpoint_messages")
        assert of_messages(view, endpoints_of) == carried != []
        assert as_texts(of_entities(view, messages_of, "endpoint")) == carried


def test_references(loaded):
    with loaded.model.at() as view:
        references = loaded.rows("entity_references")
        reported = of_entities(view, lambda view, entity: (row._asdict() for row in view.references_of(entity)))
        assert as_texts(reported) == references != []
        reached = [row for row in map(json.loads, references) if row["target_xid"]]
        targets = {(row["registryid"], row["target_xid"]) for row in reached}
        assert as_texts(row._asdict() for target in targets for row in view.referring_to(*target)) == as_texts(reached)


@pytest.mark.slow
def test_compared_definitions_and_differences(loaded):
    before, after = (loaded.model.answer(definitions_of, at) for at in (1, 2))
    rows = [(*key, sorted(leaves.items())) for key, leaves in after.items()]
    stored = loaded.spark.table(f"{loaded.schema}.comparable_definitions").select("registryid", "kind", "xid", "attributes")
    assert sorted(rows) == sorted((*row[:3], sorted(row[3].items())) for row in stored.collect())
    found = differences(before, after)
    assert {one.class_ for one in found} == {"breaking", "unknown", "compatible", "cosmetic"}
    assert found == snapshot_differences(loaded.model, 1, 2)
    assert found == read_differences(diff_snapshots(loaded.spark, loaded.settings, 1, 2))


def test_events(loaded):
    reported = [row["event"] for row in change_events(loaded.spark, loaded.settings, 0, 2, FEEDS).collect()]
    source = loaded.settings.events_source
    assert [event for _, event in loaded.model.answer(lambda view: list(quick_events.change_events(view, source, 0)))] == reported
    events = [json.loads(event) for event in reported]
    assert {event["id"].split("-")[0] for event in events} == {"1", "2"}
    changes = [(event["type"], event["data"]["compatibility"]) for event in events if "compatibility" in event.get("data", {})]
    assert {type_ for type_, _ in changes} == {"io.xregistry.version.created", "io.xregistry.version.updated"}
    assert {who for _, change in changes for who in change.get("endpoints", {})} == {"producers", "consumers"}


def test_snapshots(loaded):
    quick = loaded.model.answer(lambda view: view.snapshots())
    assert [one.as_json() for one in quick] == [one.as_json() for one in read_snapshots(loaded.spark)] != []


@pytest.mark.parametrize("at", [None, "1"])
def test_findings(loaded, at):
    schema = open_relations(loaded.spark, loaded.settings, with_read(["current_violations"]), ["violations"], at)
    rows = loaded.spark.table(f"{schema}.current_violations").groupBy("rule_id", "severity").count().collect()
    found = violations_by_rule(loaded.model.answer(find_violations, at))
    assert {(one.rule_id, one.severity): one.findings for one in found} == {(row[0], row[1]): row[2] for row in rows} != {}


def test_findings_of_a_document(loaded):
    path = loaded.model.answer(find_violations)[0]["document_uri"].removeprefix("file:")
    assert loaded.model.answer(lambda view: find_violations(view, document=path)) != []
    with pytest.raises(DocumentNotFound, match=r"no\.json: the catalog has loaded no such document"):
        loaded.model.answer(lambda view: find_violations(view, document="no.json"))
