"""Pushing to a server that can be written: here a stand-in that keeps what it is sent, by the rules of the write API."""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from serve.test_roundtrip import SHOP

from lakehouse.errors import ReplicationError
from lakehouse.replicate.client import RequestLimits, read_address
from lakehouse.replicate.pull import read_scope
from lakehouse.replicate.push import Push, Pushed, Pusher
from lakehouse.replicate.state import open_state
from lakehouse.settings import Settings, read_settings
from replicate.sources import QUICK, Asked, Catalog, answering
from replicate.test_fetch import DRAFT

MEMBERS = {"messagegroups": "messages", "endpoints": "messages", "schemagroups": "schemas"}


class Target:
    """A registry that can be written: entities by path; a Resource has `meta` and `versions`."""

    def __init__(self, specversion: str = "1.0-rc4") -> None:
        self.root = {"specversion": specversion, "registryid": "target"}
        self.held: dict[str, Any] = {}
        self.refuses: Any = lambda method, path: 0

    def __call__(self, asked: Asked) -> None:
        method, path = asked.command, unquote(asked.path.partition("?")[0]).replace("$details", "")
        status = self.refuses(method, path)
        if status:
            asked.give({"title": "No."}, status)
            return
        body = type(asked).seen[-1][3]
        value = json.loads(body) if body else None
        status, answer = self.answer(method, path, value)
        asked.give(b"" if status == 204 else answer, status)

    def answer(self, method: str, path: str, value: Any) -> tuple[int, Any]:
        if path == "/":
            return 200, self.root
        depth = path.count("/")
        if method == "GET":
            if depth == 2 and path in self.held:
                name = MEMBERS[path.split("/")[1]]
                return 200, self.held[path] | {f"{name}count": sum(one.startswith(path + "/") for one in self.held)}
            found = self.held.get(path.removesuffix("/meta"))
            return (200, found["meta"] if path.endswith("/meta") else found) if found else (404, {"title": "not found"})
        if method == "PUT" and depth == 2:
            assert not {"messages", "schemas", "epoch", "self"} & set(value)
            self.held[path] = value
        elif method == "PUT" and depth == 4:
            self.held[path] = {"meta": value["meta"], "versions": {}}
        elif method == "POST" and path.endswith("/versions"):
            assert path.rsplit("/", 3)[0] in self.held, "the group comes first"
            known = self.held.setdefault(path.removesuffix("/versions"), {"meta": {"x": 1}, "versions": {}})
            assert all("epoch" not in one for one in value.values())
            known["versions"] |= value
        elif method == "PUT" and path.endswith("/meta"):
            self.held[path.removesuffix("/meta")]["meta"] = value
        elif method == "DELETE":
            return self.deleted(path)
        else:
            return 405, {"title": "not allowed"}
        return 200, {}

    def deleted(self, path: str) -> tuple[int, Any]:
        if "/versions/" in path:
            holder, _, versionid = path.partition("/versions/")
            gone = self.held.get(holder, {"versions": {}})["versions"].pop(versionid, None)
        else:
            gone = self.held.get(path)
            self.held = {one: held for one, held in self.held.items() if one != path and not one.startswith(path + "/")}
        return (204, None) if gone is not None else (404, {"title": "not found"})


def settings_of(catalog: Catalog, **given: Any) -> Settings:
    folder = catalog.folder.parent
    return read_settings(warehouse=str(catalog.folder)).model_copy(update={"readmodel_dir": str(folder / "model"), **given})


def push(settings: Settings, url: str, *groups: str, limits: RequestLimits = QUICK, report: Any = None, **more: Any) -> Pushed:
    """Run a round as a new process would."""
    asked = Push(read_address(url, "TARGET", {}), read_scope(groups), limits=limits, **more)
    with open_state(settings, asked.target.url, asked.scope, "push") as state:
        pusher = Pusher(settings, asked, state, report or (lambda xid, left: None))
        try:
            return pusher.run()
        finally:
            pusher.close()


