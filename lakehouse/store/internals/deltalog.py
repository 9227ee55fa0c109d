"""Delta's own objects for the log of a table, out of the JVM; in their place Delta's Python API, or the log's files.

Rows of small work are written in one transaction, for which Spark runs one query.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from delta.tables import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.store.internals.hadoop import filesystem_of
from lakehouse.store.internals.jvm import is_connect, java_class, uses_internals
from lakehouse.store.localpaths import no_glob

_PLAIN = re.compile(r"[\w.-]+")
_COMMIT = re.compile(r"/(\d{20})\.json\Z")
_CHECKPOINT = re.compile(r"/(\d{20})\.checkpoint(\.\d+\.\d+)?\.parquet\Z")
_FILE = "struct<path: string, size: bigint, stats: string, clusteringProvider: string>"
_ACTIONS = f"add {_FILE}, remove struct<path: string>, txn struct<appId: string, version: bigint>"


def newest_version(spark: SparkSession, location: str) -> Any | None:
    """Return Delta's own object for the newest version of a table; None without internals."""
    if not uses_internals(spark):
        return None
    nothing = java_class(_jvm(spark), "scala.Option").empty()
    return _delta_log(spark, location).update(False, nothing, nothing)


def table_property(spark: SparkSession, location: str, key: str) -> str | None:
    """Return a property of a table; None: it has none of that name."""
    newest = newest_version(spark, location)
    if newest is None:
        properties = _detail(spark, location).select("properties").collect()[0][0]
        return None if key not in properties else str(properties[key])
    result = newest.metadata().configuration().get(key)
    return str(result.get()) if result.isDefined() else None


def table_bytes(spark: SparkSession, location: str) -> int:
    """Return the size of a table's files, in bytes; Delta's checksum of the version mostly says it without a query."""
    newest = newest_version(spark, location)
    if newest is None:
        return int(_detail(spark, location).select("sizeInBytes").collect()[0][0])
    details = newest.checksumOpt()  # `sizeInBytesIfKnown` computes all that is known of a version that this session committed
    return int(details.get().tableSizeBytes() if details.isDefined() else newest.sizeInBytes())


class Files(NamedTuple):
    """The files that hold a table's rows.

    Attributes:
        locations: where they are.
        columns: of their rows.
        version: Delta's own object for the version of the table.
    """

    locations: list[str]
    columns: StructType
    version: Any

    def added(self) -> list[Any]:
        """Return Delta's own objects for the files."""
        return _members(self.version.checksumOpt().get().allFiles().get())

    def property(self, key: str) -> str | None:
        """Return a property of the table at this version."""
        result = self.version.metadata().configuration().get(key)
        return str(result.get()) if result.isDefined() else None


def current_files(spark: SparkSession, location: str) -> Files | None:
    """Return the files of a table's newest version, as the checksum names them that Delta writes with a commit, up to 50.

    Returns:
        None without internals, where there is no such checksum, where rows are not read from files as they are, or where names
        need care.
    """
    newest = newest_version(spark, location)
    if newest is None:
        return None
    details = newest.checksumOpt()
    if newest.protocol().minReaderVersion() > 1 or not details.isDefined() or not details.get().allFiles().isDefined():
        return None
    paths = [str(file.path()) for file in _members(details.get().allFiles().get())]
    if not all(map(_PLAIN.fullmatch, paths)) or len(paths) != details.get().numFiles():
        return None
    columns = StructType.fromJson(json.loads(newest.schema().json()))
    return Files([f"{location}/{path}" for path in paths], columns, newest)


def last_transaction(spark: SparkSession, location: str, application: str) -> int:
    """Return the last transaction of an application that a table knows, 0 before the first; one that is set back keeps it."""
    newest = newest_version(spark, location)
    if newest is not None:
        return last_transaction_of(newest, application)
    result = _actions(spark, location).filter(F.col("txn.appId") == application).agg(F.max("txn.version")).collect()[0][0]
    return int(result or 0)


