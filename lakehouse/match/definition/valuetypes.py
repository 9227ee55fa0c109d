"""Types of declared attributes: is a value of the type, and is it the declared value (MSG-209 to MSG-224).

Values of headers and properties are text, so each type also has its canonical text; members of a structured CloudEvent keep their
JSON type. All patterns here are fixed and linear.
"""

from __future__ import annotations

import base64
import math
import re
from datetime import datetime, timezone
from typing import Any

from lakehouse.text.jsontext import canonical
from lakehouse.text.values import decoded_base64, media_type

MARKER = re.compile(r"\A(?:0000-01-01|01-01-0000)")  # "now" when written, any timestamp when matched (MSG-232, WIP-037)
TEMPLATED = frozenset({"string", "symbol", "uri", "urireference", "uritemplate"})
TEMPLATED_THEN_TYPED = frozenset(
    {"timestamp", "datetime", "integer", "boolean", "binary"}
)  # 228 of 231 real `time` are like that

_TIMESTAMP = re.compile(
    r"\A(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)\Z", re.ASCII
)
_INTEGER = re.compile(r"\A-?(?:0|[1-9]\d*)\Z", re.ASCII)
_NUMBER = re.compile(r"\A-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?\Z", re.ASCII)
_DURATION = re.compile(
    r"\AP(?:\d+W|(?=[\dT])(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?)\Z", re.ASCII
)
_ATTRIBUTE_NAME = re.compile(r"\A[a-z0-9]+\Z")
_SYMBOL = re.compile(r"\A[A-Za-z0-9_]+\Z")
_PRINTABLE = re.compile(r"\A[\x21-\x7e]+\Z")
_URI_REFERENCE = re.compile(r"\A(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*\Z")
_SCHEME = re.compile(r"\A[A-Za-z][A-Za-z0-9+.\-]*:")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ufffe\uffff]")
_DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_INT32 = range(-(2**31), 2**31)


def as_text(value: Any) -> str:
    """Return the canonical text of a value: what a header would hold."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return canonical(value).decode()


def is_timestamp(text: str) -> bool:
    """Return whether a text is an RFC 3339 date-time with its offset (MSG-217); a leap second is one."""
    match = _TIMESTAMP.match(text)
    if match is None:
        return False
    year, month, day, hour, minute, second = (int(part) for part in match.groups())
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return (
        1 <= month <= 12
        and 1 <= day <= _DAYS[month - 1] - (month == 2 and not leap)
        and hour < 24
        and minute < 60
        and second < 61
    )


def timestamp_of(milliseconds: int) -> str:
    """Write milliseconds since 1970 as RFC 3339, whole seconds without a fraction; a number of no calendar stays as it is."""
    try:
        moment = datetime.fromtimestamp(milliseconds // 1000, tz=timezone.utc)
    except (ValueError, OverflowError, OSError):
        return as_text(milliseconds)
    fraction = milliseconds % 1000
    return f"{moment:%Y-%m-%dT%H:%M:%S}" + (f".{fraction:03d}Z" if fraction else "Z")


def milliseconds_of(value: Any) -> int | None:
    """Return a time of AMQP, which is in milliseconds: a number, or its text, as columns hold it; None: it is none."""
    if type(value) is int:
        return value
    is_number = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 19
    return int(value) if is_number else None


def is_attribute_name(name: str) -> bool:
    """Return whether a name is one of a CloudEvents attribute: lower-case letters and digits (MSG-236)."""
    return _ATTRIBUTE_NAME.match(name) is not None


def is_uri_reference(text: str) -> bool:
    """Return whether a text is a URI-reference by RFC 3986, as far as its characters go (MSG-219)."""
    return _URI_REFERENCE.match(text) is not None


def is_of_type(value: Any, kind: str, *, small: bool = False, loose_symbol: bool = False) -> bool:
    """Return whether a value is of a declared type, by its JSON type or by its canonical text.

    Args:
        value: JSON value, text of a header, or bytes.
        kind: the declared type; one that is not known holds for anything.
        small: integers have 32 bits, as in CloudEvents (MSG-213).
        loose_symbol: symbols of AMQP and MQTT content types: printable ASCII (resolution 13).
    """
    if kind == "any":
        return True
    if kind == "boolean":
        return isinstance(value, bool) or value in ("true", "false")
    if kind == "integer":
        number = _integer(value)
        return number is not None and (not small or number in _INT32)
    if kind == "number":
        return _number(value) is not None
    if kind == "binary":
        return isinstance(value, bytes) or (isinstance(value, str) and decoded_base64(value) is not None)
    check = _TEXT_CHECKS.get(kind)
    if check is None:
        return True
    if not isinstance(value, str):
        return False
    return _PRINTABLE.match(value) is not None if kind == "symbol" and loose_symbol else bool(check(value))


def is_value(value: Any, declared: Any, kind: str | None) -> bool:
    """Return whether a value is the declared one: numbers by value, booleans also as text, binary by bytes (MSG-089, MSG-224)."""
    if isinstance(declared, bool) or kind == "boolean":
        return as_text(value) == as_text(declared)
    if kind in ("integer", "number") or isinstance(declared, int | float):
        wanted, number = _number(declared), _number(value)
        whole = kind != "integer" or isinstance(value, str) or not isinstance(value, float)
        return wanted is not None and number is not None and wanted == number and whole
    if kind == "binary":
        mine = value if isinstance(value, bytes) else decoded_base64(as_text(value))
        return mine is not None and mine == decoded_base64(as_text(declared))
    if isinstance(value, bytes):
        return value == as_text(declared).encode()
    return as_text(value) == as_text(declared)


def is_media_type(value: str, declared: str) -> bool:
    """Return whether a content type is the declared one; further parameters, such as charset, may follow (MSG-191)."""
    mine, wanted = media_type(value), media_type(declared)
    return mine[0] == wanted[0] and all(mine[1].get(key, "").lower() == text.lower() for key, text in wanted[1].items())


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, str) and len(value) < 400 and _INTEGER.match(value) else None


def _number(value: Any) -> int | float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return value if isinstance(value, int) or math.isfinite(value) else None
    if not isinstance(value, str) or len(value) > 400 or not _NUMBER.match(value):
        return None
    return int(value) if _INTEGER.match(value) else float(value)


def _is_uri(text: str) -> bool:
    return _SCHEME.match(text) is not None and is_uri_reference(text)


_TEXT_CHECKS: dict[str, Any] = {
    "string": lambda text: _CONTROL.search(text) is None,
    "symbol": _SYMBOL.match,
    "timestamp": is_timestamp,
    "datetime": is_timestamp,
    "duration": _DURATION.match,
    "uri": _is_uri,
    "urireference": is_uri_reference,
    "uritemplate": is_uri_reference,
}
