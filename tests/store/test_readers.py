"""Other readers of Delta tables see the rows that Spark sees: deltalake, DuckDB, Polars."""

from __future__ import annotations

import duckdb
import polars
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError

from lakehouse.store.deltatables import TABLES, attach_tables


@pytest.fixture(scope="module")
def spark_rows(past):
    """Return the rows of each table as Spark reads them, sorted."""
    attach_tables(past.spark, past.settings)
    return {name: sort([row.asDict(recursive=True) for row in past.spark.table(name).collect()]) for name in TABLES}


def plain(value):
    """Return a value as the readers agree on it: maps and their entries sorted, times in UTC without a zone."""
    if isinstance(value, dict):
        return sorted((key, plain(one)) for key, one in value.items())
    if isinstance(value, list):
        is_map = bool(value) and all(isinstance(one, tuple) for one in value)
        return sorted((key, plain(one)) for key, one in value) if is_map else [plain(one) for one in value]
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def sort(rows):
    return sorted([{name: plain(value) for name, value in row.items()} for row in rows], key=str)


@pytest.mark.slow
def test_deltalake_reads_every_table_as_spark_does(past, spark_rows):
    for name in TABLES:
        table = DeltaTable(f"{past.settings.warehouse}/{name}")
        assert table.protocol().min_reader_version == 1
        assert sort(table.to_pyarrow_table().to_pylist()) == spark_rows[name], name
        assert len(table.to_pandas()) == len(spark_rows[name])


@pytest.mark.slow
def test_duckdb_asks_the_same_questions(past, spark_rows):
    with duckdb.connect() as database:
        for name in ("messages", "versions", "endpoints"):
            database.register(name, DeltaTable(f"{past.settings.warehouse}/{name}").to_pyarrow_dataset())
        asked = (
            "SELECT m.messageid, v.name FROM messages AS m JOIN versions AS v ON v.message_xid = m.xid AND v.isdefault ORDER BY 1"
        )
        assert database.execute(asked).fetchall() == [tuple(row) for row in past.spark.sql(asked).collect()]
        assert database.execute("SELECT endpoints[1].uri FROM endpoints").fetchall() == [("mqtt://a",)]
        ((leaf,),) = database.execute(
            "SELECT attributes['/envelopemetadata/tenant/type'] FROM versions WHERE xid LIKE '%event%'"
        ).fetchall()
        assert leaf == '"string"'


@pytest.mark.slow
def test_polars_reads_the_log_and_an_older_version(past, spark_rows):
    log = polars.read_delta(f"{past.settings.warehouse}/changes")
    assert log.height == len(spark_rows["changes"])
    kinds = dict(log.group_by("kind").len().iter_rows())
    assert kinds["snapshot"] == 3
    assert polars.read_delta(f"{past.settings.warehouse}/messages", version=1).height == 4


def test_another_writer_is_refused(past):
    table = DeltaTable(f"{past.settings.warehouse}/messages")
    with pytest.raises((DeltaProtocolError, DeltaError)):
        table.delete("messageid = 'm'")
