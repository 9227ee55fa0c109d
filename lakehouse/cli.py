"""The command `lakehouse`: arguments → settings → session → one call of the library → output and exit code.

Spark is imported by the commands that need it, so that `--help` and wrong usage answer at once.
Exit codes: 0 done; 3 done, but something was refused; 4 `diff --breaking` found something; 2 wrong usage or settings; 1 failure.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from importlib.resources import as_file, files
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

import lakehouse
from lakehouse.dialects import DIALECTS
from lakehouse.errors import LakehouseError
from lakehouse.settings import Settings, read_settings

REFUSED = 3
BREAKING = 4
_GLOBALS = ("warehouse", "registry", "conf", "as_json", "quiet", "log_json", "metrics")


class Context:
    """What the global options said, wherever they stood."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.begun = time.monotonic()
        self.run: Any = None  # as soon as Spark is wanted

    def begin(self, settings: Settings) -> Any:
        """Begin to record the run: its stages, figures and lineage."""
        from lakehouse.telemetry import Run

        called = click.get_current_context()
        inputs = called.params.get("sources") or ()
        self.run = Run(
            called.info_name or "",
            settings.warehouse,
            bool(self.options.get("log_json")),
            self.options.get("metrics"),
            tuple(inputs),
            begun=self.begun,
        )
        self.run.begin()
        return self.run

    def end(self, exit_code: int, error: str | None = None) -> None:
        """Tell machines how the run ended."""
        if self.run is not None:
            self.run.end(exit_code, error)

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
    @click.option(
        "--log-json", is_flag=True, default=None, help="One line of JSON for each stage on standard error, for machines."
    )
    @click.option("--metrics", metavar="FILE", help="Write the figures of the run into FILE as OpenMetrics text.")
    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        context = click.get_current_context().ensure_object(Context)
        given = {key: kwargs.pop(key) for key in _GLOBALS}
        context.options |= {key: value for key, value in given.items() if value is not None}
        return command(*args, **kwargs)

    return run


_exit_zero = click.option(
    "--exit-zero", is_flag=True, help="Exit code 0 instead of 3 when something was refused, for schedulers."
)


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
@click.option("--dialect", type=click.Choice(DIALECTS), help="Read all documents as of this dialect, instead of detecting it.")
@click.option("--watch", is_flag=True, help="SOURCE is a folder: load what is new or changed in it, as it comes, until stopped.")
@click.option("--available-now", is_flag=True, help="As --watch, but end when all that is there has been loaded.")
@click.option("--every", type=click.IntRange(1), default=10, help="Seconds between two looks at a watched folder (default 10).")
@_exit_zero
@_with_globals
@click.pass_obj
def ingest(context: Context, /, sources: tuple[str, ...], registry_from: str | None, **flags: Any) -> int:
    """Load documents: files, folders (all *.json, *.cereg, *.yaml, *.yml and .gz of them), globs, or URIs that Spark reads."""
    from lakehouse.expectations import warm_up
    from lakehouse.pipeline import Request
    from lakehouse.pipeline import ingest as run_ingest
    from lakehouse.plans import Policy
    from lakehouse.snapshots import check_label

    settings = context.settings
    if flags["label"] is not None:
        check_label(flags["label"])
    policy = Policy(flags["force"], flags["prune"], settings.on_conflict)
    request = Request(policy, flags["strict"], flags["dry_run"], flags["label"], flags["dialect"])
    warm_up()
    if flags["watch"] or flags["available_now"]:
        return _watch(context, sources, registry_from, request, flags)
    with _session(context) as (spark, settings, watcher):
        summary = run_ingest(spark, settings, list(sources), registry_from=registry_from, request=request, watcher=watcher)
    context.run.result = summary.as_json()
    for path in summary.hidden:
        _told(f"warning: not read, since Spark lists no empty file and no name that starts with _ or . : {path}")
    if context.as_json:
        click.echo(json.dumps(summary.as_json()))
    else:
        show_summary(summary.as_json())
    return REFUSED if summary.refused and not flags["exit_zero"] else 0


