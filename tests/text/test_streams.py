"""Large documents are cut between their groups, and give what they give when they are read whole."""

from __future__ import annotations

import gzip
import io
import json
from typing import Any, BinaryIO

import pyarrow as pa
import pytest
from builders import document, group, ids, law, stage
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.ingest.parse.document import ParseLimits
from lakehouse.ingest.parse.parse import Source, parser
from lakehouse.text.jsontext import NotJson
from lakehouse.text.streams import DocumentPart, NotReadable, TooLong, open_document, read_chunk, split_groups

COLLECTIONS = ("messagegroups", "endpoints")


class Slow(io.BytesIO):
    """A stream that gives a few bytes at a time."""

    def __init__(self, text: bytes, step: int) -> None:
        super().__init__(text)
        self.step = step

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.step)


def parts(text: str | bytes, part_size: int = 1, step: int = 7) -> list[DocumentPart]:
    encoded = text.encode() if isinstance(text, str) else text
    return list(split_groups(Slow(encoded, step), part_size, COLLECTIONS))


def drain(stream: BinaryIO) -> None:
    while read_chunk(stream, 100):
        pass


members = st.dictionaries(
    ids, st.dictionaries(ids, st.text(max_size=6) | st.integers() | st.just({"a": ["]", '}\\"']}), max_size=3)
)
groups = st.dictionaries(ids, members.map(lambda messages: {"name": "g", "messages": messages}), max_size=5)


@settings(law, max_examples=15)
@given(groups, groups, st.integers(1, 60), st.integers(3, 40), st.booleans())
def test_the_parts_hold_every_group_once_and_the_root_the_rest(messagegroups, endpoints, part_size, step, indent):
    written = {"name": 'a "{" \\', "messagegroups": messagegroups, "labels": {"x": "{"}, "endpoints": endpoints, "z": [{"q": {}}]}
    found = parts(json.dumps(written, indent=1 if indent else None), part_size, step)
    merged = json.loads(found[-1].text)
    for part in found[:-1]:
        value = json.loads(part.text)
        assert list(value) == [part.collection]
        assert not merged[part.collection].keys() & value[part.collection].keys()
        merged[part.collection] |= value[part.collection]
    assert merged == written


@pytest.mark.parametrize(
    "text",
    [
        '{"messagegroups": {"a": {} "b": {}}}',
        '{"messagegroups": {"a": {}, "b": {},}}',
        '{"messagegroups": {"a": {},, "b": {}}}',
        '{"messagegroups": {"a": {}, "b": {}',
        '{"messagegroups": {"a": {}, "b": {"x": "}}}',
        '{"messagegroups": {"a": {}}}}',
        '{"messagegroups": {"a": {}}} {}',
        '{"messagegroups": {"a": {}}} 5',
        '{"messagegroups": {"a": {}} "name": "x"}',
        '{"messagegroups": {"a": {]}}',
    ],
)
@pytest.mark.parametrize("part_size", [1, 1000])
def test_a_text_that_is_no_json_is_rejected_whole(text, part_size):
    def read(part: DocumentPart) -> Any:
        return json.loads(part.text)

    with pytest.raises((NotJson, ValueError)):
        [read(part) for part in parts(text, part_size)]
    made = stage(text.encode(), stream=10)
    assert [row["finding"]["rule_id"] for row in made["finding"]] == ["JSON-001"]
    assert made["entity"] == []


def test_a_text_that_is_no_json_names_no_registry():
    broken = json.dumps(document({"g": group({"m": {}}), "h": group({"n": {}})}, registryid="mine")).replace('"n": {}', '"n": 01')
    source = Source("file:/none/a.json", len(broken), "0" * 64, None, False, False, broken.encode(), None, False, False)
    batch = pa.RecordBatch.from_arrays([pa.array([value]) for value in source], names=list(Source._fields))
    for size in (10, 1 << 20):
        made = parser(ParseLimits(bytes=1 << 20, unpacked=1 << 20, depth=64, entities=1000, stream=size, strict=False))([batch])
        (finding,) = [row for rows in made for row in rows.to_pylist() if row["row"] == "finding"]
        assert (finding["registryid"], finding["finding"]["rule_id"]) == ("default", "JSON-001")


def test_a_large_document_gives_the_same_rows_as_a_small_one():
    written = document(
        {
            "g": group(
                {f"m{number}": {"name": "x" * number} for number in range(40)} | {"bad": {"envelope": 5}}, protocol="MQTT/5.0"
            ),
            "h": group(
                {
                    "n": {"basemessage": "/messagegroups/i/messages/o", "protocoloptions": {"topic": "t"}},
                    "dup": {"labels": {"a": 1}},
                }
            ),
            "i": group({"o": {"protocol": "MQTT/5.0", "protocoloptions": {"topic-name": "u"}}}),
            "5bad id": group({"m": {}}),
        },
        {"e": group({}, holds="messages", usage=["producer"], protocoloptions={"endpoints": [{"uri": "mqtt://u:pass@h"}]})},
        registryid="mine",
        name="whole",
    )
    text = json.dumps(written).encode()
    assert stage(text, stream=100) == stage(text)
    assert stage(text)["finding"]


