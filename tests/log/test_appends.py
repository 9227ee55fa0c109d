"""What is appended to the log, by small work in one transaction of Delta's: it is in the log wholly, once, or not at all."""

from __future__ import annotations

import pytest
from queries import executions

from lakehouse.errors import CommitLost
from lakehouse.log.commits import CommitInfo, Label, commit_label, read_head
from lakehouse.store.deltatables import attach_tables
from lakehouse.store.internals import deltalog
from lakehouse.store.session import without_codegen
from lakehouse.store.tablelog import metadata_of_appends


@pytest.fixture(params=["small", "large"])
def log(request, catalog):
    """Return what appends a name for the newest snapshot, planned against a head, as small or as large work."""
    attach_tables(catalog.spark, catalog.settings)

    def append(name, head=None):
        head = head or read_head(catalog.spark)
        with without_codegen(catalog.spark, request.param == "small"):
            return commit_label(catalog.spark, head, Label(name, 1), CommitInfo(f"run of {name}", "label", {}))

    return append


def labels(catalog):
    return sorted(catalog.rows("SELECT xid, snapshot_id FROM xregistry.changes WHERE kind = 'label'"))


def test_appends_follow_each_other(catalog, log):
    log("a")
    assert log("b") == read_head(catalog.spark)
    assert labels(catalog) == [("a", 1), ("b", 2)]
    assert [reported["ingest_id"] for reported in metadata_of_appends(catalog.spark, "changes")] == ["run of b", "run of a"]
    history = catalog.spark.sql("DESCRIBE HISTORY xregistry.changes").orderBy("version").collect()
    assert [(row["operation"], row["operationParameters"].get("mode")) for row in history[1:]] == [("WRITE", "Append")] * 2


def test_who_planned_against_an_older_head_appends_nothing(catalog, log):
    head = read_head(catalog.spark)
    log("theirs", head)
    with pytest.raises(CommitLost):
        log("ours", head)
    assert labels(catalog) == [("theirs", 1)]


def test_a_small_append_is_one_query(catalog):
    attach_tables(catalog.spark, catalog.settings)
    with without_codegen(catalog.spark, True):
        before = executions(catalog.spark)
        commit_label(catalog.spark, read_head(catalog.spark), Label("a", 1), CommitInfo("run", "label", {}))
        assert executions(catalog.spark) - before == 1


def test_of_two_that_meet_the_second_is_refused(catalog, log, monkeypatch):
    genuine = deltalog._transaction_action

    def overtaken(*args):
        monkeypatch.setattr(deltalog, "_transaction_action", genuine)
        log("theirs")
        return genuine(*args)

    monkeypatch.setattr(deltalog, "_transaction_action", overtaken)
    with without_codegen(catalog.spark, True), pytest.raises(CommitLost):
        commit_label(catalog.spark, read_head(catalog.spark), Label("ours", 1), CommitInfo("run of ours", "label", {}))
    assert labels(catalog) == [("theirs", 1)]


@pytest.mark.slow
def test_a_log_that_somebody_set_up_otherwise_is_appended_to(catalog, log):
    log("0")
    statements = ["ADD COLUMNS (owner STRING)", "ADD CONSTRAINT theirs CHECK (snapshot_id > 0)", "SET TBLPROPERTIES (a = 'b')"]
    for number, statement in enumerate(statements, 1):
        catalog.spark.sql(f"ALTER TABLE xregistry.changes {statement}")
        log(str(number))
        assert labels(catalog) == [(str(name), name + 1) for name in range(number + 1)], statement
