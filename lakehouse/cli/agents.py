"""The command that answers agents by the Model Context Protocol."""

from __future__ import annotations

import click

from lakehouse.cli.console import Context, read_model, with_globals
from lakehouse.cli.helping import command
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
