"""Commands that load documents and check them: ingest, validate, rules, explain, demo."""

from __future__ import annotations

import json
from functools import partial
from importlib.resources import as_file, files
from typing import TYPE_CHECKING, Any

import click

from lakehouse.cli.console import (
    REFUSED,
    Context,
    at_option,
    bring_read_model,
    exit_zero_option,
    session,
    stop_signals,
    with_globals,
    with_globals_but_registry,
)
from lakehouse.cli.helping import command, complete_rule
from lakehouse.cli.printing import log_stderr, one_line, printable, show_summary, show_table, show_validation
from lakehouse.dialects.tables import DIALECTS
from lakehouse.extras import require

if TYPE_CHECKING:
    from lakehouse.ingest.pipeline import IngestRequest
    from lakehouse.ingest.summary import Summary


@command(
    "lakehouse ingest docs/ --label release-1",
    "lakehouse ingest docs/ --dry-run",
    "lakehouse ingest confluent+https://registry.example/ --prune",
    sections={
        "What to load": ("registry_from", "dialect", "strict", "prune", "force"),
        "The commit": ("label", "dry_run", "exit_zero"),
        "Watching a folder": ("watch", "available_now", "every"),
        "A schema registry": ("deleted", "messages"),
    },
)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@click.option(
    "--registry-from",
    type=click.Choice(["folder", "document"]),
    help="Load each document into a registry named after its folder (folder) or its own path (document) below SOURCE.",
)
@click.option(
    "--prune",
    is_flag=True,
    help="Delete entities that no loaded document holds any more; a file that is no longer in SOURCE holds none. More than half "
    "of a registry is deleted with --force only.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Read unchanged documents again, take definitions older than the stored ones, and let --prune delete more "
    "than half of a registry.",
)
@click.option("--strict", is_flag=True, help="Reject a whole document when it has an error.")
@click.option("--dry-run", is_flag=True, help="Print what would change, and change nothing.")
@click.option("--label", metavar="NAME", help="Name the snapshot that is committed.")
@click.option("--dialect", type=click.Choice(DIALECTS), help="Read all documents in this dialect instead of detecting it.")
@click.option("--watch", is_flag=True, help="Load what is new or changed in the folder SOURCE, until stopped.")
@click.option("--available-now", is_flag=True, help="As --watch, but stop once everything is loaded.")
@click.option("--every", type=click.IntRange(1), default=10, help="Seconds between two checks of a watched folder (default 10).")
@click.option("--deleted", is_flag=True, help="Load also what is soft-deleted in the registry.")
@click.option(
    "--messages",
    type=click.Choice(["topic", "record"]),
    help="Make a message for each subject that is named after a topic, or after a record.",
)
@exit_zero_option
@with_globals
@click.pass_obj
def ingest(context: Context, /, sources: tuple[str, ...], registry_from: str | None, **flags: Any) -> int:
    """Load documents into the catalog.

    SOURCE is a file, a folder (its *.json, *.cereg, *.yaml and *.yml, gzipped or not), a glob, or a URI that Spark reads; or one
    schema registry: confluent+https://HOST/, or confluent+file:PATH for its topic as it landed.
    Ingest is idempotent: unchanged documents create no commit. Entities (messages, groups, endpoints, schemas) that break
    a rule (severity error) are not loaded; `lakehouse violations` lists them. Exit code 3 if something was rejected.
    """
    from lakehouse.cli.beforehand import check_label_is_free, check_sources
    from lakehouse.domain.ownership import Policy
    from lakehouse.expectations.gates import read_gates
    from lakehouse.ingest.pipeline import IngestRequest
    from lakehouse.ingest.pipeline import ingest as run_ingest
    from lakehouse.registries import is_registry

    if registry_from and context.options.get("registry"):
        raise click.UsageError("--registry and --registry-from exclude each other.")
    settings = context.settings
    read_gates(settings)  # they may not be understood
    has_registry = any(map(is_registry, sources))
    if not has_registry and (flags["deleted"] or flags["messages"]):
        raise click.UsageError("--deleted and --messages are for a SOURCE such as confluent+https://HOST/.")
    check_sources(context, () if has_registry else sources)
    check_label_is_free(context, flags["label"])
    policy = Policy(flags["force"], flags["prune"], settings.on_conflict)
    request = IngestRequest(policy, flags["strict"], flags["dry_run"], flags["label"], flags["dialect"])
    if has_registry:
        return _ingest_registry(context, sources, registry_from, request, flags)
    if flags["watch"] or flags["available_now"]:
        return _watch(context, sources, registry_from, request, flags)
    with session(context, makes_catalog=True) as (spark, settings, watcher):
        summary = run_ingest(spark, settings, list(sources), registry_from=registry_from, request=request, watcher=watcher)
        if summary.snapshot_id is not None and not flags["dry_run"]:
            bring_read_model(context, settings, watcher, summary)
    for path, reason in summary.hidden:
        log_stderr(f"warning: not read: {path}: {reason}")
    return _show(context, summary, flags)


