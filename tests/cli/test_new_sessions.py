"""Commands over a catalog of which no table is attached: each begins as a new process does, but starts no Java."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from soak.sessions import forget_attached

from lakehouse.cli import demo

DEMO = Path(demo.__file__).parent
DOCUMENTS = [str(path) for path in sorted(DEMO.glob("*.json"))]
FINDINGS = 3
# What a user may run next, in this order, and its exit code.
COMMANDS: list[tuple[int, list[str]]] = [
    (FINDINGS, ["ingest", *DOCUMENTS]),
    (FINDINGS, ["ingest", *DOCUMENTS]),
    (FINDINGS, ["ingest", *DOCUMENTS, "--dry-run"]),
    (FINDINGS, ["ingest", *DOCUMENTS, "--strict"]),
    (FINDINGS, ["ingest", *DOCUMENTS, "--force"]),
    (FINDINGS, ["ingest", *DOCUMENTS, "--label", "named"]),
    (0, ["violations"]),
    (FINDINGS, ["validate"]),
    (FINDINGS, ["validate", "--at", "1"]),
    (0, ["snapshots"]),
    (0, ["label", "1", "first"]),
    (0, ["changes"]),
    (0, ["diff", "first", "named"]),
    (0, ["sql", "SELECT count(*) FROM endpoint_messages"]),
    (0, ["sql", "SELECT count(*) FROM flat_messages", "--at", "first"]),
    (0, ["export", "--out", "written.json"]),
    (0, ["export", "--dbt", "sources.yaml"]),
    (0, ["export", "--out", "past.json", "--at", "first"]),
    (0, ["match", str(DEMO / "landed" / "orders.jsonl"), "--into", "seen"]),
    (0, ["propose", str(DEMO / "landed" / "returns.jsonl"), "--out", "proposed.json"]),
    (0, ["doctor"]),
    (0, ["maintain"]),
    (0, ["rebuild"]),
    (0, ["migrate"]),
    (0, ["backup", "kept"]),
    (0, ["ingest", DOCUMENTS[0], "--prune"]),
]


@pytest.mark.slow
def test_each_command_attaches_what_it_reads(bare_catalog, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended = []
    for code, arguments in COMMANDS:
        forget_attached(bare_catalog.spark)
        ran = call(tmp_path, *arguments, "--json")
        ended.append((arguments, ran.code, ran.err if ran.code != code else ""))
    assert [one for one, (code, _) in zip(ended, COMMANDS, strict=True) if one[1] != code] == []
    json.loads(ran.out)
