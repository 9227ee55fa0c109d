"""One bad document costs itself only: whatever fails on the way to its rows, it is rejected, and the others load."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
from typing import Any

import pyarrow as pa
import pytest
from builders import document, group, stage

from lakehouse.domain.ownership import Policy
from lakehouse.errors import SourceNotFound
from lakehouse.ingest.parse import batches as stagebatches
from lakehouse.ingest.parse import parse
from lakehouse.ingest.parse.batches import BATCH_BYTES, StageBatches
from lakehouse.ingest.parse.document import ParseLimits
from lakehouse.ingest.parse.parse import Source, _Parse, parser
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.ingest.sources import LEADS_OUT, find_sources, read_documents
from lakehouse.store.internals.plans import empty_files
from lakehouse.store.schema import SCHEMA
from lakehouse.store.views import create_views
from lakehouse.text.problems import FAULT, NO_DOCUMENT


def written(name: str) -> bytes:
    return json.dumps(document({"g": group({"m": {"name": name}}), "h": group({f"{name}-last": {}})}, name=name)).encode()


GOOD, BAD = written("good"), written("bad")


def rows_of(*texts: tuple[str, bytes], stream: int = 1 << 20) -> list[dict[str, Any]]:
    """Parse documents, all of one batch."""
    limits = ParseLimits(bytes=1 << 20, unpacked=1 << 20, depth=64, entities=1000, stream=stream, strict=False)
    sources = [Source(f"file:/{uri}", len(text), "0" * 64, uri, False, False, text, None, False, False) for uri, text in texts]
    columns = [pa.array(list(values)) for values in zip(*sources, strict=True)]
    batch = pa.RecordBatch.from_arrays(columns, names=list(Source._fields))
    return [row for made in parser(limits)([batch]) for row in made.to_pylist()]


def reported(rows: list[dict[str, Any]], uri: str) -> tuple[str, list[str], int]:
    """Return of a document its status, the rules of its findings, and how many entities it has."""
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
            raise _Odd("QXZJKV")  # a message that would report a secret
        return genuine(*given, **named)

    monkeypatch.setattr(owner, name, fails)


_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of an object in memory


def holds_bad(*given: Any) -> bool:
    return any("bad" in _ADDRESS.sub("", repr(one)) for one in given)


STAGES = {
    "open": ((parse,), "open_document", lambda uri, *_: "bad" in uri),
    "read": ((parse,), "read_up_to", lambda stream, _: b"bad" in stream.getvalue()),
    "decode": ((parse,), "read_text", holds_bad),
    "detect": ((parse,), "not_a_registry", holds_bad),
    "redact": ((parse,), "redact", holds_bad),
    "dialect": ((parse,), "declared_dialect", holds_bad),
    "entities": ((parse,), "read_document", holds_bad),
    "rows": ((StageBatches,), "add_entities", holds_bad),
    "finding": ((StageBatches,), "add_facts", lambda _, uri, *given: "bad" in uri and given[1]["status"] == "loaded"),
    "batch": ((StageBatches,), "_entity_batch", holds_bad),
}


@pytest.mark.parametrize("stream", [1 << 20, 60], ids=["whole", "streamed"])
@pytest.mark.parametrize("name", STAGES)
def test_a_fault_at_any_stage_costs_the_document_only(monkeypatch, name, stream):
    owners, function, is_bad = STAGES[name]
    for owner in owners:
        broken(monkeypatch, owner, function, is_bad=is_bad)
    rows = rows_of(("one", GOOD), ("bad", BAD), ("two", GOOD), stream=stream)
    assert reported(rows, "bad") == ("rejected", [FAULT], 0)
    assert reported(rows, "one") == reported(rows, "two") == ("loaded", [], 7)
    assert "QXZJKV" not in str(rows)
    (finding,) = [row["finding"] for row in rows if row["row"] == "finding"]
    assert "_Odd" in finding["message"]


def test_a_large_document_that_fails_at_its_end_gives_no_rows(monkeypatch):
    monkeypatch.setattr(stagebatches, "BATCH_ROWS", 3)
    broken(monkeypatch, parse, "read_document", is_bad=lambda part, *_: "bad-last" in repr(part))
    rows = rows_of(("one", GOOD), ("bad", BAD), ("two", GOOD), stream=60)
    assert reported(rows, "bad") == ("rejected", [FAULT], 0)
    assert reported(rows, "one") == reported(rows, "two") == ("loaded", [], 7)


def test_rows_that_wait_on_the_disk_are_all_there(monkeypatch):
    text = json.dumps(document({f"g{n}": group({f"m{k}": {"name": "x"} for k in range(7)}) for n in range(30)})).encode()
    whole = stage(text, stream=1 << 20)
    monkeypatch.setattr(stagebatches, "BATCH_ROWS", 10)
    assert stage(text, stream=100) == whole


def test_a_row_that_arrow_cannot_hold_costs_its_document_only():
    spoilt = Source("file:/bad", 1, "0" * 64, "x\ud800", False, False, GOOD, None, False, False)
    document = _Parse(spoilt, ParseLimits(1 << 20, 1 << 20, 64, 1000, 1 << 20, False))
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
    for digits, count in ((300, 2), (4300, 1)):  # the group is refused: no double holds it
        text = '{"messagegroups": {"g": {"x": "\\ud83d\\ude00", "y": -' + "9" * digits + "}}}"
        as_json, as_yaml = stage(text.encode()), stage(text.encode(), uri="file:/none/a.json.yaml")
        assert [row["content_hash"] for row in as_yaml["entity"]] == [row["content_hash"] for row in as_json["entity"]]
        assert len(as_json["entity"]) == count


def test_a_message_whose_default_version_holds_a_number_beyond_the_doubles_is_refused_whole():
    versions = {"1": {"name": "x"}, "2": {"name": "y", "ext": {"a": 10**400}}}
    message = {"messageid": "m", "versionid": "2", "meta": {"defaultversionid": "2"}, "versions": versions}
    found = stage(json.dumps(document({"g": group({"m": message})})).encode())
    assert {row["kind"] for row in found["entity"]} == {"registry", "group"}
    assert {row["finding"]["rule_id"] for row in found["finding"]} >= {"MSG-104", "MSG-115"}


# A file that is named


FOREIGN = {
    "empty": b"",
    "array": b"[1, 2]",
    "scalar": b"5",
    "other": b'{"hello": "world"}',
    "AsyncAPI": b'{"asyncapi": "1.2.0"}',
}


@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("stream", [1 << 20, 4])
def test_a_named_file_that_is_no_document_is_rejected_and_a_found_one_passed_over(name, packed, stream):
    text, uri = (gzip.compress(FOREIGN[name]), "file:/a.json.gz") if packed else (FOREIGN[name], "file:/a.json")
    found = stage(text, uri=uri, stream=stream)
    assert json.loads(found["document"][0]["facts"])["status"] == "skipped"
    assert found["finding"] == []
    named = stage(text, uri=uri, stream=stream, named=True)
    assert json.loads(named["document"][0]["facts"])["status"] == "rejected"
    assert [row["finding"]["rule_id"] for row in named["finding"]] == [NO_DOCUMENT]


def test_a_named_document_loads():
    assert stage(GOOD, named=True) == stage(GOOD)


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
    limits = ParseLimits(bytes=1 << 30, unpacked=1 << 30, depth=64, entities=1000, stream=1 << 30, strict=False)
    source = Source("file:/a", len(text), "0" * 64, "r", False, False, text, None, False, False)
    batch = pa.RecordBatch.from_arrays([pa.array([value]) for value in source], names=list(Source._fields))
    made = list(parser(limits)([batch]))
    sizes = [one.nbytes for one in made]
    assert max(sizes) < 2 * BATCH_BYTES
    assert len(sizes) > 2
    assert sum(row["kind"] == "schemaversion" for one in made for row in one.select(["kind"]).to_pylist()) == 9


# In a folder


def test_what_is_no_document_is_reported_and_nothing_ends(catalog):
    catalog.write("good.json", document({"g": group({"m": {}})}))
    catalog.write("bad.yaml", b'messagegroups: {g: {name: "\\ud800"}}')
    catalog.write("worse.yaml", b"messagegroups: {g: {epoch: " + b"9" * 5000 + b"}}")
    catalog.write("list.json", {"messagegroups": []})
    for name, text in FOREIGN.items():
        catalog.write(f"other/{name}.json", text)
    for name in ("_no.json", ".no.json"):
        catalog.write(name, b"{}")
    (catalog.documents / "dangling.json").symlink_to("nowhere")
    (catalog.documents / "self.json").symlink_to("self.json")
    (catalog.documents / "round").symlink_to(".")
    catalog.write("../secret.json", document({"s": group({"m": {}})}))
    (catalog.documents / "out.json").symlink_to("../secret.json")
    os.mkfifo(catalog.documents / "pipe.json")
    summary = catalog.ingest()
    assert summary.documents == {"read": 9, "unchanged": 0, "skipped": 5, "rejected": 3}
    assert summary.entities["messages"]["inserted"] == 1
    assert {path.rsplit("/", 1)[1]: reason for path, reason in summary.hidden} == {
        "_no.json": "Hadoop hides names that start with _ or a dot",
        ".no.json": "Hadoop hides names that start with _ or a dot",
        "dangling.json": "a link that leads nowhere",
        "self.json": "a link that leads nowhere",
        "round": "a link to a folder around it",
        "out.json": LEADS_OUT,
        "pipe.json": "no file, but a pipe, socket or device",
    }
    create_views(catalog.spark, catalog.settings, SCHEMA, ["documents"])
    statuses = dict(catalog.rows("SELECT element_at(split(document_uri, '/'), -1), status FROM documents"))
    assert {name for name, status in statuses.items() if status == "skipped"} == {f"{name}.json" for name in FOREIGN}
    assert catalog.rows("SELECT reason FROM documents WHERE document_uri LIKE '%empty.json'") == ["the file is empty"]
    # Nothing new, and nothing is read again but what is refused
    again = catalog.ingest()
    assert (again.snapshot_id, again.documents) == (None, {"read": 9, "unchanged": 6, "skipped": 0, "rejected": 3})


@pytest.mark.slow
def test_a_named_file_counts_more_than_its_folder(catalog):
    empty, array = catalog.write("empty.json", b""), catalog.write("array.json", b"[1]")
    catalog.write("good.json", document({"g": group({"m": {}})}))
    assert catalog.ingest().documents == {"read": 3, "unchanged": 0, "skipped": 2, "rejected": 0}
    assert not catalog.ingest(catalog.documents / "*.json").refused
    named = catalog.ingest(empty, array)
    assert named.documents == {"read": 2, "unchanged": 0, "skipped": 0, "rejected": 2}
    assert named.refused
    assert catalog.rows("SELECT DISTINCT rule_id FROM violations") == [NO_DOCUMENT]
    # When its folder is named, too, one of them is still named
    assert catalog.ingest(catalog.documents, empty).documents == {"read": 3, "unchanged": 1, "skipped": 1, "rejected": 1}


@pytest.mark.slow
def test_a_folder_that_cannot_be_read_costs_no_other_and_nothing_of_it_is_pruned(catalog, monkeypatch):
    catalog.write("a.json", document({"g": group({"m": {}, "n": {}, "o": {}})}))
    catalog.write("team/b.json", document({"h": group({"p": {}})}))
    catalog.ingest()
    team, genuine = str(catalog.documents / "team"), os.scandir  # the tests may run as root, who may read anything

    def scandir(folder):
        if str(folder) == team:
            raise PermissionError(errno.EACCES, "Permission denied", team)
        return genuine(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    catalog.write("a.json", document({"g": group({"m": {}, "n": {}})}))
    summary = catalog.ingest(request=IngestRequest(Policy(prune=True)))
    assert (summary.documents["read"], summary.entities["messages"]["deleted"]) == (1, 1)
    assert summary.hidden == [(team, "the folder cannot be read: Permission denied")]
    assert catalog.rows("SELECT messageid FROM messages ORDER BY ALL") == ["m", "n", "p"]
    with pytest.raises(SourceNotFound, match="Permission denied"):
        catalog.ingest(catalog.documents / "team")


def test_a_file_that_may_not_be_read_is_left_to_the_parser_which_rejects_it(catalog, monkeypatch):
    good = catalog.write("good.json", document({"g": group({"m": {}})}))
    locked = catalog.write("locked.json", document({"h": group({})}))
    genuine = os.access  # the tests may run as root, who may read anything
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(locked) and genuine(path, mode))
    sources = find_sources(catalog.spark, [str(catalog.documents)])
    assert (sources.folders, sources.files) == ([], [f"file:{good}"])
    assert sources.unreadable == [(f"file:{locked}", locked.stat().st_size)]
    read = read_documents(catalog.spark, sources, 1 << 20).select("document_uri", "content").collect()
    assert {row["document_uri"]: row["content"] is None for row in read} == {f"file:{good}": False, f"file:{locked}": True}
    named = find_sources(catalog.spark, [str(good), str(locked)])
    assert (named.files, named.unreadable) == ([f"file:{good}"], sources.unreadable)
    source = Source("file:/nowhere/a.json", 5, None, "r", False, False, None, None, False, False)
    refused = _Parse(source, ParseLimits(1 << 20, 1 << 20, 64, 1000, 1 << 20, False))
    refused.run()
    assert [row["finding"]["rule_id"] for made in refused.batches() for row in made.to_pylist() if row["finding"]] == ["JSON-001"]


def test_files_of_a_folder_elsewhere_are_reported_when_they_are_empty(catalog):
    for name in ("a b%20+ü.json", "sub/b.json", "_c.json"):
        catalog.write(name, b"")
    catalog.write("d.json", b"{}")
    reader = catalog.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    listed = reader.load(str(catalog.documents))
    assert sorted(empty_files(listed)) == [f"file:{catalog.documents}/{name}" for name in ("a b%20+ü.json", "sub/b.json")]
