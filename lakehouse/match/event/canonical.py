"""One event, whatever captured it: its CloudEvents attributes, its protocol options, its body.

Adapters return the canonical columns (`LANDED`); here the binding of CloudEvents to the protocol is undone, and a structured
event is opened, once for matching and for its payload (MSG-194, MSG-195, MSG-196). Compressed bodies are unpacked, up to a limit.
"""

from __future__ import annotations

import base64
import binascii
import codecs
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import orjson

from lakehouse.dialects.tables import FAMILIES, PROTOCOLS, message_options
from lakehouse.match.definition.compiled import ADDRESSES, escape
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.text.jsontext import read_exactly
from lakehouse.text.values import media_type

MOST_UNPACKED = 2**30
# Bytes that a decompressor gets at a time: it copies what follows the end of a member, so the first ones are few.
_FIRST_SLICE, _LONGEST_SLICE = 2**9, 2**16
PLACES = {"AMQP": "properties/content-encoding", "MQTT": "user_properties/content-encoding"}
ELSEWHERE = "headers/content-encoding"
# Ids of schemas, of a record's value and key; what is in bytes is in hexadecimal digits here.
SCHEMA_ID, KEY_SCHEMA_ID = "headers/__value_schema_id", "headers/__key_schema_id"
_QUOTED = re.compile(r'\A"(?:[^"\\]|\\.)*"\Z', re.DOTALL)  # fixed and linear
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
# An MQTT user property has no prefix, so only these names make an event a CloudEvent.
_REQUIRED = ("specversion", "type", "source", "id")
STRUCTURED, BATCH = "application/cloudevents", "application/cloudevents-batch"
STRUCTURED_JSON = "application/cloudevents+json"
# What each protocol has: its plain options and its sections; and those that every message of it has.
SECTIONS = {family: message_options(family) for family in FAMILIES}
_ALWAYS = {family: protocol.landed.split() for family, protocol in PROTOCOLS.items()}


def unpacked(body: bytes, encoding: str, most: int = MOST_UNPACKED) -> bytes:
    """Undo gzip or deflate.

    Args:
        body: as it came.
        encoding: as the content encoding says it.
        most: bytes that may come out.

    Raises:
        ValueError: the encoding is another, the bytes are not of it, or they are too many.
    """
    written = encoding.strip().lower()
    if written in ("identity", ""):
        return body
    if written not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"content encoding {written}: only gzip and deflate are unpacked")
    parts: list[bytes] = []
    view, at, size = memoryview(body), 0, 0
    while at < len(body) or not body:  # gzip may have several members (RFC 1952, section 2.2)
        unpacker, step = zlib.decompressobj(wbits=47), _FIRST_SLICE
        while not unpacker.eof:
            if at == len(body):
                raise ValueError(f"content encoding {written}: cut off")
            piece = view[at : at + step]
            try:
                parts.append(unpacker.decompress(piece, most + 1 - size))
            except zlib.error as error:
                raise ValueError(f"content encoding {written}: {error}") from error
            size += len(parts[-1])
            if size > most:
                raise ValueError(f"unpacks to more than {most} bytes (max_unpacked_bytes)")
            at += len(piece) - len(unpacker.unused_data)
            step = min(2 * step, _LONGEST_SLICE)
    return b"".join(parts)


@dataclass
class Event:
    """An event as it is matched.

    Attributes:
        family: of the protocol that it landed from; None: the landing does not say.
        version: of that protocol, or None.
        mode: `binary` or `structured`; None: no CloudEvent.
        ce: CloudEvents attributes; those of a structured event keep their JSON types.
        options: protocol options under the names of the specification: `topic`, `headers/<name>`, `properties/subject`.
        repeated: names that occur more than once, with all their values.
        captured: the sections that the landing can hold, such as `/envelopemetadata` and `/protocoloptions/headers`; others are
            unknown, which is never a failure.
        content_type: of the message: the envelope's in structured mode.
        body: payload as bytes; None when there is none, or when it is JSON in `data`.
        data: payload of a structured event as a JSON value.
        has_data: `data` holds it.
        remarks: what was repaired while it was read, such as `double_encoded`.
        problem: why it cannot be read, with the remedy; empty when it can.
        item: its place in a batch; None when it was no batch.
    """

    family: str | None = None
    version: str | None = None
    mode: str | None = None
    ce: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    repeated: dict[str, list[Any]] = field(default_factory=dict)
    captured: frozenset[str] = frozenset()
    content_type: str | None = None
    body: bytes | None = None
    data: Any = None
    has_data: bool = False
    remarks: tuple[str, ...] = ()
    problem: str = ""
    item: int | None = None

    @property
    def address(self) -> str | None:
        """Return where it travelled: topic, topic_name, subject or path."""
        result = self.options.get(ADDRESSES.get(self.family or "", ""))
        return None if result is None else as_text(result)

    def knows(self, pointer: str) -> bool:
        """Return whether the landing would hold an attribute of the event."""
        if pointer.startswith("/envelopemetadata"):
            return "/envelopemetadata" in self.captured
        if self.family is None:
            return False
        return pointer in self.captured or "/".join(pointer.split("/")[:3]) in self.captured

    def data_content_type(self) -> str | None:
        """Return the content type of the payload; JSON when `data` of a structured event says nothing, or it has no payload.

        Bytes of `data_base64` that say nothing may be anything (JSON format of CloudEvents, 3.1.2).
        """
        result = self.ce.get("datacontenttype")
        if result is not None:
            return as_text(result)
        if self.mode != "structured":
            return self.content_type
        return "application/json" if self.has_data or self.body is None else None


