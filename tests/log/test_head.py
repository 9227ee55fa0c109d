"""The head is reported by its commit, whoever else commits to the log meanwhile."""

from __future__ import annotations

import json

import pytest
from histories import shop

from lakehouse.log.commits import read_head
from lakehouse.store.deltatables import table_name
from lakehouse.store.tablelog import metadata_of_appends


def asked(spark):
    """Return the newest snapshot as the table reports it."""
    rows = spark.sql("SELECT snapshot_id, body FROM xregistry.changes WHERE kind = 'snapshot' ORDER BY snapshot_id DESC LIMIT 1")
    [row] = rows.collect()
    reported = json.loads(row["body"])
    return row["snapshot_id"], reported["digest"], reported["tables"], reported["deletions"], reported["committed_at"]


def head(spark):
    found = read_head(spark)
    return found.snapshot_id, found.digest, found.tables, found.deletions, found.committed_at.isoformat()


@pytest.fixture(scope="module")
def attached(past):
    """A catalog that nothing new was ingested into, so that its tables are attached; each test leaves it with a head."""
    past.ingest()
    return past.spark


def test_the_head_is_what_the_table_says(attached):
    spark = attached
    assert next(metadata_of_appends(spark, "changes"))["snapshot_id"] == 3
    assert head(spark) == asked(spark)


@pytest.mark.slow
@pytest.mark.parametrize("words", ["", "by hand", "[1]", '{"snapshot_id": 9, "command": "theirs"}'])
def test_an_append_of_somebody_else_is_looked_at(attached, words):
    spark = attached
    row = spark.table(table_name("changes")).filter("kind = 'group'").limit(1)
    writer = row.write.format("delta").mode("append")
    (writer.option("userMetadata", words) if words else writer).saveAsTable(table_name("changes"))
    assert head(spark) == asked(spark)


def test_a_log_of_an_older_release_is_asked(attached, monkeypatch):
    from lakehouse.log import commits

    monkeypatch.setattr(commits, "metadata_of_appends", lambda *_: iter([{"snapshot_id": 3, "command": "ingest"}]))
    assert head(attached) == asked(attached)


@pytest.mark.slow
def test_optimize_that_began_before_a_commit_reports_no_older_head(history):
    spark = history.spark
    reported = next(metadata_of_appends(spark, "changes")) if history.ingest() else {}
    history.write("a.json", shop("four", "m", "o"))
    history.ingest()
    spark.conf.set("spark.databricks.delta.commitInfo.userMetadata", json.dumps(reported))
    try:
        spark.sql(f"OPTIMIZE {table_name('changes')}")
    finally:
        spark.conf.unset("spark.databricks.delta.commitInfo.userMetadata")
    assert head(spark)[0] == 4
    assert head(spark) == asked(spark)
