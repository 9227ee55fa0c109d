"""Rows, JSON texts and columns of platforms become captured events, without Spark.

A text holds a captured message (what the transport carried, under the names of the specification's `protocoloptions`),
CloudEvents as JSON, entries of HAR, or an object with the columns of a platform, such as a line of `kcat -J` or of a web server's
log. Such an object becomes a row of the canonical table, as the Spark adapters make one of columns, and is read as that is.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from lakehouse.dialects.tables import FAMILIES, listed_options
from lakehouse.match.definition.compiled import escape
from lakehouse.match.definition.valuetypes import as_text, is_attribute_name, milliseconds_of, timestamp_of
from lakehouse.match.event.canonical import (
    KEY_SCHEMA_ID,
    SCHEMA_ID,
    SECTIONS,
    CapturedEvent,
    captured_by,
    events_of,
    named_values,
)
from lakehouse.match.event.framing import is_framed
from lakehouse.text.jsontext import in_order, read_exactly
from lakehouse.text.values import decoded_base64

FORMATS = ("json", "har", "kafka", "cloudevents", "eventhubs", "http", "mqtt", "amqp")
PLATFORMS = FORMATS[2:]  # whose columns have names
FORM = "form"  # the option of a line that says which platform's columns it holds
KQL = "___"  # before the attributes of a CloudEvent in KQL tables
ATTRIBUTES = ("specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema")
MQTT_OPTIONS = (
    "qos",
    "retain",
    "content_type",
    "payload_format",
    "response_topic",
    "correlation_data",
    "message_expiry_interval",
)
# Properties of a message by their letters, as mosquitto_sub writes them.
_MQTT_PROPERTIES = {"contenttype", "payloadformatindicator", "responsetopic", "correlationdata", "messageexpiryinterval",
                    "subscriptionidentifier", "topicalias"}  # fmt: skip
AMQP_SECTIONS = ("properties", "application-properties", "message-annotations", "delivery-annotations", "header", "footer")
BODIES = {
    "kafka": ("value",), "cloudevents": ("data", "data_base64", "payload", "body"), "eventhubs": ("body",),
    "http": ("body", "payload", "content"), "mqtt": ("payload", "message"), "amqp": ("body", "payload", "data"),
}  # fmt: skip
# Columns that rows have; of those in one text, any.
_NEEDED: dict[str, tuple[str, ...]] = {
    "kafka": ("topic", "value"), "cloudevents": (f"type {KQL}type",), "http": ("url path",),
    "eventhubs": ("body", "properties", "systemproperties", "sequencenumber"), "mqtt": ("topic topic_name", "payload message"),
    "amqp": (" ".join(AMQP_SECTIONS),),
}  # fmt: skip
# Columns by which a platform is known without its being named.
_REQUIRED_COLUMNS: tuple[tuple[str, set[str]], ...] = (
    ("eventhubs", {"systemproperties", "properties", "body", "sequencenumber"}),
    ("kafka", {"topic", "value"}),
    ("cloudevents", {f"{KQL}type", f"{KQL}source"}),
    ("cloudevents", {"type", "source", "id"}),
    ("amqp", {"properties", "application-properties"}),
    ("http", {"method", "url"}),
    ("http", {"method", "path"}),
    ("mqtt", {"topic", "payload"}),
    ("mqtt", {"topic_name", "payload"}),
)
PLATFORM_COLUMNS = frozenset(name for _, needed in _REQUIRED_COLUMNS for name in needed)
_HTTP = {
    "method": "method requestmethod httpmethod verb requestverb csmethod",
    "url": "url path uri requesturi requesturl requestpath rawpath originalpath xenvoyoriginalpath csuristem",
    "query": "query querystring rawquerystring args csuriquery",
    "headers": "headers requestheaders reqheaders",
    "status": "status statuscode responsecode",
    "body": "body requestbody payload content",
}
_HTTP_NAMES = {letters: name for name, written in _HTTP.items() for letters in written.split()}
_NESTED = ("request", "httprequest", "req")  # where a log holds what was asked
_LOGGED = re.compile(r"\A(?:http|request)[_.](?P<name>[A-Za-z][A-Za-z0-9_-]*)\Z")  # a header, as nginx and Traefik log it
_LOGGED_HEADERS = "logged_headers"
_REQUEST_LINE = re.compile(r"\A(?P<method>[A-Z]+) (?P<url>\S+)(?: HTTP/[\d.]+)?\Z")
_AVRO_NAMES = frozenset({"string", "bytes", "long", "int", "double", "float", "boolean"})
_MEMBER = re.compile(r"\Amember\d\Z")
_BASE64 = re.compile(r"\A(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?\Z")
_VERSION = re.compile(rb"\A\d\.\d\Z")

Pairs = list[dict[str, Any]]
SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
_PAIRS = {family: listed_options(family) for family in FAMILIES}
_BINARY_HEADERS = {pointer.partition("/")[2] for pointer in (SCHEMA_ID, KEY_SCHEMA_ID)}
_SECTIONS_OF_PAIRS = {"MQTT": "user_properties", "AMQP": "application-properties"}
_PROPERTIES = ("message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
               "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id")  # fmt: skip
_AMQP_TIMES = ("properties/creation-time", "properties/absolute-expiry-time")


class UnreadableEvent(ValueError):
    """An object is not what a platform lands: `place: what is wrong`."""


def platform_of_columns(names: Iterable[str]) -> str | None:
    """Return the platform whose columns these are; None: that of none."""
    written = {name.lower() for name in names}
    dashed = written | {name.replace("_", "-") for name in written}
    return next((platform for platform, needed in _REQUIRED_COLUMNS if needed <= dashed), None)


def missing_columns(platform: str, names: Iterable[str]) -> list[str]:
    """Return which columns of a platform are not there."""
    written = {spelling for name in names for spelling in (name.lower(), name.lower().replace("_", "-"))}
    return [needed.replace(" ", " or ") for needed in _NEEDED.get(platform, ()) if not written & set(needed.split())]


def attribute_columns(names: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns (names in lower case) that may hold attributes of a CloudEvent, also extensions, by attribute."""
    start, data = (KQL, ("data",)) if f"{KQL}type" in names else ("", BODIES["cloudevents"])
    results = {name.removeprefix(start): name for name in names if name.startswith(start)}
    return {name: column for name, column in results.items() if is_attribute_name(name) and name not in data}


