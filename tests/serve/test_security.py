"""What keeps others out of a server, and what it holds from acting on a browser."""

from __future__ import annotations

import errno
import http.client
import re
import shutil
import sqlite3
from contextlib import closing
from urllib.parse import quote, unquote

import anyio
import pytest
from deltalake.exceptions import CommitFailedError, DeltaError

from lakehouse.errors import CommitLost, SettingsError, WarehouseError
from lakehouse.log.commits import CommitInfo
from lakehouse.log.snapshotfacts import Head
from lakehouse.serve.answer.live import SnapshotWatcher
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.config import Options
from lakehouse.serve.monitoring import Metrics, state_routes
from lakehouse.serve.origins import Origins
from lakehouse.serve.write.overlay import OverlayRow, owner_problem
from lakehouse.serve.writer.append import DeltaAppender
from lakehouse.serve.writer.process import _problem_of
from lakehouse.settings import read_settings
from lakehouse.text.names import Xid
from serve.served import serving, write_catalog
from serve.test_hostile import connected
from serve.writing import EVENT, empty_warehouse, writing

pytestmark = pytest.mark.attack

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
    vars(connection)["_validate_path"] = lambda _: None  # what is no request is sent too
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


# Who reads and writes by way of a browser


def first_of_stream(served, **headers: str) -> dict[str, str]:
    """Return the headers of a stream of events, in lower case."""
    with closing(http.client.HTTPConnection(served.address, timeout=60)) as connection:
        connection.request("GET", "/events", headers={"Accept": "text/event-stream"} | headers)
        answer = connection.getresponse()
        assert answer.status == 200
        return {name.lower(): value for name, value in answer.getheaders()}


def test_pages_of_other_sites_read_nothing(writable):
    asked = {"Origin": "https://evil.example"}
    for path in ("/", "/none", "/openapi.json", "/metrics", "/subscriptions", f"{GROUP}/inline"):
        found = writable.ask(path, **asked).headers
        assert not [name for name in found if name.startswith("access-control-")], path
    assert "access-control-allow-origin" not in first_of_stream(writable, **asked)


@pytest.mark.parametrize("named", ["*", "https://catalog.example"])
def test_pages_of_the_origins_that_are_named_read(catalog, tmp_path, named):
    with serving(catalog.folder, tmp_path / "model", "--allow-origin", named) as served:
        for origin in ("https://catalog.example", "https://other.example"):
            expected = named if named in ("*", origin) else None
            for path in ("/", "/none", "/openapi.json"):
                found = served.ask(path, Origin=origin).headers
                assert found.get("access-control-allow-origin") == expected
                assert "Origin" in found["vary"]
            assert first_of_stream(served, Origin=origin).get("access-control-allow-origin") == expected
        assert "access-control-allow-origin" not in served.ask("/metrics", Origin="https://catalog.example").headers


def test_all_pages_may_read_and_none_write(tmp_path):
    options = Options(writable=True, allow_origin=("*",))
    options.check()
    headers = {b"origin": b"https://evil.example", b"host": b"localhost:80"}
    assert (b"access-control-allow-origin", b"*") in Origins(options).cors(headers)
    with pytest.raises(ProblemFound) as found:
        Origins(options).check_writes({"scheme": "http", "headers": list(headers.items())}, headers)
    assert found.value.status == 403


FORWARDED = {"x-forwarded-host": "catalog.example", "x-forwarded-proto": "https"}


@pytest.mark.parametrize(
    ("options", "origin", "more", "is_allowed"),
    [
        ({"behind_proxy": True}, "https://catalog.example", FORWARDED, True),
        ({"behind_proxy": True}, "http://catalog.example", FORWARDED, False),
        ({"behind_proxy": True}, "https://evil.example", FORWARDED, False),
        ({"behind_proxy": True}, "https://catalog.example", {}, False),
        ({"behind_proxy": True}, "null", FORWARDED, False),
        ({"behind_proxy": True}, "https://catalog.example:81", FORWARDED, False),
        ({"behind_proxy": True}, "http://127.0.0.1:80", FORWARDED, True),
        ({"behind_proxy": True, "base_url": "https://shop.example/r"}, "https://shop.example", FORWARDED, True),
        ({"behind_proxy": True, "base_url": "https://shop.example/r"}, "https://catalog.example", FORWARDED, False),
        ({"base_url": "https://shop.example/r"}, "https://shop.example", {}, True),
        ({}, "https://catalog.example", FORWARDED, False),
        ({}, "http://127.0.0.1:80", {}, True),
    ],
)
def test_pages_of_the_origin_that_clients_know_write_and_no_others(options, origin, more, is_allowed):
    """Behind a proxy that rewrites `Host` the client's host is in `X-Forwarded-Host`."""
    headers = {name.encode(): value.encode() for name, value in ({"host": "127.0.0.1:80", "origin": origin} | more).items()}
    scope = {"scheme": "http", "headers": list(headers.items())}
    if is_allowed:
        Origins(Options(**options)).check_writes(scope, headers)
        return
    with pytest.raises(ProblemFound) as found:
        Origins(Options(**options)).check_writes(scope, headers)
    assert found.value.status == 403


