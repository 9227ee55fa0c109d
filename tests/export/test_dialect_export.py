"""Exports in other dialects: what is written, what is reported as lost, and that nothing else is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from builders import errors, law, read, stored
from hypothesis import given
from hypothesis import strategies as st
from said import TYPE, messages

from lakehouse.dialects.detection import DRAFT, not_a_registry
from lakehouse.dialects.tables import NORMAL, WRITABLE
from lakehouse.dialects.writing import to_dialect
from lakehouse.export.run import Trailer, write_lines
from lakehouse.export.view import Stored, Urls, registry_view
from lakehouse.export.writers import Losses, WriteStyle, losses_as_text
from lakehouse.ingest.parse.parse import read_as
from lakehouse.ingest.parse.readings import Reading

OTHERS = [dialect for dialect in WRITABLE if dialect != NORMAL]
SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
PATHS = sorted(path for path in SAMPLES.glob("*/*") if path.suffix in (".json", ".cereg"))


def exported(rows: list[Stored], dialect: str, examples: int = 1_000_000) -> tuple[Any, Losses]:
    """Join the lines of an export to one document, as an export does; and what it lost."""
    *lines, last = write_lines(rows, WriteStyle(dialect=dialect, examples=examples))
    text = b"".join(line + b"\n" for line in lines)
    trailer = Trailer.parse(last[:-12])
    losses = Losses(examples)
    losses.merge(trailer.lost)
    parts = [text[run.offset : run.offset + run.length] for run in trailer.runs]
    root = trailer.roots[0] if trailer.roots else None
    written, lost = to_dialect(registry_view("r", root, (0, 0), Urls()), dialect)
    losses.add("r", "/", lost)
    if dialect == DRAFT:
        return json.loads(b"[" + b",".join(parts) + b"]"), losses
    for run, part in zip(trailer.runs, parts, strict=True):
        written.setdefault(run.collection, {}).update(json.loads(b"{" + part + b"}"))
    return written, losses


def read_again(written: Any, dialect: str) -> Reading:
    if written == []:
        return Reading()  # no group of the draft, so no document of it
    reported, reading = read_as(json.loads(json.dumps(written)), [], "", None, rules=False)
    assert reported == dialect
    return reading


def facts(reading: Reading) -> dict[str, Any]:
    return {row.xid: (row.kind, row.body) for row in reading.rows if row.kind != "registry"}


def lost_places(losses: Losses) -> list[tuple[str, list[str]]]:
    """Return the XID and the path in its body of everything that was lost; an empty path is the whole of it."""
    found = []
    for one in losses.as_json():
        for example in one["examples"]:
            tokens = [token.replace("~1", "/").replace("~0", "~") for token in example["pointer"].split("/")[1:]]
            if tokens[:1] == ["versions"]:
                found.append((f"{example['xid']}/versions/{tokens[1]}", tokens[2:]))
            else:
                found.append((example["xid"], tokens[1:] if tokens[:1] == ["meta"] else tokens))
    return found


def without_lost(rows: dict[str, Any], places: list[tuple[str, list[str]]]) -> dict[str, Any]:
    """Take what was lost out of rows."""
    found = {xid: (kind, json.loads(body)) for xid, (kind, body) in rows.items()}
    for xid, path in places:
        if not path:
            found = {one: row for one, row in found.items() if one != xid and not one.startswith(xid + "/")}
        elif xid in found:
            body = found[xid][1]
            for holder in (body, body.get("extensions", {})):
                _take_out(holder, path)
            if body.get("extensions") == {}:
                del body["extensions"]
    return found


def _take_out(holder: Any, path: list[str]) -> None:
    """Remove a member, and each object that then holds nothing."""
    *tokens, last = path
    passed = []
    for token in tokens:
        passed.append((holder, token))
        holder = holder[int(token)] if isinstance(holder, list) else holder.get(token) if isinstance(holder, dict) else None
    if isinstance(holder, dict) and last in holder:
        del holder[last]
    for parent, token in reversed(passed):
        if isinstance(parent, dict) and parent.get(token) == {}:
            del parent[token]


@pytest.mark.parametrize("dialect", OTHERS)
@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_sample_comes_back_but_for_what_is_reported(path, dialect):
    if not_a_registry(json.loads(path.read_text(encoding="utf-8"))) is not None:
        return
    reading = read(path.read_bytes())
    written, losses = exported(stored(reading), dialect)
    places = lost_places(losses)
    before, after = (without_lost(facts(one), places) for one in (reading, read_again(written, dialect)))
    assert after == before


@pytest.mark.parametrize("dialect", ["1.0-rc1", "1.0-rc4"])
def test_the_other_candidates_can_say_everything(dialect):
    for path in PATHS:
        if not_a_registry(json.loads(path.read_text(encoding="utf-8"))) is None:
            assert exported(stored(read(path.read_bytes())), dialect)[1].count == 0


@law
@given(
    st.lists(messages(), min_size=1, max_size=3),
    st.sampled_from(["MQTT/5.0", "KAFKA", "AMQP", None]),
    st.sampled_from(OTHERS),
    st.booleans(),
)
def test_any_group_comes_back_but_for_what_is_reported(versions, protocol, dialect, dated):
    dates = [{"createdat": f"202{9 - nth}-01-01T00:00:00Z"} if dated else {} for nth in range(len(versions))]
    message = {"versions": {str(nth + 1): one | dates[nth] for nth, one in enumerate(versions)}}
    own = {} if protocol is None else {"protocol": protocol}
    reading = read({"messagegroups": {"g": own | {"messages": {TYPE: message}}}})
    if errors(reading):
        return
    written, losses = exported(stored(reading), dialect)
    again = read_again(written, dialect)
    assert errors(again) == []
    places = lost_places(losses)
    before, after = (without_lost(facts(one), places) for one in (reading, again))
    if ["defaultversionid"] in [path for _, path in places]:  # which Versions have a mark of, too
        for rows_ in (before, after):
            for _, body in rows_.values():
                body.pop("isdefault", None)
    assert after == before


# What is reported

SMALL: dict[str, Any] = {
    "specversion": "1.0-rc2",
    "name": "Small",
    "messagegroups": {
        "g": {
            "envelope": "CloudEvents/1.0",
            "deprecated": {"effective": "2030-01-01T00:00:00Z"},
            "messages": {
                f"com.example.m{number}": {
                    "envelope": "CloudEvents/1.0",
                    "envelopemetadata": {"type": {"value": f"com.example.m{number}"}},
                    "datacontenttype": "application/json",
                    "labels": {"team": "a"},
                }
                for number in range(7)
            },
        },
        "empty": {},
    },
    "endpoints": {"e": {"usage": ["producer"], "messages": {"own": {}, "other": {}}}},
}


def test_losses_are_counted_and_a_few_are_reported_of_each_rule():
    _, losses = exported(stored(read(SMALL)), "0.5-wip", examples=2)
    reported = losses.as_json()
    assert [(one["rule_id"], one["count"], len(one["examples"])) for one in reported] == [("WIP-006", 1, 1), ("WIP-021", 7, 2)]
    assert losses.count == 8
    assert reported[0]["examples"] == [
        {
            "registryid": "r",
            "xid": "/messagegroups/g",
            "pointer": "/deprecated",
            "message": "0.5-wip has no `deprecated` of a messagegroup",
        }
    ]
    assert losses_as_text(reported)[-1] == "WIP-021  ... and 5 more"


def test_what_the_default_version_loses_is_reported_once_though_its_message_shows_it():
    _, losses = exported(stored(read(SMALL)), "0.5-wip")
    (content_types,) = [one["examples"] for one in losses.as_json() if one["rule_id"] == "WIP-021"]
    assert {one["pointer"] for one in content_types} == {"/versions/1/datacontenttype"}


def test_everything_below_a_collection_that_the_draft_does_not_know_is_reported():
    """CAT-011."""
    written, losses = exported(stored(read(SMALL)), DRAFT)
    assert [one["id"] for one in written] == ["empty", "g"]
    assert written[0]["format"] == "CloudEvents"
    reported = {place for place, path in lost_places(losses) if not path}
    assert reported == {"/messagegroups/empty", *(f"/endpoints/e{rest}" for rest in ("", "/messages/own", "/messages/other"))}
    assert ("/", ["name"]) in lost_places(losses)


def test_a_registry_of_which_nothing_can_be_said_is_there_all_the_same():
    rows = [row for row in stored(read({"endpoints": {"e": {}, "f": {}}})) if row.kind != "registry"]
    *lines, last = write_lines(rows, WriteStyle(dialect=DRAFT))
    trailer = Trailer.parse(last[:-12])
    assert (lines, trailer.runs, trailer.roots, trailer.partly) == ([], [], [], ["r"])
    assert trailer.lost["CAT-011"]["count"] == 2


def test_a_group_without_a_format_gets_that_of_its_first_message_and_the_others_are_reported():
    """CAT-024, CAT-034, CAT-069."""
    messages = {"a": {}, "b": {"protocol": "NATS"}, "c": {"protocol": "AMQP/1.0"}, "d": {"protocol": "NATS"}}
    written, losses = exported(stored(read({"messagegroups": {"g": {"messages": messages}}})), DRAFT)
    assert (written[0]["format"], list(written[0]["messagedefinitions"])) == ("NATS", ["b", "d"])
    reported = [(one["rule_id"], example["xid"]) for one in losses.as_json() for example in one["examples"]]
    here = "/messagegroups/g/messages/"
    assert reported == [
        ("CAT-024", "/messagegroups/g"),
        ("CAT-034", here + "c"),
        ("CAT-058", here + "a"),
        ("CAT-069", here + "c"),
    ]


def test_an_old_document_names_an_ancestor_that_it_does_not_imply():
    """WIP-014: by creation time, then by the order of the ids."""
    versions = {
        "1": {"createdat": "2024-01-01T00:00:00Z"},
        "2": {"createdat": "2023-01-01T00:00:00Z", "ancestor": "2"},
        "3": {"createdat": "2025-01-01T00:00:00Z", "ancestor": "2"},
    }
    versions["1"]["ancestor"] = "2"
    document = {"messagegroups": {"g": {"messages": {"m": {"versions": versions}}}}}
    reading = read(document)
    written, losses = exported(stored(reading), "0.5-wip")
    assert [loss[1] for loss in lost_places(losses)] == [["ancestor"]]
    assert losses.as_json()[0]["examples"][0]["pointer"] == "/versions/3/ancestor"
    after = facts(read_again(written, "0.5-wip"))
    assert json.loads(after["/messagegroups/g/messages/m/versions/1"][1])["ancestor"] == "2"


@pytest.mark.parametrize(
    ("own", "versions", "reported"),
    [
        ("MQTT/5.0", ["MQTT/3.1.1"], ["/protocol"]),
        ("MQTT/5.0", ["MQTT/3.1.1", "MQTT/5.0"], ["/protocol"]),
        ("MQTT/3.1.1", ["MQTT/3.1.1"], []),
        ("MQTT/3.1.1", [], ["/protocol"]),
        ("MQTT", ["MQTT"], ["/protocol", "/versions/1/protocol"]),
        ("MQTT/4", ["MQTT/5.0"], ["/protocol"]),
        ("AMQP/1.0", ["AMQP"], ["/versions/1/protocol"]),
        ("NATS", ["NATS/1.0.0"], ["/versions/1/protocol"]),
    ],
)
def test_a_protocol_that_no_format_of_the_draft_stands_for_is_reported(own, versions, reported):
    """CAT-023, CAT-138, CAT-139."""
    numbered = {str(nth + 1): {"protocol": protocol} for nth, protocol in enumerate(versions)}
    members = {"m": {"versions": numbered}} if numbered else {}
    written, losses = exported(stored(read({"messagegroups": {"g": {"protocol": own, "messages": members}}})), DRAFT)
    assert sorted(example["pointer"] for one in losses.as_json() for example in one["examples"]) == reported
    assert errors(read_again(written, DRAFT)) == []
