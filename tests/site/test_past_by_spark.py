"""`lakehouse site --at` of a snapshot whose effective definitions are not kept any more: Spark computes them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltas import unpack
from sitecatalogs import opened

from lakehouse.site import write_site

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_spark_is_started_for_a_past_that_is_gone_and_the_command_says_so(tmp_path):
    warehouse = unpack(tmp_path)
    with opened(warehouse, tmp_path / "readmodel") as model:
        write_site(model, str(tmp_path / "kept"), at="1")
    table = DeltaTable(str(warehouse / "effective_messages"))
    needed = {Path(uri).name for uri in table.file_uris()}
    for file in (warehouse / "effective_messages").glob("*.parquet"):
        if file.name not in needed:
            file.unlink()

    command = [
        sys.executable,
        "-m",
        "lakehouse",
        "--warehouse",
        str(warehouse),
        "site",
        "--at",
        "1",
        "--out",
        str(tmp_path / "gone"),
    ]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=900)
    assert ran.returncode == 0, ran.stderr
    assert "effective definitions of snapshot 1 are not kept any more: Spark computes them" in ran.stderr
    assert "pages of snapshot 1" in ran.stdout
    kept, gone = ({path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
                  for folder in (tmp_path / "kept", tmp_path / "gone"))  # fmt: skip
    assert kept == gone
    assert len(kept) > 20
