"""Doctor, rebuild, backups: damage is found, named with the command that fixes it, and fixed by it."""

from __future__ import annotations

import json
import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from histories import contents

from lakehouse.cli import operators
from lakehouse.cli.console import Context
from lakehouse.errors import BackupError, WarehouseError
from lakehouse.log.snapshots import open_snapshot
from lakehouse.operations.backups import Manifest, backup, parse_manifest, read_manifest, restore
from lakehouse.operations.doctor import diagnose
from lakehouse.operations.rebuild import rebuild_tables
from lakehouse.settings import read_settings
from lakehouse.store.deltatables import TABLES, create_tables, forget_table
from lakehouse.store.files import read_text, replace_text, write_text
from lakehouse.store.internals.hadoop import HadoopFileSystem


def problems(catalog, *, deep=False):
    """Return what the doctor finds: check, table and the command."""
    found = diagnose(catalog.spark, catalog.settings, deep=deep)
    return {(one.check, one.table): one.fix for one in found if one.state != "ok"}


def folder(catalog, table):
    return Path(catalog.settings.warehouse) / table


def commits(catalog, table):
    return sorted((folder(catalog, table) / "_delta_log").glob("*.json"))


def without_checksums(path):
    """Take away what the local filesystem knows of a file, as object stores do not have it."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.slow
def test_a_sound_warehouse_is_reported_so_and_a_rebuilt_one_is_the_same(history, loaded_history):
    assert problems(history, deep=True) == {}
    history.spark.sql("DELETE FROM versions WHERE name = 'three'")
    history.spark.sql("UPDATE groups SET name = 'by hand'")
    assert set(problems(history, deep=True)) == {
        ("against the log", "versions"),
        ("against the log", "groups"),
        ("default Versions", "versions"),  # it was the default of its message
        ("against flattening", "effective_messages"),
    }
    rebuild_tables(history.spark, history.settings)
    assert problems(history, deep=True) == {}
    assert contents(history, "xregistry") == loaded_history[1][3]
    reported = [row["userMetadata"] for row in history.spark.sql("DESCRIBE HISTORY versions").collect()]
    assert reported[0] == '{"snapshot_id": 3, "job": "rebuild"}'


@pytest.mark.slow
def test_effective_messages_are_compared_with_flattening_and_made_anew(history):
    assert problems(history) == {}
    history.spark.sql("DELETE FROM xregistry.effective_messages")
    assert set(problems(history)) == {("against messages", "effective_messages")}
    rebuild_tables(history.spark, history.settings)
    assert problems(history, deep=True) == {}
    history.spark.sql("UPDATE effective_messages SET name = 'by hand'")
    assert problems(history, deep=True)[("against flattening", "effective_messages")] == "`lakehouse rebuild`"
    last = commits(history, "effective_messages")[-1]
    last.write_bytes(b"")
    without_checksums(last)
    assert ("Delta log", "effective_messages") in problems(history)
    assert "effective_messages" in rebuild_tables(history.spark, history.settings)
    assert problems(history, deep=True) == {}
    names = {row["name"] for row in history.spark.sql("SELECT name FROM effective_messages").collect()}
    assert names
    assert "by hand" not in names


@pytest.mark.slow
def test_rows_of_a_table_that_are_lost_are_an_error_that_a_rebuild_fixes(history):
    create_tables(history.spark, history.settings)
    history.spark.sql("DELETE FROM messages")
    rows = [(one.state, one.fix) for one in diagnose(history.spark, history.settings) if one.table == "messages"]
    assert ("error", "`lakehouse rebuild`") in rows
    assert {state for state, _ in rows} == {"ok", "error"}
    rebuild_tables(history.spark, history.settings)
    assert problems(history) == {}


@pytest.mark.slow
def test_rows_of_the_log_that_are_lost_altered_or_added_are_found(history):
    create_tables(history.spark, history.settings)
    history.spark.sql("ALTER TABLE changes SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    history.spark.sql("UPDATE changes SET body = '{}' WHERE kind = 'label'")
    history.spark.sql("DELETE FROM changes WHERE snapshot_id = 2 AND kind = 'version'")
    found = [one.found for one in diagnose(history.spark, history.settings) if one.check == "digests"]
    assert [one for one in found if "facts or labels of snapshot 1" in one]
    assert [one for one in found if "snapshot 2 has" in one]
    assert ("definition", "changes") in problems(history)


@pytest.mark.slow
def test_a_lost_end_of_the_log_is_found(history):
    commits(history, "changes")[-1].unlink()
    found = problems(history)
    assert "restore" in found[("Delta log", "changes")]
    assert "restore" in found[("against the log", "messages")]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["empty", "truncated"])
def test_a_damaged_last_commit_of_a_table_is_found_and_rebuilt(history, loaded_history, damage):
    last = commits(history, "versions")[-1]
    last.write_bytes(b"" if damage == "empty" else last.read_bytes()[:40])
    without_checksums(last)
    assert any(table == "versions" and "rebuild" in mend for (_, table), mend in problems(history).items())
    rebuild_tables(history.spark, history.settings)
    assert problems(history, deep=True) == {}
    assert contents(history, "xregistry") == loaded_history[1][3]


@pytest.mark.slow
def test_a_flipped_bit_in_a_data_file_is_found_and_rebuilt(history, loaded_history):
    for file in folder(history, "versions").glob("*.parquet"):
        content = bytearray(file.read_bytes())
        content[content.index(b"/messagegroups") + 3] ^= 0x10
        file.write_bytes(bytes(content))
        without_checksums(file)
    assert ("against the log", "versions") in problems(history, deep=True)
    rebuild_tables(history.spark, history.settings)
    assert problems(history, deep=True) == {}
    assert contents(history, "xregistry") == loaded_history[1][3]


@pytest.mark.slow
def test_nothing_is_rebuilt_from_a_log_that_cannot_be_read(history):
    last = commits(history, "changes")[-1]
    last.write_bytes(last.read_bytes()[:40])
    without_checksums(last)
    before = sorted(Path(history.settings.warehouse).rglob("*"))
    with pytest.raises(WarehouseError, match=r"the log cannot be read: .* `lakehouse restore DIR`"):
        rebuild_tables(history.spark, history.settings)
    assert sorted(Path(history.settings.warehouse).rglob("*")) == before


@pytest.mark.slow
def test_a_backup_grows_by_what_came_and_is_restored_as_it_was(history, loaded_history, tmp_path):
    place = str(tmp_path / "backup")
    first = backup(history.spark, history.settings, place)
    assert backup(history.spark, history.settings, place) == first
    history.write("b.json", {"messagegroups": {"later": {"messages": {"m": {}}}}})
    history.ingest(history.documents / "b.json")
    second = backup(history.spark, history.settings, place)
    assert (first.snapshot_id, second.snapshot_id, len(second.parts)) == (3, 4, 2)
    with pytest.raises(BackupError, match="a catalog already"):
        restore(history.spark, history.settings, place)
    before = contents(history, "xregistry")

    shutil.rmtree(history.settings.warehouse)  # all is lost; the session forgets it too
    for name in TABLES:
        forget_table(history.spark, name)
    restore(history.spark, history.settings, place)
    assert sorted(Path(history.settings.warehouse).rglob("*")) == before
    counts = "SELECT (SELECT count(*) FROM xregistry.effective_messages) = (SELECT count(*) FROM xregistry.messages)"
    assert history.rows(counts) == [True]
    assert contents(history, open_snapshot(history.spark, history.settings, 2)) == loaded_history[1][2]
    assert problems(history, deep=True) == {}
    history.write("c.json", {"messagegroups": {"later": {"messages": {"n": {}}}}})
    assert history.ingest(history.documents / "c.json").snapshot_id == 5


def test_folders_of_warehouses_and_backups_may_have_names_that_hadoop_takes_for_globs(bare_catalog, empty_warehouse, tmp_path):
    catalog, place = bare_catalog, tmp_path / "w[1] {a,b}"
    shutil.copytree(empty_warehouse, place)
    catalog.settings = read_settings(warehouse=str(place))
    catalog.write("a.json", {"messagegroups": {"g": {"messages": {"m": {}}}}})
    assert catalog.ingest().snapshot_id == 1
    catalog.write("b.json", {"messagegroups": {"g": {"messages": {"n": {}}}}})
    assert catalog.ingest().snapshot_id == 2
    assert backup(catalog.spark, catalog.settings, str(tmp_path / "b[1] {a,b}")).snapshot_id == 2


def test_a_manifest_that_was_cut_off_counts_for_nothing_though_hadoop_has_its_checksum(spark, tmp_path):
    for snapshot_id in (1, 2):
        text = json.dumps(Manifest(snapshot_id, "d").as_json(), indent=1)
        write_text(spark, f"{tmp_path}/manifests/backup-{snapshot_id:09}.json", text)
    assert read_manifest(spark, str(tmp_path)).snapshot_id == 2
    os.truncate(tmp_path / "manifests" / "backup-000000002.json", 60)
    assert read_manifest(spark, str(tmp_path)).snapshot_id == 1


def test_a_file_that_is_replaced_is_the_former_one_until_the_new_one_is_whole(spark, tmp_path, monkeypatch):
    file = tmp_path / "a.json"
    write_text(spark, str(file), "one")
    with monkeypatch.context() as patched:
        patched.setattr(HadoopFileSystem, "rename", lambda *_: False)
        with pytest.raises(WarehouseError, match="could not be renamed"):
            replace_text(spark, str(file), "two, and more")
    assert read_text(spark, str(file)) == "one"
    replace_text(spark, str(file), "two, and more")
    assert read_text(spark, str(file)) == "two, and more"
    assert list(tmp_path.glob(".*")) == []


def test_of_a_catalog_without_snapshots_nothing_is_backed_up(catalog, tmp_path):
    assert backup(catalog.spark, catalog.settings, str(tmp_path / "backup")) == Manifest()
    assert not (tmp_path / "backup").exists()


def test_a_backup_of_no_snapshot_is_reported_as_none(monkeypatch, tmp_path, capsys):
    @contextmanager
    def session(*_, **__):
        yield None, read_settings(warehouse=str(tmp_path)), MagicMock()

    monkeypatch.setattr(operators, "session", session)
    operators._report_backup(Context(), "b", lambda *_: Manifest(), "Backup of snapshots 1 to {} in {}", makes_catalog=False)
    assert capsys.readouterr().out == f"{tmp_path} holds no snapshot: there is nothing to back up.\n"


@pytest.mark.attack
def test_a_damaged_backup_is_refused_and_a_cut_off_manifest_passed_over(history, tmp_path):
    place = tmp_path / "backup"
    backup(history.spark, history.settings, str(place))
    (place / "manifests" / "backup-000000009.json").write_text('{"snapshot_id": 9, "dig')
    assert backup(history.spark, history.settings, str(place)).snapshot_id == 3
    part = next(place.glob("parts/changes-*"))
    rows = history.spark.read.parquet(str(part)).filter("kind <> 'group'")
    rows.write.parquet(str(tmp_path / "fewer"))
    shutil.rmtree(part)
    shutil.move(tmp_path / "fewer", part)
    with pytest.raises(BackupError, match="not what was committed"):
        restore(history.spark, read_settings(warehouse=str(tmp_path / "elsewhere")), str(place))


@pytest.mark.attack
@pytest.mark.parametrize(
    "wrong",
    [
        {"parts": ["../../elsewhere/changes-000000001-000000003-00000000"]},
        {"parts": ["/etc"]},
        {"parts": ["*"]},
        {"parts": ["{changes,violations}-000000001-000000003-00000000"]},
        {"parts": ["changes-000000001-000000003-00000000/.."]},
        {"parts": ["changes-000000001-000000003-00000000\n"]},
        {"parts": ["file:/etc"]},
        {"parts": [7]},
        {"parts": "changes-000000001-000000003-00000000"},
        {"parts": None},
        {"findings": ["../x"]},
        {"findings": ["changes-000000001-000000003-00000000"]},
        {"snapshot_id": "3"},
        {"snapshot_id": True},
        {"snapshot_id": -1},
        {"digest": 5},
        {"rows": 1e400},
        {"schema_version": "1"},
        {"schema_version": 99},
        {"more": 1},
    ],
)
def test_a_manifest_that_no_backup_wrote_is_refused(wrong):
    whole = Manifest(3, "d", ["changes-000000001-000000003-00000000"], ["violations-000000003-00000000"], 9, 1).as_json()
    assert parse_manifest(json.dumps(whole), "x.json").snapshot_id == 3
    with pytest.raises(BackupError, match=r"x\.json (is not a manifest|was made by a newer release)"):
        parse_manifest(json.dumps(whole | wrong), "x.json")


@pytest.mark.attack
@pytest.mark.parametrize("text", ["[]", "null", "7", "{}", '"x"'])
def test_whole_json_that_is_no_manifest_is_refused(text):
    with pytest.raises(BackupError, match="is not a manifest"):
        parse_manifest(text, "x.json")


def test_parts_that_are_missing_linked_damaged_or_too_few_are_refused(history, tmp_path):
    place = tmp_path / "backup"
    backup(history.spark, history.settings, str(place))
    kept = tmp_path / "kept"
    shutil.copytree(place, kept)
    elsewhere = read_settings(warehouse=str(tmp_path / "elsewhere"))
    part = next(path.name for path in place.glob("parts/changes-*"))
    manifest = next(kept.glob("manifests/*.json"))

    def linked(at):
        shutil.rmtree(at)
        at.symlink_to(kept / "parts" / part)

    def damaged(at):
        for file in at.glob("*.parquet"):
            file.write_bytes(b"PAR1" + b"x" * 100 + b"PAR1")
        for file in at.glob(".*.crc"):
            file.unlink()

    def more_findings(at):
        reported = json.loads(manifest.read_text())
        (place / "manifests" / manifest.name).write_text(
            json.dumps(reported | {"findings_count": reported["findings_count"] + 1})
        )

    for spoil, reported in (
        (shutil.rmtree, "does not hold changes-"),
        (linked, "is a link"),
        (damaged, "cannot be read"),
        (more_findings, "findings instead of"),
    ):
        shutil.rmtree(place)
        shutil.copytree(kept, place)
        spoil(place / "parts" / part)
        with pytest.raises(BackupError, match=reported):
            restore(history.spark, elsewhere, str(place))
        assert not (tmp_path / "elsewhere").exists()
