"""The command: options, exit codes, what it prints. Each call runs in a new process, as a user's does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakehouse.cli.main import cli

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "lakehouse"]


def run(*arguments, cwd, **environment):
    return subprocess.run([*COMMAND, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, check=False,
                          env=os.environ | {"PYTHONPATH": str(ROOT)} | environment)  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "a.json").write_text(json.dumps({"messagegroups": {"g": {"messages": {"m": {}, "bad": {"envelope": 5}}}}}))
    return tmp_path


def test_ingest_and_sql_as_a_user_runs_them(folder):
    warehouse = "my wärehouse #1"  # Spark has the location of its schema as a URI
    loaded = run("--json", "ingest", "documents", "--warehouse", warehouse, cwd=folder)
    assert (loaded.returncode, loaded.stderr) == (3, "")
    summary = json.loads(loaded.stdout)
    assert summary["snapshot_id"] == 1
    assert summary["documents"] == {"read": 1, "unchanged": 0, "skipped": 0, "rejected": 0}
    assert summary["entities"]["messages"] == {"inserted": 1, "updated": 0, "deleted": 0, "unchanged": 0, "quarantined": 1}
    assert set(summary["violations"]) == {"error", "warning", "info"}
    assert {"total", "attach", "list", "parse", "check", "commit", "project"} <= set(summary["seconds"])

    shown = run("sql", "SELECT messageid, deprecated FROM messages", cwd=folder, LAKEHOUSE_WAREHOUSE=warehouse)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert [line.split() for line in shown.stdout.splitlines()] == [["messageid", "deprecated"], ["m", "NULL"]]


@pytest.mark.slow
def test_a_folder_that_is_not_there_is_wrong_usage(folder):
    failed = run("ingest", "nothing", cwd=folder)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "nothing: no such file or folder" in failed.stderr


def test_without_java_the_command_says_what_to_install(folder):
    failed = run("ingest", "documents", cwd=folder, PATH="/nowhere", JAVA_HOME="")
    assert failed.returncode == 1
    assert "Java 17 or 21" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize("arguments", [[], ["ingest"], ["ingest", "x", "--no-such-option"], ["no-such-command"]])
def test_wrong_usage_is_exit_code_2(arguments):
    assert CliRunner().invoke(cli, arguments).exit_code == 2


def test_wrong_settings_are_reported_with_their_key(folder):
    (folder / "conf.toml").write_text("max_json_depth = 'deep'")
    failed = run("ingest", "documents", "--conf", "conf.toml", cwd=folder)
    assert failed.returncode == 2
    assert "max_json_depth" in failed.stderr


def test_help_and_version_need_no_spark():
    assert "ingest" in CliRunner().invoke(cli, ["--help"]).output
    assert CliRunner().invoke(cli, ["--version"]).exit_code == 0
