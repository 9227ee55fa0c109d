"""What is wrong with a call is reported before Spark starts: in these tests it cannot."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from called import Caller
from deltas import unpack
from warehouses import CHANGES, Written

from lakehouse.expectations import suiteruns
from lakehouse.store import session


class Started(Exception):
    """A session would have been started."""


@pytest.fixture(autouse=True)
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(settings: object) -> None:
        raise Started

    monkeypatch.setattr(session, "open_session", refuse)
    monkeypatch.setattr(suiteruns, "warm_up", lambda: None)
    for name in ("PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    unpack(folder)
    (folder / "events.jsonl").write_text("{}")
    (folder / "full").mkdir()
    (folder / "full" / "a.json").write_text("{}")
    (folder / "backup" / "manifests").mkdir(parents=True)
    (folder / "backup" / "manifests" / "backup-1.json").write_text("{}")
    return folder


WRONG: list[tuple[str, str]] = [
    ("ingest nosuchfolder", "nosuchfolder: no such file or folder"),
    ("ingest full nosuchfolder/*.json", "the glob matches nothing"),
    ("ingest nosuchfolder --watch", "no such file or folder"),
    ("ingest full --registry r --registry-from folder", "--registry and --registry-from exclude each other"),
    ("ingest full --label first", "label 'first' names snapshot 1 already"),
    ("sql x --at nolabel", "'nolabel' names no snapshot"),
    ("sql x --diff 1 9", "'9' names no snapshot"),
    ("validate --at nolabel", "names no snapshot"),
    ("validate --suite none", "no suite is called none"),
    ("serve-sql --at nolabel", "names no snapshot"),
    ("export --at nolabel", "names no snapshot"),
    ("export --registry none", "there is nothing in a registry 'none'. The catalog holds default."),
    ("export --select /messagegroups/none", "there is no group, endpoint, message or schema /messagegroups/none"),
    ("export --out full", "the folder is not empty"),
    ("export --out events.jsonl --split group", "it is a file, and a folder was asked for"),
    ("export --out events.jsonl/new.json", "cannot be written"),
    ("backup events.jsonl/new", "cannot be written"),
    ("backup events.jsonl", "it is a file, and a folder was asked for"),
    ("restore full", "full holds no backup"),
    ("restore backup", "holds a catalog already"),
    ("match ./nosuchfile.jsonl", "no such file or folder"),
    ("match events.jsonl --at nolabel", "names no snapshot"),
    ("match events.jsonl --group /messagegroups/none", "holds no message of such a group"),
    ("match events.jsonl --endpoint /endpoints/none", "holds no such endpoint"),
    ("match events.jsonl --registry none", "holds no message of such a registry"),
    ("match events.jsonl --results events.jsonl/x", "cannot be written"),
    ("render m --values table --format captured --out nofolder/y", "cannot be written"),
    ("diff ./none.json full", "no such file or folder"),
    ("label 9 x", "names no snapshot"),
]


@pytest.mark.parametrize(("command", "reported"), WRONG, ids=[command for command, _ in WRONG])
def test_a_wrong_call_is_reported_without_spark(golden: Path, call: Caller, monkeypatch, command: str, reported: str):
    monkeypatch.chdir(golden)
    ran = call(golden, *command.split())
    assert (ran.code in (1, 2), reported in ran.err, ran.out) == (True, True, ""), ran.err


RIGHT = [
    "ingest full", "ingest full/*.json", "ingest full --label second", "sql x --at first", "validate --suite versions",
    "export --at first", "export --out new/folder/", "export --out full --replace", "export --select /messagegroups/g/messages/m",
    "backup full", "match events.jsonl --endpoint /endpoints/e --registry default", "match a_table", "doctor",
    "diff full/*.json full", "migrate",
]  # fmt: skip


@pytest.mark.parametrize("command", RIGHT)
def test_a_call_that_is_right_gets_its_session(golden: Path, call: Caller, monkeypatch, command: str):
    monkeypatch.chdir(golden)
    ran = call(golden, *command.split())
    assert (ran.code, "Started" in ran.err) == (1, True), ran.err


@pytest.mark.parametrize(
    "command", ["sql x", "export", "validate", "doctor", "rebuild", "maintain", "backup b", "show m", "serve-sql", "migrate"]
)
def test_a_warehouse_that_does_not_exist_is_reported_with_the_way_to_make_it(tmp_path, call: Caller, monkeypatch, command: str):
    monkeypatch.chdir(tmp_path)
    ran = call(tmp_path, *command.split())
    assert ran.code == 1
    assert f"{tmp_path}/warehouse holds no catalog: the warehouse folder does not exist. `lakehouse --warehouse" in ran.err
    assert not (tmp_path / "warehouse").exists()


def test_an_empty_folder_is_not_made_a_catalog_by_migrate(tmp_path, call: Caller):
    (tmp_path / "warehouse").mkdir()
    ran = call(tmp_path, "migrate")
    assert (ran.code, "holds no catalog (no table changes)" in ran.err) == (1, True), ran.err
    assert list((tmp_path / "warehouse").iterdir()) == []


def test_several_registries_are_exported_into_a_folder_and_not_into_a_document(tmp_path, call: Caller, monkeypatch):
    written = Written(tmp_path / "warehouse", 1)
    written.head = 1
    rows = [written.row("group", "/messagegroups/g", "insert", {}) | {"registryid": one} for one in ("r", "s")]
    written.append("changes", pa.Table.from_pylist([*rows, written.snapshot()], CHANGES), None)
    monkeypatch.chdir(tmp_path)
    for command in ("export", "export --out all.json", "export --out new --select /messagegroups/g"):
        ran = call(tmp_path, *command.split())
        assert (ran.code, "the catalog holds several registries (r, s)" in ran.err) == (2, True), ran.err
    for command in ("export --out new", "export --out new/", "export --registry r"):
        assert "Started" in call(tmp_path, *command.split()).err


def test_a_wrong_call_has_figures_and_lines_for_machines_too(golden: Path, call: Caller, monkeypatch):
    monkeypatch.chdir(golden)
    ran = call(golden, "ingest", "nosuchfolder", "--log-json", "--metrics", "figures.txt")
    assert '"exit_code": 2' in ran.err.splitlines()[-1]
    assert "lakehouse_run_exit_code" in (golden / "figures.txt").read_text()
