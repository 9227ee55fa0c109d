"""Airflow with its own home, set up before Airflow is imported; the jobs run in the environment that `LAKEHOUSE_BIN` names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from places import BIN, ROOT, make_places

HOME = Path(tempfile.mkdtemp(prefix="lakehouse-airflow-"))

# Each job runs little code once: the quick compiler alone.
_SETTINGS = """\
refresh_effective = false

[spark]
"spark.sql.shuffle.partitions" = "2"
"""
_PROPERTIES = """\
spark.driver.extraClassPath {jars}
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
"""

os.environ |= {
    "AIRFLOW_HOME": str(HOME),
    "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "airflow_dags"),
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__LOGGING__LOGGING_LEVEL": "WARNING",
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{HOME}/airflow.db",
    "AIRFLOW_CONN_SPARK_LAKEHOUSE": json.dumps(
        {"conn_type": "spark", "host": "local[2]", "extra": {"spark-binary": "spark-submit"}}
    ),
    "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(ROOT),
    "SPARK_LOCAL_IP": "127.0.0.1",
}
sys.path.insert(0, str(ROOT / "airflow_dags"))


@pytest.fixture(scope="session")
def properties() -> Path:
    """Spark settings as an installation has them: where Delta's jars are."""
    ask = "from lakehouse.store.session import resolve_delta_jars as jars\nfrom lakehouse.settings import read_settings as read\n"
    ask += "import os, sys\nsys.stdout.write(os.pathsep.join(jars(read())))"
    reported = subprocess.run([BIN / "python", "-c", ask], check=True, capture_output=True, text=True)
    path = HOME / "spark.properties"
    path.write_text(_PROPERTIES.format(jars=reported.stdout))
    (HOME / "lakehouse.toml").write_text(_SETTINGS)
    return path


@pytest.fixture(scope="session", autouse=True)
def database() -> None:
    from airflow.utils.db import initdb

    initdb()


@pytest.fixture(scope="session")
def loaded(tmp_path_factory, properties) -> dict[str, str]:
    """A warehouse that the tests fill, one after the other."""
    return make_places(tmp_path_factory.mktemp("loaded"), properties)


@pytest.fixture
def places(tmp_path, monkeypatch, properties) -> dict[str, str]:
    """The variable `lakehouse`, for a warehouse of the test's own."""
    made = make_places(tmp_path, properties)
    monkeypatch.setenv("AIRFLOW_VAR_LAKEHOUSE", json.dumps(made))
    return made
