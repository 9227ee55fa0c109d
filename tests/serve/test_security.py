"""What keeps others out of a server, and what it holds from acting on a browser."""

from __future__ import annotations

import http.client
import re
from contextlib import closing
from urllib.parse import quote, unquote

import pytest

from serve.test_hostile import connected
from serve.writing import EVENT, empty_warehouse, writing

GROUP = "/schemagroups/g/schemas"
SCRIPT = b"<script>fetch('/messagegroups/written', {method: 'PUT', body: '{}'})</script>"
ODD_IDS = ("inline", "inline;a=b", "attachment", "a,b", "x:y@z~1", "100%25", "%C3%A9%E2%82%AC", "a'b(c)*", "_")
POLICY = "sandbox; default-src 'none'"


@pytest.fixture(scope="module")
def writable(tmp_path_factory):
    folder = tmp_path_factory.mktemp("security")
    more = ("--subscriptions", str(folder / "s"), "--allow-private-sinks")
    with writing(empty_warehouse(folder / "w").folder, folder / "r", *more) as found:
        for name in ODD_IDS[:1]:
            assert found.send("PUT", f"{GROUP}/{name}", raw=SCRIPT, Content_Type="text/html").status == 201
        found.done("PUT", f"{GROUP}/far$details", {"schemaurl": "https://elsewhere.example/x"})
        found.done("PUT", "/messagegroups/g/messages/m", EVENT)
        yield found


# What a writer stored does not run on the server's origin


@pytest.mark.parametrize(
    ("method", "path", "status", "is_page"),
    [
        ("GET", "/", 200, False),
        ("HEAD", "/messagegroups/g/messages/m", 200, False),
        ("OPTIONS", "/messagegroups", 200, False),
        ("GET", f"{GROUP}/inline", 200, False),
        ("GET", f"{GROUP}/inline/versions/1", 200, False),
        ("GET", f"{GROUP}/inline$details", 200, False),
        ("GET", f"{GROUP}/far", 303, False),
        ("GET", "/at/head/messagegroups", 307, False),
        ("GET", "/ui", 307, False),
        ("GET", "/none", 404, False),
        ("GET", f"{GROUP}/none", 404, False),
        ("GET", "/messagegroups?filter=", 400, False),
        ("PUT", "/messagegroups", 405, False),
        ("PUT", "/messagegroups/g/messages/m", 400, False),
        ("GET", "/" + "a" * 20_000, 414, False),
        ("GET", "/" + "a" * 100_000, 431, False),
        ("GET", "/\x7f", 400, False),
        ("GET", "/health", 200, False),
        ("GET", "/ready", 200, False),
        ("GET", "/metrics", 200, False),
        ("GET", "/openapi.json", 200, False),
        ("POST", "/openapi.json", 405, False),
        ("GET", "/subscriptions", 200, False),
        ("GET", "/subscriptions/none", 404, False),
        ("GET", "/events?since=0", 200, False),
        ("GET", "/messagecatalog", 200, False),
        ("GET", "/openapi", 200, True),
        ("GET", "/ui/", 200, True),
        ("GET", "/ui/none.html", 404, True),
        ("GET", "/ui/assets/site.js", 200, True),
        ("GET", "/ui/assets/style.css", 200, True),
    ],
)
def test_every_answer_has_the_headers_that_protect(writable, method, path, status, is_page):
    connection = http.client.HTTPConnection(writable.address, timeout=60)
    connection._validate_path = lambda _: None  # what is no request is sent too
    with closing(connection):
        connection.request(method, path, b"no JSON" if method == "PUT" else None)
        answer = connection.getresponse()
        answer.read()
    assert answer.status == status
    assert answer.headers.get_all("x-content-type-options") == ["nosniff"]
    assert answer.headers.get_all("cross-origin-resource-policy") == ["same-origin"]
    policies = answer.headers.get_all("content-security-policy")
    assert len(policies) == 1
    assert (policies[0] == POLICY) is not is_page
    assert "'unsafe-inline'" not in policies[0].replace("style-src 'unsafe-inline'", "")
    if answer.getheader("etag") and (method, status) == ("GET", 200):
        kept = writable.ask(path, If_None_Match=answer.getheader("etag"))
        assert (kept.status, kept.headers["content-security-policy"]) == (304, policies[0])


def test_a_stream_of_events_and_what_is_no_request_have_them_too(writable):
    for sent, status in (
        (b"GET /events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n", b"200"),
        (b"\x16\x03\x01 no request\r\n\r\n", b"400"),
    ):
        with closing(connected(writable)) as client:
            client.sendall(sent)
            head = b""
            while b"\r\n\r\n" not in head:
                more = client.recv(65536)
                assert more, head
                head += more
        head = head.partition(b"\r\n\r\n")[0].lower()
        assert head.split(b" ")[1] == status
        assert head.count(b"\r\nx-content-type-options: nosniff") == 1
        assert head.count(b"\r\ncontent-security-policy: " + POLICY.encode()) == 1


@pytest.mark.parametrize("name", ODD_IDS)
def test_a_document_is_saved_and_not_shown_whatever_its_id_is(writable, name):
    path = f"{GROUP}/{name}"
    sent = writable.send("PUT", path, raw=SCRIPT, Content_Type="text/html")
    if sent.status == 400:
        assert "malformed" in sent.json["type"] or "invalid" in sent.json["type"], sent.body
        pytest.skip("no id")
    answer = writable.ask(path)
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, SCRIPT, "text/html")
    value = answer.headers["content-disposition"]
    assert re.fullmatch(r"attachment; filename\*=UTF-8''[A-Za-z0-9!#$&+.^_`|~%-]+", value), value
    assert unquote(value.partition("''")[2]) == unquote(quote(name, safe="%"))
