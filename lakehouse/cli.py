"""The command `lakehouse`: arguments → settings → session → one call of the library → output and exit code.

Spark is imported by the commands that need it, so that `--help` and wrong usage answer at once.
Exit codes: 0 done; 3 done, but something was refused; 2 wrong usage or settings; 1 failure.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import as_file, files
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import lakehouse
from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings, read_settings

REFUSED = 3
_GLOBALS = ("warehouse", "registry", "conf", "as_json", "quiet")


class Context:
    """What the global options said, wherever they stood."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}

    @property
    def settings(self) -> Settings:
        """Read the settings under the options."""
        return read_settings(self.options.get("conf"), **{key: self.options.get(key) for key in ("warehouse", "registry")})

    @property
    def as_json(self) -> bool:
        """Tell that standard output takes one JSON value and nothing else."""
        return bool(self.options.get("as_json"))

    @property
    def quiet(self) -> bool:
        """Tell that nothing but the result is wanted."""
        return bool(self.options.get("quiet"))


def _with_globals(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the global options, so that they may stand before or after its name."""

    @click.option("--warehouse", metavar="DIR", help="Folder or URI of the catalog (default ./warehouse).")
    @click.option("--registry", metavar="ID", help="Registry to load into or to look at.")
    @click.option("--conf", metavar="FILE", help="Settings file, see conf/lakehouse.toml.")
    @click.option(
        "--json", "as_json", is_flag=True, default=None, help="One JSON value on standard output, all else on standard error."
    )
    @click.option("--quiet", is_flag=True, default=None, help="No progress.")
    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        context = click.get_current_context().ensure_object(Context)
        given = {key: kwargs.pop(key) for key in _GLOBALS}
        context.options |= {key: value for key, value in given.items() if value is not None}
        return command(*args, **kwargs)

    return run


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@_with_globals
@click.version_option(lakehouse.__version__, prog_name="lakehouse")
def cli() -> None:
    """Load xRegistry documents into Delta tables, and query, audit and export them."""


@cli.command()
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--registry-from",
    type=click.Choice(["folder", "document"]),
    help="Name each document's registry after its folder, or its path, below SOURCE.",
)
@click.option("--prune", is_flag=True, help="Delete what its last document dropped.")
@click.option("--force", is_flag=True, help="Read unchanged documents again, take stale entities, prune more than half.")
@click.option("--strict", is_flag=True, help="Refuse a document whole when anything in it is refused.")
@click.option("--dry-run", is_flag=True, help="Tell what would change, and change nothing.")
@click.option("--label", metavar="NAME", help="Name the snapshot.")
@_with_globals
@click.pass_obj
def ingest(context: Context, /, sources: tuple[str, ...], registry_from: str | None, **flags: Any) -> int:
    """Load documents: files, folders (all *.json, *.cereg and .gz of them), globs, or URIs that Spark reads."""
    from lakehouse.expectations import warm_up
    from lakehouse.pipeline import Request
    from lakehouse.pipeline import ingest as run_ingest
    from lakehouse.plans import Policy
    from lakehouse.session import open_session

    settings = context.settings
    if flags["label"] is not None and not flags["label"].strip():
        raise click.UsageError("--label needs a name.")
    policy = Policy(flags["force"], flags["prune"], settings.on_conflict)
    request = Request(policy, flags["strict"], flags["dry_run"], flags["label"])
    with _progress(context) as watcher:
        with watcher.stage("session", "starting Spark"):
            warm_up()
            spark = open_session(settings)
        summary = run_ingest(spark, settings, list(sources), registry_from=registry_from, request=request, watcher=watcher)
    for path in summary.hidden:
        _told(f"warning: not read, since Spark lists no empty file and no name that starts with _ or . : {path}")
    if context.as_json:
        click.echo(json.dumps(summary.as_json()))
    else:
        show_summary(summary.as_json())
    return REFUSED if summary.refused else 0


@cli.command()
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Run this suite only; may be given more than once.")
@_with_globals
@click.pass_obj
def validate(context: Context, suites: tuple[str, ...]) -> int:
    """Run all rules and suites of expectations over the catalog, and write Data Docs."""
    from lakehouse.checks import check_catalog
    from lakehouse.expectations import warm_up
    from lakehouse.rules import RULES
    from lakehouse.session import open_session
    from lakehouse.validation import validate as run_validate

    settings = context.settings
    with _progress(context) as watcher:
        with watcher.stage("session", "starting Spark"):
            warm_up()
            spark = open_session(settings)
        validation = run_validate(spark, settings, check_catalog, RULES, suites=suites, watcher=watcher)
    if context.as_json:
        click.echo(json.dumps(validation.as_json()))
    else:
        show_validation(validation.as_json())
    return REFUSED if validation.has_findings else 0


@cli.command()
@click.argument("query")
@_with_globals
@click.pass_obj
def sql(context: Context, query: str) -> int:
    """Run a Spark SQL query on the catalog and print its rows."""
    from lakehouse.queries import run_query
    from lakehouse.session import open_session

    settings = context.settings
    with _progress(context) as watcher, watcher.stage("session", "starting Spark"):
        spark = open_session(settings)
    result = run_query(spark, settings, query)
    if context.as_json:
        click.echo("[" + ",\n ".join(result.json_rows()) + "]")
    else:
        show_table(result.columns, result.text_rows())
    return 0


@cli.command()
@click.argument("xid")
@_with_globals
@click.pass_obj
def show(context: Context, xid: str) -> int:
    """Show a message: its chain of bases, its attributes with their origin, its schema, the endpoints that carry it."""
    from lakehouse.session import open_session
    from lakehouse.show import show_message

    settings = context.settings
    with _progress(context) as watcher, watcher.stage("session", "starting Spark"):
        spark = open_session(settings)
    found = show_message(spark, settings, xid)
    if context.as_json:
        click.echo(json.dumps([shown.as_json() for shown in found], ensure_ascii=False))
    else:
        for shown in found:
            show_one_message(shown)
    return 0


@cli.command()
@_with_globals
@click.pass_obj
def rules(context: Context) -> int:
    """List the rules that documents and the catalog are checked by."""
    from lakehouse.rules import RULES

    if context.as_json:
        click.echo(json.dumps([rule._asdict() for rule in RULES.values()]))
    else:
        show_table(
            ["rule", "severity", "table", "text"], ([rule.id, rule.severity, rule.table, rule.text] for rule in RULES.values())
        )
    return 0


@cli.command()
@click.argument("rule_id", metavar="RULE")
@_with_globals
@click.pass_obj
def explain(context: Context, /, rule_id: str) -> int:
    """Tell what a rule asks, with an example that breaks it and its repair."""
    from lakehouse.rules import explain as explain_rule

    told = explain_rule(rule_id)
    if context.as_json:
        click.echo(json.dumps(told))
        return 0
    for name in ("id", "text", "how", "covered_by", "severity", "table", "section", "hint"):
        if told.get(name):
            click.echo(f"{name.replace('_', ' '):10} {told[name]}")
    for name in ("bad", "good"):
        if name in told:
            written = told[name] if isinstance(told[name], str) else json.dumps(told[name], indent=2, ensure_ascii=False)
            click.echo(f"\n{name} example ({told['at']}):\n{_printable(written)}")
    return 0


@cli.command()
@_with_globals
@click.pass_obj
def demo(context: Context) -> int:
    """Load an online shop's documents into ./demo-warehouse and look at what came out."""
    from lakehouse.demo import GLIMPSES, QUESTIONS
    from lakehouse.expectations import warm_up
    from lakehouse.pipeline import ingest as run_ingest
    from lakehouse.queries import run_query
    from lakehouse.session import open_session

    context.options.setdefault("warehouse", "demo-warehouse")
    settings = context.settings
    with as_file(files("lakehouse").joinpath("demo")) as folder:
        click.echo(f"$ lakehouse --warehouse {settings.warehouse} ingest {folder}")
        with _progress(context) as watcher:
            with watcher.stage("session", "starting Spark"):
                warm_up()
                spark = open_session(settings)
            summary = run_ingest(spark, settings, [str(folder)], watcher=watcher)
    show_summary(summary.as_json())
    titled = [*(("A few rows", query) for query in GLIMPSES), *QUESTIONS]
    for title, query in titled:
        click.echo(f'\n{title}\n$ lakehouse --warehouse {settings.warehouse} sql "{" ".join(query.split())}"')
        result = run_query(spark, settings, query)
        show_table(result.columns, result.text_rows())
    click.echo(
        "\nOne message was refused on purpose. Next: `lakehouse ingest` your own documents, and `lakehouse sql` your questions."
    )
    return 0


def show_summary(summary: dict[str, Any]) -> None:
    """Print the summary of an ingest."""
    documents, snapshot = summary["documents"], summary["snapshot_id"]
    click.echo("Documents: " + ", ".join(f"{count} {name}" for name, count in documents.items()))
    columns = ["table", *next(iter(summary["entities"].values()))]
    show_table(columns, ([table, *map(str, counts.values())] for table, counts in summary["entities"].items()), numbers=True)
    click.echo("Findings: " + ", ".join(f"{count} {name}" for name, count in summary["violations"].items()) + _where(summary))
    if summary.get("dry_run"):
        show_table(["op", "registryid", "xid"], ([row["op"], row["registryid"], row["xid"]] for row in summary["changes"]))
    nothing = "Dry run: nothing was done" if summary.get("dry_run") else "Nothing changed, so no snapshot"
    told = f"Snapshot {snapshot} committed" if snapshot else nothing
    click.echo(f"{told}, in {summary['seconds']['total']:.1f} s.")


def show_validation(validation: dict[str, Any]) -> None:
    """Print what a validation found: suites, rules with an example each, expectations of tables that do not hold."""
    severities = ("error", "warning", "info")
    suites = validation["suites"].items()
    rows = [[name, str(one["expectations"]), *(str(one["failed"][severity]) for severity in severities)] for name, one in suites]
    show_table(["suite", "expectations", *severities], rows, numbers=True)
    if validation["rules"]:
        click.echo("\nRules that something breaks, with an example:")
        told = [
            [one["rule_id"], one["severity"], str(one["n"]), *(one["examples"][0][key] for key in ("xid", "message"))]
            for one in validation["rules"]
        ]
        show_table(["rule_id", "severity", "findings", "xid", "message"], told)
    failed = [one for one in validation["failed"] if one["suite"] != "specification"]
    if failed:
        click.echo("\nExpectations on tables that do not hold:")
        told = [[one["suite"], one["name"], one["severity"], _outcome(one), one["description"]] for one in failed]
        show_table(["suite", "name", "severity", "found", "description"], told)
    for name in validation["skipped"]:
        click.echo(f"Suite {name} was skipped: its table is not in {validation['schema']}.")
    click.echo(
        f"\nSnapshot {validation['snapshot_id']} validated, in {validation['seconds']['total']:.1f} s. "
        f"{validation['recorded']} new findings in table `violations`. Data Docs: {validation['data_docs']}"
    )


def show_one_message(shown: Any) -> None:
    """Print a message as a person reads it."""
    message = shown.message
    click.echo(f"{_printable(message['xid'])}  (registry {_printable(message['registryid'])}, chain {message['chain_status']})")
    for step in shown.chain:
        if step["depth"]:
            told = step["base_version_xid"] or step["basemessage"]
            click.echo(f"  extends {_printable(told)}  ({step['status']})")
    for reference in shown.schema:
        named = f", type {reference['type_name']}" if reference["type_name"] else ""
        click.echo(_printable(f"  schema {reference['target_xid'] or reference['target']}  ({reference['status']}{named})"))
    columns = ["pointer", "value", "origin", "declared_by"]
    click.echo("")
    show_table(columns, ([row[column] for column in columns] for row in shown.attributes))
    click.echo("")
    if shown.endpoints:
        columns = ["endpoint_xid", "via_xid", "usage", "protocol", "matches"]
        show_table(columns, ([_as_text(row[column]) for column in columns] for row in shown.endpoints))
    else:
        click.echo("No endpoint carries it.")


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)


