"""Snapshots: the catalog at any of them is what the tables were then, from the log alone."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest
from histories import contents

from lakehouse.errors import LabelTaken, SettingsError, SnapshotNotFound
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.log.snapshotfacts import check_label
from lakehouse.log.snapshots import label_snapshot, open_snapshot, read_snapshots, resolve_snapshot
from lakehouse.query.sql import run_query
from lakehouse.store.deltatables import TABLES, create_tables
from lakehouse.store.schema import ENTITY_TABLES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("snapshot_id", [1, 2, 3])
def test_a_snapshot_shows_each_table_as_it_was(past, loaded_history, snapshot_id):
    then = loaded_history[1]
    schema = open_snapshot(past.spark, past.settings, snapshot_id)
    assert schema == f"xregistry_at_{snapshot_id}"
    assert contents(past, schema) == then[snapshot_id]
    assert all(then[snapshot_id][table.name] for table in ENTITY_TABLES)
    assert past.rows(f"SELECT max(snapshot_id) FROM {schema}.changes") == [snapshot_id]


def test_a_snapshot_has_the_columns_types_and_comments_of_the_tables(past):
    create_tables(past.spark, past.settings)
    schema = open_snapshot(past.spark, past.settings, 2)
    for name in TABLES:
        live, then = (past.spark.table(f"{one}.{name}").schema for one in ("xregistry", schema))
        assert [(c.name, c.dataType.simpleString(), c.metadata["comment"]) for c in then] == [
            (c.name, c.dataType.simpleString(), c.metadata["comment"]) for c in live
        ], name


def test_reading_a_snapshot_writes_nothing_into_the_warehouse(past):
    def files():
        return {path: path.stat().st_mtime_ns for path in (past.documents.parent / "warehouse").rglob("*")}

    before = files()
    schema = open_snapshot(past.spark, past.settings, 1)
    contents(past, schema)
    past.spark.sql(f"DROP SCHEMA {schema} CASCADE")
    assert files() == before


def test_number_label_time_date_and_head_name_snapshots(past):
    snapshots = read_snapshots(past.spark)
    assert [(one.snapshot_id, list(one.labels)) for one in snapshots] == [(1, ["first"]), (2, []), (3, [])]
    second = snapshots[1].committed_at
    named = ["2", "first", "head", second.isoformat(), second.strftime("%Y-%m-%d %H:%M:%S.%fZ"), second.date().isoformat()]
    assert [resolve_snapshot(past.spark, text) for text in named] == [2, 1, 3, 2, 2, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0", "1 to 3"),
        ("4", "1 to 3"),
        ("second", "not a number"),
        ("2001-01-01", "later"),
        ("2026-02-31T00:00:00Z", "not a moment"),
    ],
)
def test_what_names_no_snapshot_is_reported_with_the_reason(past, text, why):
    with pytest.raises(SnapshotNotFound, match=why):
        resolve_snapshot(past.spark, text)


@pytest.mark.parametrize("name", ["", " ", "7", "2026-03-01", "2026-03-01T00:00:00Z", "head", " release"])
def test_a_label_cannot_look_like_a_number_or_a_time(name):
    with pytest.raises(SettingsError):
        check_label(name)


def test_a_query_at_a_snapshot_and_deltas_own_time_travel(past):
    query = """
        SELECT m.messageid, v.name FROM messages AS m
        JOIN versions AS v ON v.message_xid = m.xid AND v.registryid = m.registryid WHERE m.messageid = 'n'
    """

    def asked(at):
        return list(run_query(past.spark, past.settings, query, at).json_rows())

    assert [asked("first"), asked("2"), asked(None)] == [
        ['{"messageid":"n","name":"one"}'],
        ['{"messageid":"n","name":"two"}'],
        [],
    ]
    for name in [one for one in TABLES if one != "effective_messages"]:  # the tests that read a past refresh none
        reported = (
            past.spark.sql(f"DESCRIBE HISTORY {name}")
            .orderBy("version")
            .selectExpr("version", "CAST(timestamp AS STRING)", "userMetadata")
            .collect()
        )
        version, moment, metadata = reported[-1]
        assert past.rows(f"SELECT count(*) > 0 FROM {name} VERSION AS OF {version}") == [True], name
        assert past.rows(f"SELECT count(*) > 0 FROM {name} TIMESTAMP AS OF '{moment}'") == [True], name
        assert '"snapshot_id": ' in (metadata or "") or name == "violations", name


def test_what_was_stored_of_flattening_is_computed_at_a_snapshot(past):
    query = "SELECT xid, snapshot_id FROM effective_messages WHERE messageid = 'n'"
    assert list(run_query(past.spark, past.settings, query, "2").json_rows()) == [
        '{"xid":"/messagegroups/g/messages/n","snapshot_id":2}'
    ]


def test_snapshots_outlast_vacuum(history, loaded_history):
    """Delta keeps what it needs now, and nothing of the past: the log reports the past all the same."""
    create_tables(history.spark, history.settings)
    history.spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for name in TABLES:
        history.spark.sql(f"VACUUM {name} RETAIN 0 HOURS")
    history.spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    for snapshot_id, then in loaded_history[1].items():
        assert contents(history, open_snapshot(history.spark, history.settings, snapshot_id)) == then


def test_a_label_is_a_snapshot_of_its_own_and_moves_only_when_reported(history):
    def label(text, name, **more):
        return label_snapshot(history.spark, history.settings, text, name, **more)

    assert (label("2", "approved", why="audit"), label("2", "approved")) == (2, 2)
    assert history.rows("SELECT max(snapshot_id) FROM changes") == [4]
    with pytest.raises(LabelTaken, match="snapshot 2"):
        label("3", "approved")
    assert label("3", "approved", move=True) == 3
    assert resolve_snapshot(history.spark, "approved") == 3
    assert [one.labels for one in read_snapshots(history.spark)] == [{"first": None}, {}, {"approved": None}, {}, {}]
    with pytest.raises(LabelTaken):
        history.ingest(request=IngestRequest(label="first"))


def test_a_clock_that_was_set_back_a_day_changes_no_order(history, monkeypatch):
    class Yesterday(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(days=1)

    monkeypatch.setattr("lakehouse.log.baseline.datetime", Yesterday)
    history.write("b.json", {"messagegroups": {"later": {}}})
    assert history.ingest(history.documents / "b.json").snapshot_id == 4
    times = [one.committed_at for one in read_snapshots(history.spark)]
    assert times == sorted(set(times))
    assert resolve_snapshot(history.spark, times[2].isoformat()) == 3
    assert resolve_snapshot(history.spark, times[3].isoformat()) == 4


def test_four_readers_of_a_pinned_snapshot_see_it_whole_while_others_write(history, loaded_history):
    schema = open_snapshot(history.spark, history.settings, 3)
    expected = {table.name: loaded_history[1][3][table.name] for table in ENTITY_TABLES}
    done = threading.Event()

    def read(_):
        reads, torn = 0, 0
        while not done.is_set() or not reads:
            seen = contents(history, schema)
            torn += {name: seen[name] for name in expected} != expected
            reads += 1
        return reads, torn

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read, number) for number in range(4)]
        try:
            for number in range(2):
                history.write("b.json", {"messagegroups": {"g": {"messages": {f"new{number}": {}}}}})
                history.ingest(history.documents / "b.json")
        finally:
            done.set()
    assert all(reader.result()[0] > 0 and reader.result()[1] == 0 for reader in readers)
