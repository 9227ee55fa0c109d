"""Formats of JSON Schema that texts have: what has one here is valid for the validator of payloads, too.

Most texts are decided by a pattern, which RE2 and Python read alike. The few that are unusual, such as the 29th of a month, are
decided by a function. Rare spellings that the validator takes count as none: quoted mailboxes, domains without a dot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from datetime import date
from functools import partial
from ipaddress import IPv6Address

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.valuetypes import is_timestamp

_DAY = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"  # one that all months have
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?"
_OFFSET = r"[+-](?:[01]\d|2[0-3]):[0-5]\d"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_ESCAPED = "%[0-9A-Fa-f]{2}"
_MARKS = r"A-Za-z0-9._~!$&'()*+,;=\-"  # of any part of a URI


def _part(more: str) -> str:
    """Return the pattern of a part of a URI, in which some more characters may be."""
    return f"[{_MARKS}{more}]*(?:{_ESCAPED}[{_MARKS}{more}]*)*"


_BEFORE_HOST = f"[A-Za-z][A-Za-z0-9+.-]*://(?:{_part(':')}@)?"
_AFTER_PATH = rf"(?:\?{_part(':@/?')})?(?:#{_part(':@/?')})?"
_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]"
_WORD = r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,20}"
_USUAL = {
    "date-time": rf"{_DAY}T{_TIME}(?:Z|{_OFFSET})",
    "date": _DAY,
    "time": rf"{_TIME}(?:[Zz]|{_OFFSET})",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": rf"(?:{_BEFORE_HOST}{_part('')}(?::\d*)?(?:/{_part(':@/')})?"
    rf"|[A-Za-z][A-Za-z0-9+.-]*:/?(?:(?:[{_MARKS}:@]|{_ESCAPED}){_part(':@/')})?){_AFTER_PATH}",
    "email": rf"{_ATOM}(?:\.?{_ATOM}){{0,31}}@{_WORD}(?:\.{_WORD}){{1,5}}",  # never too long
    "ipv4": rf"(?:{_BYTE}\.){{3}}{_BYTE}",
}
_PATTERNS = {name: re.compile(pattern, re.ASCII) for name, pattern in _USUAL.items()}
_GLANCES = {name: rf"\A(?:{pattern})\z" for name, pattern in _USUAL.items()}

_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_LEAP_SECOND = re.compile(r".{10}[Tt]23:59:60(?:\.\d+)?[Zz]", re.ASCII)
_MAILBOX = re.compile(rf"{_ATOM}+(?:\.{_ATOM}+)*")
_DOMAIN = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)+")
_IPV6_HOST = re.compile(rf"({_BEFORE_HOST})\[([0-9A-Fa-f:.]+)\](?=[:/?#]|\Z)")


def _is_date(text: str) -> bool:
    if _DATE.fullmatch(text) is None:
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    """Return whether a text is a timestamp; of second 60 only at the end of a day in UTC."""
    return is_timestamp(text) and (text[17:19] != "60" or _LEAP_SECOND.fullmatch(text) is not None)


def _is_email(text: str) -> bool:
    mailbox, _, domain = text.rpartition("@")
    is_short = len(mailbox) <= 64 and len(domain) <= 253
    return is_short and _MAILBOX.fullmatch(mailbox) is not None and _DOMAIN.fullmatch(domain) is not None


def _is_uri_of_ipv6(text: str) -> bool:
    host = _IPV6_HOST.match(text)
    if host is None:
        return False
    try:
        IPv6Address(host[2])
    except ValueError:
        return False
    return _PATTERNS["uri"].fullmatch(f"{host[1]}host{text[host.end() :]}") is not None


_UNUSUAL: dict[str, Callable[[str], bool]] = {
    "date-time": _is_date_time,
    "date": _is_date,
    "uri": _is_uri_of_ipv6,
    "email": _is_email,
}


def _has(name: str, text: str) -> bool:
    return _PATTERNS[name].fullmatch(text) is not None or (name in _UNUSUAL and _UNUSUAL[name](text))


FORMATS: dict[str, Callable[[str], bool]] = {name: partial(_has, name) for name in _USUAL}


def formats_of(texts: Collection[str], among: Iterable[str] | None = None) -> frozenset[str]:
    """Return the formats that all texts have.

    Args:
        texts: at least one.
        among: formats that are still possible; None: all.
    """
    possible = FORMATS.keys() if among is None else among
    first = next(iter(texts))
    return frozenset(name for name in possible if FORMATS[name](first) and all(map(FORMATS[name], texts)))


def formats_of_column(texts: pa.StringArray, among: Iterable[str] | None = None) -> frozenset[str]:
    """Return the formats that all texts of a column have, as `formats_of` does: most at a glance, by RE2."""
    possible = formats_of([texts[0].as_py()], among)
    misfits = {name: texts.filter(pc.invert(pc.match_substring_regex(texts, _GLANCES[name]))) for name in possible}
    return frozenset(name for name, left in misfits.items() if all(map(FORMATS[name], left.to_pylist())))
