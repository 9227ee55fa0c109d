"""A registry is loaded with Spark: by its API and by its topic the same, again only what changed, and pruned."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from conftest import Catalog
from fastavro import parse_schema, schemaless_writer
from replicate.sources import answering

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.ingest.summary import Summary
from lakehouse.match.runs import MatchOptions, run_match
from lakehouse.registries import RegistryOptions, fetch_registry, load_registry, read_registry_source
from registries.registrystandins import ORDER, ORDER_2, RegistryStandIn, shop

S = "/schemagroups/default/schemas"


def load(catalog: Catalog, source: str, registry: str, *, messages: Any = "topic", **policy: bool) -> Summary:
    settings = catalog.settings.model_copy(update={"registry": registry})
    place, options = read_registry_source(f"confluent+{source}"), RegistryOptions(messages=messages)
    content = fetch_registry(place, settings, options, spark=catalog.spark if place.is_table else None)
    request = IngestRequest(Policy(**policy))
    return load_registry(catalog.spark, settings, place, content, options=options, request=request)


def held(catalog: Catalog, registry: str) -> list[Any]:
    """Return what the tables hold of a registry, without where it is from."""
    schemas = "SELECT xid, compatibility, readonly, defaultversionid FROM schemas"
    versions = "SELECT xid, format, schema, labels, ancestor, isdefault, extensions FROM schemaversions"
    messages = "SELECT xid, protocol, protocoloptions, dataschemaxid, labels FROM versions"
    where = f"WHERE registryid = '{registry}' ORDER BY xid"
    return [catalog.rows(f"SELECT to_json(struct(*)) FROM ({query} {where})") for query in (schemas, versions, messages)]


@pytest.mark.slow
def test_a_registry_comes_in_by_its_api_and_by_its_topic(catalog: Catalog, tmp_path: Path):
    registry = shop()
    landed = tmp_path / "landed.jsonl"
    landed.write_bytes(registry.lines())
    table = str(tmp_path / "table")
    catalog.spark.read.json(str(landed)).repartition(3).write.format("delta").save(table)
    topic = f"file:{landed}"
    with answering(registry.answer) as server:
        assert [load(catalog, source, name).refused for name, source in (("api", server.url), ("topic", topic))] == [False] * 2
        load(catalog, f"file:{table}", "table")
        by_api = held(catalog, "api")
        assert by_api == held(catalog, "topic") == held(catalog, "table")
        assert [len(rows) for rows in by_api] == [5, 6, 2]

        assert load(catalog, server.url, "api").snapshot_id is None
        registry.register("orders-key", {"type": "string"}, id=77)
        registry.delete("lines-value", 1)
        summary = load(catalog, server.url, "api")
        assert (summary.documents["read"], summary.documents["unchanged"]) == (4, 3)
        names = "SELECT xid FROM schemaversions WHERE registryid = 'api' AND labels['confluent.id'] IN ('77', '6')"
        assert sorted(catalog.rows(names)) == [f"{S}/lines-value/versions/1", f"{S}/orders-key/versions/2"]
        assert load(catalog, server.url, "api", prune=True).entities["schemas"]["deleted"] == 1

        registry.register("orders-value", ORDER_2 | {"fields": [*ORDER_2["fields"], {"name": "n", "type": "int"}]})
        summary = load(catalog, server.url, "api")
        assert summary.entities["schemaversions"]["quarantined"] == 0
        assert any("breaks the level BACKWARD_TRANSITIVE" in one for one in summary.remarks)
        level = f"SELECT compatibility FROM schemas WHERE registryid = 'api' AND xid = '{S}/orders-value'"
        assert catalog.rows(level) == [None]


def framed(number: int, schema: Any, record: dict[str, Any]) -> bytes:
    """Write a record as a serializer of Kafka's clients does."""
    body = io.BytesIO()
    schemaless_writer(body, parse_schema(schema), record)
    return b"\0" + number.to_bytes(4, "big") + body.getvalue()


@pytest.mark.slow
def test_records_are_read_with_the_version_that_their_id_names(catalog: Catalog, tmp_path: Path):
    """Values change places between the versions: with the other one's schema each record would be valid, and wrong."""
    one, two = (ORDER | {"fields": [{"name": name, "type": "string"} for name in names]} for names in ("ab", "ba"))
    registry = RegistryStandIn()
    for schema in (one, two):
        registry.register("orders-value", schema)
    with answering(registry.answer) as server:
        assert load(catalog, server.url, "default").remarks == []
    values = [framed(1, one, {"a": "x", "b": "yy"}), framed(2, two, {"a": "x", "b": "yy"}), framed(2, two, {"a": "", "b": ""})]
    values += [framed(2, two, {"a": "x", "b": "yy"})[:-1], framed(1, one, {"a": "x", "b": "yy"}) + b"\0"]
    rows = [(value, "orders", 0, offset, []) for offset, value in enumerate(values)]
    columns = "value BINARY, topic STRING, partition INT, offset BIGINT, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
    catalog.spark.createDataFrame(rows, columns).write.format("delta").save(str(tmp_path / "records"))
    results = tmp_path / "results.jsonl"
    run_match(catalog.spark, catalog.settings, MatchOptions((str(tmp_path / "records"),), results=str(results)))
    found = [json.loads(line) for line in results.read_text().splitlines()]  # in the order of their offsets
    versions = f"{S}/orders-value/versions/"
    statuses = [("valid_older", "1"), ("valid", "2"), ("valid", "2"), ("undecodable", "2"), ("undecodable", "1")]
    assert [(row["payload_status"], row["written_with"]) for row in found] == [
        (one, versions + number) for one, number in statuses
    ]
    assert {row["best"][0]["xid"] for row in found} == {"/messagegroups/orders/messages/orders"}
