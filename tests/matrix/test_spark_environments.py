"""Documents are loaded, queried, checked, matched and exported by Spark in other versions of Python.

SPARK_ENVIRONMENTS names the folders of environments with all extras.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

PLACED = "/messagegroups/orders/messages/placed"
MESSAGES = {
    "order": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "order"}}},
    "placed": {
        "basemessage": "/messagegroups/orders/messages/order",
        "protocol": "KAFKA",
        "protocoloptions": {"topic": "orders"},
    },
}
DOCUMENT = {"specversion": "1.0-rc2", "messagegroups": {"orders": {"messages": MESSAGES}}}


@pytest.fixture(scope="module", params=os.environ["SPARK_ENVIRONMENTS"].split())
def call(request, tmp_path_factory):
    """Run the command of an environment, which loads a document first; return what it prints."""
    folder = tmp_path_factory.mktemp("spark")
    binaries = Path(request.param, "bin").absolute()
    environment = os.environ | {"PATH": f"{binaries}:{os.environ['PATH']}"}

    def run(*arguments, code=0):
        command = [binaries / "lakehouse", *arguments]
        ran = subprocess.run(command, check=False, env=environment, text=True, cwd=folder, capture_output=True)
        assert ran.returncode == code, ran.stderr
        # Nor do Spark's workers warn, which write to the same stream; old libraries may.
        assert not re.search(r"/(lakehouse|pyspark)/\S+: \w*Warning", ran.stderr), ran.stderr
        return ran.stdout

    Path(folder, "shop.json").write_text(json.dumps(DOCUMENT), encoding="utf-8")
    summary = json.loads(run("ingest", "shop.json", "--json"))
    assert summary["snapshot_id"] == 1
    return run


def test_tables_and_views(call):
    rows = json.loads(call("sql", "SELECT xid, chain_status FROM flat_messages", "--json"))
    assert {"xid": PLACED, "chain_status": "resolved"} in rows


def test_an_unchanged_document_is_not_read_again(call):
    summary = json.loads(call("ingest", "shop.json", "--json"))
    assert summary["documents"]["unchanged"] == 1


def test_rules_and_suites(call):
    suites = json.loads(call("validate", "--json"))["suites"]
    assert suites["specification"]["failed"]["error"] == suites["messages"]["failed"]["error"] == 0


def test_events(call, tmp_path):
    event = {
        "headers": {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/shop", "ce_type": "order"},
        "topic": "orders",
        "value": {},
    }
    Path(tmp_path, "events.jsonl").write_text(json.dumps(event) + "\n", encoding="utf-8")
    assert json.loads(call("match", str(tmp_path / "events.jsonl"), "--json"))["matched"] == 1


def test_export(call):
    exported = json.loads(call("export"))
    assert exported["messagegroups"]["orders"]["messages"]["placed"]["messageid"] == "placed"
