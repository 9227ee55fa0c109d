"""A Hive metastore in a process by itself: what one process registers there, others find: `spark-sql`, a Thrift server.

Its classes are among the jars of PySpark, and its database is Derby's, in a folder.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyspark
import pytest
from ports import LOOPBACK, free_port, wait_for_port

from lakehouse.settings import read_settings
from lakehouse.store.schema import DECLARATIONS, SCHEMA
from lakehouse.store.session import find_java, resolve_delta_jars

ROOT = Path(__file__).parents[2]
HOME = Path(pyspark.__file__).parent
LAKEHOUSE = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin")) / "lakehouse"
DEMO = ROOT / "lakehouse" / "cli" / "demo"
SPARK = {"SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": LOOPBACK}  # for Spark's own commands
MOST_OF_DERBY = 32_700  # characters of a view: `dictionary` has more

Sql = Callable[[str], "list[list[str]]"]


@pytest.fixture(scope="module")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("metastore")
    port = free_port()
    settings = {
        "hive.async.log.enabled": "false",
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/database;create=true",
        "datanucleus.schema.autoCreateAll": "true",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"{folder}/warehouse",
        "derby.stream.error.file": f"{folder}/derby.log",
    }
    command = [find_java(), "-cp", f"{HOME}/jars/*", *(f"-D{name}={value}" for name, value in settings.items())]
    command += ["org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(port)]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    wait_for_port(port, process, folder / "log")
    yield f"thrift://{LOOPBACK}:{port}"
    process.terminate()
    process.wait(30)


@pytest.fixture(scope="module")
def warehouse(metastore: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog of the demo documents, loaded with the settings of docs/operations.md; and its views."""
    folder = tmp_path_factory.mktemp("catalog")
    spark = {"spark.sql.catalogImplementation": "hive", "spark.hadoop.hive.metastore.uris": metastore}
    environment = os.environ | {"LAKEHOUSE_SPARK": json.dumps(spark), "LAKEHOUSE_READMODEL_DIR": f"{folder}/readmodel"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [LAKEHOUSE, "--warehouse", f"{folder}/warehouse", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=folder)

    loaded = run("ingest", str(DEMO), "--json")
    assert json.loads(loaded.stdout)["snapshot_id"] == 1, loaded.stderr[-3000:]
    again = run("ingest", str(DEMO), "--json")
    assert json.loads(again.stdout)["snapshot_id"] is None, again.stderr[-3000:]
    script = run("ddl", "--location", f"{folder}/warehouse/{SCHEMA}.db")
    assert script.returncode == 0, script.stderr[-3000:]
    (folder / "catalog.sql").write_text(script.stdout)
    return folder


@pytest.fixture(scope="module")
def options(metastore: str) -> list[str]:
    """Return the options by which Spark's own commands know the metastore and Delta Lake, and not this package."""
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.hadoop.hive.metastore.uris": metastore,
        "spark.driver.host": LOOPBACK,
        "spark.ui.enabled": "false",
    }
    jars = ":".join(resolve_delta_jars(read_settings()))
    return ["--driver-class-path", jars, *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}"))]


@pytest.fixture(scope="module")
def spark_sql(options: list[str], warehouse: Path) -> Sql:
    """Run statements by Spark's own command."""

    def run(statements: str) -> list[list[str]]:
        (warehouse / "statements.sql").write_text(statements)
        command = [HOME / "bin" / "spark-sql", *options, "-f", warehouse / "statements.sql"]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | SPARK, cwd=warehouse)
        assert ran.returncode == 0, ran.stderr[-4000:]
        return [[cell.strip() for cell in line.split("\t")] for line in ran.stdout.splitlines()]

    return run


@pytest.fixture
def thrift_server(options: list[str], warehouse: Path) -> Iterator[str]:
    """Start Spark's own Thrift server; yield its URL for JDBC."""
    port = free_port()
    hive = {"hive.server2.thrift.port": port, "hive.server2.thrift.bind.host": LOOPBACK}
    command = [HOME / "bin" / "spark-submit", *options, "--conf", "spark.sql.catalogImplementation=hive"]
    command += ["--class", "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2", "spark-internal"]
    command += [part for name, value in hive.items() for part in ("--hiveconf", f"{name}={value}")]
    with (warehouse / "thrift.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | SPARK, cwd=warehouse)
    wait_for_port(port, process, warehouse / "thrift.log")
    yield f"jdbc:hive2://{LOOPBACK}:{port}/"
    process.terminate()
    process.wait(60)


def comments(rows: list[list[str]], columns: Iterable[str]) -> dict[str, str | None]:
    """Return the comments of columns, out of what DESCRIBE printed."""
    described = {row[0]: row[2] for row in rows if len(row) == 3}
    return {name: described.get(name) for name in columns}


def test_another_process_sees_tables_with_columns_and_comments(spark_sql):
    rows = spark_sql("SELECT 'rows', count(*) FROM xregistry.messages; SHOW TABLES IN xregistry; DESCRIBE xregistry.messages;")
    assert ["rows", "22"] in rows
    assert {row[0] for row in rows if len(row) == 1} >= set(DECLARATIONS)
    described = comments(rows, DECLARATIONS["messages"].columns.names)
    assert described["xid"].startswith("XID"), described
    assert all(described.values()), described


def test_another_process_sees_views_that_were_registered_once(spark_sql, warehouse):
    statements = (warehouse / "catalog.sql").read_text().split(";\n")
    spark_sql(";\n".join(statement for statement in statements if len(statement) < MOST_OF_DERBY) + ";\n")
    rows = spark_sql("SELECT 'rows', count(*) FROM xregistry.flat_messages; DESCRIBE xregistry.flat_messages;")
    assert ["rows", "22"] in rows
    described = comments(rows, ("xid", "version_xid", "attributes"))
    assert described["xid"].startswith("XID"), described
    assert all(described.values()), described


def test_a_thrift_server_of_another_process_sees_them(thrift_server, warehouse):
    query = "SELECT count(*) AS n FROM xregistry.messages; DESCRIBE xregistry.messages"
    command = [HOME / "bin" / "beeline", "-u", thrift_server, "-n", "reader", "--silent=true", "--outputformat=tsv2", "-e", query]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | SPARK, cwd=warehouse)
    assert ran.returncode == 0, ran.stderr[-4000:]
    rows = [line.split("\t") for line in ran.stdout.splitlines()]
    assert ["22"] in rows
    described = comments(rows, DECLARATIONS["messages"].columns.names)
    assert all(described.values()), described


def test_commands_without_spark_read_the_folder_of_the_schema(warehouse):
    command = [LAKEHOUSE, "--warehouse", warehouse / "warehouse" / f"{SCHEMA}.db", "snapshots", "--json"]
    environment = os.environ | {"LAKEHOUSE_READMODEL_DIR": str(warehouse / "readmodel")}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert [snapshot["snapshot_id"] for snapshot in json.loads(ran.stdout)] == [1], ran.stderr