def _watch(context: Context, sources: tuple[str, ...], registry_from: str | None, request: Any, flags: dict[str, Any]) -> int:
    import signal

    from lakehouse.landing import Landing, watch

    if len(sources) != 1:
        raise click.UsageError("--watch takes one folder.")
    if flags["prune"] or flags["force"] or flags["dry_run"] or flags["label"]:
        raise click.UsageError("--watch goes without --prune, --force, --dry-run and --label: a batch is not the whole source.")
    landing = Landing(sources[0], flags["available_now"], flags["every"])
    refused: list[bool] = []
    stopped: list[int] = []

    def told(summary: Any) -> None:
        refused.append(summary.refused)
        context.run.result = summary.as_json()
        if context.as_json:
            click.echo(json.dumps(summary.as_json()))
        else:
            show_summary(summary.as_json())

    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: stopped.append(number))
    with _session(context) as (spark, settings, watcher):
        asked = {"registry_from": registry_from, "request": request, "watcher": watcher}
        watch(spark, settings, landing, told, lambda: bool(stopped), **asked)
    return REFUSED if any(refused) and not flags["exit_zero"] else 0


@cli.command()
@click.option("--suite", "suites", multiple=True, metavar="NAME", help="Run this suite only; may be given more than once.")
@_exit_zero
@_with_globals
@click.pass_obj
def validate(context: Context, suites: tuple[str, ...], exit_zero: bool) -> int:
    """Run all rules and suites of expectations over the catalog, and write Data Docs."""
    from lakehouse.checks import check_catalog
    from lakehouse.expectations import warm_up
    from lakehouse.rules import RULES
    from lakehouse.validation import validate as run_validate

    warm_up()
    with _session(context) as (spark, settings, watcher):
        validation = run_validate(spark, settings, check_catalog, RULES, suites=suites, watcher=watcher)
    context.run.result = validation.as_json()
    if context.as_json:
        click.echo(json.dumps(validation.as_json()))
    else:
        show_validation(validation.as_json())
    return REFUSED if validation.has_findings and not exit_zero else 0


@cli.command()
@click.option(
    "--ingest", metavar="last|ID", help="What this ingest found first; default: findings of each document's latest load."
)
@click.option("--document", metavar="URI", help="Of this document only: its URI, or the end of it.")
@click.option("--at", metavar="SNAPSHOT", help="As of a snapshot: its number, a label, or a time.")
@click.option("--examples", type=click.IntRange(1), default=5, help="Findings told of each rule (default 5).")
@_with_globals
@click.pass_obj
def violations(context: Context, /, **options: Any) -> int:
    """List what was refused, warned of or noted, by rule."""
    from lakehouse.violationlist import list_violations

    with _session(context) as (spark, settings, watcher), watcher.stage("read", "findings"):
        found = list_violations(spark, settings, **options)
    if context.as_json:
        click.echo(json.dumps([broken._asdict() for broken in found]))
        return 0
    for broken in found:
        click.echo(_line(f"{broken.rule_id}  {broken.severity}  {broken.findings}  {broken.text}"))
        for one in broken.examples:
            click.echo(_line(f"  {one['action']}: {one['document_uri']} {one['pointer'] or one['xid'] or ''}"))
            click.echo(_line(f"    {one['message']}"))
            click.echo(_line(f"    {one['hint']}"))
        if broken.findings > len(broken.examples):
            click.echo(f"  ... and {broken.findings - len(broken.examples)} more: --examples {broken.findings}")
    if not found:
        click.echo("No findings.")
    return 0


