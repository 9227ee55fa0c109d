"""Queries that cannot be run: what is wrong is reported once, and in few words."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Catalog
from pyspark.sql import SparkSession
from soak.sessions import forget

from lakehouse.errors import QueryError
from lakehouse.query.sql import run_query


@pytest.fixture(scope="module")
def empty(spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    catalog = Catalog(spark, tmp_path_factory.mktemp("queries"))
    shutil.copytree(empty_warehouse, catalog.settings.warehouse)
    yield catalog
    forget(spark, Path(catalog.settings.warehouse))


@pytest.mark.parametrize(
    ("query", "reported"),
    [
        ("SELECT epoch FROM messages JOIN versions ON message_xid = messages.xid", "AMBIGUOUS_REFERENCE"),
        ("SELECT chain_state FROM message_chains", "UNRESOLVED_COLUMN"),
        ("SELECT * FORM messages", "SELECT * FORM messages\n--------------^^^"),
        ("SELECT * FROM nowhere", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT cast('x' AS INT) FROM messages", "CAST_INVALID_INPUT"),
        ("SELECT 1 / (id - 3) FROM range(9)", "DIVIDE_BY_ZERO"),
        ("SELECT (SELECT id FROM range(2))", "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
    ],
)
def test_what_is_wrong_with_a_query_is_reported_without_its_plan(empty, capfd, query, reported):
    with pytest.raises(QueryError) as refused:
        list(run_query(empty.spark, empty.settings, query).json_rows())
    text = str(refused.value)
    assert refused.value.exit_code == 2
    assert text.startswith("the query cannot be run: ")
    assert reported in text
    assert len(text) < 1000
    assert "+-" not in text
    assert capfd.readouterr().err == ""
