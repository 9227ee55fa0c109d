"""Commands about events, and what they print: match checks them against definitions, propose makes definitions of them."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakehouse.cli.console import REFUSED, Context, at_option, read_model, reading_options, session, stop_signals, with_globals
from lakehouse.cli.helping import command, complete_xid
from lakehouse.cli.printing import one_line, printable, show_table
from lakehouse.text.xid import last_id

if TYPE_CHECKING:
    from lakehouse.match.explain import Explained
    from lakehouse.match.matcher import MatchRequest
    from lakehouse.match.runs import MatchOptions
    from lakehouse.propose.proposalruns import ProposeOptions, ProposeSummary

_NOT_WITH_EVENT_FILE = {
    "into": "--into", "results": "--results", "again": "--again", "watch": "--watch", "available_now": "--available-now",
    "mapping": "--map", "since": "--since", "samples": "--samples", "max_unmatched": "--max-unmatched",
}  # fmt: skip
_FAILURES = {
    "unmatched": "no definition matches",
    "incomplete": "only a definition whose base is missing might match",
    "unreadable": "not an event",
    "ambiguous": "several definitions match equally well",
    "invalid": "the payload violates its schema",
    "unseen": "a definition that is the best match of no event",
    "deviations": "matched, with tolerated differences",
}
PROPOSED = "proposed"  # the registry of accepted proposals


@command(
    "lakehouse match events.jsonl --fail-on unmatched,invalid",
    "lakehouse match --one event.json --explain",
    sections={
        "The events": ("form", "mapping", "protocol", "since", "event_file"),
        "The definitions": ("endpoint", "group", "versions", "at"),
        "What is compared": ("payload", "placeholders", "level", "native"),
        "The results": ("explain", "into", "results", "again", "samples", "no_values"),
        "Exit code": ("fail_on", "max_unmatched"),
        "Watching a source": ("watch", "available_now", "every"),
    },
)
@click.argument("sources", nargs=-1, metavar="SOURCE...")
@click.option("--one", "event_file", metavar="FILE", help="Match one event, without Spark; - is standard input.")
@click.option("--explain", is_flag=True, help="With --one: show for each candidate definition which attributes match.")
@reading_options
@click.option(
    "--endpoint",
    metavar="XID",
    shell_complete=complete_xid,
    help="Compare only with messages of this endpoint; a definition without topic or key takes those of the endpoint.",
)
@click.option("--group", metavar="XID", shell_complete=complete_xid, help="Compare only with messages of this group.")
@click.option(
    "--versions",
    type=click.Choice(["default", "all"]),
    default="default",
    help="default: try only default Versions; all: if no default Version matches, the others too.",
)
@at_option
@click.option("--since", metavar="TIME", help="Only events captured at or after this time.")
@click.option("--payload", default="all", metavar="all|none|N%", help="Share of the payloads to validate (default all).")
@click.option(
    "--placeholders",
    type=click.Choice(["auto", "segment", "any"]),
    default="auto",
    help="What a placeholder matches. segment: text up to the next separator, which is / or, in NATS subjects, a dot; "
    "any: any text; auto (default): any text if the placeholder is the whole value, else a segment.",
)
@click.option("--strict", "level", flag_value="strict", help="Treat as mismatches the differences that are tolerated by default.")
@click.option("--lenient", "level", flag_value="lenient", help="Tolerate wrong types, and absent values that are not required.")
@click.option(
    "--native", is_flag=True, help="Compare only fields of the protocol (topic, headers, …), not CloudEvents attributes."
)
@click.option(
    "--into", metavar="DATABASE", help="Append to the tables event_matches, match_runs and unmatched_signatures of DATABASE."
)
@click.option("--results", metavar="FILE|DIR", help="Write a JSON line for each event, in input order.")
@click.option(
    "--again", is_flag=True, help="With --into: when the same events are matched again, add rows only where the result changed."
)
@click.option("--watch", is_flag=True, help="Match new events of a Delta table or folder, until stopped. Needs --into.")
@click.option("--available-now", is_flag=True, help="As --watch, but stop once everything is matched.")
@click.option("--every", type=click.IntRange(1), default=10, help="Seconds between two checks of --watch (default 10).")
@click.option("--samples", type=click.IntRange(0, 100), default=0, help="Sample events listed for each reason (default 0).")
@click.option("--no-values", is_flag=True, help="Leave values of events out of the results.")
@click.option(
    "--fail-on",
    metavar="WHAT,...",
    help="Exit with 3 if there are any. " + "; ".join(f"{name}: {what}" for name, what in _FAILURES.items()) + ".",
)
@click.option("--max-unmatched", metavar="N%", help="Exit with 3 if a larger share of the events is unmatched or incomplete.")
@with_globals
@click.pass_obj
def match(context: Context, /, sources: tuple[str, ...], event_file: str | None, **flags: Any) -> int:
    """Check captured events against message definitions.

    SOURCE is a file or folder (JSON lines, Parquet, Avro, Delta) or the name of a table. Payloads are validated against
    their schemas.
    """
    fails = _fail_on(flags["fail_on"])
    share = _percent(flags["max_unmatched"], "--max-unmatched") if flags["max_unmatched"] else None
    if bool(event_file) == bool(sources):
        raise click.UsageError("Name at least one SOURCE, or one event with --one FILE.")
    if flags["explain"] and not event_file:
        raise click.UsageError("--explain needs --one FILE.")
    if flags["endpoint"] and flags["group"]:
        raise click.UsageError("--endpoint and --group exclude each other.")
    if event_file:
        return _match_event(context, event_file, flags, fails)
    summary = _watch(context, sources, flags) if flags["watch"] or flags["available_now"] else _match_all(context, sources, flags)
    failed = any(summary[name] for name in fails) or (
        share is not None and summary["read"] > 0 and (summary["unmatched"] + summary["incomplete"]) / summary["read"] > share
    )
    return REFUSED if failed else 0


def _match_all(context: Context, sources: tuple[str, ...], flags: dict[str, Any]) -> dict[str, Any]:
    from lakehouse.match.runs import run_match

    options = _match_options(context, sources, flags)
    with session(context) as (spark, settings, watcher):
        context.run.endpoint = options.scope.endpoint or ""
        summary = run_match(spark, settings, options, watcher).as_json()
    return _reported(context, summary)


def _watch(context: Context, sources: tuple[str, ...], flags: dict[str, Any]) -> dict[str, Any]:
    from lakehouse.match.runs import watch

    if len(sources) != 1:
        raise click.UsageError("--watch takes one SOURCE.")
    if not flags["into"] or flags["results"] or flags["again"] or flags["at"]:
        raise click.UsageError("--watch needs --into, and excludes --results, --again and --at.")
    if "unseen" in _fail_on(flags["fail_on"]):
        raise click.UsageError("--fail-on unseen needs all events in one run: query the view unseen_messages after --watch.")
    options = _match_options(context, sources, flags)
    total: dict[str, Any] = {}

    def report(summary: Any) -> None:
        counts = summary.as_json()
        _reported(context, counts)
        total.update(_added(total, counts))
        context.run.result = total

    every = None if flags["available_now"] else flags["every"]
    with session(context) as (spark, settings, watcher):
        is_stopped = stop_signals()
        context.run.endpoint = options.scope.endpoint or ""
        watch(spark, settings, options, report, is_stopped, every=every, watcher=watcher)
    return _counted(total) if total else dict.fromkeys(("read", *_FAILURES), 0)


def _added(total: dict[str, Any], batch: dict[str, Any]) -> dict[str, Any]:
    """Add the counts of a micro-batch to those before it; what is no count is that of the last batch."""
    if not total:
        return batch
    from lakehouse.match.evaluation import STATUSES

    counts = ("read", *STATUSES, "deviating")
    payloads = Counter(total["payloads"]) + Counter(batch["payloads"])
    return batch | {name: total[name] + batch[name] for name in counts} | {"payloads": dict(sorted(payloads.items()))}


def _match_event(context: Context, event_file: str, flags: dict[str, Any], fails: tuple[str, ...]) -> int:
    from lakehouse.errors import SourceNotFound
    from lakehouse.match.definition.scope import Scope
    from lakehouse.match.explain import match_text

    if flags["versions"] == "all":
        raise click.UsageError("--one matches default Versions only: --versions all needs SOURCE.")
    refused = [option for name, option in _NOT_WITH_EVENT_FILE.items() if flags[name]]
    refused += ["--format " + flags["form"]] if flags["form"] in ("delta", "parquet", "avro") else []
    if refused:
        raise click.UsageError(f"--one prints the result of one JSON event: it excludes {', '.join(refused)}.")
    try:
        text = sys.stdin.buffer.read() if event_file == "-" else Path(event_file).read_bytes()
    except OSError as error:
        raise SourceNotFound(event_file, f"cannot be read ({error.strerror}).") from error
    with read_model(context) as (model, settings):
        scope = Scope(context.registry, flags["group"], flags["endpoint"])
        request = _request(flags, settings)
        results = model.answer(
            lambda view: match_text(
                text, view, scope, request, protocol=flags["protocol"], form=flags["form"], explain=flags["explain"]
            ),
            flags["at"],
        )
    if context.as_json:
        click.echo(json.dumps([event.as_json() for event in results], ensure_ascii=False))
    else:
        for number, event in enumerate(results):
            click.echo("" if number else None, nl=bool(number))
            show_explained(event)
    counts = [
        {"invalid": event.row["payload_status"] in ("invalid", "undecodable"), "deviations": bool(event.row["deviations"])}
        | {event.row["status"]: True}
        for event in results
    ]
    return REFUSED if any(count.get(name) for count in counts for name in fails) else 0


def _match_options(context: Context, sources: tuple[str, ...], flags: dict[str, Any]) -> MatchOptions:
    from lakehouse.cli.beforehand import check_match
    from lakehouse.match.conformance import check_name
    from lakehouse.match.definition.scope import Scope
    from lakehouse.match.event.adapters import read_map
    from lakehouse.match.runs import MatchOptions

    if flags["again"] and not flags["into"]:
        raise click.UsageError("--again needs --into: it adds to those tables.")
    if flags["into"]:
        check_name(flags["into"])
    settings = context.settings
    scope = Scope(context.registry, flags["group"], flags["endpoint"], flags["versions"] == "all")
    check_match(context, sources, scope, flags["at"], flags["results"])
    return MatchOptions(
        sources,
        scope,
        _request(flags, settings),
        mapping=read_map(flags["mapping"]) if flags["mapping"] else None,
        **{name: flags[name] for name in ("at", "form", "protocol", "since", "into", "results", "again", "samples")},
    )


def _request(flags: dict[str, Any], settings: Any) -> MatchRequest:
    from lakehouse.match.evaluation import Tolerance
    from lakehouse.match.matcher import MatchRequest

    tolerance = Tolerance(flags["level"] or "default", flags["placeholders"], flags["native"])
    share = {"all": 1.0, "none": 0.0}.get(flags["payload"])
    return MatchRequest(
        tolerance,
        _percent(flags["payload"], "--payload") if share is None else share,
        bool(flags["endpoint"] or flags["group"]),
        not flags["no_values"],
        settings.max_unpacked_bytes,
    )


def _reported(context: Context, summary: dict[str, Any]) -> dict[str, Any]:
    context.run.result = summary
    if context.as_json:
        click.echo(json.dumps(summary, ensure_ascii=False))
    else:
        show_matches(summary)
    return _counted(summary)


def _counted(summary: dict[str, Any]) -> dict[str, Any]:
    payloads = summary.get("payloads", {})
    invalid = payloads.get("invalid", 0) + payloads.get("undecodable", 0)
    return {"invalid": invalid, "deviations": summary.get("deviating", 0)} | summary


def _fail_on(text: str | None) -> tuple[str, ...]:
    names = [name.strip() for name in (text or "").split(",") if name.strip()]
    for name in names:
        if name not in _FAILURES:
            raise click.UsageError(f"--fail-on {one_line(name)}: one of {', '.join(_FAILURES)}.")
    return (*names, "incomplete") if "unmatched" in names else tuple(names)  # nothing that is whole matches these either


def _percent(text: str, option: str) -> float:
    matched = re.fullmatch(r"(\d{1,3}(?:\.\d{1,9})?)%", text.strip())
    if matched is None or float(matched[1]) > 100:
        raise click.UsageError(f"{option} {one_line(text)}: a share such as 0.1% is needed.")
    return float(matched[1]) / 100


def show_matches(summary: dict[str, Any]) -> None:
    """Print the summary of a run."""
    from lakehouse.match.evaluation import INCOMPLETE, STATUSES

    shown = (name for name in ("read", *STATUSES) if name != INCOMPLETE or summary[name])
    counts = ", ".join(f"{summary[name]:,} {name}" for name in shown)
    valid_first = sorted(summary["payloads"].items(), key=lambda entry: (entry[0] != "valid", entry[0]))
    payloads = ", ".join(f"{count:,} {name}" for name, count in valid_first) or "none"
    click.echo(f"Events: {counts}. Payloads of the matched events: {payloads}. Catalog: snapshot {summary['catalog_snapshot']}.")
    if summary["deviating"]:
        click.echo(f"{summary['deviating']:,} matched events differ in details that matching ignores.")
    if summary["why"]:
        rows = [[cause["why"], f"{cause['events']:,}", _short(cause["nearest"]), cause["producer"]] for cause in summary["why"]]
        show_table(["why", "events", "nearest", "producer"], rows)
        for cause in summary["why"]:
            for sample in cause.get("samples", ()):
                place = ", ".join(f"{name} {text}" for name, text in sample.items() if text is not None)
                click.echo(printable(f"  {cause['why']}: {place}"))
    click.echo(f"Definitions that are the best match of no event: {summary['unseen']:,} of {summary['definitions']:,}.")


def show_explained(event: Explained) -> None:
    """Print the result of one event, and its candidates."""
    row = event.row
    first = [row["status"], row["ce_type"], row["protocol"]]
    click.echo("  ".join(printable(text) for text in first if text))
    for definition in row["best"]:
        click.echo(printable(f"  best {definition['xid']}  (registry {definition['registryid']})"))
    further = [definition for definition in row["matches"] if definition not in row["best"]]
    for definition in further:
        click.echo(printable(f"  matches {definition['xid']}  (registry {definition['registryid']})"))
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
    for reason in reasons:
        values = [f"{what} {reason[what]}" for what in ("expected", "actual") if reason[what] is not None]
        click.echo(printable(f"  {name} {reason['pointer']}: {reason['reason']}{': ' if values else ''}{', '.join(values)}"))


def _show_candidate(candidate: dict[str, Any]) -> None:
    verdict = "matches" if candidate["matches"] else "does not match"
    click.echo("")
    click.echo(printable(f"{candidate['xid']}  (registry {candidate['registryid']}): {verdict}"))
    if not candidate["attributes"]:
        click.echo("  declares nothing to compare with, except the schema of its payload")
        return
    columns = ["pointer", "declared", "actual", "verdict"]
    show_table(columns, ([attribute[column] or "" for column in columns] for attribute in candidate["attributes"]))


def _short(xid: str | None) -> str:
    return "" if xid is None else last_id(xid)


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
    registry = context.registry
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
