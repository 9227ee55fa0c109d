"""The clock of the machine is set back, or jumps: snapshots keep their order, and nobody waits for a time that was."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from lakehouse.log import snapshotfacts
from lakehouse.serve.subscriptions.store import Store, Subscription
from serve.test_durability import batches_of
from serve.writing import EVENT, asks, empty_warehouse, ignore

pytestmark = pytest.mark.attack


def test_times_of_snapshots_grow_when_the_clock_is_set_back(tmp_path, monkeypatch):
    warehouse, moments = empty_warehouse(tmp_path / "w").folder, []
    start = datetime(2026, 6, 1, tzinfo=timezone.utc)

    class Clock(datetime):
        @classmethod
        def now(cls, tz=None):
            return moments[-1]

    monkeypatch.setattr(snapshotfacts, "datetime", Clock)
    batches = batches_of(warehouse, tmp_path / "c")
    for days in (0, 400, 1, -400, -400, 401):
        moments.append(start + timedelta(days=days))
        batches.commit([asks("PUT", "/messagegroups/g/messages/m", EVENT)], ignore)
    with batches.model.at() as view:
        reported = [datetime.fromisoformat(view.commit_of(number)["committed_at"]) for number in range(1, 7)]
        entity = view.entity("default", "/messagegroups/g/messages/m/versions/1")
        # A time names the last snapshot by then
        assert [view.resolve(f"{moment.isoformat()}") for moment in reported] == [1, 2, 3, 4, 5, 6]
    assert reported == sorted(set(reported))
    assert reported[1:5] == [reported[1] + timedelta(microseconds=number) for number in range(4)]
    assert entity.modifiedat >= entity.createdat


def test_a_delivery_does_not_wait_for_a_time_that_was_before_the_clock_was_set_back(tmp_path):
    store = Store(tmp_path / "s")
    kept = store.add(Subscription("default", "http://127.0.0.1:9/", "binary", None, {}), "http://here", 1, "d")
    now = 1_800_000_000.0
    store.update(kept, next_at=now + 600)
    assert store.due(now) == []
    assert [one.id for one in store.due(now - 86_400)] == [kept.id]
    assert [one.id for one in store.due(now + 600)] == [kept.id]
