"""The command that writes the catalog as web pages."""

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

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        written = write_site(model, out, at=at, base_url=base_url, progress=progress, processes=os.cpu_count() or 1)
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
