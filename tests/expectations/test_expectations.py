"""Suites run by Great Expectations: rules over counts, tables in Spark, and what is never reported."""

from __future__ import annotations

import socket
from datetime import datetime
from typing import NamedTuple

import pytest

from lakehouse.errors import SettingsError
from lakehouse.expectations.suiteruns import check_expectations, specification, validate_counts, validate_rows
from lakehouse.expectations.suites import Expectation, Suite
from lakehouse.rules.findings import Count


class Rule(NamedTuple):
    id: str
    severity: str
    table: str = "messages"
    text: str = "A text."
    hint: str = "A hint."
    section: str = "3.1"


RULES = [Rule("MSG-001", "error"), Rule("MSG-002", "warning"), Rule("MSG-003", "info")]


def expectation(kind, name="n", severity="error", **kwargs):
    return Expectation(name, severity, "", severity == "error", {"type": kind, "kwargs": kwargs}, {})


def suite(*expectations, table="t"):
    return Suite("s", table, None, expectations)


# The specification


def test_a_rule_without_a_finding_holds_and_one_with_findings_does_not():
    counts = [Count("MSG-002", "warning", 7)]
    result = validate_counts(specification(RULES, counts), counts)
    assert [(one.expectation.name, one.success, one.unexpected) for one in result.outcomes] == [
        ("MSG-001", True, 0), ("MSG-002", False, 7), ("MSG-003", True, 0)]  # fmt: skip
    assert result.counts == {"error": 0, "warning": 1, "info": 0}


def test_the_requirement_and_its_section_stand_in_meta():
    (first, *_) = specification(RULES, []).expectations
    assert first.meta == {"requirement": "MSG-001", "table": "messages", "section": "3.1", "hint": "A hint."}
    assert (first.description, first.gates) == ("A text.", True)


def test_a_finding_of_another_severity_or_of_an_unknown_rule_is_not_left_out():
    counts = [Count("MSG-001", "warning", 2), Count("XXX-001", "error", 1)]
    result = validate_counts(specification(RULES, counts), counts)
    failed = {(one.expectation.name, one.expectation.severity, one.unexpected) for one in result.failed()}
    assert failed == {("MSG-001 (warning)", "warning", 2), ("XXX-001", "error", 1)}


def test_no_network_and_nothing_on_standard_output(monkeypatch, capfd):
    def refuse(*_):
        raise AssertionError("Great Expectations opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    validate_counts(specification(RULES, []), [])
    check_expectations(suite(expectation("unexpected_rows_expectation", unexpected_rows_query="SELECT 1")))
    assert capfd.readouterr() == ("", "")


# Expectations that are not understood


@pytest.mark.parametrize("kind", ["expect_no_such_thing", "expect_column_values_to_be_unique"])
def test_an_unknown_expectation_or_argument_is_a_wrong_setting(kind):
    with pytest.raises(SettingsError, match="suite s: expectation mine"):
        check_expectations(suite(expectation(kind, "mine", colum="xid")))


# Tables


@pytest.fixture(scope="module")
def result(spark):
    rows = spark.createDataFrame(
        [("/a", {"owner": "x"}, datetime(2026, 1, 1), 1), ("/b", {}, datetime(2025, 1, 1), None), ("/b", {}, None, 3)],
        "xid string, labels map<string,string>, modifiedat timestamp, epoch long",
    )
    query = "SELECT * FROM {batch} WHERE labels['owner'] IS NULL"
    return validate_rows(
        suite(
            expectation("expect_table_row_count_to_be_between", "rows", min_value=1),
            expectation("expect_column_values_to_be_unique", "unique", column="xid"),
            expectation("expect_column_values_to_not_be_null", "epochs", "warning", column="epoch"),
            expectation("unexpected_rows_expectation", "owner", unexpected_rows_query=query),
            expectation("expect_column_max_to_be_between", "fresh", "info", column="modifiedat",
                        min_value={"$PARAMETER": "now() - timedelta(days=1)"}),
            expectation("expect_column_distinct_values_to_be_in_set", "set", column="xid", value_set=["/a"]),
            expectation("expect_column_values_to_not_be_null", "typo", column="no_such_column"),
        ),
        rows,
    )  # fmt: skip


def test_native_expectations_run_in_spark(result):
    reported = {one.expectation.name: (one.success, one.unexpected, one.observed) for one in result.outcomes}
    assert reported == {
        "rows": (True, None, "3"),
        "unique": (False, 2, ""),
        "epochs": (False, 1, ""),
        "owner": (False, 2, "2"),
        "fresh": (False, None, reported["fresh"][2]),
        "set": (False, 1, ""),  # what was observed is a list of values
        "typo": (False, None, ""),
    }
    assert reported["fresh"][2].startswith("202")
    assert result.counts == {"error": 4, "warning": 1, "info": 1}


def test_an_expectation_that_cannot_be_checked_does_not_hold_and_says_why(result):
    errors = {one.expectation.name: one.error for one in result.outcomes if one.error}
    assert set(errors) == {"typo"}
    assert "no_such_column" in errors["typo"]


def test_no_value_of_a_row_is_reported(result):
    assert "/b" not in str([one for one in result.outcomes if not one.error])
