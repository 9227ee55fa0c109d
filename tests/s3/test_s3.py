"""Documents, warehouse and exports on S3: commands as a user runs them, against moto's server on the loopback address."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import boto3
import pytest
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

ROOT = Path(__file__).parents[2]
LAKEHOUSE = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin")) / "lakehouse"
BUCKET = "catalog"
XID = "/messagegroups/shop.orders/messages/shop.orders.OrderPlaced"
KEYS = {"aws_access_key_id": "somebody", "aws_secret_access_key": "secret", "region_name": "us-east-1"}

INGESTS = int(os.environ.get("S3_INGESTS", "3"))  # of each of two processes, and requests to a server meanwhile

Lakehouse = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    guard, put = threading.Lock(), S3Response.put_object

    def at_once(response: S3Response) -> Any:
        with guard:  # moto looks whether the object is there, and puts it, in two steps
            return put(response)

    S3Response.put_object = at_once
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
    S3Response.put_object = put


@pytest.fixture(scope="module")
def bucket(endpoint: str) -> Any:
    """The bucket, with the demo documents in it."""
    made = boto3.resource("s3", endpoint_url=endpoint, **KEYS).create_bucket(Bucket=BUCKET)
    for path in sorted((ROOT / "lakehouse" / "cli" / "demo").glob("*.json")):
        made.upload_file(str(path), f"documents/{path.name}")
    return made


@pytest.fixture(scope="module")
def environment(endpoint: str, bucket: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings that docs/operations.md reports, as variables."""
    s3a = {
        "endpoint": endpoint,
        "endpoint.region": KEYS["region_name"],
        "path.style.access": "true",
        "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "access.key": KEYS["aws_access_key_id"],
        "secret.key": KEYS["aws_secret_access_key"],
    }
    spark = {"spark.jars.packages": "org.apache.hadoop:hadoop-aws:3.5.0"} | {
        f"spark.hadoop.fs.s3a.{k}": v for k, v in s3a.items()
    }
    readmodels = str(tmp_path_factory.mktemp("readmodels"))
    return os.environ | {"LAKEHOUSE_SPARK": json.dumps(spark), "LAKEHOUSE_READMODEL_DIR": readmodels}


@pytest.fixture(scope="module")
def lakehouse(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """Run a command on the warehouse in the bucket."""
    empty = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: str, warehouse: str = "warehouse", **more: str) -> subprocess.CompletedProcess[str]:
        command = [LAKEHOUSE, "--warehouse", f"s3a://{BUCKET}/{warehouse}", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment | more, cwd=empty)

    return run