@cli.command()
@click.argument("query")
@click.option("--at", metavar="SNAPSHOT", help="Snapshot to ask: its number, label, date, time, or head.")
@click.option("--diff", nargs=2, metavar="A B", help="Two snapshots, which the view snapshot_diff compares.")
@_with_globals
@click.pass_obj
def sql(context: Context, query: str, at: str | None, diff: tuple[str, str] | None) -> int:
    """Run a Spark SQL query on the catalog and print its rows."""
    from lakehouse.queries import run_query

    if at is not None and diff is not None:
        raise click.UsageError("--at and --diff exclude each other.")
    spark, settings = _open_spark(context)
    result = run_query(spark, settings, query, at, diff)
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
    from lakehouse.show import show_message

    spark, settings = _open_spark(context)
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
def snapshots(context: Context) -> int:
    """List all snapshots: when, by whom, what changed, and their labels."""
    from lakehouse.snapshots import read_snapshots
    from lakehouse.tables import attach_tables

    spark, settings = _open_spark(context)
    attach_tables(spark, settings, ["changes"])
    found = [one.as_json() for one in read_snapshots(spark)]
    if context.as_json:
        click.echo(json.dumps(found))
    else:
        columns = ["snapshot_id", "committed_at", "committed_by", "command", "inserted", "updated", "deleted", "labels"]
        rows = ([*(str(one[name]) for name in columns[:-1]), ", ".join(one["labels"])] for one in found)
        show_table(columns, rows)
    return 0


@cli.command()
@click.argument("snapshot")
@click.argument("name")
@click.option("--why", metavar="TEXT", help="Reason, kept with the label.")
@click.option("--move", is_flag=True, help="Take the name away from another snapshot.")
@_with_globals
@click.pass_obj
def label(context: Context, snapshot: str, name: str, why: str | None, move: bool) -> int:
    """Name a snapshot, given by its number, label, date, time, or `head`."""
    from lakehouse.snapshots import check_label, label_snapshot

    check_label(name)
    spark, settings = _open_spark(context)
    snapshot_id = label_snapshot(spark, settings, snapshot, name, why=why, move=move)
    click.echo(json.dumps({"snapshot_id": snapshot_id, "label": name}) if context.as_json else f"{name}: snapshot {snapshot_id}")
    return 0


@cli.command()
@click.argument("xid")
@click.option("--at", metavar="SNAPSHOT", help="Leave out what came after this snapshot.")
@click.option("--below", is_flag=True, help="With everything that stands below the entity, not only its Versions.")
@_with_globals
@click.pass_obj
def log(context: Context, xid: str, at: str | None, below: bool) -> int:
    """Tell who changed an entity, when, from which document, and what: a JSON Patch from state to state."""
    changes = _read_history(context, xid, at, below=below)
    if context.as_json:
        click.echo(json.dumps([one.as_json() for one in changes], ensure_ascii=False))
        return 0
    for one in changes:
        click.echo(_printable(f"snapshot {one.snapshot_id}  {one.committed_at}  {one.committed_by}  {one.command}"))
        click.echo(_printable(f"  {one.op} {one.kind} {one.xid}  (registry {one.registryid})"))
        for told in one.told():
            click.echo(_printable(f"    {told}"))
    return 0


@cli.command()
@click.argument("xid")
@click.option("--at", metavar="SNAPSHOT", help="The entity as of this snapshot.")
@_with_globals
@click.pass_obj
def blame(context: Context, xid: str, at: str | None) -> int:
    """Tell for each attribute of an entity which snapshot and document set it."""
    from lakehouse.audits import blame as blame_of

    told = [one.as_json() for one in blame_of(_read_history(context, xid, at))]
    if context.as_json:
        click.echo(json.dumps(told, ensure_ascii=False))
        return 0
    columns = ["snapshot_id", "committed_at", "committed_by", "document_uris", "xid", "pointer", "value"]
    rows = [
        {**one, "document_uris": ", ".join(one["document_uris"]), "value": json.dumps(one["value"], ensure_ascii=False)}
        for one in told
    ]
    show_table(columns, ([_printable(str(one[name])) for name in columns] for one in rows))
    return 0


def _read_history(context: Context, xid: str, at: str | None, *, below: bool = False) -> list[Any]:
    from lakehouse.audits import read_history
    from lakehouse.snapshots import resolve_snapshot
    from lakehouse.tables import attach_tables

    spark, settings = _open_spark(context)
    attach_tables(spark, settings, ["changes"])
    upto = None if at is None else resolve_snapshot(spark, at)
    return read_history(spark, xid, registryid=context.options.get("registry"), upto=upto, below=below)