def _show(context: Context, summary: Summary, flags: dict[str, Any]) -> int:
    """Print what an ingest did; return the exit code."""
    context.run.result = summary.as_json()
    if context.as_json:
        click.echo(json.dumps(summary.as_json()))
    else:
        show_summary(summary.as_json())
    return REFUSED if summary.refused and not flags["exit_zero"] else 0


def _ingest_registry(
    context: Context, sources: tuple[str, ...], registry_from: str | None, request: IngestRequest, flags: dict[str, Any]
) -> int:
    from lakehouse.registries import RegistryOptions, fetch_registry, load_registry, read_registry_source

    if registry_from or flags["dialect"] or flags["watch"] or flags["available_now"]:
        raise click.UsageError("A schema registry is loaded without --registry-from, --dialect, --watch and --available-now.")
    require("urllib3")
    source = read_registry_source(*sources)
    if source.address is not None and source.address.is_plain:
        log_stderr("warning: user, password or token go over http for everybody on the way to read; use https.")
    options = RegistryOptions(flags["deleted"], flags["messages"])
    content = None if source.is_table else fetch_registry(source, context.settings, options)
    with session(context, makes_catalog=True) as (spark, settings, watcher):
        if content is None:
            content = fetch_registry(source, settings, options, spark=spark)
        summary = load_registry(spark, settings, source, content, options=options, request=request, watcher=watcher)
        if summary.snapshot_id is not None and not flags["dry_run"]:
            bring_read_model(context, settings, watcher, summary)
    for remark in summary.remarks:
        log_stderr(one_line(f"warning: {remark}"))
    return _show(context, summary, flags)


def _watch(context: Context, sources: tuple[str, ...], registry_from: str | None, request: Any, flags: dict[str, Any]) -> int:
    from lakehouse.ingest.landing import Landing, watch

    if len(sources) != 1:
        raise click.UsageError("--watch takes one folder.")
    if flags["prune"] or flags["force"] or flags["dry_run"] or flags["label"]:
        raise click.UsageError("--watch goes without --prune, --force, --dry-run and --label: a batch is not the whole source.")
    landing = Landing(sources[0], flags["available_now"], flags["every"])
    refused: list[bool] = []

    def report(summary: Any) -> None:
        bring_read_model(context, context.settings, summary=summary)
        refused.append(summary.refused)
        context.run.result = summary.as_json()
        if context.as_json:
            click.echo(json.dumps(summary.as_json()))
        else:
            show_summary(summary.as_json())

    with session(context, makes_catalog=True) as (spark, settings, watcher):
        arguments = {"registry_from": registry_from, "request": request, "watcher": watcher}
        watch(spark, settings, landing, report, stop_signals(), **arguments)
    return REFUSED if any(refused) and not flags["exit_zero"] else 0


@command("lakehouse validate --suite specification")
@click.option(
    "--suite",
    "suites",
    multiple=True,
    metavar="NAME",
    help="Run only this suite (repeatable): specification (the rules), the name of one of yours, or one of "
    "changes, endpoints, groups, match_runs, messages, registries, schemas, schemaversions, versions.",
)
@at_option
@click.option("--exit-zero", is_flag=True, help="Exit with 0, not 3, if a check fails.")
@with_globals_but_registry
@click.pass_obj
def validate(context: Context, suites: tuple[str, ...], at: str | None, exit_zero: bool) -> int:
    """Check the whole catalog and write HTML reports.

    Runs all rules and all Great Expectations suites, also yours. The reports (Data Docs) are in WAREHOUSE/_data_docs. Exit
    code 3 if a check fails.
    """
    from lakehouse.cli.beforehand import check_snapshots
    from lakehouse.expectations.suiteruns import warm_up
    from lakehouse.expectations.suites import choose_suites, read_suites
    from lakehouse.expectations.validation import validate as run_validate
    from lakehouse.match.catalogrules import check_all
    from lakehouse.match.conformance import all_runs
    from lakehouse.rules.declared import RULES

    choose_suites(read_suites(context.settings), suites)
    check_snapshots(context, at)
    warm_up()
    with session(context) as (spark, settings, watcher):
        check, extra_tables = partial(check_all, settings=settings), {"match_runs": partial(all_runs, settings=settings)}
        validation = run_validate(spark, settings, check, RULES, suites=suites, at=at, extra_tables=extra_tables, watcher=watcher)
    context.run.result = validation.as_json()
    if context.as_json:
        click.echo(json.dumps(validation.as_json()))
    else:
        show_validation(validation.as_json())
    return REFUSED if validation.has_findings and not exit_zero else 0


