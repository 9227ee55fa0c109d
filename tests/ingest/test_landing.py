"""A watched folder: what is new or changed is offered, and counts once however often it is offered."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from lakehouse.errors import SourceNotFound
from lakehouse.ingest import landing
from lakehouse.ingest.landing import LOOK_BACK, FolderEntry, Landing, between, checkpoint, list_documents, next_offset, watch
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.ingest.summary import Summary
from lakehouse.settings import read_settings

START = landing.LandingReader("", 0).initialOffset()
FAR = 10 * LOOK_BACK


def offered(found, start, most=None):
    end = next_offset(found, start, most)
    return end, [] if end == start else [one.path for one in between(found, start, end)]


def test_only_what_changed_since_is_offered():
    first = [FolderEntry(1, "a"), FolderEntry(2, "b")]
    end, paths = offered(first, START)
    assert paths == ["a", "b"]
    assert offered(first, end) == (end, [])
    changed = [FolderEntry(2, "b"), FolderEntry(FAR, "a")]
    end, paths = offered(changed, end)
    assert paths == ["a"]
    assert offered(changed, end)[1] == []


def test_a_document_that_comes_to_be_seen_late_is_offered_too():
    end, _ = offered([FolderEntry(FAR, "a")], START)
    both = [FolderEntry(FAR - 5, "late"), FolderEntry(FAR, "a")]
    end, paths = offered(both, end)
    assert paths == ["late"]
    assert offered(both, end)[1] == []
    assert offered([FolderEntry(FAR - LOOK_BACK, "too late"), *both], end)[1] == []


def test_a_batch_is_limited_and_the_rest_comes_with_the_next():
    found = [FolderEntry(n + 1, str(n)) for n in range(5)]
    end, paths = offered(found, START, 2)
    assert paths == ["0", "1"]
    end, paths = offered(found, end, 2)
    assert paths == ["2", "3"]
    assert offered(found, end, 2)[1] == ["4"]


def test_documents_that_came_at_once_are_shared_among_batches():
    found = [FolderEntry(7, name) for name in "abcde"]
    end, batches = START, []
    for _ in range(3):
        end, paths = offered(found, end, 2)
        batches.append(paths)
    assert batches == [["a", "b"], ["c", "d"], ["e"]]
    assert offered(found, end, 2) == (end, [])


def test_many_documents_that_came_at_once_take_no_longer_each():
    found = [FolderEntry(n + 1, f"folder/{n}.json") for n in range(20_000)]
    end, _ = offered(found, START)
    started = time.process_time()
    assert offered(found, end) == (end, [])
    assert time.process_time() - started < 30


def test_documents_are_listed_as_an_ingest_of_the_folder_finds_them(tmp_path):
    for name in ("a.json", "deep/er/b.yaml.gz", "_no.json", ".no.json", "_hidden/no.json", "no.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    (tmp_path / "empty.json").touch()
    assert {Path(one.path).name for one in list_documents(str(tmp_path))} == {"a.json", "b.yaml.gz"}
    assert list_documents(f"file://{tmp_path}") == list_documents(str(tmp_path))
    with pytest.raises(SourceNotFound):
        list_documents(str(tmp_path / "nowhere"))


def test_what_an_ingest_of_the_folder_would_not_read_is_not_listed(tmp_path):
    folder, elsewhere = tmp_path / "landing", tmp_path / "secret.json"
    folder.mkdir()
    elsewhere.write_text("{}")
    (folder / "a.json").write_text("{}")
    (folder / "inside.json").symlink_to(folder / "a.json")
    (folder / "outside.json").symlink_to(elsewhere)
    (folder / "loop.json").symlink_to(folder / "loop.json")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.json")).write_text("{}")
    (folder / "colon:v1.json").write_text("{}")
    listed = list_documents(str(folder))
    assert [Path(one.path).name for one in listed] == ["a.json", "inside.json"]
    assert next_offset(listed, START, None)["changed"] == max(one.changed for one in listed)


def test_a_document_that_is_taken_away_does_not_end_the_watch(tmp_path, monkeypatch):
    (tmp_path / "outside.json").symlink_to(Path(__file__))
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text("{}")
    asked: list[list[str]] = []
    reported: list[Summary] = []

    def load(spark, settings, paths, **_):
        asked.append(list(paths))
        if len(paths) == 2:
            raise SourceNotFound(paths[0], "nothing")
        return Summary(None, {}, {}, {}, {})

    def run(stream, load, *_, **__):
        batch = SimpleNamespace(collect=lambda: [{"path": str(tmp_path / name)} for name in ("a.json", "b.json", "gone.json")])
        load(batch, 0)
        load(batch, 1)

    monkeypatch.setattr(landing, "ingest", load)
    monkeypatch.setattr(landing, "run_stream", run)
    settings = read_settings(warehouse=str(tmp_path / "warehouse"))
    watch(MagicMock(), settings, Landing(str(tmp_path)), reported.append)
    assert asked == [[str(tmp_path / "a.json"), str(tmp_path / "b.json")], [str(tmp_path / "b.json")]] * 2
    hidden = [{Path(one.path).name for one in summary.hidden} for summary in reported]
    assert hidden == [{"a.json", "outside.json"}, {"a.json"}]  # what was reported once is not again


def test_a_document_with_an_old_date_is_seen(tmp_path):
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    new.write_text("{}")
    (before,) = list_documents(str(tmp_path))
    old.write_text("{}")
    os.utime(old, (1, 1))
    assert [one.path for one in list_documents(str(tmp_path)) if one.changed > before.changed] == [str(old)]


def test_a_folder_that_is_moved_in_is_seen_however_old_its_documents_are(tmp_path):
    folder, old = tmp_path / "landing", tmp_path / "team"
    (old / "deep").mkdir(parents=True)
    folder.mkdir()
    (folder / "b.json").write_text("{}")
    (folder / "sub").mkdir()
    (folder / "sub" / "c.json").write_text("{}")
    end, _ = offered(list_documents(str(folder)), START)
    end |= {"changed": end["changed"] + 2 * LOOK_BACK}  # as if a newer document had been seen
    (old / "deep" / "a.json").write_text("{}")
    assert offered(list_documents(str(folder)), end) == (end, [])
    old.rename(folder / "team")
    listed = list_documents(str(folder))
    end, paths = offered(listed, end)
    assert paths == [str(folder / "team" / "deep" / "a.json")]
    assert offered(listed, end) == (end, [])
    (folder / "sub").rename(folder / "renamed")
    end, paths = offered(list_documents(str(folder)), end)
    assert paths == [str(folder / "renamed" / "c.json")]


def test_a_folder_that_is_moved_in_is_shared_among_batches():
    moved = [FolderEntry(n + 1, f"{name}/{n}", name) for n in range(3) for name in ("x", "y")]
    start, _ = offered([FolderEntry(FAR, "a"), FolderEntry(FAR, "k/1", "k")], START)
    rest = [FolderEntry(FAR, "a"), FolderEntry(FAR, "k/1", "k")]
    end, batches = start, []
    for _ in range(3):
        start = end
        end, paths = offered([*moved, *rest], end, 2)
        batches.append(paths)
    assert batches == [["x/0", "x/1"], ["x/2", "y/0"], ["y/1", "y/2"]]
    # A folder that comes before a batch is repeated is of the next one.
    came = [FolderEntry(1, "w/1", "w"), *moved, *rest]
    assert [one.path for one in between(came, start, end)] == ["y/1", "y/2"]
    end, paths = offered(came, end, 2)
    assert paths == ["w/1"]
    assert offered(came, end, 2) == (end, [])


def test_what_changes_while_a_folder_is_shared_among_batches_comes_first():
    moved = [FolderEntry(n + 1, f"x/{n}", "x") for n in range(4)]
    end, _ = offered([FolderEntry(FAR, "a")], START)
    end, paths = offered([*moved, FolderEntry(FAR, "a")], end, 2)
    assert paths == ["x/0", "x/1"]
    found = [*moved, FolderEntry(2 * FAR, "a"), FolderEntry(2 * FAR, "b")]
    end, paths = offered(found, end, 2)
    assert paths == ["a", "b"]
    end, paths = offered(found, end, 2)
    assert paths == ["x/2", "x/3"]
    assert offered(found, end, 2) == (end, [])


def test_an_offset_of_an_earlier_release_offers_what_is_in_folders_once_more():
    found = [FolderEntry(1, "x/0", "x"), FolderEntry(FAR, "a")]
    earlier = {"changed": FAR, "seen": offered(found, START)[0]["seen"]}
    end, paths = offered(found, earlier)
    assert paths == ["x/0"]
    assert offered(found, end) == (end, [])


def document(**names):
    return {"messagegroups": {"g": {"messages": {name: {"name": text} for name, text in names.items()}}}}


@pytest.mark.slow
def test_a_landing_folder_day_by_day(catalog):
    watched = Landing(str(catalog.documents), available_now=True)

    def look():
        reported = []
        watch(catalog.spark, catalog.settings, watched, reported.append, registry_from="folder", request=IngestRequest())
        return [(one.snapshot_id, one.documents["read"], one.documents["unchanged"]) for one in reported]

    # Two documents, one below a folder that names its registry
    catalog.write("team/a.json", document(m="one"))
    catalog.write("b.json", document(n="one"))
    assert look() == [(1, 2, 0)]
    assert catalog.rows("SELECT registryid, xid FROM messages ORDER BY ALL") == [
        ("default", "/messagegroups/g/messages/n"),
        ("team", "/messagegroups/g/messages/m"),
    ]
    # Nothing new: no batch
    assert look() == []
    # One changed under its old name, with an old date
    os.utime(catalog.write("team/a.json", document(m="two")), (1, 1))
    ((snapshot, _, _),) = look()
    assert snapshot == 2
    assert catalog.rows("SELECT v.name FROM versions v WHERE registryid = 'team'") == ["two"]
    # The process died after the commit and before the stream noted it: the batch comes again and commits nothing
    commits = Path(checkpoint(catalog.settings, str(catalog.documents), "folder"), "commits")
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in (commits / str(last), commits / f".{last}.crc"):
        path.unlink(missing_ok=True)
    ((snapshot, read, unchanged),) = look()
    assert snapshot is None
    assert read == unchanged
    # The stream forgot all: everything is offered again and commits nothing
    shutil.rmtree(commits.parent)
    assert look() == [(None, 2, 2)]
