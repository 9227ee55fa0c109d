"""The newest commit of a Delta log is found without a look at all of them."""

from __future__ import annotations

import pytest

from lakehouse.store import tablelog

FOLDER = "file:/w/changes/_delta_log"


class Log:
    """A folder of a Delta log, in memory; counts how it is looked at."""

    def __init__(self, monkeypatch, versions, checkpoint=None):
        self.files = {f"{FOLDER}/{version:020}.json" for version in versions}
        self.hint = checkpoint
        self.looks = self.listings = 0
        monkeypatch.setattr(tablelog, "table_location", lambda *_: "file:/w/changes")
        monkeypatch.setattr(tablelog, "exists", self._exists)
        monkeypatch.setattr(tablelog, "list_folder", self._list)
        monkeypatch.setattr(tablelog, "read_text", lambda *_: self.hint)

    def _exists(self, _, path):
        self.looks += 1
        return self.hint is not None if path.endswith("/_last_checkpoint") else path in self.files

    def _list(self, *_):
        self.listings += 1
        return [(path, 1, 0.0) for path in sorted(self.files)]

    def newest_first(self):
        return [int(path.rsplit("/", 1)[1].removesuffix(".json")) for path in tablelog._commits(None, "changes")]


@pytest.mark.parametrize("newest", [0, 1, 2, 3, 6, 7, 8, 9, 21, 22])
@pytest.mark.parametrize("checkpoint", [None, '{"version": 0}', "", "{", '{"version": "x"}', "[]"])
def test_all_commits_come_the_newest_first(monkeypatch, newest, checkpoint):
    log = Log(monkeypatch, range(newest + 1), checkpoint)
    assert log.newest_first() == list(range(newest, -1, -1))
    assert log.listings == 0


def test_ten_thousand_commits_take_some_looks(monkeypatch):
    log = Log(monkeypatch, range(400, 10_008), '{"version": 10000}')
    assert next(tablelog._commits(None, "changes")).endswith("/00000000000000010007.json")
    assert (log.looks < 12, log.listings) == (True, 0)
    assert log.newest_first()[-1] == 400  # what Delta has cleaned up is not there


@pytest.mark.parametrize("checkpoint", [None, '{"version": 20}'])
def test_a_log_that_lost_its_end_or_its_beginning_is_listed(monkeypatch, checkpoint):
    log = Log(monkeypatch, range(3, 12), checkpoint)
    assert log.newest_first() == list(range(11, 2, -1))
    assert log.listings == 1


def test_no_log_has_no_commits(monkeypatch):
    assert Log(monkeypatch, []).newest_first() == []
    assert not tablelog.was_never_written(None, "changes")


def test_a_table_that_was_only_created_was_never_written(monkeypatch):
    Log(monkeypatch, [0])
    assert tablelog.was_never_written(None, "changes")
    Log(monkeypatch, [0, 1])
    assert not tablelog.was_never_written(None, "changes")
