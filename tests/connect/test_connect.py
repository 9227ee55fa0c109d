"""A catalog on a Spark Connect session: what reads gives what the command gives, and what writes is refused in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from connectserver import ConnectServer
from pyspark.sql import SparkSession

from lakehouse import Catalog
from lakehouse.errors import QueryError, SettingsError
from lakehouse.log.snapshots import read_snapshots, resolve_snapshot
from lakehouse.query.differences import diff_snapshots, read_differences
from lakehouse.render import RenderStyle
from lakehouse.store.internals.jvm import is_connect

os.environ["no_proxy"] = "127.0.0.1"  # which gRPC reads
ROOT = Path(__file__).parents[2]
PLACED = "/messagegroups/shop.orders/messages/shop.orders.OrderPlaced"


def lakehouse(folder: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    """Run the command on the warehouse, and return what it printed: the result, or the error."""
    command = [sys.executable, "-m", "lakehouse", "--warehouse", str(folder / "warehouse"), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment, cwd=folder)
    assert ran.returncode == code, ran.stderr
    return ran.stderr if code == 2 else ran.stdout


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A warehouse with two snapshots, of which the second changed a description, and what the command exports of it."""
    folder = tmp_path_factory.mktemp("connect")
    (folder / "documents").mkdir()
    for demo in (ROOT / "lakehouse" / "cli" / "demo").glob("*.json"):
        (folder / "documents" / demo.name).write_bytes(demo.read_bytes())
    lakehouse(folder, "ingest", "documents", "--exit-zero", "--quiet")
    orders = folder / "documents" / "orders.xreg.json"
    document = json.loads(orders.read_text())
    document["messagegroups"]["shop.orders"]["messages"]["shop.orders.OrderPlaced"]["description"] = "changed"
    orders.write_text(json.dumps(document))
    lakehouse(folder, "ingest", "documents", "--exit-zero", "--quiet")
    lakehouse(folder, "export", "--out", "classic.json", "--quiet")
    return folder


@pytest.fixture(scope="session")
def spark(folder) -> Any:
    with ConnectServer(folder) as server:
        session = SparkSession.builder.remote(server.url).getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="session")
def catalog(folder, spark) -> Any:
    with Catalog(str(folder / "warehouse"), spark=spark, readmodel_dir=str(folder / "readmodel")) as catalog:
        yield catalog


def described(frame: Any) -> list[Any]:
    return [row[0] for row in frame.filter(f"xid = '{PLACED}'").select("description").collect()]


def test_tables_views_and_past_snapshots_are_queried(catalog, spark):
    assert is_connect(spark)
    assert catalog.spark is spark
    messages = catalog.sql("SELECT * FROM messages")
    flat = catalog.sql("SELECT * FROM flat_messages")
    past = catalog.at(1).sql("SELECT * FROM flat_messages")
    assert [frame.count() for frame in (messages, flat, past)] == [22, 22, 22]
    assert described(flat) == ["changed"] != described(past)
    assert flat.join(messages, ["registryid", "xid"]).count() == 22  # one session
    assert {row["xid"] for row in catalog.sql("SELECT xid FROM snapshot_diff", diff=("1", "2")).collect()} == {PLACED}
    assert spark.catalog.currentDatabase() == "default"


def test_a_query_that_cannot_be_run_is_one_message(catalog):
    with pytest.raises(QueryError, match="UNRESOLVED_COLUMN") as raised:
        catalog.sql("SELECT nothing FROM messages")
    assert "\n" not in str(raised.value)


def test_the_quick_methods_need_no_session(catalog):
    (shown,) = catalog.show(PLACED)
    assert [one["value"] for one in shown.attributes if one["pointer"] == "/description"] == ['"changed"']
    assert [one.snapshot_id for one in catalog.snapshots()] == [1, 2]
    assert {one.xid for one in catalog.diff(1, 2)} == {PLACED}


def test_snapshots_and_differences_come_by_spark_where_only_the_server_reads(catalog, spark):
    assert [one.snapshot_id for one in read_snapshots(spark)] == [1, 2]
    assert resolve_snapshot(spark, "head") == 2
    by_spark = read_differences(diff_snapshots(spark, catalog.settings, 1, 2))
    assert by_spark == list(catalog.diff(1, 2))


def test_an_export_is_the_one_of_the_command(catalog, folder):
    exported = catalog.export(str(folder / "connect.json"))
    assert exported.members == {"messages": 22, "schemas": 8}
    assert (folder / "connect.json").read_bytes() == (folder / "classic.json").read_bytes()
    past = catalog.at(1).export(str(folder / "past" / ""), split=True, flat=True)
    assert past.files == len(list((folder / "past").rglob("*.json"))) > 1


def test_events_are_matched_on_the_server(catalog, spark):
    landed = spark.read.text(str(ROOT / "lakehouse" / "cli" / "demo" / "landed" / "orders.jsonl"))
    matched = catalog.match(landed).groupBy("status").count().collect()
    assert dict(map(tuple, matched)) == {"matched": 9, "unmatched": 3}


def test_messages_are_rendered_on_the_server(catalog, spark):
    values = spark.createDataFrame([("o-1", "eu"), ("o-2", "us")], "orderid string, region string")
    rows = catalog.render(values, PLACED, style=RenderStyle(example=True)).collect()
    assert [(row["xid"], row["error"]) for row in rows] == [(PLACED, None)] * 2
    assert ["o-1" in row["line"] for row in rows] == [True, False]


@pytest.mark.parametrize("method", ["ingest", "label", "validate", "doctor", "maintain", "backup", "propose", "pull"])
def test_what_writes_is_refused_in_one_line(catalog, method):
    arguments = {
        "ingest": ["documents"],
        "label": [1, "x"],
        "backup": ["b"],
        "propose": ["p", "e"],
        "pull": ["http://127.0.0.1:9"],
    }
    with pytest.raises(SettingsError, match=f"{method} needs a classic Spark session, and this one is Spark Connect") as raised:
        getattr(catalog, method)(*arguments.get(method, []))
    assert "\n" not in str(raised.value)


def test_commands_refuse_a_connect_server_in_one_line_and_quick_ones_do_without(folder):
    remote = {"SPARK_REMOTE": "sc://127.0.0.1:1"}
    refused = lakehouse(folder, "sql", "SELECT 1", "--quiet", code=2, **remote)
    assert refused.startswith("error: SPARK_REMOTE names a Spark Connect server, but this command starts Spark itself: unset it.")
    assert len(refused.splitlines()) == 1
    assert json.loads(lakehouse(folder, "show", PLACED, "--json", **remote))
