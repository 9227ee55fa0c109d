"""Sources become rows of the one canonical table, by native Spark expressions.

Sources are files, folders, Delta tables and tables by name; their names and content say how they are read. Which adapter takes
the rows follows from the columns, or is said with `--format`. What a landing does not show is not in `captured`, and so unknown.
JSON texts pass as they are: they are opened once, in the pass that also needs their payload.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegralType, MapType, StringType, StructType, TimestampType

from lakehouse.errors import SettingsError, SourceNotFound
from lakehouse.match.event.captured import (
    AMQP_SECTIONS,
    ATTRIBUTES,
    BODIES,
    FORM,
    KQL,
    MQTT_OPTIONS,
    PLATFORM_COLUMNS,
    PLATFORMS,
    attribute_columns,
    captured_names,
    missing_columns,
    platform_of_columns,
)
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
_PAIRS = "ARRAY<STRUCT<key: STRING, value: STRING>>"  # a map, made without hashing each row; NULL values do not count
_HEADERS = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
LANDED: dict[str, str] = {
    "ordinal": "INT",
    "place": "STRUCT<file: STRING, block: BIGINT, position: BIGINT>",
    "source": "STRING",
    "partition": "BIGINT",
    "offset": "BIGINT",
    "row": "BIGINT",
    "landed_at": "TIMESTAMP",
    "protocol": "STRING",
    "ce": _PAIRS,
    "options": _PAIRS,
    "headers": _HEADERS,
    "key": "BINARY",
    "captured": "ARRAY<STRING>",
    "payload": "BINARY",
    "line": "BINARY",
    "problem": "STRING",
}
_NO_ATTRIBUTES = (StructType, MapType, ArrayType, BinaryType)  # types of columns that hold no extension of a CloudEvent
_LINES, _CAPTURED = frozenset({"line", "source", "partition"}), frozenset({"captured", "protocol"})
JSON = "json"  # what mappings call the text of a line
_CAPTURE_TIME = "M/d/yyyy h:mm:ss a"  # as Event Hubs Capture writes it
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


def read_source(spark: SparkSession, source: str, form: str | None = None) -> DataFrame:
    """Open a source.

    Args:
        spark: the session.
        source: file, folder, glob, URI, or the name of a table.
        form: `delta`, `parquet`, `avro`, `json` (lines), `har`; None: as the source says.

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
            return _lines(spark.read.option("wholetext", _is_whole_text(source)).text(place))
        rows = spark.read.format(kind).load(place)
        return _with_place(rows, F.col("_metadata.file_path"), F.col("_metadata.file_block_start"))
    except PySparkException as error:
        reason = str(error).splitlines()[0]
        hint = " Reading Avro needs Spark's package spark-avro." if kind == "avro" else ""
        raise SourceNotFound(source, f"cannot be read as {kind}: {reason}{hint}") from error


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
        result = orjson.loads(text) if path.endswith(".json") else tomllib.loads(text)
    except OSError as error:
        raise SettingsError(f"--map {path}: cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise SettingsError(f"--map {path}: neither TOML nor JSON: {error}") from error
    if not isinstance(result, dict):
        raise SettingsError(f"--map {path}: a table of names and SQL expressions is needed.")
    return result


def _read_table(spark: SparkSession, source: str) -> DataFrame:
    if not _NAME.match(source):
        raise SourceNotFound(source, "no such file or folder, and no name of a table.")
    try:
        return _with_place(spark.table(source), F.lit(None), F.lit(None))
    except PySparkException as error:
        raise SourceNotFound(source, "no such file or folder, and no table of that name.") from error


def _with_place(rows: DataFrame, file: Column, block: Column) -> DataFrame:
    """Return where each row is, so that results can be written in the order of the input."""
    place = F.struct(
        file.cast("STRING").alias("file"), block.cast("BIGINT").alias("block"), F.monotonically_increasing_id().alias("position")
    )
    return rows.withColumn(PLACE, place)


def _kind_of(source: str) -> str:
    """Return how a path is read: by its extension, else by what the folder holds."""
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


def _is_whole_text(source: str) -> bool:
    """Return whether a local file is one JSON text over several lines, and not a line each."""
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


def to_landed(
    rows: DataFrame, form: str | None = None, mapping: Mapping[str, Any] | None = None, protocol: str | None = None
) -> DataFrame:
    """Convert rows into those of the canonical table.

    Args:
        rows: as they landed.
        form: one of `FORMATS`; None: as the columns say.
        mapping: as `read_map` gives it: SQL expressions that win over what the adapter finds.
        protocol: what the landing was, where it does not say.

    Returns:
        The columns of `LANDED`.

    Raises:
        SettingsError: the columns are those of no format, or columns of `form` are missing.
    """
    made: dict[str, Column] = {"place": F.col(PLACE)} if PLACE in rows.columns else {}
    plain = rows.drop(PLACE)
    adapter = _adapter(plain.schema, form, strict=not mapping)
    if adapter is not None:
        made |= _http(plain, has_answers=True) if form == "http" == adapter else _ADAPTERS[adapter](plain)
    if adapter == "json" and form in PLATFORMS and not mapping:
        made["options"] = _options({FORM: F.lit(form)})
    if mapping:
        if adapter == "json" and JSON not in plain.columns:
            rows, plain = (frame.withColumn(JSON, F.decode(made[LINE], "UTF-8")) for frame in (rows, plain))
        made |= _mapped(plain, mapping, made)
    if protocol is not None:
        made["protocol"] = F.coalesce(made["protocol"], F.lit(protocol)) if "protocol" in made else F.lit(protocol)
    result = rows.select(*((made[name] if name in made else F.lit(None).cast(kind)).alias(name) for name, kind in LANDED.items()))
    # A type that differs in what may be NULL only stays: casts build lists again, row by row.
    return result.select(
        *(F.col(name) if _is_of(result.schema[name].dataType, kind) else F.col(name).cast(kind) for name, kind in LANDED.items())
    )


def _adapter(schema: StructType, form: str | None, *, strict: bool) -> str | None:
    """Return the adapter of a format that is named, else the one that the columns say.

    Raises:
        SettingsError: columns are missing, or those of no format (only when `strict`).
    """
    if form not in _ADAPTERS:
        return detect(schema, strict=strict)
    if form in PLATFORMS and _are_lines(schema):
        return "json"
    missing = missing_columns(form, schema.names)
    if missing and strict:
        raise SettingsError(
            f"--format {form}: the column {', '.join(missing)} is missing; there are: {', '.join(schema.names) or 'none'}. "
            "Name it with --map FILE (docs/match.md)."
        )
    return None if missing else form


def _are_lines(schema: StructType) -> bool:
    names = {name.lower() for name in schema.names}
    return names >= _LINES or (len(schema) == 1 and isinstance(schema[0].dataType, StringType | BinaryType))


def detect(schema: StructType, *, strict: bool = True) -> str | None:
    """Return which adapter reads rows of a schema.

    Raises:
        SettingsError: none does (only when `strict`).
    """
    names = {name.lower() for name in schema.names}
    if _are_lines(schema) or names >= _CAPTURED:
        return "json"
    platform = platform_of_columns(schema.names)
    if platform is not None or not strict:
        return platform
    result = sorted(names & (PLATFORM_COLUMNS | _LINES | _CAPTURED))
    raise SettingsError(
        f"the columns are those of no landing that is known: {', '.join(schema.names) or 'none'}. Recognised: "
        f'{", ".join(result) or "none"}. Name the others with --map FILE, such as `payload = "body"`, `protocol = "\'KAFKA\'"`, '
        '`topic = "subject_name"`, or `[ce]` with `type = "event_type"` (docs/match.md), or say --format.'
    )


def _json(rows: DataFrame) -> dict[str, Column]:
    names = {name.lower(): name for name in rows.columns}
    if LINE in names and "source" in names:
        return {LINE: F.col(names[LINE]), "source": F.col(names["source"]), "partition": F.col(names["partition"])}
    if "captured" in names:
        return {LINE: F.encode(F.to_json(F.struct(*rows.columns)), "UTF-8")}
    return {LINE: _binary(rows, rows.columns[0])}


def _kafka(rows: DataFrame) -> dict[str, Column]:
    names = {name.lower(): name for name in rows.columns}
    headers = names.get("headers", names.get("glue_streaming_kafka_headers"))
    made = {
        "protocol": F.lit("KAFKA"),
        "source": F.col(names["topic"]),
        "payload": _binary(rows, names["value"]),
        "options": _options({name: F.col(names[name]) for name in ("topic", "partition") if name in names}),
        "captured": _captured(*(name for name in ("topic", "partition", "key") if name in names), "headers" if headers else ""),
    }
    if "key" in names:
        made["key"] = _binary(rows, names["key"])
    for name, column in (("partition", "partition"), ("offset", "offset"), ("landed_at", "timestamp")):
        if column in names:
            made[name] = F.col(names[column])
    if headers:
        made["headers"] = _pairs(rows, headers)
    return made


def _cloudevents(rows: DataFrame) -> dict[str, Column]:
    names = {name.lower(): name for name in rows.columns}
    prefix = KQL if f"{KQL}type" in names else ""
    columns_of_attributes = {name: names[column] for name, column in attribute_columns(names).items()}
    texts = {
        name: _text(rows, column)
        for name, column in columns_of_attributes.items()
        if name in ATTRIBUTES or not isinstance(rows.schema[column].dataType, _NO_ATTRIBUTES)
    }
    texts.setdefault("specversion", F.lit("1.0"))
    made = {"ce": _options(texts), "captured": F.array().cast("ARRAY<STRING>")}
    payloads = [_data(rows, names[name]) for name in BODIES["cloudevents"] if name in names]
    if prefix:
        columns = [name for name in rows.columns if not name.startswith(KQL)]
        made["payload"] = F.encode(F.to_json(F.struct(*columns)), "UTF-8")
    elif payloads:
        made["payload"] = F.coalesce(*payloads)
    return made


def _data(rows: DataFrame, name: str) -> Column:
    is_base64 = name.lower() == "data_base64" and isinstance(rows.schema[name].dataType, StringType)
    return F.unbase64(F.col(name)) if is_base64 else _binary(rows, name)


def _eventhubs(rows: DataFrame) -> dict[str, Column]:
    properties, system = _flat_map(rows, "Properties"), _flat_map(rows, "SystemProperties")
    names_set = F.map_keys(F.map_filter(properties, lambda _, value: value.isNotNull()))
    is_kafka = _any_starts(names_set, "ce_") & ~_any_starts(names_set, "cloudEvents")
    content_type = F.coalesce(
        F.try_element_at(system, F.lit("content-type")), F.try_element_at(properties, F.lit("content-type"))
    )
    amqp = _merged(
        F.map_entries(F.transform_keys(properties, lambda name, _: F.concat(F.lit("application-properties/"), _escaped(name)))),
        F.map_entries(
            F.transform_keys(
                F.map_filter(system, lambda name, _: F.startswith(name, F.lit("x-opt-"))),
                lambda name, _: F.concat(F.lit("message-annotations/"), _escaped(name)),
            )
        ),
        _options({"properties/content-type": content_type, "properties/subject": F.try_element_at(system, F.lit("subject"))}),
    )
    kafka = F.map_entries(F.transform_keys(properties, lambda name, _: F.concat(F.lit("headers/"), _escaped(name))))
    names = {name.lower(): name for name in rows.columns}
    made = {
        "protocol": F.when(is_kafka, "KAFKA").otherwise("AMQP/1.0"),
        "options": F.when(is_kafka, kafka).otherwise(amqp),
        "captured": F.when(is_kafka, _captured("headers")).otherwise(
            _captured("application-properties", "properties/content-type", "properties/subject")
        ),
        "payload": _binary(rows, names["body"]),
        "offset": F.col(names["sequencenumber"]),
    }
    if "enqueuedtimeutc" in names:
        enqueued = F.col(names["enqueuedtimeutc"]).cast("STRING")
        made["landed_at"] = F.coalesce(F.try_to_timestamp(enqueued), F.try_to_timestamp(enqueued, F.lit(_CAPTURE_TIME)))
    return made


def _any_starts(names: Column, start: str) -> Column:
    return F.exists(names, lambda name: F.startswith(name, F.lit(start)))


def _http(rows: DataFrame, *, has_answers: bool = False) -> dict[str, Column]:
    """Read requests; what has a status is an answer where `has_answers`, else where it has no method: logs have both."""
    names = {name.lower(): name for name in rows.columns}
    url = F.col(names["url"]) if "url" in names else F.col(names["path"])
    if "query" in names and "url" not in names:
        url = F.concat_ws("?", url, F.col(names["query"]))
    options = {"url": url} | {name: F.col(names[name]) for name in ("method", "status") if name in names}
    if "status" in options and "method" in options and not has_answers:
        options["status"] = F.when(options["method"].isNull(), options["status"])
    body = next((names[name] for name in BODIES["http"] if name in names), None)
    made = {"protocol": F.lit("HTTP"), "options": _options(options)}
    if "headers" in names:
        made["headers"] = _pairs(rows, names["headers"])
    if body is not None:
        made["payload"] = _binary(rows, body)
    has_query = "url" in names or "query" in names
    shown_names = ["path", "status", "query" if has_query else "", *(name for name in ("method", "headers") if name in names)]
    return made | {"captured": _captured(*shown_names)}  # what has no status is a request


def _mqtt(rows: DataFrame) -> dict[str, Column]:
    names = {name.lower(): name for name in rows.columns}
    result = {name: F.col(names[name]) for name in MQTT_OPTIONS if name in names}
    if "retain" in result and isinstance(rows.schema[names["retain"]].dataType, IntegralType):
        result["retain"] = result["retain"].cast("BOOLEAN")  # some bridges write 0 or 1
    topic = names.get("topic", names.get("topic_name"))
    properties = next((names[name] for name in ("user_properties", "properties", "userproperties") if name in names), None)
    made = {
        "protocol": F.lit("MQTT/5.0"),
        "options": _options({"topic_name": F.col(str(topic))} | result),
        "payload": _binary(rows, names.get("payload", names.get("message", ""))),
        "captured": _captured("topic_name", *result, "user_properties" if properties else ""),
    }
    return made | ({"headers": _pairs(rows, properties)} if properties else {})


def _amqp(rows: DataFrame) -> dict[str, Column]:
    names = {name.lower().replace("_", "-"): name for name in rows.columns}
    sections = [section for section in AMQP_SECTIONS if section in names]
    columns = F.to_json(F.struct(*(F.col(names[section]).alias(section) for section in sections)))
    body = next((names[name] for name in BODIES["amqp"] if name in names), None)
    encoded = F.base64(_binary(rows, body)) if body is not None else F.lit(None).cast("STRING")
    line = F.concat(
        F.lit('{"protocol":"AMQP/1.0","captured":'), columns,
        F.when(encoded.isNotNull(), F.concat(F.lit(',"payload_base64":"'), F.regexp_replace(encoded, "\\s", ""),
        F.lit('"'))).otherwise(""), F.lit("}"),
    )  # fmt: skip
    return {LINE: F.encode(line, "UTF-8")}


_ADAPTERS: dict[str, Callable[[DataFrame], dict[str, Column]]] = {
    "json": _json, "har": _json, "kafka": _kafka, "cloudevents": _cloudevents, "eventhubs": _eventhubs, "http": _http,
    "mqtt": _mqtt, "amqp": _amqp,
}  # fmt: skip


def _mapped(rows: DataFrame, mapping: Mapping[str, Any], made: Mapping[str, Column]) -> dict[str, Column]:
    """Apply a mapping: names of the canonical table; `[ce]` attributes; all else are options of the protocol."""
    results: dict[str, Column] = {}
    options: dict[str, Column] = {}
    for name, expression in mapping.items():
        if name == "ce" and isinstance(expression, dict):
            texts = {attribute: F.expr(text).cast("STRING") for attribute, text in expression.items()}
            texts.setdefault("specversion", F.lit("1.0"))
            results["ce"] = _options(texts)
        elif name == "options" and isinstance(expression, dict):
            options |= {option: F.expr(text) for option, text in expression.items()}
        elif not isinstance(expression, str):
            raise SettingsError(f"--map: {name}: a SQL expression as text is needed.")
        elif name in LANDED:
            results[name] = _mapped_column(rows, name, expression)
        else:
            options[name] = F.expr(expression)
    if options:
        results["options"] = _merged(made["options"], _options(options)) if "options" in made else _options(options)
    captured = _captured(
        *(name if "/" not in name else name.partition("/")[0] for name in options), "headers" if "headers" in results else ""
    )
    takes_over = JSON in rows.columns and results.keys() & {"ce", "payload", "options", "headers"}  # the line counts no more
    if LINE not in made or takes_over:
        results["captured"] = F.concat(made["captured"], captured) if "captured" in made else captured
    return results


def _mapped_column(rows: DataFrame, name: str, expression: str) -> Column:
    """Return a column of the canonical table by the SQL expression of a mapping."""
    column = F.expr(expression)
    if name == "payload":
        return column.cast("BINARY")
    if name == "headers":
        return _as_pairs(column, rows.select(column.alias("headers")).schema[0].dataType)
    return F.map_entries(column) if name in ("ce", "options") else column


def _options(columns: Mapping[str, Column]) -> Column:
    """Make pairs of name and text of columns; what is NULL does not count."""
    if not columns:
        return F.array().cast(_PAIRS)
    return F.array(
        *(F.struct(F.lit(name).alias("key"), column.cast("STRING").alias("value")) for name, column in columns.items())
    )


def _merged(*pairs: Column) -> Column:
    """Return the concatenation of pairs, where the last one of a name wins."""
    return F.concat(*(F.coalesce(part, F.array().cast(_PAIRS)) for part in pairs))


def _captured(*names: str) -> Column:
    """Return the pointers of what a landing shows, for each row the same."""
    return F.array(*map(F.lit, captured_names(names))).cast("ARRAY<STRING>")


def _is_of(kind: DataType, written: str) -> bool:
    """Return whether a type is the one that is written; what may be NULL does not count."""
    return kind.simpleString() == written.lower().replace(" ", "")


def _escaped(name: Column) -> Column:
    return F.replace(F.replace(name, F.lit("~"), F.lit("~0")), F.lit("/"), F.lit("~1"))


def _binary(rows: DataFrame, name: str) -> Column:
    kind = rows.schema[name].dataType
    if isinstance(kind, BinaryType):
        return F.col(name)
    if isinstance(kind, StructType | MapType | ArrayType):
        return F.encode(F.to_json(F.col(name)), "UTF-8")
    return F.encode(F.col(name).cast("STRING"), "UTF-8")


def _text(rows: DataFrame, name: str) -> Column:
    if not isinstance(rows.schema[name].dataType, TimestampType):
        return F.col(name).cast("STRING")
    written = F.date_format(F.to_utc_timestamp(F.col(name), F.current_timezone()), _TIME)
    return F.regexp_replace(written, r"\.0+Z$", "Z")  # as `timestamp_of`


def _pairs(rows: DataFrame, name: str) -> Column:
    return _as_pairs(F.col(name), rows.schema[name].dataType)


def _as_pairs(column: Column, kind: DataType) -> Column:
    """Make headers an array of key and bytes: of an array of structs (key or name, value), or of a map."""
    if _is_of(kind, _HEADERS):
        return column  # as Spark lands Kafka
    if isinstance(kind, MapType):
        column, fields = F.map_entries(column), ("key", "value")
    elif isinstance(kind, ArrayType) and isinstance(kind.elementType, StructType) and len(kind.elementType.names) == 2:
        fields = (kind.elementType.names[0], kind.elementType.names[1])
    else:
        raise SettingsError("headers are an array of structs of a name and a value, or a map.")
    key, value = fields
    return F.transform(column, lambda header: F.struct(header[key].alias("key"), header[value].cast("BINARY").alias("value")))


def _flat_map(rows: DataFrame, name: str) -> Column:
    """Make a map of unions (structs member0, member1, …) a map of text."""
    column = next(column_name for column_name in rows.columns if column_name.lower() == name.lower())
    kind = rows.schema[column].dataType
    if not isinstance(kind, MapType):
        raise SettingsError(f"{name}: a map is needed.")
    value = kind.valueType
    if not isinstance(value, StructType):
        return F.transform_values(F.col(column), lambda _, value: value.cast("STRING"))
    members = value.names
    return F.transform_values(F.col(column), lambda _, value: F.coalesce(*(value[member].cast("STRING") for member in members)))
