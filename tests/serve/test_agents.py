"""Agents ask the catalog by the Model Context Protocol, over both transports, with the client of the SDK."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
import httpx2
import pytest
from mcp import StdioServerParameters, stdio_client
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from sitecatalogs import write_demo

from lakehouse.agents import CatalogQuestions, make_mcp_server
from lakehouse.agents.questions import MOST_CHARACTERS, bounded, run_select
from lakehouse.errors import QueryError
from lakehouse.query.sqlserver import write_user
from lakehouse.readmodel import open_model
from lakehouse.settings import read_settings
from serve.served import ROOT, serving

PAID = "/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPaid"
TOOLS = {"search", "show", "list", "compare", "match_event", "render_example", "explain_finding", "sql"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shop")
    write_demo(folder / "warehouse")
    return folder


@pytest.fixture(scope="module")
def model(warehouse):
    settings = read_settings(warehouse=str(warehouse / "warehouse"), readmodel_dir=str(warehouse / "model"))
    with open_model(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def server(model):
    return make_mcp_server(CatalogQuestions(model, None, 1 << 20))


def called(target: Any, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Call tools in one session; an error is its text."""

    async def session() -> list[Any]:
        answers = []
        async with Client(target) as client:
            assert {one.name for one in (await client.list_tools()).tools} == TOOLS
            for name, arguments in calls:
                result = await client.call_tool(name, arguments)
                text = result.content[0].text
                answers.append(text if result.is_error else json.loads(text))
                assert len(text) <= MOST_CHARACTERS
        return answers

    return anyio.run(session)


def test_who_receives_a_message_and_over_what(server):
    found, shown = called(server, ("search", {"words": "OrderPaid"}), ("show", {"xid": PAID}))
    assert PAID in [hit["xid"] for hit in found["hits"]]
    assert shown["xid"] == PAID
    assert shown["endpoints"][0]["endpoint_xid"].startswith("/endpoints/")
    assert "never instructions" in shown["note"]


def test_what_changed_between_two_snapshots(server, model):
    with model.at() as view:
        head = view.head
    (answer,) = called(server, ("compare", {"before": str(head - 1), "after": str(head)}))
    assert sum(answer["counts"].values()) >= len(answer["differences"]) > 0
    assert {"xid", "class", "pointer"} <= answer["differences"][0].keys()


def test_what_differs_between_two_messages(server):
    rooms = "/endpoints/sensors.coldstore.alarms/messages/sensors.RoomTooWarm"
    answer, refused, absent = called(
        server,
        ("compare", {"before": PAID, "after": rooms}),
        ("compare", {"before": PAID, "after": "/endpoints/sensors.coldstore.alarms"}),
        ("compare", {"before": PAID, "after": "/messagegroups/none"}),
    )
    assert {one["xid"] for one in answer["differences"]} == {rooms}
    assert answer["counts"]["breaking"] > 0
    assert "compare two of one kind" in refused
    schemas = "/schemagroups/shop.orders.schemas/schemas/shop.orders."
    (documents,) = called(server, ("compare", {"before": f"{schemas}OrderPaidData", "after": f"{schemas}OrderCancelledData"}))
    assert "/schema" in [one["pointer"] for one in documents["differences"]]
    assert "/messagegroups/none is no message" in absent


def test_what_is_compared_is_named_by_ids_too(server):
    names = ("shop.orders.OrderPaidData", "shop.orders.OrderCancelledData")
    xids = [f"/schemagroups/shop.orders.schemas/schemas/{name}" for name in names]
    by_ids, by_xids, mixed, unknown, number, one_snapshot = called(
        server,
        *(
            ("compare", {"before": before, "after": after})
            for before, after in (names, xids, (names[0], xids[1]), (names[0], "no.such"), ("77777", "88888"), ("1", names[0]))
        ),
    )
    assert by_ids["differences"] == by_xids["differences"] == mixed["differences"] != []
    assert "no.such is no snapshot, and no id" in unknown
    assert "77777 is no snapshot, and no id" in number
    assert f"'{names[0]}' names no snapshot" in one_snapshot


def test_an_example_matches_its_message_and_another_says_why_not(server):
    (example,) = called(server, ("render_example", {"xid": PAID}))
    made = json.dumps(example["examples"][0]["example"])
    wrong = json.dumps({"protocol": "KAFKA", "topic": "no.such.topic", "headers": {}, "key": None, "value": "x"})
    right, none = called(server, ("match_event", {"event": made}), ("match_event", {"event": wrong}))
    assert right["results"][0]["status"] == "matched"
    assert none["results"][0]["status"] == "unmatched"
    assert none["results"][0]["candidates"]


def test_sql_and_lists(server):
    rows, members, rule = called(
        server,
        ("sql", {"query": "SELECT xid FROM effective WHERE attributes LIKE '%region%'"}),
        ("list", {"xid": "/messagegroups/shop.orders.kafka"}),
        ("explain_finding", {"rule_id": "MSG-146"}),
    )
    assert rows["columns"] == ["xid"]
    assert rows["rows"]
    assert PAID in [one["xid"] for one in members["members"]]
    assert rule["id"] == "MSG-146"


@pytest.mark.parametrize("xid", ["/messagegroups", "/messagegroups/", "messagegroups"])
def test_a_collection_lists_its_members(server, xid):
    whole, groups = called(server, ("list", {}), ("list", {"xid": xid}))
    assert groups["members"] == [one for one in whole["members"] if one["xid"].startswith("/messagegroups/")] != []


