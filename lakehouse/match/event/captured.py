"""Rows and JSON texts become `Landed`, without Spark: for one event, for tests, and as the measure of the Spark adapters.

`captured`: what the transport carried, under the names of the specification's `protocoloptions`; CloudEvents as JSON; entries of
HAR.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from lakehouse.match.definition.definitions import escape
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.landed import Landed, captured_by, events_of, named_values

SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "set-cookie"})
_PAIRS = {"KAFKA": ("headers",), "MQTT": ("user_properties",), "HTTP": ("headers", "query"), "NATS": ("headers",)}
_SECTIONS_OF_PAIRS = {"MQTT": "user_properties", "AMQP": "application-properties"}
_AMQP_TIMES = ("properties/creation-time", "properties/absolute-expiry-time")


def landed_of_text(text: bytes, protocol: str | None = None) -> list[Landed]:
    """Read one JSON text: a captured message, a CloudEvent or a batch of them, a HAR file.

    Args:
        text: one line, or a whole file.
        protocol: what the landing was, where the text does not tell.

    Returns:
        What stands in it; a text that is none of them is one row that cannot be read, with the reason.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        return [Landed(None, problem=f"line: not JSON ({error})")]
    if isinstance(value, list):
        return [one for member in value for one in _of_value(member, protocol)]
    return list(_of_value(value, protocol))


def _of_value(value: Any, protocol: str | None) -> Iterator[Landed]:
    if isinstance(value, dict) and isinstance(value.get("captured"), dict):
        yield landed_of_captured(value, protocol)
    elif isinstance(value, dict) and isinstance(value.get("log"), dict) and isinstance(value["log"].get("entries"), list):
        for entry in value["log"]["entries"]:
            yield from landed_of_har(entry)
    elif isinstance(value, dict) and "specversion" in value:
        yield landed_of_cloudevent(value, protocol)
    else:
        told = ", ".join(sorted(value)[:8]) if isinstance(value, dict) else type(value).__name__
        yield Landed(None, problem=f"line: neither a captured message nor a CloudEvent nor a HAR entry (it has: {told})")


def landed_of_cloudevent(value: Mapping[str, Any], protocol: str | None = None) -> Landed:
    """Read a CloudEvent in JSON: its attributes are known, and nothing of the protocol but its name."""
    return Landed(protocol, body=orjson.dumps(value), captured=frozenset())


def landed_of_captured(value: Mapping[str, Any], protocol: str | None = None) -> Landed:
    """Read a captured message: `protocol`, `captured`, and `payload_base64` or `payload`."""
    named = value.get("protocol") or protocol
    if not isinstance(named, str):
        return Landed(None, problem="protocol: a captured message names the protocol that it came over")
    family = named.partition("/")[0].upper()
    written: Mapping[str, Any] = value["captured"]
    options: dict[str, Any] = {}
    repeated: dict[str, list[Any]] = {}
    for name, member in written.items():
        if name in _PAIRS.get(family, ()):
            pairs, more = named_values(member, name, lower=family == "HTTP" and name == "headers", last=family == "KAFKA")
            options |= pairs
            repeated |= more
        elif family == "AMQP" and isinstance(member, dict):
            section = name.replace("_", "-")
            options |= {f"{section}/{escape(_amqp_name(section, key))}": one for key, one in member.items() if one is not None}
        elif member is not None:
            options[name] = member
    if family == "KAFKA" and isinstance(options.get("key"), str):
        options |= key_options(options["key"])
    if family == "HTTP" and isinstance(options.get("path"), str) and "?" in options["path"]:
        options["path"], _, query = options["path"].partition("?")
        pairs, more = named_values(parse_qsl(query, keep_blank_values=True), "query")
        options, repeated = pairs | options, more | repeated
    sections = {name.replace("_", "-") if family == "AMQP" else name for name in written}
    if family == "AMQP":
        options |= {name: _from_milliseconds(options[name]) for name in _AMQP_TIMES if isinstance(options.get(name), int)}
    captured = captured_by(family, sections)
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
    parts = urlsplit(url)
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
        row: protocol, ce, options (maps as pairs or dicts), headers (key, value in bytes), key, captured, payload.
    """
    protocol = row["protocol"]
    family = (protocol or "").partition("/")[0].upper()
    options: dict[str, Any] = dict(row["options"] or ())
    try:
        pairs = [(one["key"], bytes(one["value"]).decode()) for one in row["headers"] or () if one["value"] is not None]
    except UnicodeDecodeError as error:
        return Landed(protocol, problem=f"headers: not UTF-8 ({error.reason})")
    if family == "HTTP":
        url = options.pop("url", options.pop("path", ""))
        return landed_of_http(options.get("method", ""), url, pairs, options.get("status"), row["payload"])
    section = _SECTIONS_OF_PAIRS.get(family, "headers")
    named = {f"{section}/{escape(name)}": text for name, text in pairs}
    repeated = {} if len(named) == len(pairs) else named_values(pairs, section)[1]
    options |= named
    if row["key"] is not None:
        options |= key_options(row["key"])
    ce = None if row["ce"] is None else dict(row["ce"])
    captured = _known(tuple(row["captured"] or ()))
    return Landed(protocol, _without_secrets(options, family), repeated, captured, ce, row["payload"])


def key_options(key: bytes | str) -> dict[str, Any]:
    """Give the options of a Kafka key: as text where it is UTF-8, always in base64 (MSG-367, MSG-368)."""
    written = key.encode() if isinstance(key, str) else bytes(key)
    try:
        return {"key": written.decode(), "key_base64": base64.b64encode(written).decode()}
    except UnicodeDecodeError:
        return {"key_base64": base64.b64encode(written).decode()}


def read_lines(lines: Iterable[bytes], protocol: str | None = None) -> Iterator[Landed]:
    """Read JSON lines; empty ones are no events."""
    for line in lines:
        if line.strip():
            yield from landed_of_text(line, protocol)


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
    names = ("message-id", "user-id", "subject", "reply-to", "correlation-id", "content-type", "content-encoding",
             "absolute-expiry-time", "creation-time", "group-id", "group-sequence", "reply-to-group-id")  # fmt: skip
    return (captured - {"/protocoloptions/properties"}) | {f"/protocoloptions/properties/{name}" for name in names}


def _without_secrets(options: dict[str, Any], family: str) -> dict[str, Any]:
    if family not in ("HTTP", "KAFKA", "NATS"):
        return options
    secret = [name for name in options if name.rpartition("/")[2].lower() in SECRET_HEADERS]
    return {name: value for name, value in options.items() if name not in secret} if secret else options


@lru_cache(1000)
def _known(pointers: tuple[str, ...]) -> frozenset[str]:
    return frozenset(pointers)


def _amqp_name(section: str, name: str) -> str:
    return name.replace("_", "-") if section in ("properties", "header") else name


def _from_milliseconds(value: int) -> str:
    try:
        moment = datetime.fromtimestamp(value // 1000, tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        return as_text(value)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{value % 1000:03d}Z"