GROUPS = b'{"specversion": "1.0-rc2",\n "messagegroups": {\n  "a": {"name": "x"},\n  "b": {"name": 1},  "c": {"name": "y"}\n}}'


@pytest.mark.parametrize(
    ("good", "bad", "line"),
    [(b'"y"', b'"\xff"', 4), (b'"x"', b"x", 3), (b'"y"', b"y", 4), (b" 1}", b" 1,}", 4), (b'"y"', b'"\n"', 4)],
)
def test_what_is_no_json_in_a_part_reports_its_place_in_the_document(good, bad, line):
    text = GROUPS.replace(good, bad)
    (cut,), (whole,) = (stage(text, stream=size)["finding"] for size in (10, 1 << 20))
    assert f" at line {line} column " in cut["finding"]["message"]
    assert cut["finding"]["message"] == whole["finding"]["message"]


def test_a_base_that_stays_with_the_root_gives_its_protocol_to_the_parts():
    messages = {f"m{n}": {"basemessage": "/endpoints/e/messages/b", "protocoloptions": {"topic": "t" * 30}} for n in range(9)}
    own = {"b": {"protocol": "MQTT/5.0", "protocoloptions": {"qos": 1}}}
    text = json.dumps(document({"g": group(messages)}, {"e": group(own, usage=["producer"])})).encode()
    assert stage(text, stream=400) == stage(text)
    assert '"topic_name"' in next(row["body"] for row in stage(text)["entity"] if row["xid"].endswith("m0/versions/1"))


def test_groups_whose_ids_clash_are_found_across_parts():
    made = stage(b'{"messagegroups": {"g": {"name": "1"}, "G": {"name": "2"}, "g": {"name": "3"}}}', stream=10)
    assert sorted((row["xid"], row["finding"]["rule_id"]) for row in made["finding"]) == [
        ("/messagegroups/G", "MSG-020"),
        ("/messagegroups/g", "MSG-018"),
    ]
    assert [row["xid"] for row in made["entity"] if row["kind"] == "group"] == ["/messagegroups/g"]


def test_strict_and_the_limit_of_entities_hold_for_large_documents():
    text = json.dumps(document({f"g{number}": group({"m": {"envelope": 5}}) for number in range(5)})).encode()
    strict = stage(text, stream=100, strict=True)
    assert [row["finding"]["rule_id"] for row in strict["finding"]] == ["DOC-004"]
    assert strict["entity"] == []
    limited = stage(text, stream=100, entities=9)
    assert [row["finding"]["rule_id"] for row in limited["finding"]] == ["JSON-004"]
    assert limited["entity"] == []


def test_a_packed_document_is_cut_too():
    text = json.dumps(document({"g": group({"m": {}})})).encode()
    packed = stage(gzip.compress(text), stream=20, uri="file:/none/a.json.gz")
    assert [row["xid"] for row in packed["entity"]] == [row["xid"] for row in stage(text)["entity"]]


def test_a_document_that_spark_did_not_read_is_opened_and_hashed(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(document({"g": group({"m": {}})})))
    limit = ParseLimits(bytes=1 << 20, unpacked=1 << 20, depth=64, entities=1000, stream=10, strict=False)

    def parse(last: str | None, clean: bool) -> list[dict[str, Any]]:
        source = Source(f"file:{path}", 1000, None, "r", False, False, None, last, clean, False)
        columns = [pa.array([value]) for value in source]
        batch = pa.RecordBatch.from_arrays(columns, names=list(Source._fields))
        return [row for made in parser(limit)([batch]) for row in made.to_pylist()]

    first = parse(None, False)
    facts = json.loads(next(row["facts"] for row in first if row["row"] == "document"))
    assert facts["status"] == "loaded"
    assert {row["kind"] for row in first} == {"registry", "group", "message", "version", "document"}
    again = parse(facts["sha256"], True)
    assert [(row["row"], json.loads(row["facts"])["status"]) for row in again] == [("document", "unchanged")]
    refused_last = parse(facts["sha256"], False)
    assert {row["again"] for row in refused_last if row["row"] == "entity"} == {True}
    path.unlink()
    gone = parse(None, False)
    assert "cannot open it" in next(row["finding"]["message"] for row in gone if row["row"] == "finding")


def test_what_comes_out_of_a_gz_is_limited():
    stream = open_document("a.gz", gzip.compress(b"x" * 5000), 1000)
    with pytest.raises(TooLong):
        drain(stream)


@pytest.mark.parametrize("packed", [b"no gzip", gzip.compress(b"x" * 5000, mtime=0)[:-20]], ids=["no gzip", "cut off"])
def test_a_broken_gz_is_reported(packed):
    stream = open_document("a.gz", packed, 10_000)
    with pytest.raises(NotReadable, match="gzip"):
        drain(stream)
