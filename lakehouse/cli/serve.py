"""Commands that show the catalog to others: over HTTP, as web pages in files, to coding agents."""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lakehouse.cli.console import Context, at_option, read_model, with_globals
from lakehouse.cli.helping import command
from lakehouse.cli.printing import printable
from lakehouse.extras import require
from lakehouse.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@command(
    "lakehouse serve --port 8080",
    "lakehouse serve --host 0.0.0.0 --users users.txt --tls-cert cert.pem --tls-key key.pem",
    sections={
        "The server": ("host", "port", "workers", "specification", "base_url", "behind_proxy", "tls_cert", "tls_key", "mcp"),
        "Who may read": ("users", "allow_anonymous", "allow_origin"),
        "Writing": ("writable", "allow_anonymous_writes"),
        "Events": ("subscriptions", "allow_private_sinks"),
    },
)
@click.option(
    "--host",
    default="127.0.0.1",
    metavar="ADDRESS",
    help="Address (default 127.0.0.1); any other needs --users or --allow-anonymous.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=8080, help="Port (default 8080; 0: a free one).")
@click.option(
    "--specification",
    type=click.Choice(["1.0-rc4", "1.0-rc2"]),
    default="1.0-rc4",
    help="Dialect of the answers (default 1.0-rc4).",
)
@click.option("--workers", type=click.IntRange(1, 64), default=1, help="Number of processes (default 1).")
@click.option("--users", metavar="FILE", help="Let only the users in FILE read, see `lakehouse sql-user`.")
@click.option("--allow-anonymous", is_flag=True, help="Let everybody read, even on a public address.")
@click.option(
    "--subscriptions",
    metavar="FOLDER",
    help="Serve /subscriptions, stored in FOLDER: changes are sent to receivers (URLs that subscribe). Needs "
    "`pip install 'xregistry-lakehouse[replicate]'`.",
)
@click.option("--allow-private-sinks", is_flag=True, help="Send to receivers on this machine and in private networks too.")
@click.option("--mcp", is_flag=True, help="Answer agents at /mcp, read only (MCP, streamable HTTP). Needs the extra `mcp`.")
@click.option("--tls-cert", metavar="FILE", help="Certificate (PEM) for TLS.")
@click.option("--tls-key", metavar="FILE", help="Its key (PEM).")
@click.option("--behind-proxy", is_flag=True, help="Trust X-Forwarded-* headers from a TLS-terminating proxy.")
@click.option("--base-url", metavar="URL", help="URL that clients use, if it differs from their Host header.")
@click.option(
    "--writable",
    is_flag=True,
    help="Allow PUT, PATCH, POST and DELETE. Java is needed to create a warehouse, to write to S3, and to update the "
    "tables soon after a write. Without Java a write is saved in the log, and the next command that runs Spark updates "
    "the tables.",
)
@click.option(
    "--allow-anonymous-writes",
    is_flag=True,
    help="With --writable and without --users, only this machine may write, and not through a proxy. This lets anyone write.",
)
@click.option(
    "--allow-origin",
    multiple=True,
    metavar="ORIGIN|*",
    help="Allow cross-origin requests (CORS) from ORIGIN (repeatable): reads, and writes with --writable; *: only reads.",
)
@with_globals
@click.pass_obj
def serve(context: Context, /, allow_origin: tuple[str, ...], **flags: Any) -> int:
    """Serve the catalog over HTTP, as the xRegistry API.

    Browsers see HTML pages at /ui/. It runs until stopped (Ctrl-C, SIGTERM) and needs
    `pip install 'xregistry-lakehouse[serve]'`.
    """
    from lakehouse.serve import Options, run_server

    if flags["mcp"]:
        require("mcp")
    settings = context.settings
    options = Options(registry=context.registry, allow_origin=tuple(allow_origin), **flags)

    def report(url: str, workers: int) -> None:
        ready = {"url": url, "specification": options.specification, "workers": workers}
        click.echo(json.dumps(ready) if context.as_json else f"Serving {url} until stopped.")

    if options.writable:
        _note_unchecked(settings)
    run_server(settings, options, report)
    return 0


def _note_unchecked(settings: Settings) -> None:
    """List the expectations that stop an ingest but no request: they are about tables, which requests do not wait for."""
    from lakehouse.expectations.suites import read_stopping

    left = [f"{suite.name}: {expectation.name}" for suite in read_stopping(settings) for expectation in suite.expectations]
    if left:
        note = f"note: writes over HTTP do not check these expectations, ingests and `lakehouse validate` do: {', '.join(left)}."
        click.echo(printable(note), err=True)


_URL = re.compile(r"\Ahttps?://[^\s#?]+\Z")


@command("lakehouse site --out public/")
@click.option("--out", required=True, metavar="DIR", help="Folder to write; pages of an earlier run are replaced.")
@at_option
@click.option(
    "--base-url", default="", metavar="URL", help="URL at which the pages are published, for canonical links and `curl` lines."
)
@with_globals
@click.pass_obj
def site(context: Context, out: str, at: str | None, base_url: str) -> int:
    """Write the catalog as static web pages.

    Any web server or object store can publish them. Later runs write only what changed.
    """
    from lakehouse.readmodel import ReadModel
    from lakehouse.site import write_site

    if base_url and not _URL.match(base_url):
        raise click.UsageError(
            "--base-url needs an absolute URL without query and fragment, such as https://example.com/catalog."
        )
    with read_model(context) as (_, settings):  # one bar at a time: this one ends before the next begins
        pass
    with ReadModel(settings) as model, _bar(context) as progress:
        processes = os.cpu_count() or 1
        written = write_site(
            model, out, at=at, base_url=base_url, registry=context.registry, progress=progress, processes=processes
        )
    if context.as_json:
        click.echo(json.dumps(written.as_json()))
    else:
        click.echo(
            f"{out}: {written.pages} pages of snapshot {written.snapshot_id}, {written.written} written, "
            f"{written.deleted} deleted, {written.unchanged} unchanged."
        )
    return 0


@contextmanager
def _bar(context: Context) -> Iterator[Any]:
    """Show how many messages and schemas are done, on a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal or context.quiet) as shown:
        task = shown.add_task("writing pages", total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


@command("lakehouse mcp --warehouse /data/warehouse")
@with_globals
@click.pass_obj
def mcp(context: Context) -> int:
    """Answer coding agents on standard input and output (MCP).

    Read only: search, show, list, compare, match_event, render_example, explain_finding, sql. Needs the extra `mcp`.
    """
    require("mcp")
    from lakehouse.agents import CatalogQuestions, make_mcp_server

    with read_model(context) as (model, settings):
        questions = CatalogQuestions(model, context.registry, settings.max_unpacked_bytes)
        make_mcp_server(questions).run("stdio")
    return 0
