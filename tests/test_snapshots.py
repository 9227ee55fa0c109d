"""Snapshots: the catalog at any of them is what the tables were then, from the log alone."""

from __future__ import annotations

import pytest
from conftest import Catalog, _forget

from lakehouse.errors import SettingsError, SnapshotNotFound
from lakehouse.model import ENTITY_TABLES
from lakehouse.pipeline import Request
from lakehouse.plans import Policy
from lakehouse.snapshots import check_label, open_snapshot, read_snapshots, resolve_snapshot
from lakehouse.tables import TABLES, create_tables


def shop(version, *messages):
    return {
        "labels": {"version": version},
        "messagegroups": {"g": {"envelope": "CloudEvents/1.0", "messages": {name: {"name": version} for name in messages}}},
        "endpoints": {
            "e": {
                "usage": ["producer"],
                "protocol": "MQTT",
                "protocoloptions": {"deployed": True, "endpoints": [{"uri": "mqtt://a", "x": 1}], "options": {"topic": version}},
                "messagegroups": ["/messagegroups/g"],
            }
        },
        "schemagroups": {"s": {"schemas": {"t": {"format": "JSONSchema/draft-07", "schema": {"title": version}}}}},
    }


@pytest.fixture(scope="module")
def history(spark, tmp_path_factory):
    """Four snapshots: loaded, edited, edited again with something refused and pruned, one only named; and what was told then."""
    catalog = Catalog(spark, tmp_path_factory.mktemp("history"))
    catalog.write("a.json", shop("one", "m", "n", "o"))
    catalog.ingest(request=Request(label="first"))
    catalog.then = {1: contents(catalog, "xregistry")}
    catalog.write("a.json", shop("two", "m", "n", "o"))
    catalog.ingest()
    catalog.then[2] = contents(catalog, "xregistry")
    edited = shop("three", "m", "o")
    edited["messagegroups"]["g"]["messages"]["bad"] = {"name": 5}
    catalog.write("a.json", edited)
    catalog.ingest(request=Request(Policy(prune=True)))
    catalog.then[3] = contents(catalog, "xregistry")
    yield catalog
    _forget(spark, catalog.documents.parent / "warehouse")


def contents(catalog, schema):
    """Give the rows of all tables, columns in their order."""
    names = [*(table.name for table in ENTITY_TABLES), "violations"]
    return {name: sorted(map(str, catalog.spark.table(f"{schema}.{name}").collect())) for name in names}


@pytest.mark.parametrize("snapshot_id", [1, 2, 3])
def test_a_snapshot_shows_each_table_as_it_was(history, snapshot_id):
    schema = open_snapshot(history.spark, history.settings, snapshot_id)
    assert schema == f"xregistry_at_{snapshot_id}"
    assert contents(history, schema) == history.then[snapshot_id]
    assert all(history.then[snapshot_id][table.name] for table in ENTITY_TABLES)
    assert history.rows(f"SELECT max(snapshot_id) FROM {schema}.changes") == [snapshot_id]


def test_a_snapshot_has_the_columns_types_and_comments_of_the_tables(history):
    create_tables(history.spark, history.settings)
    schema = open_snapshot(history.spark, history.settings, 2)
    for name in TABLES:
        live, then = (history.spark.table(f"{one}.{name}").schema for one in ("xregistry", schema))
        assert [(c.name, c.dataType.simpleString(), c.metadata["comment"]) for c in then] == [
            (c.name, c.dataType.simpleString(), c.metadata["comment"]) for c in live
        ], name


def test_reading_a_snapshot_writes_nothing_into_the_warehouse(history):
    def files():
        return {path: path.stat().st_mtime_ns for path in (history.documents.parent / "warehouse").rglob("*")}

    before = files()
    schema = open_snapshot(history.spark, history.settings, 1)
    contents(history, schema)
    history.spark.sql(f"DROP SCHEMA {schema} CASCADE")
    assert files() == before


def test_number_label_time_date_and_head_name_snapshots(history):
    snapshots = read_snapshots(history.spark)
    assert [(one.snapshot_id, list(one.labels)) for one in snapshots] == [(1, ["first"]), (2, []), (3, [])]
    second = snapshots[1].committed_at
    named = ["2", "first", "head", second.isoformat(), second.strftime("%Y-%m-%d %H:%M:%S.%fZ"), second.date().isoformat()]
    assert [resolve_snapshot(history.spark, text) for text in named] == [2, 1, 3, 2, 2, 3]


@pytest.mark.parametrize(
    ("text", "why"),
    [("0", "1 to 3"), ("4", "1 to 3"), ("second", "no number"), ("2001-01-01", "later"), ("2026-02-31T00:00:00Z", "no moment")],
)
def test_what_names_no_snapshot_is_told_with_the_reason(history, text, why):
    with pytest.raises(SnapshotNotFound, match=why):
        resolve_snapshot(history.spark, text)


@pytest.mark.parametrize("name", ["", " ", "7", "2026-03-01", "2026-03-01T00:00:00Z", "head", " release"])
def test_a_label_cannot_look_like_a_number_or_a_time(name):
    with pytest.raises(SettingsError):
        check_label(name)