def reported(ran: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    """Return the JSON that a command printed."""
    assert ran.returncode == code, ran.stderr[-3000:]
    return json.loads(ran.stdout)


def keys(bucket: Any, prefix: str) -> list[str]:
    """List objects, without those that stand for a folder."""
    return [one.key for one in bucket.objects.filter(Prefix=prefix) if not one.key.endswith("/")]


def test_a_store_that_ignores_the_condition_takes_a_single_writer_only(lakehouse, bucket, monkeypatch):
    put = S3Response.put_object

    def older(response: S3Response) -> Any:
        response.headers.environ.pop("HTTP_IF_NONE_MATCH", None)  # of werkzeug's headers, which are a view of it
        return put(response)

    monkeypatch.setattr(S3Response, "put_object", older)
    refused = lakehouse("ingest", f"s3a://{BUCKET}/documents")
    assert refused.returncode == 2
    assert "the store ignores If-None-Match" in refused.stderr
    assert "single_writer" in refused.stderr
    assert keys(bucket, "warehouse/") == []
    loaded = lakehouse("ingest", f"s3a://{BUCKET}/documents", "--json", warehouse="alone", LAKEHOUSE_SINGLE_WRITER="true")
    assert reported(loaded, 3)["snapshot_id"] == 1


def test_documents_are_loaded_once_and_queried(lakehouse, bucket):
    loaded = reported(lakehouse("ingest", f"s3a://{BUCKET}/documents", "--json"), 3)
    assert (loaded["snapshot_id"], loaded["documents"]["read"], loaded["entities"]["messages"]["inserted"]) == (1, 4, 22)
    again = reported(lakehouse("ingest", f"s3a://{BUCKET}/documents", "--json"), 3)
    assert again["snapshot_id"] is None
    query = "SELECT (SELECT count(*) FROM messages) AS rows, (SELECT count(*) FROM effective_messages) AS flat"
    assert reported(lakehouse("sql", query, "--json")) == [{"rows": 22, "flat": 22}]
    assert any(key.startswith("warehouse/changes/_delta_log/") for key in keys(bucket, "warehouse/"))
    assert keys(bucket, "warehouse/_stage/") == []


def test_a_changed_document_becomes_a_snapshot_and_the_past_stays(lakehouse, bucket):
    document = json.loads(bucket.Object("documents/orders.xreg.json").get()["Body"].read())
    document["messagegroups"]["shop.orders"]["messages"]["shop.orders.OrderPlaced"]["description"] = "changed"
    bucket.put_object(Key="documents/orders.xreg.json", Body=json.dumps(document).encode())
    assert reported(lakehouse("ingest", f"s3a://{BUCKET}/documents", "--json"), 3)["snapshot_id"] == 2
    query = f"SELECT description FROM flat_messages WHERE xid = '{XID}'"
    now, then = (reported(lakehouse("sql", query, "--at", at, "--json"))[0]["description"] for at in ("head", "1"))
    assert now == "changed"
    assert then != "changed"


def test_quick_commands_read_the_store_without_spark(lakehouse, bucket):
    now, then = (reported(lakehouse("show", XID, "--at", at, "--json"))[0] for at in ("head", "1"))
    descriptions = [
        next(one["value"] for one in shown["attributes"] if one["pointer"] == "/description") for shown in (now, then)
    ]
    assert descriptions[0] == '"changed"' != descriptions[1]
    assert [one["snapshot_id"] for one in reported(lakehouse("snapshots", "--json"))] == [1, 2]


def test_an_export_is_written_to_the_store(lakehouse, bucket):
    written = lakehouse("export", "--out", f"s3a://{BUCKET}/export/catalog.json")
    assert written.returncode == 0, written.stderr[-3000:]
    assert keys(bucket, "export/") == ["export/catalog.json"]
    exported = json.loads(bucket.Object("export/catalog.json").get()["Body"].read())
    assert exported["messagegroups"]["shop.orders"]["messages"]["shop.orders.OrderPlaced"]["description"] == "changed"


def test_the_warehouse_is_sound(lakehouse):
    found = reported(lakehouse("doctor", "--json"))
    assert {one["state"] for one in found} == {"ok"}, [one for one in found if one["state"] != "ok"]


WRITER = """
import json, sys
from pathlib import Path
from lakehouse import Catalog

warehouse, name, count, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
catalog = Catalog(warehouse, commit_attempts=50)
for number in range(count):
    group = f"{name}.{number}"
    document = folder / f"{group}.json"
    document.write_text(json.dumps({"messagegroups": {group: {"messages": {"m": {"description": name}}}}}))
    print(catalog.ingest(str(document)).snapshot_id, flush=True)
"""


def put(url: str, number: int) -> int:
    """Write a message by the server's API, again where it says that it cannot write now, and return the status."""
    for _ in range(60):
        if (status := put_once(f"{url}/messagegroups/server.{number}/messages/m")) != 503:
            return status
        time.sleep(1)
    return 503


def put_once(url: str) -> int:
    request = Request(url, b'{"description": "server"}', {"Content-Type": "application/json"}, method="PUT")
    try:
        with urlopen(request, timeout=300) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def test_several_processes_write_and_nothing_is_lost_or_doubled(lakehouse, environment, tmp_path):
    """Two processes that ingest, each in a Spark session, and a server that takes writes meanwhile."""
    warehouse = f"s3a://{BUCKET}/several"
    writer = tmp_path / "writer.py"
    writer.write_text(WRITER)
    python = LAKEHOUSE.parent / "python"

    def start(name: str) -> subprocess.Popen[str]:
        command = [python, writer, warehouse, name, str(INGESTS), tmp_path]
        with (tmp_path / f"{name}.errors").open("w") as errors:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=tmp_path)

    first = start("zero")
    assert int(first.stdout.readline()) == 1, (tmp_path / "zero.errors").read_text()[-3000:]
    command = [LAKEHOUSE, "--warehouse", warehouse, "serve", "--port", "0", "--writable", "--json"]
    second = start("one")
    with (tmp_path / "server.errors").open("w") as errors:
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=tmp_path)
    try:
        url = json.loads(server.stdout.readline())["url"].rstrip("/")
        statuses = [put(url, number) for number in range(INGESTS)]
        snapshots = [int(line) for one in (first, second) for line in one.communicate(timeout=1800)[0].split()]
    finally:
        for process in (server, first, second):
            process.terminate()
            process.wait(60)
    for name in ("zero", "one", "server"):
        assert "Traceback" not in (tmp_path / f"{name}.errors").read_text(), name
    assert statuses == [201] * INGESTS
    assert len({1, *snapshots}) == 2 * INGESTS
    query = "SELECT substring_index(group_xid, '/', -1) AS groupid, count(*) AS n FROM messages GROUP BY group_xid"
    groups = reported(lakehouse("sql", query, "--json", warehouse="several"))
    assert {one["groupid"]: one["n"] for one in groups} == {
        f"{w}.{n}": 1 for w in ("zero", "one", "server") for n in range(INGESTS)
    }
    held = [one["snapshot_id"] for one in reported(lakehouse("snapshots", "--json", warehouse="several"))]
    assert held == list(range(1, 3 * INGESTS + 1))
    found = reported(lakehouse("doctor", "--json", warehouse="several"))
    assert {one["state"] for one in found} == {"ok"}, [one for one in found if one["state"] != "ok"]
