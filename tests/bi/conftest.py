"""A catalog of the demo documents behind `lakehouse serve-sql`, run in the environment that `LAKEHOUSE_BIN` names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ports import free_port

ROOT = Path(__file__).parents[2]
BIN = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin"))
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="session")
def warehouse(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("bi") / "warehouse"
    command = [
        BIN / "python",
        "-m",
        "lakehouse",
        "--warehouse",
        folder,
        "ingest",
        ROOT / "lakehouse" / "cli" / "demo",
        "--exit-zero",
        "--json",
    ]
    reported = subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT, cwd=folder.parent)
    assert json.loads(reported.stdout)["snapshot_id"] == 1
    return folder


@pytest.fixture(scope="session")
def port(warehouse) -> Iterator[int]:
    """The port of the SQL server."""
    found = free_port()
    command = [BIN / "python", "-m", "lakehouse", "--warehouse", warehouse, "serve-sql", "--port", str(found), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=warehouse.parent)
    assert json.loads(process.stdout.readline())["url"] == f"jdbc:hive2://127.0.0.1:{found}/xregistry"
    yield found
    process.send_signal(signal.SIGTERM)
    process.stdout.close()
    assert process.wait(60) == 0


@pytest.fixture(scope="session")
def rows(warehouse) -> dict[str, list[dict]]:
    """The tables as another reader sees them."""
    from deltalake import DeltaTable

    return {
        name: DeltaTable(str(warehouse / name)).to_pyarrow_dataset().to_table().to_pylist()
        for name in ("messages", "effective_messages")
    }
