"""The command `lakehouse replicate pull`, as a process: exit codes and what it reports, where no Spark is to start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lakehouse.readmodel import open_model
from lakehouse.replicate.state import open_state
from lakehouse.settings import read_settings
from replicate.sources import Asked, Catalog, answering, fetch

ROOT = Path(__file__).parents[2]


def environment(folder: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "LAKEHOUSE_READMODEL_DIR": str(folder / "model"), "JAVA_HOME": "/nowhere"}


def command(folder: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "lakehouse", "--warehouse", str(folder / "warehouse"), "replicate", "pull", *arguments]


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(folder, *arguments), capture_output=True, text=True, check=False, env=environment(folder))


def test_a_source_that_answers_with_errors_ends_with_1_and_leaves_no_catalog(tmp_path):
    with answering(lambda asked: asked.give({"title": "secret-word?"}, 404)) as source:
        ran = run(tmp_path, source.url.replace("//", "//me:secret-word@"), "--json")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {source.url}")
    assert "me:" not in ran.stderr
    assert not (tmp_path / "warehouse" / "changes").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("catalog.example.com",),
        ("http://x.example/?a=b",),
        ("http://x.example/", "--group", "a/b"),
        ("http://x.example/", "--every", "0s"),
    ],
)
def test_wrong_usage_ends_with_2(tmp_path, arguments):
    assert run(tmp_path, *arguments).returncode == 2


def test_following_goes_on_after_an_error_until_it_is_stopped(tmp_path):
    def answer(asked: Asked) -> Any:
        asked.give({"title": "not here"}, 404)

    with answering(answer) as source:
        process = subprocess.Popen(
            command(tmp_path, source.url, "--follow", "--every", "1s"),
            stderr=subprocess.PIPE,
            text=True,
            env=environment(tmp_path),
        )
        until = time.monotonic() + 60
        while len(source.seen) < 5:  # two requests a round
            assert time.monotonic() < until
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, reported = process.communicate(timeout=30)
    assert process.returncode == 0
    assert reported.count("error:") >= 2


def test_a_source_without_subscriptions_is_reported_with_on_events(tmp_path):
    def answer(asked: Asked) -> None:
        asked.give({"specversion": "1.0-rc2"} if asked.path == "/" else {}, 200 if asked.path == "/" else 404)

    with answering(answer) as source:
        process = subprocess.Popen(
            command(tmp_path, source.url, "--on-events", "--every", "1s"),
            stderr=subprocess.PIPE,
            text=True,
            env=environment(tmp_path),
        )
        assert process.stderr.readline().startswith("listening for events at http://127.0.0.1:")
        assert "Leave --on-events out" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_what_was_refused_is_reported_while_nothing_changes(tmp_path):
    """As `lakehouse ingest` ends: with 3 until it is right at the source."""
    export = {"specversion": "1.0-rc4", "registryid": "r", "messagegroups": {"g": {"messages": {"m": {}}}}}
    flags = {"apis": ["/export"], "flags": ["doc", "inline"], "pagination": False}

    def answer(asked: Asked) -> None:
        if asked.headers.get("If-None-Match"):
            asked.give(b"", 304, Content_Type="")
        else:
            asked.give(flags if asked.path == "/capabilities" else export, ETag='"1"')

    catalog = Catalog(tmp_path / "warehouse")
    catalog.load({"specversion": "1.0-rc4", "registryid": "r"})
    settings = read_settings(warehouse=str(catalog.folder)).model_copy(update={"readmodel_dir": str(tmp_path / "model")})
    with open_model(settings) as model, model.at() as view:
        commit = (view.head, str(view.commit_of(view.head)["digest"]))
    with answering(answer) as source:
        fetch(settings, source.url, loaded=True)
        for refused, code in (([source.url], 3), (["http://127.0.0.1:9/"], 0)):
            with open_state(settings, source.url, (), "auto") as state:
                state.refused, state.commit = refused, commit
                state.save()
            ran = run(tmp_path, source.url)
            assert (ran.returncode, "nothing changed" in ran.stdout) == (code, True), ran.stderr
            assert ("`lakehouse violations` shows it" in ran.stdout) == bool(code)
