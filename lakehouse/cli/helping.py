"""How `--help` looks: what a command does, its options, the global options last, an example; and shell completion."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import click

from lakehouse.errors import LakehouseError

T = TypeVar("T", bound="Helped")

GLOBALS = ("warehouse", "registry", "conf", "as_json", "quiet", "log_json", "metrics")
_OWN, _GLOBAL = "Options", "Global options"


class Helped(click.Command):
    """A command whose help groups its options and ends with examples.

    Attributes:
        sections: title of each block of options → names of its parameters; those that no block names come first.
    """

    sections: dict[str, tuple[str, ...]]

    def get_help_option_names(self, ctx: click.Context) -> list[str]:
        """Return the options that print the help, the same in every context: click keeps those of the first one."""
        return ["-h", "--help"]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options in blocks, the global ones last."""
        title_of = {name: title for title, names in self.sections.items() for name in names}
        title_of |= dict.fromkeys(GLOBALS, _GLOBAL)
        blocks: dict[str, list[tuple[str, str]]] = {title: [] for title in (_OWN, *self.sections, _GLOBAL)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                is_of_click = {"--help", "--version"} & set(parameter.opts)
                blocks[_GLOBAL if is_of_click else title_of.get(parameter.name or "", _OWN)].append(record)
        for title, records in blocks.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class HelpedGroup(Helped, click.Group):
    """A group of commands with such a help.

    Attributes:
        places: name of a command → `module:attribute`; it is imported when it is called, or when the help lists it.
    """

    places: dict[str, str]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands, sorted."""
        return sorted({*self.commands, *self.places})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; None: there is none of this name."""
        if cmd_name not in self.places:
            return self.commands.get(cmd_name)
        module, _, attribute = self.places[cmd_name].partition(":")
        result: click.Command = getattr(import_module(module), attribute)
        return result

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        Helped.format_options(self, ctx, formatter)


def command(
    *examples: str, name: str | None = None, sections: dict[str, tuple[str, ...]] | None = None
) -> Callable[[Callable[..., Any]], Helped]:
    """Make a function a command.

    Args:
        examples: calls that are shown at the end of its help.
        name: of the command; None: that of the function.
        sections: blocks of its options.
    """

    def made(function: Callable[..., Any]) -> Helped:
        return _with_help(click.command(name, cls=Helped)(function), examples, sections)

    return made


def group(*examples: str, places: dict[str, str] | None = None) -> Callable[[Callable[..., Any]], HelpedGroup]:
    """Make a function a group of commands.

    Args:
        examples: as for `command`.
        places: of commands that are imported when they are called.
    """

    def made(function: Callable[..., Any]) -> HelpedGroup:
        result = _with_help(click.group(cls=HelpedGroup)(function), examples, None)
        result.places = places or {}
        return result

    return made


def _with_help(made: T, examples: tuple[str, ...], sections: dict[str, tuple[str, ...]] | None) -> T:
    made.sections = sections or {}
    made.epilog = "\b\nExample" + "s" * (len(examples) > 1) + ":\n" + "\n".join(f"  {example}" for example in examples)
    return made


KINDS = ("message", "group", "endpoint", "schema", "document")
_MOST = 200


def complete_xid(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return XIDs and ids that begin as what was typed."""
    column = "xid" if incomplete.startswith("/") else "entityid"
    query = f"SELECT DISTINCT {column} FROM searched WHERE {column} >= ? AND {column} < ? ORDER BY 1 LIMIT {_MOST}"  # noqa: S608
    return [row[0] for row in _rows(context, query, (incomplete, incomplete + "\U0010ffff"))]


def complete_snapshot(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return labels that begin as what was typed, and `head`."""
    results = _rows(context, "SELECT DISTINCT xid FROM log WHERE kind = 'label' ORDER BY 1", ())
    return [name for name in ("head", *(row[0] for row in results)) if name.startswith(incomplete)]


def complete_rule(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of rules that begin as what was typed."""
    from lakehouse.rules.declared import FINDING_RULES

    return [rule for rule in FINDING_RULES if rule.startswith(incomplete.upper())]


def _rows(context: click.Context, query: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Query the file of the warehouse that the command line or the environment names; nothing without one."""
    from lakehouse.readmodel.file.place import ModelFiles, location_of
    from lakehouse.readmodel.file.sqliteschema import connect
    from lakehouse.settings import read_settings

    options: dict[str, Any] = {}
    above: click.Context | None = context
    while above is not None:
        options = {name: value for name, value in above.params.items() if value is not None} | options
        above = above.parent
    try:
        settings = read_settings(options.get("conf"), warehouse=options.get("warehouse"))
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
