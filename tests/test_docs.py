"""The pages of docs/ that are told by the code are current."""

from __future__ import annotations

import pytest

from docs import (
    COMPATIBILITY_VIEW,
    DICTIONARY,
    DOCS,
    MATCH_DICTIONARY,
    PAGES,
    TABLE_STATEMENTS,
    compatibility_view,
    dictionary,
    match_dictionary,
    table_statement,
)
from lakehouse.store.tables import TABLES


@pytest.mark.parametrize("page", PAGES)
def test_page_is_current(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


def test_the_view_of_compatibility_rules_is_current():
    assert COMPATIBILITY_VIEW.read_text(encoding="utf-8") == compatibility_view(), "run `make docs`"


@pytest.mark.parametrize("name", TABLES)
def test_the_statement_of_a_table_is_current(name):
    assert (TABLE_STATEMENTS / f"{name}.sql").read_text(encoding="utf-8") == table_statement(name), "run `make docs`"


def test_dictionary_is_current(spark):
    assert DICTIONARY.read_text(encoding="utf-8") == dictionary(spark), "run `make docs`"


def test_dictionary_of_the_results_of_matching_is_current(catalog):
    assert MATCH_DICTIONARY.read_text(encoding="utf-8") == match_dictionary(catalog.spark, catalog.settings), "run `make docs`"
