"""Suites as files: the shipped ones, the user's over them, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from lakehouse.errors import SettingsError
from lakehouse.expectations.suiteruns import check_expectations
from lakehouse.expectations.suites import SPECIFICATION, choose_suites, read_suites
from lakehouse.settings import read_settings
from lakehouse.store.schema import ENTITY_TABLES


def expectation(name, kind="expect_column_values_to_not_be_null", severity="error", **more):
    return {"type": kind, "kwargs": {"column": "xid"}, "meta": {"name": name, "severity": severity, **more}}


@pytest.fixture
def folder(tmp_path):
    def write(file, *expectations, **meta):
        (tmp_path / f"{file}.json").write_text(json.dumps({"name": file, "expectations": expectations, "meta": meta}))
        return read_suites(read_settings(expectations_dir=str(tmp_path)))

    return write


SHIPPED = read_suites(read_settings())


def test_each_entity_table_and_the_log_have_a_suite():
    assert set(SHIPPED) == {table.name for table in ENTITY_TABLES} | {"changes", "match_runs"}
    assert [suite.name for suite in SHIPPED.values() if suite.optional] == ["match_runs"]


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_suite_is_understood_and_reports_each_expectation_in_words(name):
    suite = SHIPPED[name]
    check_expectations(suite)
    assert all(one.description for one in suite.expectations)
    kinds = {one.config["type"] for one in suite.expectations}
    assert "expect_table_row_count_to_be_between" in kinds


@pytest.mark.parametrize("page", ["docs/validation.md", "expectations/README.md"])
def test_the_examples_of_the_pages_are_suites(page, tmp_path):
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    examples = re.findall("```json\\n(.*?)```", text, re.DOTALL)
    for example in examples:
        name = json.loads(example)["name"]
        (tmp_path / f"{name}.json").write_text(example)
        check_expectations(read_suites(read_settings(expectations_dir=str(tmp_path)))[name])
    assert examples


def test_shipped_expectations_do_not_run_at_ingest():
    assert [suite.name for suite in SHIPPED.values() if suite.gate.expectations] == []


def test_a_suite_of_the_users_is_added_to_the_shipped_one(folder):
    messages = folder("messages", expectation("mine"), expectation("xid_is_there", severity="warning"))["messages"]
    severities = {one.name: one.severity for one in messages.expectations}
    assert severities["mine"] == "error"
    assert severities["xid_is_there"] == "warning"
    assert set(severities) == {one.name for one in SHIPPED["messages"].expectations} | {"mine"}


def test_a_suite_of_the_users_replaces_the_shipped_one_when_it_says_so(folder):
    assert [one.name for one in folder("messages", expectation("mine"), replaces=True)["messages"].expectations] == ["mine"]


def test_a_suite_may_have_a_name_of_its_own_and_a_query(folder):
    suite = folder("house", expectation("mine"), table="versions", query="SELECT xid FROM schemas")["house"]
    assert (suite.table, suite.query) == ("versions", "SELECT xid FROM schemas")
    assert {"versions", "schemas"} <= suite.words
    assert "messages" not in suite.words


def test_only_errors_that_are_always_checked_stop_an_ingest(folder):
    suite = folder(
        "house", expectation("a"), expectation("b", severity="warning"), expectation("c", when="validate"), table="versions"
    )["house"]
    assert [one.name for one in suite.gate.expectations] == ["a"]


def test_an_expectation_without_meta_is_an_error_named_after_what_it_checks(folder):
    suite = folder("house", {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "xid"}}, table="schemas")["house"]
    assert [(one.name, one.severity) for one in suite.expectations] == [("expect_column_values_to_be_unique(xid)", "error")]


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("{", "house.json: "),
        ('{"name": "other", "expectations": []}', "called like its file"),
        ('{"name": "house"}', "expectations: Field required"),
        ('{"name": "house", "expectations": [{"type": "x", "meta": {"severity": "fatal"}}]}', "expectations.0.meta.severity"),
        ('{"name": "house", "expectations": [], "meta": {"table": "a; b"}}', "meta.table"),
        ('{"name": "house", "expectations": [{"type": "x"}, {"type": "x"}]}', "two expectations are called 'x'"),
    ],
)
def test_a_file_that_is_no_suite_is_reported_with_its_name(tmp_path, text, reported):
    (tmp_path / "house.json").write_text(text)
    with pytest.raises(SettingsError, match=r"house\.json") as raised:
        read_suites(read_settings(expectations_dir=str(tmp_path)))
    assert reported in str(raised.value)


def test_the_suite_of_the_rules_is_not_to_be_written(folder):
    with pytest.raises(SettingsError, match="made from the rules"):
        folder(SPECIFICATION)


def test_a_folder_that_is_not_there_is_reported():
    with pytest.raises(SettingsError, match="expectations_dir"):
        read_suites(read_settings(expectations_dir="/no/such/folder"))


def test_suites_are_chosen_by_name():
    assert set(choose_suites(SHIPPED, [])) == set(SHIPPED)
    assert set(choose_suites(SHIPPED, ["messages", SPECIFICATION])) == {"messages"}
    with pytest.raises(SettingsError, match="no suite is called mesages"):
        choose_suites(SHIPPED, ["mesages"])
