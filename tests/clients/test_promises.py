"""The commands of docs/http.md, section "Clients", run as they are written there; and what it says that they cannot do."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from programs import DEMO, ROOT, lakehouse, serving

XRCG = Path(sys.executable).parent / "xrcg"
_THERE = "http://127.0.0.1:8080"
SECTION = (ROOT / "docs" / "http.md").read_text().split("\n## Clients\n")[1].split("\n## ")[0]
COMMANDS = re.findall(r"^\$ (xrcg .*)$", SECTION, re.MULTILINE)
GROUPS = ["shop.orders", "shop.orders.kafka", "warehouse.stock", "warehouse.stock.amqp", "web.events"]
PLAIN_MQTT = "sensors.coldstore"  # its messages are no CloudEvents
WITHOUT_SCHEMAS = ["shop.orders.kafka", "web.events"]  # no message of theirs names one


class Ran(NamedTuple):
    """How a command ended, the errors that it printed, and how many files it wrote."""

    code: int
    errors: list[str]
    files: list[str]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A server of the demo, as `lakehouse demo` loads it: its documents in one registry."""
    place = tmp_path_factory.mktemp("demo")
    lakehouse("--warehouse", place / "w", "ingest", DEMO, "--json")
    with serving(place / "w", place / "model") as served:
        yield served


def run(command: str, url: str, place: Path) -> Ran:
    """Run a command in an empty folder, at this server."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    arguments = shlex.split(command.replace(_THERE, url))
    assert arguments[0] == "xrcg"
    reported = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL, "timeout": 600}
    ran = subprocess.run([str(XRCG), *arguments[1:]], cwd=place, check=False, **reported)
    errors = [line for line in ran.stderr.splitlines() if re.search(r" - ERROR - |^[\w.]+(Error|Exception)\b", line)]
    return Ran(ran.returncode, errors, sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file()))


def kafkaproducer(definitions: str, *more: str) -> str:
    named = "--projectname Shop --language py --style kafkaproducer --output shop"
    return " ".join(["xrcg generate", named, *more, f"--definitions '{definitions}'"])


def test_the_documentation_has_the_commands():
    assert len(COMMANDS) == 2
    assert kafkaproducer(f"{_THERE}/?inline=*", "--messagegroup shop.orders") in COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_documentation_does_what_it_says(command, url, tmp_path):
    ran = run(command, url, tmp_path / "out")
    assert (ran.code, ran.errors) == (0, [])
    wanted = ".py" if "--language py" in command else ".yml"
    assert any(name.endswith((wanted, ".yaml", ".json")) for name in ran.files), ran.files
    assert "--language py" not in command or sum(name.endswith(".py") for name in ran.files) > 3


@pytest.mark.parametrize("group", GROUPS)
def test_code_is_generated_for_each_group_of_cloudevents(group, url, tmp_path):
    ran = run(kafkaproducer(f"{url}/?inline=*", f"--messagegroup {group}"), url, tmp_path / "out")
    assert (ran.code, ran.errors) == (0, [])
    assert sum(name.endswith(".py") for name in ran.files) > 3


@pytest.mark.parametrize("group", [PLAIN_MQTT, ""])
def test_the_tool_ends_with_an_error_and_exit_code_0_where_a_message_is_no_cloudevent(group, url, tmp_path):
    ran = run(kafkaproducer(f"{url}/?inline=*", f"--messagegroup {group}" if group else ""), url, tmp_path / "out")
    assert ran.code == 0
    assert any("envelopemetadata" in line for line in ran.errors)
    assert len(ran.files) == 1


@pytest.mark.parametrize("group", [*GROUPS, PLAIN_MQTT])
def test_from_the_url_of_a_group_the_tool_finds_no_schemas(group, url, tmp_path):
    ran = run(kafkaproducer(f"{url}/messagegroups/{group}"), url, tmp_path / "out")
    if group in WITHOUT_SCHEMAS:
        assert (ran.code, ran.errors) == (0, [])
    else:
        assert ran.code == 1
        assert any("Schema version not found" in line for line in ran.errors)
        assert f"`{group}`" in SECTION
