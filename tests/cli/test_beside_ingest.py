"""`show` in a loop while ingests run and are killed: no answer fails, and each is of one snapshot."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from deltas import unpack

ROOT = Path(__file__).parents[2]
M = "/messagegroups/g/messages/m"


def run(warehouse: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lakehouse", "--warehouse", str(warehouse), *arguments, "--json"]
    reported = os.environ | {"PYTHONPATH": str(ROOT)} | environment
    return subprocess.run(command, capture_output=True, text=True, check=False, env=reported, timeout=900)


def without_time(shown: dict[str, Any]) -> dict[str, Any]:
    """Leave out what differs from snapshot to snapshot."""
    return {name: value for name, value in shown.items() if "snapshot" not in name and name != "examples"}


@pytest.mark.slow
def test_no_answer_fails_while_ingests_die(tmp_path):
    warehouse = unpack(tmp_path)
    readmodel = {"LAKEHOUSE_READMODEL_DIR": str(tmp_path / "model"), "PATH": str(tmp_path)}
    right = json.loads(run(warehouse, "show", M, **readmodel).stdout)
    answers: list[subprocess.CompletedProcess[str]] = []
    listed: list[subprocess.CompletedProcess[str]] = []
    ended = threading.Event()

    def look() -> None:
        while not ended.is_set():
            answers.append(run(warehouse, "show", M, **readmodel))
            listed.append(run(warehouse, "snapshots", **readmodel))

    looking = threading.Thread(target=look)
    looking.start()
    document = tmp_path / "b.json"
    try:
        for number, point in enumerate(("after_commit", "before_commit", "")):
            document.write_text(json.dumps({"messagegroups": {"k": {"messages": {"x": {"name": f"release {number}"}}}}}))
            deadly = {"LAKEHOUSE_CRASH_AT": point, "LAKEHOUSE_CRASH_BY": "kill"} if point else {}
            ran = run(warehouse, "ingest", str(document), LAKEHOUSE_READMODEL_DIR=str(tmp_path / "model"), **deadly)
            assert ran.returncode == (-signal.SIGKILL if point else 0), ran.stderr
    finally:
        ended.set()
        looking.join()
    listed.append(run(warehouse, "snapshots", **readmodel))

    assert [answer.stderr for answer in [*answers, *listed] if answer.returncode] == []
    # While definitions lag, it says of which snapshots it is; the examples are of the time of the snapshot.
    for [shown] in (json.loads(answer.stdout) for answer in answers):
        assert without_time(shown) == without_time(right[0])
    heads = [json.loads(answer.stdout)[-1]["snapshot_id"] for answer in listed]
    assert heads == sorted(heads)
    assert {3, 5} <= set(heads) <= {3, 4, 5}
