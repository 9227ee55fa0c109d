"""The start of a command, beside a bare PySpark script with Delta Lake that counts the same table."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import click

from lakehouse.settings import Settings, data_folder
from lakehouse.store.session import resolve_delta_jars
from tests.bench.pairs import Case

START = "start: lakehouse sql 'SELECT count(*) ...'"


def measure_starts(settings: Settings, messages: int, repeats: int) -> Case:
    """Start both in alternating order; no other Spark of this process should run meanwhile.

    The bare script has the same Spark settings, from the same file.
    """
    case = Case(START, "bare PySpark that counts the same path", 1.3)
    conf = data_folder("conf") / "spark-defaults.conf"
    jars = os.pathsep.join(resolve_delta_jars(settings))
    options = f"--properties-file {conf} --driver-class-path {jars} pyspark-shell"
    bare = os.environ | {"PYSPARK_SUBMIT_ARGS": options, "SPARK_LOCAL_IP": "127.0.0.1"}
    query = ["sql", "SELECT count(*) AS n FROM messages"]
    command = ["-m", "lakehouse", "--quiet", "--json", "--warehouse", settings.warehouse, *query]
    script = [str(Path(__file__).with_name("bare_count.py")), f"{settings.warehouse}/messages"]
    for _ in range(repeats):
        case.measure(lambda: _count(command, os.environ, messages), lambda: _count(script, bare, messages))
    return case


def _count(arguments: list[str], environment: Mapping[str, str], expected: int) -> None:
    ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)
    if ran.returncode or str(expected) not in ran.stdout:
        raise click.ClickException(f"{arguments} did not count {expected}: {ran.stdout[-500:]} {ran.stderr[-2000:]}")
