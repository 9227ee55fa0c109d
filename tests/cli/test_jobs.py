"""The jobs: each is the command of its name, for spark-submit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.resources import as_file, files
from pathlib import Path

import pytest
from click.testing import CliRunner

from lakehouse.cli.main import cli
from lakehouse.settings import read_settings
from lakehouse.store.session import resolve_delta_jars

ROOT = Path(__file__).parents[2]
JOBS = sorted(path.stem for path in (ROOT / "jobs").glob("*.py"))


def run(command, cwd):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=environment)


def submit(job, *arguments, cwd):
    """Run a job as a user does who has Delta's jars in a folder."""
    jars = os.pathsep.join(resolve_delta_jars(read_settings()))
    conf = [f"spark.driver.{name}=127.0.0.1" for name in ("host", "bindAddress")] + ["spark.sql.shuffle.partitions=2"]
    options = ["--master", "local[2]", "--driver-class-path", jars, *(part for one in conf for part in ("--conf", one))]
    command = Path(sys.executable).with_name("spark-submit")
    return run([command, *options, ROOT / "jobs" / f"{job}.py", *arguments], cwd)


def test_the_jobs_are_there():
    assert JOBS == ["changes", "export", "ingest", "maintain", "match", "propose", "replicate", "validate"]


@pytest.mark.parametrize("job", JOBS)
def test_a_job_has_the_options_of_its_command(job, tmp_path):
    reported = run([sys.executable, ROOT / "jobs" / f"{job}.py", "--help"], tmp_path)
    assert reported.returncode == 0
    expected = CliRunner().invoke(cli, [job, "--help"]).output
    assert reported.stdout.split("\n", 1)[1].split() == expected.split("\n", 1)[1].split()  # but for the program's name
    assert run([sys.executable, ROOT / "jobs" / f"{job}.py", "--no-such-option"], tmp_path).returncode == 2


@pytest.mark.slow
def test_a_night_of_jobs(tmp_path):
    with as_file(files("lakehouse.cli") / "demo") as documents:
        loaded = submit("ingest", documents, "--json", cwd=tmp_path)
    assert loaded.returncode == 3, loaded.stderr  # the demo holds one message that is refused
    assert json.loads(loaded.stdout)["snapshot_id"] == 1
    validated = submit("validate", "--json", cwd=tmp_path)
    assert validated.returncode in {0, 3}, validated.stderr
    assert json.loads(validated.stdout)["snapshot_id"] == 1
    written = submit("export", "--out", "catalog.json", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    assert len(json.loads((tmp_path / "catalog.json").read_text())["messagegroups"]) == 6
    reported = submit("changes", "--since", "0", "--feed", "core", cwd=tmp_path)
    assert {json.loads(line)["specversion"] for line in reported.stdout.splitlines()} == {"1.0"}
    kept = submit("maintain", "--json", cwd=tmp_path)
    assert {one["after"]["files"] for one in json.loads(kept.stdout)["tables"]} == {1}
    assert submit("ingest", "nothing", cwd=tmp_path).returncode == 2