def show_table(columns: list[str], rows: Any, *, numbers: bool = False) -> None:
    """Print rows as a table: as wide as the terminal, or as the values when there is none."""
    console = Console(width=None if sys.stdout.isatty() else 100_000, highlight=False, soft_wrap=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(escape(column), justify="right" if numbers and index else "left", overflow="fold")
    for row in rows:
        table.add_row(*("NULL" if value is None else escape(_printable(value)) for value in row))
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def main() -> None:
    """Run the command; errors of this package are told in one message, without a stack trace."""
    try:
        code = cli.main(standalone_mode=False, obj=Context())
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        _told("stopped")
        code = 1
    except LakehouseError as error:
        _told(f"error: {error}")
        code = error.exit_code
    except Exception as error:
        if os.environ.get("LAKEHOUSE_DEBUG"):
            raise
        _told(
            f"error: {type(error).__name__}: {error}\n"
            "This is a fault of the program or the machine; LAKEHOUSE_DEBUG=1 shows where."
        )
        code = 1
    sys.exit(code or 0)


def _outcome(failed: dict[str, Any]) -> str:
    if failed["error"]:
        return f"could not be checked: {failed['error']}"
    return f"{failed['unexpected']} rows" if failed["unexpected"] is not None else str(failed["observed"])


def _where(summary: dict[str, Any]) -> str:
    return ". See table `violations`." if any(summary["violations"].values()) else "."


def _printable(value: str) -> str:
    """Show control characters of data instead of sending them to the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in value)


def _told(text: str) -> None:
    click.echo(_printable(text), err=True)


class _Told:
    """Tells stages on a terminal: a spinner with the time while one runs."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    @contextmanager
    def stage(self, name: str, told: str) -> Iterator[None]:
        begun = time.monotonic()
        task = self.progress.add_task(f"{name:8} {escape(_printable(told))[:100]}", total=None)
        try:
            yield
        finally:
            self.progress.remove_task(task)
        self.progress.console.print(
            f"[dim]{name:8} {time.monotonic() - begun:6.1f} s  {escape(_printable(told))}[/dim]", highlight=False
        )


@contextmanager
def _progress(context: Context) -> Iterator[Any]:
    console = Console(stderr=True)
    shown = console.is_terminal and not context.quiet
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True, disable=not shown
    ) as progress:
        if shown:
            yield _Told(progress)
        else:
            from lakehouse.pipeline import Unwatched

            yield Unwatched()
