"""How `--help` looks: what a command does, its options as people look for them, the global options last, an example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

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
    """A group of commands with such a help."""

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


def group(*examples: str) -> Callable[[Callable[..., Any]], HelpedGroup]:
    """Make a function a group of commands; examples as for `command`."""

    def made(function: Callable[..., Any]) -> HelpedGroup:
        return _with_help(click.group(cls=HelpedGroup)(function), examples, None)

    return made


def _with_help(made: T, examples: tuple[str, ...], sections: dict[str, tuple[str, ...]] | None) -> T:
    made.sections = sections or {}
    made.epilog = "\b\nExample" + "s" * (len(examples) > 1) + ":\n" + "\n".join(f"  {one}" for one in examples)
    return made
