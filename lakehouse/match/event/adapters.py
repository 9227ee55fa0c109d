"""Adapters: rows of many shapes become the one canonical table, by native Spark expressions.

Which adapter it is follows from the columns, or is said with `--format`. What a landing does not show is not in `captured`, and
so unknown. JSON texts pass as they are: they are opened once, in the pass that also needs their payload.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, TimestampType

from lakehouse.errors import SettingsError
from lakehouse.match.event.platforms import (
    AMQP_SECTIONS,
    ATTRIBUTES,
    BODIES,
    KNOWN_COLUMNS,
    KQL,
    MQTT_OPTIONS,
    PLATFORMS,
    captured_names,
    known_platform,
    missing_columns,
)
from lakehouse.match.event.sources import LINE, PLACE

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
_LINES, _CAPTURED = frozenset({"line", "source", "partition"}), frozenset({"captured", "protocol"})
FORM = "form"  # the option of a line that says which platform's columns it holds
JSON = "json"  # what mappings call the text of a line
_CAPTURE_TIME = "M/d/yyyy h:mm:ss a"  # as Event Hubs Capture writes it
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


def to_landed(
    rows: DataFrame, form: str | None = None, mapping: Mapping[str, Any] | None = None, protocol: str | None = None
) -> DataFrame:
    """Bring rows into the canonical table.

    Args:
        rows: as they landed.
        form: one of `FORMATS`; None: told by the columns.
        mapping: as `read_map` gives it: SQL expressions that win over what the adapter finds.
        protocol: what the landing was, where it does not tell.

    Returns:
        The columns of `LANDED`.

    Raises:
        SettingsError: the columns are those of no format, or columns of `form` are missing.
    """
    made: dict[str, Column] = {"place": F.col(PLACE)} if PLACE in rows.columns else {}
    plain = rows.drop(PLACE)
    adapter = _adapter(plain.schema, form, strict=not mapping)
    if adapter is not None:
        made |= _ADAPTERS[adapter](plain)
    if adapter == "json" and form in PLATFORMS and not mapping:
        made["options"] = _options({FORM: F.lit(form)})
    if mapping:
        if adapter == "json" and JSON not in plain.columns:
            rows, plain = (one.withColumn(JSON, F.decode(made[LINE], "UTF-8")) for one in (rows, plain))
        made |= _mapped(plain, mapping, made)
    if protocol is not None:
        made["protocol"] = F.coalesce(made["protocol"], F.lit(protocol)) if "protocol" in made else F.lit(protocol)
    found = rows.select(*((made[name] if name in made else F.lit(None).cast(kind)).alias(name) for name, kind in LANDED.items()))
    # A type that differs in what may be NULL only stays: casts build lists anew, row by row.
    return found.select(
        *(F.col(name) if _is_of(found.schema[name].dataType, kind) else F.col(name).cast(kind) for name, kind in LANDED.items())
    )


def _adapter(schema: StructType, form: str | None, *, strict: bool) -> str | None:
    """Return the adapter of a format that is named, else the one that the columns tell.

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
    """Tell which adapter reads rows of a schema.

    Raises:
        SettingsError: none does (only when `strict`).
    """
    names = {name.lower() for name in schema.names}
    if _are_lines(schema) or names >= _CAPTURED:
        return "json"
    platform = known_platform(schema.names)
    if platform is not None or not strict:
        return platform
    found = sorted(names & (KNOWN_COLUMNS | _LINES | _CAPTURED))
    raise SettingsError(
        f"the columns are those of no landing that is known: {', '.join(schema.names) or 'none'}. Recognised: "
        f'{", ".join(found) or "none"}. Name the others with --map FILE, such as `payload = "body"`, `protocol = "\'KAFKA\'"`, '
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
    known = {name: names[prefix + name] for name in ATTRIBUTES if prefix + name in names}
    texts = {name: _text(rows, column) for name, column in known.items()}
    texts.setdefault("specversion", F.lit("1.0"))
    made = {"ce": _options(texts), "captured": F.array().cast("ARRAY<STRING>")}
    data = next((names[name] for name in BODIES["cloudevents"] if name in names), None)
    if prefix:
        others = [name for name in rows.columns if not name.startswith(KQL)]
        made["payload"] = F.encode(F.to_json(F.struct(*others)), "UTF-8")
    elif data is not None:
        is_base64 = data.lower() == "data_base64" and isinstance(rows.schema[data].dataType, StringType)
        made["payload"] = F.unbase64(F.col(data)) if is_base64 else _binary(rows, data)
    return made


def _eventhubs(rows: DataFrame) -> dict[str, Column]:
    properties, system = _flat_map(rows, "Properties"), _flat_map(rows, "SystemProperties")
    there = F.map_keys(F.map_filter(properties, lambda _, value: value.isNotNull()))
    is_kafka = _any_starts(there, "ce_") & ~_any_starts(there, "cloudEvents")
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


def _http(rows: DataFrame) -> dict[str, Column]:
    names = {name.lower(): name for name in rows.columns}
    url = F.col(names["url"]) if "url" in names else F.col(names["path"])
    if "query" in names and "url" not in names:
        url = F.concat_ws("?", url, F.col(names["query"]))
    options = {"url": url} | {name: F.col(names[name]) for name in ("method", "status") if name in names}
    body = next((names[name] for name in BODIES["http"] if name in names), None)
    made = {"protocol": F.lit("HTTP"), "options": _options(options)}
    if "headers" in names:
        made["headers"] = _pairs(rows, names["headers"])
    if body is not None:
        made["payload"] = _binary(rows, body)
    has_query = "url" in names or "query" in names
    known = ["path", "status", "query" if has_query else "", *(name for name in ("method", "headers") if name in names)]
    return made | {"captured": _captured(*known)}  # what has no status is a request


def _mqtt(rows: DataFrame) -> dict[str, Column]:
    names = {name.lower(): name for name in rows.columns}
    found = {name: F.col(names[name]) for name in MQTT_OPTIONS if name in names}
    topic = names.get("topic", names.get("topic_name"))
    properties = next((names[name] for name in ("user_properties", "properties", "userproperties") if name in names), None)
    made = {
        "protocol": F.lit("MQTT/5.0"),
        "options": _options({"topic_name": F.col(str(topic))} | found),
        "payload": _binary(rows, names.get("payload", names.get("message", ""))),
        "captured": _captured("topic_name", *found, "user_properties" if properties else ""),
    }
    return made | ({"headers": _pairs(rows, properties)} if properties else {})


def _amqp(rows: DataFrame) -> dict[str, Column]:
    names = {name.lower().replace("_", "-"): name for name in rows.columns}
    there = [section for section in AMQP_SECTIONS if section in names]
    columns = F.to_json(F.struct(*(F.col(names[section]).alias(section) for section in there)))
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
    found: dict[str, Column] = {}
    options: dict[str, Column] = {}
    for name, expression in mapping.items():
        if name == "ce" and isinstance(expression, dict):
            texts = {attribute: F.expr(text).cast("STRING") for attribute, text in expression.items()}
            texts.setdefault("specversion", F.lit("1.0"))
            found["ce"] = _options(texts)
        elif name == "options" and isinstance(expression, dict):
            options |= {option: F.expr(text) for option, text in expression.items()}
        elif not isinstance(expression, str):
            raise SettingsError(f"--map: {name}: a SQL expression as text is needed.")
        elif name == "payload":
            found["payload"] = F.expr(expression).cast("BINARY")
        elif name == "headers":
            kind = rows.select(F.expr(expression).alias("headers")).schema[0].dataType
            found["headers"] = _as_pairs(F.expr(expression), kind)
        elif name in ("ce", "options"):  # a map
            found[name] = F.map_entries(F.expr(expression))
        elif name in LANDED:
            found[name] = F.expr(expression)
        else:
            options[name] = F.expr(expression)
    if options:
        found["options"] = _merged(made["options"], _options(options)) if "options" in made else _options(options)
    known = _captured(
        *(name if "/" not in name else name.partition("/")[0] for name in options), "headers" if "headers" in found else ""
    )
    takes_over = JSON in rows.columns and found.keys() & {"ce", "payload", "options", "headers"}  # the line counts no more
    if LINE not in made or takes_over:
        found["captured"] = F.concat(made["captured"], known) if "captured" in made else known
    return found


def _options(columns: Mapping[str, Column]) -> Column:
    """Make pairs of name and text of columns; what is NULL does not count."""
    if not columns:
        return F.array().cast(_PAIRS)
    return F.array(*(F.struct(F.lit(name).alias("key"), one.cast("STRING").alias("value")) for name, one in columns.items()))


def _merged(*pairs: Column) -> Column:
    """Put pairs one behind the other: of a name the last one counts."""
    return F.concat(*(F.coalesce(one, F.array().cast(_PAIRS)) for one in pairs))


def _captured(*names: str) -> Column:
    """Give the pointers of what a landing shows, for each row the same."""
    return F.array(*map(F.lit, captured_names(names))).cast("ARRAY<STRING>")


def _is_of(kind: DataType, written: str) -> bool:
    """Tell that a type is the one that is written; what may be NULL does not count."""
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
    is_time = isinstance(rows.schema[name].dataType, TimestampType)
    return F.date_format(F.to_utc_timestamp(F.col(name), F.current_timezone()), _TIME) if is_time else F.col(name).cast("STRING")


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
    return F.transform(column, lambda one: F.struct(one[key].alias("key"), one[value].cast("BINARY").alias("value")))


def _flat_map(rows: DataFrame, name: str) -> Column:
    """Make a map of unions (structs member0, member1, …) a map of text."""
    column = next(one for one in rows.columns if one.lower() == name.lower())
    kind = rows.schema[column].dataType
    if not isinstance(kind, MapType):
        raise SettingsError(f"{name}: a map is needed.")
    value = kind.valueType
    if not isinstance(value, StructType):
        return F.transform_values(F.col(column), lambda _, one: one.cast("STRING"))
    members = value.names
    return F.transform_values(F.col(column), lambda _, one: F.coalesce(*(one[member].cast("STRING") for member in members)))
