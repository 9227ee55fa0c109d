"""The jobs on a Spark standalone cluster: executors have nothing but what was shipped, and two drivers work at once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyspark
import pytest
from sparkcluster import Cluster

from lakehouse.settings import read_settings
from lakehouse.store.session import resolve_delta_jars

ROOT = Path(__file__).parents[2]
# As in docs/operations.md: what the package needs in addition to Spark, which is on the nodes, and what only a driver needs.
PACK = """
set -eu
cp {wheel} xregistry_lakehouse.zip
python3 -m venv environment
unzip -p {wheel} '*/METADATA' | sed -n "s/^Requires-Dist: //; T; s/; extra == 'spark'//; p" \\
  | grep -v -E 'extra ==|pyspark|delta-spark' > needs.txt
environment/bin/pip install --quiet --constraint {constraints} --requirement needs.txt venv-pack==0.2.0
environment/bin/pip install --quiet --no-deps delta-spark==4.4.0
environment/bin/venv-pack --quiet --prefix environment --output environment.tar.gz
environment/bin/pip install --quiet --no-deps {wheel}
environment/bin/venv-pack --quiet --prefix environment --output whole.tar.gz
"""


@pytest.fixture(scope="session")
def shipped(tmp_path_factory) -> Path:
    """A folder with the package as a zip, and two environments: without the package, and with it."""
    folder = tmp_path_factory.mktemp("shipped")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run(
        ["bash", "-c", PACK.format(wheel=wheel.name, constraints=ROOT / ".ci" / "constraints.txt")], check=True, cwd=folder
    )
    return folder


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def shared(tmp_path_factory) -> Path:
    """The path that all nodes see: documents and warehouse."""
    folder = tmp_path_factory.mktemp("shared")
    shutil.copytree(
        ROOT / "lakehouse" / "cli" / "demo", folder / "documents", ignore=shutil.ignore_patterns("*.py", "__pycache__")
    )
    return folder


@pytest.fixture
def submit(cluster, shipped, shared):
    def run(job, *arguments, environment="environment.tar.gz", cores=2):
        jars = ",".join(resolve_delta_jars(read_settings()))
        options = ["--master", cluster.master, "--properties-file", ROOT / "conf" / "spark-cluster.conf", "--jars", jars]
        if environment == "environment.tar.gz":
            options += ["--py-files", shipped / "xregistry_lakehouse.zip"]
        options += ["--archives", f"{shipped / environment}#environment"]
        small = {"executor.memory": "1g", "executor.memoryOverhead": "512m", "driver.memory": "1g", "cores.max": cores}
        small |= {"sql.shuffle.partitions": 2, "sql.files.minPartitionNum": 2, "driver.host": "127.0.0.1"}
        small["pyspark.driver.python"] = sys.executable
        options += [part for key, value in small.items() for part in ("--conf", f"spark.{key}={value}")]
        kept = {key: os.environ[key] for key in ("PATH", "JAVA_HOME", "HOME") if key in os.environ}
        kept |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(Path(pyspark.__file__).parent)}
        if environment == "whole.tar.gz":
            kept["PYTHONPATH"] = str(shipped / "xregistry_lakehouse.zip")  # of the driver only
        command = [Path(sys.executable).with_name("spark-submit"), *options, ROOT / "jobs" / f"{job}.py"]
        command += ["--warehouse", shared / "warehouse", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=kept, cwd=shared)

    return run


def reported(submitted):
    """Return the JSON of a job: its last line, since spark-submit writes what comes on standard error to the same stream."""
    return json.loads(submitted.stdout.splitlines()[-1])


def test_ingest_validate_export(submit, cluster, shared):
    loaded = submit("ingest", "documents", "--json")
    assert loaded.returncode == 3, loaded.stderr
    summary = reported(loaded)
    assert (summary["snapshot_id"], summary["documents"]["read"]) == (1, 4)
    for worker, folders in cluster.executors().items():
        assert folders, f"no executor ran on {worker}"
        assert all((folder / "xregistry_lakehouse.zip").exists() for folder in folders)
    validated = submit("validate", "--json", "--exit-zero")
    assert validated.returncode == 0, validated.stderr
    assert reported(validated)["snapshot_id"] == 1
    written = submit("export", "--out", "catalog.json")
    assert written.returncode == 0, written.stderr
    groups = json.loads((shared / "catalog.json").read_text())["messagegroups"]
    assert "shop.orders.OrderPlaced" in groups["shop.orders"]["messages"]


def test_two_drivers_at_once(submit, shared):
    for name in ("left", "right"):
        document = {"messagegroups": {name: {"messages": {f"{name}.{n}": {"name": name} for n in range(50)}}}}
        (shared / f"{name}.json").write_text(json.dumps(document))
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda name: submit("ingest", f"{name}.json", "--json", cores=1), ("left", "right")))
    assert [run.returncode for run in runs] == [0, 0], [run.stderr[-2000:] for run in runs]
    assert sorted(reported(run)["snapshot_id"] for run in runs) == [2, 3]


def test_the_package_may_be_in_the_environment(submit, shared):
    (shared / "third.json").write_text(json.dumps({"messagegroups": {"third": {"messages": {"m": {}}}}}))
    loaded = submit("ingest", "third.json", "--json", environment="whole.tar.gz")
    assert loaded.returncode == 0, loaded.stderr
    assert reported(loaded)["snapshot_id"] == 4