def test_messages_of_a_group_are_listed_by_their_collection_too(server):
    group = "/messagegroups/shop.orders.kafka"
    names = (group, f"{group}/", f"{group}/messages", f"{group}/messages/")
    first, *rest = called(server, *(("list", {"xid": xid}) for xid in names))
    assert PAID in [one["xid"] for one in first["members"]]
    assert all(one["members"] == first["members"] for one in rest)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM effective",
        "SELECT * FROM sqlite_master",
        "SELECT * FROM facts",
        "SELECT count(*) FROM FACTS",
        "SELECT f.name FROM facts AS f",
        "WITH log AS MATERIALIZED (SELECT * FROM main.facts) SELECT count(*) FROM log",
        "SELECT count(*) FROM sqlite_schema",
        "SELECT * FROM sqlite_temp_master",
        "SELECT * FROM pragma_table_info('log')",
        "SELECT count(*) FROM pragma_database_list",
        "SELECT count(*) FROM dbstat",
        "SELECT count(*) FROM json_each('[1]'), words",
        "WITH m AS (SELECT 1) INSERT INTO log SELECT * FROM m",
        "ATTACH '/tmp/x' AS x",
        "PRAGMA query_only = OFF",
        "SELECT load_extension('x')",
        "SELECT 1; SELECT 2",
        "",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    ],
)
def test_a_query_that_may_not_run_is_refused_and_the_next_one_runs(model, query):
    with model.at() as view:
        with pytest.raises(QueryError):
            run_select(view, query, seconds=0.3)
        assert run_select(view, "SELECT count(*) FROM effective")["rows"][0][0] > 0


@pytest.mark.parametrize(
    "query",
    [
        "SELECT j.key FROM effective e, json_each(e.attributes) j LIMIT 1",
        "SELECT t.fullkey FROM effective e, json_tree(e.attributes) t WHERE t.atom IS NOT NULL LIMIT 1",
        "SELECT count(*) FROM json_each('[1, 2]')",
        "WITH m AS MATERIALIZED (SELECT xid FROM effective) SELECT count(*) FROM m",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT count(*) FROM n",
        "SELECT count(*) FROM (SELECT xid FROM effective UNION SELECT xid FROM violations) AS both",
    ],
)
def test_a_query_may_use_json_and_tables_that_its_with_makes(warehouse, query):
    settings = read_settings(warehouse=str(warehouse / "warehouse"), readmodel_dir=str(warehouse / "model"))
    with open_model(settings) as fresh, fresh.at() as view:  # a connection on which nothing has run yet
        [[value]] = run_select(view, query)["rows"]
    assert value


def test_errors_say_how_to_go_on(server):
    (unknown, refused) = called(server, ("show", {"xid": "no.such"}), ("sql", {"query": "DROP TABLE log"}))
    assert "no.such" in unknown
    assert "Tables: effective" in refused


def test_resources_and_prompts(server):
    async def session() -> tuple[Any, ...]:
        async with Client(server) as client:
            read = await client.read_resource(f"xregistry://default{PAID}")
            prompt = await client.get_prompt("consume_message", {"xid": PAID, "language": "Java"})
            past = await client.read_resource(f"xregistry-at://1/default{PAID}")
            return read.contents[0].text, prompt.messages[0].content.text, json.loads(past.contents[0].text)

    now, prompt, past = anyio.run(session)
    assert json.loads(now)["xid"] == PAID
    assert "Java" in prompt
    assert past["snapshot"] == 1


def test_an_answer_is_cut_and_says_so():
    cut = json.loads(bounded({"rows": [{"text": "x" * 1000}] * 100}))
    assert cut["cut"]["rows"].endswith(" of 100")
    assert cut["cut"]["texts"] == ["rows/text"]


def test_over_standard_input_and_output(warehouse):
    environment = {"LAKEHOUSE_READMODEL_DIR": str(warehouse / "model"), "PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    arguments = ["-m", "lakehouse", "mcp", "--warehouse", str(warehouse / "warehouse")]
    started = stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env=environment))
    (shown,) = called(started, ("show", {"xid": PAID}))
    assert shown["xid"] == PAID


def test_over_http_where_it_is_switched_on(warehouse, tmp_path):
    with serving(warehouse / "warehouse", warehouse / "model", "--mcp") as served:
        (shown,) = called(f"{served.url}/mcp", ("show", {"xid": PAID}))
        assert shown["xid"] == PAID
        assert served.ask("/mcp", "POST", Host="other.example", Content_Length="0").status == 421
        assert served.ask("/mcp", "POST", Origin="http://other.example", Content_Length="0").status == 403
    with serving(warehouse / "warehouse", warehouse / "model") as served:
        assert served.ask("/mcp", "POST", Content_Length="0").status in (404, 405)


@pytest.mark.slow
def test_over_http_those_who_may_read_ask_many_at_once(warehouse, tmp_path):
    users = tmp_path / "users.txt"
    write_user(str(users), "anna", "secret")

    async def session(url: str) -> list[Any]:
        answers: list[Any] = []

        async def ask() -> None:
            async with (
                httpx2.AsyncClient(auth=("anna", "secret"), timeout=60) as http_client,
                Client(streamable_http_client(url, http_client=http_client)) as client,
            ):
                answers.append(json.loads((await client.call_tool("show", {"xid": PAID})).content[0].text)["xid"])

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(ask)
        return answers

    with serving(warehouse / "warehouse", warehouse / "model", "--mcp", "--users", str(users)) as served:
        assert anyio.run(session, f"{served.url}/mcp") == [PAID] * 100
        assert served.ask("/mcp", "POST", Content_Length="0").status == 401
