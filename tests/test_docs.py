"""The pages of docs/ that are told by the code are current."""

from __future__ import annotations

import pytest

from docs import DDL, DICTIONARY, DOCS, MATCH_DICTIONARY, PAGES, STATEMENTS, dictionary, match_dictionary


@pytest.mark.parametrize("page", PAGES)
def test_page_is_current(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement_is_current(statement):
    assert (DDL / statement).read_text(encoding="utf-8") == STATEMENTS[statement](), "run `make docs`"


def test_dictionary_is_current(spark):
    assert DICTIONARY.read_text(encoding="utf-8") == dictionary(spark), "run `make docs`"


@pytest.mark.slow
def test_dictionary_of_the_results_of_matching_is_current(catalog):
    assert MATCH_DICTIONARY.read_text(encoding="utf-8") == match_dictionary(catalog.spark, catalog.settings), "run `make docs`"
