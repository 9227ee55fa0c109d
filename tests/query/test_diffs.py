"""Differences between snapshots and between documents."""

from __future__ import annotations

import json

import pytest
from histories import shop

from lakehouse.cli.history import as_markdown
from lakehouse.query.differences import diff_documents, diff_files, diff_snapshots, read_differences
from lakehouse.query.sql import run_query
from lakehouse.store.deltatables import attach_tables

pytestmark = pytest.mark.slow


def test_an_edit_of_a_base_shows_in_every_message_that_extends_it(past):
    found = read_differences(diff_snapshots(past.spark, past.settings, 1, 2))
    required = {one.xid for one in found if one.rule == "required-attribute-added"}
    assert required == {"/messagegroups/base/messages/event", *(f"/messagegroups/g/messages/{m}" for m in "mno")}
    assert {one.rule for one in found if one.kind == "schemaversion"} == {"schema-document"}
    gone = read_differences(diff_snapshots(past.spark, past.settings, 2, 3))
    assert [one.xid for one in gone if one.rule == "message-removed"] == ["/messagegroups/g/messages/n"]


def test_the_view_gives_the_same_by_sql_but_for_what_is_in_schemas(past):
    query = "SELECT kind, class, count(*) AS n FROM snapshot_diff WHERE rule <> 'schema-document' GROUP BY ALL ORDER BY ALL"
    rows = [json.loads(row) for row in run_query(past.spark, past.settings, query, diff=("first", "head")).json_rows()]
    found = read_differences(diff_snapshots(past.spark, past.settings, 1, 3))
    found = [one for one in found if one.rule != "schema-document"]
    assert {(row["kind"], row["class"]): row["n"] for row in rows} == {
        (one.kind, one.class_): sum((other.kind, other.class_) == (one.kind, one.class_) for other in found) for one in found
    }


def test_documents_are_compared_without_being_loaded(past, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.json").write_text(json.dumps(shop(name, "m")))
    attach_tables(past.spark, past.settings, ["changes"])
    before = past.rows("SELECT max(snapshot_id) FROM xregistry.changes")
    sides = [[str(tmp_path / "one.json")], [str(tmp_path / "two.json")]]
    found = read_differences(diff_documents(past.spark, past.settings, *sides))
    assert found == diff_files(past.settings, sides[0][0], sides[1][0])
    assert {one.xid for one in found if one.rule == "required-attribute-added"} == {
        "/messagegroups/base/messages/event",
        "/messagegroups/g/messages/m",
    }
    assert past.rows("SELECT max(snapshot_id) FROM xregistry.changes") == before
    text = as_markdown(found, "one", "a|b <script>")
    assert "breaking**" in text
    assert "a\\|b &lt;script>" in text
    assert text.count("<details>") == text.count("</details>") == 2