@pytest.fixture
def catalog(tmp_path):
    found = Catalog(tmp_path / "warehouse")
    found.load(SHOP)
    return found


def test_all_is_sent_and_then_what_changes(catalog):
    """CAT-185: each change is forwarded; what is the same is not sent again."""
    settings, target = settings_of(catalog), Target()
    with answering(target) as server:
        first = push(settings, server.url)
        assert set(target.held) == {xid for xid in catalog.held if xid.count("/") in (2, 4)}
        assert (first.refused, first.written) == ([], len(target.held))
        many = target.held["/messagegroups/orders/messages/many"]
        assert sorted(many["versions"]) == ["1", "10", "2"]
        assert many["versions"]["2"]["ancestorid"] == "1"
        assert many["meta"]["defaultversionid"] == "2"  # sticky: somebody chose it
        assert "defaultversionid" not in target.held["/messagegroups/orders/messages/placed"]["meta"]
        assert target.held["/schemagroups/s/schemas/far"]["versions"]["1"]["schemaurl"] == "https://example.com/far"
        assert target.held["/messagegroups/orders/messages/alias"]["meta"] == {"xref": "/messagegroups/orders/messages/placed"}
        sent = len(server.seen)
        assert push(settings, server.url)[1:4] == (0, 0, 0)
        assert len(server.seen) == sent

        after = copy.deepcopy(SHOP)
        after["messagegroups"]["orders"]["messages"]["placed"]["description"] = "new"
        del after["messagegroups"]["orders"]["messages"]["many"]["versions"]["10"]
        del after["messagegroups"]["empty"]
        catalog.load(after)
        pushed = push(settings, server.url)
        written = {path for method, path, _, _ in server.seen[sent:] if method in ("PUT", "POST", "DELETE")}
    assert (pushed.written, pushed.deleted) == (2, 1)
    assert target.held["/messagegroups/orders/messages/placed"]["versions"]["1"]["description"] == "new"
    assert sorted(target.held["/messagegroups/orders/messages/many"]["versions"]) == ["1", "2"]
    assert "/messagegroups/empty" not in target.held
    assert not any("/schemagroups" in path or "/endpoints" in path for path in written)


def test_an_alias_that_becomes_a_message_of_its_own_is_sent_anew(catalog):
    settings, target = settings_of(catalog), Target()
    with answering(target) as server:
        push(settings, server.url)
        after = copy.deepcopy(SHOP)
        after["messagegroups"]["orders"]["messages"]["alias"] = {"name": "own"}
        catalog.load(after)
        push(settings, server.url)
        deleted = [path for method, path, _, _ in server.seen if method == "DELETE"]
    assert deleted == ["/messagegroups/orders/messages/alias"]
    assert target.held["/messagegroups/orders/messages/alias"]["versions"]["1"]["name"] == "own"
    assert "xref" not in target.held["/messagegroups/orders/messages/alias"]["meta"]


def test_an_older_target_is_spoken_to_in_its_dialect(catalog):
    target = Target("1.0-rc2")
    with answering(target) as server:
        push(settings_of(catalog), server.url)
    assert target.held["/messagegroups/orders/messages/many"]["versions"]["2"]["ancestor"] == "1"


def test_a_push_that_was_cut_short_goes_on_where_it_was(catalog):
    settings, target = settings_of(catalog), Target()
    target.refuses = lambda method, path: 503 if method == "POST" and "/placed/" in path else 0
    with answering(target) as server:
        with pytest.raises(ReplicationError, match="503"):
            push(settings, server.url)
        done = [path for method, path, _, _ in server.seen if method == "PUT"]
        target.refuses = lambda method, path: 0
        start = len(server.seen)
        push(settings, server.url)
        again = [path for method, path, _, _ in server.seen[start:] if method == "PUT"]
    assert set(target.held) == {xid for xid in catalog.held if xid.count("/") in (2, 4)}
    assert not set(done) & set(again)


