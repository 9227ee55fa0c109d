"""Tables of results that an older or a newer version made; what of them Spark is not needed for."""

from __future__ import annotations

import pytest

from lakehouse.errors import SettingsError, WarehouseTooNew
from lakehouse.match.conformance import TABLES, check_name, missing_columns
from lakehouse.settings import data_folder


@pytest.mark.parametrize("table", TABLES)
def test_an_older_table_gets_the_columns_that_have_come_since(table):
    statement = (data_folder("ddl") / "match" / f"{table}.sql").read_text(encoding="utf-8")
    missing = missing_columns(statement, [], table)
    names = [text.split("`")[1] for text in missing]
    assert (len(names), names[0]) == (statement.count(" COMMENT '"), "run_id")
    assert missing_columns(statement, names, table) == []
    assert missing_columns(statement, names[:-1], table) == [missing[-1]]
    assert missing[-1].startswith(f"`{names[-1]}` ")
    assert missing[-1].endswith("'")


def test_a_table_of_a_newer_version_is_refused():
    statement = (data_folder("ddl") / "match" / "match_runs.sql").read_text(encoding="utf-8")
    with pytest.raises(WarehouseTooNew, match="columns of a newer version: mood"):
        missing_columns(statement, ["run_id", "mood"], "conformance.match_runs")


@pytest.mark.parametrize("name", ["xregistry", "XRegistry_at_1", "a-b", "1a", "", "a.b", "a" * 64])
def test_names_that_are_refused(name):
    with pytest.raises(SettingsError):
        check_name(name)
