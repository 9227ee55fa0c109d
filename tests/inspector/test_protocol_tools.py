"""The protocol's conformance tests and its inspector, of npm, against both transports: `make mcp-test`, which installs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from serve.served import ROOT, serving
from sitecatalogs import write_demo

HERE = Path(__file__).parent
MODULES = HERE / "node_modules"
# All others need tools, resources and prompts of the conformance tests' own server, or what is optional and not offered: logging,
# completion, subscriptions, sampling, elicitation.
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "resources-list",
    "prompts-list",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)
PAID = "/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPaid"
TOOLS = {"search", "show", "list", "compare", "match_event", "render_example", "explain_finding", "sql"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mcp")
    write_demo(folder / "warehouse")
    return folder


@pytest.fixture(scope="module")
def url(warehouse):
    with serving(warehouse / "warehouse", warehouse / "model", "--mcp") as served:
        yield f"{served.url}/mcp"


def run(program: str, *arguments: str) -> str:
    """Run a program of npm, with the Node.js of npm: both need 22."""
    environment = {"PATH": f"{MODULES / 'node' / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    command = [str(MODULES / ".bin" / program), *arguments]
    ran = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_server_conforms(url, scenario):
    assert "0 failed" in run("conformance", "server", "--url", url, "--scenario", scenario)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_inspector_reads_all(warehouse, url, transport):
    started = [sys.executable, "-m", "lakehouse", "mcp", "--warehouse", str(warehouse / "warehouse")]
    where = started if transport == "stdio" else [url, "--transport", "http"]

    def inspect(method: str, *arguments: str) -> Any:
        return json.loads(run("mcp-inspector", "--cli", *where, "--method", method, *arguments))

    assert {one["name"] for one in inspect("tools/list")["tools"]} == TOOLS
    assert len(inspect("resources/templates/list")["resourceTemplates"]) == 2
    assert {one["name"] for one in inspect("prompts/list")["prompts"]} == {"consume_message", "review_change"}
    shown = inspect("tools/call", "--tool-name", "show", "--tool-arg", f"xid={PAID}")
    assert json.loads(shown["content"][0]["text"])["xid"] == PAID
    for uri in (f"xregistry://default{PAID}", f"xregistry-at://1/default{PAID}"):
        assert json.loads(inspect("resources/read", "--uri", uri)["contents"][0]["text"])["xid"] == PAID
    prompt = inspect("prompts/get", "--prompt-name", "review_change", "--prompt-args", "before=1")
    assert "'1'" in prompt["messages"][0]["content"]["text"]
