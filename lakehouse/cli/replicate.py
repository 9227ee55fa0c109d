"""The command `lakehouse replicate`: copies from other catalogs into this one, and from this one into others."""

from __future__ import annotations

import json
import signal
import threading
from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from lakehouse.cli.console import REFUSED, Context, bring_read_model, exit_zero_option, session, with_globals
from lakehouse.cli.helping import command, group
from lakehouse.cli.printing import log_stderr, one_line, show_summary
from lakehouse.errors import ReplicationError
from lakehouse.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakehouse.replicate.pull import Fetched, Puller


_UNITS = {"s": 1, "m": 60, "h": 3600}


class Seconds(click.ParamType[int]):
    """A span of time: `60s`, `5m`, `1h`, or seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the seconds."""
        if isinstance(value, int):
            return value
        number, unit = (value[:-1], value[-1]) if value[-1:] in _UNITS else (value, "s")
        if not (number.isascii() and number.isdigit() and int(number)):
            self.fail(f"{value!r} is not a time such as 60s, 5m or 1h.", param, ctx)
        return int(number) * _UNITS[unit]


@command(
    "lakehouse replicate pull https://catalog.example/ --into shop",
    "lakehouse replicate pull https://catalog.example/ --follow --every 5m",
    sections={
        "What to copy": ("into", "groups", "protocol", "authority", "force", "strict", "exit_zero"),
        "Following the source": ("follow", "every", "on_events", "listen", "sink"),
    },
)
@click.argument("url", metavar="URL")
@click.option("--into", metavar="REGISTRY", help="Registry to load into (default: the id of the source).")
@click.option(
    "--group", "groups", multiple=True, metavar="ID", help="Only this message group, or the entity with this XID (repeatable)."
)
@click.option(
    "--protocol",
    type=click.Choice(["auto", "xregistry", "messagecatalog"]),
    default="auto",
    help="API of the source: xRegistry or the CNCF draft (default: detected).",
)
@click.option("--authority", metavar="URI", help="Authority of messages that have none.")
@click.option("--follow", is_flag=True, help="Repeat until stopped.")
@click.option("--every", type=Seconds(), default="60s", help="Longest time between two rounds (default 60s).")
@click.option("--on-events", is_flag=True, help="As --follow, and at once when the source sends a change event.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    metavar="HOST:PORT",
    help="Address that receives the events (default 127.0.0.1, a free port).",
)
@click.option("--sink", metavar="URL", help="URL by which the source reaches --listen, if it differs.")
@click.option("--force", is_flag=True, help="Fetch everything again, and let more than half of the entities be deleted.")
@click.option("--strict", is_flag=True, help="Reject a whole document when it has an error.")
@exit_zero_option
@with_globals
@click.pass_obj
def pull(context: Context, /, url: str, into: str | None, groups: tuple[str, ...], **flags: Any) -> int:
    """Copy the catalog at URL into this one.

    Runs once, continuously (--follow), or on change events (--on-events). What was deleted there is deleted here.
    User and password can be given in URL, or in LAKEHOUSE_SOURCE_USER and LAKEHOUSE_SOURCE_PASSWORD, or a token in
    LAKEHOUSE_SOURCE_TOKEN.
    """
    from lakehouse.replicate.client import read_address
    from lakehouse.replicate.pull import Pull, Puller, read_scope
    from lakehouse.replicate.state import open_state

    if into is not None:
        context.options["registry"] = into
    settings = context.settings
    source = read_address(url, "SOURCE")
    if source.is_plain:
        log_stderr("warning: user, password or token go over http for everybody on the way to read; use https.")
    options = {name: flags[name] for name in ("protocol", "authority", "force", "strict")}
    job = Pull(source, read_scope(groups), **options)

    def report_progress(path: str, done: int, of: int) -> None:
        if not context.quiet and not context.as_json and of > 1:
            log_stderr(one_line(f"fetch    {done + 1}/{of}  {path}"))

    with open_state(settings, source.url, job.scope, job.protocol) as state, ExitStack() as stack:
        puller = stack.enter_context(closing(Puller(settings, job, state, report_progress)))
        rounds = _Rounds(context, puller, stack)
        if flags["on_events"]:
            refused = _on_events(rounds, flags)
        elif flags["follow"]:
            refused = until_stopped(rounds.run, lambda stopped: stopped.wait(flags["every"]))
        else:
            refused = rounds.run()
    return REFUSED if refused and not flags["exit_zero"] else 0


def until_stopped(run: Callable[[], bool], wait: Callable[[threading.Event], Any]) -> bool:
    """Run rounds until SIGINT or SIGTERM; True when something was refused. One that fails is reported, and the next one comes."""
    stopped = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: stopped.set())
    refused = False
    while not stopped.is_set():
        try:
            refused = run() or refused
        except ReplicationError as error:
            log_stderr(f"error: {error}")
        wait(stopped)
    return refused


