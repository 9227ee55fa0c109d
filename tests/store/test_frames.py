"""Frames that are kept: few rows are in the driver, and what is known of them takes no query."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from chispa import assert_df_equality
from pyspark.sql import functions as F
from queries import executions

from lakehouse.store.materialize import count, count_if, hand_over, is_empty, is_known_empty, materialize, no_rows
from lakehouse.store.session import without_codegen

TYPES = "n int, told map<string,string>, one struct<a: string, b: array<int>>, at timestamp, raw binary, yes boolean"
ROWS = [
    (
        1,
        {"a": "b", "c": None},
        ("x", [1, None]),
        datetime(1, 2, 3, 4, 5, 6, 7, tzinfo=timezone.utc),
        bytearray(b"\x00\xff"),
        True,
    ),
    (2, {}, (None, []), datetime(2026, 1, 1, tzinfo=timezone.utc), None, None),
    (3, None, None, None, None, False),
]


def compiling(spark):
    """Open a session that compiles what it runs, as work that is not small does; that of the tests interprets it."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "true")
    session.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
    return session


@pytest.mark.parametrize("small", [True, False])
def test_what_is_kept_is_what_was_there(spark, small):
    session = spark if small else compiling(spark)
    with without_codegen(spark, True):
        frame = session.createDataFrame(ROWS, TYPES).repartition(3)
        kept = materialize(frame)
        assert kept.schema == frame.schema
        # As text: some of the dates are before what Python makes of them.
        reported = ["n", "CAST(told AS STRING)", "CAST(one AS STRING)", "CAST(at AS STRING)", "hex(raw)", "yes"]
        assert_df_equality(kept.selectExpr(*reported), frame.selectExpr(*reported), ignore_row_order=True)
        both = kept.alias("a").join(kept.alias("b"), on="n")
        assert both.count() == 3


def test_what_is_known_of_few_rows_takes_no_query(spark):
    with without_codegen(spark, True):
        kept = materialize(spark.createDataFrame(ROWS, TYPES))
        before = executions(spark)
        few = kept.filter("n > 1").select("n", F.size("told").alias("size"))
        assert (count(few), is_empty(few), is_known_empty(few), is_empty(few.filter("n = 9"))) == (2, False, False, True)
        assert count_if(kept, {"true": F.col("yes"), "large": F.col("n") > 1, "none": F.col("n") > 9}) == {
            "true": 1, "large": 2, "none": 0,
        }  # fmt: skip
        assert is_known_empty(kept.filter("n > 9"))
        again = materialize(few)
        other = hand_over(again, spark.newSession())
        assert executions(spark) == before
        assert other.sparkSession._jsparkSession != spark._jsparkSession
        assert sorted(row["n"] for row in other.collect()) == [2, 3]


def test_what_is_not_at_hand_is_asked_for_where_that_pays(spark):
    large = compiling(spark)
    frame = large.createDataFrame(ROWS, TYPES).repartition(2)
    assert (is_empty(frame), count(frame), is_known_empty(frame.filter("n > 9"))) == (False, 3, True)
    assert count_if(frame, {"large": F.col("n") > 1}) == {"large": 2}
    with without_codegen(spark, True):
        frame = spark.createDataFrame(ROWS, TYPES).repartition(2).groupBy("n").count()
        assert (is_known_empty(frame.filter("n > 9")), is_empty(frame.filter("n > 9"))) == (False, True)


def test_what_has_no_rows_takes_no_query(spark):
    with without_codegen(spark, True):
        kept = materialize(spark.createDataFrame(ROWS, TYPES))
        before = executions(spark)
        nothing = no_rows(spark, kept.schema)
        assert nothing.schema == kept.schema
        assert is_empty(nothing)
        assert is_empty(kept.join(nothing.select("n"), on="n"))
        assert count(materialize(nothing.unionByName(kept))) == len(ROWS)
        assert executions(spark) == before
