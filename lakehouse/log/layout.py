"""How the rows of a table that is not small are laid out in files when it is first written: by their key, ten thousand in each.

So a query by key opens few files, and a MERGE of some rows rewrites few others. `maintain` lays out what comes later.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.store.delta.positions import table_bytes
from lakehouse.store.session import is_without_codegen

FILE_BYTES = 4 << 20  # of a table that OPTIMIZE lays out
_SMALL_LOG = 4 << 20  # bytes: no table is worth an order then
_FEW_ROWS = 20_000  # that are not worth an order
_ROWS_OF_A_FILE = 10_000  # which a MERGE rewrites whole; more where there would be many files
_MOST_ROWS_OF_A_FILE = 40_000  # rewritten in about a second
_MANY_FILES = 25
_MOST_FILES = 200
_SAMPLED = 100  # keys for each file
_BETWEEN = "\0"  # comes before all that an id may hold


def by_key(rows: DataFrame, keys: DataFrame) -> DataFrame:
    """Repartition rows by ranges of their key, sorted, if they are many.

    Args:
        rows: columns registryid and xid among others.
        keys: the same keys, or those of what the rows lie in; read twice, so it should cost little. Columns registryid, xid.

    Returns:
        The rows in as many partitions as there should be files.
    """
    session = rows.sparkSession
    if is_without_codegen(session) or table_bytes(session, "changes") <= _SMALL_LOG:
        return rows
    count = keys.count()
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
