"""Shell completion: the command that prints its script, and the XIDs, labels and rules that it proposes.

The proposals come from the read model as it is: nothing is brought up to date for them.
"""

from __future__ import annotations

import sqlite3
from typing import Any

import click

from lakehouse.cli.helping import command
from lakehouse.errors import LakehouseError

KINDS = ("message", "group", "endpoint", "schema", "document")
_MOST = 200


def complete_xid(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return XIDs and ids that begin as what was typed."""
    column = "xid" if incomplete.startswith("/") else "entityid"
    query = f"SELECT DISTINCT {column} FROM searched WHERE {column} >= ? AND {column} < ? ORDER BY 1 LIMIT {_MOST}"  # noqa: S608
    return [row[0] for row in _rows(context, query, (incomplete, incomplete + "\U0010ffff"))]


def complete_snapshot(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return labels that begin as what was typed, and `head`."""
    found = _rows(context, "SELECT DISTINCT xid FROM log WHERE kind = 'label' ORDER BY 1", ())
    return [name for name in ("head", *(row[0] for row in found)) if name.startswith(incomplete)]


def complete_rule(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of rules that begin as what was typed."""
    from lakehouse.rules.declared import TOLD

    return [rule for rule in TOLD if rule.startswith(incomplete.upper())]


def _rows(context: click.Context, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Query the file of the warehouse that the command line or the environment names; nothing without one."""
    from lakehouse.readmodel.file.place import ModelFiles, location_of
    from lakehouse.readmodel.file.sqliteschema import connect
    from lakehouse.settings import read_settings

    given: dict[str, Any] = {}
    above: click.Context | None = context
    while above is not None:
        given = {name: value for name, value in above.params.items() if value is not None} | given
        above = above.parent
    try:
        settings = read_settings(given.get("conf"), warehouse=given.get("warehouse"))
        file = ModelFiles(location_of(settings.warehouse), settings.readmodel_dir).current()
        if file is None:
            return []
        db = connect(file)
        try:
            return db.execute(query, values).fetchall()
        finally:
            db.close()
    except (LakehouseError, sqlite3.Error):  # a shell that completes has no place for errors
        return []


@command('eval "$(lakehouse completion bash)"', "lakehouse completion fish > ~/.config/fish/completions/lakehouse.fish")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> int:
    """Print the script for completion in a shell.

    It completes commands, options, XIDs, labels and rules. Add the line of the first example to ~/.bashrc or ~/.zshrc.
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    if made is None:
        raise click.UsageError(f"{shell} is not a shell that completion is known for.")
    click.echo(made(context.find_root().command, {}, "lakehouse", "_LAKEHOUSE_COMPLETE").source())
    return 0
