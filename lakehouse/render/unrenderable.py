"""Why a message is not rendered: values that are missing, that would not match back, or that CloudEvents or a protocol forbids.

A line break in a header, a wildcard in a topic: a client would refuse it, or send another message than the definition says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse.dialects.tables import exclusive_options
from lakehouse.errors import LakehouseError
from lakehouse.match.definition.compiled import ENVELOPE, escape
from lakehouse.match.definition.valuetypes import as_text, is_attribute_name, is_of_type, is_timestamp, is_uri_reference
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.values import decoded_base64

_TOKEN = re.compile(r"\A[A-Za-z0-9!#$%&'*+\-.^_`|~]+\Z")  # RFC 9110, 5.6.2
_FIELD = re.compile(r"\A(?:[\x21-\x7e](?:[\x20\x09\x21-\x7e]*[\x21-\x7e])?)?\Z")  # RFC 9110, 5.5, in ASCII
_PATH = re.compile(r"\A/(?:[A-Za-z0-9\-._~:/@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*\Z")  # RFC 3986, 3.3
_KAFKA_TOPIC = re.compile(r"\A(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")
_NATS_SUBJECT = re.compile(r"\A[^\s.*>\x00]+(?:\.[^\s.*>\x00]+)*\Z")
_ANY = re.compile("")
_SYMBOL = re.compile(r"\A[\x20-\x7e]+\Z")  # AMQP's; that of the specification lacks the / of content types (MSG-216, MSG-311)
_MOST_BYTES = 65_535  # of a text in MQTT
_UINT = range(2**32)
# Options of MQTT, Kafka and AMQP that hold integers or booleans whatever is declared, and the integers that they carry.
RANGES = {
    "qos": range(3), "message_expiry_interval": _UINT, "payload_format": range(2), "partition": range(2**31),
    "header/priority": range(256), "header/ttl": _UINT, "header/delivery-count": _UINT, "properties/group-sequence": _UINT,
}  # fmt: skip
FLAGS = ("retain", "header/durable", "header/first-acquirer")
# CloudEvents 1.0: names of attributes, those that are of the payload in JSON, attributes that are texts and not empty, and forms.
_OF_PAYLOAD = frozenset({"data", "data_base64"})
CORE_TYPES = {
    "id": "string", "source": "uritemplate", "type": "string", "specversion": "string", "subject": "string",
    "time": "timestamp", "datacontenttype": "string", "dataschema": "uritemplate",
}  # fmt: skip
_FORMS: dict[str, tuple[Callable[[str], bool], str]] = {
    "time": (is_timestamp, "no RFC 3339 timestamp"), "source": (is_uri_reference, "no URI-reference (RFC 3986)"),
    "dataschema": (is_uri_reference, "no URI (RFC 3986)"),
}  # fmt: skip
_INT32 = range(-(2**31), 2**31)
_SURROGATE = re.compile("[\ud800-\udfff]")
# Types that only AMQP has (MSG-317).
_OF_AMQP = {
    "ulong": (re.compile(r"\A(?:0|[1-9][0-9]{0,18})\Z"), "a ulong is a whole number of at most 19 digits"),
    "uuid": (re.compile(r"\A[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\Z"), "no UUID"),
}
_SYMBOLS = ("properties/content-type", "properties/content-encoding")
_TIMES = ("properties/creation-time", "properties/absolute-expiry-time")
_ONLY_MQTT_5 = (
    "payload_format",
    "message_expiry_interval",
    "response_topic",
    "correlation_data",
    "content_type",
    "user_properties",
)


class Need(NamedTuple):
    """A value that somebody has to give.

    Attributes:
        name: as `--set` takes it: of a placeholder, or of an attribute.
        pointer: JSON Pointer of the declaration that asks for it first.
        kind: the declared type, or None.
        template: the declared value, where `name` is a placeholder of it; else None.
    """

    name: str
    pointer: Pointer
    kind: str | None = None
    template: str | None = None


class Refusal(NamedTuple):
    """Why a message would not be what its definition says: JSON Pointer of the declaration, `payload` or `endpoint`; and why."""

    pointer: str
    reason: str


class MissingValues(LakehouseError):
    """A definition asks for values that were not given (exit code 2; MSG-230).

    Attributes:
        xid: of the definition.
        needs: all that is missing.
    """

    exit_code = 2

    def __init__(self, xid: Xid, needs: Sequence[Need]) -> None:
        self.xid, self.needs = xid, tuple(needs)
        message = "\n".join(f"  {need.name}: {_described(need)}" for need in needs)
        example = " ".join(f"--set {need.name}=…" for need in needs[:3])
        super().__init__(f"{xid}: values are missing.\n{message}\nGive them with {example}, or let --example make them up.")


class RenderRefused(LakehouseError):
    """The values make no message that the definition matches, or a payload that breaks its schema (exit code 3).

    Attributes:
        xid: of the definition.
        refusals: what is wrong, and where it is declared.
    """

    exit_code = 3

    def __init__(self, xid: Xid, refusals: Sequence[Refusal]) -> None:
        self.xid, self.refusals = xid, tuple(refusals)
        super().__init__(
            f"{xid}: cannot be rendered.\n" + "\n".join(f"  {refusal.pointer or '/'}: {refusal.reason}" for refusal in refusals)
        )


def _described(need: Need) -> str:
    if need.template is not None:
        return f"placeholder of {need.template!r} ({need.pointer})"
    return f"{need.pointer}" + (f", type {need.kind}" if need.kind else "")


def refusals_of_event(attributes: Mapping[str, Any]) -> list[Refusal]:
    """Return what CloudEvents forbids of the attributes of an event, by pointer of the declaration (MSG-213, MSG-215)."""
    problems = {name: _problem_of_attribute(name, value) for name, value in attributes.items()}
    return [
        Refusal(f"{ENVELOPE}{name}", f"{as_text(attributes[name])[:120]!r}: {problem}")
        for name, problem in problems.items()
        if problem is not None
    ]


def _problem_of_attribute(name: str, value: Any) -> str | None:
    if name in _OF_PAYLOAD:
        return "the name is of the payload, and of no attribute"
    if not is_attribute_name(name):
        return "names of attributes of CloudEvents hold only a to z and digits"
    if isinstance(value, str):
        is_empty = value == "" and name in CORE_TYPES
        form, wanted = _FORMS.get(name, (_is_printable, "attributes of CloudEvents hold no control characters"))
        return "must not be empty" if is_empty else None if form(value) and _is_printable(value) else wanted
    if name in CORE_TYPES:
        return "a text is needed"
    is_small = isinstance(value, int) and value in _INT32  # a boolean is one, too
    return None if is_small else "extensions of CloudEvents are texts, booleans or integers of 32 bits"


def _is_printable(text: str) -> bool:
    return is_of_type(text, "string") and _SURROGATE.search(text) is None


def problem_of_option(option: str, value: Any) -> str | None:
    """Return why a protocol does not carry a value in an option that has one type only; None: it does."""
    allowed = RANGES.get(option)
    if allowed is not None:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return None if is_whole and value in allowed else f"a whole number from {allowed[0]} to {allowed[-1]} is needed"
    return "true or false is needed" if option in FLAGS and not isinstance(value, bool) else None


class _Carried(NamedTuple):
    """What a protocol is to carry: `captured` and `kinds` as in `Rendered`, the payload, and the version of the protocol."""

    captured: Mapping[str, Any]
    kinds: Mapping[str, str]
    body: bytes | None
    version: str


def refusals_of(protocol: str, captured: Mapping[str, Any], kinds: Mapping[str, str], body: bytes | None) -> list[Refusal]:
    """Return what a protocol cannot carry of a message, by pointer of the declaration.

    Args:
        protocol: as the catalog writes it.
        captured: what the transport carries, named as in `protocoloptions`.
        kinds: declared types of options, as in `Rendered`.
        body: payload of the transport's message.
    """
    name, _, version = protocol.partition("/")
    family = name.upper()
    check = {"HTTP": _http, "NATS": _nats, "KAFKA": _kafka, "MQTT": _mqtt, "AMQP": _amqp}.get(family)
    results = [
        _refusal(other, captured[other], f"{option} is given, too, and the two exclude each other ({rule})")
        for option, other, rule in exclusive_options(family)
        if option in captured and other in captured
    ]
    for option in (*RANGES, *FLAGS):
        section, _, member = option.partition("/")
        value = captured.get(section)
        value = value.get(member) if member and isinstance(value, Mapping) else value
        problem = None if value is None else problem_of_option(option, value)
        results += [_refusal(option, value, problem)] if problem else []
    return results + (check(_Carried(captured, kinds, body, version)) if check else [])


def _http(message: _Carried) -> list[Refusal]:
    captured = message.captured
    results = _headers(captured)
    path = captured.get("path")
    if path is not None and not _PATH.match(as_text(path)):
        results.append(_refusal("path", path, "a path begins with / and holds what RFC 3986 allows: percent-encode the value"))
    method = captured.get("method")
    if method is not None and not _TOKEN.match(as_text(method)):
        results.append(_refusal("method", method, "no HTTP method"))
    status = captured.get("status")
    if status is not None and not re.match(r"\A[1-5]\d\d\Z", as_text(status)):
        results.append(_refusal("status", status, "no HTTP status code"))
    return results


def _nats(message: _Carried) -> list[Refusal]:
    captured = message.captured
    results = _headers(captured)
    for name in ("subject", "reply-to"):
        if name in captured and not _NATS_SUBJECT.match(as_text(captured[name])):
            results.append(_refusal(name, captured[name], "a subject has no blanks, empty tokens or wildcards"))
    return results


def _kafka(message: _Carried) -> list[Refusal]:
    topic, key = message.captured["topic"], message.captured.get("key_base64", "")
    results = []
    if not _KAFKA_TOPIC.match(as_text(topic)):
        results.append(_refusal("topic", topic, "a topic holds 1 to 249 letters, digits, dots, - and _"))
    if decoded_base64(as_text(key)) is None:
        results.append(_refusal("key_base64", key, "no base64 text"))
    return results


def _amqp(message: _Carried) -> list[Refusal]:
    results = []
    for section, members in message.captured.items():
        for name, value in members.items() if isinstance(members, Mapping) else ():
            key = f"{section}/{escape(name)}"
            pattern, wanted = _OF_AMQP.get(message.kinds.get(key, ""), (_ANY, ""))
            if not pattern.match(as_text(value)):
                results.append(_refusal(key, value, wanted))
            if not _SYMBOL.match(name):
                results.append(_refusal(key, name, "names are symbols of AMQP: printable ASCII"))
            if key in _SYMBOLS and not _SYMBOL.match(as_text(value)):
                results.append(_refusal(key, value, "a symbol of AMQP holds printable ASCII only"))
            if key in _TIMES and not is_timestamp(as_text(value)):
                results.append(_refusal(key, value, "no RFC 3339 timestamp"))
            if section == "application-properties" and isinstance(value, Mapping | list):
                results.append(_refusal(key, value, "application properties of AMQP hold no maps and lists"))
    return results


def _mqtt(message: _Carried) -> list[Refusal]:
    captured, version = message.captured, message.version
    results = []
    for name in ("topic_name", "response_topic"):
        text = as_text(captured.get(name, "t"))
        if not text or any(character in text for character in "+#\0") or len(text.encode()) > _MOST_BYTES:
            results.append(_refusal(name, text, "a topic to publish to is not empty and has no wildcards"))
    if captured.get("payload_format") == 1 and not is_utf8(message.body or b""):
        results.append(_refusal("payload_format", 1, "1 says that the payload is UTF-8, which it is not"))
    if version.startswith("3"):
        results += [
            _refusal(name, captured[name], f"MQTT/{version} does not carry it") for name in _ONLY_MQTT_5 if captured.get(name)
        ]
    texts = [("content_type", as_text(captured.get("content_type", "")))]
    for pair in captured.get("user_properties", ()):
        texts += [(f"user_properties/{escape(pair['name'])}", text) for text in (pair["name"], pair["value"])]
    for key, text in texts:
        if "\0" in text or len(text.encode()) > _MOST_BYTES:
            results.append(_refusal(key, text, f"a text of MQTT has no NUL, and at most {_MOST_BYTES:,} bytes"))
    return results


def is_utf8(body: bytes) -> bool:
    """Return whether bytes are text in UTF-8."""
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _headers(captured: Mapping[str, Any]) -> list[Refusal]:
    results = []
    for header in captured.get("headers", ()):
        pointer = f"headers/{escape(header['name'])}"
        if not _TOKEN.match(header["name"]):
            results.append(_refusal(pointer, header["name"], "no name of a header"))
        if not _FIELD.match(header["value"]):
            results.append(_refusal(pointer, header["value"], "a header holds printable ASCII, and blanks only inside"))
    return results


def _refusal(key: str, value: Any, reason: str) -> Refusal:
    return Refusal(f"/protocoloptions/{key}", f"{as_text(value)[:120]!r}: {reason}")
