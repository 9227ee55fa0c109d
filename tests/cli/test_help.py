"""`--help` of every command: one short line that says what it does, its options in blocks, an example that works."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from called import all_commands
from click.testing import CliRunner

from lakehouse.cli.helping import GLOBALS, Helped
from lakehouse.cli.main import cli

FORBIDDEN = re.compile(
    r"\b(tells?|told|mend\w*|anew|beside|asked of|lets go|stands?|comes? out of|of its own|what is there|what there is|on and on"
    r"|house|face)\b",
    re.IGNORECASE,
)


ALL = dict(all_commands())


@pytest.mark.parametrize("path", ALL, ids=lambda path: " ".join(path) or "lakehouse")
def test_help_is_short_plain_and_has_an_example(path):
    command = ALL[path]
    shown = CliRunner().invoke(cli, [*path, "--help"], prog_name="lakehouse", terminal_width=80)
    assert shown.exit_code == 0
    lines = shown.output.splitlines()
    first = (command.help or "").strip().splitlines()[0]
    assert len(first) <= 60, first
    assert first.endswith(".")
    assert [line for line in lines if FORBIDDEN.search(line)] == []
    assert isinstance(command, Helped)
    titles = [line for line in lines if re.match(r"[A-Z][\w ]+:$", line)]
    assert titles[-1] == "Global options:"
    assert "Example" in (command.epilog or "")


@pytest.mark.parametrize("path", [path for path in ALL if path], ids=" ".join)
def test_options_of_examples_and_blocks_exist(path):
    command = ALL[path]
    assert isinstance(command, Helped)
    options = {option for one in command.params for option in one.opts}
    for line in (command.epilog or "").splitlines()[2:]:
        words = shlex.split(line.replace('eval "$(', "").replace(')"', ""))
        assert words[0] == "lakehouse"

        if not isinstance(command, click.Group):
            assert words[1 : 1 + len(path)] == list(path)
            assert {word for word in words if word.startswith("--")} <= options, line
    named = [name for names in command.sections.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= {one.name for one in command.params} - set(GLOBALS)


def test_the_manifest_of_the_server_names_options_that_exist():
    options = {option for one in ALL["serve",].params for option in one.opts}
    manifest = Path(__file__).parents[2] / "conf" / "kubernetes" / "serve.yaml"
    named = {word for line in manifest.read_text(encoding="utf-8").splitlines() if "kubectl" not in line
             for word in re.findall(r"--[a-z][a-z-]+", line)}  # fmt: skip
    assert named <= options


def test_completion_prints_the_script_of_each_shell():
    for shell in ("bash", "zsh", "fish"):
        ran = CliRunner().invoke(cli, ["completion", shell])
        assert (ran.exit_code, "_LAKEHOUSE_COMPLETE" in ran.output) == (0, True), ran.output
