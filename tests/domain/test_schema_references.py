"""Where a `dataschemauri` leads: the views say what the one reader of references says."""

from __future__ import annotations

from builders import group

from lakehouse.domain.references import schema_places
from lakehouse.log.snapshots import open_relations
from lakehouse.store.views import with_read

URIS = [
    "#/schemagroups/g/schemas/my~0s", "#/schemagroups/g/schemas/a%40b", "/schemagroups/g/schemas/my~0s",
    "/schemaGroups/g/schemas/t",
    "#/schemagroups/g/schemas/t:Type", "#/schemagroups/g/schemas/a:b:C", "/schemagroups/g/schemas/t/versions/1",
    "#/schemagroups/g/schemas/t/versions/1:Type", "/schemagroups/g/schemas/t#Type", "#/schemagroups/g/schemas/a+b",
    "/schemagroups/g/schemas/t/versions/2#/definitions/x", "https://example.com/schemagroups/g/schemas/t", "#/schemagroups/g",
    "/other/g/schemas/t",
]  # fmt: skip


def test_the_schema_that_a_view_names(catalog):
    messages = {f"m{i}": {"dataschemaformat": "Avro/1.9", "dataschemauri": uri} for i, uri in enumerate(URIS)}
    catalog.settings = catalog.settings.model_copy(update={"check_relations": False, "refresh_effective": True})
    catalog.write("a.json", {"messagegroups": {"g": group(messages)}})
    catalog.ingest()
    schema = open_relations(catalog.spark, catalog.settings, with_read(["flat_messages"]))
    found = {row.dataschemauri: row.schema_xid for row in catalog.spark.table(f"{schema}.flat_messages").collect()}
    expected = {uri: places[-1].schema if (places := schema_places(uri)) else None for uri in URIS}
    assert {uri: found.get(uri) for uri in URIS} == expected
