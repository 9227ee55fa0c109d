"""Projections that come late, and tables that somebody else commits to."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from histories import contents, shop
from pyspark.sql import functions as F

from lakehouse.log import projections
from lakehouse.log.commits import read_head, read_head_at
from lakehouse.log.projections import effective_version, find_lagging, rebuild_effective, rebuild_table, roll_forward
from lakehouse.log.snapshotfacts import Head
from lakehouse.operations.doctor import diagnose
from lakehouse.operations.maintenance import maintain
from lakehouse.store import tablelog
from lakehouse.store.deltatables import attach_tables
from lakehouse.store.merges import merge_rows
from lakehouse.store.schema import MESSAGES, VERSIONS
from lakehouse.store.session import open_sibling
from lakehouse.store.tablelog import metadata_of_commits, recorded_position

VERSION = "/messagegroups/g/messages/n/versions/1"
FOREIGN = ["by hand", "[1]", '"x"', '{"job": "project"}', '{"snapshot_id": "9", "job": "project"}', '{"snapshot_id": 9}', "{"]


def versions(catalog):
    return sorted(catalog.rows("SELECT xid, snapshot_id FROM xregistry.versions"))


def heads(catalog):
    """Return the heads that there were: each with what the snapshots up to it changed."""
    return [None, *(Head(number, tables={"versions": number, "messages": number}) for number in (1, 2, 3, 4))]


@pytest.fixture
def late(history, monkeypatch):
    """A history in which n was deleted by snapshot 3, and a process that read the log when it ended earlier."""
    attach_tables(history.spark, history.settings)
    genuine = projections.last_rows

    def read_up_to(snapshot_id):
        monkeypatch.setattr(projections, "last_rows", lambda rows: genuine(rows.filter(F.col("snapshot_id") <= snapshot_id)))

    return history, read_up_to


@pytest.mark.slow
def test_a_late_process_inserts_nothing_that_was_deleted_meanwhile(late):
    history, read_up_to = late
    before = versions(history)
    assert VERSION not in [xid for xid, _ in before]
    read_up_to(2)
    first, second = heads(history)[1:3]
    projections._roll_forward(history.spark, VERSIONS, second, first)
    assert versions(history) == before


@pytest.mark.slow
def test_a_late_process_deletes_nothing_that_came_back_meanwhile(late):
    history, read_up_to = late
    history.write("a.json", shop("four", "m", "n", "o"))
    history.ingest()
    before = versions(history)
    assert (VERSION, 4) in before
    read_up_to(3)
    second, third = heads(history)[2:4]
    projections._roll_forward(history.spark, VERSIONS, third, second)
    assert versions(history) == before
    # Nor where Delta knows nothing of the transaction.
    gone = history.spark.createDataFrame([("default", VERSION, 3)], "registryid string, xid string, snapshot_id bigint")
    rows = gone.join(history.spark.table("xregistry.versions").drop("snapshot_id"), on=["registryid", "xid"])
    merge_rows(open_sibling(history.spark), "versions", VERSIONS.columns.names, rows, gone="true")
    assert versions(history) == before


@pytest.mark.slow
def test_of_two_that_meet_one_looks_again(late, monkeypatch, tmp_path):
    """One reads the log, and while it works, another commits a deletion and projects it."""
    history, _ = late
    spark, genuine, before = history.spark, projections.last_rows, versions(history)
    begun, ended = tmp_path / "begun", tmp_path / "ended"

    def waiting(batches):
        begun.touch()
        while not ended.exists():
            time.sleep(0.1)
        yield from batches

    def read(rows):
        if not begun.exists():
            rows = rows.filter(F.col("snapshot_id") <= 2)
            return genuine(rows.coalesce(1).mapInArrow(waiting, rows.schema))
        return genuine(rows)

    # The table has the product's own transactions already.
    monkeypatch.setattr(tablelog, "_application", lambda name: f"tests.{name}")
    monkeypatch.setattr(projections, "last_rows", read)
    first, second, third = heads(history)[1:4]
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(projections._roll_forward, spark, VERSIONS, second, first)
        while not begun.exists() and not slow.done():
            time.sleep(0.1)
        quick = projections._roll_forward(spark, VERSIONS, third, second)
        ended.touch()
    assert (quick, slow.result()) == ("versions", None)  # refused by Delta, it looked again: nothing was left to do
    assert versions(history) == before


@pytest.mark.slow
def test_a_table_that_was_set_back_is_brought_forward_again(history):
    """Delta remembers the transactions of a table that was restored, and would leave them out."""
    spark = history.spark
    attach_tables(spark, history.settings)
    before = contents(history, "xregistry")
    spark.sql("RESTORE TABLE xregistry.versions TO VERSION AS OF 1")
    assert contents(history, "xregistry") != before
    assert roll_forward(spark, read_head(spark), settings=history.settings) == ["versions"]
    assert contents(history, "xregistry") == before
    spark.sql("DELETE FROM xregistry.messages")
    rebuild_table(spark, MESSAGES, read_head(spark))
    assert contents(history, "xregistry") == before


@pytest.mark.slow
def test_a_table_is_rebuilt_by_the_names_of_its_columns(history):
    """A migration may have added one elsewhere than where a new table has it."""
    spark = history.spark
    attach_tables(spark, history.settings)
    query = "SELECT xid, name, description FROM xregistry.effective_messages ORDER BY xid"
    before = history.rows(query)
    spark.sql("ALTER TABLE xregistry.effective_messages ALTER COLUMN name AFTER description")
    rebuild_effective(spark, history.settings, read_head(spark))
    assert history.rows(query) == before


def test_deltas_history_is_not_read_where_it_lacks_a_column(history):
    spark = history.spark
    attach_tables(spark, history.settings)
    past = [read_head_at(spark, snapshot_id) for snapshot_id in (1, 2, 3)]
    assert [effective_version(spark, one) for one in past] == [1, 2, 3]
    spark.sql("ALTER TABLE xregistry.effective_messages ADD COLUMNS (note STRING COMMENT 'A note')")
    assert [effective_version(spark, one) for one in past] == [None, None, None]


def test_each_projection_is_a_transaction_of_its_own(history):
    folder = Path(history.settings.warehouse)
    for table in ("versions", "messages", "groups"):
        commits = sorted((folder / table / "_delta_log").glob("*.json"))
        actions = [json.loads(line) for commit in commits for line in commit.read_text().splitlines()]
        reported = [(action["txn"]["appId"], action["txn"]["version"]) for action in actions if "txn" in action]
        assert {name for name, _ in reported} == {f"lakehouse.{table}"}
        brought = [version for _, version in reported]
        assert (brought[0], brought[-1], brought) == (1, 3, sorted(set(brought)))


@pytest.fixture
def foreign(history):
    """A history, and a way to commit to a table in somebody else's words."""
    attach_tables(history.spark, history.settings)

    def commit(words, *statements):
        session = open_sibling(history.spark)
        session.conf.set("spark.databricks.delta.commitInfo.userMetadata", words)
        for statement in statements:
            session.sql(statement)

    return history, commit


