"""Tables: what the DDL creates is what `schema` declares, and other Delta readers can read it."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import duckdb
import pytest
from delta.exceptions import ProtocolChangedException
from pyspark.errors import AnalysisException
from queries import executions
from soak.sessions import forget_attached

from lakehouse.errors import WarehouseError
from lakehouse.query.sql import run_query
from lakehouse.settings import data_folder, read_settings
from lakehouse.store import deltatables
from lakehouse.store.deltatables import SCHEMA_VERSION, TABLES, create_tables, tables_named_in
from lakehouse.store.internals.jvm import VARIABLE
from lakehouse.store.schema import DECLARATIONS
from lakehouse.store.tablelog import retries


def test_there_is_a_ddl_file_for_each_table():
    names = sorted(Path(str(file)).stem for file in (data_folder("ddl") / "tables").iterdir())
    assert names == sorted(DECLARATIONS)


def test_spark_creates_the_columns_types_and_comments_that_are_declared(bare_catalog):
    create_tables(bare_catalog.spark, bare_catalog.settings)
    for name, declared in DECLARATIONS.items():
        created = bare_catalog.spark.table(name).schema
        assert [(c.name, c.dataType.simpleString(), c.metadata["comment"]) for c in created] == [
            (c.name, c.dataType.simpleString(), c.metadata["comment"]) for c in declared.columns
        ], name


@pytest.mark.slow
def test_tables_have_a_comment_and_retention_and_need_no_new_reader(catalog):
    create_tables(catalog.spark, catalog.settings)
    for name in TABLES:
        detail = catalog.spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]
        assert detail["description"]
        assert detail["minReaderVersion"] == 1
        assert detail["properties"]["delta.deletedFileRetentionDuration"] == "interval 30 days"
        assert detail["properties"]["xregistry.schema_version"] == str(SCHEMA_VERSION)


@pytest.mark.parametrize(
    ("table", "values"),
    [
        ("changes", {"snapshot_id": "0", "registryid": "'r'", "kind": "'message'", "xid": "'/x'", "op": "'insert'"}),
        ("changes", {"snapshot_id": "1", "registryid": "'r'", "kind": "'thing'", "xid": "'/x'", "op": "'insert'"}),
        ("changes", {"snapshot_id": "1", "registryid": "'r'", "kind": "'message'", "xid": "'/x'", "op": "'upsert'"}),
        ("violations", {"violation_id": "'v'", "severity": "'fatal'", "action": "'kept'"}),
        ("groups", {"registryid": "'r'", "xid": "'/endpoints/e'"}),
        ("messages", {"registryid": "''", "xid": "'/messagegroups/g/messages/m'"}),
    ],
)
def test_check_constraints_refuse_rows_that_cannot_be(catalog, table, values):
    create_tables(catalog.spark, catalog.settings)
    with pytest.raises(Exception, match="CHECK constraint"):
        catalog.spark.sql(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({', '.join(values.values())})").collect()


@pytest.mark.slow
def test_other_delta_readers_read_the_tables(catalog):
    catalog.write("a.json", {"messagegroups": {"g": {"messages": {"m": {"labels": {"a": "b"}}}}}})
    catalog.ingest()
    versions = deltalake.DeltaTable(f"{catalog.settings.warehouse}/versions").to_pyarrow_dataset()
    assert versions.to_table(columns=["labels", "attributes"]).to_pylist() == [
        {"labels": [("a", "b")], "attributes": [("/labels/a", '"b"')]}
    ]
    assert duckdb.sql("SELECT versionid, isdefault FROM versions").fetchall() == [("1", True)]


@pytest.mark.slow
def test_a_table_is_made_without_a_look_at_its_state(bare_catalog):
    spark = bare_catalog.spark
    spark.sql("SELECT 1").collect()
    before = executions(spark)
    create_tables(spark, bare_catalog.settings)
    # Delta takes two for a table; for one that is clustered, reported to a metastore, two more.
    assert executions(spark) - before <= 2 * len(TABLES) + 3


def test_a_warehouse_without_a_catalog_says_so(bare_catalog):
    with pytest.raises(WarehouseError, match="holds no catalog"):
        run_query(bare_catalog.spark, bare_catalog.settings, "SELECT * FROM messages")


def test_a_warehouse_of_a_newer_product_is_refused(catalog):
    create_tables(catalog.spark, catalog.settings)
    catalog.spark.sql(f"ALTER TABLE changes SET TBLPROPERTIES ('xregistry.schema_version' = '{SCHEMA_VERSION + 1}')")
    with pytest.raises(WarehouseError, match="newer"):
        create_tables(catalog.spark, catalog.settings)


def test_one_session_works_on_one_warehouse(catalog, tmp_path):
    create_tables(catalog.spark, catalog.settings)
    with pytest.raises(WarehouseError, match="one session per warehouse"):
        create_tables(catalog.spark, read_settings(warehouse=str(tmp_path / "another")))


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM Messages m JOIN xregistry.versions v ON true", ["messages", "versions"]),
        ("SELECT 1", []),
        ("SHOW TABLES", list(TABLES)),
        ("DESCRIBE groups", ["groups"]),
    ],
)
def test_a_query_attaches_the_tables_that_it_names(query, tables):
    assert sorted(tables_named_in(query)) == sorted(tables)


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("[DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION] Cannot create table"),
        ProtocolChangedException("the other one was quicker"),
    ],
    ids=["half", "whole"],
)
def test_a_table_that_another_process_is_creating_is_waited_for(monkeypatch, error):
    there = iter([False, True])
    monkeypatch.setattr(deltatables, "_attach", lambda spark, name: next(there))

    def create(spark, name):
        raise error

    monkeypatch.setattr(deltatables, "_create", create)
    deltatables._attach_or_create(None, "changes")
    assert list(there) == []


def test_tables_are_attached_by_a_query_each(catalog):
    spark = catalog.spark
    before = executions(spark)
    deltatables.attach_tables(spark, catalog.settings)
    assert executions(spark) - before <= len(TABLES) + 1  # and the schema
    assert spark.table("xregistry.messages").columns == DECLARATIONS["messages"].columns.names


@pytest.mark.slow
@pytest.mark.parametrize("reported", [True, False])
def test_clients_that_ask_the_catalog_for_columns_are_reported_them(catalog, reported):
    catalog.spark.conf.set(deltatables.TELL_CATALOG, str(reported).lower())
    try:
        deltatables.attach_tables(catalog.spark, catalog.settings)
    finally:
        catalog.spark.conf.unset(deltatables.TELL_CATALOG)
    known = catalog.spark._jsparkSession.sharedState().externalCatalog().getTable("xregistry", "messages").schema()
    assert list(known.fieldNames()) == (DECLARATIONS["messages"].columns.names if reported else [])


def test_the_first_commit_of_a_table_is_that_of_its_statement(bare_catalog, tmp_path, monkeypatch):
    spark = bare_catalog.spark
    create_tables(spark, bare_catalog.settings)
    written = {name: _first_version(Path(bare_catalog.settings.warehouse) / name) for name in TABLES}
    forget_attached(spark)
    monkeypatch.setenv(VARIABLE, "off")  # so that Delta's own statement is used
    create_tables(spark, read_settings(warehouse=str(tmp_path / "stated")))
    stated = {name: _first_version(tmp_path / "stated" / name) for name in TABLES}
    forget_attached(spark)
    assert written == stated


def _first_version(table: Path) -> tuple[dict, dict]:
    """Return what a first commit and its checksum say, without names, times and what only Delta's writer knows."""
    commit, checksum = (table / "_delta_log" / f"{0:020}.{suffix}" for suffix in ("json", "crc"))
    actions = {kind: action for line in commit.read_text().splitlines() for kind, action in json.loads(line).items()}
    of_version = json.loads(checksum.read_text())
    for metadata in (actions["metaData"], of_version["metadata"]):
        metadata |= {"schemaString": json.loads(metadata["schemaString"]), "id": "", "createdTime": 0}
    info = actions["commitInfo"]
    info["operationParameters"] |= {"properties": json.loads(info["operationParameters"]["properties"]), "isManaged": ""}
    details = info | {"timestamp": 0, "engineInfo": ""}
    details.pop("txnId", None)
    return actions | {"commitInfo": details}, {
        name: value for name, value in of_version.items() if name not in ("txnId", "fileSizeHistogram")
    }


