"""The command that sends this catalog's changes to another one."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import click

from lakehouse.cli.console import REFUSED, Context, exit_zero_option, with_globals
from lakehouse.cli.helping import command
from lakehouse.cli.printing import one_line, tell
from lakehouse.cli.replicate.pull import Seconds, until_stopped


@command("lakehouse replicate push https://catalog.example/ --follow")
@click.argument("url", metavar="URL")
@click.option(
    "--group", "groups", multiple=True, metavar="ID", help="Only this message group, or the entity with this XID (repeatable)."
)
@click.option("--authority", metavar="URI", help="Authority of the target, whose messages are not sent back (default: URL).")
@click.option("--follow", is_flag=True, help="Repeat until stopped.")
@click.option("--every", type=Seconds(), default="10s", help="Time between two rounds (default 10s).")
@exit_zero_option
@with_globals
@click.pass_obj
def push(context: Context, /, url: str, groups: tuple[str, ...], **flags: Any) -> int:
    """Send the changes of this catalog to another server.

    The xRegistry server at URL must accept writes. User and password can be given in URL, or in LAKEHOUSE_TARGET_USER and
    LAKEHOUSE_TARGET_PASSWORD, or a token in LAKEHOUSE_TARGET_TOKEN. Needs no Java.
    """
    from lakehouse.replicate.address import read_address
    from lakehouse.replicate.pull import read_scope
    from lakehouse.replicate.push import Push, Pusher
    from lakehouse.replicate.state import open_state

    settings = context.settings
    target = read_address(url, "TARGET")
    if target.is_plain:
        tell("warning: user, password or token go over http for everybody on the way to read; use https.")
    asked = Push(target, read_scope(groups), flags["authority"])
    with open_state(settings, target.url, asked.scope, "push") as state, closing(Pusher(settings, asked, state)) as pusher:

        def run() -> bool:
            pushed = pusher.run()
            if context.as_json:
                click.echo(json.dumps({"target": target.url} | pushed.as_json()))
                return bool(pushed.refused)
            counts = f"{pushed.written} written, {pushed.deleted} deleted, {pushed.left} left out, {len(pushed.refused)} refused"
            click.echo(one_line(f"{target.url}: snapshot {pushed.snapshot}: {counts}."))
            for xid, reason in pushed.refused[:20]:
                tell(one_line(f"refused: {xid}: {reason}"))
            return bool(pushed.refused)

        refused = until_stopped(run, lambda stopped: stopped.wait(flags["every"])) if flags["follow"] else run()
    return REFUSED if refused and not flags["exit_zero"] else 0
