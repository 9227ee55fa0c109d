"""`lakehouse ingest confluent+…`: what is wrong with a call is an error before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from called import Caller
from replicate.sources import answering

from registries.registrystandins import shop
from registries.test_registry_read import half


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (["docs/", "--deleted"], 2, "--deleted and --messages are for a SOURCE such as confluent+https://HOST/."),
        (["confluent+file:t.jsonl", "--watch"], 2, "without --registry-from, --dialect, --watch"),
        (["confluent+file:t.jsonl", "--dialect", "1.0-rc2"], 2, "without --registry-from, --dialect, --watch"),
        (["confluent+file:t.jsonl", "docs/"], 2, "a schema registry is loaded alone"),
        (["confluent+file:nowhere.jsonl"], 2, "no such file or folder"),
        (["confluent+ftp://127.0.0.1/"], 2, "not an absolute URL of http or https"),
        (["confluent+http://127.0.0.1:1/"], 1, "no answer"),
        (["confluent+file:t.jsonl"], 2, "line 1: it is not JSON"),
    ],
)
def test_calls_that_are_wrong(tmp_path: Path, monkeypatch, call: Caller, arguments, code, reason):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    Path("t.jsonl").write_text("no JSON\n")
    ran = call(tmp_path, "ingest", *arguments)
    assert reason in " ".join(ran.err.split())
    assert (ran.code, ran.out) == (code, "")
    assert not Path("warehouse").exists()


def test_a_registry_that_breaks_off_loads_nothing(tmp_path: Path, monkeypatch, call: Caller):
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    registry = shop()
    registry.before = lambda request: "/config/orders-value" in request.path and (half(request) or True)
    with answering(registry.answer) as server:
        ran = call(tmp_path, "ingest", f"confluent+{server.url}")
    assert ran.code == 1
    assert "/config/orders-value: its answer broke off" in ran.err
    assert not (tmp_path / "warehouse").exists()
