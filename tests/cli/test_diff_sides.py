"""What `diff` takes A and B for: snapshots by any of their names, or files and folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sitecatalogs import Catalog

GROUP = "/messagegroups/g/messages/"


def document(*messages: str) -> dict[str, object]:
    return {"messagegroups": {"g": {"messages": {message: {} for message in messages}}}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sides")
    catalog = Catalog(folder / "warehouse")
    catalog.ingest({"file:/a.json": ("default", document("a"))}, "rel/1")
    catalog.ingest({"file:/a.json": ("default", document("a", "b"))}, "rel/2")
    return folder


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of the command."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def changed(out: str) -> list[str]:
    return [difference["xid"].removeprefix(GROUP) for difference in json.loads(out) if not difference["pointer"]]


@pytest.mark.parametrize("sides", [("rel/1", "rel/2"), ("rel/1", "head"), ("1", "rel/2")], ids=" ".join)
def test_a_label_with_a_slash_is_a_snapshot(call, place, sides):
    ran = call(place, "diff", *sides, "--json")
    assert (ran.code, ran.err, changed(ran.out)) == (0, "", ["b"])


@pytest.mark.parametrize("sides", [("1", "2"), ("rel/1", "rel/2")], ids=" ".join)
def test_a_name_of_both_is_the_snapshot_and_a_note_names_the_file(call, place, folder, sides):
    (folder / "rel").mkdir()
    for side, message in zip(sides, "xy", strict=True):
        (folder / side).write_text(json.dumps(document(message)))
    ran = call(place, "diff", *sides, "--json")
    assert changed(ran.out) == ["b"]
    notes = [f"note: {side} is the snapshot of this name. For the file or folder write ./{side}" for side in sides]
    assert ran.err.splitlines() == notes
    ran = call(place, "diff", *(f"./{side}" for side in sides), "--json")
    assert (changed(ran.out), ran.err) == (["x", "y"], "")


@pytest.mark.parametrize("has_catalog", [True, False])
def test_other_names_are_files_and_folders(call, place, folder, has_catalog):
    (folder / "docs").mkdir()
    for name in ("9", "docs/new"):
        (folder / name).write_text(json.dumps(document(name[0])))
    ran = call(place if has_catalog else folder, "diff", "9", "docs/new", "--json")
    assert (ran.code, ran.err, changed(ran.out)) == (0, "", ["9", "d"])
    assert not (folder / "warehouse").exists()


def test_what_names_nothing_is_reported(call, place, folder):
    assert "'rel/3' names no snapshot" in call(place, "diff", "rel/1", "rel/3").err
    assert "docs/1: no such file or folder" in call(place, "diff", "docs/1", "docs/2").err
    (folder / "a.json").write_text(json.dumps(document("a")))
    for sides in (("rel/1", "a.json"), ("1", "./a.json")):
        ran = call(place, "diff", *sides)
        assert (ran.code, "must both be snapshots, or both files or folders" in ran.err) == (2, True), sides
