"""Rows and JSON texts become `Landed`, without Spark: for one event, for tests, and as the measure of the Spark adapters.

`captured`: what the transport carried, under the names of the specification's `protocoloptions`; CloudEvents as JSON; entries of
HAR.
"""

from __future__ import annotations

import base64
import binascii
import codecs
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from lakehouse.dialects.tables import FAMILIES, listed_options
from lakehouse.match.definition.definitions import escape
from lakehouse.match.definition.valuetypes import timestamp_of
from lakehouse.match.event.landed import SECTIONS, Landed, captured_by, events_of, named_values
from lakehouse.match.event.platforms import PLATFORMS, Unreadable, columns_of_object

SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
_PAIRS = {family: listed_options(family) for family in FAMILIES}
_SECTIONS_OF_PAIRS = {"MQTT": "user_properties", "AMQP": "application-properties"}
_PROPERTIES = ("message-id", "user-id", "to", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
               "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id")  # fmt: skip
_AMQP_TIMES = ("properties/creation-time", "properties/absolute-expiry-time")


def _named(*names: str) -> dict[str, str]:
    return {_letters(name): name for name in names}


def landed_of_text(text: bytes, protocol: str | None = None, form: str | None = None) -> list[Landed]:
    """Read one JSON text: a captured message, a CloudEvent or a batch of them, a HAR file, or the columns of a platform.

    Args:
        text: one line, or a whole file.
        protocol: what the landing was, where the text does not tell.
        form: the platform whose columns it holds; None: what it holds tells.

    Returns:
        What stands in it; a text that is none of them is one row that cannot be read, with the reason.
    """
    try:
        value = orjson.loads(text.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError as error:
        return [Landed(None, problem=f"line: not JSON ({error})")]
    if isinstance(value, list):
        return [one for member in value for one in _of_value(member, protocol, form)]
    return list(_of_value(value, protocol, form))


def _of_value(value: Any, protocol: str | None, form: str | None) -> Iterator[Landed]:
    if form in PLATFORMS:
        found = landed_of_object(value, protocol, form) if isinstance(value, dict) else None
        yield found or Landed(None, problem=f"line: no JSON object, and the columns of {form} are in one")
    elif isinstance(value, dict) and isinstance(value.get("captured"), dict):
        yield landed_of_captured(value, protocol)
    elif isinstance(value, dict) and isinstance(value.get("log"), dict) and isinstance(value["log"].get("entries"), list):
        for entry in value["log"]["entries"]:
            yield from landed_of_har(entry)
    elif isinstance(value, dict) and "specversion" in value:
        yield landed_of_cloudevent(value, protocol)
    elif isinstance(value, dict) and (found := landed_of_object(value, protocol)) is not None:
        yield found
    else:
        told = ", ".join(sorted(value)[:8]) if isinstance(value, dict) else type(value).__name__
        wanted = "no captured message, CloudEvent or HAR entry, nor columns that are known"
        yield Landed(None, problem=f"line: it has {told}: {wanted}; say --format, or use --map")


def landed_of_object(value: Mapping[str, Any], protocol: str | None = None, form: str | None = None) -> Landed | None:
    """Read a JSON object that holds the columns of a platform; None: it holds those of none."""
    try:
        row = columns_of_object(value, form)
    except Unreadable as error:
        return Landed(None, problem=str(error))
    if row is None:
        return None
    if row["message"] is not None:
        return landed_of_captured(row["message"])
    return landed_of_columns(row | {"protocol": row["protocol"] or protocol})


def landed_of_cloudevent(value: Mapping[str, Any], protocol: str | None = None) -> Landed:
    """Read a CloudEvent in JSON: its attributes are known, and nothing of the protocol but its name."""
    return Landed(protocol, body=orjson.dumps(value), captured=frozenset())


def landed_of_captured(value: Mapping[str, Any], protocol: str | None = None) -> Landed:
    """Read a captured message: `protocol`, `captured`, and `payload_base64` or `payload`."""
    named = value.get("protocol") or protocol
    if not isinstance(named, str):
        return Landed(None, problem="protocol: a captured message names the protocol that it came over")
    family = named.partition("/")[0].upper()
    written = _spelled(value["captured"], _OPTIONS.get(family, {}))
    options: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for name, member in written.items():
        if name in _PAIRS.get(family, ()):
            pairs, more = named_values(member, name, lower=family == "HTTP" and name == "headers", last=family == "KAFKA")
            options |= pairs
            repeated |= more
        elif family == "AMQP" and isinstance(member, dict):
            members = _spelled(member, _AMQP_NAMES.get(name, {}))
            options |= {f"{name}/{escape(key)}": one for key, one in members.items() if one is not None}
        elif member is not None:
            options[name] = member
    if family == "KAFKA" and isinstance(options.get("key"), str):
        options |= key_options(options["key"])
    if family == "HTTP" and isinstance(options.get("path"), str) and _is_url(options["path"]):
        try:
            parts = urlsplit(options["path"])
        except ValueError as error:
            return Landed(named, problem=f"path: no URL ({error})")
        options["path"], query = parts.path or "/", parts.query
        pairs, more = named_values(parse_qsl(query, keep_blank_values=True), "query")
        options, repeated = pairs | options, more | repeated
    if family == "AMQP":
        options |= {name: timestamp_of(int(options[name])) for name in _AMQP_TIMES if _is_number(options.get(name))}
    captured = captured_by(family, set(written))
    if family == "AMQP" and "properties/to" not in options:  # the link may have addressed the node
        captured = _without_to(captured, options)
    body, problem = _payload(value)
    return Landed(named, _without_secrets(options, family), repeated, captured, body=body, problem=problem)


def landed_of_har(entry: Any) -> Iterator[Landed]:
    """Read an entry of a HAR file: its request, and, at the same path and query, its response where that holds CloudEvents."""
    request = entry.get("request") if isinstance(entry, dict) else None
    if not isinstance(request, dict):
        yield Landed(None, problem="entry: a HAR entry has a request")
        return
    url, method = str(request.get("url", "")), str(request.get("method", ""))
    yield _of_har(request, request.get("postData"), method, url, None)
    response = entry.get("response")
    status = response.get("status") if isinstance(response, dict) else None
    if isinstance(response, dict) and isinstance(status, int) and status > 0:  # 0: none came
        answered = _of_har(response, response.get("content"), method, url, status)
        if answered.problem or any(event.mode for event in events_of(answered)):
            yield answered


def _of_har(message: Mapping[str, Any], content: Any, method: str, url: str, status: int | None) -> Landed:
    told = content if isinstance(content, dict) else {}
    text, body = told.get("text"), None
    headers = [one for one in message.get("headers") or () if isinstance(one, dict)]
    if isinstance(told.get("mimeType"), str) and not any(str(one.get("name")).lower() == "content-type" for one in headers):
        headers = [*headers, {"name": "content-type", "value": told["mimeType"]}]
    if isinstance(text, str):
        body = text.encode()
        if told.get("encoding") == "base64":
            try:
                body = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                return Landed("HTTP", problem="content: no base64 text")
    # A browser writes down what it unpacked, and the header of what came packed.
    kept = [one for one in headers if status is None or str(one.get("name")).lower() != "content-encoding"]
    return landed_of_http(method, url, kept, status, body)


def landed_of_http(method: str, url: str, headers: Any, status: Any, body: bytes | None) -> Landed:
    """Read an HTTP message: the path without its query, per segment; header names in lower case; credentials dropped."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return Landed("HTTP", problem=f"url: no URL ({error})")
    options, repeated = named_values(headers or [], "headers", lower=True)
    query, more = named_values(parse_qsl(parts.query, keep_blank_values=True), "query")
    options |= query | {"path": parts.path or "/"}
    if status is None:
        options["method"] = method.upper()
    else:
        options["status"] = status
    known = {"headers", "path", "query", "method", "status"}
    return Landed("HTTP", _without_secrets(options, "HTTP"), repeated | more, captured_by("HTTP", known), body=body)


def landed_of_columns(row: Mapping[str, Any]) -> Landed:
    """Read a row of the canonical table, as the Spark adapters make it.

    Args:
        row: protocol, ce, options (pairs of key and value, of which NULL values do not count), headers (pairs, in bytes), key,
            captured, payload.
    """
    protocol = row["protocol"]
    family = (protocol or "").partition("/")[0].upper()
    options = _of_pairs(row["options"])
    try:
        named_ones = (one for one in row["headers"] or () if one and one["key"] is not None and one["value"] is not None)
        pairs = [(one["key"], bytes(one["value"]).decode()) for one in named_ones]
    except UnicodeDecodeError as error:
        return Landed(protocol, problem=f"headers: not UTF-8 ({error.reason})")
    if family == "HTTP":
        url = options.pop("url", options.pop("path", ""))
        told = landed_of_http(options.get("method", ""), url, pairs, options.get("status"), row["payload"])
        return told if row["captured"] is None else replace(told, captured=_known(tuple(row["captured"])))
    section = _SECTIONS_OF_PAIRS.get(family, "headers")
    named = {f"{section}/{escape(name)}": text for name, text in pairs}
    repeated = {} if len(named) == len(pairs) else named_values(pairs, section)[1]
    options |= named
    if row["key"] is not None:
        options |= key_options(row["key"])
    ce = None if row["ce"] is None else _of_pairs(row["ce"])
    captured = _known(tuple(row["captured"] or ()))
    return Landed(protocol, _without_secrets(options, family), repeated, captured, ce, row["payload"])


def _of_pairs(pairs: Iterable[Mapping[str, Any]] | None) -> dict[str, Any]:
    return {one["key"]: one["value"] for one in pairs or () if one["value"] is not None}


def key_options(key: bytes | str) -> dict[str, Any]:
    """Give the options of a Kafka key: as text where it is UTF-8, always in base64 (MSG-367, MSG-368)."""
    written = key.encode() if isinstance(key, str) else bytes(key)
    try:
        return {"key": written.decode(), "key_base64": base64.b64encode(written).decode()}
    except UnicodeDecodeError:
        return {"key_base64": base64.b64encode(written).decode()}


def read_lines(lines: Iterable[bytes], protocol: str | None = None, form: str | None = None) -> Iterator[Landed]:
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
    return (payload.encode() if isinstance(payload, str) else orjson.dumps(payload)), ""


def _without_to(captured: frozenset[str], options: Mapping[str, Any]) -> frozenset[str]:
    """Narrow `properties` to what is there or would be: all properties but `to`."""
    if "/protocoloptions/properties" not in captured:
        return captured
    known = {f"/protocoloptions/properties/{name}" for name in _PROPERTIES if name != "to"}
    return (captured - {"/protocoloptions/properties"}) | known


def _without_secrets(options: dict[str, Any], family: str) -> dict[str, Any]:
    if "headers" not in SECTIONS.get(family, ()):
        return options
    secret = [name for name in options if name.rpartition("/")[2].lower() in SECRET_HEADERS]
    return {name: value for name, value in options.items() if name not in secret} if secret else options


@lru_cache(1000)
def _known(pointers: tuple[str, ...]) -> frozenset[str]:
    return frozenset(pointers)


def _is_number(value: Any) -> bool:
    """Return whether a time is one of AMQP, in milliseconds; a column of texts holds it as one."""
    return isinstance(value, int) or (isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19)


def _is_url(path: str) -> bool:
    """Tell that a path is more than one: it has a query, or stands in a whole URL."""
    return "?" in path or path.lower().startswith(("http://", "https://"))


def _spelled(members: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Give names as the specification spells them: where one is content-type, contentType and content_type are it, too."""
    made = {names.get(_letters(name), name): member for name, member in members.items()}
    return made | {name: members[name] for name in names.values() if name in members}  # what is spelled so counts


def _letters(name: str) -> str:
    return "".join(one for one in name.lower() if one.isalnum())


# By their letters, the names of options and sections, and what clients call them.
_OPTIONS = {family: _named(*names) for family, names in SECTIONS.items()}
_OPTIONS["MQTT"] |= {"topic": "topic_name", "payloadformatindicator": "payload_format"}
_OPTIONS["HTTP"] |= {"statuscode": "status", "url": "path", "uri": "path"}
_AMQP_NAMES = {
    "properties": _named(*_PROPERTIES),
    "header": _named("durable", "priority", "ttl", "first-acquirer", "delivery-count"),
}
