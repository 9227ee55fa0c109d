"""Commands for programs that write programs: mcp answers agents, codegen has client code generated."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import click

from lakehouse.cli.console import Context, read_model, with_globals
from lakehouse.cli.helping import command, complete_xid
from lakehouse.extras import require
from lakehouse.text.names import RegistryId


@command("lakehouse mcp --warehouse /data/warehouse")
@with_globals
@click.pass_obj
def mcp(context: Context) -> int:
    """Answer coding agents on standard input and output (MCP).

    Read only: search, show, list, compare, match_event, render_example, explain_finding, sql. Needs the extra `mcp`.
    """
    require("mcp")
    from lakehouse.agents import CatalogQuestions, make_mcp_server

    with read_model(context) as (model, settings):
        questions = CatalogQuestions(model, RegistryId(settings.registry) or None, settings.max_unpacked_bytes)
        make_mcp_server(questions).run("stdio")
    return 0


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
        registryid = RegistryId(settings.registry) or None
        request = model.answer(lambda view: code_request(view, xid, registryid, language, role, style))
    serve = ["serve", "--port", "0", "--json", "--warehouse", settings.warehouse, "--registry", request.registryid]
    serve += ["--conf", context.options["conf"]] if context.options.get("conf") else []
    files = generate_code(request, serve, Path(out))
    if context.as_json:
        click.echo(json.dumps({"out": out, "arguments": request.arguments, "files": files}))
    else:
        click.echo(f"{out}: {len(files)} files of xrcg generate {shlex.join(request.arguments)}")
    return 0
