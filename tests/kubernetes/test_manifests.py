"""Manifests as a cluster and the Spark operator take them, and what the image's entry point starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kubeflow_spark_api.models import SparkV1beta2ScheduledSparkApplication

ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin"))
FOLDER = ROOT / "conf" / "kubernetes"
ENTRYPOINT = FOLDER / "entrypoint.sh"
DOCUMENTS = [(path.name, one) for path in sorted(FOLDER.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())]
EXECUTOR = {
    "SPARK_JAVA_OPT_0": "-Dspark.driver.port=7078",
    "SPARK_JAVA_OPT_1": "-Da=b c",
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@driver:7078",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_APPLICATION_ID": "spark-app",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "pod-exec-1",
}


def pod_specs() -> list[dict[str, Any]]:
    templates = [one["spec"].get("jobTemplate", one)["spec"].get("template") for _, one in DOCUMENTS if "spec" in one]
    return [one["spec"] for one in templates if one and "spec" in one]


def started(folder: Path, *arguments: str, **environment: str) -> list[str]:
    """Return the command that the entry point starts; a `tini` that prints it takes the place of the real one."""
    tini = folder / "tini"
    tini.write_text("#!/bin/sh\nshift 2\nprintf '%s\\n' \"$@\"\n")
    tini.chmod(0o755)
    path = f"{folder}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", str(ENTRYPOINT), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"PATH": path} | environment)
    return ran.stdout.splitlines()


@pytest.mark.parametrize(("name", "document"), DOCUMENTS, ids=[f"{name}-{one['kind']}" for name, one in DOCUMENTS])
def test_a_manifest_has_the_fields_of_its_kind_alone(name, document):
    if document["apiVersion"].startswith("sparkoperator"):
        read = SparkV1beta2ScheduledSparkApplication.from_dict(document)
        assert read.to_dict() == document  # fields that the operator does not know are dropped
    else:
        kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def test_no_pod_runs_as_root_or_writes_its_own_disk():
    specs = pod_specs()
    assert len(specs) == 2
    for spec in specs:
        assert spec["securityContext"]["runAsNonRoot"]
        assert all(one["securityContext"]["readOnlyRootFilesystem"] for one in spec["containers"])
    (application,) = (one["spec"]["template"] for _, one in DOCUMENTS if one["kind"] == "ScheduledSparkApplication")
    assert all(application[part]["securityContext"]["runAsNonRoot"] for part in ("driver", "executor"))


def test_the_command_takes_the_arguments_of_the_pods():
    for spec in pod_specs():
        arguments = spec["containers"][0]["args"]
        ran = subprocess.run([BIN / "lakehouse", *arguments, "--help"], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
    ran = subprocess.run([BIN / "lakehouse", "serve", "--no-such", "--help"], capture_output=True, text=True, check=False)
    assert ran.returncode == 2


def test_writers_never_run_side_by_side():
    scheduled = [one["spec"] for _, one in DOCUMENTS if "schedule" in one.get("spec", {})]
    assert [one["concurrencyPolicy"] for one in scheduled] == ["Forbid", "Forbid"]


def test_the_entry_point_has_no_findings():
    ran = subprocess.run([Path(sys.executable).with_name("shellcheck"), ENTRYPOINT], capture_output=True, text=True, check=False)
    assert ran.stdout == ""
    assert ran.returncode == 0


def test_a_container_runs_the_command_and_spark_submit(tmp_path):
    assert started(tmp_path, "ingest", "/data/d o c") == ["lakehouse", "ingest", "/data/d o c"]
    assert started(tmp_path) == ["lakehouse"]
    assert started(tmp_path, "spark-submit", "--version") == ["spark-submit", "--version"]


def test_a_driver_is_submitted_in_its_pod(tmp_path):
    command = started(tmp_path, "driver", "--class", "C", "local:///job.py", SPARK_DRIVER_BIND_ADDRESS="127.0.0.1")
    assert command[0] == "spark-submit"
    assert command[-3:] == ["--class", "C", "local:///job.py"]
    assert "spark.driver.bindAddress=127.0.0.1" in command
    assert command[command.index("--driver-class-path") + 1] == "/opt/xregistry/jars/*"


def test_an_executor_has_its_options_and_all_jars(tmp_path):
    command = started(tmp_path, "executor", **EXECUTOR)
    assert command[:5] == ["java", "-Dspark.driver.port=7078", "-Da=b c", "-Xms2048m", "-Xmx2048m"]
    assert command[6].endswith("pyspark/jars/*:/opt/xregistry/jars/*")
    options = command[command.index("org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend") + 1 :]
    assert dict(zip(options[::2], options[1::2], strict=True)) == {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "1",
        "--cores": "2",
        "--app-id": "spark-app",
        "--hostname": "127.0.0.1",
        "--resourceProfileId": "0",
        "--podName": "pod-exec-1",
    }
