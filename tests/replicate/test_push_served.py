"""Pushing between catalogs of this product: real servers that may be written to, over real sockets."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from builders import read
from serve.served import ROOT
from serve.test_roundtrip import SHOP
from serve.writing import EVENT, Writable, empty_warehouse, writing

from lakehouse.errors import ReplicationError
from lakehouse.readmodel import open_model
from lakehouse.replicate.client import RequestLimits
from lakehouse.replicate.push import Pushed
from lakehouse.settings import Settings, read_settings
from replicate.sources import QUICK, Catalog
from replicate.test_push import REFERRING, push, settings_of

# The first write waits until the process that writes is there.
PATIENT = RequestLimits(connect_seconds=5, read_seconds=60, answer_seconds=60, attempts=3, pause=0.1)


def holds(settings: Settings, registryid: str = "default") -> dict[str, str]:
    """Return the content hash of each entity below the registry, by XID."""
    with open_model(settings) as model, model.at() as view:
        rows = view.db.execute(
            f"SELECT xid, content_hash FROM log WHERE registryid = ? AND {view.in_snapshot()}"
            " AND kind NOT IN ('document', 'label', 'snapshot', 'registry')",
            (registryid,),
        ).fetchall()
    return dict(rows)


class Node:
    """A catalog that is served, may be written to, and pushes what it holds."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.folder = folder
        self.warehouse = empty_warehouse(folder / "w").folder
        reported = {"readmodel_dir": str(folder / "own"), "authority": f"https://{folder.name}.example"} | more
        self.settings = read_settings(warehouse=str(self.warehouse)).model_copy(update=reported)
        self.served: Writable | None = None

    def serve(self, stack: ExitStack) -> Writable:
        self.served = stack.enter_context(writing(self.warehouse, self.folder / "model"))
        return self.served

    def push(self, target: Node, limits: RequestLimits = PATIENT) -> Pushed:
        return push(self.settings, target.served.url, limits=limits, authority=target.settings.authority)

    def head(self) -> int:
        with open_model(self.settings) as model, model.at() as view:
            return view.head

    def holds(self) -> dict[str, str]:
        return holds(self.settings)

    def says(self, name: str) -> dict[str, Any]:
        """Return what matters of each Version of a message."""
        found = self.served.get(f"/messagegroups/g/messages/{name}?inline=versions,meta")
        return {key: one.get("description") for key, one in found["versions"].items()}


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def nodes(folder: Path, stack: ExitStack, *names: str, **more: Any) -> list[Node]:
    found = [Node(folder / name, **more) for name in names]
    for one in found:
        one.serve(stack)
    return found


def rounds(ways: list[tuple[Node, Node]], most: int = 8) -> int:
    """Push every way, round after round, until nothing is sent any more; gives the number of rounds."""
    for number in range(1, most + 1):
        done = [one.push(other) for one, other in ways]
        assert [one.refused for one in done] == [[] for _ in ways]
        if not any(one.written + one.deleted for one in done):
            return number
    raise AssertionError("they never come to rest")


def as_servers_hold_it() -> dict[str, Any]:
    """SHOP without what a server sets itself: `readonly`, and the media type of JSON documents (the test after the next)."""
    shop = copy.deepcopy(SHOP)
    del shop["messagegroups"]["orders"]["messages"]["fixed"]
    schemas = shop["schemagroups"]["s"]["schemas"]
    for version in (*schemas["json"]["versions"].values(), schemas["coded"]):
        version["contenttype"] = "application/json"
    return shop


