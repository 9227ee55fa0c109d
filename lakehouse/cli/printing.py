"""What commands print: tables and summaries for a person, with control characters of data shown and not sent."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table


def show_table(columns: list[str], rows: Any, *, numbers: bool = False) -> None:
    """Print rows as a table: as wide as the terminal, or as the values when there is none."""
    console = Console(width=None if sys.stdout.isatty() else 100_000, highlight=False, soft_wrap=False)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(escape(column), justify="right" if numbers and index else "left", overflow="fold")
    for row in rows:
        table.add_row(*("NULL" if value is None else escape(printable(value)) for value in row))
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def show_summary(summary: dict[str, Any]) -> None:
    """Print the summary of an ingest."""
    documents, snapshot = summary["documents"], summary["snapshot_id"]
    click.echo("Documents: " + ", ".join(f"{count} {name}" for name, count in documents.items()))
    if summary["dialects"]:
        click.echo("Dialects: " + ", ".join(f"{count} {name}" for name, count in summary["dialects"].items()))
    columns = ["table", *next(iter(summary["entities"].values()))]
    show_table(columns, ([table, *map(str, counts.values())] for table, counts in summary["entities"].items()), numbers=True)
    click.echo("Findings: " + ", ".join(f"{count} {name}" for name, count in summary["violations"].items()) + _where(summary))
    if summary.get("dry_run"):
        show_table(["op", "registryid", "xid"], ([row["op"], row["registryid"], row["xid"]] for row in summary["changes"]))
    nothing = "Dry run: nothing was done" if summary.get("dry_run") else "Nothing changed, so no snapshot"
    told = f"Snapshot {snapshot} committed" if snapshot else nothing
    click.echo(f"{told}, in {summary['seconds']['total']:.1f} s.")


def _where(summary: dict[str, Any]) -> str:
    if not any(summary["violations"].values()) or summary.get("dry_run"):
        return "."
    return ". See `lakehouse violations`; only what is new, also in documents not read: `lakehouse violations --ingest last`."


def show_validation(validation: dict[str, Any]) -> None:
    """Print what a validation found: suites, rules with an example each, expectations of tables that do not hold."""
    severities = ("error", "warning", "info")
    suites = validation["suites"].items()
    rows = [[name, str(one["expectations"]), *(str(one["failed"][severity]) for severity in severities)] for name, one in suites]
    show_table(["suite", "expectations", *severities], rows, numbers=True)
    if validation["rules"]:
        click.echo("\nRules that something breaks, with an example:")
        told = [
            [one["rule_id"], one["severity"], str(one["n"]), *(one["examples"][0][key] for key in ("xid", "message"))]
            for one in validation["rules"]
        ]
        show_table(["rule_id", "severity", "findings", "xid", "message"], told)
    failed = [one for one in validation["failed"] if one["suite"] != "specification"]
    if failed:
        click.echo("\nExpectations on tables that do not hold:")
        told = [[one["suite"], one["name"], one["severity"], _outcome(one), one["description"]] for one in failed]
        show_table(["suite", "name", "severity", "found", "description"], told)
    for name in validation["skipped"]:
        click.echo(f"Suite {name} was skipped: its table is not in {validation['schema']}.")
    click.echo(
        f"\nSnapshot {validation['snapshot_id']} validated, in {validation['seconds']['total']:.1f} s. "
        f"{validation['recorded']} new findings in table `violations`. Data Docs: {validation['data_docs']}"
    )


def _outcome(failed: dict[str, Any]) -> str:
    if failed["error"]:
        return f"could not be checked: {failed['error']}"
    return f"{failed['unexpected']} rows" if failed["unexpected"] is not None else str(failed["observed"])


def show_one_message(shown: Any) -> None:
    """Print a message as a person reads it."""
    message = shown.message
    click.echo(f"{printable(message['xid'])}  (registry {printable(message['registryid'])}, chain {message['chain_status']})")
    for step in shown.chain:
        if step["depth"]:
            told = step["base_version_xid"] or step["basemessage"]
            click.echo(f"  extends {printable(told)}  ({step['status']})")
    for reference in shown.schema:
        named = f", type {reference['type_name']}" if reference["type_name"] else ""
        click.echo(printable(f"  schema {reference['target_xid'] or reference['target']}  ({reference['status']}{named})"))
    columns = ["pointer", "value", "origin", "declared_by"]
    click.echo("")
    show_table(columns, ([row[column] for column in columns] for row in shown.attributes))
    click.echo("")
    if shown.endpoints:
        columns = ["endpoint_xid", "via_xid", "usage", "protocol", "options", "matches"]
        show_table(columns, ([_as_text(row[column]) for column in columns] for row in shown.endpoints))
    else:
        click.echo("No endpoint carries it.")


def show_one_entity(shown: Any) -> None:
    """Print a message, another entity or a document as a person reads it."""
    if hasattr(shown, "chain"):
        show_one_message(shown)
    elif hasattr(shown, "document_uri"):
        _show_document(shown)
    else:
        _show_other(shown.as_json())


def _show_other(told: dict[str, Any]) -> None:
    click.echo(printable(f"{told['kind']} {told['xid']}  (registry {told['registryid']}, epoch {told['epoch']})"))
    click.echo(
        printable(
            f"  modified {told['modifiedat']}, in snapshot {told['snapshot_id']}, held by {', '.join(told['document_uris'])}"
        )
    )
    for one in told["references"]:
        click.echo(printable(f"  {one['relation']} {one['target_xid'] or one['target']}  ({one['status']})"))
    for one in told["referred_by"]:
        click.echo(printable(f"  {one['relation']} of {one['source_xid']}"))
    if told["attributes"]:
        click.echo("")
        show_table(["attribute", "value"], ([name, _as_text(value)] for name, value in told["attributes"].items()))
    if told["members"]:
        click.echo("")
        show_table(["holds"], ([xid] for xid in told["members"]))
    if told["messages"]:
        click.echo("")
        columns = ["message_xid", "via_xid", "protocol", "protocol_source", "matches"]
        show_table(columns, ([_as_text(row[column]) for column in columns] for row in told["messages"]))


def _show_document(shown: Any) -> None:
    told = shown.as_json()
    click.echo(printable(f"document {told['document_uri']}  (registry {told['registryid']}, {told['status']})"))
    for name in ("reason", "dialect", "specversion", "size", "sha256", "entities", "quarantined", "spellings"):
        if told[name]:
            click.echo(printable(f"  {name} {_as_text(told[name])}"))
    click.echo(f"  in snapshot {told['snapshot_id']}")
    for one in told["findings"]:
        click.echo(one_line(f"  {one['rule_id']}  {one['severity']}  {one['action']}  {one['pointer'] or one['xid'] or ''}"))
        click.echo(one_line(f"    {one['message']}"))


def lag_of(view: Any) -> dict[str, int]:
    """Tell of which snapshots an answer is, where its effective definitions are of an older one; else nothing."""
    is_behind = view.definitions_snapshot != view.snapshot_id
    return {"snapshot_id": view.snapshot_id, "definitions_snapshot": view.definitions_snapshot} if is_behind else {}


def tell_lag(lag: dict[str, int]) -> None:
    """Tell on standard error what `lag_of` found."""
    if lag:
        tell(
            f"note: the entities are those of snapshot {lag['snapshot_id']}; effective definitions are computed up to snapshot "
            f"{lag['definitions_snapshot']}. An ingest that runs may be at it; else `lakehouse rebuild`."
        )


def show_examples(examples: list[dict[str, Any]]) -> None:
    """Print examples of a message: a line for each protocol."""
    for one in examples:
        told = one.get("error") or json.dumps(one["example"], ensure_ascii=False)
        click.echo(f"\nAn example of it{' as ' + one['as'] if one['as'] else ''}:")
        click.echo("\n".join(printable(line) for line in told.split("\n")))


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def show_exported(exported: dict[str, Any], *, on_stderr: bool) -> None:
    """Print what an export wrote."""
    from lakehouse.export.losses import told_losses

    if exported.get("added"):
        counts = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in exported["added"].items())
        more = sum(exported["added"].values()) - len(exported["added_first"])
        listed = ", ".join(exported["added_first"]) + (f" and {more} more" if more else "")
        click.echo(f"Added, since what was selected needs it: {counts} ({printable(listed)}).", err=on_stderr)
    if exported.get("lost"):
        click.echo(f"Left out, since {exported['dialect']} cannot say it: {exported['lost']}", err=on_stderr)
        for line in told_losses(exported["losses"]):
            click.echo(f"  {one_line(line)}", err=on_stderr)
    told = ", ".join(f"{count} {name}" for name, count in exported["entities"].items())
    if not on_stderr:
        files = f"{exported['files']} file{'s' if exported['files'] != 1 else ''}"
        click.echo(f"{printable(exported['out'])}: {files}, {exported['bytes']} bytes; {told}.")


def show_maintained(maintained: dict[str, Any]) -> None:
    """Print what maintenance did, with the files and bytes of each table before and after."""
    counted = ("files", "bytes", "files_on_disk", "bytes_on_disk")
    done = ("compacted", "removed", "measured")
    if maintained["dry_run"]:
        _show_what_would_be_done(maintained, counted, done)
        return
    rows = [
        [one["table"], *(f"{one['before'][name]} → {one['after'][name]}" for name in counted), *(str(one[name]) for name in done)]
        for one in maintained["tables"]
    ]
    show_table(["table", *counted, *done], rows, numbers=True)
    click.echo(f"{len(maintained['stages'])} stages of dead runs removed, in {maintained['seconds']:.1f} s.")


def _show_what_would_be_done(maintained: dict[str, Any], counted: tuple[str, ...], done: tuple[str, ...]) -> None:
    """Print the tables that a dry run would change, as they are, with the files that would be compacted, removed, measured."""
    changed = [one for one in maintained["tables"] if any(one[name] for name in done)]
    if changed:
        columns = ["table", *counted, *(f"would be {name}" for name in done)]
        rows = (
            [one["table"], *(str(one["before"][name]) for name in counted), *(str(one[name]) for name in done)] for one in changed
        )
        show_table(columns, rows, numbers=True)
    told = f"{len(changed)} of {len(maintained['tables'])} tables would be changed"
    stages = f"{len(maintained['stages'])} stages of dead runs would be removed"
    click.echo(f"Dry run, nothing was done: {told}, {stages}; in {maintained['seconds']:.1f} s.")


def printable(value: str) -> str:
    """Show control characters of data instead of sending them to the terminal."""
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in value)


def one_line(text: str) -> str:
    """Show text of a document in one line."""
    return printable(text.replace("\n", "\\n").replace("\t", "\\t")).rstrip()


def shortened(uri: str) -> str:
    """Return a file's path, relative to the working folder where it is below it; any other URI as it is."""
    if not uri.startswith("file:/"):
        return uri
    path, here = Path("/" + uri.removeprefix("file:").lstrip("/")), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def tell(text: str) -> None:
    """Print on standard error."""
    click.echo(printable(text), err=True)
