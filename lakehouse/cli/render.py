"""Commands that generate from definitions: render messages, codegen client code."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from lakehouse.cli.console import REFUSED, Context, read_model, session, with_globals
from lakehouse.cli.helping import command, complete_xid
from lakehouse.cli.printing import log_stderr, printable
from lakehouse.extras import require

if TYPE_CHECKING:
    from lakehouse.readmodel.snapshotview import View
    from lakehouse.render.filling import RenderInput
    from lakehouse.render.renderruns import RenderRun
    from lakehouse.render.selected import Selected

_FORMATS = ("json", "captured", "curl", "kcat", "mosquitto_pub", "python")
_MOST_FAILURES = 20


@command(
    "lakehouse render sensors.TemperatureRead --example --as mqtt",
    "lakehouse render web.SearchMade --set visitid=17 --example --format curl",
    sections={
        "Which messages": ("group", "everything", "endpoint"),
        "Values": ("pairs", "values", "data", "example", "seed", "now", "strict"),
        "Output": ("over", "mode", "batch", "form", "out"),
    },
)
@click.argument("xids", nargs=-1, metavar="XID...", shell_complete=complete_xid)
@click.option("--group", metavar="XID", shell_complete=complete_xid, help="All messages of this group.")
@click.option("--all", "everything", is_flag=True, help="All messages of the catalog, or of --registry.")
@click.option(
    "--endpoint", metavar="XID", shell_complete=complete_xid, help="As this endpoint sends them; without XID: all its messages."
)
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Value of a placeholder or attribute (repeatable).")
@click.option(
    "--values", metavar="FILE|TABLE", help="Values, a row for each message: JSON lines, CSV, Parquet, or a table (Spark)."
)
@click.option("--data", metavar="FILE", help="File with the payload; - is standard input.")
@click.option("--example", is_flag=True, help="Generate values and payloads that are not given.")
@click.option("--as", "over", metavar="PROTOCOL,...", help="Protocols: cloudevents, http, kafka, amqp, mqtt, nats, or all.")
@click.option(
    "--mode", type=click.Choice(["binary", "structured"]), help="Mode of CloudEvents (default: the mode of the endpoint)."
)
@click.option("--batch", is_flag=True, help="Write CloudEvents as one batch, in JSON or over HTTP.")
@click.option("--format", "form", type=click.Choice(_FORMATS), default="json", help="Format of the messages (default json).")
@click.option("--out", default="-", metavar="FILE", help="File to write (default -: standard output).")
@click.option("--seed", type=int, metavar="N", help="Generate the same examples and ids for the same N.")
@click.option("--now", metavar="TIME", help="Time of the messages, in RFC 3339 (default: now).")
@click.option("--strict", is_flag=True, help="Refuse messages that deviate from their definitions, too.")
@with_globals
@click.pass_obj
def render(context: Context, /, xids: tuple[str, ...], **flags: Any) -> int:
    """Generate sample messages from definitions.

    XID is that of a message, or an id that only one message has. Values are given or generated; nothing is sent.
    Exit code 2: values are missing; 3: a message was refused.
    """
    from lakehouse.render.filling import is_file
    from lakehouse.store.localpaths import check_target

    _check(xids, flags)
    values = flags["values"]
    if flags["out"] != "-":
        check_target(flags["out"], to_folder=False, parents=False)
    if values and not is_file(values):
        return _render_table(context, xids, flags)
    run, common = _run_of(context, xids, flags)
    return _write(context, run, common, flags)


def _check(xids: tuple[str, ...], flags: dict[str, Any]) -> None:
    scopes = [bool(xids), bool(flags["group"]), flags["everything"]]
    if sum(scopes) > 1 or not (any(scopes) or flags["endpoint"]):
        raise click.UsageError("Name XIDs, or --group XID, or --endpoint XID, or --all.")
    if flags["group"] and flags["endpoint"]:
        raise click.UsageError("--group and --endpoint exclude each other.")
    if flags["batch"] and flags["mode"] == "binary":
        raise click.UsageError("--batch writes structured events: it excludes --mode binary.")
    if flags["batch"] and flags["form"] not in ("json", "captured", "curl"):
        raise click.UsageError(f"--batch excludes --format {flags['form']}.")


def _run_of(context: Context, xids: tuple[str, ...], flags: dict[str, Any]) -> tuple[RenderRun, RenderInput]:
    from lakehouse.readmodel.violationlist import with_reasons
    from lakehouse.render.filling import RenderInput, read_payload, values_of
    from lakehouse.render.rendering import RenderStyle
    from lakehouse.render.renderruns import RenderRun, families_of
    from lakehouse.render.selected import read_selected

    requested = families_of(flags["over"], flags["form"], batch=flags["batch"])
    mode = "structured" if flags["batch"] else flags["mode"]
    style = RenderStyle(mode, flags["example"], flags["seed"], flags["now"], flags["strict"])
    pairs = values_of(flags["pairs"])
    payload, payload_type = read_payload(flags["data"]) if flags["data"] else (None, None)
    with read_model(context) as (model, _):
        registryid = context.registry

        def select(view: View) -> Selected:
            with with_reasons(view, registryid):
                return read_selected(view, xids, registryid, flags["group"], flags["endpoint"])

        selected = model.answer(select)
    return RenderRun(selected, style, requested, flags["form"]), RenderInput(pairs, payload, payload_type)


def _write(context: Context, run: RenderRun, common: RenderInput, flags: dict[str, Any]) -> int:
    from lakehouse.render.filling import read_values
    from lakehouse.render.renderruns import lines_of_failures

    rows = read_values(flags["values"]) if flags["values"] else None
    lines = run.lines(run.messages(common, rows), batch=flags["batch"])
    to_stdout = flags["out"] == "-"
    if context.as_json and to_stdout:
        results = [line.decode() for line in lines]
        messages = [json.dumps(line, ensure_ascii=False) for line in results] if run.form not in ("json", "captured") else results
        failed = json.dumps([failure.as_json() for failure in run.failures], ensure_ascii=False)
        click.echo(f'{{"messages": [{", ".join(messages)}], "failed": {failed}}}')
        return REFUSED if run.failed else 0
    written = 0
    with _target(flags["out"]) as file:
        for line in lines:
            file.write(line + b"\n")
            written += 1
    if context.as_json:
        click.echo(
            json.dumps({"written": written, "failed": [failure.as_json() for failure in run.failures]}, ensure_ascii=False)
        )
    else:
        for failures in lines_of_failures(run.failures[:_MOST_FAILURES]):
            log_stderr("\n".join(printable(part) for part in failures.split("\n")))
        if run.failed > _MOST_FAILURES:
            log_stderr(f"… and {run.failed - _MOST_FAILURES:,} more")
        if not (to_stdout or context.quiet):
            log_stderr(f"{written:,} messages written to {printable(flags['out'])}, {run.failed:,} left out")
    return REFUSED if run.failed else 0


def _render_table(context: Context, xids: tuple[str, ...], flags: dict[str, Any]) -> int:
    """Render a table of values with Spark; lines come in the order of its partitions."""
    from lakehouse.render.onspark import render_table

    if flags["batch"] or flags["form"] != "captured":
        raise click.UsageError("--values TABLE needs --format captured, and excludes --batch.")
    run, common = _run_of(context, xids, flags)
    written, failed = 0, 0
    with session(context) as (spark, _, watcher), watcher.stage("render", f"messages of {flags['values']}"):
        rendered = render_table(_table(spark, context, flags["values"]), run.selected, run.style, run.requested, common)
        with _target(flags["out"]) as file:
            for row in rendered.select("line", "error").toLocalIterator(prefetchPartitions=True):
                if row["line"] is None:
                    failed += 1
                    if failed <= _MOST_FAILURES:
                        log_stderr("\n".join(printable(part) for part in f"left out: {row['error']}".split("\n")))
                else:
                    written += 1
                    file.write(row["line"].encode() + b"\n")
    context.run.result = {"written": written, "failed": failed}
    if context.as_json and flags["out"] != "-":
        click.echo(json.dumps(context.run.result))
    return REFUSED if failed else 0


def _table(spark: Any, context: Context, name: str) -> Any:
    from pyspark.errors import AnalysisException

    from lakehouse.errors import SourceNotFound
    from lakehouse.match.conformance import open_named_in

    open_named_in(spark, context.settings, name)
    try:
        return spark.table(name)
    except AnalysisException as error:
        raise SourceNotFound(name, "neither a file nor a table that Spark knows.") from error


@contextmanager
def _target(out: str) -> Iterator[IO[bytes]]:
    """Open what is written to: a file appears when it is whole."""
    from lakehouse.errors import TargetError

    if out == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(out)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise TargetError(out, f"cannot be written ({error.strerror}).") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


@command(
    "lakehouse codegen shop.orders.kafka --language python --out client",
    "lakehouse codegen shop.orders.kafka --language java --role producer --out sender",
)
@click.argument("xid", shell_complete=complete_xid)
@click.option("--language", required=True, metavar="NAME", help="Language: python, java, typescript, csharp, go, asyncapi ...")
@click.option("--role", type=click.Choice(["consumer", "producer"]), default="consumer", help="What to write (default consumer).")
@click.option("--style", metavar="NAME", help="Style that `xrcg list` names (default: by the protocol and --role).")
@click.option("--out", required=True, metavar="DIR", help="New folder to write.")
@with_globals
@click.pass_obj
def codegen(context: Context, xid: str, language: str, role: str, style: str | None, out: str) -> int:
    """Generate client code with xrcg.

    XID is that of a message, group or endpoint, or its id; of a message the code of its group is generated. Needs xrcg on the
    PATH (`pip install xrcg`) and the extra `serve`; without xrcg it prints what to run (exit code 2).
    """
    require("starlette")
    from lakehouse.agents.codegen import code_request, generate_code

    with read_model(context) as (model, settings):
        registryid = context.registry
        request = model.answer(lambda view: code_request(view, xid, registryid, language, role, style))
    serve = ["serve", "--port", "0", "--json", "--warehouse", settings.warehouse, "--registry", request.registryid]
    serve += ["--conf", context.options["conf"]] if context.options.get("conf") else []
    files = generate_code(request, serve, Path(out))
    if context.as_json:
        click.echo(json.dumps({"out": out, "arguments": request.arguments, "files": files}))
    else:
        click.echo(f"{out}: {len(files)} files of xrcg generate {shlex.join(request.arguments)}")
    return 0
