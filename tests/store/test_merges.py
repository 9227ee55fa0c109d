"""Rows that are merged into a table of entities: a small table is rewritten, by one query, in a transaction."""

from __future__ import annotations

import pytest
from queries import executions

from lakehouse.store import merges
from lakehouse.store.deltatables import attach_tables, open_table
from lakehouse.store.materialize import on_driver
from lakehouse.store.merges import fill_table, merge_rows
from lakehouse.store.schema import GROUPS
from lakehouse.store.session import open_sibling, without_codegen
from lakehouse.store.tablelog import as_transaction, current_files, is_conflict, recorded_position, set_commit_metadata

KNOWN = {"epoch": "1", "content_hash": "repeat('0', 64)"}
OTHERS = [
    f"CAST({KNOWN.get(column.name, 'NULL')} AS {column.dataType.simpleString()}) AS {column.name}"
    for column in GROUPS.columns
    if column.name not in ("registryid", "xid", "snapshot_id")
]


@pytest.fixture
def merging(catalog):
    """Return a function that merges groups as a snapshot, with those that are gone; and one that reads the table."""
    attach_tables(catalog.spark, catalog.settings)

    def merge(snapshot_id, *groups, gone=(), transaction=True, **more):
        with without_codegen(catalog.spark, True):
            session = open_sibling(catalog.spark)
        set_commit_metadata(session, {"snapshot_id": snapshot_id, "job": "project"})
        as_transaction(session, "groups", snapshot_id if transaction else None)
        rows = [("r", f"/messagegroups/{name}", snapshot_id, name in gone) for name in (*groups, *gone)]
        found = on_driver(session.createDataFrame(rows, "registryid string, xid string, snapshot_id long, gone boolean"))
        whole = found.selectExpr("*", *OTHERS)
        before = executions(session)
        merge_rows(session, "groups", GROUPS.columns.names, whole, gone="gone", **more)
        return executions(session) - before

    return merge


def groups(catalog):
    return sorted(catalog.rows("SELECT split(xid, '/')[2], snapshot_id FROM xregistry.groups"))


def operations(catalog):
    return [row["operation"] for row in catalog.spark.sql("DESCRIBE HISTORY xregistry.groups").orderBy("version").collect()]


@pytest.mark.parametrize("small", [True, False])
def test_an_empty_table_is_filled_once(catalog, small):
    attach_tables(catalog.spark, catalog.settings)
    with without_codegen(catalog.spark, True):
        session = open_sibling(catalog.spark)
    session.conf.set("spark.sql.adaptive.enabled", str(not small).lower())  # as of large work
    set_commit_metadata(session, {"snapshot_id": 1, "job": "project"})
    for name in ("first", "second"):
        row = session.createDataFrame([("r", f"/messagegroups/{name}", 1)], "registryid string, xid string, snapshot_id long")
        fill_table(session, "groups", row.selectExpr("*", *OTHERS).select(*GROUPS.columns.names))
    assert groups(catalog) == [("first", 1)]
    assert recorded_position(catalog.spark, "groups") == 1
    written = catalog.spark.sql("DESCRIBE HISTORY xregistry.groups").filter("version = 1").collect()[0]
    assert written["operationParameters"]["mode"] == ("Overwrite" if small else "Append")


def test_a_small_table_is_written_anew_by_one_query(catalog, merging):
    merging(1, "a", "b", "c")
    assert groups(catalog) == [("a", 1), ("b", 1), ("c", 1)]
    assert merging(2, "b", "d", gone=["c"]) <= 3
    assert groups(catalog) == [("a", 1), ("b", 2), ("d", 2)]
    assert merging(3, gone=["a", "b", "d"]) <= 3
    assert groups(catalog) == []
    merging(4, "e")
    assert groups(catalog) == [("e", 4)]
    assert operations(catalog) == ["CREATE TABLE", "WRITE", "WRITE", "WRITE", "WRITE"]
    assert recorded_position(catalog.spark, "groups") == 4