def test_a_page_may_not_send_what_a_proxy_says_of_the_origin(writable):
    wanted = "authorization,X-Forwarded-Host, x-forwarded-proto,x-a"
    answer = writable.ask("/messagegroups", "OPTIONS", Origin="https://evil.example", Access_Control_Request_Headers=wanted)
    assert answer.headers["access-control-allow-headers"] == "authorization,x-a"


@pytest.mark.parametrize("path", ["/", "/none", "/events", "/ui/", "/metrics", "/health", "/openapi.json", "/openapi"])
def test_a_name_that_leads_here_by_a_trick_is_refused(served, path):
    for host in ("evil.example", "evil.example:81", "127.0.0.1.evil.example", "0.0.0.0", "localhost.evil.example", "2130706433"):
        answer = served.ask(path, Host=host)
        assert (answer.status, answer.headers["content-type"][:16]) == (421, "application/json"), host
        assert answer.headers["content-security-policy"] == POLICY
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:81", "[::1]", "[::1]:81", "127.9.9.9"):
        assert served.ask(path, Host=host).status in (200, 404), host


@pytest.mark.parametrize("behind_proxy", [False, True])
def test_a_base_url_adds_its_host_and_no_other(behind_proxy):
    options = Options(base_url="https://Catalog.example/r/", behind_proxy=behind_proxy)
    options.check()

    def origin(host: str, **more: str) -> str:
        headers = {b"host": host.encode()} | {name.encode(): value.encode() for name, value in more.items()}
        return Origins(options).base_url_of({"scheme": "http", "headers": list(headers.items())}, headers)

    for host in ("catalog.example", "catalog.example:443", "127.0.0.1:8080", "localhost"):
        assert origin(host) == "https://Catalog.example/r"
    for more in ({}, {"x-forwarded-host": "catalog.example"}):
        with pytest.raises(ProblemFound) as found:
            origin("evil.example", **more)
        assert found.value.status == 421


@pytest.mark.parametrize("way", [{"writable": True}, {"subscriptions": "folder"}])
@pytest.mark.parametrize("led", [{"behind_proxy": True}, {"base_url": "https://catalog.example"}])
def test_strangers_who_are_led_here_do_not_write_unless_that_is_said(way, led):
    with pytest.raises(SettingsError, match="--allow-anonymous-writes"):
        Options(**way, **led).check()
    Options(**way, **led, allow_anonymous_writes=True).check()
    Options(**way, **led, users=__file__).check()
    Options(**led).check()
    Options(**way, base_url="http://localhost:8080").check()


@pytest.mark.parametrize(
    "wrong",
    [{"allow_origin": ("catalog.example",)}, {"allow_origin": ("https://a.example/",)}, {"allow_origin": ("null",)},
     {"base_url": "catalog.example"}, {"base_url": ""}, {"base_url": "https:///r"}, {"base_url": "https://a.example?x"}],
)  # fmt: skip
def test_origins_and_base_urls_are_checked_at_the_start(wrong):
    with pytest.raises(SettingsError):
        Options(**wrong).check()


# What a document's metadata makes of the headers