def _on_events(rounds: _Rounds, flags: dict[str, Any]) -> bool:
    """Run a round whenever the source says that something changed, and now and then without."""
    from lakehouse.replicate.subscriber import Listener, Subscriber

    puller = rounds.puller
    host, _, port = flags["listen"].rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise click.UsageError("--listen is HOST:PORT, such as 127.0.0.1:0.")
    listener = rounds.stack.enter_context(closing(Listener(host.strip("[]"), int(port), puller.options.scope)))
    subscriber = Subscriber(puller.client, puller.state, flags["sink"] or listener.url, listener.token, puller.options.scope)
    rounds.stack.callback(subscriber.end)
    log_stderr(f"listening for events at {listener.url}")

    def run() -> bool:
        subscriber.keep()
        return rounds.run()

    return until_stopped(run, lambda stopped: listener.wait(flags["every"], stopped))


class _Rounds:
    """Rounds of pulling; Spark is started when the first one has something to load."""

    def __init__(self, context: Context, puller: Puller, stack: ExitStack) -> None:
        self.context = context
        self.puller = puller
        self.stack = stack
        self.opened: tuple[Any, Any, Any] | None = None

    def run(self) -> bool:
        """Run a round; True when something was refused."""
        fetched = self.puller.fetch()
        if not fetched.is_changed:
            self._show(fetched, None)
            return bool(fetched.refused)
        if self.opened is None:
            self.opened = self.stack.enter_context(session(self.context, makes_catalog=True))
        spark, settings, watcher = self.opened
        summary = self.puller.load(spark, fetched, watcher)
        if summary.snapshot_id is not None:
            bring_read_model(self.context, settings, watcher, summary)
        self.puller.options = replace(self.puller.options, force=False)  # of rounds that follow
        self._show(fetched, summary.as_json())
        return bool(summary.refused or fetched.refused)

    def _show(self, fetched: Fetched, summary: dict[str, Any] | None) -> None:
        members = {"source": self.puller.options.source.url, **fetched.as_json(), "ingest": summary}
        if self.context.run is not None:
            self.context.run.result = summary or {}
        if self.context.as_json:
            click.echo(json.dumps(members))
            return
        if summary is None:
            click.echo(one_line(f"{members['source']}: nothing changed."))
            self._report_refused(fetched)
            return
        what = f"{len(fetched.units)} documents, {len(fetched.changed)} changed, {len(fetched.vanished)} vanished"
        click.echo(one_line(f"{members['source']}: {what}; {fetched.requests} requests, {fetched.received} bytes."))
        self._report_refused(fetched)
        show_summary(summary)

    def _report_refused(self, fetched: Fetched) -> None:
        if fetched.refused:
            line = f"{len(fetched.refused)} unchanged documents hold what was refused before: `lakehouse violations` shows it."
            click.echo(one_line(line))


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
    from lakehouse.replicate.client import read_address
    from lakehouse.replicate.pull import read_scope
    from lakehouse.replicate.push import Push, Pusher
    from lakehouse.replicate.state import open_state

    settings = context.settings
    target = read_address(url, "TARGET")
    if target.is_plain:
        log_stderr("warning: user, password or token go over http for everybody on the way to read; use https.")
    job = Push(target, read_scope(groups), flags["authority"])
    with open_state(settings, target.url, job.scope, "push") as state, closing(Pusher(settings, job, state)) as pusher:

        def run() -> bool:
            pushed = pusher.run()
            if context.as_json:
                click.echo(json.dumps({"target": target.url} | pushed.as_json()))
                return bool(pushed.refused)
            counts = f"{pushed.written} written, {pushed.deleted} deleted, {pushed.left} left out, {len(pushed.refused)} refused"
            click.echo(one_line(f"{target.url}: snapshot {pushed.snapshot}: {counts}."))
            for xid, reason in pushed.refused[:20]:
                log_stderr(one_line(f"refused: {xid}: {reason}"))
            return bool(pushed.refused)

        refused = until_stopped(run, lambda stopped: stopped.wait(flags["every"])) if flags["follow"] else run()
    return REFUSED if refused and not flags["exit_zero"] else 0


@group("lakehouse replicate pull https://catalog.example/ --into shop")
@with_globals
def replicate() -> None:
    """Copy from and to other catalogs.

    Other catalogs are xRegistry servers, and servers of the CNCF catalog draft. Needs the extra `replicate`.
    """
    require("urllib3")


replicate.add_command(pull)
replicate.add_command(push)
