"""Commits that another one was quicker than, in whatever form Python sees them."""

from __future__ import annotations

import pytest
from pyspark.sql.readwriter import DataFrameWriter

from lakehouse.errors import CommitLost
from lakehouse.log.commits import _HEAD_MEMBERS, CommitInfo, _append
from lakehouse.store.schema import CHANGES
from lakehouse.store.tablelog import CONFLICTS, is_conflict

FORMS = ["itself", "in a thread of its own", "as the cause of an error of Spark"]


def thrown(spark, form, exception):
    """Let Java throw an exception in one of the forms in which Delta's conflicts come; give what Python sees."""
    jvm = spark._jvm
    if form == "in a thread of its own":
        exception = jvm.java.util.concurrent.ExecutionException(exception)
    elif form == "as the cause of an error of Spark":
        exception = jvm.java.lang.IllegalArgumentException("the write failed", exception)
    try:
        jvm.scala.util.Failure(exception).get()
    except Exception as error:
        return error


@pytest.mark.parametrize("form", FORMS)
def test_a_conflict_is_known_in_every_form(spark, form):
    for conflict in CONFLICTS:
        java = getattr(spark._jvm.io.delta.exceptions, conflict.__name__)("another commit was quicker")
        assert is_conflict(thrown(spark, form, java)), conflict
    assert not is_conflict(thrown(spark, form, spark._jvm.java.io.IOException("no space left")))
    assert not is_conflict(ValueError("io.delta.exceptions.ConcurrentAppendException"))


@pytest.mark.parametrize("form", FORMS)
def test_a_commit_that_was_overtaken_is_lost_and_not_failed(spark, form, monkeypatch):
    jvm = spark._jvm
    nothing = spark.createDataFrame([], CHANGES)

    def committed(exception):
        def fail(writer, name):
            raise thrown(spark, form, exception)

        monkeypatch.setattr(DataFrameWriter, "saveAsTable", fail)
        return _append(spark, 1, nothing, dict.fromkeys(_HEAD_MEMBERS), CommitInfo("i", "ingest", {}))

    with pytest.raises(CommitLost):
        committed(jvm.io.delta.exceptions.ConcurrentTransactionException("quicker"))
    with pytest.raises(Exception, match=r"no space left|the write failed") as failed:
        committed(jvm.java.io.IOException("no space left"))
    assert not isinstance(failed.value, CommitLost)