def test_headers_are_not_longer_than_clients_take(writable):
    path = f"{GROUP}/long"
    reported = {"description": "x" * 400_000, "name": "n", "labels": {f"l{at}": "v" for at in range(500)}, "schema": {"a": 1}}
    writable.done("PUT", path + "$details", reported)
    answer = writable.ask(path)  # http.client gives up at 100 headers, and at 64 KiB of one
    assert (answer.status, answer.body) == (200, b'{"a": 1}')
    assert answer.headers["lakehouse-omitted"] == "description, labels"
    assert (answer.headers["xregistry-name"], answer.headers["xregistry-epoch"]) == ("n", "1")
    assert not [name for name in answer.headers if "label" in name]
    assert sum(len(name) + len(value) + 4 for name, value in answer.headers.items()) < 8 << 10
    assert writable.get(path + "$details")["description"] == reported["description"]
    writable.done("PATCH", path + "$details", {"description": "short", "labels": {"a": "b"}, "contenttype": "x/" + "y" * 9000})
    answer = writable.ask(path)
    assert "lakehouse-omitted" not in answer.headers
    assert (answer.headers["xregistry-description"], answer.headers["xregistry-labels.a"]) == ("short", "b")
    assert answer.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("url", "is_led"),
    [
        ("https://a.example/x", True),
        ("HTTP://a.example/x", True),
        ("other/x.avsc", True),
        ("javascript:alert(1)", False),
        ("JavaScript:alert(1)", False),
        ("data:text/html,x", False),
        ("file:///etc/passwd", False),
        ("vbscript:x", False),
        ("https://a.example/" + "x" * 9000, False),
    ],
)
def test_nobody_is_led_to_what_is_no_url_of_the_web(writable, url, is_led):
    path = f"{GROUP}/led"
    stored = writable.send("PUT", path + "$details", {"schemaurl": url})
    if stored.status == 400:
        assert not is_led, stored.body
        return
    answer = writable.ask(path)
    assert (answer.status, answer.headers.get("location")) == ((303, url) if is_led else (404, None))
    assert writable.get(path + "$details")["schemaurl"] == url


def test_an_error_does_not_name_the_folders_of_this_machine():
    uris = ("file:///srv/private/shop.json", "https://catalog.example/shop.json")
    problem = owner_problem(Xid("/messagegroups/g"), OverlayRow("group", Xid("/messagegroups/g"), "", 1, 0, 0, uris, "{}", "{}"))
    assert problem is not None
    assert "changed instead: shop.json, https://catalog.example/shop.json." in problem.detail
    assert "private" not in problem.detail


# What the storage does not take, and what cannot be read


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reported"),
    [
        (DeltaError("Generic LocalFileSystem error: Unable to copy data to file: No space left on device (os error 28)"), "full"),
        (DeltaError("Unable to open file /srv/w/changes/part-0.parquet#1: Read-only file system (os error 30)"), "read-only"),
        (DeltaError("Unable to open file: Permission denied (os error 13)"), "read-only"),
        (OSError(errno.ENOSPC, "No space left on device", "/srv/w"), "full"),
        (caused(WarehouseError("/srv/r: cannot be kept"), sqlite3.OperationalError("database or disk is full")), "full"),
    ],
)
def test_storage_that_takes_nothing_is_reported_as_that(error, reported):
    problem = _problem_of(error)
    assert (problem.status, reported in problem.detail, "/srv" in problem.detail) == (507, True, False)
    assert problem.headers == {"Retry-After": "60"}


def test_a_commit_that_the_storage_did_not_take_is_no_lost_race(tmp_path, monkeypatch):
    settings = read_settings(warehouse=str(empty_warehouse(tmp_path / "w").folder))
    appender = DeltaAppender(settings.warehouse, settings)
    failed = CommitFailedError("Unable to copy data to file: No space left on device (os error 28)")

    def append() -> None:
        version = appender.warehouse.newest("changes").version()
        appender.append(Head(), version, Head().next_moment(), [], CommitInfo("i", "serve", {}))

    for error, expected in ((failed, CommitFailedError), (CommitFailedError("version 1 is there"), CommitLost)):

        def write(*_, error=error, **__):
            raise error

        monkeypatch.setattr("deltalake.write_deltalake", write)
        with pytest.raises(expected):
            append()


def test_a_server_that_cannot_read_is_not_ready(tmp_path):
    catalog = write_catalog(tmp_path / "w")
    live = SnapshotWatcher(read_settings(warehouse=str(catalog.folder), readmodel_dir=str(tmp_path / "model")), Options())
    live.load()
    ready = next(route.endpoint for route in state_routes(live, Metrics(), None) if route.path == "/ready")
    assert anyio.run(ready, None).status_code == 200
    live.model.close()
    shutil.rmtree(tmp_path / "model")
    catalog.folder.rename(tmp_path / "gone")
    answer = anyio.run(ready, None)
    assert (answer.status_code, answer.body) == (503, b'{"status":"the catalog cannot be read"}')
    (tmp_path / "gone").rename(catalog.folder)
    assert anyio.run(ready, None).status_code == 200
