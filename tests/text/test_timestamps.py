from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from builders import law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.text.timestamps import microseconds

SECOND = 1_000_000
HOUR = 3600 * SECOND


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01t00:00:01z", SECOND),
        ("1970-01-01T00:00:00.5Z", SECOND // 2),
        ("1970-01-01T00:00:00.000001Z", 1),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31T22:30:00-01:30", 0),
        ("1970-01-01T00:00:00-00:00", 0),
        ("1969-12-31T23:59:59.25Z", -750_000),
        ("2024-02-29T12:00:00Z", 1_709_208_000 * SECOND),
        ("2016-12-31T23:59:60Z", 1_483_228_800 * SECOND),
    ],
)
def test_a_timestamp_is_microseconds_since_1970_in_utc(text, micros):
    assert microseconds(text) == (micros, True)


def test_digits_beyond_microseconds_are_cut_off():
    assert microseconds("1970-01-01T00:00:00.1234569Z") == (123_456, True)


def test_digits_beyond_microseconds_are_cut_off_towards_the_past():
    assert microseconds("1969-12-31T23:59:59.9999999Z") == (-1, True)


def test_a_timestamp_without_a_zone_is_utc_and_says_so():
    assert microseconds("1970-01-01T01:00:00") == (HOUR, False)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-01",
        "2024-01-01 00:00:00Z",
        "2024-1-1T00:00:00Z",
        "2024-01-01T00:00Z",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00+0100",
        "2024-01-01T00:00:00+01",
        "2024-01-01T00:00:00Z\n",
        " 2024-01-01T00:00:00Z",
        "\uff12\uff10\uff12\uff14-01-01T00:00:00Z",
        "01-01-0000T00:00:00Z",
        "2023-02-29T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-01-01T25:00:00Z",
        "2024-01-01T00:60:00Z",
    ],
)
def test_other_texts_are_no_timestamps(text):
    with pytest.raises(ValueError, match=r"RFC 3339 timestamp|is not a moment"):
        microseconds(text)


@pytest.mark.parametrize("zone", ["+24:00", "-99:00", "+00:60", "+01:99"])
def test_a_zone_beyond_a_day_or_an_hour_is_no_zone(zone):
    # RFC 3339: time-hour is 00 to 23, time-minute 00 to 59.
    with pytest.raises(ValueError, match="2024"):
        microseconds("2024-01-01T00:00:00" + zone)


@pytest.mark.parametrize(
    "text", ["0000-01-01T00:00:00Z", "0000-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"]
)
def test_a_moment_that_no_timestamp_column_holds_is_refused(text):
    with pytest.raises(ValueError, match=r"0000|0001|9999"):
        microseconds(text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z"])
def test_the_first_and_the_last_moment_are_taken(text):
    assert microseconds(text)[1]


moments = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 12, 31))
zones = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@law
@given(moments, zones)
def test_a_moment_is_the_same_in_every_zone(moment, zone):
    moment = moment.replace(tzinfo=zone)
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert microseconds(moment.isoformat()) == ((moment - epoch) // timedelta(microseconds=1), True)
