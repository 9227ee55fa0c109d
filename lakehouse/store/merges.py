"""Brings rows into a table of entities, one row for each key; a table that is not small begins as files by key.

Ten thousand rows are in each of these files, so a query by key opens few, and a MERGE of some rows rewrites few. `maintain` lays
out what comes later.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from delta.tables import DeltaTable
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.store.deltatables import read_files, table_name
from lakehouse.store.internals.deltalog import Files, rewrite
from lakehouse.store.materialize import is_local, materialize, size_of
from lakehouse.store.session import is_without_codegen
from lakehouse.store.tablelog import current_files, first_transaction, table_bytes, transaction_of, write_options

_LARGE_TABLE = 64 << 20  # bytes
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"
FILE_BYTES = 4 << 20  # of a table that OPTIMIZE lays out
_SMALL_LOG = 4 << 20  # bytes: no table is worth an order then
_FEW_ROWS = 20_000  # that are not worth an order
_FEW_BYTES = 32 << 20  # of rows that are sent to all tasks
_ROWS_OF_A_FILE = 10_000  # which a MERGE rewrites whole; more where there would be many files
_MOST_ROWS_OF_A_FILE = 40_000  # rewritten in about a second
_MANY_FILES = 25
_MOST_FILES = 200
_SAMPLED = 100  # keys for each file
_BETWEEN = "\0"  # comes before all that an id may hold


class Ends(NamedTuple):
    """The first and the last registryid and xid of rows, and the newest snapshot_id of them, where they have one."""

    registryid: tuple[str, str]
    xid: tuple[str, str]
    newest: int | None


def ends_of(session: SparkSession, name: str, keys: DataFrame) -> Ends | None:
    """Return the smallest and largest keys to be merged into a table, by which Delta skips files.

    Args:
        session: the session.
        name: the table.
        keys: columns registryid and xid, and snapshot_id where rows may be added meanwhile.

    Returns:
        None if the table is so small that a merge takes less time than this query, or if there are no keys.
    """
    if is_without_codegen(session) or not (is_local(keys) or table_bytes(session, name) > _LARGE_TABLE):
        return None
    newest = F.max("snapshot_id") if "snapshot_id" in keys.columns else F.lit(None)
    ends = [end(of) for of in ("registryid", "xid") for end in (F.min, F.max)]
    first, last, first_xid, last_xid, snapshot_id = keys.agg(*ends, newest).collect()[0]
    return None if first is None else Ends((first, last), (first_xid, last_xid), snapshot_id)


def fill_table(session: SparkSession, name: str, rows: DataFrame) -> None:
    """Write the first rows of a table, as its own transaction, so that two processes cannot both do it.

    Args:
        session: whose settings have the commit's user metadata.
        name: the table, which holds nothing; a table that was filled stays as it is.
        rows: its columns.
    """
    transaction = first_transaction(name)
    files = current_files(session, name) if is_without_codegen(session) else None
    if files is None or files.locations:
        rows.write.format("delta").mode("append").options(**write_options(session, *transaction)).saveAsTable(table_name(name))
    else:
        rewrite(session, files, rows, *transaction)


def append_rows(session: SparkSession, name: str, rows: DataFrame) -> None:
    """Append rows with keys that a table has not, as the transaction of the session.

    Args:
        session: whose settings have the commit's user metadata and its transaction.
        name: the table.
        rows: its columns.
    """
    transaction = transaction_of(session)
    assert transaction is not None, "rows that are appended twice would be there twice"
    writer = rows.write.format("delta").mode("append").options(**write_options(session, *transaction))
    writer.saveAsTable(table_name(name))


def merge_rows(
    session: SparkSession,
    name: str,
    columns: Collection[str],
    rows: DataFrame,
    *,
    gone: str,
    ends: Ends | None = None,
    all_stored: bool = False,
) -> None:
    """Merge rows into a table of entities in one commit that can be repeated; rows that are newer in the table stay.

    Where the session's work is small, and its commits are a transaction, so that the table has nothing newer, its rows are
    written again; else with a MERGE.

    That nothing comes back that was deleted meanwhile, the session's transaction takes care of (`tablelog.as_transaction`).

    Args:
        session: whose settings have the commit's user metadata.
        name: the table; its key is registryid and xid.
        columns: the table's columns, snapshot_id among them.
        rows: those columns, and what `gone` looks at; snapshot_id of what is gone: the one that knows of it.
        gone: SQL condition on `rows` for what is to be deleted.
        ends: of the keys of all `rows`, as from `ends_of`: files of the table that lie outside are not looked at.
        all_stored: the table has all of their keys, but for what was deleted since: few rows are then sent to its files, which
            need not be sorted.
    """
    source = rows.withColumn("_gone", F.expr(gone))
    transaction = transaction_of(session)
    files = current_files(session, name) if transaction and is_without_codegen(session) and is_local(source) else None
    if transaction is None or files is None or not _may_be_rewritten(files, columns):
        _merge(session, name, columns, source, ends, all_stored=all_stored)
    else:
        rewrite(session, files, _replaced(session, files, source), *transaction)


def _may_be_rewritten(files: Files, columns: Collection[str]) -> bool:
    """Return whether whole files may be rewritten: not with columns of somebody else, nor with the change data feed."""
    is_followed = str(files.property("delta.enableChangeDataFeed")).lower() == "true"
    return set(files.columns.names) == set(columns) and not is_followed


def _replaced(session: SparkSession, files: Files, source: DataFrame) -> DataFrame:
    """Return the rows of files, with those replaced whose key is among the new rows."""
    new = source.filter("NOT _gone").select(*files.columns.names)
    if not files.locations:
        return new
    keys = F.broadcast(source.select("registryid", "xid"))
    remaining = read_files(session, files).join(keys, on=["registryid", "xid"], how="left_anti")
    return remaining.select(*files.columns.names).unionByName(new).coalesce(1)


def _merge(
    session: SparkSession, name: str, columns: Collection[str], source: DataFrame, ends: Ends | None, *, all_stored: bool
) -> None:
    same = (F.col("target.registryid") == F.col("source.registryid")) & (F.col("target.xid") == F.col("source.xid"))
    if ends is not None:
        same &= F.col("target.registryid").between(*map(F.lit, ends.registryid))
        same &= F.col("target.xid").between(*map(F.lit, ends.xid))
    values: dict[str, str | Column] = {column: f"source.{column}" for column in columns}
    # Rows of the driver cannot change between the passes of a merge, and are sent to where they are joined with.
    is_fixed = is_local(source)
    if all_stored and not is_fixed:
        source, is_fixed = materialize(source), True
        n, size = size_of(source)
        source = F.broadcast(source) if n <= _FEW_ROWS and size <= _FEW_BYTES else source
    session.conf.set(_MATERIALIZE, "none" if is_fixed else "auto")
    merge = (
        DeltaTable.forName(session, table_name(name))
        .alias("target")
        .merge(source.alias("source"), same)
        .whenMatchedDelete("source._gone AND target.snapshot_id < source.snapshot_id")
        .whenMatchedUpdate("target.snapshot_id < source.snapshot_id", set=values)
    )
    if not all_stored:
        merge = merge.whenNotMatchedInsert("NOT source._gone", values=values)
    merge.execute()


def by_key(rows: DataFrame, keys: DataFrame, count: int | None = None) -> DataFrame:
    """Repartition rows by ranges of their key, sorted, if they are many.

    Args:
        rows: columns registryid and xid among others.
        keys: the same keys, or those of what the rows lie in; read twice, so it should cost little. Columns registryid, xid.
        count: how many there are; None: they are counted.

    Returns:
        The rows in as many partitions as there should be files.
    """
    session = rows.sparkSession
    if is_without_codegen(session) or table_bytes(session, "changes") <= _SMALL_LOG:
        return rows
    count = keys.count() if count is None else count
    if count <= _FEW_ROWS:
        return rows
    files = min(count // _ROWS_OF_A_FILE, max(_MANY_FILES, count // _MOST_ROWS_OF_A_FILE), _MOST_FILES)
    sample = keys.sample(min(1.0, files * _SAMPLED / count), seed=1).select(_key().alias("key")).collect()
    seen = sorted(row["key"] for row in sample)
    ends = sorted({seen[len(seen) * number // files] for number in range(1, files)})
    return rows.repartitionById(len(ends) + 1, _place(ends)).sortWithinPartitions("registryid", "xid")


def _key() -> Column:
    return F.concat_ws(_BETWEEN, "registryid", "xid")


def _place(ends: list[str], before: int = 0) -> Column:
    """Return how many ends are at or below the key of a row, by bisection."""
    if not ends:
        return F.lit(before)
    middle = len(ends) // 2
    lower, upper = _place(ends[:middle], before), _place(ends[middle + 1 :], before + middle + 1)
    return F.when(_key() < ends[middle], lower).otherwise(upper)