@dataclass(frozen=True)
class CapturedEvent:
    """A row of the canonical table, before its CloudEvent is found: what adapters give.

    Attributes:
        protocol: as the catalog writes it, such as `MQTT/5.0`; None: the landing does not say.
        options: name → value, as in `Event.options`; a CloudEvents table puts its attributes into `ce`.
        repeated: as in `Event.repeated`.
        captured: as in `Event.captured`; None: all that the protocol has, but for what is always there and is missing.
        ce: attributes that are in their own columns; None: they are to be found.
        body: payload.
        problem: why the row cannot be read; empty when it can.
    """

    protocol: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    repeated: Mapping[str, list[Any]] = field(default_factory=dict)
    captured: frozenset[str] | None = None
    ce: Mapping[str, Any] | None = None
    body: bytes | None = None
    problem: str = ""


def captured_by(family: str, sections: frozenset[str] | set[str]) -> frozenset[str]:
    """Return what a landing can hold that shows these options and sections of a protocol (pointers; empty sections count)."""
    visible = {name for name in SECTIONS.get(family, ()) if name in sections or name not in _ALWAYS.get(family, ())}
    if family == "HTTP" and "status" not in sections and "method" in sections:
        visible.add("status")
    return frozenset(f"/protocoloptions/{name}" for name in visible)


def events_of(landed: CapturedEvent, max_unpacked_bytes: int = MOST_UNPACKED) -> Iterator[Event]:
    """Return the events of a row: one, or those of a batch.

    Args:
        landed: the row.
        max_unpacked_bytes: most bytes that come from a compressed envelope.
    """
    if landed.problem:
        yield Event(problem=landed.problem)
        return
    family, _, version = (landed.protocol or "").partition("/")
    family = family.upper()
    captured = landed.captured if landed.captured is not None else frozenset()
    event = Event(
        family or None, version or None, None, {}, dict(landed.options), dict(landed.repeated), captured, body=landed.body
    )
    event.content_type = _content_type(event)
    content = media_type(event.content_type)[0] if event.content_type else ""
    if landed.ce is not None:
        event.ce, event.mode = dict(landed.ce), "binary"
        event.captured = captured | {"/envelopemetadata"}
        yield event
    elif content.startswith(STRUCTURED):
        _unpack(event, max_unpacked_bytes)
        if event.problem:
            yield event
        else:
            yield from _open_batch(event) if content.startswith(BATCH) else iter((_open_structured(event, content),))
    elif result := _binary_attributes(event):
        event.ce, event.mode = result, "binary"
        if event.content_type is not None:
            event.ce.setdefault("datacontenttype", event.content_type)
        event.captured = captured | {"/envelopemetadata"}
        yield event
    elif sniffed := _sniff(event.body, content):
        yield from _open_batch(event) if sniffed == "batch" else iter((_open_structured(event, content),))
    else:
        yield _no_cloudevent(event)


def _unpack(event: Event, most: int) -> None:
    """Unpack an envelope that came compressed."""
    encoding = event.options.get(PLACES.get(event.family or "", ELSEWHERE))
    if encoding is not None and event.body:
        try:
            event.body = unpacked(event.body, as_text(encoding), most)
        except ValueError as error:
            event.problem = f"payload: {error}"


def _content_type(event: Event) -> str | None:
    protocol = PROTOCOLS.get(event.family or "")
    result = event.options.get(protocol.content_type) if protocol else None
    if result is None and event.family == "NATS":  # whose clients write it in their own letters
        result = next((value for name, value in event.options.items() if name.lower() == "headers/content-type"), None)
    return None if result is None else as_text(result)


def _binary_attributes(event: Event) -> dict[str, Any]:
    """Undo the binding: the attributes of a binary event by their names; empty when it is none."""
    family = event.family or ""
    results: dict[str, Any] = {}
    for start in PROTOCOLS[family].ce_attributes.split() if family in PROTOCOLS else ():
        for name, value in event.options.items():
            if name.startswith(start) if family not in ("HTTP", "NATS") else name[: len(start)].lower() == start:
                results[name[len(start) :].lower() if family in ("HTTP", "NATS") else name[len(start) :]] = value
    if family == "HTTP":
        results = {name: _unquoted(value) for name, value in results.items()}
    if family in ("HTTP", "NATS"):
        return {name: unquote(value, errors="strict") if _is_encoded(value) else value for name, value in results.items()}
    if family == "MQTT" and "specversion" not in results and not all(name in results for name in _REQUIRED[1:]):
        return {}
    return results


