"""Delta tables that stay open: brought forward, and opened again where another table has replaced them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from deltalake import CommitProperties, write_deltalake
from warehouses import Written, definitions_as_table

from lakehouse.errors import WarehouseError
from lakehouse.readmodel.file.delta import Warehouse, recorded_position, row_count, statistics
from lakehouse.settings import read_settings


def tables_of(folder: Path) -> Warehouse:
    return Warehouse(str(folder), read_settings(warehouse=str(folder)))


def of(table) -> tuple[str, int, int | None]:
    return str(table.metadata().id), table.version(), row_count(statistics(table))


@pytest.fixture
def written(tmp_path):
    found = Written(tmp_path / "w", 1)
    found.commit()
    return found


def test_a_table_is_brought_forward_by_its_new_commits(written):
    tables = tables_of(written.folder)
    kept = tables.newest("changes")
    for act in (written.commit, lambda: None, written.commit, written.maintain, written.checkpoint, written.commit):
        act()
        assert tables.newest("changes") is kept
        assert of(kept) == of(tables.open("changes"))


def test_a_table_that_was_written_here_is_known_without_a_look(written):
    """Who appends has brought the table forward by that."""
    tables = tables_of(written.folder)
    kept = tables.newest("changes")
    write_deltalake(kept, written.table("changes").to_pyarrow_table(), mode="append")
    assert tables.newest("changes") is kept
    assert of(kept) == of(tables.open("changes"))


@pytest.mark.parametrize("commits", [1, 2, 4])
def test_another_table_at_its_place_is_opened_anew(tmp_path, written, commits):
    """Whether it is behind, as far, or ahead."""
    written.commit()
    tables = tables_of(written.folder)
    kept = tables.newest("changes")
    other = Written(tmp_path / "other", 2)
    for _ in range(commits):
        other.commit()
    shutil.rmtree(written.folder)
    shutil.copytree(other.folder, written.folder)
    found = tables.newest("changes")
    assert found is not kept
    assert of(found) == of(other.table("changes"))


def test_a_table_that_was_set_back_and_went_on_is_opened_anew(tmp_path, written):
    shutil.copytree(written.folder, tmp_path / "backup")
    written.commit()
    tables = tables_of(written.folder)
    tables.newest("changes")
    shutil.rmtree(written.folder)
    shutil.copytree(tmp_path / "backup", written.folder)
    again = Written(written.folder, 3)
    again.head, again.digest = 1, "x"
    again.commit()
    again.commit()
    assert of(tables.newest("changes")) == of(tables.open("changes"))


def test_a_table_that_is_gone_is_reported_and_found_when_it_is_there_again(tmp_path, written):
    tables = tables_of(written.folder)
    tables.newest("changes")
    written.folder.rename(tmp_path / "away")
    with pytest.raises(WarehouseError, match="no catalog"):
        tables.newest("changes")
    (tmp_path / "away").rename(written.folder)
    assert of(tables.newest("changes")) == of(tables.open("changes"))


def test_a_position_is_found_however_many_commits_came_since(written):
    written.commit()
    written.project()
    before = written.table("effective_messages").version()
    for number in range(80):
        reported = CommitProperties(custom_metadata={"userMetadata": json.dumps({"who": number})})
        write_deltalake(written.table("effective_messages"), definitions_as_table([]), mode="append", commit_properties=reported)
    table = written.table("effective_messages")
    assert recorded_position(table) == (written.projected, False)
    assert recorded_position(table, before) == (written.projected, True)
    assert recorded_position(table, table.version()) == (written.projected, True)


@pytest.mark.parametrize(("job", "plain"), [("project", True), ("rebuild", False), ("by hand", False)])
def test_a_small_table_that_is_written_whole_is_followed_by_its_new_rows(written, job, plain):
    written.commit()
    written.project()
    before = written.table("effective_messages").version()
    reported = json.dumps({"snapshot_id": written.projected + 1, "job": job})
    properties = CommitProperties(custom_metadata={"userMetadata": reported})
    write_deltalake(written.table("effective_messages"), definitions_as_table([]), mode="overwrite", commit_properties=properties)
    position = written.projected + (job != "by hand")
    assert recorded_position(written.table("effective_messages"), before) == (position, plain)
