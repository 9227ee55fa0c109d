"""What all commands share: the global options, the session and its progress, exit codes."""

from __future__ import annotations

import functools
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from lakehouse.cli.helping import GLOBALS, complete_snapshot
from lakehouse.cli.printing import log_stderr, printable
from lakehouse.progress import EverySeconds, Periodic, Unwatched, period
from lakehouse.settings import Settings, read_settings
from lakehouse.text.names import RegistryId

REFUSED = 3
BREAKING = 4
at_option = click.option(
    "--at",
    metavar="SNAPSHOT",
    shell_complete=complete_snapshot,
    help="The catalog as of SNAPSHOT: a number, label, date, time, or head (the latest).",
)
EVENT_FORMATS = ("json", "har", "kafka", "cloudevents", "eventhubs", "http", "mqtt", "amqp", "delta", "parquet", "avro")
exit_zero_option = click.option("--exit-zero", is_flag=True, help="Exit with 0, not 3, if something was rejected.")


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that say how sources of events are read: form, mapping, protocol."""
    for option in (
        click.option("--protocol", metavar="NAME", help="Protocol of the events, if no column has it: KAFKA, MQTT/5.0, …"),
        click.option(
            "--map",
            "mapping",
            metavar="FILE",
            help="For sources with other column names: TOML or JSON file with an SQL expression for each field of an event "
            "(payload, …).",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(EVENT_FORMATS),
            help="Format of the sources (default: detected by their fields).",
        ),
    ):
        command = option(command)
    return command


def stop_signals() -> Callable[[], bool]:
    """Return what says whether SIGINT or SIGTERM came since now; to be called after a Spark session took Ctrl-C for itself."""
    stopped: list[int] = []
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda number, _: stopped.append(number))
    return lambda: bool(stopped)


class Context:
    """What the global options said, wherever they stood."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}
        self.begun = time.monotonic()
        self.run: Any = None  # as soon as Spark is wanted

    def begin(self, settings: Settings) -> Any:
        """Begin to record the run: its stages, figures and lineage; one that has begun goes on."""
        from lakehouse.cli.telemetry import CommandRun

        if self.run is not None:
            return self.run
        called = click.get_current_context()
        inputs = called.params.get("sources") or ()
        self.run = CommandRun(
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
        """Report to machines how the run ended."""
        if self.run is not None:
            self.run.end(exit_code, error)

    @property
    def settings(self) -> Settings:
        """Read the settings under the options."""
        return read_settings(self.options.get("conf"), **{key: self.options.get(key) for key in ("warehouse", "registry")})

    @property
    def registry(self) -> RegistryId | None:
        """Return the registry that the command looks at, by the option, the environment or the settings file; None: all."""
        return RegistryId(self.settings.registry) or None

    @property
    def as_json(self) -> bool:
        """Return whether standard output takes one JSON value and nothing else."""
        return bool(self.options.get("as_json"))

    @property
    def quiet(self) -> bool:
        """Return whether nothing but the result is printed."""
        return bool(self.options.get("quiet"))


def with_globals(command: Callable[..., Any], *, takes_registry: bool = True) -> Callable[..., Any]:
    """Add the global options to a command, so that they may be before or after its name.

    Args:
        command: the command.
        takes_registry: it can look at one registry; if not, `--registry` is refused, and a registry of the environment or the
            settings file does not count.
    """

    @click.option("--warehouse", metavar="DIR", help="Folder or URI of the catalog (default ./warehouse).")
    @click.option(
        "--registry",
        metavar="ID",
        hidden=not takes_registry,
        help="Use just this registry; for `ingest`: the one to load into.",
    )
    @click.option("--conf", metavar="FILE", help="Settings file, see docs/settings.md.")
    @click.option("--json", "as_json", is_flag=True, default=None, help="Print one JSON value; all else goes to standard error.")
    @click.option("--quiet", is_flag=True, default=None, help="Print no progress.")
    @click.option("--log-json", is_flag=True, default=None, help="Print a JSON line for each step of the run on standard error.")
    @click.option("--metrics", metavar="FILE", help="Write metrics of the run into FILE (OpenMetrics).")
    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        context = click.get_current_context().ensure_object(Context)
        options = {key: kwargs.pop(key) for key in GLOBALS}
        context.options |= {key: value for key, value in options.items() if value is not None}
        if not takes_registry and context.options.get("registry"):
            raise click.UsageError("--registry: this command does not work on one registry only. Leave the option out.")
        return command(*args, **kwargs)

    return run


with_globals_but_registry = functools.partial(with_globals, takes_registry=False)


@contextmanager
def session(
    context: Context, adapt: Callable[[Settings], Settings] = lambda settings: settings, *, makes_catalog: bool = False
) -> Iterator[tuple[Any, Settings, Any]]:
    """Start Spark and show progress: the session, the settings, and the watcher of the stages.

    Args:
        context: of the command.
        adapt: what the command makes of the settings.
        makes_catalog: the warehouse need not be there.

    Raises:
        WarehouseError: the warehouse is a folder that does not exist.
    """
    from lakehouse.store.localpaths import local_path, no_catalog
    from lakehouse.store.session import open_session

    settings = adapt(context.settings)
    run = context.begin(settings)
    folder = None if makes_catalog or "PYSPARK_GATEWAY_PORT" in os.environ else local_path(settings.warehouse)
    if folder is not None and not folder.exists():
        raise no_catalog(settings.warehouse, "changes")
    with progress_of(context) as shown:
        watcher = run.watch(shown)
        with watcher.stage("session", "starting Spark"):
            spark = open_session(settings)
        yield spark, settings, watcher


@contextmanager
def read_model(context: Context) -> Iterator[tuple[Any, Settings]]:
    """Open the read model, up to date: no Spark, no Java. Where it is built first, a bar shows how far that is."""
    from lakehouse.readmodel import open_model

    settings = context.settings
    if context.options.get("log_json") or context.options.get("metrics"):
        context.begin(settings)
    with bar(context) as progress, open_model(settings, progress=progress) as model:
        yield model, settings


def bring_read_model(context: Context, settings: Settings, watcher: Any = None, summary: Any = None) -> None:
    """Update the read model after a commit, which remains valid if that fails.

    Args:
        context: of the command.
        settings: the warehouse.
        watcher: receives the stage.
        summary: of the ingest that committed, which counts the seconds as its stage `index`.
    """
    from lakehouse.readmodel import open_model

    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit: nobody asks quick questions where the driver runs
        return
    begun = time.monotonic()
    try:
        with (watcher or Unwatched()).stage("index", "quick commands follow"):
            open_model(settings).close()
    except Exception as error:
        log_stderr(f"note: quick commands will follow later: {error}")
    if summary is not None:
        summary.add_stage("index", time.monotonic() - begun)


@contextmanager
def bar(context: Context) -> Iterator[Any]:
    """Show on a terminal how far the read model is built: a function that takes the rows done, and of how many."""
    console = Console(stderr=True)
    is_shown = console.is_terminal and not context.quiet
    every = None if is_shown or context.quiet else EverySeconds(period())
    with Progress(console=console, transient=True, disable=not is_shown) as shown:
        tasks: list[Any] = []

        def progress(done: int, total: int | None) -> None:
            if every is not None and every.is_due():
                log_stderr(f"reading the catalog for quick commands: {done:,}{f' of {total:,}' if total else ''} rows")
            if not tasks:
                tasks.append(shown.add_task("reading the catalog for quick commands", total=total))
            shown.update(tasks[0], completed=done)

        yield progress


def open_spark(context: Context) -> tuple[Any, Settings]:
    """Start Spark for a command that has one step only."""
    with session(context) as (spark, settings, _):
        return spark, settings


@contextmanager
def progress_of(context: Context) -> Iterator[Any]:
    """Provide the watcher that shows the stages of a run, on a terminal as bars."""
    console = Console(stderr=True)
    shown = console.is_terminal and not context.quiet
    with Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True, disable=not shown
    ) as progress:
        if shown:
            yield _Spinner(progress)
        elif context.quiet or context.options.get("log_json"):
            yield Unwatched()
        else:
            yield Periodic(log_stderr, period())


class _Spinner:
    """Shows stages on a terminal: a spinner with the time while one runs."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress

    @contextmanager
    def stage(self, name: str, detail: str) -> Iterator[None]:
        begun = time.monotonic()
        task = self.progress.add_task(f"{name:8} {escape(printable(detail))[:100]}", total=None)
        try:
            yield
        finally:
            self.progress.remove_task(task)
        self.progress.console.print(
            f"[dim]{name:8} {time.monotonic() - begun:6.1f} s  {escape(printable(detail))}[/dim]", highlight=False
        )
