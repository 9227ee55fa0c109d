"""Without internals of Spark and Delta the product does the same by their public API: LAKEHOUSE_SPARK_INTERNALS=off."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import histories
import pytest
from conftest import Catalog
from pyspark.sql import functions as F
from soak.sessions import forget

from lakehouse.errors import SettingsError, SourceNotFound, TargetError
from lakehouse.export.run import ExportRequest, export
from lakehouse.export.target import Target
from lakehouse.ingest.sources import find_sources
from lakehouse.operations.doctor import diagnose
from lakehouse.operations.maintenance import maintain
from lakehouse.query.sql import Allowed, run_query
from lakehouse.store.deltatables import attach_tables
from lakehouse.store.files import folder_size, list_folder, move_folder, read_text, write_text
from lakehouse.store.internals.deltalog import last_transaction as last_transaction_of_table
from lakehouse.store.internals.deltalog import live_files, table_bytes
from lakehouse.store.internals.hadoop import ArrowFileSystem, filesystem_of
from lakehouse.store.internals.jvm import VARIABLE, uses_internals
from lakehouse.store.internals.plans import empty_files, large_files, view_made_by
from lakehouse.store.materialize import count, hand_over, is_empty, is_known_empty, is_local, materialize
from lakehouse.store.session import without_codegen
from lakehouse.store.tablelog import last_transaction, table_property

_OF_A_RUN = re.compile(r"datetime\.datetime\([^)]*\)|(?:ingest|violation)_id='[^']*'|\d{4}-\d\d-\d\dT[\d:.]+Z|file:/[^'\"]*/")


@pytest.fixture
def off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "off")


def exported(catalog: Catalog, name: str, at: str | None = None) -> str:
    out = catalog.documents.parent / name
    export(catalog.spark, catalog.settings, ExportRequest(str(out), at=at))
    return _OF_A_RUN.sub("", out.read_text())


def seen(catalog: Catalog) -> dict[str, Any]:
    """Return what readers see of three releases: rows now and of the first one, documents, and what is in order."""
    query = "SELECT xid, epoch, modifiedat > createdat AS later FROM messages ORDER BY xid"
    attach_tables(catalog.spark, catalog.settings)
    rows = histories.contents(catalog, "xregistry")
    return {
        "first": list(run_query(catalog.spark, catalog.settings, query, "first").text_rows()),
        "now": {name: sorted(_OF_A_RUN.sub("", row) for row in rows[name]) for name in rows},
        "document": exported(catalog, "now.json"),
        "document of the first": exported(catalog, "first.json", "first"),
        "transactions": [last_transaction(catalog.spark, name) for name in ("messages", "versions", "schemas")],
        "retention": table_property(catalog.spark, "changes", "delta.logRetentionDuration"),
        "in order": [(one.check, one.table, one.state) for one in diagnose(catalog.spark, catalog.settings)],
    }


@pytest.mark.slow
@pytest.mark.parametrize("planner", ["auto", "spark"])
def test_ingests_reads_and_exports_are_the_same(history, tmp_path, monkeypatch, planner):
    expected = seen(history)
    forget(history.spark, Path(history.settings.warehouse))
    monkeypatch.setenv(VARIABLE, "off")
    (tmp_path / "off").mkdir()
    catalog = Catalog(history.spark, tmp_path / "off")
    catalog.settings = catalog.settings.model_copy(update={"planner": planner})
    histories.load(catalog)
    assert catalog.ingest().snapshot_id is None  # nothing changed
    assert seen(catalog) == expected
    assert [one["removed"] for one in maintain(catalog.spark, catalog.settings, dry_run=True).as_json()["tables"]] == [0] * 10
    forget(catalog.spark, Path(catalog.settings.warehouse))


def test_rows_are_kept_and_handed_over(spark, off):
    with without_codegen(spark, True):
        kept = materialize(spark.createDataFrame([(1, "a"), (2, "b")], "n int, told string").filter("n > 1"))
        assert (is_local(kept), is_empty(kept), count(kept), is_known_empty(kept.filter("n > 5"))) == (False, False, 1, False)
        other = hand_over(kept, spark.newSession())
        other.createOrReplaceTempView("theirs")
        assert [tuple(row) for row in other.sparkSession.sql("SELECT * FROM theirs").collect()] == [(2, "b")]
    # Not `catalog.listTables`: it decodes the session's own views as well, and other tests leave some whose files are gone.
    assert spark.sql("SHOW TABLES IN global_temp").filter("namespace = 'global_temp'").collect() == []


@pytest.mark.parametrize("value", ["on", "off"])
def test_files_are_listed_read_written_and_moved(request, tmp_path, monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)
    spark = request.getfixturevalue("spark") if value == "on" else None
    assert isinstance(filesystem_of(spark, str(tmp_path)), ArrowFileSystem) == (value == "off")
    folder = f"file:{tmp_path}/a b/c"
    assert (list_folder(spark, folder), folder_size(spark, folder)) == ([], (0, 0))
    write_text(spark, f"{folder}/d/ü.json", "two", checksums=False)
    write_text(spark, f"{folder}/one.json", "one", checksums=False)
    assert sorted((path, size) for path, size, _ in list_folder(spark, folder) if path.endswith("n")) == [
        (f"{folder}/one.json", 3)
    ]
    assert folder_size(spark, folder) == (2, 6)
    assert all(abs(time.time() - modified) < 3600 for _, _, modified in list_folder(spark, folder))
    files = filesystem_of(spark, folder)
    assert [files.qualified(one) for one in (f"{tmp_path}/a b/", f"file://{tmp_path}/a b")] == [f"file:{tmp_path}/a b"] * 2
    globbed = files.matches(f"{tmp_path}/a b/*/*.json", f"file:{tmp_path}/a b", rf"file:{tmp_path}/a\ b/[^/]*/[^/]*\.json")
    assert globbed == [files.entry(f"{folder}/one.json")]
    assert files.read(f"{folder}/d/ü.json", 1) == b"wo"
    move_folder(spark, folder, f"{tmp_path}/e/f")
    assert read_text(spark, f"{tmp_path}/e/f/d/ü.json") == "two"
    files.remove(f"{tmp_path}/e")
    files.remove(f"{tmp_path}/e")
    assert (files.exists(f"{tmp_path}/e"), files.entry(f"{tmp_path}/e"), files.is_local) == (False, None, True)


def test_an_export_is_published_whole_and_sources_are_found(tmp_path, off):
    for number in range(2):
        with Target(None, str(tmp_path / "out" / "a.json"), is_folder=False) as target:
            Path(target.scratch.removeprefix("file:"), "part-1").write_bytes(b"abcdef")
            with target.file("a.json") as file:
                file.write(b"%d" % number)
                file.copy("part-1", 2, 3)
            assert target.parts() == ["part-1"]
            target.publish()
        assert [path.read_bytes() for path in (tmp_path / "out").iterdir()] == [b"%dcde" % number]
    with pytest.raises(TargetError, match="the root of a filesystem"):
        Target(None, "/", is_folder=False)
    (tmp_path / "out" / "b[1].json").write_text("{}")
    for source in (f"{tmp_path}/o*/?.json", f"{tmp_path}/out/{{a,c}}.json", f"{tmp_path}/out/a.json"):
        assert find_sources(None, [source]).files == [f"file:{tmp_path}/out/a.json"]
    assert find_sources(None, [f"{tmp_path}/out"]).folders == [f"file:{tmp_path}/out"]
    with pytest.raises(SourceNotFound):
        find_sources(None, [f"{tmp_path}/none"])


@pytest.mark.parametrize("value", ["on", "off"])
def test_files_that_spark_lists_are_known_by_their_size(spark, tmp_path, monkeypatch, value):
    monkeypatch.setenv(VARIABLE, value)
    for name, size in {"a b%20+ü.json": 0, "one.json": 10, "two.json": 2000}.items():
        (tmp_path / name).write_bytes(b"x" * size)
    listed = spark.read.format("binaryFile").load(str(tmp_path))
    assert empty_files(listed) == [f"file:{tmp_path}/a b%20+ü.json"]
    assert large_files(listed.select("path").filter("path IS NOT NULL"), 1000) == [f"file:{tmp_path}/two.json"]


@pytest.mark.slow
def test_files_of_a_table_come_out_of_its_log(spark, tmp_path, monkeypatch):
    location = str(tmp_path / "t")
    for number in range(12):  # a checkpoint comes with the tenth
        written = spark.range(number + 1).coalesce(1).write.format("delta")
        written.mode("overwrite" if number in (3, 11) else "append").options(txnAppId="app", txnVersion=number).save(location)

    def found():
        rows = live_files(spark, location).select("path", "size", F.col("stats").isNotNull(), "clusteringProvider").collect()
        return sorted(map(tuple, rows)), last_transaction_of_table(spark, location, "app"), table_bytes(spark, location)

    expected = found()
    assert (len(expected[0]), expected[1]) == (1, 11)
    monkeypatch.setenv(VARIABLE, "off")
    assert found() == expected


def test_views_are_known_by_what_made_them(spark, monkeypatch):
    spark.sql("CREATE OR REPLACE VIEW default.seen TBLPROPERTIES ('made.by' = 'x') AS SELECT 1 AS n,\n  2 AS m")
    expected = ("x", "SELECT 1 AS n,\n  2 AS m")
    for value in ("on", "off"):
        monkeypatch.setenv(VARIABLE, value)
        assert view_made_by(spark, "default", "seen", "made.by") == expected
        assert view_made_by(spark, "default", "unseen", "made.by") is None
    spark.sql("DROP VIEW default.seen")


def test_statements_are_refused_that_nothing_could_check(past, off):
    with pytest.raises(SettingsError, match="needs internals of Spark, which LAKEHOUSE_SPARK_INTERNALS=off turns off"):
        run_query(past.spark, past.settings, "SELECT 1", allowed=Allowed.READ)


def test_the_switch_is_on_or_off(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert uses_internals()
    monkeypatch.setenv(VARIABLE, "no")
    with pytest.raises(SettingsError, match="'no' is neither on nor off"):
        uses_internals()
