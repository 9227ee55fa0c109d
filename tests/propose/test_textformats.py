"""Formats of texts: a text that has one here is valid for the validator of payloads, and columns are decided as single texts."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from builders import law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import make_validator
from lakehouse.propose.textformats import FORMATS, formats_of, formats_of_column

# Texts near each format: some are valid, some just not.
NEAR = {
    "date-time": r"20[0-3]\d-[01]\d-[0-3]\d[Tt](?:\d\d:\d\d:\d\d|23:59:60)(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)",
    "date": r"20\d\d-(?:02|0[4-6]|1\d)-(?:2[89]|3[01])",
    "time": r"[0-2]\d:[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?(?:[Zz]|[+-]\d\d:\d\d)",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
    "uri": r"[a-z]+:(?://(?:[a-z:]*@)?(?:\[[0-9a-f:.]+\]|[a-z%.]*)(?::[0-9a]*)?)?[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*",
    "email": r"(?:[a-z.+{]{1,9}|[a-z.]{60,70})@(?:[a-z0-9-]{1,9}|[a-z]{60,66})(?:\.[a-z0-9-]+)*",
    "ipv4": r"(?:\d{1,3}\.){3}\d{1,3}",
}  # fmt: skip


def is_valid(name: str, text: str) -> bool:
    schema = f'{{"$schema": "https://json-schema.org/draft/2020-12/schema", "format": "{name}"}}'
    return not make_validator(Resolved("x", "JSONSchema/2020-12", schema), lambda _: None).errors(text)


@pytest.mark.parametrize("name", FORMATS)
def test_a_text_that_has_a_format_is_valid_by_it(name):
    @law
    @given(st.from_regex(re.compile(NEAR[name], re.ASCII), fullmatch=True))
    def holds(text):
        assert is_valid(name, text) or not FORMATS[name](text)

    holds()


@pytest.mark.parametrize("name", FORMATS)
def test_a_column_has_the_formats_of_its_texts(name):
    @law
    @given(st.lists(st.from_regex(re.compile(NEAR[name], re.ASCII), fullmatch=True), min_size=1, max_size=4))
    def holds(texts):
        assert formats_of_column(pa.array(texts, pa.string())) == formats_of(texts)

    holds()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "2024-02-29"), ("date", "2026-01-31"), ("time", "10:00:01.5+23:59"), ("date-time", "2026-01-31t10:00:00z"),
        ("date-time", "2016-12-31T23:59:60Z"), ("uri", "https://u:p@shop.example.com:8080/a%20b/@c?d=/?#e/f"),
        ("uri", "urn:shop:1"), ("uri", "file:///tmp"), ("uri", "http://[::1]:80/a"), ("uri", "mailto:a@example.com"),
        ("email", "a.b+c@mail-1.example.com"), ("email", "a@xn--bcher-kva.example"), ("ipv4", "10.0.0.255"),
    ],
)  # fmt: skip
def test_usual_and_rare_texts_have_their_format(name, text):
    assert is_valid(name, text)
    assert name in formats_of([text])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("date", "2026-02-30"), ("date", "2023-02-29"), ("date", "2026-W01-1"), ("time", "10:00:01+24:00"),
        ("date-time", "2026-01-01T10:00:60Z"), ("date-time", "2026-02-30T10:00:00Z"), ("uri", "item:[1]"),
        ("uri", "discount:5%"), ("uri", "a:b#c#1"), ("uri", "http://a:b/"), ("uri", "http://[::1]a"), ("uri", "http://[::1::]/"),
        ("email", "a..1@x.com"), ("email", "a1.@x.com"), ("email", ".a@x.com"), ("email", "a@-x.com"),
        ("email", "a" * 65 + "@x.com"), ("email", "a@" + "b" * 64 + ".com"), ("email", "a@x\n.com"), ("ipv4", "01.2.3.4"),
    ],
)  # fmt: skip
def test_a_text_that_the_validator_refuses_has_no_format(name, text):
    assert not is_valid(name, text)
    assert name not in formats_of([text])
    assert name not in formats_of_column(pa.array([text], pa.string()))