def last_transaction_of(version: Any, application: str) -> int:
    """Return the last transaction of an application that a version of a table knows, as Delta's own object says."""
    details = version.checksumOpt()
    if (
        details.isDefined() and details.get().setTransactions().isDefined()
    ):  # else Delta computes all that is known of the version
        every = _members(details.get().setTransactions().get())
        return next((int(transaction.version()) for transaction in every if transaction.appId() == application), 0)
    recorded = version.transactions().get(application)
    return int(recorded.get()) if recorded.isDefined() else 0


def live_files(spark: SparkSession, location: str) -> DataFrame:
    """Read the files of a table's newest version: among the columns path, size, stats and clusteringProvider."""
    newest = newest_version(spark, location)
    if newest is not None:
        return DataFrame(newest.allFiles().toDF(), spark)
    actions = _actions(spark, location).filter("add IS NOT NULL OR remove IS NOT NULL")
    # A version that removes a file and adds it again has it: it says so by the later member of a pair.
    last = F.max_by("add", F.struct("version", F.col("add").isNotNull())).alias("last")
    return actions.groupBy(F.coalesce("add.path", "remove.path")).agg(last).filter("last IS NOT NULL").select("last.*")


def add_statistics(spark: SparkSession, location: str) -> bool:
    """Add Delta's statistics to files that another writer left without; return False without internals: there is no other way."""
    if not uses_internals(spark):
        return False
    session: Any = spark
    collection = java_class(_jvm(spark), "org.apache.spark.sql.delta.stats.StatisticsCollection")
    collection.recompute(
        session._jsparkSession,
        _delta_log(spark, location),
        java_class(_jvm(spark), "scala.Option").empty(),
        getattr(collection, "recompute$default$4")(),
        getattr(collection, "recompute$default$5")(),
    )
    return True


def forget_table(spark: SparkSession, schema: str, name: str) -> None:
    """Take a table whose folder is gone or broken out of the session's catalog and of Delta's memory, without a look at it."""
    if not uses_internals(spark):
        spark.sql(f"DROP TABLE IF EXISTS {schema}.{name}")
        return
    session: Any = spark
    session._jsparkSession.sharedState().externalCatalog().dropTable(schema, name, True, False)
    java_class(_jvm(spark), "org.apache.spark.sql.delta.DeltaLog").clearCache()


def _detail(spark: SparkSession, location: str) -> DataFrame:
    """Return what Delta says of a table in one row; its Python API has no such method on the client of a Connect server."""
    if is_connect(spark):
        path = location.replace("`", "``")
        return spark.sql(f"DESCRIBE DETAIL delta.`{path}`")
    return DeltaTable.forPath(spark, location).detail()


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm


def _delta_log(spark: SparkSession, location: str) -> Any:
    session: Any = spark
    return java_class(_jvm(spark), "org.apache.spark.sql.delta.DeltaLog").forTable(session._jsparkSession, location)


def _members(sequence: Any) -> list[Any]:
    """Return the members of a sequence of Scala's."""
    left = sequence.iterator()
    results = []
    while left.hasNext():
        results.append(left.next())
    return results


def _actions(spark: SparkSession, location: str) -> DataFrame:
    """Read what Delta's log holds of files and transactions, from its newest checkpoint on, with the version of each.

    What a checkpoint holds has the version of the commit before those that follow it.
    """
    folder = f"{location}/_delta_log"
    uris = [entry.uri for entry in filesystem_of(spark, folder).members(folder)]
    parts = {uri: int(match[1]) for uri in uris if (match := _CHECKPOINT.search(uri))}
    start = max(parts.values(), default=-1)
    commits = [uri for uri in uris if (match := _COMMIT.search(uri)) and int(match[1]) > start]
    of_file = F.regexp_extract(F.col("_metadata.file_path"), r"/(\d{20})\.[^/]*\z", 1).cast("bigint").alias("version")
    read = spark.createDataFrame([], f"{_ACTIONS}, version bigint")
    if commits:
        read = read.unionByName(spark.read.schema(_ACTIONS).json([no_glob(uri) for uri in commits]).select("*", of_file))
    if newest := [uri for uri, version in parts.items() if version == start]:
        read = read.unionByName(spark.read.schema(_ACTIONS).parquet(*map(no_glob, newest)).select("*", of_file))
    return read


