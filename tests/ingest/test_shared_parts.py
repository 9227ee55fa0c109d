"""A large document whose parts are shared over tasks gives what one task gives."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from builders import document, group
from soak.sessions import forget_attached

from lakehouse.ingest.parse import parallel
from lakehouse.ingest.parse.document import ParseLimits
from lakehouse.ingest.parse.parallel import outliner, part_parser, part_summer
from lakehouse.ingest.parse.parse import Source, parser

STREAM = 300


def limits_of(**others: Any) -> ParseLimits:
    return ParseLimits(bytes=1 << 20, unpacked=1 << 20, depth=64, entities=1000, stream=STREAM, strict=False)._replace(**others)


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows)


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(json.dumps(row, default=str) for row in rows)


def by_one_task(source: Source, limits: ParseLimits) -> list[dict[str, Any]]:
    return [row for made in parser(limits)([batch_of([source._asdict()])]) for row in made.to_pylist()]


def by_many_tasks(source: Source, limits: ParseLimits) -> list[dict[str, Any]] | None:
    """Read each part in its own task, the last one first; return None if one task must read the whole document."""
    ((outline,),) = [made.to_pylist() for made in outliner(limits)([batch_of([source._asdict()])])]
    if outline["outline"] is None:
        return None
    rows, (closed,) = of_parts(source, limits, outline)
    if closed["row"] != "document" and (dialect := json.loads(closed["facts"]).get("dialect")):
        rows, (closed,) = of_parts(source, limits, outline, dialect)
    return [*rows, closed] if closed["row"] == "document" else None


def of_parts(
    source: Source, limits: ParseLimits, outline: dict[str, Any], dialect: str | None = None
) -> tuple[list[Any], list[Any]]:
    names = ("document_uri", "outline", "root", "range")
    parts = [dict(zip(names, part, strict=True)) for part in parallel._parts_of(outline, dialect)]
    assert len(parts) > 2
    rows = [row for part in reversed(parts) for made in part_parser(limits)([batch_of([part])]) for row in made.to_pylist()]
    reported = [row for row in rows if row["row"] == "document"]
    assert len(reported) == len(parts)
    schema = next(iter(parser(limits)([batch_of([source._replace(unchanged=True)._asdict()])]))).schema
    closed = [
        row for made in part_summer(limits)([pa.RecordBatch.from_pylist(reported, schema=schema)]) for row in made.to_pylist()
    ]
    return [row for row in rows if row["row"] != "document"], closed


def source_of(folder: Path, written: dict[str, Any] | str, name: str = "a.json", **others: Any) -> Source:
    text = written if isinstance(written, str) else json.dumps(written)
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    given = Source(f"file:{path}", path.stat().st_size, None, None, False, False, None, None, False, False)
    return given._replace(**others)


MESSAGES = {f"m{n}": {"name": "x" * 20 * n, "envelope": "CloudEvents/1.0"} for n in range(4)}
OLDER = {f"s{n}": group({"a": {"format": "JsonSchema/draft-07", "schema": {"q": ["z" * 90]}}}, holds="schemas") for n in range(5)}
SHAPES: dict[str, dict[str, Any]] = {
    "plain": document({f"g{n}": group(MESSAGES) for n in range(5)}, registryid="mine", name="whole"),
    "with what is wrong": document(
        {
            "g": group(MESSAGES | {"bad": {"envelope": 5}}, protocol="MQTT/5.0"),
            "h": group(
                {"dup": {"labels": {"a": 1}}, "m": {"protocoloptions": {"password": "Bearer abcdefgh12345678"}}} | MESSAGES
            ),
            "5bad id": group(MESSAGES),
            "i": 7,
        },
        {"e": group({}, usage=["producer"], protocoloptions={"endpoints": [{"uri": "mqtt://u:pass@h"}]})},
        name=["no text"],
    ),
    "bases in other parts": document(
        {
            "h": group({"n": {"basemessage": "/messagegroups/i/messages/o", "protocoloptions": {"topic": "t"}}} | MESSAGES),
            "k": group(MESSAGES),
            "i": group({"o": {"protocol": "MQTT/5.0", "protocoloptions": {"topic-name": "u"}}} | MESSAGES),
        },
        {"e": group({"b": {"basemessage": "/messagegroups/i/messages/o", "protocoloptions": {"qos": 1}}}, usage=["producer"])},
    ),
    "older names": document(schemagroups=OLDER) | {"specversion": "0.5-wip"},
    "no specversion": {"messagegroups": {f"g{n}": group(MESSAGES) for n in range(5)}},
    "a dialect of no rules, known by a spelling of one part": {
        "messagegroups": {f"g{n}": group(MESSAGES) for n in range(5)}
        | {"h": group({"m": {"basemessageuri": "/messagegroups/g0"}})}
    },
    "a dialect of no rules, known by a member of one part": {
        "messagegroups": {f"g{n}": group(MESSAGES) for n in range(5)},
        "endpoints": {"e": {"usage": ["consumer"], "protocol": "MQTT/5.0", "protocoloptions": {"topicfilter": "a/#"}}},
    },
    "a dialect of its own rules, known by spellings": {
        "schemagroups": OLDER,
        "messagegroups": {"g": group({"m": {"basemessageurl": "/messagegroups/h", "protocol": "HTTP/1.1"}} | MESSAGES)},
    },
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("registry", [None, "given"])
def test_many_tasks_give_what_one_gives(tmp_path, name, registry):
    source = source_of(tmp_path, SHAPES[name], registry=registry)
    found = by_many_tasks(source, limits_of())
    assert found is not None
    assert in_order(found) == in_order(by_one_task(source, limits_of()))


BEGUN = '{"specversion": "1.0-rc2", "messagegroups": {"a": {"x": "' + "x" * STREAM + '"}'
ALONE: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no JSON": (
        BEGUN + ', "b": {"y": 01}}}',
        {},
        "a.json",
    ),
    "brackets": (BEGUN + "}} 5", {}, "a.json"),
    "ids that clash": (document({"g": group(MESSAGES), "G": group(MESSAGES)}), {}, "a.json"),
    "strict": (SHAPES["plain"], {"strict": True}, "a.json"),
    "too many": (SHAPES["plain"], {"entities": 20}, "a.json"),
    "the draft": ([{"messagedefinitions": [], "id": "x" * STREAM}], {}, "a.json"),
    "read as of the draft": (SHAPES["plain"], {"dialect": "cncf-catalog"}, "a.json"),
    "packed": (SHAPES["plain"], {}, "a.json.gz"),
    "a registry of no name": (SHAPES["plain"] | {"registryid": "no name"}, {}, "a.json"),
    "another model": ({"openapi": "3", "messagegroups": SHAPES["plain"]["messagegroups"]}, {}, "a.json"),
    "a collection that is no map": (SHAPES["plain"] | {"endpoints": [1]}, {}, "a.json"),
}


@pytest.mark.parametrize("name", ALONE)
def test_what_parts_cannot_report_is_left_to_one_task(tmp_path, name):
    written, others, file = ALONE[name]
    assert by_many_tasks(source_of(tmp_path, written, file), limits_of(**others)) is None


def test_a_part_that_fails_fails_the_document(tmp_path, monkeypatch):
    def fails(*given: Any) -> Any:
        raise KeyError("nobody expects it")

    source = source_of(tmp_path, SHAPES["plain"])
    assert by_many_tasks(source, limits_of()) is not None
    monkeypatch.setattr(parallel, "read_part", fails)
    assert by_many_tasks(source, limits_of()) is None


def test_an_unchanged_document_is_hashed_and_no_more(tmp_path):
    source = source_of(tmp_path, SHAPES["plain"])
    ((outline,),) = [made.to_pylist() for made in outliner(limits_of())([batch_of([source._asdict()])])]
    known = source._replace(last_sha256=outline["sha256"], last_clean=True)
    ((outline,),) = [made.to_pylist() for made in outliner(limits_of())([batch_of([known._asdict()])])]
    assert outline["outline"] is None
    ((row,),) = [
        made.to_pylist() for made in parser(limits_of())([batch_of([known._replace(sha256=outline["sha256"])._asdict()])])
    ]
    assert json.loads(row["facts"])["status"] == "unchanged"


@pytest.mark.slow
def test_spark_shares_the_parts_and_the_catalog_is_the_same(bare_catalog, tmp_path):
    catalog = bare_catalog
    catalog.write("plain.json", SHAPES["plain"] | {"registryid": "plain"})
    catalog.write("wrong.json", SHAPES["with what is wrong"] | {"registryid": "wrong"})
    catalog.write("clash.json", document({"g": group(MESSAGES), "G": group(MESSAGES)}, registryid="clash"))
    catalog.write("broken.json", (BEGUN + ', "b": {"y": 01}}}').encode())
    catalog.write("small.json", document({"g": group({"m": {"name": "small"}})}, registryid="small"))
    found = []
    for number, stream_bytes in enumerate((STREAM, 1 << 20)):
        forget_attached(catalog.spark)
        warehouse = str(tmp_path / f"warehouse-{number}")
        catalog.settings = catalog.settings.model_copy(update={"warehouse": warehouse, "stream_bytes": stream_bytes})
        summary = catalog.ingest().as_json()
        facts = catalog.rows("SELECT xid, registryid, body FROM changes WHERE kind = 'document'")
        xids = catalog.rows("SELECT kind, xid, content_hash, raw, attributes FROM changes WHERE kind <> 'document'")
        reported = catalog.rows("SELECT registryid, xid, rule_id, pointer, message, raw FROM violations")
        # What is no JSON is reported with its place in what was read at once, which is a part or the whole.
        reported = [one for one in reported if one[2] != "JSON-001"]
        facts = [one for one in facts if not one[0].endswith("broken.json")]
        found.append((summary["documents"], *(sorted(map(str, rows)) for rows in (facts, xids, reported))))
    assert found[0] == found[1]
    assert found[0][0]["rejected"] == 1
