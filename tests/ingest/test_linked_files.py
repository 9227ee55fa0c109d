"""Links in a SOURCE: those that stay in it are followed, those that lead out of it are not read."""

from __future__ import annotations

import pytest

from lakehouse.ingest.sources import LEADS_OUT, leads_out, look_into

pytestmark = pytest.mark.attack


def uri(path):
    return f"file:{path}"


def test_links_that_lead_out_of_a_folder_are_not_read(tmp_path):
    folder, outside = tmp_path / "docs", tmp_path / "outside"
    (folder / "team").mkdir(parents=True)
    outside.mkdir()
    for file in (folder / "team" / "own.json", outside / "secret.json", outside / "secret.txt"):
        file.write_text("{}")
    (folder / "secret.json").symlink_to(outside / "secret.json")
    (folder / "team" / "deep.json").symlink_to("../../outside/secret.json")
    (folder / "twice.json").symlink_to("secret.json")  # a link to a link
    (folder / "all").symlink_to(outside)
    (folder / "above").symlink_to("..")
    (folder / "read.me").symlink_to(outside / "secret.txt")  # no document: nobody would read it
    (folder / "inner.json").symlink_to("team/own.json")
    inside = look_into(uri(folder))
    assert inside.files == [uri(folder / "inner.json"), uri(folder / "team" / "own.json")]
    refused = [folder / name for name in ("above", "all", "secret.json", "team/deep.json", "twice.json")]
    assert inside.hidden == [(str(path), LEADS_OUT) for path in refused]
    assert inside.closed == [uri(path) for path in refused]  # nothing of them counts as vanished
    assert not inside.is_tree  # Spark would follow them


def test_a_folder_as_kubernetes_mounts_it_is_read(tmp_path):
    folder = tmp_path / "mounted"
    (folder / "..2026_11_25").mkdir(parents=True)
    (folder / "..2026_11_25" / "a.json").write_text("{}")
    (folder / "..data").symlink_to("..2026_11_25")
    (folder / "a.json").symlink_to("..data/a.json")
    assert look_into(uri(folder)).files == [uri(folder / "a.json")]
    (tmp_path / "linked").symlink_to("mounted")  # the SOURCE itself may be a link
    assert look_into(uri(tmp_path / "linked")).files == [uri(tmp_path / "linked" / "a.json")]


def test_what_a_glob_finds_is_held_to_its_folder(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.json").write_text("{}")
    (tmp_path / "secret.json").write_text("{}")
    (tmp_path / "docs" / "out.json").symlink_to("../secret.json")
    root = uri(tmp_path / "docs")
    assert [leads_out(uri(tmp_path / "docs" / name), root) for name in ("a.json", "out.json")] == [False, True]
    assert not leads_out("s3a://bucket/a.json", "s3a://bucket")