_DELTA = "org.apache.spark.sql.delta"


def create(spark: SparkSession, location: str, actions: Sequence[str], checksum: str) -> bool:
    """Write the first commit of a table; one that somebody else wrote meanwhile remains.

    Args:
        spark: the session, whose settings say how commits reach the store.
        location: of the table.
        actions: of the commit; JSON.
        checksum: of the version, which Delta reads in place of the commit; JSON.

    Returns:
        False where nothing is written: without internals, or where there are files below the folder.

    Raises:
        Py4JJavaError: it cannot be written.
    """
    filesystem = filesystem_of(spark, location)
    if not uses_internals(spark) or (filesystem.exists(location) and any(filesystem.files_below(location))):
        return False
    log = _delta_log(spark, location)
    filesystem.make_folder(str(log.logPath()))

    def write(suffix: str, lines: Sequence[str], *, overwrite: bool) -> None:
        path = java_class(_jvm(spark), "org.apache.hadoop.fs.Path")(log.logPath(), f"{0:020}.{suffix}")
        texts = java_class(_jvm(spark), "org.apache.spark.api.python.PythonUtils").toSeq(list(lines)).iterator()
        log.store().write(path, texts, overwrite, log.newDeltaHadoopConf())

    try:
        write("json", actions, overwrite=False)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "java.nio.file.FileAlreadyExistsException":
            raise
    else:
        write("crc", [checksum], overwrite=True)  # as what is no commit, which stores for several writers keep account of
    return True


def append(session: SparkSession, version: Any, rows: DataFrame, application: str, number: int, message: str) -> None:
    """Append rows to a table, as a transaction of an application.

    Where the table knows this transaction, or a later one of the application, it stays as it is, as with Delta's own writer.

    Args:
        session: whose settings count.
        version: Delta's own object for the newest version of the table.
        rows: the table's columns.
        application: its name.
        number: of the transaction.
        message: what the commit says of itself, as user metadata.

    Raises:
        Py4JJavaError: somebody else committed a transaction of the application meanwhile (`tablelog.is_conflict`).
    """
    if last_transaction_of(version, application) >= number:
        return
    with _begun(session, version, application) as transaction:
        actions = transaction.writeFiles(rows._jdf)
        transaction.commit(
            actions.appended(_transaction_action(session, application, number)), _write(session, "Append", message)
        )


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
        Py4JJavaError: somebody else committed to the table meanwhile (`tablelog.is_conflict`).
    """
    if last_transaction_of(files.version, application) >= number:
        return
    with _begun(session, files.version, application) as transaction:
        transaction.readWholeTable()
        actions = transaction.writeFiles(rows._jdf)
        for file in files.added():
            actions = actions.appended(file.remove())
        transaction.commit(actions.appended(_transaction_action(session, application, number)), _write(session, "Overwrite"))


@contextmanager
def _begun(session: SparkSession, version: Any, application: str) -> Iterator[Any]:
    """Begin a transaction on a version, of an application whose other transactions are in conflict with it."""
    option = java_class(session._jvm, "scala.Option")
    with _active(session):
        transaction = version.deltaLog().startTransaction(option.empty(), option.apply(version))
        transaction.readTxn().addOne(application)
        yield transaction


def _transaction_action(session: SparkSession, application: str, number: int) -> Any:
    """Return Delta's action that records the transaction in the table."""
    now = java_class(session._jvm, "scala.Option").apply(time.time_ns() // 1_000_000)
    return java_class(session._jvm, f"{_DELTA}.actions.SetTransaction")(application, number, now)


def _write(session: SparkSession, mode: str, message: str | None = None) -> Any:
    """Return what Delta's history shows of the commit."""
    jvm: Any = session._jvm
    option = java_class(jvm, "scala.Option")
    parameters = [option.empty(), option.empty(), option.apply(message), *[option.empty()] * 5]
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
