"""What quick commands say of documents by any spelling, of what was refused or deleted, and of names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from called import Caller
from deltas import unpack
from warehouses import CHANGES, Written


@pytest.fixture(scope="module")
def golden(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    unpack(folder)
    return folder


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (("violations", "--document", "none.json"), "has loaded no such document. `lakehouse search --kind document NAME`"),
        (("violations", "--document", "a.json", "--registry", "other"), "no such document in registry 'other'"),
        (("violations", "--document", "none.json", "--ingest", "last"), "has loaded no such document"),
        (("show", "./none.json"), "no such entity"),
        (("log", "a.json"), "is a document and has no history"),
    ],
)
def test_a_document_that_is_not_known_is_wrong_usage(golden, call, arguments, reported):
    ran = call(golden, *arguments)
    assert (ran.code, reported in ran.err, ran.out) == (2, True, ""), ran.err


def test_findings_of_a_document_are_found_by_each_spelling_of_its_path(golden, call):
    [uri] = {one["document_uri"] for found in findings(golden, call) for one in found["examples"]}
    folder = Path(uri.removeprefix("file:")).parent
    assert findings(golden, call, "a.json") != []
    for text in (uri, f"{folder}/a.json", f"file://{folder}/a.json", os.path.relpath(f"{folder}/a.json"), "./a.json"):
        assert findings(golden, call, text) == findings(golden, call, "a.json"), text
        assert json.loads(call(golden, "show", text, "--json").out)[0]["document_uri"] == uri


def findings(golden: Path, call: Caller, document: str | None = None) -> list[dict[str, Any]]:
    ran = call(golden, "violations", "--json", *([] if document is None else ["--document", document]))
    assert (ran.code, ran.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(ran.out)
    return found


@pytest.fixture
def namesakes(tmp_path) -> Path:
    """Write a catalog with the schemas `bad` and `gone`; a message `bad` was refused, a message `gone` deleted."""
    written = Written(tmp_path / "warehouse", 1)
    for op in ("insert", "delete"):
        written.head += 1
        rows = [written.row("message", "/messagegroups/g/messages/gone", op, {"defaultversionid": "1"})]
        if op == "insert":
            rows += [written.row("schema", f"/schemagroups/s/schemas/{name}", op, {}) for name in ("bad", "gone")]
        rows.append(written.row("document", "file:/d/a.json", "insert", {"status": "loaded", "findings": ["v0"]}))
        rejected = {"status": "rejected", "reason": "it breaks off", "findings": []}
        rows.append(written.row("document", "file:/d/whole.json", "insert", rejected))
        written.append("changes", pa.Table.from_pylist([*rows, written.snapshot()], CHANGES), None)
    reported = {"document_uri": "file:/d/a.json", "registryid": "r", "rule_id": "MSG-043", "severity": "error"}
    reported |= {"pointer": "/messagegroups/g/messages/bad/name", "message": "no text", "action": "quarantined"}
    written.find("v0", reported | {"xid": "/messagegroups/g/messages/bad"})
    return tmp_path


def test_the_id_of_a_refused_message_does_not_show_something_else(namesakes, call):
    for command in ("show", "log", "blame"):
        ran = call(namesakes, command, "bad")
        assert (ran.code, ran.out) == (2, "")
        assert "The id is also that of /schemagroups/s/schemas/bad: name that by its XID." in ran.err
        assert "messages/bad was refused by MSG-043: no text (file:/d/a.json, /messagegroups/g/messages/bad/name)" in ran.err
    shown = call(namesakes, "show", "/schemagroups/s/schemas/bad", "--json")
    assert (json.loads(shown.out)[0]["kind"], shown.err) == ("schema", "")


def test_the_id_of_a_deleted_message_is_noted_where_it_names_something_else(namesakes, call):
    for command in ("show", "log", "blame"):
        ran = call(namesakes, command, "gone")
        assert (ran.code, "/schemagroups/s/schemas/gone" in ran.out) == (0, True)
        assert ran.err.startswith("note: /messagegroups/g/messages/gone was deleted from registry r in snapshot 2. ")
        assert "somebody deleted it at 2026-01-01T00:02:00Z by ingest: `lakehouse log" in ran.err


def test_what_a_document_that_was_refused_whole_may_hold_is_said(namesakes, call):
    ran = call(namesakes, "show", "nowhere")
    assert ran.code == 2
    assert "`lakehouse search` finds" in ran.err
    assert "file:/d/whole.json was refused whole, so nothing that it holds was loaded: it breaks off." in ran.err


def test_a_search_prints_names_as_they_are(tmp_path, call):
    written = Written(tmp_path / "warehouse", 1)
    written.head = 1
    xid = "/messagegroups/g/messages/m"
    written.present[xid] = {"name": "RecentChange"}
    written.last = {"messages": 1, "versions": 1}
    rows = [written.row("message", xid, "insert", {"defaultversionid": "1"})]
    written.append("changes", pa.Table.from_pylist([*rows, written.snapshot()], CHANGES), None)
    written.project()
    for words in ("recent change", "RecentChange"):
        [hit] = json.loads(call(tmp_path, "search", words, "--json").out)
        assert (hit["xid"], hit["name"], hit["where"]) == (xid, "RecentChange", ["name", "attributes"])
        assert "Recent Change" not in call(tmp_path, "search", words).out


def test_snapshots_that_only_add_a_label_are_left_out(tmp_path, call):
    written = Written(tmp_path / "warehouse", 1)
    for command in ("ingest", "label"):
        written.head += 1
        snapshot = written.snapshot()
        snapshot["body"] = json.dumps(json.loads(snapshot["body"]) | {"command": command})
        written.append("changes", pa.Table.from_pylist([snapshot], CHANGES), None)
    assert [one["command"] for one in json.loads(call(tmp_path, "snapshots", "--json").out)] == ["ingest"]
    assert [one["command"] for one in json.loads(call(tmp_path, "snapshots", "--json", "--all").out)] == ["ingest", "label"]
    assert "2026-01-01T00:01:00Z" in call(tmp_path, "snapshots").out


def test_changes_say_how_to_replace_the_placeholder_of_their_source(golden, call, monkeypatch):
    assert "LAKEHOUSE_EVENTS_SOURCE" in call(golden, "changes", "--since", "2").err
    monkeypatch.setenv("LAKEHOUSE_EVENTS_SOURCE", "https://catalog.example/{registryid}")
    assert "note:" not in call(golden, "changes", "--since", "2").err
