"""The pages of docs/ that are reported by the code are current."""

from __future__ import annotations

import re

import pytest

from docs import DDL, DICTIONARY, DOCS, MATCH_DICTIONARY, PAGES, STATEMENTS, dictionary, match_dictionary
from lakehouse.store.schema import DECLARATIONS


@pytest.mark.parametrize("page", PAGES)
def test_page_is_current(page):
    assert (DOCS / page).read_text(encoding="utf-8") == PAGES[page](), "run `make docs`"


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement_is_current(statement):
    assert (DDL / statement).read_text(encoding="utf-8") == STATEMENTS[statement](), "run `make docs`"


def test_dictionary_has_each_column_with_its_comment():
    """Without Spark, which alone knows the types of views."""
    row = r"(?m)^  \('(\w+)', '(?:table|view)', (\d+), '(\w+)', '.*?', '(.*)'\),?$"
    listed = re.findall(row, DICTIONARY.read_text(encoding="utf-8"))
    written = [
        (name, str(position), column.name, column.metadata["comment"])
        for name, table in DECLARATIONS.items()
        for position, column in enumerate(table.columns, 1)
    ]
    for path in sorted((DDL / "views").glob("*.sql")):
        head = path.read_text(encoding="utf-8").partition("\nAS\n")[0]
        columns = re.findall(r"(?m)^  (\w+)(?: COMMENT '(.*)')?,?$", head)
        written += [(path.stem, str(position), *column) for position, column in enumerate(columns, 1)]
    assert sorted(listed) == sorted((*row[:3], row[3].replace("\\'", "'").replace("'", "\\'")) for row in written)


@pytest.mark.slow
def test_dictionary_is_current(spark):
    assert DICTIONARY.read_text(encoding="utf-8") == dictionary(spark), "run `make docs`"


@pytest.mark.slow
def test_dictionary_of_the_results_of_matching_is_current(catalog):
    assert MATCH_DICTIONARY.read_text(encoding="utf-8") == match_dictionary(catalog.spark, catalog.settings), "run `make docs`"