@cli.command()
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option("--breaking", is_flag=True, help="Only what breaks producers or consumers; exit code 4 when there is any.")
@click.option("--markdown", is_flag=True, help="As Markdown for a pull request.")
@_with_globals
@click.pass_obj
def diff(context: Context, before: str, after: str, breaking: bool, markdown: bool) -> int:
    """Tell what changed from A to B, and whom it breaks: two snapshots, or documents (files, folders) that need not be loaded."""
    from lakehouse.diffs import as_markdown, diff_documents, diff_snapshots, read_differences
    from lakehouse.snapshots import resolve_snapshot
    from lakehouse.tables import attach_tables

    are_documents = [os.path.exists(side) or "/" in side or "*" in side for side in (before, after)]
    if any(are_documents) and not all(are_documents):
        raise click.UsageError("A and B are two snapshots, or two files or folders.")
    with _session(context) as (spark, settings, watcher), watcher.stage("diff", f"{before} to {after}"):
        if all(are_documents):
            rows = diff_documents(spark, settings, [before], [after])
        else:
            attach_tables(spark, settings, ["changes"])
            rows = diff_snapshots(spark, settings, *(resolve_snapshot(spark, side) for side in (before, after)))
        found = read_differences(rows)
    breaks = any(one.class_ == "breaking" for one in found)
    shown = [one for one in found if one.class_ == "breaking"] if breaking else found
    if context.as_json:
        click.echo(json.dumps([one.as_json() for one in shown], ensure_ascii=False))
    elif markdown:
        click.echo(_printable(as_markdown(shown, before, after)), nl=False)
    else:
        columns = ["class", "kind", "xid", "change", "pointer", "before", "after", "rule"]
        show_table(columns, ([_printable(str(one.as_json()[name] or "")) for name in columns] for one in shown))
    return BREAKING if breaking and breaks else 0


@cli.command()
@click.option("--since", default="0", metavar="SNAPSHOT", help="Last snapshot that the reader knows (default 0: none).")
@click.option("--until", metavar="SNAPSHOT", help="Last snapshot to tell of (default: the head).")
@click.option("--format", "form", type=click.Choice(["cloudevents"]), default="cloudevents", help="CloudEvents as JSON lines.")
@click.option(
    "--feed", "feeds", multiple=True, type=click.Choice(["core", "messagecatalog"]), help="Only this feed (repeatable)."
)
@_with_globals
@click.pass_obj
def changes(context: Context, since: str, until: str | None, form: str, feeds: tuple[str, ...]) -> int:
    """Write what changed as events, one a line, oldest first; the same call writes the same events again."""
    from lakehouse.events import FEEDS, change_events
    from lakehouse.snapshots import HEAD, resolve_snapshot
    from lakehouse.tables import attach_tables

    spark, settings = _open_spark(context)
    attach_tables(spark, settings, ["changes"])
    first = 0 if since == "0" else resolve_snapshot(spark, since)
    last = resolve_snapshot(spark, until or HEAD)
    for row in change_events(spark, settings, first, last, feeds or FEEDS).toLocalIterator():
        click.echo(row["event"])
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit would put it among the events
        _told(f"events after snapshot {first} up to {last}. The next time: --since {last}")
    return 0


@cli.command()
@click.option("--deep", is_flag=True, help="Compare all columns and verify the checksums of all pages.")
@_with_globals
@click.pass_obj
def doctor(context: Context, deep: bool) -> int:
    """Tell whether the warehouse is sound, and which command mends what is not (exit code 1)."""
    from lakehouse.doctor import diagnose

    with _session(context) as (spark, settings, watcher), watcher.stage("doctor", "reading all tables"):
        found = [one.as_json() for one in diagnose(spark, settings, deep=deep)]
    if context.as_json:
        click.echo(json.dumps(found))
    else:
        columns = ["state", "check", "table", "told", "mend"]
        show_table(columns, ([one[name] for name in columns] for one in found))
    return 1 if any(one["state"] == "error" for one in found) else 0


