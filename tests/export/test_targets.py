"""Where exports, pages and stages go: filesystems that answer no, and filesystems that do not report their scheme."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from lakehouse.errors import TargetError, WarehouseError
from lakehouse.expectations.suiteruns import write_pages
from lakehouse.export.target import Target
from lakehouse.settings import read_settings
from lakehouse.store import files as stages
from lakehouse.store.files import move_folder


class Unwilling:
    """A filesystem that answers false when it is to rename what a name holds, or raises."""

    def __init__(self, genuine, name, error=None):
        self.genuine, self.name, self.error = genuine, name, error

    def __getattr__(self, method):
        return getattr(self.genuine, method)

    def rename(self, source, target):
        if self.name in source:
            if self.error:
                raise self.error
            return False
        return self.genuine.rename(source, target)


@pytest.fixture
def scheme_less(spark):
    """Let local files be reached through a filesystem that does not report its scheme, and adds no checksums."""
    conf = spark._jsc.hadoopConfiguration()
    conf.set("fs.file.impl", "org.apache.hadoop.fs.RawLocalFileSystem")
    conf.set("fs.file.impl.disable.cache", "true")
    yield
    conf.unset("fs.file.impl")
    conf.unset("fs.file.impl.disable.cache")


def test_a_folder_that_was_not_moved_is_reported(spark, tmp_path, monkeypatch):
    (tmp_path / "table").mkdir()
    genuine = stages.filesystem_of
    monkeypatch.setattr(stages, "filesystem_of", lambda *args: Unwilling(genuine(*args), "table"))
    with pytest.raises(WarehouseError, match="could not be moved"):
        move_folder(spark, str(tmp_path / "table"), str(tmp_path / "_broken" / "table"))
    assert (tmp_path / "table").is_dir()
    move_folder(spark, str(tmp_path / "nothing"), str(tmp_path / "_broken" / "table"))


def replace_earlier(spark, folder, unwilling, error=None):
    """Replace an earlier export, on a filesystem that does not want to."""
    (folder / "out").mkdir()
    (folder / "out" / "a.json").write_text("{}")
    with Target(spark, str(folder / "out"), is_folder=True, replace=True) as target:
        target._fs = Unwilling(target._fs, unwilling, error)
        target.publish()


@pytest.mark.parametrize("error", [None, OSError("no")])
def test_an_earlier_export_is_put_back_when_the_new_one_cannot_take_its_name(spark, tmp_path, error):
    with pytest.raises(TargetError):
        replace_earlier(spark, tmp_path, "growing", error)
    assert [path.name for path in tmp_path.rglob("*.json")] == ["a.json"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_an_earlier_export_that_cannot_be_put_back_is_named(spark, tmp_path):
    with pytest.raises(TargetError, match="earlier"):
        replace_earlier(spark, tmp_path, ".out.")
    assert [path.name for path in tmp_path.rglob("*.json")] == ["a.json"]


def test_a_filesystem_need_not_report_its_scheme(spark, tmp_path, scheme_less):
    conf = spark._jsc.hadoopConfiguration()
    path = spark._jvm.org.apache.hadoop.fs.Path(str(tmp_path))
    with pytest.raises(Exception, match="Not implemented"):
        path.getFileSystem(conf).getScheme()
    for text in (b"one", b"two"):
        with Target(spark, str(tmp_path / "out.json"), is_folder=False) as target:
            with target.file("out.json") as file:
                file.write(text)
            target.publish()
        assert (tmp_path / "out.json").read_bytes() == text
    write_pages(spark, read_settings(warehouse=str(tmp_path / "warehouse")), "Snapshot 1", [])
    assert (tmp_path / "warehouse" / "_data_docs" / "index.html").is_file()
    assert list(tmp_path.rglob("*.crc")) == []


class Opened:
    """A part that is read, in a filesystem that counts how many are open."""

    def __init__(self, counts):
        self.counts = counts
        counts["open"] += 1
        counts["most"] = max(counts["most"], counts["open"])

    def seek(self, offset):
        pass

    def close(self):
        self.counts["open"] -= 1


def test_of_thousands_of_parts_each_thread_holds_one_open():
    counts = {"open": 0, "most": 0}
    target = object.__new__(Target)
    target._streams, target._parts, target._growing = {}, "parts", "growing"
    target._fs = SimpleNamespace(
        open=lambda path: Opened(counts), remove=lambda path: None, copy=lambda source, length, into: into.append(source)
    )

    def write(first):
        into = []
        for number in range(first, 2000, 4):
            target.copy(f"part-{number:05}", 0, 10, into)
            target.copy(f"part-{number:05}", 10, 10, into)
        return len(into)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(write, range(4))) == 4000
    assert counts["most"] <= 4
    target.__exit__(None, None, None)
    assert counts["open"] == 0
