"""One bad document costs itself only: whatever fails on the way to its rows, it is rejected, and the others load."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from builders import document, group, stage

from lakehouse import parse, stagebatches
from lakehouse.findings import FAULT
from lakehouse.parse import Limits, Source, _Parse, parser
from lakehouse.stagebatches import BATCH_BYTES, StageBatches


def written(name: str) -> bytes:
    return json.dumps(document({"g": group({"m": {"name": name}}), "h": group({f"{name}-last": {}})}, name=name)).encode()


GOOD, BAD = written("good"), written("bad")


def rows_of(*texts: tuple[str, bytes], stream: int = 1 << 20) -> list[dict[str, Any]]:
    """Parse documents, all of one batch."""
    limits = Limits(bytes=1 << 20, unpacked=1 << 20, depth=64, entities=1000, stream=stream, strict=False)
    sources = [Source(f"file:/{uri}", len(text), "0" * 64, uri, False, False, text, None, False) for uri, text in texts]
    columns = [pa.array(list(values)) for values in zip(*sources, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, names=list(Source._fields))
    return [row for made in parser(limits)([batch]) for row in made.to_pylist()]


def told(rows: list[dict[str, Any]], uri: str) -> tuple[str, list[str], int]:
    """Give of a document its status, the rules of its findings, and how many entities it has."""
    own = [row for row in rows if row["document_uri"] == f"file:/{uri}"]
    statuses = [json.loads(row["facts"])["status"] for row in own if row["row"] == "document"]
    assert len(statuses) == 1
    rules = [row["finding"]["rule_id"] for row in own if row["row"] == "finding"]
    return statuses[0], rules, sum(row["row"] == "entity" for row in own)


class _Odd(Exception):
    """Nobody expects it."""


def broken(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, is_bad: Any) -> None:
    """Let a function fail for the bad document."""
    genuine = getattr(owner, name)

    def fails(*given: Any, **named: Any) -> Any:
        if is_bad(*given):
            raise _Odd("QXZJKV")  # a message that would tell a secret
        return genuine(*given, **named)

    monkeypatch.setattr(owner, name, fails)


def holds_bad(*given: Any) -> bool:
    return any("bad" in repr(one) for one in given)


STAGES = {
    "open": (parse, "open_document", lambda uri, *_: "bad" in uri),
    "read": (parse, "_read_up_to", lambda stream, _: b"bad" in stream.getvalue()),
    "decode": (parse, "read_text", holds_bad),
    "detect": (parse, "not_a_registry", holds_bad),
    "redact": (parse, "redact", holds_bad),
    "dialect": (parse, "told_dialect", holds_bad),
    "entities": (parse, "read_document", holds_bad),
    "rows": (StageBatches, "add_entities", holds_bad),
    "finding": (StageBatches, "add_facts", lambda _, uri, *given: "bad" in uri and given[1]["status"] == "loaded"),
    "batch": (StageBatches, "_entity_batch", holds_bad),
}


@pytest.mark.parametrize("stream", [1 << 20, 60], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", STAGES)
def test_a_fault_at_any_stage_costs_the_document_only(monkeypatch, name, stream):
    owner, function, is_bad = STAGES[name]
    broken(monkeypatch, owner, function, is_bad=is_bad)
    rows = rows_of(("one", GOOD), ("bad", BAD), ("two", GOOD), stream=stream)
    assert told(rows, "bad") == ("rejected", [FAULT], 0)
    assert told(rows, "one") == told(rows, "two") == ("loaded", [], 7)
    assert "QXZJKV" not in str(rows)
    (finding,) = [row["finding"] for row in rows if row["row"] == "finding"]
    assert "_Odd" in finding["message"]


def test_a_large_document_that_fails_at_its_end_gives_no_rows(monkeypatch):
    monkeypatch.setattr(stagebatches, "BATCH_ROWS", 3)
    broken(monkeypatch, parse, "read_document", is_bad=lambda part, *_: "bad-last" in repr(part))
    rows = rows_of(("one", GOOD), ("bad", BAD), ("two", GOOD), stream=60)
    assert told(rows, "bad") == ("rejected", [FAULT], 0)
    assert told(rows, "one") == told(rows, "two") == ("loaded", [], 7)


def test_rows_that_wait_on_the_disk_are_all_there(monkeypatch):
    text = json.dumps(document({f"g{n}": group({f"m{k}": {"name": "x"} for k in range(7)}) for n in range(30)})).encode()
    whole = stage(text, stream=1 << 20)
    monkeypatch.setattr(stagebatches, "BATCH_ROWS", 10)
    assert stage(text, stream=100) == whole


def test_a_row_that_arrow_cannot_hold_costs_its_document_only():
    spoilt = Source("file:/bad", 1, "0" * 64, "x\ud800", False, False, GOOD, None, False)
    document = _Parse(spoilt, Limits(1 << 20, 1 << 20, 64, 1000, 1 << 20, False))
    document.run()
    with pytest.raises(stagebatches.NotWritable):
        list(document.stage.batches())


# What ended the whole ingest


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", 'messagegroups: {g: {name: "\\ud800"}}'),
        ("a.yaml", 'messagegroups: {g: {name: "\\U00110000"}}'),
        ("a.yaml", "messagegroups: {g: {epoch: " + "9" * 5000 + "}}"),
        ("a.yaml", "messagegroups: {g: {epoch: -" + "9" * 5000 + "}}"),
        ("a.json", '{"messagegroups": {"g": {"name": "\\ud800"}}}'),
        ("a.json", '{"messagegroups": {"g": {"epoch": ' + "9" * 5000 + "}}}"),
    ],
)
@pytest.mark.parametrize("stream", [1 << 20, 20])
def test_what_is_no_text_or_number_is_rejected(name, text, stream):
    made = stage(text.encode(), uri=f"file:/{name}", stream=stream)
    assert [row["finding"]["rule_id"] for row in made["finding"]] == ["JSON-001"]
    assert made["entity"] == []


def test_yaml_and_json_agree_on_the_longest_numbers_and_on_pairs_of_surrogates():
    text = '{"messagegroups": {"g": {"x": "\\ud83d\\ude00", "y": -' + "9" * 4300 + "}}}"
    as_json, as_yaml = stage(text.encode()), stage(text.encode(), uri="file:/none/a.json.yaml")
    assert [row["content_hash"] for row in as_yaml["entity"]] == [row["content_hash"] for row in as_json["entity"]]
    assert len(as_json["entity"]) == 2


# Collections that are no maps


@pytest.mark.parametrize(
    ("collection", "rule"),
    [
        ("messagegroups", "MSG-018"), ("definitionGroups", "MSG-018"), ("schemagroups", "MSG-018"), ("schemaGroups", "MSG-018"),
        ("endpoints", "END-031"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", [[], [{"messagegroupid": "g"}], "text", 7, False])
@pytest.mark.parametrize("rest", [{}, {"specversion": "1.0-rc2"}, {"messagegroups": {"g": {}}, "endpoints": {"e": {}}}])
@pytest.mark.parametrize("stream", [1 << 20, 10])
def test_a_collection_that_is_no_map_rejects_the_document(collection, rule, value, rest, stream):
    made = stage(json.dumps(rest | {collection: value}).encode(), stream=stream)
    assert [row["finding"]["rule_id"] for row in made["finding"]] == [rule]
    assert json.loads(made["document"][0]["facts"])["status"] == "rejected"
    assert made["entity"] == []


def test_a_collection_that_is_null_is_absent():
    made = stage(b'{"specversion": "1.0-rc2", "messagegroups": null}')
    assert json.loads(made["document"][0]["facts"])["status"] == "loaded"


# Batches


def test_batches_end_by_bytes_too():
    schema = "x" * (BATCH_BYTES // 8)
    written = document(
        schemagroups={"g": group({f"s{n}": {"format": "x/1", "schema": schema} for n in range(9)}, holds="schemas")}
    )
    text = json.dumps(written).encode()
    limits = Limits(bytes=1 << 30, unpacked=1 << 30, depth=64, entities=1000, stream=1 << 30, strict=False)
    source = Source("file:/a", len(text), "0" * 64, "r", False, False, text, None, False)
    batch = pa.RecordBatch.from_arrays([pa.array([value]) for value in source], names=list(Source._fields))
    made = list(parser(limits)([batch]))
    sizes = [one.nbytes for one in made]
    assert max(sizes) < 2 * BATCH_BYTES
    assert len(sizes) > 2
    assert sum(row["kind"] == "schemaversion" for one in made for row in one.select(["kind"]).to_pylist()) == 9