@cli.command()
@_with_globals
@click.pass_obj
def rebuild(context: Context) -> int:
    """Make every entity table anew from the log."""
    from lakehouse.doctor import rebuild as rebuild_tables

    with _session(context) as (spark, settings, watcher), watcher.stage("rebuild", "all entity tables"):
        names = rebuild_tables(spark, settings)
    click.echo(json.dumps(names) if context.as_json else f"Made anew from the log: {', '.join(names)}.")
    return 0


@cli.command()
@_with_globals
@click.pass_obj
def migrate(context: Context) -> int:
    """Bring the tables of an older release forward; what the ingests of this release do too."""
    from lakehouse.tables import SCHEMA_VERSION, create_tables

    with _session(context) as (spark, settings, watcher), watcher.stage("migrate", settings.warehouse):
        create_tables(spark, settings)
    click.echo(json.dumps({"schema_version": SCHEMA_VERSION}) if context.as_json else f"Tables of version {SCHEMA_VERSION}.")
    return 0


@cli.command()
@click.option("--dry-run", is_flag=True, help="Tell what would be done, and do nothing.")
@click.option("--full", is_flag=True, help="Sort all files anew, also those that are sorted already.")
@_with_globals
@click.pass_obj
def maintain(context: Context, dry_run: bool, full: bool) -> int:
    """Make small files large and sorted by the keys, and delete what no version within the retention needs; no row changes."""
    from lakehouse.maintenance import maintain as run_maintenance

    with _session(context) as (spark, settings, watcher), watcher.stage("maintain", "all tables"):
        maintained = run_maintenance(spark, settings, dry_run=dry_run, full=full)
    context.run.result = maintained.as_json()
    if context.as_json:
        click.echo(json.dumps(maintained.as_json()))
    else:
        show_maintained(maintained.as_json())
    return 0


def show_maintained(maintained: dict[str, Any]) -> None:
    """Print what maintenance did, with the files and bytes of each table before and after."""
    counted = ("files", "bytes", "files_on_disk", "bytes_on_disk")
    done = ("compacted", "removed", "measured")
    rows = [
        [one["table"], *(f"{one['before'][name]} → {one['after'][name]}" for name in counted), *(str(one[name]) for name in done)]
        for one in maintained["tables"]
    ]
    show_table(["table", *counted, *done], rows, numbers=True)
    stages = f"{len(maintained['stages'])} stages of dead runs"
    told = f"Dry run: nothing was done; {stages} are there" if maintained["dry_run"] else f"{stages} removed"
    click.echo(f"{told}, in {maintained['seconds']:.1f} s.")


@cli.command("serve-sql")
@click.option("--port", type=click.IntRange(1, 65535), default=10000, help="Port (default 10000).")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address; another than the loopback needs users and TLS.")
@click.option("--at", metavar="SNAPSHOT", help="The catalog as of a snapshot: its number, label, date, time, or head.")
@click.option("--users", metavar="FILE", help="File of users and hashed passwords, see `lakehouse sql-user`.")
@click.option("--ldap", metavar="URL", help="LDAP server that knows the users.")
@click.option("--ldap-base", metavar="DN", help="Distinguished name below which the users are.")
@click.option("--keystore", metavar="FILE", help="Keystore for TLS; its password is in LAKEHOUSE_TLS_PASSWORD.")
@_with_globals
@click.pass_obj
def serve_sql(context: Context, /, at: str | None, **door: Any) -> int:
    """Serve the catalog to JDBC and ODBC clients, such as BI tools, until stopped (Ctrl-C, SIGTERM)."""
    import signal

    from lakehouse.serving import Door, open_catalog, serving_settings, start_server

    entrance = Door(**door)
    entrance.check()
    with _session(context, serving_settings) as (spark, settings, watcher):
        with watcher.stage("attach", "tables and views"):
            schema = open_catalog(spark, settings, at)
        with watcher.stage("serve", f"{entrance.host}:{entrance.port}"):
            server = start_server(spark, entrance)
        url = f"jdbc:hive2://{entrance.host}:{entrance.port}/{schema}"
        click.echo(json.dumps({"url": url, "schema": schema}) if context.as_json else f"Serving {url} until stopped.")
        stop = [signal.SIGINT, signal.SIGTERM]
        signal.pthread_sigmask(signal.SIG_BLOCK, stop)
        signal.sigwait(stop)
        server.stop()
    return 0