@command("lakehouse rules --json")
@with_globals_but_registry
@click.pass_obj
def rules(context: Context) -> int:
    """List the rules that documents are checked by."""
    from lakehouse.rules.declared import FINDING_RULES

    if context.as_json:
        click.echo(json.dumps([rule._asdict() for rule in FINDING_RULES.values()]))
    else:
        show_table(
            ["rule", "severity", "table", "text"],
            ([rule.id, rule.severity, rule.table, rule.text] for rule in FINDING_RULES.values()),
        )
    return 0


@command("lakehouse explain MSG-146")
@click.argument("rule_id", metavar="RULE", shell_complete=complete_rule)
@with_globals_but_registry
@click.pass_obj
def explain(context: Context, /, rule_id: str) -> int:
    """Explain a rule, with a failing and a corrected example."""
    from lakehouse.rules.declared import explain as explain_rule

    text = explain_rule(rule_id)
    if context.as_json:
        click.echo(json.dumps(text))
        return 0
    for name in ("id", "text", "how", "covered_by", "severity", "table", "section", "hint", "checked_in"):
        if text.get(name):
            click.echo(f"{name.replace('_', ' '):10} {text[name]}")
    for name, title in (("bad", "failing"), ("good", "corrected")):
        if name in text:
            written = text[name] if isinstance(text[name], str) else json.dumps(text[name], indent=2, ensure_ascii=False)
            click.echo(f"\n{title} example ({text['at']}):\n{printable(written)}")
    return 0


def _demo_match(spark: Any, settings: Any) -> None:
    from lakehouse.cli.match import show_matches
    from lakehouse.match.runs import MatchOptions, run_match

    with as_file(files("lakehouse.cli") / "demo" / "landed" / "orders.jsonl") as landed:
        click.echo("\nDo captured events conform to their definitions?")
        click.echo(f"$ lakehouse --warehouse {settings.warehouse} match {landed}")
        show_matches(run_match(spark, settings, MatchOptions((str(landed),))).as_json())


def _demo_propose(context: Context, spark: Any, settings: Any, watcher: Any) -> None:
    from lakehouse.cli.demo import PROPOSALS
    from lakehouse.cli.match import accept, show_matches, write_and_show
    from lakehouse.match.runs import MatchOptions, run_match
    from lakehouse.propose.decided import Thresholds
    from lakehouse.propose.proposalruns import ProposeOptions, run_propose

    with as_file(files("lakehouse.cli") / "demo" / "landed") as landed:
        dump, later = (str(landed / name) for name in ("returns.jsonl", "later-returns.jsonl"))
        command = f"$ lakehouse --warehouse {settings.warehouse}"
        click.echo("\nA topic has no definition yet: propose one from a dump, load it, and match what comes later")
        click.echo(f"{command} propose {dump} --required-events 20 --out {PROPOSALS} --accept")
        options = ProposeOptions((dump,), thresholds=Thresholds(required_events=20))
        summary = run_propose(spark, settings, options, watcher)
        write_and_show(context, summary, PROPOSALS, options)
        accept(context, spark, settings, watcher, summary)
        click.echo(f"\n{command} match {later}")
        show_matches(run_match(spark, settings, MatchOptions((later,))).as_json())


@command("lakehouse demo")
@with_globals
@click.pass_obj
def demo(context: Context) -> int:
    """Load sample documents, match events, propose definitions.

    The catalog of an online shop is created in ./demo-warehouse, proposals in ./demo-proposals.
    """
    from lakehouse.cli.demo import QUERIES
    from lakehouse.ingest.pipeline import ingest as run_ingest
    from lakehouse.query.sql import run_query

    context.options.setdefault("warehouse", "demo-warehouse")
    settings = context.settings
    with as_file(files("lakehouse.cli") / "demo") as folder:
        click.echo(f"$ lakehouse --warehouse {settings.warehouse} ingest {folder}")
        with session(context, makes_catalog=True) as (spark, settings, watcher):
            summary = run_ingest(spark, settings, [str(folder)], watcher=watcher)
    show_summary(summary.as_json())
    for title, query in QUERIES:
        click.echo(f'\n{title}\n$ lakehouse --warehouse {settings.warehouse} sql "{" ".join(query.split())}"')
        result = run_query(spark, settings, query)
        show_table(result.columns, result.text_rows())
    _demo_match(spark, settings)
    _demo_propose(context, spark, settings, watcher)
    click.echo(
        "\nOne message was rejected on purpose. Next: load your own documents with `lakehouse ingest FOLDER`.\n"
        f"Browse this catalog: lakehouse --warehouse {settings.warehouse} serve"
    )
    return 0
