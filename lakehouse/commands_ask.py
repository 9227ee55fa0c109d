"""Commands that ask the catalog and hand it out: sql, show, export, serve-sql, sql-user."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from contextlib import nullcontext
from typing import Any

import click

from lakehouse.console import Context, at_option, open_spark, session, with_globals
from lakehouse.dialects import NORMAL, WRITABLE
from lakehouse.printing import printable, show_examples, show_exported, show_one_message, show_table


@click.command()
@click.argument("query")
@click.option("--at", metavar="SNAPSHOT", help="Snapshot to ask: its number, label, date, time, or head.")
@click.option("--diff", nargs=2, metavar="A B", help="Two snapshots, which the view snapshot_diff compares.")
@with_globals
@click.pass_obj
def sql(context: Context, query: str, at: str | None, diff: tuple[str, str] | None) -> int:
    """Run a Spark SQL query on the catalog and print its rows."""
    from lakehouse.match.conformance import open_named_in
    from lakehouse.queries import run_query

    if at is not None and diff is not None:
        raise click.UsageError("--at and --diff exclude each other.")
    spark, settings = open_spark(context)
    open_named_in(spark, settings, query)
    result = run_query(spark, settings, query, at, diff)
    if context.as_json:
        click.echo("[" + ",\n ".join(result.json_rows()) + "]")
    else:
        show_table(result.columns, result.text_rows())
    return 0


@click.command()
@click.argument("xid")
@at_option
@with_globals
@click.pass_obj
def show(context: Context, xid: str, at: str | None) -> int:
    """Show a message: its chain of bases, attributes with their origin, schema, endpoints, and an example over each protocol."""
    from lakehouse.render.shown import examples_at_head
    from lakehouse.show import show_message

    spark, settings = open_spark(context)
    found = show_message(spark, settings, xid, at)
    examples = [] if at else examples_at_head(settings.warehouse, found[0].message["xid"], settings.registry or None)
    told = [(shown, [one for one in examples if one["registryid"] in (None, shown.message["registryid"])]) for shown in found]
    if context.as_json:
        click.echo(json.dumps([shown.as_json() | {"examples": own} for shown, own in told], ensure_ascii=False))
    else:
        for shown, own in told:
            show_one_message(shown)
            show_examples(own)
    return 0


@click.command()
@click.option("--out", default="-", metavar="FILE|DIR", help="File, folder or URI to write; - is standard output (default).")
@click.option("--replace", is_flag=True, help="DIR may hold an earlier export: it gives way to this one, whole.")
@click.option("--split", type=click.Choice(["group"]), help="Write a folder with one document for each group and endpoint.")
@click.option(
    "--select", multiple=True, metavar="XID", help="Only this group, endpoint, message or schema, and what it needs. Repeatable."
)
@click.option("--at", metavar="SNAPSHOT", help="The catalog as of a snapshot: its number, label, date, time, or head.")
@click.option("--flat", is_flag=True, help="Effective definitions of messages, without basemessage.")
@click.option("--source", is_flag=True, help="Entities as they were written, instead of the normal form.")
@click.option("--base-url", metavar="URL", help="Absolute URLs below this one, instead of references into the document.")
@click.option("--dialect", type=click.Choice(WRITABLE), default=NORMAL, help=f"Write this dialect (default {NORMAL}).")
@click.option("--lossy", is_flag=True, help="Write also when the dialect cannot say everything; what is left out is listed.")
@click.option("--examples", type=click.IntRange(1), default=5, help="Losses told of each rule (default 5).")
@with_globals
@click.pass_obj
def export(context: Context, /, out: str, split: str | None, **flags: Any) -> int:
    """Write the catalog, or a registry of it, as xRegistry documents."""
    from lakehouse.export import Request
    from lakehouse.export import export as run_export
    from lakehouse.groupwriters import Style
    from lakehouse.outward import layout_of

    to_stdout = out == "-"
    if to_stdout and (split or context.as_json):
        raise click.UsageError("--split and --json need --out.")
    if flags["source"] and (flags["flat"] or flags["base_url"]):
        raise click.UsageError("--source writes what came in: it goes with neither --flat nor --base-url.")
    dialect = flags["dialect"]
    if flags["source"] and dialect != NORMAL:
        raise click.UsageError("--source writes each entity in the dialect that it came in: it does not go with --dialect.")
    if flags["base_url"] and not layout_of(dialect).has_urls:
        raise click.UsageError(f"--base-url does not go with --dialect {dialect}, whose entities hold no URLs.")
    base_url = flags["base_url"]
    if base_url is not None and not re.match(r"\A[A-Za-z][A-Za-z0-9+.\-]*://[^\s#?]+\Z", base_url):
        raise click.UsageError(
            "--base-url needs an absolute URL without query and fragment, such as https://example.com/registry."
        )
    settings = context.settings
    style = Style(base_url, flags["source"], split == "group", dialect, flags["examples"])
    select = tuple(xid for given in flags["select"] for xid in given.replace(",", " ").split())
    with tempfile.TemporaryDirectory(prefix="lakehouse-") if to_stdout else nullcontext(out) as place:
        target = f"{place}/document.json" if to_stdout else place
        to_folder = bool(split) or (not to_stdout and (out.endswith("/") or os.path.isdir(out)))
        ways = {name: flags[name] for name in ("at", "flat", "lossy", "replace")}
        request = Request(target, settings.registry or None, to_folder, style, select=select, **ways)
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


@click.command("serve-sql")
@click.option("--port", type=click.IntRange(1, 65535), default=10000, help="Port (default 10000).")
@click.option("--host", default="127.0.0.1", metavar="ADDRESS", help="Address; another than the loopback needs users and TLS.")
@click.option("--at", metavar="SNAPSHOT", help="The catalog as of a snapshot: its number, label, date, time, or head.")
@click.option("--users", metavar="FILE", help="File of users and hashed passwords, see `lakehouse sql-user`.")
@click.option("--ldap", metavar="URL", help="LDAP server that knows the users.")
@click.option("--ldap-base", metavar="DN", help="Distinguished name below which the users are.")
@click.option("--keystore", metavar="FILE", help="Keystore for TLS; its password is in LAKEHOUSE_TLS_PASSWORD.")
@with_globals
@click.pass_obj
def serve_sql(context: Context, /, at: str | None, **door: Any) -> int:
    """Serve the catalog to JDBC and ODBC clients, such as BI tools, until stopped (Ctrl-C, SIGTERM)."""
    import signal

    from lakehouse.serving import Door, open_catalog, serving_settings, start_server

    entrance = Door(**door)
    entrance.check()
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


@click.command("sql-user")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False))
@click.argument("name")
@click.password_option(help="Password; asked for when it is not given.")
def sql_user(file: str, name: str, password: str) -> int:
    """Write a user into FILE, for `lakehouse serve-sql --users FILE`; one of that name gets the new password."""
    from lakehouse.serving import write_user

    write_user(file, name, password)
    click.echo(f"{file}: user {printable(name)} written.")
    return 0