@cli.command("sql-user")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("name")
@click.password_option(help="Password; asked for when it is not given.")
def sql_user(file: str, name: str, password: str) -> int:
    """Write a user into FILE, for `lakehouse serve-sql --users FILE`; one of that name gets the new password."""
    from lakehouse.serving import write_user

    write_user(file, name, password)
    click.echo(f"{file}: user {_printable(name)} written.")
    return 0


@cli.command()
@click.argument("folder", metavar="DIR")
@_with_globals
@click.pass_obj
def backup(context: Context, folder: str) -> int:
    """Copy what came since the last backup into DIR and verify it; ingests may run meanwhile."""
    from lakehouse.backups import backup as make_backup

    return _tell_backup(context, folder, make_backup, "Backup of snapshots 1 to {} in {}")


@cli.command()
@click.argument("folder", metavar="DIR")
@_with_globals
@click.pass_obj
def restore(context: Context, folder: str) -> int:
    """Make a catalog in an empty warehouse out of the newest backup in DIR, which is verified first."""
    from lakehouse.backups import restore as restore_backup

    return _tell_backup(context, folder, restore_backup, "Restored snapshots 1 to {} from {}")


def _tell_backup(context: Context, folder: str, act: Callable[..., Any], told: str) -> int:

    with _session(context) as (spark, settings, watcher), watcher.stage("backup", folder):
        manifest = act(spark, settings, folder)
    counts = f"{manifest.rows} rows, {manifest.findings_count} findings; digests verified"
    click.echo(json.dumps(manifest.as_json()) if context.as_json else f"{told.format(manifest.snapshot_id, folder)}: {counts}.")
    return 0


@cli.command()
@click.option("--out", default="-", metavar="FILE|DIR", help="File, folder or URI to write; - is standard output (default).")
@click.option("--split", type=click.Choice(["group"]), help="Write a folder with one document for each group and endpoint.")
@click.option(
    "--select", multiple=True, metavar="XID", help="Only this group, endpoint, message or schema, and what it needs. Repeatable."
)
@click.option("--at", metavar="SNAPSHOT", help="The catalog as of a snapshot: its number, label, date, time, or head.")
@click.option("--flat", is_flag=True, help="Effective definitions of messages, without basemessage.")
@click.option("--source", is_flag=True, help="Entities as they were written, instead of the normal form.")
@click.option("--base-url", metavar="URL", help="Absolute URLs below this one, instead of references into the document.")
@_with_globals
@click.pass_obj
def export(context: Context, /, out: str, split: str | None, **flags: Any) -> int:
    """Write the catalog, or a registry of it, as xRegistry documents."""
    from lakehouse.export import Request
    from lakehouse.export import export as run_export
    from lakehouse.serialise import Style

    to_stdout = out == "-"
    if to_stdout and (split or context.as_json):
        raise click.UsageError("--split and --json need --out.")
    if flags["source"] and (flags["flat"] or flags["base_url"]):
        raise click.UsageError("--source writes what came in: it goes with neither --flat nor --base-url.")
    base_url = flags["base_url"]
    if base_url is not None and not re.match(r"\A[A-Za-z][A-Za-z0-9+.\-]*://[^\s#?]+\Z", base_url):
        raise click.UsageError(
            "--base-url needs an absolute URL without query and fragment, such as https://example.com/registry."
        )
    settings = context.settings
    style = Style(base_url, flags["source"], by_group=split == "group")
    select = tuple(xid for given in flags["select"] for xid in given.replace(",", " ").split())
    with tempfile.TemporaryDirectory(prefix="lakehouse-") if to_stdout else nullcontext(out) as place:
        target = f"{place}/document.json" if to_stdout else place
        to_folder = bool(split) or (not to_stdout and (out.endswith("/") or os.path.isdir(out)))
        request = Request(target, settings.registry or None, to_folder, style, flags["at"], select, flags["flat"])
        with _session(context) as (spark, settings, watcher), watcher.stage("export", "rows to documents"):
            exported = run_export(spark, settings, request)
        if to_stdout:
            with open(target, "rb") as document:
                shutil.copyfileobj(document, sys.stdout.buffer)
    context.run.result = {} if to_stdout else exported.as_json()
    if context.as_json:
        click.echo(json.dumps(exported.as_json()))
    else:
        show_exported(exported.as_json(), on_stderr=to_stdout)
    return 0