def test_what_is_refused_costs_no_other_and_is_sent_again(catalog):
    settings, target = settings_of(catalog), Target()
    target.refuses = lambda method, path: 400 if method == "POST" and "/placed/" in path else 0
    with answering(target) as server:
        pushed = push(settings, server.url)
        assert [xid for xid, _ in pushed.refused] == ["/messagegroups/orders/messages/placed"]
        assert "No." in pushed.refused[0][1]
        target.refuses = lambda method, path: 0
        assert push(settings, server.url).written == 1
    assert "/messagegroups/orders/messages/placed" in target.held


@pytest.mark.parametrize("status", [401, 403, 405])
def test_a_target_that_takes_nothing_in_is_reported(catalog, status):
    """CAT-180, CAT-184: a catalog that is governed centrally takes no copies in."""
    target = Target()
    target.refuses = lambda method, path: status if method in ("PUT", "POST") else 0
    with answering(target) as server, pytest.raises(ReplicationError, match="CAT-184") as raised:
        push(settings_of(catalog), server.url.replace("//", "//me:secret-word@"))
    assert "secret-word" not in str(raised.value)
    assert target.held == {}


def test_authority_ends_loops_and_is_kept(tmp_path):
    """CAT-067, CAT-181 to CAT-183: the target's own is not sent back; a hub keeps authorities; what has none gets ours."""
    document = copy.deepcopy(DRAFT)
    document["messagegroups"]["orders"]["messages"]["theirs"] = {"meta": {"authority": "https://other.example"}}
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(document)
    target = Target()
    with answering(target) as server:
        own = push(settings_of(catalog, authority="https://me.example"), server.url, authority="https://producer.example/")
        meta = {xid.rsplit("/", 1)[1]: held["meta"].get("authority") for xid, held in target.held.items() if xid.count("/") == 4}
        assert meta == {"shop.paid": "https://me.example", "theirs": "https://other.example"}
        assert own.left == 1
    target = Target()
    target.held["/messagegroups/orders"] = {}
    target.held["/messagegroups/orders/messages/theirs"] = {"meta": {"authority": "https://third.example"}, "versions": {}}
    with answering(target) as server:
        pushed = push(settings_of(catalog), server.url)
    assert [xid for xid, _ in pushed.refused] == ["/messagegroups/orders/messages/theirs"]
    assert target.held["/messagegroups/orders/messages/theirs"]["meta"] == {"authority": "https://third.example"}


