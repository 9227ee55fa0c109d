"""The command `lakehouse`: arguments → settings → session → one call of the library → output and exit code.

A command's module is imported when it is called, and Spark by the commands that need it, so that each starts at once.
Exit codes: 0 done; 3 something was refused or does not hold; 4 `diff --breaking` or `compat` found something; 2 wrong usage or
settings; 1 failure. A command returns its code: `ingest` asks `Summary.refused`, `validate` `Validation.has_findings`; an error
has one.
"""

from __future__ import annotations

import os
import sys

import click

from lakehouse.cli.console import Context, with_globals
from lakehouse.cli.helping import group
from lakehouse.cli.printing import log_stderr, prepare_streams
from lakehouse.errors import LakehouseError, NotInstalled, reason_of
from lakehouse.extras import not_installed
from lakehouse.version import VERSION

_COMMANDS = {
    "brokenrules": ("violations",),
    "compat": ("compat",),
    "helping": ("completion",),
    "history": ("blame", "changes", "diff", "label", "log", "snapshots"),
    "ingest": ("demo", "explain", "ingest", "rules", "validate"),
    "match": ("match", "propose"),
    "operators": ("backup", "ddl", "doctor", "maintain", "migrate", "prepare", "rebuild", "restore"),
    "query": ("export", "search", "serve_sql", "show", "sql", "sql_user"),
    "render": ("codegen", "render"),
    "replicate": ("replicate",),
    "serve": ("mcp", "serve", "site"),
}  # module below `lakehouse.cli` → its commands


@group(
    "lakehouse demo",
    "lakehouse ingest docs/",
    'lakehouse sql "SELECT xid, protocol FROM flat_messages"',
    places={name.replace("_", "-"): f"lakehouse.cli.{module}:{name}" for module, names in _COMMANDS.items() for name in names},
)
@with_globals
@click.version_option(VERSION, prog_name="lakehouse")
def cli() -> None:
    """Load xRegistry documents into Delta Lake and query them.

    `lakehouse COMMAND --help` explains a command. `lakehouse completion SHELL` prints the script for shell completion.
    """


def main(*command: str) -> None:
    """Run the command; print errors of this package in one message, without a stack trace.

    Args:
        command: words before the arguments of the process; the jobs name theirs.
    """
    prepare_streams()
    context = Context()
    code: int = 1
    failure: str | None = None
    try:
        code, failure = _run(context, [*command, *sys.argv[1:]])
    finally:
        context.end(code, failure)
    sys.exit(code)


def _run(context: Context, arguments: list[str]) -> tuple[int, str | None]:
    """Run the command; return its exit code, and the error that was printed (None: there was none)."""
    try:
        return cli.main(arguments, standalone_mode=False, obj=context) or 0, None
    except click.ClickException as error:
        error.show()
        return error.exit_code, error.format_message()
    except SystemExit:  # by click: nobody reads standard output any more, and nothing can be printed there
        return 1, "the output was closed before its end"
    except click.Abort:
        failure = "stopped"
        log_stderr(failure)
        return 1, failure
    except LakehouseError as error:
        log_stderr(f"error: {error}")
        return error.exit_code, str(error)
    except ModuleNotFoundError as error:
        failure = f"{not_installed(error)}."
        log_stderr(f"error: {failure}")
        return NotInstalled.exit_code, failure
    except Exception as error:
        if os.environ.get("LAKEHOUSE_DEBUG"):
            raise
        failure = f"{type(error).__name__}: {reason_of(error)}"
        log_stderr(f"error: {failure}\nUnexpected internal error. Set LAKEHOUSE_DEBUG=1 for a traceback, and please report it.")
        return 1, failure
