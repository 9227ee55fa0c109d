"""A catalog of the demo documents, registered in a Spark session that dbt finds in its process.

`LAKEHOUSE_BIN` names the environment that has the package and PySpark; this one has dbt alone.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin"))
_WHERE = """
import json, os, pyspark
from lakehouse.settings import read_settings
from lakehouse.store.session import find_java, resolve_delta_jars
places = {"home": os.path.dirname(pyspark.__file__), "java": find_java(), "jars": resolve_delta_jars(read_settings())}
print(json.dumps(places))
"""
_SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def run(*command: str | Path, **options: Path) -> str:
    """Return what a program of the package's environment printed."""
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": str(ROOT)}, **options
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of dbt, with the sources that the package writes; and next to it what registers the catalog."""
    folder = tmp_path_factory.mktemp("dbt")
    lakehouse = (BIN / "python", "-m", "lakehouse", "--warehouse", folder / "warehouse")
    loaded = run(*lakehouse, "ingest", ROOT / "lakehouse" / "cli" / "demo", "--exit-zero", "--json", cwd=folder)
    assert json.loads(loaded)["snapshot_id"] == 1
    shutil.copytree(Path(__file__).with_name("project"), folder / "project")
    run(*lakehouse, "export", "--dbt", folder / "project" / "models" / "sources.yaml", cwd=folder)
    (folder / "catalog.sql").write_text(run(*lakehouse, "ddl", cwd=folder))
    return folder / "project"


@pytest.fixture(scope="session")
def spark(project: Path) -> Iterator[object]:
    """A session with Delta Lake that knows the catalog by the script of `lakehouse ddl`."""
    places = json.loads(run(BIN / "python", "-c", _WHERE))
    os.environ |= {"SPARK_HOME": places["home"], "SPARK_LOCAL_IP": "127.0.0.1"}
    sys.path += map(str, Path(places["home"], "python", "lib").glob("*.zip"))
    from pyspark.sql import SparkSession  # found where the line above leads

    builder = SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", os.pathsep.join(places["jars"]))
    for name, value in (_SETTINGS | {"spark.sql.warehouse.dir": str(project.with_name("schemas"))}).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    for statement in project.with_name("catalog.sql").read_text().split(";\n\n"):
        if statement.strip():
            session.sql(statement)
    yield session
    session.stop()
