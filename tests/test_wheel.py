"""The wheel: built, installed into an empty virtual environment, and run from another folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_an_installed_wheel_works_away_from_the_checkout(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "lakehouse/_data/expectations/versions.json",
        "lakehouse/expectations/pages/suite.html",
        "lakehouse/expectations/pages/style.css",
        "lakehouse/site/templates/base.html",
        "lakehouse/site/assets/site.js",
    } <= names
    venv.create(tmp_path / "venv", with_pip=True)
    install = [tmp_path / "venv" / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "--constraint", ROOT / ".ci" / "constraints.txt", f"{wheel}[spark]"], check=True)
    command = tmp_path / "venv" / "bin" / "lakehouse"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "PYSPARK_PYTHON")}
    (elsewhere / "a.json").write_text(json.dumps({"messagegroups": {"g": {"messages": {"m": {}}}}}))
    loaded = subprocess.run(
        [command, "ingest", "a.json", "--json"], cwd=elsewhere, env=environment, capture_output=True, text=True, check=False
    )
    assert (loaded.returncode, loaded.stderr) == (0, "")
    assert json.loads(loaded.stdout)["entities"]["messages"]["inserted"] == 1
    asked = subprocess.run(
        [command, "sql", "SELECT messageid FROM messages", "--json"],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert json.loads(asked.stdout) == [{"messageid": "m"}]
