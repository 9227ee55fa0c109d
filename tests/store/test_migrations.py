"""Migrations: forward, one version after the other, safe to run twice and to die in."""

from __future__ import annotations

import pytest

from lakehouse.errors import WarehouseError, WarehouseTooNew
from lakehouse.failpoints import CrashRequested
from lakehouse.settings import data_folder
from lakehouse.store.deltatables import (
    SCHEMA_VERSION,
    TABLES,
    Migration,
    attach_tables,
    create_tables,
    migrate,
    migrations,
    stored_version,
)

STEPS = [
    Migration(
        SCHEMA_VERSION + 1,
        "note",
        ("ALTER TABLE groups ADD COLUMNS (note STRING COMMENT 'A note')", "COMMENT ON TABLE groups IS 'Groups, with notes'"),
    ),
    Migration(SCHEMA_VERSION + 2, "more", ("ALTER TABLE groups ADD COLUMNS (more STRING COMMENT 'More')",)),
]
NEWEST = SCHEMA_VERSION + 2


def test_a_process_that_died_in_a_migration_is_taken_the_rest_of_the_way(catalog, monkeypatch):
    create_tables(catalog.spark, catalog.settings)
    monkeypatch.setenv("LAKEHOUSE_CRASH_AT", f"in_migration_{SCHEMA_VERSION + 1}")
    with pytest.raises(CrashRequested):
        migrate(catalog.spark, NEWEST, TABLES, STEPS)
    monkeypatch.delenv("LAKEHOUSE_CRASH_AT")
    assert stored_version(catalog.spark) == SCHEMA_VERSION
    assert migrate(catalog.spark, NEWEST, TABLES, STEPS) == [f"{NEWEST - 1:04}_note", f"{NEWEST:04}_more"]
    assert (migrate(catalog.spark, NEWEST, TABLES, STEPS), stored_version(catalog.spark)) == ([], NEWEST)
    assert {"note", "more"} <= set(catalog.spark.table("groups").columns)
    assert catalog.rows("SELECT count(*) FROM groups") == [0]
    with pytest.raises(WarehouseTooNew, match="Install a newer release"):
        attach_tables(catalog.spark, catalog.settings)


def test_a_reader_of_an_older_warehouse_is_reported_what_brings_it_forward(catalog):
    create_tables(catalog.spark, catalog.settings)
    catalog.spark.sql("ALTER TABLE changes SET TBLPROPERTIES ('xregistry.schema_version' = '0')")
    with pytest.raises(WarehouseError, match="lakehouse migrate"):
        attach_tables(catalog.spark, catalog.settings)
    create_tables(catalog.spark, catalog.settings)
    attach_tables(catalog.spark, catalog.settings)


def test_files_are_read_in_order_without_comments(tmp_path):
    (tmp_path / "0003_b.sql").write_text("-- why; not a statement\nALTER TABLE a\n  SET x;\nALTER TABLE b SET y;\n")
    (tmp_path / "0002_a.sql").write_text("SELECT ';' AS x;\n")
    (tmp_path / "README.md").write_text("no migration")
    assert migrations(tmp_path) == [
        Migration(2, "a", ("SELECT ';' AS x",)),
        Migration(3, "b", ("ALTER TABLE a\n  SET x", "ALTER TABLE b SET y")),
    ]


def test_no_migration_leads_beyond_the_version_of_this_release():
    assert all(2 <= step.version <= SCHEMA_VERSION for step in migrations())
    declared = (data_folder("ddl") / "tables" / "changes.sql").read_text(encoding="utf-8")
    assert f"'xregistry.schema_version' = '{SCHEMA_VERSION}'" in declared
