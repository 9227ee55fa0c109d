"""The command in this process: its commands, what it prints and its exit code, as `main` gives them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from lakehouse.cli.main import cli, main

Caller = Callable[..., "Called"]


def all_commands(command: click.Command = cli, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and those below it, sorted, each with its path."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from all_commands(below, *path, name)


class Called(NamedTuple):
    """What a call gave."""

    code: int
    out: str
    err: str


def caller(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Caller:
    """Return a function that runs the command on the warehouse of a folder, and keeps its read model in that folder, too."""

    def call(place: Path, *arguments: str) -> Called:
        capsys.readouterr()
        given = {"LAKEHOUSE_WAREHOUSE": str(place / "warehouse"), "LAKEHOUSE_READMODEL_DIR": str(place / "model")}
        for name, value in given.items():
            monkeypatch.setitem(os.environ, name, value)
        monkeypatch.setattr(sys, "argv", ["lakehouse", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Called(int(ended.value.code or 0), printed.out, printed.err)

    return call