def columns_of_object(value: Mapping[str, Any], platform: str | None = None) -> dict[str, Any] | None:
    """Make a row of the canonical table of a JSON object.

    Args:
        value: columns by name.
        platform: one of `PLATFORMS`; None: its columns say.

    Returns:
        The row, in which what is not there is None; an AMQP message instead as `captured`. None: the columns are of no platform.

    Raises:
        Unreadable: columns of the platform are missing, or hold what they cannot.
    """
    if platform in (None, "kafka") and _is_kcat(value):
        platform, value = "kafka", _of_kcat(value)
    elif platform in (None, "http") and (logged := _of_log(value)) is not None:
        platform, value = "http", logged
    elif platform is None:
        platform = platform_of_columns(value)
        if platform == "http":
            value = _without_answer(value)
        if platform == "cloudevents" and f"{KQL}type" not in {name.lower() for name in value}:
            return None  # more likely a CloudEvent without its specversion
    if platform is None:
        return None
    missing = missing_columns(platform, value)
    if missing:
        existing = ", ".join(sorted(value)[:8]) or "none"
        raise UnreadableEvent(
            f"{missing[0].partition(' ')[0]}: {platform}: the column {', '.join(missing)} is missing (there: {existing})"
        )
    names = {name.lower(): name for name in value}
    row: dict[str, Any] = dict.fromkeys(("protocol", "ce", "options", "headers", "key", "captured", "payload", "message"))
    return row | _READERS[platform]({name: value[written] for name, written in names.items()}, value)


def captured_names(names: Iterable[str]) -> list[str]:
    """Return the pointers of what a landing shows; a Kafka key shows in both its forms."""
    wanted = [name for name in names if name]
    return [f"/protocoloptions/{name}" for name in (*wanted, *(["key_base64"] if "key" in wanted else []))]


