"""Data Docs: counts, everything escaped, nothing from another host."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from pathlib import Path

import pytest

from lakehouse.expectations.suiteruns import Outcome, SuiteResult, render_pages, write_pages
from lakehouse.expectations.suites import Expectation, Suite
from lakehouse.settings import read_settings

HOSTILE = "<script>alert('x')</script>&\"<img src=http://other.example/x>"
AT = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def outcome(name, *, success=True, severity="error", unexpected=0, observed="", error="", **meta):
    expectation = Expectation(name, severity, meta.pop("description", "Asked."), True, {"type": "expect_x", "kwargs": {}}, meta)
    return Outcome(expectation, success, unexpected, observed, error)


def result(*outcomes, name="messages", table="messages"):
    return SuiteResult(Suite(name, table, None, tuple(one.expectation for one in outcomes)), outcomes)


def test_a_page_a_suite_and_one_that_leads_to_them():
    pages = render_pages("Snapshot 1", [result(outcome("a")), result(outcome("b"), name="house", table="versions")], AT)
    assert set(pages) == {"index.html", "suites/messages.html", "suites/house.html"}
    assert re.findall('href="(.*?)"', pages["index.html"]) == ["suites/messages.html", "suites/house.html"]
    assert "Snapshot 1, validated 2026-03-01 12:00:00 UTC" in pages["index.html"]


def test_what_does_not_hold_stands_first_the_worst_at_the_top():
    page = render_pages(
        "Snapshot 1",
        [
            result(
                outcome("fine"), outcome("mild", success=False, severity="info"), outcome("bad", success=False, unexpected=1234)
            )
        ],
        AT,
    )["suites/messages.html"]
    assert page.index(">bad<") < page.index(">mild<") < page.index(">fine<")
    assert "1,234" in page
    assert "1 broken expectation of severity error" in page


def test_the_first_page_says_what_is_counted():
    page = render_pages("Snapshot 1", [result(outcome("fine"))], AT)["index.html"]
    assert "what is published breaks no expectation of severity error or warning" in page
    assert "What documents were refused for is not published, and so\nnot counted here: <code>lakehouse violations</code>" in page


def test_everything_is_escaped_and_nothing_is_loaded():
    hostile = outcome(HOSTILE, success=False, observed=HOSTILE, error=HOSTILE, description=HOSTILE, hint=HOSTILE, section=HOSTILE)
    pages = render_pages(HOSTILE, [result(hostile, outcome("n", unexpected=None, observed=HOSTILE), table=HOSTILE)], AT)
    for page in pages.values():
        assert "<script" not in page
        assert "<img" not in page
        assert not re.search(r"<[^>]*(?:src|href)=[\"']?(?:https?:)?//", page)
        assert "default-src 'none'" in page
        assert set(re.findall(r"(?i)<(link|script|img|iframe|object|embed)\b", page)) == set()


def test_why_an_expectation_could_not_be_checked_is_not_on_the_page():
    page = render_pages("s", [result(outcome("a", success=False, error="CAST_INVALID_INPUT 'secret'"))], AT)
    assert "could not be checked" in page["suites/messages.html"]
    assert "secret" not in page["suites/messages.html"]


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_pages_are_written_below_the_warehouse_over_those_of_the_run_before(spark, tmp_path, scheme):
    settings = read_settings(warehouse=f"{scheme}{tmp_path}/with space")
    folder = Path(tmp_path, "with space", "_data_docs")
    write_pages(spark, settings, "Snapshot 1", [result(outcome("a"), name="gone")])
    first = write_pages(spark, settings, "Snapshot 2", [result(outcome("a"))])
    assert first.endswith("with space/_data_docs/index.html")
    assert sorted(str(file.relative_to(folder)) for file in folder.rglob("*.*")) == ["index.html", "suites/messages.html"]
    assert "Snapshot 2" in (folder / "index.html").read_text()
