"""Commands in new processes, start included, compared with a bare PySpark script with Delta Lake."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from lakehouse.settings import Settings, data_folder
from lakehouse.store.session import resolve_delta_jars
from tests.bench.pairs import Case

START = "start: lakehouse sql 'SELECT count(*) ...'"
FIRST = "first ingest, as a command"


def measure_starts(settings: Settings, messages: int, repeats: int) -> Case:
    """Start both in alternating order; no other Spark of this process should run meanwhile.

    The bare script has the same Spark settings, from the same file.
    """
    case = Case(START, "bare PySpark that counts the same path", 1.3)
    query = ["sql", "SELECT count(*) AS n FROM messages"]
    for _ in range(repeats):
        case.measure(
            lambda: _command(settings.warehouse, query, str(messages)),
            lambda: _bare(settings, f"SELECT count(*) FROM delta.`{settings.warehouse}/messages`", str(messages)),
        )
    return case


def measure_first_ingests(settings: Settings, files: Sequence[Path], work: Path, messages: int, repeats: int) -> Case:
    """Load documents into a warehouse that does not exist yet, as a command, compared with a bare script that runs `SELECT 1`."""
    case = Case(FIRST, "bare PySpark with Delta Lake that runs SELECT 1", 3.0)
    (folder,) = {file.parent for file in files}
    for number in range(repeats):
        warehouse = str(work / f"first-{number}")
        case.measure(
            lambda warehouse=warehouse: _command(warehouse, ["ingest", str(folder)], f'"inserted": {messages}'),
            lambda: _bare(settings, "SELECT 1", "1"),
        )
    return case


def _command(warehouse: str, arguments: list[str], expected: str) -> None:
    _run(["-m", "lakehouse", arguments[0], "--quiet", "--json", "--warehouse", warehouse, *arguments[1:]], {}, expected)


def _bare(settings: Settings, query: str, expected: str) -> None:
    conf = data_folder("conf") / "spark-defaults.conf"
    jars = os.pathsep.join(resolve_delta_jars(settings))
    options = f"--properties-file {conf} --driver-class-path {jars} pyspark-shell"
    script = str(Path(__file__).with_name("bare_query.py"))
    _run([script, query], {"PYSPARK_SUBMIT_ARGS": options, "SPARK_LOCAL_IP": "127.0.0.1"}, expected)


def _run(arguments: list[str], environment: dict[str, str], expected: str) -> None:
    ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=os.environ | environment)
    if ran.returncode or expected not in ran.stdout:
        raise click.ClickException(f"{arguments} did not print {expected}: {ran.stdout[-500:]} {ran.stderr[-2000:]}")
