"""What commands print: tables and summaries for a person, with control characters of data shown and not sent."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import click
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lakehouse.text.timestamps import utc_seconds
from lakehouse.text.xid import last_id

_MOST_PADDING = 100  # one long value does not widen all rows of piped output
_FOLDED = 24  # columns of text that is folded have at least this width
_LONGEST_ID = 250


def prepare_streams() -> None:
    """Make standard output and standard error take any text, so that printing what was done never fails.

    Characters that the encoding lacks are written as escapes; what goes to a stream that was closed before the start is dropped.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.BufferedWriter(io.FileIO(os.devnull, "w")), encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def show_table(columns: list[str], rows: Any, *, numbers: bool = False) -> None:
    """Print rows as a table. On a terminal texts are folded to its width, XIDs and other values without a space never.

    Args:
        columns: their names.
        rows: values of each row; None is NULL.
        numbers: columns but the first are numbers.
    """
    lines = [["NULL" if value is None else printable(value) for value in row] for row in rows]
    if sys.stdout.isatty():
        _show_folded(columns, lines, numbers=numbers)
        return
    lines = [columns, *([one_line(value) for value in row] for row in lines)]
    widths = [min(_MOST_PADDING, max(map(cell_len, values))) for values in zip(*lines, strict=True)]
    for row in lines:
        cells = (
            _padded(value, width, is_right=numbers and index > 0)
            for index, (value, width) in enumerate(zip(row, widths, strict=True))
        )
        click.echo("  ".join(cells).rstrip())


def _padded(value: str, width: int, *, is_right: bool) -> str:
    space = " " * (width - cell_len(value))
    return space + value if is_right else value + space


def _longest_path(values: list[str]) -> int:
    words = (cell_len(word) for value in values if "/" in value for word in value.split() if "/" in word)
    return max((width for width in words if width <= _LONGEST_ID), default=0)


def _show_folded(columns: list[str], rows: list[list[str]], *, numbers: bool) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    least = 0
    for index, column in enumerate(columns):
        values = [column, *(row[index] for row in rows)]
        longest = max(cell_len(line) for value in values for line in value.split("\n"))
        is_whole = longest <= _LONGEST_ID and not any(character.isspace() for value in values for character in value)
        width = longest if is_whole else max(min(longest, _FOLDED), _longest_path(values))
        least += width + 2
        justify: Literal["left", "right"] = "right" if numbers and index else "left"
        table.add_column(escape(column), justify=justify, min_width=width, no_wrap=is_whole, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, row))
    console = Console(highlight=False, soft_wrap=False)
    console.width = max(console.width, least)  # a terminal breaks longer lines itself, and copies them whole
    with console.capture() as printed:
        console.print(table)
    for line in printed.get().splitlines():
        click.echo(line.rstrip())


def show_summary(summary: dict[str, Any]) -> None:
    """Print the summary of an ingest."""
    documents, snapshot = summary["documents"], summary["snapshot_id"]
    click.echo("Documents: " + ", ".join(f"{count} {name}" for name, count in documents.items()))
    if summary["dialects"]:
        click.echo("Dialects: " + ", ".join(f"{name} ({count})" for name, count in summary["dialects"].items()))
    columns = ["table", *next(iter(summary["entities"].values()))]
    show_table(columns, ([table, *map(str, counts.values())] for table, counts in summary["entities"].items()), numbers=True)
    click.echo(f"Findings: {counted_findings(summary['violations']) or 'none'}{_where(summary)}")
    if summary.get("dry_run"):
        show_table(["op", "registryid", "xid"], ([row["op"], row["registryid"], row["xid"]] for row in summary["changes"]))
    nothing = "Dry run: nothing was written" if summary.get("dry_run") else "Nothing changed: no new snapshot"
    first = f"Snapshot {snapshot} committed" if snapshot else nothing
    click.echo(f"{first} ({summary['seconds']['total']:.1f} s).")


