"""What a run reports machines: lines of JSON, OpenMetrics, OpenLineage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltas import unpack
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from lakehouse.cli.telemetry import CommandRun, datasets, figures
from lakehouse.errors import SettingsError
from lakehouse.progress import Unwatched

ROOT = Path(__file__).parents[2]
OUTCOMES = ("inserted", "updated", "deleted", "unchanged", "quarantined")
INGESTED = {
    "snapshot_id": 7,
    "documents": {"read": 4, "unchanged": 1, "skipped": 0, "rejected": 0},
    "entities": {"messages": dict.fromkeys(OUTCOMES, 0) | {"inserted": 22}, "groups": dict.fromkeys(OUTCOMES, 0)},
    "violations": {"error": 2, "warning": 0, "info": 0},
}


def samples(text):
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_figures_are_openmetrics():
    run = CommandRun("ingest", "/w", result=INGESTED, seconds={"parse": 1.5})
    text = figures(run, 3, 12.25)
    assert text.endswith("# EOF\n")
    found = samples(text)
    assert found["lakehouse_run_exit_code",] == 3
    assert found["lakehouse_run_duration_seconds",] == 12.25
    assert found["lakehouse_stage_duration_seconds", "parse"] == 1.5
    assert found["lakehouse_snapshot_id",] == 7
    assert found["lakehouse_entities", "inserted", "messages"] == 22
    assert found["lakehouse_findings", "error"] == 2
    assert found["lakehouse_documents", "unchanged"] == 1


def test_figures_of_other_commands():
    suites = {"specification": {"expectations": 3, "failed": {"error": 1, "warning": 0, "info": 0}}}
    validated = samples(figures(CommandRun("validate", "/w", result={"snapshot_id": 1, "suites": suites}), 3, 1))
    assert validated["lakehouse_expectations_failed", "error", "specification"] == 1
    space = {"files": 3, "bytes": 300, "files_on_disk": 5, "bytes_on_disk": 500}
    table = {"table": "messages", "before": space, "after": space | {"files": 1}}
    kept = samples(figures(CommandRun("maintain", "/w", result={"tables": [table]}), 0, 1))
    assert (kept["lakehouse_table_files", "before", "messages"], kept["lakehouse_table_files", "after", "messages"]) == (3, 1)
    assert samples(figures(CommandRun("ingest", "/w"), 1, 1))["lakehouse_run_exit_code",] == 1  # failed before anything came out


def test_each_stage_is_one_line_and_a_failure_says_so(capsys):
    run = CommandRun("ingest", "/w", log=True)
    watcher = run.watch(Unwatched())
    with watcher.stage("parse", 'a "quoted"\nname'):
        pass
    with pytest.raises(ValueError, match="no"), watcher.stage("commit", "x"):
        raise ValueError("no")
    run.end(1, "ValueError: no")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["stage"], line["state"]) for line in lines] == [("parse", "done"), ("commit", "failed"), ("end", "failed")]
    assert lines[0]["message"] == lines[0]["told"] == 'a "quoted"\nname'
    assert lines[2]["error"] == "ValueError: no"
    assert len({line["run"] for line in lines}) == 1


def test_the_file_of_figures_is_replaced_at_once(tmp_path):
    file = tmp_path / "lakehouse.prom"
    for code in (0, 1):
        CommandRun("ingest", "/w", metrics=str(file)).end(code)
        assert samples(file.read_text())["lakehouse_run_exit_code",] == code
    assert list(tmp_path.iterdir()) == [file]


def test_lineage_names_documents_and_the_tables_that_changed(tmp_path, monkeypatch):
    reported = tmp_path / "events.jsonl"
    config = tmp_path / "openlineage.yml"
    config.write_text(f"transport:\n  type: file\n  log_file_path: {reported}\n  append: true\n")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    run = CommandRun("ingest", "s3a://bucket/w", inputs=("/data/documents",))
    run.begin()
    run.result = INGESTED
    run.end(3)
    events = [json.loads(line) for line in reported.read_text().splitlines()]
    assert [event["eventType"] for event in events] == ["START", "COMPLETE"]
    assert {event["run"]["runId"] for event in events} == {run.run_id}
    assert [(one["namespace"], one["name"]) for one in events[1]["inputs"]] == [("file", "/data/documents")]
    assert [(one["namespace"], one["name"]) for one in events[1]["outputs"]] == [
        ("s3a://bucket", "w/changes"),
        ("s3a://bucket", "w/messages"),
    ]
    monkeypatch.delenv("OPENLINEAGE_CONFIG")
    run.end(3)
    assert len(reported.read_text().splitlines()) == 2  # nothing is printed unasked


def test_nobody_who_listens_can_stop_a_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(tmp_path / "openlineage.yml"))
    (tmp_path / "openlineage.yml").write_text(
        f"transport:\n  type: file\n  log_file_path: {tmp_path}/nowhere/x\n  append: true\n"
    )
    run = CommandRun("ingest", "/w", metrics=str(tmp_path / "folder"))
    run.begin()
    (tmp_path / "folder").mkdir()
    run.end(0)
    reported = capsys.readouterr().err
    assert "OpenLineage event not sent" in reported
    assert "figures were not written" in reported
    with pytest.raises(SettingsError, match="no such folder"):
        CommandRun("ingest", "/w", metrics="/nowhere/x.prom").begin()


def test_lineage_of_an_export():
    assert datasets(CommandRun("export", "/w", result={"out": "/x/c.json"})) == (
        [("file", "/w/changes")],
        [("file", "/x/c.json")],
    )


def test_a_failed_command_writes_its_figures_too(tmp_path):
    command = [sys.executable, "-m", "lakehouse", "validate", "--warehouse", "w", "--metrics", "run.prom", "--log-json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": "/nowhere", "JAVA_HOME": ""}
    failed = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert samples((tmp_path / "run.prom").read_text())["lakehouse_run_exit_code",] == 1
    last = json.loads(failed.stderr.splitlines()[-1])
    assert (last["stage"], last["state"], last["exit_code"]) == ("end", "failed", 1)


def test_an_output_that_is_closed_early_has_its_figures_and_its_last_line(tmp_path):
    unpack(tmp_path)
    command = [sys.executable, "-m", "lakehouse", "violations", "--all", "--metrics", "run.prom", "--log-json"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "LAKEHOUSE_READMODEL_DIR": str(tmp_path / "model")}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout is not None
        ran.stdout.close()
        _, reported = ran.communicate(timeout=120)
    last = json.loads(reported.splitlines()[-1])
    assert (last["stage"], last["state"], last["error"]) == ("end", "failed", "the output was closed before its end")
    assert samples((tmp_path / "run.prom").read_text())["lakehouse_run_exit_code",] == ran.returncode == 1