def _unquoted(value: Any) -> Any:
    """Undo a quoted string (RFC 9110, section 5.6.4), which comes before percent-decoding (HTTP binding, section 3.1.3.2)."""
    if not isinstance(value, str) or _QUOTED.match(value) is None:
        return value
    return _ESCAPED.sub(r"\1", value[1:-1])


def _is_encoded(value: Any) -> bool:
    if not isinstance(value, str) or "%" not in value:
        return False
    try:
        unquote(value, errors="strict")
    except UnicodeDecodeError:
        return False
    return True


def _sniff(body: bytes | None, content: str) -> str:
    """Return whether an event is structured without a content type: some clients of MQTT send none."""
    if not body or (content and not content.endswith("json") and content != "text/plain") or b'"specversion"' not in body:
        return ""
    start = body.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
    value = _json(body) if start in (b"{", b"[") else None
    if isinstance(value, dict) and "specversion" in value and "type" in value:
        return "event"
    return "batch" if isinstance(value, list) and value and all(_is_event(member) for member in value) else ""


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and "specversion" in value and "type" in value


def _no_cloudevent(event: Event) -> Event:
    """Return an event without an envelope; where headers are not captured, it is unknown whether it had one."""
    if event.family in ("KAFKA", "NATS", "HTTP") and "/protocoloptions/headers" not in event.captured:
        remedy = "read Kafka with includeHeaders = true" if event.family == "KAFKA" else "land the headers too"
        event.problem = f"headers: the landing has none, so a binary CloudEvent cannot be read: {remedy}"
    if event.family is not None:
        event.captured = event.captured | {"/envelopemetadata"}
    else:
        event.problem = (
            event.problem or "envelope: no CloudEvent, and the protocol is not known: say which with --protocol or --map"
        )
    return event


def _open_structured(event: Event, content: str) -> Event:
    form = content.rpartition("+")[2] if "+" in content else "json"
    if form != "json":
        event.problem = f"content type {content}: events are opened in JSON only"
        return event
    if not event.body:
        event.problem = "payload: empty, and the content type says that it holds a CloudEvent"
        return event
    value = _json(event.body)
    if not isinstance(value, dict):
        event.problem = "payload: no JSON object, and the content type says that it holds a CloudEvent"
        return event
    return _fill(event, value)


def _open_batch(event: Event) -> Iterator[Event]:
    value = _json(event.body or b"")
    if not isinstance(value, list):
        event.problem = "payload: no JSON array, and the content type says that it holds a batch of CloudEvents"
        yield event
        return
    for item, member in enumerate(value):
        opened = Event(event.family, event.version, None, {}, event.options, event.repeated, event.captured, event.content_type)
        opened.item = item
        if isinstance(member, dict):
            yield _fill(opened, member)
        else:
            opened.problem = f"payload: item {item} of the batch is not JSON object"
            yield opened


def _fill(event: Event, members: dict[str, Any]) -> Event:
    """Take a JSON event apart: attributes (null is absent), and `data` or `data_base64`."""
    event.mode = "structured"
    event.ce = {name: value for name, value in members.items() if name not in ("data", "data_base64") and value is not None}
    event.captured = event.captured | {"/envelopemetadata"}
    event.body = None
    if isinstance(members.get("data_base64"), str):
        try:
            event.body = base64.b64decode(members["data_base64"], validate=True)
        except (binascii.Error, ValueError):
            event.problem = "data_base64: no base64 text"
    elif members.get("data") is not None or "data" in members:
        event.data, event.has_data = members["data"], True
    return event


def _json(text: bytes) -> Any:
    try:
        return read_exactly(text.removeprefix(codecs.BOM_UTF8))
    except orjson.JSONDecodeError:
        return None


def named_values(items: Any, section: str, *, lower: bool = False) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Read headers, user properties or a query: a list of {name, value} or {key, value}, of pairs, or a map.

    Returns:
        Options (`headers/<name>` → value; the last of a name), and the values of names that occur more than once.
    """
    pairs: list[tuple[str, Any]] = []
    if isinstance(items, Mapping):
        for name, value in items.items():
            pairs += [(name, element) for element in value] if isinstance(value, list) else [(name, value)]
    for item in items if isinstance(items, list | tuple) else ():
        if isinstance(item, Mapping):
            name = item.get("name", item.get("key"))
            pairs.append((as_text(name), item.get("value"))) if name is not None else None
        elif isinstance(item, list | tuple) and len(item) == 2:
            pairs.append((as_text(item[0]), item[1]))
    results: dict[str, list[Any]] = {}
    for name, value in pairs:
        results.setdefault(f"{section}/{escape(name.lower() if lower else name)}", []).append(value)
    options = {name: values[-1] for name, values in results.items()}
    return options, {name: values for name, values in results.items() if len(values) > 1}
