"""The topic of a registry as it landed: its lines, and what its records leave."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from lakehouse.registries.schemastopic import TopicRecord, UnreadableRecord, record_of_columns, record_of_line, replay
from lakehouse.registries.subjectdocuments import GLOBAL

KEY = {"keytype": "SCHEMA", "subject": "s", "version": 1, "magic": 1}
VALUE = {"subject": "s", "version": 1, "id": 7, "schema": '"int"', "deleted": False}


def record(key: Any, value: Any, offset: int | None = None) -> TopicRecord:
    return TopicRecord(json.dumps(key).encode(), None if value is None else json.dumps(value).encode(), offset)


def held(*records: TopicRecord) -> dict[tuple[str, int], bool]:
    return {(one.subject, one.version): one.is_deleted for one in replay(records).versions}


def schema(number: int = 1, **more: Any) -> TopicRecord:
    return record(KEY | {"version": number}, VALUE | {"version": number} | more)


K, V = json.dumps(KEY), json.dumps(VALUE)


@pytest.mark.parametrize(
    "line",
    [
        json.dumps({"topic": "_schemas", "offset": 3, "key": K, "value": V}),
        json.dumps({"topic": "_schemas", "partition": 0, "offset": 3, "ts": 0, "key": K, "payload": V}),
        json.dumps({"offset": 3, "key": KEY, "value": VALUE}),
        json.dumps({"offset": 3, "key": base64.b64encode(K.encode()).decode(), "value": base64.b64encode(V.encode()).decode()}),
        f"{K}\t{V}\n",
    ],
)
def test_lines_of_a_topic(line):
    found = record_of_line(line.encode())
    assert (json.loads(found.key), json.loads(found.value or b"")) == (KEY, VALUE)
    assert found.offset == (None if "\t" in line else 3)


@pytest.mark.parametrize(
    "line",
    [
        f"{K}\tnull",
        json.dumps({"key": K, "value": None}),
        json.dumps({"key": base64.b64encode(K.encode()).decode(), "value": None}),
        json.dumps({"key": K, "value": ""}),
        json.dumps({"key": K, "offset": 3}),
        json.dumps({"key": KEY}),
        json.dumps({"key": base64.b64encode(K.encode()).decode(), "offset": 3}),
    ],
)
def test_lines_without_a_value(line):
    found = record_of_line(line.encode())
    assert (json.loads(found.key), found.value) == (KEY, None)


@pytest.mark.parametrize(
    "line",
    [b"x", b"[]", b"{}", b'{"key":null,"value":"{}"}', b'{"value":"{}"}', b'{"key":"{}"}', b'{"key":"a"}', b"\xff"],
)
def test_lines_of_something_else(line):
    with pytest.raises(UnreadableRecord):
        record_of_line(line)


def test_columns_of_a_table():
    with pytest.raises(UnreadableRecord):  # a table has a column for each null, so that this one is not such a topic
        record_of_columns({"key": K, "offset": 2})
    assert record_of_columns({"key": bytearray(b"{}"), "value": None, "offset": 2}) == TopicRecord(b"{}", None, 2)


def test_the_last_record_of_a_key_counts():
    assert held(schema(), schema(2), schema(deleted=True)) == {("s", 1): True, ("s", 2): False}
    assert held(schema(), schema(2), record(KEY, None)) == {("s", 2): False}
    late, early = schema(deleted=True)._replace(offset=2), schema()._replace(offset=1)
    assert held(late, early) == {("s", 1): True}  # the files of a landing have no order


def test_a_deleted_subject_can_come_back():
    deleted = record({"keytype": "DELETE_SUBJECT", "subject": "s"}, {"subject": "s", "version": 2})
    cleared = record({"keytype": "CLEAR_SUBJECT", "subject": "s"}, {"subject": "s"})
    assert held(schema(), schema(2), schema(3), deleted) == {("s", 1): True, ("s", 2): True, ("s", 3): False}
    assert held(schema(), deleted, schema(3), cleared) == {("s", 3): False}
    assert held(schema(), deleted, schema()) == {("s", 1): False}


def test_a_line_without_the_column_of_values_is_no_deletion():
    line = json.dumps({"key": json.dumps(KEY), "offset": 3, "val": json.dumps(VALUE)}).encode()
    with pytest.raises(UnreadableRecord, match="it has no `key` and `value`"):
        record_of_line(line)


def test_levels_and_modes():
    def config(subject: str | None, level: str | None) -> TopicRecord:
        key = {"keytype": "CONFIG", "subject": subject, "magic": 0}
        return record(key, None if level is None else {"compatibilityLevel": level})

    mode = record({"keytype": "MODE", "subject": "s", "magic": 0}, {"mode": "READONLY"})
    content = replay([config(None, "FULL"), config("s", "NONE"), config("t", "NONE"), config("t", None), mode])
    assert (content.levels, content.modes) == ({GLOBAL: "FULL", "s": "NONE"}, {"s": "READONLY"})


def test_records_that_hold_no_content():
    noop, context = {"keytype": "NOOP", "magic": 0}, {"keytype": "CONTEXT", "tenant": "t", "context": ".eu", "magic": 0}
    assert held(record(noop, None), record(context, {"tenant": "t", "context": ".eu"}), schema()) == {("s", 1): False}


@pytest.mark.parametrize(
    ("bad", "place"),
    [
        (TopicRecord(b"{", b"{}"), "record 2: "),
        (TopicRecord(b"{}", b"{}", None), "record 2: its key has no `keytype`"),
        (record(KEY, [1]), "record 2: its value is no JSON object"),
        (record(KEY, {"schema": 1}), "record 2: `schema`"),
        (record(KEY | {"version": "x"}, VALUE), "record 2: its key names no subject and version"),
    ],
)
def test_a_record_that_cannot_be_read_is_an_error_with_its_place(bad, place):
    with pytest.raises(UnreadableRecord, match="^" + place):
        replay([schema(), bad])
    with pytest.raises(UnreadableRecord, match=r"^offset 9"):
        replay([schema()._replace(offset=8), bad._replace(offset=9)])
