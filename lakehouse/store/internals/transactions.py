"""Writes rows of small work in one transaction of Delta's, for which Spark runs one query.

A MERGE looks for the files of the table and for the rows in them, and computes the state of the table again, in nine queries. An
append that is a transaction has that state computed too, for the transactions in it, which the checksum of the version has.
Their public ways are Spark's writer and a MERGE: callers take these where `newest_version` and `current_files` return None.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.store.internals.deltalog import Files, last_transaction_of
from lakehouse.store.internals.jvm import java_class

_DELTA = "org.apache.spark.sql.delta"


def append(session: SparkSession, version: Any, rows: DataFrame, application: str, number: int, told: str) -> None:
    """Append rows to a table, as a transaction of an application.

    Where the table knows this transaction, or a later one of the application, it stays as it is, as with Delta's own writer.

    Args:
        session: whose settings count.
        version: Delta's own object for the newest version of the table.
        rows: the table's columns.
        application: its name.
        number: of the transaction.
        told: what the commit says of itself, as user metadata.

    Raises:
        Py4JJavaError: somebody else committed a transaction of the application meanwhile (`conflicts.is_conflict`).
    """
    if last_transaction_of(version, application) >= number:
        return
    with _begun(session, version, application) as transaction:
        actions = transaction.writeFiles(rows._jdf)
        transaction.commit(actions.appended(_known(session, application, number)), _write(session, "Append", told))


def rewrite(session: SparkSession, files: Files, rows: DataFrame, application: str, number: int) -> None:
    """Commit rows in place of all that a version of a table holds, as a transaction of an application.

    Where the table knows this transaction, or a later one of the application, it stays as it is, as with Delta's own commands.
    The user metadata of the session's commits is also this one's; Delta's history calls it a WRITE that overwrites.

    Args:
        session: whose settings count.
        files: of the version that the rows were made of.
        rows: the table's columns.
        application: its name.
        number: of the transaction.

    Raises:
        Py4JJavaError: somebody else committed to the table meanwhile (`conflicts.is_conflict`).
    """
    if last_transaction_of(files.version, application) >= number:
        return
    with _begun(session, files.version, application) as transaction:
        transaction.readWholeTable()
        actions = transaction.writeFiles(rows._jdf)
        for file in files.added():
            actions = actions.appended(file.remove())
        transaction.commit(actions.appended(_known(session, application, number)), _write(session, "Overwrite"))


@contextmanager
def _begun(session: SparkSession, version: Any, application: str) -> Iterator[Any]:
    """Begin a transaction on a version, of an application whose other transactions are in conflict with it."""
    option = java_class(session._jvm, "scala.Option")
    with _active(session):
        transaction = version.deltaLog().startTransaction(option.empty(), option.apply(version))
        transaction.readTxn().addOne(application)
        yield transaction


def _known(session: SparkSession, application: str, number: int) -> Any:
    """Return Delta's action that records the transaction in the table."""
    now = java_class(session._jvm, "scala.Option").apply(time.time_ns() // 1_000_000)
    return java_class(session._jvm, f"{_DELTA}.actions.SetTransaction")(application, number, now)


def _write(session: SparkSession, mode: str, told: str | None = None) -> Any:
    """Return what Delta's history shows of the commit."""
    jvm: Any = session._jvm
    option = java_class(jvm, "scala.Option")
    parameters = [option.empty(), option.empty(), option.apply(told), *[option.empty()] * 5]
    saved = getattr(java_class(jvm, "org.apache.spark.sql.SaveMode"), mode)
    return java_class(jvm, f"{_DELTA}.DeltaOperations$Write")(saved, *parameters)


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """Make a session the active one, whose settings Delta reads in this thread."""
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
