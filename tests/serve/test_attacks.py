"""Requests of somebody who means harm, in number: none is done twice or by half, none is an error of the server.

Short here; `make attack` sends ATTACK_ROUNDS times as many.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from urllib.parse import quote, urldefrag, urljoin, urlsplit

import pytest
from attacks import MARKUP, ODD_IDS, ROUNDS, SMUGGLED, Hostile
from shortform import first_of
from sitechecks import Page

from serve.writing import EVENT, empty_warehouse, writing

pytestmark = pytest.mark.attack


@pytest.fixture(scope="module")
def writable(tmp_path_factory):
    folder = tmp_path_factory.mktemp("attacked")
    with writing(empty_warehouse(folder / "w").folder, folder / "c") as served:
        yield served


def answers(served, text: bytes) -> list[int]:
    """Send bytes, and give the status of each answer that is no interim one."""
    host, port = served.address.split(":")
    found = b""
    with closing(socket.create_connection((host, int(port)), timeout=30)) as client, suppress(ConnectionError):
        client.sendall(text)
        client.shutdown(socket.SHUT_WR)  # there is no more to wait for
        while more := client.recv(65536):
            found += more
    return [int(one) for one in re.findall(rb"HTTP/1\.[01] ([2-5]\d\d) ", found)]


@pytest.mark.parametrize("name", SMUGGLED)
def test_no_request_hides_in_another_one(writable, name):
    statuses = answers(writable, SMUGGLED[name])
    assert len(statuses) <= 1, statuses
    assert all(status < 500 for status in statuses)
    assert writable.ask("/messagegroups/smuggled").status == 404


def test_hostile_bodies_are_refused_or_taken_and_no_error_of_the_server(writable):
    count, wrong = 150 * ROUNDS, []
    hostile = Hostile(46)
    asked = []
    for number in range(count):
        method = hostile.random.choice(["PUT", "PUT", "PATCH", "POST", "DELETE"])
        asked.append((number, method, hostile.path(), hostile.body()))

    def send(one: tuple[int, str, str, bytes]) -> None:
        number, method, path, body = one
        answer = writable.send(method, path, raw=body, Content_Type="application/json")
        if answer.status >= 500 or (answer.status >= 400 and "title" not in answer.json):
            wrong.append((number, method, path, body[:300], answer.status, answer.body[:300]))

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(send, asked))
    assert wrong == []
    for path in ("/export", "/messagegroups?inline=*", "/events", "/ui/", "/model"):  # what was taken can be read
        assert writable.ask(path).status == 200


@pytest.mark.parametrize(
    "collection",
    first_of(["/messagegroups/ids/messages/{}", "/endpoints/{}", "/messagegroups/{}", "/schemagroups/ids/schemas/{}"], 2),
)
def test_an_odd_id_is_refused_or_means_one_entity(writable, collection):
    for name in ODD_IDS:
        path = collection.format(quote(name, safe=""))
        answer = writable.send("PUT", path + ("$details" if "schemas" in path else ""), {})
        assert answer.status in (200, 201, 400, 404, 405), (path, answer.status, answer.body[:300])
        shown = writable.ask(path + ("$details" if "schemas" in path else ""))
        if answer.status in (200, 201):
            assert shown.status == 200, path
            (key,) = [key for key in shown.json if key == collection.rstrip("/{}").rpartition("/")[2][:-1] + "id"]
            assert shown.json[key] == name.removesuffix("$details"), path
        else:
            assert shown.status in (200, 400, 404), path
        below = collection.rpartition("/")[0]
        in_body = writable.send("POST", below, {name: {}})
        assert in_body.status < 500, (name, in_body.body[:300])


def test_of_many_who_write_with_one_epoch_one_wins(writable):
    path = "/messagegroups/raced/messages/m"
    epoch = writable.done("PUT", path, EVENT)["epoch"]
    with ThreadPoolExecutor(8) as threads:
        for number in range(4 * ROUNDS):
            method = ("PUT", "PATCH")[number % 2]
            sent = [EVENT | {"epoch": epoch, "name": f"{number} of {one}"} for one in range(8)]
            found = list(threads.map(lambda body, method=method: writable.send(method, path, body), sent))
            won = [(answer.json["name"], answer.json["epoch"]) for answer in found if answer.status == 200]
            assert [answer.status for answer in found].count(400) == 7
            assert won == [(writable.get(path)["name"], epoch + 1)]
            epoch += 1
        epoch = writable.get(f"{path}/meta")["epoch"]
        deleted = list(threads.map(lambda _: writable.send("DELETE", f"{path}?epoch={epoch}"), range(8)))
    assert sorted(answer.status for answer in deleted) == [204] + [404] * 7


def marked(text: str) -> Mapping[str, object]:
    """Return a Version with a text wherever a text is allowed."""
    link = f"https://x.example/{quote(text, safe='')}"
    return EVENT | {
        "name": text,
        "description": text,
        "documentation": link,
        "labels": {"a": text},
        "dataschemaformat": "JsonSchema/draft-07",
        "dataschema": {"title": text, "description": text, "properties": {text: {"enum": [text], "description": text}}},
        "datacontenttype": "application/json",
        "envelopemetadata": {"type": {"value": text}, "subject": {"value": text}},
        "deprecated": {"documentation": link},
    }


def test_markup_is_text_on_every_page(writable):
    for number, text in enumerate(MARKUP):
        path = f"/messagegroups/marked/messages/m{number}"
        if writable.send("PUT", path, marked(text)).status != 201:  # a character that no attribute may have
            writable.done("PUT", path, marked(text.replace("\0", "")))
        writable.send("PUT", f"/schemagroups/marked/schemas/s{number}", raw=text.encode(), Content_Type="text/html")
        writable.send(
            "PUT", f"/endpoints/e{number}", {"usage": ["producer"], "name": text, "description": text, "labels": {"x": text}}
        )
    seen, waiting = set(), ["/ui/", *(f"/ui/search.html?q={quote(text)}" for text in MARKUP)]
    faults = []
    most = 150 * ROUNDS
    while waiting and len(seen) < most:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        answer = writable.ask(path)
        if answer.status in (303, 307):
            waiting.append(answer.headers["location"].removeprefix(writable.url))
            continue
        if not answer.headers["content-type"].startswith("text/html"):
            continue
        assert answer.status in (200, 404), path
        page = Probed(answer.body.decode())
        faults += [f"{path}: {fault}" for fault in page.faults]
        faults += [
            f"{path}: {link[:60]}" for link in page.links if link.lower().lstrip().startswith(("javascript:", "data:text", "//"))
        ]
        assert all(one.endswith("assets/site.js") for one in page.scripts), path
        waiting += sorted({joined for link in page.links if (joined := within(path, link))} - seen)
    assert faults == []
    assert len(seen) > 50


class Probed(Page):
    """A page, read, in which nothing of what was written is an element or an attribute."""

    def handle_starttag(self, tag, attrs):
        if "probe" in tag or any("probe" in name for name, _ in attrs) or (tag == "svg" and any(n == "onload" for n, _ in attrs)):
            self.faults.append(f"<{tag} {attrs}>")
        super().handle_starttag(tag, attrs)


def within(path: str, link: str) -> str:
    """Return where a link of a page leads, if to another page of the site."""
    found = urlsplit(urldefrag(urljoin(f"http://here{path}", link)).url)
    return found.path + (f"?{found.query}" if found.query else "") if found.netloc == "here" and "/ui/" in found.path else ""


def test_json_of_the_server_has_one_value_for_each_name(writable):
    """What was written twice in a body is refused or settled; it is never handed on."""

    def once(pairs):
        names = [name for name, _ in pairs]
        assert len(names) == len(set(names))
        return dict(pairs)

    for path in ("/export", "/messagegroups?inline=*", "/schemagroups?inline=*", "/events"):
        json.loads(writable.ask(path).body, object_pairs_hook=once)