def test_a_catalog_is_sent_whole_and_then_what_changes(tmp_path, stack):
    """CAT-185: entities of every kind with their Versions, as they are; epochs are counted by the target."""
    catalog = Catalog(tmp_path / "warehouse")
    shop = as_servers_hold_it()
    catalog.load(shop)
    settings = settings_of(catalog)
    (target,) = nodes(tmp_path, stack, "target")
    first = push(settings, target.served.url, limits=PATIENT)
    assert (first.refused, first.written) == ([], sum(xid.count("/") in (2, 4) for xid in catalog.held))
    assert target.holds() == holds(settings, "shop")
    placed = "/messagegroups/orders/messages/placed/versions/1"
    before = {xid: target.served.get(xid)["epoch"] for xid in (placed, "/messagegroups/orders/messages/many/versions/10")}
    head = target.head()
    assert push(settings, target.served.url, limits=PATIENT)[1:4] == (0, 0, 0)
    assert target.head() == head

    after = copy.deepcopy(shop)
    after["messagegroups"]["orders"]["messages"]["placed"]["description"] = "new"
    del after["messagegroups"]["orders"]["messages"]["many"]["versions"]["10"]
    del after["messagegroups"]["empty"]
    after["messagegroups"]["orders"]["messages"]["alias"] = {"name": "own"}
    catalog.load(after)
    pushed = push(settings, target.served.url, limits=PATIENT)
    assert (pushed.refused, pushed.deleted) == ([], 1)
    assert target.holds() == holds(settings, "shop")
    assert target.served.get(placed)["epoch"] == before[placed] + 1


def test_a_promise_that_ends_is_ended_before_what_breaks_it_is_sent(tmp_path, stack):
    catalog = Catalog(tmp_path / "warehouse")
    fields = [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]
    versions = {
        str(number): {"format": "Avro/1.11", "contenttype": "application/json", "ancestorid": "1",
                      "schema": {"type": "record", "name": "R", "fields": fields[:number]}}
        for number in (1, 2)
    }  # fmt: skip

    def promising(meta: dict[str, Any], *ids: str) -> dict[str, Any]:
        schema = {"meta": meta, "versions": {name: versions[name] for name in ids}}
        return SHOP | {"schemagroups": {"s": {"schemas": {"t": schema}}}, "messagegroups": {}, "endpoints": {}}

    catalog.load(promising({"compatibility": "backward"}, "1"))
    settings = settings_of(catalog)
    (target,) = nodes(tmp_path, stack, "target")
    assert push(settings, target.served.url, limits=PATIENT).refused == []
    catalog.load(promising({"compatibility": "none"}, "1", "2"))
    assert push(settings, target.served.url, limits=PATIENT).refused == []
    assert target.holds() == holds(settings, "shop")


@pytest.mark.slow
def test_what_a_server_sets_itself_is_not_sent_again_and_again(tmp_path, stack):
    """`readonly` of the source is not the target's; a JSON document gets the media type of JSON where it has none."""
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(SHOP)
    settings = settings_of(catalog)
    (target,) = nodes(tmp_path, stack, "target")
    assert push(settings, target.served.url, limits=PATIENT).refused == []
    assert push(settings, target.served.url, limits=PATIENT)[1:4] == (0, 0, 0)


@pytest.mark.slow
def test_three_in_a_ring_come_to_rest_with_equal_content(tmp_path, stack):
    """CAT-181 to CAT-183: each message ends where it came from; groups, which have no authority, end where they are the same."""
    a, b, c = ring = nodes(tmp_path, stack, "a", "b", "c")
    for number, node in enumerate(ring):
        node.served.done("PUT", "/messagegroups/g", {"description": "shared"})
        node.served.done("PUT", f"/messagegroups/g/messages/of-{node.folder.name}", EVENT | {"name": str(number)})
    ways = [(a, b), (b, c), (c, a)]
    assert rounds(ways) <= 4
    assert a.holds().keys() == b.holds().keys() == c.holds().keys()
    assert {xid for xid in a.holds() if xid.count("/") == 4} == {f"/messagegroups/g/messages/of-{name}" for name in "abc"}
    for name in "abc":
        assert [one.says(f"of-{name}") for one in ring] == [a.says(f"of-{name}")] * 3
        here = [one.served.get(f"/messagegroups/g/messages/of-{name}/meta").get("authority") for one in ring]
        assert here == [None if one.folder.name == name else f"https://{name}.example" for one in ring]
    heads = [one.head() for one in ring]
    assert rounds(ways) == 1
    assert [one.head() for one in ring] == heads  # no commit, so no event
    b.served.done("PATCH", "/messagegroups/g/messages/of-b", {"description": "changed"})
    assert rounds(ways) <= 4
    assert [one.says("of-b") for one in ring] == [{"1": "changed"}] * 3
    assert [one.head() - before for one, before in zip(ring, heads, strict=True)][1] == 1


