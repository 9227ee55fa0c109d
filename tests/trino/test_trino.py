"""Trino reads the tables of a warehouse: a server on 127.0.0.1, whose Delta Lake connector keeps its metastore in a folder.

`TRINO` names the folder of the unpacked server, `TRINO_JAVA_HOME` the Java that it demands.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
from deltalake import DeltaTable
from ports import free_port

from lakehouse.store.schema import DECLARATIONS

DEMO = Path(__file__).parents[2] / "lakehouse" / "cli" / "demo"
SECONDS = 180  # until the server answers

Sql = Callable[[str], "list[list[Any]]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("trino")
    command = [sys.executable, "-m", "lakehouse", "--warehouse", made / "warehouse", "ingest", DEMO, "--exit-zero", "--json"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=False, cwd=made)
    assert json.loads(loaded.stdout)["snapshot_id"] == 1, loaded.stderr[-3000:]
    return made


@pytest.fixture(scope="module")
def trino(folder: Path) -> Iterator[Sql]:
    """Run statements on a server that has the tables registered."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    files = {
        "config.properties": f"coordinator=true\nnode-scheduler.include-coordinator=true\nhttp-server.http.port={port}\n"
        f"discovery.uri={url}\n",
        "node.properties": "node.environment=test\nnode.bind-ip=127.0.0.1\nnode.internal-address=127.0.0.1\n"
        f"node.data-dir={folder}/data\n",
        "jvm.config": "-Xmx1500M\n--add-modules=jdk.incubator.vector\n",
        "catalog/lake.properties": "connector.name=delta_lake\nhive.metastore=file\nhive.metastore.catalog.dir=local:///metastore\n"
        f"fs.native-local.enabled=true\nlocal.location={folder}\ndelta.register-table-procedure.enabled=true\n",
    }
    (folder / "etc" / "catalog").mkdir(parents=True)
    for name, text in files.items():
        (folder / "etc" / name).write_text(text)
    java = Path(os.environ["TRINO_JAVA_HOME"])
    environment = os.environ | {"JAVA_HOME": str(java), "PATH": f"{java / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    command = [Path(os.environ["TRINO"]).absolute() / "bin" / "launcher", "--etc-dir", folder / "etc", "run"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        yield from _served(process, folder, url)
    finally:
        process.terminate()
        process.wait(60)


def _served(process: subprocess.Popen[bytes], folder: Path, url: str) -> Iterator[Sql]:
    until = time.monotonic() + SECONDS
    while "SERVER STARTED" not in (folder / "log").read_text():
        is_starting = process.poll() is None and time.monotonic() < until
        assert is_starting, (folder / "log").read_text()[-3000:]
        time.sleep(0.5)

    def run(statement: str) -> list[list[Any]]:
        headers = {"X-Trino-User": "test", "X-Trino-Catalog": "lake", "X-Trino-Schema": "xregistry"}
        answer = json.load(urlopen(Request(f"{url}/v1/statement", statement.encode(), headers)))
        rows: list[list[Any]] = []
        while "nextUri" in answer:
            answer = json.load(urlopen(answer["nextUri"]))
            rows += answer.get("data") or []
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return rows

    def has_nodes() -> bool:
        try:
            run("SELECT count(*) FROM changes")
        except RuntimeError as error:
            if "No nodes available" in str(error) and time.monotonic() < until:
                return False
            raise
        return True

    run("CREATE SCHEMA lake.xregistry")
    for table in DECLARATIONS:
        run(f"CALL lake.system.register_table('xregistry', '{table}', 'local:///warehouse/{table}')")
    while not has_nodes():  # the server is its own worker, which it finds a little later
        time.sleep(0.5)
    yield run


@pytest.mark.parametrize("table", DECLARATIONS)
def test_tables_have_their_rows_columns_and_comments(trino: Sql, folder: Path, table: str) -> None:
    stored = DeltaTable(folder / "warehouse" / table).to_pyarrow_table()
    assert trino(f"SELECT count(*) FROM {table}") == [[stored.num_rows]]
    comments = {row[0]: row[3] for row in trino(f"DESCRIBE {table}")}
    assert comments == {column.name: column.metadata["comment"] for column in DECLARATIONS[table].columns}


def test_maps_are_read(trino: Sql) -> None:
    rows = trino("SELECT xid, cardinality(attributes) FROM effective_messages")
    assert len(rows) == 22
    assert all(row[1] > 0 for row in rows)
