"""Where a `dataschemauri` leads: the views say what the one reader of references says."""

from __future__ import annotations

import json

import pytest
from builders import group

from lakehouse.domain.effective import columns_of, payload_reference
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


SCHEMA = "/schemagroups/g/schemas/t"
XIDS = (SCHEMA, f"{SCHEMA}/versions/1")


@pytest.mark.parametrize(
    ("attributes", "reference"),
    [
        ({"dataschemaxid": SCHEMA}, SCHEMA),
        ({"dataschemaxid": f"{SCHEMA}/versions/1"}, f"{SCHEMA}/versions/1"),
        ({"dataschemauri": f"#{SCHEMA}/versions/1:Type", "dataschemaxid": SCHEMA}, f"#{SCHEMA}/versions/1:Type"),
        ({"dataschemauri": f"https://example.com{SCHEMA}/versions/1", "dataschemaxid": f"{SCHEMA}/versions/1"},
         f"{SCHEMA}/versions/1"),
    ],
)  # fmt: skip
def test_the_column_has_the_schema_and_its_readers_the_version_that_a_message_names(attributes, reference):
    columns = columns_of({f"/{name}": json.dumps(value) for name, value in attributes.items()})
    assert columns["schema_xid"] == SCHEMA
    assert payload_reference(columns) == reference


def test_the_schema_that_a_view_names(catalog):
    messages = {f"m{i}": {"dataschemaformat": "Avro/1.9", "dataschemauri": uri} for i, uri in enumerate(URIS)}
    messages |= {f"xid{i}": {"dataschemaformat": "Avro/1.9", "dataschemaxid": xid} for i, xid in enumerate(XIDS)}
    catalog.settings = catalog.settings.model_copy(update={"check_relations": False, "refresh_effective": True})
    catalog.write("a.json", {"messagegroups": {"g": group(messages)}})
    catalog.ingest()
    schema = open_relations(catalog.spark, catalog.settings, with_read(["flat_messages"]))
    rows = catalog.spark.table(f"{schema}.flat_messages").collect()
    assert {row.schema_xid for row in rows if row.dataschemauri is None} == {SCHEMA}
    found = {row.dataschemauri: row.schema_xid for row in rows if row.dataschemauri is not None}
    expected = {uri: places[-1].schema if (places := schema_places(uri)) else None for uri in URIS}
    assert {uri: found.get(uri) for uri in URIS} == expected