@pytest.mark.slow
def test_what_the_target_had_before_is_not_ours_to_delete(tmp_path, stack):
    """It is the same, so it is not sent, and it stays when it goes here."""
    a, b = nodes(tmp_path, stack, "a", "b", authority="")
    for node in (a, b):
        node.served.done("PUT", "/messagegroups/g/messages/both", EVENT)
    a.served.done("PUT", "/messagegroups/g/messages/mine", EVENT)
    head = b.head()
    assert a.push(b)[1:4] == (1, 0, 2)
    assert b.head() == head + 2  # its Version, and its meta
    a.served.done("DELETE", "/messagegroups/g")
    assert a.push(b)[1:4] == (0, 1, 0)
    assert set(b.served.get("/messagegroups/g/messages")) == {"both"}


@pytest.mark.slow
def test_a_partition_that_heals_comes_to_rest_and_loses_nothing(tmp_path, stack):
    """Both sides change their own messages and the group meanwhile, delete one, and make new ones."""
    a, b, c = every = nodes(tmp_path, stack, "a", "b", "c")
    for node in every:
        node.served.done("PUT", f"/messagegroups/g/messages/of-{node.folder.name}", EVENT)
        node.served.done("PUT", f"/messagegroups/g/messages/more-{node.folder.name}", EVENT)
    whole = [(a, b), (b, a), (b, c), (c, b), (a, c), (c, a)]
    rounds(whole)
    url, c.served.url = c.served.url, "http://127.0.0.1:9"  # nobody is there
    b.served.done("DELETE", "/messagegroups/g/messages/more-b")
    for number in range(2):
        a.served.done("PATCH", "/messagegroups/g/messages/of-a", {"description": f"this side {number}"})
        a.served.done("PATCH", "/messagegroups/g", {"description": f"this side {number}"})
        rounds([(a, b), (b, a)])
        with pytest.raises(ReplicationError):
            a.push(c, QUICK)
    a.served.done("POST", "/messagegroups/g/messages/of-a/versions", {"2": EVENT})
    c.served.url = url
    c.served.done("PATCH", "/messagegroups/g/messages/of-c", {"description": "on that side"})
    c.served.done("PATCH", "/messagegroups/g", {"description": "of that side"})
    c.served.done("PUT", "/messagegroups/g/messages/new-c", EVENT | {"description": "made apart"})
    c.served.done("DELETE", "/messagegroups/g/messages/more-c")
    heads = [one.head() for one in every]
    assert rounds(whole) <= 5
    names = {"of-a", "of-b", "of-c", "more-a", "new-c"}
    for node in every:
        assert set(node.served.get("/messagegroups/g/messages")) == names
    for name in names:
        assert [one.says(name) for one in every] == [a.says(name)] * 3
    assert a.says("of-a") == {"1": "this side 1", "2": None}
    assert (a.says("of-c"), a.says("new-c")) == ({"1": "on that side"}, {"1": "made apart"})
    assert len({json.dumps(one.served.get("/messagegroups/g")["description"]) for one in every}) == 1
    assert max(one.head() - before for one, before in zip(every, heads, strict=True)) <= 12
    heads = [one.head() for one in every]
    assert rounds(whole) == 1
    assert [one.head() for one in every] == heads


