"""Dry runs: they report what an ingest would do, and write nothing, whatever state the warehouse is in."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest
from histories import shop
from soak.sessions import forget

from lakehouse.domain.ownership import Policy
from lakehouse.errors import CandidateRefused, WarehouseError, WarehouseTooNew
from lakehouse.failpoints import CrashRequested
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.store.deltatables import attach_tables
from lakehouse.store.keys import VERSION_PROPERTY

DRY = IngestRequest(dry_run=True)
CRASH = "LAKEHOUSE_CRASH_AT"
AS_SHIPPED = {"check_relations": True, "refresh_effective": True}
EDITED = [("update", "version", "/messagegroups/g/messages/m/versions/1")]


def everything_in(folder):
    """Return all files with their contents, and all folders."""
    paths = sorted(Path(folder).rglob("*"))
    return [(str(path), hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "") for path in paths]


def reported(summary):
    """Return what a dry run and the ingest after it have in common."""
    found = summary.as_json()
    return {name: found[name] for name in ("documents", "dialects", "entities", "violations")}


def changes(summary):
    return [(change["op"], change["kind"], change["xid"]) for change in summary.changes]


def dry(catalog, **options):
    """Run dry, and see that nothing was written."""
    before = everything_in(catalog.settings.warehouse)
    summary = catalog.ingest(**{"request": DRY} | options)
    assert everything_in(catalog.settings.warehouse) == before
    assert (summary.snapshot_id, summary.as_json()["dry_run"]) == (None, True)
    return summary


def house_rule(catalog, query):
    """Ask something of the candidate for `versions`."""
    folder = catalog.documents.parent / "expectations"
    folder.mkdir(exist_ok=True)
    one = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": "SELECT * FROM {batch} WHERE wrong"}}
    one["meta"] = {"name": "house", "description": "Asked.", "severity": "error"}
    suite = {"name": "house", "expectations": [one], "meta": {"query": query, "table": "versions"}}
    (folder / "house.json").write_text(json.dumps(suite))
    return catalog.settings.model_copy(update={"expectations_dir": str(folder)})


@pytest.fixture
def crashed(catalog, monkeypatch):
    """A catalog whose first ingest died right after its commit: all tables lag behind."""
    catalog.write("a.json", shop("one", "m", "n"))
    monkeypatch.setenv(CRASH, "after_commit")
    with pytest.raises(CrashRequested):
        catalog.ingest()
    monkeypatch.delenv(CRASH)
    assert catalog.rows("SELECT count(*) FROM xregistry.messages") == [0]
    return catalog


def edit(catalog):
    edited = shop("one", "m", "n")
    edited["messagegroups"]["g"]["messages"]["m"]["name"] = "edited"
    catalog.write("a.json", edited)


@pytest.mark.slow
def test_where_there_is_no_catalog_all_is_new_and_no_folder_is_made(bare_catalog):
    bare_catalog.settings = bare_catalog.settings.model_copy(update=AS_SHIPPED)
    bare_catalog.write("a.json", shop("one", "m", "n"))
    bare_catalog.write("b.json", {"messagegroups": {"h": {"messages": {"bad": {"name": 5}, "x": {}}}}})
    summary = dry(bare_catalog, request=IngestRequest(dry_run=True, label="first"))
    assert not Path(bare_catalog.settings.warehouse).exists()
    assert [op for op, _, _ in changes(summary)] == ["insert"] * len(changes(summary))
    assert reported(summary) == reported(bare_catalog.ingest())


@pytest.mark.slow
def test_an_edit_is_reported_and_not_done(catalog):
    catalog.write("a.json", shop("one", "m", "n"))
    catalog.ingest()
    stage = Path(catalog.settings.warehouse) / "_stage" / "dead"
    stage.mkdir(parents=True)
    os.utime(stage, times=(0, 0))
    assert dry(catalog).changes == []
    edit(catalog)
    del (edited := json.loads((catalog.documents / "a.json").read_text()))["messagegroups"]["g"]["messages"]["n"]
    catalog.write("a.json", edited)
    gone = [
        ("delete", kind, f"/messagegroups/g/messages/n{rest}") for kind, rest in (("message", ""), ("version", "/versions/1"))
    ]
    grown = ("update", "group", "/messagegroups/g")  # its epoch counts what it holds
    assert changes(dry(catalog, request=IngestRequest(Policy(prune=True), dry_run=True))) == [grown, gone[0], *EDITED, gone[1]]
    assert catalog.rows("SELECT count(*) FROM xregistry.messages") == [3]


@pytest.mark.slow
def test_tables_that_lag_behind_since_a_crash_are_read_from_the_log(crashed):
    again = dry(crashed)
    assert (again.documents["unchanged"], again.changes) == (1, [])
    edit(crashed)
    summary = dry(crashed)
    assert changes(summary) == EDITED
    assert reported(summary) == reported(crashed.ingest())


@pytest.mark.slow
def test_tables_that_are_not_there_and_those_of_an_older_release_are_read_from_the_log(crashed):
    spark, folder = crashed.spark, Path(crashed.settings.warehouse)
    edit(crashed)
    # Given a process that died while it created the tables
    for name in ("versions", "messages", "violations", "effective_messages"):
        spark.sql(f"DROP TABLE xregistry.{name}")
        shutil.rmtree(folder / name, ignore_errors=True)
    assert changes(dry(crashed)) == EDITED
    # And a log without a column
    older = spark.table("xregistry.changes").drop("attributes").localCheckpoint()
    spark.sql("ALTER TABLE xregistry.changes SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    older.write.format("delta").mode("overwrite").option("overwriteSchema", "true").saveAsTable("xregistry.changes")
    spark.sql(f"ALTER TABLE xregistry.changes SET TBLPROPERTIES ('{VERSION_PROPERTY}' = '0')")
    assert "attributes" not in spark.table("xregistry.changes").columns
    assert changes(dry(crashed)) == EDITED
    # And tables of a newer release
    spark.sql(f"ALTER TABLE xregistry.changes SET TBLPROPERTIES ('{VERSION_PROPERTY}' = '9')")
    with pytest.raises(WarehouseTooNew):
        dry(crashed)


@pytest.mark.parametrize("wrong", ["false", "true"])
def test_house_rules_look_at_what_would_be_published(bare_catalog, wrong):
    bare_catalog.write("a.json", shop("one", "m"))
    query = f"SELECT v.*, {wrong} AS wrong FROM versions AS v LEFT JOIN schemas AS s ON s.registryid = v.registryid"
    settings = house_rule(bare_catalog, query)
    if wrong == "true":
        with pytest.raises(CandidateRefused):
            dry(bare_catalog, settings=settings)
    else:
        dry(bare_catalog, settings=settings)
    assert not Path(bare_catalog.settings.warehouse).exists()


def test_a_command_that_reads_makes_no_folder(bare_catalog):
    with pytest.raises(WarehouseError, match="holds no catalog"):
        attach_tables(bare_catalog.spark, bare_catalog.settings)
    assert not Path(bare_catalog.settings.warehouse).exists()


def test_spark_itself_makes_no_folder_of_the_warehouse(spark):
    place = spark.conf.get("spark.sql.warehouse.dir")
    assert place.startswith("file:")
    assert "lakehouse-" in place


@pytest.mark.slow
def test_a_large_catalog_without_effective_messages_is_reported_of(catalog):
    settings = catalog.settings.model_copy(update=AS_SHIPPED)
    catalog.write("shop.json", shop("one"))
    catalog.ingest(settings=settings)
    forget(catalog.spark, Path(settings.warehouse))
    shutil.rmtree(f"{settings.warehouse}/effective_messages")
    catalog.write("shop.json", shop("one") | {"name": "edited"})
    large = settings.model_copy(update={"interpreted_bytes": 0, "planner_bytes": 0})
    assert changes(dry(catalog, settings=large)) == [("update", "registry", "/")]