def counted_findings(counts: Mapping[str, int]) -> str:
    """Return how many findings there are of each severity that has any: `2 errors, 1 info`."""
    named = ((counts.get(name, 0), name) for name in ("error", "warning", "info"))
    return ", ".join(f"{count:,} {name}{'s' * (count > 1 and name != 'info')}" for count, name in named if count)


def _where(summary: dict[str, Any]) -> str:
    if not any(summary["violations"].values()) or summary.get("dry_run"):
        return "."
    return ". Run `lakehouse violations` for details (`--ingest last`: new findings only)."


def show_validation(validation: dict[str, Any]) -> None:
    """Print what a validation found: suites, rules with an example each, expectations of tables that do not hold."""
    severities = ("error", "warning", "info")
    suites = validation["suites"].items()
    rows = [
        [name, str(suite["expectations"]), *(str(suite["failed"][severity]) for severity in severities)] for name, suite in suites
    ]
    show_table(["suite", "expectations", *severities], rows, numbers=True)
    if validation["rules"]:
        click.echo("\nBroken rules, with an example each:")
        cells = [
            [rule["rule_id"], rule["severity"], str(rule["n"]), *(rule["examples"][0][key] for key in ("xid", "message"))]
            for rule in validation["rules"]
        ]
        show_table(["rule_id", "severity", "findings", "xid", "message"], cells)
    failed = [expectation for expectation in validation["failed"] if expectation["suite"] != "specification"]
    if failed:
        click.echo("\nFailed expectations on tables:")
        cells = [
            [
                expectation["suite"],
                expectation["name"],
                expectation["severity"],
                _outcome(expectation),
                expectation["description"],
            ]
            for expectation in failed
        ]
        show_table(["suite", "name", "severity", "found", "description"], cells)
    for name in validation["skipped"]:
        click.echo(f"Suite {name} was skipped: its table is not in {validation['schema']}.")
    click.echo(
        f"\nSnapshot {validation['snapshot_id']} validated ({validation['seconds']['total']:.1f} s). "
        f"{validation['recorded']} new findings in table `violations`. Data Docs: {validation['data_docs']}"
    )


def _outcome(failed: dict[str, Any]) -> str:
    if failed["error"]:
        return f"could not be checked: {failed['error']}"
    return f"{failed['unexpected']} rows" if failed["unexpected"] is not None else str(failed["observed"])


def show_message(shown: Any) -> None:
    """Print a message as a person reads it: long XIDs once, at the top."""
    message = shown.message
    click.echo(f"{printable(message['xid'])}  (registry {printable(message['registryid'])}, chain {message['chain_status']})")
    for step in shown.chain:
        if step["depth"]:
            base = step["base_version_xid"] or step["basemessage"]
            click.echo(f"  base {step['depth']}: {printable(base)}  ({step['status']})")
    for reference in shown.schema:
        named = f", type {reference['type_name']}" if reference["type_name"] else ""
        click.echo(printable(f"  schema {reference['target_xid'] or reference['target']}  ({reference['status']}{named})"))
    click.echo("")
    _show_attributes(shown.attributes)
    click.echo("")
    if shown.endpoints:
        columns = ["endpoint_xid", "usage", "protocol", "matches", "options"]
        rows = ({**row, "usage": ", ".join(row["usage"]), "options": _pairs(row["options"])} for row in shown.endpoints)
        show_table(columns, ([_as_text(row[column]) for column in columns] for row in rows))
    else:
        click.echo("No endpoint carries it.")
    for change in shown.changes:
        _show_change(change)


def _show_change(change: dict[str, Any]) -> None:
    """Print what differs between a Version and the one that it was made from, and at which endpoints that breaks someone."""
    click.echo(printable(f"\n{change['version']}, compared with Version {last_id(change['comparedwith'])}:"))
    for difference in change["differences"]:
        answers = difference["breaks"].values()
        word = "breaking" if "yes" in answers else "unknown" if "unknown" in answers else "compatible"
        click.echo(
            printable(
                f"  {word:<10} {difference['pointer'] or 'the whole'}: {difference['what']}. {difference['reason']}".rstrip()
            )
        )
    if change.get("more"):
        click.echo(f"  and {change['more']} more")
    for side, xids in change["endpoints"].items():
        click.echo(printable(f"  It breaks {side} at {', '.join(xids)}."))


