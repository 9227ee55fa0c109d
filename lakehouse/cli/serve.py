"""The command that serves the catalog over HTTP."""

from __future__ import annotations

import json
from typing import Any

import click

from lakehouse.cli.console import Context, with_globals
from lakehouse.cli.helping import command
from lakehouse.cli.printing import printable
from lakehouse.extras import require
from lakehouse.settings import Settings
from lakehouse.text.names import RegistryId


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
    options = Options(registry=RegistryId(settings.registry) or None, allow_origin=tuple(allow_origin), **flags)

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

    left = [f"{suite.name}: {one.name}" for suite in read_stopping(settings) for one in suite.expectations]
    if left:
        note = f"note: writes over HTTP do not check these expectations, ingests and `lakehouse validate` do: {', '.join(left)}."
        click.echo(printable(note), err=True)