@pytest.mark.slow
def test_commits_of_others_that_change_no_row_are_passed_over(foreign):
    history, commit = foreign
    spark = history.spark
    for number, words in enumerate(FOREIGN):
        commit(words, f"ALTER TABLE xregistry.versions SET TBLPROPERTIES ('theirs' = '{number}')")
        assert recorded_position(spark, "versions") == 3, words
    commit("by hand", "OPTIMIZE xregistry.versions FULL", "OPTIMIZE xregistry.changes", "VACUUM xregistry.versions")
    assert metadata_of_commits(spark, "versions") == {"snapshot_id": 3, "job": "project"}
    assert metadata_of_commits(spark, "changes")["command"] == "ingest"
    assert find_lagging(spark, read_head(spark), settings=history.settings) == {}


@pytest.mark.slow
def test_behind_a_commit_that_changed_rows_nothing_is_known(foreign):
    history, commit = foreign
    before = versions(history)
    commit("by hand", "DELETE FROM xregistry.versions WHERE snapshot_id = 3")
    assert metadata_of_commits(history.spark, "versions") == {}
    assert roll_forward(history.spark, read_head(history.spark), settings=history.settings) == ["versions"]
    assert versions(history) == before


@pytest.mark.slow
def test_no_command_stumbles_over_what_others_say_of_their_commits(foreign):
    history, commit = foreign
    spark = history.spark
    tables = ["changes", "violations", "endpoints", "versions", "messages", "groups", "effective_messages"]
    for words, name in zip(FOREIGN, tables, strict=True):
        commit(words, f"ALTER TABLE xregistry.{name} SET TBLPROPERTIES ('theirs' = 'x')")
    commit("by hand", "DELETE FROM xregistry.messages WHERE messageid = 'm'")
    history.write("a.json", shop("four", "m", "o"))
    assert history.ingest().snapshot_id == 4
    maintain(spark, history.settings, names=("versions", "messages"))
    assert recorded_position(spark, "versions") == 4
    assert [one for one in diagnose(spark, history.settings) if one.state == "error"] == []