def _show_attributes(attributes: list[dict[str, Any]]) -> None:
    """Print a line for each attribute and origin; what an attribute holds (`required`, `type`, `value`) is in one line."""
    lines: dict[tuple[str, str, str], list[str]] = {}
    for attribute in attributes:
        parent, _, name = attribute["pointer"].rpartition("/")
        origin = f"base {attribute['depth']}" if attribute["origin"] == "inherited" else attribute["origin"]
        key = (parent or attribute["pointer"], origin, "" if parent else name)
        lines.setdefault(key, []).append(f"{name}={attribute['value']}" if parent else attribute["value"])
    show_table(
        ["attribute", "origin", "value"], ([pointer, origin, ", ".join(line)] for (pointer, origin, _), line in lines.items())
    )


def _pairs(options: Any) -> str | None:
    return ", ".join(f"{name}={value}" for name, value in options.items()) if isinstance(options, dict) else _as_text(options)


def show_entity(shown: Any) -> None:
    """Print a message, another entity or a document as a person reads it."""
    if hasattr(shown, "chain"):
        show_message(shown)
    elif hasattr(shown, "document_uri"):
        _show_document(shown)
    else:
        _show_other(shown.as_json())


def _show_other(members: dict[str, Any]) -> None:
    click.echo(printable(f"{members['kind']} {members['xid']}  (registry {members['registryid']}, epoch {members['epoch']})"))
    click.echo(
        printable(
            f"  modified {utc_seconds(members['modifiedat'])}, in snapshot {members['snapshot_id']}, "
            f"held by {', '.join(map(shortened, members['document_uris']))}"
        )
    )
    for reference in members["references"]:
        click.echo(
            printable(f"  {reference['relation']} {reference['target_xid'] or reference['target']}  ({reference['status']})")
        )
    for reference in members["referred_by"]:
        click.echo(printable(f"  {reference['relation']} of {reference['source_xid']}"))
    if members["attributes"]:
        click.echo("")
        show_table(["attribute", "value"], ([name, _as_text(value)] for name, value in members["attributes"].items()))
    if members["members"]:
        click.echo("")
        show_table(["holds"], ([xid] for xid in members["members"]))
    if members["messages"]:
        click.echo("")
        columns = ["message_xid", "via_xid", "protocol", "protocol_source", "matches"]
        show_table(columns, ([_as_text(row[column]) for column in columns] for row in members["messages"]))


def _show_document(shown: Any) -> None:
    members = shown.as_json()
    click.echo(printable(f"document {members['document_uri']}  (registry {members['registryid']}, {members['status']})"))
    for name in ("reason", "dialect", "specversion", "size", "sha256", "entities", "quarantined", "spellings"):
        if members[name]:
            click.echo(printable(f"  {name} {_as_text(members[name])}"))
    click.echo(f"  in snapshot {members['snapshot_id']}")
    for finding in members["findings"]:
        place = finding["pointer"] or finding["xid"] or ""
        click.echo(one_line(f"  {finding['rule_id']}  {finding['severity']}  {finding['action']}  {place}"))
        click.echo(one_line(f"    {finding['message']}"))


def lag_of(view: Any) -> dict[str, int]:
    """Return a line that names the snapshot of the effective definitions, where it is older than the answer's; else nothing."""
    is_behind = view.definitions_snapshot != view.snapshot_id
    return {"snapshot_id": view.snapshot_id, "definitions_snapshot": view.definitions_snapshot} if is_behind else {}


def show_lag(lag: dict[str, int]) -> None:
    """Report on standard error what `lag_of` returns."""
    if lag:
        log_stderr(
            f"note: the entities are those of snapshot {lag['snapshot_id']}; effective definitions are computed up to snapshot "
            f"{lag['definitions_snapshot']}. An ingest that runs may be at it; else `lakehouse rebuild`."
        )


