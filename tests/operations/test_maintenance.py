"""Maintenance: fewer files, the same rows; what the retention reaches stays; ingests go on meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Thread
from unittest.mock import MagicMock

import pytest
from histories import contents, shop

from lakehouse.log import projections
from lakehouse.log.snapshotfacts import Head
from lakehouse.log.snapshots import open_snapshot
from lakehouse.operations import maintenance
from lakehouse.operations.doctor import diagnose
from lakehouse.operations.maintenance import maintain
from lakehouse.settings import read_settings
from lakehouse.store.deltatables import attach_tables
from lakehouse.store.tablelog import CONFLICTS, is_conflict


def by_table(maintained):
    return {one.table: one for one in maintained.tables}


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_dry_run_does_not_try_whether_the_store_keeps_writers_apart(monkeypatch, tmp_path, dry_run):
    tried = []
    monkeypatch.setattr(maintenance, "check_writers", lambda *_: tried.append(True))  # on S3 it writes a file and deletes it
    for name in ("attach_tables", "print_to_errors"):
        monkeypatch.setattr(maintenance, name, lambda *_: None)
    monkeypatch.setattr(maintenance, "dead_stages", lambda *_: [])
    maintain(MagicMock(), read_settings(warehouse=str(tmp_path)), dry_run=dry_run, names=())
    assert bool(tried) is not dry_run


@pytest.mark.slow
def test_a_dry_run_reports_and_does_nothing(history):
    stage = Path(history.settings.warehouse) / "_stage" / "dead"
    stage.mkdir(parents=True)
    os.utime(stage, times=(time.time() - 3 * 86400,) * 2)
    before = {path: path.is_file() and path.read_bytes() for path in Path(history.settings.warehouse).rglob("*")}
    reported = maintain(history.spark, history.settings, dry_run=True, names=("changes", "versions"))
    assert {path: path.is_file() and path.read_bytes() for path in Path(history.settings.warehouse).rglob("*")} == before
    assert reported.dry_run
    assert [one.rsplit("/", 1)[-1] for one in reported.stages] == ["dead"]
    assert stage.is_dir()
    stage.rmdir()
    changes = by_table(reported)["changes"]
    assert changes.before == changes.after
    assert (changes.before.files, changes.compacted, changes.removed, changes.retention) == (3, 3, 0, "30 days")


@pytest.mark.slow
def test_files_become_fewer_and_the_rows_stay(history, loaded_history):
    spark = history.spark
    attach_tables(spark, history.settings)
    # Given one table without time travel
    spark.sql("ALTER TABLE versions SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 seconds')")
    # When
    done = by_table(maintain(spark, history.settings, names=("changes", "versions", "messages")))
    # Then
    assert (done["changes"].before.files, done["changes"].after.files) == (3, 1)
    assert done["changes"].after.files_on_disk == 4  # those of before are within the retention
    assert done["versions"].removed > 0
    assert done["versions"].after.files_on_disk == done["versions"].after.files == 1
    assert contents(history, "xregistry") == loaded_history[1][3]
    assert contents(history, open_snapshot(spark, history.settings, 1)) == loaded_history[1][1]
    detail = spark.sql("DESCRIBE DETAIL versions").collect()[0]
    assert (detail["minReaderVersion"], detail["clusteringColumns"]) == (1, ["registryid", "xid"])
    # And the table still says which snapshot it is of, so nobody projects it again
    head = Head(3, tables={"versions": 3, "messages": 3})
    assert projections.roll_forward(spark, head, settings=history.settings) == []


@pytest.mark.slow
def test_files_without_statistics_get_them(catalog):
    spark = catalog.spark
    attach_tables(spark, catalog.settings)
    spark.conf.set("spark.databricks.delta.stats.collect", "false")
    try:
        spark.sql(
            "INSERT INTO messages (registryid, xid, epoch, content_hash, snapshot_id) "
            "VALUES ('r', '/messagegroups/g/messages/m', 1, repeat('0', 64), 1)"
        )
    finally:
        spark.conf.unset("spark.databricks.delta.stats.collect")
    measured = []
    for dry_run in (True, False, True):
        reported = maintain(spark, catalog.settings, dry_run=dry_run, names=("messages",))
        measured.append(by_table(reported)["messages"].measured)
    assert measured == [1, 1, 0]


@pytest.mark.parametrize("conflict", CONFLICTS)
def test_a_projection_that_lost_looks_again_where_the_table_stands(conflict, monkeypatch):
    asked = []

    def bring(session, is_new, position):
        asked.append((is_new, position))
        if len(asked) == 1:
            raise conflict("another commit was quicker")

    monkeypatch.setattr(projections, "_open_projecting", lambda spark, head: None)
    monkeypatch.setattr(projections, "as_transaction", lambda session, name, snapshot_id: None)
    monkeypatch.setattr(projections, "last_transaction", lambda session, name: 0)
    monkeypatch.setattr(projections, "_position", lambda session, name, needed: (False, 7))
    assert projections._bring_forward(None, "versions", 8, Head(8), Head(6), True, bring) == "versions"
    assert asked == [(True, 6), (False, 7)]
    assert is_conflict(conflict("another commit was quicker"))
    assert not is_conflict(ValueError("io.delta.exceptions.ConcurrentAppendException"))


@pytest.mark.slow
def test_ingests_and_maintenance_at_once(history):
    failures = []
    attach_tables(history.spark, history.settings)

    def keep_up():
        try:
            for _ in range(6):
                maintain(history.spark, history.settings, full=True, names=("changes", "messages", "versions", "violations"))
        except Exception as error:  # reported below: a thread's error is nobody's
            failures.append(error)

    thread = Thread(target=keep_up)
    thread.start()
    for number in range(8):
        history.write("a.json", shop(f"release {number}", "m", "n", f"o{number}"))
        assert history.ingest().snapshot_id == 4 + number
    thread.join()
    assert failures == []
    assert [one for one in diagnose(history.spark, history.settings, deep=True) if one.state != "ok"] == []