@pytest.mark.slow
def test_both_ways_give_the_same(catalog, merging):
    for snapshot_id, transaction in enumerate((True, False, True, False), 1):
        merging(snapshot_id, "same", f"new{snapshot_id}", gone=[f"new{snapshot_id - 1}"], transaction=transaction)
        assert groups(catalog) == [(f"new{snapshot_id}", snapshot_id), ("same", snapshot_id)]
    assert operations(catalog) == ["CREATE TABLE", "WRITE", "MERGE", "WRITE", "MERGE"]


def test_rows_that_are_all_stored_change_what_there_is_and_add_nothing(catalog, merging):
    merging(1, "a", "b", "c")
    merging(3, "c")
    merging(2, "a", "c", "deleted.since", gone=["b"], transaction=False, all_stored=True)
    assert groups(catalog) == [("a", 2), ("c", 3)]
    assert operations(catalog)[-1] == "MERGE"


@pytest.mark.parametrize("late", [1, 2])
def test_a_transaction_that_the_table_knows_is_left_out(catalog, merging, late):
    merging(2, "a")
    merging(late, "late", gone=["a"])
    assert groups(catalog) == [("a", 2)]


def test_of_two_that_meet_the_second_is_refused(catalog, merging, monkeypatch):
    merging(1, "a")
    genuine = merges._replaced

    def overtaken(*args):
        monkeypatch.setattr(merges, "_replaced", genuine)
        merging(2, "theirs")
        return genuine(*args)

    monkeypatch.setattr(merges, "_replaced", overtaken)
    with pytest.raises(Exception) as refused:  # noqa: PT011 what Delta says, of whatever class
        merging(3, "ours", gone=["a"])
    assert is_conflict(refused.value)
    assert groups(catalog) == [("a", 1), ("theirs", 2)]


@pytest.mark.slow
def test_what_optimize_does_meanwhile_is_a_conflict_too(catalog, merging, monkeypatch):
    merging(1, "a", transaction=False)
    merging(2, "b", transaction=False)
    genuine = merges._replaced

    def overtaken(*args):
        catalog.spark.sql("OPTIMIZE xregistry.groups")
        return genuine(*args)

    monkeypatch.setattr(merges, "_replaced", overtaken)
    with pytest.raises(Exception) as refused:  # noqa: PT011
        merging(3, "c")
    assert is_conflict(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "SET TBLPROPERTIES (delta.enableChangeDataFeed = true)",
        "ADD COLUMNS (owner STRING)",
        "SET TBLPROPERTIES (delta.enableDeletionVectors = true)",
    ],
)
def test_a_table_that_somebody_set_up_otherwise_is_merged_into(catalog, merging, statement):
    merging(1, "a")
    catalog.spark.sql(f"ALTER TABLE xregistry.groups {statement}")
    merging(2, "b")
    assert groups(catalog) == [("a", 1), ("b", 2)]
    assert operations(catalog)[-1] == "MERGE"


@pytest.mark.slow
def test_files_of_a_small_table_are_read_as_the_table_is(catalog, merging):
    spark = catalog.spark
    with without_codegen(spark, True):
        assert open_table(spark, "groups").collect() == []
        merging(1, "a", "b", transaction=False)
        merging(2, "c", transaction=False)
        assert len(current_files(spark, "groups").locations) >= 2
        read = open_table(spark, "groups")
        before = executions(spark)
        rows = read.collect()
        assert executions(spark) - before == 1
        assert sorted(rows) == sorted(spark.table("xregistry.groups").collect())
        spark.sql("ALTER TABLE xregistry.groups SET TBLPROPERTIES (delta.enableDeletionVectors = true)")
        spark.sql("DELETE FROM xregistry.groups WHERE xid = '/messagegroups/a'")
        assert current_files(spark, "groups") is None  # the files hold the row still
        assert sorted(row["xid"] for row in open_table(spark, "groups").collect()) == ["/messagegroups/b", "/messagegroups/c"]


def test_what_a_constraint_forbids_is_refused(catalog, merging):
    merging(1, "a")
    catalog.spark.sql("ALTER TABLE xregistry.groups ADD CONSTRAINT no_b CHECK (xid NOT LIKE '%/b')")
    with pytest.raises(Exception, match="no_b"):
        merging(2, "b")
    assert groups(catalog) == [("a", 1)]