def test_a_table_that_was_begun_and_not_committed_is_created(bare_catalog):
    (Path(bare_catalog.settings.warehouse) / "messages" / "_delta_log").mkdir(parents=True)
    create_tables(bare_catalog.spark, bare_catalog.settings)
    assert bare_catalog.spark.table("messages").count() == 0


def test_a_folder_with_files_becomes_no_table(bare_catalog, monkeypatch):
    folder = Path(bare_catalog.settings.warehouse) / "messages"
    folder.mkdir(parents=True)
    (folder / "theirs.txt").write_text("theirs")
    monkeypatch.setattr(deltatables, "retries", lambda attempts, again: retries(1, again))
    with pytest.raises(AnalysisException, match="is not empty and also not a Delta table"):
        create_tables(bare_catalog.spark, bare_catalog.settings)
    assert sorted(path.name for path in folder.iterdir()) == ["theirs.txt"]


def test_where_a_session_gives_new_tables_properties_delta_creates_them(bare_catalog, monkeypatch):
    spark, key = bare_catalog.spark, "spark.databricks.delta.properties.defaults.enableChangeDataFeed"
    monkeypatch.setattr(deltatables, "first_commit", lambda *_: pytest.fail("it would lack that property"))
    spark.conf.set(key, "true")
    try:
        create_tables(spark, bare_catalog.settings)
    finally:
        spark.conf.unset(key)
    assert spark.table("groups").count() == 0
