"""What `lakehouse match` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakehouse.cli.printing import printable, show_table
from lakehouse.text.xid import last_id

if TYPE_CHECKING:
    from lakehouse.match.explain import Explained


def show_matches(summary: dict[str, Any]) -> None:
    """Print the summary of a run."""
    from lakehouse.match.evaluation import INCOMPLETE, STATUSES

    shown = (name for name in ("read", *STATUSES) if name != INCOMPLETE or summary[name])
    counts = ", ".join(f"{summary[name]:,} {name}" for name in shown)
    valid_first = sorted(summary["payloads"].items(), key=lambda one: (one[0] != "valid", one[0]))
    payloads = ", ".join(f"{count:,} {name}" for name, count in valid_first) or "none"
    click.echo(f"Events: {counts}. Payloads of the matched events: {payloads}. Catalog: snapshot {summary['catalog_snapshot']}.")
    if summary["deviating"]:
        click.echo(f"{summary['deviating']:,} matched events differ in details that matching ignores.")
    if summary["why"]:
        rows = [[one["why"], f"{one['events']:,}", _short(one["nearest"]), one["producer"]] for one in summary["why"]]
        show_table(["why", "events", "nearest", "producer"], rows)
        for one in summary["why"]:
            for sample in one.get("samples", ()):
                place = ", ".join(f"{name} {text}" for name, text in sample.items() if text is not None)
                click.echo(printable(f"  {one['why']}: {place}"))
    click.echo(f"Definitions that are the best match of no event: {summary['unseen']:,} of {summary['definitions']:,}.")


def show_explained(event: Explained) -> None:
    """Print the result of one event, and its candidates."""
    row = event.row
    first = [row["status"], row["ce_type"], row["protocol"]]
    click.echo("  ".join(printable(one) for one in first if one))
    for one in row["best"]:
        click.echo(printable(f"  best {one['xid']}  (registry {one['registryid']})"))
    further = [one for one in row["matches"] if one not in row["best"]]
    for one in further:
        click.echo(printable(f"  matches {one['xid']}  (registry {one['registryid']})"))
    for name, text in row["variables"].items():
        click.echo(printable(f"  {{{name}}} = {text}"))
    if row["nearest_xid"]:
        click.echo(printable(f"  nearest {row['nearest_xid']}"))
    _show_reasons("reason", row["reasons"])
    _show_reasons("deviation", row["deviations"])
    written_with = f", written with {row['written_with']}" if row["written_with"] else ""
    click.echo(printable(f"  payload {row['payload_status']}{written_with}"))
    for error in row["payload_errors"]:
        click.echo(printable(f"    {error['pointer'] or '/'}: {error['message']}"))
    for remark in row["remarks"]:
        click.echo(printable(f"  remark {remark}"))
    if row["unchecked"]:
        click.echo(printable(f"  not captured: {', '.join(row['unchecked'])}"))
    for candidate in event.candidates:
        _show_candidate(candidate)


def _show_reasons(name: str, reasons: list[dict[str, Any]]) -> None:
    for one in reasons:
        values = [f"{what} {one[what]}" for what in ("expected", "actual") if one[what] is not None]
        click.echo(printable(f"  {name} {one['pointer']}: {one['reason']}{': ' if values else ''}{', '.join(values)}"))


def _show_candidate(candidate: dict[str, Any]) -> None:
    verdict = "matches" if candidate["matches"] else "does not match"
    click.echo("")
    click.echo(printable(f"{candidate['xid']}  (registry {candidate['registryid']}): {verdict}"))
    if not candidate["attributes"]:
        click.echo("  declares nothing to compare with, except the schema of its payload")
        return
    columns = ["pointer", "declared", "actual", "verdict"]
    show_table(columns, ([one[column] or "" for column in columns] for one in candidate["attributes"]))


def _short(xid: str | None) -> str:
    return "" if xid is None else last_id(xid)
