"""The warehouses of earlier releases: read, brought forward, and gone on with."""

from __future__ import annotations

import json
import tarfile

import pytest
from deltas import DATA_ONLY
from golden import FOLDER

from lakehouse.log.snapshots import open_snapshot
from lakehouse.operations.doctor import diagnose
from lakehouse.store.deltatables import SCHEMA_VERSION, create_tables

pytestmark = pytest.mark.slow

ARCHIVES = sorted(FOLDER.glob("warehouse-*.tar.gz"))


def test_this_release_has_a_golden_warehouse():
    assert f"warehouse-{SCHEMA_VERSION}.tar.gz" in [archive.name for archive in ARCHIVES], "run `python tests/golden.py`"


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name)
def test_a_warehouse_of_an_earlier_release_works(bare_catalog, archive):
    with tarfile.open(archive) as packed:
        packed.extractall(bare_catalog.documents.parent, **DATA_ONLY)
    create_tables(bare_catalog.spark, bare_catalog.settings)
    assert [one.found for one in diagnose(bare_catalog.spark, bare_catalog.settings, deep=True) if one.state != "ok"] == []
    rows = json.loads(archive.with_name(archive.name.replace(".tar.gz", ".json")).read_text())
    for snapshot_id, counts in rows.items():
        schema = open_snapshot(bare_catalog.spark, bare_catalog.settings, int(snapshot_id))
        assert {name: bare_catalog.rows(f"SELECT count(*) FROM {schema}.{name}")[0] for name in counts} == counts
    bare_catalog.write("b.json", {"messagegroups": {"later": {"messages": {"m": {}}}}})
    assert bare_catalog.ingest().snapshot_id == len(rows) + 1
