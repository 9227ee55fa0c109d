"""What was acknowledged is on the disk: the calls of fsync, and a power cut after which only what was synced is there."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import time
from collections import Counter
from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.errors import CommitLost, PartMissing
from lakehouse.readmodel import open_model
from lakehouse.serve.answer.live import LogWentBack
from lakehouse.serve.writer.append import DeltaAppender
from lakehouse.serve.writer.process import Batches, _problem_of
from lakehouse.settings import read_settings
from lakehouse.store.durable import Durable, check_storage
from serve.test_writer import answer_of
from serve.writing import EVENT, asks, empty_warehouse, ignore, writing

pytestmark = pytest.mark.attack


class Disk:
    """A disk that keeps what was synced: bytes of files by inode, names of folders as they were at their last sync.

    What was there at the start is kept. A name whose file was never synced survives with no bytes, as file systems may do.
    """

    def __init__(self, root: Path, monkeypatch) -> None:
        self.root, self.synced = root, []
        self.bytes: dict[int, bytes] = {}
        self.names: dict[int, dict[str, tuple[int, bool]]] = {}
        for above, _, files in os.walk(root):
            self._keep(Path(above))
            for name in files:
                self._keep(Path(above, name))
        genuine = os.fsync

        def fsync(handle):
            genuine(handle)
            path = Path(os.readlink(f"/proc/self/fd/{handle}"))
            if path.is_relative_to(root):
                self._keep(path)
                self.synced.append(str(path.relative_to(root)))
                self.after(self)

        self.after = lambda disk: None
        monkeypatch.setattr(os, "fsync", fsync)

    def _keep(self, path: Path) -> None:
        reported = path.stat()
        if stat.S_ISDIR(reported.st_mode):
            self.names[reported.st_ino] = {one.name: (one.inode(), one.is_dir()) for one in os.scandir(path)}
        else:
            self.bytes[reported.st_ino] = path.read_bytes()

    def survivors(self, target: Path) -> Path:
        """Write the files that are left if the power is cut now."""

        def write(inode: int, folder: Path) -> None:
            folder.mkdir(parents=True)
            for name, (member, is_folder) in self.names.get(inode, {}).items():
                if is_folder:
                    write(member, folder / name)
                else:
                    (folder / name).write_bytes(self.bytes.get(member, b""))

        write(self.root.stat().st_ino, target)
        return target


@pytest.fixture
def above(tmp_path):
    """Return the folder that the warehouse is in."""
    empty_warehouse(tmp_path / "disk" / "w")
    return tmp_path / "disk"


def batches_of(warehouse, cache, **options):
    model = open_model(read_settings(warehouse=str(warehouse), readmodel_dir=str(cache), **options))
    return Batches(model, DeltaAppender(model.location, model.settings), attempts=5)


def until(found, seconds=30.0):
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def newest_commit(warehouse):
    newest = max((warehouse / "changes/_delta_log").glob("*.json"))
    return [json.loads(line) for line in newest.read_text().splitlines()]


def part_of(warehouse):
    (added,) = [one["add"] for one in newest_commit(warehouse) if "add" in one]
    return added


def test_parts_are_synced_before_the_commit_is_seen_and_the_commit_before_it_is_acknowledged(above, tmp_path, monkeypatch):
    batches = batches_of(above / "w", tmp_path / "c")
    batches.commit([asks("PUT", "/messagegroups/g", {})], ignore)
    disk = Disk(above, monkeypatch)
    seen = []
    disk.after = lambda disk: seen.append((above / "w/changes/_delta_log" / f"{2:020}.json").exists())
    batches.commit([asks("PUT", "/messagegroups/h", {})], ignore)
    part = part_of(above / "w")["path"]
    commit = f"w/changes/_delta_log/{2:020}.json"
    wanted = [part, "w/changes", f"w/changes/{part}", "w/changes", commit, "w/changes/_delta_log"]
    assert [one if one.startswith("w/changes") else Path(one).name for one in disk.synced] == wanted
    assert seen == [False, False, True, True, True, True]


def test_with_sync_off_nothing_is_synced_and_the_same_is_written(above, tmp_path, monkeypatch):
    batches = batches_of(above / "w", tmp_path / "c", sync=False)
    disk = Disk(above, monkeypatch)
    batches.commit([asks("PUT", "/messagegroups/g/messages/m", EVENT)], ignore)
    assert disk.synced == []
    plain = part_of(above / "w"), newest_commit(above / "w")
    # When the same is written by a server that syncs
    other = empty_warehouse(tmp_path / "other").folder
    batches_of(other, tmp_path / "o").commit([asks("PUT", "/messagegroups/g/messages/m", EVENT)], ignore)
    synced = part_of(other), newest_commit(other)

    def reported(part, commit):
        stats = json.loads(part["stats"])
        for name in ("minValues", "maxValues"):  # moments and ids of the two commits differ
            stats[name] = sorted(stats[name])
        info = commit[0]["commitInfo"]
        said = json.loads(info["userMetadata"]).keys()
        return stats, part["partitionValues"], info["operation"], info["operationParameters"]["mode"], said

    def actions(commit):
        return Counter(name for action in commit for name in action)

    assert reported(*plain) == reported(*synced)
    assert actions(plain[1]) == actions(synced[1]) == {"commitInfo": 1, "add": 1, "txn": 1}
    assert not any((other / "_stage").iterdir())


def test_after_a_power_cut_at_any_moment_all_acknowledged_writes_are_there(above, tmp_path, monkeypatch):
    batches = batches_of(above / "w", tmp_path / "c")
    disk, acknowledged, cuts = Disk(above, monkeypatch), [], []

    def cut(disk):
        cuts.append((disk.survivors(tmp_path / f"cut{len(cuts)}"), list(acknowledged)))

    disk.after = cut
    for number in range(4):
        batches.commit([asks("PUT", f"/messagegroups/g/messages/m{number}", EVENT)], ignore)
        acknowledged.append(f"/messagegroups/g/messages/m{number}")
        cut(disk)
    assert len(cuts) >= 4 * 6
    for number, (found, wanted) in enumerate(cuts):
        model = open_model(read_settings(warehouse=str(found / "w"), readmodel_dir=str(tmp_path / f"r{number}")))
        with model.at() as view:
            there = [one.xid for one in view.children("default", "/messagegroups/g")]
        assert there[: len(wanted)] == wanted
        assert len(there) <= len(wanted) + 1
        # and it goes on from there
        if number % 6 == 5:
            again = batches_of(found / "w", tmp_path / f"a{number}")
            again.commit([asks("PUT", "/messagegroups/g/messages/z", EVENT)], ignore)


def test_the_replayed_power_cut_takes_what_is_not_synced(above, tmp_path, monkeypatch):
    batches = batches_of(above / "w", tmp_path / "c", sync=False)
    disk = Disk(above, monkeypatch)
    batches.commit([asks("PUT", "/messagegroups/g", {})], ignore)
    found = disk.survivors(tmp_path / "cut")
    assert len(list((found / "w/changes/_delta_log").glob("*.json"))) == 1


def test_what_cannot_be_synced_is_not_acknowledged(above, tmp_path, monkeypatch):
    batches = batches_of(above / "w", tmp_path / "c")
    batches.commit([asks("PUT", "/messagegroups/g", {})], ignore)
    genuine = os.fsync

    def fsync(handle):
        if "_delta_log" in os.readlink(f"/proc/self/fd/{handle}") and str(above) in os.readlink(f"/proc/self/fd/{handle}"):
            raise OSError(5, "Input/output error")
        genuine(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    problem = answer_of(batches)
    assert (problem.status, problem.name) == (503, "data_retrieval_error")
    assert "could not be synced to the disk" in problem.detail


def test_checks_of_the_table_hold_where_parts_are_written_aside(above, tmp_path):
    from deltalake import DeltaTable

    DeltaTable(str(above / "w/changes")).alter.add_constraint({"no_groups": "kind <> 'group'"})
    batches = batches_of(above / "w", tmp_path / "c")
    with pytest.raises(Exception, match=r"no_groups|kind"):
        batches.commit([asks("PUT", "/messagegroups/g", {})], ignore)
    batches.model.refresh()
    with batches.model.at() as view:
        assert view.head == 0


def test_commits_of_others_are_synced_too_from_the_newest_checkpoint_on(above, tmp_path, monkeypatch):
    settings = read_settings(warehouse=str(above / "w"), readmodel_dir=str(tmp_path / "c"))
    unsynced = batches_of(above / "w", tmp_path / "c", sync=False)
    for number in range(3):
        unsynced.commit([asks("PUT", f"/messagegroups/g{number}", {})], ignore)
    unsynced.model.warehouse.open("changes").create_checkpoint()
    unsynced.commit([asks("PUT", "/messagegroups/last", {})], ignore)
    disk, durable = Disk(above, monkeypatch), Durable(str(above / "w/changes"), settings)
    durable.sync_commits()
    named = Counter(Path(one).name for one in disk.synced)
    assert named[f"{2:020}.json"] == 0
    assert [named[f"{n:020}.json"] for n in (3, 4)] == [1, 1]
    assert named[f"{3:020}.checkpoint.parquet"] == named["_last_checkpoint"] == named["_delta_log"] == 1
    # When nothing came since, nothing is done
    before = len(disk.synced)
    durable.sync_commits()
    assert len(disk.synced) == before
    # What is elsewhere is left to its store
    Durable("s3a://bucket/w/changes", settings).sync_commits()


def test_a_lost_race_is_reported_as_such_where_parts_are_written_aside(above, tmp_path):
    one, other = batches_of(above / "w", tmp_path / "c"), batches_of(above / "w", tmp_path / "d")
    one.commit([asks("PUT", "/messagegroups/g", {})], ignore)
    write = DeltaAppender._write

    def late(self, *reported):
        other.commit([asks("PUT", "/messagegroups/h", {})], ignore)
        write(self, *reported)

    one.appender._write = late.__get__(one.appender)
    one.model.refresh()
    with one.model.at() as view:
        planned = one._plan(view, [asks("PUT", "/messagegroups/i", {})])
    from lakehouse.log.commits import CommitInfo

    with pytest.raises(CommitLost):
        one.appender.append(planned.head, planned.version, planned.committed_at, planned.changes, CommitInfo("x", "serve", {}))


@pytest.mark.parametrize("sync", [True, False])
def test_nothing_is_appended_where_the_newest_part_is_gone(above, tmp_path, sync):
    """It could not be read back, and would be there though its answer says that it may not be."""
    batches = batches_of(above / "w", tmp_path / "c", sync=sync)
    batches.commit([asks("PUT", "/messagegroups/g", {})], ignore)
    part = above / "w/changes" / part_of(above / "w")["path"]
    kept = part.rename(tmp_path / part.name)
    for _ in range(2):
        with pytest.raises(PartMissing, match=re.escape(part.name)) as found:
            batches.commit([asks("PUT", "/messagegroups/h", {})], ignore)
        problem = _problem_of(found.value)
        assert (problem.status, str(tmp_path) in problem.detail) == (503, False)
        assert problem.detail.startswith("Nothing was written: changes: its part file ")
    assert len(list((above / "w/changes/_delta_log").glob("*.json"))) == 2
    with pytest.raises(PartMissing, match=re.escape(part.name)):  # who has no read model yet
        open_model(read_settings(warehouse=str(above / "w"), readmodel_dir=str(tmp_path / "other")))
    kept.rename(part)
    assert batches.commit([asks("PUT", "/messagegroups/h", {})], ignore)[0] == 2


def test_a_compacted_log_is_written_and_what_is_older_may_be_only_in_a_checkpoint(above, tmp_path):
    batches = batches_of(above / "w", tmp_path / "c")
    for number in range(3):
        batches.commit([asks("PUT", f"/messagegroups/g{number}", {})], ignore)
    table = DeltaTable(above / "w/changes")
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert batches.commit([asks("PUT", "/messagegroups/h", {})], ignore)[0] == 4
    table = DeltaTable(above / "w/changes")
    table.alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})  # a commit that adds nothing
    assert batches.commit([asks("PUT", "/messagegroups/i", {})], ignore)[0] == 5
    DeltaTable(above / "w/changes").create_checkpoint()
    for one in sorted((above / "w/changes/_delta_log").glob("*.json"))[:-1]:
        one.unlink()
    assert batches.commit([asks("PUT", "/messagegroups/j", {})], ignore)[0] == 6


def test_a_log_that_goes_back_is_not_written_until_it_is_back(above, tmp_path):
    batches = batches_of(above / "w", tmp_path / "c")
    numbers = [batches.commit([asks("PUT", f"/messagegroups/g{number}", {})], ignore)[0] for number in (1, 2)]
    shutil.copytree(above / "w", tmp_path / "older")
    numbers += [batches.commit([asks("PUT", f"/messagegroups/g{number}", {})], ignore)[0] for number in (3, 4)]
    assert numbers == [1, 2, 3, 4]
    (above / "w").rename(tmp_path / "newer")
    shutil.copytree(tmp_path / "older", above / "w")
    for _ in range(2):
        with pytest.raises(LogWentBack, match="has seen snapshot 4, and now snapshot 2 is its newest"):
            batches.commit([asks("PUT", "/messagegroups/h", {})], ignore)
    other = batches_of(above / "w", tmp_path / "other")  # one that never saw the newer one
    assert [other.commit([asks("PUT", f"/messagegroups/o{number}", {})], ignore)[0] for number in (3, 4)] == [3, 4]
    with pytest.raises(LogWentBack, match="it holds another snapshot 4"):
        batches.commit([asks("PUT", "/messagegroups/h", {})], ignore)
    shutil.rmtree(above / "w")
    (tmp_path / "newer").rename(above / "w")
    assert batches.commit([asks("PUT", "/messagegroups/h", {})], ignore)[0] == 5


@pytest.mark.slow
def test_a_server_that_served_what_is_gone_writes_nothing_and_says_why(tmp_path):
    """What it has seen of others counts too; its writer has not."""
    shops = empty_warehouse(tmp_path / "w")
    with writing(shops.folder, tmp_path / "c") as served:
        served.done("PUT", "/messagegroups/g", {})
        log = shops.folder / "changes" / "_delta_log"
        batches_of(shops.folder, tmp_path / "other").commit([asks("PUT", "/messagegroups/of-another", {})], ignore)
        until(lambda: served.ask("/messagegroups/of-another").status == 200)
        newest = max(log.glob("*.json"))
        kept = newest.rename(tmp_path / newest.name)
        until(lambda: served.ask("/messagegroups/of-another").status == 404)
        answer = served.send("PUT", "/messagegroups/h", {})
        assert answer.status == 503
        assert "Nothing was written: the catalog's log went back. This server has seen snapshot 2" in answer.json["detail"]
        assert (served.ask("/ready").status, served.ask("/ready").json["status"]) == (503, "not writable")
        assert not newest.exists()
        kept.rename(newest)
        until(lambda: served.ask("/messagegroups/of-another").status == 200)
        assert served.get("/ready") == {"status": "ready", "snapshot": 2}
        served.done("PUT", "/messagegroups/h", {})


def test_a_server_is_not_ready_while_the_newest_part_of_the_log_is_gone(tmp_path):
    shops = empty_warehouse(tmp_path / "w")
    with writing(shops.folder, tmp_path / "c") as served:
        served.done("PUT", "/messagegroups/g", {})
        part = shops.folder / "changes" / part_of(shops.folder)["path"]
        kept = part.rename(tmp_path / part.name)
        answer = served.ask("/ready")
        assert (answer.status, answer.json["status"], answer.headers["retry-after"]) == (503, "not writable", "2")
        assert str(tmp_path) not in answer.body.decode()
        assert served.send("PUT", "/messagegroups/h", {}).status == 503
        assert served.get("/messagegroups/g")["messagescount"] == 0
        kept.rename(part)
        assert served.get("/ready") == {"status": "ready", "snapshot": 1}
        served.done("PUT", "/messagegroups/h", {})


def test_storage_that_is_gone_full_or_read_only_takes_no_files(tmp_path, monkeypatch):
    check_storage(str(tmp_path))
    check_storage("s3a://bucket/w")
    with pytest.raises(FileNotFoundError):
        check_storage(str(tmp_path / "none"))
    blocks = list(os.statvfs(tmp_path))
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result([*blocks[:4], 0, *blocks[5:10]]))
    with pytest.raises(OSError, match="No space left on device"):
        check_storage(str(tmp_path))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(PermissionError):
        check_storage(str(tmp_path))