def show_exported(exported: dict[str, Any], *, on_stderr: bool) -> None:
    """Print what an export wrote."""
    if exported.get("added"):
        counts = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in exported["added"].items())
        more = sum(exported["added"].values()) - len(exported["added_first"])
        listed = ", ".join(exported["added_first"]) + (f" and {more} more" if more else "")
        click.echo(f"Added, since what was selected needs it: {counts} ({_printable(listed)}).", err=on_stderr)
    told = ", ".join(f"{count} {name}" for name, count in exported["entities"].items())
    if not on_stderr:
        files = f"{exported['files']} file{'s' if exported['files'] != 1 else ''}"
        click.echo(f"{_printable(exported['out'])}: {files}, {exported['bytes']} bytes; {told}.")


@cli.command()
@_with_globals
@click.pass_obj
def demo(context: Context) -> int:
    """Load an online shop's documents into ./demo-warehouse and look at what came out."""
    from lakehouse.demo import GLIMPSES, QUESTIONS
    from lakehouse.expectations import warm_up
    from lakehouse.pipeline import ingest as run_ingest
    from lakehouse.queries import run_query

    context.options.setdefault("warehouse", "demo-warehouse")
    settings = context.settings
    with as_file(files("lakehouse").joinpath("demo")) as folder:
        click.echo(f"$ lakehouse --warehouse {settings.warehouse} ingest {folder}")
        warm_up()
        with _session(context) as (spark, settings, watcher):
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
    if summary["dialects"]:
        click.echo("Dialects: " + ", ".join(f"{count} {name}" for name, count in summary["dialects"].items()))
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


def main(*command: str) -> None:
    """Run the command; errors of this package are told in one message, without a stack trace.

    Args:
        command: what stands before the arguments of the process; the jobs name theirs.
    """
    context = Context()
    failure: str | None = None
    try:
        code = cli.main([*command, *sys.argv[1:]], standalone_mode=False, obj=context)
    except click.ClickException as error:
        error.show()
        code, failure = error.exit_code, error.format_message()
    except click.Abort:
        failure = "stopped"
        _told(failure)
        code = 1
    except LakehouseError as error:
        failure = str(error)
        _told(f"error: {error}")
        code = error.exit_code
    except Exception as error:
        if os.environ.get("LAKEHOUSE_DEBUG"):
            raise
        failure = f"{type(error).__name__}: {error}"
        _told(f"error: {failure}\nThis is a fault of the program or the machine; LAKEHOUSE_DEBUG=1 shows where.")
        code = 1
    context.end(code or 0, failure)
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


def _line(text: str) -> str:
    """Show text of a document in one line."""
    return _printable(text.replace("\n", "\\n").replace("\t", "\\t")).rstrip()


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
def _session(
    context: Context, adapt: Callable[[Settings], Settings] = lambda settings: settings
) -> Iterator[tuple[Any, Settings, Any]]:
    """Start Spark, and tell of what is done then: the session, the settings, and who is told of the stages."""
    from lakehouse.session import open_session

    settings = adapt(context.settings)
    run = context.begin(settings)
    with _progress(context) as shown:
        watcher = run.watch(shown)
        with watcher.stage("session", "starting Spark"):
            spark = open_session(settings)
        yield spark, settings, watcher


def _open_spark(context: Context) -> tuple[Any, Settings]:
    with _session(context) as (spark, settings, _):
        return spark, settings


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
