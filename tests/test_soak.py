"""The short form of `make soak`: kill -9 at two points, and two writers with five ingests each."""

from __future__ import annotations

import pytest
from soak.__main__ import check_two_writers, crash_and_rerun, two_writers


@pytest.mark.parametrize("point", ["before_commit", "after_project_groups"])
def test_after_kill_9_and_a_rerun_all_is_there_once(tmp_path, point):
    state = crash_and_rerun(tmp_path, point=point)
    assert [len(state[table]) for table in ("groups", "endpoints", "messages", "versions", "schemas")] == [40, 20, 1000, 1000, 20]
    assert state["snapshots"] == [{"n": 1}]
    assert state["violations"] == [{"n": 40, "d": 40}]


def test_two_writers_lose_and_double_nothing(tmp_path):
    told = two_writers(tmp_path, 5)
    check_two_writers(tmp_path, told, 5)
