"""Change events: which follow from a change of the log, and that they are told once, in order, under one id."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from lakehouse.query.events import (
    FEEDS,
    change_events,
    core_events,
    message_catalog_events,
    stream_changes,
    with_before,
    write_events_to_folder,
)
from lakehouse.store.tables import attach_tables

G, M, V = "/messagegroups/g", "/messagegroups/g/messages/m", "/messagegroups/g/messages/m/versions/"
NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def log(spark, *rows):
    """Build a log out of (snapshot_id, kind, xid, op, body, raw)."""
    schema = (
        "snapshot_id long, registryid string, kind string, xid string, op string, createdat timestamp, modifiedat timestamp, "
    )
    full = [
        (number, "r", kind, xid, op, NOON, NOON, json.dumps(body), None if raw is None else json.dumps(raw))
        for number, kind, xid, op, body, raw in ((*row, None)[:6] for row in rows)
    ]
    return spark.createDataFrame(full, schema + "body string, raw string")


def told(events):
    """Give (snapshot, type without its prefix, subject) with what changed."""
    rows = events.collect()
    assert len({(row["snapshot_id"], row["type"], row["subject"]) for row in rows}) == len(rows)
    return {(row["snapshot_id"], row["type"].split(".", 2)[2], row["subject"]): row["changed"] for row in rows}


def test_what_comes_tells_of_itself_and_of_its_holder(spark):
    rows = log(
        spark,
        (1, "registry", "/", "insert", {}),
        (1, "group", G, "insert", {}),
        (2, "message", M, "insert", {}),
        (2, "version", V + "1", "insert", {"isdefault": True}),
    )
    events = told(core_events(with_before(rows, 0)))
    assert events == {
        (1, "registry.created", "/"): None,
        (1, "group.created", G): None,
        (2, "group.updated", G): ["epoch", "messages", "messagescount", "modifiedat"],
        (2, "resource.created", M): None,
        (2, "version.created", V + "1"): None,
    }
    assert told(core_events(with_before(rows, 1))).keys() == {key for key in events if key[0] == 2}


def test_an_update_names_the_attributes_and_a_default_version_shows_at_its_resource(spark):
    rows = log(
        spark,
        (1, "version", V + "1", "insert", {"isdefault": True, "name": "a", "labels": {"x": "1"}, "extensions": {"house": 1}}),
        (2, "version", V + "1", "own", {"isdefault": True, "name": "a", "labels": {"x": "1"}, "extensions": {"house": 1}}),
        (3, "version", V + "1", "update", {"isdefault": True, "name": "a", "labels": {"x": "2"}, "extensions": {"house": 2}}),
    )
    changed = ["epoch", "house", "labels", "modifiedat"]
    assert told(core_events(with_before(rows, 1))) == {
        (3, "version.updated", V + "1"): changed,
        (3, "resource.updated", M): changed,
    }


def test_another_default_version_is_told_at_the_resource_only(spark):
    rows = log(
        spark,
        (1, "message", M, "insert", {"defaultversionid": "1"}),
        (1, "version", V + "1", "insert", {"isdefault": True, "name": "a"}),
        (1, "version", V + "2", "insert", {"isdefault": False, "description": "b"}),
        (2, "message", M, "update", {"defaultversionid": "2"}),
        (2, "version", V + "1", "update", {"isdefault": False, "name": "a"}),
        (2, "version", V + "2", "update", {"isdefault": True, "description": "b"}),
    )
    meta = ["meta.defaultversionid", "meta.epoch", "meta.modifiedat"]
    assert told(core_events(with_before(rows, 1))) == {
        (2, "resource.updated", M): ["description", "epoch", *meta, "modifiedat", "name"]
    }


def test_deletions_deprecations_and_the_model(spark):
    rows = log(
        spark,
        (1, "registry", "/", "insert", {"capabilities": {"a": 1, "b": 1}, "model": {}}),
        (1, "group", G, "insert", {}),
        (2, "group", G, "update", {"deprecated": {"effective": "2030-01-01T00:00:00Z"}}),
        (2, "registry", "/", "update", {"capabilities": {"a": 1, "b": 2}, "model": {"x": 1}}),
        (3, "group", G, "delete", {"deprecated": {}}),
        (4, "group", G, "insert", {}),
    )
    events = told(core_events(with_before(rows, 1)))
    assert events == {
        (2, "group.updated", G): ["deprecated", "epoch", "modifiedat"],
        (2, "group.deprecation", G): ["effective"],
        (2, "registry.updated", "/"): ["capabilities", "epoch", "model", "modifiedat"],
        (2, "capabilities.updated", "/"): ["b"],
        (2, "model.updated", "/"): None,
        (3, "group.deleted", G): None,
        (3, "registry.updated", "/"): ["epoch", "messagegroups", "messagegroupscount", "modifiedat"],
        (4, "group.created", G): None,
        (4, "registry.updated", "/"): ["epoch", "messagegroups", "messagegroupscount", "modifiedat"],
    }


def test_a_message_catalog_tells_of_groups_messages_and_versions_at_their_recorded_times(spark):
    in_zone = {"createdat": "2026-03-01T13:00:00+01:00"}
    rows = log(
        spark,
        (1, "group", "/messagegroups/messages", "insert", {}),
        (1, "version", "/messagegroups/messages/messages/versions/versions/1", "insert", {}, in_zone),
        (1, "version", V + "1", "insert", {}, {"createdat": "2026-03-01T12:00:00"}),
        (1, "schema", "/schemagroups/s/schemas/t", "insert", {}),
        (1, "endpoint", "/endpoints/e", "insert", {}),
        (2, "message", M, "delete", {}),
    )
    rows = message_catalog_events(with_before(rows, 0)).collect()
    assert {(row["type"], row["subject"]): (row["time"], row["changed"]) for row in rows} == {
        ("io.cloudevents.messagecatalog.updated.v1", "/messagecatalog/messages"): ("2026-03-01T12:00:00Z", None),
        (
            "io.cloudevents.messagecatalog.updated.v1",
            "/messagecatalog/messages/messagedefinitions/versions/versions/1",
        ): (in_zone["createdat"], None),
        ("io.cloudevents.messagecatalog.updated.v1", "/messagecatalog/g/messagedefinitions/m/versions/1"): (
            "2026-03-01T12:00:00Z",
            None,
        ),
        ("io.cloudevents.messagecatalog.deleted.v1", "/messagecatalog/g/messagedefinitions/m"): (None, None),
    }


@pytest.fixture(scope="module")
def events(past):
    attach_tables(past.spark, past.settings, ["changes"])
    return [row["event"] for row in change_events(past.spark, past.settings, 0).collect()]


def test_events_are_cloudevents_in_order_with_an_id_each(events):
    parsed = [json.loads(event) for event in events]
    assert len({(one["source"], one["id"]) for one in parsed}) == len(parsed)
    numbers = [int(one["id"].split("-")[0]) for one in parsed]
    assert numbers == sorted(numbers)
    assert set(numbers) == {1, 2, 3}
    for one in parsed:
        assert one["specversion"] == "1.0"
        assert one["source"] == "https://registry.invalid/default"
        assert one["time"].endswith("Z")
        assert ("data" in one) == ("datacontenttype" in one)
        assert "data" not in one or one["type"].startswith("io.xregistry.")
    for snapshot_id in (1, 2, 3):
        core = [one for one in parsed if one["id"].startswith(f"{snapshot_id}-") and one["type"].startswith("io.xregistry")]
        assert len({(one["time"], one["xregcorrelationid"]) for one in core}) == 1


def test_a_reader_that_resumes_misses_none_and_sees_none_twice(past, events):
    def part(since, until):
        return [row["event"] for row in change_events(past.spark, past.settings, since, until).collect()]

    assert part(0, 1) + part(1, 2) + part(2, None) == events
    assert part(3, None) == []


def test_a_stream_tells_each_event_once_and_again_when_writing_failed(past, events, tmp_path):
    told, failing = [], [True]

    def write(rows, number):
        if failing:
            failing.clear()
            raise RuntimeError("the other side is away")
        told.extend(row["event"] for row in rows.collect())

    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="the other side is away"):
        stream_changes(past.spark, past.settings, write, checkpoint).awaitTermination()
    for _ in range(2):
        stream_changes(past.spark, past.settings, write, checkpoint).awaitTermination()
    assert told == events
    folder = str(tmp_path / "out")
    stream_changes(
        past.spark, past.settings, write_events_to_folder(folder), str(tmp_path / "other"), feeds=FEEDS
    ).awaitTermination()
    assert sorted(row[0] for row in past.spark.read.text(folder).select("value").collect()) == sorted(events)
