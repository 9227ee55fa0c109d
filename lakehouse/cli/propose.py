"""The command that proposes definitions from events: propose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from lakehouse.cli.console import REFUSED, Context, reading_options, session, stop_signals, with_globals
from lakehouse.cli.helping import command
from lakehouse.cli.printing import show_table
from lakehouse.text.names import RegistryId

if TYPE_CHECKING:
    from lakehouse.propose.proposalruns import ProposeOptions, ProposeSummary

PROPOSED = "proposed"  # the registry of accepted proposals


@command(
    "lakehouse propose landed.jsonl --out proposals/",
    "lakehouse propose s3a://landing/orders/ --format kafka --out proposals/ --accept",
    sections={
        "The events": ("form", "mapping", "protocol"),
        "What is decided": ("required_events", "required_days", "enums", "no_values"),
        "The results": ("out", "accept"),
        "Watching a source": ("watch", "available_now", "every"),
    },
)
@click.argument("sources", nargs=-1, metavar="SOURCE...", required=True)
@click.option("--out", metavar="DIR", required=True, help="Folder for a document and a page of evidence for each group.")
@reading_options
@click.option(
    "--required-events",
    type=click.IntRange(1),
    default=1_000,
    metavar="N",
    help="Declare a member as required if all of at least N objects had it (default 1000), …",
)
@click.option(
    "--required-days", type=click.IntRange(0), default=2, metavar="N", help="… which were seen on at least N days (default 2)."
)
@click.option("--enums", is_flag=True, help="Declare enumerations, not examples, where many events had few values.")
@click.option("--no-values", is_flag=True, help="Neither store nor write values of events: no constants, no examples.")
@click.option("--accept", is_flag=True, help="Load the documents into the registry `proposed`.")
@click.option("--watch", is_flag=True, help="Count new events of a Delta table or folder, until stopped.")
@click.option("--available-now", is_flag=True, help="As --watch, but stop once everything is counted.")
@click.option("--every", type=click.IntRange(1), default=10, help="Seconds between two checks of --watch (default 10).")
@with_globals
@click.pass_obj
def propose(context: Context, /, sources: tuple[str, ...], **flags: Any) -> int:
    """Propose definitions for events that match none.

    SOURCE is what `match` reads. Events that match no definition are counted in a table, and definitions are decided from all
    counts so far: types, required members, values and templates. Review the documents and their evidence before you load
    them; nothing is published without --accept.
    """
    from lakehouse.cli.beforehand import check_sources
    from lakehouse.propose.proposalruns import run_propose, watch_proposals
    from lakehouse.store.localpaths import check_target

    watched = flags["watch"] or flags["available_now"]
    if watched and len(sources) != 1:
        raise click.UsageError("--watch takes one SOURCE.")
    check_sources(context, [source for source in sources if "/" in source])
    check_target(flags["out"], to_folder=True)
    options = _options(context, sources, flags)
    code = 0
    with session(context, makes_catalog=True) as (spark, settings, watcher):

        def report(summary: ProposeSummary) -> None:
            nonlocal code
            write_and_show(context, summary, flags["out"], options)
            if flags["accept"] and summary.files:
                code = accept(context, spark, settings, watcher, summary)

        if watched:
            every = None if flags["available_now"] else flags["every"]
            watch_proposals(spark, settings, options, report, stop_signals(), every=every)
        else:
            report(run_propose(spark, settings, options, watcher))
    return code


def _options(context: Context, sources: tuple[str, ...], flags: dict[str, Any]) -> ProposeOptions:
    from lakehouse.match.event.adapters import read_map
    from lakehouse.propose.decided import Thresholds
    from lakehouse.propose.proposalruns import ProposeOptions

    thresholds = Thresholds(flags["required_events"], flags["required_days"], enums=flags["enums"])
    mapping = read_map(flags["mapping"]) if flags["mapping"] else None
    registry = RegistryId(context.settings.registry) or None
    form, protocol = flags["form"], flags["protocol"]
    return ProposeOptions(sources, form, mapping, protocol, registry, thresholds, not flags["no_values"])


def write_and_show(context: Context, summary: ProposeSummary, out: str, options: ProposeOptions) -> None:
    """Write the documents and pages of a run, and print what they are."""
    from lakehouse.propose.proposalruns import write_proposals

    write_proposals(summary, out, options.thresholds)
    context.run.result = summary.as_json()
    _show(context, summary.as_json())


def accept(context: Context, spark: Any, settings: Any, watcher: Any, summary: ProposeSummary) -> int:
    """Load the documents into the registry of proposals."""
    from lakehouse.cli.printing import show_summary
    from lakehouse.ingest.pipeline import ingest

    documents = [file for file in summary.files if file.endswith(".json")]
    loaded = ingest(spark, settings.model_copy(update={"registry": PROPOSED}), documents, watcher=watcher)
    if not context.as_json:
        show_summary(loaded.as_json())
    return REFUSED if loaded.refused else 0


def _show(context: Context, summary: dict[str, Any]) -> None:
    if context.as_json:
        click.echo(json.dumps(summary, ensure_ascii=False))
        return
    counts = ", ".join(f"{summary[name]:,} {name}" for name in ("read", "matched", "invalid", "unmatched", "unreadable"))
    click.echo(f"Events: {counts}.")
    if summary["kinds"]:
        show_table(
            ["kind", "events", "group"], [[kind["kind"], f"{kind['events']:,}", kind["group"]] for kind in summary["kinds"]]
        )
    if summary["schemas"]:
        rows = [
            [f"{schema['registryid']}{schema['comparedwith']}", f"{schema['events']:,}", schema["versionid"] or ""]
            for schema in summary["schemas"]
        ]
        show_table(["schema that events break", "events", "proposed"], rows)
    for file in summary["files"]:
        click.echo(f"written: {file}")
