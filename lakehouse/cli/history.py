"""Commands about the past: snapshots, label, log, blame, diff (as Markdown too, for a pull request), changes."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from lakehouse.cli.console import (
    BREAKING,
    Context,
    at_option,
    bring_read_model,
    open_spark,
    read_model,
    session,
    with_globals,
    with_globals_but_registry,
)
from lakehouse.cli.helping import command, complete_snapshot, complete_xid
from lakehouse.cli.printing import log_stderr, printable, shortened, show_table
from lakehouse.domain.diff import CLASSES, Difference
from lakehouse.errors import SnapshotNotFound, WarehouseError
from lakehouse.text.names import Xid
from lakehouse.text.timestamps import utc_seconds
from lakehouse.text.xid import is_message

if TYPE_CHECKING:
    from lakehouse.domain.diff import Difference
    from lakehouse.readmodel.snapshotview import View


_PATHS = ("./", "../", "/")  # what begins so names a file or folder, never a snapshot
PLACEHOLDER = "registry.invalid"  # of the default of `events_source`


@command("lakehouse snapshots")
@click.option("--all", "everything", is_flag=True, help="List snapshots that only add a label too.")
@with_globals_but_registry
@click.pass_obj
def snapshots(context: Context, everything: bool) -> int:
    """List the snapshots of the catalog.

    Prints when each was committed, by whom, how many entities changed, and its labels.
    """
    with read_model(context) as (model, _):
        results = [entry.as_json() for entry in model.answer(lambda view: view.snapshots())]
    results = [entry for entry in results if everything or entry["command"] != "label"]
    if context.as_json:
        click.echo(json.dumps(results))
    else:
        columns = ["snapshot_id", "committed_at", "committed_by", "command", "inserted", "updated", "deleted", "labels"]
        results = [
            entry | {"committed_at": utc_seconds(entry["committed_at"]), "labels": ", ".join(entry["labels"])}
            for entry in results
        ]
        rows = ([str(row[name]) for name in columns] for row in results)
        show_table(columns, rows)
    return 0


@command('lakehouse label head release-1 --why "approved on Monday"')
@click.argument("snapshot", shell_complete=complete_snapshot)
@click.argument("name")
@click.option("--why", metavar="TEXT", help="Reason, stored with the label.")
@click.option("--move", is_flag=True, help="Move the name if another snapshot has it.")
@with_globals_but_registry
@click.pass_obj
def label(context: Context, snapshot: str, name: str, why: str | None, move: bool) -> int:
    """Name a snapshot.

    SNAPSHOT is a number, a label, a date, a time, or head (the latest). Every option --at accepts the name.
    """
    from lakehouse.errors import LabelTaken
    from lakehouse.log.snapshotfacts import check_label

    check_label(name)
    with read_model(context) as (model, _):
        resolved, taken = model.answer(lambda view: (view.resolve(snapshot), view.labels().get(name)))
    if taken is not None and taken == (resolved, taken[1] if why is None else why):
        snapshot_id = resolved
    elif taken is not None and taken[0] != resolved and not move:
        raise LabelTaken(name, taken[0])
    else:
        snapshot_id = _label(context, snapshot, name, why, move=move)
    click.echo(json.dumps({"snapshot_id": snapshot_id, "label": name}) if context.as_json else f"{name}: snapshot {snapshot_id}")
    return 0


def _label(context: Context, snapshot: str, name: str, why: str | None, *, move: bool) -> int:
    from lakehouse.log.snapshots import label_snapshot

    spark, settings = open_spark(context)
    snapshot_id = label_snapshot(spark, settings, snapshot, name, why=why, move=move)
    bring_read_model(context, settings)
    return snapshot_id


@command("lakehouse log sensors.TemperatureRead")
@click.argument("xid", shell_complete=complete_xid)
@click.option("--at", metavar="SNAPSHOT", shell_complete=complete_snapshot, help="Leave out changes after this snapshot.")
@click.option("--below", is_flag=True, help="Include everything below the entity, not only its Versions.")
@with_globals
@click.pass_obj
def log(context: Context, xid: str, at: str | None, below: bool) -> int:
    """Show the history of an entity.

    Prints for each change the snapshot, the time, who made it, and what changed as a JSON Patch.
    """
    changes = _read_history(context, xid, at, below=below)
    if context.as_json:
        click.echo(json.dumps([change.as_json() for change in changes], ensure_ascii=False))
        return 0
    for change in changes:
        click.echo(
            printable(
                f"snapshot {change.snapshot_id}  {utc_seconds(change.committed_at)}  {change.committed_by}  {change.command}"
            )
        )
        click.echo(printable(f"  {change.op} {change.kind} {change.xid}  (registry {change.registryid})"))
        for members in change.described():
            click.echo(printable(f"    {members}"))
    return 0


@command("lakehouse blame sensors.TemperatureRead")
@click.argument("xid", shell_complete=complete_xid)
@at_option
@with_globals
@click.pass_obj
def blame(context: Context, xid: str, at: str | None) -> int:
    """Show which snapshot set each attribute of an entity."""
    from lakehouse.query.audit import blame as blame_of

    lines = [blamed.as_json() for blamed in blame_of(_read_history(context, xid, at))]
    if context.as_json:
        click.echo(json.dumps(lines, ensure_ascii=False))
        return 0
    columns = ["pointer", "snapshot_id", "committed_at", "committed_by", "document_uris", "value"]
    for (registryid, entity), attributes in groupby(lines, key=itemgetter("registryid", "xid")):
        click.echo(printable(f"{entity}  (registry {registryid})"))
        rows = (
            {
                **blamed,
                "committed_at": utc_seconds(blamed["committed_at"]),
                "document_uris": ", ".join(map(shortened, blamed["document_uris"])),
                "value": json.dumps(blamed["value"], ensure_ascii=False),
            }
            for blamed in attributes
        )
        show_table(columns, ([printable(str(row[name])) for name in columns] for row in rows))
    return 0


def _read_history(context: Context, xid: str, at: str | None, *, below: bool = False) -> list[Any]:
    from lakehouse.query.audit import read_history
    from lakehouse.readmodel.detail import full_xid
    from lakehouse.readmodel.violationlist import notes_on

    registryid = context.registry
    with read_model(context) as (model, _):

        def ask(view: View) -> tuple[list[Any], list[str]]:
            results = read_history(view, xid, registryid, below=below)
            wanted = Xid(full_xid(view, xid, registryid))
            return results, notes_on(view, xid, registryid, of_message=is_message(wanted))

        results, notes = model.answer(ask, at)
    for note in notes:
        log_stderr(f"note: {note}")
    return list(results)


@command(
    "lakehouse diff release-1 head --breaking",
    "lakehouse diff old/ new/ --markdown",
)
@click.argument("before", metavar="A", shell_complete=complete_snapshot)
@click.argument("after", metavar="B", shell_complete=complete_snapshot)
@click.option("--breaking", is_flag=True, help="List only changes that are breaking or unknown; exit code 4 if one is breaking.")
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request.")
@with_globals
@click.pass_obj
def diff(context: Context, before: str, after: str, breaking: bool, markdown: bool) -> int:
    """Compare two snapshots, or two sets of documents.

    A and B are snapshots (a number, label, date, time, or head: the latest), or files or folders; you need not ingest them
    first. A name that is both is the snapshot; ./NAME is the file. Each difference is classified: does it break producers or
    consumers?
    """
    are_documents = _are_documents(context, before, after)
    results = _diff_documents(context, before, after) if are_documents else _diff_snapshots(context, before, after)
    several = not context.as_json and _of_several_registries(context, results, are_documents=are_documents)
    breaks = any(difference.class_ == "breaking" for difference in results)
    shown = [difference for difference in results if difference.class_ in ("breaking", "unknown")] if breaking else results
    if context.as_json:
        click.echo(json.dumps([difference.as_json() for difference in shown], ensure_ascii=False))
    elif markdown:
        click.echo(printable(as_markdown(shown, before, after, with_registry=several)), nl=False)
    else:
        registry = ["registryid"] if several else []
        columns = ["class", *registry, "kind", "xid", "change", "pointer", "before", "after", "rule"]
        show_table(columns, (_cells(difference, columns) for difference in shown))
        for difference in shown:
            if difference.is_about_schema:
                click.echo(printable(f"{difference.xid}{difference.pointer}: {difference.meaning}"))
    return BREAKING if breaking and breaks else 0


def _are_documents(context: Context, *sides: str) -> bool:
    """Return whether A and B are files or folders; a name that is also that of a snapshot means the snapshot, with a note.

    Raises:
        UsageError: one is a snapshot, the other is not.
    """
    are_paths = [side.startswith(_PATHS) or side.endswith("/") or "*" in side or "://" in side for side in sides]
    exist = [os.path.exists(side) for side in sides]
    results = [exists or "/" in side or "*" in side for exists, side in zip(exist, sides, strict=True)]
    if any(results) and not any(are_paths):
        found = _snapshots_among(context, [side for side, result in zip(sides, results, strict=True) if result])
        results = [result and side not in found for result, side in zip(results, sides, strict=True)]
        if not all(results):  # a name that nothing has is a snapshot that is not there
            results = [result and exists for result, exists in zip(results, exist, strict=True)]
        for side in dict.fromkeys(side for side, exists in zip(sides, exist, strict=True) if exists and side in found):
            log_stderr(f"note: {side} is the snapshot of this name. For the file or folder write ./{side}")
    if any(results) and not all(results):
        raise click.UsageError("A and B must both be snapshots, or both files or folders.")
    return all(results)


def _snapshots_among(context: Context, names: list[str]) -> set[str]:
    """Return those of some names that name a snapshot; none where there is no catalog."""

    def ask(view: View) -> set[str]:
        results = set()
        for name in names:
            with suppress(SnapshotNotFound):
                view.resolve(name)
                results.add(name)
        return results

    try:
        with read_model(context) as (model, _):
            return set(model.answer(ask))
    except WarehouseError:
        return set()


def _cells(difference: Difference, columns: list[str]) -> list[str]:
    """Return a row of `lakehouse diff`; what is in the document of a schema is printed below the table."""
    values = difference.as_json()
    if difference.is_about_schema and difference.pointer not in ("/dataschemauri", "/dataschemaxid", "/defaultversionid"):
        values |= {"before": "(below)", "after": "(below)"}
    return [printable(str(values[name] or "")) for name in columns]


def _of_several_registries(context: Context, results: list[Any], *, are_documents: bool) -> bool:
    """Return whether an XID alone leaves open which entity is meant: the catalog, or the documents, have several registries."""
    registries = {difference.registryid for difference in results}
    if len(registries) == 1 and not are_documents:
        with read_model(context) as (model, _):
            registries |= set(model.answer(lambda view: view.registries()))
    return len(registries) > 1


def _diff_snapshots(context: Context, before: str, after: str) -> list[Any]:
    from lakehouse.readmodel.queries import snapshot_differences

    with read_model(context) as (model, _):
        return snapshot_differences(model, before, after, registryid=context.registry)


def _diff_documents(context: Context, before: str, after: str) -> list[Any]:
    from lakehouse.cli.beforehand import check_sources, is_local
    from lakehouse.query.differences import can_read, diff_documents, diff_files, read_differences

    check_sources(context, [before, after])
    if is_local(context) and can_read(before) and can_read(after):
        return diff_files(context.settings, before, after)
    with (
        session(context, makes_catalog=True) as (spark, settings, watcher),
        watcher.stage("diff", f"{before} to {after}"),
    ):
        return read_differences(diff_documents(spark, settings, [before], [after]))


@command("lakehouse changes --since 1 > events.jsonl")
@click.option(
    "--since",
    default="0",
    metavar="SNAPSHOT",
    shell_complete=complete_snapshot,
    help="Print what changed after this snapshot (default 0: everything).",
)
@click.option(
    "--until", metavar="SNAPSHOT", shell_complete=complete_snapshot, help="Last snapshot to print (default: head, the latest)."
)
@click.option(
    "--format", "form", type=click.Choice(["cloudevents"]), default="cloudevents", help="Format: CloudEvents as JSON lines."
)
@click.option(
    "--feed", "feeds", multiple=True, type=click.Choice(["core", "messagecatalog"]), help="Only this feed (repeatable)."
)
@with_globals
@click.pass_obj
def changes(context: Context, since: str, until: str | None, form: str, feeds: tuple[str, ...]) -> int:
    """Print changes as CloudEvents, one a line, oldest first.

    The same call prints the same events again, ids included. Standard error names the snapshot for the next --since.
    """
    from lakehouse.domain.events import FEEDS
    from lakehouse.log.snapshotfacts import HEAD
    from lakehouse.readmodel.queries import change_events

    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit: the stores in Spark's settings, and no word among the events
        _spark_changes(context, since, until, feeds)
        return 0
    with read_model(context) as (model, settings):
        first = 0 if since == "0" else model.answer(lambda view: view.resolve(since))
        last = model.answer(lambda view: view.resolve(until or HEAD))
        with model.at() as view:
            source, registryid = settings.events_source, context.registry
            for _, event in change_events(view, source, first, last, feeds or FEEDS, registryid=registryid):
                click.echo(event)
    log_stderr(f"events after snapshot {first} up to {last}. Next time: --since {max(first, last)}")
    if PLACEHOLDER in settings.events_source:
        log_stderr(
            f"note: `source` of these events is {settings.events_source}, a placeholder. Set `events_source` in a settings file "
            "(--conf) or LAKEHOUSE_EVENTS_SOURCE to the URL of your registry; {registryid} in it is replaced by the id."
        )
    return 0


def _spark_changes(context: Context, since: str, until: str | None, feeds: tuple[str, ...]) -> None:
    from lakehouse.domain.events import FEEDS
    from lakehouse.log.snapshotfacts import HEAD
    from lakehouse.log.snapshots import resolve_snapshot
    from lakehouse.query.changeevents import change_events
    from lakehouse.store.deltatables import attach_tables

    spark, settings = open_spark(context)
    attach_tables(spark, settings, ["changes"])
    first = 0 if since == "0" else resolve_snapshot(spark, since)
    last = resolve_snapshot(spark, until or HEAD)
    for row in change_events(spark, settings, first, last, feeds or FEEDS, registryid=context.registry).toLocalIterator():
        click.echo(row["event"])


_MAX_VALUE = 60
_MAX_MEANING = 1_000  # what is in a schema, with reasons


def as_markdown(differences: Iterable[Difference], before: str, after: str, *, with_registry: bool = False) -> str:
    """Write differences for a pull request: the breaking ones as a table, the others folded away.

    Args:
        differences: what differs.
        before: name of the earlier state.
        after: name of the later state.
        with_registry: name the registry of each.
    """
    every = list(differences)
    columns = ["registry"] * with_registry + ["entity", "change", "attribute", "before", "after", "meaning"]
    numbers = {name: sum(difference.class_ == name for difference in every) for name in CLASSES}
    counts = ", ".join(f"{number} {name}" for name, number in numbers.items() if number or name != "unknown")
    lines = [f"### Catalog changes from {_cell(before)} to {_cell(after)}", "", f"{counts}.", ""]
    for name in CLASSES:
        rows = [difference for difference in every if difference.class_ == name]
        if rows:
            is_folded = name not in ("breaking", "unknown")
            lines += [f"<details><summary>{len(rows)} {name}</summary>", ""] if is_folded else [f"**{len(rows)} {name}**", ""]
            lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
            lines += list(_markdown_rows(rows, with_registry=with_registry))
            lines += ["", "</details>", ""] if is_folded else [""]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_rows(rows: Iterable[Difference], *, with_registry: bool) -> Iterator[str]:
    for difference in rows:
        hurt = " and ".join(
            side
            for side, effect in (("producers", difference.for_producers), ("consumers", difference.for_consumers))
            if effect == "breaking"
        )
        meaning = difference.meaning + (f" (breaks {hurt})" if hurt else "")
        registry = [f"`{difference.registryid}`"] if with_registry else []
        cells = [
            *registry,
            f"{difference.kind} `{difference.xid}`",
            difference.change,
            difference.pointer,
            difference.before or "",
            difference.after or "",
        ]
        yield "| " + " | ".join([*(_cell(cell) for cell in cells), _cell(meaning, most=_MAX_MEANING)]) + " |"


def _cell(text: str, most: int = _MAX_VALUE) -> str:
    shown = " ".join(text.split())
    shown = shown if len(shown) <= most or "`" in shown else shown[: most - 1] + "…"
    return shown.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
