"""The types of declared properties: which texts and JSON values fit them (requirements MSG-208 to MSG-227).

A text with placeholders (`{tenantid}`) is a template: of its type it need only be as much as can be checked without the values.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from uritemplate import URITemplate
from uritemplate.variable import Operator

PLACEHOLDER = re.compile(r"\{[A-Za-z0-9_]+\}")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# Older names of types, met in published documents.
OLD_TYPES = {"datetime": "timestamp", "uri-template": "uritemplate", "uri-reference": "urireference", "int": "integer"}

_CHARS = r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;={}]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.\-_]*:{_CHARS}+")
_REFERENCE = re.compile(rf"(?![^/?#]*:){_CHARS}*")
_TIMESTAMP = re.compile(
    r"[0-9]{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])[Tt]"
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\.[0-9]+)?(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_DURATION = re.compile(
    r"P(?:[0-9]+W|(?=[0-9T])(?:[0-9]+Y)?(?:[0-9]+M)?(?:[0-9]+D)?(?:T(?=[0-9])(?:[0-9]+H)?(?:[0-9]+M)?(?:[0-9]+(?:\.[0-9]+)?S)?)?)"
)
_MEDIA_TYPE = re.compile(rf'{TOKEN.pattern}/{TOKEN.pattern}(?:[ \t]*;[ \t]*(?:{TOKEN.pattern}=(?:{TOKEN.pattern}|"[^"]*"))?)*')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BRACES = re.compile(r"[{}]")
_NOW = "0000-01-01T00:00:00Z"
MOST_DIGITS = 4300  # of an integer: Python reads and writes no longer ones


def is_uri(text: Any) -> bool:
    """Return whether a text is an absolute URI; the scheme may have an underscore, as Kafka's do."""
    return isinstance(text, str) and _URI.fullmatch(text) is not None


def is_uri_reference(text: Any) -> bool:
    """Return whether a text is a URI or a relative reference, whose fragment may have a second `#` (decision 24)."""
    return isinstance(text, str) and (is_uri(text) or (text != "" and _REFERENCE.fullmatch(text) is not None))


def is_media_type(text: Any) -> bool:
    """Return whether a text is a media type: type/subtype with parameters (RFC 2046)."""
    return isinstance(text, str) and _MEDIA_TYPE.fullmatch(text) is not None


@lru_cache(1000)
def media_type(text: str) -> tuple[str, dict[str, str]]:
    """Split a content type into its media type in lower case and its parameters, names in lower case (MSG-191)."""
    name, *parameters = text.split(";")
    pairs = (parameter.partition("=") for parameter in parameters)
    return name.strip().lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in pairs if key.strip()}


def is_same_media_type(text: str, other: str) -> bool:
    """Return whether two content types are one, however they are spelled: letter case, blanks, quotes, order of parameters."""
    (name, parameters), (other_name, other_parameters) = media_type(text.lower()), media_type(other.lower())
    return name == other_name and parameters == other_parameters


def is_whole(text: str) -> bool:
    """Return whether a text is a number of ASCII digits that `int` reads."""
    return text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS


def is_template(value: Any) -> bool:
    """Return whether a text has at least one placeholder."""
    return isinstance(value, str) and PLACEHOLDER.search(value) is not None


def template_problem(text: str) -> tuple[str, str] | None:
    """Return the violated rule and the reason if the braces of a level 1 template are wrong, else None."""
    rest = PLACEHOLDER.sub("", text)
    if not _BRACES.search(rest):
        return None
    odd = re.search(r"\{[^{}]*\}", rest)
    if odd is None:
        return "MSG-226", f"{text!r} has a brace without its partner"
    if _is_above_level_1(odd[0]):
        return "MSG-220", f"{text!r} is not a level 1 template of RFC 6570: {odd[0]!r} is more than a name in braces"
    return "MSG-227", f"{text!r} has the placeholder {odd[0]!r}, whose name is not made of letters, digits and _"


def _is_above_level_1(expression: str) -> bool:
    """Return whether an expression of RFC 6570 has an operator, several variables, or a modifier of one."""
    try:
        results = URITemplate(expression).variables
    except ValueError:  # a prefix that is not a number
        return False
    return any(
        variable.operator is not Operator.default
        or len(variable.variables) > 1
        or any(any(how.values()) for _, how in variable.variables)
        for variable in results
    )


def fits(kind: str, value: Any) -> bool:
    """Return whether a JSON value fits a type: any value an unknown one, placeholders all but a number (resolution 10)."""
    if isinstance(value, str) and kind != "number" and is_template(value):
        return kind != "uritemplate" or template_problem(value) is None
    test = _TYPES.get(OLD_TYPES.get(kind, kind))
    return test is None or test(value)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool | str | dict | list) and value is not None


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_int32(value: Any) -> bool:
    return _is_integer(value) and -(2**31) <= value < 2**31


def _is_string(value: Any) -> bool:
    return isinstance(value, str) and not _CONTROL.search(value)


def is_base64(value: Any) -> bool:
    """Return whether a value is a text in base64."""
    return isinstance(value, str) and decoded_base64(value) is not None


def path_of_uri(text: str) -> str:
    """Return the path of a URI; empty: it is no URI that can be taken apart."""
    try:
        return urlsplit(text).path
    except ValueError:  # such as http://[
        return ""


def decoded_base64(text: str) -> bytes | None:
    """Return the bytes of a text in base64; None: it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:  # binascii.Error is one; another is raised for what is not ASCII
        return None


def is_timestamp(value: Any) -> bool:
    """Return whether a text is a timestamp (RFC 3339), or the marker of the current time."""
    if not isinstance(value, str) or not _TIMESTAMP.fullmatch(value):
        return False
    if value == _NOW:
        return True
    try:
        datetime(int(value[:4]), int(value[5:7]), int(value[8:10]))
    except ValueError:
        return False
    return True


def is_now(value: Any) -> bool:
    """Return whether a text is the marker of the current time (MSG-231)."""
    return bool(value == _NOW)


def _matches(pattern: re.Pattern[str]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, str) and pattern.fullmatch(value) is not None


def _is_ulong(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


_TYPES: dict[str, Callable[[Any], bool]] = {
    "any": lambda value: True,
    "asciisymbol": _matches(re.compile(r"[!-~ ]+")),
    "binary": is_base64,
    "boolean": lambda value: isinstance(value, bool),
    "duration": _matches(_DURATION),
    "int32": _is_int32,
    "integer": _is_integer,
    "number": _is_number,
    "string": _is_string,
    "symbol": _matches(re.compile(r"[A-Za-z0-9_]+")),
    "timestamp": is_timestamp,
    "ulong": _is_ulong,
    "uri": is_uri,
    "urireference": is_uri_reference,
    "uritemplate": lambda value: _is_string(value) and template_problem(value) is None,
    "uuid": _matches(_UUID),
}
TYPES = frozenset(_TYPES) - {"asciisymbol", "int32"}
