"""The command in other environments than the checkout's: without Spark, in several versions of Python, with the oldest libraries.

ENVIRONMENTS names their folders. The warehouse that they read is written by this environment, without Spark either.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest
from serve.served import Shops, shop

GROUP = "/messagegroups/orders"
PLACED = "/messagegroups/orders/messages/placed"
EVENT = {
    "headers": {
        "ce_specversion": "1.0",
        "ce_id": "1",
        "ce_source": "/shop",
        "ce_type": "none",
    },
    "topic": "orders",
    "value": {},
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    written = Shops(tmp_path_factory.mktemp("shops") / "warehouse")
    written.load({"default": shop("one")}, label="first")
    written.load({"default": shop("two")})
    return str(tmp_path_factory.getbasetemp() / "shops0" / "warehouse")


@pytest.fixture(scope="module", params=os.environ["ENVIRONMENTS"].split())
def call(request, warehouse, tmp_path_factory):
    """Run the command of an environment; its read model is its own."""
    environment = os.environ | {
        "LAKEHOUSE_WAREHOUSE": warehouse,
        "LAKEHOUSE_READMODEL_DIR": str(tmp_path_factory.mktemp("readmodel")),
    }
    command = Path(request.param, "bin", "lakehouse").absolute()

    def run(*arguments, process=subprocess.run, **options):
        return process([command, *arguments], env=environment, text=True, cwd=warehouse, **options)

    return run


def printed(call, *arguments):
    """Run a command that must succeed; return what it printed."""
    ran = call(*arguments, capture_output=True)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_help(call):
    assert "Load xRegistry documents into Delta Lake" in printed(call, "--help")


def test_show_search_and_the_past(call):
    assert GROUP in printed(call, "show", GROUP, "--json")
    hits = [json.loads(line) for line in printed(call, "search", "placed", "--json").splitlines()]
    assert PLACED in json.dumps(hits)
    assert len(json.loads(printed(call, "snapshots", "--json"))) == 2
    assert json.loads(printed(call, "diff", "1", "2", "--json"))


def test_match_one(call):
    ran = call("match", "--one", "-", "--json", input=json.dumps(EVENT), capture_output=True)
    (result,) = json.loads(ran.stdout)
    assert result["status"] == "unmatched"


def test_site(call, tmp_path):
    printed(call, "site", "--out", str(tmp_path / "site"))
    assert (tmp_path / "site" / "index.html").exists()


def test_serve(call):
    server = call("serve", "--port", "0", "--json", process=subprocess.Popen, stdout=subprocess.PIPE)
    try:
        url = json.loads(server.stdout.readline())["url"]
        with urlopen(f"{url.rstrip('/')}{PLACED}$details") as answer:
            assert json.load(answer)["xid"] == PLACED
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()


def test_what_needs_spark_names_its_extra(call):
    ran = call("sql", "SELECT 1", capture_output=True)
    assert (ran.returncode, ran.stderr) == (2, "error: pyspark is not installed: pip install 'xregistry-lakehouse[spark]'.\n")