def test_only_what_came_from_here_is_deleted(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(DRAFT)
    settings, target = settings_of(catalog), Target()
    with answering(target) as server:
        push(settings, server.url)
        target.held["/messagegroups/orders/messages/foreign"] = {"meta": {"x": 1}, "versions": {}}
        after = copy.deepcopy(DRAFT)
        after["messagegroups"] = {"others": {}}
        catalog.load(after)
        push(settings, server.url)
    assert set(target.held) == {"/messagegroups/orders", "/messagegroups/orders/messages/foreign", "/messagegroups/others"}


def test_a_scope_is_pushed_with_what_holds_it(catalog):
    """CAT-186: one definition."""
    target = Target()
    with answering(target) as server:
        push(settings_of(catalog), server.url, "/messagegroups/orders/messages/many")
    assert set(target.held) == {"/messagegroups/orders", "/messagegroups/orders/messages/many"}


def test_the_command_over_a_real_socket(catalog, tmp_path):
    target = Target()
    with answering(target) as server:
        command = [sys.executable, "-m", "lakehouse", "--warehouse", str(catalog.folder), "replicate", "push", "--json"]
        url = server.url.replace("//", "//me:secret-word@")
        environment = os.environ | {
            "LAKEHOUSE_READMODEL_DIR": str(tmp_path / "model"),
            "PYTHONPATH": str(Path(__file__).parents[2]),
        }
        ran = subprocess.run([*command, url], capture_output=True, text=True, check=False, env=environment)
        refused = subprocess.run([*command, "ftp://x"], capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["written"] == len(target.held) > 0
    assert "secret-word" not in ran.stdout + ran.stderr
    assert all(headers.get("authorization", "").startswith("Basic ") for _, _, headers, _ in server.seen)
    assert refused.returncode == 2


REFERRING: dict[str, Any] = {
    "specversion": "1.0-rc4",
    "registryid": "shop",
    "messagegroups": {
        "g": {
            "messages": {
                "a": {"basemessage": "/messagegroups/g/messages/m"},
                "m": {"basemessage": "/messagegroups/g/messages/z"},
                "z": {"name": "z"},
                "alias": {"meta": {"xref": "/messagegroups/g/messages/z"}},
            }
        }
    },
    "endpoints": {
        name: {
            "usage": ["producer"],
            "protocol": "MQTT/5.0",
            "protocoloptions": {"topic": "t", "willmessage": f"/endpoints/{other}/messages/own"},
            "messages": {"own": {"protocol": "MQTT/5.0", "protocoloptions": {"topicname": {"value": "t"}}}},
        }
        for name, other in (("e", "e"), ("first", "second"), ("second", "first"))
    },
}


class Strict(Target):
    """A target that refuses what refers to something that it does not have."""

    def answer(self, method: str, path: str, value: Any) -> tuple[int, Any]:
        if method in ("PUT", "POST") and path != "/":
            named = re.findall(r'"(?:basemessage|willmessage|xref)":"([^"]*)"', json.dumps(value, separators=(",", ":")))
            if gone := [xid for xid in named if xid not in self.held]:
                return 400, {"title": f"it leads to {gone[0]}"}
        return super().answer(method, path, value)


def test_what_refers_to_something_of_the_same_push_is_taken(tmp_path):
    """In whatever order: bases behind what bases on them, will messages of endpoints in a circle, aliases."""
    catalog, target = Catalog(tmp_path / "warehouse"), Strict()
    catalog.load(REFERRING)
    with answering(target) as server:
        pushed = push(settings_of(catalog), server.url)
        assert (pushed.written, pushed.left, pushed.refused) == (11, 0, [])
        assert push(settings_of(catalog), server.url)[1:4] == (0, 0, 0)
    assert set(target.held) == {xid for xid in catalog.held if xid.count("/") in (2, 4)}
    assert target.held["/endpoints/first"]["protocoloptions"]["willmessage"] == "/endpoints/second/messages/own"


def test_an_endpoint_keeps_its_will_message_until_the_next_one_is_there(tmp_path):
    catalog, target = Catalog(tmp_path / "warehouse"), Strict()
    catalog.load(REFERRING)
    settings = settings_of(catalog)
    with answering(target) as server:
        push(settings, server.url)
        after = copy.deepcopy(REFERRING)
        own = after["endpoints"]["e"]["messages"]
        own["next"] = own["own"]
        after["endpoints"]["e"]["protocoloptions"]["willmessage"] = "/endpoints/e/messages/next"
        catalog.load(after)
        start = len(server.seen)
        assert push(settings, server.url)[1:] == (2, 0, 0, [])
        sent = [json.loads(body) for method, path, _, body in server.seen[start:] if (method, path) == ("PUT", "/endpoints/e")]
    assert [one["protocoloptions"]["willmessage"] for one in sent] == ["/endpoints/e/messages/next"]


def test_a_reference_that_leads_nowhere_is_refused_and_costs_no_other(tmp_path):
    catalog, target = Catalog(tmp_path / "warehouse"), Strict()
    catalog.load(REFERRING)
    target.refuses = lambda method, path: 400 if path.startswith("/endpoints/second/messages") and method != "GET" else 0
    with answering(target) as server:
        pushed = push(settings_of(catalog), server.url)
    assert [xid for xid, _ in pushed.refused] == ["/endpoints/first", "/endpoints/second/messages/own"]
    assert pushed.written == 9
    assert "it leads to /endpoints/second/messages/own" in pushed.refused[0][1]
