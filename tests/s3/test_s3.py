"""Documents, warehouse and exports on S3: commands as a user runs them, against moto's server on the loopback address."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

ROOT = Path(__file__).parents[2]
LAKEHOUSE = Path(os.environ.get("LAKEHOUSE_BIN", ROOT / ".venv" / "bin")) / "lakehouse"
BUCKET = "catalog"
KEYS = {"aws_access_key_id": "somebody", "aws_secret_access_key": "secret", "region_name": "us-east-1"}

Lakehouse = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(scope="module")
def bucket(endpoint: str) -> Any:
    """The bucket, with the demo documents in it."""
    made = boto3.resource("s3", endpoint_url=endpoint, **KEYS).create_bucket(Bucket=BUCKET)
    for path in sorted((ROOT / "lakehouse" / "cli" / "demo").glob("*.json")):
        made.upload_file(str(path), f"documents/{path.name}")
    return made


@pytest.fixture(scope="module")
def lakehouse(endpoint: str, bucket: Any, tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    """Run a command on the warehouse in the bucket, with the settings that docs/operations.md tells."""
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
    empty = tmp_path_factory.mktemp("elsewhere")

    def run(*arguments: str, single_writer: bool = True) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"LAKEHOUSE_SPARK": json.dumps(spark), "LAKEHOUSE_SINGLE_WRITER": str(single_writer)}
        environment |= {"LAKEHOUSE_READMODEL_DIR": str(empty / "readmodel")}
        command = [LAKEHOUSE, "--warehouse", f"s3a://{BUCKET}/warehouse", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=empty)

    return run


def told(ran: subprocess.CompletedProcess[str], code: int = 0) -> Any:
    """Give the JSON that a command printed."""
    assert ran.returncode == code, ran.stderr[-3000:]
    return json.loads(ran.stdout)


def keys(bucket: Any, prefix: str) -> list[str]:
    """List objects, without those that stand for a folder."""
    return [one.key for one in bucket.objects.filter(Prefix=prefix) if not one.key.endswith("/")]


def test_a_writer_is_refused_until_it_is_said_to_be_the_only_one(lakehouse, bucket):
    refused = lakehouse("ingest", f"s3a://{BUCKET}/documents", single_writer=False)
    assert refused.returncode == 2
    assert "single_writer" in refused.stderr
    assert keys(bucket, "warehouse/") == []


def test_documents_are_loaded_once_and_queried(lakehouse, bucket):
    loaded = told(lakehouse("ingest", f"s3a://{BUCKET}/documents", "--json"), 3)
    assert (loaded["snapshot_id"], loaded["documents"]["read"], loaded["entities"]["messages"]["inserted"]) == (1, 4, 22)
    again = told(lakehouse("ingest", f"s3a://{BUCKET}/documents", "--json"), 3)
    assert again["snapshot_id"] is None
    query = "SELECT (SELECT count(*) FROM messages) AS rows, (SELECT count(*) FROM effective_messages) AS flat"
    assert told(lakehouse("sql", query, "--json")) == [{"rows": 22, "flat": 22}]
    assert any(key.startswith("warehouse/changes/_delta_log/") for key in keys(bucket, "warehouse/"))
    assert keys(bucket, "warehouse/_stage/") == []


def test_a_changed_document_becomes_a_snapshot_and_the_past_stays(lakehouse, bucket):
    document = json.loads(bucket.Object("documents/orders.xreg.json").get()["Body"].read())
    document["messagegroups"]["shop.orders"]["messages"]["shop.orders.OrderPlaced"]["description"] = "changed"
    bucket.put_object(Key="documents/orders.xreg.json", Body=json.dumps(document).encode())
    assert told(lakehouse("ingest", f"s3a://{BUCKET}/documents", "--json"), 3)["snapshot_id"] == 2
    query = "SELECT description FROM flat_messages WHERE xid = '/messagegroups/shop.orders/messages/shop.orders.OrderPlaced'"
    now, then = (told(lakehouse("sql", query, "--at", at, "--json"))[0]["description"] for at in ("head", "1"))
    assert now == "changed"
    assert then != "changed"


def test_quick_commands_read_the_store_without_spark(lakehouse, bucket):
    now, then = (told(lakehouse("show", "shop.orders.OrderPlaced", "--at", at, "--json"))[0] for at in ("head", "1"))
    descriptions = [
        next(one["value"] for one in shown["attributes"] if one["pointer"] == "/description") for shown in (now, then)
    ]
    assert descriptions[0] == '"changed"' != descriptions[1]
    assert [one["snapshot_id"] for one in told(lakehouse("snapshots", "--json"))] == [1, 2]


def test_an_export_is_written_to_the_store(lakehouse, bucket):
    written = lakehouse("export", "--out", f"s3a://{BUCKET}/export/catalog.json")
    assert written.returncode == 0, written.stderr[-3000:]
    assert keys(bucket, "export/") == ["export/catalog.json"]
    exported = json.loads(bucket.Object("export/catalog.json").get()["Body"].read())
    assert exported["messagegroups"]["shop.orders"]["messages"]["shop.orders.OrderPlaced"]["description"] == "changed"


def test_the_warehouse_is_sound(lakehouse):
    found = told(lakehouse("doctor", "--json"))
    assert {one["state"] for one in found} == {"ok"}, [one for one in found if one["state"] != "ok"]