@pytest.mark.slow
def test_a_push_that_was_killed_goes_on_where_it_was(tmp_path, stack):
    """kill -9 of the one that pushes: what was sent is not sent again, but for what it was about; nothing is missing."""
    catalog, document = Catalog(tmp_path / "warehouse"), as_servers_hold_it()
    document["messagegroups"]["many"] = {"messages": {f"m{number:02}": EVENT for number in range(40)}}
    catalog.load(document)
    settings = settings_of(catalog)
    (target,) = nodes(tmp_path, stack, "target")
    command = [sys.executable, "-m", "lakehouse", "--warehouse", str(catalog.folder), "replicate", "push", "--json"]
    reported = os.environ | {"LAKEHOUSE_READMODEL_DIR": settings.readmodel_dir, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([*command, target.served.url], env=reported, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    end = time.monotonic() + 240
    while target.served.get("/messagegroups").get("many", {"messagescount": 0})["messagescount"] < 5:
        assert time.monotonic() < end
        assert process.poll() is None
    process.kill()
    process.communicate()
    count = target.served.get("/messagegroups/many")["messagescount"]
    assert 5 <= count < 40
    ran = subprocess.run([*command, target.served.url], env=reported, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert 40 - count <= json.loads(ran.stdout)["written"] <= 40 - count + len(SHOP["messagegroups"]) + 8
    assert target.holds() == holds(settings, "shop")
    epochs = [target.served.get(f"/messagegroups/many/messages/m{number:02}/versions/1")["epoch"] for number in range(40)]
    assert sum(epochs) <= 41


@pytest.mark.slow
def test_a_target_that_is_killed_is_sent_the_rest_when_it_is_there_again(tmp_path, stack):
    a, b = Node(tmp_path / "a"), Node(tmp_path / "b")
    a.serve(stack)
    a.served.done("POST", "/messagegroups", {"g": {"messages": {f"m{number:02}": EVENT for number in range(20)}}})
    with ExitStack() as first:
        b.serve(first)
        b.served.done("PUT", "/messagegroups/own", {})
        process = b.served.process

        def kill(xid: str, left: int) -> None:
            if left == 10:
                process.kill()
                process.wait(10)

        with pytest.raises(ReplicationError):
            push(a.settings, b.served.url, limits=QUICK, authority="https://b.example", report=kill)
    there = {xid for xid in b.holds() if xid.count("/") == 4}
    assert 9 <= len(there) < 20
    b.serve(stack)
    done = a.push(b)
    assert done.refused == []
    assert 20 - len(there) <= done.written <= 20 - len(there) + 1
    assert a.push(b).written == 0
    assert {xid.rsplit("/", 1)[1] for xid in b.holds() if xid.count("/") == 4} == {f"m{number:02}" for number in range(20)}


def test_an_authorization_that_is_a_list_is_taken_and_its_secrets_are_not():
    """1.0-rc4 has a list of objects: what one catalog shows of it, another one takes."""
    for authorization, rules in (
        ([{"type": "X509Cert"}], []),
        ([{"type": "x", "password": "hunter2"}], ["END-111"]),
        (["Bearer abc"], ["END-111", "END-048"]),
    ):
        endpoint = {"usage": ["producer"], "protocol": "KAFKA", "protocoloptions": {"authorization": authorization}}
        reading = read(json.dumps({"specversion": "1.0-rc4", "registryid": "r", "endpoints": {"e": endpoint}}).encode())
        assert [one.rule_id for one in reading.findings] == rules
        assert not any(secret in str((row.body, row.raw)) for row in reading.rows for secret in ("hunter2", "abc"))


@pytest.mark.slow
def test_the_first_push_takes_what_refers_to_something_of_the_same_push(tmp_path, stack):
    """END-173 at the target: a will message has to be there."""
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(REFERRING)
    settings = settings_of(catalog)
    (target,) = nodes(tmp_path, stack, "target")
    pushed = push(settings, target.served.url, limits=PATIENT)
    assert (pushed.written, pushed.refused) == (11, [])
    held = holds(settings, "shop")
    assert {xid: one for xid, one in target.holds().items() if xid in held} == held
    assert push(settings, target.served.url, limits=PATIENT)[1:] == (0, 0, 0, [])
