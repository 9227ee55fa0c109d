"""A registry is loaded with Spark: by its API and by its topic the same, again only what changed, and pruned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from conftest import Catalog
from replicate.sources import answering

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.ingest.summary import Summary
from lakehouse.registries import RegistryOptions, fetch_registry, load_registry, read_registry_source
from registries.registrystandins import ORDER_2, shop

S = "/schemagroups/default/schemas"


def load(catalog: Catalog, source: str, registry: str, *, messages: Any = "topic", **policy: bool) -> Summary:
    settings = catalog.settings.model_copy(update={"registry": registry})
    place, options = read_registry_source(f"confluent+{source}"), RegistryOptions(messages=messages)
    content = fetch_registry(place, settings, options, spark=catalog.spark if place.is_table else None)
    request = IngestRequest(Policy(**policy))
    return load_registry(catalog.spark, settings, place, content, options=options, request=request)


def held(catalog: Catalog, registry: str) -> list[Any]:
    """Give what the tables hold of a registry, without where it is from."""
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
