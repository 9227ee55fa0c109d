"""Commands that query the catalog and export it: sql, show, search, export, serve-sql, sql-user."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from lakehouse.cli.console import Context, at_option, open_spark, read_model, session, with_globals, with_globals_but_registry
from lakehouse.cli.helping import KINDS, command, complete_xid
from lakehouse.cli.printing import (
    lag_of,
    log_stderr,
    one_line,
    printable,
    show_entity,
    show_examples,
    show_exported,
    show_lag,
    show_table,
)
from lakehouse.dialects.tables import DBT, NORMAL, WHOLE_DIALECTS, WRITABLE
from lakehouse.store.localpaths import names_folder

if TYPE_CHECKING:
    from lakehouse.readmodel.snapshotview import View


FORMATS = ("table", "csv", "json", "markdown", "vertical")


def show_rows(form: str, columns: list[str], rows: Iterable[list[str | None]]) -> None:
    """Print rows in one of `FORMATS` other than JSON.

    Args:
        form: the format.
        columns: names of the columns.
        rows: texts of the values; None is NULL, which CSV writes as an empty field.
    """
    if form == "table":
        show_table(columns, rows)
    elif form == "csv":
        click.echo(_csv_line(columns), nl=False)
        for row in rows:
            click.echo(_csv_line(row), nl=False)
    elif form == "markdown":
        click.echo(_markdown_line(columns))
        click.echo(_markdown_line(["---"] * len(columns)))
        for row in rows:
            click.echo(_markdown_line(row))
    else:
        _show_vertical(columns, rows)


def _csv_line(row: Iterable[str | None]) -> str:
    """Return a line as RFC 4180 has it; values are data for a program, so they keep all their characters."""
    line = io.StringIO()
    csv.writer(line).writerow(["" if value is None else value for value in row])
    return line.getvalue()


def _markdown_line(row: Iterable[str | None]) -> str:
    cells = ("NULL" if value is None else one_line(value).replace("|", "\\|") for value in row)
    return f"| {' | '.join(cells)} |"


def _show_vertical(columns: list[str], rows: Iterable[list[str | None]]) -> None:
    width = max(map(len, columns), default=0)
    for number, row in enumerate(rows, 1):
        click.echo(f"-- row {number} --")
        for column, value in zip(columns, row, strict=True):
            click.echo(f"{printable(column):{width}}  {'NULL' if value is None else printable(value)}".rstrip())


@command(
    'lakehouse sql "SELECT xid, protocol FROM flat_messages"',
    'lakehouse sql "SELECT * FROM violations" --at release-1 --format csv',
)
@click.argument("query")
@at_option
@click.option("--diff", nargs=2, metavar="A B", help="Add the view snapshot_diff, which compares two snapshots.")
@click.option("--write", is_flag=True, help="Allow statements that change tables or views, but never the log `changes`.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", help="Format of the rows (default table).")
@with_globals_but_registry
@click.pass_obj
def sql(context: Context, query: str, at: str | None, diff: tuple[str, str] | None, write: bool, form: str) -> int:
    """Run a Spark SQL query and print its rows.

    Queries only read the catalog, unless --write is given.
    """
    from lakehouse.cli.beforehand import check_snapshots
    from lakehouse.match.conformance import open_named_in
    from lakehouse.query.sql import Allowed, run_query

    if at is not None and diff is not None:
        raise click.UsageError("--at and --diff exclude each other.")
    check_snapshots(context, at, *(diff or ()))
    spark, settings = open_spark(context)
    open_named_in(spark, settings, query)
    result = run_query(spark, settings, query, at, diff, allowed=Allowed.WRITE if write else Allowed.READ)
    if context.as_json or form == "json":
        click.echo("[" + ",\n ".join(result.json_rows()) + "]")
    else:
        show_rows(form, result.columns, result.text_rows())
    return 0


@command("lakehouse show sensors.TemperatureRead --examples")
@click.argument("xid", shell_complete=complete_xid)
@at_option
@click.option(
    "--examples",
    "with_all",
    is_flag=True,
    help="Print an example for each protocol, not only for that of the message or of its first endpoint.",
)
@with_globals
@click.pass_obj
def show(context: Context, xid: str, at: str | None, with_all: bool) -> int:
    """Show a message, group, endpoint, schema or document.

    XID is the path of an entity, such as /messagegroups/G/messages/M. You can give just the id if it is unique. A message
    is shown with its attributes after inheritance, where each comes from, the endpoints that carry it, and an example.
    """
    from lakehouse.readmodel.detail import Shown
    from lakehouse.readmodel.detail import show as show_entities
    from lakehouse.readmodel.violationlist import notes_on, with_reasons
    from lakehouse.render.renderruns import examples_in

    with read_model(context) as (model, settings):
        registryid, depth = context.registry, settings.max_chain_depth

        def ask(view: View) -> tuple[list[tuple[Any, list[dict[str, Any]] | None]], dict[str, Any], list[str]]:
            results: list[tuple[Any, list[dict[str, Any]] | None]] = []
            with with_reasons(view, registryid):
                shown = show_entities(view, xid, registryid, depth)
            for entity in shown:
                if isinstance(entity, Shown):
                    results.append((entity, examples_in(view, entity.message["registryid"], entity.message["xid"])))
                else:
                    results.append((entity, None))
            return results, lag_of(view), notes_on(view, xid, registryid, of_message=isinstance(shown[0], Shown))

        matches, lag, notes = model.answer(ask, at)
    if context.as_json:
        results = [shown.as_json() | ({} if examples is None else {"examples": examples}) | lag for shown, examples in matches]
        click.echo(json.dumps(results, ensure_ascii=False))
    else:
        for shown, examples in matches:
            show_entity(shown)
            if examples is not None:
                show_examples(shown, examples, everything=with_all)
        show_lag(lag)
    for note in notes:
        log_stderr(f"note: {note}")
    return 0


@command("lakehouse search order placed --kind message")
@click.argument("text", nargs=-1, required=True)
@click.option("--kind", "kinds", multiple=True, type=click.Choice(KINDS), help="Only entities of this kind (repeatable).")
@click.option("--limit", type=click.IntRange(1), default=20, help="Number of entities to list (default 20).")
@with_globals
@click.pass_obj
def search(context: Context, text: tuple[str, ...], kinds: tuple[str, ...], limit: int) -> int:
    """Find entities by words in their texts.

    Lists entities that contain all words of TEXT in their ids, name, type, address, labels, description or attributes, or in
    the fields of a message's payload, the best matches first. `field:`, `attr:` and `topic:` before a word look there only,
    with `=` (`field:=lines.isbn`) for that name alone.
    """
    from lakehouse.readmodel.violationlist import reasons_of
    from lakehouse.readmodel.wordsearch import search as search_for

    words = " ".join(text)
    with read_model(context) as (model, _):
        registryid = context.registry
        results = model.answer(lambda view: search_for(view, words, kinds or KINDS, registryid=registryid, limit=limit + 1))
        reasons = [] if results else model.answer(lambda view: reasons_of(view, words, registryid))
    shown = results[:limit]
    if context.as_json:
        click.echo(json.dumps([hit._asdict() for hit in shown], ensure_ascii=False))
        return 0
    if not shown:
        click.echo(printable("\n  ".join(["Nothing found.", *reasons])))
        return 0
    columns = ["kind", "xid", "registryid", "name", "where"]
    show_table(columns, ([hit.kind, hit.xid, hit.registryid, hit.name or "", ", ".join(hit.where)] for hit in shown))
    if len(results) > limit:
        click.echo(f"... and more: --limit {2 * limit}")
    return 0


@command(
    "lakehouse export --out catalog.json",
    "lakehouse export --select /messagegroups/shop.orders --dialect 1.0-rc4",
    "lakehouse export --dialect odcs --out contracts/",
    "lakehouse export --dbt models/sources.yaml",
    sections={
        "What to export": ("select", "at", "flat", "source"),
        "How to write it": ("out", "replace", "split", "base_url", "dialect", "perspective", "lossy", "examples", "dbt"),
    },
)
@click.option("--out", default="-", metavar="FILE|DIR", help="File, folder or URI to write (default -: standard output).")
@click.option("--replace", is_flag=True, help="Replace an earlier export in DIR.")
@click.option(
    "--split", type=click.Choice(["group"]), help="group: write a folder with one document for each group and each endpoint."
)
@click.option(
    "--select",
    multiple=True,
    metavar="XID",
    shell_complete=complete_xid,
    help="Only this group, endpoint, message or schema, and everything it refers to: bases, schemas (repeatable).",
)
@at_option
@click.option("--flat", is_flag=True, help="Write each message with its inherited values merged in, without basemessage.")
@click.option("--source", is_flag=True, help="Write entities as they were loaded, not in normal form.")
@click.option("--base-url", metavar="URL", help="Write references as absolute URLs that start with URL.")
@click.option(
    "--dialect",
    type=click.Choice((*WRITABLE, *WHOLE_DIALECTS)),
    help=f"Write this dialect (default {NORMAL}), or for other tools: backstage, an API for each message group; odcs, a data "
    "contract for each message; dbt, the tables and views.",
)
@click.option(
    "--perspective",
    type=click.Choice(["client", "server"]),
    default="client",
    help="AsyncAPI, Backstage: describe who uses the endpoints (client, default: a producer sends) or who offers them (server).",
)
@click.option("--lossy", is_flag=True, help="Write even if the dialect cannot express everything; list what is left out.")
@click.option(
    "--examples", type=click.IntRange(1), default=5, help="With --lossy: number of lost values to list for each rule (default 5)."
)
@click.option("--dbt", metavar="FILE", help="Write the tables and views as dbt sources: --dialect dbt --out FILE.")
@with_globals
@click.pass_obj
def export(context: Context, /, out: str, split: str | None, dbt: str | None, **flags: Any) -> int:
    """Write the catalog as documents.

    They are of xRegistry or AsyncAPI, or describe the catalog for other tools.
    """
    from lakehouse.cli.beforehand import check_export
    from lakehouse.export.run import ExportRequest
    from lakehouse.export.run import export as run_export
    from lakehouse.export.writers import WriteStyle

    if dbt is not None:
        if out != "-" or flags["dialect"] is not None:
            raise click.UsageError("--dbt FILE is short for --dialect dbt --out FILE: it excludes both.")
        out, flags["dialect"] = dbt, DBT
    flags["dialect"] = flags["dialect"] or NORMAL
    to_stdout = out == "-"
    if to_stdout and (split or context.as_json):
        raise click.UsageError("--split and --json need --out.")
    _check_style(flags)
    if split and flags["dialect"] in WHOLE_DIALECTS:
        raise click.UsageError(f"--split excludes --dialect {flags['dialect']}: --select parts of the catalog.")
    if flags["dialect"] == DBT and (flags["select"] or flags["at"] is not None):
        raise click.UsageError("dbt's sources are the tables and views, whatever they hold: they exclude --select and --at.")
    settings = context.settings
    style = WriteStyle(
        flags["base_url"], flags["source"], split == "group", flags["dialect"], flags["examples"], flags["perspective"]
    )
    select = tuple(xid for xids in flags["select"] for xid in xids.replace(",", " ").split())
    with tempfile.TemporaryDirectory(prefix="lakehouse-") if to_stdout else nullcontext(out) as place:
        target = f"{place}/document.json" if to_stdout else place
        to_folder = bool(split) or (not to_stdout and names_folder(out))
        options = {name: flags[name] for name in ("at", "flat", "lossy", "replace")}
        request = ExportRequest(target, context.registry, to_folder, style, select=select, **options)
        if flags["dialect"] != DBT:
            check_export(context, request)
        with session(context) as (spark, settings, watcher), watcher.stage("export", "rows to documents"):
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


def _check_style(flags: dict[str, Any]) -> None:
    """Check which options of `export` exclude each other."""
    from lakehouse.dialects.writing import layout_of

    base_url, dialect = flags["base_url"], flags["dialect"]
    if flags["source"] and (flags["flat"] or base_url):
        raise click.UsageError("--source writes entities as they were loaded: it excludes --flat and --base-url.")
    if flags["source"] and dialect != NORMAL:
        raise click.UsageError("--source writes each entity in the dialect that it was loaded in: it excludes --dialect.")
    if base_url and not layout_of(dialect).has_urls:
        raise click.UsageError(f"--base-url excludes --dialect {dialect}, whose entities hold no URLs.")
    if base_url is not None and not re.match(r"\A[A-Za-z][A-Za-z0-9+.\-]*://[^\s#?]+\Z", base_url):
        raise click.UsageError(
            "--base-url needs an absolute URL without query and fragment, such as https://example.com/registry."
        )


@command(
    "lakehouse serve-sql --port 10000",
    name="serve-sql",
    sections={"Access": ("users", "ldap", "ldap_base", "keystore")},
)
@click.option("--port", type=click.IntRange(1, 65535), default=10000, help="Port (default 10000).")
@click.option(
    "--host", default="127.0.0.1", metavar="ADDRESS", help="Address (default 127.0.0.1); any other needs users and TLS."
)
@at_option
@click.option("--users", metavar="FILE", help="File of users and hashed passwords, see `lakehouse sql-user`.")
@click.option("--ldap", metavar="URL", help="LDAP server that authenticates the users.")
@click.option("--ldap-base", metavar="DN", help="Distinguished name below which the users are.")
@click.option("--keystore", metavar="FILE", help="Keystore for TLS; its password is in LAKEHOUSE_TLS_PASSWORD.")
@with_globals_but_registry
@click.pass_obj
def serve_sql(context: Context, /, at: str | None, **door: Any) -> int:
    """Serve the catalog to JDBC and ODBC clients.

    BI tools connect to it. It runs until stopped (Ctrl-C, SIGTERM).
    """
    import signal

    from lakehouse.cli.beforehand import check_snapshots
    from lakehouse.query.sqlserver import Door, open_catalog, serving_settings, start_server

    entrance = Door(**door)
    entrance.check()
    check_snapshots(context, at)
    with session(context, serving_settings) as (spark, settings, watcher):
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


@command("lakehouse sql-user users.txt alice", name="sql-user")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("name")
@click.option("--password-stdin", is_flag=True, help="Read the password from standard input instead of asking for it.")
def sql_user(file: str, name: str, password_stdin: bool) -> int:
    """Add a user to a file of users, or change a password.

    FILE is what `lakehouse serve` and `lakehouse serve-sql` take as --users. The password is prompted for, never an
    argument: the list of processes would show it to everybody on the machine.
    """
    from lakehouse.query.sqlserver import write_user

    if password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    write_user(file, name, password)
    click.echo(f"{file}: user {printable(name)} written.")
    return 0
