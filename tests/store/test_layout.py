"""Large tables begin as files by key."""

from __future__ import annotations

from itertools import pairwise

import pytest
from pyspark.sql import functions as F

from lakehouse.store import merges
from lakehouse.store.deltatables import attach_tables


def keys(spark, count):
    xid = F.concat(F.lit("/messagegroups/g/messages/m"), F.lpad(((F.col("id") * 7919) % count).cast("string"), 5, "0"))
    return spark.range(count).select(F.concat(F.lit("r"), (F.col("id") % 2).cast("string")).alias("registryid"), xid.alias("xid"))


def test_rows_of_a_large_table_are_shared_out_by_key(spark, monkeypatch):
    monkeypatch.setattr(merges, "table_bytes", lambda session, name: 1 << 40)
    monkeypatch.setattr(merges, "is_without_codegen", lambda session: False)
    monkeypatch.setattr(merges, "_FEW_ROWS", 500)
    monkeypatch.setattr(merges, "_ROWS_OF_A_FILE", 100)
    rows = keys(spark, 1000)
    found = merges.by_key(rows.withColumn("text", F.lit("t")), rows).withColumn("file", F.spark_partition_id()).collect()
    assert sorted((row["registryid"], row["xid"]) for row in found) == sorted(map(tuple, rows.collect()))
    files = {}
    for row in found:
        files.setdefault(row["file"], []).append((row["registryid"], row["xid"]))
    assert 8 <= len(files) <= 10
    assert all(each == sorted(each) for each in files.values())
    ends = [(each[0], each[-1]) for _, each in sorted(files.items())]
    assert all(last < first for (_, last), (first, _) in pairwise(ends))
    few = keys(spark, 500)
    assert merges.by_key(few, few) is few


@pytest.mark.slow
def test_rows_of_a_small_catalog_stay_as_they_come(spark, history):
    attach_tables(spark, history.settings)
    rows = keys(spark, 1000)
    assert merges.by_key(rows, rows) is rows