def show_examples(shown: Any, examples: list[dict[str, Any]], *, everything: bool) -> None:
    """Print the example of a message over the protocol in use, or an example for each protocol.

    Args:
        shown: the message.
        examples: as from `examples_in`.
        everything: print all of them.
    """
    used = [shown.message["protocol"], *(row["protocol"] for row in shown.endpoints), "cloudevents"]
    families = [protocol.split("/")[0].lower() for protocol in used if protocol]
    ordered = sorted(examples, key=lambda example: families.index(example["as"]) if example["as"] in families else len(families))
    for example in examples if everything else ordered[:1]:
        text = example.get("error") or json.dumps(example["example"], ensure_ascii=False)
        click.echo(f"\nExample{' as ' + example['as'] if example['as'] else ''}:")
        click.echo("\n".join(printable(line) for line in text.split("\n")))
    if not everything and len(examples) > 1:
        click.echo(f"\nMore with --examples: {', '.join(example['as'] for example in ordered[1:])}.")


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def show_exported(exported: dict[str, Any], *, on_stderr: bool) -> None:
    """Print what an export wrote."""
    from lakehouse.export.writers import losses_as_text

    if exported.get("added"):
        counts = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in exported["added"].items())
        more = sum(exported["added"].values()) - len(exported["added_first"])
        listed = ", ".join(exported["added_first"]) + (f" and {more} more" if more else "")
        click.echo(f"Added, since what was selected needs it: {counts} ({printable(listed)}).", err=on_stderr)
    if exported.get("lost"):
        click.echo(f"Left out, since {exported['dialect']} cannot express it: {exported['lost']}", err=on_stderr)
        for line in losses_as_text(exported["losses"]):
            click.echo(f"  {one_line(line)}", err=on_stderr)
    entities = ", ".join(f"{count} {name}" for name, count in exported["entities"].items())
    if not on_stderr:
        files = f"{exported['files']} file{'s' if exported['files'] != 1 else ''}"
        click.echo(f"{printable(exported['out'])}: {files}, {exported['bytes']} bytes; {entities}.")


def show_maintained(maintained: dict[str, Any]) -> None:
    """Print what maintenance did, with the files and bytes of each table before and after."""
    counted = ("files", "bytes", "files_on_disk", "bytes_on_disk")
    done = ("compacted", "removed", "measured")
    if maintained["dry_run"]:
        _show_what_would_be_done(maintained, counted, done)
        return
    rows = [
        [
            table["table"],
            *(f"{table['before'][name]} → {table['after'][name]}" for name in counted),
            *(str(table[name]) for name in done),
        ]
        for table in maintained["tables"]
    ]
    show_table(["table", *counted, *done], rows, numbers=True)
    click.echo(f"{len(maintained['stages'])} stages of dead runs removed, in {maintained['seconds']:.1f} s.")


def _show_what_would_be_done(maintained: dict[str, Any], counted: tuple[str, ...], done: tuple[str, ...]) -> None:
    """Print the tables that a dry run would change, as they are, with the files that would be compacted, removed, measured."""
    changed = [table for table in maintained["tables"] if any(table[name] for name in done)]
    if changed:
        columns = ["table", *counted, *(f"would be {name}" for name in done)]
        rows = (
            [table["table"], *(str(table["before"][name]) for name in counted), *(str(table[name]) for name in done)]
            for table in changed
        )
        show_table(columns, rows, numbers=True)
    line = f"{len(changed)} of {len(maintained['tables'])} tables would be changed"
    stages = f"{len(maintained['stages'])} stages of dead runs would be removed"
    click.echo(f"Dry run, nothing was done: {line}, {stages}; in {maintained['seconds']:.1f} s.")


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


def log_stderr(text: str) -> None:
    """Print on standard error."""
    click.echo(printable(text), err=True)