def _is_kcat(value: Mapping[str, Any]) -> bool:
    return "topic" in value and "value" not in value and "payload" in value and "partition" in value and "offset" in value


def _of_kcat(value: Mapping[str, Any]) -> dict[str, Any]:
    """Rename what `kcat -J` writes: `payload`, and headers as one list of names and values in turn."""
    headers = value.get("headers")
    if isinstance(headers, list) and all(element is None or isinstance(element, str) for element in headers):
        headers = [{"key": name, "value": text} for name, text in zip(headers[::2], headers[1::2], strict=False)]
    renamed = {name: member for name, member in value.items() if name != "payload"}
    return renamed | {"value": value["payload"], "headers": headers if headers is not None else []}


def _kafka(named: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    headers_name = next((name for name in ("headers", "glue_streaming_kafka_headers") if name in named), None)
    pairs = None if headers_name is None else _pairs(named[headers_name], headers_name)
    read = _from_base64 if _is_all_base64(pairs or [], named.get("key"), named.get("value")) else _bytes
    options = {name: named[name] for name in ("topic", "partition") if name in named}
    shown = [name for name in ("topic", "partition", "key") if name in named] + (["headers"] if pairs is not None else [])
    headers = None if pairs is None else [pair | {"value": read(pair["value"])} for pair in pairs]
    return {
        "protocol": "KAFKA", "options": _options(options), "captured": captured_names(shown), "payload": read(named.get("value")),
        "key": read(named.get("key")), "headers": headers,
    }  # fmt: skip


def _cloudevents(named: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    prefix = KQL if f"{KQL}type" in named else ""
    attributes = {name: named[column] for name, column in attribute_columns(named).items()}
    attributes = {name: value for name, value in attributes.items() if name in ATTRIBUTES or not isinstance(value, dict | list)}
    row: dict[str, Any] = {"ce": _options({"specversion": "1.0"} | attributes), "captured": []}
    data = next((name for name in BODIES["cloudevents"] if named.get(name) is not None), None)
    if prefix:
        members = {name: member for name, member in value.items() if not name.startswith(KQL) and member is not None}
        row["payload"] = in_order(members)
    elif data is not None:
        row["payload"] = (_from_base64 if data == "data_base64" else _bytes)(named[data])
    return row


def _eventhubs(named: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    properties, system = (_of_unions(named[name], name) for name in ("properties", "systemproperties"))
    body = _of_union(named["body"])
    read = _reading(body)
    options: dict[str, Any]
    if any(name.startswith("ce_") for name in properties) and not any(name.startswith("cloudEvents") for name in properties):
        protocol, shown = "KAFKA", ["headers"]
        options = {f"headers/{escape(name)}": text for name, text in properties.items()}
    else:
        protocol, shown = "AMQP/1.0", ["application-properties", "properties/content-type", "properties/subject"]
        options = {f"application-properties/{escape(name)}": text for name, text in properties.items()}
        options |= {f"message-annotations/{escape(name)}": text for name, text in system.items() if name.startswith("x-opt-")}
        options["properties/content-type"] = system.get("content-type", properties.get("content-type"))
        options["properties/subject"] = system.get("subject")
    return {"protocol": protocol, "options": _options(options), "captured": captured_names(shown), "payload": read(body)}


def _http(named: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    url = named["url"] if "url" in named else named["path"]
    if "query" in named and "url" not in named and named["query"]:
        url = f"{as_text(url)}?{as_text(named['query'])}"
    options = {"url": url} | {name: named[name] for name in ("method", "status") if name in named}
    name = next((column for column in ("headers", _LOGGED_HEADERS) if column in named), None)
    headers = _pairs(named[name], name) if name else None
    body = named.get(next((name for name in BODIES["http"] if name in named), ""))
    shown = [
        "path",
        "status",
        *(column for column in ("method", "headers") if column in named),
    ]  # what has no status is a request
    shown += ["query"] if "url" in named or "query" in named else []
    shown += [f"headers/{escape(header['key'])}" for header in headers or () if name == _LOGGED_HEADERS]
    return {
        "protocol": "HTTP", "options": _options(options), "captured": captured_names(shown),
        "headers": None if headers is None else [header | {"value": _bytes(header["value"])} for header in headers],
        "payload": _reading(body)(body),
    }  # fmt: skip


def _mqtt(named: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    options = {name: named[name] for name in MQTT_OPTIONS if name in named}
    properties = next((name for name in ("user_properties", "properties", "userproperties") if name in named), None)
    user_properties = None if properties is None else named[properties]
    # As mosquitto_sub writes them: with the other properties of the message, or these alone.
    if isinstance(user_properties, dict):
        further = {_letters(name): member for name, member in user_properties.items()}
        if "userproperties" in further or (properties == "properties" and further and further.keys() <= _MQTT_PROPERTIES):
            user_properties = further.pop("userproperties", None)
            spelled = _spelled(further, _OPTIONS["MQTT"])
            options |= {name: spelled[name] for name in MQTT_OPTIONS if name in spelled}
    if options.get("retain") in (0, 1):  # mosquitto_sub writes a number
        options["retain"] = bool(options["retain"])
    pairs = None if properties is None else _pairs(user_properties, str(properties))
    topic = named.get("topic", named.get("topic_name"))
    shown = ["topic_name", *options, *(["user_properties"] if pairs is not None else [])]
    body = next(named[name] for name in BODIES["mqtt"] if name in named)
    return {
        "protocol": "MQTT/5.0", "options": _options({"topic_name": topic} | options), "captured": captured_names(shown),
        "headers": None if pairs is None else [pair | {"value": _bytes(pair["value"])} for pair in pairs],
        "payload": _reading(body)(body),
    }  # fmt: skip


def _amqp(named: Mapping[str, Any], _: Mapping[str, Any]) -> dict[str, Any]:
    dashed = {name.replace("_", "-"): member for name, member in named.items()}
    sections = {name: dashed[name] for name in AMQP_SECTIONS if dashed.get(name) is not None}
    for name, section in sections.items():
        if not isinstance(section, dict):
            raise UnreadableEvent(f"{name}: a JSON object is needed")
    body = next((name for name in BODIES["amqp"] if name in dashed), None)
    payload = None if body is None else _reading(dashed[body])(dashed[body])
    encoded = None if payload is None else base64.b64encode(payload).decode()
    return {"message": {"protocol": "AMQP/1.0", "captured": sections, "payload_base64": encoded}}


_READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], dict[str, Any]]] = {
    "kafka": _kafka, "cloudevents": _cloudevents, "eventhubs": _eventhubs, "http": _http, "mqtt": _mqtt, "amqp": _amqp,
}  # fmt: skip


def _of_log(value: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read a line of a web server's log as a request; None: it is none, or has the columns of `http` by name.

    The status that a log says is of the answer, and no part of the request.
    """
    by_letters = {_letters(name): member for name, member in value.items()}
    nested = next((by_letters[name] for name in _NESTED if isinstance(by_letters.get(name), dict)), None)
    if nested is None and {"method"} <= value.keys() and value.keys() & {"url", "path"}:
        return None
    result = _request_members(value, nested or {})
    if not isinstance(result.get("method"), str) or not isinstance(result.get("url"), str):
        return None
    headers = dict(_logged_headers(value))
    if isinstance(result.get("query"), str) and "?" not in result["url"] and result["query"] not in ("", "-"):
        result["url"] += f"?{result['query'].lstrip('?')}"
    made: dict[str, Any] = {name: result[name] for name in ("method", "url", "headers", "body") if name in result}
    return made if not headers or "headers" in made else made | {_LOGGED_HEADERS: headers}


def _without_answer(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drop the status of what has a method, too: a log's line. With a format that is named, a row with a status is an answer."""
    members = {name.lower(): member for name, member in value.items()}
    if members.get("method") is None:
        return value
    return {name: member for name, member in value.items() if name.lower() != "status"}


def _request_members(*parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a log's line that are of a request, the later part first; else what its request line says."""
    results: dict[str, Any] = {}
    for part in parts:
        renamed = ((_HTTP_NAMES.get(_letters(name)), member) for name, member in part.items() if member is not None)
        results |= {name: member for name, member in renamed if name}
    written = parts[0].get("request")
    line = _REQUEST_LINE.match(written) if isinstance(written, str) else None
    return results if line is None else line.groupdict() | results


def _logged_headers(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return the headers that are in their own members; what else a request had is not known."""
    for name, member in value.items():
        logged = _LOGGED.match(name)
        own = "content-type" if _letters(name) == "contenttype" else _dashed(logged["name"]) if logged else ""
        if isinstance(member, str) and member not in ("", "-") and own.startswith(("ce-", "content-type", "x-")):
            yield own, member


def _dashed(name: str) -> str:
    return name.replace("_", "-").lower()


def _letters(name: str) -> str:
    return "".join(character for character in name.lower() if character.isalnum())


def _options(named: Mapping[str, Any]) -> Pairs:
    return [{"key": name, "value": None if value is None else as_text(value)} for name, value in named.items()]


def _pairs(items: Any, column: str) -> Pairs:
    """Read headers or user properties: a list of {name, value} or {key, value}, of pairs, of objects with one name; or a map."""
    return [{"key": name, "value": value} for name, value in _named_pairs(items, column)]


def _named_pairs(items: Any, column: str) -> Iterator[tuple[str, Any]]:
    if isinstance(items, dict):
        for name, value in items.items():
            yield from ((name, each) for each in value) if isinstance(value, list) else ((name, value),)
    elif isinstance(items, list):
        for item in items:
            name = item.get("name", item.get("key")) if isinstance(item, dict) else None
            if isinstance(name, str):
                yield name, item.get("value")
            elif isinstance(item, dict) and len(item) == 1:
                yield from item.items()
            elif isinstance(item, list) and len(item) == 2 and isinstance(item[0], str):
                yield item[0], item[1]
            else:
                raise UnreadableEvent(f"{column}: objects of a name and a value are needed, pairs, or a map")
    elif items is not None:
        raise UnreadableEvent(f"{column}: objects of a name and a value are needed, pairs, or a map")


def _bytes(value: Any) -> bytes | None:
    """Return a text or another JSON value as a payload."""
    return None if value is None else value.encode("utf-8", "surrogatepass") if isinstance(value, str) else in_order(value)


def _reading(body: Any) -> Callable[[Any], bytes | None]:
    """Return what reads a body: Spark and others write bytes in JSON as base64."""
    return _from_base64 if _is_all_base64([], None, body) else _bytes


def _from_base64(value: Any) -> bytes | None:
    if value is None:
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise UnreadableEvent("data_base64: no base64 text") from error


def _is_all_base64(headers: Pairs, key: Any, value: Any) -> bool:
    """Return whether a row was written by Spark, whose JSON has bytes in base64: a text that has a form must have it there."""
    texts = [text for text in (*(pair["value"] for pair in headers), key, value) if text is not None]
    if not texts or not all(isinstance(text, str) and _BASE64.match(text) for text in texts):
        return False
    decoded = {pair["key"]: base64.b64decode(pair["value"]) for pair in headers if pair["value"] is not None}
    if "ce_specversion" in decoded:
        return _VERSION.match(decoded["ce_specversion"]) is not None
    if "content-type" in decoded:
        return b"/" in decoded["content-type"]
    body = base64.b64decode(value) if isinstance(value, str) else b""
    return body.startswith((b"{", b"[")) or is_framed(body)


def _of_unions(value: Any, column: str) -> dict[str, str]:
    if not isinstance(value, dict):
        raise UnreadableEvent(f"{column}: a map is needed")
    results = {name: _of_union(union) for name, union in value.items()}
    return {name: as_text(value) for name, value in results.items() if value is not None}


def _of_union(value: Any) -> Any:
    """Undo how Avro and Spark write a union in JSON: an object of the type, or of `member0`, `member1` …, and the value."""
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _AVRO_NAMES:
        return next(iter(value.values()))
    if isinstance(value, dict) and value and all(_MEMBER.match(name) for name in value):
        return next((member for member in value.values() if member is not None), None)
    return value


def _named(*names: str) -> dict[str, str]:
    return {_letters(name): name for name in names}


def landed_of_text(text: bytes, protocol: str | None = None, form: str | None = None) -> list[CapturedEvent]:
    """Read one JSON text: a captured message, a CloudEvent or a batch of them, a HAR file, or the columns of a platform.

    Args:
        text: one line, or a whole file.
        protocol: what the landing was, where the text does not say.
        form: the platform whose columns it holds; None: its content says.

    Returns:
        What is in it; a text that is none of them is one row that cannot be read, with the reason.
    """
    try:
        value = read_exactly(text.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError as error:
        return [CapturedEvent(None, problem=f"line: not JSON ({error})")]
    if isinstance(value, list):
        return [captured for member in value for captured in _of_value(member, protocol, form)]
    return list(_of_value(value, protocol, form))


def _of_value(value: Any, protocol: str | None, form: str | None) -> Iterator[CapturedEvent]:
    if form in PLATFORMS:
        result = landed_of_object(value, protocol, form) if isinstance(value, dict) else None
        yield result or CapturedEvent(None, problem=f"line: no JSON object, and the columns of {form} are in one")
    elif isinstance(value, dict) and isinstance(value.get("captured"), dict):
        yield landed_of_captured(value, protocol)
    elif isinstance(value, dict) and isinstance(value.get("log"), dict) and isinstance(value["log"].get("entries"), list):
        for entry in value["log"]["entries"]:
            yield from landed_of_har(entry)
    elif isinstance(value, dict) and "specversion" in value:
        yield landed_of_cloudevent(value, protocol)
    elif isinstance(value, dict) and (result := landed_of_object(value, protocol)) is not None:
        yield result
    else:
        shape = ", ".join(sorted(value)[:8]) if isinstance(value, dict) else type(value).__name__
        wanted = "no captured message, CloudEvent or HAR entry, nor columns that are known"
        yield CapturedEvent(None, problem=f"line: it has {shape}: {wanted}; say --format, or use --map")


def landed_of_object(value: Mapping[str, Any], protocol: str | None = None, form: str | None = None) -> CapturedEvent | None:
    """Read a JSON object that holds the columns of a platform; None: it holds those of none."""
    try:
        row = columns_of_object(value, form)
    except UnreadableEvent as error:
        return CapturedEvent(None, problem=str(error))
    if row is None:
        return None
    if row["message"] is not None:
        return landed_of_captured(row["message"])
    return landed_of_columns(row | {"protocol": row["protocol"] or protocol})


def landed_of_cloudevent(value: Mapping[str, Any], protocol: str | None = None) -> CapturedEvent:
    """Read a CloudEvent in JSON: its attributes are known, and nothing of the protocol but its name."""
    return CapturedEvent(protocol, body=in_order(value), captured=frozenset())


def landed_of_captured(value: Mapping[str, Any], protocol: str | None = None) -> CapturedEvent:
    """Read a captured message: `protocol`, `captured`, and `payload_base64` or `payload`."""
    named = value.get("protocol") or protocol
    if not isinstance(named, str):
        return CapturedEvent(None, problem="protocol: a captured message names the protocol that it came over")
    family = named.partition("/")[0].upper()
    written = _spelled(value["captured"], _OPTIONS.get(family, {}))
    options, repeated = _options_of(family, written)
    if family == "KAFKA":
        coded = options.get("key_base64")
        key = options.get("key", decoded_base64(coded) if isinstance(coded, str) else None)
        options |= key_options(key) if isinstance(key, str | bytes) else {}
    if family == "HTTP" and isinstance(options.get("path"), str) and _is_url(options["path"]):
        try:
            parts = urlsplit(options["path"])
        except ValueError:  # whose text quotes the host, and a password before it
            return CapturedEvent(named, problem="path: no URL")
        options["path"], query = parts.path or "/", parts.query
        pairs, more = named_values(parse_qsl(query, keep_blank_values=True), "query")
        options, repeated = pairs | options, more | repeated
    if family == "AMQP":
        times = {name: milliseconds_of(options.get(name)) for name in _AMQP_TIMES}
        options |= {name: timestamp_of(time) for name, time in times.items() if time is not None}
    captured = captured_by(family, set(written))
    if family == "AMQP" and "properties/to" not in options:  # the link may have addressed the node
        captured = _without_to(captured, options)
    body, problem = _payload(value)
    return CapturedEvent(named, *_without_secrets(family, options, repeated), captured, body=body, problem=problem)


def _options_of(family: str, written: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the options of a protocol by name, and the values of names that occur more than once."""
    options: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for name, member in written.items():
        if name in _PAIRS.get(family, ()):
            pairs, more = named_values(member, name, lower=family == "HTTP" and name == "headers")
            options |= pairs
            repeated |= more
        elif family == "AMQP" and isinstance(member, dict):
            members = _spelled(member, _AMQP_NAMES.get(name, {}))
            options |= {f"{name}/{escape(key)}": member for key, member in members.items() if member is not None}
        elif member is not None:
            options[name] = member
    return options, repeated


def landed_of_har(entry: Any) -> Iterator[CapturedEvent]:
    """Read an entry of a HAR file: its request, and, at the same path and query, its response where that holds CloudEvents."""
    request = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(request, dict):
        yield CapturedEvent(None, problem="entry: a HAR entry has a request")
        return
    url, method = str(request.get("url", "")), str(request.get("method", ""))
    yield _of_har(request, request.get("postData"), method, url, None)
    response = entry.get("response")
    status = response.get("status") if isinstance(response, dict) else None
    if isinstance(response, dict) and isinstance(status, int) and status > 0:  # 0: none came
        answered = _of_har(response, response.get("content"), method, url, status)
        if answered.problem or any(event.mode for event in events_of(answered)):
            yield answered


def _of_har(message: Mapping[str, Any], content: Any, method: str, url: str, status: int | None) -> CapturedEvent:
    members = content if isinstance(content, dict) else {}
    text, body = members.get("text"), None
    listed = message.get("headers")
    headers = [header for header in listed if isinstance(header, dict)] if isinstance(listed, list) else []
    if isinstance(members.get("mimeType"), str) and not any(
        str(header.get("name")).lower() == "content-type" for header in headers
    ):
        headers = [*headers, {"name": "content-type", "value": members["mimeType"]}]
    if isinstance(text, str):
        body = text.encode()
        if members.get("encoding") == "base64":
            try:
                body = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return CapturedEvent("HTTP", problem="content: no base64 text")
    # A browser writes down what it unpacked, and the header of what came packed.
    sent_headers = [header for header in headers if status is None or str(header.get("name")).lower() != "content-encoding"]
    return landed_of_http(method, url, sent_headers, status, body)


def landed_of_http(method: str, url: str, headers: Any, status: Any, body: bytes | None) -> CapturedEvent:
    """Read an HTTP message: the path without its query, per segment; header names in lower case; credentials dropped."""
    try:
        parts = urlsplit(url)
    except ValueError:  # whose text quotes the host, and a password before it
        return CapturedEvent("HTTP", problem="url: no URL")
    options, repeated = named_values(headers or [], "headers", lower=True)
    query, more = named_values(parse_qsl(parts.query, keep_blank_values=True), "query")
    options |= query | {"path": parts.path or "/"}
    if status is not None:
        options["status"] = status
    elif method:  # a landing without a column for it leaves it unknown
        options["method"] = method.upper()
    captured = captured_by("HTTP", {"headers", "path", "query", "method", "status"})
    return CapturedEvent("HTTP", *_without_secrets("HTTP", options, repeated | more), captured, body=body)


def landed_of_columns(row: Mapping[str, Any]) -> CapturedEvent:
    """Read a row of the canonical table, as the Spark adapters make it.

    Args:
        row: protocol, ce, options (pairs of key and value, of which NULL values do not count), headers (pairs, in bytes), key,
            captured, payload.
    """
    protocol = row["protocol"]
    family = (protocol or "").partition("/")[0].upper()
    options = _of_pairs(row["options"])
    try:
        present = (pair for pair in row["headers"] or () if pair and pair["key"] is not None and pair["value"] is not None)
        pairs = [(pair["key"], _header_text(pair["key"], bytes(pair["value"]))) for pair in present]
    except UnicodeDecodeError as error:
        return CapturedEvent(protocol, problem=f"headers: not UTF-8 ({error.reason})")
    if family == "HTTP":
        url = options.pop("url", options.pop("path", ""))
        event = landed_of_http(options.get("method", ""), url, pairs, options.get("status"), row["payload"])
        return event if row["captured"] is None else replace(event, captured=_pointers(tuple(row["captured"])))
    section = _SECTIONS_OF_PAIRS.get(family, "headers")
    named = {f"{section}/{escape(name)}": text for name, text in pairs}
    repeated = {} if len(named) == len(pairs) else named_values(pairs, section)[1]
    options |= named
    if row["key"] is not None:
        options |= key_options(row["key"])
    ce = None if row["ce"] is None else _of_pairs(row["ce"])
    captured = _pointers(tuple(row["captured"] or ()))
    return CapturedEvent(protocol, *_without_secrets(family, options, repeated), captured, ce, row["payload"])


def _header_text(name: str, value: bytes) -> str:
    """Return a header as text; ids of schemas, which are bytes, in hexadecimal digits.

    Raises:
        UnicodeDecodeError: it is not UTF-8.
    """
    return value.hex() if name in _BINARY_HEADERS else value.decode()


def _of_pairs(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, Any]:
    return {pair["key"]: pair["value"] for pair in pairs or () if pair["value"] is not None}


def key_options(key: bytes | str) -> dict[str, Any]:
    """Return the options of a Kafka key: as text where it is UTF-8, always in base64 (MSG-367, MSG-368)."""
    written = key.encode() if isinstance(key, str) else bytes(key)
    try:
        return {"key": written.decode(), "key_base64": base64.b64encode(written).decode()}
    except UnicodeDecodeError:
        return {"key_base64": base64.b64encode(written).decode()}


def read_lines(lines: Iterable[bytes], protocol: str | None = None, form: str | None = None) -> Iterator[CapturedEvent]:
    """Read JSON lines; empty ones are no events."""
    for line in lines:
        if line.strip():
            yield from landed_of_text(line, protocol, form)


def _payload(value: Mapping[str, Any]) -> tuple[bytes | None, str]:
    encoded = value.get("payload_base64")
    if encoded is not None:
        try:
            return base64.b64decode(encoded, validate=True), ""
        except (binascii.Error, ValueError, TypeError):
            return None, "payload_base64: no base64 text"
    payload = value.get("payload")
    if payload is None:
        return None, ""
    return (payload.encode() if isinstance(payload, str) else in_order(payload)), ""


def _without_to(captured: frozenset[str], options: Mapping[str, Any]) -> frozenset[str]:
    """Narrow `properties` to those that can be captured: all properties but `to`."""
    if "/protocoloptions/properties" not in captured:
        return captured
    properties = {f"/protocoloptions/properties/{name}" for name in _PROPERTIES if name != "to"}
    return (captured - {"/protocoloptions/properties"}) | properties


def _without_secrets(family: str, options: dict[str, Any], repeated: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    if "headers" in SECTIONS.get(family, ()):
        for name in [name for name in options if name.rpartition("/")[2].lower() in SECRET_HEADERS]:
            del options[name]
            repeated.pop(name, None)
    return options, repeated


@lru_cache(1000)
def _pointers(pointers: tuple[str, ...]) -> frozenset[str]:
    return frozenset(pointers)


def _is_url(path: str) -> bool:
    """Return whether a path is more than one: it has a query, or is in a whole URL."""
    return "?" in path or path.lower().startswith(("http://", "https://"))


def _spelled(members: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return names as the specification spells them: where one is content-type, contentType and content_type are it, too."""
    made = {names.get(_letters(name), name): member for name, member in members.items()}
    return made | {name: members[name] for name in names.values() if name in members}  # what is spelled so counts


# By their letters, the names of options and sections, and what clients call them.
_OPTIONS = {family: _named(*names) for family, names in SECTIONS.items()}
_OPTIONS["MQTT"] |= {"topic": "topic_name", "payloadformatindicator": "payload_format"}
_OPTIONS["HTTP"] |= {"statuscode": "status", "url": "path", "uri": "path"}
_AMQP_NAMES = {
    "properties": _named(*_PROPERTIES),
    "header": _named("durable", "priority", "ttl", "first-acquirer", "delivery-count"),
}
