"""What an agent asks, in few calls and short answers; and what no argument may do."""

from __future__ import annotations

import json
import threading
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from sitecatalogs import opened, write_demo

from lakehouse.agents import CatalogQuestions, make_mcp_server
from lakehouse.agents.questions import MOST_CHARACTERS, bounded

CHARACTERS_A_TOKEN = 4
MOST_CALLS, MOST_TOKENS = 3, 2_000
KAFKA = "/messagegroups/shop.orders.kafka/messages/shop.orders."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("questions")
    write_demo(folder / "warehouse", first_label="release-1")
    with opened(folder / "warehouse", folder / "model") as model:
        yield model


class Session:
    """A client that counts its calls and the tokens of their answers."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.calls = self.characters = 0

    async def call(self, name: str, **arguments: Any) -> Any:
        self.calls += 1
        result = await self.client.call_tool(name, arguments)
        text = result.content[0].text
        self.characters += len(text)
        assert not result.is_error, text
        return json.loads(text)


async def which_messages_carry_region(session: Session) -> None:
    answer = await session.call("search", words="attr:region", kind="message")
    assert answer["total"] == len(answer["hits"]) == 14
    assert "envelope attribute region, required" in answer["hits"][0]["fragments"]
    assert answer["facets"]["protocol"] == {"none": 6, "KAFKA": 4, "AMQP": 3, "HTTP": 1}


async def who_receives_order_paid_and_over_what(session: Session) -> None:
    answer = await session.call("search", words="OrderPaid", protocol="kafka")
    assert [hit["xid"] for hit in answer["hits"]] == [f"{KAFKA}OrderPaid"]
    shown = await session.call("show", xid=f"{KAFKA}OrderPaid")
    receivers = [one for one in shown["endpoints"] if "consumer" in one["usage"]]
    assert [one["endpoint_xid"] for one in receivers] == ["/endpoints/shop.orders.kafka.consumer"]
    assert receivers[0]["options"]["topic"] == shown["address"] == "harbour.orders"
    assert (shown["protocol"], shown["owner"]) == ("KAFKA", "checkout")


async def what_broke_and_for_whom(session: Session) -> None:
    answer = await session.call("compare", before="release-1", after="release-2")
    assert answer["counts"]["breaking"] == 2
    assert [(one["endpoint"], one["owner"]) for one in answer["breaks"]] == [
        ("/endpoints/shop.orders.kafka.producer", "checkout")
    ]
    assert answer["breaks"][0]["messages"] == [f"{KAFKA}OrderPlaced"]
    assert "/envelopemetadata/region/required: Producers must send" in answer["breaks"][0]["reason"]


async def why_does_this_event_not_match(session: Session) -> None:
    headers = {"ce_specversion": "1.0", "ce_type": "shop.orders.OrderPaid", "ce_source": "/elsewhere", "ce_id": "1"}
    event = {"protocol": "KAFKA", "topic": "harbour.orders", "key": "o1", "headers": headers, "value": "x"}
    answer = await session.call("match_event", event=json.dumps(event))
    assert answer["results"][0]["status"] == "unmatched"
    candidate = next(one for one in answer["results"][0]["candidates"] if one["xid"] == f"{KAFKA}OrderPaid")
    failed = {one["pointer"] for one in candidate["attributes"] if one["verdict"].startswith("fail")}
    assert "/envelopemetadata/source" in failed


@pytest.mark.parametrize(
    "question",
    [which_messages_carry_region, who_receives_order_paid_and_over_what, what_broke_and_for_whom, why_does_this_event_not_match],
)
def test_a_question_is_answered_in_few_calls_and_tokens(model, question, record_property):
    async def ask() -> Session:
        async with Client(make_mcp_server(CatalogQuestions(model, None, 1 << 20))) as client:
            session = Session(client)
            await question(session)
            return session

    session = anyio.run(ask)
    tokens = -(-session.characters // CHARACTERS_A_TOKEN)
    print(f"{question.__name__}: {session.calls} calls, {tokens} tokens")
    assert session.calls <= MOST_CALLS
    assert tokens <= MOST_TOKENS


def result(candidates: int, attributes: int = 8) -> dict[str, Any]:
    held = [{"pointer": f"/envelopemetadata/{number}", "declared": "x" * 40, "actual": "y" * 40, "verdict": "pass"}
            for number in range(attributes)]  # fmt: skip
    best = [{"registryid": "r", "xid": "/messagegroups/g/messages/m0"}]
    found = [{"xid": f"/messagegroups/g/messages/m{number}", "attributes": held} for number in range(candidates)]
    return {"row": 0, "status": "matched", "best": best, "candidates": found}


@pytest.mark.parametrize(("candidates", "attributes"), [(1, 8), (8, 8), (10, 40), (10, 400), (1, 4000)])
def test_the_result_of_one_event_keeps_its_nearest_candidates(candidates, attributes):
    text = bounded({"results": [result(candidates, attributes)], "snapshot": 1})
    assert len(text) <= MOST_CHARACTERS
    answer = json.loads(text)
    [shown] = answer["results"]
    assert (shown["status"], shown["best"][0]["xid"]) == ("matched", "/messagegroups/g/messages/m0")
    assert shown["candidates"][0]["xid"] == "/messagegroups/g/messages/m0"
    assert shown["candidates"][0]["attributes"][0]["pointer"] == "/envelopemetadata/0"
    is_cut = len(shown["candidates"]) < candidates
    assert answer.get("cut", {}).get("results/0/candidates") == (
        f"{len(shown['candidates'])} of {candidates}" if is_cut else None
    )


def test_of_several_events_the_first_are_answered_and_cut_counts_the_rest():
    answer = json.loads(bounded({"results": [result(8) for _ in range(8)], "snapshot": 1}))
    assert answer["results"][0]["candidates"]
    assert answer["cut"]["results"] == "1 of 8"


def test_what_cannot_be_cut_is_said_to_be_too_large():
    assert "too large" in json.loads(bounded({str(number): "x" * 500 for number in range(50)}))["error"]
    row = ["x" * 500] * 50
    assert json.loads(bounded({"columns": ["c"], "rows": [row], "snapshot": 1}))["cut"] == {"rows": "0 of 1"}


WORDS = ("x" * 1_000_000, "\x00\x1b[31m\u202e", '" OR 1=1 --', "attr:" * 1000, "*", "' NEAR(", "")
XIDS = ("/", "", "..", f"/messagegroups/{'x' * 100_000}", "/a" * 5000, "\x00", "/messagegroups/../x", "//", "/endpoints/none")
EVENTS = ("[" * 100_000, "{", "null", "\x00", "x" * 300_000, '{"specversion": "1.0"}', "1e999")
QUERIES = (
    "INSERT INTO log SELECT * FROM log",
    "CREATE TABLE x (y)",
    "ATTACH 'x.db' AS x",
    "PRAGMA journal_mode = DELETE",
    "VACUUM INTO 'x.db'",
    "SELECT writefile('x', 'y')",
    "SELECT count(*) FROM effective a, effective b, effective c, effective d, effective e, effective f, effective g",
    "SELECT hex(zeroblob(1000000000))",
    f"SELECT {'(' * 5000}1{')' * 5000}",
    "SELECT 1 " * 200_000,
    "SELECT '\x00'",
)
HOSTILE: list[tuple[str, dict[str, Any]]] = [
    *(("search", {"words": words}) for words in WORDS),
    *(
        ("search", {"words": "order", **more})
        for more in ({"limit": 10**30}, {"limit": -5}, {"limit": "many"}, {"kind": "table"})
    ),
    *(("search", {"words": "order", name: "%' OR '1'='1\x00"}) for name in ("protocol", "owner", "label")),
    ("search", {"words": ["a"]}),
    ("search", {}),
    *((name, {"xid": xid}) for name in ("show", "list", "render_example") for xid in XIDS),
    *(("show", {"xid": f"{KAFKA}OrderPaid", "at": at}) for at in ("9" * 5000, "-1", "0", "never\x00", "' OR 1=1")),
    *(("compare", {"before": one, "after": "head"}) for one in ("9" * 400, *XIDS)),
    *(("match_event", {"event": event}) for event in EVENTS),
    ("match_event", {"event": "{}", "protocol": "x" * 9999}),
    *(("explain_finding", {"rule_id": rule}) for rule in ("../../etc/passwd", "MSG-999", "x" * 100_000)),
    *(("sql", {"query": query}) for query in QUERIES),
    ("no_such_tool", {}),
]


def test_no_argument_harms_the_session_or_the_catalog(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def ask() -> list[tuple[str, str]]:
        answers = []
        async with Client(make_mcp_server(CatalogQuestions(model, None, 1 << 20))) as client:
            for name, arguments in HOSTILE:
                try:
                    result = await client.call_tool(name, arguments)
                except Exception as error:  # an error of the protocol: the SDK raises it
                    answers.append((name, f"{type(error).__name__}: {error}"))
                    continue
                answers.append((name, result.content[0].text))
            last = await client.call_tool("show", {"xid": f"{KAFKA}OrderPaid"})
            assert json.loads(last.content[0].text)["xid"] == f"{KAFKA}OrderPaid"
        return answers

    answers = anyio.run(ask)
    for name, text in answers:
        assert len(text) <= MOST_CHARACTERS, (name, len(text), text[:200])
        assert "Traceback" not in text
        assert "Internal" not in text, (name, text[:300])
    assert not list(tmp_path.iterdir())


def test_a_call_that_is_cancelled_leaves_the_session(model, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def slow(view: Any, query: str) -> dict[str, Any]:
        begun.set()
        go_on.wait(60)
        return {"rows": []}

    monkeypatch.setattr("lakehouse.agents.questions.run_select", slow)

    async def ask() -> Any:
        async with Client(make_mcp_server(CatalogQuestions(model, None, 1 << 20))) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "sql", {"query": "SELECT 1"})
                await anyio.to_thread.run_sync(begun.wait, 60)
                group.cancel_scope.cancel()
            shown = await client.call_tool("show", {"xid": f"{KAFKA}OrderPaid"})
            return json.loads(shown.content[0].text)["xid"]

    try:
        assert anyio.run(ask) == f"{KAFKA}OrderPaid"
        assert begun.is_set()
    finally:
        go_on.set()


def test_snapshots_whose_labels_have_a_slash_are_compared(tmp_path):
    write_demo(tmp_path / "warehouse", first_label="release/1")
    questions = CatalogQuestions(opened(tmp_path / "warehouse", tmp_path / "readmodel"), None, 1_000_000)
    assert questions.compare("release/1", "release-2") | {"before": "1"} == questions.compare("1", "release-2")
