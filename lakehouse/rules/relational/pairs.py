"""Pairs of an entity and a neighbour, which Spark joins, and the functions of `domain.relations`, which judge them.

A pair becomes a case: the few values that decide, as JSON. Few are collected and judged by the driver, many go through Python on
the executors. Where each message would be a pair, the few kinds of cases are looked at first, and only those that break go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.domain.relations import JUDGES
from lakehouse.rules.findings import FINDINGS, OF_ENTITY, arrow_schema, finding_of, no_findings, shown_at, subject_of
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import is_known_empty, materialize, no_rows
from lakehouse.store.session import is_without_codegen

_PAIR = StructType([*OF_ENTITY, *(StructField(name, StringType()) for name in ("judge", "case"))])
_MOST_KINDS = 1000


def pairs_of(rows: DataFrame, judge: str, **values: Column) -> DataFrame:
    """Make pairs of rows.

    Args:
        rows: columns of `KEY`, document_uri, staged, dialect; isdefault and own_default, where the rows are Versions.
        judge: name of a function of `domain.relations`.
        values: its arguments; those that are NULL are left out.
    """
    if judge not in JUDGES:
        raise ValueError(f"no rule between entities is judged by {judge}")
    entities = (shown_at(rows, flag).alias(name) for flag, name in (("isdefault", "entity"), ("own_default", "own_entity")))
    case = F.to_json(F.struct(*(value.alias(name) for name, value in values.items()))) if values else F.lit("{}")
    return rows.select("document_uri", *KEY, "staged", "dialect", *entities, F.lit(judge).alias("judge"), case.alias("case"))


def only_broken(pairs: DataFrame) -> DataFrame:
    """Keep of many pairs those whose case breaks a rule, where there are few kinds of cases; of few it is not asked here."""
    if is_without_codegen(pairs.sparkSession):
        return pairs
    results = pairs.select("judge", "case").distinct().limit(_MOST_KINDS + 1).collect()
    if len(results) > _MOST_KINDS:
        return pairs
    broken = [row["case"] for row in results if any(JUDGES[row["judge"]](**orjson.loads(row["case"])))]
    return pairs.filter(F.col("case").isin(broken)) if broken else pairs.filter(F.lit(False))


def no_pairs(spark: SparkSession) -> DataFrame:
    """Return a frame of pairs without any."""
    return no_rows(spark, _PAIR)


def judged(pairs: DataFrame) -> DataFrame:
    """Return the rules that pairs break: columns `FINDING_COLUMNS`; a finding may come in several rows."""
    spark = pairs.sparkSession
    pairs = materialize(pairs)  # else the joins are made once to see whether there are any, and once more to judge them
    if is_known_empty(pairs):
        return no_findings(spark)
    if not is_without_codegen(spark):
        return pairs.mapInArrow(_judge, FINDINGS)
    results = [finding for row in pairs.collect() for finding in _findings_of(row.asDict())]
    return spark.createDataFrame(pa.Table.from_pylist(results, schema=arrow_schema())) if results else no_findings(spark)


def _judge(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema()
    for batch in batches:
        yield pa.RecordBatch.from_pylist([finding for row in batch.to_pylist() for finding in _findings_of(row)], schema=schema)


def _findings_of(pair: dict[str, Any]) -> Iterator[dict[str, Any]]:
    subject = subject_of(pair)
    for violation in JUDGES[pair["judge"]](**orjson.loads(pair["case"])):
        yield finding_of(subject, violation)
