"""Whoever was shown a snapshot is shown no older one after it, by the same process."""

from __future__ import annotations

import queue

import pytest

from lakehouse.serve.answer.live import SnapshotWatcher
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.config import Options
from lakehouse.settings import read_settings
from serve.served import Shops, message


def messages(count: int) -> dict:
    return {"default": {"messagegroups": {"g": {"messages": {f"m{number}": message("m") for number in range(count)}}}}}


@pytest.fixture
def shops(tmp_path):
    return Shops(tmp_path / "w")


@pytest.fixture
def live(shops, tmp_path):
    shops.load(messages(50))
    found = SnapshotWatcher(read_settings(warehouse=str(shops.folder), readmodel_dir=str(tmp_path / "model")), Options())
    yield found
    found.stop()


def failing(live: SnapshotWatcher) -> ProblemFound:
    """Ask in vain, and give the error, whose traceback keeps the rows that were not read to their end."""

    def ask(view):
        rows = view.db.execute("SELECT id FROM log")
        for _ in rows:
            raise ProblemFound("not_found", "/")

    with pytest.raises(ProblemFound) as caught:
        live.model.answer(ask)
    return caught.value


def test_an_error_between_rows_does_not_keep_the_next_reader_in_the_past(shops, live):
    live.load()
    error = failing(live)
    shops.load(messages(51))
    assert live.load().number == 2
    assert [live.model.answer(lambda view: view.head) for _ in range(3)] == [2, 2, 2]
    assert error.name == "not_found"


def test_what_fails_after_a_snapshot_does_not_end_following(shops, live, caplog):
    numbers: queue.Queue[int] = queue.Queue()

    def fail(head):
        numbers.put(head.number)
        raise RecursionError("of one entity")

    live.on_new = fail
    live.follow()
    assert numbers.get(timeout=60) == 1
    shops.load(messages(51))
    assert live.await_snapshot(2, 60)
    assert numbers.get(timeout=60) == 2
    assert "snapshot 1 is served, but not all that follows it was done" in caplog.text


def test_of_several_readers_none_goes_back(shops, live):
    live.load()
    with live.model.at() as _:  # so that the next one has another connection
        error = failing(live)
    for count in (51, 52, 53):
        before = live.head
        shops.load(messages(count))
        assert live.load().number == before.number + 1
        with live.model.at() as first, live.model.at() as second:
            assert first.head == second.head == before.number + 1
    assert error.name == "not_found"
