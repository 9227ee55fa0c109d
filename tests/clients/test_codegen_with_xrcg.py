"""`lakehouse codegen` with xrcg itself: code of Python that Python can read."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import BIN, DEMO, ENVIRONMENT, lakehouse


@pytest.mark.parametrize(
    ("xid", "role"), [("shop.orders.kafka", "consumer"), ("/endpoints/shop.orders.kafka.producer", "producer")]
)
def test_code_is_generated_from_a_catalog(tmp_path, xid, role):
    lakehouse("ingest", DEMO / "orders.xreg.json", "--registry", "demo/orders", "--warehouse", tmp_path / "w")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [BIN / "python", "-m", "lakehouse", "codegen", xid, "--language", "python", "--role", role]
    command += ["--warehouse", tmp_path / "w", "--out", tmp_path / "out"]
    ran = subprocess.run([*map(str, command)], env=ENVIRONMENT | {"PATH": path}, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    files = [path for path in (tmp_path / "out").rglob("*.py") if "_kafka_" in str(path.parent)]
    assert files
    for file in files:
        ast.parse(file.read_text())
