"""The pass that Spark's Python workers run, without Spark: an index written and mapped, batches in, batches out."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from builders import document, group

from lakehouse.match import distributed
from lakehouse.match.distributed import schema_table, write_store
from lakehouse.match.index import definition_rows, index_of
from lakehouse.match.matcher import RESULT_COLUMNS, RESULT_SCHEMA, MatchRequest
from lakehouse.match.runs import MatchOptions
from match.catalogs import load
from match.test_columns import FROM_SPARK, row

MESSAGE = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}}, "dataschemaformat": "JSONSchema",
           "dataschemauri": "#/schemagroups/s/schemas/n"}  # fmt: skip
SCHEMAS = {"s": {"schemas": {"n": {"versions": {"1": {"format": "JSONSchema", "schema": {"required": ["n"]}}}}}}}
GOOD = {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "T", "ce_source": "/s"}


@pytest.fixture
def matched(tmp_path, monkeypatch):
    rows, schemas = load({"r": document({"g": group({"m": MESSAGE})}, schemagroups=SCHEMAS)})
    path = write_store(tmp_path, index_of(definition_rows(rows)), schema_table(schemas))
    monkeypatch.setattr(distributed.SparkFiles, "get", lambda name: str(tmp_path / name))

    def match(rows, wanted=tuple(RESULT_COLUMNS)):
        batches = [pa.RecordBatch.from_pylist(rows[at : at + 200], schema=FROM_SPARK) for at in range(0, len(rows), 200)]
        run = distributed._pass(path.name, MatchRequest(), wanted)
        schema = pa.schema([RESULT_SCHEMA.field(name) for name in wanted])
        return [one for made in run(batches) for one in made.cast(schema).to_pylist()]

    return match


def test_rows_and_columns_come_out_once_each(matched):
    rows = [row(number, GOOD | ({"ce_type": "U"} if number % 10 == 0 else {}), payload=b'{"n": 1}') for number in range(500)]
    reported = matched(rows)
    assert sorted(one["event_ref"]["offset"] for one in reported) == list(range(500))
    assert [one["status"] for one in reported].count("unmatched") == 50
    assert {one["payload_status"] for one in reported if one["status"] == "matched"} == {"valid"}
    assert {one["why"] for one in reported if one["status"] == "unmatched"} == {"type U, declared T"}


def test_what_is_not_wanted_is_not_sent(matched):
    rows = [row(number, GOOD | ({"ce_type": "U"} if number % 10 == 0 else {}), payload=b'{"n": 1}') for number in range(200)]
    names = MatchOptions(("landed",)).columns()
    assert not {"matches", "event_ref", "place", "variables"} & set(names)
    reported = matched(rows)
    assert matched(rows, names) == [{name: one[name] for name in names} for one in reported]
    assert set(MatchOptions(("landed",), results="r.jsonl").columns()) == set(RESULT_COLUMNS)
    assert set(RESULT_COLUMNS) - set(MatchOptions(("landed",), into="found").columns()) == {"place"}


def test_lines_are_numbered_in_their_split_and_batches_opened(matched):
    event = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s", "data": {}}
    texts = [json.dumps(event), json.dumps([event, event]), "no JSON"]
    lines = [dict.fromkeys(FROM_SPARK.names) | {"source": "f", "partition": 0, "line": text.encode()} for text in texts]
    reported = matched(lines + lines)
    assert [one["event_ref"]["row"] for one in reported] == [0, 1, 1, 2, 3, 4, 4, 5]
    assert [one["status"] for one in reported[:4]] == ["matched", "matched", "matched", "unreadable"]
    assert reported[0]["payload_errors"] == [{"pointer": "/n", "keyword": "required", "message": '"n" is a required property'}]


def test_one_hostile_row_costs_its_own_only(matched):
    hostile = [
        row(0, GOOD | {"ce_type": "T" * 1_000_000}),
        row(1, GOOD, payload=b"[" * 1_000_000),
        row(2, {f"h{number}": "x" for number in range(5_000)}),
        row(3, GOOD | {"ce_source": "\x00"}),
        row(4, GOOD | {"x": b"\xff\xfe"}),
        row(5, GOOD, payload=b'{"n": 1}'),
    ]
    reported = {one["event_ref"]["offset"]: one for one in matched(hostile)}
    assert [reported[number]["status"] for number in range(6)] == [
        "unmatched", "matched", "unmatched", "matched", "unreadable", "matched",
    ]  # fmt: skip
    assert reported[1]["payload_status"] == "undecodable"
    assert reported[5]["payload_status"] == "valid"
