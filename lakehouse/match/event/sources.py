"""What is matched: files, folders, Delta tables and tables by name, opened as rows; how, follows from what they are."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import orjson
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import SettingsError, SourceNotFound
from lakehouse.store.session import absolute_location

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_TEXTS = (".json", ".jsonl", ".ndjson", ".txt", ".log", ".ce", ".cloudevents")
_PACKED = (".gz", ".bz2")
_URI = re.compile(r"\A[A-Za-z][A-Za-z0-9+.\-]+:/")
_NAME = re.compile(r"\A`?[A-Za-z_][\w`]*(\.`?[\w`]+){0,2}\Z")
LINE = "line"
PLACE = "__place"  # of a row in its source: file, where its split begins, and how many rows come before it there


def read_source(spark: SparkSession, source: str, form: str | None = None) -> DataFrame:
    """Open a source.

    Args:
        spark: the session.
        source: file, folder, glob, URI, or the name of a table.
        form: `delta`, `parquet`, `avro`, `json` (lines), `har`; None: told by the source.

    Returns:
        Its rows; of a text source `line` (BINARY), with `source` (its file) and `partition` (where its split begins).

    Raises:
        SourceNotFound: there is no such source, or it cannot be read.
    """
    is_path = bool(_URI.match(source)) or any(mark in source for mark in "/*?[") or Path(source).exists()
    if not is_path:
        return _read_table(spark, source)
    kind = form if form in ("delta", "parquet", "avro", "json", "har", "orc") else _kind_of(source)
    place = absolute_location(source)
    try:
        if kind == "har":
            return _lines(spark.read.option("wholetext", True).text(place))
        if kind == "json":
            return _lines(spark.read.option("wholetext", _is_one_text(source)).text(place))
        rows = spark.read.format(kind).load(place)
        return _with_place(rows, F.col("_metadata.file_path"), F.col("_metadata.file_block_start"))
    except PySparkException as error:
        told = str(error).splitlines()[0]
        hint = " Reading Avro needs Spark's package spark-avro." if kind == "avro" else ""
        raise SourceNotFound(source, f"cannot be read as {kind}: {told}{hint}") from error


def read_stream(spark: SparkSession, source: str, form: str | None = None) -> DataFrame:
    """Open a source as a stream: a Delta table by path or name, or a folder of JSON lines.

    Raises:
        SourceNotFound: there is no such source, or it cannot be streamed.
    """
    is_path = bool(_URI.match(source)) or "/" in source or Path(source).exists()
    try:
        if not is_path:
            return spark.readStream.table(source)
        kind = form if form in ("delta", "json") else _kind_of(source)
        if kind == "json":
            return _lines(spark.readStream.text(absolute_location(source)))
        if kind == "delta":
            return spark.readStream.format("delta").load(absolute_location(source))
    except PySparkException as error:
        raise SourceNotFound(source, f"cannot be streamed: {str(error).splitlines()[0]}") from error
    raise SourceNotFound(source, f"a source of {kind} cannot be watched; Delta tables and folders of JSON lines can.")


def read_map(path: str) -> dict[str, Any]:
    """Read a mapping: TOML or JSON, from names of the canonical table to SQL expressions over the columns of the source.

    Raises:
        SettingsError: it cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        found = orjson.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"--map {path}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise SettingsError(f"--map {path}: neither TOML nor JSON: {error}") from error
    if not isinstance(found, dict):
        raise SettingsError(f"--map {path}: a table of names and SQL expressions is needed.")
    return found


def _read_table(spark: SparkSession, source: str) -> DataFrame:
    if not _NAME.match(source):
        raise SourceNotFound(source, "no such file or folder, and no name of a table.")
    try:
        return _with_place(spark.table(source), F.lit(None), F.lit(None))
    except PySparkException as error:
        raise SourceNotFound(source, "no such file or folder, and no table of that name.") from error


def _with_place(rows: DataFrame, file: Column, block: Column) -> DataFrame:
    """Tell where each row stands, so that results can be written in the order of the input."""
    place = F.struct(
        file.cast("STRING").alias("file"), block.cast("BIGINT").alias("block"), F.monotonically_increasing_id().alias("position")
    )
    return rows.withColumn(PLACE, place)


def _kind_of(source: str) -> str:
    """Tell how a path is read: by its extension, else by what the folder holds."""
    path = Path(re.sub(r"\Afile:/*", "/", source))
    if path.is_dir():
        if (path / "_delta_log").is_dir():
            return "delta"
        names = (file.name for file in sorted(path.rglob("*")) if file.is_file() and not file.name.startswith(("_", ".")))
        return next((kind for name in names if (kind := _by_extension(name))), "delta")
    if not _URI.match(source) and not path.exists() and not any(mark in source for mark in "*?["):
        raise SourceNotFound(source, "no such file or folder.")
    return _by_extension(path.name) or ("json" if path.is_file() else "delta")


def _by_extension(name: str) -> str:
    for packed in _PACKED:
        name = name.removesuffix(packed)
    if name.endswith(_TEXTS):
        return "json"
    return next((kind for kind in ("parquet", "avro", "orc", "har") if name.endswith(f".{kind}")), "")


def _is_one_text(source: str) -> bool:
    """Tell that a local file is one JSON text over several lines, and not a line each."""
    path = Path(re.sub(r"\Afile:/*", "/", source))
    if not path.is_file() or path.name.endswith(_PACKED):
        return False
    with path.open("rb") as file:
        first = next((line.strip() for line in file if line.strip()), b"")
    return first in (b"{", b"[") or (first[:1] in (b"{", b"[") and first.endswith(b",") and not first.endswith(b"},"))


def _lines(texts: DataFrame) -> DataFrame:
    named = texts.select(
        F.encode("value", "UTF-8").alias(LINE),
        F.col("_metadata.file_path").alias("source"),
        F.col("_metadata.file_block_start").alias("partition"),
    )
    return named.filter(F.length(F.trim(F.decode(LINE, "UTF-8"))) > 0)
