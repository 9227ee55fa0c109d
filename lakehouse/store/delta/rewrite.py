"""Writes the rows of a small table anew in one transaction, for which Spark runs one query.

A MERGE looks for the files of the table and for the rows in them, and computes the state of the table again, in nine queries.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.store.delta.log import Files, last_transaction
from lakehouse.store.jvm import java_class

_DELTA = "org.apache.spark.sql.delta"


def rewrite(session: SparkSession, files: Files, rows: DataFrame, application: str, number: int) -> None:
    """Commit rows in place of all that a version of a table holds, as a transaction of an application.

    Where the table knows this transaction, or a later one of the application, it stays as it is, as with Delta's own commands.
    What the session tells its commits to say, this one says too; Delta's history calls it a WRITE that overwrites.

    Args:
        session: whose settings count.
        files: of the version that the rows were made of.
        rows: the table's columns.
        application: its name.
        number: of the transaction.

    Raises:
        Py4JJavaError: somebody else committed to the table meanwhile (`conflicts.is_conflict`).
    """
    jvm: Any = session._jvm
    option = java_class(jvm, "scala.Option")
    if last_transaction(files.version, application) >= number:
        return
    with _active(session):
        transaction = files.version.deltaLog().startTransaction(option.empty(), option.apply(files.version))
        transaction.readTxn().addOne(application)
        transaction.readWholeTable()
        actions = transaction.writeFiles(rows._jdf)
        for file in files.added():
            actions = actions.appended(file.remove())
        known = java_class(jvm, f"{_DELTA}.actions.SetTransaction")(
            application, number, option.apply(time.time_ns() // 1_000_000)
        )
        transaction.commit(actions.appended(known), _overwrite(jvm))


def _overwrite(jvm: Any) -> Any:
    """Give what Delta's history says of the commit."""
    mode = java_class(jvm, "org.apache.spark.sql.SaveMode").Overwrite
    return java_class(jvm, f"{_DELTA}.DeltaOperations$Write")(mode, *[java_class(jvm, "scala.Option").empty()] * 8)


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """Let a session be the one whose settings Delta asks for in this thread."""
    sessions = java_class(session._jvm, "org.apache.spark.sql.classic.SparkSession")
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
