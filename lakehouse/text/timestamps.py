"""RFC 3339 timestamps of documents, as microseconds since 1970 in UTC (decision 10)."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_RFC3339 = re.compile(
    r"\A(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-](?:[01]\d|2[0-3]):[0-5]\d)?\Z", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICRO = timedelta(microseconds=1)
_FIRST = (datetime(1, 1, 1, tzinfo=timezone.utc) - _EPOCH) // _MICRO
_LAST = (datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc) - _EPOCH) // _MICRO


def microseconds(text: str) -> tuple[int, bool]:
    """Read a timestamp.

    Returns:
        Microseconds since 1970 (UTC), further digits cut off; and whether a time zone was written (without one it is UTC).

    Raises:
        ValueError: it is none, or lies outside the years 1 to 9999.
    """
    match = _RFC3339.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no RFC 3339 timestamp")
    *parts, second, fraction, zone = match.groups()
    leap = second == "60"  # the second after 59, which Python's times do not have
    try:
        moment = datetime(*map(int, parts), 59 if leap else int(second), tzinfo=timezone.utc)  # type: ignore[misc,arg-type]
    except ValueError as error:
        raise ValueError(f"{text!r} is not a moment: {error}") from error
    micros = micros_of(moment) + leap * 1_000_000 + int((fraction or "").ljust(6, "0")[:6])
    if zone and zone not in "Zz":
        seconds = int(zone[1:3]) * 3600 + int(zone[4:6]) * 60
        micros -= (seconds if zone[0] == "+" else -seconds) * 1_000_000
    if not _FIRST <= micros <= _LAST:
        raise ValueError(f"{text!r} lies outside the years 1 to 9999")
    return micros, zone is not None


def micros_of(moment: datetime) -> int:
    """Return a moment as microseconds since 1970 (UTC)."""
    return (moment - _EPOCH) // _MICRO


def rfc3339(micros: int) -> str:
    """Write microseconds since 1970 as a timestamp in UTC, with as many digits as it has."""
    text = (_EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat()
    return (text.rstrip("0") if "." in text else text) + "Z"


def utc_seconds(timestamp: str | None) -> str:
    """Return a timestamp as people read it everywhere: ISO 8601, UTC, with seconds; of None an empty text."""
    return "" if timestamp is None else rfc3339(microseconds(timestamp)[0] // 1_000_000 * 1_000_000)
