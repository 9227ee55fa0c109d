"""Change events by Spark: reported once, in order, under one id; as a stream too."""

from __future__ import annotations

import json

import pytest

from lakehouse.domain.events import FEEDS
from lakehouse.query.changeevents import change_events, stream_changes, write_events_to_folder
from lakehouse.store.deltatables import attach_tables


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


@pytest.mark.slow
def test_a_reader_that_resumes_misses_none_and_sees_none_twice(past, events):
    def part(since, until):
        return [row["event"] for row in change_events(past.spark, past.settings, since, until).collect()]

    assert part(0, 1) + part(1, 2) + part(2, None) == events
    assert part(3, None) == []


@pytest.mark.slow
def test_a_stream_reports_each_event_once_and_again_when_writing_failed(past, events, tmp_path):
    reported, failing = [], [True]

    def write(rows, number):
        if failing:
            failing.clear()
            raise RuntimeError("the other side is away")
        reported.extend(row["event"] for row in rows.collect())

    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="the other side is away"):
        stream_changes(past.spark, past.settings, write, checkpoint).awaitTermination()
    for _ in range(2):
        stream_changes(past.spark, past.settings, write, checkpoint).awaitTermination()
    assert reported == events
    folder = str(tmp_path / "out")
    stream_changes(
        past.spark, past.settings, write_events_to_folder(folder), str(tmp_path / "other"), feeds=FEEDS
    ).awaitTermination()
    assert sorted(row[0] for row in past.spark.read.text(folder).select("value").collect()) == sorted(events)
