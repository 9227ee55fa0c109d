"""What a round of pulling fetches: from servers of this product over real sockets, and from stand-ins that misbehave."""

from __future__ import annotations

import copy
import gzip
import json
import time
from typing import Any

import pytest
from serve.served import serving
from serve.test_roundtrip import SHOP

from lakehouse.errors import ReplicationError, SettingsError
from lakehouse.replicate import crawler
from lakehouse.replicate.client import Client, RequestLimits, _origin, read_address
from lakehouse.replicate.pull import read_scope
from replicate.sources import QUICK, Asked, Catalog, answering, fetch, settings_of

DRAFT = {
    "specversion": "1.0-rc2",
    "registryid": "shop",
    "messagegroups": {
        "orders": {
            "envelope": "CloudEvents/1.0",
            "messages": {
                "shop.placed": {
                    "meta": {"authority": "https://producer.example"},
                    "versions": {
                        "1": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.placed"}}},
                        "2": {
                            "ancestor": "1",
                            "description": "more",
                            "envelope": "CloudEvents/1.0",
                            "envelopemetadata": {"type": {"value": "shop.placed"}},
                        },
                    },
                },
                "shop.paid": {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "shop.paid"}}},
            },
        }
    },
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A server of SHOP; the rows that it holds."""
    folder = tmp_path_factory.mktemp("shop")
    catalog = Catalog(folder / "warehouse")
    catalog.load(SHOP)
    with serving(catalog.folder, folder / "model") as served:
        yield served, catalog


def facts(held: Any) -> dict[str, tuple[str, str]]:
    return {xid: row[:2] for xid, row in held.rows().items()}


def test_everything_comes_in_one_document_as_it_is_at_the_source(shop, tmp_path):
    served, catalog = shop
    held = fetch(settings_of(tmp_path), served.url)
    assert facts(held) == catalog.facts()
    assert [unit.uri for unit in held.fetched.units] == [served.url + "/"]  # CAT-176: the document is known by its server
    assert held.fetched.requests <= 3
    assert held.value()["registryid"] == "shop"
    assert not {"capabilities", "model", "modelsource"} & set(held.value())  # of the server, not of what it holds
    reported = held.rows()["/messagegroups/orders/messages/placed/versions/1"]
    assert reported[2] == 7  # epochs are kept
    assert held.rows()["/messagegroups/orders/messages/many"][2] == 9


def test_an_older_dialect_gives_the_same(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(SHOP)
    with serving(catalog.folder, tmp_path / "served", "--specification", "1.0-rc2") as served:
        assert facts(fetch(settings_of(tmp_path), served.url)) == catalog.facts()


def test_group_by_group_and_page_by_page_gives_the_same(shop, tmp_path, monkeypatch):
    served, catalog = shop
    monkeypatch.setattr(crawler.Walk, "_all", crawler.Walk._by_groups)
    monkeypatch.setattr("lakehouse.replicate.crawler._PAGE", 2)
    assert facts(fetch(settings_of(tmp_path / "groups"), served.url)) == catalog.facts()
    monkeypatch.setattr(crawler, "_IN_PAGES", 1)
    assert facts(fetch(settings_of(tmp_path / "pages"), served.url)) == catalog.facts()


def test_a_server_that_nests_nothing_is_walked_entity_by_entity(shop, tmp_path, monkeypatch):
    served, catalog = shop

    def as_if_plain(self):
        self.has_pages = True

    monkeypatch.setattr("lakehouse.replicate.crawler.Reader.look_round", as_if_plain)
    found, held = facts(fetch(settings_of(tmp_path), served.url)), catalog.facts()
    assert found.keys() == held.keys()
    # Such answers give the bytes of a document and not how it was written; and `readonly` may be the server's own.
    same_bytes = {f"/schemagroups/s/schemas/{name}/versions/1" for name in ("string", "empty")}
    unlike = {xid for xid in held if found[xid] != held[xid]}
    assert unlike <= {*same_bytes, "/messagegroups/orders/messages/fixed"}


def test_a_source_that_did_not_change_costs_one_conditional_request(shop, tmp_path, monkeypatch):
    served, _ = shop
    settings = settings_of(tmp_path)
    monkeypatch.setattr("lakehouse.replicate.pull.is_in_catalog", lambda settings, commit: True)
    first = fetch(settings, served.url, loaded=True)
    again = fetch(settings, served.url)
    assert first.fetched.is_changed
    assert not again.fetched.is_changed
    assert again.fetched.received < first.fetched.received / 2
    assert fetch(settings, served.url, force=True).fetched.is_changed


def test_what_a_catalog_does_not_hold_any_more_is_fetched_again(shop, tmp_path, monkeypatch):
    served, _ = shop
    settings = settings_of(tmp_path)
    fetch(settings, served.url, loaded=True)
    monkeypatch.setattr("lakehouse.replicate.pull.is_in_catalog", lambda settings, commit: False)  # as after a restore
    assert fetch(settings, served.url).fetched.is_changed


def test_changes_are_seen_and_vanished_documents_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr("lakehouse.replicate.pull.is_in_catalog", lambda settings, commit: True)
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(SHOP)
    settings = settings_of(tmp_path)
    with serving(catalog.folder, tmp_path / "served") as served:
        fetch(settings, served.url, "orders", "empty", loaded=True)
        after = copy.deepcopy(SHOP)
        del after["messagegroups"]["empty"]
        after["messagegroups"]["orders"]["messages"]["placed"]["description"] = "new"
        number = catalog.load(after)
        _until_served(served, number)
        held = fetch(settings, served.url, "orders", "empty")
    assert [unit.uri for unit in held.fetched.changed] == [f"{served.url}/messagegroups/orders"]
    assert held.fetched.vanished == [f"{served.url}/messagegroups/empty"]
    assert held.rows()["/messagegroups/orders/messages/placed/versions/1"][1] != ""


def _until_served(served: Any, number: int) -> None:
    until = time.monotonic() + 20
    while served.get("/ready")["snapshot"] != number:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_scope_is_a_group_an_endpoint_or_one_message(shop, tmp_path):
    """CAT-186, CAT-189: the whole catalog, a group, or one definition."""
    served, catalog = shop
    held = fetch(settings_of(tmp_path), served.url, "/schemagroups/s", "/messagegroups/orders/messages/many")
    xids = {xid for xid in held.rows() if xid != "/"}
    assert xids == {
        xid
        for xid in catalog.held
        if xid.startswith(("/schemagroups/s", "/messagegroups/orders/messages/many")) or xid == "/messagegroups/orders"
    }
    with pytest.raises(SettingsError, match="XID"):
        read_scope(("/messagegroups/a/b",))


def test_a_catalog_of_the_draft_is_walked_and_authority_is_filled_in(tmp_path):
    """CAT-045, CAT-067, CAT-068, CAT-179, CAT-188: an absent authority is the source; one that is there stays."""
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(DRAFT)
    with serving(catalog.folder, tmp_path / "served") as served:
        held = fetch(settings_of(tmp_path), f"{served.url}/messagecatalog")
        scope = [f"/messagegroups/orders/messages/shop.{name}" for name in ("placed", "paid")]
        only = fetch(settings_of(tmp_path / "2"), f"{served.url}/messagecatalog", scope[0])
        both = fetch(settings_of(tmp_path / "3"), f"{served.url}/messagecatalog", *scope)
        whole = fetch(settings_of(tmp_path / "4"), f"{served.url}/messagecatalog", "/messagegroups/orders", scope[1])
    (document,) = (json.loads(text) for text in held.documents.values())
    assert [unit.uri for unit in held.fetched.units] == [f"{served.url}/messagecatalog/orders"]
    assert {one["id"]: one["authority"] for one in document["messagedefinitions"].values()} == {
        "shop.placed": "https://producer.example",
        "shop.paid": served.url,
    }
    versions = {xid: row for xid, row in held.rows().items() if row[0] == "version"}
    assert set(versions) == {
        f"/messagegroups/orders/messages/{one}"
        for one in ("shop.placed/versions/1", "shop.placed/versions/2", "shop.paid/versions/1")
    }
    assert list(json.loads(next(iter(only.documents.values())))["messagedefinitions"]) == ["shop.placed"]
    taken = [list(json.loads(text)["messagedefinitions"]) for text in both.documents.values()]
    assert sorted(taken) == [["shop.paid"], ["shop.placed"]]
    assert [unit.uri for unit in whole.fetched.units] == [f"{served.url}/messagecatalog/orders"]


def test_the_draft_knows_message_groups_only(tmp_path):
    with answering(lambda asked: asked.give([])) as source, pytest.raises(SettingsError, match="message groups"):
        fetch(settings_of(tmp_path), source.url + "messagecatalog", "/endpoints/e")


def test_what_is_ours_is_not_taken_back(tmp_path):
    """CAT-181, CAT-182: copies that go round in a ring end where they began, message by message."""
    mine = copy.deepcopy(DRAFT)
    mine["messagegroups"]["mine"] = {"messages": {"m": {"meta": {"authority": "https://me.example/"}}}}
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(mine)
    with serving(catalog.folder, tmp_path / "served") as served:
        ring = fetch(settings_of(tmp_path, authority="https://me.example"), served.url)
        hub = fetch(settings_of(tmp_path / "2", authority="https://producer.example"), served.url)
        kept = fetch(settings_of(tmp_path / "3"), served.url, authority="https://filled.example")
    assert list(ring.value()["messagegroups"]) == ["orders"]
    assert list(hub.value()["messagegroups"]["orders"]["messages"]) == ["shop.paid"]
    authorities = {
        key: one["meta"]["authority"]
        for group in kept.value()["messagegroups"].values()
        for key, one in group["messages"].items()
    }
    # CAT-183: a hub never rewrites an authority.
    assert authorities == {
        "m": "https://me.example/", "shop.paid": "https://filled.example", "shop.placed": "https://producer.example"
    }  # fmt: skip


ROOT = {"specversion": "1.0-rc2", "registryid": "r", "messagegroupsurl": "x", "messagegroupscount": 1}
EXPORT = ROOT | {"messagegroups": {"g": {"messages": {"m": {"name": "m"}}}}}
FLAGS = {"apis": ["/export"], "flags": ["doc", "inline"], "pagination": False}


def good(asked: Asked) -> bool:
    """Answer what leads to `/export`."""
    if asked.path in ("/", "/capabilities"):
        asked.give(ROOT if asked.path == "/" else FLAGS)
        return True
    return False


def half(asked: Asked) -> None:
    body = json.dumps(EXPORT).encode()
    asked.send_response(200)
    asked.send_header("Content-Type", "application/json")
    asked.send_header("Content-Length", str(len(body)))
    asked.end_headers()
    asked.wfile.write(body[: len(body) // 2])
    asked.close_connection = True


def half_chunk(asked: Asked) -> None:
    asked.send_response(200)
    asked.send_header("Content-Type", "application/json")
    asked.send_header("Transfer-Encoding", "chunked")
    asked.end_headers()
    asked.wfile.write(b"10\r\n" + json.dumps(EXPORT).encode()[:16] + b"\r\n")
    asked.close_connection = True


def ten_gigabytes(asked: Asked) -> None:
    asked.send_response(200)
    asked.send_header("Content-Type", "application/json")
    asked.send_header("Content-Length", str(10 << 30))
    asked.end_headers()


def endless(asked: Asked) -> None:
    asked.send_response(200)
    asked.send_header("Content-Type", "application/json")
    asked.send_header("Transfer-Encoding", "chunked")
    asked.end_headers()
    try:
        asked.wfile.write(b"1\r\n{\r\n")
        while True:
            asked.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
    except OSError:
        asked.close_connection = True


BOMB = gzip.compress(b"{" + b" " * (16 << 20), 1)


def bomb(asked: Asked) -> None:
    asked.give(BOMB, Content_Encoding="gzip")


def never(asked: Asked) -> None:
    time.sleep(3)
    asked.close_connection = True


def send_slowly(asked: Asked, part: bytes) -> None:
    """Send a part again and again, until the client goes."""
    try:
        for _ in range(1000):
            asked.wfile.write(part)
            asked.wfile.flush()
            time.sleep(0.1)
    except OSError:
        asked.close_connection = True


def drop_by_drop(asked: Asked) -> None:
    asked.send_response(200)
    asked.send_header("Content-Type", "application/json")
    asked.send_header("Content-Length", "1000")
    asked.end_headers()
    send_slowly(asked, b" ")


def headers_drop_by_drop(asked: Asked) -> None:
    asked.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    send_slowly(asked, b"x")


def never_final(asked: Asked) -> None:
    send_slowly(asked, b"HTTP/1.1 100 Continue\r\n\r\n")


MISBEHAVING = {
    "500": (lambda asked: asked.give({"title": "Broken", "password": "hush"}, 500), "answers 500"),
    "half a body": (half, "broke off"),
    "half a body, chunked": (half_chunk, "broke off"),
    "half a document": (lambda asked: asked.give(json.dumps(EXPORT).encode()[:-7]), "not whole"),
    "HTML": (lambda asked: asked.give(b"<html>", Content_Type="text/html"), "text/html"),
    "no type": (lambda asked: asked.give(b"{}", Content_Type=""), "no Content-Type"),
    "no registry": (lambda asked: asked.give({"hello": 1}), "specversion"),
    "an array": (lambda asked: asked.give([1]), "not"),
    "groups in an array": (lambda asked: asked.give(ROOT | {"messagegroups": [1]}), "not a map"),
    "10 GB": (ten_gigabytes, "more than"),
    "endless": (endless, "more than"),
    "a bomb": (bomb, "more than"),
    "never": (never, "no answer|broke off"),
    "drop by drop": (drop_by_drop, "whole after|broke off"),
    "headers drop by drop": (headers_drop_by_drop, "no answer"),
    "never final": (never_final, "no answer"),
    "elsewhere": (lambda asked: asked.give(b"", 302, Location="http://user:hush@other.example/export"), "other.example"),
    "in a circle": (lambda asked: asked.give(b"", 302, Location="/export"), "leads on"),
    "locked": (lambda asked: asked.give({"title": "No"}, 401), "LAKEHOUSE_SOURCE_USER"),
}


@pytest.mark.attack
@pytest.mark.parametrize("how", MISBEHAVING)
def test_a_source_that_misbehaves_is_reported_and_nothing_is_taken(how, tmp_path, monkeypatch):
    misbehave, reported = MISBEHAVING[how]
    monkeypatch.setattr("lakehouse.replicate.crawler.Walk._by_groups", lambda self: (_ for _ in ()).throw(self.too_large))
    monkeypatch.setattr("lakehouse.replicate.crawler.Walk.too_large", ReplicationError("u", "more than may be"), raising=False)
    settings = settings_of(tmp_path, max_document_bytes=1 << 20)
    with answering(lambda asked: good(asked) or misbehave(asked)) as source:
        url = source.url.replace("//", "//me:secret-word@")
        with pytest.raises(ReplicationError, match=reported) as raised:
            fetch(settings, url)
    assert "secret-word" not in str(raised.value)
    assert "hush" not in str(raised.value)
    assert not list(tmp_path.rglob("*.part*"))  # no half of anything is left


def test_a_source_that_stumbles_is_asked_again(tmp_path):
    answers = iter([500, 503, 200])

    def stumble(asked: Asked) -> None:
        if not good(asked):
            status = next(answers)
            asked.give(EXPORT if status == 200 else {}, status, Retry_After="0")

    with answering(stumble) as source:
        held = fetch(settings_of(tmp_path), source.url, limits=RequestLimits(attempts=3, pause=0.01))
    assert list(held.value()["messagegroups"]) == ["g"]


def test_what_lets_us_in_is_sent_and_never_written(tmp_path):
    def answer(asked: Asked) -> None:
        assert asked.headers["Authorization"] == "Basic bWU6c2VjcmV0LXdvcmQ="
        good(asked) or asked.give(EXPORT)

    with answering(answer) as source:
        held = fetch(settings_of(tmp_path), source.url.replace("//", "//me:secret-word@"))
    assert [unit.uri for unit in held.fetched.units] == [source.url]
    for file in tmp_path.rglob("*"):
        assert file.is_dir() or b"secret-word" not in file.read_bytes()


@pytest.mark.parametrize(
    "url", ["ftp://x/", "catalog.example.com", "http://", "https://me:secret-word@x:y/", "https://x/?a=secret-word"]
)
def test_a_url_that_is_none_is_reported_without_its_password(url):
    with pytest.raises(SettingsError) as raised:
        read_address(url, "SOURCE", {})
    assert "secret-word" not in str(raised.value)


def test_addresses_are_read():
    reported = read_address("HTTPS://a%40b:p%3A@Catalog.example:443/x/messagecatalog/", "SOURCE", {})
    assert (reported.url, reported.is_draft, reported.authorization) == ("https://catalog.example/x/", True, "Basic YUBiOnA6")
    assert "p:" not in repr(reported)
    assert "YUBi" not in repr(reported)
    assert read_address("http://[::1]:8080", "SOURCE", {"LAKEHOUSE_SOURCE_TOKEN": "t"}).authorization == "Bearer t"
    assert read_address("http://x.example", "TARGET", {"LAKEHOUSE_TARGET_USER": "u"}).is_plain


def test_pages_are_asked_for_to_the_end_and_counted(tmp_path):
    ids = [f"g{number}" for number in range(5)]

    def answer(asked: Asked) -> None:
        path, _, query = asked.path.partition("?")
        if path == "/capabilities":
            asked.give({"flags": [], "pagination": True, "specversions": ["1.0-rc2"]})
        elif path == "/":
            asked.give(ROOT | {"messagegroupscount": count})
        elif path == "/messagegroups":
            start = int(query.partition("start=")[2] or 0)
            link = {"Link": f'<?start={start + 2}>; rel=prev, </messagegroups?start={start + 2}>;rel="next";count=5'}
            asked.give({one: {"messagegroupid": one} for one in ids[start : start + 2]}, **(link if start + 2 < 5 else {}))
        else:
            asked.give({})

    count = 5
    with answering(answer) as source:
        held = fetch(settings_of(tmp_path), source.url)
        assert sorted(held.value()["messagegroups"]) == ids
        count = 6
        with pytest.raises(ReplicationError, match="changed each of the 4 times"):  # one is missing: no whole answer
            fetch(settings_of(tmp_path), source.url)


def test_a_walk_that_was_cut_short_goes_on_where_it_was(tmp_path):
    """A source that breaks down at the last group; then it is back, and the others are not sent again."""
    groups = {f"g{number}": {"messagegroupid": f"g{number}", "messages": {"m": {"name": "m"}}} for number in range(4)}
    broken = True

    def answer(asked: Asked) -> None:
        path = asked.path.partition("?")[0]
        if path == "/capabilities":
            asked.give({"flags": ["doc", "inline"], "pagination": False})
        elif path == "/":
            asked.give({}, 406) if "doc" in asked.path else asked.give(ROOT | {"messagegroupscount": 4})
        elif path == "/messagegroups":
            asked.give({key: {"messagegroupid": key} for key in groups})
        elif path == "/messagegroups/g3" and broken:
            asked.give({}, 500)
        elif asked.headers.get("If-None-Match") == f'"{path}"':
            asked.give(b"", 304)
        else:
            asked.give(groups[path.rsplit("/", 1)[1]], ETag=f'"{path}"')

    settings = settings_of(tmp_path)
    with answering(answer) as source:
        with pytest.raises(ReplicationError, match="500"):
            fetch(settings, source.url)
        broken = False
        held = fetch(settings, source.url)
        sent = [path for _, path, headers, _ in source.seen if "if-none-match" in headers]
    assert len(held.value()["messagegroups"]) == 4
    assert [path.partition("?")[0] for path in sent] == [f"/messagegroups/g{number}" for number in range(3)]


def test_a_source_that_keeps_changing_is_read_as_of_one_of_its_snapshots(tmp_path):
    """Answers of two snapshots make no document; at last the past is read, which does not change."""
    count = 0

    def answer(asked: Asked) -> None:
        nonlocal count
        path = asked.path.partition("?")[0]
        at = path.startswith("/at/")
        count += 1
        snapshot = path.split("/")[2] if at else str(count)
        path = "/" + path.split("/", 3)[3] if at else path
        if path == "/capabilities":
            asked.give({"flags": ["doc", "inline"], "pagination": False})
        elif path == "/":
            asked.give({}, 406) if "doc" in asked.path else asked.give(ROOT, Lakehouse_Snapshot=snapshot)
        elif path == "/messagegroups":
            asked.give({"g": {"messagegroupid": "g", "messagescount": 1}}, Lakehouse_Snapshot=snapshot)
        else:
            group = {"messagegroupid": "g", "messages": {"m": {"name": f"as of {snapshot}"}}}
            asked.give(group, Lakehouse_Snapshot=snapshot)

    with answering(answer) as source:
        held = fetch(settings_of(tmp_path), source.url)
    (name,) = (one["name"] for one in held.value()["messagegroups"]["g"]["messages"].values())
    assert name == f"as of {held.fetched.snapshot}"
    assert any(path.startswith(f"/at/{held.fetched.snapshot}/messagegroups/g") for path in source.paths())


@pytest.mark.slow
def test_a_hundred_megabytes_go_through_in_parts(tmp_path):
    """Memory follows the largest group, not the catalog: see also docs/replication.md."""
    import tracemalloc

    text = json.dumps({"description": "x" * 1000})
    group = '{"messages":{' + ",".join(f'"m{number}":{text}' for number in range(1000)) + "}}"
    body = (
        '{"specversion":"1.0-rc2","messagegroups":{' + ",".join(f'"g{number}":{group}' for number in range(100)) + "}}"
    ).encode()
    with answering(lambda asked: good(asked) or asked.give(body)) as source:
        tracemalloc.start()
        held = fetch(settings_of(tmp_path), source.url, limits=RequestLimits())
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    (text_of,) = held.documents.values()
    assert len(text_of) > 100_000_000
    assert peak < len(text_of) + (48 << 20)  # `held` reads the document; the round itself holds some parts of 4 MiB


def test_two_processes_do_not_replicate_the_same_at_once(tmp_path):
    from lakehouse.replicate.state import open_state

    settings = settings_of(tmp_path)
    with open_state(settings, "http://x/", ()):
        second = open_state(settings, "http://x/", ())
        with pytest.raises(ReplicationError, match="another process"):
            second.__enter__()


def test_a_client_keeps_its_connection():
    with answering(lambda asked: asked.give({"port": asked.client_address[1]})) as source:
        client = Client(read_address(source.url, "SOURCE", {}), QUICK)
        ports = {client.json(source.url)["port"] for _ in range(5)}
        client.close()
    assert len(ports) == 1


@pytest.mark.parametrize(
    ("url", "is_same"),
    [
        ("http://Catalog.test:80/x", True),
        ("HTTP://catalog.test/x?limit=2", True),
        ("http://catalog.test:81/", False),
        ("https://catalog.test/", False),
        ("https://catalog.test:80/", False),
        ("http://me@catalog.test/", False),
        ("http://catalog.test:x/", False),
        ("http://catalog.test.other/", False),
    ],
)
def test_a_server_is_the_same_however_its_address_is_written(url, is_same):
    assert (_origin(url) == _origin(read_address("http://catalog.test/", "SOURCE", {}).url)) is is_same
